//! Foreign keys: their parents, and the check of existing rows.

use std::sync::Arc;

use rusqlite::Connection;
use tdekit_wire_tds::messages::CollationError;
use tdekit_wire_tds::{Collation, SqlType};

use super::super::conditions::has_checks;
use super::super::db::failure;
use super::Ddl;
use super::computed::refuse_computed;
use super::table::{NamedConstraint, note_constraints};
use crate::ast::{Constraint, ConstraintKind, Name};
use crate::error::{Error, Result};
use crate::name::{is_global, quote};
use crate::run::catalog::facts::constraints;
use crate::run::catalog::model::{Trust, schema_and_name};
use crate::run::catalog::named::has_table;
use crate::run::catalog::{Table, TableKind};
use crate::run::violated::conflict;

/// The key to which a foreign key refers.
#[derive(Debug)]
pub(super) struct Parent {
    /// The name in SQLite.
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

/// A table with the columns of a foreign key, and their types.
pub(super) struct Child<'a> {
    /// The name in SQLite.
    pub(super) table: &'a str,
    pub(super) columns: Vec<(String, SqlType, Collation)>,
}

impl Ddl<'_> {
    /// Returns the table of this name in the same database, to which a foreign key refers.
    pub(super) fn parent_table(&mut self, key: &str, parent: &Name) -> Result<Arc<Table>> {
        let found = self.find(parent)?.filter(|found| found.kind == TableKind::Table);
        let missing = || Error::ForeignTable { key: key.to_owned(), table: parent.text() };
        found.ok_or_else(missing)
    }

    /// Returns the key to which a foreign key refers; it must have the same types.
    pub(super) fn parent_key(
        &mut self,
        key: &str,
        child: &Child<'_>,
        table: &Table,
        named: &[String],
    ) -> Result<Parent> {
        let shown = schema_and_name(&table.name).1;
        let wanted = if named.is_empty() { self.primary_key(table)? } else { named.to_vec() };
        if wanted.is_empty() {
            return Err(Error::ForeignNoPrimary { key: key.to_owned(), table: shown });
        }
        let mut columns = Vec::new();
        for name in &wanted {
            let found = table.column(name).ok_or_else(|| Error::ForeignParentColumn {
                key: key.to_owned(),
                column: name.clone(),
                table: shown.clone(),
            })?;
            columns.push(found.clone());
        }
        if columns.len() != child.columns.len() {
            return Err(Error::ForeignCount { table: schema_and_name(child.table).1 });
        }
        for ((own, ty, collation), there) in child.columns.iter().zip(&columns) {
            if *ty == there.ty && *collation == there.collation {
                continue;
            }
            let column = format!("{shown}.{}", there.name);
            let own = format!("{}.{own}", schema_and_name(child.table).1);
            let key = key.to_owned();
            return Err(if *ty == there.ty {
                CollationError::Foreign { column, own, key }.into()
            } else if is_alike(*ty, there.ty) {
                Error::ForeignLength { column, own, key }
            } else {
                Error::ForeignType { column, own, key }
            });
        }
        let columns: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        let kernels = self.db.kernels.clone();
        let found = candidate(self.db.connection()?, table, &columns)
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        match found {
            Candidate::Key => Ok(Parent { name: table.name.clone(), columns }),
            Candidate::Nullable => {
                Err(Error::feature("a foreign key to a UNIQUE key of columns that allow NULL"))
            }
            Candidate::None => Err(Error::ForeignNoKey { key: key.to_owned(), table: shown }),
        }
    }

    pub(super) fn add_foreign(
        &mut self,
        table: &Arc<Table>,
        given: Option<&str>,
        constraint: &Constraint,
        column: &[String],
        unchecked: bool,
    ) -> Result<()> {
        let ConstraintKind::Foreign { columns, table: parent, parents, on_delete, on_update } =
            &constraint.kind
        else {
            return Ok(());
        };
        if table.schema == "temp" || is_global(&table.name) || is_global(parent.object()) {
            return Err(Error::feature("a foreign key of a temporary table"));
        }
        if parent.0.len() > 2 {
            return Err(Error::feature("a foreign key to another database"));
        }
        self.refuse_key_of_instead(table, constraint)?;
        if changes_rows([*on_delete, *on_update]) && has_checks(self.db, table)? {
            return Err(Error::feature("a key that changes rows beside a CHECK with functions"));
        }
        let wanted = if columns.is_empty() { column } else { columns };
        let used = |own: &str| wanted.iter().any(|name| name.eq_ignore_ascii_case(own));
        refuse_computed(&table.columns, used, "a foreign key")?;
        let name = self.constraint_name(table, given, "FK", wanted)?;
        let mut own = Vec::new();
        for column in wanted {
            let found = table.column(column).ok_or_else(|| Error::ForeignColumn {
                key: name.clone(),
                column: column.clone(),
                table: schema_and_name(&table.name).1,
            })?;
            own.push((found.name.clone(), found.ty, found.collation));
        }
        let there = self.parent_table(&name, &in_database(parent, &table.database))?;
        let child = Child { table: &table.name, columns: own };
        let key = self.parent_key(&name, &child, &there, parents)?;
        let own: Vec<String> = child.columns.into_iter().map(|(name, ..)| name).collect();
        if unchecked {
            self.note_trust(table, &name, Trust::Untrusted, None)?;
        } else if self.finds(&orphans("1", table, &own, &there, &key), table)? {
            return Err(conflict("ALTER TABLE", "FOREIGN KEY", &name, &there, &key.columns));
        }
        let item = foreign_text(&name, &own, &key.name, &key.columns, [*on_delete, *on_update]);
        self.add_item(table, &item)?;
        let text = String::new();
        let named = NamedConstraint { name, kind: "F", columns: own, text };
        note_constraints(self.db, &table.schema, &table.name, &[named])
    }

    /// Returns the first other table whose foreign key refers to this one, enabled or not.
    pub(super) fn referring(&mut self, table: &Table) -> Result<Option<String>> {
        let kernels = self.db.kernels.clone();
        let own = quote(&table.schema);
        let mut questions = vec![format!(
            "SELECT m.name FROM {own}.sqlite_schema AS m JOIN pragma_foreign_key_list(m.name, ?2) \
            AS f WHERE m.type = 'table' AND f.\"table\" = ?1 COLLATE NOCASE AND m.name <> ?1 \
            COLLATE NOCASE LIMIT 1"
        )];
        let disabled = "parent = ?1 AND table_name <> ?1 AND ?2 <> '' LIMIT 1";
        let read = |connection: &Connection| -> rusqlite::Result<Option<String>> {
            if has_table(connection, &table.schema, "tsql_unchecked")? {
                let from = format!("SELECT table_name FROM {own}.tsql_unchecked");
                questions.push(format!("{from} WHERE {disabled}"));
            }
            for sql in questions {
                let mut statement = connection.prepare(&sql)?;
                let mut rows = statement.query([&table.name, &table.schema])?;
                if let Some(row) = rows.next()? {
                    return row.get(0);
                }
            }
            Ok(None)
        };
        read(self.db.connection()?).map_err(|error| failure(&kernels, &error, &table.database))
    }
}

/// Returns the parent's name with the child's database.
pub(super) fn in_database(parent: &Name, database: &str) -> Name {
    let schema = parent.part(1).unwrap_or("dbo").to_owned();
    Name(vec![database.to_owned(), schema, parent.object().to_owned()])
}

/// Returns true if the actions of a key, those of DELETE and UPDATE, change rows of its table.
pub(super) fn changes_rows([delete, update]: [Option<&str>; 2]) -> bool {
    update.is_some_and(|action| action != "NO ACTION")
        || matches!(delete, Some("SET NULL" | "SET DEFAULT"))
}

/// Returns the key as SQLite's text; `actions` are those of DELETE and UPDATE.
pub(super) fn foreign_text(
    name: &str,
    columns: &[String],
    parent: &str,
    parents: &[String],
    actions: [Option<&str>; 2],
) -> String {
    let list =
        |names: &[String]| names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {}",
        quote(name),
        list(columns),
        quote(parent)
    );
    if !parents.is_empty() {
        text.push_str(&format!(" ({})", list(parents)));
    }
    for (event, action) in ["DELETE", "UPDATE"].iter().zip(actions) {
        if let Some(action) = action {
            text.push_str(&format!(" ON {event} {action}"));
        }
    }
    text
}

/// Returns true for the same type apart from its length, precision or scale.
fn is_alike(one: SqlType, other: SqlType) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

/// Returns the query for rows whose referenced row is missing; it reads `shown` of each.
pub(super) fn orphans(
    shown: &str,
    table: &Table,
    own: &[String],
    there: &Table,
    key: &Parent,
) -> String {
    let column = |alias: &str, name: &String| format!("{alias}.{}", quote(name));
    let given: Vec<String> =
        own.iter().map(|name| format!("{} IS NOT NULL", column("c", name))).collect();
    let same: Vec<String> = own
        .iter()
        .zip(&key.columns)
        .map(|(own, there)| format!("{} = {}", column("p", there), column("c", own)))
        .collect();
    format!(
        "SELECT {shown} FROM {} AS c WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {})",
        table.sql(),
        given.join(" AND "),
        there.sql(),
        same.join(" AND ")
    )
}

/// Suitability of columns as the parent of a foreign key.
enum Candidate {
    Key,
    /// A unique key of columns that allow NULL, for which SQLite's index has expressions.
    Nullable,
    None,
}

fn candidate(
    connection: &Connection,
    table: &Table,
    columns: &[String],
) -> rusqlite::Result<Candidate> {
    let same = |found: &[String]| {
        found.len() == columns.len()
            && columns.iter().all(|name| found.iter().any(|own| own.eq_ignore_ascii_case(name)))
    };
    let sql = "SELECT name FROM pragma_table_info(?1, ?2) WHERE pk > 0";
    let mut statement = connection.prepare(sql)?;
    let primary: Vec<String> = statement
        .query_map([&table.name, &table.schema], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if same(&primary) {
        return Ok(Candidate::Key);
    }
    let sql = "SELECT name FROM pragma_index_list(?1, ?2) WHERE \"unique\" AND NOT partial";
    let mut statement = connection.prepare(sql)?;
    let indexes: Vec<String> = statement
        .query_map([&table.name, &table.schema], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for index in indexes {
        let sql = "SELECT ifnull(name, '') FROM pragma_index_xinfo(?1, ?2) WHERE key";
        let mut statement = connection.prepare(sql)?;
        let found: Vec<String> = statement
            .query_map([&index, &table.schema], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        if same(&found) {
            return Ok(Candidate::Key);
        }
    }
    let named = constraints(connection, table)?;
    let nullable = named.iter().any(|found| found.kind == "UQ" && same(&found.columns));
    Ok(if nullable { Candidate::Nullable } else { Candidate::None })
}
