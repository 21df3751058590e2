//! A journal that is read without a lock while its writer begins another in the same file; SQLite
//! reads this way to check whether a journal is hot.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_OK, SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_READONLY, sqlite3_db_filename, sqlite3_file,
    sqlite3_filename_journal, sqlite3_vfs_find,
};
use tempfile::TempDir;

use crate::support::{create, one, open};

/// First byte of every rollback journal (SQLite file format, 3).
const MAGIC: u8 = 0xd9;

/// The journal of a connection's main database, opened separately for reading.
struct Journal(Vec<u64>);

impl Journal {
    fn open(db: &Connection) -> Self {
        // SAFETY: the connection is open, and the VFS is registered for ever. The memory has the
        // VFS's size and the alignment of pointers, and outlives the open file.
        unsafe {
            let vfs = sqlite3_vfs_find(c"tdekit".as_ptr());
            let size = usize::try_from((*vfs).szOsFile).unwrap();
            let mut file = Self(vec![0; size.div_ceil(8)]);
            let name = sqlite3_filename_journal(sqlite3_db_filename(db.handle(), c"main".as_ptr()));
            let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_JOURNAL;
            let open = (*vfs).xOpen.unwrap();
            let code = open(vfs, name.cast::<c_char>(), file.pointer(), flags, ptr::null_mut());
            assert_eq!(code, SQLITE_OK);
            file
        }
    }

    fn pointer(&mut self) -> *mut sqlite3_file {
        self.0.as_mut_ptr().cast()
    }

    /// Returns the size of its content, or the code of the failure.
    fn size(&mut self) -> Result<i64, c_int> {
        let mut size = 0;
        // SAFETY: the file is open.
        let code = unsafe {
            ((*(*self.pointer()).pMethods).xFileSize.unwrap())(self.pointer(), &mut size)
        };
        if code == SQLITE_OK { Ok(size) } else { Err(code) }
    }

    /// Returns its first byte, or the code of the failure.
    fn first_byte(&mut self) -> Result<u8, c_int> {
        let mut byte = 0_u8;
        let to = ptr::from_mut(&mut byte).cast::<c_void>();
        // SAFETY: the file is open, and there is room for one byte.
        let code =
            unsafe { ((*(*self.pointer()).pMethods).xRead.unwrap())(self.pointer(), to, 1, 0) };
        if code == SQLITE_OK { Ok(byte) } else { Err(code) }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // SAFETY: the file is open, and not used again.
        unsafe { ((*(*self.pointer()).pMethods).xClose.unwrap())(self.pointer()) };
    }
}

/// A database in `TRUNCATE` mode whose `UPDATE` has spilled, and another connection.
fn in_a_transaction(dir: &TempDir) -> (Connection, Connection) {
    let path = dir.path().join("a.db");
    let writer = create(&path);
    // The file stays: a transaction's journal is truncated, and the next one begins in it.
    assert_eq!(one::<String>(&writer, "PRAGMA journal_mode=TRUNCATE"), "truncate");
    writer
        .execute_batch(
            "PRAGMA cache_size=3; CREATE TABLE t(x, y);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000)
             INSERT INTO t SELECT x, hex(randomblob(100)) FROM n;
             BEGIN; UPDATE t SET x = -x",
        )
        .unwrap();
    let reader = open(&path).unwrap();
    let _: i64 = one(&reader, "PRAGMA page_size");
    (writer, reader)
}

/// A connection that finds a hot journal holds a shared lock, and must not read all of it.
#[test]
fn the_first_byte_needs_no_later_extent() {
    let dir = TempDir::new().unwrap();
    let (_writer, reader) = in_a_transaction(&dir);
    let path = dir.path().join("a.db-journal");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let mut journal = Journal::open(&reader);
    assert_eq!(journal.first_byte(), Ok(MAGIC));
    assert!(journal.size().is_err(), "the damage is seen when all of it is read");
    // Without a first extent all of it is read.
    let mut again = Journal::open(&reader);
    bytes[1024..8192].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    assert!(again.first_byte().is_err());
}

#[test]
fn the_journal_that_took_its_place_is_read() {
    let dir = TempDir::new().unwrap();
    let (writer, reader) = in_a_transaction(&dir);
    let mut journal = Journal::open(&reader);
    assert!(journal.size().unwrap() > 0);
    writer.execute_batch("ROLLBACK; BEGIN; UPDATE t SET y = y || x").unwrap();
    assert_eq!(journal.first_byte(), Ok(MAGIC));
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(one::<i64>(&writer, "SELECT sum(x) FROM t"), 2_001_000);
}
