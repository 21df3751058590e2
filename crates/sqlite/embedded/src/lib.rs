//! Transparent encryption for the SQLite that a Rust program is linked with: without loading an
//! extension, and without any file besides the program.
//!
//! Call [`register`] once, before the first encrypted database is opened. Every later connection of
//! rusqlite, sqlx or any other user of SQLite opens plain and encrypted databases alike. The key
//! store is found and opened as by the command `tdekit`, through `TDEKIT_*` variables or its
//! `config.toml`.
//!
//! The program links SQLite, by the feature `bundled` of rusqlite or otherwise: this crate names
//! no version of it.

mod ffi;

use std::sync::{Mutex, PoisonError};

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
