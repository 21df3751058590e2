//! The parts of a run's results, in the format of the JSON document: circumstances, sides, classes,
//! and single figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fact::Facts;
pub(crate) use crate::metric::Metric;

/// The program that took the measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Program name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The machine and the location of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Operating system's pretty name.
    pub os: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Number of processors that the run may use.
    pub cpus: u64,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Type of the file system of the copies.
    pub file_system: String,
    /// Load average (one minute) at the start.
    pub load_average: String,
    /// The kernel's clock source.
    #[serde(default)]
    pub clock_source: String,
    /// Smallest observed step of the wall clock.
    #[serde(default)]
    pub clock_step_ns: u64,
    /// Kind of counted instructions: `user and kernel`, `user`, or the reason why none are counted.
    #[serde(default)]
    pub instructions: String,
}

/// Settings shared by all sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `PRAGMA journal_mode`.
    pub journal_mode: String,
    /// `PRAGMA synchronous`.
    pub synchronous: String,
    /// `PRAGMA cache_size`: pages, or KiB when negative.
    pub cache_size: i64,
    /// Page size of the copies.
    pub page_size_bytes: u32,
    /// Number of processes of the CRUD experiment.
    pub processes: u32,
    /// Rows in each table of the generated database, if one was generated.
    pub rows: Option<u64>,
    /// Number of fresh processes on newly copied files.
    pub restarts: u32,
    /// Pairs in each restart.
    pub pairs: u32,
    /// Wait of a connection that finds the database locked, before it retries.
    pub busy_wait_us: u64,
    /// Encryption algorithm of our side.
    pub algorithm: String,
    /// Confidence of every interval, between 0 and 1 in thousandths (950 is 95 %).
    pub confidence_permille: u32,
    /// Seed of every random choice.
    pub seed: u64,
    /// Stopping rule of a run whose length follows from its intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// Operations per second of all processes together, if they follow a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u64>,
    /// Think time of the CRUD experiment's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time: Option<ThinkTime>,
    /// True if the system's whole cache was dropped before cold classes, not only the files' own
    /// pages.
    #[serde(default)]
    pub drop_caches: bool,
}

/// A run whose length follows from the widths of its intervals, never from their position.
///
/// The half-width of an interval is that of its logarithm: `ln(1 + precision)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// Restarts of the first stage, which all classes run; its spread determines every interval.
    pub first_restarts: u32,
    /// Target half-width of the headline, in millionths.
    pub headline_ppm: u32,
    /// Target half-width of every class, in millionths; none for no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_ppm: Option<u32>,
    /// True if all targets were reached.
    pub reached: bool,
}

/// A pause of the mixes' processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkTime {
    /// Number of loops between two pauses.
    pub every_loops: u64,
    /// Duration of a pause.
    pub pause_ms: u64,
}

impl Settings {
    /// Confidence as a number between 0 and 1.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        f64::from(self.confidence_permille) / 1000.0
    }
}

/// The database measured on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// A file name, or a description of the generated database.
    pub label: String,
    /// Absolute path of a database that was not generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True for a database that the bench made.
    pub generated: bool,
    /// Size of the plain copy.
    pub bytes: u64,
    /// Page size of the plain copy.
    pub page_size_bytes: u32,
    /// Number of ordinary tables.
    pub tables: u64,
    /// Number of indexes on them.
    pub indexes: u64,
    /// Tables and columns excluded from the derivation, with the reasons.
    pub notes: Vec<String>,
}

/// Role of a side in the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Plain database, stock library.
    #[default]
    Base,
    /// Our extension on the same library.
    Encrypted,
    /// Another encrypting library.
    Peer,
    /// The peer's library with an unencrypted database.
    PeerPlain,
    /// Another way to the same end, not a measure of the cost of encryption: another backup tool,
    /// SQLite called without a server.
    Reference,
}

/// A SQLite library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// `system`, `bundled`, or the given path; for a peer the package that it came from.
    pub origin: String,
    /// `sqlite3_libversion()`.
    pub version: String,
    /// `sqlite3_sourceid()`.
    pub source_id: String,
    /// `PRAGMA compile_options`.
    pub compile_options: Vec<String>,
}

impl Library {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// One side of the comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Short name used in samples.
    pub id: String,
    /// The displayed name.
    pub label: String,
    /// Its role.
    pub role: Role,
    /// Its library, if sides have separate SQLite libraries.
    #[serde(default, skip_serializing_if = "Library::is_unknown")]
    pub library: Library,
    /// Its cipher, by the name that the encrypting program uses; none for plain.
    pub cipher: Option<String>,
    /// The side with the same library and no cipher, if it is not the base.
    #[serde(default)]
    pub plain: Option<String>,
    /// Other facts that distinguish it from the other sides.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
}

impl Side {
    /// Returns a side with no other properties.
    #[must_use]
    pub fn new(id: &str, label: &str, role: Role) -> Self {
        Self { id: id.to_owned(), label: label.to_owned(), role, ..Self::default() }
    }

    /// Returns the side with this cipher.
    #[must_use]
    pub fn with_cipher(self, cipher: Option<&str>) -> Self {
        Self { cipher: cipher.map(str::to_owned), ..self }
    }

    /// Returns true if it encrypts, or is compared with plain as if it did.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        matches!(self.role, Role::Encrypted | Role::Peer)
    }
}

/// A derived statement. Its text holds placeholders, never a value of the user's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementInfo {
    /// [`Run::statement`](crate::Run::statement), counted within its class.
    pub index: u32,
    /// Its operation: `select`, `insert`, `update`, `delete`, `reindex`.
    pub operation: String,
    /// Description of the statement.
    pub what: String,
    /// SQL with placeholders.
    pub sql: String,
    /// Number of different sets of values.
    pub variants: u32,
}

/// Experiments.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// [`Crud`](Self::Crud), [`Operations`](Self::Operations), [`Scans`](Self::Scans) and
    /// [`Script`](Self::Script) as one report: they share sides and restarts.
    #[default]
    Embedded,
    /// Mixes and operations on a SQL Server as one report.
    Server,
    /// Mixes of reads, updates and inserts by several processes.
    Crud,
    /// Statements by type with emptied caches, and rebuild of every index.
    Operations,
    /// Full scans and copies.
    Scans,
    /// SQLite's own `speedtest1`.
    Speedtest,
    /// The user's own statements.
    Script,
    /// Backups by cipher, compression and device.
    Backup,
    /// Sysbench's workloads by threads.
    Oltp,
    /// Messages over TDS.
    Messages,
    /// Followers that ship a database's log.
    Replicate,
}

impl Experiment {
    /// Returns the displayed name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Embedded => "SQLite in the process",
            Self::Server => "SQL Server's protocol",
            Self::Crud => "CRUD mixes",
            Self::Operations => "operations",
            Self::Scans => "scans",
            Self::Speedtest => "SQLite's speedtest1",
            Self::Script => "script",
            Self::Backup => "backup matrix",
            Self::Oltp => "OLTP workloads",
            Self::Messages => "messages",
            Self::Replicate => "followers",
        }
    }
}

/// Values of a cell by the names of their dimensions.
pub type Axes = BTreeMap<String, String>;

/// A unit of measurement: a mix, a statement class, a workload at a number of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Unique name, such as `crud/4-3-3` or `operations/select/warm`.
    pub id: String,
    /// Its experiment.
    pub experiment: Experiment,
    /// The displayed name.
    pub label: String,
    /// Description of the work of one block.
    pub what: String,
    /// Operations in each block, of all processes together; 0 if they follow from its duration.
    pub operations: u64,
    /// Name of one operation.
    pub unit: String,
    /// Its values in an experiment of several dimensions, such as `threads` or
    /// `compression`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: Axes,
}

impl Class {
    /// Returns its value on an axis; empty if it has none.
    #[must_use]
    pub fn axis(&self, name: &str) -> &str {
        self.axes.get(name).map_or("", String::as_str)
    }
}

/// Latencies of all operations of a class and side, from a histogram of three significant digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// [`Class::id`].
    pub class: String,
    /// [`Side::id`].
    pub side: String,
    /// Number of timed operations.
    pub operations: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 of 100 are faster.
    pub p90_ns: u64,
    /// 95 of 100 are faster.
    pub p95_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// 999 of 1,000 are faster.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// Other work of the machine during a run. Shares are of all processors' time, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Time that the host gave to other machines.
    pub steal: f64,
    /// CPU of programs that do not belong to the run.
    pub others: f64,
    /// Load average (one minute) at the start.
    pub load_start: f64,
    /// Load average (one minute) at the end.
    pub load_end: f64,
    /// Lowest and highest observed frequency, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<(u64, u64)>,
}

/// Settling time of a class after its processes began, and the difference between its first pairs
/// and the later ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// [`Class::id`].
    pub class: String,
    /// Number of short blocks tried in the first restart, on each side.
    pub tried: u64,
    /// Number of those that the slower side took to settle (MSER); every restart runs as many.
    pub needed: u64,
    /// First pair over later pairs of a restart: the factor by which the overhead differs. None
    /// with one pair in each restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_pair: Option<f64>,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_pair_interval: Option<(f64, f64)>,
}

/// CPU of the driver's own loop: the same code on a library whose calls are no-ops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverShare {
    /// [`Class::id`].
    pub class: String,
    /// CPU of an operation in the driver.
    pub driver_ns: f64,
    /// CPU of an operation on the base, driver and SQLite together.
    pub base_ns: f64,
    /// One over the other. Elapsed time is never less than CPU over processors, so the share of
    /// elapsed is no larger.
    pub share: f64,
}

/// The quantity that a probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Open and first query of another database after one was opened in the process, ns.
    OpenOther,
    /// Open and first query of a database that the process had opened before, ns.
    OpenAgain,
    /// Private memory of a process with one connection after its work, bytes.
    ProcessMemory,
    /// Size of the database file, bytes.
    FileBytes,
}

impl ProbeKind {
    /// Returns the displayed name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::OpenOther => "open another database, after the first in a process",
            Self::OpenAgain => "open the same database again",
            Self::ProcessMemory => "private memory of a process with one connection",
            Self::FileBytes => "database file size",
        }
    }
}

/// A single measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The quantity.
    pub kind: ProbeKind,
    /// [`Side::id`].
    pub side: String,
    /// Restart number, from 0.
    pub restart: u32,
    /// Nanoseconds or bytes, by kind.
    pub value: f64,
}
