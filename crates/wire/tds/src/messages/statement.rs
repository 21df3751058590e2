//! Errors of statements.

use super::table;

/// Rules that refuse rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// NOT NULL of a column.
    NotNull,
    /// Unique columns.
    Unique,
    /// CHECK.
    Check,
    /// A foreign key.
    ForeignKey,
}

table! {
    /// An error of T-SQL, as in SQL Server.
    Error;
    Syntax { near: String } = 102, 15, 1, Batch, "Incorrect syntax near '{near}'.";
    SyntaxKeyword { near: String } =
        156, 15, 1, Batch, "Incorrect syntax near the keyword '{near}'.";
    SelectAssignMixed {} = 141, 15, 1, Statement,
        "A SELECT statement that assigns a value to a variable must not be combined with \
        data-retrieval operations.";
    DuplicateColumnName { name: String } = 264, 16, 1, Statement,
        "The column name '{name}' is specified more than once in the SET clause or column list of \
        an INSERT. A column cannot be assigned more than one value in the same clause.";
    BulkColumn { number: usize } = 4816, 16, 1, Statement,
        "Invalid column type from bcp client for colid {number}.";
    NestedInsertExec {} = 8164, 16, 1, Statement, "An INSERT EXEC statement cannot be nested.";
    BadPercent {} = 1031, 15, 1, Statement, "Percent values must be between 0 and 100.";
    TiesWithoutOrder {} = 1062, 15, 1, Statement,
        "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.";
    RecursiveTypes { column: String, name: String } = 240, 16, 1, Statement,
        "Types don't match between the anchor and the recursive part in column \"{column}\" of \
        recursive query \"{name}\".";
    NoAnchor { name: String } = 246, 16, 1, Statement,
        "No anchor member was specified for recursive query \"{name}\".";
    RecursiveForm { name: String } = 252, 16, 1, Statement,
        "Recursive common table expression '{name}' does not contain a top-level UNION ALL \
        operator.";
    RecursiveSubquery {} = 465, 16, 1, Statement,
        "Recursive references are not allowed in subqueries.";
    TranslateLengths {} = 9828, 16, 1, Statement,
        "The second and third arguments of the TRANSLATE built-in function must contain an equal \
        number of characters.";
    ForeignTable { key: String, table: String } = 1767, 16, 0, Statement,
        "Foreign key '{key}' references invalid table '{table}'.";
    NoCheckpoint { name: String, detail: String } = 5901, 16, 1, Statement,
        "One or more recovery units belonging to database '{name}' failed to generate a \
        checkpoint: {detail}.";
    NoIndex { index: String, table: String } = 2727, 11, 1, Statement,
        "Cannot find index '{index}' on table '{table}'.";
    OutOfMemory {} = 701, 17, 123, Transaction,
        "There is insufficient system memory in resource pool 'default' to run this query.";
    TooManyRows {} = 10738, 15, 1, Statement,
        "The number of row value expressions in the INSERT statement exceeds the maximum allowed \
        number of 1000 row values.";
    TooComplex {} = 8631, 17, 1, Batch,
        "Internal error: Server stack limit has been reached. Please look for potentially deep \
        nesting in your query, and try to simplify it.";
    TooManyTables {} = 4414, 16, 1, Statement,
        "Could not allocate ancillary table for view or function resolution. The maximum number of \
        tables in a query (256) was exceeded.";
    CaseOfNulls {} = 8133, 16, 1, Batch,
        "At least one of the result expressions in a CASE specification must be an expression \
        other than the NULL constant.";
    CoalesceOfNulls {} = 4127, 16, 1, Batch,
        "At least one of the arguments to COALESCE must be an expression that is not the NULL \
        constant.";
    NullIfOfNull {} = 4151, 16, 1, Batch,
        "The type of the first argument to NULLIF cannot be the NULL constant because the type of \
        the first argument has to be known.";
    NotDeduced { name: String } = 11503, 16, 1, Statement,
        "The parameter type cannot be deduced because no expression tells the type of '{name}'.";
    UsedTwice { name: String } = 11508, 16, 1, Statement,
        "The undeclared parameter '{name}' is used more than once in the batch being analyzed.";
    UnclosedQuote { text: String } = 105, 15, 1, Statement,
        "Unclosed quotation mark after the character string '{text}'.";
    UnclosedComment {} = 113, 15, 1, Statement, "Missing end comment mark '*/'.";
    LongIdentifier { name: String } = 103, 15, 4, Statement,
        "The identifier that starts with '{name}' is too long. Maximum length is 128.";
    MustBeFirst { what: String } = 111, 15, 1, Statement,
        "'{what}' must be the first statement in a query batch.";
    OrderPosition { position: i64 } = 108, 15, 1, Statement,
        "The ORDER BY position number {position} is out of range of the number of items in the \
        select list.";
    BadTop {} = 1060, 15, 1, Statement,
        "The number of rows provided for a TOP or FETCH clauses row count parameter must be an \
        integer.";
    UndeclaredVariable { name: String } = 137, 15, 2, Batch,
        "Must declare the scalar variable \"{name}\".";
    DuplicateVariable { name: String } = 134, 15, 1, Statement,
        "The variable name '{name}' has already been declared. Variable names must be unique \
        within a query batch or stored procedure.";
    BreakOutside {} =
        135, 15, 1, Statement, "Cannot use a BREAK statement outside the scope of a WHILE \
        statement.";
    ContinueOutside {} = 136, 15, 1, Statement,
        "Cannot use a CONTINUE statement outside the scope of a WHILE statement.";
    AggregateInWhere {} = 147, 15, 1, Statement,
        "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a \
        HAVING clause or a select list, and the column being aggregated is an outer reference.";
    ArgumentCount { name: String, count: String } = 174, 15, 1, Batch,
        "The {name} function requires {count} argument(s).";
    DivideByZero {} = 8134, 16, 1, Statement, "Divide by zero error encountered.";
    NestedTooDeep {} = 191, 15, 1, Statement,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up \
        into smaller queries.";
    NotAFunction { name: String } =
        195, 15, 10, Batch, "'{name}' is not a recognized built-in function \
        name.";
    NotAnOption { name: String } = 195, 15, 5, Batch, "'{name}' is not a recognized SET option.";
    NotARecognizedOption { name: String } =
        155, 15, 1, Statement, "'{name}' is not a recognized option.";
    SelectStarNoFrom {} = 263, 16, 1, Statement, "Must specify table to select from.";
    SetCounts {} = 205, 16, 1, Batch,
        "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal \
        number of expressions in their target lists.";
    OperandClash { left: String, right: String } = 206, 16, 2, Batch,
        "Operand type clash: {left} is incompatible with {right}";
    InvalidColumn { name: String } = 207, 16, 1, Batch, "Invalid column name '{name}'.";
    InvalidObject { name: String } = 208, 16, 1, Batch, "Invalid object name '{name}'.";
    AmbiguousColumn { name: String } = 209, 16, 1, Batch, "Ambiguous column name '{name}'.";
    CannotInsertNull { column: String, table: String, verb: String } = 515, 16, 2, Statement,
        "Cannot insert the value NULL into column '{column}', table '{table}'; column does not \
        allow nulls. {verb} fails.";
    BadDateTime {} = 241, 16, 1, Transaction,
        "Conversion failed when converting date and/or time from character string.";
    DateTimeRange { from: String, to: String } = 242, 16, 3, Transaction,
        "The conversion of a {from} data type to a {to} data type resulted in an out-of-range \
        value.";
    UnknownType { name: String } = 243, 16, 1, Batch, "Type {name} is not a defined system type.";
    IntOverflowText { value: String } = 248, 16, 1, Transaction,
        "The conversion of the varchar value '{value}' overflowed an int column.";
    SmallOverflowText { value: String, to: String, kind: String } = 244, 16, 1, Transaction,
        "The conversion of the {kind} value '{value}' overflowed an {to} column. Use a larger \
        integer column.";
    BadConversion { from: String, value: String, to: String } = 245, 16, 1, Transaction,
        "Conversion failed when converting the {from} value '{value}' to data type {to}.";
    SmallOverflow { value: i64, to: String } = 220, 16, 1, Statement,
        "Arithmetic overflow error for data type {to}, value = {value}.";
    ResultOverflow { to: String } = 8115, 16, 2, Statement,
        "Arithmetic overflow error converting expression to data type {to}.";
    NumericOverflow { from: String, to: String } = 8115, 16, 8, Statement,
        "Arithmetic overflow error converting {from} to data type {to}.";
    ConvertingType { from: String, to: String } = 8114, 16, 5, Transaction,
        "Error converting data type {from} to {to}.";
    BadMoney {} = 235, 16, 0, Transaction,
        "Cannot convert a char value to money. The char value has incorrect syntax.";
    BadGuid {} = 8169, 16, 2, Transaction,
        "Conversion failed when converting from a character string to uniqueidentifier.";
    TextTooShort { to: String } =
        8170, 16, 2, Statement, "Insufficient result space to convert {to} value \
        to char.";
    NoImplicit { from: String, to: String } = 257, 16, 3, Batch,
        "Implicit conversion from data type {from} to {to} is not allowed. Use the CONVERT \
        function to run this query.";
    NoExplicit { from: String, to: String } = 529, 16, 2, Batch,
        "Explicit conversion from data type {from} to {to} is not allowed.";
    BadOperand { ty: String, op: String } = 8117, 16, 1, Statement,
        "Operand data type {ty} is invalid for {op} operator.";
    BadOperands { left: String, right: String, op: String } = 402, 16, 1, Batch,
        "The data types {left} and {right} are incompatible in the {op} operator.";
    BadArgument { ty: String, index: usize, name: String } = 8116, 16, 1, Batch,
        "Argument data type {ty} is invalid for argument {index} of {name} function.";
    NotBoolean { near: String } = 4145, 15, 1, Statement,
        "An expression of non-boolean type specified in a context where a condition is expected, \
        near '{near}'.";
    AggregateNested {} = 130, 15, 1, Statement,
        "Cannot perform an aggregate function on an expression containing an aggregate or a \
        subquery.";
    NotGrouped { name: String } = 8120, 16, 1, Batch,
        "Column '{name}' is invalid in the select list because it is not contained in either an \
        aggregate function or the GROUP BY clause.";
    NotAGroup { number: usize, function: &'static str } = 8161, 15, 1, Statement,
        "Argument {number} of the {function} function does not match any of the expressions in the \
        GROUP BY clause.";
    NoColumnName { number: usize, of: String } = 8155, 16, 2, Statement,
        "No column name was specified for column {number} of '{of}'.";
    TooManyColumnNames { of: String } = 8159, 16, 1, Statement,
        "'{of}' has fewer columns than were specified in the column list.";
    TooFewColumnNames { of: String } = 8158, 16, 1, Statement,
        "'{of}' has more columns than were specified in the column list.";
    ManyRows {} = 512, 16, 1, Statement,
        "Subquery returned more than 1 value. This is not permitted when the subquery follows =, \
        !=, <, <= , >, >= or when the subquery is used as an expression.";
    OneColumnOnly {} = 116, 16, 1, Statement,
        "Only one expression can be specified in the select list when the subquery is not \
        introduced with EXISTS.";
    OrderInDerived {} = 1033, 15, 1, Statement,
        "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, \
        and common table expressions, unless TOP, OFFSET or FOR XML is also specified.";
    DistinctOrder {} = 145, 15, 1, Statement,
        "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.";
    SetOrder {} = 104, 16, 1, Statement,
        "ORDER BY items must appear in the select list if the statement contains a UNION, \
        INTERSECT or EXCEPT operator.";
    NoOrderInWindow { name: String } = 4112, 15, 1, Statement,
        "The function '{name}' must have an OVER clause with ORDER BY.";
    NoOver { name: String } =
        10753, 15, 3, Statement, "The function '{name}' must have an OVER clause.";
    DuplicateKey { kind: String, name: String, table: String, key: String } =
        2627, 14, 1, Statement,
        "Violation of {kind} constraint '{name}'. Cannot insert duplicate key in object '{table}'.\
        {key}";
    DuplicateIndexKey { name: String, table: String, key: String } = 2601, 14, 1, Statement,
        "Cannot insert duplicate key row in object '{table}' with unique index '{name}'.{key}";
    ConstraintConflict { verb: String, kind: String, name: String } = 547, 16, 0, Statement,
        "The {verb} statement conflicted with the {kind} constraint{name}.";
    Truncation { table: String, column: String, value: String } = 2628, 16, 1, Statement,
        "String or binary data would be truncated in table '{table}', column '{column}'. Truncated \
        value: '{value}'.";
    IdentityInsert { table: String } = 544, 16, 1, Statement,
        "Cannot insert explicit value for identity column in table '{table}' when IDENTITY_INSERT \
        is set to OFF.";
    IdentityUpdate { name: String } =
        8102, 16, 1, Statement, "Cannot update identity column '{name}'.";
    IdentityMissing { table: String } = 545, 16, 1, Statement,
        "Explicit value must be specified for identity column in table '{table}' when \
        IDENTITY_INSERT is set to ON.";
    NoIdentity { table: String } = 8106, 16, 1, Statement,
        "Table '{table}' does not have the identity property. Cannot perform SET operation.";
    ObjectExists { name: String } = 2714, 16, 6, Statement,
        "There is already an object named '{name}' in the database.";
    DropMissing { kind: String, name: String } = 3701, 11, 5, Statement,
        "Cannot drop the {kind} '{name}', because it does not exist or you do not have permission.";
    AlterMissing { name: String } = 4902, 16, 1, Statement,
        "Cannot find the object \"{name}\" because it does not exist or you do not have \
        permissions.";
    NoProcedure { name: String } =
        2812, 16, 62, Statement, "Could not find stored procedure '{name}'.";
    MissingParameter { procedure: String, name: String } = 201, 16, 4, Statement,
        "Procedure or function '{procedure}' expects parameter '{name}', which was not supplied.";
    NotAParameter { procedure: String, name: String } = 8145, 16, 1, Statement,
        "{name} is not a parameter for procedure {procedure}.";
    TooManyArguments { procedure: String } = 8144, 16, 2, Statement,
        "Procedure or function {procedure} has too many arguments specified.";
    NamedAfter { number: usize } = 119, 15, 1, Statement,
        "Must pass parameter number {number} and subsequent parameters as '@name = value'.";
    NotOutput { name: String } = 8162, 16, 2, Statement,
        "The formal parameter \"{name}\" was not declared as an OUTPUT parameter, but the actual \
        parameter passed in requested output.";
    NestLevel {} = 217, 16, 1, Transaction,
        "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).";
    NoBegin { verb: String } =
        3902, 16, 1, Statement, "The {verb} TRANSACTION request has no corresponding \
        BEGIN TRANSACTION.";
    NoBeginRollback {} = 3903, 16, 1, Statement,
        "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.";
    NoSavepoint { name: String } = 6401, 16, 1, Statement,
        "Cannot roll back {name}. No transaction or savepoint of that name was found.";
    SaveOutside {} = 628, 16, 0, Statement, "Cannot issue SAVE TRANSACTION when there is no active \
        transaction.";
    Doomed {} = 3930, 16, 1, Transaction,
        "The current transaction cannot be committed and cannot support operations that write to \
        the log file. Roll back the transaction.";
    UnknownDatabase { name: String } = 911, 16, 1, Statement,
        "Database '{name}' does not exist. Make sure that the name is entered correctly.";
    CannotOpenDatabase { name: String } = 4060, 11, 1, Statement,
        "Cannot open database \"{name}\" requested by the login. The login failed.";
    DatabaseExists { name: String } = 1801, 16, 3, Statement,
        "Database '{name}' already exists. Choose a different database name.";
    DatabaseInUse { name: String } = 3702, 16, 4, Statement,
        "Cannot drop database \"{name}\" because it is currently in use.";
    DuplicateColumn { name: String, table: String } = 2705, 16, 3, Statement,
        "Column names in each table must be unique. Column name '{name}' in table '{table}' is \
        specified more than once.";
    MultipleIdentity { table: String } = 2744, 16, 2, Statement,
        "Multiple identity columns specified for table '{table}'. Only one identity column per \
        table is allowed.";
    BadIdentityType { name: String } = 2749, 16, 2, Statement,
        "Identity column '{name}' must be of data type int, bigint, smallint, tinyint, or decimal \
        or numeric with a scale of 0, unencrypted, and constrained to be nonnullable.";
    MultiPart { name: String } =
        4104, 16, 1, Batch, "The multi-part identifier \"{name}\" could not be \
        bound.";
    BadLength { name: String } =
        1001, 15, 1, Statement, "Line 1: Length or precision specification {name} \
        is invalid.";
    BadScale { scale: u32, precision: u32 } = 192, 15, 1, Statement,
        "The scale ({scale}) must be less than or equal to the precision ({precision}).";
    BadDelay { text: String } =
        148, 15, 1, Statement, "Incorrect time syntax in time string '{text}' used \
        with WAITFOR.";
    ThrowOutside {} = 10704, 15, 1, Statement,
        "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the \
        THROW statement inside a CATCH block, or add error parameters to the THROW statement.";
    ThrowNumber {} = 35100, 16, 10, Statement,
        "Error number in the THROW statement is outside the valid range. Specify an error number \
        in the valid range of 50000 to 2147483647.";
    BadStyle { style: i64, from: String } = 281, 16, 1, Statement,
        "{style} is not a valid style number when converting from {from} to a character string.";
    BadDatepart { name: String, function: String } = 155, 15, 1, Statement,
        "'{name}' is not a recognized {function} option.";
    BadSubstring {} =
        537, 16, 2, Statement, "Invalid length parameter passed to the LEFT or SUBSTRING \
        function.";
    BadRight {} = 536, 16, 2, Statement, "Invalid length parameter passed to the RIGHT function.";
    FloatDomain {} = 3623, 16, 1, Statement, "An invalid floating point operation occurred.";
    DateAddOverflow { ty: String } =
        517, 16, 1, Statement, "Adding a value to a '{ty}' column caused an \
        overflow.";
    DateDiffOverflow {} = 535, 16, 0, Statement,
        "The datediff function resulted in an overflow. The number of dateparts separating two \
        date/time instances is too large. Try to use datediff with a less precise datepart.";
    BadDateParts {} = 289, 16, 1, Statement,
        "Cannot construct data type date, some of the arguments have values which are not valid.";
    LockTimeout {} = 1222, 16, 51, Statement, "Lock request time out period exceeded.";
    Crowded {} = 1204, 19, 4, Statement,
        "The instance of the SQL Server Database Engine cannot obtain a LOCK resource at this \
        time. Rerun your statement when there are fewer active users. Ask the database \
        administrator to check the lock and memory configuration for this instance, or to check \
        for long-running transactions.";
    KillsItself {} = 6104, 16, 1, Statement, "Cannot use KILL to kill your own process.";
    NoSuchProcess { spid: i64 } =
        6106, 16, 2, Statement, "Process ID {spid} is not an active process ID.";
    NoSessionNumber { spid: i64 } = 6101, 16, 1, Statement, "Session ID {spid} is not valid.";
    MisplacedInto {} = 196, 15, 1, Statement,
        "SELECT INTO must be the first query in a statement containing a UNION, INTERSECT or \
        EXCEPT operator.";
    SequentialDefault {} = 302, 16, 0, Statement,
        "The newsequentialid() built-in function can only be used in a DEFAULT expression for a \
        column of type 'uniqueidentifier' in a CREATE TABLE or ALTER TABLE statement. It cannot be \
        combined with other operators to form a complex scalar expression.";
    NotForDefault { name: String } = 128, 15, 1, Statement,
        "The name \"{name}\" is not permitted in this context. Valid expressions are constants, \
        constant expressions, and (in some contexts) variables. Column names are not permitted.";
    Deadlock { spid: u16 } = 1205, 13, 51, Transaction,
        "Transaction (Process ID {spid}) was deadlocked on lock resources with another process and \
        has been chosen as the deadlock victim. Rerun the transaction.";
    ReadPastLevel {} = 650, 16, 1, Statement,
        "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation \
        levels.";
    OutsideTransaction {} = 3918, 16, 1, Statement,
        "The statement or function must be executed in the context of a user transaction.";
    AppLockNotHeld { principal: String, name: String } = 1223, 16, 1, Statement,
        "Cannot release the application lock (Database Principal: '{principal}', Resource: \
        '{name}') because it is not currently held.";
    BadProcedureOption { name: String } = 15600, 15, 1, Statement,
        "An invalid parameter or option was specified for procedure '{name}'.";
    SnapshotConflict { name: String } = 3960, 16, 2, Transaction,
        "Snapshot isolation transaction aborted due to update conflict in database '{name}'. Retry \
        the transaction.";
    DefinitionChanged { name: String } = 2801, 16, 1, Statement,
        "The definition of object '{name}' has changed since it was compiled.";
    OutOfSpace { name: String } = 1105, 17, 2, Transaction,
        "Could not allocate space in database '{name}' because the disk is full.";
    ReadOnly { name: String } = 3906, 16, 1, Statement,
        "Failed to update database \"{name}\" because the database is read-only.";
    Damaged { name: String, detail: String } = 824, 24, 2, Connection,
        "SQL Server detected a logical consistency-based I/O error in database '{name}': {detail}.";
    Internal { detail: String } = 8623, 16, 1, Statement,
        "The query processor could not produce a query plan: {detail}.";
    /// A row that a constraint refuses, as SQLite reports it.
    Violation { rule: Rule, place: String, detail: String } = 8623, 16, 1, Statement,
        "The query processor could not produce a query plan: {detail}.";
    WrongStorage { column: String, found: String, expected: String } = 8114, 16, 6, Transaction,
        "The value stored in '{column}' has the storage class {found}, which is no {expected}.";
    NotSupported { what: String } = 40517, 16, 1, Batch,
        "Keyword or statement option '{what}' is not supported in this version of the server.";
    NotSupportedFeature { what: String } =
        40512, 16, 1, Batch, "Feature '{what}' is not supported.";
    PrimaryExists { table: String } = 1779, 16, 0, Statement,
        "Table '{table}' already has a primary key defined on it.";
    NullableKey { table: String } = 8111, 16, 1, Statement,
        "Cannot define PRIMARY KEY constraint on nullable column in table '{table}'.";
    DuplicateInKey { table: String, index: String, key: String } = 1505, 16, 1, Statement,
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the \
        object name '{table}' and the index name '{index}'. The duplicate key value is {key}.";
    NotAConstraint { name: String } = 3728, 16, 1, Statement, "'{name}' is not a constraint.";
    NoConstraint { name: String } = 4917, 16, 0, Statement, "Constraint '{name}' does not exist.";
    SequenceIncrement { name: String } = 11700, 16, 1, Statement,
        "The increment for sequence object '{name}' cannot be zero.";
    SequenceStep { name: String } = 11701, 16, 1, Statement,
        "The absolute value of the increment for sequence object '{name}' must be less than or \
        equal to the difference between the minimum and maximum value of the sequence object.";
    SequenceType { name: String } = 11702, 16, 2, Statement,
        "The sequence object '{name}' must be of data type int, bigint, smallint, tinyint, or \
        decimal or numeric with a scale of 0, or any user-defined data type that is based on one \
        of the above integer data types.";
    SequenceOutside { name: String } = 11703, 16, 1, Statement,
        "The start value for sequence object '{name}' must be between the minimum and maximum \
        value of the sequence object.";
    SequenceCurrent { value: i64, name: String } = 11704, 16, 1, Statement,
        "The current value '{value}' for sequence object '{name}' must be between the minimum and \
        maximum value of the sequence object.";
    SequenceBounds { name: String } = 11705, 16, 2, Statement,
        "The minimum value for sequence object '{name}' must be less than its maximum value.";
    SequenceCache { name: String } = 11706, 16, 1, Statement,
        "The cache size for sequence object '{name}' must be greater than 0.";
    SequenceArgument { argument: &'static str } = 11708, 16, 7, Statement,
        "An invalid value was specified for argument '{argument}' for the given data type.";
    SequenceRestart {} = 11709, 15, 1, Batch,
        "The 'RESTART WITH' argument cannot be used in a CREATE SEQUENCE statement.";
    SequenceStart {} = 11710, 15, 1, Batch,
        "Argument 'START WITH' cannot be used in an ALTER SEQUENCE statement.";
    SequenceAs {} = 11711, 15, 1, Batch,
        "Argument 'AS' cannot be used in an ALTER SEQUENCE statement.";
    SequenceTwice { argument: &'static str } = 11712, 15, 1, Batch,
        "Argument '{argument}' can not be specified more than once.";
    SequenceName { name: String } = 11714, 15, 1, Statement, "Invalid sequence name '{name}'.";
    SequenceNothing {} = 11715, 15, 1, Batch, "No properties specified for ALTER SEQUENCE.";
    SequenceUsed { name: String, object: String } = 3729, 16, 1, Statement,
        "Cannot DROP SEQUENCE '{name}' because it is being referenced by object '{object}'.";
    NextHere {} = 11719, 15, 1, Batch,
        "NEXT VALUE FOR function is not allowed in check constraints, default objects, computed \
        columns, views, user-defined functions, user-defined aggregates, user-defined table types, \
        sub-queries, common table expressions, derived tables or return statements.";
    NextClause {} = 11720, 15, 1, Batch,
        "NEXT VALUE FOR function is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, GROUP BY, \
        HAVING, or ORDER BY clauses.";
    NextSet {} = 11721, 15, 1, Batch,
        "NEXT VALUE FOR function cannot be used directly in a statement that uses a DISTINCT, \
        UNION, UNION ALL, EXCEPT or INTERSECT operator.";
    NextOrder {} = 11723, 15, 1, Batch,
        "NEXT VALUE FOR function cannot be used directly in a statement that contains an ORDER BY \
        clause unless the OVER clause is specified.";
    NextAggregate {} = 11725, 15, 1, Statement,
        "An expression that contains a NEXT VALUE FOR function cannot be passed as an argument \
        to an aggregate.";
    NotASequence { name: String } = 11726, 16, 1, Statement,
        "Object '{name}' is not a sequence object.";
    SequenceEnd { name: String } = 11728, 16, 1, Statement,
        "The sequence object '{name}' has reached its minimum or maximum value. Restart the \
        sequence object to allow new values to be generated.";
    NextDatabase {} = 11730, 16, 1, Statement,
        "Database name cannot be specified for the sequence object in default constraints.";
    RangeEnd { name: String } = 11732, 16, 1, Statement,
        "The requested range for sequence object '{name}' exceeds the maximum or minimum limit. \
        Retry with a smaller range.";
    RangeSize { parameter: &'static str } = 11733, 16, 1, Statement,
        "Parameter '{parameter}' must be a positive integer.";
    NextVariables {} = 11736, 16, 1, Batch,
        "Only one instance of NEXT VALUE FOR function per sequence object is allowed in SET or \
        SELECT with variable assignment.";
    NextContext {} = 11738, 16, 1, Batch,
        "The use of NEXT VALUE FOR function is not allowed in this context.";
    NextLimit {} = 11739, 16, 1, Batch,
        "NEXT VALUE FOR function cannot be used if ROWCOUNT option has been set, or the query \
        contains TOP or OFFSET.";
    NextChoice {} = 11741, 16, 1, Batch,
        "NEXT VALUE FOR function cannot be used within CASE, CHOOSE, COALESCE, IIF, ISNULL and \
        NULLIF.";
    ComputedModified { column: String } = 271, 16, 1, Statement,
        "The column \"{column}\" cannot be modified because it is either a computed column or is \
        the result of a UNION operator.";
    VersionUpdated {} = 272, 16, 1, Statement, "Cannot update a timestamp column.";
    VersionInserted {} = 273, 16, 1, Statement,
        "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to \
        exclude the timestamp column, or insert a DEFAULT into the timestamp column.";
    SubqueryHere {} = 1046, 15, 1, Batch,
        "Subqueries are not allowed in this context. Only scalar expressions are allowed.";
    ComputedNested { column: String, table: String } = 1759, 16, 0, Statement,
        "Computed column '{column}' in table '{table}' is not allowed to be used in another \
        computed-column definition.";
    VersionTwice { table: String } = 2738, 16, 2, Statement,
        "A table can only have one timestamp column. Because table '{table}' already has one, the \
        column cannot be added.";
    FixedColumn { column: String, kind: &'static str } = 4928, 16, 1, Statement,
        "Cannot alter column '{column}' because it is '{kind}'.";
    NotPersisted { column: String, table: String } = 4936, 16, 1, Statement,
        "Computed column '{column}' in table '{table}' cannot be persisted because the column is \
        non-deterministic.";
    MergeTwice {} = 8672, 16, 1, Statement,
        "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This \
        happens when a target row matches more than one source row. A MERGE statement cannot \
        UPDATE/DELETE the same row of the target table multiple times. Refine the ON clause to \
        ensure a target row matches at most one source row, or use the GROUP BY clause to group \
        the source rows.";
    MergeUnreachable { clause: &'static str } = 5324, 15, 1, Batch,
        "In a MERGE statement, a '{clause}' clause with a search condition cannot appear after a \
        '{clause}' clause with no search condition.";
    MergeNotInsert { action: &'static str } = 10710, 15, 1, Batch,
        "An action of type '{action}' is not allowed in the 'WHEN NOT MATCHED' clause of a MERGE \
        statement.";
    MergeInsert { clause: &'static str } = 10711, 15, 1, Batch,
        "An action of type 'INSERT' is not allowed in the '{clause}' clause of a MERGE statement.";
    MergeEnd {} = 10713, 15, 1, Batch,
        "A MERGE statement must be terminated by a semi-colon (;).";
    MergeActionTwice { action: &'static str, clause: &'static str } = 10714, 15, 1, Batch,
        "An action of type '{action}' cannot appear more than once in a '{clause}' clause of a \
        MERGE statement.";
    NextMerge {} = 11742, 16, 1, Batch,
        "NEXT VALUE FOR function can only be used with MERGE if it is defined within a default \
        constraint on the target table for insert actions.";
    SwitchFailed {} = 4916, 16, 0, Statement,
        "Could not enable or disable the constraint. See previous errors.";
    NoSwitch { name: String } = 11415, 16, 1, Statement,
        "Object '{name}' cannot be disabled or enabled. This action applies only to foreign key \
        and check constraints.";
    KeyReferenced { name: String, table: String, key: String } = 3725, 16, 0, Statement,
        "The constraint '{name}' is being referenced by table '{table}', foreign key constraint \
        '{key}'.";
    IndexOfKey { name: String, kind: String } = 3723, 16, 5, Statement,
        "An explicit DROP INDEX is not allowed on index '{name}'. It is being used for {kind} \
        constraint enforcement.";
    DropReferenced { name: String } = 3726, 16, 1, Statement,
        "Could not drop object '{name}' because it is referenced by a FOREIGN KEY constraint.";
    TruncateReferenced { table: String } = 4712, 16, 1, Statement,
        "Cannot truncate table '{table}' because it is being referenced by a FOREIGN KEY \
        constraint.";
    ColumnInUse { kind: String, name: String, column: String } = 5074, 16, 1, Statement,
        "The {kind} '{name}' is dependent on column '{column}'.";
    ColumnIsUsed { change: &'static str, column: String } = 4922, 16, 9, Statement,
        "ALTER TABLE {change} {column} failed because one or more objects access this column.";
    NoColumn { change: &'static str, column: String, table: String } = 4924, 16, 1, Statement,
        "ALTER TABLE {change} failed because column '{column}' does not exist in table '{table}'.";
    DefaultExists {} = 1781, 16, 1, Statement, "Column already has a DEFAULT bound to it.";
    DefaultColumn { column: String, table: String } = 1752, 16, 0, Statement,
        "Column '{column}' in table '{table}' is invalid for creating a default constraint.";
    DefaultOfIdentity { table: String, column: String } = 1754, 16, 0, Statement,
        "Defaults cannot be created on columns with an IDENTITY attribute. Table '{table}', column \
        '{column}'.";
    ForeignColumn { key: String, column: String, table: String } = 1769, 16, 1, Statement,
        "Foreign key '{key}' references invalid column '{column}' in referencing table '{table}'.";
    ForeignParentColumn { key: String, column: String, table: String } = 1770, 16, 0, Statement,
        "Foreign key '{key}' references invalid column '{column}' in referenced table '{table}'.";
    ForeignCount { table: String } = 8139, 16, 0, Statement,
        "Number of referencing columns in foreign key differs from number of referenced columns, \
        table '{table}'.";
    ForeignType { column: String, own: String, key: String } = 1778, 16, 0, Statement,
        "Column '{column}' is not the same data type as referencing column '{own}' in foreign key \
        '{key}'.";
    ForeignLength { column: String, own: String, key: String } = 1753, 16, 0, Statement,
        "Column '{column}' is not the same length or scale as referencing column '{own}' in \
        foreign key '{key}'. Columns participating in a foreign key relationship must be defined \
        with the same length and scale.";
    ForeignNoKey { key: String, table: String } = 1776, 16, 0, Statement,
        "There are no primary or candidate keys in the referenced table '{table}' that match the \
        referencing column list in the foreign key '{key}'.";
    ForeignNoPrimary { key: String, table: String } = 1773, 16, 0, Statement,
        "Foreign key '{key}' has implicit reference to object '{table}' which does not have a \
        primary key defined on it.";
    SplitSeparator {} = 214, 16, 11, Statement,
        "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.";
    SplitFlag { value: i64 } = 4199, 16, 1, Statement,
        "Argument value {value} is invalid for argument 3 of string_split function.";
    SplitConstant {} = 8748, 16, 1, Statement,
        "The enable_ordinal argument for string_split only supports constant values (not variables \
        and columns).";
    JsonAutoTable {} = 13600, 16, 1, Statement,
        "FOR JSON AUTO requires at least one table for generating JSON objects. Use FOR JSON PATH \
        or add a FROM clause with a table name.";
    JsonConflict { name: String } = 13601, 16, 1, Statement,
        "Property '{name}' cannot be generated in JSON output due to a conflict with another \
        column name or alias. FOR JSON PATH requires that the column expressions are ordered based \
        on the JSON document paths specified in the column aliases.";
    JsonNotAllowed { statement: &'static str } = 13602, 16, 1, Statement,
        "The FOR JSON clause is not allowed in a {statement} statement.";
    JsonBadName { name: String } = 13603, 16, 1, Statement,
        "Property '{name}' cannot be generated in JSON output due to invalid character in the \
        column name or alias. Column name or alias that contains '..', starts or ends with '.' is \
        not allowed in query that has FOR JSON clause.";
    JsonNoName {} = 13605, 16, 1, Statement,
        "Column expressions and data sources without names or aliases cannot be formatted as JSON \
        text using FOR JSON clause. Add alias to the unnamed column or table.";
    JsonDeep {} = 13606, 16, 1, Statement,
        "JSON text/path that has more than 128 nesting levels cannot be parsed.";
    JsonPath { character: char, position: usize } = 13607, 16, 22, Transaction,
        "JSON path is not properly formatted. Unexpected character '{character}' is found at \
        position {position}.";
    JsonMissing {} = 13608, 16, 1, Transaction,
        "Property cannot be found on the specified JSON path.";
    JsonText { character: char, position: usize } = 13609, 16, 1, Transaction,
        "JSON text is not properly formatted. Unexpected character '{character}' is found at \
        position {position}.";
    JsonNotOpened {} = 13611, 16, 1, Transaction,
        "Value referenced by JSON path is not an array or object and cannot be opened with \
        OPENJSON.";
    JsonBase64 {} = 13612, 16, 5, Statement,
        "Cannot convert a string value found in the JSON text to binary value because it is not \
        Base64 encoded.";
    JsonBinaryLong {} = 13613, 16, 1, Statement,
        "Base64 encoded string cannot be converted to binary value. Binary data would be \
        truncated.";
    JsonColumnType {} = 13614, 16, 1, Statement,
        "TEXT, NTEXT, SQL_VARIANT and IMAGE types cannot be used as column types in OPENJSON \
        function with explicit schema. These types are not supported in WITH clause.";
    JsonColumnLength {} = 13618, 16, 1, Statement,
        "AS JSON option can be specified only for column of nvarchar(max) type in WITH clause.";
    JsonModifyPath {} = 13619, 16, 1, Statement,
        "Unsupported JSON path found in argument 2 of JSON_MODIFY.";
    JsonRootBare {} = 13620, 16, 1, Statement,
        "ROOT option and WITHOUT_ARRAY_WRAPPER option cannot be used together in FOR JSON. Remove \
        one of these options.";
    JsonNoArray {} = 13621, 16, 1, Transaction,
        "Array cannot be found in the specified JSON path.";
    JsonNoScalar {} = 13623, 16, 2, Transaction,
        "Scalar value cannot be found in the specified JSON path.";
    JsonNoObject {} = 13624, 16, 2, Transaction,
        "Object or array cannot be found in the specified JSON path.";
    JsonLong {} = 13625, 16, 1, Transaction,
        "String value in the specified JSON path would be truncated.";
    RollbackInInsert {} = 3915, 16, 0, Transaction,
        "Cannot use the ROLLBACK statement within an INSERT-EXEC statement.";
    CommitInInsert {} = 3916, 16, 0, Transaction,
        "Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN TRANSACTION \
        is used first.";
    CheckMissing { name: String } = 2501, 16, 45, Statement,
        "Cannot find a table or object with the name \"{name}\". Check the system catalog.";
    CheckNoDatabase { name: String } = 2520, 16, 5, Statement,
        "Could not find database '{name}'. The database either does not exist, or was dropped \
        before a statement tried to use it. Verify if the database exists by querying the \
        sys.databases catalog view.";
    CheckNoIdentity { name: String } = 7997, 16, 1, Statement,
        "'{name}' does not contain an identity column.";
    CheckParameter { parameter: usize } = 2560, 16, 9, Statement,
        "Parameter {parameter} is incorrect for this DBCC statement.";
    CheckFound { text: String } = 50000, 16, 1, Statement, "{text}";
    PropertyExists { name: String, of: String } = 15233, 16, 1, Statement,
        "Property cannot be added. Property '{name}' already exists for '{of}'.";
    PropertyMissing { name: String, of: String } = 15217, 16, 1, Statement,
        "Property cannot be updated or deleted. Property '{name}' does not exist for '{of}'.";
    PropertyTarget { of: String } = 15135, 16, 1, Statement,
        "Object is invalid. Extended properties are not permitted on '{of}', or the object does \
        not exist.";
    NoSchema { name: String } = 2760, 16, 1, Statement,
        "The specified schema name \"{name}\" either does not exist or you do not have permission \
        to use it.";
    NoSuchSchema { name: String } = 15151, 16, 1, Statement,
        "Cannot drop the schema '{name}', because it does not exist or you do not have permission.";
    FixedSchema { name: String } = 15150, 16, 1, Statement, "Cannot drop the schema '{name}'.";
    SchemaInUse { name: String, object: String } = 3729, 16, 1, Statement,
        "Cannot drop schema '{name}' because it is being referenced by object '{object}'.";
    FilterClause { index: String, table: String } = 10735, 15, 1, Statement,
        "Incorrect WHERE clause for filtered index '{index}' on table '{table}'.";
    RenameAmbiguous { kind: &'static str } = 15248, 11, 1, Statement,
        "Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong.";
    RenameMissing { name: String } = 15225, 11, 1, Statement,
        "No item by the name of '{name}' could be found in the current database, given that \
        @itemtype was input as '(null)'.";
    RenameTaken { name: String, kind: &'static str } = 15335, 11, 1, Statement,
        "Error: The new name '{name}' is already in use as a {kind} name and would cause a \
        duplicate that is not permitted.";
    RenameDependent { name: String } = 15336, 16, 1, Statement,
        "Object '{name}' cannot be renamed because the object participates in enforced \
        dependencies.";
    NotAStatement { parameter: &'static str } = 214, 16, 2, Statement,
        "Procedure expects parameter '{parameter}' of type 'ntext/nchar/nvarchar'.";
    WithinTransaction { statement: &'static str } = 226, 16, 6, Statement,
        "{statement} statement not allowed within multi-statement transaction.";
    BackupWithinTransaction {} = 3021, 16, 0, Statement,
        "Cannot perform a backup or restore operation within a transaction.";
    SystemCatalog {} = 259, 16, 1, Statement,
        "Ad hoc updates to system catalogs are not allowed.";
    ConstantOrder {} = 408, 16, 1, Statement,
        "A constant expression was encountered in the ORDER BY list.";
    BadEscape {} = 506, 16, 1, Statement,
        "The invalid escape character was specified in a LIKE predicate.";
    RecursionLimit { most: i64 } = 530, 16, 1, Statement,
        "The statement terminated. The maximum recursion {most} has been exhausted before \
        statement completion.";
    CorrelationTwice { name: String } = 1011, 16, 1, Statement,
        "The correlation name '{name}' is specified multiple times in a FROM clause.";
    BadParameter { function: String } = 1023, 15, 1, Statement,
        "Invalid parameter 1 specified for {function}.";
    UndeclaredTable { name: String } = 1087, 15, 2, Statement,
        "Must declare the table variable \"{name}\".";
    NoObject { name: String } = 1088, 16, 12, Statement,
        "Cannot find the object \"{name}\" because it does not exist or you do not have \
        permissions.";
    IndexExists { name: String, table: String } = 1913, 16, 1, Statement,
        "The operation failed because an index or statistics with name '{name}' already exists \
        on table '{table}'.";
    BadSubstitution { at: usize } = 2786, 16, 1, Statement,
        "The data type of substitution parameter {at} does not match the expected type of the \
        format specification.";
    Terminating { verb: String } = 3013, 16, 1, Statement,
        "{verb} is terminating abnormally.";
    MisplacedWindow {} = 4108, 15, 1, Statement,
        "Windowed functions can only appear in the SELECT or ORDER BY clauses.";
    DatepartNotFor { part: String, function: String, ty: String } = 9810, 16, 1, Statement,
        "The datepart {part} is not supported by date function {function} for data type {ty}.";
    NoMessage { number: i64, class: u8, state: u8 } = 18054, 16, 1, Statement,
        "Error {number}, severity {class}, state {state} was raised, but no message with that \
        error number was found in sys.messages.";
    ...
    /// An error that T-SQL itself raised, or that a host returned.
    Raised;
}
