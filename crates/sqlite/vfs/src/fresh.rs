//! Freshness of one database: the tags that its pages must have, and the anchor that pins them.
//!
//! A committing connection lists the new tags in a file beside the database, syncs it, and moves
//! the anchor. In the rollback modes that is the moment of the commit: a journal applies only to
//! the state that its salt names, so the journal of a transaction that is in the anchor is void. In
//! WAL mode the anchor pins the log's frames when the log is synced, and the main file's pages when
//! a checkpoint has copied them. SQLite's locks order all of it; `docs/format/freshness.md` has the
//! reasons.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tdekit_sqlite_page::fresh::{
    ANCHOR_LEN, ListAnchor, ListMark, LogAnchor, LogId, LogMark, Tag, apply_record,
    decode_snapshot, encode_anchor, encode_record, encode_snapshot, journal_mark, record_digest,
    snapshot_digest,
};

use crate::VfsError;
use crate::base::Read;
use crate::ffi::Vfs;
use crate::freshness::{LIST_SUFFIXES, anchor_name};
use crate::side::SideFile;

/// Full sync, of data alone where that is enough (`SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY`).
const SYNC: i32 = 0x12;
/// Minimum number of bytes of records before a new snapshot replaces them.
const MIN_RECORDS_LEN: u64 = 256 * 1024;
/// Maximum number of attempts to read an anchor that others are moving.
const ATTEMPTS: u32 = 5;

/// The location of a database's files.
#[derive(Clone)]
pub(crate) struct Place {
    /// The VFS below.
    pub(crate) below: *mut Vfs,
    /// The main file's name.
    pub(crate) path: Vec<u8>,
    /// The directory of anchors; `None` for the key store's.
    pub(crate) anchors: Option<PathBuf>,
}

/// The freshness of one database, for the files of one connection.
pub(crate) struct Fresh {
    file_id: [u8; 16],
    place: Place,
    anchor_path: PathBuf,
    inner: RefCell<Inner>,
    /// True if a journal file can undo the running transaction.
    journal: Cell<bool>,
    /// True if that journal names a super-journal: this database alone does not decide on the
    /// commit.
    several: Cell<bool>,
}

struct Inner {
    anchor: SideFile,
    lists: [Option<SideFile>; 2],
    /// The anchor's bytes when last read; empty to force reading everything.
    seen: Vec<u8>,
    list: ListAnchor,
    log: LogAnchor,
    tags: Vec<Tag>,
    /// The state of the list to which `tags` belongs.
    at: ListMark,
    /// Tags of pages written since, and the number of pages if it changed.
    written: BTreeMap<u32, Tag>,
    pages: Option<u32>,
    /// True if `list.prepared` belongs to the transaction that runs here, with nothing written
    /// since.
    prepared_here: bool,
    /// Frames that a checkpoint has copied.
    copied: Option<LogMark>,
}

impl Inner {
    fn page_count(&self) -> u32 {
        self.pages.unwrap_or(u32::try_from(self.tags.len()).unwrap_or(u32::MAX))
    }

    fn is_dirty(&self) -> bool {
        !self.written.is_empty() || self.pages.is_some()
    }

    fn forget_written(&mut self) {
        self.written.clear();
        (self.pages, self.prepared_here, self.copied) = (None, false, None);
    }

    fn apply_written(&mut self) {
        let count = self.page_count() as usize;
        self.tags.resize(count, Tag::default());
        for (page, tag) in std::mem::take(&mut self.written) {
            if let Some(known) = self.tags.get_mut((page as usize).saturating_sub(1)) {
                *known = tag;
            }
        }
        self.forget_written();
    }

    fn expected(&self, page: u32) -> Option<Tag> {
        if page > self.page_count() {
            return None;
        }
        let listed = self.tags.get((page as usize).checked_sub(1)?);
        self.written.get(&page).or(listed).copied()
    }
}

impl Fresh {
    /// Opens the freshness of a database whose header has the flag.
    pub(crate) fn open(place: &Place, file_id: [u8; 16]) -> Result<Self, VfsError> {
        let anchor_path = anchor_name(place.anchors.as_deref(), &file_id)?;
        let missing = |_| VfsError::NoAnchor { path: anchor_path.clone() };
        let anchor = SideFile::open(place.below, path_bytes(&anchor_path), false);
        let inner = Inner {
            anchor: anchor.map_err(missing)?,
            lists: [None, None],
            seen: Vec::new(),
            list: ListAnchor {
                sequence: 0,
                file: 0,
                switching: false,
                snapshot_len: 0,
                base: ListMark::default(),
                prepared: None,
                copied: LogMark::default(),
            },
            log: LogAnchor { sequence: 0, mark: LogMark::default() },
            tags: Vec::new(),
            at: ListMark::default(),
            written: BTreeMap::new(),
            pages: None,
            prepared_here: false,
            copied: None,
        };
        Ok(Self {
            file_id,
            place: place.clone(),
            anchor_path,
            inner: RefCell::new(inner),
            journal: Cell::new(false),
            several: Cell::new(false),
        })
    }

    /// Makes list and anchor of a database without pages.
    pub(crate) fn create(place: &Place, file_id: [u8; 16]) -> Result<(), VfsError> {
        let path = anchor_name(place.anchors.as_deref(), &file_id)?;
        crate::freshness::make_directory(&path)?;
        let snapshot = encode_snapshot(&file_id, &[])?;
        let anchor = encode_anchor(&file_id, &snapshot, 1, false);
        for (path, bytes) in [(list_path(place, 0), &snapshot), (path_bytes(&path).into(), &anchor)]
        {
            let mut file = SideFile::open(place.below, &path, true)?;
            file.write(bytes, 0)?;
            file.sync(SYNC)?;
        }
        Ok(())
    }

    /// Returns true if the database has a log beside it.
    pub(crate) fn has_log(&self) -> bool {
        let mut path = self.place.path.clone();
        path.extend_from_slice(b"-wal");
        let path: &std::path::Path = std::ffi::OsStr::from_bytes(&path).as_ref();
        std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
    }

    /// Reads what others have committed.
    ///
    /// # Errors
    /// `NoAnchor`, `StaleList`.
    pub(crate) fn refresh(&self) -> Result<(), VfsError> {
        let mut inner = self.inner.borrow_mut();
        let mut attempt = 0;
        loop {
            let mut bytes = [0; ANCHOR_LEN];
            inner.anchor.read(&mut bytes, 0)?;
            if inner.seen == bytes {
                return Ok(());
            }
            let list = ListAnchor::decode(&bytes, &self.file_id);
            let log = LogAnchor::decode(&bytes, &self.file_id);
            let (Some(list), Some(log)) = (list, log) else {
                return Err(VfsError::NoAnchor { path: self.anchor_path.clone() });
            };
            inner.log = log;
            let loaded = if list == inner.list && !inner.seen.is_empty() {
                Ok(())
            } else {
                self.load(&mut inner, list)
            };
            match loaded {
                Ok(()) => {
                    inner.seen = bytes.to_vec();
                    return Ok(());
                }
                // Another process may have started a new snapshot in the meantime.
                Err(_) if attempt < ATTEMPTS => {
                    inner.seen.clear();
                    attempt += 1;
                }
                Err(error) => {
                    inner.seen.clear();
                    return Err(error);
                }
            }
        }
    }

    /// Sets `tags` to those of `list`, including a prepared state if that is readable.
    fn load(&self, inner: &mut Inner, list: ListAnchor) -> Result<(), VfsError> {
        let target = list.prepared.unwrap_or(list.base);
        let same = (list.file, list.snapshot_len) == (inner.list.file, inner.list.snapshot_len)
            && !inner.seen.is_empty();
        if same && inner.at.len <= target.len {
            let mut tags = std::mem::take(&mut inner.tags);
            if self.follow(inner, &list, inner.at, target, &mut tags)? {
                (inner.tags, inner.at, inner.list) = (tags, target, list);
                return Ok(());
            }
        }
        self.load_whole(inner, &list)?;
        inner.list = list;
        Ok(())
    }

    fn load_whole(&self, inner: &mut Inner, list: &ListAnchor) -> Result<(), VfsError> {
        let snapshot = self.read_list(inner, list.file, 0, list.snapshot_len)?;
        let tags = decode_snapshot(&self.file_id, &snapshot);
        let start = ListMark { len: list.snapshot_len, digest: snapshot_digest(&snapshot) };
        let Some(mut tags) = tags else { return Err(VfsError::StaleList) };
        if !self.follow(inner, list, start, list.base, &mut tags)? {
            return Err(VfsError::StaleList);
        }
        (inner.tags, inner.at) = (tags, list.base);
        if let Some(prepared) = list.prepared {
            // If it cannot be read, another record was started in its place: the journal that
            // undoes it exists, and everything read before is the base.
            let mut tags = inner.tags.clone();
            if self.follow(inner, list, list.base, prepared, &mut tags)? {
                (inner.tags, inner.at) = (tags, prepared);
            }
        }
        Ok(())
    }

    /// Applies the records from one state to another; returns true if they lead there.
    fn follow(
        &self,
        inner: &mut Inner,
        list: &ListAnchor,
        from: ListMark,
        to: ListMark,
        tags: &mut Vec<Tag>,
    ) -> Result<bool, VfsError> {
        let Some(len) = to.len.checked_sub(from.len) else { return Ok(false) };
        let bytes = match len {
            0 => Vec::new(),
            len => match self.read_list(inner, list.file, from.len, len) {
                Ok(bytes) => bytes,
                Err(VfsError::StaleList) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let (mut digest, mut rest) = (from.digest, bytes.as_slice());
        while !rest.is_empty() {
            let Some(used) = apply_record(rest, tags) else { return Ok(false) };
            digest = record_digest(&digest, &rest[..used]);
            rest = &rest[used..];
        }
        Ok(digest == to.digest)
    }

    fn read_list(
        &self,
        inner: &mut Inner,
        file: u8,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, VfsError> {
        let list = match self.list(inner, file, false) {
            Ok(list) => list,
            Err(_) => return Err(VfsError::StaleList),
        };
        if list.size()? < at.saturating_add(len) {
            return Err(VfsError::StaleList);
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        match list.read(&mut bytes, at)? {
            Read::Full => Ok(bytes),
            Read::Short => Err(VfsError::StaleList),
        }
    }

    fn list<'a>(
        &self,
        inner: &'a mut Inner,
        file: u8,
        create: bool,
    ) -> Result<&'a mut SideFile, VfsError> {
        let place = &mut inner.lists[usize::from(file & 1)];
        let opened = match place.take() {
            Some(open) => open,
            None => SideFile::open(self.place.below, &list_path(&self.place, file), create)?,
        };
        Ok(place.insert(opened))
    }

    /// Returns true if `page` may have `tag` now.
    pub(crate) fn is_fresh(&self, page: u32, tag: &Tag) -> bool {
        self.inner.borrow().expected(page).as_ref() == Some(tag)
    }

    /// Returns true if the file must have `page`.
    pub(crate) fn has_page(&self, page: u32) -> bool {
        page <= self.inner.borrow().page_count()
    }

    /// Returns true if the committed database has pages. There may be only a prepared state: a
    /// crash then leaves a file without pages, and the journal's super-journal decides.
    ///
    /// # Errors
    /// `StaleList`.
    pub(crate) fn has_committed_pages(&self) -> Result<bool, VfsError> {
        let mut inner = self.inner.borrow_mut();
        if inner.list.prepared.is_none() {
            return Ok(inner.page_count() > 0);
        }
        let list = inner.list;
        let snapshot = self.read_list(&mut inner, list.file, 0, list.snapshot_len)?;
        let start = ListMark { len: list.snapshot_len, digest: snapshot_digest(&snapshot) };
        let tags = decode_snapshot(&self.file_id, &snapshot);
        let Some(mut tags) = tags else { return Err(VfsError::StaleList) };
        match self.follow(&mut inner, &list, start, list.base, &mut tags)? {
            true => Ok(!tags.is_empty()),
            false => Err(VfsError::StaleList),
        }
    }

    /// Records that `page` was written, with `tag`.
    pub(crate) fn note(&self, page: u32, tag: Tag) {
        let mut inner = self.inner.borrow_mut();
        if page > inner.page_count() {
            inner.pages = Some(page);
        }
        inner.written.insert(page, tag);
        inner.prepared_here = false;
    }

    /// Records that the file was truncated to `pages` pages.
    pub(crate) fn note_pages(&self, pages: u32) {
        let mut inner = self.inner.borrow_mut();
        if pages < inner.page_count() {
            inner.written.retain(|&page, _| page <= pages);
            (inner.pages, inner.prepared_here) = (Some(pages), false);
        }
    }

    /// Called when the write lock was acquired: no journal is known yet.
    pub(crate) fn begin(&self) {
        self.journal.set(false);
        self.several.set(false);
    }

    /// Records that the file has exactly `pages` pages.
    pub(crate) fn set_pages(&self, pages: u32) {
        let mut inner = self.inner.borrow_mut();
        inner.written.retain(|&page, _| page <= pages);
        (inner.pages, inner.prepared_here) = (Some(pages), false);
    }

    /// Called when a journal is begun; returns the end of its salt. Anything prepared before is
    /// committed.
    pub(crate) fn begin_journal(&self) -> Result<[u8; 8], VfsError> {
        if !self.journal.get() && self.inner.borrow().list.prepared.is_some() {
            self.finish()?;
        }
        self.journal.set(true);
        Ok(journal_mark(&self.inner.borrow().list.base.digest))
    }

    /// Returns true if a journal whose salt ends with `mark` may undo anything.
    pub(crate) fn takes_journal(&self, mark: &[u8]) -> bool {
        let ours = journal_mark(&self.inner.borrow().list.base.digest) == *mark;
        if ours {
            self.journal.set(true);
        }
        ours
    }

    /// Records that the journal names a super-journal.
    pub(crate) fn note_several(&self) {
        self.several.set(true);
    }

    /// All pages of a transaction over several databases are written: from now on it may be
    /// committed without this database being notified.
    pub(crate) fn prepare(&self) -> Result<(), VfsError> {
        let mut inner = self.inner.borrow_mut();
        if !self.several.get() || !inner.is_dirty() || inner.prepared_here {
            return Ok(());
        }
        let to = self.write_record(&mut inner)?;
        let list = ListAnchor { prepared: Some(to), ..inner.list };
        self.move_list(&mut inner, list)?;
        inner.prepared_here = true;
        Ok(())
    }

    /// Commits the written pages: the journal, if there is one, is void afterwards.
    pub(crate) fn finish(&self) -> Result<(), VfsError> {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        match inner.list.prepared {
            Some(prepared) if inner.prepared_here => {
                let list = ListAnchor { base: prepared, prepared: None, ..inner.list };
                self.move_list(inner, list)?;
                inner.apply_written();
                inner.at = prepared;
            }
            Some(prepared) if !inner.is_dirty() => {
                if inner.at != prepared {
                    return Err(VfsError::StaleList);
                }
                let list = ListAnchor { base: prepared, prepared: None, ..inner.list };
                self.move_list(inner, list)?;
            }
            Some(_) => {
                if inner.at != inner.list.base {
                    let base = ListAnchor { prepared: None, ..inner.list };
                    self.load_whole(inner, &base)?;
                }
                self.commit(inner)?;
            }
            None if inner.is_dirty() || inner.copied.is_some() => self.commit(inner)?,
            None => {}
        }
        self.journal.set(false);
        self.several.set(false);
        Ok(())
    }

    /// As `finish`, for a file without pages, whose journal SQLite takes for that of another file
    /// and deletes. A state that was only prepared, and has no page on disk, did not take effect.
    pub(crate) fn finish_empty(&self) -> Result<(), VfsError> {
        {
            let inner = self.inner.borrow();
            if inner.list.prepared.is_none() || inner.prepared_here || inner.is_dirty() {
                drop(inner);
                return self.finish();
            }
        }
        if self.has_committed_pages()? {
            return Err(VfsError::Stale { what: "page", number: 1 });
        }
        let mut inner = self.inner.borrow_mut();
        let list = ListAnchor { prepared: None, ..inner.list };
        self.move_list(&mut inner, list)?;
        self.load_whole(&mut inner, &list)
    }

    /// Called when the write lock is released. Commits pages written without a journal file, but
    /// not pages that an existing journal file can undo.
    pub(crate) fn release(&self) -> Result<(), VfsError> {
        let undone = self.journal.replace(false);
        self.several.set(false);
        let mut inner = self.inner.borrow_mut();
        if undone && inner.is_dirty() {
            inner.forget_written();
            inner.seen.clear();
        }
        let dirty = inner.is_dirty();
        drop(inner);
        if dirty { self.finish() } else { Ok(()) }
    }

    /// Commits the written pages in a way that no journal file can undo.
    pub(crate) fn settle(&self) -> Result<(), VfsError> {
        if self.journal.get() { Ok(()) } else { self.finish() }
    }

    fn commit(&self, inner: &mut Inner) -> Result<(), VfsError> {
        let copied = inner.copied.unwrap_or(inner.list.copied);
        let tags = &inner.tags;
        inner.written.retain(|&page, tag| tags.get(page as usize - 1) != Some(tag));
        if inner.pages.is_some_and(|pages| pages as usize == tags.len()) {
            inner.pages = None;
        }
        if !inner.is_dirty() && copied == inner.list.copied && inner.list.prepared.is_none() {
            inner.forget_written();
            return Ok(());
        }
        let records = inner.list.base.len.saturating_sub(inner.list.snapshot_len);
        if records > inner.list.snapshot_len.max(MIN_RECORDS_LEN) {
            return self.commit_snapshot(inner, copied);
        }
        let to = self.write_record(inner)?;
        let list = ListAnchor { base: to, prepared: None, copied, ..inner.list };
        self.move_list(inner, list)?;
        inner.apply_written();
        inner.at = to;
        Ok(())
    }

    /// As `commit`, with all tags written anew to the other file.
    fn commit_snapshot(&self, inner: &mut Inner, copied: LogMark) -> Result<(), VfsError> {
        let mut tags = inner.tags.clone();
        tags.resize(inner.page_count() as usize, Tag::default());
        for (&page, &tag) in &inner.written {
            if let Some(known) = tags.get_mut((page as usize).saturating_sub(1)) {
                *known = tag;
            }
        }
        let snapshot = encode_snapshot(&self.file_id, &tags)?;
        let (old, new) = (inner.list.file, 1 - inner.list.file);
        let file = self.list(inner, new, true)?;
        file.write(&snapshot, 0)?;
        file.truncate(snapshot.len() as u64)?;
        file.sync(SYNC)?;
        let base = ListMark { len: snapshot.len() as u64, digest: snapshot_digest(&snapshot) };
        let list = ListAnchor {
            sequence: inner.list.sequence,
            file: new,
            switching: inner.list.switching,
            snapshot_len: base.len,
            base,
            prepared: None,
            copied,
        };
        self.move_list(inner, list)?;
        inner.forget_written();
        (inner.tags, inner.at) = (tags, base);
        // Only to free its space: nothing names it any more.
        let _ = self.list(inner, old, false).and_then(|file| file.truncate(0));
        Ok(())
    }

    /// Writes a record after the base, durably; returns the state that it leads to.
    fn write_record(&self, inner: &mut Inner) -> Result<ListMark, VfsError> {
        // New pages that were not written here are free ones, which SQLite never writes: an
        // interrupted checkpoint has already filled their place.
        let listed = u32::try_from(inner.tags.len()).unwrap_or(u32::MAX);
        for page in listed.saturating_add(1)..=inner.page_count() {
            inner.written.entry(page).or_default();
        }
        let entries: Vec<(u32, Tag)> = inner.written.iter().map(|(&p, &t)| (p, t)).collect();
        let record = encode_record(inner.page_count(), entries.into_iter())?;
        let base = inner.list.base;
        let file = self.list(inner, inner.list.file, false)?;
        file.write(&record, base.len)?;
        file.sync(SYNC)?;
        let len = base.len + record.len() as u64;
        Ok(ListMark { len, digest: record_digest(&base.digest, &record) })
    }

    fn move_list(&self, inner: &mut Inner, mut list: ListAnchor) -> Result<(), VfsError> {
        list.sequence = inner.list.sequence.wrapping_add(1);
        // The header says that it is on. Switching excludes everyone else: an interrupted run left
        // this behind.
        list.switching = false;
        let (at, slot) = list.encode(&self.file_id);
        self.move_anchor(inner, at, &slot)?;
        inner.list = list;
        Ok(())
    }

    fn move_anchor(&self, inner: &mut Inner, at: u64, slot: &[u8]) -> Result<(), VfsError> {
        let moved = inner.anchor.write(slot, at).and_then(|()| inner.anchor.sync(SYNC));
        let start = usize::try_from(at).unwrap_or(0);
        match (&moved, inner.seen.get_mut(start..start + slot.len())) {
            (Ok(()), Some(seen)) => seen.copy_from_slice(slot),
            _ => inner.seen.clear(),
        }
        moved
    }

    /// Returns the frames that the log in force must have, and the frames that a checkpoint has
    /// copied from the log that the second mark names.
    pub(crate) fn log_marks(&self) -> (LogMark, LogMark) {
        let inner = self.inner.borrow();
        (inner.log.mark, inner.list.copied)
    }

    /// Pins the log at `mark`.
    pub(crate) fn set_log(&self, mark: LogMark) -> Result<(), VfsError> {
        let mut inner = self.inner.borrow_mut();
        if inner.log.mark == mark {
            return Ok(());
        }
        let log = LogAnchor { sequence: inner.log.sequence.wrapping_add(1), mark };
        let (at, slot) = log.encode(&self.file_id);
        self.move_anchor(&mut inner, at, &slot)?;
        inner.log = log;
        Ok(())
    }

    /// A new log is about to begin: older logs are no longer valid.
    pub(crate) fn begin_log(&self, id: LogId) -> Result<(), VfsError> {
        self.set_log(LogMark { id, ..LogMark::default() })
    }

    /// The log is about to be removed.
    pub(crate) fn end_log(&self) -> Result<(), VfsError> {
        self.set_log(LogMark::default())
    }

    /// Records that a checkpoint copies frames up to `mark`.
    pub(crate) fn note_copied(&self, mark: LogMark) {
        let mut inner = self.inner.borrow_mut();
        let known = inner.copied.unwrap_or(inner.list.copied);
        if known.id != mark.id || known.frames < mark.frames {
            inner.copied = Some(mark);
        }
    }
}

fn list_path(place: &Place, file: u8) -> Vec<u8> {
    let mut path = place.path.clone();
    path.extend_from_slice(LIST_SUFFIXES[usize::from(file & 1)].as_bytes());
    path
}

fn path_bytes(path: &std::path::Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}
