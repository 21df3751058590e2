//! Several connections on one write-ahead log.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::{create, one, open};
use rusqlite::Connection;
use tempfile::TempDir;

const PAGE_LEN: usize = 1024;
/// Bytes of the log's header area, and before each page (docs/format/page.md).
const AREA_LEN: usize = 1024;
const PREFIX_LEN: usize = 72;

fn frames(wal: &Path) -> usize {
    let len = fs::metadata(wal).unwrap().len();
    (usize::try_from(len).unwrap() - AREA_LEN) / (PREFIX_LEN + PAGE_LEN)
}

fn database(dir: &TempDir, schema: &str) -> PathBuf {
    let path = dir.path().join("a.db");
    let settings = format!("PRAGMA page_size={PAGE_LEN}; PRAGMA journal_mode=WAL;");
    create(&path).execute_batch(&(settings + schema)).unwrap();
    path
}

fn connect(path: &Path) -> Connection {
    let db = open(path).unwrap();
    db.execute_batch("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=5")
        .unwrap();
    db
}

/// Frames that a connection rolled back are in the log after its last commit, and may be synced
/// with it. That implies nothing about the frames that another connection writes there: a power cut
/// that tears those ends the log, as in stock SQLite, and is not damage.
#[test]
fn a_sync_vouches_for_no_frame_behind_the_last_commit() {
    let dir = TempDir::new().unwrap();
    let path = database(&dir, "CREATE TABLE t(x)");
    let (one_writer, other, reader) = (connect(&path), connect(&path), connect(&path));
    let wal = dir.path().join("a.db-wal");

    one_writer.execute_batch("INSERT INTO t VALUES ('first')").unwrap();
    let committed = frames(&wal);
    one_writer
        .execute_batch("BEGIN; INSERT INTO t VALUES (randomblob(3000000)); ROLLBACK")
        .unwrap();
    assert!(frames(&wal) > committed + 10, "the transaction was not spilled");

    // A reader keeps the log from being restarted after the checkpoint, which syncs it.
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 1);
    assert_eq!(one::<i64>(&one_writer, "PRAGMA wal_checkpoint(PASSIVE)"), 0);
    other.execute_batch("INSERT INTO t VALUES ('second')").unwrap();
    one_writer.execute_batch("INSERT INTO t VALUES ('third')").unwrap();

    let cut = dir.path().join("cut.db");
    fs::copy(&path, &cut).unwrap();
    let mut bytes = fs::read(&wal).unwrap();
    let torn = AREA_LEN + committed * (PREFIX_LEN + PAGE_LEN);
    bytes[torn + 300..torn + 900].fill(0xA5);
    fs::write(dir.path().join("cut.db-wal"), bytes).unwrap();

    let after = open(&cut).unwrap();
    assert_eq!(one::<String>(&after, "SELECT group_concat(x) FROM t"), "first");
    assert_eq!(one::<String>(&after, "PRAGMA integrity_check"), "ok");
}

/// Frames that a transaction gathered and gave up must not be written with the next one of its
/// connection: by then the place belongs to another's commit.
#[test]
fn frames_that_were_rolled_back_are_never_written_later() {
    let dir = TempDir::new().unwrap();
    let path = database(&dir, "CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    let (one_writer, other) = (connect(&path), connect(&path));
    one_writer
        .execute_batch(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 300)
             INSERT INTO t SELECT i, zeroblob(400) FROM c",
        )
        .unwrap();
    assert_eq!(one::<i64>(&one_writer, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    for round in 1..=5 {
        one_writer
            .execute_batch("BEGIN; UPDATE t SET x = randomblob(20000) WHERE id = 1; ROLLBACK")
            .unwrap();
        // Pages that the other one does not read again.
        other.execute_batch(&format!("UPDATE t SET x = {round} WHERE id > 280")).unwrap();
        one_writer.execute_batch(&format!("UPDATE t SET x = {round} WHERE id = 1")).unwrap();

        let reader = connect(&path);
        let count = format!("SELECT count(*) FROM t WHERE x = {round}");
        assert_eq!(one::<i64>(&reader, &count), 21);
        assert_eq!(one::<String>(&reader, "PRAGMA integrity_check"), "ok");
    }
    assert_eq!(one::<i64>(&other, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    assert_eq!(one::<i64>(&connect(&path), "SELECT count(*) FROM t WHERE x = 5"), 21);
}

/// SQLite begins a log with salts of zero when a connection that has begun one before recovers an
/// empty one. A header without a checksum, too, is one that it will rewrite; only such a header is.
#[test]
fn a_log_with_salts_of_zero_keeps_what_is_committed() {
    let dir = TempDir::new().unwrap();
    let path =
        database(&dir, "CREATE TABLE t(id INTEGER PRIMARY KEY, k, x); CREATE INDEX i ON t(k)");
    let db = connect(&path);
    db.execute_batch(
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 300)
         INSERT INTO t(k, x) SELECT i, randomblob(500) FROM c",
    )
    .unwrap();
    assert_eq!(one::<i64>(&db, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    db.execute_batch("UPDATE t SET k = 1 WHERE id = 1").unwrap();
    assert_eq!(one::<i64>(&db, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);

    // As after the death of a process that was writing: the index is recovered.
    let index = fs::OpenOptions::new().write(true).open(dir.path().join("a.db-shm")).unwrap();
    index.write_all_at(&[0; 96], 0).unwrap();
    for n in 0..20 {
        // Pages that are spilled and used again, so that SQLite rewrites their headers.
        db.execute_batch(&format!(
            "BEGIN; UPDATE t SET k = {n}, x = randomblob(5000) WHERE id = {n} + 1;
             UPDATE t SET k = k + 1000 WHERE id % 7 = {n} % 7; UPDATE t SET k = k - 1000
             WHERE id % 7 = {n} % 7; COMMIT"
        ))
        .unwrap();
        let reader = connect(&path);
        let k = format!("SELECT k FROM t WHERE id = {n} + 1");
        assert_eq!(one::<i64>(&reader, &k), n, "the commit is not in the log");
        assert_eq!(one::<i64>(&db, &k), n);
    }
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
}
