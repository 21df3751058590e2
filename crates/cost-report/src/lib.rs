//! Statistics, terminal table, JSON and HTML page of a bench run.
//!
//! Everything here is pure: it takes measured [`Results`], computes a [`Summary`] and renders it.
//! No file, socket, clock or product crate is touched.

mod backup;
mod format;
mod html;
mod json;
mod model;
mod oltp;
mod plot;
mod published;
pub mod stats;
mod summary;
mod terminal;

pub use backup::{
    Action, BackupMatrix, BackupMetric, BackupRatio, BackupRun, BackupSummary, BackupTool, Cell,
    CellRole, CellSummary, Device, PooledRatio, summarize_backup,
};
pub use html::html;
pub use json::{JsonError, from_json, to_json};
pub use model::{
    Class, Comparison, Difference, Environment, Experiment, Library, Metric, Probe, ProbeKind,
    Results, Role, SCHEMA, Sample, Settings, Side, StatementInfo, StatementSample, Subject,
    Summary, Tool, Totals,
};
pub use oltp::{
    OltpCell, OltpLatency, OltpMetric, OltpOverall, OltpRatio, OltpReport, OltpRun, OltpSetting,
    OltpSide, OltpSummary, OltpTotals, OltpUnit, summarize_oltp,
};
pub use published::{
    PUBLISHED, PUBLISHED_BACKUP, PUBLISHED_BACKUP_SOURCE, Published, PublishedBackup,
};
pub use summary::{summarize, verdict};
pub use terminal::terminal;
