//! The matrix of backups, by cipher, compression, source and target device.

mod heat;
mod html;
mod model;
mod summary;
mod terminal;

pub(crate) use html::{method, section};
pub use model::{
    Action, BackupMatrix, BackupRun, BackupSummary, BackupTool, Cell, CellRole, CellSummary,
    Device, PooledRatio,
};
pub(crate) use summary::{grid, verdict};
pub use summary::{grid_of, summarize_backup};
pub(crate) use terminal::tables;

#[cfg(test)]
pub(crate) use summary::tests;
