//! SQLite's errors as SQL Server's.

use super::kernels::Kernels;
use crate::error::{Error, Rule};

/// Converts SQLite's error to SQL Server's.
pub(crate) fn failure(kernels: &Kernels, error: &rusqlite::Error, database: &str) -> Error {
    if let Some(error) = kernels.take_failure() {
        return error;
    }
    use rusqlite::ErrorCode as C;
    let text = error.to_string();
    let name = database.to_owned();
    let refused = tdekit_wire_tds::memory::was_refused();
    match error.sqlite_error_code() {
        Some(C::OutOfMemory | C::TooBig) => Error::OutOfMemory {},
        _ if refused => Error::OutOfMemory {},
        Some(C::DatabaseBusy | C::DatabaseLocked) => {
            let extended = error.sqlite_error().map(|error| error.extended_code);
            if extended == Some(rusqlite::ffi::SQLITE_BUSY_SNAPSHOT) {
                Error::SnapshotConflict { name }
            } else {
                Error::LockTimeout {}
            }
        }
        Some(C::DiskFull) => Error::OutOfSpace { name },
        Some(C::ReadOnly) => Error::ReadOnly { name },
        Some(C::DatabaseCorrupt | C::NotADatabase) => Error::Damaged { name, detail: text },
        Some(C::ConstraintViolation) => violation(error, text),
        Some(C::SystemIoFailure) => Error::Damaged { name, detail: text },
        _ => Error::Internal { detail: text },
    }
}

/// Returns the rule that refused a row, with the place that SQLite names.
fn violation(error: &rusqlite::Error, detail: String) -> Error {
    use rusqlite::ffi;
    let rule = match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_CONSTRAINT_NOTNULL) => Rule::NotNull,
        Some(
            ffi::SQLITE_CONSTRAINT_UNIQUE
            | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            | ffi::SQLITE_CONSTRAINT_ROWID,
        ) => Rule::Unique,
        Some(ffi::SQLITE_CONSTRAINT_CHECK) => Rule::Check,
        Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => Rule::ForeignKey,
        _ => return Error::Internal { detail },
    };
    let message = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        _ => &detail,
    };
    let place = message.split_once(": ").map_or("", |(_, place)| place).to_owned();
    Error::Violation { rule, place, detail }
}
