//! DROP and TRUNCATE.

use std::sync::Arc;

use tdekit_wire_tds::messages::SchemaError;

use super::super::db::failure;
use super::index::{drop_texts, index_name};
use crate::ast::{Name, ObjectKind};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::{has_index, has_table};
use crate::run::catalog::{Table, TableKind};
use crate::run::work::Run;

impl Run<'_> {
    pub(crate) fn truncate(&mut self, name: &Name) -> Result<()> {
        let table = self.find(name)?.ok_or_else(|| Error::AlterMissing { name: name.text() })?;
        if table.kind != TableKind::Table {
            return Err(SchemaError::NotATable { name: name.object().to_owned() }.into());
        }
        if self.referring(&table)?.is_some() {
            return Err(Error::TruncateReferenced { table: name.text() });
        }
        self.define(&table.schema.clone(), |run| {
            run.sql(&format!("DELETE FROM {}", table.sql()), &table.database)?;
            if table.identity().is_some() {
                let sql = format!(
                    "UPDATE {}.tsql_identity SET last = NULL WHERE table_name = ?1",
                    quote(&table.schema)
                );
                let kernels = run.s.db.kernels.clone();
                let result = run.s.db.connection()?.execute(&sql, [&table.name]);
                result.map_err(|error| failure(&kernels, &error, &table.database))?;
            }
            Ok(())
        })
    }

    fn drop_module(&mut self, kind: ObjectKind, name: &Name, if_exists: bool) -> Result<()> {
        let current = self.s.state.database.clone();
        let (letter, word) = match kind {
            ObjectKind::View => ("V", "view"),
            ObjectKind::Function => (self.s.db.function_kind(name, &current)?, "function"),
            _ => ("P", "procedure"),
        };
        if self.s.db.module(name, &current, letter)?.is_none() {
            return if if_exists {
                Ok(())
            } else {
                Err(Error::DropMissing { kind: word.to_owned(), name: name.text() })
            };
        }
        let (schema, database, object) = self.s.db.place(name, &current)?;
        if kind == ObjectKind::Function {
            self.refuse_kept("DROP FUNCTION", name, (&schema, &database), &object)?;
        }
        let kernels = self.s.db.kernels.clone();
        self.define(&schema.clone(), |run| {
            let sql =
                format!("DELETE FROM {}.tsql_module WHERE name = ?1 AND kind = ?2", quote(&schema));
            let result = run.s.db.connection()?.execute(&sql, [&object, letter]);
            result.map_err(|error| failure(&kernels, &error, &database))?;
            if letter == "V" {
                run.move_triggers((&schema, &database), &object, None)?;
            }
            run.forget_properties((&schema, &database), ("O", &object), None)
        })
    }

    pub(crate) fn drop_object(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        if_exists: bool,
        on: Option<&Name>,
    ) -> Result<()> {
        let missing = |what: &str| Error::DropMissing { kind: what.to_owned(), name: name.text() };
        match kind {
            ObjectKind::Table => {
                let found = self.find(name)?.filter(|table| table.kind == TableKind::Table);
                let Some(table) = found else {
                    return if if_exists { Ok(()) } else { Err(missing("table")) };
                };
                // SQLite would delete the rows first, and with them the rows that refer to them
                if self.referring(&table)?.is_some() {
                    return Err(Error::DropReferenced { name: name.text() });
                }
                self.drop_table(&table)
            }
            ObjectKind::View | ObjectKind::Procedure | ObjectKind::Function => {
                self.drop_module(kind, name, if_exists)
            }
            ObjectKind::Index => {
                let index = name.object().to_owned();
                let table = on.cloned().unwrap_or_else(|| name.above());
                let Some(table) = self.find(&table)? else {
                    return if if_exists { Ok(()) } else { Err(missing("index")) };
                };
                let named = self.named_constraints(&table)?;
                let key = named.iter().find(|found| found.name.eq_ignore_ascii_case(&index));
                if let Some(key) = key.filter(|found| matches!(found.kind.as_str(), "PK" | "UQ")) {
                    let kind = if key.kind == "PK" { "PRIMARY KEY" } else { "UNIQUE KEY" };
                    let name = format!("{}.{}", schema_and_name(&table.name).1, key.name);
                    return Err(Error::IndexOfKey { name, kind: kind.to_owned() });
                }
                let full = index_name(&table.name, &index);
                let kernels = self.s.db.kernels.clone();
                self.define(&table.schema.clone(), |run| {
                    let connection = run.s.db.connection()?;
                    let fail = |error| failure(&kernels, &error, &table.database);
                    if !has_index(connection, &table.schema, &full).map_err(fail)? {
                        return if if_exists { Ok(()) } else { Err(missing("index")) };
                    }
                    for text in drop_texts(&table.schema, &full) {
                        run.sql(&text, &table.database)?;
                    }
                    let connection = run.s.db.connection()?;
                    let fail = |error| failure(&kernels, &error, &table.database);
                    if has_table(connection, &table.schema, "tsql_constraint").map_err(fail)? {
                        let sql = format!(
                            "DELETE FROM {}.tsql_constraint WHERE table_name = ?1 AND name = ?2",
                            quote(&table.schema)
                        );
                        connection.execute(&sql, [&table.name, &index]).map_err(fail)?;
                    }
                    Ok(())
                })
            }
            ObjectKind::Sequence => self.drop_sequence(name, if_exists),
            ObjectKind::Type => self.drop_type(name, if_exists),
            ObjectKind::Trigger => self.drop_trigger(name, if_exists),
            ObjectKind::Schema => self.drop_schema(name.object(), if_exists),
            _ => Err(Error::feature("this DROP")),
        }
    }

    /// Returns true if there is something of this kind and name that DROP could drop.
    pub(crate) fn has_object(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        on: Option<&Name>,
    ) -> Result<bool> {
        let current = self.s.state.database.clone();
        Ok(match kind {
            ObjectKind::Table => {
                self.find(name)?.is_some_and(|table| table.kind == TableKind::Table)
            }
            ObjectKind::View => self.s.db.module(name, &current, "V")?.is_some(),
            ObjectKind::Procedure => self.s.db.module(name, &current, "P")?.is_some(),
            ObjectKind::Function => {
                let kind = self.s.db.function_kind(name, &current)?;
                self.s.db.module(name, &current, kind)?.is_some()
            }
            ObjectKind::Sequence => self.s.db.sequence(name, &current)?.is_some(),
            ObjectKind::Type => self.s.db.user_type(name, &current)?.is_some(),
            ObjectKind::Trigger => self.has_trigger(name)?,
            ObjectKind::Index => {
                let table = on.cloned().unwrap_or_else(|| name.above());
                let Some(table) = self.find(&table)? else { return Ok(false) };
                let named = self.named_constraints(&table)?;
                let key = named.iter().any(|key| key.name.eq_ignore_ascii_case(name.object()));
                let full = index_name(&table.name, name.object());
                let kernels = self.s.db.kernels.clone();
                let found = has_index(self.s.db.connection()?, &table.schema, &full);
                key || found.map_err(|error| failure(&kernels, &error, &table.database))?
            }
            ObjectKind::Schema => self.schema_named(&current, name.object())?.is_some(),
            ObjectKind::Database => {
                let all = self.s.db.host.databases()?;
                all.iter().any(|known| known.name.eq_ignore_ascii_case(name.object()))
            }
            ObjectKind::Certificate | ObjectKind::MasterKey | ObjectKind::EncryptionKey => true,
        })
    }

    /// Removes the records of a dropped column.
    pub(super) fn forget_column(&mut self, table: &Table, column: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.s.db.connection()?;
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
        self.forget_properties(place, ("C", &table.name), Some(column))
    }

    pub(crate) fn drop_table(&mut self, table: &Arc<Table>) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        self.define(&table.schema.clone(), |run| {
            // another session may have been first, before the lock was taken
            let there = has_table(run.s.db.connection()?, &table.schema, &table.name)
                .map_err(|error| failure(&kernels, &error, &table.database))?;
            if !there {
                let (kind, name) = ("table".to_owned(), table.name.clone());
                return Err(Error::DropMissing { kind, name });
            }
            run.sql(&format!("DROP TABLE {}", table.sql()), &table.database)?;
            for own in crate::run::catalog::model::OWN {
                let connection = run.s.db.connection()?;
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
            run.forget_properties((&table.schema, &table.database), ("O", &table.name), None)
        })
    }
}
