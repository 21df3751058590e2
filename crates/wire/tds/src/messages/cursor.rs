//! Errors of cursors and labels.

use super::{Error, raise, table};

table! {
    /// An error of a statement about a cursor, or of GOTO.
    CursorError;
    DuplicateLabel { name: String } = 132, 15, 1, Batch,
        "The label '{name}' has already been declared. Label names must be unique within a query \
        batch or stored procedure.";
    NoLabel { name: String } = 133, 15, 1, Batch,
        "A GOTO statement references the label '{name}' but the label has not been declared.";
    IntoTry {} = 1026, 15, 1, Batch,
        "GOTO cannot be used to jump into a TRY or CATCH scope.";
    Conflicting { left: &'static str, right: &'static str } = 1048, 15, 1, Batch,
        "Conflicting cursor options {left} and {right}.";
    MixedSyntax {} = 1049, 15, 1, Batch,
        "Mixing old and new syntax to specify cursor options is not allowed.";
    AlreadyOpen {} = 16905, 16, 1, Statement, "The cursor is already open.";
    ForwardOnly { fetch: &'static str } = 16911, 16, 1, Statement,
        "fetch: The fetch type {fetch} cannot be used with forward only cursors.";
    Exists { name: String } = 16915, 16, 1, Statement,
        "A cursor with the name '{name}' already exists.";
    Missing { name: String } = 16916, 16, 1, Statement,
        "A cursor with the name '{name}' does not exist.";
    NotOpen {} = 16917, 16, 1, Statement, "Cursor is not open.";
    NoConversion { from: String, to: String } = 16922, 16, 1, Statement,
        "Cursor Fetch: Implicit conversion from data type {from} to {to} is not allowed.";
    IntoCount {} = 16924, 16, 1, Statement,
        "Cursorfetch: The number of variables declared in the INTO list must match that of \
        selected columns.";
    Unallocated { name: String } = 16950, 16, 2, Statement,
        "The variable '{name}' does not currently have a cursor allocated to it.";
}

impl From<CursorError> for Error {
    /// The interpreter adds the line.
    fn from(error: CursorError) -> Self {
        raise(error.code(), &error)
    }
}
