//! Errors of the number of values that an INSERT supplies.

use super::{Error, raise, table};

table! {
    /// An error of the values of INSERT, in a MERGE too.
    InsertError;
    ColumnsMore {} = 109, 15, 1, Statement,
        "There are more columns in the INSERT statement than values specified in the VALUES \
        clause. The number of values in the VALUES clause must match the number of columns \
        specified in the INSERT statement.";
    ColumnsLess {} = 110, 15, 1, Statement,
        "There are fewer columns in the INSERT statement than values specified in the VALUES \
        clause. The number of values in the VALUES clause must match the number of columns \
        specified in the INSERT statement.";
    SelectMore {} = 120, 15, 1, Statement,
        "The select list for the INSERT statement contains fewer items than the insert list. The \
        number of SELECT values must match the number of INSERT columns.";
    SelectLess {} = 121, 15, 1, Statement,
        "The select list for the INSERT statement contains more items than the insert list. The \
        number of SELECT values must match the number of INSERT columns.";
    /// Without a list of columns.
    TableValues {} = 213, 16, 1, Statement,
        "Column name or number of supplied values does not match table definition.";
    /// By INSERT .. EXEC.
    ExecValues {} = 213, 16, 7, Statement,
        "Column name or number of supplied values does not match table definition.";
    RowWidths {} = 10709, 16, 1, Statement,
        "The number of columns for each row in a table value constructor must be the same.";
}

impl From<InsertError> for Error {
    /// The interpreter adds the line.
    fn from(error: InsertError) -> Self {
        raise(error.code(), &error)
    }
}
