//! The programs that write: threads with a connection each, and a commit after each row.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rusqlite::{Connection, params};

use crate::error::{BenchError, Result};
use crate::interrupt;
use tdekit_bench_work::{Latencies, Percentiles};

/// Bytes of a row.
const ROW_BYTES: usize = 300;
/// Waiting for the other writer.
const BUSY: Duration = Duration::from_secs(30);

/// What writers do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) writers: u32,
    /// Of each writer.
    pub(super) transactions: u32,
    /// Time between two transactions of a writer; zero for no pause.
    pub(super) interval: Duration,
}

/// What writers took.
pub(super) struct Written {
    pub(super) elapsed_ns: u64,
    /// Time in transactions, of all writers together.
    pub(super) busy_ns: u64,
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

/// Runs a thread for each writer.
pub(super) fn write(database: &Path, load: Load, seed: u64) -> Result<Written> {
    let connections: Vec<_> = (0..load.writers).map(|_| open(database)).collect::<Result<_>>()?;
    let begun = Instant::now();
    let done: Vec<((Latencies, Duration), Connection)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(connections)
            .map(|(writer, connection)| {
                // The writers take turns.
                let first = begun + load.interval * writer / load.writers.max(1);
                let rng = Rng::with_seed(seed + u64::from(writer));
                scope.spawn(move || Ok((one(&connection, load, first, rng)?, connection)))
            })
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
    // Off the clock: the last one that closes copies the log, unless a follower has it open.
    let (done, connections): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    drop(connections);
    let mut all = Latencies::new();
    done.iter().for_each(|(one, _)| all.add(&one.counts()));
    let busy_ns = done.iter().map(|(_, busy)| nanoseconds(*busy)).sum();
    Ok(Written { elapsed_ns, busy_ns, latency: all.percentiles() })
}

/// Writes the transactions of one writer; returns their latencies and the time in them. With an
/// interval each is due at a time of its own, the first one at `first`. The latency of one that is
/// late because of those before it counts from then, that of another one from its begin: how
/// exactly the system wakes a thread up is not the database's.
fn one(
    connection: &Connection,
    load: Load,
    first: Instant,
    mut rng: Rng,
) -> Result<(Latencies, Duration)> {
    let (mut latencies, mut busy) = (Latencies::new(), Duration::ZERO);
    for number in 0..load.transactions {
        interrupt::check()?;
        let mut counted = Instant::now();
        if !load.interval.is_zero() {
            let due = first + load.interval * number;
            let left = due.saturating_duration_since(counted);
            sleep(left);
            counted = if left.is_zero() { due } else { Instant::now() };
        }
        let begun = Instant::now();
        commit(connection, &mut rng)?;
        busy += begun.elapsed();
        latencies.record(nanoseconds(counted.elapsed()));
    }
    Ok((latencies, busy))
}

/// Returns the number of rows, and a hash of all of them, which is the same in this process.
pub(super) fn content(database: &Path) -> Result<(u64, u64)> {
    let read = || {
        let connection = Connection::open(database)?;
        let mut rows = connection.prepare("SELECT id, v FROM shipped ORDER BY id")?;
        let mut rows = rows.query([])?;
        let (mut count, mut hasher) = (0, DefaultHasher::new());
        while let Some(row) = rows.next()? {
            let (id, v): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            (id, v).hash(&mut hasher);
            count += 1;
        }
        Ok((count, hasher.finish()))
    };
    read().map_err(BenchError::sqlite("cannot read the restored database"))
}

/// Has SQLite check a whole database, with the largest cache that `tdekit restore` gives it.
pub(super) fn check(database: &Path) -> Result<()> {
    let check = || {
        let connection = Connection::open(database)?;
        connection.pragma_update(None, "cache_size", -(1 << 20))?;
        connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    let said = check().map_err(BenchError::sqlite("cannot check the restored database"))?;
    match said.as_str() {
        "ok" => Ok(()),
        _ => Err(BenchError::option("--experiment replicate", format!("integrity_check: {said}"))),
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transaction_is_a_row_and_is_timed() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("a.db");
        let load = Load { writers: 2, transactions: 50, interval: Duration::ZERO };
        let written = write(&database, load, 3).unwrap();
        let latency = written.latency.unwrap();
        assert!(written.busy_ns > 0 && latency.p50_ns <= latency.p99_ns);
        assert!(written.busy_ns <= 2 * written.elapsed_ns);
        let before = content(&database).unwrap();
        assert_eq!(before.0, 100);
        commit(&open(&database).unwrap(), &mut Rng::with_seed(9)).unwrap();
        let after = content(&database).unwrap();
        assert_eq!(after.0, 101);
        assert_ne!(before.1, after.1, "another row is in the check");
    }

    #[test]
    fn writers_at_a_rate_pause_and_a_late_transaction_counts_from_when_it_was_due() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("a.db");
        let interval = Duration::from_millis(10);
        let load = Load { writers: 2, transactions: 20, interval };
        let written = write(&database, load, 3).unwrap();
        assert_eq!(content(&database).unwrap().0, 40);
        assert!(written.elapsed_ns >= nanoseconds(interval * 19), "{}", written.elapsed_ns);
        // All were due a second ago.
        let load = Load { writers: 1, transactions: 5, interval: Duration::from_nanos(1) };
        let due = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let connection = open(&database).unwrap();
        let (latencies, busy) = one(&connection, load, due, Rng::with_seed(4)).unwrap();
        let found = latencies.percentiles().unwrap();
        assert!(found.p50_ns > 900_000_000, "{}", found.p50_ns);
        assert!(busy < Duration::from_secs(5), "{busy:?}: the time in transactions alone");
    }
}
