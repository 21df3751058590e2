//! Statistics, terminal table, JSON and HTML page of a bench run.
//!
//! Everything here is pure: it takes measured [`Results`], computes a [`Summary`] and renders it.
//! No file, socket, clock or product crate is touched.

mod backup;
mod calibration;
mod compare;
mod csv;
mod figures;
mod first_pairs;
mod format;
mod grid;
mod grids;
mod headline;
mod json;
mod messages;
mod metric;
mod model;
mod oltp;
mod page;
mod plot;
mod published;
pub mod stats;
mod summary;
mod terminal;
mod verdict;

pub use backup::{
    Action, BackupMatrix, BackupRun, BackupSummary, BackupTool, Cell, CellRole, CellSummary,
    Device, PooledRatio, grid_of as backup_grid, summarize_backup,
};
pub use calibration::{
    CALIBRATION_SCHEMA, CalibratedInterval, Calibration, CalibrationRow, Truth, calibration_text,
};
pub use compare::{CHANGES_SCHEMA, Change, Changes, ComparedRun, Direction, changes_text, compare};
pub use csv::{blocks_csv, ratios_csv};
pub use first_pairs::note_first_pairs;
pub use grid::{Grid, Stage};
pub use headline::headline_classes;
pub use json::{JsonError, from_json, to_json};
pub use messages::{
    MessagesCell, MessagesIdle, MessagesMode, MessagesPoint, MessagesReport, MessagesRun,
    MessagesSeries, MessagesSide, MessagesSummary, MessagesTotals, PUBLISHED_MESSAGES,
    PUBLISHED_MESSAGES_SOURCE, ProcessorUse, PublishedMessages, grid as messages_grid,
    published_packets, published_reckoning, summarize_messages,
};
pub use metric::{Metric, MetricInfo};
pub use model::{
    Class, Comparison, Difference, DriverShare, Environment, Experiment, Headline, Latency,
    LatencySample, Library, Noise, Probe, ProbeKind, Results, Role, SCHEMA, Sample, Settings, Side,
    StatementInfo, StatementSample, Stopping, Subject, Summary, ThinkTime, Tool, Totals, WarmUp,
};
pub use oltp::{
    OltpCell, OltpLatency, OltpOverall, OltpReport, OltpRun, OltpSetting, OltpSide, OltpSummary,
    OltpTotals, OltpUnit, grid_of as oltp_grid, summarize_oltp,
};
pub use page::{calibration_html, changes_html, html};
pub use published::{
    PUBLISHED, PUBLISHED_BACKUP, PUBLISHED_BACKUP_SOURCE, Published, PublishedBackup,
};
pub use summary::{grid as sides_grid, summarize};
pub use terminal::terminal;
pub use verdict::verdict;
