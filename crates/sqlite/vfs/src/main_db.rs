//! The main file of an encrypted database.
#![allow(unsafe_code)]

mod current;
mod spilled;

use std::ffi::c_int;
use std::rc::Rc;

use tdekit_sqlite_page::fresh::tag_of;
use tdekit_sqlite_page::page::seal_of;
use tdekit_sqlite_page::{HEADER_AREA_LEN, PageSize, RESERVE_LEN};

use crate::VfsError;
use crate::base::{BaseFile, MAX_TRANSFER_LEN, Read};
use crate::children::Children;
use crate::ffi;
use crate::fresh::{Fresh, Place};
use crate::freshness::{is_suspended, refuse_anchored};
use crate::live_keys::SlotIds;
use crate::page_one::check_page_one;
use crate::resize::Resize;
use crate::shared::Shared;
use spilled::Spilled;

/// Maximum number of sealed bytes that are gathered before they are written.
const MAX_PENDING_LEN: usize = MAX_TRANSFER_LEN;
/// SQLite's smallest page size, too small for a seal.
const SMALLEST_OF_SQLITE: u32 = 512;
/// Bytes of SQLite's own database header.
const SQLITE_HEADER_LEN: usize = 100;

/// The main file of an encrypted database.
pub(crate) struct MainFile {
    pub(crate) base: BaseFile,
    pub(crate) shared: Rc<Shared>,
    pending: Pending,
    spilled: Spilled,
    /// Bytes below this offset exist in the file or in `pending`; 0 if nothing is known.
    known_end: u64,
    /// New pages of another size, while SQLite writes them.
    resize: Option<Resize>,
    children: Children,
    /// The length to which the file was truncated under the write lock.
    cut: Option<u64>,
    /// The lock that we hold.
    level: c_int,
    /// True if SQLite reads the log, if there is one.
    reads_log: bool,
    /// True if SQLite has announced a commit (`FCNTL_SYNC`), and no sync has followed.
    commits: bool,
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

/// Consecutive sealed pages that are not yet written.
#[derive(Default)]
struct Pending {
    offset: u64,
    bytes: Vec<u8>,
    /// Value of `journals_lost` when the first of the pages was gathered.
    journals_lost: u64,
}

impl Pending {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns the sealed page at `at`, if it is gathered here.
    fn page(&self, at: u64, size: PageSize) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(size.len())?)
    }
}

impl MainFile {
    /// Takes over a file on which the connection holds the lock `level`.
    pub(crate) fn new(mut base: BaseFile, shared: Rc<Shared>, level: c_int) -> Self {
        base.allow_mapping();
        // SAFETY: `drop` takes the reader back before the file closes; SQLite serialises all calls
        // on the files of a connection.
        shared.live.attach(Some(unsafe { base.reader() }));
        Self {
            base,
            shared,
            pending: Pending::default(),
            spilled: Spilled::default(),
            known_end: 0,
            resize: None,
            children: Children::default(),
            cut: None,
            level,
            reads_log: false,
            commits: false,
            sealed: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Sets the database's name: logs its opening and checks its anchor, each if that is required.
    pub(crate) fn opened_as(&mut self, place: &Place) -> Result<(), VfsError> {
        let live = &self.shared.live;
        live.ring().log_opening(&place.path, &live.header())?;
        self.begin_freshness(place)
    }

    /// Checks the anchor from now on, if the header says that the database has freshness.
    pub(crate) fn begin_freshness(&mut self, place: &Place) -> Result<(), VfsError> {
        let (freshness, file_id) = {
            let header = self.shared.live.header();
            (header.freshness, header.file_id)
        };
        if is_suspended() {
            return Ok(());
        }
        if !freshness {
            return refuse_anchored(place.anchors.as_deref(), &file_id);
        }
        if self.shared.fresh.get().is_none() {
            let fresh = Fresh::open(place, file_id)?;
            fresh.refresh()?;
            // The cell was empty.
            let _ = self.shared.fresh.set(Rc::new(fresh));
        }
        Ok(())
    }

    /// Reads plaintext at SQLite's offset. Until a page has opened, the page size is a guess; and
    /// another connection may change it (by making the database anew) whenever we hold no lock.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let result = match self.read_range(out, offset) {
            Err(VfsError::Page(_)) if self.shared.live.learn()? => self.read_range(out, offset),
            other => other,
        };
        let result = match result {
            Err(VfsError::Page(_) | VfsError::Truncated { .. }) if self.find_size()? => {
                self.read_range(out, offset)
            }
            other => other,
        };
        match result {
            // These bytes show SQLite whether its cache is up to date: zeros mean that it is not,
            // and page 1 is read again with all others.
            Err(VfsError::Stale { .. }) if out.len() < SQLITE_HEADER_LEN => {
                out.fill(0);
                Ok(Read::Full)
            }
            Err(VfsError::Page(_) | VfsError::Truncated { .. } | VfsError::Stale { .. })
                if offset == 0 && out.len() == SQLITE_HEADER_LEN =>
            {
                // SQLite reads these without a lock when it opens the file, perhaps while another
                // process writes page 1. It reads the same bytes again under a lock, and then
                // damage is an error.
                provisional_header(out, self.shared.page_size.get());
                Ok(Read::Full)
            }
            Err(VfsError::Stale { number: 1, .. }) if self.must_look_for_log() => {
                Err(VfsError::Base(ffi::BUSY))
            }
            other => other,
        }
    }

    /// Seals a page and gathers it for writing.
    pub(crate) fn write(&mut self, plain: &[u8], offset: u64) -> Result<(), VfsError> {
        let unexpected = VfsError::Access { file: "main file", offset, len: plain.len() };
        let size = PageSize::of(plain).map_err(|_| match u32::try_from(plain.len()) {
            Ok(size @ SMALLEST_OF_SQLITE) => VfsError::PageTooSmall { size },
            _ => unexpected,
        })?;
        if let Some(resize) = &mut self.resize {
            resize.add(plain, offset)?;
            return self.gather_resized();
        }
        let page = page_at(offset, size)?;
        if self.shared.checkpoint.get() && self.shared.sealed_page.replace(0) == page {
            let at = size.page_offset(page);
            self.fill_gap(at, size)?;
            self.base.write(plain, at)?;
            self.note(page, plain);
            self.known_end = self.known_end.max(at + plain.len() as u64);
            return Ok(());
        }
        if page == 1 {
            match check_page_one(plain, size) {
                Err(VfsError::PageSize { to, .. }) if self.has_no_page()? => {
                    self.resize = Some(Resize::begin(plain, to)?);
                    return self.gather_resized();
                }
                checked => checked?,
            }
        }
        // A new database may spill other pages before page 1.
        let believed = self.shared.page_size.replace(size);
        if let (true, Some(cut)) = (believed != size, self.cut) {
            // The size was not known yet when a journal's playback truncated the file.
            self.note_end(cut, size, Fresh::set_pages);
        }
        self.take_page(page, size, plain)?;
        // A checkpoint considers pages written without asking for a sync. And a shim above us may
        // hold writes back until SQLite's sync, and not pass that on: they come last.
        if self.shared.checkpoint.get() || self.commits { self.flush() } else { Ok(()) }
    }

    /// Truncates or extends the file to `len` of SQLite's bytes.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        if self.resize.take().is_some() && len > 0 {
            return Err(VfsError::Access { file: "main file", offset: len, len: 0 });
        }
        let end = HEADER_AREA_LEN + len;
        self.forget_behind(end);
        self.flush()?;
        self.shared.flush_journal()?;
        self.known_end = 0;
        if self.base.size()? < end {
            return self.fill_gap(end, self.shared.page_size.get());
        }
        self.base.truncate(end)?;
        self.note_end(len, self.shared.page_size.get(), Fresh::note_pages);
        self.cut = Some(len);
        // Otherwise a checkpoint truncates the file.
        match self.shared.fresh.get() {
            Some(fresh) if self.level < ffi::LOCK_RESERVED => fresh.finish(),
            _ => Ok(()),
        }
    }

    fn note_end(&self, len: u64, size: PageSize, note: impl FnOnce(&Fresh, u32)) {
        if let Some(fresh) = self.shared.fresh.get() {
            note(fresh, u32::try_from(len / u64::from(size.bytes())).unwrap_or(u32::MAX));
        }
    }

    /// Makes the file durable.
    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        if self.resize.is_some() {
            return Err(VfsError::Access { file: "main file", offset: 0, len: 0 });
        }
        self.flush()?;
        self.commits = false;
        self.base.sync(flags)?;
        let Some(fresh) = self.shared.fresh.get() else { return Ok(()) };
        fresh.prepare()?;
        // A later failure could not be reported: SQLite ends a rollback by releasing the lock.
        if self.level == ffi::LOCK_EXCLUSIVE { fresh.settle() } else { Ok(()) }
    }

    /// Writes the gathered pages before a commit ends its journal, whether SQLite syncs then or not
    /// (`FCNTL_SYNC`).
    pub(crate) fn commit(&mut self) -> Result<(), VfsError> {
        self.commits = true;
        self.flush()?;
        self.shared.fresh.get().map_or(Ok(()), |fresh| fresh.prepare())
    }

    /// Called when a commit is done. If it had no journal file, moves the anchor now.
    pub(crate) fn committed(&mut self) -> Result<(), VfsError> {
        self.shared.fresh.get().map_or(Ok(()), |fresh| fresh.settle())
    }

    /// Returns the size of the file as SQLite sees it.
    pub(crate) fn size(&mut self) -> Result<u64, VfsError> {
        let end = self.base.size()?.max(self.gathered_end());
        let len = end.saturating_sub(HEADER_AREA_LEN);
        // SQLite takes a file without pages for a new database, and never reads a page of it.
        match self.shared.fresh.get() {
            Some(fresh) if len == 0 && self.level > ffi::LOCK_NONE => {
                match fresh.has_committed_pages()? {
                    true => Err(VfsError::Stale { what: "page", number: 1 }),
                    false => Ok(0),
                }
            }
            _ => Ok(len),
        }
    }

    /// Returns true if there is no page.
    pub(crate) fn is_empty(&mut self) -> Result<bool, VfsError> {
        Ok(self.base.size()?.max(self.gathered_end()) <= HEADER_AREA_LEN)
    }

    /// Takes a lock; earlier changes by others are unknown after it.
    pub(crate) fn lock(&mut self, level: c_int) -> Result<(), VfsError> {
        self.known_end = 0;
        self.cut = None;
        self.commits = false;
        self.base.lock(level)?;
        if self.level == ffi::LOCK_NONE {
            self.base.forget_cut();
        }
        if self.level < ffi::LOCK_RESERVED {
            self.shared.forget_journal();
            if let Err(error) = self.learn(level) {
                self.base.unlock(self.level)?;
                return Err(error);
            }
        }
        self.level = level;
        self.shared.exclusive.set(level == ffi::LOCK_EXCLUSIVE);
        Ok(())
    }

    /// Reads what others changed before we got the lock `level`.
    fn learn(&mut self, level: c_int) -> Result<(), VfsError> {
        self.base.drop_lost();
        let writes = level >= ffi::LOCK_RESERVED;
        if writes {
            self.shared.live.learn()?;
        }
        let Some(fresh) = self.known_fresh()? else { return Ok(()) };
        if writes {
            fresh.begin();
        }
        fresh.refresh()
    }

    /// Returns the database's freshness, provided that the header still says what it said when the
    /// connection opened it.
    fn known_fresh(&self) -> Result<Option<&Rc<Fresh>>, VfsError> {
        let fresh = self.shared.fresh.get();
        if self.shared.live.header().freshness == fresh.is_some() || is_suspended() {
            return Ok(fresh);
        }
        Err(VfsError::FreshnessSwitched)
    }

    /// Takes or releases a lock of the WAL index. Under the locks for writing, checkpointing or
    /// recovering the log, the keys are those of the header.
    pub(crate) fn shm_lock(
        &mut self,
        slot: c_int,
        n: c_int,
        flags: c_int,
    ) -> Result<c_int, VfsError> {
        if flags == ffi::SHM_UNLOCK | ffi::SHM_EXCLUSIVE && slot == ffi::WAL_WRITE_LOCK {
            let ended = &self.shared.write_transactions;
            ended.set(ended.get().wrapping_add(1));
            self.shared.writes_log.set(false);
            self.shared.running.borrow_mut().end();
        }
        let code = self.base.shm_lock(slot, n, flags);
        if code != ffi::OK || flags & ffi::SHM_LOCK == 0 {
            return Ok(code);
        }
        self.reads_log = true;
        let writes = flags & ffi::SHM_EXCLUSIVE != 0 && slot <= ffi::WAL_RECOVER_LOCK;
        if let Err(error) = self.learn_log(writes) {
            self.base.shm_lock(slot, n, flags & !ffi::SHM_LOCK | ffi::SHM_UNLOCK);
            return Err(error);
        }
        if slot == ffi::WAL_WRITE_LOCK && flags & ffi::SHM_EXCLUSIVE != 0 {
            self.shared.writes_log.set(true);
        }
        Ok(code)
    }

    /// Returns what identifies the header's slots in the file.
    pub(crate) fn slot_ids(&mut self) -> Result<Option<SlotIds>, VfsError> {
        self.base.drop_lost();
        self.shared.live.slot_ids()
    }

    /// Records that SQLite has released the WAL index.
    pub(crate) fn shm_unmapped(&mut self) {
        self.reads_log = false;
    }

    /// Reads what others changed before we got a lock of the log.
    fn learn_log(&mut self, writes: bool) -> Result<(), VfsError> {
        self.base.drop_lost();
        if writes {
            self.shared.live.learn()?;
        }
        self.known_fresh()?.map_or(Ok(()), |fresh| fresh.refresh())
    }

    /// Steps down to a lock. SQLite has flushed everything it commits (`FCNTL_SYNC`); gathered
    /// pages still belong to a transaction that it gives up, whose journal they must not outlive.
    pub(crate) fn unlock(&mut self, level: c_int) -> Result<(), VfsError> {
        self.discard();
        self.commits = false;
        self.resize = None;
        let released = match self.shared.fresh.get() {
            Some(fresh) if self.level >= ffi::LOCK_RESERVED && level < ffi::LOCK_RESERVED => {
                fresh.release()
            }
            _ => Ok(()),
        };
        self.base.unlock(level)?;
        self.level = self.level.min(level);
        self.shared.exclusive.set(self.level == ffi::LOCK_EXCLUSIVE);
        self.shared.forget_journal();
        released
    }

    /// Starts or ends the part of a checkpoint that copies pages.
    pub(crate) fn set_checkpoint(&mut self, running: bool) -> Result<(), VfsError> {
        self.known_end = 0;
        self.shared.sealed_page.set(0);
        self.shared.checkpoint.set(running);
        self.flush()?;
        match self.shared.fresh.get() {
            // The copied pages are read here as soon as the index says so, which comes next.
            Some(fresh) if !running => fresh.finish(),
            _ => Ok(()),
        }
    }

    /// Writes the gathered pages, after the journal that can undo them. SQLite undoes a transaction
    /// after a failed write, truncation or sync, and must write the pages again for that: so after
    /// a failure nothing stays gathered. For the same reason, a call whose failure a transaction
    /// survives, such as a read, must not flush.
    pub(crate) fn flush(&mut self) -> Result<(), VfsError> {
        self.write_spilled()?;
        self.write_pending()
    }

    fn write_pending(&mut self) -> Result<(), VfsError> {
        if self.pending.bytes.is_empty() {
            return Ok(());
        }
        let written = match self.pending.journals_lost == self.shared.journals_lost.get() {
            true => self.shared.flush_journal(),
            false => Err(VfsError::JournalGone),
        }
        .and_then(|()| self.base.write(&self.pending.bytes, self.pending.offset));
        match written {
            Ok(()) => {
                self.note_pending();
                self.pending.bytes.clear();
            }
            Err(_) => self.discard(),
        }
        written
    }

    fn note_pending(&self) {
        if self.shared.fresh.get().is_none() {
            return;
        }
        let size = self.shared.page_size.get();
        let first = (self.pending.offset - HEADER_AREA_LEN) / u64::from(size.bytes()) + 1;
        for (page, sealed) in (first..).zip(self.pending.bytes.chunks_exact(size.len())) {
            self.note(u32::try_from(page).unwrap_or(u32::MAX), sealed);
        }
    }

    /// Records the tag of a written page.
    fn note(&self, page: u32, sealed: &[u8]) {
        if let (Some(fresh), Some(seal)) = (self.shared.fresh.get(), seal_of(sealed)) {
            fresh.note(page, tag_of(seal));
        }
    }

    /// Drops pages that are about to be truncated instead of writing them: a transaction that met a
    /// full disk is undone on a full disk.
    fn forget_behind(&mut self, end: u64) {
        let keep = usize::try_from(end.saturating_sub(self.pending.offset)).unwrap_or(usize::MAX);
        if keep < self.pending.bytes.len() {
            let page = self.shared.page_size.get().len();
            self.pending.bytes.truncate(keep.next_multiple_of(page));
        }
        self.spilled.forget_behind(end, self.shared.page_size.get());
    }

    fn discard(&mut self) {
        self.pending.bytes.clear();
        self.spilled = Spilled::default();
        self.known_end = 0;
    }

    /// Returns true if no page was ever written, or all were truncated.
    fn has_no_page(&mut self) -> Result<bool, VfsError> {
        Ok(self.gathered_end() == 0 && self.base.size()? <= HEADER_AREA_LEN)
    }

    /// Seals the pages of another size once the last of them is whole.
    fn gather_resized(&mut self) -> Result<(), VfsError> {
        let Some(resize) = self.resize.take_if(|resize| resize.is_whole()) else { return Ok(()) };
        self.shared.page_size.set(resize.size());
        resize.pages().try_for_each(|(page, plain)| self.gather(page, resize.size(), plain))
    }

    fn gather(&mut self, page: u32, size: PageSize, plain: &[u8]) -> Result<(), VfsError> {
        let at = size.page_offset(page);
        let full = self.pending.bytes.len() + size.len() > MAX_PENDING_LEN;
        if full || self.pending.end() != at {
            self.write_pending()?;
        }
        self.fill_gap(at, size)?;
        if self.pending.bytes.is_empty() {
            self.pending.offset = at;
            self.pending.journals_lost = self.shared.journals_lost.get();
        }
        let start = self.pending.bytes.len();
        self.pending.bytes.resize(start + size.len(), 0);
        let sealed = self.shared.seal_page(page, plain, &mut self.pending.bytes[start..]);
        if sealed.is_err() {
            self.pending.bytes.truncate(start);
        }
        self.known_end = self.known_end.max(self.pending.end());
        Ok(sealed?)
    }

    /// Writes sealed zero pages between the end of the file and `at`: a hole would not open, and if
    /// zeros opened as zeros, anyone could blank a page.
    fn fill_gap(&mut self, at: u64, size: PageSize) -> Result<(), VfsError> {
        if at <= self.known_end {
            return Ok(());
        }
        self.known_end = self.base.size()?.max(self.gathered_end()).max(HEADER_AREA_LEN);
        if at <= self.known_end {
            return Ok(());
        }
        self.write_pending()?;
        self.shared.flush_journal()?;
        let zeros = vec![0; size.len()];
        let mut sealed = vec![0; size.len()];
        // A page inside which the file ends was never whole: it is filled, too.
        let first = (self.known_end - HEADER_AREA_LEN) / u64::from(size.bytes());
        let mut page = u32::try_from(first + 1).map_err(|_| VfsError::Base(ffi::FULL))?;
        while size.page_offset(page) < at {
            self.shared.seal_page(page, &zeros, &mut sealed)?;
            self.base.write(&sealed, size.page_offset(page))?;
            self.note(page, &sealed);
            page = page.checked_add(1).ok_or(VfsError::Base(ffi::FULL))?;
        }
        self.known_end = at;
        Ok(())
    }

    fn read_page(&mut self, page: u32, size: PageSize, out: &mut [u8]) -> Result<Read, VfsError> {
        let at = size.page_offset(page);
        let next = self.children.after(page).map(|next| size.page_offset(next));
        if self.read_spilled(page, out) {
            return Ok(Read::Full);
        }
        let shared = &self.shared;
        if let Some(sealed) = self.pending.page(at, size) {
            shared.open_page(page, sealed, out)?;
            return Ok(Read::Full);
        }
        if shared.fresh.get().is_some() {
            return self.read_fresh(page, size, out);
        }
        let open = |sealed: &[u8]| shared.open_page(page, sealed, out);
        if let Some(opened) = self.base.with_mapped(at, size.len(), next, open) {
            opened?;
            if self.base.is_scan() {
                self.children.note(page, out);
            }
            return Ok(Read::Full);
        }
        self.read_unmapped(page, size, out)
    }

    fn read_unmapped(
        &mut self,
        page: u32,
        size: PageSize,
        out: &mut [u8],
    ) -> Result<Read, VfsError> {
        let at = size.page_offset(page);
        self.sealed.resize(size.len(), 0);
        match self.base.read(&mut self.sealed, at)? {
            Read::Full => {
                self.shared.open_page(page, &self.sealed, out)?;
                Ok(Read::Full)
            }
            Read::Short if self.base.size()? <= at && !self.base.was_cut(at + 1) => {
                out.fill(0);
                Ok(Read::Short)
            }
            Read::Short => Err(VfsError::Truncated { page }),
        }
    }

    /// Reads any range at the assumed page size.
    fn read_range(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let size = self.shared.page_size.get();
        if out.len() == size.len() && offset.is_multiple_of(u64::from(size.bytes())) {
            return self.read_page(page_at(offset, size)?, size, out);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.resize(size.len(), 0);
        let result = self.read_pages(out, offset, size, &mut plain);
        self.plain = plain;
        result
    }

    fn read_pages(
        &mut self,
        out: &mut [u8],
        offset: u64,
        size: PageSize,
        plain: &mut [u8],
    ) -> Result<Read, VfsError> {
        let mut result = Read::Full;
        let (mut done, mut at) = (0, offset);
        while done < out.len() {
            let start = usize::try_from(at % u64::from(size.bytes())).unwrap_or(0);
            let page = page_at(at - start as u64, size)?;
            if self.read_page(page, size, plain)? == Read::Short {
                result = Read::Short;
            }
            let n = (size.len() - start).min(out.len() - done);
            out[done..done + n].copy_from_slice(&plain[start..start + n]);
            (done, at) = (done + n, at + n as u64);
        }
        Ok(result)
    }

    /// Finds the size at which page 1 opens; returns true if it differs from the assumed one.
    fn find_size(&mut self) -> Result<bool, VfsError> {
        let believed = self.shared.page_size.get();
        let others = PageSize::all().filter(|&size| size != believed);
        let mut plain = std::mem::take(&mut self.plain);
        let mut found = Ok(None);
        for size in std::iter::once(believed).chain(others) {
            plain.resize(size.len(), 0);
            found = match self.read_page(1, size, &mut plain) {
                Ok(Read::Full) | Err(VfsError::Stale { .. }) => Ok(Some(size)),
                Ok(Read::Short) | Err(VfsError::Page(_) | VfsError::Truncated { .. }) => continue,
                Err(other) => Err(other),
            };
            break;
        }
        self.plain = plain;
        let Some(size) = found?.filter(|&size| size != believed) else { return Ok(false) };
        self.shared.page_size.set(size);
        Ok(true)
    }
}

impl Drop for MainFile {
    fn drop(&mut self) {
        self.shared.live.attach(None);
        // The gathered pages do not belong to a committed transaction yet.
        self.plain.fill(0);
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |field| u32::from_be_bytes(*field))
}

fn page_at(offset: u64, size: PageSize) -> Result<u32, VfsError> {
    let bytes = u64::from(size.bytes());
    let unexpected = VfsError::Access { file: "main file", offset, len: size.len() };
    if !offset.is_multiple_of(bytes) {
        return Err(unexpected);
    }
    u32::try_from(offset / bytes + 1).map_err(|_| unexpected)
}

/// Writes the fields that SQLite uses from its first, unlocked read of the header.
fn provisional_header(out: &mut [u8], size: PageSize) {
    out.fill(0);
    out[..16].copy_from_slice(b"SQLite format 3\0");
    // 65536 is stored as 1 (SQLite file format, 1.3.2).
    let stored = u16::try_from(size.bytes()).unwrap_or(1);
    out[16..18].copy_from_slice(&stored.to_be_bytes());
    out[18..24].copy_from_slice(&[1, 1, RESERVE_LEN.to_le_bytes()[0], 64, 32, 32]);
}
