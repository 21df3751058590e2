//! DROP and TRUNCATE.

use std::sync::Arc;

use tdekit_wire_tds::messages::SchemaError;

use super::super::db::{Db, failure};
use super::index::{drop_texts, index_name};
use super::trigger::move_triggers;
use super::{Ddl, Definition};
use crate::ast::{Name, ObjectKind};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::{has_index, has_table};
use crate::run::catalog::{Table, TableKind};

impl Ddl<'_> {
    pub(crate) fn truncated(&mut self, name: &Name) -> Result<Definition<'static>> {
        let table = self.find(name)?.ok_or_else(|| Error::AlterMissing { name: name.text() })?;
        if table.kind != TableKind::Table {
            return Err(SchemaError::NotATable { name: name.object().to_owned() }.into());
        }
        if self.referring(&table)?.is_some() {
            return Err(Error::TruncateReferenced { table: name.text() });
        }
        Ok(Definition::of(&table.schema.clone(), move |ddl| {
            ddl.db.sql(&format!("DELETE FROM {}", table.sql()), &table.database)?;
            if table.identity().is_some() {
                let sql = format!(
                    "UPDATE {}.tsql_identity SET last = NULL WHERE table_name = ?1",
                    quote(&table.schema)
                );
                let kernels = ddl.db.kernels.clone();
                let result = ddl.db.connection()?.execute(&sql, [&table.name]);
                result.map_err(|error| failure(&kernels, &error, &table.database))?;
            }
            Ok(())
        }))
    }

    fn dropped_module(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        if_exists: bool,
    ) -> Result<Option<Definition<'static>>> {
        let current = &self.state.database;
        let (letter, word) = match kind {
            ObjectKind::View => ("V", "view"),
            ObjectKind::Function => (self.db.function_kind(name, current)?, "function"),
            _ => ("P", "procedure"),
        };
        if self.db.module(name, current, letter)?.is_none() {
            return if if_exists {
                Ok(None)
            } else {
                Err(Error::DropMissing { kind: word.to_owned(), name: name.text() })
            };
        }
        let (schema, database, object) = self.db.place(name, current)?;
        if kind == ObjectKind::Function {
            self.refuse_kept("DROP FUNCTION", name, (&schema, &database), &object)?;
        }
        let kernels = self.db.kernels.clone();
        Ok(Some(Definition::of(&schema.clone(), move |ddl| {
            let sql =
                format!("DELETE FROM {}.tsql_module WHERE name = ?1 AND kind = ?2", quote(&schema));
            let result = ddl.db.connection()?.execute(&sql, [object.as_str(), letter]);
            result.map_err(|error| failure(&kernels, &error, &database))?;
            if letter == "V" {
                move_triggers(ddl.db, (&schema, &database), &object, None)?;
            }
            ddl.db.forget_properties((&schema, &database), ("O", &object), None)
        })))
    }

    /// DROP of an object of a database; None if there is nothing to do.
    pub(crate) fn dropped(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        if_exists: bool,
        on: Option<&Name>,
    ) -> Result<Option<Definition<'static>>> {
        match kind {
            ObjectKind::Table => {
                let found = self.find(name)?.filter(|table| table.kind == TableKind::Table);
                let Some(table) = found else {
                    return nothing_of("table", name, if_exists).map(|()| None);
                };
                // SQLite would delete the rows first, and with them the rows that refer to them
                if self.referring(&table)?.is_some() {
                    return Err(Error::DropReferenced { name: name.text() });
                }
                Ok(Some(self.dropped_table(&table)))
            }
            ObjectKind::View | ObjectKind::Procedure | ObjectKind::Function => {
                self.dropped_module(kind, name, if_exists)
            }
            ObjectKind::Index => self.dropped_index(name, if_exists, on),
            ObjectKind::Sequence => self.dropped_sequence(name, if_exists),
            ObjectKind::Type => self.dropped_type(name, if_exists),
            ObjectKind::Trigger => self.dropped_trigger(name, if_exists),
            ObjectKind::Schema => self.dropped_schema(name.object(), if_exists),
            _ => Err(Error::feature("this DROP")),
        }
    }

    fn dropped_index(
        &mut self,
        name: &Name,
        if_exists: bool,
        on: Option<&Name>,
    ) -> Result<Option<Definition<'static>>> {
        let index = name.object().to_owned();
        let table = on.cloned().unwrap_or_else(|| name.above());
        let Some(table) = self.find(&table)? else {
            return nothing_of("index", name, if_exists).map(|()| None);
        };
        let named = self.db.named_constraints(&table)?;
        let key = named.iter().find(|found| found.name.eq_ignore_ascii_case(&index));
        if let Some(key) = key.filter(|found| matches!(found.kind.as_str(), "PK" | "UQ")) {
            let kind = if key.kind == "PK" { "PRIMARY KEY" } else { "UNIQUE KEY" };
            let name = format!("{}.{}", schema_and_name(&table.name).1, key.name);
            return Err(Error::IndexOfKey { name, kind: kind.to_owned() });
        }
        let (full, name) = (index_name(&table.name, &index), name.clone());
        let kernels = self.db.kernels.clone();
        Ok(Some(Definition::of(&table.schema.clone(), move |ddl| {
            let fail = |error| failure(&kernels, &error, &table.database);
            if !has_index(ddl.db.connection()?, &table.schema, &full).map_err(fail)? {
                return nothing_of("index", &name, if_exists);
            }
            for text in drop_texts(&table.schema, &full) {
                ddl.db.sql(&text, &table.database)?;
            }
            let connection = ddl.db.connection()?;
            if has_table(connection, &table.schema, "tsql_constraint").map_err(fail)? {
                let sql = format!(
                    "DELETE FROM {}.tsql_constraint WHERE table_name = ?1 AND name = ?2",
                    quote(&table.schema)
                );
                connection.execute(&sql, [&table.name, &index]).map_err(fail)?;
            }
            Ok(())
        })))
    }

    /// Removes the records of a dropped column.
    pub(super) fn forget_column(&mut self, table: &Table, column: &str) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.db.connection()?;
        for own in super::rename::OWN_COLUMNS {
            if has_table(connection, &table.schema, own).map_err(fail)? {
                let sql = format!(
                    "DELETE FROM {}.{own} WHERE table_name = ?1 AND column_name = ?2",
                    quote(&table.schema)
                );
                connection.execute(&sql, [&table.name, column]).map_err(fail)?;
            }
        }
        let place = (table.schema.as_str(), table.database.as_str());
        self.db.forget_properties(place, ("C", &table.name), Some(column))
    }

    pub(crate) fn dropped_table(&mut self, table: &Arc<Table>) -> Definition<'static> {
        let kernels = self.db.kernels.clone();
        let table = table.clone();
        Definition::of(&table.schema.clone(), move |ddl| {
            // another session may have been first, before the lock was taken
            let there = has_table(ddl.db.connection()?, &table.schema, &table.name)
                .map_err(|error| failure(&kernels, &error, &table.database))?;
            if !there {
                let (kind, name) = ("table".to_owned(), table.name.clone());
                return Err(Error::DropMissing { kind, name });
            }
            ddl.db.sql(&format!("DROP TABLE {}", table.sql()), &table.database)?;
            for own in crate::run::catalog::model::OWN {
                let connection = ddl.db.connection()?;
                let there = has_table(connection, &table.schema, own)
                    .map_err(|error| failure(&kernels, &error, &table.database))?;
                if there {
                    let sql =
                        format!("DELETE FROM {}.{own} WHERE table_name = ?1", quote(&table.schema));
                    connection
                        .execute(&sql, [&table.name])
                        .map_err(|error| failure(&kernels, &error, &table.database))?;
                }
            }
            ddl.db.forget_properties((&table.schema, &table.database), ("O", &table.name), None)
        })
    }
}

impl Db {
    /// Returns true if there is something of this kind and name that DROP could drop.
    pub(crate) fn has_object(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        on: Option<&Name>,
        current: &str,
    ) -> Result<bool> {
        Ok(match kind {
            ObjectKind::Table => {
                self.find(name, current)?.is_some_and(|table| table.kind == TableKind::Table)
            }
            ObjectKind::View => self.module(name, current, "V")?.is_some(),
            ObjectKind::Procedure => self.module(name, current, "P")?.is_some(),
            ObjectKind::Function => {
                let kind = self.function_kind(name, current)?;
                self.module(name, current, kind)?.is_some()
            }
            ObjectKind::Sequence => self.sequence(name, current)?.is_some(),
            ObjectKind::Type => self.user_type(name, current)?.is_some(),
            ObjectKind::Trigger => self.has_trigger_named(name, current)?,
            ObjectKind::Index => {
                let table = on.cloned().unwrap_or_else(|| name.above());
                let Some(table) = self.find(&table, current)? else { return Ok(false) };
                let named = self.named_constraints(&table)?;
                let key = named.iter().any(|key| key.name.eq_ignore_ascii_case(name.object()));
                let full = index_name(&table.name, name.object());
                let kernels = self.kernels.clone();
                let found = has_index(self.connection()?, &table.schema, &full);
                key || found.map_err(|error| failure(&kernels, &error, &table.database))?
            }
            ObjectKind::Schema => self.schema_named(current, name.object())?.is_some(),
            ObjectKind::Database => {
                let all = self.host.databases()?;
                all.iter().any(|known| known.name.eq_ignore_ascii_case(name.object()))
            }
            ObjectKind::Certificate | ObjectKind::MasterKey | ObjectKind::EncryptionKey => true,
        })
    }
}

/// Returns the error of a DROP that finds nothing, unless it has IF EXISTS.
fn nothing_of(kind: &str, name: &Name, if_exists: bool) -> Result<()> {
    match if_exists {
        true => Ok(()),
        false => Err(Error::DropMissing { kind: kind.to_owned(), name: name.text() }),
    }
}
