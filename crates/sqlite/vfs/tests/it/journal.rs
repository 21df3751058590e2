//! Rollback journals that a crash left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{create, one, open};
use rusqlite::Connection;
use tempfile::TempDir;

const SUM: &str = "SELECT group_concat(length(x) || hex(substr(x, 1, 8))) FROM second";

fn journal_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-journal", path.display()))
}

fn fill(db: &Connection, table: &str) {
    db.execute_batch(&format!(
        "CREATE TABLE {table}(x);
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<400)
         INSERT INTO {table} SELECT randomblob(1500) FROM n"
    ))
    .unwrap();
}

/// A process that dies before its journal is valid leaves it as it is. The journal of the next
/// transaction begins in the same file, and must undo that transaction.
#[test]
fn a_journal_over_one_that_undid_nothing() {
    let dir = TempDir::new().unwrap();
    let (path, left) = (dir.path().join("a.db"), dir.path().join("left.db"));
    let db = create(&path);
    fill(&db, "first");
    fill(&db, "second");
    let before: String = one(&db, SUM);
    // Nothing of this reaches the database, but much of it reaches the journal.
    db.execute_batch("PRAGMA cache_spill=OFF; BEGIN; UPDATE first SET x=randomblob(1500)").unwrap();
    fs::copy(&path, &left).unwrap();
    fs::copy(journal_of(&path), journal_of(&left)).unwrap();
    db.execute_batch("ROLLBACK").unwrap();
    let len = fs::metadata(journal_of(&left)).unwrap().len();
    assert!(len > 100_000, "{len} bytes of journal");

    let db = open(&left).unwrap();
    assert_eq!(one::<String>(&db, SUM), before);
    assert_eq!(fs::metadata(journal_of(&left)).unwrap().len(), len, "undone already");
    db.execute_batch("PRAGMA cache_size=5; BEGIN; UPDATE second SET x=randomblob(1500)").unwrap();
    // The files as a process finds them after a crash here.
    let crashed = dir.path().join("crashed.db");
    fs::copy(&left, &crashed).unwrap();
    fs::copy(journal_of(&left), journal_of(&crashed)).unwrap();
    db.execute_batch("ROLLBACK").unwrap();
    for db in [db, open(&crashed).unwrap()] {
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        assert!(one::<String>(&db, SUM) == before, "rows that were undone are there");
    }
}
