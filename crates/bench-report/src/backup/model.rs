//! What the backup matrix measured, and what is computed from it: a part of the JSON document.

use serde::{Deserialize, Serialize};

use crate::model::{Comparison, Metric};

/// The backup matrix: every cell of the matrix, every run, and the summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackupMatrix {
    /// The database that was backed up: a file name, or what was generated.
    pub label: String,
    /// Its size as a file.
    pub source_bytes: u64,
    /// True when the source's pages, and the backup's before its restore, were dropped from the
    /// system's cache before each run.
    pub cold: bool,
    /// True when each backup was restored too.
    pub restored: bool,
    /// Blocks that were to run: repeats of the whole matrix.
    pub blocks: u32,
    /// Our command, then the peers.
    pub tools: Vec<BackupTool>,
    /// Where sources and targets lay.
    pub devices: Vec<Device>,
    /// The matrix, in order of the report.
    pub cells: Vec<Cell>,
    /// Every measured run.
    pub runs: Vec<BackupRun>,
    /// Computed from `runs`.
    pub summary: BackupSummary,
}

/// A program that backed up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTool {
    /// [`Cell::tool`].
    pub name: String,
    /// What it says of its version.
    pub version: String,
}

/// A directory that stands for a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name that the user gave, or `disk` and `memory`.
    pub name: String,
    /// Type of its file system.
    pub file_system: String,
    /// Databases were read from it, and restored to it.
    pub source: bool,
    /// Backups were written to it.
    pub target: bool,
}

/// Part of a cell in comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellRole {
    /// Our command without encryption.
    Base,
    /// Our command with a cipher; in a control run, without one once more.
    Encrypted,
    /// Another tool.
    Peer,
}

/// One kind of backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique name, such as `AES_256/zstd/disk/memory`.
    pub id: String,
    /// `tdekit`, or the peer's name.
    pub tool: String,
    /// Its part in comparisons.
    pub role: CellRole,
    /// Cipher as asked for; `none` without.
    pub cipher: String,
    /// Compression as asked for; `none` without.
    pub compression: String,
    /// [`Device::name`] that held the database.
    pub source: String,
    /// [`Device::name`] that took the backup.
    pub target: String,
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Database to backup.
    Backup,
    /// Backup to database.
    Restore,
}

impl Action {
    /// Name shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }
}

/// One measured run of a command, from its start until its output was on the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRun {
    /// [`Cell::id`].
    pub cell: String,
    /// What it did.
    pub action: Action,
    /// Block it belongs to, from 0.
    pub block: u32,
    /// Place in the random order of the block, from 0.
    pub position: u32,
    /// Wall clock from the start of the command to its end and that of `fdatasync` on its output.
    pub elapsed_ns: u64,
    /// User CPU of the command and its descendants.
    pub user_ns: u64,
    /// System CPU of the same.
    pub system_ns: u64,
    /// Largest resident set of one of its processes.
    pub peak_memory_bytes: u64,
    /// Bytes fetched from the device.
    pub device_read_bytes: u64,
    /// Bytes sent towards the device.
    pub device_write_bytes: u64,
    /// Size of what the command made: the backup, or the restored database.
    pub output_bytes: u64,
}

impl BackupRun {
    /// User and system CPU.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }
}

/// Everything computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupSummary {
    /// One for each cell and action that was run.
    pub cells: Vec<CellSummary>,
    /// A cell held against another one of the same devices, block by block.
    pub ratios: Vec<Comparison>,
    /// A cipher held against none over all devices, by compression and over all of them.
    pub pooled: Vec<PooledRatio>,
}

/// The runs of one cell and action, as a query on a backup history gives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// [`Cell::id`].
    pub cell: String,
    /// What the runs did.
    pub action: Action,
    /// Number of runs.
    pub runs: u64,
    /// Largest [`BackupRun::output_bytes`].
    pub output_bytes: u64,
    /// Shortest [`BackupRun::elapsed_ns`].
    pub min_ns: u64,
    /// Their mean.
    pub avg_ns: f64,
    /// The longest.
    pub max_ns: u64,
    /// Mean of [`BackupRun::user_ns`].
    pub user_ns: f64,
    /// Mean of [`BackupRun::system_ns`].
    pub system_ns: f64,
    /// Largest [`BackupRun::peak_memory_bytes`].
    pub peak_memory_bytes: u64,
}

/// What a cipher costs over all sources and targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PooledRatio {
    /// [`Cell::cipher`].
    pub cipher: String,
    /// [`Cell::compression`]; none for all of them together.
    pub compression: Option<String>,
    /// What the runs did.
    pub action: Action,
    /// What the ratio is of.
    pub metric: Metric,
    /// Cipher over none: 1 is as fast, or as large.
    pub ratio: f64,
    /// Lower end of the interval; none with fewer than two blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Blocks it rests on.
    pub blocks: u64,
    /// Pairs it rests on.
    pub pairs: u64,
}

/// A cipher as reports show it.
pub(super) fn cipher_words(name: &str) -> &str {
    if name == "none" { "not encrypted" } else { name }
}

/// A compression as reports show it.
pub(super) fn compression_words(name: &str) -> &str {
    if name == "none" { "uncompressed" } else { name }
}

impl Cell {
    /// What it shares with the cells that differ in their cipher alone.
    #[must_use]
    pub fn class(&self, action: Action) -> String {
        let (from, to) = (&self.source, &self.target);
        format!("{}/{}/{from}/{to}", action.label(), self.compression)
    }

    /// What tells it from those: its cipher, or the other tool.
    #[must_use]
    pub fn side(&self) -> &str {
        if self.role == CellRole::Peer { &self.tool } else { &self.cipher }
    }

    /// Whether `found` is this cell over another.
    #[must_use]
    pub fn is_over(
        &self,
        against: &Self,
        action: Action,
        metric: Metric,
        found: &Comparison,
    ) -> bool {
        found.metric == metric
            && found.side == self.side()
            && found.against == against.side()
            && found.class == self.class(action)
    }

    /// Compression, cipher and devices, or a peer's name and devices, as reports show them.
    pub(super) fn words(&self) -> String {
        let what = match self.role {
            CellRole::Peer => self.tool.clone(),
            _ => {
                format!("{}, {}", compression_words(&self.compression), cipher_words(&self.cipher))
            }
        };
        format!("{what}, {} to {}", self.source, self.target)
    }
}

impl BackupMatrix {
    /// Names of ciphers, in order of the cells, of our own command.
    #[must_use]
    pub fn ciphers(&self) -> Vec<&str> {
        distinct(self.own().map(|cell| cell.cipher.as_str()))
    }

    /// Names of compressions, in order of the cells, of our own command.
    #[must_use]
    pub fn compressions(&self) -> Vec<&str> {
        distinct(self.own().map(|cell| cell.compression.as_str()))
    }

    /// Pairs of source and target, in order of the cells.
    #[must_use]
    pub fn routes(&self) -> Vec<(&str, &str)> {
        distinct(self.cells.iter().map(|cell| (cell.source.as_str(), cell.target.as_str())))
    }

    /// Names of peers, in order of the cells.
    #[must_use]
    pub fn peers(&self) -> Vec<&str> {
        let peers = self.cells.iter().filter(|cell| cell.role == CellRole::Peer);
        distinct(peers.map(|cell| cell.tool.as_str()))
    }

    /// The cell of our command for a cipher, a compression and a route.
    #[must_use]
    pub fn cell(&self, cipher: &str, compression: &str, route: (&str, &str)) -> Option<&Cell> {
        self.own().find(|cell| {
            cell.cipher == cipher
                && cell.compression == compression
                && (cell.source.as_str(), cell.target.as_str()) == route
        })
    }

    /// The cell without a cipher that differs from `cell` in nothing else.
    #[must_use]
    pub fn base_of(&self, cell: &Cell) -> Option<&Cell> {
        self.cells.iter().find(|base| {
            base.role == CellRole::Base
                && base.compression == cell.compression
                && base.source == cell.source
                && base.target == cell.target
        })
    }

    fn own(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.role != CellRole::Peer)
    }
}

impl BackupSummary {
    /// The runs of a cell.
    #[must_use]
    pub fn cell(&self, cell: &str, action: Action) -> Option<&CellSummary> {
        self.cells.iter().find(|found| found.cell == cell && found.action == action)
    }

    /// One cell over another.
    #[must_use]
    pub fn ratio(
        &self,
        cell: &Cell,
        against: &Cell,
        action: Action,
        metric: Metric,
    ) -> Option<&Comparison> {
        self.ratios.iter().find(|found| cell.is_over(against, action, metric, found))
    }

    /// A cipher over none; `compression` none for all of them together.
    #[must_use]
    pub fn pooled(
        &self,
        cipher: &str,
        compression: Option<&str>,
        action: Action,
        metric: Metric,
    ) -> Option<&PooledRatio> {
        self.pooled.iter().find(|found| {
            found.cipher == cipher
                && found.compression.as_deref() == compression
                && found.action == action
                && found.metric == metric
        })
    }
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
