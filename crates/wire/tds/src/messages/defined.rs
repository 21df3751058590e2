//! Errors of user-defined types and of table-valued parameters.

use super::{Error, raise, table};

table! {
    /// A refusal of a type, or of a table-valued parameter.
    DefinedError;
    NoType { number: usize, name: String } = 2715, 16, 3, Batch,
        "Column, parameter, or variable #{number}: Cannot find data type {name}.";
    TypeExists { name: String } = 219, 16, 1, Statement,
        "The type '{name}' already exists, or you do not have permission to create it.";
    DropMissing { name: String } = 218, 16, 1, Statement,
        "Could not find the type '{name}'. Either it does not exist or you do not have the \
        necessary permission.";
    TypeInUse { name: String, object: String } = 3732, 16, 1, Statement,
        "Cannot drop type '{name}' because it is being referenced by object '{object}'. There may \
        be other objects that reference this type.";
    ReadOnly { name: String } = 10700, 16, 1, Batch,
        "The table-valued parameter \"{name}\" is READONLY and cannot be modified.";
    NotReadOnly { name: String } = 352, 15, 1, Batch,
        "The table-valued parameter \"{name}\" must be declared with the READONLY option.";
    NotATable { name: String } = 346, 15, 1, Batch,
        "The parameter \"{name}\" can not be declared READONLY since it is not a table-valued \
        parameter.";
    ColumnCount { sent: usize, own: usize } = 500, 16, 1, Batch,
        "Trying to pass a table-valued parameter with {sent} column(s) where the corresponding \
        user-defined table type requires {own} column(s).";
    IdentityColumn {} = 1077, 16, 1, Statement,
        "INSERT into an identity column not allowed on table variables.";
    BadTable { name: String, reason: String } = 8058, 16, 1, Batch,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is \
        incorrect. Table-valued parameter \"{name}\": {reason}.";
}

impl From<DefinedError> for Error {
    /// The interpreter adds the line.
    fn from(error: DefinedError) -> Self {
        raise(error.code(), &error)
    }
}
