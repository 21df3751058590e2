//! ALTER TABLE.

use std::sync::Arc;

use tdekit_wire_tds::messages::DefinedError;

use super::super::db::failure;
use super::fill::Fill;
use super::table::{NamedConstraint, column_text};
use crate::ast::{AlterTable, ColumnDef, Filled, Name};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::model::{Index, Named, names, schema_and_name};
use crate::run::catalog::{Table, TableColumn, TableKind};
use crate::run::state::Frame;
use crate::run::work::Run;

/// The errors of keys, foreign keys and defaults that 1750 follows in SQL Server.
const OF_CONSTRAINTS: [i32; 17] = [
    1505, 1752, 1753, 1754, 1767, 1769, 1770, 1773, 1776, 1778, 1779, 1781, 1785, 1787, 1909, 1911,
    8111,
];

/// Returns the computed columns that use a column.
pub(super) fn computed_of(table: &Table, name: &str) -> Vec<(&'static str, String)> {
    let uses = |own: &&TableColumn| match &own.filled {
        Filled::Computed { text, .. } => names(text, name),
        _ => false,
    };
    table.columns.iter().filter(uses).map(|own| ("column", own.name.clone())).collect()
}

impl Run<'_> {
    pub(crate) fn alter_table(
        &mut self,
        name: &Name,
        change: &AlterTable,
        frame: &Frame,
    ) -> Result<()> {
        let table = self.altered(name)?;
        self.define(&table.schema.clone(), |run| match change {
            AlterTable::DropColumn(columns, if_exists) => {
                let mut names = columns.iter();
                names.try_for_each(|name| run.drop_column(&table, name, *if_exists, frame))
            }
            AlterTable::AlterColumn(column) => {
                let mut column = column.clone();
                let place = (table.schema.as_str(), table.database.as_str());
                run.resolve_columns(std::slice::from_mut(&mut column), place, false)?;
                run.alter_column(&table, &column, frame)?;
                run.note_aliases(&table.schema, &table.name, &[column], true)
            }
            AlterTable::DropConstraint(names, if_exists) => {
                names.iter().try_for_each(|name| run.drop_constraint(&table, name, *if_exists))
            }
            AlterTable::Switch { names, enable, check } => {
                run.switch_constraints(&table, names, (*enable, *check), frame)
            }
            AlterTable::Add(columns, constraints, unchecked) => {
                for (at, column) in columns.iter().enumerate() {
                    let before = &columns[..at];
                    if before.iter().any(|own| own.name.eq_ignore_ascii_case(&column.name)) {
                        let (name, table) = (column.name.clone(), table.name.clone());
                        return Err(Error::DuplicateColumn { name, table });
                    }
                    run.add_column(&table, column)?;
                }
                let table = if columns.is_empty() {
                    table
                } else {
                    run.s.db.changed();
                    run.altered(name)?
                };
                for column in columns {
                    for made in &column.constraints {
                        run.add_constraint(&table, made, Some(&column.name), *unchecked)?;
                    }
                }
                let mut made = constraints.iter();
                made.try_for_each(|made| run.add_constraint(&table, made, None, *unchecked))
            }
        })
    }

    fn altered(&mut self, name: &Name) -> Result<Arc<Table>> {
        let found = self.find(name)?.filter(|table| table.kind == TableKind::Table);
        found.ok_or_else(|| Error::AlterMissing { name: name.text() })
    }

    /// Each object that uses the column gets a separate message before the final one of the
    /// statement, which is the one that CATCH sees.
    fn drop_column(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
        frame: &Frame,
    ) -> Result<()> {
        let Some(column) = table.column(name) else {
            let (column, table) = (name.to_owned(), schema_and_name(&table.name).1);
            let missing = Error::NoColumn { change: "DROP COLUMN", column, table };
            return if if_exists { Ok(()) } else { Err(missing) };
        };
        let name = &column.name;
        let named = self.named_constraints(table)?;
        let objects = named.iter().filter(|found| found.kind != "I" && found.uses(name));
        let objects = objects.map(|found| ("object", found.name.clone()));
        let computed = computed_of(table, name);
        let objects = objects.chain(computed);
        let users: Vec<_> = objects.chain(self.indexes_on(table, name, &named, false)?).collect();
        self.refuse_used("DROP COLUMN", name, &users, frame)?;
        let sql = format!("ALTER TABLE {} DROP COLUMN {}", table.sql(), quote(name));
        self.sql(&sql, &table.database)?;
        self.forget_column(table, name)
    }

    /// Fails if anything uses a column, with a message for each object before the error.
    pub(super) fn refuse_used(
        &mut self,
        change: &'static str,
        column: &str,
        users: &[(&'static str, String)],
        frame: &Frame,
    ) -> Result<()> {
        for (kind, user) in users {
            let (kind, name, column) = ((*kind).to_owned(), user.clone(), column.to_owned());
            let error = Error::ColumnInUse { kind, name, column };
            if self.s.state.tries == 0 {
                // A disconnected client is noticed at the end of the statement.
                let _ = self.sink.message(&self.s.position.message(&error, &frame.procedure));
            }
        }
        match users {
            [] => Ok(()),
            _ => Err(Error::ColumnIsUsed { change, column: column.to_owned() }),
        }
    }

    /// Sends the error of a constraint that was not made, and returns the one that SQL Server
    /// sends behind it; any other error as it is. `made` is the table of CREATE TABLE.
    pub(crate) fn refused_constraint(
        &mut self,
        error: Error,
        made: Option<&Name>,
        frame: &Frame,
    ) -> Error {
        let of_constraint = match &error {
            Error::ObjectExists { name } => {
                !made.is_some_and(|table| name.eq_ignore_ascii_case(table.object()))
            }
            error => OF_CONSTRAINTS.contains(&error.code().0),
        };
        if !of_constraint {
            return error;
        }
        if self.s.state.tries == 0 {
            // A disconnected client is noticed at the end of the statement.
            let _ = self.sink.message(&self.s.position.message(&error, &frame.procedure));
        }
        DefinedError::NoConstraint {}.into()
    }

    /// Returns the indexes that contain a column or have it in their condition, except those of
    /// constraints; only unique ones if so asked.
    pub(super) fn indexes_on(
        &mut self,
        table: &Table,
        column: &str,
        named: &[Named],
        unique: bool,
    ) -> Result<Vec<(&'static str, String)>> {
        let kernels = self.s.db.kernels.clone();
        let all = crate::run::catalog::facts::indexes(self.s.db.connection()?, table, named)
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        let at = (1..).zip(&table.columns).find(|(_, own)| own.name == column).map(|(at, _)| at);
        let in_filter = |index: &Index| {
            let own = named.iter().find(|found| Some(&found.name) == index.name.as_ref());
            own.is_some_and(|found| found.uses(column))
        };
        let has = |index: &Index| {
            let used = index.columns.iter().any(|(own, _)| Some(*own) == at) || in_filter(index);
            !index.constraint && (index.unique || !unique) && used
        };
        let found = all.into_iter().filter(has).filter_map(|index| index.name);
        Ok(found.map(|name| ("index", name)).collect())
    }

    fn add_column(&mut self, table: &Arc<Table>, column: &ColumnDef) -> Result<()> {
        if table.column(&column.name).is_some() {
            let (name, table) = (column.name.clone(), table.name.clone());
            return Err(Error::DuplicateColumn { name, table });
        }
        if column.identity.is_some() {
            return Err(Error::unsupported("ALTER TABLE ADD of an IDENTITY column"));
        }
        let mut column = column.clone();
        let place = (table.schema.as_str(), table.database.as_str());
        self.resolve_columns(std::slice::from_mut(&mut column), place, false)?;
        self.give_type(table, &mut column)?;
        if column.filled == Filled::Version {
            return self.add_version(table, &column);
        }
        let column = &column;
        let (schema, database) = (&table.schema, &table.database);
        self.check_defaults(schema, database, &table.name, std::slice::from_ref(column))?;
        let fill = self.fill_of(table, column)?;
        let nullable = column.nullable != Some(false);
        let later = matches!(fill, Fill::Rows { .. });
        let added = ColumnDef { nullable: Some(nullable || later), ..column.clone() };
        let mut text = column_text(&added, false)?;
        match &fill {
            Fill::Value(value) if !nullable => text.push_str(&format!(" DEFAULT {value}")),
            _ => {}
        }
        let sql = format!("ALTER TABLE {} ADD COLUMN {text}", table.sql());
        self.ignoring_checks(|run| {
            run.sql(&sql, &table.database)?;
            run.fill(table, column, &fill)
        })?;
        if later && !nullable {
            self.write_column(table, column, true)?;
        }
        self.note_columns(&table.schema, &table.name, std::slice::from_ref(column))?;
        let Some(default) = &column.default else { return Ok(()) };
        let columns = vec![column.name.clone()];
        let given = column.default_name.as_deref();
        let name = self.constraint_name(table, given, "DF", &columns)?;
        let text = default.clone();
        let named = NamedConstraint { name, kind: "D", columns, text };
        self.note_constraints(&table.schema, &table.name, &[named])
    }

    /// A `rowversion` column: rows that are there get versions.
    fn add_version(&mut self, table: &Arc<Table>, column: &ColumnDef) -> Result<()> {
        if table.version().is_some() {
            return Err(Error::VersionTwice { table: schema_and_name(&table.name).1 });
        }
        let nullable = ColumnDef { nullable: Some(true), ..column.clone() };
        let text = column_text(&nullable, false)?;
        let sql = format!("ALTER TABLE {} ADD COLUMN {text}", table.sql());
        self.ignoring_checks(|run| run.sql(&sql, &table.database))?;
        self.note_columns(&table.schema, &table.name, std::slice::from_ref(column))?;
        self.s.db.changed();
        let made = self.s.db.stored(&table.schema, &table.database, &table.name)?;
        match made {
            Some(made) => self.fill_versions(&made, &column.name),
            None => Ok(()),
        }
    }
}
