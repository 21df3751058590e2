//! The machine: its processors' times, its load, its memory.

use crate::{field, read};

/// Ticks of all processors since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// All.
    pub total: u64,
    /// Those that were busy.
    pub busy: u64,
    /// Those that the host gave to other machines.
    pub steal: u64,
    /// Processors, at least 1.
    pub processors: u64,
}

impl ProcessorTimes {
    /// Returns the current ones; none if the system does not report them.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&read("/proc/stat")?)
    }

    /// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fn parse(text: &str) -> Option<Self> {
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

/// Returns the mean number of running or waiting processes, over the last minute.
#[must_use]
pub fn load() -> Option<f64> {
    read("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

/// Returns the frequency of each processor; empty if the system does not report it, as in most
/// virtual machines.
#[must_use]
pub fn frequencies_mhz() -> Vec<u64> {
    let entries = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| {
        let path = entry.path().join("cpufreq/scaling_cur_freq");
        let khz: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        Some(khz / 1000)
    };
    entries.filter_map(of).collect()
}

/// Returns a line of `/proc/meminfo`, such as `MemTotal`, in bytes; 0 if there is none.
#[must_use]
pub fn memory_bytes(name: &str) -> u64 {
    let text = read("/proc/meminfo").unwrap_or_default();
    field(&text, &format!("{name}:")).saturating_mul(1024)
}

/// Returns the rest of the first line of a file that begins with `name`, without colon and quotes.
#[must_use]
pub fn line_of(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.replace([':', '"'], "").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_all_processors() {
        let text = "cpu  500 50 150 1000 100 0 0 200 0 0\ncpu0 1\ncpu1 1\nintr 5\n";
        let found = ProcessorTimes::parse(text).unwrap();
        let wanted = ProcessorTimes { total: 2000, busy: 700, steal: 200, processors: 2 };
        assert_eq!(found, wanted);
        assert_eq!(ProcessorTimes::parse("cpu 1 2 3\n"), None);
        assert_eq!(ProcessorTimes::parse("nothing"), None);
    }

    #[test]
    fn this_machine_tells() {
        assert!(ProcessorTimes::now().is_some() && load().is_some());
        assert!(memory_bytes("MemTotal") > memory_bytes("MemAvailable"));
        assert!(line_of("/proc/cpuinfo", "processor").is_some());
    }
}
