//! The state of running statements: outcome of a statement list, a batch's variables, a session's
//! state.

use std::sync::Arc;

use tdekit_wire_tds::DoneKind;

use super::cursors::Cursors;
use super::guards::Guards;
use super::identities::Identities;
use super::options::Options;
use super::tallies::Origin;
use super::tran::Transaction;
use crate::bind::Variables;
use crate::value::Val;

/// Outcome of a list of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Next,
    Break,
    Continue,
    /// The statements behind the label of this number come next.
    Goto(u32),
    Return(i32),
    /// The batch is over because of an error that has been reported.
    Abort,
    /// The client cancelled.
    Stop,
}

/// The variables of a running batch or procedure.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) vars: Vec<Val>,
    pub(crate) variables: Variables,
    pub(crate) kind: DoneKind,
    /// The procedure's name; empty in a batch.
    pub(crate) procedure: String,
    /// The text that contains its statements.
    pub(crate) origin: Option<Arc<Origin>>,
}

impl Frame {
    /// Returns a frame without variables.
    pub(crate) fn empty() -> Frame {
        Frame {
            vars: Vec::new(),
            variables: Variables::default(),
            kind: DoneKind::InProcedure,
            procedure: String::new(),
            origin: None,
        }
    }
}

/// The state that a session keeps between statements.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) database: String,
    pub(crate) options: Options,
    pub(crate) rowcount: i64,
    pub(crate) error: i32,
    pub(crate) identities: Identities,
    pub(crate) transaction: Transaction,
    pub(crate) guards: Guards,
    /// A statement of this request ran out of memory.
    pub(crate) short: bool,
    pub(crate) nest: u32,
    /// The database of the procedure that is running: its objects have the procedure's owner.
    pub(crate) chain: Option<String>,
    /// INSERT .. EXEC is running: the number of transactions that were open when it began,
    /// including its own.
    pub(crate) capturing: Option<i32>,
    pub(crate) cursors: Cursors,
    /// The time of the running statement.
    pub(crate) now: crate::value::datetime::Moment,
}
