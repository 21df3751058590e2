//! The server's data files, page by page, without the server: the place of each page, whether it is
//! sound, and whether it opens under its key. Nothing here opens a file.
//!
//! The layouts are those of MariaDB 10.11 (`storage/innobase/include/fsp0fsp.h`, `fil0fil.h`,
//! `fil0crypt.h`, `page0page.h`, `rem0rec.h`; `storage/maria/ma_crypt.c`, `ma_blockrec.h`,
//! `ma_pagecrc.c`).

mod aria;
mod checksum;
mod extents;
mod index;
mod keys;
mod layout;
mod page;

pub use crate::page::MAX_PAGE_LEN;
pub use aria::{AriaFile, AriaTable};
pub use checksum::full as crc32c;
pub use extents::{Extent, List, Node, Place, Segment, SegmentPage, SpaceLists, State};
pub use index::{
    IndexHeader, KIND_BLOB, KIND_BUFFERED, KIND_FIRST, KIND_INDEX, KIND_INODES, KIND_INSTANT,
    KIND_MAP, KIND_SPATIAL, KINDS_PACKED_BLOB, NO_PAGE, PageHeader, Pointer, SegmentLink, pointers,
};
pub use keys::TableKeys;
pub use layout::{CryptData, Format, Layout, LayoutError, Mode, TRX_SYS_PAGE};
pub use page::{Fault, Seen, Unopened, check};

/// Returns the big-endian 4-byte number at an offset; 0 if the bytes end before.
fn number(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

/// As [`number`], for 2 bytes.
fn short_number(bytes: &[u8], at: usize) -> u16 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u16::from_be_bytes(*word))
}

/// Returns true if no bit is set.
fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
