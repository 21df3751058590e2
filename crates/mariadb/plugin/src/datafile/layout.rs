//! The layout of a tablespace, from its first page, and the pages that its map allocates.

use super::index::{KIND_FIRST, KIND_MAP};
use super::{is_empty, number, short_number};
use crate::page::{MAX_PAGE_LEN, MIN_PAGE_LEN, SPACE_AT};

/// The page of the system tablespace with the location of the doublewrite buffer. The server writes
/// it in the clear.
pub const TRX_SYS_PAGE: u32 = 5;

const NUMBER_AT: usize = 4;
const LSN_AT: usize = 16;
const KIND_AT: usize = 24;
/// The tablespace's header (FSP_HEADER_OFFSET) and its fields.
pub(super) const HEADER_AT: usize = 38;
const SIZE_AT: usize = HEADER_AT + 8;
const FREE_LIMIT_AT: usize = HEADER_AT + 12;
const FLAGS_AT: usize = HEADER_AT + 16;
/// The lists of segment pages: full ones, and the others.
pub(super) const INODES_FULL_AT: usize = HEADER_AT + 80;
pub(super) const INODES_FREE_AT: usize = HEADER_AT + 96;
/// Offset of the descriptors of extents in page 0 and in each page of the allocation map.
pub(super) const EXTENTS_AT: usize = HEADER_AT + 112;
/// Offset of the bitmap in a descriptor.
pub(super) const BITMAP_AT: usize = 24;
/// Offset of the numbers of single pages in the description of a segment.
pub(super) const SINGLE_PAGES_AT: usize = 64;
/// Magic bytes of the encryption data in page 0.
const CRYPT_MAGIC: [u8; 6] = *b"s\x0e\x0cREt";
const CRYPT_LEN: usize = 6 + 2 + 16 + 4 + 4 + 1;
const SCHEME_1: u8 = 1;

/// Layout and checksums of a tablespace's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The default since MariaDB 10.5: one checksum of the whole page.
    FullCrc32 {
        /// True if pages may be `PAGE_COMPRESSED`.
        compressed: bool,
    },
    /// Made under another `innodb_checksum_algorithm`.
    Legacy {
        /// True if pages may be `PAGE_COMPRESSED`.
        compressed: bool,
    },
    /// `ROW_FORMAT=COMPRESSED`.
    CompressedRows,
}

/// The encryption that a tablespace requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// According to `innodb_encrypt_tables`.
    Default,
    /// `ENCRYPTED=YES`.
    On,
    /// `ENCRYPTED=NO`.
    Off,
}

/// Encryption of a tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CryptData {
    /// The random bytes from which its keys are derived.
    pub iv: [u8; 16],
    /// Number of its server key.
    pub key_id: u32,
    /// The minimum version of all pages when it was written; 0 while some are in the clear.
    pub min_key_version: u32,
    /// The requested encryption.
    pub mode: Mode,
    /// True if the server writes encrypted pages.
    pub scheme_1: bool,
}

/// A tablespace, as described by its first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Its number.
    pub space: u32,
    /// Layout of its pages.
    pub format: Format,
    /// Length of a page in the file, in bytes.
    pub page_len: usize,
    /// Pages in an extent.
    pub(super) extent_pages: usize,
    /// Number of its pages, according to the first page.
    pub pages: u32,
    /// Pages from here on were never allocated.
    free_limit: u32,
    /// Number of its segment pages.
    pub inode_pages: u32,
    /// LSN of the first page; 0 for a file that the server made but has not written to yet.
    pub lsn: u64,
    /// Its encryption; `None` if there is no encryption data.
    pub crypt: Option<CryptData>,
}

/// Reason why a page is not the first of a tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// All its bytes are 0.
    #[error("the first page is empty")]
    Empty,
    /// It is shorter than its own page size.
    #[error("the file is shorter than a page")]
    Short,
    /// Its kind, number or tablespace is not that of a first page.
    #[error("the first page is not that of a tablespace")]
    NotFirst,
    /// The server never writes these flags.
    #[error("the first page has flags {0:#x}, which no server writes")]
    Flags(u32),
    /// The server never writes such encryption data.
    #[error("the first page has an encryption that no server writes")]
    Crypt,
}

impl Layout {
    /// Parses the first page of a tablespace, or as much of the file's beginning as
    /// [`MAX_PAGE_LEN`].
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn parse(first: &[u8]) -> Result<Self, LayoutError> {
        if first.len() < MIN_PAGE_LEN.min(1024) {
            return Err(LayoutError::Short);
        }
        if is_empty(&first[..1024]) {
            return Err(LayoutError::Empty);
        }
        let space = number(first, SPACE_AT);
        let is_first = number(first, NUMBER_AT) == 0
            && short_number(first, KIND_AT) == KIND_FIRST
            && number(first, HEADER_AT) == space;
        if !is_first {
            return Err(LayoutError::NotFirst);
        }
        let flags = number(first, FLAGS_AT);
        let (format, logical_len, page_len) = lengths(flags).ok_or(LayoutError::Flags(flags))?;
        let first = first.get(..page_len).ok_or(LayoutError::Short)?;
        let extent_pages = if logical_len < 16384 { (1 << 20) / logical_len } else { 64 };
        let mut layout = Self {
            space,
            format,
            page_len,
            extent_pages,
            pages: number(first, SIZE_AT),
            free_limit: number(first, FREE_LIMIT_AT),
            inode_pages: number(first, INODES_FULL_AT)
                .saturating_add(number(first, INODES_FREE_AT)),
            lsn: lsn(first),
            crypt: None,
        };
        // The server adds the header's offset twice.
        let crypt_at = HEADER_AT + EXTENTS_AT + layout.extent_len() * page_len / extent_pages;
        layout.crypt = CryptData::parse(first.get(crypt_at..).unwrap_or_default())?;
        Ok(layout)
    }

    /// Returns the page of the allocation map for a page.
    #[must_use]
    pub fn map_page(&self, number: u32) -> u32 {
        number - number % self.map_step()
    }

    /// Returns true if the allocation map covers a page.
    #[must_use]
    pub fn is_mapped(&self, number: u32) -> bool {
        number < self.free_limit
    }

    /// Returns true if a page is allocated according to the allocation map, of which `map` is the
    /// page for `number`. Only the server may be able to write the map: it is in the clear.
    #[must_use]
    pub fn is_used(&self, map: &[u8], number: u32) -> bool {
        if !self.is_mapped(number) {
            return false;
        }
        let place = number as usize % self.page_len;
        let bit = place % self.extent_pages * 2;
        let descriptor = EXTENTS_AT + self.extent_len() * (place / self.extent_pages);
        let byte = map.get(descriptor + BITMAP_AT + bit / 8).copied().unwrap_or_default();
        byte >> (bit % 8) & 1 == 0
    }

    /// Returns true if the server writes a page of this number and kind in the clear in every
    /// tablespace: the first, those of the allocation map, and the one with the location of the
    /// doublewrite buffer.
    #[must_use]
    pub(super) fn is_clear_by_rule(&self, number: u32, kind: u16) -> bool {
        const KIND_TRX_SYS: u16 = 7;
        match kind {
            KIND_FIRST => number == 0,
            KIND_MAP => number != 0 && number.is_multiple_of(self.map_step()),
            KIND_TRX_SYS => self.space == 0 && number == TRX_SYS_PAGE,
            _ => false,
        }
    }

    /// Returns true if a page of the system tablespace belongs to the doublewrite buffer, which
    /// `trx_sys` locates. Its pages are copies of pages of any tablespace.
    #[must_use]
    pub fn is_doublewrite(&self, trx_sys: &[u8], number: u32) -> bool {
        const MAGIC: u32 = 536_853_855;
        let extent = u32::try_from(self.extent_pages).unwrap_or(u32::MAX);
        let at = self.page_len - 200 + 10;
        // The server puts it there when it makes the tablespace. Somebody who changes page 5 could
        // point to other pages.
        self.space == 0
            && (extent..extent * 3).contains(&number)
            && super::number(trx_sys, at) == MAGIC
            && super::number(trx_sys, at + 4) == extent
            && super::number(trx_sys, at + 8) == extent * 2
    }

    /// Returns the page and the offset in it that describe the doublewrite buffer's segment.
    #[must_use]
    pub fn doublewrite_segment(&self, trx_sys: &[u8]) -> (u32, usize) {
        let at = self.page_len - 200;
        (number(trx_sys, at + 4), usize::from(short_number(trx_sys, at + 8)))
    }

    /// Returns the distance in pages between two pages of the allocation map.
    #[must_use]
    pub fn map_step(&self) -> u32 {
        u32::try_from(self.page_len).unwrap_or(u32::MAX)
    }

    /// Returns the length of an extent's descriptor in bytes.
    pub(super) fn extent_len(&self) -> usize {
        BITMAP_AT + self.extent_pages / 4
    }
}

impl CryptData {
    fn parse(bytes: &[u8]) -> Result<Option<Self>, LayoutError> {
        let Some(bytes) = bytes.get(..CRYPT_LEN).filter(|bytes| bytes.starts_with(&CRYPT_MAGIC))
        else {
            return Ok(None);
        };
        let (scheme, iv_len) = (bytes[6], bytes[7]);
        let mode = match bytes[32] {
            0 => Mode::Default,
            1 => Mode::On,
            2 => Mode::Off,
            _ => return Err(LayoutError::Crypt),
        };
        if scheme > SCHEME_1 || iv_len != 16 {
            return Err(LayoutError::Crypt);
        }
        let mut iv = [0; 16];
        iv.copy_from_slice(&bytes[8..24]);
        let (min_key_version, key_id) = (number(bytes, 24), number(bytes, 28));
        let scheme_1 = scheme == SCHEME_1;
        Ok(Some(Self { iv, key_id, min_key_version, mode, scheme_1 }))
    }
}

/// Returns a page's LSN.
pub(super) fn lsn(page: &[u8]) -> u64 {
    u64::from(number(page, LSN_AT)) << 32 | u64::from(number(page, LSN_AT + 4))
}

/// Returns a page's own number.
pub(super) fn own_number(page: &[u8]) -> u32 {
    number(page, NUMBER_AT)
}

/// Returns a page's kind (FIL_PAGE_TYPE).
pub(super) fn kind(page: &[u8]) -> u16 {
    short_number(page, KIND_AT)
}

/// Returns format, page length in the server, and page length in the file.
fn lengths(flags: u32) -> Option<(Format, usize, usize)> {
    const FULL_CRC32: u32 = 1 << 4;
    let sized = |shift: u32| {
        let len = 512_usize.checked_shl(shift)?;
        (MIN_PAGE_LEN..=MAX_PAGE_LEN).contains(&len).then_some(len)
    };
    if flags & FULL_CRC32 != 0 {
        let len = sized(flags & 15)?;
        let compressed = flags >> 5 & 7 != 0;
        return Some((Format::FullCrc32 { compressed }, len, len));
    }
    let len = match flags >> 6 & 15 {
        0 => 16384,
        shift => sized(shift)?,
    };
    match flags >> 1 & 15 {
        0 => Some((Format::Legacy { compressed: flags >> 16 & 1 != 0 }, len, len)),
        shift @ 1..=5 => Some((Format::CompressedRows, len, 512 << shift)),
        _ => None,
    }
}
