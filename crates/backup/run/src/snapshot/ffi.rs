//! The files of a connection, read without SQLite's cache.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_IOERR, SQLITE_OK, sqlite3_file,
    sqlite3_file_control, sqlite3_io_methods,
};
use tdekit_sqlite::{FCNTL_TDEKIT_SLOTS, SlotIds};

/// The first version with shared memory. Files whose bytes differ from SQLite's view have no later
/// version, because they cannot be mapped.
const METHODS_VERSION: c_int = 2;

/// The main file of a connection, which the borrow keeps open and exclusive.
pub(crate) struct MainFile<'a> {
    file: *mut sqlite3_file,
    /// Of version 2 or later, so some fields may be missing.
    methods: *const sqlite3_io_methods,
    connection: PhantomData<&'a mut Connection>,
}

/// A method of the file, by a field of version 2 or earlier.
macro_rules! method {
    ($file:expr, $name:ident) => {
        // SAFETY: `MainFile::of` checked that the methods exist and have that version, and they
        // stay as long as the borrow. Only this field is read.
        unsafe { (&raw const (*$file.methods).$name).read() }
    };
}

impl<'a> MainFile<'a> {
    /// Returns `None` if SQLite does not provide it.
    pub(crate) fn of(connection: &'a mut Connection) -> Option<Self> {
        Self::by(connection, SQLITE_FCNTL_FILE_POINTER, METHODS_VERSION)
    }

    /// Returns the write-ahead log of a connection that has read in WAL mode.
    pub(crate) fn log_of(connection: &'a mut Connection) -> Option<Self> {
        Self::by(connection, SQLITE_FCNTL_JOURNAL_POINTER, 1)
    }

    fn by(connection: &'a mut Connection, control: c_int, version: c_int) -> Option<Self> {
        let mut file: *mut sqlite3_file = null_mut();
        let place: *mut *mut sqlite3_file = &mut file;
        // SAFETY: the connection is open, and this control takes the place of a pointer.
        let code = unsafe {
            let db = connection.handle();
            sqlite3_file_control(db, c"main".as_ptr(), control, place.cast::<c_void>())
        };
        if code != SQLITE_OK {
            return None;
        }
        // SAFETY: SQLite returned the connection's own file, whose methods its VFS owns; both stay
        // while the connection is open, which the borrow ensures. Methods of an earlier version
        // than the type's are shorter than it: only their version is read.
        let methods = unsafe {
            let methods = file.as_ref()?.pMethods;
            if methods.is_null() || (&raw const (*methods).iVersion).read() < version {
                return None;
            }
            methods
        };
        Some(Self { file, methods, connection: PhantomData })
    }

    /// Returns the size of the file as SQLite sees it.
    pub(super) fn size(&self) -> Option<u64> {
        let mut size = 0;
        let file_size = method!(self, xFileSize)?;
        // SAFETY: the file is open, and nobody else uses the connection.
        let code = unsafe { file_size(self.file, &raw mut size) };
        u64::try_from(size).ok().filter(|_| code == SQLITE_OK)
    }

    /// Returns the identities of the header's slots in the file of an encrypted database. Read
    /// through the connection's own descriptor: closing another would drop its locks.
    pub(crate) fn slot_ids(&self) -> Option<SlotIds> {
        let mut found = SlotIds::default();
        let control = method!(self, xFileControl)?;
        let place: *mut SlotIds = &raw mut found;
        // SAFETY: the file is open, nobody else uses the connection, and this control takes such a
        // place. Other files do not know this control.
        let code = unsafe { control(self.file, FCNTL_TDEKIT_SLOTS, place.cast()) };
        (code == SQLITE_OK).then_some(found)
    }

    /// Fills `out` from `offset`, page by page as SQLite reads; returns false if that fails for any
    /// reason.
    pub(crate) fn read(&self, out: &mut [u8], offset: u64, page_len: usize) -> bool {
        let Some(read) = method!(self, xRead) else { return false };
        let mut at = offset;
        for part in out.chunks_mut(page_len) {
            let (Ok(len), Ok(from)) = (c_int::try_from(part.len()), i64::try_from(at)) else {
                return false;
            };
            // SAFETY: the file is open, nobody else uses the connection, and `part` has `len`
            // bytes.
            if unsafe { read(self.file, part.as_mut_ptr().cast(), len, from) } != SQLITE_OK {
                return false;
            }
            at += part.len() as u64;
        }
        true
    }

    /// Takes or releases locks of the log's index (`SQLITE_SHM_*`); returns SQLite's code. The
    /// caller knows which of them SQLite itself uses on this connection.
    pub(crate) fn lock_index(&self, first: c_int, count: c_int, flags: c_int) -> c_int {
        let Some(lock) = method!(self, xShmLock) else { return SQLITE_IOERR };
        // SAFETY: the file is open and nobody else uses the connection. The index is mapped, as it
        // is once the connection has read in WAL mode: the VFS fails otherwise.
        unsafe { lock(self.file, first, count, flags) }
    }

    /// Returns a region of the index of the write-ahead log, `len` bytes that other processes write
    /// to; `None` if it does not exist.
    pub(crate) fn log_index(&self, region: u32, len: usize) -> Option<&[AtomicU32]> {
        let map = method!(self, xShmMap)?;
        let (number, bytes) = (c_int::try_from(region).ok()?, c_int::try_from(len).ok()?);
        let mut start: *mut c_void = null_mut();
        let place: *mut *mut c_void = &mut start;
        // SAFETY: the file is open, nobody else uses the connection; 0 requests no new region.
        let code = unsafe { map(self.file, number, bytes, 0, place.cast()) };
        let start = start.cast::<AtomicU32>();
        if code != SQLITE_OK || start.is_null() || !start.is_aligned() {
            return None;
        }
        // SAFETY: the region has `len` bytes, and stays mapped while the connection reads the
        // log, which is longer than the borrow. Integers are read one by one and atomically.
        Some(unsafe { std::slice::from_raw_parts(start, len / size_of::<AtomicU32>()) })
    }
}

/// Reads a number of the log's index, in the byte order of the machine.
pub(crate) fn number(of: &AtomicU32) -> u32 {
    of.load(Ordering::Acquire)
}
