//! Transactions larger than SQLite's cache, and larger than our own store of their pages.

use std::fs;
use std::path::{Path, PathBuf};

use tdekit_faults_sqlite::ffi::db::Db;
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::record::{Op, Recorder};
use tdekit_faults_sqlite::top::Top;

/// Content of a database: two numbers and the result of `integrity_check`.
type Content = (i64, i64, String);

fn content(db: &Db) -> Content {
    let sums = "SELECT coalesce(sum((k * 31 + r * 17 + length(body) + unicode(body)) % 1000003), 0)
                FROM t";
    let check = db.text("PRAGMA integrity_check").unwrap();
    (db.int("SELECT count(*) FROM t").unwrap(), db.int(sums).unwrap(), check)
}

fn open(top: Top, path: &Path) -> Db {
    let db = top.open(path).unwrap();
    db.run("PRAGMA cache_size=10; PRAGMA cache_spill=1; PRAGMA synchronous=NORMAL").unwrap();
    db
}

/// Copies the files of the database as a process killed now would leave them, and opens the copy.
fn as_killed(top: Top, path: &Path, step: usize) -> Content {
    let elsewhere = path.with_file_name(format!("killed-{step}"));
    fs::create_dir(&elsewhere).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    for suffix in ["", "-wal", "-journal"] {
        let from = PathBuf::from(format!("{}{suffix}", path.display()));
        if from.exists() {
            fs::copy(&from, elsewhere.join(format!("{name}{suffix}"))).unwrap();
        }
    }
    content(&open(top, &elsewhere.join(&name)))
}

struct Case {
    journal: &'static str,
    locking: &'static str,
    page_size: usize,
    rows: usize,
}

/// Runs large transactions, and returns the content after each, and the content if the process is
/// killed within each.
fn run(top: Top, case: &Case) -> Vec<Content> {
    let directory = scratch().unwrap();
    let path = directory.path().join("large.db");
    let Case { journal, locking, page_size, rows } = *case;
    let db = open(top, &path);
    db.run(&format!(
        "PRAGMA page_size={page_size}; PRAGMA journal_mode={journal};
         PRAGMA locking_mode={locking};
         CREATE TABLE t(k INTEGER PRIMARY KEY, r INTEGER, body TEXT); CREATE INDEX i ON t(r);"
    ))
    .unwrap();
    let fill = format!(
        "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO t SELECT i, i * 7919 % 100003, char(65 + i % 26) || hex(zeroblob(400)) FROM n;
         UPDATE t SET r = r * 31 % 100003, body = char(97 + k % 26) || substr(body, 2)
         WHERE k * 7 % 5 < 3;"
    );
    let shuffle = "BEGIN; SAVEPOINT a; UPDATE t SET r = r * 13 % 99991, body = 'x' || body;
         DELETE FROM t WHERE r % 3 = 0; ROLLBACK TO a;
         UPDATE t SET r = r * 19 % 99991, body = 'y' || substr(body, 20) WHERE r % 2 = 0;
         SAVEPOINT b; DELETE FROM t WHERE k % 2 = 0; ROLLBACK TO b;
         UPDATE t SET r = (r + 1) % 99991 WHERE r % 5 < 2; RELEASE a;";
    let undone = "BEGIN; UPDATE t SET r = r * 23 % 99991, body = 'z' || body;
         DELETE FROM t WHERE r % 2 = 1;";
    let small = "BEGIN; UPDATE t SET body = 'small' WHERE k < 10;";
    let mut seen = Vec::new();
    for (step, (work, end)) in [
        (fill.as_str(), "COMMIT"),
        (undone, "ROLLBACK"),
        (shuffle, "COMMIT"),
        (undone, "ROLLBACK"),
        (small, "COMMIT"),
    ]
    .into_iter()
    .enumerate()
    {
        db.run(work).unwrap();
        seen.push(content(&db));
        if journal != "MEMORY" {
            seen.push(as_killed(top, &path, step));
        }
        db.run(end).unwrap();
        if locking == "NORMAL" {
            seen.push(content(&open(top, &path)));
        }
    }
    db.run("PRAGMA wal_checkpoint(TRUNCATE); VACUUM").unwrap();
    db.close().unwrap();
    seen.push(content(&open(top, &path)));
    seen
}

fn agrees(journal: &'static str) {
    let cases = [
        ("NORMAL", 4096, 30_000),
        ("NORMAL", 1024, 3_000),
        ("EXCLUSIVE", 4096, 30_000),
        ("NORMAL", 65536, 40_000),
    ];
    for &(locking, page_size, rows) in &cases[..by_form(2, 4, 4)] {
        let case = Case { journal, locking, page_size, rows };
        let plain = run(Top::Plain, &case);
        assert!(plain.iter().all(|(_, _, check)| check == "ok"), "{journal} {locking} {page_size}");
        assert_eq!(run(Top::Tdekit, &case), plain, "{journal} {locking} {page_size}");
    }
}

#[test]
fn wal() {
    agrees("WAL");
}

#[test]
fn delete() {
    agrees("DELETE");
}

#[test]
#[ignore = "full: a minute; the journal that is deleted stands for it"]
fn persist() {
    agrees("PERSIST");
}

#[test]
#[ignore = "full: a minute"]
fn memory() {
    agrees("MEMORY");
}

/// Returns the bytes written to the main file and to the log by one transaction that changes random
/// rows, and the number of writes.
fn written(top: Top, journal: &str) -> (usize, usize) {
    let directory = scratch().unwrap();
    let recorder = Recorder::attach(directory.path());
    let db = open(top, &directory.path().join("often.db"));
    db.run(&format!("PRAGMA journal_mode={journal}; CREATE TABLE t(k INTEGER PRIMARY KEY, r)"))
        .unwrap();
    recorder.begin().unwrap();
    db.run(
        "BEGIN; CREATE INDEX i ON t(r);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO t SELECT i, i * 7919 % 100003 FROM n; COMMIT",
    )
    .unwrap();
    let log = recorder.take();
    let sizes = log.ops.iter().filter_map(|op| match op {
        Op::Write { data, .. } => Some(data.len()),
        _ => None,
    });
    sizes.fold((0, 0), |(bytes, writes), len| (bytes + len, writes + 1))
}

/// A page that is spilled and changed again is sealed and written once.
#[test]
fn a_page_that_comes_back_is_written_once() {
    for journal in ["WAL", "DELETE"] {
        let (plain, ours) = (written(Top::Plain, journal), written(Top::Tdekit, journal));
        assert!(ours.0 * 5 < plain.0 && ours.1 * 20 < plain.1, "{journal}: {ours:?} of {plain:?}");
    }
}
