//! SQLite's own counts of pages.
#![allow(unsafe_code)]

use rusqlite::{Connection, ffi};

use crate::run::meter::Pages;

/// Of all databases that the connection has open now.
pub(crate) fn pages(connection: &Connection) -> Pages {
    let hit = count(connection, ffi::SQLITE_DBSTATUS_CACHE_HIT);
    let read = count(connection, ffi::SQLITE_DBSTATUS_CACHE_MISS);
    let written = count(connection, ffi::SQLITE_DBSTATUS_CACHE_WRITE);
    Pages { asked: hit.saturating_add(read), read, written }
}

fn count(connection: &Connection, what: i32) -> u64 {
    let (mut now, mut most) = (0, 0);
    // SAFETY: the handle is the connection's, which lives and is used by this thread alone; SQLite
    // writes both numbers or neither.
    let code = unsafe {
        ffi::sqlite3_db_status64(connection.handle(), what, &raw mut now, &raw mut most, 0)
    };
    if code == ffi::SQLITE_OK { u64::try_from(now).unwrap_or(0) } else { 0 }
}
