//! Experiment D: messages over TDS, encrypted against plain.

mod model;
mod published;
mod summary;
mod terminal;

pub use model::{
    MessagesCell, MessagesIdle, MessagesMetric, MessagesMode, MessagesPoint, MessagesRatio,
    MessagesReport, MessagesRun, MessagesSeries, MessagesSide, MessagesSummary, MessagesTotals,
    ProcessorUse,
};
pub use published::{
    PUBLISHED_MESSAGES, PUBLISHED_MESSAGES_SOURCE, PublishedMessages, published_packets,
    published_reckoning,
};
pub use summary::summarize_messages;
pub(crate) use summary::verdict;
pub(crate) use terminal::tables;

#[cfg(test)]
pub(crate) use summary::tests;
