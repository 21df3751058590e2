//! Connections that open at the same time, before the VFS is registered: in a separate process.

use std::fs;
use std::sync::Barrier;
use std::thread;

use crate::support::{CERTIFICATE, alone, one, setup_unregistered};
use rusqlite::Connection;
use tempfile::TempDir;

/// The first caller registers the VFS, once: registering it twice would seal everything twice.
#[test]
fn many_first_connections_make_one_vfs() {
    if !alone("register::many_first_connections_make_one_vfs") {
        return;
    }
    const THREADS: usize = 16;
    setup_unregistered();
    let dir = TempDir::new().unwrap();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                drop(Connection::open_in_memory().unwrap());
            });
        }
    });
    let path = dir.path().join("a.db");
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path.display());
    let db = Connection::open(uri).unwrap();
    db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1)").unwrap();
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 1);
    assert!(fs::read(&path).unwrap().starts_with(b"tdekit database"));
}
