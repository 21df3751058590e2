//! CREATE TYPE, DROP TYPE, and the alias types of columns.

use tdekit_wire_tds::messages::DefinedError;

use super::super::db::failure;
use super::{Ddl, Definition};
use crate::ast::defined::{CreateType, UserType};
use crate::ast::{ColumnDef, Name};
use crate::error::{Error, Result};
use crate::name::{quote, schema_and_name};
use crate::plan::access::Right;
use crate::run::catalog::named::has_table;
use crate::run::catalog::types::parameter_types;
use crate::run::catalog::user_types::{alias_of, stored_types, type_of};
use crate::run::gate::On;

impl Ddl<'_> {
    /// Returns the type that CREATE TYPE makes, as it will be stored.
    pub(crate) fn type_to_make(&mut self, made: &CreateType) -> Result<UserType> {
        let (schema, database, name) = self.new_place(&made.name)?;
        if schema == "temp" || made.name.0.len() > 2 {
            return Err(Error::feature(format!("a type named {}", made.name.text())));
        }
        if self.db.user_type(&made.name, &self.state.database)?.is_some() {
            return Err(DefinedError::TypeExists { name: made.name.text() }.into());
        }
        Ok(UserType { database, name, kind: made.kind.clone() })
    }

    pub(crate) fn new_type<'d>(
        &mut self,
        of: &'d UserType,
        text: &'d str,
    ) -> Result<Definition<'d>> {
        let schema = self.db.schema(&of.database)?;
        let kernels = self.db.kernels.clone();
        Ok(Definition::of(&schema.clone(), move |ddl| {
            ddl.db.own_table(&schema, "tsql_type")?;
            let sql = format!("INSERT INTO {}.tsql_type VALUES (?1, ?2)", quote(&schema));
            let result = ddl.db.connection()?.execute(&sql, [of.name.as_str(), text]);
            result.map(|_| ()).map_err(|error| failure(&kernels, &error, &of.database))
        }))
    }

    pub(super) fn dropped_type(
        &mut self,
        name: &Name,
        if_exists: bool,
    ) -> Result<Option<Definition<'static>>> {
        let Some(found) = self.db.user_type(name, &self.state.database)? else {
            let missing = DefinedError::DropMissing { name: name.text() };
            return if if_exists { Ok(None) } else { Err(missing.into()) };
        };
        let schema = self.db.schema(&found.database)?;
        if let Some(object) = self.user_of_type(&schema, &found)? {
            let (_, name) = schema_and_name(&found.name);
            return Err(DefinedError::TypeInUse { name, object }.into());
        }
        let kernels = self.db.kernels.clone();
        Ok(Some(Definition::of(&schema.clone(), move |ddl| {
            let sql = format!("DELETE FROM {}.tsql_type WHERE name = ?1", quote(&schema));
            let result = ddl.db.connection()?.execute(&sql, [&found.name]);
            result.map_err(|error| failure(&kernels, &error, &found.database))?;
            let place = (schema.as_str(), found.database.as_str());
            ddl.db.move_permissions(place, &On::user_type(&found.name), None)
        })))
    }

    /// Returns the name of something that a type's end would break: a table with a column of it, a
    /// table type, a procedure or function with a parameter of it.
    fn user_of_type(&mut self, schema: &str, of: &UserType) -> Result<Option<String>> {
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &of.database);
        let connection = self.db.connection()?;
        let own = quote(schema);
        if has_table(connection, schema, "tsql_alias").map_err(fail)? {
            let sql = format!("SELECT table_name FROM {own}.tsql_alias WHERE type = ?1");
            let mut statement = connection.prepare(&sql).map_err(fail)?;
            let mut rows = statement.query([&of.name]).map_err(fail)?;
            if let Some(row) = rows.next().map_err(fail)? {
                return Ok(Some(schema_and_name(&row.get::<_, String>(0).map_err(fail)?).1));
            }
        }
        let is_it = |stored: &str| stored.eq_ignore_ascii_case(&of.name);
        for (name, text) in stored_types(connection, schema).map_err(fail)? {
            let other = type_of(&of.database, &name, &text)?;
            let columns = other.table().map_or(&[][..], |table| &table.columns);
            if columns
                .iter()
                .any(|column| column.user_type.as_ref().is_some_and(|name| is_it(&name.stored())))
            {
                return Ok(Some(schema_and_name(&name).1));
            }
        }
        if !has_table(connection, schema, "tsql_module").map_err(fail)? {
            return Ok(None);
        }
        let sql = format!("SELECT name, definition FROM {own}.tsql_module WHERE kind <> 'V'");
        let mut statement = connection.prepare(&sql).map_err(fail)?;
        let texts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(fail)?;
        let texts: Vec<(String, String)> = texts.collect::<rusqlite::Result<_>>().map_err(fail)?;
        for (name, text) in texts {
            if parameter_types(&text).iter().flatten().any(|stored| is_it(stored)) {
                return Ok(Some(schema_and_name(&name).1));
            }
        }
        Ok(None)
    }

    /// Gives columns with alias types the types that they stand for. Temporary tables belong to
    /// tempdb, which has no such types; table variables to the database.
    pub(super) fn resolve_columns(
        &mut self,
        columns: &mut [ColumnDef],
        (schema, database): (&str, &str),
        variable: bool,
    ) -> Result<()> {
        let current = &self.state.database;
        for (at, column) in columns.iter_mut().enumerate() {
            let Some(name) = &column.user_type else { continue };
            let missing = || DefinedError::NoType { number: at + 1, name: name.text() };
            let found = match schema == "temp" {
                true if variable => self.db.user_type(name, current)?,
                true => None,
                false => self.db.user_type(name, database)?,
            };
            let found = found.ok_or_else(missing)?;
            let (ty, nullable) = alias_of(&found).ok_or_else(missing)?;
            self.gate().admit_type(&found, Right::References)?;
            column.ty = ty;
            if column.nullable.is_none() && !nullable {
                column.nullable = Some(false);
            }
        }
        Ok(())
    }

    /// Records the alias types of columns; that of a column whose type changed is forgotten.
    pub(super) fn note_aliases(
        &mut self,
        schema: &str,
        table: &str,
        columns: &[ColumnDef],
        changed: bool,
    ) -> Result<()> {
        if schema == "temp" {
            return Ok(());
        }
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, schema);
        let own = quote(schema);
        for column in columns {
            if let Some(name) = &column.user_type {
                self.db.own_table(schema, "tsql_alias")?;
                let sql = format!("INSERT OR REPLACE INTO {own}.tsql_alias VALUES (?1, ?2, ?3)");
                let with = [table, &column.name, &name.stored()];
                self.db.connection()?.execute(&sql, with).map_err(fail)?;
            } else if changed
                && has_table(self.db.connection()?, schema, "tsql_alias").map_err(fail)?
            {
                let sql = format!(
                    "DELETE FROM {own}.tsql_alias WHERE table_name = ?1 AND column_name = ?2"
                );
                self.db.connection()?.execute(&sql, [table, &column.name]).map_err(fail)?;
            }
        }
        Ok(())
    }
}
