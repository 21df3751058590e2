//! Errors of collations.

use super::{Error, raise, table};

table! {
    /// A collation that is unknown, or that two values do not agree on.
    CollationError;
    Unknown { name: String } = 448, 16, 1, Batch,
        "Invalid collation '{name}'.";
    NotText { ty: String } = 447, 16, 1, Batch,
        "Expression type {ty} is invalid for COLLATE clause.";
    Twice {} = 445, 16, 1, Batch,
        "COLLATE clause cannot be used on expressions containing a COLLATE clause.";
    UserType {} = 452, 16, 1, Batch,
        "COLLATE clause cannot be used on user-defined data types.";
    Clauses { left: String, right: String } = 449, 16, 1, Batch,
        "Collation conflict caused by collate clauses with different collation '{left}' and \
        '{right}'.";
    Conflict { left: String, right: String, operation: String } = 468, 16, 9, Batch,
        "Cannot resolve the collation conflict between \"{left}\" and \"{right}\" in the \
        {operation} operation.";
    Unresolved { operation: String } = 446, 16, 9, Batch,
        "Cannot resolve collation conflict for {operation} operation.";
    Listed {
        left: String, right: String, operator: &'static str, clause: &'static str, column: usize
    } = 451, 16, 1, Batch,
        "Cannot resolve collation conflict between \"{left}\" and \"{right}\" in {operator} \
        operator occurring in {clause} statement column {column}.";
    Converted {
        from: String, to: String, left: String, right: String, operator: &'static str
    } = 457, 16, 1, Batch,
        "Implicit conversion of {from} value to {to} cannot be performed because the collation of \
        the value is unresolved due to a collation conflict between \"{left}\" and \"{right}\" in \
        {operator} operator.";
    Foreign { column: String, own: String, key: String } = 1757, 16, 0, Statement,
        "Column '{column}' is not of same collation as referencing column '{own}' in foreign key \
        '{key}'.";
}

impl From<CollationError> for Error {
    /// The interpreter adds the line.
    fn from(error: CollationError) -> Self {
        raise(error.code(), &error)
    }
}
