//! Messages that are not our errors: information from statements, and errors that a text raises
//! itself.

use super::table;
use crate::Message;

/// The first user-defined number.
pub const USER: i32 = 50_000;
/// The class of errors that THROW raises.
pub const THROWN: u8 = 16;

table! {
    /// An information message.
    Told;
    /// PRINT.
    Printed { text: String } = 0, 0, 1, Nothing, "{text}";
    DbccCompleted {} = 2528, 0, 1, Nothing,
        "DBCC execution completed. If DBCC printed error messages, contact your system \
        administrator.";
    DbccResults { name: String } = 2536, 0, 1, Nothing, "DBCC results for '{name}'.";
    DbccRows { rows: i64, pages: i64, name: String } = 2593, 0, 1, Nothing,
        "There are {rows} rows in {pages} pages for object \"{name}\".";
    DbccFound { errors: usize, name: String } = 8989, 0, 1, Nothing,
        "CHECKDB found 0 allocation errors and {errors} consistency errors in database '{name}'.";
    Identity { current: String, column: String } = 7998, 0, 1, Nothing,
        "Checking identity information: current identity value '{current}', current column value \
        '{column}'.";
    Reseeded { current: String } = 7998, 0, 1, Nothing,
        "Checking identity information: current identity value '{current}'.";
    TransactionOf { name: String } = 7968, 0, 1, Nothing,
        "Transaction information for database '{name}'.";
    NoTransaction {} = 7969, 0, 2, Nothing, "No active open transactions.";
    OldestTransaction {} = 7970, 0, 1, Nothing, "\nOldest active transaction:";
    TransactionSpid { spid: u16 } = 7971, 0, 1, Nothing, "    SPID (server process ID): {spid}";
    TransactionUid {} = 7972, 0, 1, Nothing, "    UID (user ID) : -1";
    TransactionName { name: String } = 7974, 0, 1, Nothing, "    Name          : {name}";
    TransactionStart { time: String } = 7977, 0, 1, Nothing, "    Start time    : {time}";
    Succeeded { verb: &'static str, pages: u64, elapsed_s: f64, rate: f64 } =
        3014, 0, 1, Nothing,
        "{verb} successfully processed {pages} pages in {elapsed_s:.3} seconds ({rate:.3} MB/sec).";
    PercentProcessed { percent: u64 } = 3211, 0, 1, Nothing, "{percent} percent processed.";
    Valid { position: u32 } = 3262, 0, 1, Nothing,
        "The backup set on file {position} is valid.";
    Processed { name: String, pages: u64, position: u32 } = 4035, 0, 1, Nothing,
        "Processed {pages} pages for database '{name}', file '{name}' on file {position}.";
    BeforeStop {} = 4322, 0, 1, Nothing,
        "This backup set contains records that were logged before the designated point in time. \
        The database is being left in the restoring state so that more roll forward can be \
        performed.";
    Database { name: String } = 5701, 0, 2, Nothing, "Changed database context to '{name}'.";
    Language { name: String } = 5703, 0, 1, Nothing, "Changed language setting to {name}.";
    NotBackedUp {} = 33091, 0, 1, Nothing,
        "Warning: The certificate used for encrypting the database encryption key has not been \
        backed up. You should immediately back up the certificate and the private key associated \
        with the certificate. If the certificate ever becomes unavailable or if you must restore \
        or attach the database on another server, you must have backups of both the certificate \
        and the private key or you will not be able to open the database.";
    RenameCaution {} = 15477, 0, 1, Nothing,
        "Caution: Changing any part of an object name could break scripts and stored procedures.";
    Times { cpu_ms: u64, elapsed_ms: u64 } = 3612, 0, 1, Nothing,
        "\n SQL Server Execution Times:\n   CPU time = {cpu_ms} ms,  \
        elapsed time = {elapsed_ms} ms.";
    Reads { tables: String, logical: u64, physical: u64, written: u64 } = 3615, 0, 1, Nothing,
        "Table '{tables}'. logical reads {logical}, physical reads {physical}, pages written \
        {written}.";
    /// A message for which SQL Server has no number.
    Own { text: String } = 50000, 0, 1, Nothing, "{text}";
}

impl Told {
    /// Returns the message that a client sees, on line 1.
    #[must_use]
    pub fn message(&self) -> Message {
        let (number, class, state) = self.code();
        Message::new(number, class, state, self.to_string())
    }
}

/// Returns the error that a text raises by RAISERROR and THROW: its number, class and state.
#[must_use]
pub fn raised(
    line: u32,
    procedure: &str,
    (number, class, state): (i32, u8, u8),
    text: String,
) -> Message {
    let procedure = procedure.to_owned();
    Message { line, procedure, ..Message::new(number, class, state, text) }
}

/// Returns the message of sys.messages that RAISERROR uses by its number alone: those of our own
/// procedures.
#[must_use]
pub fn system(number: i64) -> Option<(i32, &'static str)> {
    match number {
        15250 => Some((
            15250,
            "The database name component of the object qualifier must be the name of the current \
             database.",
        )),
        15218 => Some((15218, "Object '%s' is not a table.")),
        15645 => Some((15645, "Column '%s' does not exist.")),
        15646 => Some((15646, "Column '%s' is not a computed column.")),
        15325 => Some((15325, "The current database does not contain a %s named '%s'.")),
        15252 => Some((15252, "The primary or foreign key table name must be given.")),
        _ => None,
    }
}
