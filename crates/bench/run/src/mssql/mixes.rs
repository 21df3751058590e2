//! Mixes of reads, updates and inserts over several connections, each through a stored procedure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_bench_report::ThinkTime;
use tdekit_system_use::Use;

use super::data::{Row, STOPPED};
use super::server::{Counters, Used, of_session};
use super::tds::{Connection, TdsError};
use crate::error::{BenchError, Result};
use crate::generate::Mix;
use tdekit_bench_work::Latencies;

/// Loops of every connection in a block.
#[derive(Clone, Copy)]
pub(super) struct Loops<'a> {
    pub(super) mix: Mix,
    /// Row of the control table.
    pub(super) control: i64,
    pub(super) loops: u64,
    pub(super) rows: u64,
    pub(super) seed: u64,
    /// Interval between the due times of two loops of a connection.
    pub(super) interval: Option<Duration>,
    pub(super) think: Option<ThinkTime>,
    pub(super) counters: Counters,
    /// The next key of an inserted row, of this database.
    pub(super) next: &'a AtomicU64,
}

/// Result of a block.
pub(super) struct Ran {
    pub(super) elapsed_ns: u64,
    /// Of all sessions together; none if the server does not report it.
    pub(super) used: Option<Used>,
    /// CPU of the bench's own process.
    pub(super) client_cpu_ns: u64,
    pub(super) latencies: Latencies,
}

/// Runs a block: all connections at once.
pub(super) fn run(connections: &mut [Connection], loops: Loops<'_>) -> Result<Ran> {
    let before = sessions(connections, loops.counters)?;
    let own = Use::of_this_process();
    let began = Instant::now();
    let results: Vec<Result<Latencies>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0_u64..)
            .zip(connections.iter_mut())
            .map(|(number, connection)| {
                let seed = loops.seed.wrapping_add(number);
                scope.spawn(move || one(connection, &Loops { seed, ..loops }))
            })
            .collect();
        let lost = || BenchError::WorkerLost {
            side: "mixes".to_owned(),
            detail: "a thread ended".to_owned(),
        };
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost()))).collect()
    });
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let client_cpu_ns = Use::of_this_process().since(&own).cpu_ns;
    let mut latencies = Latencies::new();
    for result in results {
        latencies.add(&result?.counts());
    }
    let after = sessions(connections, loops.counters)?;
    let used = after.zip(before).map(|(after, before)| after.since(&before));
    Ok(Ran { elapsed_ns, used, client_cpu_ns, latencies })
}

fn sessions(connections: &mut [Connection], counters: Counters) -> Result<Option<Used>> {
    if counters == Counters::Clock {
        return Ok(None);
    }
    let mut all = Used::default();
    for connection in connections {
        all.add(&of_session(connection)?);
    }
    Ok(Some(all))
}

/// Loops of one connection.
fn one(connection: &mut Connection, loops: &Loops<'_>) -> Result<Latencies> {
    let mut rng = Rng::with_seed(loops.seed);
    let mut latencies = Latencies::new();
    let began = Instant::now();
    for number in 0..loops.loops {
        let mut start = Instant::now();
        if let Some(interval) = loops.interval {
            let due = began + interval.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
            std::thread::sleep(due.saturating_duration_since(start));
            // A late start is included.
            start = due;
        }
        connection.query(&call(&mut rng, loops)).map_err(stopped)?;
        latencies.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if let Some(think) = loops.think
            && think.every_loops > 0
            && (number + 1).is_multiple_of(think.every_loops)
        {
            std::thread::sleep(Duration::from_millis(think.pause_ms));
        }
    }
    Ok(latencies)
}

/// The call of a loop.
fn call(rng: &mut Rng, loops: &Loops<'_>) -> String {
    let Loops { mix, control, rows, next, .. } = *loops;
    let row = Row::new(rng, rows);
    let key = || next.fetch_add(1, Ordering::Relaxed);
    if mix.load {
        return row.load(control, key());
    }
    let Row { city, zip, card, vendor, amount, date, .. } = &row;
    let choice = rng.u32(0..(mix.reads + mix.updates + mix.inserts).max(1));
    if choice < mix.reads {
        format!("EXEC dbo.ReadCard {control}, {card}")
    } else if choice < mix.reads + mix.updates {
        format!("EXEC dbo.UpdateVendor {control}, {vendor}, N'{city}', N'{zip}', {date}")
    } else {
        format!("EXEC dbo.InsertPurchase {control}, {}, {card}, {vendor}, {amount}, {date}", key())
    }
}

/// The control table ends a run like an order does.
fn stopped(error: TdsError) -> BenchError {
    match error {
        TdsError::ServerSaid { number: STOPPED, .. } => BenchError::Stopped,
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_of_their_mix() {
        let next = AtomicU64::new(101);
        let of = |mix: &str| Loops {
            mix: mix.parse().unwrap(),
            control: 1,
            loops: 1,
            rows: 100,
            seed: 1,
            interval: None,
            think: None,
            counters: Counters::Clock,
            next: &next,
        };
        let mut rng = Rng::with_seed(7);
        let mut count = |mix: &str, start: &str| {
            (0..1_000).filter(|_| call(&mut rng, &of(mix)).starts_with(start)).count()
        };
        assert_eq!(count("10/0/0", "EXEC dbo.ReadCard 1, "), 1_000);
        assert!((350..450).contains(&count("4/3/3", "EXEC dbo.ReadCard")));
        assert!((450..550).contains(&count("0/5/5", "EXEC dbo.InsertPurchase")));
        assert_eq!(count("load", "EXEC dbo.LoadRow 1, "), 1_000);
        assert!(next.load(Ordering::Relaxed) > 1_101);
    }

    #[test]
    fn the_control_table_stops_a_run() {
        let said = |number| TdsError::ServerSaid { number, class: 16, state: 1, text: "x".into() };
        assert!(matches!(stopped(said(STOPPED)), BenchError::Stopped));
        assert!(matches!(stopped(said(1105)), BenchError::Tds(_)));
    }
}
