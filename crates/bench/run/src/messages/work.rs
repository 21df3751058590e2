//! One measured block: a batch, connections, selects, or a batch through a driver.

use std::collections::BTreeMap;

use fastrand::Rng;
use tdekit_bench_report::{Class, Metric, Side, measured};
use tdekit_system_use::{Listener, Moment, Use, wall_ns};

use super::connects::dial;
use super::drivers::Freetds;
use super::points::{Direct, Prepared, numbers};
use super::tds::{Connection, Dialer};
use crate::error::{BenchError, Result};

/// A cell of the report, with its implementation.
pub(super) struct Task {
    pub(super) cell: Class,
    pub(super) work: Work,
}

/// The work of a block; its size and text are in the cell.
pub(super) enum Work {
    /// A batch whose last value is the number of its units, or that has as many rows.
    Batch(Proof),
    /// Connections, this many at a time.
    Connects { threads: u32 },
    /// Selects, this many in a message, of a table of this many rows.
    Points { each: u32, rows: u32 },
    /// The batch through FreeTDS.
    Driver(Freetds, Proof),
}

/// How to check that a batch was executed completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    LastValue,
    Rows,
}

/// Where the blocks of a side run.
pub(super) enum Seat {
    Wire(Box<Wire>),
    /// In the bench's own process.
    Direct(Direct),
}

/// A side with a connection.
pub(super) struct Wire {
    pub(super) connection: Connection,
    pub(super) dialer: Dialer,
    /// The point select, if it is measured.
    pub(super) points: Option<Prepared>,
}

/// A block's cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) elapsed_ns: u64,
    /// Packets and bytes of the answers; zeros if they are not counted.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) server: Option<Use>,
    pub(super) client: Use,
}

impl Done {
    /// Returns the values by metric; those that are not counted, which are 0 then, are left out.
    pub(super) fn values(&self) -> BTreeMap<Metric, f64> {
        let some = |value: u64| (value > 0).then_some(value);
        measured([
            (Metric::Elapsed, Some(self.elapsed_ns)),
            (Metric::ServerCpu, self.server.map(|used| used.cpu_ns)),
            (Metric::ServerSwitches, self.server.map(|used| used.switches())),
            (Metric::ClientCpu, some(self.client.cpu_ns)),
            (Metric::ClientSwitches, Some(self.client.switches())),
            (Metric::Packets, some(self.packets)),
            (Metric::Bytes, some(self.bytes)),
            (Metric::WireBytes, some(self.wire_bytes)),
        ])
    }
}

impl Work {
    /// Returns true if it can be done there.
    pub(super) fn fits(&self, seat: &Seat) -> bool {
        match (self, seat) {
            (Self::Points { .. }, _) => true,
            (_, Seat::Direct(_)) => false,
            (Self::Driver(..), Seat::Wire(wire)) => Freetds::knows(wire.dialer.mode()),
            (Self::Batch(_) | Self::Connects { .. }, Seat::Wire(_)) => true,
        }
    }
}

/// Runs a block. None if it cannot be done there.
///
/// # Errors
/// A server's, a connection's, and an unexpected answer.
pub(super) fn measure(
    task: &Task,
    (seat, side): (&mut Seat, &Side),
    server: Option<&Listener>,
    rng: &mut Rng,
) -> Result<Option<Done>> {
    if !task.work.fits(seat) {
        return Ok(None);
    }
    let cell = &task.cell;
    let units = u32::try_from(cell.operations).unwrap_or(u32::MAX);
    let clock = || Clock::start(server.map(|server| server.pid));
    let done = match (&task.work, seat) {
        (Work::Batch(proof), Seat::Wire(wire)) => {
            let clock = clock();
            let drained = wire.connection.drain(&cell.what)?;
            let done = clock.stop((drained.packets, drained.bytes, drained.wire_bytes));
            let found = match proof {
                Proof::LastValue => drained.last_int.and_then(|last| u64::try_from(last).ok()),
                Proof::Rows => drained.rows,
            };
            check(cell, side, found)?;
            done
        }
        (Work::Connects { threads }, Seat::Wire(wire)) => {
            let clock = clock();
            let client = dial(&wire.dialer, units, *threads, &drop::<Connection>)?;
            Done { client, ..clock.stop((0, 0, 0)) }
        }
        (Work::Points { each, rows }, Seat::Wire(wire)) => {
            let wanted = numbers(rng, units, *rows);
            let Some(points) = &mut wire.points else { return Ok(None) };
            let clock = clock();
            let each = usize::try_from(*each).unwrap_or(1);
            let counts = points.run(&mut wire.connection, &wanted, each)?;
            clock.stop(counts)
        }
        (Work::Points { rows, .. }, Seat::Direct(direct)) => {
            let wanted = numbers(rng, units, *rows);
            let clock = Clock::start(None);
            direct.run(&wanted)?;
            let done = clock.stop((0, 0, 0));
            Done { server: Some(done.client), client: Use::default(), ..done }
        }
        (Work::Driver(freetds, proof), Seat::Wire(wire)) => {
            let clock = clock();
            let (login, mode) = (wire.dialer.login(), wire.dialer.mode());
            let driven = freetds.run(login, mode, &cell.what)?;
            let done = clock.stop((0, 0, 0));
            let found = match proof {
                Proof::LastValue => driven.last_line.parse().ok(),
                Proof::Rows => Some(driven.lines),
            };
            check(cell, side, found)?;
            Done { elapsed_ns: driven.elapsed_ns, client: driven.client, ..done }
        }
        (Work::Batch(_) | Work::Connects { .. } | Work::Driver(..), Seat::Direct(_)) => {
            return Ok(None);
        }
    };
    Ok(Some(done))
}

fn check(cell: &Class, side: &Side, found: Option<u64>) -> Result<()> {
    if found == Some(cell.operations) {
        return Ok(());
    }
    let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
    Err(BenchError::mismatch(
        format!("{}, {}", cell.label, side.label),
        format!("{found} instead of {} {}s", cell.operations, cell.unit),
    ))
}

/// Readings before and after a block. The elapsed time is the innermost one.
struct Clock {
    server: Option<(u32, Moment)>,
    client: Use,
    wall_ns: u64,
}

impl Clock {
    fn start(pid: Option<u32>) -> Self {
        let server = pid.map(|pid| (pid, Moment::of(pid)));
        Self { server, client: Use::of_this_thread(), wall_ns: wall_ns() }
    }

    fn stop(self, (packets, bytes, wire_bytes): (u64, u64, u64)) -> Done {
        let elapsed_ns = wall_ns().saturating_sub(self.wall_ns);
        let client = Use::of_this_thread().since(&self.client);
        let server = self.server.and_then(|(pid, before)| Moment::of(pid).since(&before));
        Done { elapsed_ns, packets, bytes, wire_bytes, server, client }
    }
}
