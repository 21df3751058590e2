//! What a run of OLTP workloads measured, and what is computed from it.

use serde::{Deserialize, Serialize};

use crate::model::{Comparison, Metric, Role};

/// OLTP workloads: every workload at every number of threads on every side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OltpReport {
    /// `mariadb` (started by the bench), `mysql` (a server that was there) or `sqlite`.
    pub target: String,
    /// The engine and its version, as it tells itself.
    pub engine: String,
    /// What drove it: `sysbench 1.0.20`, or the own driver.
    pub driver: String,
    /// Tables `sbtest1` and so on.
    pub tables: u32,
    /// Rows of each table at the start of a restart.
    pub rows: u64,
    /// Bytes of the base's data at the start of a restart; 0 where it cannot be told.
    pub data_bytes: u64,
    /// Length of a block.
    pub block_s: f64,
    /// Fresh servers (or processes) on re-copied data that were asked for.
    pub restarts: u32,
    /// What every side was given alike.
    pub settings: Vec<OltpSetting>,
    /// Base first.
    pub sides: Vec<OltpSide>,
    /// In order of the report.
    pub cells: Vec<OltpCell>,
    /// Every measured block.
    pub runs: Vec<OltpRun>,
    /// What this target cannot tell, or tells less well.
    pub limits: Vec<String>,
    /// Computed from `runs`.
    pub summary: OltpSummary,
}

/// A setting that all sides share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OltpSetting {
    /// Its name.
    pub name: String,
    /// Its value, as read back from the engine where it can be asked.
    pub value: String,
}

/// One side of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OltpSide {
    /// Short name used in runs.
    pub id: String,
    /// Name shown.
    pub label: String,
    /// Its role; a peer is held against the base.
    pub role: Role,
    /// What encrypts, none for plain.
    pub cipher: Option<String>,
    /// Its own options beside the shared settings.
    pub options: Vec<String>,
}

/// What is counted in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OltpUnit {
    /// Transactions of a workload.
    Transaction,
    /// Pages of a cold full scan.
    Page,
}

impl OltpUnit {
    /// Name shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::Page => "page",
        }
    }
}

/// A workload at a number of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OltpCell {
    /// Unique name, such as `oltp_read_write/8`.
    pub id: String,
    /// The workload, such as `oltp_read_write`.
    pub workload: String,
    /// Threads of the client (or processes).
    pub threads: u32,
    /// What [`OltpRun::transactions`] counts.
    pub unit: OltpUnit,
}

/// One measured block of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OltpRun {
    /// [`OltpCell::id`].
    pub cell: String,
    /// [`OltpSide::id`].
    pub side: String,
    /// Restart it belongs to, from 0.
    pub restart: u32,
    /// Pair within the restart and cell, from 0.
    pub pair: u32,
    /// Place of this side in the random order of the pair, from 0.
    pub position: u32,
    /// Transactions (or pages) done.
    pub transactions: u64,
    /// Statements done.
    pub queries: u64,
    /// Errors that the driver ignores and repeats: deadlocks, duplicates, lock time-outs.
    pub errors: u64,
    /// Time in which they were done, without connecting and preparing.
    pub elapsed_ns: u64,
    /// CPU of the engine: of the server's process, or of the workers on SQLite; 0 where it cannot
    /// be told.
    pub engine_cpu_ns: u64,
    /// User part of it, by coarse ticks.
    pub engine_user_ns: u64,
    /// System part of it, by coarse ticks.
    pub engine_system_ns: u64,
    /// CPU of the client's process, connecting included; 0 where it is the engine's own.
    pub client_cpu_ns: u64,
    /// CPU of the bench's own code. On SQLite it is a part of the engine's, as the same loop takes
    /// it on a library whose calls do nothing; beside sysbench it is all that the bench's process
    /// used meanwhile. Documents from before 2026-11-22 do not tell: 0.
    #[serde(default)]
    pub own_cpu_ns: u64,
    /// Bytes that the engine fetched from the device.
    pub device_read_bytes: u64,
    /// Bytes that it sent towards the device.
    pub device_write_bytes: u64,
    /// Context switches of the engine's threads.
    pub context_switches: u64,
    /// Times of single transactions; all zero for pages.
    pub latency: OltpLatency,
}

impl OltpCell {
    /// Name shown.
    #[must_use]
    pub fn words(&self) -> String {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        format!("{}, {} {threads}", self.workload, self.threads)
    }
}

impl OltpRun {
    /// Transactions a second; none when nothing was done.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn per_second(&self) -> Option<f64> {
        (self.transactions > 0 && self.elapsed_ns > 0)
            .then(|| self.transactions as f64 * 1e9 / self.elapsed_ns as f64)
    }

    /// CPU of the engine a transaction, ns; none where it cannot be told.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn cpu_each_ns(&self) -> Option<f64> {
        (self.transactions > 0 && self.engine_cpu_ns > 0)
            .then(|| self.engine_cpu_ns as f64 / self.transactions as f64)
    }
}

/// Times of single transactions, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OltpLatency {
    /// The shortest.
    pub min_ns: u64,
    /// Their mean.
    pub avg_ns: u64,
    /// Half are shorter.
    pub p50_ns: u64,
    /// 95 of 100 are shorter.
    pub p95_ns: u64,
    /// 99 of 100 are shorter.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Everything computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OltpSummary {
    /// Medians, by cell and side.
    pub totals: Vec<OltpTotals>,
    /// Sides held against the base, by cell.
    pub ratios: Vec<Comparison>,
    /// Over all cells of transactions, by side.
    pub overall: Vec<OltpOverall>,
}

/// Medians over the blocks of one cell and side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OltpTotals {
    /// [`OltpCell::id`].
    pub cell: String,
    /// [`OltpSide::id`].
    pub side: String,
    /// Blocks measured.
    pub blocks: u64,
    /// Transactions (or pages) a second.
    pub per_second: f64,
    /// Median latencies.
    pub latency: OltpLatency,
    /// CPU of the engine a transaction; none where it cannot be told.
    pub cpu_each_ns: Option<f64>,
    /// CPU of the client a transaction.
    pub client_cpu_each_ns: f64,
    /// CPU of the bench's own code a transaction.
    #[serde(default)]
    pub own_cpu_each_ns: f64,
    /// Bytes from the device a transaction.
    pub device_read_each_bytes: f64,
    /// Bytes towards the device a transaction.
    pub device_write_each_bytes: f64,
    /// Context switches of the engine a transaction.
    pub context_switches_each: f64,
    /// Ignored errors a transaction.
    pub errors_each: f64,
}

/// A ratio over all cells: the median and the two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OltpOverall {
    /// [`OltpSide::id`].
    pub side: String,
    /// The side it is held against.
    pub against: String,
    /// What the ratios are of.
    pub metric: Metric,
    /// Median of the cells' ratios.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// [`OltpCell::id`] of the least.
    pub least_cell: String,
    /// The largest.
    pub most: f64,
    /// [`OltpCell::id`] of the largest.
    pub most_cell: String,
    /// Cells it rests on.
    pub cells: u64,
}

impl OltpReport {
    /// The plain side.
    #[must_use]
    pub fn base(&self) -> Option<&OltpSide> {
        self.sides.iter().find(|side| side.role == Role::Base)
    }

    /// Sides in the order of reports, without the base.
    pub fn others(&self) -> impl Iterator<Item = &OltpSide> {
        self.sides.iter().filter(|side| side.role != Role::Base)
    }
}

impl OltpSummary {
    /// Medians of a cell and side.
    #[must_use]
    pub fn totals(&self, cell: &str, side: &str) -> Option<&OltpTotals> {
        self.totals.iter().find(|found| found.cell == cell && found.side == side)
    }

    /// One side over the base in one cell.
    #[must_use]
    pub fn ratio(&self, cell: &str, side: &str, metric: Metric) -> Option<&Comparison> {
        self.ratios
            .iter()
            .find(|found| found.class == cell && found.side == side && found.metric == metric)
    }

    /// One side over the base in all cells of transactions.
    #[must_use]
    pub fn overall(&self, side: &str, metric: Metric) -> Option<&OltpOverall> {
        self.overall.iter().find(|found| found.side == side && found.metric == metric)
    }
}
