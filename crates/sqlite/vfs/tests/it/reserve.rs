//! Databases without a file of their own, where every new database must be encrypted: in a separate
//! process, because the test changes settings of the whole process.
#![allow(unsafe_code)]

use crate::support::{CERTIFICATE, alone, create, one, setup};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use tempfile::TempDir;

/// `sqlite3_recover` begins with such a copy of a temporary database.
#[test]
fn they_can_be_copied_over_encrypted_ones() {
    if !alone("reserve::they_can_be_copied_over_encrypted_ones") {
        return;
    }
    setup();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    let mut target = create(&path);
    target.execute_batch("CREATE TABLE old(x)").unwrap();
    let copy = |target: &mut Connection, name: &str| {
        let source = Connection::open(name).unwrap();
        source.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(zeroblob(9000))").unwrap();
        let copied = Backup::new(&source, target).unwrap().step(-1);
        copied.map(|_| one::<i64>(&source, "PRAGMA page_count"))
    };
    assert!(copy(&mut target, ":memory:").is_err());
    // SAFETY: this process has no other thread that reads the environment.
    unsafe { std::env::set_var("TDEKIT_ENCRYPT_NEW", CERTIFICATE) };
    for name in [":memory:", ""] {
        let pages = copy(&mut target, name).unwrap();
        assert_eq!(one::<i64>(&target, "SELECT length(x) FROM t"), 9000, "{name:?}");
        assert_eq!(one::<i64>(&target, "PRAGMA page_count"), pages);
        assert_eq!(one::<String>(&target, "PRAGMA integrity_check"), "ok");
    }
    drop(target);
    assert!(!std::fs::read(&path).unwrap().starts_with(b"SQLite format 3"));
}
