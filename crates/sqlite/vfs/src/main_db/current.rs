//! Pages of a database with freshness: an older page that was restored is an error.

use tdekit_sqlite_page::PageSize;
use tdekit_sqlite_page::fresh::tag_of;
use tdekit_sqlite_page::page::seal_of;

use super::{MainFile, be32};
use crate::VfsError;
use crate::base::Read;

/// Offset in SQLite's database header of the first trunk of the list of free pages.
const TRUNK_IN_HEADER: usize = 32;

impl MainFile {
    /// Reads a page that must have the tag of the database's last state. Mapped bytes could change
    /// between the check of the tag and the opening.
    pub(super) fn read_fresh(
        &mut self,
        page: u32,
        size: PageSize,
        out: &mut [u8],
    ) -> Result<Read, VfsError> {
        for again in [true, false] {
            let read = self.read_unmapped(page, size, out)?;
            if self.is_fresh(page, read) {
                return Ok(read);
            }
            // A checkpoint of another process may have moved the anchor since.
            if let (true, Some(fresh)) = (again, self.shared.fresh.get()) {
                fresh.refresh()?;
            }
        }
        if page > 1 && self.is_free_leaf(page, size)? {
            return self.read_unmapped(page, size, out);
        }
        out.fill(0);
        Err(VfsError::Stale { what: "page", number: page })
    }

    /// Returns true if `self.sealed`, as read, is the current `page`.
    fn is_fresh(&self, page: u32, read: Read) -> bool {
        let Some(fresh) = self.shared.fresh.get() else { return true };
        match (read, seal_of(&self.sealed)) {
            (Read::Full, Some(seal)) => fresh.is_fresh(page, &tag_of(seal)),
            _ => !fresh.has_page(page),
        }
    }

    /// Returns true if page 1 may be older than its anchor only temporarily. SQLite found no log
    /// when it checked, and reads page 1 to learn the journal mode; if there is a log by now, a
    /// checkpoint may have written the page without moving the anchor. SQLite checks again when it
    /// is told to wait.
    pub(super) fn must_look_for_log(&self) -> bool {
        !self.reads_log && self.shared.fresh.get().is_some_and(|fresh| fresh.has_log())
    }

    fn has_page(&self, page: u32) -> bool {
        self.shared.fresh.get().is_some_and(|fresh| fresh.has_page(page))
    }

    /// Returns true if `page` is a leaf of SQLite's list of free pages, which has no content.
    /// SQLite overwrites such a page without journaling it, so a rollback leaves the new content.
    fn is_free_leaf(&mut self, page: u32, size: PageSize) -> Result<bool, VfsError> {
        let mut plain = vec![0; size.len()];
        let mut trunk = 1;
        let mut field = TRUNK_IN_HEADER;
        let mut passed = 0;
        while self.has_page(trunk) && self.has_page(passed) {
            // More trunks than pages would be a cycle.
            passed += 1;
            let read = self.read_unmapped(trunk, size, &mut plain)?;
            if !self.is_fresh(trunk, read) {
                return Ok(false);
            }
            if field == 0 {
                let count = be32(&plain, 4) as usize;
                let leaves = plain[8..size.usable()].as_chunks::<4>().0.iter().take(count);
                if leaves.copied().any(|leaf| u32::from_be_bytes(leaf) == page) {
                    return Ok(true);
                }
            }
            let next = be32(&plain, field);
            if next <= 1 || next == trunk {
                return Ok(false);
            }
            (trunk, field) = (next, 0);
        }
        Ok(false)
    }
}
