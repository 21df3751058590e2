//! Changes as SQLite's text.

use super::Renderer;
use super::scalar::{IDENTITY, row_version};
use super::sql::Sql;
use crate::error::Result;
use crate::name::ROW_ID;
use crate::plan::change::{Delete, Insert, Inserted, Statement, Target, Update};
use crate::plan::relation::Limit;
use crate::plan::scalar::Scalar;
use crate::plan::table::Table;

/// Returns the text that sets columns of one row: the first parameter is its number, the others are
/// the values. None if there are no columns.
pub(crate) fn update_of_row<'c>(
    table: &Table,
    columns: impl Iterator<Item = &'c str>,
) -> Option<String> {
    let mut sql = Sql::default();
    let mut count = 0;
    for column in columns {
        count += 1;
        sql.push(if count > 1 { ", " } else { "" });
        sql.push_name(column);
        sql.push(" = ");
        sql.push_parameter(count);
    }
    let sets = sql.into_text();
    (count > 0).then(|| format!("UPDATE {} SET {sets} WHERE {ROW_ID} = ?1", table.sql()))
}

/// Returns the text that deletes the row of a number.
pub(crate) fn delete_of_row(table: &Table) -> String {
    format!("DELETE FROM {} WHERE {ROW_ID} = ?1", table.sql())
}

/// Returns the text that reads all columns of the row of a number.
pub(crate) fn row_of(table: &Table) -> String {
    let mut names = Sql::default();
    for (at, column) in table.columns.iter().enumerate() {
        names.push(if at > 0 { ", " } else { "" });
        names.push_name(&column.name);
    }
    format!("SELECT {} FROM {} WHERE rowid = ?1", names.into_text(), table.sql())
}

/// Returns the text that gives every row of a table a row version, in this column.
pub(crate) fn update_versions(table: &Table, column: &str) -> String {
    let mut sql = Sql::default();
    sql.push("UPDATE ");
    sql.push(&table.sql());
    sql.push(" SET ");
    sql.push_name(column);
    sql.push(" = ");
    row_version(&table.schema, &mut sql);
    sql.into_text()
}

/// A value of a row from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A parameter, counted from 0.
    Param(usize),
    /// The next value of the identity column.
    Identity,
    /// The next row version.
    Version,
}

/// Returns the text that inserts a row of these columns.
pub(crate) fn insert_of_row<'c>(
    table: &Table,
    columns: impl Iterator<Item = (&'c str, Place)>,
) -> String {
    let (mut names, mut values) = (Sql::default(), Sql::default());
    for (at, (name, place)) in columns.enumerate() {
        let before = if at > 0 { ", " } else { "" };
        names.push(before);
        names.push_name(name);
        values.push(before);
        match place {
            Place::Param(at) => values.push_parameter(at),
            Place::Identity => values.push(IDENTITY),
            Place::Version => row_version(&table.schema, &mut values),
        }
    }
    let (names, values) = (names.into_text(), values.into_text());
    format!("INSERT INTO {} ({names}) VALUES ({values})", table.sql())
}

impl Renderer<'_> {
    pub(super) fn statement(&mut self, statement: &Statement, out: &mut Sql) -> Result<()> {
        match statement {
            Statement::Query(query) => self.query(query, out),
            Statement::Insert(insert) => self.insert(insert, out),
            Statement::Update(update) => self.update(update, out),
            Statement::Delete(delete) => self.delete(delete, out),
        }
    }

    fn insert(&mut self, insert: &Insert, out: &mut Sql) -> Result<()> {
        self.with(&insert.with, out)?;
        out.push("INSERT INTO ");
        out.push(&insert.table.sql());
        if insert.columns.is_empty() {
            out.push(" DEFAULT VALUES");
            return self.returning(&insert.returning, out);
        }
        for (at, column) in insert.columns.iter().enumerate() {
            out.push(if at == 0 { " (" } else { ", " });
            out.push_name(column);
        }
        out.push(") ");
        if insert.beforehand {
            out.push("WITH \"~all\" AS MATERIALIZED (");
        }
        let limit = match &insert.rows {
            Inserted::Values { rows, limit: None } => {
                self.values(rows, out)?;
                None
            }
            Inserted::Values { rows, limit } => {
                out.push("SELECT * FROM (");
                self.values(rows, out)?;
                out.push(")");
                *limit
            }
            Inserted::Query { items, query, alias, limit } => {
                out.push("SELECT ");
                self.list(items, ", ", out)?;
                // this LIMIT keeps the order of the rows when identity values are given
                out.push(" FROM (SELECT * FROM (");
                self.query(query, out)?;
                out.push(") LIMIT -1) AS ");
                out.push_alias(*alias);
                out.push(" WHERE 1");
                *limit
            }
        };
        self.limit(limit.map(Limit::rows).as_ref(), out)?;
        if insert.beforehand {
            out.push(") SELECT * FROM \"~all\" WHERE 1");
        }
        self.returning(&insert.returning, out)
    }

    fn update(&mut self, update: &Update, out: &mut Sql) -> Result<()> {
        let Target { table, alias, from, filter } = &update.target;
        self.with(&update.with, out)?;
        out.push("UPDATE ");
        out.push(&table.sql());
        let Some(chosen) = from else {
            out.push(" AS ");
            out.push_alias(*alias);
            for (at, (name, value)) in update.sets.iter().enumerate() {
                out.push(if at == 0 { " SET " } else { ", " });
                out.push_name(name);
                out.push(" = ");
                self.scalar(value, out)?;
            }
            return self.filter(filter.as_ref(), out);
        };
        out.push(" AS \"~u\"");
        for (at, (name, _)) in update.sets.iter().enumerate() {
            out.push(if at == 0 { " SET " } else { ", " });
            out.push_name(name);
            out.push(" = \"~s\".");
            set_name(at, out);
        }
        out.push(" FROM (SELECT ");
        out.push_alias(*alias);
        out.push(".");
        out.push(ROW_ID);
        out.push(" AS \"~r\"");
        for (at, (_, value)) in update.sets.iter().enumerate() {
            out.push(", ");
            self.scalar(value, out)?;
            out.push(" AS ");
            set_name(at, out);
        }
        out.push(" FROM ");
        self.relation(&chosen.from, out)?;
        self.filter(filter.as_ref(), out)?;
        self.limit(chosen.limit.as_ref(), out)?;
        out.push(") AS \"~s\" WHERE \"~u\".");
        out.push(ROW_ID);
        out.push(" = \"~s\".\"~r\"");
        Ok(())
    }

    fn delete(&mut self, delete: &Delete, out: &mut Sql) -> Result<()> {
        let Target { table, alias, from, filter } = &delete.target;
        self.with(&delete.with, out)?;
        out.push("DELETE FROM ");
        out.push(&table.sql());
        if let Some(chosen) = from {
            out.push(" WHERE ");
            out.push(ROW_ID);
            out.push(" IN (SELECT ");
            out.push_alias(*alias);
            out.push(".");
            out.push(ROW_ID);
            out.push(" FROM ");
            self.relation(&chosen.from, out)?;
            self.filter(filter.as_ref(), out)?;
            self.limit(chosen.limit.as_ref(), out)?;
            out.push(")");
        } else {
            out.push(" AS ");
            out.push_alias(*alias);
            self.filter(filter.as_ref(), out)?;
        }
        self.returning(&delete.returning, out)
    }

    fn filter(&mut self, filter: Option<&Scalar>, out: &mut Sql) -> Result<()> {
        let Some(filter) = filter else { return Ok(()) };
        out.push(" WHERE ");
        self.scalar(filter, out)
    }

    fn returning(&mut self, values: &[Scalar], out: &mut Sql) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        out.push(" RETURNING ");
        self.list(values, ", ", out)
    }
}

/// Writes the name of a new value.
fn set_name(at: usize, out: &mut Sql) {
    out.push("\"~v");
    out.push_number(i64::try_from(at).unwrap_or(i64::MAX));
    out.push("\"");
}
