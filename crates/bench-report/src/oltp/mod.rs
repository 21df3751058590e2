//! OLTP workloads by threads, base against encrypted.

mod model;
mod summary;
mod terminal;

pub use model::{
    OltpCell, OltpLatency, OltpOverall, OltpReport, OltpRun, OltpSetting, OltpSide, OltpSummary,
    OltpTotals, OltpUnit,
};
#[cfg(test)]
pub(crate) use summary::tests;
pub(crate) use summary::{RATIOS, grid, verdict};
pub use summary::{grid_of, summarize_oltp};
pub(crate) use terminal::tables;
