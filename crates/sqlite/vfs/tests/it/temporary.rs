//! Temporary tables on a disk without room.
#![allow(unsafe_code)]

use crate::support::{alone, one, setup};
use rusqlite::Connection;

/// Length that no file of this process can exceed from now on.
fn limit_files(len: u64) {
    let limit = libc::rlimit { rlim_cur: len, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is read only, and a signal that is ignored needs no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

/// What SQLite was told is written stays readable, though the disk has no room for it, and a failed
/// statement does not keep others from reading.
#[test]
fn a_full_disk_stops_no_reader() {
    if !alone("temporary::a_full_disk_stops_no_reader") {
        return;
    }
    setup();
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(
        "PRAGMA temp_store=FILE;
         CREATE TEMP TABLE t(a INTEGER PRIMARY KEY, b TEXT);
         PRAGMA temp.cache_size=10;
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 900)
         INSERT INTO t SELECT x, printf('%0400d', x) FROM n;",
    )
    .unwrap();
    limit_files(340_000);
    let whole = |db: &Connection| {
        assert_eq!(one::<i64>(db, "SELECT sum(length(b)) FROM t"), 360_000);
        assert_eq!(one::<String>(db, "PRAGMA temp.integrity_check"), "ok");
    };
    whole(&db);
    // Some blocks more than fit are kept in memory, but not many.
    for failing in
        ["UPDATE t SET b = printf('%01600d', a)", "INSERT INTO t SELECT a + 900, b || b FROM t"]
    {
        assert!(db.execute_batch(failing).is_err(), "{failing}");
        whole(&db);
    }
    limit_files(u64::MAX);
    db.execute_batch("UPDATE t SET b = b || 'x'").unwrap();
    assert_eq!(one::<i64>(&db, "SELECT sum(length(b)) FROM t"), 360_900);
}
