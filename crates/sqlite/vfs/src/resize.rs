//! Change of the page size of a database that has no page yet.
//!
//! SQLite keeps the page size of an empty database once a transaction was undone in it. `VACUUM` to
//! another size then writes the new pages in units of the old one. They are gathered until they are
//! whole: nothing reaches the file before, and no unit of the old size ever does.

use tdekit_sqlite_page::PageSize;

use crate::VfsError;
use crate::base::MAX_TRANSFER_LEN;

/// Offset in page 1 of the number of pages (SQLite's file format, 1.3.7).
const COUNT_AT: usize = 28;

/// The new pages, as far as SQLite has written them.
pub(crate) struct Resize {
    to: PageSize,
    len: usize,
    plain: Vec<u8>,
}

impl Resize {
    /// Starts with SQLite's first write. Returns `PageSize` if page 1 declares more than a database
    /// without content has, or `PageTooSmall`.
    pub(crate) fn begin(first: &[u8], to: u32) -> Result<Self, VfsError> {
        let size = PageSize::new(to.into()).map_err(|_| VfsError::PageTooSmall { size: to })?;
        let from = u32::try_from(first.len()).unwrap_or(0);
        let refused = VfsError::PageSize { from, to };
        let Some(count) = first.get(COUNT_AT..).and_then(|bytes| bytes.first_chunk()) else {
            return Err(refused);
        };
        let len = u64::from(u32::from_be_bytes(*count)) * u64::from(to);
        match usize::try_from(len) {
            Ok(len) if len > 0 && len <= MAX_TRANSFER_LEN => {
                Ok(Self { to: size, len, plain: first.to_vec() })
            }
            _ => Err(refused),
        }
    }

    /// Adds SQLite's next write.
    pub(crate) fn add(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        if offset != self.plain.len() as u64 {
            return Err(VfsError::Access { file: "main file", offset, len: data.len() });
        }
        self.plain.extend_from_slice(data);
        Ok(())
    }

    /// Returns true if every page is complete. Bytes after the last one fill SQLite's unit.
    pub(crate) fn is_whole(&self) -> bool {
        self.plain.len() >= self.len
    }

    /// Returns the new size.
    pub(crate) fn size(&self) -> PageSize {
        self.to
    }

    /// Returns the pages, from 1.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (1..).zip(self.plain[..self.len.min(self.plain.len())].chunks_exact(self.to.len()))
    }
}

impl Drop for Resize {
    fn drop(&mut self) {
        self.plain.fill(0);
        std::hint::black_box(&self.plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(len: usize, pages: u32) -> Vec<u8> {
        let mut unit = vec![7; len];
        unit[28..32].copy_from_slice(&pages.to_be_bytes());
        unit
    }

    #[test]
    fn a_page_of_several_units_is_whole_after_the_last_one() {
        let mut resize = Resize::begin(&unit(1024, 1), 2048).unwrap();
        assert!(!resize.is_whole());
        assert!(resize.add(&[8; 1024], 2048).is_err());
        resize.add(&[8; 1024], 1024).unwrap();
        assert!(resize.is_whole());
        let pages: Vec<_> = resize.pages().collect();
        assert_eq!((pages.len(), pages[0].0, pages[0].1.len()), (1, 1, 2048));
        assert_eq!(pages[0].1[1024..], [8; 1024]);
    }

    #[test]
    fn a_unit_of_several_pages_is_cut() {
        let resize = Resize::begin(&unit(4096, 2), 1024).unwrap();
        assert!(resize.is_whole());
        assert_eq!(resize.pages().map(|(page, _)| page).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_no_empty_database_is_refused() {
        for (pages, to) in [(0, 4096), (100, 4096), (u32::MAX, 65536), (3, 65536)] {
            let refused = Resize::begin(&unit(1024, pages), to);
            assert!(matches!(refused, Err(VfsError::PageSize { from: 1024, .. })), "{pages} {to}");
        }
        let small = Resize::begin(&unit(1024, 1), 512);
        assert!(matches!(small, Err(VfsError::PageTooSmall { size: 512 })));
    }
}
