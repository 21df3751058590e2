//! The cost of idle connections: memory of the server's process before they connect, and while they
//! are idle.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tdekit_bench_report::Idle;
use tdekit_system_use::{Memory, wall_ns};

use super::connects::dial;
use super::tds::{Connection, Dialer};
use crate::error::{BenchError, Result};

/// Descriptors of the bench besides those of the connections.
const OTHER_FILES: u64 = 100;
/// Time for the server to settle before it is measured.
const SETTLE: Duration = Duration::from_secs(2);
/// Number of connections that are queried in the end, to check that they are alive.
const ASKED: usize = 50;

/// Fails if this process may not have this many connections; raises its limit if it may.
pub(super) fn make_room(connections: u32) -> Result<()> {
    let wanted = u64::from(connections) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|most| most.max(wanted));
    for maximum in [limit.maximum, maximum] {
        let raised = Rlimit { current: Some(wanted), maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return Ok(());
        }
    }
    let reason = format!(
        "the system lets this process have only {} files: `ulimit -Hn` tells, fewer connections \
         fit",
        limit.maximum.unwrap_or(0)
    );
    Err(BenchError::option("--idle", reason))
}

/// Opens the connections, measures the server, and closes them.
///
/// # Errors
/// A connection that cannot be made, or a checked one that is not alive in the end.
pub(super) fn measure(
    dialer: &Dialer,
    pid: u32,
    (side, count, threads): (&str, u32, u32),
) -> Result<Idle> {
    // The first login makes the server initialise and allocate memory.
    drop(dialer.open()?);
    std::thread::sleep(SETTLE);
    let before = Memory::of(pid);
    let open: Mutex<Vec<Connection>> = Mutex::default();
    let began = wall_ns();
    dial(dialer, count, threads, &|mut connection| {
        connection.rest();
        open.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    })?;
    let opened_ns = wall_ns().saturating_sub(began);
    std::thread::sleep(SETTLE);
    let after = Memory::of(pid);
    let mut open = open.into_inner().unwrap_or_else(PoisonError::into_inner);
    let step = (open.len() / ASKED).max(1);
    for connection in open.iter_mut().step_by(step) {
        connection.ask("SELECT 1")?;
    }
    Ok(Idle {
        side: side.to_owned(),
        connections: open.len() as u64,
        before_bytes: before.resident_bytes,
        after_bytes: after.resident_bytes,
        peak_bytes: after.peak_bytes,
        threads: after.threads,
        opened_ns,
    })
}
