//! The machine's other work during a run.

use std::path::Path;
use std::time::Instant;

use tdekit_bench_report::Noise;

use crate::numbers::float;
use crate::sys::family_cpu_ns;

/// From its start on, what the processors did, and how fast they ran.
pub(crate) struct NoiseMeter {
    start: Instant,
    times: Option<Times>,
    own_ns: u64,
    load: f64,
    frequency_mhz: Option<(u64, u64)>,
}

/// Ticks of all processors since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    total: u64,
    busy: u64,
    steal: u64,
    processors: u64,
}

impl NoiseMeter {
    pub(crate) fn start() -> Self {
        let mut meter = Self {
            start: Instant::now(),
            times: Times::now(),
            own_ns: family_cpu_ns(),
            load: load(),
            frequency_mhz: None,
        };
        meter.look();
        meter
    }

    /// Notes the processors' frequencies.
    pub(crate) fn look(&mut self) {
        for mhz in frequencies() {
            let (low, high) = self.frequency_mhz.unwrap_or((mhz, mhz));
            self.frequency_mhz = Some((low.min(mhz), high.max(mhz)));
        }
    }

    /// The noise of the run; `None` where the system does not tell. Every worker must have ended.
    pub(crate) fn finish(mut self) -> Option<Noise> {
        self.look();
        let (before, after) = self.times.zip(Times::now())?;
        let elapsed_ns = self.start.elapsed().as_secs_f64() * 1e9;
        let own_ns = family_cpu_ns().saturating_sub(self.own_ns);
        Some(noise(
            (before, after),
            float(own_ns) / (elapsed_ns * float(after.processors)),
            (self.load, load()),
            self.frequency_mhz,
        ))
    }
}

fn noise(
    (before, after): (Times, Times),
    own: f64,
    (load_start, load_end): (f64, f64),
    frequency_mhz: Option<(u64, u64)>,
) -> Noise {
    let total = float(after.total.saturating_sub(before.total)).max(1.0);
    let share = |pick: fn(&Times) -> u64| float(pick(&after).saturating_sub(pick(&before))) / total;
    Noise {
        steal: share(|times| times.steal),
        others: (share(|times| times.busy) - own).clamp(0.0, 1.0),
        load_start,
        load_end,
        frequency_mhz,
    }
}

impl Times {
    fn now() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fn read(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, io_wait, irq, soft_irq, steal] = ticks.try_into().ok()?;
        let busy = user + nice + system + irq + soft_irq;
        let processors = text
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .count();
        Some(Self {
            total: busy + idle + io_wait + steal,
            busy,
            steal,
            processors: (processors as u64).max(1),
        })
    }
}

fn load() -> f64 {
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0)
}

/// Frequency of each processor, empty where the system does not tell: as in most virtual machines.
fn frequencies() -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir("/sys/devices/system/cpu") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path().join(Path::new("cpufreq/scaling_cur_freq"));
            let khz: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
            Some(khz / 1000)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_processors() {
        let before =
            Times::read("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1\ncpu1 1\nintr 5\n").unwrap();
        assert_eq!(before, Times { total: 1000, busy: 150, steal: 0, processors: 2 });
        let after = Times::read("cpu  500 50 150 1000 100 0 0 200 0 0\ncpu0 1\ncpu1 1\n").unwrap();
        let found = noise((before, after), 0.3, (0.5, 1.5), None);
        assert!((found.steal - 0.2).abs() < 1e-9, "{found:?}");
        assert!((found.others - 0.25).abs() < 1e-9, "{found:?}");
        assert_eq!(Times::read("cpu 1 2 3\n"), None);
        assert_eq!(Times::read("nothing"), None);
    }

    #[test]
    fn this_machine_tells() {
        let found = NoiseMeter::start().finish().unwrap();
        assert!((0.0..=1.0).contains(&found.others) && found.steal <= 1.0, "{found:?}");
    }
}
