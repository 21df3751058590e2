//! The VFS of `tdekit-sqlite-vfs` in the SQLite library of this program.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

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

/// Opens a database from its pages, read-only. SQLite gets a copy of them, which `edit` may change
/// before.
pub(crate) fn open_image(
    pages: &[u8],
    edit: impl FnOnce(&mut [u8]),
) -> rusqlite::Result<Connection> {
    let failed = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
    let db = Connection::open_in_memory()?;
    let length = i64::try_from(pages.len()).map_err(|_| failed(SQLITE_TOOBIG))?;
    // SAFETY: takes a length; the result is checked.
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

/// Keeps new connections from opening the database in `file`, through the lock that SQLite takes
/// before it waits for readers to end (PENDING), until a descriptor of the file is closed.
/// Connections to a database with a log keep the lock that they got when they opened it. Returns
/// false if one is being opened at this moment.
pub(crate) fn keep_openers_out(file: &File) -> io::Result<bool> {
    const PENDING_BYTE: libc::off_t = 0x4000_0000;
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = i16::try_from(libc::F_WRLCK).unwrap_or_default();
    lock.l_whence = i16::try_from(libc::SEEK_SET).unwrap_or_default();
    (lock.l_start, lock.l_len) = (PENDING_BYTE, 1);
    // SAFETY: the descriptor is open, and the structure is the one that the call takes.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Operation on a mark on a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Set,
    Clear,
    /// Asks whether somebody else has set it.
    Ask,
}

/// Sets, clears or queries a shared lock on one byte of `file`. The lock belongs to the open file
/// description, not to the process.
pub(crate) fn mark_byte(file: &File, at: i64, mark: Mark) -> io::Result<bool> {
    let (command, kind) = match mark {
        Mark::Set => (libc::F_OFD_SETLK, libc::F_RDLCK),
        Mark::Clear => (libc::F_OFD_SETLK, libc::F_UNLCK),
        Mark::Ask => (libc::F_OFD_GETLK, libc::F_WRLCK),
    };
    // SAFETY: a structure of integers, for which zeros are valid; the process id must be zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = i16::try_from(kind).unwrap_or_default();
    lock.l_whence = i16::try_from(libc::SEEK_SET).unwrap_or_default();
    (lock.l_start, lock.l_len) = (at, 1);
    // SAFETY: the descriptor is open, and the structure is the one that the call takes and fills.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(mark == Mark::Ask && i32::from(lock.l_type) != libc::F_UNLCK),
    }
}

/// Returns the bytes of the exclusive lock that holds byte `at` of `file` through another
/// descriptor; `None` if nobody holds it so. Nothing is locked.
pub(crate) fn exclusive_lock_on(file: &File, at: i64) -> io::Result<Option<Range<i64>>> {
    // SAFETY: a structure of integers, for which zeros are valid; the process id must be zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // A shared lock conflicts with exclusive ones only.
    lock.l_type = i16::try_from(libc::F_RDLCK).unwrap_or_default();
    lock.l_whence = i16::try_from(libc::SEEK_SET).unwrap_or_default();
    (lock.l_start, lock.l_len) = (at, 1);
    // SAFETY: the descriptor is open, and the structure is the one that the call takes and fills.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } == -1 {
        return Err(io::Error::last_os_error());
    }
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    // A length of 0 means all bytes behind the first.
    let len = if lock.l_len == 0 { i64::MAX } else { lock.l_len };
    Ok(Some(lock.l_start..lock.l_start.saturating_add(len)))
}

/// Returns the VFS's last error on a connection, or on this thread without one.
pub(crate) fn last_vfs_error(db: Option<&Connection>) -> Option<String> {
    // SAFETY: the connection is open; its handle is only compared.
    let address = db.map_or(0, |db| unsafe { db.handle() } as usize);
    tdekit_sqlite::last_error_of(address)
}
