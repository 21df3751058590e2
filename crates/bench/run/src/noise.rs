//! Other work of the machine during a run.

use std::time::Instant;

use tdekit_bench_report::Noise;
use tdekit_system_use::{ProcessorTimes, Use, frequencies_mhz, load};

use crate::numbers::float;

/// From its start on, the processors' activity, and their frequencies.
pub(crate) struct NoiseMeter {
    start: Instant,
    times: Option<ProcessorTimes>,
    own_ns: u64,
    load: f64,
    frequency_mhz: Option<(u64, u64)>,
}

impl NoiseMeter {
    pub(crate) fn start() -> Self {
        let mut meter = Self {
            start: Instant::now(),
            times: ProcessorTimes::now(),
            own_ns: family_cpu_ns(),
            load: load().unwrap_or(0.0),
            frequency_mhz: None,
        };
        meter.look();
        meter
    }

    /// Records the processors' frequencies.
    pub(crate) fn look(&mut self) {
        for mhz in frequencies_mhz() {
            let (low, high) = self.frequency_mhz.unwrap_or((mhz, mhz));
            self.frequency_mhz = Some((low.min(mhz), high.max(mhz)));
        }
    }

    /// Returns the noise of the run; `None` if the system does not report it. Every worker must
    /// have ended.
    pub(crate) fn finish(mut self) -> Option<Noise> {
        self.look();
        let (before, after) = self.times.zip(ProcessorTimes::now())?;
        let elapsed_ns = self.start.elapsed().as_secs_f64() * 1e9;
        let own_ns = family_cpu_ns().saturating_sub(self.own_ns);
        Some(noise(
            (before, after),
            float(own_ns) / (elapsed_ns * float(after.processors)),
            (self.load, load().unwrap_or(0.0)),
            self.frequency_mhz,
        ))
    }
}

fn noise(
    (before, after): (ProcessorTimes, ProcessorTimes),
    own: f64,
    (load_start, load_end): (f64, f64),
    frequency_mhz: Option<(u64, u64)>,
) -> Noise {
    let total = float(after.total.saturating_sub(before.total)).max(1.0);
    let share = |pick: fn(&ProcessorTimes) -> u64| {
        float(pick(&after).saturating_sub(pick(&before))) / total
    };
    Noise {
        steal: share(|times| times.steal),
        others: (share(|times| times.busy) - own).clamp(0.0, 1.0),
        load_start,
        load_end,
        frequency_mhz,
    }
}

/// Returns the CPU of this process and of every process that it started and reaped.
fn family_cpu_ns() -> u64 {
    Use::of_this_process().cpu_ns + Use::of_ended_children().cpu_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_processors() {
        let before = ProcessorTimes { total: 1000, busy: 150, steal: 0, processors: 2 };
        let after = ProcessorTimes { total: 2000, busy: 700, steal: 200, processors: 2 };
        let found = noise((before, after), 0.3, (0.5, 1.5), None);
        assert!((found.steal - 0.2).abs() < 1e-9, "{found:?}");
        assert!((found.others - 0.25).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn this_machine_tells() {
        let found = NoiseMeter::start().finish().unwrap();
        assert!((0.0..=1.0).contains(&found.others) && found.steal <= 1.0, "{found:?}");
    }
}
