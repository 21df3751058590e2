//! Indexes.

use rusqlite::Connection;
use tdekit_wire_tds::SqlType;

use super::super::exec::Run;
use super::table::{NamedConstraint, marked};
use crate::ast::{Expr, Name};
use crate::bind::quote;
use crate::catalog::Table;
use crate::catalog::facts::{DESCENDING, SEPARATOR, has_table, made_name};
use crate::error::{Error, Result};
use crate::value::{is_text, storage};

/// What a unique index is to T-SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Primary,
    Unique,
    /// CREATE INDEX made it.
    Index,
}

/// The name and kind of the unique index over these columns.
pub(crate) fn unique_index(
    connection: &Connection,
    table: &Table,
    columns: &[&str],
) -> rusqlite::Result<Option<(String, KeyKind)>> {
    let mut list = connection.prepare("SELECT name, origin FROM pragma_index_list(?1, ?2)")?;
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
                    _ => (shown, KeyKind::Index),
                },
            }));
        }
    }
    Ok(None)
}

/// The name of a key over these columns.
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

/// The same names in the same order, without regard to case.
fn same_names<'a>(own: impl Iterator<Item = &'a str>, columns: &[&str]) -> bool {
    let own: Vec<&str> = own.collect();
    own.len() == columns.len()
        && own.iter().zip(columns).all(|(own, column)| own.eq_ignore_ascii_case(column))
}

/// The name of an index as T-SQL knows it.
pub(crate) fn shown_name<'n>(table: &Table, name: &'n str) -> &'n str {
    let rest = name.strip_prefix(table.name.as_str());
    rest.and_then(|rest| rest.strip_prefix('~')).unwrap_or(name)
}

/// Whether an index with expressions for columns belongs to a UNIQUE constraint.
pub(crate) fn is_constraint(connection: &Connection, table: &Table, name: &str) -> bool {
    noted_kind(connection, table, name).is_some_and(|kind| kind != "I")
}

/// The kind of a constraint or index of this name, as `tsql_constraint` has it.
fn noted_kind(connection: &Connection, table: &Table, name: &str) -> Option<String> {
    let sql = format!(
        "SELECT kind FROM {}.tsql_constraint WHERE table_name = ?1 AND name = ?2",
        quote(&table.schema)
    );
    connection.query_row(&sql, [&table.name, name], |row| row.get(0)).ok()
}

/// A column of a unique index. Where NULL may stand, whether it does and the value otherwise are
/// two keys: SQLite lets NULLs be equal to nothing, SQL Server allows one.
pub(super) fn index_key(column: &str, ty: SqlType, nullable: bool, descending: bool) -> String {
    let name = quote(column);
    let collate = if is_text(ty) { " COLLATE TSQL" } else { "" };
    let direction = if descending { " DESC" } else { "" };
    if nullable {
        format!("({name} IS NULL), ifnull({name}, 0){collate}{direction}")
    } else {
        format!("{name}{direction}")
    }
}

/// The name of an index in SQLite, which keeps them by database: the table's name is part of it.
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

impl Run<'_> {
    pub(super) fn create_index(
        &mut self,
        name: &str,
        table: &Name,
        unique: bool,
        columns: &[(String, bool)],
        filter: Option<&Expr>,
    ) -> Result<()> {
        let found = self.find(table)?.ok_or_else(|| {
            Error::Raised(Box::new(tdekit_wire_tds::Message {
                line: 0,
                ..tdekit_wire_tds::Message::new(
                    1088,
                    16,
                    12,
                    format!(
                        "Cannot find the object \"{}\" because it does not exist or you do not \
                        have permissions.",
                        table.text()
                    ),
                )
            }))
        })?;
        if filter.is_some() {
            return Err(Error::unsupported("filtered index"));
        }
        let (mut nullable, mut keys) = (false, Vec::new());
        for (column, down) in columns {
            let known = found
                .column(column)
                .ok_or_else(|| Error::InvalidColumn { name: column.clone() })?;
            if unique && !storage::comparable(known.ty) {
                let ty = crate::value::type_name(known.ty);
                return Err(Error::feature(format!("a key of type {ty}")));
            }
            nullable |= unique && known.nullable;
            keys.push(index_key(&known.name, known.ty, unique && known.nullable, *down));
        }
        let sql = format!(
            "CREATE {}INDEX {}.{} ON {} ({})",
            if unique { "UNIQUE " } else { "" },
            quote(&found.schema),
            quote(&index_name(&found.name, name)),
            quote(&found.name),
            keys.join(", ")
        );
        let named = NamedConstraint {
            name: name.to_owned(),
            kind: "I",
            columns: marked(columns),
            text: String::new(),
        };
        let made = self.define(&found.schema.clone(), |run| {
            run.sql(&sql, &found.database)?;
            let named = if nullable { std::slice::from_ref(&named) } else { &[] };
            run.note_constraints(&found.schema, &found.name, named)
        });
        made.map_err(|error| match error {
            Error::Internal { detail } if detail.contains("already exists") => {
                Error::Raised(Box::new(tdekit_wire_tds::Message {
                    line: 0,
                    ..tdekit_wire_tds::Message::new(
                        1913,
                        16,
                        1,
                        format!(
                            "The operation failed because an index or statistics with name \
                                '{name}' already exists on table '{}'.",
                            table.text()
                        ),
                    )
                }))
            }
            other => other,
        })
    }
}
