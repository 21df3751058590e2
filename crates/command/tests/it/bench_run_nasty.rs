//! `tdekit bench app.db` on difficult databases: whatever is in a schema, the run produces figures,
//! reports what it omitted, and leaves the database unchanged.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::bench::Bench;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

const QUICK: [&str; 7] =
    ["--quick", "--experiment", "operations", "--experiment", "scans", "--restarts", "2"];

/// Everything that a schema may contain, including an application's own functions and collations.
const SCHEMA: &str = r#"
CREATE TABLE "quo""ted 'na;me'"("a ""b" INTEGER PRIMARY KEY, "c'd" TEXT, [e f] REAL, "select" BLOB);
CREATE INDEX "in ""dex" ON "quo""ted 'na;me'"("c'd");
CREATE TABLE pairs(k TEXT, n INTEGER, v TEXT, PRIMARY KEY(k, n)) WITHOUT ROWID;
CREATE TABLE computed(id INTEGER PRIMARY KEY, n INTEGER,
  twice INTEGER AS (n * 2) VIRTUAL, half REAL AS (n / 2.0) STORED);
CREATE INDEX computed_twice ON computed(twice);
CREATE TABLE exact(id INTEGER PRIMARY KEY, n INT, v ANY) STRICT;
CREATE TABLE empty(id INTEGER PRIMARY KEY, v TEXT);
CREATE TABLE audit(what TEXT);
CREATE TRIGGER computed_update AFTER UPDATE ON computed
  BEGIN INSERT INTO audit VALUES ('update ' || new.id); END;
CREATE VIEW seen AS SELECT id, n FROM computed;
CREATE TRIGGER seen_insert INSTEAD OF INSERT ON seen
  BEGIN INSERT INTO computed(id, n) VALUES (new.id, new.n); END;
CREATE VIRTUAL TABLE words USING fts5(body);
CREATE TABLE sorted(id INTEGER PRIMARY KEY, v TEXT COLLATE app_order);
CREATE INDEX sorted_v ON sorted(v);
CREATE TABLE measured(id INTEGER PRIMARY KEY, v TEXT, CHECK (app_length(v) < 100));
CREATE INDEX measured_length ON measured(app_length(v));
"#;

const ROWS: &str = r#"
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 400)
INSERT INTO "quo""ted 'na;me'" SELECT i, 'v' || i % 50, i / 3.0, randomblob(20) FROM c;
INSERT INTO pairs SELECT "c'd", "a ""b", 'p' FROM "quo""ted 'na;me'";
INSERT INTO computed(id, n) SELECT "a ""b", "a ""b" % 90 FROM "quo""ted 'na;me'";
INSERT INTO exact SELECT id, n, 'x' || n FROM computed;
INSERT INTO words SELECT "c'd" FROM "quo""ted 'na;me'";
INSERT INTO sorted SELECT id, 's' || n FROM computed;
INSERT INTO measured SELECT id, 'm' || n FROM computed;
"#;

/// Opens it as its application does.
fn open(bench: &Bench, name: &str) -> Connection {
    let connection = Connection::open(bench.path(name)).unwrap();
    connection.create_collation("app_order", |one, other| other.cmp(one)).unwrap();
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    connection
        .create_scalar_function("app_length", 1, flags, |call| {
            Ok(call.get::<String>(0)?.len() as i64)
        })
        .unwrap();
    connection
}

#[test]
#[ignore = "full: a bench"]
fn a_schema_full_of_everything_is_priced() {
    let bench = Bench::new();
    open(&bench, "app.db").execute_batch(&[SCHEMA, ROWS].concat()).unwrap();
    let before = fs::read(bench.path("app.db")).unwrap();
    bench.ok(["app.db"].iter().chain(&QUICK));
    assert_eq!(fs::read(bench.path("app.db")).unwrap(), before);
    assert!(!bench.path("app.db-wal").exists() && !bench.path("app.db-journal").exists());
    let results = bench.results();
    assert_eq!(results["incomplete"].as_array().map(Vec::len), Some(0));
    for class in ["operations/select/warm", "operations/update/warm", "scans/sum"] {
        for side in ["base", "tdekit"] {
            assert!(bench.blocks(&results, class, side) >= 2, "{class} {side}");
        }
    }
    let used = |name: &str| {
        let statements = results["embedded"]["statements"].as_array().unwrap();
        statements.iter().any(|statement| statement["sql"].as_str().unwrap().contains(name))
    };
    assert!(used("\"quo\"\"ted 'na;me'\"") && used("\"pairs\"") && used("\"exact\""));
    let notes = results["subject"]["notes"].to_string();
    for wanted in ["empty is left out", "of type view", "of type virtual"] {
        assert!(notes.contains(wanted), "{wanted} is missing in {notes}");
    }
}

/// An application that continues to write: it is never blocked, and its database stays whole.
#[test]
#[ignore = "full: a bench"]
fn a_database_that_is_being_written_to_is_priced() {
    let bench = Bench::new();
    let connection = open(&bench, "app.db");
    connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    connection.execute_batch(&[SCHEMA, ROWS].concat()).unwrap();
    let (over, written) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = open(&bench, "app.db");
            while !over.load(Ordering::SeqCst) {
                // No waiting: a lock held by the bench would be noticed.
                writer.execute("INSERT INTO audit VALUES ('written meanwhile')", []).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bench.ok(["app.db"].iter().chain(&QUICK))
        }));
        over.store(true, Ordering::SeqCst);
        run.unwrap();
    });
    let results = bench.results();
    assert!(bench.blocks(&results, "operations/select/warm", "tdekit") >= 2);
    let state: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(state, "ok");
    let kept: i64 = connection
        .query_row("SELECT count(*) FROM audit WHERE what = 'written meanwhile'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(kept, written.load(Ordering::SeqCst));
    assert_eq!(fs::read_dir(bench.path("copies")).unwrap().count(), 0);
}

/// Other page sizes, and rollback journals: each is used as it is.
#[test]
#[ignore = "full: several benches"]
fn other_page_sizes_and_journals_are_priced() {
    for (page, journal) in [("1024", "delete"), ("65536", "wal")] {
        let bench = Bench::new();
        let connection = open(&bench, "app.db");
        connection.execute_batch(&format!("PRAGMA page_size = {page}; {SCHEMA} {ROWS}")).unwrap();
        drop(connection);
        let words = ["app.db", "--quick", "--experiment", "scans", "--restarts", "2"];
        let settings = ["--journal-mode", journal, "--synchronous", "off"];
        bench.ok(words.iter().chain(&settings));
        let results = bench.results();
        assert_eq!(results["subject"]["page_size_bytes"].to_string(), page);
        assert_eq!(results["settings"]["journal_mode"], journal);
        assert!(bench.blocks(&results, "scans/sum", "tdekit") >= 2);
    }
}
