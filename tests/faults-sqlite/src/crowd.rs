//! Several processes on one database: the work of each, and the conditions afterwards.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::ffi::db::{Db, Value};
use crate::rng::Rng;
use crate::top::Top;

const SQLITE_BUSY: i32 = 5;
const SQLITE_LOCKED: i32 = 6;

/// Creates the database of the crowd.
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
    // Spills, and checkpoints often.
    db.run("PRAGMA cache_size=8; PRAGMA wal_autocheckpoint=20")?;
    Ok(db)
}

/// Adds the encrypting VFS's account of an error to SQLite's own words.
fn explained(db: &Db) -> impl Fn(Error) -> Error + '_ {
    |error| match (error, db.text("SELECT tdekit_last_error()")) {
        (Error::Sql(mut sql), Ok(known)) => {
            sql.message = format!("{}: {known}", sql.message);
            Error::Sql(sql)
        }
        (error, _) => error,
    }
}

/// Runs `work` again while another connection has the database.
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
    db.run("COMMIT")?;
    Ok(n)
}

/// Reads in long transactions for `time`: each must see one state, however others checkpoint.
///
/// # Errors
/// SQLite's own; [`Error::Broken`] when a snapshot changed or does not add up.
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

/// Each writer's entries are 1 to n without a gap and add up to its total.
///
/// # Errors
/// SQLite's own; [`Error::Broken`] when they do not.
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

/// Opens the database after its users are gone: intact, adding up, and with at least the
/// transactions `acknowledged` (writer, number).
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
