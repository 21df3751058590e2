//! The extension's entry points.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::api::Api;
use crate::ffi::{self, ApiRoutines, Sqlite3};
use crate::{VfsError, functions, vfs};

/// Entry point under SQLite's default name.
///
/// # Safety
/// SQLite calls this, with its own connection, place for a message, and table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { init(db.cast(), message, routines.cast()) }
}

/// Entry point under the name that SQLite derives from the library's file name.
///
/// # Safety
/// SQLite calls this, with its own connection, place for a message, and table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_tdekitsqlite_init(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { init(db.cast(), message, routines.cast()) }
}

/// Registers the VFS with the host's library and makes it the default.
unsafe fn init(db: *mut Sqlite3, message: *mut *mut c_char, routines: *const ApiRoutines) -> c_int {
    // SAFETY: the table is what SQLite passed.
    let api = unsafe { Api::new(routines) };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let api = api?;
        vfs::register(api)?;
        if !db.is_null() {
            functions::add(api, db);
        }
        api.auto_extension(connection_opened);
        Ok::<_, VfsError>(api)
    }));
    match outcome {
        // The library must stay when the connection that loaded it closes: the VFS is in use.
        Ok(Ok(_)) => ffi::OK_LOAD_PERMANENTLY,
        Ok(Err(error)) => {
            // SAFETY: SQLite passes null or a place for a message that it frees.
            unsafe { explain(routines, message, &error) };
            ffi::ERROR
        }
        Err(_) => ffi::ERROR,
    }
}

/// Runs on every connection that the host opens later.
unsafe extern "C" fn connection_opened(
    db: *mut Sqlite3,
    _: *mut *mut c_char,
    routines: *const ApiRoutines,
) -> c_int {
    // SAFETY: the table is what SQLite passed.
    if let Ok(api) = unsafe { Api::new(routines) } {
        functions::add(api, db);
    }
    ffi::OK
}

unsafe fn explain(routines: *const ApiRoutines, place: *mut *mut c_char, error: &VfsError) {
    // SAFETY: the table is what SQLite passed.
    let api = unsafe { Api::new(routines) };
    let text = CString::new(format!("tdekit: {error}"));
    if let (Ok(api), Ok(text), false) = (api, text, place.is_null()) {
        // SAFETY: SQLite passed a place for the message, and frees it.
        unsafe { *place = api.mprintf(&text) };
    }
}
