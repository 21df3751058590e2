//! Whether anybody uses the log of a database.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::ffi::{Mark, mark_byte};
use crate::target::with_suffix;

/// Byte of the log's index that each connection keeps a shared lock on (`UNIX_SHM_DMS` of SQLite).
const USERS: i64 = 128;

/// Returns true if a connection uses the log of the database at `path`. The caller's process has
/// none: closing the index, which this does, drops the locks of the process.
///
/// # Errors
/// `NotFound` without an index; the system's, if it lacks such locks.
pub fn has_log_users(path: &Path) -> io::Result<bool> {
    mark_byte(&File::open(with_suffix(path, "-shm"))?, USERS, Mark::Ask)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_log_has_users_while_a_connection_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        assert_eq!(has_log_users(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(n)").unwrap();
        assert!(has_log_users(&path).unwrap());
        drop(db);
        // An index that a killed process left.
        std::fs::write(with_suffix(&path, "-shm"), [0; 32768]).unwrap();
        assert!(!has_log_users(&path).unwrap());
    }
}
