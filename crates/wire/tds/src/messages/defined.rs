//! Errors of user-defined types, functions, procedures and views, and of queries in them.

use super::{Error, raise, table};

table! {
    /// A refusal of a type, of a table-valued parameter, or of a module.
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
    NoArguments { name: String } = 216, 16, 1, Batch,
        "Parameters were not supplied for the function '{name}'.";
    FewArguments { name: String } = 313, 16, 2, Batch,
        "An insufficient number of arguments were supplied for the procedure or function {name}.";
    SideEffect { name: String } = 443, 16, 1, Statement,
        "Invalid use of a side-effecting operator '{name}' within a function.";
    NoLastReturn {} = 455, 16, 2, Batch,
        "The last statement included within a function must be a return statement.";
    ReturnsNothing {} = 1094, 15, 1, Batch,
        "RETURN statements in scalar valued functions must include an argument.";
    ReturnsRows {} = 444, 16, 2, Statement,
        "Select statements included within a function cannot return data to a client.";
    NoFunction { first: String, name: String } = 4121, 16, 1, Batch,
        "Cannot find either column \"{first}\" or the user-defined function or aggregate \
        \"{name}\", or the name is ambiguous.";
    TemporaryTable {} = 2772, 16, 1, Statement,
        "Cannot access temporary tables from within a function.";
    NotAFunction { name: String } = 215, 16, 1, Batch,
        "Parameters supplied for object '{name}' which is not a function. If the parameters are \
        intended as a table hint, a WITH keyword is required.";
    NoColumnName { number: usize } = 4511, 16, 1, Statement,
        "Create View or Function failed because no column name was specified for column {number}.";
    ColumnTwice { column: String, name: String } = 4506, 16, 1, Statement,
        "Column names in each view or function must be unique. Column name '{column}' in view or \
        function '{name}' is specified more than once.";
    TemporaryView { name: String } = 4103, 15, 1, Statement,
        "\"{name}\": Temporary views are not allowed.";
    NamedTwice { name: String, of: String } = 8156, 16, 1, Statement,
        "The column '{name}' was specified multiple times for '{of}'.";
    KeyColumnTwice { name: String } = 1909, 16, 1, Statement,
        "Cannot use duplicate column names in index. Column name '{name}' listed more than once.";
    NoConstraint {} = 1750, 16, 1, Statement,
        "Could not create constraint or index. See previous errors.";
    NoKeyColumn { name: String } = 1911, 16, 1, Statement,
        "Column name '{name}' does not exist in the target table or view.";
    InvalidParameter { number: usize, name: &'static str } = 1023, 15, 1, Statement,
        "Invalid parameter {number} specified for {name}.";
    CommonTwice { name: String } = 239, 16, 1, Statement,
        "Duplicate common table expression name '{name}' was specified.";
    IdentityElsewhere { on: String, table: String } = 8107, 16, 1, Statement,
        "IDENTITY_INSERT is already ON for table '{on}'. Cannot perform SET operation for table \
        '{table}'.";
    Uncommittable {} = 3998, 16, 1, Transaction,
        "Uncommittable transaction is detected at the end of the batch. The transaction is rolled \
        back.";
    OtherKind { name: String } = 2010, 16, 1, Statement,
        "Cannot perform alter on '{name}' because it is an incompatible object type.";
    Kept { verb: &'static str, name: String, object: String } = 3729, 16, 1, Statement,
        "Cannot {verb} '{name}' because it is being referenced by object '{object}'.";
    UsesDatabase {} = 154, 15, 1, Batch,
        "a USE database statement is not allowed in a procedure, function or trigger.";
    ViewOfTemporary {} = 4508, 16, 1, Statement,
        "Views or functions are not allowed on temporary tables. Table names that begin with '#' \
        denote temporary tables.";
    GroupChanged { name: String } = 4403, 16, 1, Statement,
        "Cannot update the view or function '{name}' because it contains aggregates, or a DISTINCT \
        or GROUP BY clause, or PIVOT or UNPIVOT operator.";
    SeveralChanged { name: String } = 4405, 16, 1, Statement,
        "View or function '{name}' is not updatable because the modification affects multiple base \
        tables.";
    ValueChanged { name: String } = 4406, 16, 1, Statement,
        "Update or insert of view or function '{name}' failed because it contains a derived or \
        constant field.";
    UnionChanged { name: String } = 4426, 16, 1, Statement,
        "View '{name}' is not updatable because its definition contains a UNION operator.";
    PivotConflict { name: String, operator: &'static str } = 265, 16, 1, Batch,
        "The column name \"{name}\" specified in the {operator} operator conflicts with the \
        existing column name in the {operator} argument.";
    UnpivotType { name: String } = 8167, 16, 1, Batch,
        "The type of column \"{name}\" conflicts with the type of other columns specified in the \
        UNPIVOT list.";
    GroupedConstant {} = 164, 15, 1, Batch,
        "Each GROUP BY expression must contain at least one column that is not an outer reference.";
}

impl From<DefinedError> for Error {
    /// The interpreter adds the line.
    fn from(error: DefinedError) -> Self {
        raise(error.code(), &error)
    }
}
