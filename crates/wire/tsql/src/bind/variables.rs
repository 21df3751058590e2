//! The variables of a batch or procedure.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use crate::ast::Name;
use crate::ast::defined::UserType;
use crate::error::{Error, Result};

/// A variable: its slot and type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Variable {
    pub(crate) slot: usize,
    pub(crate) ty: SqlType,
}

/// Variables of a batch or procedure, by their names in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables {
    by_name: HashMap<String, Variable>,
    /// Table variables: name in lower case to the temporary table that holds it.
    pub(crate) tables: HashMap<String, String>,
    /// The types of table variables that have one.
    pub(crate) typed: HashMap<String, TableOf>,
    pub(crate) types: Vec<SqlType>,
}

/// Returns the name of the table of a parameter at this position.
pub(crate) fn parameter_table(name: &str, at: usize) -> String {
    format!("#{name}~p{at}")
}

/// The type of a table variable or parameter.
#[derive(Debug, Clone)]
pub(crate) struct TableOf {
    pub(crate) of: Arc<UserType>,
    /// A parameter.
    pub(crate) readonly: bool,
}

impl Variables {
    pub(crate) fn declare(&mut self, name: &str, ty: SqlType) -> Result<usize> {
        let slot = self.types.len();
        let key = name.to_lowercase();
        if self.tables.contains_key(&key)
            || self.by_name.insert(key, Variable { slot, ty }).is_some()
        {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        self.types.push(ty);
        Ok(slot)
    }

    /// Declares a table-valued parameter, which is in this table; its place among the values stays
    /// empty.
    pub(crate) fn declare_table(
        &mut self,
        name: &str,
        real: String,
        of: &Arc<UserType>,
    ) -> Result<()> {
        let key = name.to_lowercase();
        if self.by_name.contains_key(&key) || self.tables.insert(key.clone(), real).is_some() {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        self.typed.insert(key, TableOf { of: of.clone(), readonly: true });
        self.types.push(SqlType::Int);
        Ok(())
    }

    /// Refuses a change of a READONLY parameter.
    pub(crate) fn refuse_readonly(&self, target: &Name) -> Result<()> {
        let typed = self.typed.get(&target.object().to_lowercase());
        match typed.is_some_and(|typed| typed.readonly) {
            true => Err(DefinedError::ReadOnly { name: target.object().to_owned() }.into()),
            false => Ok(()),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<Variable> {
        self.by_name
            .get(&name.to_lowercase())
            .copied()
            .ok_or_else(|| Error::UndeclaredVariable { name: name.to_owned() })
    }
}

/// Undeclared parameters, by their names in lower case, with the type that each gets.
pub(crate) type Undeclared = HashMap<String, Arc<OnceLock<SqlType>>>;
