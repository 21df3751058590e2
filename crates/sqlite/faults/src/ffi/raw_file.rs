//! A `sqlite3_file` of an open connection, called as SQLite itself calls it.

use std::ffi::c_int;
use std::marker::PhantomData;

use rusqlite::ffi as sys;

/// Calls one method of the file, as SQLite does.
macro_rules! call {
    ($self:expr, $method:ident $(, $arg:expr)*) => {
        // SAFETY: `RawFile::new` checked the table, and its caller guarantees the file's life; the
        // arguments' buffers live through the call and have the length that is passed.
        unsafe {
            match (*$self.methods).$method {
                Some(call) => call($self.file $(, $arg)*),
                None => sys::SQLITE_MISUSE,
            }
        }
    };
}

/// The open file under a pager. Bypasses the pager's cache and, for writes, SQLite's own rules.
pub struct RawFile<'db> {
    file: *mut sys::sqlite3_file,
    methods: *const sys::sqlite3_io_methods,
    _owner: PhantomData<&'db ()>,
}

impl RawFile<'_> {
    /// Returns `None` if the file is not open.
    ///
    /// # Safety
    /// `file` is null or a `sqlite3_file` that outlives `'db`.
    pub(crate) unsafe fn new(file: *mut sys::sqlite3_file) -> Option<Self> {
        if file.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; a closed file has null methods.
        let methods = unsafe { (*file).pMethods };
        (!methods.is_null()).then_some(Self { file, methods, _owner: PhantomData })
    }

    /// Reads into `buf` at the logical `offset`; returns SQLite's result code
    /// (`SQLITE_IOERR_SHORT_READ` past the end, with the rest zeroed).
    pub fn read(&self, buf: &mut [u8], offset: u64) -> c_int {
        let (Ok(len), Ok(offset)) = (c_int::try_from(buf.len()), i64::try_from(offset)) else {
            return sys::SQLITE_MISUSE;
        };
        call!(self, xRead, buf.as_mut_ptr().cast(), len, offset)
    }

    /// Writes `data` at the logical `offset`; returns SQLite's result code.
    pub fn write(&self, data: &[u8], offset: u64) -> c_int {
        let (Ok(len), Ok(offset)) = (c_int::try_from(data.len()), i64::try_from(offset)) else {
            return sys::SQLITE_MISUSE;
        };
        call!(self, xWrite, data.as_ptr().cast(), len, offset)
    }

    /// Returns the logical size in bytes, or SQLite's result code.
    ///
    /// # Errors
    /// The result code of xFileSize.
    pub fn size(&self) -> Result<u64, c_int> {
        let mut size = 0;
        let rc = call!(self, xFileSize, &raw mut size);
        if rc == sys::SQLITE_OK {
            u64::try_from(size).map_err(|_| sys::SQLITE_IOERR)
        } else {
            Err(rc)
        }
    }

    /// Takes the shared lock, as SQLite does at the start of each read transaction. The connection
    /// must not be in a transaction.
    pub fn lock_shared(&self) -> c_int {
        call!(self, xLock, sys::SQLITE_LOCK_SHARED)
    }

    /// Drops the lock that [`RawFile::lock_shared`] took.
    pub fn unlock(&self) -> c_int {
        call!(self, xUnlock, sys::SQLITE_LOCK_NONE)
    }
}
