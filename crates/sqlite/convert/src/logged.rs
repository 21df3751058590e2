//! Entries of the key store's audit log, each written before the event.

use std::path::Path;

use tdekit_key_store::{AuditAction, AuditDatabase, StoreError, Unlocked};
use tdekit_sqlite::logged::audited;
use tdekit_sqlite_page::Header;

use crate::error::{DatabaseError, io_error};
use crate::inspect::{header_of, read_area};
use crate::target::Target;

/// Logs a pending operation on the key of the database at `path`. If nobody here can write to the
/// store, returns its error for a warning.
///
/// # Errors
/// `NotLogged`: the operation must not happen.
pub(crate) fn log(
    action: AuditAction,
    path: &Path,
    header: &Header,
    unlocked: &Unlocked,
) -> Result<Option<StoreError>, DatabaseError> {
    let database = audited(path, header, unlocked.store());
    Ok(unlocked.log_database(action, &database)?)
}

/// Returns the log's description of the encrypted database in `target` that will be at `path`.
///
/// # Errors
/// `Header`, `Io`.
pub fn audited_target(
    target: &Target,
    path: &Path,
    unlocked: &Unlocked,
) -> Result<AuditDatabase, DatabaseError> {
    let area = read_area(target.file()).map_err(io_error("read", target.path()))?;
    Ok(audited(path, &header_of(target.path(), &area)?, unlocked.store()))
}

/// Logs the change of that database.
///
/// # Errors
/// As [`log`].
pub(crate) fn log_target(
    action: AuditAction,
    (target, path): (&Target, &Path),
    unlocked: &Unlocked,
) -> Result<Option<StoreError>, DatabaseError> {
    Ok(unlocked.log_database(action, &audited_target(target, path, unlocked)?)?)
}
