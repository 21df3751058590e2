//! A journal that SQLite keeps open between transactions, and another process that dies.

use std::fs;

use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::record::Recorder;
use tdekit_faults_sqlite::top::Top;

/// The files are restored as a process that was killed within its transaction left them: changed
/// pages, and beside the database the journal that undoes them.
fn a_hot_journal_is_seen(top: Top, mode: &str, synchronous: &str) {
    let directory = scratch().unwrap();
    let recorder = Recorder::attach(directory.path());
    recorder.keep_journals_open();
    let (path, journal) = (directory.path().join("a.db"), directory.path().join("a.db-journal"));
    let settings = format!(
        "PRAGMA journal_mode={mode}; PRAGMA synchronous={synchronous}; PRAGMA cache_size=4"
    );
    let keeper = top.open(&path).unwrap();
    keeper.rows(&settings).unwrap();
    keeper
        .run(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER, fill BLOB);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 500)
             INSERT INTO t SELECT x, 1, zeroblob(500) FROM n",
        )
        .unwrap();
    let case = format!("{top} {mode} {synchronous}");
    for round in 1..4 {
        assert_eq!(keeper.int("SELECT sum(v) FROM t").unwrap(), 500 * round, "{case}");
        let dying = top.open(&path).unwrap();
        dying.rows(&settings).unwrap();
        dying.run("BEGIN; UPDATE t SET v = 1000").unwrap();
        let (main, log) = (fs::read(&path).unwrap(), fs::read(&journal).unwrap());
        assert!(log.len() > 4096, "the transaction spilled");
        dying.run("ROLLBACK").unwrap();
        dying.close().unwrap();
        fs::write(&path, &main).unwrap();
        fs::write(&journal, &log).unwrap();
        assert_eq!(keeper.int("SELECT sum(v) FROM t").unwrap(), 500 * round, "{case}");
        assert_eq!(keeper.text("PRAGMA integrity_check").unwrap(), "ok", "{case}");
        keeper.run("UPDATE t SET v = v + 1").unwrap();
    }
}

#[test]
fn stock() {
    for mode in ["PERSIST", "TRUNCATE", "DELETE"] {
        a_hot_journal_is_seen(Top::Plain, mode, "FULL");
        a_hot_journal_is_seen(Top::Plain, mode, "OFF");
    }
}

#[test]
fn encrypted() {
    for mode in ["PERSIST", "TRUNCATE", "DELETE"] {
        a_hot_journal_is_seen(Top::Tdekit, mode, "FULL");
        a_hot_journal_is_seen(Top::Tdekit, mode, "OFF");
    }
}
