//! The programs that write: threads with a connection each, and a commit after each row.

use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rusqlite::{Connection, params};

use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::latency::{Latencies, Percentiles};

/// Bytes of a row.
const ROW_BYTES: usize = 300;
/// Waiting for the other writer.
const BUSY: Duration = Duration::from_secs(30);

/// What writers took.
pub(super) struct Written {
    pub(super) elapsed_ns: u64,
    pub(super) latency: Option<Percentiles>,
}

/// Opens a database in WAL mode.
pub(super) fn open(database: &Path) -> Result<Connection> {
    let open = || {
        let connection = Connection::open(database)?;
        connection.busy_timeout(BUSY)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.execute_batch(
            "PRAGMA synchronous = NORMAL;
             CREATE TABLE IF NOT EXISTS shipped(id INTEGER PRIMARY KEY, v BLOB)",
        )?;
        Ok(connection)
    };
    open().map_err(BenchError::sqlite("cannot open the database"))
}

/// Commits a row, and changes an earlier one.
pub(super) fn commit(connection: &Connection, rng: &mut Rng) -> Result<()> {
    let mut row = [0; ROW_BYTES];
    rng.fill(&mut row);
    let mut write = || {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.execute("INSERT INTO shipped(v) VALUES (?1)", [&row[..]])?;
        let id = connection.last_insert_rowid();
        let earlier = i64::from(rng.u32(..)) % id + 1;
        let sql = "UPDATE shipped SET v = ?1 WHERE id = ?2";
        connection.execute(sql, params![&row[..], earlier])?;
        connection.execute_batch("COMMIT")
    };
    write().map_err(BenchError::sqlite("cannot write"))
}

/// Runs `writers` threads of `transactions` each.
pub(super) fn write(
    database: &Path,
    (writers, transactions): (u32, u32),
    seed: u64,
) -> Result<Written> {
    let connections: Vec<_> = (0..writers).map(|_| open(database)).collect::<Result<_>>()?;
    let begun = Instant::now();
    let one = |connection: Connection, seed: u64| -> Result<Latencies> {
        let mut rng = Rng::with_seed(seed);
        let mut latencies = Latencies::new();
        for _ in 0..transactions {
            interrupt::check()?;
            let begun = Instant::now();
            commit(&connection, &mut rng)?;
            latencies.record(nanoseconds(begun.elapsed()));
        }
        Ok(latencies)
    };
    let done: Vec<Latencies> = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (seed..)
            .zip(connections)
            .map(|(seed, connection)| scope.spawn(move || one(connection, seed)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let lost = || BenchError::option("replicate", "a writer ended");
                thread.join().map_err(|_| lost())?
            })
            .collect::<Result<_>>()
    })?;
    let elapsed_ns = nanoseconds(begun.elapsed());
    let mut all = Latencies::new();
    done.iter().for_each(|one| all.add(&one.counts()));
    Ok(Written { elapsed_ns, latency: all.percentiles() })
}

/// Returns the number of rows, and their sum as a check.
pub(super) fn content(database: &Path) -> Result<(i64, String)> {
    let read = || {
        let connection = Connection::open(database)?;
        connection.query_row(
            "SELECT count(*), hex(max(v)) || hex(min(v)) FROM shipped",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    };
    read().map_err(BenchError::sqlite("cannot read the restored database"))
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
