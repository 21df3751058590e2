//! Lists of the SQL that the front end covers; docs/tsql.md is checked against them.

use crate::functions::table::{Binding, names};
use crate::parse::FUNCTIONS;
use crate::parse::options::{SWITCHES, VALUES};
use crate::run::catalog::{texts, views};

/// T-SQL's names of everything that the front end knows, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Scalar functions and `@@` variables.
    pub functions: Vec<&'static str>,
    /// Aggregates.
    pub aggregates: Vec<&'static str>,
    /// Table-valued functions.
    pub tables: Vec<&'static str>,
    /// Window functions other than aggregates.
    pub window: Vec<&'static str>,
    /// Options of SET.
    pub options: Vec<&'static str>,
    /// System views that are filled here; others are the host's.
    pub views: Vec<&'static str>,
    /// System procedures.
    pub procedures: Vec<&'static str>,
}

/// Returns the lists.
pub fn coverage() -> Coverage {
    Coverage {
        functions: names(|binding| {
            !matches!(binding, Binding::Aggregate | Binding::Grouping | Binding::Window(_))
        }),
        aggregates: names(|binding| matches!(binding, Binding::Aggregate | Binding::Grouping)),
        tables: FUNCTIONS
            .iter()
            .copied()
            .chain(texts::FUNCTIONS.iter().map(|(name, _)| *name))
            .collect(),
        window: names(|binding| matches!(binding, Binding::Window(_))),
        options: SWITCHES.iter().chain(VALUES).copied().collect(),
        views: views::all()
            .map(|view| view.name)
            .chain(texts::VIEWS.iter().map(|(name, _)| *name))
            .filter(|name| !name.starts_with("sys.spt_") && !name.contains('~'))
            .collect(),
        procedures: crate::run::system_procedures::PROCEDURES
            .iter()
            .chain(texts::PROCEDURES.iter().map(|(name, _)| name))
            .copied()
            .collect(),
    }
}

/// Parses a batch.
///
/// # Errors
/// The message that a client would see.
pub fn check_syntax(text: &str) -> Result<(), tdekit_wire_tds::Message> {
    crate::parse::parse(text, true).map(|_| ()).map_err(|at| at.error.message(at.line, ""))
}
