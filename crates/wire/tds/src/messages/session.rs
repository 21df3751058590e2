//! Errors of connections: logins, requests, the protocol's procedures, cursors, bulk loads.

use super::table;
use crate::Message;

table! {
    /// An error of the endpoint, independent of the interpreter.
    SessionError;
    MissingParameter { procedure: String, name: String } = 201, 16, 4, Statement,
        "Procedure or function '{procedure}' expects parameter '{name}', which was not supplied.";
    ParameterType { name: String, ty: &'static str } = 214, 16, 2, Statement,
        "Procedure expects parameter '{name}' of type '{ty}'.";
    /// The request fails.
    OutOfMemory {} = 701, 17, 123, Statement,
        "There is insufficient system memory in resource pool 'default' to run this query.";
    /// An incomplete request cannot be skipped.
    OutOfMemoryAmidst {} = 701, 20, 123, Connection,
        "There is insufficient system memory in resource pool 'default' to run this query.";
    Fault {} = 3624, 20, 1, Connection, "The endpoint has a fault; this session ends.";
    Unfit { reason: String } = 3624, 20, 1, Connection,
        "The endpoint cannot send a result: {reason}.";
    BadStream { reason: String } = 4002, 20, 1, Connection,
        "The incoming tabular data stream (TDS) protocol stream is incorrect: {reason}.";
    NotAnnounced {} = 4002, 16, 1, Statement, "Rows came that no INSERT BULK had announced.";
    BadRows { reason: String } = 4002, 16, 1, Statement,
        "The rows of the bulk load cannot be read: {reason}.";
    TooManyParameters { limit: usize } = 8003, 16, 1, Statement,
        "The incoming request has too many parameters. The server supports a maximum of {limit} \
        parameters. Reduce the number of parameters and resend the request.";
    BadParameter { number: usize, name: String, ty: String } = 8023, 16, 1, Statement,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is \
        incorrect. Parameter {number} (\"{name}\"): The supplied value is not a valid instance of \
        data type {ty}. Check the source data for invalid values. An example of an invalid value \
        is data of numeric type with scale greater than precision.";
    TooManyPrepared {} = 8178, 16, 1, Statement,
        "Too many prepared statements; unprepare some of them.";
    NoHandle { handle: i32 } = 8179, 16, 4, Statement,
        "Could not find prepared statement with handle {handle}.";
    FetchType {} = 16911, 16, 1, Statement, "fetch: the fetch type is not known.";
    NoCursor { handle: i32 } = 16916, 16, 1, Statement,
        "A cursor with the handle {handle} does not exist.";
    ReadOnlyCursor {} = 16929, 16, 1, Statement, "The cursor is READ ONLY.";
    SeveralResults {} = 16937, 16, 1, Statement,
        "A server cursor takes one result; the statement has several.";
    CursorTooLarge {} = 16955, 16, 1, Statement,
        "The rows of a server cursor take more than 64 MiB. Use a default result.";
    LoginsUnreadable {} = 17803, 20, 1, Connection, "The list of logins cannot be read.";
    TooManyConnections { most: usize } = 17809, 20, 1, Connection,
        "Could not connect because the maximum number of '{most}' user connections has already \
        been reached.";
    BadLogin { reason: String } = 17832, 20, 18, Connection,
        "The login packet cannot be used: {reason}.";
    OnlyPasswords {} = 18452, 14, 1, Connection,
        "Login failed. Only SQL Server authentication is supported.";
    LoginFailed { user: String } = 18456, 14, 1, Connection, "Login failed for user '{user}'.";
    NoPasswordChange {} = 18463, 14, 1, Connection,
        "A password cannot be changed by a login. Use tdekit serve login.";
    NoProcedure { name: &'static str } = 40510, 16, 1, Statement,
        "The procedure '{name}' is not supported.";
    NoRequest { reason: String } = 40510, 16, 1, Statement,
        "The request cannot be done: {reason} by this endpoint.";
}

impl SessionError {
    /// Returns the message that a client sees, outside of procedures and on line 1.
    #[must_use]
    pub fn message(&self) -> Message {
        let (number, class, state) = self.code();
        Message::new(number, class, state, self.to_string())
    }
}
