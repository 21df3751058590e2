//! The rollback journal of an encrypted database: gathered writes, sealed extents.

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Range;
use std::rc::Rc;

use tdekit_sqlite_page::journal::{
    ExtentPlace, JOURNAL_HEADER_LEN, JournalCodec, JournalHeader, MAX_EXTENT_LEN, Prefix,
    SECTOR_LEN, extent_span, looks_torn, read_prefix,
};

use crate::VfsError;
use crate::base::{BaseFile, MAX_TRANSFER_LEN, Read};
use crate::fresh::Fresh;
use crate::live_keys::LiveKeys;
use crate::ranges::Ranges;

/// Bytes that SQLite zeros at the start of a journal to end a transaction (`PERSIST` mode).
const ENDING_LEN: usize = 28;
/// Bytes that are gathered before an extent is written.
const MAX_PENDING_LEN: usize = MAX_TRANSFER_LEN - 4 * SECTOR_LEN;
/// First bytes of a journal that SQLite never syncs: its magic, and the number of records meaning
/// "as many as there are" (SQLite file format, 3).
const NEVER_SYNCED: [u8; 12] =
    [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0xff, 0xff, 0xff, 0xff];
/// SQLite's journal ends with these bytes if it names a super-journal (SQLite file format, 3).
pub(crate) const SUPER_END: &[u8] = NEVER_SYNCED.split_at(8).0;
/// Maximum number of readings of a journal that others are replacing, before it counts as damaged.
const MAX_READINGS: u32 = 50;
/// Maximum number of extents that a search skips after a damaged stretch.
const MAX_LOST_EXTENTS: u32 = 1 << 20;

/// A rollback journal.
pub(crate) struct JournalFile {
    base: BaseFile,
    codec: JournalCodec,
    /// The keys of the file, and the generation of them that `codec` has.
    live: Rc<LiveKeys>,
    generation: u64,
    file_id: [u8; 16],
    header: Option<JournalHeader>,
    /// True if the file's content at opening has been read.
    loaded: bool,
    /// Header and size of the file when it was read; `None` once this connection writes.
    seen: Option<(Option<JournalHeader>, u64)>,
    extents: Vec<Extent>,
    /// The extent that has each of SQLite's bytes. SQLite rewrites the record count of a header
    /// and, after a failed write, the record concerned.
    ranges: Ranges,
    next_offset: u64,
    /// Extents below this number were synced.
    durable_before: u32,
    len: u64,
    pending_at: u64,
    pending: Vec<u8>,
    window: Option<(usize, Vec<u8>)>,
    scratch: Vec<u8>,
    /// Incremented when gathered data is dropped.
    lost: Rc<Cell<u64>>,
    /// The freshness of the database, if it has it.
    fresh: Option<Rc<Fresh>>,
    /// The file belongs to a transaction that has ended: it has no content.
    void: bool,
}

#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    len: usize,
    offset: u64,
}

impl Extent {
    fn end(&self) -> u64 {
        self.logical + self.len as u64
    }
}

impl JournalFile {
    /// Makes a journal that reports in `lost` when it is dropped with gathered data.
    pub(crate) fn new(
        base: BaseFile,
        live: Rc<LiveKeys>,
        lost: Rc<Cell<u64>>,
        fresh: Option<Rc<Fresh>>,
    ) -> Self {
        let keys = live.keys();
        Self {
            base,
            file_id: keys.file_id,
            codec: JournalCodec::new(keys),
            generation: live.generation(),
            live,
            header: None,
            loaded: false,
            seen: None,
            extents: Vec::new(),
            ranges: Ranges::default(),
            next_offset: 0,
            durable_before: 0,
            len: 0,
            pending_at: 0,
            pending: Vec::new(),
            window: None,
            scratch: Vec::new(),
            lost,
            fresh,
            void: false,
        }
    }

    /// The file below.
    pub(crate) fn base(&mut self) -> &mut BaseFile {
        &mut self.base
    }

    /// Reads plaintext at SQLite's offset. Writes nothing: a rollback needs bytes for which a full
    /// disk had no space.
    ///
    /// A connection that checks whether a journal is hot holds no lock that excludes writers. An
    /// extent that does not open then may belong to a journal that is replacing another: it is read
    /// once more.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        for _ in 1..MAX_READINGS {
            match self.read_once(out, offset) {
                Err(_) if self.is_replaced()? => self.forget(),
                result => return result,
            }
        }
        self.read_once(out, offset)
    }

    fn read_once(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        if let (false, [byte], 0) = (self.loaded, &mut *out, offset)
            && let Some(first) = self.first_byte()?
        {
            *byte = first;
            return Ok(Read::Full);
        }
        self.load()?;
        out.fill(0);
        let end = offset + out.len() as u64;
        for (part, index) in self.ranges.parts(offset..end) {
            self.copy(index, part, out, offset)?;
        }
        self.copy_pending(out, offset);
        let available = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        if available >= out.len() {
            return Ok(Read::Full);
        }
        out[available..].fill(0);
        Ok(Read::Short)
    }

    /// Gathers plaintext at SQLite's offset.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        // A complete header at the start begins a journal, perhaps in the file of a journal that a
        // crash left before it could undo anything. The old content must not be read together with
        // the new.
        let begins = offset == 0 && data.len() > ENDING_LEN;
        if begins && (self.len > 0 || self.void || (!self.loaded && self.base.size()? > 0)) {
            self.clear()?;
        }
        self.load()?;
        let ends = offset == 0 && data.len() == ENDING_LEN && data.iter().all(|&b| b == 0);
        if ends {
            return self.end();
        }
        if let Some(fresh) = self.fresh.as_ref().filter(|_| offset > 0 && data == SUPER_END) {
            fresh.note_several();
        }
        let follows = offset == self.pending_at + self.pending.len() as u64;
        if !follows || self.pending.len() + data.len() > MAX_PENDING_LEN {
            self.flush()?;
        }
        if self.pending.is_empty() {
            self.pending_at = offset;
        }
        self.pending.extend_from_slice(data);
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }

    /// Truncates the journal to `len` of SQLite's bytes.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        if len == 0 {
            return self.end();
        }
        self.load()?;
        self.flush()?;
        self.len = self.len.min(len);
        Ok(())
    }

    /// Makes the journal durable.
    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        self.flush()?;
        self.base.sync(flags)?;
        self.durable_before = self.next_index();
        Ok(())
    }

    /// Returns the size of the journal as SQLite sees it.
    pub(crate) fn size(&mut self) -> Result<u64, VfsError> {
        self.load()?;
        Ok(self.len)
    }

    /// Seals and writes the gathered bytes.
    pub(crate) fn flush(&mut self) -> Result<(), VfsError> {
        let bytes = std::mem::take(&mut self.pending);
        let written = self.write_extents(&bytes);
        self.pending = bytes;
        // SQLite believes that they are written: until they are, reads find them here.
        if written.is_ok() {
            self.pending.clear();
        }
        written
    }

    fn write_extents(&mut self, bytes: &[u8]) -> Result<(), VfsError> {
        self.seen = None;
        for (i, chunk) in bytes.chunks(MAX_EXTENT_LEN).enumerate() {
            let logical = self.pending_at + (i * MAX_EXTENT_LEN) as u64;
            let mut out = std::mem::take(&mut self.scratch);
            out.clear();
            let header = match self.header {
                Some(header) => header,
                None => {
                    self.renew_keys();
                    let header = match &self.fresh {
                        Some(fresh) => self.codec.marked_header(fresh.begin_journal()?)?,
                        None => self.codec.new_header()?,
                    };
                    out.extend_from_slice(&header.encode());
                    header
                }
            };
            // Losing a record count makes the journal void: it is written twice, so that damage to
            // one copy is not taken for an interrupted write.
            let copies = if is_count(logical, chunk.len(), self.ranges.end()) { 2 } else { 1 };
            let mut placed = Vec::with_capacity(copies);
            for copy in 0..u32::try_from(copies).unwrap_or(1) {
                let offset = self.next_offset + out.len() as u64;
                let index = self.next_index().saturating_add(copy);
                let place = ExtentPlace { index, durable_before: self.durable_before, logical };
                self.codec.seal(&header, &place, chunk, &mut out)?;
                placed.push(Extent { logical, len: chunk.len(), offset });
            }
            self.base.write(&out, self.next_offset)?;
            self.header = Some(header);
            self.next_offset += out.len() as u64;
            self.scratch = out;
            for extent in placed {
                self.record(extent);
            }
        }
        Ok(())
    }

    /// Gives the codec the currently known keys.
    fn renew_keys(&mut self) {
        let generation = self.live.generation();
        if std::mem::replace(&mut self.generation, generation) != generation {
            self.codec.set_keys(self.live.keys());
        }
    }

    fn next_index(&self) -> u32 {
        u32::try_from(self.extents.len()).unwrap_or(u32::MAX)
    }

    fn record(&mut self, extent: Extent) {
        self.ranges.lay(extent.logical..extent.end(), self.extents.len());
        self.extents.push(extent);
        self.window = None;
        self.len = self.len.max(extent.end());
    }

    /// Forgets the journal's content; the next call reads the file.
    pub(crate) fn forget(&mut self) {
        self.drop_pending();
        self.extents.clear();
        self.ranges.clear();
        (self.header, self.window, self.seen) = (None, None, None);
        (self.next_offset, self.durable_before, self.len, self.loaded) = (0, 0, 0, false);
        self.void = false;
    }

    /// Ends the transaction. If the database has freshness, moving its anchor ends it, and the
    /// journal is void from then on.
    fn end(&mut self) -> Result<(), VfsError> {
        if let Some(fresh) = &self.fresh {
            fresh.finish()?;
        }
        self.clear()
    }

    /// Empties the journal. If that fails, the file determines the journal's content.
    fn clear(&mut self) -> Result<(), VfsError> {
        self.forget();
        self.base.truncate(0)?;
        self.loaded = true;
        Ok(())
    }

    fn drop_pending(&mut self) {
        if !self.pending.is_empty() {
            self.lost.set(self.lost.get().wrapping_add(1));
            self.pending.fill(0);
            self.pending.clear();
        }
    }

    /// Copies SQLite's bytes `range`, which are in extent `index`, into `out`, which begins at
    /// `offset`.
    fn copy(
        &mut self,
        index: usize,
        range: Range<u64>,
        out: &mut [u8],
        offset: u64,
    ) -> Result<(), VfsError> {
        let (extent, from, to) = (self.extents[index], range.start, range.end);
        if self.window.as_ref().is_none_or(|(i, _)| *i != index) {
            let (_, mut plain) = self.window.take().unwrap_or_default();
            self.open(u32::try_from(index).unwrap_or(u32::MAX), extent, &mut plain)?;
            self.window = Some((index, plain));
        }
        let Some((_, plain)) = &self.window else { return Ok(()) };
        let span = |base: u64| {
            let start = usize::try_from(from - base).unwrap_or(0);
            start..start + usize::try_from(to - from).unwrap_or(0)
        };
        out[span(offset)].copy_from_slice(&plain[span(extent.logical)]);
        Ok(())
    }

    /// Copies the gathered part of `offset..` into `out`.
    fn copy_pending(&self, out: &mut [u8], offset: u64) {
        let end = (offset + out.len() as u64).min(self.pending_at + self.pending.len() as u64);
        let from = self.pending_at.max(offset);
        let span = |base: u64| {
            let start = usize::try_from(from - base).unwrap_or(0);
            start..start + usize::try_from(end - from).unwrap_or(0)
        };
        if from < end {
            out[span(offset)].copy_from_slice(&self.pending[span(self.pending_at)]);
        }
    }

    fn open(&mut self, index: u32, extent: Extent, plain: &mut Vec<u8>) -> Result<(), VfsError> {
        let header = self.header.ok_or(VfsError::Journal)?;
        let mut sealed = std::mem::take(&mut self.scratch);
        sealed.resize(extent_span(extent.len), 0);
        let read = self.base.read(&mut sealed, extent.offset)?;
        let opened = self.codec.open(&header, index, &sealed, plain);
        self.scratch = sealed;
        if read == Read::Short {
            return Err(VfsError::Journal);
        }
        Ok(opened?)
    }

    /// Returns SQLite's first byte if it is not zero, from as few extents as possible; none if all
    /// of the journal must be read to know it.
    ///
    /// SQLite asks for this byte to check whether a journal is hot, under a shared lock. If every
    /// connection opened the whole journal then, many of them would together hold that lock all the
    /// time, and none would get the exclusive one that undoes the transaction.
    ///
    /// The byte is zero until the records are synced, and not again: a whole header at the start
    /// clears the journal. Whether the extents before are whole is the rollback's to find.
    fn first_byte(&mut self) -> Result<Option<u8>, VfsError> {
        let Some((header, size)) = self.look()? else { return Ok(None) };
        if !self.accept(header)? {
            return Ok(None);
        }
        let (mut at, mut index, mut plain) = (JOURNAL_HEADER_LEN as u64, 0, Vec::new());
        while let Some((place, extent)) = self.named_at(at, size)?
            && place.index == index
        {
            if extent.logical == 0 {
                match self.open(index, extent, &mut plain) {
                    Err(VfsError::Page(_)) => break,
                    opened => opened?,
                }
                if let Some(&first) = plain.first().filter(|&&first| first != 0) {
                    return Ok(Some(first));
                }
            }
            at = extent.offset + extent_span(extent.len) as u64;
            index = index.saturating_add(1);
        }
        Ok(None)
    }

    /// Reads the file's content, which another connection wrote; it may have been killed since.
    fn load(&mut self) -> Result<(), VfsError> {
        if self.loaded {
            return Ok(());
        }
        if let Some((header, size)) = self.look()? {
            self.load_extents(header, size)?;
        }
        self.loaded = true;
        Ok(())
    }

    /// Begins a reading of the file: returns its header and its size, or none if it has no header.
    fn look(&mut self) -> Result<Option<(JournalHeader, u64)>, VfsError> {
        let header = if self.base.size()? > 0 { self.read_header()? } else { None };
        // The size of this header's journal: a larger size may be that of the previous journal.
        let size = self.base.size()?;
        // An earlier reading may have failed midway.
        self.forget();
        self.seen = Some((header, size));
        Ok(header.map(|header| (header, size)))
    }

    /// Returns true if the file has another journal than the one that was read, made by another
    /// connection.
    fn is_replaced(&mut self) -> Result<bool, VfsError> {
        let Some((header, size)) = self.seen else { return Ok(false) };
        Ok(self.base.size()? != size || self.read_header()? != header)
    }

    /// Reads the header. Without one nothing was synced, and SQLite has not touched the database
    /// yet.
    fn read_header(&mut self) -> Result<Option<JournalHeader>, VfsError> {
        let mut copies = [0; JOURNAL_HEADER_LEN];
        self.base.read(&mut copies, 0)?;
        Ok(JournalHeader::decode(&copies))
    }

    /// Takes the header, if the journal is of this database and of a transaction that has not
    /// ended; returns false if that transaction has ended.
    fn accept(&mut self, header: JournalHeader) -> Result<bool, VfsError> {
        if header.file_id != self.file_id {
            return Err(VfsError::Journal);
        }
        if let Some(fresh) = &self.fresh
            && !fresh.takes_journal(&header.salt[8..])
        {
            self.void = true;
            return Ok(false);
        }
        // An extent under an unknown key would look like the journal's end.
        self.live.learn()?;
        self.renew_keys();
        self.live.keys().dek(header.key_version)?;
        self.header = Some(header);
        Ok(true)
    }

    fn load_extents(&mut self, header: JournalHeader, size: u64) -> Result<(), VfsError> {
        if !self.accept(header)? {
            return Ok(());
        }
        self.next_offset = JOURNAL_HEADER_LEN as u64;
        let mut plain = Vec::new();
        loop {
            let (at, index) = (self.next_offset, self.next_index());
            let here = self.extent_at(at, index, size, &mut plain)?;
            let found = match here.filter(|(place, _)| place.index == index) {
                None => self.second_copy(at, index, size, &mut plain)?,
                found => found,
            };
            let Some((place, extent)) = found else { break };
            self.next_offset = extent.offset + extent_span(extent.len) as u64;
            if place.index > index {
                // The lost copy keeps its number; the second one has the same content.
                self.extents.push(extent);
            }
            self.record(extent);
        }
        if self.is_damaged(size)? { Err(VfsError::Journal) } else { Ok(()) }
    }

    /// Returns the second copy of a record count whose first one, a sector before it, is lost.
    fn second_copy(
        &mut self,
        offset: u64,
        index: u32,
        size: u64,
        plain: &mut Vec<u8>,
    ) -> Result<Option<(ExtentPlace, Extent)>, VfsError> {
        let end = self.ranges.end();
        let found = self.extent_at(offset + SECTOR_LEN as u64, index, size, plain)?;
        Ok(found.filter(|(place, extent)| {
            place.index == index + 1 && is_count(place.logical, extent.len, end)
        }))
    }

    /// Returns the extent at `offset`, if it is whole and its number is `least` or a little more.
    /// Also returns the number below which it knows extents to be durable.
    fn extent_at(
        &mut self,
        offset: u64,
        least: u32,
        size: u64,
        plain: &mut Vec<u8>,
    ) -> Result<Option<(ExtentPlace, Extent)>, VfsError> {
        let Some((place, extent)) = self.named_at(offset, size)? else { return Ok(None) };
        if !(least..least.saturating_add(MAX_LOST_EXTENTS)).contains(&place.index) {
            return Ok(None);
        }
        match self.open(place.index, extent, plain) {
            Ok(()) => Ok(Some((place, extent))),
            Err(VfsError::Page(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Returns the extent of which there is a prefix at `offset`, if the file is large enough for
    /// it. Nothing of it is authenticated.
    fn named_at(
        &mut self,
        offset: u64,
        size: u64,
    ) -> Result<Option<(ExtentPlace, Extent)>, VfsError> {
        let mut sector = [0; SECTOR_LEN];
        if size < offset + SECTOR_LEN as u64 {
            return Ok(None);
        }
        self.base.read(&mut sector, offset)?;
        let Prefix::Extent { index, durable_before, logical, len } = read_prefix(&sector) else {
            return Ok(None);
        };
        let fits = offset + extent_span(len) as u64 <= size;
        let found =
            (ExtentPlace { index, durable_before, logical }, Extent { logical, len, offset });
        Ok(fits.then_some(found))
    }

    /// Returns true if the journal stops at `next_offset` because of damage, and not because a
    /// write was interrupted. That is so if a later extent knows that it was synced; if a record
    /// count follows it and nothing of it is missing; and, in a journal that is never synced, if
    /// nothing of it is missing.
    fn is_damaged(&mut self, size: u64) -> Result<bool, VfsError> {
        let (stop, index, end) = (self.next_offset, self.next_index(), self.ranges.end());
        let mut plain = Vec::new();
        let (mut at, mut resumes, mut counted) = (stop, size, false);
        while at + SECTOR_LEN as u64 <= size {
            match self.extent_at(at, index, size, &mut plain)? {
                Some((place, _)) if place.durable_before > index => return Ok(true),
                Some((place, extent)) => {
                    resumes = resumes.min(at);
                    counted |= is_count(place.logical, extent.len, end);
                    at += extent_span(extent.len) as u64;
                }
                None => at += SECTOR_LEN as u64,
            }
        }
        if stop >= size {
            return Ok(false);
        }
        let stretch = (resumes - stop).min(extent_span(MAX_EXTENT_LEN) as u64);
        let mut bytes = vec![0; usize::try_from(stretch).unwrap_or(0)];
        self.base.read(&mut bytes, stop)?;
        let missing = looks_torn(&bytes) || bytes.len() < SECTOR_LEN;
        Ok(!missing && (counted || self.is_never_synced(&bytes, size)?))
    }

    /// Returns true if SQLite wrote this journal with `synchronous=OFF`, and the extent that does
    /// not open is complete.
    fn is_never_synced(&mut self, stop: &[u8], size: u64) -> Result<bool, VfsError> {
        let Some(&first) = self.extents.first() else { return Ok(false) };
        let mut plain = Vec::new();
        self.open(0, first, &mut plain)?;
        let whole = match read_prefix(stop) {
            Prefix::Extent { len, .. } => self.next_offset + extent_span(len) as u64 <= size,
            Prefix::Damaged => true,
            Prefix::End => false,
        };
        Ok(whole && first.logical == 0 && plain.starts_with(&NEVER_SYNCED))
    }
}

/// Returns true if an extent at `logical` rewrites a record count in a journal that ends at `end`.
fn is_count(logical: u64, len: usize, end: u64) -> bool {
    logical < end && len < SECTOR_LEN / 2
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // When SQLite closes a journal, it has synced its content or does not need it; without a
        // sync (`synchronous=OFF`) the main file flushed it before its own pages.
        self.drop_pending();
        if let Some((_, plain)) = &mut self.window {
            plain.fill(0);
        }
    }
}
