//! Opens the key store for a database.

use std::path::Path;
use std::sync::Arc;

use tdekit_console::{ConsoleError, GlobalArgs, session};
use tdekit_key_store::Unlocked;
use tdekit_sqlite_convert::{require_encrypted, without_store};

use crate::error::CommandError;

/// Opens the key store for an encrypted database; for any other, fails before a password is
/// requested. If there is no key store, the error names the certificates that
/// would open the database.
pub(crate) fn open_store_for(
    database: &Path,
    global: &GlobalArgs,
) -> Result<Arc<Unlocked>, CommandError> {
    open_for(database, || session::open_unlocked_store(global))
}

/// As [`open_store_for`], but never prompts.
pub(crate) fn open_store_unasked_for(
    database: &Path,
    global: &GlobalArgs,
) -> Result<Arc<Unlocked>, CommandError> {
    open_for(database, || session::open_unlocked_store_unasked(global))
}

fn open_for(
    database: &Path,
    open: impl FnOnce() -> Result<Unlocked, ConsoleError>,
) -> Result<Arc<Unlocked>, CommandError> {
    require_encrypted(database)?;
    open().map(Arc::new).map_err(|error| match &error {
        ConsoleError::Store(missing) => without_store(database, missing)
            .map_or_else(|| CommandError::from(error), CommandError::from),
        _ => error.into(),
    })
}
