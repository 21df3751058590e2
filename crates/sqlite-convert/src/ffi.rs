//! Registers the VFS of `tdekit-sqlite-vfs` with the SQLite library of this program.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_OK, SQLITE_OK_LOAD_PERMANENTLY, sqlite3, sqlite3_api_routines, sqlite3_auto_extension,
};

/// Makes the VFS the default of every connection that is opened later.
pub fn register() -> rusqlite::Result<()> {
    static OUTCOME: OnceLock<c_int> = OnceLock::new();
    let code = *OUTCOME.get_or_init(|| {
        // SAFETY: `init` has the signature of an extension's entry point.
        unsafe { sqlite3_auto_extension(Some(init)) }
    });
    if code != SQLITE_OK {
        return Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
    }
    // The entry point runs when a connection opens, too late for that one's own file.
    drop(Connection::open_in_memory()?);
    Ok(())
}

/// The VFS's last error on a connection, or on this thread where there is none.
pub(crate) fn last_vfs_error(db: Option<&Connection>) -> Option<String> {
    // SAFETY: the connection is open; its handle is only compared.
    let address = db.map_or(0, |db| unsafe { db.handle() } as usize);
    tdekit_sqlite::last_error_of(address)
}

unsafe extern "C" fn init(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite calls this as an extension's entry point, with what one takes.
    let code =
        unsafe { tdekit_sqlite::sqlite3_extension_init(db.cast(), message, routines.cast()) };
    // An extension that is linked in cannot be unloaded, and SQLite takes other codes for errors.
    if code == SQLITE_OK_LOAD_PERMANENTLY { SQLITE_OK } else { code }
}
