//! Experiment C: OLTP workloads by threads, base against encrypted.

mod model;
mod summary;
mod terminal;

pub use model::{
    OltpCell, OltpLatency, OltpMetric, OltpOverall, OltpRatio, OltpReport, OltpRun, OltpSetting,
    OltpSide, OltpSummary, OltpTotals, OltpUnit,
};
pub use summary::summarize_oltp;
#[cfg(test)]
pub(crate) use summary::tests;
pub(crate) use summary::verdict;
pub(crate) use terminal::tables;
