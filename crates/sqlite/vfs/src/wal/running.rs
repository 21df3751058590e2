//! The frames of the running write transaction that SQLite uses again.
//!
//! A transaction that is larger than SQLite's cache spills pages to the log, reads them again,
//! overwrites their frames, and finally rewrites the header of each frame (`walRewriteChecksums`).
//! Frames that never leave `Kept` count as never written, like those of a transaction that a crash
//! interrupted.

use std::mem;

use tdekit_sqlite_page::PageError;
use tdekit_sqlite_page::PageSize;
use tdekit_sqlite_page::wal::{FrameHeader, SQLITE_FRAME_HEADER_LEN, prefix_page};

use super::WalFile;
use crate::VfsError;
use crate::page_one::check_page_one;

/// SQLite's header of a frame; provisional if SQLite will rewrite it.
type Header = [u8; SQLITE_FRAME_HEADER_LEN];

/// Returns true if a frame with this header commits, and will not be written again.
pub(super) fn is_final(header: &Header) -> bool {
    let header = FrameHeader { sqlite: *header, durable_before: 0 };
    header.commits() && !header.is_provisional()
}

impl WalFile {
    /// Called when SQLite uses a gathered frame again.
    pub(super) fn come_back(&mut self) {
        if self.pending_transaction == self.shared.write_transactions.get() {
            self.shared.running.borrow_mut().begin();
        }
    }

    /// Fills `out` from frame `frame`, if it is kept.
    pub(super) fn read_running(
        &self,
        frame: u32,
        within: usize,
        size: PageSize,
        out: &mut [u8],
    ) -> bool {
        let running = self.shared.running.borrow();
        let Some((header, page)) = running.get(frame).filter(|(_, p)| p.len() == size.len()) else {
            return false;
        };
        let end = within + out.len();
        if end > SQLITE_FRAME_HEADER_LEN + size.len() {
            return false;
        }
        let head = SQLITE_FRAME_HEADER_LEN.clamp(within, end) - within;
        if head > 0 {
            out[..head].copy_from_slice(&header[within..within + head]);
        }
        if head < out.len() {
            let from = within + head - SQLITE_FRAME_HEADER_LEN;
            let len = out.len() - head;
            out[head..].copy_from_slice(&page[from..from + len]);
        }
        true
    }

    /// Takes a frame that SQLite writes, to keep it or to write it soon.
    pub(super) fn take_frame(
        &mut self,
        frame: u32,
        header: Header,
        plain: &[u8],
        size: PageSize,
    ) -> Result<(), VfsError> {
        if (FrameHeader { sqlite: header, durable_before: 0 }).commits() {
            self.committing = Some((self.shared.write_transactions.get(), frame));
        }
        if !self.shared.running.borrow().is_begun() {
            return self.gather(frame, header, plain, size);
        }
        if prefix_page(&header) == 1 {
            check_page_one(plain, size)?;
        }
        self.enter_transaction();
        self.shared.running.borrow_mut().keep(frame, header, plain);
        if is_final(&header) { self.write_running(frame, size) } else { self.bound_running(size) }
    }

    /// SQLite overwrites a page that it already logged in the running transaction. It will rewrite
    /// the headers from there on.
    pub(super) fn rewrite_page(
        &mut self,
        frame: u32,
        plain: &[u8],
        size: PageSize,
    ) -> Result<(), VfsError> {
        self.come_back();
        let kept = self.shared.running.borrow().get(frame).map(|(header, _)| *header);
        let header = match kept {
            Some(header) => header,
            None => self.logged_header(frame, size)?,
        };
        self.take_frame(frame, header, plain, size)
    }

    /// Takes the header of a kept frame; returns true if it is one.
    pub(super) fn rewrite_kept_header(
        &mut self,
        frame: u32,
        sqlite: &Header,
        size: PageSize,
    ) -> Result<bool, VfsError> {
        match self.shared.running.borrow_mut().head_mut(frame) {
            None => return Ok(false),
            // A new frame in place of one that was rolled back: its page comes next.
            Some(header) if prefix_page(header) != prefix_page(sqlite) => return Ok(true),
            Some(header) => *header = *sqlite,
        }
        if is_final(sqlite) {
            self.write_running(frame, size)?;
        }
        Ok(true)
    }

    /// Writes the kept frames of a transaction that ends with frame `last`. Frames after it were
    /// rolled back.
    pub(super) fn write_running(&mut self, last: u32, size: PageSize) -> Result<(), VfsError> {
        loop {
            let first = self.shared.running.borrow().first();
            let Some(frame) = first.filter(|&frame| frame <= last) else { break };
            self.release(frame, size)?;
        }
        self.flush()?;
        self.shared.running.borrow_mut().end();
        Ok(())
    }

    fn bound_running(&mut self, size: PageSize) -> Result<(), VfsError> {
        let leaving = self.shared.running.borrow().too_many(size.len());
        if leaving == 0 {
            return Ok(());
        }
        for _ in 0..leaving {
            let Some(frame) = self.shared.running.borrow_mut().next_to_leave() else { break };
            self.release(frame, size)?;
        }
        self.flush()
    }

    /// Seals a kept frame, and writes it.
    fn release(&mut self, frame: u32, size: PageSize) -> Result<(), VfsError> {
        let mut page = mem::take(&mut self.leaving);
        let taken = self.shared.running.borrow_mut().take(frame, &mut page);
        let written = taken.map_or(Ok(()), |header| self.gather(frame, header, &page, size));
        self.leaving = page;
        written
    }

    /// Returns SQLite's header of a frame in the log.
    pub(super) fn logged_header(&mut self, frame: u32, size: PageSize) -> Result<Header, VfsError> {
        self.flush()?;
        if !self.load_frame(frame, size)? {
            return Err(PageError::Frame { frame }.into());
        }
        Ok(self.header_of(frame)?.sqlite)
    }
}
