//! The files of a connection, read past SQLite's cache.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_FCNTL_FILE_POINTER, SQLITE_OK, sqlite3_file, sqlite3_file_control, sqlite3_io_methods,
};

/// That of [`sqlite3_io_methods`] with all its fields.
const METHODS_VERSION: c_int = 3;

/// The main file of a connection, which the borrow keeps open and to ourselves.
pub(super) struct MainFile<'a> {
    file: *mut sqlite3_file,
    methods: &'a sqlite3_io_methods,
}

impl<'a> MainFile<'a> {
    /// `None` where SQLite does not give it out.
    pub(super) fn of(connection: &'a mut Connection) -> Option<Self> {
        let mut file: *mut sqlite3_file = null_mut();
        let place: *mut *mut sqlite3_file = &mut file;
        // SAFETY: the connection is open, and this control takes the place of a pointer.
        let code = unsafe {
            let db = connection.handle();
            let control = SQLITE_FCNTL_FILE_POINTER;
            sqlite3_file_control(db, c"main".as_ptr(), control, place.cast::<c_void>())
        };
        if code != SQLITE_OK {
            return None;
        }
        // SAFETY: SQLite gave the connection's own file, whose methods its VFS owns; both stay
        // while the connection is open, which the borrow sees to. Methods of an earlier version
        // than the type's are shorter than it: only their version is looked at.
        let methods = unsafe {
            let methods = file.as_ref()?.pMethods;
            if methods.is_null() || (&raw const (*methods).iVersion).read() < METHODS_VERSION {
                return None;
            }
            &*methods
        };
        Some(Self { file, methods })
    }

    /// Bytes of the file as SQLite sees it.
    pub(super) fn size(&self) -> Option<u64> {
        let mut size = 0;
        let file_size = self.methods.xFileSize?;
        // SAFETY: the file is open, and nobody else uses the connection.
        let code = unsafe { file_size(self.file, &raw mut size) };
        u64::try_from(size).ok().filter(|_| code == SQLITE_OK)
    }

    /// Fills `out` from `offset`, page by page as SQLite reads; false where that fails for any
    /// reason.
    pub(super) fn read(&self, out: &mut [u8], offset: u64, page_len: usize) -> bool {
        let Some(read) = self.methods.xRead else { return false };
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

    /// A region of the index of the write-ahead log, `len` bytes that other processes write to;
    /// `None` where it is not there.
    pub(super) fn log_index(&self, region: u32, len: usize) -> Option<&[AtomicU32]> {
        let map = self.methods.xShmMap?;
        let (number, bytes) = (c_int::try_from(region).ok()?, c_int::try_from(len).ok()?);
        let mut start: *mut c_void = null_mut();
        let place: *mut *mut c_void = &mut start;
        // SAFETY: the file is open, nobody else uses the connection; 0 asks for no new region.
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

/// A number of the log's index, in the byte order of the machine.
pub(super) fn number(of: &AtomicU32) -> u32 {
    of.load(Ordering::Acquire)
}
