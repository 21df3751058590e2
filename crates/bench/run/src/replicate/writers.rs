//! The programs that write: threads with a connection each, and a commit after each row.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
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

/// Has SQLite check a whole database, with a cache as large as `tdekit restore` gives it.
pub(super) fn check(database: &Path) -> Result<()> {
    let check = || {
        let connection = Connection::open(database)?;
        connection.pragma_update(None, "cache_size", -(64 << 10))?;
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
        let written = write(&database, (2, 50), 3).unwrap();
        let latency = written.latency.unwrap();
        assert!(written.elapsed_ns > 0 && latency.p50_ns <= latency.p99_ns);
        let before = content(&database).unwrap();
        assert_eq!(before.0, 100);
        commit(&open(&database).unwrap(), &mut Rng::with_seed(9)).unwrap();
        let after = content(&database).unwrap();
        assert_eq!(after.0, 101);
        assert_ne!(before.1, after.1, "another row is in the check");
    }
}
