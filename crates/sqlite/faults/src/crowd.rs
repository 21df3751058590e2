//! Several processes on one database: the work of each, and the conditions afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::ffi::db::{Db, Value};
use crate::rng::Rng;
use crate::top::Top;

const SQLITE_BUSY: i32 = 5;
const SQLITE_LOCKED: i32 = 6;
/// Number of a writer's entries that keep their size. It bounds the database in a long run.
const LARGE_ENTRIES: i64 = 500;

/// Acknowledgements of all writers: the last number of each, and their count.
#[derive(Debug, Default)]
pub struct Acks {
    /// Last number of each writer.
    pub last: BTreeMap<i64, i64>,
    /// Total count.
    pub count: u64,
}

impl Acks {
    /// Returns the writers and their last numbers, for [`verify`].
    #[must_use]
    pub fn list(acks: &Mutex<Self>) -> Vec<(i64, i64)> {
        let acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
        acks.last.iter().map(|(&writer, &n)| (writer, n)).collect()
    }
}

/// Collects the acknowledgements that `child` prints, whole lines only, until it ends.
pub fn collect(child: &mut Child, acks: &Arc<Mutex<Acks>>) -> Option<JoinHandle<()>> {
    let lines = BufReader::new(child.stdout.take()?).lines();
    let acks = acks.clone();
    Some(std::thread::spawn(move || {
        for line in lines.map_while(std::result::Result::ok) {
            if let [writer, n] = line.split(' ').collect::<Vec<_>>()[..]
                && let (Ok(writer), Ok(n)) = (writer.parse(), n.parse())
            {
                let mut acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
                let last = acks.last.entry(writer).or_insert(0);
                *last = (*last).max(n);
                acks.count += 1;
            }
        }
    }))
}

/// One process's work on one database.
#[derive(Debug)]
pub struct Work<'a> {
    /// The layer under test.
    pub top: Top,
    /// The database.
    pub path: &'a Path,
    /// Journal mode and sync level.
    pub modes: (&'a str, &'a str),
    /// Number of the writer.
    pub writer: i64,
    /// Duration of the work.
    pub time: Duration,
}

impl Work<'_> {
    /// Does `job`: `write`, `read`, `checkpoint`, `vacuum` or `backup`.
    ///
    /// # Errors
    /// Those of the job; [`Error::Setup`] if there is no such job.
    pub fn run(&self, job: &str, out: impl Write) -> Result<()> {
        let Self { top, path, modes, writer, time } = *self;
        match job {
            "write" => write(top, path, modes, writer, time, out),
            "read" => read(top, path, modes.0, time).map(drop),
            "checkpoint" => checkpoint(top, path, time),
            "vacuum" => vacuum(top, path, modes.0, time),
            "backup" => backup(top, path, modes.0, time),
            _ => Err(Error::Setup(format!("no job {job}"))),
        }
    }
}

/// Creates the shared database.
///
/// # Errors
/// SQLite's own.
pub fn create(top: Top, path: &Path, journal: &str, page_size: u32) -> Result<()> {
    let db = top.open(path)?;
    db.run(&format!(
        "PRAGMA page_size={page_size}; PRAGMA journal_mode={journal};
         CREATE TABLE entry(writer, n, body BLOB, PRIMARY KEY(writer, n)) WITHOUT ROWID;
         CREATE TABLE total(writer PRIMARY KEY, n INTEGER, bytes INTEGER);"
    ))?;
    db.close()
}

fn open(top: Top, path: &Path, journal: &str, synchronous: &str) -> Result<Db> {
    let db = top.open(path)?;
    db.busy_timeout_ms(20_000);
    patiently(|| {
        db.run(&format!("PRAGMA journal_mode={journal}; PRAGMA synchronous={synchronous};"))
    })?;
    // Settings for spills and frequent checkpoints.
    db.run("PRAGMA cache_size=8; PRAGMA wal_autocheckpoint=20")?;
    Ok(db)
}

/// Adds the encrypting VFS's error message to SQLite's.
fn explained(db: &Db) -> impl Fn(Error) -> Error + '_ {
    |error| match (error, db.text("SELECT tdekit_last_error()")) {
        (Error::Sql(mut sql), Ok(known)) => {
            sql.message = format!("{}: {known}", sql.message);
            Error::Sql(sql)
        }
        (error, _) => error,
    }
}

/// Retries `work` while another connection holds the database.
fn patiently<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match work() {
            Err(e)
                if matches!(e.sqlite_code(), Some(SQLITE_BUSY | SQLITE_LOCKED))
                    && start.elapsed() < Duration::from_secs(30) =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

/// Commits numbered transactions as `writer` for `time`, and acknowledges each on `out`.
///
/// # Errors
/// SQLite's own, except for a busy database.
pub fn write(
    top: Top,
    path: &Path,
    (journal, synchronous): (&str, &str),
    writer: i64,
    time: Duration,
    mut out: impl Write,
) -> Result<()> {
    let db = open(top, path, journal, synchronous)?;
    let mut rng = Rng::new(u64::try_from(writer).unwrap_or(0) ^ u64::from(std::process::id()));
    let start = Instant::now();
    while start.elapsed() < time {
        let n = patiently(|| {
            if !db.autocommit() {
                db.run("ROLLBACK")?;
            }
            add(&db, writer, &mut rng)
        })
        .map_err(explained(&db))?;
        writeln!(out, "{writer} {n}").and_then(|()| out.flush()).map_err(Error::io(path))?;
    }
    db.close()
}

fn add(db: &Db, writer: i64, rng: &mut Rng) -> Result<i64> {
    db.run("BEGIN IMMEDIATE")?;
    let last = db.query("SELECT n FROM total WHERE writer = ?1", &[Value::Int(writer)])?;
    let n = match last.first().and_then(|row| row.first()) {
        Some(Value::Int(n)) => n + 1,
        _ => 1,
    };
    let body = rng.bytes(rng.clone().below(9000));
    let size = i64::try_from(body.len()).unwrap_or(0);
    db.query(
        "INSERT INTO entry VALUES(?1, ?2, ?3)",
        &[Value::Int(writer), Value::Int(n), Value::Blob(body)],
    )?;
    db.query(
        "INSERT INTO total VALUES(?1, ?2, ?3)
         ON CONFLICT(writer) DO UPDATE SET n = ?2, bytes = bytes + ?3",
        &[Value::Int(writer), Value::Int(n), Value::Int(size)],
    )?;
    // Old entries lose their bodies, so that pages move through the freelist.
    db.query(
        "UPDATE entry SET body = zeroblob(length(body)) WHERE writer = ?1 AND n = ?2",
        &[Value::Int(writer), Value::Int(n - 5)],
    )?;
    // Much older ones are removed, except for their number.
    let old = [Value::Int(writer), Value::Int(n - LARGE_ENTRIES)];
    db.query(
        "UPDATE total SET bytes = bytes - ifnull((SELECT length(body) FROM entry
             WHERE writer = ?1 AND n = ?2), 0) WHERE writer = ?1",
        &old,
    )?;
    db.query("UPDATE entry SET body = x'' WHERE writer = ?1 AND n = ?2", &old)?;
    db.run("COMMIT")?;
    Ok(n)
}

/// Reads in long transactions for `time`: each must see one state, however others checkpoint.
///
/// # Errors
/// SQLite's own; [`Error::Broken`] if a snapshot changed or its totals are wrong.
pub fn read(top: Top, path: &Path, journal: &str, time: Duration) -> Result<u64> {
    let db = open(top, path, journal, "NORMAL")?;
    let start = Instant::now();
    let mut snapshots = 0;
    while start.elapsed() < time {
        patiently(|| {
            if !db.autocommit() {
                db.run("ROLLBACK")?;
            }
            db.run("BEGIN")?;
            let first = crate::ledger::digest(&db, "main")?;
            check_totals(&db)?;
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(2));
                if crate::ledger::digest(&db, "main")? != first {
                    return Err(Error::Broken("a snapshot changed while it was read".into()));
                }
            }
            db.run("COMMIT")
        })
        .map_err(explained(&db))?;
        snapshots += 1;
        // A log that is read without a break can never be begun anew.
        std::thread::sleep(Duration::from_millis(5));
    }
    db.close()?;
    Ok(snapshots)
}

/// Checkpoints in every mode for `time`.
///
/// # Errors
/// SQLite's own, except for a busy database.
pub fn checkpoint(top: Top, path: &Path, time: Duration) -> Result<()> {
    let db = open(top, path, "WAL", "NORMAL")?;
    db.busy_timeout_ms(20);
    let start = Instant::now();
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].iter().cycle() {
        if start.elapsed() > time {
            break;
        }
        patiently(|| db.run(&format!("PRAGMA wal_checkpoint({mode})")))?;
        std::thread::sleep(Duration::from_millis(3));
    }
    db.close()
}

/// Runs VACUUM now and then, for `time`.
///
/// # Errors
/// SQLite's own, except for a busy database.
pub fn vacuum(top: Top, path: &Path, journal: &str, time: Duration) -> Result<()> {
    let db = open(top, path, journal, "NORMAL")?;
    let start = Instant::now();
    while start.elapsed() < time {
        patiently(|| db.run("VACUUM")).map_err(explained(&db))?;
        std::thread::sleep(Duration::from_millis(400));
    }
    db.close()
}

/// Copies the database through SQLite's backup interface for `time`; each copy must be of one
/// state.
///
/// # Errors
/// SQLite's own, except for a busy database; [`Error::Broken`] if a copy's totals are wrong.
pub fn backup(top: Top, path: &Path, journal: &str, time: Duration) -> Result<()> {
    let db = open(top, path, journal, "NORMAL")?;
    let copy = PathBuf::from(format!("{}-copy-{}", path.display(), std::process::id()));
    let remove = || {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", copy.display()));
        }
    };
    let start = Instant::now();
    while start.elapsed() < time {
        let entries = || db.rows("SELECT writer, n FROM total");
        let before = patiently(entries).map_err(explained(&db))?;
        let to = top.open(&copy)?;
        patiently(|| to.backup_from("main", &db, "main", -1)).map_err(explained(&to))?;
        let there = before.iter().filter_map(|row| match row.as_slice() {
            [Value::Int(writer), Value::Int(n)] => Some((*writer, *n)),
            _ => None,
        });
        check_content(&to, &there.collect::<Vec<_>>()).map_err(explained(&to))?;
        to.close()?;
        remove();
        std::thread::sleep(Duration::from_millis(100));
    }
    db.close()
}

/// Checks that each writer's entries are 1 to n without a gap and match its total.
///
/// # Errors
/// SQLite's own; [`Error::Broken`] if they do not.
pub fn check_totals(db: &Db) -> Result<()> {
    let wrong = db.int(
        "SELECT count(*) FROM total AS t LEFT JOIN (SELECT writer, count(*) AS n, max(n) AS last,
             total(length(body)) AS bytes FROM entry GROUP BY writer) AS e USING(writer)
         WHERE t.n IS NOT e.n OR t.n IS NOT e.last OR t.bytes IS NOT CAST(e.bytes AS INTEGER)",
    )?;
    if wrong != 0 {
        return Err(Error::Broken(format!("{wrong} writers' entries do not add up")));
    }
    Ok(())
}

/// Opens the database after its users are gone: it must be intact, have correct totals, and at
/// least the `acknowledged` transactions (writer, number).
///
/// # Errors
/// SQLite's own; [`Error::Broken`] when a promise is broken.
pub fn verify(top: Top, path: &Path, acknowledged: &[(i64, i64)]) -> Result<()> {
    let db = top.open(path)?;
    db.busy_timeout_ms(5000);
    check_content(&db, acknowledged).map_err(explained(&db))?;
    db.close()
}

fn check_content(db: &Db, acknowledged: &[(i64, i64)]) -> Result<()> {
    let said = db.text("PRAGMA integrity_check")?;
    if said != "ok" {
        return Err(Error::Broken(format!("integrity_check: {said}")));
    }
    check_totals(db)?;
    for (writer, n) in acknowledged {
        let sql = format!("SELECT coalesce(max(n), 0) FROM total WHERE writer = {writer}");
        let found = db.int(&sql)?;
        if found < *n {
            return Err(Error::Broken(format!(
                "writer {writer}: {n} was acknowledged, {found} is there"
            )));
        }
    }
    Ok(())
}
