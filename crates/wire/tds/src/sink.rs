//! How an interpreter hands its results out, and how it is called: the seam between the protocol
//! and T-SQL.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::types::{Column, Message, Parameter, SqlType, Value};

/// Whether the receiver wants more.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// The client cancelled or is gone: end the batch at once, send nothing more.
    Stop,
}

/// The unit that has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneKind {
    /// A statement of a batch.
    Statement,
    /// A statement inside of a procedure or of `sp_executesql`.
    InProcedure,
    /// A procedure that a batch called by EXEC; its return status comes just before it.
    Procedure,
}

/// The statement that a DONE token names; clients tell counts of changed rows from SELECT by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command(pub u16);

impl Command {
    /// A statement that has no number of its own here: SET, IF, PRINT, DDL ...
    pub const OTHER: Command = Command(0);
    /// SELECT that gives rows.
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
        /// The database from now on.
        new: &'a str,
        /// The database until now.
        old: &'a str,
    },
    /// A transaction began and has this number, not 0.
    Begin(u64),
    /// It was committed.
    Commit(u64),
    /// It was rolled back.
    Rollback(u64),
}

/// Takes results, in the order in which the client will see them.
///
/// For every statement: `columns` and its rows if it has a result, then `done`. An error is a
/// `message` of class above 10, then `done`: the receiver marks it as failed by itself. The end
/// of the whole request is the receiver's matter.
pub trait Sink {
    /// Begins a result.
    fn columns(&mut self, columns: &[Column]) -> Flow;
    /// A row of it: a value for every column, each fitting its column's type.
    fn row(&mut self, values: &[Value<'_>]) -> Flow;
    /// A statement has ended, with so many rows if it counts them (SELECT, INSERT, UPDATE ...).
    fn done(&mut self, kind: DoneKind, command: Command, rows: Option<u64>) -> Flow;
    /// An error or information.
    fn message(&mut self, message: &Message) -> Flow;
    /// The procedure's return value: before [`DoneKind::Procedure`], and at the end of a procedure
    /// that the client called.
    fn return_status(&mut self, status: i32);
    /// An output parameter of a procedure that the client called; `ordinal` from 0.
    fn return_value(&mut self, ordinal: u16, name: &str, ty: SqlType, value: &Value<'_>);
    /// The environment has changed.
    fn env_change(&mut self, change: EnvChange<'_>);
    /// Sends the gathered output: for RAISERROR .. WITH NOWAIT, and before anything that waits.
    fn flush(&mut self);
    /// Whether the client has cancelled: to be asked in every loop that gives no row.
    fn cancelled(&self) -> bool;
    /// The flag that [`Sink::cancelled`] reads, for callbacks that run beside the sink: true from
    /// the moment in which the client cancels until the request's end.
    fn cancel_flag(&self) -> Arc<AtomicBool>;
    /// Runs `wait`, in which the session blocks until others are done or a time is over. It counts
    /// as at rest meanwhile, so that its place is another's. `wait` parks its thread, which is
    /// unparked when the client cancels. False, with nothing run, when too many wait already.
    fn waiting(&self, wait: &mut dyn FnMut()) -> bool;
}

/// Since when a client has not read what is sent to it: its connection writes it, and views of the
/// sessions read it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stall(Arc<Mutex<Option<Instant>>>);

impl Stall {
    /// The client stops reading, or has read again.
    pub fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Since when it has not read; none where it reads.
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

/// Who connects, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// `@@SPID`.
    pub spid: u16,
    /// The login, checked.
    pub login: String,
    /// The database asked for; empty for the default.
    pub database: String,
    /// `HOST_NAME()`.
    pub host: String,
    /// `APP_NAME()`.
    pub application: String,
    /// `sys.dm_exec_connections.encrypt_option`.
    pub encrypted: bool,
    /// `sys.dm_exec_connections.client_net_address`.
    pub address: String,
    /// The protocol of the connection's TLS, such as `TLS 1.3`; none where it has none. TLS that
    /// sealed only the login does not count.
    pub tls_protocol: Option<&'static str>,
    /// Its cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub tls_cipher_suite: Option<&'static str>,
    /// Whether it reads.
    pub stall: Stall,
}

/// A request of the transaction manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// Begins one, or a nested one.
    Begin(Isolation, String),
    /// Commits, then begins another if asked.
    Commit(Option<Isolation>),
    /// Rolls back to the savepoint, or all if the name is empty; then begins another if asked.
    Rollback(String, Option<Isolation>),
    /// Sets a savepoint.
    Save(String),
}

/// An isolation level as the wire numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// As the session is set.
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

/// The result that a statement will give, found without running it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// The columns of its first result; none if it has no result.
    pub columns: Vec<Column>,
    /// Its parameters as declared: name with `@`, type, whether OUTPUT.
    pub parameters: Vec<(String, SqlType, bool)>,
}

/// Opens sessions: one for the whole endpoint, called from many threads.
pub trait Engine: Send + Sync {
    /// Opens a session for a login that has been checked, in its database.
    ///
    /// # Errors
    /// The message for the client: 4060 for a database that does not exist.
    fn open(&self, caller: &Caller) -> Result<Box<dyn Session>, Message>;
}

/// A client's session. Calls come one at a time, each from any thread; none of them panics, and
/// every failure is a message to the sink.
pub trait Session: Send {
    /// The database that the session is in now.
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
    /// Calls a procedure by its name, as [`Session::execute`] otherwise.
    fn procedure(&mut self, name: &str, parameters: &[Parameter], sink: &mut dyn Sink);
    /// Finds the result of a statement without running it.
    ///
    /// # Errors
    /// The message that running it would give: syntax, a table that is not there ...
    fn describe(&mut self, text: &str, declarations: &str) -> Result<Description, Message>;
    /// A request of the transaction manager: answered by `env_change`, or an error.
    fn transaction(&mut self, request: &Transaction, sink: &mut dyn Sink);
    /// Begins INSERT BULK, which [`Session::batch`] has been given before (it does nothing then
    /// but check it): the columns as the client will send them, which name the target's columns.
    ///
    /// # Errors
    /// The message that the client shall see.
    fn bulk_begin(&mut self, insert_bulk: &str, columns: &[Column]) -> Result<(), Message>;
    /// A row of it.
    ///
    /// # Errors
    /// The message for the client; the load is rolled back then.
    fn bulk_row(&mut self, values: &[Value<'_>]) -> Result<(), Message>;
    /// Ends it, and keeps the rows only if `keep`. Gives the count of rows kept.
    ///
    /// # Errors
    /// The message that the client shall see.
    fn bulk_end(&mut self, keep: bool) -> Result<u64, Message>;
    /// Makes the session as new (`sp_reset_connection`): temporary tables, SET options, database;
    /// an open transaction is rolled back unless `keep_transaction`.
    fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink);
    /// Lets go of the files of a database, which another session wants for itself; they are opened
    /// again when they are next needed. A session with an open transaction keeps them. Called
    /// between requests.
    fn release(&mut self, database: &str) {
        let _ = database;
    }
    /// Releases resources that a session at rest does not need. Called between requests, when none
    /// has come for a while.
    fn rest(&mut self) {}
}
