//! SQLite's C interface from a library that is linked in or chosen at run time, for the bench, for
//! imports and for tests: the same code drives every library.
//!
//! [`Api`] is the table of C functions; whoever calls them directly keeps SQLite's own contract.
//! The other types do so by themselves.
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

/// Whether a text ends with a complete statement, by the library linked into this program.
#[must_use]
pub fn is_complete(text: &std::ffi::CStr) -> bool {
    // SAFETY: takes a C string and keeps nothing of it.
    unsafe { rusqlite::ffi::sqlite3_complete(text.as_ptr()) != 0 }
}
