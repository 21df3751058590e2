//! The main file below a log: whether anything but copies of the log's frames was written to it.
//!
//! In WAL mode SQLite writes to the main file only to copy frames of the log into it, and says so
//! in the log's index: `nBackfillAttempted` before the first of these writes, `nBackfill` after the
//! last. A program that overwrites or cuts the file in place, as `cp other.db app.db` does, leaves
//! log and index as they are, and SQLite takes no notice: the log's frames then lie over another
//! database.
//!
//! - A write without copying between two looks, which one `stat` a look shows, is one of those if
//!   the file's length, page 1, or a page of those that are compared is another. If not, somebody
//!   may have set the file's time only: the log stays, as it may hold the only copy of commits, and
//!   the archive gets a full set of what SQLite reads.
//! - A process that was killed while it copied, or whose disk was full, has written too. Fewer
//!   frames are copied then than attempted, page 1 is what it was or that of a frame, and SQLite
//!   copies the same frames again.
//! - Where frames were copied meanwhile, pages of the file are compared with the frames that they
//!   are copies of, and page 1 with what it was. The lock of checkpoints keeps others from writing
//!   then.
//!
//! One change is not noticed: a copy of the same database that differs in no page compared, written
//! between two looks that a checkpoint falls between too, or while nobody follows the database.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use tdekit_key_crypto::sha256;
use tdekit_sqlite::{FILE_ID_AT, SlotIds};
use tdekit_sqlite_convert::with_suffix;
use tdekit_sqlite_page::HEADER_AREA_LEN;

use super::keeper::{Index, Keeper};
use super::state::{CLOCK_STEP, FileStamp, WRITTEN};
use crate::RunError;
use crate::labels::now_ms;

/// Age of the last write from which a file that differs is another one.
const QUIET: Duration = Duration::from_millis(100);
/// Most pages that are compared at a time.
const COMPARED: usize = 64;
/// Pages of the file, besides its first, that are known by a digest.
const SAMPLED: u64 = 16;
/// Longest log that is read as a whole to compare the file with it.
const MAX_LEARNT_FRAMES: u32 = 1 << 16;

/// The file below the log, as a look found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The file that the log belongs to.
    Sound,
    /// The compared parts are the same, but something wrote to the file by other ways than the log.
    Touched,
    /// Another process copies frames just now.
    NotNow,
    /// A file that was written to, or cut, by other ways than the log.
    Overwritten,
    /// Another file, or none, is under the path of the database.
    Replaced,
    /// Another file, or none, is under the path of the log or of its index, or the log was cut.
    LogGone,
}

/// The frames of one log that were read.
#[derive(Debug, Clone, Default)]
pub(super) struct Frames {
    salts: [u8; 8],
    /// The last frame, from 0, of each page.
    newest: HashMap<u32, u32>,
    /// The frames that are in `newest`: from the first number up to the second.
    begin: u32,
    end: u32,
    /// The smallest size, in pages, that the database had after a commit. Pages behind it may not
    /// have been copied.
    smallest: u32,
    commits: u32,
}

impl Frames {
    /// Takes note of a frame of the log with these salts.
    pub(super) fn add(&mut self, salts: [u8; 8], number: u32, (page, commit): (u32, u32)) {
        if salts != self.salts {
            *self = Self { salts, begin: number, smallest: u32::MAX, ..Self::default() };
        }
        self.newest.insert(page, number);
        self.end = number.saturating_add(1);
        if commit > 0 {
            self.smallest = self.smallest.min(commit);
            self.commits = self.commits.wrapping_add(1);
        }
    }

    /// Returns true if these are all frames of the log.
    fn is_all_of(&self, index: &Index) -> bool {
        self.salts == index.salts && self.begin == 0 && self.end >= index.frames
    }

    /// Returns pages that are as they are in the frame named with them, where so many frames were
    /// copied: a page that has a later frame may have been passed over.
    fn copies(&self, index: &Index) -> Vec<(u32, u32)> {
        // Not all of the log was read: a page may have a later frame.
        if self.salts != index.salts || self.end < index.frames {
            return Vec::new();
        }
        let mut all: Vec<(u32, u32)> = self.newest.iter().map(|(page, at)| (*at, *page)).collect();
        all.retain(|(at, page)| *at < index.copied && *page <= self.smallest.min(index.pages));
        all.sort_unstable();
        let step = all.len().div_ceil(COMPARED).max(1);
        // With the last one, which is the likeliest to be wrong.
        all.into_iter().rev().step_by(step).collect()
    }
}

/// The main file as it was when it was looked at last.
#[derive(Debug)]
pub(super) struct Ground {
    path: PathBuf,
    stamp: FileStamp,
    /// As it was since, where frames were copied into it.
    copied_into: Option<FileStamp>,
    /// False while another write could have the same time.
    settled: bool,
    salts: [u8; 8],
    frames: u32,
    copied: u32,
    attempted: u32,
    /// SQLite's count of commits.
    commits: u32,
    /// `None` if it could not be read.
    page_1: Option<Vec<u8>>,
    /// The digest of pages that lie spread over the file.
    sample: Option<[u8; 32]>,
    /// The slots of an encrypted file's header, which a change of its key writes.
    header: Option<SlotIds>,
    /// Device and inode of the log and of its index.
    sides: [Option<(u64, u64)>; 2],
    /// True for a file that took another one's place while nobody followed it.
    is_other: bool,
}

impl Ground {
    /// Takes the file as it is now.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn new(path: &Path, keeper: &mut Keeper, index: &Index) -> Result<Self, RunError> {
        let header = keeper.slot_ids();
        let stamp = FileStamp::of(path).map_err(RunError::io("read", path))?;
        Ok(Self {
            path: path.to_owned(),
            stamp,
            copied_into: None,
            settled: stamp.age() >= CLOCK_STEP,
            salts: index.salts,
            frames: index.frames,
            copied: index.copied,
            attempted: index.attempted,
            commits: index.commits,
            page_1: keeper.main_page(1),
            sample: sample(keeper, stamp.len(), header.is_some()),
            header,
            sides: sides(path),
            is_other: false,
        })
    }

    /// Has each look find that the file was overwritten.
    pub(super) fn reject(&mut self) {
        self.is_other = true;
    }

    /// Returns page 1, if it could be read.
    pub(super) fn page_1(&self) -> Option<&[u8]> {
        self.page_1.as_deref()
    }

    /// Returns what identifies the file.
    pub(super) fn stamp(&self) -> FileStamp {
        self.stamp
    }

    /// Returns what identified the file at the last look, and whether frames were copied into it
    /// since its page 1 was read.
    pub(super) fn last(&self, index: Option<&Index>) -> (FileStamp, bool) {
        let place = |index: &Index| (index.salts, index.copied, index.attempted);
        let known = (self.salts, self.copied, self.attempted);
        let is_copied_into = index.is_some_and(|index| place(index) != known);
        (self.copied_into.unwrap_or(self.stamp), self.copied_into.is_some() || is_copied_into)
    }

    /// Returns device and inode of the log.
    pub(super) fn log(&self) -> Option<(u64, u64)> {
        self.sides[0]
    }

    /// Looks by one `stat`, and further if that shows a write; `frames` of the log were read.
    ///
    /// # Errors
    /// `Io`, `Log`.
    pub(super) fn glance(
        &mut self,
        keeper: &mut Keeper,
        frames: &Frames,
    ) -> Result<Found, RunError> {
        self.look_under(keeper, (frames, false), false)
    }

    /// Looks thoroughly; `frames` of the log were read.
    ///
    /// # Errors
    /// `Io`, `Log`.
    pub(super) fn look(&mut self, keeper: &mut Keeper, frames: &Frames) -> Result<Found, RunError> {
        self.look_under(keeper, (frames, true), false)
    }

    /// As [`Self::look`], thoroughly, while a process keeps the others from copying and has copied
    /// everything itself.
    pub(super) fn look_while_copied(
        &mut self,
        keeper: &mut Keeper,
        frames: &Frames,
    ) -> Result<Found, RunError> {
        self.look_under(keeper, (frames, true), true)
    }

    fn look_under(
        &mut self,
        keeper: &mut Keeper,
        (frames, is_thorough): (&Frames, bool),
        is_copied: bool,
    ) -> Result<Found, RunError> {
        if self.is_other {
            return Ok(Found::Overwritten);
        }
        // Before the stamp: what was copied by then is in it.
        let before = keeper.index();
        let stamp = match FileStamp::of(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Replaced),
            stamp => stamp.map_err(RunError::io("read", &self.path))?,
        };
        if !stamp.is_of_file(&self.stamp) {
            return Ok(Found::Replaced);
        }
        if is_thorough
            && (sides(&self.path) != self.sides || is_log_cut(&self.path, keeper, before))
        {
            return Ok(Found::LogGone);
        }
        let written = !stamp.is_written_as(&self.stamp);
        if let Some(before) = before.filter(|_| !written) {
            self.note(&before);
        }
        if !written && (self.settled || !is_thorough) {
            return Ok(Found::Sound);
        }
        // Read behind the stamp: copies that it shows are announced there.
        let Some(index) = keeper.index() else { return Ok(Found::NotNow) };
        let is_odd = written && self.has_copied_nothing_since(frames, &index);
        let slots = keeper.slot_ids();
        // A copy that has just begun has no header yet; a plain database never has one.
        if self.header.is_some() && slots.is_none() && stamp.age() >= WRITTEN {
            return Ok(self.overwritten(&stamp));
        }
        // The VFS gives no lock on a file that its keys do not open.
        if slots.zip(self.header).is_some_and(|(now, known)| is_other_file(&now, &known)) {
            return Ok(self.overwritten(&stamp));
        }
        if !is_thorough && !is_odd {
            self.copied_into = Some(stamp);
            return Ok(Found::Sound);
        }
        if is_copied {
            return self.look_alone(keeper, (frames, is_thorough), written);
        }
        // If fewer frames were copied than attempted, a process copies now, or was killed doing so.
        if !keeper.keep_from_copying() {
            return Ok(Found::NotNow);
        }
        let found = self.look_alone(keeper, (frames, is_thorough), written);
        keeper.admit_copying();
        found
    }

    /// Looks while nobody copies.
    fn look_alone(
        &mut self,
        keeper: &mut Keeper,
        (frames, is_thorough): (&Frames, bool),
        written: bool,
    ) -> Result<Found, RunError> {
        let Some(index) = keeper.index() else { return Ok(Found::NotNow) };
        if written
            && self.has_copied_nothing_since(frames, &index)
            && keeper.slot_ids() == self.header
        {
            let now = Self::new(&self.path, keeper, &index)?;
            let found = match self.is_cut_off(&now, keeper, &index)? {
                true => Found::Sound,
                false if self.may_become_the_same(&now) => return Ok(Found::NotNow),
                false if self.is_the_same(&now, keeper, (frames, &index))? => Found::Touched,
                false => return Ok(self.overwritten(&now.stamp)),
            };
            *self = Self { page_1: now.page_1.or(self.page_1.take()), sides: self.sides, ..now };
            return Ok(found);
        }
        if self.header.is_some() && keeper.slot_ids().is_none() {
            return Ok(Found::NotNow);
        }
        if is_thorough { self.compare(keeper, frames, &index) } else { Ok(Found::Sound) }
    }

    /// Returns what a file counts as that was found to differ behind this stamp: while it is being
    /// written, it may become the same. The system cuts a file before it sets its times.
    fn overwritten(&self, before: &FileStamp) -> Found {
        let known = self.copied_into.unwrap_or(self.stamp);
        match FileStamp::of(&self.path) {
            Ok(after) if after != *before || after.age() < QUIET => Found::NotNow,
            Ok(after) if after.len() != known.len() && after.has_times_of(&known) => Found::NotNow,
            Ok(_) => Found::Overwritten,
            Err(_) => Found::NotNow,
        }
    }

    /// Returns true for a file that is being written and may become what it was: its page 1 is the
    /// same, or not there yet.
    fn may_become_the_same(&self, now: &Self) -> bool {
        let is_alike = now.page_1.is_none() || now.page_1 == self.page_1;
        is_alike && now.stamp.len() < self.stamp.len() && now.stamp.age() < WRITTEN
    }

    /// Returns true if the file is as long as the one that was known, and has its page 1, the pages
    /// that lie spread over it, and those of frames that were copied.
    fn is_the_same(
        &self,
        now: &Self,
        keeper: &mut Keeper,
        (frames, index): (&Frames, &Index),
    ) -> Result<bool, RunError> {
        let is_alike = now.stamp.len() == self.stamp.len() && now.page_1 == self.page_1;
        Ok(is_alike
            && now.sample == self.sample
            && now.page_1.is_some()
            && agrees(keeper, frames, index, now.stamp.len())?.is_some())
    }

    /// Returns true if the file can be the one that was known, into which a process copied frames
    /// that it did not copy all.
    fn is_cut_off(&self, now: &Self, keeper: &mut Keeper, index: &Index) -> Result<bool, RunError> {
        if index.copied == index.attempted || now.stamp.len() < u64::from(keeper.page_size()) {
            return Ok(false);
        }
        if now.page_1.is_some() && now.page_1 == self.page_1 {
            return Ok(true);
        }
        // One that was cut off in the midst of page 1 is not readable.
        has_page_1(keeper, index.attempted.min(index.frames), now.page_1.as_deref())
    }

    /// Returns true if no frame was copied since the file had the stamp that is known: as much is
    /// copied as then; or all was, and nothing was committed before the log was started anew, of
    /// which `frames` are all, and nothing is copied.
    fn has_copied_nothing_since(&self, frames: &Frames, index: &Index) -> bool {
        if index.salts == self.salts {
            return (index.copied, index.attempted) == (self.copied, self.attempted);
        }
        self.copied == self.frames
            && index.attempted == 0
            && frames.is_all_of(index)
            && index.commits.wrapping_sub(self.commits) == frames.commits
    }

    /// Notes what was copied when the file had the stamp that is known.
    fn note(&mut self, index: &Index) {
        let Index { salts, frames, copied, attempted, commits, .. } = *index;
        (self.salts, self.frames, self.commits) = (salts, frames, commits);
        (self.copied, self.attempted) = (copied, attempted);
    }

    /// Compares pages, while nobody copies, and takes the file as it is now.
    fn compare(
        &mut self,
        keeper: &mut Keeper,
        frames: &Frames,
        index: &Index,
    ) -> Result<Found, RunError> {
        let now = Self::new(&self.path, keeper, index)?;
        if agrees(keeper, frames, index, now.stamp.len())?.is_none() {
            return Ok(self.overwritten(&now.stamp));
        }
        let lacks_page_1 = frames.is_all_of(index) && !frames.newest.contains_key(&1);
        let is_kept = index.salts == self.salts && (index.attempted == 0 || lacks_page_1);
        let is_other = match (&self.page_1, &now.page_1) {
            (Some(before), Some(page)) => before != page,
            // It opened before, and a change of the key does not change that. While frames are
            // copied, it is not read.
            (Some(_), None) => index.copied == index.attempted,
            (None, _) => false,
        };
        if is_kept && is_other {
            return Ok(self.overwritten(&now.stamp));
        }
        let again = FileStamp::of(&self.path).map_err(RunError::io("read", &self.path))?;
        if !again.is_written_as(&now.stamp) {
            // A change of the key, or what the next look finds.
            return Ok(Found::NotNow);
        }
        *self = Self { page_1: now.page_1.or(self.page_1.take()), sides: self.sides, ..now };
        Ok(Found::Sound)
    }
}

/// Returns a digest of pages that lie spread over a file of this length; `None` if one of them
/// cannot be read.
fn sample(keeper: &mut Keeper, len: u64, is_encrypted: bool) -> Option<[u8; 32]> {
    let area = if is_encrypted { HEADER_AREA_LEN } else { 0 };
    let pages = len.saturating_sub(area) / u64::from(keeper.page_size().max(1));
    let mut read = Vec::new();
    for number in 1..=SAMPLED.min(pages) {
        let page = u32::try_from(pages * number / SAMPLED.min(pages)).ok()?;
        read.push(keeper.main_page(page)?);
    }
    let read: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
    Some(sha256(&read))
}

/// Returns true if one of the first `frames` frames holds this page 1; any, for `None`.
fn has_page_1(keeper: &mut Keeper, frames: u32, page_1: Option<&[u8]>) -> Result<bool, RunError> {
    for number in 0..frames {
        keeper.load(number)?;
        if keeper.is_of(1) && page_1.is_none_or(|page| page == keeper.page()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the log has no bytes, and its index has frames. SQLite empties the index first.
fn is_log_cut(path: &Path, keeper: &mut Keeper, before: Option<Index>) -> bool {
    let has_frames = |index: &Index| index.frames > 0;
    before.as_ref().is_some_and(has_frames)
        && fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() == 0)
        && keeper.index().as_ref().is_some_and(has_frames)
}

/// Returns true if page 1 of the main file is in no frame of the log, of which it is not too long
/// to read all: where page 1 was another one before, the log is that of another file.
///
/// # Errors
/// `Log`.
pub(super) fn lacks_page_1(keeper: &mut Keeper, index: &Index) -> Result<bool, RunError> {
    let page = keeper.main_page(1).filter(|_| index.frames <= MAX_LEARNT_FRAMES);
    match page {
        Some(page) => Ok(!has_page_1(keeper, index.frames, Some(&page))?),
        None => Ok(false),
    }
}

/// Returns true if no slot of a header has the file's ID in common with a known one.
fn is_other_file(now: &SlotIds, known: &SlotIds) -> bool {
    let is_same = |one: &[u8], other: &[u8]| one.get(FILE_ID_AT..) == other.get(FILE_ID_AT..);
    !now.iter().any(|slot| known.iter().any(|known| is_same(slot, known)))
}

/// Compares pages of the main file with the frames that they are copies of. Returns their number;
/// `None` if one is another.
fn agrees(
    keeper: &mut Keeper,
    frames: &Frames,
    index: &Index,
    len: u64,
) -> Result<Option<usize>, RunError> {
    let copies = frames.copies(index);
    for (frame, page) in &copies {
        // Reading behind the end of a mapped file kills the process.
        if u64::from(*page) * u64::from(keeper.page_size()) > len {
            return Ok(None);
        }
        let copy = keeper.main_page(*page);
        keeper.load(*frame)?;
        if !keeper.is_of(*page) {
            return Err(keeper.unreadable(format!("frame {frame} has changed")));
        }
        if copy.as_deref() != Some(keeper.page()) {
            return Ok(None);
        }
    }
    Ok(Some(copies.len()))
}

/// Returns true if the main file, of which nothing else is known, is that below the log: pages of
/// it are copies of frames.
///
/// # Errors
/// `Io`, `Log`.
pub(super) fn is_below(path: &Path, keeper: &mut Keeper) -> Result<bool, RunError> {
    if !keeper.keep_from_copying() {
        return Ok(false);
    }
    let looked = look_below(path, keeper);
    keeper.admit_copying();
    looked
}

fn look_below(path: &Path, keeper: &mut Keeper) -> Result<bool, RunError> {
    let index = keeper.index().filter(|index| index.copied > 0);
    let Some(index) = index.filter(|index| index.frames <= MAX_LEARNT_FRAMES) else {
        return Ok(false);
    };
    let mut frames = Frames::default();
    for number in 0..index.frames {
        keeper.load(number)?;
        frames.add(index.salts, number, keeper.head());
    }
    let len = FileStamp::of(path).map_err(RunError::io("read", path))?.len();
    Ok(agrees(keeper, &frames, &index, len)?.is_some_and(|compared| compared > 0))
}

/// The end of putting a log aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aside {
    /// There is none.
    Nothing,
    /// It is here now.
    Put(PathBuf),
    /// A process has the database open, and sees both.
    InUse,
}

/// Puts the log `log` of a file that was overwritten or replaced aside: SQLite would lay it over
/// the new one. It is kept, since it may hold the only copy of what was committed. This process has
/// no connection to the database.
///
/// # Errors
/// `Io`.
pub(super) fn put_aside(path: &Path, log: Option<(u64, u64)>) -> Result<Aside, RunError> {
    let name = with_suffix(path, "-wal");
    if log.is_none() || sides(path)[0] != log {
        return Ok(Aside::Nothing);
    }
    let failed = |error| RunError::io("put aside", &name)(error);
    let index = match File::options().read(true).write(true).open(with_suffix(path, "-shm")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        index => Some(index.map_err(failed)?),
    };
    if let Some(index) = &index
        && fcntl_lock(index, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        // A process that has the database open keeps a shared lock on a byte of the index.
        return Ok(Aside::InUse);
    }
    let aside = with_suffix(path, format!("-wal.{}", now_ms()));
    fs::rename(&name, &aside).map_err(failed)?;
    Ok(Aside::Put(aside))
}

/// Returns device and inode of the log and of its index.
pub(super) fn sides(path: &Path) -> [Option<(u64, u64)>; 2] {
    ["-wal", "-shm"].map(|side| {
        let found = fs::metadata(with_suffix(path, side)).ok()?;
        Some((found.dev(), found.ino()))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_file_whose_header_is_half_written_is_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(n); INSERT INTO t VALUES (1)";
        db.execute_batch(sql).unwrap();
        let mut keeper = Keeper::new(Connection::open(&path).unwrap(), &path).unwrap();
        let index = keeper.index().unwrap();
        let mut ground = Ground::new(&path, &mut keeper, &index).unwrap();
        let frames = Frames::default();
        assert_eq!(ground.look(&mut keeper, &frames).unwrap(), Found::Sound);
        // The file was encrypted, and what a copy over it has written has no whole header yet.
        ground.header = Some([[1; 24]; 2]);
        std::thread::sleep(CLOCK_STEP);
        File::options().write(true).open(&path).unwrap().write_all_at(b"S", 0).unwrap();
        for _ in 0..2 {
            assert_eq!(ground.look(&mut keeper, &frames).unwrap(), Found::NotNow);
        }
        // The look goes on where there is nothing to wait for.
        ground.header = None;
        assert_eq!(ground.look(&mut keeper, &frames).unwrap(), Found::Touched);
        assert_eq!(ground.look(&mut keeper, &frames).unwrap(), Found::Sound);
        std::thread::sleep(CLOCK_STEP);
        File::options().write(true).open(&path).unwrap().write_all_at(b"T", 0).unwrap();
        assert_eq!(ground.look(&mut keeper, &frames).unwrap(), Found::NotNow);
        std::thread::sleep(QUIET);
        assert_eq!(ground.look(&mut keeper, &frames).unwrap(), Found::Overwritten);
    }
}
