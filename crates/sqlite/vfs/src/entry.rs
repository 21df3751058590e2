//! The extension's entry points.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use tdekit_key_crypto::secrets_are_locked;

use crate::api::Api;
use crate::ffi::{self, ApiRoutines, Sqlite3};
use crate::{VfsError, functions, host, refused, reserve, vfs};

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
        name_faults(api);
        if !db.is_null() {
            functions::add(api, db);
        }
        match api.auto_extension(connection_opened) {
            ffi::OK => Ok(()),
            code => Err(VfsError::Base(code)),
        }
    }));
    match outcome {
        // The library must stay loaded when the connection that loaded it closes: the VFS is in
        // use.
        Ok(Ok(())) => ffi::OK_LOAD_PERMANENTLY,
        Ok(Err(error)) => {
            // SAFETY: SQLite passes null or a place for a message that it frees.
            unsafe { explain(routines, message, &error) };
            error.code(false)
        }
        Err(_) => ffi::ERROR,
    }
}

/// Reports in the host's log, once per process, a fault of its library, and that keys may be
/// swapped.
fn name_faults(api: Api) {
    static NAMED: Once = Once::new();
    NAMED.call_once(|| {
        if let Some(fault) = host::fault_of(&api.version()) {
            api.log(ffi::WARNING, &format!("tdekit: {fault}"));
        }
        if !secrets_are_locked() {
            let text = "tdekit: keys are not locked in memory and could get into swap: \
                        RLIMIT_MEMLOCK is too small";
            api.log(ffi::WARNING, text);
        }
    });
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
        // The error of a refusal must stay the connection's last one: SQLite asks for it.
        let is_refused = catch_unwind(AssertUnwindSafe(|| refused::tell(api, db)));
        if let Ok(false) = is_refused {
            reserve::ask(api, db);
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use rusqlite::Connection;
    use rusqlite::ffi::{SQLITE_NOMEM, SQLITE_OK, sqlite3, sqlite3_api_routines};

    use super::*;
    use crate::ffi::slot;

    static CODE: AtomicI32 = AtomicI32::new(SQLITE_OK);

    unsafe extern "C" fn no_memory(_: crate::api::EntryPoint) -> c_int {
        SQLITE_NOMEM
    }

    /// Loads the extension into a library that has no memory left for another entry point.
    unsafe extern "C" fn load(
        _: *mut sqlite3,
        _: *mut *mut c_char,
        routines: *const sqlite3_api_routines,
    ) -> c_int {
        type AutoExtension = unsafe extern "C" fn(crate::api::EntryPoint) -> c_int;
        // SAFETY: SQLite passes its own table, whose entries may be copied.
        let entries = unsafe { (*routines.cast::<ApiRoutines>()).entries };
        let mut table = ApiRoutines { entries };
        // SAFETY: the entry is called with the signature of `sqlite3_auto_extension`, which it has.
        let entry =
            unsafe { std::mem::transmute::<AutoExtension, unsafe extern "C" fn()>(no_memory) };
        table.entries[slot::AUTO_EXTENSION] = Some(entry);
        let table: &'static ApiRoutines = Box::leak(Box::new(table));
        let (db, message) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the entry point accepts no connection, no place for a message, and such a table.
        let code =
            unsafe { sqlite3_tdekitsqlite_init(db, message, std::ptr::from_ref(table).cast()) };
        CODE.store(code, Ordering::SeqCst);
        SQLITE_OK
    }

    #[test]
    fn a_library_that_takes_no_entry_point_is_told_so() {
        // SAFETY: `load` has the signature of an extension's entry point.
        unsafe {
            assert_eq!(rusqlite::ffi::sqlite3_auto_extension(Some(load)), SQLITE_OK);
            drop(Connection::open_in_memory().unwrap());
            rusqlite::ffi::sqlite3_cancel_auto_extension(Some(load));
        }
        assert_eq!(CODE.load(Ordering::SeqCst), SQLITE_NOMEM);
    }
}
