//! Pages of a write transaction with a rollback journal that SQLite spills and uses again.

use std::mem;

use tdekit_sqlite_page::PageSize;

use super::MainFile;
use crate::VfsError;
use crate::ffi;
use crate::kept::Kept;

/// Spilled pages of the running transaction.
#[derive(Default)]
pub(super) struct Spilled {
    /// A page was written before SQLite announced its commit.
    any: bool,
    kept: Kept<()>,
    page_len: usize,
    /// The page that leaves.
    leaving: Vec<u8>,
    /// Value of `journals_lost` when the first page was kept.
    journals_lost: u64,
}

impl Spilled {
    /// Forgets the pages that begin at or after `end`.
    pub(super) fn forget_behind(&mut self, end: u64, size: PageSize) {
        while let Some(last) = self.kept.last()
            && size.page_offset(last) >= end
        {
            self.kept.forget_last();
        }
    }
}

impl MainFile {
    /// Takes a page that SQLite writes, to keep it or to write it soon.
    pub(super) fn take_page(
        &mut self,
        page: u32,
        size: PageSize,
        plain: &[u8],
    ) -> Result<(), VfsError> {
        let passing = self.shared.checkpoint.get() || self.commits;
        if passing || !self.spilled.kept.is_begun() || self.spilled.page_len != size.len() {
            self.spilled.any = !passing && self.level == ffi::LOCK_EXCLUSIVE;
            self.spilled.page_len = size.len();
            return self.gather(page, size, plain);
        }
        // Later pages of the gap that it may leave must open, too.
        if let Err(error) = self.fill_gap(size.page_offset(page), size) {
            self.discard();
            return Err(error);
        }
        self.known_end = self.known_end.max(size.page_offset(page) + size.len() as u64);
        if self.spilled.kept.first().is_none() {
            self.spilled.journals_lost = self.shared.journals_lost.get();
        }
        self.spilled.kept.keep(page, (), plain);
        for _ in 0..self.spilled.kept.too_many(size.len()) {
            let Some(page) = self.spilled.kept.next_to_leave() else { break };
            self.release(page, size)?;
        }
        Ok(())
    }

    /// Fills `out` with page `page`, if it is kept. In a transaction that has written pages, SQLite
    /// reads them only if it has spilled them: from then on they are kept.
    pub(super) fn read_spilled(&mut self, page: u32, out: &mut [u8]) -> bool {
        if self.spilled.any && !self.commits {
            self.spilled.kept.begin();
        }
        match self.spilled.kept.get(page).filter(|(_, plain)| plain.len() == out.len()) {
            Some((_, plain)) => {
                out.copy_from_slice(plain);
                true
            }
            None => false,
        }
    }

    /// Writes all kept pages.
    pub(super) fn write_spilled(&mut self) -> Result<(), VfsError> {
        let size = self.shared.page_size.get();
        while let Some(page) = self.spilled.kept.first() {
            self.release(page, size)?;
        }
        self.spilled.any = false;
        self.spilled.kept.end();
        Ok(())
    }

    /// One past the last byte that is gathered or kept; 0 where there is none.
    pub(super) fn gathered_end(&self) -> u64 {
        let pending = if self.pending.bytes.is_empty() { 0 } else { self.pending.end() };
        let size = self.shared.page_size.get();
        let end = |page| size.page_offset(page) + size.len() as u64;
        pending.max(self.spilled.kept.last().map_or(0, end))
    }

    /// Seals a kept page, and writes it. As after any failed write, nothing stays kept after a
    /// failure.
    fn release(&mut self, page: u32, size: PageSize) -> Result<(), VfsError> {
        let mut plain = mem::take(&mut self.spilled.leaving);
        let Some(()) = self.spilled.kept.take(page, &mut plain) else { return Ok(()) };
        let written = match self.spilled.journals_lost == self.shared.journals_lost.get() {
            true => self.gather(page, size, &plain),
            false => Err(VfsError::JournalGone),
        };
        self.spilled.leaving = plain;
        if written.is_err() {
            self.discard();
        }
        written
    }
}
