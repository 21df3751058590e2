//! Indexes.

use rusqlite::Connection;
use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Collation, SqlType};

use super::super::db::failure;
use super::computed::refuse_computed;
use super::table::{NamedConstraint, marked, note_constraints, offered};
use super::{Ddl, Definition};
use crate::ast::Expr;
use crate::ast::defined::CreateIndex;
use crate::error::{Error, Result};
use crate::name::quote;

use crate::run::catalog::model::{DESCENDING, INCLUDED, NULLS, SEPARATOR, made_name, names};
use crate::run::catalog::named::{has_index, has_table};
use crate::run::catalog::{Table, TableColumn};
use crate::value::collation::clause;
use crate::value::storage;

/// The role of a unique index in T-SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Primary,
    Unique,
    /// Created by CREATE INDEX.
    Index,
}

/// Returns the name and kind of the unique index over these columns.
pub(crate) fn unique_index(
    connection: &Connection,
    table: &Table,
    columns: &[&str],
) -> rusqlite::Result<Option<(String, KeyKind)>> {
    let sql = "SELECT name, origin FROM pragma_index_list(?1, ?2) WHERE \"unique\"";
    let mut list = connection.prepare(sql)?;
    let found: Vec<(String, String)> = list
        .query_map([&table.name, &table.schema], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, origin) in found {
        let mut info = connection.prepare("SELECT name FROM pragma_index_info(?1, ?2)")?;
        let own: Vec<Option<String>> = info
            .query_map([&name, &table.schema], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let same = own.len() == columns.len()
            && own.iter().zip(columns).all(|(own, column)| own.as_deref() == Some(*column));
        if same {
            let shown = shown_name(table, &name).to_owned();
            return Ok(Some(match origin.as_str() {
                "pk" => (key_name(connection, table, "PK", columns)?, KeyKind::Primary),
                "u" => (key_name(connection, table, "UQ", columns)?, KeyKind::Unique),
                _ => match noted_kind(connection, table, &shown).as_deref() {
                    Some("PK") => (shown, KeyKind::Primary),
                    Some("UQ") => (shown, KeyKind::Unique),
                    // a table variable has constraints only, and their names are stored nowhere
                    None if table.name.starts_with("#@") => (shown, KeyKind::Unique),
                    _ => (shown, KeyKind::Index),
                },
            }));
        }
    }
    Ok(None)
}

/// Returns the name of a key over these columns.
fn key_name(
    connection: &Connection,
    table: &Table,
    kind: &str,
    columns: &[&str],
) -> rusqlite::Result<String> {
    if has_table(connection, &table.schema, "tsql_constraint")? {
        let sql = format!(
            "SELECT name, columns FROM {}.tsql_constraint WHERE table_name = ?1 AND kind = ?2",
            quote(&table.schema)
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([&table.name, kind])?;
        while let Some(row) = rows.next()? {
            let own: String = row.get(1)?;
            let own = own.replace(DESCENDING, "");
            if same_names(own.split(SEPARATOR), columns) {
                return row.get(0);
            }
        }
    }
    Ok(made_name(kind, &table.name, &columns.join("_")))
}

/// Returns true for the same names in the same order, regardless of case.
fn same_names<'a>(own: impl Iterator<Item = &'a str>, columns: &[&str]) -> bool {
    let own: Vec<&str> = own.collect();
    own.len() == columns.len()
        && own.iter().zip(columns).all(|(own, column)| own.eq_ignore_ascii_case(column))
}

/// Returns the name of an index as T-SQL knows it.
pub(crate) fn shown_name<'n>(table: &Table, name: &'n str) -> &'n str {
    let name = name.strip_suffix(NULLS).unwrap_or(name);
    let rest = name.strip_prefix(table.name.as_str());
    rest.and_then(|rest| rest.strip_prefix('~')).unwrap_or(name)
}

/// Returns the columns of an index that T-SQL made; those of the one beside it if this is for rows
/// with NULL. None of an index of another table.
pub(crate) fn index_columns(
    connection: &Connection,
    table: &Table,
    index: &str,
) -> rusqlite::Result<Vec<String>> {
    let plain = index.strip_suffix(NULLS).unwrap_or(index);
    let sql = "SELECT name FROM pragma_index_info(?1, ?2) WHERE name IS NOT NULL AND EXISTS \
        (SELECT 1 FROM pragma_index_list(?3, ?2) AS own WHERE own.name = ?1) ORDER BY seqno";
    let mut statement = connection.prepare_cached(sql)?;
    let names = statement.query_map([plain, &table.schema, &table.name], |row| row.get(0))?;
    names.collect()
}

/// Returns true if an index with expressions for columns belongs to a UNIQUE constraint.
pub(crate) fn is_constraint(connection: &Connection, table: &Table, name: &str) -> bool {
    table.name.starts_with("#@")
        || noted_kind(connection, table, name).is_some_and(|kind| kind != "I")
}

/// Returns the kind of a constraint or index of this name, as stored in `tsql_constraint`.
fn noted_kind(connection: &Connection, table: &Table, name: &str) -> Option<String> {
    let sql = format!(
        "SELECT kind FROM {}.tsql_constraint WHERE table_name = ?1 AND name = ?2",
        quote(&table.schema)
    );
    connection.query_row(&sql, [&table.name, name], |row| row.get(0)).ok()
}

/// A column of a unique index.
pub(super) struct KeyColumn<'a> {
    pub(super) name: &'a str,
    pub(super) ty: SqlType,
    pub(super) collation: Collation,
    pub(super) nullable: bool,
    pub(super) descending: bool,
}

/// Returns true for what SQL Server takes as the condition of a filtered index: comparisons of
/// columns with constants, joined by AND.
fn is_filter(condition: &Expr) -> bool {
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(_));
    match condition {
        Expr::And(parts) => parts.iter().all(is_filter),
        Expr::IsNull(operand, _) => is_column(operand),
        Expr::Compare(_, left, right) => is_column(left) && is_constant(right),
        Expr::InList(operand, list, false) => is_column(operand) && list.iter().all(is_constant),
        _ => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Int(_)
        | Expr::Dec(_)
        | Expr::Float(_)
        | Expr::Money(_)
        | Expr::Str(..)
        | Expr::Hex(_) => true,
        Expr::Unary(_, operand) | Expr::Convert(operand, _, None, false) => is_constant(operand),
        _ => false,
    }
}

/// Returns the texts of a unique index, with the condition of a filtered one. In SQLite, NULLs are
/// distinct; SQL Server allows one. If NULL is allowed, a second index holds the rows that have
/// one, with two expressions for each column: whether it is NULL, and the value otherwise.
pub(super) fn unique_texts(
    (schema, table, index): (&str, &str, &str),
    columns: &[KeyColumn<'_>],
    condition: Option<&str>,
) -> Vec<String> {
    let text = |index: &str, keys: Vec<String>, filter: &str| {
        format!(
            "CREATE UNIQUE INDEX {}.{} ON {} ({}){filter}",
            quote(schema),
            quote(index),
            quote(table),
            keys.join(", ")
        )
    };
    let plain = |column: &KeyColumn<'_>| {
        format!("{}{}", quote(column.name), if column.descending { " DESC" } else { "" })
    };
    let filter = condition.map_or(String::new(), |text| format!(" WHERE {text}"));
    let mut texts = vec![text(index, columns.iter().map(plain).collect(), &filter)];
    let nullable = columns.iter().filter(|column| column.nullable);
    let nulls: Vec<String> =
        nullable.map(|column| format!("{} IS NULL", quote(column.name))).collect();
    if !nulls.is_empty() {
        let key = |column: &KeyColumn<'_>| {
            let name = quote(column.name);
            let collate = clause(column.ty, column.collation);
            match column.nullable {
                true => format!("({name} IS NULL), ifnull({name}, 0){collate}"),
                false => name,
            }
        };
        let keys = columns.iter().map(key).collect();
        let both = condition.map_or(String::new(), |text| format!(" AND ({text})"));
        let filter = format!(" WHERE ({}){both}", nulls.join(" OR "));
        texts.push(text(&format!("{index}{NULLS}"), keys, &filter));
    }
    texts
}

/// Returns the texts that drop an index and the one beside it.
pub(super) fn drop_texts(schema: &str, index: &str) -> [String; 2] {
    let beside = format!("{index}{NULLS}");
    [
        format!("DROP INDEX {}.{}", quote(schema), quote(index)),
        format!("DROP INDEX IF EXISTS {}.{}", quote(schema), quote(&beside)),
    ]
}

/// Returns the name of an index in SQLite, where names are unique by database: the table's name is
/// part of it.
pub(super) fn index_name(table: &str, name: &str) -> String {
    format!("{table}~{name}")
}

pub(super) fn column_list(columns: &[(String, bool)]) -> String {
    let texts: Vec<String> = columns
        .iter()
        .map(|(name, descending)| {
            format!("{}{}", quote(name), if *descending { " DESC" } else { "" })
        })
        .collect();
    texts.join(", ")
}

/// Refuses a column that is in a key, or in an index, twice.
///
/// # Errors
/// 1909.
pub(super) fn check_key<'a>(columns: impl IntoIterator<Item = &'a String>) -> Result<()> {
    let mut before: Vec<&String> = Vec::new();
    for name in columns {
        if before.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(DefinedError::KeyColumnTwice { name: name.clone() }.into());
        }
        before.push(name);
    }
    Ok(())
}

/// Finds a column of a key or an index.
///
/// # Errors
/// 1911.
pub(super) fn key_column<'t>(table: &'t Table, name: &str) -> Result<&'t TableColumn> {
    let missing = || DefinedError::NoKeyColumn { name: name.to_owned() };
    Ok(table.column(name).ok_or_else(missing)?)
}

impl Ddl<'_> {
    pub(crate) fn new_index<'d>(&mut self, made: &'d CreateIndex) -> Result<Definition<'d>> {
        let (name, table) = (&made.name, &made.table);
        let found = self.find(table)?.ok_or_else(|| Error::NoObject { name: table.text() })?;
        check_key(made.columns.iter().map(|(name, _)| name).chain(&made.included))?;
        let index = index_name(&found.name, name);
        let condition = self.index_condition(made, &found)?;
        let texts = self.index_texts(made, &found, &index, condition.as_deref())?;
        let mut columns = Vec::new();
        let mut nullable = false;
        for (column, down) in &made.columns {
            let own = key_column(&found, column)?;
            nullable |= made.unique && own.nullable;
            columns.push((own.name.clone(), *down));
        }
        let mut columns = marked(&columns);
        for column in &made.included {
            columns.push(format!("{}{INCLUDED}", key_column(&found, column)?.name));
        }
        let text = made.filter.as_ref().map_or(String::new(), |(_, text)| format!("({text})"));
        let is_noted = nullable || !text.is_empty() || !made.included.is_empty();
        let named = NamedConstraint { name: name.clone(), kind: "I", columns, text };
        let kernels = self.db.kernels.clone();
        Ok(Definition::of(&found.schema.clone(), move |ddl| {
            let connection = ddl.db.connection()?;
            let fail = |error| failure(&kernels, &error, &found.database);
            if has_index(connection, &found.schema, &index).map_err(fail)? {
                return Err(Error::IndexExists { name: name.clone(), table: table.text() });
            }
            if made.unique {
                ddl.refuse_duplicates(made, &found, condition.as_deref())?;
            }
            texts.iter().try_for_each(|text| ddl.db.sql(text, &found.database))?;
            let named = if is_noted { std::slice::from_ref(&named) } else { &[] };
            note_constraints(ddl.db, &found.schema, &found.name, named)
        }))
    }

    /// Returns the condition of a filtered index as SQLite's text.
    fn index_condition(&mut self, made: &CreateIndex, found: &Table) -> Result<Option<String>> {
        match &made.filter {
            Some((expr, _)) if is_filter(expr) => {
                self.inline_condition(expr, offered(&found.columns)).map(Some)
            }
            Some(_) => {
                let (index, table) = (made.name.clone(), made.table.text());
                Err(Error::FilterClause { index, table })
            }
            None => Ok(None),
        }
    }

    /// Refuses a unique index over rows that have the same key.
    fn refuse_duplicates(
        &mut self,
        made: &CreateIndex,
        found: &Table,
        condition: Option<&str>,
    ) -> Result<()> {
        let key = made.columns.iter().map(|(name, _)| key_column(found, name));
        let key = key.collect::<Result<Vec<_>>>()?;
        match self.duplicate_row(found, &key, condition)? {
            Some(key) => {
                let (table, index) = (found.object_name(), made.name.clone());
                Err(Error::DuplicateInKey { table, index, key })
            }
            None => Ok(()),
        }
    }

    /// Returns SQLite's texts of an index. Included columns follow the key of one that is not
    /// unique, so that queries of them need not read the table; in a unique one they would be part
    /// of what is unique.
    fn index_texts(
        &mut self,
        made: &CreateIndex,
        found: &Table,
        index: &str,
        condition: Option<&str>,
    ) -> Result<Vec<String>> {
        let in_filter = |own: &str| made.filter.as_ref().is_some_and(|(_, text)| names(text, own));
        let used = |own: &str| {
            let key = made.columns.iter().map(|(name, _)| name);
            in_filter(own) || key.chain(&made.included).any(|name| name.eq_ignore_ascii_case(own))
        };
        refuse_computed(&found.columns, used, "an index")?;
        let mut keys = Vec::new();
        for (column, down) in &made.columns {
            let known = key_column(found, column)?;
            if made.unique && !storage::comparable(known.ty) {
                let ty = crate::value::type_name(known.ty);
                return Err(Error::feature(format!("a key of type {ty}")));
            }
            keys.push(KeyColumn {
                name: &known.name,
                ty: known.ty,
                collation: known.collation,
                nullable: known.nullable,
                descending: *down,
            });
        }
        if made.unique {
            return Ok(unique_texts((&found.schema, &found.name, index), &keys, condition));
        }
        let mut own: Vec<(String, bool)> =
            keys.iter().map(|key| (key.name.to_owned(), key.descending)).collect();
        for column in &made.included {
            own.push((key_column(found, column)?.name.clone(), false));
        }
        let filter = condition.map_or(String::new(), |text| format!(" WHERE {text}"));
        Ok(vec![format!(
            "CREATE INDEX {}.{} ON {} ({}){filter}",
            quote(&found.schema),
            quote(index),
            quote(&found.name),
            column_list(&own)
        )])
    }
}
