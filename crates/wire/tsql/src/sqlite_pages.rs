//! SQLite's own counters: of pages, and of changes by others.
#![allow(unsafe_code)]

use rusqlite::{Connection, ffi};

/// SQLite's counts, of all databases that a connection has or had open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Pages that were requested: from the cache, or read.
    pub(crate) asked: u64,
    /// Pages that were read from files.
    pub(crate) read: u64,
    /// Pages that were written to files and logs.
    pub(crate) written: u64,
}

impl Pages {
    pub(crate) fn plus(self, other: Pages) -> Pages {
        Pages {
            asked: self.asked.wrapping_add(other.asked),
            read: self.read.wrapping_add(other.read),
            written: self.written.wrapping_add(other.written),
        }
    }

    pub(crate) fn minus(self, other: Pages) -> Pages {
        Pages {
            asked: self.asked.saturating_sub(other.asked),
            read: self.read.saturating_sub(other.read),
            written: self.written.saturating_sub(other.written),
        }
    }
}

/// Returns the counts of all databases that the connection has open.
pub(crate) fn pages(connection: &Connection) -> Pages {
    let hit = count(connection, ffi::SQLITE_DBSTATUS_CACHE_HIT);
    let read = count(connection, ffi::SQLITE_DBSTATUS_CACHE_MISS);
    let written = count(connection, ffi::SQLITE_DBSTATUS_CACHE_WRITE);
    Pages { asked: hit.saturating_add(read), read, written }
}

/// Returns a number that changes when SQLite notices that another connection changed the database,
/// which it does when a statement takes its first lock. 0 if there is no such database.
pub(crate) fn data_version(connection: &Connection, schema: &str) -> u32 {
    let Ok(schema) = std::ffi::CString::new(schema) else { return 0 };
    let mut version: std::ffi::c_uint = 0;
    // SAFETY: as in `count`; the name is NUL-terminated, and SQLite writes one unsigned int.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            schema.as_ptr(),
            ffi::SQLITE_FCNTL_DATA_VERSION,
            (&raw mut version).cast(),
        )
    };
    if code == ffi::SQLITE_OK { version } else { 0 }
}

fn count(connection: &Connection, what: i32) -> u64 {
    let (mut now, mut most) = (0, 0);
    // SAFETY: the handle belongs to the connection, which is alive and used by this thread alone;
    // SQLite writes both numbers or neither.
    let code = unsafe {
        ffi::sqlite3_db_status64(connection.handle(), what, &raw mut now, &raw mut most, 0)
    };
    if code == ffi::SQLITE_OK { u64::try_from(now).unwrap_or(0) } else { 0 }
}
