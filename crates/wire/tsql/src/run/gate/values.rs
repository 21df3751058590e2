//! Errors of definitions as a login sees them: without values of rows that it may not read.

use super::{Gate, On};
use crate::ast::Name;
use crate::error::Error;
use crate::name::is_global;
use crate::plan::access::Right;
use crate::plan::table::Table;

impl Gate<'_> {
    /// As [`Gate::hide_values`], of a table that a statement names.
    pub(crate) fn hide_values_of(&mut self, name: &Name, error: Error) -> Error {
        match self.db.find(name, &self.state.database) {
            Ok(Some(table)) => self.hide_values(&table, error),
            _ => without_values(error),
        }
    }

    /// Takes the values of rows out of an error of a definition, for which SELECT on the table is
    /// not needed, unless the login has it.
    fn hide_values(&mut self, table: &Table, error: Error) -> Error {
        if self.db.who.sysadmin || table.schema == "temp" || is_global(&table.name) {
            return error;
        }
        let rights = self.db.rights(&table.database);
        match rights.is_ok_and(|own| own.holds(Right::Select, &On::object(&table.name))) {
            true => error,
            false => without_values(error),
        }
    }
}

fn without_values(error: Error) -> Error {
    let hidden = || "***".to_owned();
    match error {
        Error::BadConversion { from, to, .. } => Error::BadConversion { from, value: hidden(), to },
        Error::IntOverflowText { .. } => Error::IntOverflowText { value: hidden() },
        Error::SmallOverflowText { to, kind, .. } => {
            Error::SmallOverflowText { value: hidden(), to, kind }
        }
        Error::SmallOverflow { to, .. } => Error::ResultOverflow { to },
        Error::Truncation { table, column, .. } => {
            Error::Truncation { table, column, value: hidden() }
        }
        Error::DuplicateInKey { table, index, .. } => {
            Error::DuplicateInKey { table, index, key: hidden() }
        }
        // of a function of the database, which may have put values into any text
        Error::Raised(mut message) => {
            message.text = hidden();
            Error::Raised(message)
        }
        other => other,
    }
}
