//! Table-valued parameters of a compiled text: their tables, and the arguments for them.

use std::sync::Arc;

use tdekit_wire_tds::table::TableValue;

use crate::ast::ProcParam;
use crate::ast::defined::UserType;
use crate::bind::{Variables, parameter_table};
use crate::error::Result;

/// The state in which a text's user-defined types were found: the version of the catalog, and the
/// database. None for a text that names none.
pub(crate) type Typed = Option<(u64, String)>;

/// The argument for a table-valued parameter.
#[derive(Debug, Clone)]
pub(crate) enum GivenTable {
    /// A table variable: the name in SQLite, and its type if it has one.
    Variable { stored: String, of: Option<Arc<UserType>> },
    /// From the client.
    Sent(Arc<TableValue>),
}

/// Parameters with tables: the position of each, and of its argument.
pub(crate) type Tables = Vec<(usize, Option<usize>)>;

/// Declares parameters as the first variables, each at its own position.
pub(crate) fn declare_parameters(params: &[ProcParam]) -> Result<Variables> {
    let mut variables = Variables::default();
    for (at, param) in params.iter().enumerate() {
        match param.table() {
            Some(of) => {
                variables.declare_table(&param.name, parameter_table(&param.name, at), of)?;
            }
            None => {
                variables.declare(&param.name, param.ty)?;
            }
        }
    }
    Ok(variables)
}
