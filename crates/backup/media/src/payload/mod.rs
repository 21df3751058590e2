//! The content of blocks: pages, changed pages, pages of transactions, page maps, metadata.

mod changes;
mod log;
mod map;
mod metadata;
mod pages;

pub use changes::{LogPage, MAX_UNFINISHED_BYTES, Overlay, page_check};
pub(crate) use log::{LOG_CHANGE_LEN, WHOLE_LOG_ENTRY_LEN};
pub use log::{
    LOG_ENTRY_LEN, LogEnd, LogEntry, LogForm, LogOrder, LogPages, LogPagesBuilder, LogPagesIter,
};
pub use map::{
    FINGERPRINT_LEN, MAP_PAGES_PER_BLOCK, MAX_MAP_PAYLOAD_LEN, PageMapBlock, put_page_map,
};
pub use metadata::{MAP_KEY_LEN, MAX_METADATA_LEN, Metadata};
pub use pages::{ChangedPages, ChangedPagesBuilder, PAGES_HEAD_LEN, Pages, put_pages_head};
