//! What a run of experiment D measured, and what is computed from it.

use serde::{Deserialize, Serialize};

use crate::model::Role;

/// Experiment D: batches whose answers are drained over plain and encrypted connections to the same
/// server.
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
}

impl MessagesMode {
    /// Name shown, and that of the option's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
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
    /// Packet size as negotiated.
    pub packet_bytes: u32,
}

/// A batch that is run on every side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesCell {
    /// Unique name: `loop` or `stream`.
    pub id: String,
    /// Name shown.
    pub label: String,
    /// Its text.
    pub statement: String,
    /// What it does that often: steps or rows.
    pub units: u64,
    /// Name of one: `step` or `row`.
    pub unit: String,
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
    /// The server's process; none where it cannot be seen.
    pub server: Option<ProcessorUse>,
    /// The client's thread.
    pub client: ProcessorUse,
}

/// Everything computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesSummary {
    /// Medians, by cell and side.
    pub totals: Vec<MessagesTotals>,
    /// Encrypted sides held against the plain one, by cell.
    pub ratios: Vec<MessagesRatio>,
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
    /// Packets of its answer.
    pub packets: f64,
    /// Bytes of these packets.
    pub bytes: f64,
    /// Bytes received for them.
    pub wire_bytes: f64,
    /// CPU of the server; none where it cannot be seen.
    pub server_cpu_ns: Option<f64>,
    /// Context switches of the server.
    pub server_switches: Option<f64>,
    /// The same for each packet.
    pub server_switches_a_packet: Option<f64>,
    /// CPU of the client.
    pub client_cpu_ns: f64,
    /// Context switches of the client.
    pub client_switches: f64,
}

/// What a ratio is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagesMetric {
    /// Elapsed time of a batch.
    Elapsed,
    /// CPU of the server's process.
    ServerCpu,
    /// Context switches of the server's process.
    ServerSwitches,
    /// CPU of the client's thread.
    ClientCpu,
    /// Context switches of the client's thread.
    ClientSwitches,
}

impl MessagesMetric {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Elapsed,
        Self::ServerCpu,
        Self::ServerSwitches,
        Self::ClientCpu,
        Self::ClientSwitches,
    ];
}

/// An encrypted side over the plain one in one cell, with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesRatio {
    /// [`MessagesCell::id`].
    pub cell: String,
    /// Numerator's [`MessagesSide::id`].
    pub side: String,
    /// Denominator's [`MessagesSide::id`].
    pub against: String,
    /// What the ratio is of.
    pub metric: MessagesMetric,
    /// Side over against.
    pub ratio: f64,
    /// Lower end of the interval; none with fewer than two restarts.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Restarts it rests on.
    pub restarts: u64,
    /// Pairs it rests on.
    pub pairs: u64,
}

/// A chart's bars: one figure by server and kind of connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesSeries {
    /// Unique name: `switches_a_packet`, `elapsed_ratio`, `cpu_ratio`.
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
    /// True for the document's, false for what was measured here.
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

    /// Sides in the order of reports, without the plain one.
    pub fn others(&self) -> impl Iterator<Item = &MessagesSide> {
        self.sides.iter().filter(|side| side.role != Role::Base)
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
    pub fn ratio(&self, cell: &str, side: &str, metric: MessagesMetric) -> Option<&MessagesRatio> {
        self.ratios
            .iter()
            .find(|found| found.cell == cell && found.side == side && found.metric == metric)
    }
}
