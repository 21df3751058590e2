//! Sizes and offsets of an encrypted database file.

use crate::PageError;

/// Bytes before the first page: two header slots. Pages follow at this constant shift.
pub const HEADER_AREA_LEN: u64 = 16 * 1024;
/// Number of header slots, which are written alternately.
pub const SLOT_COUNT: usize = 2;
/// Bytes of one header slot.
pub const SLOT_LEN: usize = 8 * 1024;
/// Bytes at the end of each page for nonce, tag, key version and flags (SQLite's "reserved bytes",
/// database header offset 20).
pub const RESERVE_LEN: usize = 48;
/// Smallest page that leaves SQLite its minimum of 480 usable bytes.
pub const MIN_PAGE_SIZE: u32 = 1024;
/// Largest page of SQLite.
pub const MAX_PAGE_SIZE: u32 = 65536;

/// A page size that the format allows: a power of two from 1024 to 65536.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSize(u32);

// A page is never empty.
#[allow(clippy::len_without_is_empty)]
impl PageSize {
    /// Makes a page size, if the format allows it.
    pub fn new(bytes: u64) -> Result<Self, PageError> {
        match u32::try_from(bytes) {
            Ok(b) if b.is_power_of_two() && (MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&b) => {
                Ok(Self(b))
            }
            _ => Err(PageError::Size { size: bytes, what: "a page" }),
        }
    }

    /// Returns the size of a page buffer, if the format allows it.
    pub fn of(buffer: &[u8]) -> Result<Self, PageError> {
        Self::new(buffer.len() as u64)
    }

    /// Returns every size that the format allows, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (10..=16).map(|log2| Self(1 << log2))
    }

    /// Returns the bytes of a page.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Returns the bytes of a page, for indexing.
    pub fn len(self) -> usize {
        self.0 as usize
    }

    /// Returns the bytes of a page that SQLite fills.
    pub fn usable(self) -> usize {
        self.len() - RESERVE_LEN
    }

    /// Returns the binary logarithm, as stored in headers and AADs.
    pub fn log2(self) -> u8 {
        self.0.trailing_zeros().to_le_bytes()[0]
    }

    /// Returns the offset in the file of page `page`, counted from 1.
    pub fn page_offset(self, page: u32) -> u64 {
        HEADER_AREA_LEN + (u64::from(page.max(1)) - 1) * u64::from(self.0)
    }
}

/// Reads a little-endian `u32` at `at`; zero if the slice is too short.
pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    array::<4>(bytes, at).map_or(0, u32::from_le_bytes)
}

/// Copies `N` bytes from `at`; `None` if the slice is too short.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_those_of_sqlite_from_1024() {
        assert_eq!(
            PageSize::all().map(PageSize::bytes).collect::<Vec<_>>(),
            [1024, 2048, 4096, 8192, 16384, 32768, 65536]
        );
        for bad in [0, 1, 512, 1000, 4097, 131_072, u64::MAX] {
            assert!(PageSize::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pages_start_behind_the_header_area() {
        let size = PageSize::new(4096).unwrap();
        assert_eq!(size.page_offset(1), 16384);
        assert_eq!(size.page_offset(u32::MAX), 16384 + u64::from(u32::MAX - 1) * 4096);
        assert_eq!((size.usable(), size.log2()), (4048, 12));
    }
}
