//! Clocks and counters of the own process.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use serde::{Deserialize, Serialize};
use tdekit_bench_report::{Metric, measured};

use crate::instructions;
use crate::latency::Percentiles;
use crate::sys::cpu_split;
use tdekit_sqlite_client::{Connection, retries};

/// Readings of the clock that tell its step, steps among them at least (one may hold the time that
/// another process had), and how many readings are made where it stands still.
const READINGS: u32 = 5_000;
const STEPS: u32 = 8;
const MOST_READINGS: u32 = 20_000_000;
/// Makes the clocks coarse, so that runs can be tested on such.
const STEP_VARIABLE: &str = "TDEKIT_BENCH_CLOCK_STEP_NS";

/// The cost of a block to one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Monotonic clock at the start, comparable between processes.
    pub(crate) start_ns: u64,
    /// Monotonic clock at the end.
    pub(crate) end_ns: u64,
    /// Wall clock of the measured parts.
    pub(crate) elapsed_ns: u64,
    /// Process CPU of the measured parts.
    pub(crate) cpu_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) logical_reads: u64,
    pub(crate) logical_writes: u64,
    pub(crate) device_read_bytes: u64,
    pub(crate) device_write_bytes: u64,
    pub(crate) retries: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    /// None where the kernel does not let them be counted.
    pub(crate) instructions: Option<u64>,
    /// Operations done, where the block counts them.
    pub(crate) operations: u64,
    /// Latencies of single operations, where they are timed: values and how many have each.
    pub(crate) latencies: Vec<(u64, u64)>,
    /// Elapsed and CPU nanoseconds of each statement, in order of the plan's class.
    pub(crate) statements: Vec<(u64, u64)>,
}

impl Cost {
    /// Adds the counters of `other`; its times too when it ran after and not beside this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.elapsed_ns += other.elapsed_ns;
        self.cpu_ns += other.cpu_ns;
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.logical_reads += other.logical_reads;
        self.logical_writes += other.logical_writes;
        self.device_read_bytes += other.device_read_bytes;
        self.device_write_bytes += other.device_write_bytes;
        self.retries += other.retries;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.instructions = match (self.instructions, other.instructions) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
        self.operations += other.operations;
        self.latencies.extend(&other.latencies);
    }

    /// The values that a report holds, by metric.
    pub(crate) fn values(&self, latency: Option<Percentiles>) -> BTreeMap<Metric, f64> {
        measured([
            (Metric::Elapsed, Some(self.elapsed_ns)),
            (Metric::Cpu, Some(self.cpu_ns)),
            (Metric::User, Some(self.user_ns)),
            (Metric::System, Some(self.system_ns)),
            (Metric::PagesRead, Some(self.logical_reads)),
            (Metric::PagesWritten, Some(self.logical_writes)),
            (Metric::DeviceRead, Some(self.device_read_bytes)),
            (Metric::DeviceWrite, Some(self.device_write_bytes)),
            (Metric::Retries, Some(self.retries)),
            (Metric::VoluntarySwitches, Some(self.voluntary_switches)),
            (Metric::InvoluntarySwitches, Some(self.involuntary_switches)),
            (Metric::Instructions, self.instructions),
            (Metric::MedianLatency, latency.map(|found| found.p50_ns)),
            (Metric::P95Latency, latency.map(|found| found.p95_ns)),
            (Metric::TailLatency, latency.map(|found| found.p99_ns)),
            (Metric::MaxLatency, latency.map(|found| found.max_ns)),
        ])
    }
}

/// Monotonic clock.
pub(crate) fn wall_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// CPU of the calling thread.
pub(crate) fn thread_ns() -> u64 {
    in_ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU of all threads of this process.
pub(crate) fn cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// The smallest step that the wall clock makes here, of some thousand readings; of more where it
/// hardly moves for so long.
pub(crate) fn clock_step_ns() -> u64 {
    let (mut least, mut steps) = (u64::MAX, 0_u32);
    let mut last = wall_ns();
    for reading in 0..MOST_READINGS {
        if reading >= READINGS && steps >= STEPS {
            break;
        }
        let now = wall_ns();
        if now > last {
            least = least.min(now - last);
            steps += 1;
        }
        last = now;
    }
    // A clock that stood still all the while: its own word for its resolution.
    if least == u64::MAX { in_ns(clock_getres(ClockId::Monotonic)) } else { least }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = in_ns(clock_gettime(clock));
    now - now % coarseness_ns()
}

fn in_ns(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The step that both clocks are made to move in: 1, but in tests of coarse clocks.
fn coarseness_ns() -> u64 {
    static STEP: OnceLock<u64> = OnceLock::new();
    *STEP.get_or_init(|| {
        let given = std::env::var(STEP_VARIABLE).ok().and_then(|text| text.parse().ok());
        given.filter(|step| *step > 0).unwrap_or(1)
    })
}

/// Measures the parts of a block. What lies between the parts is not counted.
pub(crate) struct Meter {
    cost: Cost,
    retries: u64,
}

impl Meter {
    pub(crate) fn start() -> Self {
        let cost = Cost { start_ns: wall_ns(), ..Cost::default() };
        Self { cost, retries: retries() }
    }

    /// Measures one part; returns its result, elapsed and CPU nanoseconds. The CPU clock is read
    /// outside the wall clock's window, everything coarser outside both.
    #[inline]
    pub(crate) fn part<T>(
        &mut self,
        connection: &Connection,
        work: impl FnOnce() -> T,
    ) -> (T, u64, u64) {
        connection.take_cache_counts();
        let device = device_bytes();
        let split = cpu_split();
        let retired = instructions::read();
        let cpu = cpu_ns();
        let wall = wall_ns();
        let result = work();
        let elapsed = wall_ns() - wall;
        let cpu = cpu_ns() - cpu;
        let retired_after = instructions::read();
        let split_after = cpu_split();
        let device_after = device_bytes();
        let counts = connection.take_cache_counts();
        self.cost.elapsed_ns += elapsed;
        self.cost.cpu_ns += cpu;
        self.cost.user_ns += split_after.user_ns.saturating_sub(split.user_ns);
        self.cost.system_ns += split_after.system_ns.saturating_sub(split.system_ns);
        let switches = |pick: fn(&crate::sys::CpuSplit) -> u64| {
            pick(&split_after).saturating_sub(pick(&split))
        };
        self.cost.voluntary_switches += switches(|found| found.voluntary_switches);
        self.cost.involuntary_switches += switches(|found| found.involuntary_switches);
        if let Some((before, after)) = retired.zip(retired_after) {
            let sum = self.cost.instructions.unwrap_or(0);
            self.cost.instructions = Some(sum + after.saturating_sub(before));
        }
        self.cost.device_read_bytes += device_after.0.saturating_sub(device.0);
        self.cost.device_write_bytes += device_after.1.saturating_sub(device.1);
        self.cost.logical_reads += counts.misses;
        self.cost.logical_writes += counts.writes;
        (result, elapsed, cpu)
    }

    /// Ends the block.
    pub(crate) fn finish(mut self) -> Cost {
        self.cost.retries = retries() - self.retries;
        self.cost.end_ns = wall_ns();
        self.cost
    }
}

/// Bytes that this process fetched from and sent towards devices, by `/proc/self/io`; zeros where
/// the kernel does not count them.
fn device_bytes() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    (field(&text, "read_bytes:"), field(&text, "write_bytes:"))
}

/// Private memory of this process: `RssAnon` of `/proc/self/status`, in bytes.
pub(crate) fn private_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&text, "RssAnon:") * 1024
}

/// The number behind a name at the start of a line of `/proc`; 0 without one.
pub(crate) fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use tdekit_sqlite_client::Library;

    #[test]
    fn fields_of_proc() {
        let text = "rchar: 12\nread_bytes: 4096\nwrite_bytes: 8192\nRssAnon:\t  120 kB\n";
        assert_eq!(field(text, "read_bytes:"), 4096);
        assert_eq!(field(text, "RssAnon:"), 120);
        assert_eq!(field(text, "absent:"), 0);
    }

    #[test]
    fn parts_are_measured_and_added_up() {
        let memory = Library::bundled().open(Path::new(":memory:")).unwrap();
        let mut meter = Meter::start();
        // Other tests of this process use CPU meanwhile, so nothing can be said of it here.
        let (_, elapsed, _) = meter.part(&memory, || std::thread::sleep(Duration::from_millis(20)));
        assert!(elapsed >= 20_000_000, "{elapsed}");
        let (sum, _, cpu) = meter.part(&memory, || {
            (0..20_000_000_u64).fold(0_u64, |sum, n| sum.wrapping_mul(31).wrapping_add(n))
        });
        assert!(sum != 0 && cpu > 100_000, "{cpu}");
        let cost = meter.finish();
        assert!(cost.elapsed_ns > elapsed && cost.end_ns > cost.start_ns);
        assert!(private_memory_bytes() > 0);
    }
}
