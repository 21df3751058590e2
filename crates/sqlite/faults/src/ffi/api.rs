//! The SQLite library under test.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi as sys;
use tdekit_sqlite_client::Library;

use crate::error::{Error, Result};

/// Name of the variable with the path of a shared library to test instead of the bundled one.
pub const LIBRARY_VARIABLE: &str = "TDEKIT_FAULTS_SQLITE";

/// Returns the library under test: the one that [`LIBRARY_VARIABLE`] names, or the bundled one.
///
/// # Errors
/// [`Error::Setup`] if the named library cannot be loaded.
pub fn library() -> Result<Library> {
    static LIBRARY: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    let found = LIBRARY.get_or_init(|| match std::env::var_os(LIBRARY_VARIABLE) {
        Some(path) => Library::shared(Path::new(&path)).map_err(|e| e.to_string()),
        None => Ok(Library::bundled()),
    });
    found.clone().map_err(Error::Setup)
}

/// Returns the version of the library under test, such as `3.40.1`.
///
/// # Errors
/// As [`library`].
pub fn version() -> Result<String> {
    library().map(Library::version)
}

/// Returns the table of routines that SQLite passes to extensions, as a loaded extension gets it.
///
/// # Errors
/// As [`library`]; [`Error::Setup`] when SQLite does not call an automatic extension.
pub fn routines() -> Result<*const sys::sqlite3_api_routines> {
    // A raw pointer is not Sync; the address of a static table may be stored as a number.
    static TABLE: OnceLock<usize> = OnceLock::new();
    unsafe extern "C" fn capture(
        _db: *mut sys::sqlite3,
        _message: *mut *mut c_char,
        table: *const sys::sqlite3_api_routines,
    ) -> c_int {
        TABLE.get_or_init(|| table as usize);
        sys::SQLITE_OK
    }
    let api = library()?.api();
    if TABLE.get().is_none() {
        let mut db = ptr::null_mut();
        // SAFETY: `capture` has the signature of an extension's entry point; the handle is closed
        // whether or not opening it succeeded, as sqlite3_open_v2 demands.
        unsafe {
            (api.sqlite3_auto_extension)(Some(capture));
            let flags = sys::SQLITE_OPEN_READWRITE | sys::SQLITE_OPEN_MEMORY;
            (api.sqlite3_open_v2)(c":memory:".as_ptr(), &raw mut db, flags, ptr::null());
            (api.sqlite3_close)(db);
            (api.sqlite3_cancel_auto_extension)(Some(capture));
        }
    }
    match TABLE.get() {
        Some(&table) => Ok(table as *const sys::sqlite3_api_routines),
        None => Err(Error::Setup("SQLite passed no table of routines".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_that_was_asked_for() {
        let version = version().unwrap();
        println!("SQLite {version}");
        let bundled = version == rusqlite::version();
        assert_eq!(bundled, std::env::var_os(LIBRARY_VARIABLE).is_none());
        assert!(!routines().unwrap().is_null());
    }
}
