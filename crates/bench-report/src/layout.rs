//! How experiments are shown: names of their circumstances, and columns of their tables.

use crate::format::As;
use crate::metric::Metric;
use crate::model::Experiment;
use crate::piece::{Piece, number, text};
use crate::report::{Fact, Facts};

/// A circumstance as reports know it.
pub(crate) struct FactInfo {
    name: &'static str,
    /// Name shown.
    pub(crate) words: &'static str,
    /// How an amount is written.
    shown: As,
    /// Whether another value may move a cost by itself.
    pub(crate) compared: bool,
}

const fn fact(name: &'static str, words: &'static str, shown: As, compared: bool) -> FactInfo {
    FactInfo { name, words, shown, compared }
}

/// Circumstances of experiments and of sides, in the order of reports.
pub(crate) const FACTS: &[FactInfo] = &[
    fact("engine", "engine", As::Count, true),
    fact("server", "server", As::Count, true),
    fact("label", "database", As::Count, false),
    fact("source_bytes", "size", As::Bytes, true),
    fact("target", "target", As::Count, false),
    fact("server_process", "server process", As::Count, false),
    fact("driver", "driver", As::Count, true),
    fact("tables", "tables", As::Count, true),
    fact("rows", "rows a table", As::Count, true),
    fact("data_bytes", "data", As::Bytes, false),
    fact("loops", "steps of the message loop", As::Count, false),
    fact("stream_rows", "rows of the large result", As::Count, false),
    fact("block_s", "length of a block", As::Seconds, false),
    fact("restarts", "restarts wanted", As::Count, false),
    fact("cold", "what is read dropped from the system's cache before", As::Count, true),
    fact("restored", "backups restored too", As::Count, false),
    fact("mode", "encryption", As::Count, false),
    fact("protocol", "protocol", As::Count, false),
    fact("packet_bytes", "bytes a packet", As::Count, true),
    fact("version", "version", As::Count, false),
    fact("options", "options", As::Count, false),
];

impl FactInfo {
    /// Its value with its place, where it is known; `at` is the place of all.
    pub(crate) fn value(&self, facts: &Facts, at: &str) -> Option<Piece> {
        let at = format!("{at}/{}", self.name);
        Some(match facts.get(self.name)? {
            Fact::Flag(flag) => if *flag { "yes" } else { "no" }.into(),
            Fact::Number(value) => number(&at, self.shown, *value),
            Fact::Text(words) => text(&at, words),
        })
    }
}

/// Which figure of a metric a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// How many blocks there were.
    Blocks,
    Median,
    /// Of one operation.
    Each,
    Mean,
    Least,
    Most,
}

/// A column of the figures of every side.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) metric: Metric,
    pub(crate) of: Of,
}

const fn column(head: &'static str, metric: Metric, of: Of) -> Column {
    Column { head, metric, of }
}

/// How an experiment is shown.
pub(crate) struct Layout {
    /// Its heading.
    pub(crate) title: &'static str,
    /// Name of a cell, as a column's heading.
    pub(crate) cell: &'static str,
    /// Columns of ratios over several cells; none where there are no such ratios.
    pub(crate) pooled: &'static [Metric],
    /// An explanation of these ratios.
    pub(crate) pooled_note: &'static str,
    /// Columns of single cells' ratios.
    pub(crate) costs: &'static [Metric],
    /// The terminal shows single cells' costs too.
    pub(crate) costs_in_terminal: bool,
    pub(crate) figures: &'static [Column],
    /// An explanation of these figures.
    pub(crate) figures_note: &'static str,
}

const EMBEDDED: Layout = Layout {
    title: "SQLite in the process",
    cell: "Class",
    pooled: &[],
    pooled_note: "",
    costs: &[Metric::Elapsed, Metric::Cpu, Metric::User, Metric::System, Metric::Instructions],
    costs_in_terminal: false,
    figures: &[
        column("Pages read", Metric::PagesRead, Of::Median),
        column("Pages written", Metric::PagesWritten, Of::Median),
        column("Read from the device", Metric::DeviceRead, Of::Median),
        column("Written to the device", Metric::DeviceWrite, Of::Median),
        column("Context switches, waiting", Metric::VoluntarySwitches, Of::Median),
        column("Context switches, forced", Metric::InvoluntarySwitches, Of::Median),
    ],
    figures_note: "Medians of a block. Pages are SQLite's own count (not found in its cache; \
                   written); device bytes are the kernel's, for the measured processes.",
};

const BACKUP: Layout = Layout {
    title: "Backups: cipher, compression, source, target",
    cell: "Backup",
    pooled: &[Metric::Elapsed, Metric::Cpu, Metric::Size],
    pooled_note: "What the cipher costs, over all sources and targets",
    costs: &[Metric::Elapsed, Metric::Cpu, Metric::User, Metric::System, Metric::Size],
    costs_in_terminal: false,
    figures: &[
        column("Runs", Metric::Elapsed, Of::Blocks),
        column("Size", Metric::Size, Of::Most),
        column("Min", Metric::Elapsed, Of::Least),
        column("Avg", Metric::Elapsed, Of::Mean),
        column("Max", Metric::Elapsed, Of::Most),
        column("User CPU", Metric::User, Of::Mean),
        column("System CPU", Metric::System, Of::Mean),
        column("Memory", Metric::PeakMemory, Of::Most),
    ],
    figures_note: "CPU is that of the command; memory is its largest resident set.",
};

const OLTP: Layout = Layout {
    title: "OLTP by threads",
    cell: "Workload",
    pooled: &[
        Metric::Throughput,
        Metric::CpuEach,
        Metric::MedianLatency,
        Metric::P95Latency,
        Metric::TailLatency,
    ],
    pooled_note: "Median over all workloads and threads, and the least and the largest of them",
    costs: &[
        Metric::Throughput,
        Metric::CpuEach,
        Metric::MedianLatency,
        Metric::P95Latency,
        Metric::TailLatency,
    ],
    costs_in_terminal: true,
    figures: &[
        column("A second", Metric::Throughput, Of::Median),
        column("Median", Metric::MedianLatency, Of::Median),
        column("p95", Metric::P95Latency, Of::Median),
        column("p99", Metric::TailLatency, Of::Median),
        column("CPU", Metric::CpuEach, Of::Median),
        column("Client CPU", Metric::ClientCpu, Of::Each),
        column("Bench's own CPU", Metric::OwnCpu, Of::Each),
        column("Context switches", Metric::ServerSwitches, Of::Each),
        column("Read", Metric::DeviceRead, Of::Each),
        column("Written", Metric::DeviceWrite, Of::Each),
    ],
    figures_note: "Medians of the blocks. CPU, context switches, reads and writes are those of \
                   one transaction (of a scan: of one page). The bench's own CPU is that of its \
                   code: on SQLite a part of the CPU before it, beside a client what was used \
                   meanwhile.",
};

const MESSAGES: Layout = Layout {
    title: "Messages and context switches",
    cell: "Batch",
    pooled: &[],
    pooled_note: "",
    costs: &[
        Metric::Elapsed,
        Metric::ServerCpu,
        Metric::ServerSwitches,
        Metric::ClientCpu,
        Metric::ClientSwitches,
    ],
    costs_in_terminal: true,
    figures: &[
        column("Elapsed", Metric::Elapsed, Of::Median),
        column("Each", Metric::Elapsed, Of::Each),
        column("A second", Metric::Throughput, Of::Median),
        column("Packets", Metric::Packets, Of::Median),
        column("Bytes", Metric::Bytes, Of::Median),
        column("On the wire", Metric::WireBytes, Of::Median),
        column("Server CPU", Metric::ServerCpu, Of::Median),
        column("Each", Metric::ServerCpu, Of::Each),
        column("Switches", Metric::ServerSwitches, Of::Median),
        column("A packet", Metric::SwitchesEach, Of::Median),
        column("Client CPU", Metric::ClientCpu, Of::Median),
        column("Client switches", Metric::ClientSwitches, Of::Median),
    ],
    figures_note: "Medians of the batches.",
};

impl Experiment {
    /// How it is shown.
    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::Embedded | Self::Crud | Self::Operations | Self::Scans | Self::Script => {
                &EMBEDDED
            }
            Self::Backup => &BACKUP,
            Self::Messages => &MESSAGES,
            Self::Oltp => &OLTP,
        }
    }
}
