//! The VFS of `tdekit-sqlite-vfs` in the SQLite library of this program.
#![allow(unsafe_code)]

use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_DESERIALIZE_FREEONCLOSE, SQLITE_DESERIALIZE_READONLY, SQLITE_NOMEM, SQLITE_OK,
    SQLITE_TOOBIG, sqlite3_deserialize, sqlite3_malloc64,
};

/// Makes the VFS the default of every connection that is opened later.
pub fn register() -> rusqlite::Result<()> {
    tdekit_embedded::register().map_err(|error| {
        let code = rusqlite::ffi::Error::new(error.code);
        rusqlite::Error::SqliteFailure(code, Some(error.message))
    })
}

/// Opens a database whose pages are given, to be read. SQLite gets a copy of them, which `edit` may
/// change before.
pub(crate) fn open_image(
    pages: &[u8],
    edit: impl FnOnce(&mut [u8]),
) -> rusqlite::Result<Connection> {
    let failed = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
    let db = Connection::open_in_memory()?;
    let length = i64::try_from(pages.len()).map_err(|_| failed(SQLITE_TOOBIG))?;
    // SAFETY: takes a length; what it gives is checked.
    let start = unsafe { sqlite3_malloc64(pages.len() as u64) }.cast::<u8>();
    if start.is_null() {
        return Err(failed(SQLITE_NOMEM));
    }
    // SAFETY: the memory is ours alone and has `pages.len()` bytes, all of which are written before
    // the slice is made.
    let copy = unsafe {
        std::ptr::copy_nonoverlapping(pages.as_ptr(), start, pages.len());
        std::slice::from_raw_parts_mut(start, pages.len())
    };
    edit(copy);
    let flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY;
    // SAFETY: the connection is open; the memory came from SQLite's allocator and becomes SQLite's,
    // also when this fails.
    let code =
        unsafe { sqlite3_deserialize(db.handle(), c"main".as_ptr(), start, length, length, flags) };
    if code == SQLITE_OK { Ok(db) } else { Err(failed(code)) }
}

/// The VFS's last error on a connection, or on this thread where there is none.
pub(crate) fn last_vfs_error(db: Option<&Connection>) -> Option<String> {
    // SAFETY: the connection is open; its handle is only compared.
    let address = db.map_or(0, |db| unsafe { db.handle() } as usize);
    tdekit_sqlite::last_error_of(address)
}
