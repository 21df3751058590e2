//! A connection that reads the write-ahead log of a database, and keeps others from starting it
//! anew meanwhile.
//!
//! SQLite starts the log anew, or empties it, only under the exclusive locks of all marks of
//! readers in the log's index (<https://www.sqlite.org/walformat.html>, 2.3.2). The keeper holds
//! one of these locks, shared as a reader does, with the mark `NO_MARK`, which says that no reader
//! uses it. So it stops no checkpoint from copying frames, as the mark of a reader that stays
//! would, and takes part in no reader's choice of a mark.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::ffi::{
    SQLITE_BUSY, SQLITE_OK, SQLITE_SHM_EXCLUSIVE, SQLITE_SHM_LOCK, SQLITE_SHM_SHARED,
    SQLITE_SHM_UNLOCK,
};
use tdekit_sqlite::SlotIds;
use tdekit_sqlite_convert::DatabaseError;

use super::frames::{FRAME_HEADER_LEN, Frame, HEADER_LEN, LogHeader, sum};
use crate::RunError;
use crate::error::ArchiveError;
use crate::snapshot::ffi::{MainFile, number};

/// Bytes of the first region of the index.
const REGION_LEN: usize = 32 * 1024;
/// Version of the index, in its first number.
const VERSION: u32 = 3_007_000;
/// Numbers of a copy of the header, and of those that its checksum covers.
const COPY: usize = 12;
const SUMMED: usize = 10;
/// Places of numbers behind the two copies.
const BACKFILL: usize = 24;
const MARKS: usize = 25;
const ATTEMPTED: usize = 32;
/// The lock for copying frames into the main file.
const COPYING_LOCK: c_int = 1;
/// The lock of the first mark; the second and following belong to readers of the log.
const FIRST_MARK_LOCK: usize = 3;
/// Marks that may be taken, in the order of trying. Readers begin with the first.
const CANDIDATES: [usize; 3] = [4, 3, 2];
/// The mark of a lock that no reader uses.
const NO_MARK: u32 = u32::MAX;
const TRIES: usize = 100;

/// The index of a log at one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Index {
    /// SQLite's count of commits, as long as the index exists.
    pub(super) commits: u32,
    /// Committed frames in the log.
    pub(super) frames: u32,
    /// Pages of the database.
    pub(super) pages: u32,
    /// The checksum of the last of these frames.
    pub(super) checksum: [u32; 2],
    /// The salts of the log.
    pub(super) salts: [u8; 8],
    /// Frames that were copied into the main file.
    pub(super) copied: u32,
    /// Frames of which some may have been copied beyond that.
    pub(super) attempted: u32,
}

/// The connection. It begins no transaction once a lock is held: SQLite must not use that lock.
pub(super) struct Keeper {
    path: PathBuf,
    connection: Connection,
    page_size: u32,
    held: Option<usize>,
    frame: Vec<u8>,
}

impl Keeper {
    /// Takes a new connection to the database at `path`.
    ///
    /// # Errors
    /// `NoDatabase`, `NotWal`, `NoIndex`; those of SQLite.
    pub(super) fn new(connection: Connection, path: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::from(DatabaseError::sqlite("read", path, None)(source));
        connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
        connection.execute_batch("PRAGMA mmap_size = 0; PRAGMA cache_size = 16").map_err(failed)?;
        // Opens the log, and recovers it after a crash.
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
            .map_err(failed)?;
        let mode: String = connection
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .map_err(failed)?;
        let pages: u32 =
            connection.pragma_query_value(None, "page_count", |row| row.get(0)).map_err(failed)?;
        if pages == 0 {
            return Err(ArchiveError::NoDatabase { path: path.to_owned() }.into());
        }
        if mode != "wal" {
            return Err(ArchiveError::NotWal { path: path.to_owned(), mode }.into());
        }
        let page_size =
            connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        let path = path.to_owned();
        let mut keeper = Self { path, connection, page_size, held: None, frame: Vec::new() };
        match keeper.index() {
            Some(_) => Ok(keeper),
            None => Err(keeper.no_index("it is not shared with other processes")),
        }
    }

    pub(super) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Returns the index; `None` if it cannot be read, as while it is being made anew.
    pub(super) fn index(&mut self) -> Option<Index> {
        let file = MainFile::of(&mut self.connection)?;
        let region = file.log_index(0, REGION_LEN)?;
        let copy = |from: usize| -> Option<[u32; COPY]> {
            let numbers = region.get(from..from + COPY)?;
            let mut out = [0; COPY];
            out.iter_mut().zip(numbers).for_each(|(out, it)| *out = number(it));
            Some(out)
        };
        for _ in 0..TRIES {
            let (first, second) = (copy(0)?, copy(COPY)?);
            let bytes: Vec<u8> = first.iter().flat_map(|number| number.to_ne_bytes()).collect();
            let summed = bytes.get(..SUMMED * 4).unwrap_or_default();
            let native = cfg!(target_endian = "big");
            let [commits, frames, pages] = [first[2], first[4], first[5]];
            let whole = first == second
                && first[0] == VERSION
                && bytes.get(12).is_some_and(|is_made| *is_made != 0)
                && sum(native, [0; 2], summed) == [first[10], first[11]];
            if whole {
                let mut salts = [0; 8];
                salts.copy_from_slice(bytes.get(32..40)?);
                return Some(Index {
                    commits,
                    frames,
                    pages,
                    checksum: [first[6], first[7]],
                    salts,
                    copied: region.get(BACKFILL).map_or(0, number),
                    attempted: region.get(ATTEMPTED).map_or(0, number),
                });
            }
            std::thread::yield_now();
        }
        None
    }

    /// Keeps the log from being started anew until [`Self::let_go`]. Returns false while readers
    /// use all locks.
    ///
    /// # Errors
    /// `NoIndex`.
    pub(super) fn hold(&mut self) -> Result<bool, RunError> {
        if self.held.is_some() {
            return Ok(true);
        }
        for _ in 0..TRIES {
            for mark in CANDIDATES {
                match self.take(mark) {
                    SQLITE_OK => {
                        self.held = Some(mark);
                        return Ok(true);
                    }
                    SQLITE_BUSY => {}
                    _ => return Err(self.no_index("its locks cannot be used")),
                }
            }
            std::thread::yield_now();
        }
        Ok(false)
    }

    /// Writes the mark under its exclusive lock, as SQLite does, then shares the lock. In between
    /// a reader may have taken it: then the mark says so.
    fn take(&mut self, mark: usize) -> c_int {
        let Some(file) = MainFile::of(&mut self.connection) else { return SQLITE_BUSY };
        let lock = c_int::try_from(FIRST_MARK_LOCK + mark).unwrap_or(c_int::MAX);
        let code = file.lock_index(lock, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
        if code != SQLITE_OK {
            return code;
        }
        let place = file.log_index(0, REGION_LEN).and_then(|region| region.get(MARKS + mark));
        if let Some(place) = place {
            place.store(NO_MARK, Ordering::Release);
        }
        file.lock_index(lock, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
        if place.is_none() {
            return SQLITE_BUSY;
        }
        let code = file.lock_index(lock, 1, SQLITE_SHM_LOCK | SQLITE_SHM_SHARED);
        if code != SQLITE_OK {
            return code;
        }
        if place.is_some_and(|place| number(place) == NO_MARK) {
            return SQLITE_OK;
        }
        file.lock_index(lock, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
        SQLITE_BUSY
    }

    /// Returns true while others cannot start the log anew.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Lets others start the log anew.
    pub(super) fn let_go(&mut self) {
        let Some(mark) = self.held.take() else { return };
        let lock = c_int::try_from(FIRST_MARK_LOCK + mark).unwrap_or(c_int::MAX);
        if let Some(file) = MainFile::of(&mut self.connection) {
            file.lock_index(lock, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
        }
    }

    /// Keeps others from copying frames into the main file until [`Self::admit_copying`]. Returns
    /// false while another one does.
    pub(super) fn keep_from_copying(&mut self) -> bool {
        let file = MainFile::of(&mut self.connection);
        let lock = SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE;
        file.is_some_and(|file| file.lock_index(COPYING_LOCK, 1, lock) == SQLITE_OK)
    }

    pub(super) fn admit_copying(&mut self) {
        if let Some(file) = MainFile::of(&mut self.connection) {
            file.lock_index(COPYING_LOCK, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
        }
    }

    /// Reads a page of the main file; `None` if it cannot be read.
    pub(super) fn main_page(&mut self, page: u32) -> Option<Vec<u8>> {
        let len = usize::try_from(self.page_size).ok()?;
        let mut bytes = vec![0; len];
        let at = u64::from(page.checked_sub(1)?) * u64::from(self.page_size);
        MainFile::of(&mut self.connection)?.read(&mut bytes, at, len).then_some(bytes)
    }

    /// Returns the identities of the slots in an encrypted database's header; `None` if plain.
    pub(super) fn slot_ids(&mut self) -> Option<SlotIds> {
        MainFile::of(&mut self.connection)?.slot_ids()
    }

    /// Has the log stay as it is when the connection ends.
    pub(super) fn leave_log(&self) {
        // It fails for no connection.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    /// Copies frames of the log into the main file, as far as readers allow that.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(super) fn checkpoint(&self) -> Result<(), RunError> {
        let sql = "PRAGMA main.wal_checkpoint(PASSIVE)";
        match self.connection.query_row(sql, [], |_| Ok(())) {
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.code == rusqlite::ErrorCode::DatabaseBusy =>
            {
                Ok(())
            }
            done => Ok(done.map_err(DatabaseError::sqlite("checkpoint", &self.path, None))?),
        }
    }

    /// Returns the header of the log.
    ///
    /// # Errors
    /// `Log`.
    pub(super) fn header(&mut self) -> Result<LogHeader, RunError> {
        let mut bytes = [0; HEADER_LEN];
        let file = MainFile::log_of(&mut self.connection);
        let read = file.is_some_and(|file| file.read(&mut bytes, 0, HEADER_LEN));
        let header =
            LogHeader::decode(&bytes).filter(|header| read && header.page_size == self.page_size);
        header.ok_or_else(|| self.unreadable("its header is not whole".to_owned()))
    }

    /// Reads frame `number`, from 0, behind frames with the checksum `before`. Its page is then
    /// [`Self::page`].
    ///
    /// # Errors
    /// `Log`.
    pub(super) fn frame(
        &mut self,
        header: &LogHeader,
        number: u32,
        before: [u32; 2],
    ) -> Result<Frame, RunError> {
        self.load(number)?;
        let frame = Frame::decode(header, before, &self.frame);
        frame.ok_or_else(|| self.unreadable(format!("frame {number} is not whole")))
    }

    /// Returns the page of the frame that was last read.
    pub(super) fn page(&self) -> &[u8] {
        self.frame.get(FRAME_HEADER_LEN..).unwrap_or_default()
    }

    /// Returns the page number of the frame that was last read, and the size of the database behind
    /// it if it ends a transaction, else 0.
    pub(super) fn head(&self) -> (u32, u32) {
        let field = |at: usize| self.frame.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        let [page, commit] = [0, 4].map(|at| field(at).copied().map_or(0, u32::from_be_bytes));
        (page, commit)
    }

    /// Returns true if the frame that was last read holds this page.
    pub(super) fn is_of(&self, page: u32) -> bool {
        self.frame.starts_with(&page.to_be_bytes())
    }

    /// Returns the checksum of the log up to and with frame `number`, as it stands there.
    ///
    /// # Errors
    /// `Log`.
    pub(super) fn stored_checksum(&mut self, number: u32) -> Result<[u32; 2], RunError> {
        self.load(number)?;
        let field = |at: usize| {
            let bytes = self.frame.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            bytes.copied().map_or(0, u32::from_be_bytes)
        };
        Ok([field(16), field(20)])
    }

    /// Reads a whole frame.
    pub(super) fn load(&mut self, number: u32) -> Result<(), RunError> {
        let page_len = usize::try_from(self.page_size).unwrap_or(0);
        self.frame.resize(FRAME_HEADER_LEN + page_len, 0);
        let at = HEADER_LEN as u64 + u64::from(number) * self.frame.len() as u64;
        let len = self.frame.len();
        let file = MainFile::log_of(&mut self.connection);
        if file.is_some_and(|file| file.read(&mut self.frame, at, len)) {
            return Ok(());
        }
        Err(self.unreadable(format!("frame {number} cannot be read")))
    }

    fn no_index(&self, reason: &'static str) -> RunError {
        ArchiveError::NoIndex { path: self.path.clone(), reason }.into()
    }

    pub(super) fn unreadable(&self, reason: String) -> RunError {
        ArchiveError::Log { path: self.path.clone(), reason }.into()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The locks of a connection outlive it in the process.
        self.let_go();
    }
}
