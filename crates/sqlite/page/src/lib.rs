//! Pure codec of encrypted database files: header slots, sealed pages, log frames, journal extents.
//!
//! Nothing here opens a file or a socket: every function maps bytes to bytes. The byte layouts are
//! specified in `docs/format/page.md`.

mod aad;
pub mod error;
pub mod fresh;
pub mod header;
pub mod journal;
pub mod keys;
pub mod layout;
pub mod page;
pub mod wal;

pub use error::PageError;
pub use header::{DekEntry, Header, read_slots};
pub use keys::{DekVersion, FileKeys};
pub use layout::{
    HEADER_AREA_LEN, MAX_PAGE_SIZE, MIN_PAGE_SIZE, PageSize, RESERVE_LEN, SLOT_COUNT, SLOT_LEN,
};
pub use page::PageCodec;
