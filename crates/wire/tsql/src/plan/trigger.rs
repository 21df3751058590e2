//! Triggers as a database has them.

use crate::ast::trigger::Events;
use crate::name::schema_and_name;

/// The start of the names in SQLite of `inserted` and `deleted`. Like table variables they are
/// temporary tables whose rows no ROLLBACK changes.
pub(crate) const LOGICAL: &str = "#@~";

/// Columns that a change sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Of an INSERT.
    All,
    /// Of a DELETE.
    None,
    Named(Vec<String>),
}

impl Changed {
    pub(crate) fn has(&self, column: &str) -> bool {
        match self {
            Changed::All => true,
            Changed::None => false,
            Changed::Named(names) => names.iter().any(|name| name.eq_ignore_ascii_case(column)),
        }
    }
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// The name in SQLite of its table or view, in whose schema it is.
    pub(crate) table: String,
    /// Without a schema.
    pub(crate) name: String,
    /// INSTEAD OF, in place of AFTER.
    pub(crate) instead: bool,
    pub(crate) events: Events,
    pub(crate) disabled: bool,
    /// The text of CREATE TRIGGER.
    pub(crate) text: String,
}

impl Trigger {
    /// Returns its name as those of other objects are stored: with its schema, unless that is dbo.
    pub(crate) fn stored(&self) -> String {
        match schema_and_name(&self.table).0 {
            schema if schema == "dbo" => self.name.clone(),
            schema => format!("{schema}.{}", self.name),
        }
    }
}

/// A table whose rows a change of another one may change, and the columns of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The name in SQLite.
    pub(crate) table: String,
    pub(crate) columns: Vec<String>,
}
