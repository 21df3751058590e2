//! SQLite's C interface from a library that is linked in or chosen at run time, for the bench, for
//! imports and for tests: the same code drives every library.
//!
//! [`Api`] is the table of C functions; direct callers must observe SQLite's own contract. The
//! other types observe it themselves.
#![allow(unsafe_code)]

mod api;
mod connection;
mod idle;
mod image;
mod statement;
mod uri;
mod weaken;

pub use api::{Api, ExtensionEntry, LibraryError};
pub use connection::{BUSY_WAIT, CacheCounts, Connection, Library, SqliteError, retries};
pub use idle::control_code;
pub use image::Image;
pub use statement::{Bound, Row, Statement, Value};
pub use uri::file_uri;
pub use weaken::weaken_undefined;

/// Returns true if a text ends with a complete statement, according to the linked library.
#[must_use]
pub fn is_complete(text: &std::ffi::CStr) -> bool {
    // SAFETY: takes a C string and does not keep it.
    unsafe { rusqlite::ffi::sqlite3_complete(text.as_ptr()) != 0 }
}
