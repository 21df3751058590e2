//! The parameters of a function, and what else its text may name.

use std::collections::HashMap;
use std::sync::Arc;

use super::{TableOf, parameter_table};
use crate::ast::defined::CreateFunction;
use crate::error::{Error, Result};
use crate::plan::routine::Local;
use crate::plan::scalar::{Node, Scalar};

/// The parameters of the function whose text is being bound, by their names in any case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    values: HashMap<String, Scalar>,
    /// Table-valued ones: the table, and its type.
    tables: HashMap<String, (String, TableOf)>,
    /// Table variables of a function of statements.
    locals: HashMap<String, Arc<Local>>,
    row_count: Option<usize>,
    fetch_status: Option<usize>,
}

impl Parameters {
    /// Parameters of which nothing is known but their types.
    pub(crate) fn open(made: &CreateFunction) -> Parameters {
        let mut parameters = Parameters::default();
        for (at, param) in made.params.iter().enumerate() {
            if let Some(of) = param.table().cloned() {
                let table = (parameter_table(&param.name, at), TableOf { of, readonly: true });
                parameters.add_table(&param.name, table);
            } else {
                parameters.add(&param.name, Scalar::new(param.ty, true, Node::Var(at)));
            }
        }
        parameters
    }

    /// Adds a parameter, or a variable of a function of statements.
    pub(super) fn add(&mut self, name: &str, value: Scalar) {
        self.values.insert(name.to_lowercase(), value);
    }

    /// Adds a table-valued parameter.
    pub(super) fn add_table(&mut self, name: &str, table: (String, TableOf)) {
        self.tables.insert(name.to_lowercase(), table);
    }

    /// Adds a table variable.
    pub(super) fn add_local(&mut self, name: &str, local: Arc<Local>) {
        self.locals.insert(name.to_lowercase(), local);
    }

    /// Returns true if a variable or a table variable has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(&name.to_lowercase()) || self.local(name).is_some()
    }

    pub(super) fn find(&self, name: &str) -> Result<Scalar> {
        let found = self.values.get(&name.to_lowercase()).cloned();
        found.ok_or_else(|| Error::UndeclaredVariable { name: name.to_owned() })
    }

    pub(super) fn table(&self, name: &str) -> Option<&(String, TableOf)> {
        self.tables.get(&name.to_lowercase())
    }

    pub(super) fn local(&self, name: &str) -> Option<&Arc<Local>> {
        self.locals.get(&name.to_lowercase())
    }

    pub(super) fn locals(&self) -> impl Iterator<Item = &Arc<Local>> {
        self.locals.values()
    }

    /// The variable that has `@@ROWCOUNT` in a function of statements.
    pub(super) fn row_count(&self) -> Option<usize> {
        self.row_count
    }

    pub(super) fn set_row_count(&mut self, slot: usize) {
        self.row_count = Some(slot);
    }

    /// The variable that has `@@FETCH_STATUS`, behind the first DECLARE of a cursor.
    pub(super) fn fetch_status(&self) -> Option<usize> {
        self.fetch_status
    }

    pub(super) fn set_fetch_status(&mut self, slot: usize) {
        self.fetch_status = Some(slot);
    }
}
