//! The functions of the linked SQLite. Their declarations are those of `sqlite3.h`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

const OK: c_int = 0;
/// An extension's result for "do not unload me", which only `sqlite3_load_extension` knows.
const OK_LOAD_PERMANENTLY: c_int = 256;
const OPEN_READWRITE: c_int = 2;
const OPEN_CREATE: c_int = 4;

type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_void) -> c_int;

unsafe extern "C" {
    fn sqlite3_auto_extension(entry: Option<Entry>) -> c_int;
    fn sqlite3_cancel_auto_extension(entry: Option<Entry>) -> c_int;
    fn sqlite3_open_v2(
        name: *const c_char,
        db: *mut *mut c_void,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    fn sqlite3_close(db: *mut c_void) -> c_int;
    fn sqlite3_errmsg(db: *mut c_void) -> *const c_char;
}

/// Opens a connection in memory, which makes SQLite pass its table of functions to the extension's
/// entry point: linked code cannot get it in another way.
pub(crate) fn register() -> Result<(), (i32, String)> {
    // SAFETY: the entry has the signature that SQLite calls, and lives as long as the program.
    let added = unsafe { sqlite3_auto_extension(Some(entry)) };
    if added != OK {
        return Err((added, "no memory".to_owned()));
    }
    let mut db = ptr::null_mut();
    let flags = OPEN_READWRITE | OPEN_CREATE;
    // SAFETY: the name ends with a zero, `db` is a place for the connection, which is closed below.
    let opened = unsafe { sqlite3_open_v2(c":memory:".as_ptr(), &raw mut db, flags, ptr::null()) };
    let result = match opened {
        OK => Ok(()),
        code => Err((code, message(db))),
    };
    // SAFETY: `entry` was added above; the connection, null or not, is used nowhere else.
    unsafe {
        sqlite3_cancel_auto_extension(Some(entry));
        sqlite3_close(db);
    }
    result
}

unsafe extern "C" fn entry(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite calls this, with its own connection, place for a message, and table.
    match unsafe { tdekit_sqlite::sqlite3_tdekitsqlite_init(db, message, routines) } {
        OK_LOAD_PERMANENTLY => OK,
        code => code,
    }
}

fn message(db: *mut c_void) -> String {
    // SAFETY: SQLite accepts null, for a connection that it had no memory for, and returns a
    // NUL-terminated text that is valid until the connection is used again.
    let text = unsafe { CStr::from_ptr(sqlite3_errmsg(db)) };
    text.to_string_lossy().into_owned()
}
