//! The first page as SQLite writes it.

use tdekit_sqlite_page::{MAX_PAGE_SIZE, PageSize, RESERVE_LEN};

use crate::VfsError;

/// Checks that page 1 reserves the bytes of the seal, and declares the size with which it is
/// written: `VACUUM` to another page size writes new pages in units of the old size. If the file
/// has pages of the old size, this could not be undone.
pub(crate) fn check_page_one(plain: &[u8], size: PageSize) -> Result<(), VfsError> {
    let reserved = plain.get(20).copied().unwrap_or(0);
    if usize::from(reserved) != RESERVE_LEN {
        return Err(VfsError::Reserve { reserved });
    }
    let stored = u16::from_be_bytes([plain[16], plain[17]]);
    let to = if stored == 1 { MAX_PAGE_SIZE } else { u32::from(stored) };
    if to == size.bytes() { Ok(()) } else { Err(VfsError::PageSize { from: size.bytes(), to }) }
}
