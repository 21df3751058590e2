//! A whole database as bytes in memory.

use core::ffi::c_void;
use std::rc::Rc;

use rusqlite::ffi;

use crate::connection::{Connection, Handle, SqliteError};

/// The pages of a database as SQLite sees them, in order; a page that could not be read is zeros.
/// Keeps its connection open.
pub struct Image {
    handle: Rc<Handle>,
    start: *mut u8,
    length: usize,
}

impl Image {
    /// The pages.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: SQLite gave `length` bytes at `start`, which are freed only when this is dropped.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the memory came from this library's allocator and is not used again.
        unsafe { (self.handle.api.sqlite3_free)(self.start.cast::<c_void>()) };
    }
}

impl Connection {
    /// Reads the whole main database into memory: at most 2 GiB, SQLite's limit of one allocation.
    ///
    /// # Errors
    /// `SQLITE_NOMEM` when there is no memory for it, or the database is empty.
    pub fn serialize(&self) -> Result<Image, SqliteError> {
        let handle = Rc::clone(self.handle());
        let mut length = 0;
        // SAFETY: the handle is open, the name a C string, and the place valid.
        let start = unsafe {
            (handle.api.sqlite3_serialize)(handle.db, c"main".as_ptr(), &raw mut length, 0)
        };
        match usize::try_from(length) {
            Ok(length @ 1..) if !start.is_null() => Ok(Image { handle, start, length }),
            _ => Err(SqliteError {
                code: ffi::SQLITE_NOMEM,
                message: "out of memory".to_owned(),
                doing: "read the whole database".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Library;
    use rusqlite::ffi;

    #[test]
    fn an_image_is_the_file() {
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let db = Library::bundled().open_with(":memory:".as_ref(), None, flags).unwrap();
        db.execute("CREATE TABLE t(a); INSERT INTO t VALUES('in the image')").unwrap();
        let image = db.serialize().unwrap();
        assert!(image.bytes().starts_with(b"SQLite format 3\0"));
        assert_eq!(image.bytes().len() % 512, 0);
        assert!(image.bytes().windows(12).any(|bytes| bytes == b"in the image"));
    }
}
