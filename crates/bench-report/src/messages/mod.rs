//! Messages over TDS, encrypted against plain.

mod model;
mod published;
mod summary;
mod terminal;

pub use model::{
    MessagesCell, MessagesIdle, MessagesMode, MessagesPoint, MessagesReport, MessagesRun,
    MessagesSeries, MessagesSide, MessagesSummary, MessagesTotals, ProcessorUse,
};
pub use published::{
    PUBLISHED_MESSAGES, PUBLISHED_MESSAGES_SOURCE, PublishedMessages, published_packets,
    published_reckoning,
};
pub(crate) use summary::{RATIOS, verdict};
pub use summary::{grid, summarize_messages};
pub(crate) use terminal::tables;

#[cfg(test)]
pub(crate) use summary::tests;
