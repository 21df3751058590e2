//! ALTER TABLE.

use std::sync::Arc;

use tdekit_wire_tds::messages::DefinedError;

use super::column::User;
use super::fill::{Fill, fill_rows};
use super::table::column_text;
use crate::ast::{AlterTable, ColumnDef, Constraint, ConstraintKind, Filled, Name};
use crate::bind::check::calls_functions;
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::model::{Trust, schema_and_name};
use crate::run::catalog::{Table, TableKind};
use crate::run::state::Frame;
use crate::run::work::Run;

/// The errors of keys, foreign keys and defaults that 1750 follows in SQL Server.
const OF_CONSTRAINTS: [i32; 17] = [
    1505, 1752, 1753, 1754, 1767, 1769, 1770, 1773, 1776, 1778, 1779, 1781, 1785, 1787, 1909, 1911,
    8111,
];

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
            AlterTable::AlterColumn(column) => run.alter_column(&table, column, frame),
            AlterTable::DropConstraint(names, if_exists) => names
                .iter()
                .try_for_each(|name| run.s.ddl().drop_constraint(&table, name, *if_exists)),
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
        let users = self.s.ddl().users_of_dropped(table, name)?;
        self.refuse_used("DROP COLUMN", name, &users, frame)?;
        let sql = format!("ALTER TABLE {} DROP COLUMN {}", table.sql(), quote(name));
        self.s.db.sql(&sql, &table.database)?;
        self.s.ddl().forget_column(table, name)
    }

    fn alter_column(&mut self, table: &Table, made: &ColumnDef, frame: &Frame) -> Result<()> {
        let mut made = made.clone();
        let place = (table.schema.as_str(), table.database.as_str());
        let mut ddl = self.s.ddl();
        ddl.resolve_columns(std::slice::from_mut(&mut made), place, false)?;
        if let Some(change) = ddl.changed_column(table, &made)? {
            let users = ddl.users_of(table, &change)?;
            self.refuse_used("ALTER COLUMN", change.column(), &users, frame)?;
            self.s.ddl().alter_column(table, &made, &change)?;
        }
        self.s.ddl().note_aliases(&table.schema, &table.name, &[made], true)
    }

    /// Fails if anything uses a column, with a message for each object before the error.
    fn refuse_used(
        &mut self,
        change: &'static str,
        column: &str,
        users: &[User],
        frame: &Frame,
    ) -> Result<()> {
        for (kind, user) in users {
            let (kind, name, column) = ((*kind).to_owned(), user.clone(), column.to_owned());
            self.tell_before(&Error::ColumnInUse { kind, name, column }, frame);
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
        self.tell_before(&error, frame);
        DefinedError::NoConstraint {}.into()
    }

    /// Enables or disables constraints; with `check` their rows are checked, and trusted again.
    fn switch_constraints(
        &mut self,
        table: &Arc<Table>,
        names: &[String],
        (enable, check): (bool, bool),
        frame: &Frame,
    ) -> Result<()> {
        let wanted = match self.s.ddl().switched(table, names, (enable, check))? {
            Ok(wanted) => wanted,
            Err(error) => {
                self.tell_before(&error, frame);
                return Err(Error::SwitchFailed {});
            }
        };
        for found in &wanted {
            if !enable {
                self.s.ddl().disable(table, found)?;
                continue;
            }
            if check && found.trust != Trust::Full && found.is_by_query()? {
                let condition = crate::parse::check_condition(&found.text)?;
                self.refuse_violating(table, &found.name, &condition)?;
            }
            self.s.ddl().enable(table, found, check)?;
        }
        Ok(())
    }

    /// Sends an error before the one that the statement ends with, which is the one that CATCH
    /// sees. A disconnected client is noticed at the end of the statement.
    fn tell_before(&mut self, error: &Error, frame: &Frame) {
        if !self.s.state.guards.catch_errors() {
            let _ = self.sink.message(&self.s.position.message(error, &frame.procedure));
        }
    }

    /// Adds a constraint; `column` is the one in whose definition it appears. With `unchecked`,
    /// rows may violate a CHECK or a foreign key.
    fn add_constraint(
        &mut self,
        table: &Arc<Table>,
        made: &Constraint,
        column: Option<&str>,
        unchecked: bool,
    ) -> Result<()> {
        let ConstraintKind::Check(condition, text) = &made.kind else {
            return self.s.ddl().add_constraint(table, made, column, unchecked);
        };
        if !calls_functions(condition) {
            return self.s.ddl().add_constraint(table, made, column, unchecked);
        }
        let columns: Vec<String> = column.map(str::to_owned).into_iter().collect();
        let mut ddl = self.s.ddl();
        let name = ddl.check_name(table, made.name.as_deref(), text, &columns)?;
        ddl.admit_added_check(table, (condition, text))?;
        match unchecked {
            true => ddl.note_trust(table, &name, Trust::Untrusted, None)?,
            false => self.refuse_violating(table, &name, condition)?,
        }
        self.s.ddl().note_check(table, name, columns, text)
    }

    fn add_column(&mut self, table: &Arc<Table>, column: &ColumnDef) -> Result<()> {
        let column = self.s.ddl().column_to_add(table, column)?;
        if column.filled == Filled::Version {
            return self.s.ddl().add_version(table, &column);
        }
        let column = &column;
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
        self.s.db.ignore_checks(true, &self.s.state.database)?;
        let added =
            self.s.db.sql(&sql, &table.database).and_then(|()| self.fill((table, column), &fill));
        self.s.db.ignore_checks(false, &self.s.state.database)?;
        added?;
        self.s.ddl().note_added(table, column, later && !nullable)
    }

    /// Returns the values that rows get in a column that is added.
    fn fill_of(&mut self, table: &Table, column: &ColumnDef) -> Result<Fill> {
        match self.s.ddl().fill_of(table, column)? {
            Fill::Kept(kept) => {
                let value = self.kept_value(&kept)?;
                self.s.ddl().fill_with(table, column, &value)
            }
            known => Ok(known),
        }
    }

    fn fill(&mut self, (table, column): (&Table, &ColumnDef), fill: &Fill) -> Result<()> {
        match fill {
            Fill::Rows { value, sequences } => {
                self.counting(sequences, |run| fill_rows(run.s, (table, column), value))
            }
            Fill::Null | Fill::Value(_) | Fill::Kept(_) => self.s.ddl().fill(table, column, fill),
        }
    }
}
