//! Clocks and counters of this process.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tdekit_bench_report::{Metric, measured};
use tdekit_sqlite_client::{Connection, retries};
use tdekit_system_use::{Use, cpu_ns, instructions, wall_ns};

use crate::latency::Percentiles;

/// The cost of a block to one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Monotonic clock at the start, comparable between processes.
    pub start_ns: u64,
    /// Monotonic clock at the end.
    pub end_ns: u64,
    /// Wall clock of the measured parts.
    pub elapsed_ns: u64,
    /// The process's use of the machine in the measured parts.
    pub used: Use,
    /// Pages that SQLite read.
    pub logical_reads: u64,
    /// Pages that SQLite wrote.
    pub logical_writes: u64,
    /// Calls that waited for a lock.
    pub retries: u64,
    /// None if the kernel does not permit counting.
    pub instructions: Option<u64>,
    /// Number of operations, if the block counts them.
    pub operations: u64,
    /// Latencies of single operations, if they are timed: values with their counts.
    pub latencies: Vec<(u64, u64)>,
    /// Elapsed and CPU nanoseconds of each statement, in the order of the plan's class.
    pub statements: Vec<(u64, u64)>,
}

impl Cost {
    /// Adds the counters of `other`; its times too if it ran after this one rather than in
    /// parallel.
    pub fn add(&mut self, other: &Self) {
        self.elapsed_ns += other.elapsed_ns;
        self.used.add(&other.used);
        self.logical_reads += other.logical_reads;
        self.logical_writes += other.logical_writes;
        self.retries += other.retries;
        self.instructions = match (self.instructions, other.instructions) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
        self.operations += other.operations;
        self.latencies.extend(&other.latencies);
    }

    /// Returns the values for a report, by metric.
    pub fn values(&self, latency: Option<Percentiles>) -> BTreeMap<Metric, f64> {
        let counts = [
            (Metric::Elapsed, Some(self.elapsed_ns)),
            (Metric::PagesRead, Some(self.logical_reads)),
            (Metric::PagesWritten, Some(self.logical_writes)),
            (Metric::Retries, Some(self.retries)),
            (Metric::VoluntarySwitches, Some(self.used.voluntary_switches)),
            (Metric::InvoluntarySwitches, Some(self.used.involuntary_switches)),
            (Metric::Instructions, self.instructions),
            (Metric::MedianLatency, latency.map(|found| found.p50_ns)),
            (Metric::P95Latency, latency.map(|found| found.p95_ns)),
            (Metric::TailLatency, latency.map(|found| found.p99_ns)),
            (Metric::MaxLatency, latency.map(|found| found.max_ns)),
        ];
        measured(counts.into_iter().chain(of_use(&self.used)))
    }
}

/// Returns the values of resource usage that every report contains.
pub fn of_use(used: &Use) -> [(Metric, Option<u64>); 5] {
    [
        (Metric::Cpu, Some(used.cpu_ns)),
        (Metric::User, Some(used.user_ns)),
        (Metric::System, Some(used.system_ns)),
        (Metric::DeviceRead, Some(used.device_read_bytes)),
        (Metric::DeviceWrite, Some(used.device_write_bytes)),
    ]
}

/// Measures the parts of a block. Anything between the parts is not counted.
pub struct Meter {
    cost: Cost,
    retries: u64,
}

impl Meter {
    /// Begins a block.
    #[must_use]
    pub fn start() -> Self {
        let cost = Cost { start_ns: wall_ns(), ..Cost::default() };
        Self { cost, retries: retries() }
    }

    /// Measures one part; returns its result, elapsed and CPU nanoseconds. The CPU clock is read
    /// outside the wall clock's window, everything coarser outside both.
    #[inline]
    pub fn part<T>(&mut self, connection: &Connection, work: impl FnOnce() -> T) -> (T, u64, u64) {
        connection.take_cache_counts();
        let before = Use::of_this_process();
        let retired = instructions();
        let cpu = cpu_ns();
        let wall = wall_ns();
        let result = work();
        let elapsed = wall_ns() - wall;
        let cpu = cpu_ns() - cpu;
        let retired_after = instructions();
        let used = Use::of_this_process().since(&before);
        let counts = connection.take_cache_counts();
        self.cost.elapsed_ns += elapsed;
        self.cost.used.add(&Use { cpu_ns: cpu, ..used });
        if let Some((before, after)) = retired.zip(retired_after) {
            let sum = self.cost.instructions.unwrap_or(0);
            self.cost.instructions = Some(sum + after.saturating_sub(before));
        }
        self.cost.logical_reads += counts.misses;
        self.cost.logical_writes += counts.writes;
        (result, elapsed, cpu)
    }

    /// Returns the result and the cost of a block that has one part.
    ///
    /// # Errors
    /// The work's.
    pub fn whole<T, E>(
        connection: &Connection,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, Cost), E> {
        let mut meter = Self::start();
        let (result, ..) = meter.part(connection, work);
        Ok((result?, meter.finish()))
    }

    /// Ends the block.
    pub fn finish(mut self) -> Cost {
        self.cost.retries = retries() - self.retries;
        self.cost.end_ns = wall_ns();
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use tdekit_sqlite_client::Library;

    #[test]
    fn parts_are_measured_and_added_up() {
        let memory = Library::bundled().open(Path::new(":memory:")).unwrap();
        let mut meter = Meter::start();
        // Other tests of this process use CPU at the same time, so CPU is not checked here.
        let (_, elapsed, _) = meter.part(&memory, || std::thread::sleep(Duration::from_millis(20)));
        assert!(elapsed >= 20_000_000, "{elapsed}");
        let (sum, _, cpu) = meter.part(&memory, || {
            (0..20_000_000_u64).fold(0_u64, |sum, n| sum.wrapping_mul(31).wrapping_add(n))
        });
        assert!(sum != 0 && cpu > 100_000, "{cpu}");
        let cost = meter.finish();
        assert!(cost.elapsed_ns > elapsed && cost.end_ns > cost.start_ns);
    }
}
