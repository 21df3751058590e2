//! What a run of messages measured, and what is computed from it.

use serde::{Deserialize, Serialize};

use crate::model::{Comparison, Metric, Role};

/// Messages over TDS: batches whose answers are drained over plain and encrypted connections to the
/// same server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesReport {
    /// The server's address, without a password; `own` for one that the bench started.
    pub target: String,
    /// The server's program and version, as it tells at the login.
    pub server: String,
    /// Name of the measured server process; none where the server's process cannot be seen.
    pub server_process: Option<String>,
    /// Steps of the message loop.
    pub loops: u64,
    /// Rows of the large result.
    pub stream_rows: u64,
    /// Packet size that the client asked for.
    pub packet_bytes: u32,
    /// Fresh connections (and own servers) that were asked for.
    pub restarts: u32,
    /// The plain side first.
    pub sides: Vec<MessagesSide>,
    /// In order of the report.
    pub cells: Vec<MessagesCell>,
    /// Every measured batch.
    pub runs: Vec<MessagesRun>,
    /// What connections cost that do nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<MessagesIdle>,
    /// What this target cannot tell, or tells less well.
    pub limits: Vec<String>,
    /// Computed from `runs`.
    pub summary: MessagesSummary,
}

/// How a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagesMode {
    /// The login at most.
    Off,
    /// All, TLS within PRELOGIN (TDS 7.4).
    On,
    /// All, TLS before everything (TDS 8.0).
    Strict,
    /// None: SQLite is called in the bench's own process, on the same database.
    Direct,
}

impl MessagesMode {
    /// Name shown, and that of the option's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
            Self::Direct => "direct",
        }
    }
}

/// One kind of connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesSide {
    /// Short name used in runs.
    pub id: String,
    /// Name shown.
    pub label: String,
    /// [`Role::Base`] for the plain connection.
    pub role: Role,
    /// How it is encrypted.
    pub mode: MessagesMode,
    /// Protocol of TLS as negotiated, such as `TLSv1.3`; none for plain.
    pub protocol: Option<String>,
    /// Cipher suite as negotiated; none for plain.
    pub suite: Option<String>,
    /// Packet size as negotiated; 0 without a connection.
    pub packet_bytes: u32,
}

impl MessagesSide {
    /// Whether it is held against the plain connection.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.role != Role::Base && self.mode != MessagesMode::Direct
    }
}

/// A batch, or other work of a fixed size, that is done on every side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesCell {
    /// Unique name: `loop`, `stream`, `connects`, `points` or `points-100`; with a driver's name
    /// before it for one.
    pub id: String,
    /// Name shown.
    pub label: String,
    /// Its text.
    pub statement: String,
    /// What it does that often.
    pub units: u64,
    /// Name of one: `step`, `row`, `connection` or `select`.
    pub unit: String,
}

/// Connections that have logged in and wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesIdle {
    /// [`MessagesSide::id`].
    pub side: String,
    /// How many.
    pub connections: u64,
    /// Resident memory of the server's process before they came.
    pub before_bytes: u64,
    /// The same while they wait.
    pub after_bytes: u64,
    /// The most that it ever was.
    pub peak_bytes: u64,
    /// Threads of the server while they wait.
    pub threads: u64,
    /// Until the last one had logged in.
    pub opened_ns: u64,
}

/// What a process or a thread used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorUse {
    /// CPU by its own clock.
    pub cpu_ns: u64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because another was given the processor.
    pub involuntary_switches: u64,
}

impl ProcessorUse {
    /// Context switches of both kinds.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.voluntary_switches.saturating_add(self.involuntary_switches)
    }
}

/// One measured batch of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesRun {
    /// [`MessagesCell::id`].
    pub cell: String,
    /// [`MessagesSide::id`].
    pub side: String,
    /// Restart it belongs to, from 0.
    pub restart: u32,
    /// Pair within the restart and cell, from 0.
    pub pair: u32,
    /// Place of this side in the random order of the pair, from 0.
    pub position: u32,
    /// From before the batch was sent until its answer's last packet was there.
    pub elapsed_ns: u64,
    /// Packets of the answer.
    pub packets: u64,
    /// Bytes of these packets with their headers, before encryption.
    pub bytes: u64,
    /// Bytes received for them, as encrypted.
    pub wire_bytes: u64,
    /// The server's process; none where it cannot be seen. Without a connection, the thread that
    /// calls SQLite.
    pub server: Option<ProcessorUse>,
    /// The client's threads, or the driver's process.
    pub client: ProcessorUse,
}

/// Everything computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesSummary {
    /// Medians, by cell and side.
    pub totals: Vec<MessagesTotals>,
    /// Encrypted sides held against the plain one, by cell.
    pub ratios: Vec<Comparison>,
    /// Connections held against SQLite called directly, by cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub direct: Vec<Comparison>,
    /// What a chart shows, published figures beside ours.
    pub series: Vec<MessagesSeries>,
}

/// Medians over the batches of one cell and side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesTotals {
    /// [`MessagesCell::id`].
    pub cell: String,
    /// [`MessagesSide::id`].
    pub side: String,
    /// Batches measured.
    pub batches: u64,
    /// Elapsed time of a batch.
    pub elapsed_ns: f64,
    /// The same for each of its units.
    #[serde(default)]
    pub elapsed_ns_a_unit: f64,
    /// Units a second.
    #[serde(default)]
    pub units_a_second: f64,
    /// Packets of its answer; 0 where they are not counted.
    pub packets: f64,
    /// Bytes of these packets.
    pub bytes: f64,
    /// Bytes received for them.
    pub wire_bytes: f64,
    /// CPU of the server; none where it cannot be seen.
    pub server_cpu_ns: Option<f64>,
    /// The same for each of its units.
    #[serde(default)]
    pub server_cpu_ns_a_unit: Option<f64>,
    /// Context switches of the server.
    pub server_switches: Option<f64>,
    /// The same for each packet, where packets are counted.
    pub server_switches_a_packet: Option<f64>,
    /// CPU of the client.
    pub client_cpu_ns: f64,
    /// Context switches of the client.
    pub client_switches: f64,
}

/// A chart's bars: one figure by server and kind of connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesSeries {
    /// Unique name: `switches_a_packet`, `elapsed_ratio`, `cpu_ratio`, `step_ns`.
    pub id: String,
    /// Title shown.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Published figures first.
    pub points: Vec<MessagesPoint>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesPoint {
    /// Name shown.
    pub label: String,
    /// True for the source's, false for what was measured here.
    pub published: bool,
    /// False for a plain connection.
    pub encrypted: bool,
    /// The figure.
    pub value: f64,
    /// Lower end of its interval, where there is one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl MessagesReport {
    /// The plain side.
    #[must_use]
    pub fn base(&self) -> Option<&MessagesSide> {
        self.sides.iter().find(|side| side.role == Role::Base)
    }

    /// Sides that are held against the plain one, in the order of reports.
    pub fn others(&self) -> impl Iterator<Item = &MessagesSide> {
        self.sides.iter().filter(|side| side.is_compared())
    }

    /// SQLite called directly, where it is measured.
    #[must_use]
    pub fn direct(&self) -> Option<&MessagesSide> {
        self.sides.iter().find(|side| side.mode == MessagesMode::Direct)
    }
}

impl MessagesSummary {
    /// Medians of a cell and side.
    #[must_use]
    pub fn totals(&self, cell: &str, side: &str) -> Option<&MessagesTotals> {
        self.totals.iter().find(|found| found.cell == cell && found.side == side)
    }

    /// An encrypted side over the plain one in one cell.
    #[must_use]
    pub fn ratio(&self, cell: &str, side: &str, metric: Metric) -> Option<&Comparison> {
        self.ratios
            .iter()
            .find(|found| found.class == cell && found.side == side && found.metric == metric)
    }

    /// A connection over SQLite called directly in one cell.
    #[must_use]
    pub fn direct(&self, cell: &str, side: &str, metric: Metric) -> Option<&Comparison> {
        self.direct
            .iter()
            .find(|found| found.class == cell && found.side == side && found.metric == metric)
    }
}
