//! ALTER SCHEMA .. TRANSFER.

use tdekit_wire_tds::messages::SchemaError;

use super::super::db::failure;
use super::constraint::has_object;
use super::rename::stored_name;
use crate::ast::Name;
use crate::error::Result;
use crate::run::catalog::Table;
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::one;
use crate::run::catalog::schemas::SYSTEM;
use crate::run::gate::On;
use crate::run::work::Run;

impl Run<'_> {
    /// Moves a table, view, procedure, function or sequence of the current database into another
    /// schema. The permissions on it are dropped; texts that name it stay as they are.
    pub(crate) fn transfer(&mut self, target: &str, name: &Name) -> Result<()> {
        let current = self.s.state.database.clone();
        let missing = || SchemaError::NoObject { name: name.object().to_owned() };
        let (schema, database, stored) = self.s.db.place(name, &current)?;
        if schema == "temp" || database != current {
            return Err(missing().into());
        }
        let known = self.schema_named(&database, target)?;
        let known = known.filter(|known| !SYSTEM.contains(&known.as_str()));
        let no_target = || SchemaError::NoTarget { name: target.to_owned() };
        let target = known.ok_or_else(no_target)?;
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &database);
        let found = one(self.s.db.connection()?, &schema, &stored).map_err(fail)?;
        let (stored, kind) = match found {
            Some((_, "TR", ..) | (_, _, _, Some(_))) => return Err(SchemaError::OfParent {}.into()),
            Some((stored, kind, ..)) => (stored, kind),
            None => return Err(missing().into()),
        };
        let (_, object) = schema_and_name(&stored);
        let new = stored_name(&target, &object);
        if has_object(self.s.db.connection()?, &schema, &new).map_err(fail)? {
            return Err(SchemaError::Taken { name: object }.into());
        }
        if let Some(name) = self.taken_trigger((&schema, &database), &stored, &target)? {
            return Err(SchemaError::Taken { name }.into());
        }
        let table = if kind == "U" { self.find(name)? } else { None };
        if let Some(table) = &table {
            self.refuse_taken_constraints(table, &target)?;
        }
        let sequence = if kind == "SO" { self.s.db.sequence(name, &current)? } else { None };
        if let Some(sequence) = &sequence
            && self.default_with(sequence)?.is_some()
        {
            return Err(SchemaError::SchemaBound {}.into());
        }
        if kind == "FN" && self.keeper((&schema, &database), &stored)?.is_some() {
            return Err(SchemaError::SchemaBound {}.into());
        }
        self.define(&schema, |run| {
            let place = (schema.as_str(), database.as_str());
            match (&table, kind) {
                (Some(table), _) => run.move_table(table, &new)?,
                (None, "SO") => run.move_noted(place, "tsql_sequence", &stored, &new)?,
                (None, _) => {
                    run.move_noted(place, "tsql_module", &stored, &new)?;
                    run.move_triggers(place, &stored, Some(&new))?;
                }
            }
            run.move_permissions(place, &On::object(&stored), None)
        })
    }

    /// Constraints move with their table.
    fn refuse_taken_constraints(&mut self, table: &Table, target: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        for found in self.named_constraints(table)?.into_iter().filter(|own| own.kind != "I") {
            let stored = stored_name(target, &found.name);
            if has_object(self.s.db.connection()?, &table.schema, &stored).map_err(fail)? {
                return Err(SchemaError::Taken { name: found.name }.into());
            }
        }
        Ok(())
    }
}
