//! The write-ahead log of an encrypted database.

mod fresh;
mod recovery;
mod running;
mod skipped;

use std::ffi::c_int;
use std::rc::Rc;

use tdekit_sqlite_page::page::seal_of;
use tdekit_sqlite_page::wal::{
    FRAME_PREFIX_LEN, FrameHeader, SQLITE_FRAME_HEADER_LEN, SQLITE_WAL_HEADER_LEN,
    WAL_HEADER_AREA_LEN, WalCodec, frame_offset, frame_stride, prefix_page,
};
use tdekit_sqlite_page::{PageError, PageSize};

use crate::VfsError;
use crate::base::{BaseFile, MAX_TRANSFER_LEN, Read};
use crate::page_one::check_page_one;
use crate::shared::Shared;
use running::is_final;

/// Maximum number of bytes of frames that are gathered before they are written.
const MAX_PENDING_LEN: usize = MAX_TRANSFER_LEN;

/// A write-ahead log.
pub(crate) struct WalFile {
    pub(crate) base: BaseFile,
    shared: Rc<Shared>,
    codec: WalCodec,
    /// The generation of the keys that `codec` has.
    generation: u64,
    /// Page size of the log; unknown before its header is read or written.
    size: Option<PageSize>,
    /// Salts of the generation that we write or read.
    salts: [u8; 8],
    pending: Vec<u8>,
    pending_first: u32,
    /// The write transaction that gathered the frames. Frames that it could not write by its end
    /// belong to nobody, and another connection may use their place by then.
    pending_transaction: u64,
    /// A frame header whose page comes with the next write.
    stash: Option<(u32, [u8; SQLITE_FRAME_HEADER_LEN])>,
    /// The beginning of a frame that SQLite writes in two parts with a sync between them, as it
    /// does if a VFS above us hides `IOCAP_POWERSAFE_OVERWRITE`. It repeats a committing frame, so
    /// nothing is lost with it.
    split: Option<(u32, Vec<u8>)>,
    /// Salts of the generation of the next three fields.
    written_salts: [u8; 8],
    /// One past the highest frame that we wrote in this generation.
    written_end: u32,
    /// One past the last of them that commits: frames after it may have been rolled back, and
    /// another connection may use their place next.
    committed_end: u32,
    /// Frames below this were synced.
    durable_before: u32,
    /// The write transaction that runs here, and the first frame that it wrote.
    first_of: (u64, u32),
    /// The write transaction that SQLite commits here, and the frame that ends it.
    committing: Option<(u64, u32)>,
    /// The write transaction in which a frame was last read whole into `sealed`, and the frame.
    read_whole: Option<(u64, u32)>,
    /// Frames that must not change, if the database has freshness.
    list: fresh::FrameList,
    sealed: Vec<u8>,
    plain: Vec<u8>,
    /// The kept page that is written.
    leaving: Vec<u8>,
}

/// The part of SQLite's log at an offset.
#[derive(Clone, Copy)]
enum Place {
    /// Within the log's header.
    Header,
    /// Within frame `.0`, `.1` bytes from its start.
    Frame(u32, usize),
}

impl WalFile {
    pub(crate) fn new(mut base: BaseFile, shared: Rc<Shared>) -> Self {
        base.allow_mapping();
        let codec = WalCodec::new(shared.live.keys());
        Self {
            base,
            generation: shared.live.generation(),
            shared,
            codec,
            size: None,
            salts: [0; 8],
            pending: Vec::new(),
            pending_first: 0,
            pending_transaction: 0,
            stash: None,
            split: None,
            written_salts: [0; 8],
            written_end: 0,
            committed_end: 0,
            durable_before: 0,
            first_of: (0, 0),
            committing: None,
            read_whole: None,
            list: fresh::FrameList::default(),
            sealed: Vec::new(),
            plain: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Reads plaintext at SQLite's offset.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        match self.read_known(out, offset) {
            Err(VfsError::Page(_)) if self.shared.live.learn()? => self.read_known(out, offset),
            other => other,
        }
    }

    /// A full disk must not prevent anybody from reading: nothing is written, except for the
    /// headers that SQLite skips when it commits.
    fn read_known(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        self.read_whole = None;
        if offset < SQLITE_WAL_HEADER_LEN as u64 {
            return self.read_header(out, offset);
        }
        let Some(size) = self.page_size()? else {
            out.fill(0);
            return Ok(Read::Short);
        };
        let Place::Frame(frame, within) = place(offset, size)? else {
            return self.read_header(out, offset);
        };
        let answered = self.answer_checksum(frame, within, size, out);
        if self.unless_given_up(answered)? || self.read_running(frame, within, size, out) {
            return Ok(Read::Full);
        }
        if !self.pending.is_empty() && frame >= self.pending_first {
            self.come_back();
        }
        match (within, out.len()) {
            (SQLITE_FRAME_HEADER_LEN, n) if n == size.len() => self.read_page(frame, size, out),
            (0, n) if n == SQLITE_FRAME_HEADER_LEN + size.len() => {
                self.recover_frame(frame, size, out)
            }
            _ => self.read_part(frame, within, size, out, offset),
        }
    }

    /// Takes a header, a frame header, or a page that SQLite writes.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        let written = self.write_known(data, offset);
        self.unless_given_up(written)
    }

    fn write_known(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        let unexpected = VfsError::Access { file: "WAL", offset, len: data.len() };
        if let (0, Ok(header)) = (offset, <&[u8; SQLITE_WAL_HEADER_LEN]>::try_from(data)) {
            return self.write_header(header);
        }
        let Some(size) = self.page_size()? else { return Err(unexpected) };
        let place = place(offset, size)?;
        if let Place::Frame(frame, within) = place
            && self.add_part(frame, within, data, size)?
        {
            return Ok(());
        }
        match place {
            Place::Frame(frame, 0) if data.len() == SQLITE_FRAME_HEADER_LEN => {
                self.flush_stash()?;
                let mut header = [0; SQLITE_FRAME_HEADER_LEN];
                header.copy_from_slice(data);
                self.enter_transaction();
                self.stash = Some((frame, header));
                // A header of a frame that we have already logged: SQLite may be writing its final
                // form (`walRewriteChecksums`), the committing frame last. It has read the frame
                // then.
                let read = Some((self.pending_transaction, frame));
                if self.is_ours(frame, &header)
                    || self.shared.running.borrow().get(frame).is_some()
                    || self.read_whole == read
                {
                    self.rewrite_header(frame, header, size)?;
                }
                Ok(())
            }
            Place::Frame(frame, SQLITE_FRAME_HEADER_LEN) if data.len() == size.len() => {
                match self.stash.take() {
                    Some((stashed, header)) if stashed == frame => {
                        self.take_frame(frame, header, data, size)
                    }
                    other => {
                        self.stash = other;
                        self.flush_stash()?;
                        self.rewrite_page(frame, data, size)
                    }
                }
            }
            _ => Err(unexpected),
        }
    }

    /// Takes a part of a frame that is neither its header nor its page; returns true if it is one.
    fn add_part(
        &mut self,
        frame: u32,
        within: usize,
        data: &[u8],
        size: PageSize,
    ) -> Result<bool, VfsError> {
        let whole = SQLITE_FRAME_HEADER_LEN + size.len();
        let end = within + data.len();
        let begun = self.split.take().filter(|(at, bytes)| {
            (*at, bytes.len()) == (frame, within)
                && self.pending_transaction == self.shared.write_transactions.get()
        });
        let mut bytes = match begun {
            Some((_, bytes)) if end <= whole => bytes,
            _ if within == 0 && end < SQLITE_FRAME_HEADER_LEN => {
                self.flush_stash()?;
                self.enter_transaction();
                Vec::with_capacity(whole)
            }
            _ if within == SQLITE_FRAME_HEADER_LEN && end < whole => {
                let Some((_, header)) = self.stash.take_if(|(at, _)| *at == frame) else {
                    return Ok(false);
                };
                header.to_vec()
            }
            _ => return Ok(false),
        };
        bytes.extend_from_slice(data);
        if end < whole {
            self.split = Some((frame, bytes));
            return Ok(true);
        }
        let Some((header, page)) = bytes.split_first_chunk() else { return Ok(false) };
        self.take_frame(frame, *header, page, size).map(|()| true)
    }

    /// Truncates the log to `len` of SQLite's bytes.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        self.split = None;
        self.settle()?;
        let end = match self.size {
            _ if len == 0 => 0,
            None => WAL_HEADER_AREA_LEN as u64,
            Some(size) => match place(len, size)? {
                Place::Header => WAL_HEADER_AREA_LEN as u64,
                Place::Frame(frame, _) => frame_offset(size, frame),
            },
        };
        if end == 0 {
            self.end_list()?;
            self.forget_written();
        }
        self.shared.running.borrow_mut().end();
        self.base.truncate(end)
    }

    /// Makes the log durable.
    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        let synced = self.sync_known(flags);
        self.unless_given_up(synced)
    }

    fn sync_known(&mut self, flags: c_int) -> Result<(), VfsError> {
        // Perhaps between a header and its page. A header that was rewritten in place is written
        // already.
        if let Some((frame, header)) = self.stash.take() {
            self.split = Some((frame, header.to_vec()));
        }
        self.settle()?;
        self.base.sync(flags)?;
        self.durable_before = self.committed_end;
        self.pin()
    }

    /// Returns the size of the log as SQLite sees it.
    pub(crate) fn size(&mut self) -> Result<u64, VfsError> {
        let physical = self.base.size()?;
        if !self.has_needed()? || physical == 0 {
            return Ok(0);
        }
        let Some(size) = self.page_size()? else { return Ok(0) };
        let frames = physical.saturating_sub(WAL_HEADER_AREA_LEN as u64) / frame_stride(size);
        let kept = self.shared.running.borrow().last().map_or(0, |last| u64::from(last) + 1);
        let frames = frames.max(kept).max(self.gathered_end(size));
        Ok(SQLITE_WAL_HEADER_LEN as u64
            + frames * (SQLITE_FRAME_HEADER_LEN as u64 + u64::from(size.bytes())))
    }

    /// Writes all gathered frames.
    pub(crate) fn settle(&mut self) -> Result<(), VfsError> {
        self.flush_stash()?;
        self.flush()
    }

    fn write_header(&mut self, header: &[u8; SQLITE_WAL_HEADER_LEN]) -> Result<(), VfsError> {
        self.settle()?;
        self.shared.running.borrow_mut().end();
        let area = self.codec().seal_header(header)?;
        self.begin_list(header)?;
        self.base.write(&area, 0)?;
        self.forget_written();
        self.note_header(header);
        // SQLite may begin a log anew within a transaction, and initially writes all its frames
        // without salts.
        self.written_salts = self.salts;
        Ok(())
    }

    fn forget_written(&mut self) {
        (self.written_end, self.committed_end, self.durable_before) = (0, 0, 0);
    }

    fn note_header(&mut self, header: &[u8; SQLITE_WAL_HEADER_LEN]) {
        let bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        self.size = PageSize::new(u64::from(bytes)).ok();
        if let Some(size) = self.size {
            // Page 1 of the main file may be torn by an interrupted checkpoint.
            self.shared.page_size.set(size);
        }
        self.salts.copy_from_slice(&header[16..24]);
    }

    /// Returns the log's page size, from its header if that was not read yet.
    fn page_size(&mut self) -> Result<Option<PageSize>, VfsError> {
        if self.size.is_some() { Ok(self.size) } else { self.load_header() }
    }

    fn load_header(&mut self) -> Result<Option<PageSize>, VfsError> {
        let mut area = [0; WAL_HEADER_AREA_LEN];
        self.base.read(&mut area, 0)?;
        if let Some(header) = self.current_header(&area)? {
            self.note_header(&header);
        }
        Ok(self.size)
    }

    fn read_header(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let mut area = [0; WAL_HEADER_AREA_LEN];
        self.base.read(&mut area, 0)?;
        out.fill(0);
        let Some(header) = self.current_header(&area)? else { return Ok(Read::Short) };
        self.note_header(&header);
        let start = usize::try_from(offset).unwrap_or(SQLITE_WAL_HEADER_LEN);
        let n = out.len().min(SQLITE_WAL_HEADER_LEN - start.min(SQLITE_WAL_HEADER_LEN));
        out[..n].copy_from_slice(&header[start..start + n]);
        Ok(if n == out.len() { Read::Full } else { Read::Short })
    }

    fn read_page(&mut self, frame: u32, size: PageSize, out: &mut [u8]) -> Result<Read, VfsError> {
        if self.shared.fresh.get().is_some() {
            return self.read_fresh(frame, size, out);
        }
        let (at, len) = (frame_offset(size, frame), FRAME_PREFIX_LEN + size.len());
        let shared = &self.shared;
        let open = |bytes: &[u8], out: &mut [u8]| {
            let (prefix, sealed) = bytes.split_at(FRAME_PREFIX_LEN);
            let page = prefix_page(prefix);
            if shared.checkpoint.get() {
                out.copy_from_slice(sealed);
                shared.sealed_page.set(page);
                return Ok(());
            }
            shared.open_page(page, sealed, out)
        };
        if let Some(gathered) = self.gathered(frame, size) {
            open(gathered, out)?;
            return Ok(Read::Full);
        }
        if let Some(opened) = self.base.with_mapped(at, len, None, |bytes| open(bytes, out)) {
            opened?;
            return Ok(Read::Full);
        }
        self.sealed.resize(len, 0);
        if self.base.read(&mut self.sealed, at)? == Read::Short {
            out.fill(0);
            return Ok(Read::Short);
        }
        open(&self.sealed, out)?;
        Ok(Read::Full)
    }

    fn read_fresh(&mut self, frame: u32, size: PageSize, out: &mut [u8]) -> Result<Read, VfsError> {
        if !self.load_frame(frame, size)? {
            out.fill(0);
            return Ok(Read::Short);
        }
        self.check_sealed(frame, size)?;
        let (prefix, sealed) = self.sealed.split_at(FRAME_PREFIX_LEN);
        let page = prefix_page(prefix);
        if self.shared.checkpoint.get() {
            out.copy_from_slice(sealed);
            self.shared.sealed_page.set(page);
            self.note_copied(frame, size)?;
        } else {
            self.shared.open_page(page, sealed, out)?;
        }
        Ok(Read::Full)
    }

    /// Reads part of a frame.
    fn read_part(
        &mut self,
        frame: u32,
        within: usize,
        size: PageSize,
        out: &mut [u8],
        offset: u64,
    ) -> Result<Read, VfsError> {
        if within + out.len() > SQLITE_FRAME_HEADER_LEN + size.len() {
            return Err(VfsError::Access { file: "WAL", offset, len: out.len() });
        }
        if !self.load_frame(frame, size)? {
            out.fill(0);
            return Ok(Read::Short);
        }
        let sealed = std::mem::take(&mut self.sealed);
        let mut plain = std::mem::take(&mut self.plain);
        plain.resize(SQLITE_FRAME_HEADER_LEN + size.len(), 0);
        let opened = self.open_frame(frame, &sealed, &mut plain);
        if opened.is_ok() {
            out.copy_from_slice(&plain[within..within + out.len()]);
        }
        (self.sealed, self.plain) = (sealed, plain);
        opened?;
        Ok(Read::Full)
    }

    /// Reads frame `frame` into `self.sealed`; returns false if the file ends before its end.
    fn load_frame(&mut self, frame: u32, size: PageSize) -> Result<bool, VfsError> {
        self.read_whole = None;
        let (at, len) = (frame_offset(size, frame), FRAME_PREFIX_LEN + size.len());
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.resize(len, 0);
        let gathered = self.gathered(frame, size).map(|bytes| sealed.copy_from_slice(bytes));
        self.sealed = sealed;
        if gathered.is_some() {
            return Ok(true);
        }
        // The file may have been truncated below the mapped length, but not below frames that we
        // wrote in the running transaction.
        if !self.is_of_running(frame) && self.base.size()? < at + len as u64 {
            return Ok(false);
        }
        Ok(self.base.read(&mut self.sealed, at)? == Read::Full)
    }

    /// Returns the sealed frame, if it is gathered.
    fn gathered(&self, frame: u32, size: PageSize) -> Option<&[u8]> {
        if self.pending_transaction != self.shared.write_transactions.get() {
            return None;
        }
        let (len, stride) = (FRAME_PREFIX_LEN + size.len(), frame_stride(size));
        let start = u64::from(frame.checked_sub(self.pending_first)?) * stride;
        let start = usize::try_from(start).ok()?;
        self.pending.get(start..start.checked_add(len)?)
    }

    /// Returns the number after the last gathered frame; 0 if there is none.
    fn gathered_end(&self, size: PageSize) -> u64 {
        let current = self.pending_transaction == self.shared.write_transactions.get();
        let frames = self.pending.len() as u64 / frame_stride(size);
        if current && frames > 0 { u64::from(self.pending_first) + frames } else { 0 }
    }

    /// SQLite gives up a transaction in which a call failed. With an exclusive lock it does not say
    /// so, and none of it may be read or written later.
    fn unless_given_up<T>(&mut self, result: Result<T, VfsError>) -> Result<T, VfsError> {
        if result.is_err() {
            self.pending.clear();
            (self.stash, self.split) = (None, None);
            self.first_of = (self.shared.write_transactions.get(), u32::MAX);
            self.shared.running.borrow_mut().end();
        }
        result
    }

    /// The following calls belong to the running write transaction. Frames that an earlier one
    /// gathered and could not write by its end must not be written with it.
    fn enter_transaction(&mut self) {
        let transaction = self.shared.write_transactions.get();
        if self.pending_transaction != transaction {
            self.pending.clear();
            self.pending_transaction = transaction;
        }
    }

    /// Returns true if we wrote frame `frame` in the running write transaction.
    fn is_of_running(&self, frame: u32) -> bool {
        let (transaction, first) = self.first_of;
        transaction == self.shared.write_transactions.get()
            && (first..self.written_end).contains(&frame)
    }

    /// Seals a frame and gathers it; the committing frame is written with all before it.
    fn gather(
        &mut self,
        frame: u32,
        header: [u8; SQLITE_FRAME_HEADER_LEN],
        plain: &[u8],
        size: PageSize,
    ) -> Result<(), VfsError> {
        let stride = FRAME_PREFIX_LEN + size.len();
        let gathered = u32::try_from(self.pending.len() / stride).unwrap_or(u32::MAX);
        if !self.pending.is_empty() && frame != self.pending_first.saturating_add(gathered) {
            self.flush()?;
        }
        if self.pending.is_empty() {
            self.pending_first = frame;
        }
        let header = self.frame_header(frame, header);
        self.unlist(frame, &header)?;
        if header.page() == 1 {
            check_page_one(plain, size)?;
        }
        let start = self.pending.len();
        self.pending.resize(start + stride, 0);
        if let Err(error) = self.seal_into(frame, &header, plain, start) {
            self.pending.truncate(start);
            return Err(error);
        }
        let end = frame.saturating_add(1);
        self.written_end = self.written_end.max(end);
        let transaction = self.shared.write_transactions.get();
        self.first_of = match self.first_of {
            (of, first) if of == transaction => (of, first.min(frame)),
            _ => (transaction, frame),
        };
        if header.commits() || self.pending.len() + stride > MAX_PENDING_LEN {
            self.flush()?;
        }
        if header.commits() {
            self.committed_end = end;
        }
        Ok(())
    }

    fn seal_into(
        &mut self,
        frame: u32,
        header: &FrameHeader,
        plain: &[u8],
        start: usize,
    ) -> Result<(), VfsError> {
        let broken = PageError::Frame { frame };
        self.renew_keys();
        let Some((prefix, page)) = self.pending[start..].split_first_chunk_mut() else {
            return Err(broken.into());
        };
        self.shared.seal_page(header.page(), plain, page)?;
        Ok(self.codec.seal_frame(frame, header, page, prefix)?)
    }

    /// Writes a header that no page followed, if that was not done at once.
    fn flush_stash(&mut self) -> Result<(), VfsError> {
        let Some((frame, sqlite)) = self.stash.take() else { return Ok(()) };
        let Some(size) = self.size else { return Ok(()) };
        let over = self.pending_transaction != self.shared.write_transactions.get();
        let done =
            self.is_ours(frame, &sqlite) || self.shared.running.borrow().get(frame).is_some();
        if over || done {
            return Ok(());
        }
        self.rewrite_header(frame, sqlite, size)
    }

    /// Returns true if we logged frame `frame` in the generation that `header` belongs to.
    fn is_ours(&self, frame: u32, header: &[u8; SQLITE_FRAME_HEADER_LEN]) -> bool {
        let header = FrameHeader { sqlite: *header, durable_before: 0 };
        frame < self.written_end
            && (header.salts() == self.written_salts || header.is_provisional())
    }

    /// SQLite rewrites the header of a frame whose page stays (`walRewriteChecksums`).
    fn rewrite_header(
        &mut self,
        frame: u32,
        sqlite: [u8; SQLITE_FRAME_HEADER_LEN],
        size: PageSize,
    ) -> Result<(), VfsError> {
        if self.rewrite_kept_header(frame, &sqlite, size)? {
            return Ok(());
        }
        self.flush()?;
        let read = (self.shared.write_transactions.get(), frame);
        if self.read_whole.take() != Some(read) && !self.load_frame(frame, size)? {
            // The page never came: SQLite met an error between the two writes.
            return Ok(());
        }
        if prefix_page(&self.sealed) != prefix_page(&sqlite) {
            // A new frame in place of one that was rolled back: its page comes next.
            return Ok(());
        }
        let header = self.frame_header(frame, sqlite);
        self.unlist(frame, &header)?;
        let mut prefix = [0; FRAME_PREFIX_LEN];
        self.renew_keys();
        self.codec.seal_frame(frame, &header, &self.sealed[FRAME_PREFIX_LEN..], &mut prefix)?;
        if is_final(&sqlite) {
            self.write_running(frame, size)?;
        }
        self.base.write(&prefix, frame_offset(size, frame))
    }

    /// Returns the header of a frame that is about to be written. Another connection may have
    /// started a new generation since our last write; we never synced its frames there.
    fn frame_header(&mut self, frame: u32, sqlite: [u8; SQLITE_FRAME_HEADER_LEN]) -> FrameHeader {
        let header = FrameHeader { sqlite, durable_before: 0 };
        // SQLite omits the salts from headers that it will rewrite before it commits.
        if header.salts() != self.written_salts && !header.is_provisional() {
            self.written_salts.copy_from_slice(header.salts());
            self.forget_written();
        }
        self.durable_before = self.durable_before.min(frame);
        FrameHeader { durable_before: self.durable_before, ..header }
    }

    fn header_of(&mut self, frame: u32) -> Result<FrameHeader, VfsError> {
        self.renew_keys();
        let (prefix, page) = self.sealed.split_at(FRAME_PREFIX_LEN);
        let seal = seal_of(page).ok_or(PageError::Frame { frame })?;
        Ok(self.codec.open_frame(frame, prefix, seal)?)
    }

    /// Returns the codec with the currently known keys.
    fn codec(&mut self) -> &mut WalCodec {
        self.renew_keys();
        &mut self.codec
    }

    fn renew_keys(&mut self) {
        let generation = self.shared.live.generation();
        if std::mem::replace(&mut self.generation, generation) != generation {
            self.codec.set_keys(self.shared.live.keys());
        }
    }

    fn flush(&mut self) -> Result<(), VfsError> {
        let (Some(size), false) = (self.size, self.pending.is_empty()) else { return Ok(()) };
        if self.pending_transaction == self.shared.write_transactions.get() {
            self.base.write(&self.pending, frame_offset(size, self.pending_first))?;
            self.read_whole = None;
        }
        self.pending.clear();
        Ok(())
    }
}

impl Drop for WalFile {
    fn drop(&mut self) {
        // Frames that no commit frame followed belong to no transaction.
        self.shared.running.borrow_mut().end();
        self.plain.fill(0);
    }
}

fn place(offset: u64, size: PageSize) -> Result<Place, VfsError> {
    let Some(in_frames) = offset.checked_sub(SQLITE_WAL_HEADER_LEN as u64) else {
        return Ok(Place::Header);
    };
    let stride = SQLITE_FRAME_HEADER_LEN as u64 + u64::from(size.bytes());
    let frame = u32::try_from(in_frames / stride).map_err(|_| VfsError::Access {
        file: "WAL",
        offset,
        len: 0,
    })?;
    Ok(Place::Frame(frame, usize::try_from(in_frames % stride).unwrap_or(0)))
}
