//! SQLite's C interface from a library chosen at run time, so that every side of a comparison is
//! driven by the same code.
//!
//! This is the crate's only module that calls C functions of SQLite.
#![allow(unsafe_code)]

mod api;
mod connection;
mod idle;
mod statement;

pub(crate) use api::LibraryError;
pub(crate) use connection::{BUSY_WAIT, Connection, Library, SqliteError, retries};
pub(crate) use idle::control_code;
pub(crate) use statement::Statement;

/// Whether a text ends with a complete statement, by the library linked into this program.
pub(crate) fn is_complete(text: &std::ffi::CStr) -> bool {
    // SAFETY: takes a C string and keeps nothing of it.
    unsafe { libsqlite3_sys::sqlite3_complete(text.as_ptr()) != 0 }
}
