//! Savepoints and failed statements that are rolled back after their pages were spilled.
//!
//! SQLite before 3.50.2 omits checksums from later commits (`wal/skipped.rs` of the VFS): a crash
//! loses them. Plain SQLite shows that the scripts trigger the fault.

use std::fs;
use std::path::Path;
use std::process::Command;

use tdekit_faults_sqlite::ffi::api::{LIBRARY_VARIABLE, library};
use tdekit_faults_sqlite::ffi::db::Db;
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::rng::Rng;
use tdekit_faults_sqlite::top::Top;
use tdekit_sqlite::host::fault_of;

const ROWS: usize = 200;
const TRANSACTIONS: u64 = 8;

/// Settings of the scripts: synchronous, page size in bytes, pages in the cache.
const SETTINGS: [(&str, u32, u32); 3] =
    [("FULL", 1024, 5), ("NORMAL", 4096, 5), ("FULL", 4096, 20)];

/// A connection that writes, and the counters that its transaction results in.
struct Writer {
    db: Db,
    counters: Vec<i64>,
}

impl Writer {
    fn open(top: Top, path: &Path, (synchronous, page_size, cache): (&str, u32, u32)) -> Self {
        let db = top.open(path).unwrap();
        db.rows(&format!(
            "PRAGMA page_size={page_size}; PRAGMA journal_mode=WAL; PRAGMA cache_size={cache};
             PRAGMA synchronous={synchronous}; PRAGMA wal_autocheckpoint=400"
        ))
        .unwrap();
        Self { db, counters: Vec::new() }
    }

    fn touch(&mut self, rng: &mut Rng, most: usize) {
        for _ in 0..rng.below(most) {
            let row = rng.below(ROWS);
            self.db.run(&format!("UPDATE t SET n = n + 1 WHERE id = {row}")).unwrap();
            self.counters[row] += 1;
        }
    }

    /// Runs a transaction with savepoints and failing statements; returns the error of its commit.
    fn transact(&mut self, rng: &mut Rng, before: &[i64]) -> Result<(), String> {
        self.counters = before.to_vec();
        self.db.run("BEGIN IMMEDIATE").unwrap();
        self.touch(rng, 30);
        for _ in 0..rng.below(3) {
            if rng.percent(30) {
                // Fails at a late row, when the pages of the first rows are in the log.
                let failing = "UPDATE t SET n = 0, u = CASE id WHEN 190 THEN 1 ELSE u END";
                assert!(self.db.run(failing).is_err());
            } else {
                self.db.run("SAVEPOINT s").unwrap();
                let kept = self.counters.clone();
                self.touch(rng, 120);
                if rng.percent(70) {
                    self.db.run("ROLLBACK TO s").unwrap();
                    self.counters = kept;
                }
                self.db.run("RELEASE s").unwrap();
            }
            self.touch(rng, 40);
        }
        self.db.run("COMMIT").map_err(|error| {
            let why = self.db.text("SELECT ifnull(tdekit_last_error(), '')");
            format!("{error} {}", why.unwrap_or_default())
        })
    }
}

fn counters(db: &Db) -> Vec<i64> {
    (0..ROWS).map(|row| db.int(&format!("SELECT n FROM t WHERE id = {row}")).unwrap()).collect()
}

/// Returns the state after the death of all processes: everything but the log's index.
fn image(top: Top, from: &Path) -> Result<Vec<i64>, String> {
    let directory = scratch().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if !name.to_str().unwrap().ends_with("-shm") {
            fs::copy(entry.path(), directory.path().join(name)).unwrap();
        }
    }
    let db = top.open(&directory.path().join("a.db")).unwrap();
    match db.text("PRAGMA integrity_check") {
        Ok(told) if told == "ok" => Ok(counters(&db)),
        other => Err(format!("{other:?}")),
    }
}

fn fill(db: &Db) {
    db.run(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, u INTEGER UNIQUE, fill BLOB);
         WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c LIMIT {ROWS})
         INSERT INTO t SELECT i, 0, i, zeroblob(700) FROM c"
    ))
    .unwrap();
}

/// Lets two connections write in turns; returns the number of commits that a crash would have lost.
fn lost_commits(top: Top, settings: (&str, u32, u32), seed: u64) -> u32 {
    let case = format!("{top} {settings:?} seed {seed}");
    let directory = scratch().unwrap();
    let path = directory.path().join("a.db");
    let mut writers = [0, 1].map(|_| Writer::open(top, &path, settings));
    fill(&writers[0].db);
    let (mut rng, mut lost, mut committed) = (Rng::new(seed), 0, vec![0; ROWS]);
    for transaction in 0..TRANSACTIONS {
        let writer = &mut writers[rng.below(2)];
        let done = writer.transact(&mut rng, &committed);
        done.unwrap_or_else(|error| panic!("{case}, transaction {transaction}: {error}"));
        committed.clone_from(&writer.counters);
        assert_eq!(counters(&writers[0].db), committed, "{case}");
        assert_eq!(counters(&writers[1].db), committed, "{case}");
        let found = image(top, directory.path());
        let found = found.unwrap_or_else(|error| panic!("{case}, {transaction}: {error}"));
        lost += u32::from(found != committed);
    }
    lost
}

#[test]
fn what_is_committed_after_a_rollback_to_a_savepoint_survives_a_crash() {
    let seeds = by_form(4, 4, 40);
    let version = library().unwrap().version();
    let lost = |top| {
        let of = |settings| (0..seeds).map(|seed| lost_commits(top, settings, seed)).sum::<u32>();
        SETTINGS.map(of).iter().sum::<u32>()
    };
    let (plain, encrypted, fresh) = (lost(Top::Plain), lost(Top::Tdekit), lost(Top::Fresh));
    println!("SQLite {version}: lost {plain} plain, {encrypted} encrypted, {fresh} with freshness");
    assert_eq!((encrypted, fresh), (0, 0));
    assert_eq!(plain > 0, fault_of(&version).is_some(), "{version} lost {plain} plain commits");
}

/// Pages that return to the log make SQLite omit salts until the commit; back at an empty log, it
/// begins that anew, with other salts.
#[test]
fn what_is_committed_after_a_savepoint_that_was_spilled_to_an_empty_log_survives_a_crash() {
    for (top, settings) in [Top::Tdekit, Top::Fresh].into_iter().zip(SETTINGS) {
        let directory = scratch().unwrap();
        let path = directory.path().join("a.db");
        fill(&Writer::open(top, &path, settings).db);
        // The last connection to close removed the log.
        let db = Writer::open(top, &path, settings).db;
        let spill = |n| format!("UPDATE t SET n = {n}, fill = randomblob(700) WHERE id < 100");
        let (once, again) = (spill(-1), spill(-2));
        db.run(&format!("BEGIN; SAVEPOINT s; {once}; {again}; ROLLBACK TO s; COMMIT")).unwrap();
        db.run("UPDATE t SET n = 1 WHERE id < 3; UPDATE t SET n = 2 WHERE id = 150").unwrap();
        let committed = counters(&db);
        assert_eq!(committed.iter().sum::<i64>(), 5);
        assert_eq!(image(top, directory.path()), Ok(committed), "{top}");
    }
}

/// Most programs load the extension into the system's library.
#[test]
fn with_the_library_of_the_system() {
    if std::env::var_os(LIBRARY_VARIABLE).is_some() {
        return;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .env(LIBRARY_VARIABLE, "libsqlite3.so.0")
        .env_remove("TDEKIT_HOME")
        .args(["--nocapture", "savepoint::what_is_committed_after_"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("2 passed"), "{told}\n{error}");
    print!("{told}");
}
