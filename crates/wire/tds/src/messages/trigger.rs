//! Errors of triggers.

use super::{Error, raise, table};

table! {
    /// An error of CREATE TRIGGER and the like, or of a statement that fires triggers.
    TriggerError;
    UpdateOutside {} = 140, 15, 1, Batch,
        "Can only use IF UPDATE within a CREATE TRIGGER statement.";
    Prefix {} = 166, 15, 1, Batch,
        "'CREATE/ALTER TRIGGER' does not allow specifying the database name as a prefix to the \
        object name.";
    ReturnsValue {} = 178, 15, 1, Batch,
        "A RETURN statement with a return value cannot be used in this context.";
    LogicalTable {} = 286, 16, 1, Batch,
        "The logical tables INSERTED and DELETED cannot be updated.";
    OutputInto { table: String } = 331, 16, 1, Batch,
        "The target table '{table}' of the OUTPUT INTO clause cannot have any enabled triggers.";
    OutputChecked { table: String, name: String } = 333, 16, 1, Batch,
        "The target table '{table}' of the OUTPUT INTO clause cannot have any enabled check \
        constraints or any enabled rules. Found check constraint or rule '{name}'.";
    Output { table: String } = 334, 16, 1, Batch,
        "The target table '{table}' of the DML statement cannot have any enabled triggers if the \
        statement contains an OUTPUT clause without INTO clause.";
    JoinedUpdate { view: String } = 414, 16, 1, Batch,
        "UPDATE is not allowed because the statement updates view \"{view}\" which participates \
        in a join and has an INSTEAD OF UPDATE trigger.";
    JoinedDelete { view: String } = 415, 16, 1, Batch,
        "DELETE is not allowed because the statement updates view \"{view}\" which participates \
        in a join and has an INSTEAD OF DELETE trigger.";
    DuplicateEvent { event: String } = 1034, 15, 1, Batch,
        "Syntax error: Duplicate specification of the action \"{event}\" in the trigger \
        declaration.";
    KeyOfInstead { key: String, table: String } = 1787, 16, 0, Statement,
        "Cannot define foreign key constraint '{key}' with cascaded DELETE or UPDATE on table \
        '{table}' because the table has an INSTEAD OF DELETE or UPDATE TRIGGER defined on it.";
    OtherSchema { verb: &'static str, name: String } = 2103, 15, 1, Statement,
        "Cannot {verb} trigger '{name}' because its schema is different from the schema of the \
        target table or view.";
    OtherDatabase { table: String } = 2108, 15, 1, Statement,
        "Cannot create trigger on '{table}' as the target is not in the current database.";
    OtherTable { name: String, table: String } = 2110, 15, 1, Statement,
        "Cannot alter trigger '{name}' on '{table}' because this trigger does not belong to this \
        object.";
    SecondInstead { verb: &'static str, name: String, kind: &'static str, table: String,
        event: &'static str } = 2111, 16, 1, Statement,
        "Cannot {verb} trigger '{name}' on {kind} '{table}' because an INSTEAD OF {event} trigger \
        already exists on this object.";
    Cascading { verb: &'static str, name: String, table: String } = 2113, 16, 1, Statement,
        "Cannot {verb} INSTEAD OF DELETE or INSTEAD OF UPDATE TRIGGER '{name}' on table '{table}'. \
        This is because the table has a FOREIGN KEY with cascading DELETE or UPDATE.";
    Ended {} = 3609, 16, 1, Batch,
        "The transaction ended in the trigger. The batch has been aborted.";
    Caught {} = 3616, 16, 1, Transaction,
        "An error was raised during trigger execution. The batch has been aborted and the user \
        transaction, if any, has been rolled back.";
    NoTrigger { name: String, table: String } = 4920, 16, 0, Statement,
        "ALTER TABLE failed because trigger '{name}' on table '{table}' does not exist.";
    NoTarget { name: String } = 8197, 16, 4, Statement,
        "The object '{name}' does not exist or is invalid for this operation.";
}

impl From<TriggerError> for Error {
    fn from(error: TriggerError) -> Self {
        raise(error.code(), &error)
    }
}
