//! A query or a change, bound to the catalog: its plan, and the use of its rows.

use std::sync::Arc;

use tdekit_wire_tds::{Command, SqlType};

use crate::ast::OutputInto;
use crate::bind::instead::Instead;
use crate::bind::merge::Merging;
use crate::bind::rowwise::Rowwise;
use crate::plan::trigger::Changed;
use crate::render::{Rendered, Texts};
use crate::run::catalog::Table;

/// A statement bound to the catalog.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) plan: Rendered,
    pub(crate) effect: Effect,
}

#[derive(Debug)]
pub(crate) enum Effect {
    /// Rows to the client.
    Rows,
    /// Rows into variables: slots and values, from columns of these types.
    Assign(Vec<(usize, crate::plan::scalar::Scalar)>, Vec<SqlType>),
    Change {
        table: Arc<Table>,
        command: Command,
        /// The columns that it sets.
        changed: Changed,
        identity: bool,
        explicit_identity: bool,
        /// The target of the rows of OUTPUT, if not the client.
        into: Option<OutputInto>,
    },
    /// UPDATE with OUTPUT or variables.
    Rowwise {
        change: Box<Rowwise>,
        /// Sets the columns of one row, if there are any.
        update_row: Option<String>,
        into: Option<OutputInto>,
    },
    Merge {
        merging: Box<Merging>,
        texts: Texts,
        into: Option<OutputInto>,
    },
    /// A change whose rows an INSTEAD OF trigger gets.
    Instead(Box<Instead>),
    /// SELECT INTO this table.
    Into(crate::ast::Name),
}
