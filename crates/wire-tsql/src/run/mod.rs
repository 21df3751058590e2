//! The interpreter: sessions, compiled batches, and their connection to SQLite.

pub(crate) mod activity;
pub(crate) mod bulk;
pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod compile;
pub(crate) mod data;
pub(crate) mod db;
pub(crate) mod ddl;
pub(crate) mod describe;
pub(crate) mod exec;
pub(crate) mod integers;
pub(crate) mod messages;
pub(crate) mod options;
pub(crate) mod procedure;
pub(crate) mod rowwise;
pub(crate) mod security;
pub(crate) mod session;
pub(crate) mod transaction;

use tdekit_wire_tds::{DoneKind, Message};

use crate::bind::Variables;
use crate::value::Val;

/// How a list of statements ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Next,
    Break,
    Continue,
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
    /// Temporary tables that end with it.
    pub(crate) tables: Vec<String>,
}

impl Frame {
    /// Without any variables.
    pub(crate) fn empty() -> Frame {
        Frame {
            vars: Vec::new(),
            variables: Variables::default(),
            kind: DoneKind::InProcedure,
            procedure: String::new(),
            tables: Vec::new(),
        }
    }
}

/// What a session remembers between statements.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) database: String,
    pub(crate) options: options::Options,
    pub(crate) rowcount: i64,
    pub(crate) error: i32,
    /// The last identity value of the session, and of the scope.
    pub(crate) identity: Option<i64>,
    pub(crate) scope_identity: Option<i64>,
    pub(crate) trancount: i32,
    /// The number of the outermost transaction.
    pub(crate) transaction: u64,
    /// Errors that CATCH blocks are handling, the innermost last.
    pub(crate) caught: Vec<Message>,
    pub(crate) doomed: bool,
    pub(crate) nest: u32,
    pub(crate) tries: u32,
    /// INSERT .. EXEC is running: the number of transactions that were open when it began, its own
    /// among them.
    pub(crate) capturing: Option<i32>,
    /// The open transaction is that of INSERT .. EXEC itself: clients are not told of it.
    pub(crate) hidden: bool,
    /// The time of the running statement.
    pub(crate) now: crate::value::datetime::Moment,
}
