//! Several connections on one write-ahead log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use support::{create, one, open};
use tempfile::TempDir;

const PAGE_LEN: usize = 1024;
/// Bytes of the log's header area, and before each page (docs/format/page.md).
const AREA_LEN: usize = 1024;
const PREFIX_LEN: usize = 72;

fn frames(wal: &Path) -> usize {
    let len = fs::metadata(wal).unwrap().len();
    (usize::try_from(len).unwrap() - AREA_LEN) / (PREFIX_LEN + PAGE_LEN)
}

fn connect(path: &Path) -> Connection {
    let db = open(path).unwrap();
    db.execute_batch("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=5")
        .unwrap();
    db
}

/// Frames that a connection rolled back lie in the log behind its last commit, and may be synced
/// with it. That says nothing of the frames that another connection puts there: a power cut that
/// tears those ends the log, as in stock SQLite, and is no damage.
#[test]
fn a_sync_vouches_for_no_frame_behind_the_last_commit() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    create(&path)
        .execute_batch(&format!(
            "PRAGMA page_size={PAGE_LEN}; PRAGMA journal_mode=WAL; CREATE TABLE t(x)"
        ))
        .unwrap();
    let (one_writer, other, reader) = (connect(&path), connect(&path), connect(&path));
    let wal = dir.path().join("a.db-wal");

    one_writer.execute_batch("INSERT INTO t VALUES ('first')").unwrap();
    let committed = frames(&wal);
    one_writer
        .execute_batch("BEGIN; INSERT INTO t VALUES (randomblob(3000000)); ROLLBACK")
        .unwrap();
    assert!(frames(&wal) > committed + 10, "the transaction was not spilled");

    // A reader keeps the log from being begun anew after the checkpoint, which syncs it.
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
