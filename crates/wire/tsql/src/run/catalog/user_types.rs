//! User-defined types as a database stores them: their texts, by name.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use tdekit_wire_tds::SqlType;

use crate::ast::defined::{TypeKind, UserType};
use crate::ast::{Action, Kind, Name};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::named::has_table;
use crate::run::db::{Db, failure};

impl Db {
    /// Returns the user-defined type of this name, which has its schema at most before it.
    pub(crate) fn user_type(
        &mut self,
        name: &Name,
        current: &str,
    ) -> Result<Option<Arc<UserType>>> {
        let system = name.part(1).is_some_and(|schema| schema.eq_ignore_ascii_case("sys"));
        if name.0.len() > 2 || name.object().starts_with('#') || system {
            return Ok(None);
        }
        let (schema, database, object) = self.place(name, current)?;
        let kernels = self.kernels.clone();
        let connection = self.connection()?;
        let read = || -> rusqlite::Result<Option<(String, String)>> {
            if !has_table(connection, &schema, "tsql_type")? {
                return Ok(None);
            }
            let own = quote(&schema);
            let sql = format!("SELECT name, definition FROM {own}.tsql_type WHERE name = ?1");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([&object], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        };
        match read().map_err(|error| failure(&kernels, &error, &database))? {
            Some((name, text)) => type_of(&database, &name, &text).map(Some),
            None => Ok(None),
        }
    }
}

/// Returns the type that a text of `tsql_type` defines.
pub(crate) fn type_of(database: &str, name: &str, text: &str) -> Result<Arc<UserType>> {
    let unreadable = || Error::Internal { detail: format!("the type {name} cannot be read") };
    let stmts = crate::parse::parse(text, true).map_err(|_| unreadable())?;
    match stmts.into_iter().next().map(|stmt| stmt.kind) {
        Some(Kind::Act(Action::CreateType(made))) => Ok(Arc::new(UserType {
            database: database.to_owned(),
            name: name.to_owned(),
            kind: made.kind,
        })),
        _ => Err(unreadable()),
    }
}

/// Returns the type that an alias type stands for, and true if it takes NULL.
pub(crate) fn alias_of(of: &UserType) -> Option<(SqlType, bool)> {
    match of.kind {
        TypeKind::Alias { ty, nullable } => Some((ty, nullable)),
        TypeKind::Table(_) => None,
    }
}

/// Reads the types of a database: names and texts.
pub(crate) fn stored_types(
    connection: &Connection,
    schema: &str,
) -> rusqlite::Result<Vec<(String, String)>> {
    if !has_table(connection, schema, "tsql_type")? {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT name, definition FROM {}.tsql_type ORDER BY name", quote(schema));
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}
