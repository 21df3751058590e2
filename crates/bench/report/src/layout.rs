//! Comparisons of experiments and their presentation: names of circumstances, ratios, and columns
//! of their tables.

use crate::fact::{DIRECTORY, Fact, Facts, RATE};
use crate::format::As;
use crate::metric::Metric::{
    self, Bytes, ClientCpu, ClientElapsed, ClientSwitches, Cpu, CpuEach, DeviceRead, DeviceWrite,
    Elapsed, HistoryElapsed, Instructions, InvoluntarySwitches, MaxLatency, MedianLatency, OwnCpu,
    P95Latency, Packets, PagesRead, PagesWritten, PeakMemory, ServerCpu, ServerSwitches, Size,
    SwitchesEach, System, TailLatency, Throughput, User, VoluntarySwitches, WireBytes,
};
use crate::model::Experiment;
use crate::piece::{Piece, number, text};

/// A circumstance in reports.
pub(crate) struct FactInfo {
    name: &'static str,
    /// The displayed name.
    pub(crate) words: &'static str,
    /// Format of an amount.
    shown: As,
    /// True if another value may change a cost by itself.
    pub(crate) compared: bool,
}

const fn fact(name: &'static str, words: &'static str, shown: As, compared: bool) -> FactInfo {
    FactInfo { name, words, shown, compared }
}

/// Circumstances of experiments and of sides, in the order of reports.
pub(crate) const FACTS: &[FactInfo] = &[
    fact("engine", "engine", As::Count, true),
    fact("server", "server", As::Count, true),
    fact("edition", "edition", As::Count, true),
    fact("counters", "counters of statements", As::Count, true),
    fact("connections", "connections of the mixes", As::Count, true),
    fact("tls", "TLS", As::Count, false),
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
    fact(RATE, "transactions due a second", As::Count, true),
    fact("restarts", "restarts wanted", As::Count, false),
    fact("cold", "what is read dropped from the system's cache before", As::Count, true),
    fact("restored", "backups restored too", As::Count, false),
    fact("mode", "encryption", As::Count, false),
    fact("protocol", "protocol", As::Count, false),
    fact("packet_bytes", "bytes a packet", As::Count, true),
    fact("version", "version", As::Count, false),
    fact("options", "options", As::Count, false),
    fact(DIRECTORY, "directory", As::Count, false),
    fact("file_system", "file system", As::Count, false),
    fact("device", "block device", As::Count, false),
    fact("encrypted_by", "encrypted by", As::Count, false),
    fact("kernel_cipher", "the kernel's driver", As::Count, false),
];

impl FactInfo {
    /// Returns its value with its place, if known; `at` is the place of all.
    pub(crate) fn value(&self, facts: &Facts, at: &str) -> Option<Piece> {
        let at = format!("{at}/{}", self.name);
        Some(match facts.get(self.name)? {
            Fact::Flag(flag) => if *flag { "yes" } else { "no" }.into(),
            Fact::Number(value) => number(&at, self.shown, *value),
            Fact::Text(words) => text(&at, words),
        })
    }
}

/// The figure of a metric in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Number of blocks.
    Blocks,
    Median,
    /// Of one operation.
    Each,
    Mean,
    Least,
    Most,
}

/// A column of the figures of every side.
pub(crate) type Column = (&'static str, Metric, Of);

/// Computation of a ratio over several cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The mean of the cells within each restart that measured all of them.
    Mean,
    /// The Hodges-Lehmann estimate of all pairs of a restart, which share its time.
    Middle,
    /// The median of the cells' own ratios.
    Median,
}

/// Ratios and presentation of an experiment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The heading.
    pub(crate) title: &'static str,
    /// Name of a cell, as a column's heading.
    pub(crate) cell: &'static str,
    /// Metrics whose ratios are computed.
    pub(crate) ratios: &'static [Metric],
    /// The metrics by which a cost is judged, and whose intervals a run narrows.
    pub(crate) wanted: [Metric; 2],
    /// Computation of ratios over several cells.
    pub(crate) way: Way,
    /// Columns of ratios over several cells; none if there are no such ratios.
    pub(crate) pooled: &'static [Metric],
    /// An explanation of these ratios.
    pub(crate) pooled_note: &'static str,
    /// Columns of single cells' ratios.
    pub(crate) costs: &'static [Metric],
    /// True if the terminal also shows single cells' costs.
    pub(crate) costs_in_terminal: bool,
    pub(crate) figures: &'static [Column],
    /// An explanation of these figures.
    pub(crate) figures_note: &'static str,
}

const EMBEDDED_COSTS: &[Metric] = &[Elapsed, Cpu, User, System, Instructions];
const BACKUP_COSTS: &[Metric] = &[Elapsed, Cpu, User, System, Size];
const OLTP_COSTS: &[Metric] = &[Throughput, CpuEach, MedianLatency, P95Latency, TailLatency];
const OLTP_COSTS_AT_RATE: &[Metric] = &[CpuEach, MedianLatency, P95Latency, TailLatency];
const REPLICATE_COSTS: &[Metric] = &[Elapsed, MedianLatency, TailLatency, Cpu, Size];
const MESSAGES_COSTS: &[Metric] = &[Elapsed, ServerCpu, ServerSwitches, ClientCpu, ClientSwitches];

const EMBEDDED: Layout = Layout {
    title: "SQLite in the process",
    cell: "Class",
    ratios: &[Elapsed, Cpu, User, System, Instructions, MedianLatency, TailLatency],
    wanted: [Elapsed, Cpu],
    way: Way::Mean,
    pooled: &[],
    pooled_note: "",
    costs: EMBEDDED_COSTS,
    costs_in_terminal: false,
    figures: &[
        ("Pages read", PagesRead, Of::Median),
        ("Pages written", PagesWritten, Of::Median),
        ("Read from the device", DeviceRead, Of::Median),
        ("Written to the device", DeviceWrite, Of::Median),
        ("Context switches, waiting", VoluntarySwitches, Of::Median),
        ("Context switches, forced", InvoluntarySwitches, Of::Median),
    ],
    figures_note: "Medians of a block. Pages are SQLite's own count (not found in its cache; \
                   written); device bytes are the kernel's, for the measured processes.",
};

const SERVER: Layout = Layout {
    title: "SQL Server's protocol",
    cell: "Class",
    ratios: &[Elapsed, Cpu, ClientElapsed, MedianLatency, TailLatency],
    wanted: [Elapsed, Cpu],
    way: Way::Mean,
    pooled: &[],
    pooled_note: "",
    costs: &[Elapsed, Cpu, ClientElapsed],
    costs_in_terminal: true,
    figures: &[
        ("Server CPU", Cpu, Of::Median),
        ("Logical reads", PagesRead, Of::Median),
        ("Logical writes", PagesWritten, Of::Median),
        ("Physical reads", DeviceRead, Of::Median),
        ("Duration", Elapsed, Of::Median),
        ("At the client", ClientElapsed, Of::Median),
        ("Client CPU", ClientCpu, Of::Median),
    ],
    figures_note: "Medians of a block, by the server's own counters. Reads and writes are pages, \
                   physical reads bytes. The mixes' duration is the client's clock, and their CPU \
                   the sum over the connections' sessions.",
};

const BACKUP: Layout = Layout {
    title: "Backups: cipher, compression, source, target",
    cell: "Backup",
    ratios: BACKUP_COSTS,
    wanted: [Elapsed, Cpu],
    way: Way::Middle,
    pooled: &[Elapsed, Cpu, Size],
    pooled_note: "What the cipher costs, over all sources and targets",
    costs: BACKUP_COSTS,
    costs_in_terminal: false,
    figures: &[
        ("Runs", Elapsed, Of::Blocks),
        ("Size", Size, Of::Most),
        ("Min", Elapsed, Of::Least),
        ("Avg", Elapsed, Of::Mean),
        ("Max", Elapsed, Of::Most),
        ("By the server's history", HistoryElapsed, Of::Mean),
        ("Server CPU", ServerCpu, Of::Mean),
        ("User CPU", User, Of::Mean),
        ("System CPU", System, Of::Mean),
        ("Memory", PeakMemory, Of::Most),
    ],
    figures_note: "CPU is that of the command, on a SQL Server that of the session; memory is the \
                   command's largest resident set.",
};

const OLTP: Layout = Layout {
    title: "OLTP by threads",
    cell: "Workload",
    ratios: OLTP_COSTS,
    wanted: [Throughput, CpuEach],
    way: Way::Median,
    pooled: OLTP_COSTS,
    pooled_note: "Median over all workloads and threads, and the least and the largest of them",
    costs: OLTP_COSTS,
    costs_in_terminal: true,
    figures: &[
        ("A second", Throughput, Of::Median),
        ("Median", MedianLatency, Of::Median),
        ("p95", P95Latency, Of::Median),
        ("p99", TailLatency, Of::Median),
        ("CPU", CpuEach, Of::Median),
        ("Client CPU", ClientCpu, Of::Each),
        ("Bench's own CPU", OwnCpu, Of::Each),
        ("Context switches", ServerSwitches, Of::Each),
        ("Read", DeviceRead, Of::Each),
        ("Written", DeviceWrite, Of::Each),
    ],
    figures_note: "Medians of the blocks. CPU, context switches, reads and writes are those of \
                   one transaction (of a scan: of one page). The bench's own CPU is that of its \
                   code: on SQLite a part of the CPU before it, beside a client what was used \
                   meanwhile.",
};

/// The same if all sides are given the same number of transactions a second: their throughput is
/// equal, and has no meaning.
pub(crate) const OLTP_AT_RATE: Layout = Layout {
    ratios: OLTP_COSTS_AT_RATE,
    wanted: [MedianLatency, CpuEach],
    pooled: OLTP_COSTS_AT_RATE,
    costs: OLTP_COSTS_AT_RATE,
    ..OLTP
};

const MESSAGES: Layout = Layout {
    title: "Messages and context switches",
    cell: "Batch",
    ratios: MESSAGES_COSTS,
    wanted: [Elapsed, ServerCpu],
    way: Way::Mean,
    pooled: &[],
    pooled_note: "",
    costs: MESSAGES_COSTS,
    costs_in_terminal: true,
    figures: &[
        ("Elapsed", Elapsed, Of::Median),
        ("Each", Elapsed, Of::Each),
        ("A second", Throughput, Of::Median),
        ("Packets", Packets, Of::Median),
        ("Bytes", Bytes, Of::Median),
        ("On the wire", WireBytes, Of::Median),
        ("Server CPU", ServerCpu, Of::Median),
        ("Each", ServerCpu, Of::Each),
        ("Switches", ServerSwitches, Of::Median),
        ("A packet", SwitchesEach, Of::Median),
        ("Client CPU", ClientCpu, Of::Median),
        ("Client switches", ClientSwitches, Of::Median),
    ],
    figures_note: "Medians of the batches.",
};

const REPLICATE: Layout = Layout {
    title: "Followers of a database",
    cell: "What",
    ratios: REPLICATE_COSTS,
    wanted: [Elapsed, Cpu],
    way: Way::Mean,
    pooled: &[],
    pooled_note: "",
    costs: REPLICATE_COSTS,
    costs_in_terminal: true,
    figures: &[
        ("Elapsed", Elapsed, Of::Median),
        ("A second", Throughput, Of::Median),
        ("Median", MedianLatency, Of::Median),
        ("p99", TailLatency, Of::Median),
        ("Most", MaxLatency, Of::Most),
        ("Follower's CPU", Cpu, Of::Median),
        ("Shipped", Size, Of::Median),
    ],
    figures_note: "Medians of the trials. Of writers: their time, of paced ones that in \
                   transactions; that of one transaction; the CPU of the follower while they write \
                   and until everything is shipped, and the bytes of the objects that it made \
                   meanwhile. Of commits: the time until an object \
                   holds each. Of restores: their time; what is restored is compared.",
};

impl Experiment {
    /// Returns its ratios and presentation.
    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::Embedded
            | Self::Crud
            | Self::Operations
            | Self::Scans
            | Self::Speedtest
            | Self::Script => &EMBEDDED,
            Self::Server => &SERVER,
            Self::Backup => &BACKUP,
            Self::Oltp => &OLTP,
            Self::Messages => &MESSAGES,
            Self::Replicate => &REPLICATE,
        }
    }
}
