//! Experiment B: the matrix of backups, by cipher, compression, source and target device.

mod heat;
mod html;
mod model;
mod summary;
mod terminal;

pub(crate) use html::{method, section};
pub use model::{
    Action, BackupMatrix, BackupMetric, BackupRatio, BackupRun, BackupSummary, BackupTool, Cell,
    CellRole, CellSummary, Device, PooledRatio,
};
pub use summary::summarize_backup;
pub(crate) use summary::verdict;
pub(crate) use terminal::tables;

#[cfg(test)]
pub(crate) use summary::tests;
