//! All measured quantities: one table for all experiments.

use serde::{Deserialize, Serialize};

use crate::format::As;

/// Name, presentation and direction of a metric. Ratios are those of one side over another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetricInfo {
    /// The displayed name.
    pub label: &'static str,
    /// Name of its column in a table of blocks, with the unit last.
    pub column: &'static str,
    /// True if lower values are better.
    pub lower_is_better: bool,
    /// Format of its values.
    pub shown: As,
}

macro_rules! metrics {
    ($(
        $(#[$note:meta])* $name:ident, $label:literal, $column:literal, $lower:literal,
        $shown:ident;
    )*) => {
        /// A measured quantity.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $($(#[$note])* $name,)*
        }

        impl Metric {
            /// Every metric, in the order of the columns of a table.
            pub const EVERY: &'static [Self] = &[$(Self::$name),*];

            /// Returns its name in the document.
            pub(crate) fn name(self) -> String {
                let mut name = String::new();
                for letter in format!("{self:?}").chars() {
                    if letter.is_uppercase() && !name.is_empty() {
                        name.push('_');
                    }
                    name.push(letter.to_ascii_lowercase());
                }
                name
            }

            /// Returns its properties.
            #[must_use]
            pub(crate) fn info(self) -> MetricInfo {
                match self {
                    $(Self::$name => MetricInfo {
                        label: $label,
                        column: $column,
                        lower_is_better: $lower,
                        shown: As::$shown,
                    },)*
                }
            }
        }
    };
}

metrics! {
    /// Wall clock.
    Elapsed, "elapsed", "elapsed_ns", true, Duration;
    /// User and system CPU.
    Cpu, "CPU", "cpu_ns", true, Duration;
    /// User CPU.
    User, "user CPU", "user_ns", true, Duration;
    /// System CPU.
    System, "system CPU", "system_ns", true, Duration;
    /// Pages that were not in SQLite's cache; for a SQL Server its logical reads.
    PagesRead, "pages read", "pages_read", true, Count;
    /// Pages that SQLite wrote; for a SQL Server its logical writes.
    PagesWritten, "pages written", "pages_written", true, Count;
    /// Bytes read from a device.
    DeviceRead, "read from the device", "device_read_bytes", true, Bytes;
    /// Bytes written to a device.
    DeviceWrite, "written to the device", "device_write_bytes", true, Bytes;
    /// Number of times that a connection found the database locked.
    Retries, "retries", "retries", true, Count;
    /// Context switches because a process blocked.
    VoluntarySwitches, "voluntary context switches", "voluntary_switches", true, Count;
    /// Context switches because another process got the processor.
    InvoluntarySwitches, "involuntary context switches", "involuntary_switches", true, Count;
    /// Instructions retired.
    Instructions, "instructions", "instructions", true, Count;
    /// Median latency of single operations.
    MedianLatency, "median latency", "latency_p50_ns", true, Duration;
    /// The latency that one operation in twenty exceeds.
    P95Latency, "latency, 95 %", "latency_p95_ns", true, Duration;
    /// The latency that one operation in a hundred exceeds.
    TailLatency, "latency, 99 %", "latency_p99_ns", true, Duration;
    /// Latency of the fastest operation.
    MinLatency, "latency of the fastest", "latency_min_ns", true, Duration;
    /// Mean latency.
    MeanLatency, "mean latency", "latency_mean_ns", true, Duration;
    /// Latency of the slowest operation.
    MaxLatency, "latency of the slowest", "latency_max_ns", true, Duration;
    /// Transactions, or pages of a scan, a second.
    Throughput, "throughput", "throughput_per_s", false, Count;
    /// CPU of the engine for each transaction.
    CpuEach, "CPU a transaction", "cpu_each_ns", true, Duration;
    /// Transactions, or pages of a scan.
    Transactions, "transactions", "transactions", false, Count;
    /// Statements.
    Queries, "queries", "queries", false, Count;
    /// Transactions that were repeated.
    Errors, "repeated transactions", "errors", true, Count;
    /// CPU of the bench's own code.
    OwnCpu, "the bench's own CPU", "own_cpu_ns", true, Duration;
    /// CPU of the server's process.
    ServerCpu, "server CPU", "server_cpu_ns", true, Duration;
    /// Context switches of the server's process.
    ServerSwitches, "server context switches", "server_switches", true, Count;
    /// Context switches of the server's process for each packet.
    SwitchesEach, "server context switches a packet", "server_switches_per_packet", true, Amount;
    /// CPU of the client process.
    ClientCpu, "client CPU", "client_cpu_ns", true, Duration;
    /// Wall clock of the client, if the server has a separate clock.
    ClientElapsed, "elapsed at the client", "client_elapsed_ns", true, Duration;
    /// Duration in the server's history of backups, in whole seconds.
    HistoryElapsed, "duration by the history", "history_elapsed_ns", true, Duration;
    /// Context switches of the client process.
    ClientSwitches, "client context switches", "client_switches", true, Count;
    /// Packets received.
    Packets, "packets", "packets", true, Count;
    /// Bytes received, before encryption.
    Bytes, "bytes", "bytes", true, Bytes;
    /// Bytes received, on the wire.
    WireBytes, "bytes on the wire", "wire_bytes", true, Bytes;
    /// Largest resident set.
    PeakMemory, "memory at most", "peak_memory_bytes", true, Bytes;
    /// Bytes of the output.
    Size, "size", "output_bytes", true, Bytes;
}

impl Metric {
    /// Returns the displayed name.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.info().label
    }

    /// Returns the format of its ratio.
    pub(crate) fn cost(self) -> As {
        if self == Self::Size { As::Fine } else { As::Percent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_names_of_its_own() {
        let names = |pick: fn(MetricInfo) -> &'static str| {
            let mut names: Vec<_> =
                Metric::EVERY.iter().map(|metric| pick(metric.info())).collect();
            names.sort_unstable();
            names.dedup();
            names.len()
        };
        assert_eq!(names(|info| info.label), Metric::EVERY.len());
        assert_eq!(names(|info| info.column), Metric::EVERY.len());
        for metric in Metric::EVERY {
            let name = serde_json::to_string(metric).unwrap();
            assert_eq!(name, format!("\"{}\"", metric.name()));
        }
    }
}
