//! The views and functions whose text is being bound.
//!
//! Only the methods of [`Binder`] here change it: each binds something within, and leaves it as it
//! was, whatever comes of that.

use super::{Binder, Parameters};
use crate::error::{Error, Result};
use crate::plan::table::Table;

/// Maximum nesting of views and functions of one query.
const MAX_NESTING: usize = 30;

/// The views and functions around the text that is being bound.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    /// The full names of views and functions of one query, the outermost first.
    names: Vec<String>,
    database: Option<String>,
    parameters: Option<Parameters>,
}

impl Expansion {
    /// The database of unqualified names; none in the statement itself.
    pub(super) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The parameters of the innermost function.
    pub(super) fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_ref()
    }

    pub(super) fn parameters_mut(&mut self) -> Option<&mut Parameters> {
        self.parameters.as_mut()
    }

    fn enter(&mut self, table: &Table) -> Result<()> {
        let name = table.full_name();
        if self.names.contains(&name) || self.names.len() > MAX_NESTING {
            return Err(Error::NestLevel {});
        }
        self.names.push(name);
        Ok(())
    }
}

impl Binder<'_> {
    /// Binds the query of a view or of a function of one query, in its own database, with no name
    /// around in scope.
    ///
    /// # Errors
    /// For one that is within itself, or too deep.
    pub(super) fn expand<T>(
        &mut self,
        table: &Table,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.expansion.enter(table)?;
        let database = Some(table.database.clone());
        let made = self.apart(|binder| binder.in_database(database, work));
        self.expansion.names.pop();
        made
    }

    /// Binds with the unqualified names of a database; None for that of the session.
    pub(super) fn in_database<T>(
        &mut self,
        database: Option<String>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let around = std::mem::replace(&mut self.expansion.database, database);
        let made = work(self);
        self.expansion.database = around;
        made
    }

    /// Binds the text of a function that has these parameters.
    pub(super) fn with_parameters<T>(
        &mut self,
        parameters: Parameters,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let around = self.expansion.parameters.replace(parameters);
        let made = work(self);
        self.expansion.parameters = around;
        made
    }
}
