//! A VFS below without shared memory. In a separate process, because the environment names it at
//! registration.
#![allow(unsafe_code)]

use crate::support::{alone, create, one, open};
use tempfile::TempDir;

#[test]
fn no_wal_is_offered_without_shared_memory() {
    if !alone("base_vfs::no_wal_is_offered_without_shared_memory") {
        return;
    }
    // SAFETY: this process runs one test, so no other thread reads the environment now.
    unsafe { std::env::set_var("TDEKIT_BASE_VFS", "unix-dotfile") };
    let dir = TempDir::new().unwrap();
    let (sealed, plain) = (dir.path().join("a.db"), dir.path().join("p.db"));
    for (path, db) in [(&sealed, create(&sealed)), (&plain, open(&plain).unwrap())] {
        assert_eq!(one::<String>(&db, "PRAGMA journal_mode=WAL"), "delete");
        db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1)").unwrap();
        assert_eq!(one::<String>(&db, "PRAGMA journal_mode=WAL"), "delete");
        db.execute_batch("BEGIN; DELETE FROM t; ROLLBACK; INSERT INTO t VALUES(2)").unwrap();
        drop(db);
        assert_eq!(one::<i64>(&open(path).unwrap(), "SELECT sum(x) FROM t"), 3);
        // A connection with exclusive locking needs none.
        let db = open(path).unwrap();
        let _: String = one(&db, "PRAGMA locking_mode=EXCLUSIVE");
        assert_eq!(one::<String>(&db, "PRAGMA journal_mode=WAL"), "wal");
        db.execute_batch("INSERT INTO t VALUES(3)").unwrap();
        drop(db);
        let db = open(path).unwrap();
        let _: String = one(&db, "PRAGMA locking_mode=EXCLUSIVE");
        assert_eq!(one::<i64>(&db, "SELECT sum(x) FROM t"), 6);
    }
}
