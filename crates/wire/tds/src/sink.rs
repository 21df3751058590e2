//! Interface between the protocol and T-SQL: how an interpreter is called, and how it emits its
//! results.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::types::{Column, Message, Parameter, SqlType, Value};

/// The receiver's wish for more.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue.
    Continue,
    /// The client cancelled or disconnected: end the batch at once, send nothing more.
    Stop,
}

/// Kind of a unit that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneKind {
    /// A statement of a batch.
    Statement,
    /// A statement inside of a procedure or of `sp_executesql`.
    InProcedure,
    /// A procedure that a batch called by EXEC; its return status precedes it.
    Procedure,
}

/// The statement that a DONE token names; by it, clients distinguish counts of changed rows from
/// those of SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command(pub u16);

impl Command {
    /// A statement without a number here: SET, IF, PRINT, DDL ...
    pub const OTHER: Command = Command(0);
    /// SELECT that returns rows.
    pub const SELECT: Command = Command(0xC1);
    /// INSERT.
    pub const INSERT: Command = Command(0xC3);
    /// DELETE.
    pub const DELETE: Command = Command(0xC4);
    /// UPDATE.
    pub const UPDATE: Command = Command(0xC5);
    /// CREATE TABLE.
    pub const CREATE_TABLE: Command = Command(0xC6);
    /// DROP TABLE.
    pub const DROP_TABLE: Command = Command(0xC7);
    /// ROLLBACK.
    pub const ROLLBACK: Command = Command(0xD2);
    /// BEGIN TRANSACTION.
    pub const BEGIN: Command = Command(0xD4);
    /// COMMIT.
    pub const COMMIT: Command = Command(0xD5);
    /// EXECUTE.
    pub const EXECUTE: Command = Command(0xE0);
    /// INSERT BULK.
    pub const BULK_INSERT: Command = Command(0xF0);
    /// No statement: the acknowledgement of an Attention, as SQL Server numbers it.
    pub const ATTENTION: Command = Command(0xFD);
    /// MERGE.
    pub const MERGE: Command = Command(0x117);
}

/// A change of the environment that the client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvChange<'a> {
    /// USE.
    Database {
        /// The new database.
        new: &'a str,
        /// The previous database.
        old: &'a str,
    },
    /// SET LANGUAGE.
    Language {
        /// The new language.
        new: &'a str,
        /// The previous language; empty at login.
        old: &'a str,
    },
    /// A transaction began and has this number, not 0.
    Begin(u64),
    /// It was committed.
    Commit(u64),
    /// It was rolled back.
    Rollback(u64),
}

/// Receives results, in the order in which the client sees them.
///
/// For every statement: `columns` and its rows if it has a result, then `done`. An error is a
/// `message` of class above 10, then `done`, which the receiver marks as failed. The receiver ends
/// the whole request.
pub trait Sink {
    /// Begins a result.
    fn columns(&mut self, columns: &[Column]) -> Flow;
    /// Adds a row: a value for every column, each valid for its column's type.
    fn row(&mut self, values: &[Value<'_>]) -> Flow;
    /// Ends a statement, with its number of rows if it counts them (SELECT, INSERT, UPDATE ...).
    fn done(&mut self, kind: DoneKind, command: Command, rows: Option<u64>) -> Flow;
    /// Adds an error or information.
    fn message(&mut self, message: &Message) -> Flow;
    /// Sets the procedure's return value: before [`DoneKind::Procedure`], and at the end of a
    /// procedure that the client called.
    fn return_status(&mut self, status: i32);
    /// Adds an output parameter of a procedure that the client called; `ordinal` from 0.
    fn return_value(&mut self, ordinal: u16, name: &str, ty: SqlType, value: &Value<'_>);
    /// Reports a change of the environment.
    fn env_change(&mut self, change: EnvChange<'_>);
    /// Sends the buffered output: for RAISERROR .. WITH NOWAIT, and before any wait.
    fn flush(&mut self);
    /// Returns true if the client has cancelled. Every loop that emits no row must ask.
    fn cancelled(&self) -> bool;
    /// Returns the flag that [`Sink::cancelled`] reads, for callbacks that run beside the sink:
    /// true from the client's cancel until the end of the request.
    fn cancel_flag(&self) -> Arc<AtomicBool>;
    /// Runs `wait`, in which the session blocks until others are done or a time is over. In the
    /// meantime it counts as idle, so that its place is free for others. `wait` parks its thread,
    /// which is unparked when the client cancels. Returns false, with nothing run, if too many wait
    /// already.
    fn waiting(&self, wait: &mut dyn FnMut()) -> bool;
}

/// Time since which a client has not read its data: its connection writes it, and views of the
/// sessions read it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stall(Arc<Mutex<Option<Instant>>>);

impl Stall {
    /// Notes that the client stopped reading, or has resumed.
    pub fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Returns the time since which the client has not read; none if it reads.
    #[must_use]
    pub fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Stall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stall {}

/// The client of a connection, and its target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// `@@SPID`.
    pub spid: u16,
    /// The authenticated login.
    pub login: String,
    /// The requested database; empty for the default.
    pub database: String,
    /// `HOST_NAME()`.
    pub host: String,
    /// `APP_NAME()`.
    pub application: String,
    /// `sys.dm_exec_connections.encrypt_option`.
    pub encrypted: bool,
    /// `sys.dm_exec_connections.client_net_address`.
    pub address: String,
    /// Protocol of the connection's TLS, such as `TLS 1.3`; none without TLS. TLS that encrypted
    /// only the login does not count.
    pub tls_protocol: Option<&'static str>,
    /// Its cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub tls_cipher_suite: Option<&'static str>,
    /// State of the client's reading.
    pub stall: Stall,
}

/// A request of the transaction manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// Begins a transaction, or a nested one.
    Begin(Isolation, String),
    /// Commits, then begins another if requested.
    Commit(Option<Isolation>),
    /// Rolls back to the savepoint, or everything if the name is empty; then begins another if
    /// requested.
    Rollback(String, Option<Isolation>),
    /// Sets a savepoint.
    Save(String),
}

/// An isolation level as numbered on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// The session's current level.
    Current,
    /// READ UNCOMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
    /// SNAPSHOT.
    Snapshot,
}

/// The result that a statement will return, found without running it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// The columns of its first result; none if it has no result.
    pub columns: Vec<Column>,
    /// Its parameters as declared: name with `@`, type, true for OUTPUT.
    pub parameters: Vec<(String, SqlType, bool)>,
}

/// Opens sessions: one engine for the whole endpoint, called from many threads.
pub trait Engine: Send + Sync {
    /// Opens a session for an authenticated login, in its database.
    ///
    /// # Errors
    /// The message for the client: 4060 for a database that does not exist.
    fn open(&self, caller: &Caller) -> Result<Box<dyn Session>, Message>;
}

/// A client's session. Calls come one at a time, each from any thread; none of them panics, and
/// every failure is reported as a message to the sink.
pub trait Session: Send {
    /// Returns the session's current database.
    fn database(&self) -> String;
    /// Runs a batch. Its statements end with [`DoneKind::Statement`].
    fn batch(&mut self, text: &str, sink: &mut dyn Sink);
    /// Runs `sp_executesql`: `declarations` as in its second parameter, empty for none;
    /// `parameters` by name or position. Statements end with [`DoneKind::InProcedure`]; then
    /// come the return status and the output parameters.
    fn execute(
        &mut self,
        text: &str,
        declarations: &str,
        parameters: &[Parameter],
        sink: &mut dyn Sink,
    );
    /// Calls a procedure by its name, otherwise as [`Session::execute`].
    fn procedure(&mut self, name: &str, parameters: &[Parameter], sink: &mut dyn Sink);
    /// Determines the result of a statement without running it.
    ///
    /// # Errors
    /// The message that running it would report: syntax, a missing table ...
    fn describe(&mut self, text: &str, declarations: &str) -> Result<Description, Message>;
    /// Executes a request of the transaction manager; answers with `env_change` or an error.
    fn transaction(&mut self, request: &Transaction, sink: &mut dyn Sink);
    /// Begins INSERT BULK. [`Session::batch`] has received the statement before, and has only
    /// checked it. The columns are as the client will send them, and name the target's columns.
    ///
    /// # Errors
    /// The message for the client.
    fn bulk_begin(&mut self, insert_bulk: &str, columns: &[Column]) -> Result<(), Message>;
    /// Adds a row to it.
    ///
    /// # Errors
    /// The message for the client; the load is rolled back then.
    fn bulk_row(&mut self, values: &[Value<'_>]) -> Result<(), Message>;
    /// Ends it, and keeps the rows only if `keep`. Returns the number of rows kept.
    ///
    /// # Errors
    /// The message for the client.
    fn bulk_end(&mut self, keep: bool) -> Result<u64, Message>;
    /// Resets the session to its initial state (`sp_reset_connection`): temporary tables, SET
    /// options, database; an open transaction is rolled back unless `keep_transaction`.
    fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink);
    /// Closes the files of a database that another session needs exclusively; they are reopened on
    /// demand. A session with an open transaction keeps them. Called between requests.
    fn release(&mut self, database: &str) {
        let _ = database;
    }
    /// Releases resources that an idle session does not need. Called between requests, when none
    /// has come for a while.
    fn rest(&mut self) {}
}
