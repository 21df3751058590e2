//! Transparent encryption for the SQLite that a Rust program is linked with: without loading an
//! extension, and without any file besides the program.
//!
//! Call [`register`] once, before the first encrypted database is opened. Every later connection of
//! rusqlite, sqlx or any other user of SQLite opens plain and encrypted databases alike. The key
//! store is found and opened as by the command `tdekit`, through `TDEKIT_*` variables or its
//! `config.toml`; [`unlock`] opens it by a secret of the program's own.
//!
//! The program links SQLite, by the feature `bundled` of rusqlite or otherwise: this crate names
//! no version of it.

mod ffi;

use std::ffi::OsStr;
use std::sync::{Mutex, PoisonError};

pub use tdekit_sqlite::given::{Given, Secret};

/// tdekit was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tdekit was not registered with SQLite: {message} (code {code})")]
pub struct RegisterError {
    /// SQLite's result code.
    pub code: i32,
    /// Error message of SQLite or tdekit.
    pub message: String,
}

/// Registers tdekit with the linked SQLite as its default VFS. May be called any number of times,
/// from any thread.
///
/// # Errors
/// If SQLite is older than tdekit supports, or has no memory.
pub fn register() -> Result<(), RegisterError> {
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*registered {
        ffi::register().map_err(|(code, message)| RegisterError { code, message })?;
        *registered = true;
    }
    Ok(())
}

/// A secret did not open a key store.
#[derive(Debug, thiserror::Error)]
#[error("tdekit: {0}")]
pub struct UnlockError(#[source] tdekit_sqlite::VfsError);

/// Opens the key store of a database by `secret`, for the connections that are opened as long as
/// the result lives, in place of what the environment names. What they have opened stays open.
///
/// `database` is the text that they are opened with: a path, or a URI in which `tdekit_home` may
/// name the key store.
///
/// # Errors
/// The reason, such as a wrong password or a file that others can read.
pub fn unlock(database: impl AsRef<OsStr>, secret: Secret<'_>) -> Result<Given, UnlockError> {
    tdekit_sqlite::given::give(database.as_ref(), secret).map_err(UnlockError)
}
