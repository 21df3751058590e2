//! Freshness of a log: its frames are those that the anchor pins, and do not change.
//!
//! A connection lists the seals of the frames in order as it reaches them, and checks every later
//! read against the list. The list is right because the anchor has a digest of it.

use std::rc::Rc;

use tdekit_sqlite_page::fresh::{Digest, LogId, LogMark, Tag, frame_digest, log_id, tag_of};
use tdekit_sqlite_page::page::seal_of;
use tdekit_sqlite_page::wal::{
    FRAME_PREFIX_LEN, FrameHeader, SQLITE_WAL_HEADER_LEN, WAL_HEADER_AREA_LEN, frame_offset,
};
use tdekit_sqlite_page::{PageSize, RESERVE_LEN};

use super::WalFile;
use crate::VfsError;
use crate::base::Read;
use crate::fresh::Fresh;

/// The frames of one generation of the log that were reached so far.
#[derive(Default)]
pub(super) struct FrameList {
    id: LogId,
    salts: [u8; 8],
    frames: Vec<ListedFrame>,
    /// The write transaction that runs here, and its first frame: its frames are not listed before
    /// it commits.
    running: Option<(u64, u32)>,
}

struct ListedFrame {
    tag: Tag,
    /// Digest of the log up to this frame.
    digest: Digest,
    commits: bool,
}

impl WalFile {
    fn fresh(&self) -> Option<Rc<Fresh>> {
        self.shared.fresh.get().cloned()
    }

    /// Returns the marks of the frames that must exist.
    fn needed(fresh: &Fresh) -> [LogMark; 2] {
        let (log, copied) = fresh.log_marks();
        [log, if copied.id == log.id { copied } else { log }]
    }

    /// Returns SQLite's header, if it belongs to the log that the anchor names; `None` if there is
    /// no log, or an older one whose frames are all in the main file.
    ///
    /// # Errors
    /// `StaleLog` if frames are needed.
    pub(super) fn current_header(
        &mut self,
        area: &[u8],
    ) -> Result<Option<[u8; SQLITE_WAL_HEADER_LEN]>, VfsError> {
        let mut header = self.open_header(area)?;
        let Some(fresh) = self.fresh() else { return Ok(header) };
        loop {
            let seen = fresh.log_marks().0;
            if let Some(header) = header.filter(|header| log_id(header) == seen.id) {
                return Ok(Some(header));
            }
            fresh.refresh()?;
            if fresh.log_marks().0.id == seen.id {
                break;
            }
            // Another connection has started a log since: its header counts.
            let mut area = [0; WAL_HEADER_AREA_LEN];
            self.base.read(&mut area, 0)?;
            header = self.open_header(&area)?;
        }
        if Self::needed(&fresh).iter().any(|mark| mark.frames > 0) {
            return Err(VfsError::StaleLog);
        }
        Ok(None)
    }

    /// Returns SQLite's header, if it opens. A header under a key that is not known here yet would
    /// look as if there were no log.
    fn open_header(
        &mut self,
        area: &[u8],
    ) -> Result<Option<[u8; SQLITE_WAL_HEADER_LEN]>, VfsError> {
        match self.codec().open_header(area) {
            None if self.shared.live.learn()? => Ok(self.codec().open_header(area)),
            header => Ok(header),
        }
    }

    /// Checks, before recovery, that the log has all the frames that it must have; returns true if
    /// there is a log.
    pub(super) fn has_needed(&mut self) -> Result<bool, VfsError> {
        let Some(fresh) = self.fresh() else { return Ok(true) };
        fresh.refresh()?;
        let mut area = [0; WAL_HEADER_AREA_LEN];
        self.base.read(&mut area, 0)?;
        let Some(header) = self.current_header(&area)? else { return Ok(false) };
        self.note_header(&header);
        if let Some(size) = self.size {
            self.list_frames(&fresh, 0, size)?;
        }
        Ok(true)
    }

    /// Fails if frame `frame`, whose page was read with `seal`, is not the one that was there
    /// before, or if the log is not the one that the anchor pins.
    pub(super) fn check_frame(
        &mut self,
        frame: u32,
        size: PageSize,
        seal: Option<&[u8; RESERVE_LEN]>,
    ) -> Result<(), VfsError> {
        let (Some(fresh), Some(seal)) = (self.fresh(), seal) else { return Ok(()) };
        if self.is_running(frame) {
            return Ok(());
        }
        for again in [true, false] {
            self.list_frames(&fresh, frame.saturating_add(1), size)?;
            if self.list.frames.get(frame as usize).is_some_and(|f| f.tag == tag_of(seal)) {
                return Ok(());
            }
            // Perhaps from a transaction that was rolled back since, by us or by others.
            if again {
                self.list.frames.clear();
                fresh.refresh()?;
            }
        }
        Err(VfsError::Stale { what: "frame", number: frame })
    }

    /// A checkpoint copies frame `frame`: from now on the log must have the frames of its
    /// transaction.
    pub(super) fn note_copied(&mut self, frame: u32, size: PageSize) -> Result<(), VfsError> {
        let Some(fresh) = self.fresh() else { return Ok(()) };
        let mut end = frame.saturating_add(1);
        loop {
            self.list_frames(&fresh, end, size)?;
            match self.list.frames.get(end as usize - 1) {
                Some(last) if last.commits => break,
                Some(_) => end = end.saturating_add(1),
                None => return Err(VfsError::StaleLog),
            }
        }
        if let Some(mark) = self.mark(end) {
            fresh.note_copied(mark);
        }
        Ok(())
    }

    /// Pins the log, which is on disk up to our last commit. Only the writer of the log may do so,
    /// because others do not know what is committed.
    pub(super) fn pin(&mut self) -> Result<(), VfsError> {
        let (Some(fresh), Some(size)) = (self.fresh(), self.size) else { return Ok(()) };
        let writes = self.shared.writes_log.get() || self.shared.exclusive.get();
        let end = self.committed_end;
        if !writes || end == 0 {
            return Ok(());
        }
        self.list_frames(&fresh, 0, size)?;
        if self.list.salts != self.written_salts {
            return Ok(());
        }
        self.list_frames(&fresh, end, size)?;
        let pinned = fresh.log_marks().0;
        match self.mark(end) {
            Some(mark) if pinned.id != mark.id || pinned.frames < end => fresh.set_log(mark),
            _ => Ok(()),
        }
    }

    /// A log with this header is about to begin.
    pub(super) fn begin_list(
        &mut self,
        header: &[u8; SQLITE_WAL_HEADER_LEN],
    ) -> Result<(), VfsError> {
        let Some(fresh) = self.fresh() else { return Ok(()) };
        self.list = FrameList::default();
        fresh.begin_log(log_id(header))
    }

    /// The log is about to be emptied.
    pub(super) fn end_list(&mut self) -> Result<(), VfsError> {
        let Some(fresh) = self.fresh() else { return Ok(()) };
        self.list = FrameList::default();
        fresh.end_log()
    }

    /// Frame `frame` is about to be written. If a commit failed after it was pinned, the next
    /// transaction takes its place.
    pub(super) fn unlist(&mut self, frame: u32, header: &FrameHeader) -> Result<(), VfsError> {
        let (Some(fresh), Some(size)) = (self.fresh(), self.size) else { return Ok(()) };
        let pinned = fresh.log_marks().0;
        if frame < pinned.frames && pinned.id == self.list_id(&fresh, size)? {
            self.list_frames(&fresh, frame, size)?;
            let mark = self.mark(frame).unwrap_or(LogMark { id: pinned.id, ..LogMark::default() });
            fresh.set_log(mark)?;
        }
        self.list.frames.truncate(frame as usize);
        let transaction = self.shared.write_transactions.get();
        let first = match self.list.running {
            Some((of, first)) if of == transaction => first.min(frame),
            _ => frame,
        };
        self.list.running = if header.commits() { None } else { Some((transaction, first)) };
        Ok(())
    }

    fn is_running(&self, frame: u32) -> bool {
        self.list.running.is_some_and(|(transaction, first)| {
            transaction == self.shared.write_transactions.get() && frame >= first
        })
    }

    fn list_id(&mut self, fresh: &Fresh, size: PageSize) -> Result<LogId, VfsError> {
        self.list_frames(fresh, 0, size)?;
        Ok(self.list.id)
    }

    /// Returns the mark of the first `end` frames.
    fn mark(&self, end: u32) -> Option<LogMark> {
        let last = self.list.frames.get((end as usize).checked_sub(1)?)?;
        Some(LogMark { id: self.list.id, frames: end, digest: last.digest })
    }

    /// Lists the frames below `end`, and those that must exist. A writer that died after it had
    /// pinned its frames, and before readers could see them, has left their place to the next
    /// writer. So before anything is reported, anchor and frames are read once more.
    fn list_frames(&mut self, fresh: &Fresh, end: u32, size: PageSize) -> Result<(), VfsError> {
        let mut failed_for = None;
        loop {
            match self.try_list_frames(fresh, end, size) {
                Err(error @ (VfsError::StaleLog | VfsError::Page(_))) => {
                    fresh.refresh()?;
                    let needed = Some(Self::needed(fresh));
                    if failed_for == needed {
                        return Err(error);
                    }
                    failed_for = needed;
                    let running = self.list.running;
                    self.list = FrameList { running, ..FrameList::default() };
                }
                other => return other,
            }
        }
    }

    fn try_list_frames(&mut self, fresh: &Fresh, end: u32, size: PageSize) -> Result<(), VfsError> {
        let needed = Self::needed(fresh);
        if self.list.id != needed[0].id {
            let mut area = [0; WAL_HEADER_AREA_LEN];
            self.base.read(&mut area, 0)?;
            let Some(header) = self.current_header(&area)? else {
                return Err(VfsError::StaleLog);
            };
            let running = self.list.running;
            self.list = FrameList { id: log_id(&header), running, ..FrameList::default() };
            self.list.salts.copy_from_slice(&header[16..24]);
        }
        let end = needed.iter().fold(end, |end, mark| end.max(mark.frames));
        if self.list.frames.len() < end as usize {
            self.extend_list(end, size)?;
        }
        let differs = |mark: &LogMark| mark.frames > 0 && self.mark(mark.frames) != Some(*mark);
        if needed.iter().any(differs) { Err(VfsError::StaleLog) } else { Ok(()) }
    }

    fn extend_list(&mut self, end: u32, size: PageSize) -> Result<(), VfsError> {
        let mut prefix = [0; FRAME_PREFIX_LEN];
        let mut seal = [0; RESERVE_LEN];
        while let Ok(frame) = u32::try_from(self.list.frames.len())
            && frame < end
        {
            let at = frame_offset(size, frame);
            let seal_at = at + (FRAME_PREFIX_LEN + size.usable()) as u64;
            if self.base.read(&mut prefix, at)? == Read::Short
                || self.base.read(&mut seal, seal_at)? == Read::Short
            {
                return Err(VfsError::StaleLog);
            }
            let mut header = self.codec().open_frame(frame, &prefix, &seal);
            if header.is_err() && self.shared.live.learn()? {
                header = self.codec().open_frame(frame, &prefix, &seal);
            }
            let header = header?;
            if header.salts() != self.list.salts {
                return Err(VfsError::StaleLog);
            }
            let before = self.list.frames.last().map_or([0; 32], |last| last.digest);
            self.list.frames.push(ListedFrame {
                tag: tag_of(&seal),
                digest: frame_digest(&before, &prefix, &seal),
                commits: header.commits(),
            });
        }
        Ok(())
    }

    /// As `check_frame`, for the frame that was read into `self.sealed`.
    pub(super) fn check_sealed(&mut self, frame: u32, size: PageSize) -> Result<(), VfsError> {
        if self.shared.fresh.get().is_none() {
            return Ok(());
        }
        let seal = seal_of(&self.sealed).copied();
        self.check_frame(frame, size, seal.as_ref())
    }
}
