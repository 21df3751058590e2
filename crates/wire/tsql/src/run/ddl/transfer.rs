//! ALTER SCHEMA .. TRANSFER.

use tdekit_wire_tds::messages::SchemaError;

use super::super::db::failure;
use super::constraint::has_object;
use super::rename::stored_name;
use super::trigger::{move_triggers, taken_trigger};
use super::{Ddl, Definition};
use crate::ast::Name;
use crate::error::Result;
use crate::run::catalog::Table;
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::one;
use crate::run::catalog::schemas::SYSTEM;
use crate::run::gate::On;

impl Ddl<'_> {
    /// Moves a table, view, procedure, function or sequence of the current database into another
    /// schema. The permissions on it are dropped; texts that name it stay as they are.
    pub(crate) fn transferred(&mut self, target: &str, name: &Name) -> Result<Definition<'static>> {
        let current = self.state.database.clone();
        let missing = || SchemaError::NoObject { name: name.object().to_owned() };
        let (schema, database, stored) = self.db.place(name, &current)?;
        if schema == "temp" || database != current {
            return Err(missing().into());
        }
        let known = self.db.schema_named(&database, target)?;
        let known = known.filter(|known| !SYSTEM.contains(&known.as_str()));
        let no_target = || SchemaError::NoTarget { name: target.to_owned() };
        let target = known.ok_or_else(no_target)?;
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &database);
        let found = one(self.db.connection()?, &schema, &stored).map_err(fail)?;
        let (stored, kind) = match found {
            Some((_, "TR", ..) | (_, _, _, Some(_))) => return Err(SchemaError::OfParent {}.into()),
            Some((stored, kind, ..)) => (stored, kind),
            None => return Err(missing().into()),
        };
        let (_, object) = schema_and_name(&stored);
        let new = stored_name(&target, &object);
        if has_object(self.db.connection()?, &schema, &new).map_err(fail)? {
            return Err(SchemaError::Taken { name: object }.into());
        }
        if let Some(name) = taken_trigger(self.db, (&schema, &database), &stored, &target)? {
            return Err(SchemaError::Taken { name }.into());
        }
        let table = if kind == "U" { self.find(name)? } else { None };
        if let Some(table) = &table {
            self.refuse_taken_constraints(table, &target)?;
        }
        let sequence = if kind == "SO" { self.db.sequence(name, &current)? } else { None };
        if let Some(sequence) = &sequence
            && self.default_with(sequence)?.is_some()
        {
            return Err(SchemaError::SchemaBound {}.into());
        }
        if kind == "FN" && self.keeper((&schema, &database), &stored)?.is_some() {
            return Err(SchemaError::SchemaBound {}.into());
        }
        Ok(Definition::of(&schema.clone(), move |ddl| {
            let place = (schema.as_str(), database.as_str());
            match (&table, kind) {
                (Some(table), _) => ddl.move_table(table, &new)?,
                (None, "SO") => ddl.move_noted(place, "tsql_sequence", &stored, &new)?,
                (None, _) => {
                    ddl.move_noted(place, "tsql_module", &stored, &new)?;
                    move_triggers(ddl.db, place, &stored, Some(&new))?;
                }
            }
            ddl.db.move_permissions(place, &On::object(&stored), None)
        }))
    }

    /// Constraints move with their table.
    fn refuse_taken_constraints(&mut self, table: &Table, target: &str) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        for found in self.db.named_constraints(table)?.into_iter().filter(|own| own.kind != "I") {
            let stored = stored_name(target, &found.name);
            if has_object(self.db.connection()?, &table.schema, &stored).map_err(fail)? {
                return Err(SchemaError::Taken { name: found.name }.into());
            }
        }
        Ok(())
    }
}
