//! A database that is followed: the connections to it, and what was read of its log.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tdekit_key_crypto::sha256;
use tdekit_sqlite_convert::{DatabaseError, is_key_changing, with_suffix};
use tdekit_sqlite_page::wal::{FRAME_PREFIX_LEN, WAL_HEADER_AREA_LEN};
use tdekit_sqlite_page::{HEADER_AREA_LEN, RESERVE_LEN};

use super::frames::{FRAME_HEADER_LEN, HEADER_LEN};
use super::ground::{Aside, Found, Ground, is_below, lacks_page_1, put_aside, sides};
use super::keeper::{Index, Keeper};
use super::last::{LOCKS_IN_USE, NO_INDEX};
use super::marks::{Marks, look};
use super::pending::{Captured, Pending, Position};
use super::state::{CLOCK_STEP, FileStamp, Shipped, read_beside};
use super::watch::Watch;
use crate::database::source::{Database, connect};
use crate::error::ArchiveError;
use crate::labels::now_ms;
use crate::output::lock;
use crate::snapshot::{Snapshot, open_kept};
use crate::{DatabaseSource, RunError};

/// Opens the database; called again where another file took its place.
pub type Open<'a> = Box<dyn Fn() -> Result<Database, RunError> + 'a>;

/// Time that a writer is waited for.
const WRITER_WAIT: Duration = Duration::from_secs(10);
/// Time for which writers wait while the log is about to be started anew.
const TURN_WAIT: Duration = Duration::from_millis(100);
const TURN_TRIES: usize = 5;
/// Time for which another process's checkpoint is waited for then, and how often it is asked.
const COPY_WAIT: Duration = Duration::from_millis(50);
const COPY_PAUSE: Duration = Duration::from_millis(1);
/// Most frames that are copied while writers wait.
const MOST_COPIED_ALONE: u32 = 4096;
/// Bytes of pages that wait in memory to be shipped, before the log has to keep them.
pub(super) const MAX_WAITING_BYTES: u64 = 64 << 20;
/// Time for which another process's checkpoint is waited for before the main file is looked at.
const LOOK_WAIT: Duration = Duration::from_secs(10);

/// The database.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) keeper: Arc<Mutex<Keeper>>,
    /// Excludes writers for moments, and starts the log anew.
    pub(super) writer: Arc<Mutex<Connection>>,
    pub(super) pending: Pending,
    marks: Arc<Mutex<Marks>>,
    /// Looks while this thread does not.
    pub(super) watch: Watch,
    pub(super) ground: Ground,
    file: (u64, u64),
    encrypted_file_id: Option<[u8; 16]>,
    page_size: u32,
    /// The file of an encrypted database, which is not closed as long as it has a name: that would
    /// drop the locks of this process.
    opened: Option<Arc<File>>,
    /// The log's index, kept in the same way.
    pub(super) index: Arc<File>,
    /// The digest of page 1 that is recorded.
    pub(super) page_1_noted: Option<String>,
    /// True if nothing of the log may be copied when the database is closed.
    pub(super) leaves_log: bool,
}

/// Whether the log was started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// It was; what was read last is in memory.
    Anew,
    /// A reader or writer was in the way.
    NotNow,
    /// Too much waits in memory.
    TooLong,
    /// It was, and transactions may be missing.
    Gap,
}

impl Source {
    /// Opens the database. `put` receives the log of another file once it was put aside, whatever
    /// fails behind that.
    pub(super) fn open(open: &Open<'_>, put: &mut dyn FnMut(PathBuf)) -> Result<Self, RunError> {
        let Database { source, .. } = open()?;
        let DatabaseSource { connection, path, encrypted_file_id } = source;
        // Before SQLite looks at the log, which it would give up or lay over the file.
        if let Some(log) = put_foreign_log_aside(&path, encrypted_file_id)? {
            put(log);
        }
        let mut keeper = Keeper::new(connection, &path)?;
        let writer = connect(&path, encrypted_file_id.is_some())?;
        // Its transactions change nothing, so a power cut may take them back.
        let prepared = "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL";
        writer.execute_batch(prepared).map_err(DatabaseError::sqlite("open", &path, None))?;
        let metadata = std::fs::metadata(&path).map_err(RunError::io("read", &path))?;
        let opened = match encrypted_file_id {
            Some(_) => Some(open_kept(&path).map_err(RunError::io("open", &path))?),
            None => None,
        };
        let name = with_suffix(&path, "-shm");
        let index_file = open_kept(&name).map_err(RunError::io("open", &name))?;
        let marks = Arc::default();
        let own = Keeper::new(connect(&path, encrypted_file_id.is_some())?, &path)?;
        let watch = Watch::start(own, &marks)?;
        let index = keeper.index().ok_or(RunError::Internal("an index that was there"))?;
        keeper.hold()?;
        let ground = Ground::new(&path, &mut keeper, &index)?;
        Ok(Self {
            ground,
            page_size: keeper.page_size(),
            keeper: Arc::new(Mutex::new(keeper)),
            writer: Arc::new(Mutex::new(writer)),
            pending: Pending::new(Position::end_of(&index), 0, Arc::clone(&marks)),
            marks,
            watch,
            file: (metadata.dev(), metadata.ino()),
            path,
            encrypted_file_id,
            opened,
            index: index_file,
            page_1_noted: None,
            leaves_log: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn page_size(&self) -> u32 {
        self.page_size
    }

    pub(super) fn file(&self) -> (u64, u64) {
        self.file
    }

    pub(super) fn encrypted_file_id(&self) -> Option<[u8; 16]> {
        self.encrypted_file_id
    }

    /// Returns the bytes at the end of each page that count as zeros.
    pub(super) fn zeroed(&self) -> usize {
        if self.encrypted_file_id.is_some() { RESERVE_LEN } else { 0 }
    }

    /// Looks whether the main file is still that below the log: by one `stat`, where that shows no
    /// write.
    pub(super) fn glance(&mut self) -> Result<Found, RunError> {
        self.ground.glance(&mut lock(&self.keeper), &self.pending.frames)
    }

    /// Looks thoroughly whether the main file is still that below the log.
    pub(super) fn look(&mut self) -> Result<Found, RunError> {
        let begun = std::time::Instant::now();
        loop {
            let found = self.look_once()?;
            if found != Found::NotNow {
                return Ok(found);
            }
            if begun.elapsed() > LOOK_WAIT {
                return Err(RunError::Locked { path: self.path.clone() });
            }
            std::thread::sleep(COPY_PAUSE);
        }
    }

    /// Looks thoroughly, without waiting for a process that copies frames.
    fn look_once(&mut self) -> Result<Found, RunError> {
        if let Some(found) = self.look_beside_checkpoint()? {
            return Ok(found);
        }
        self.ground.look(&mut lock(&self.keeper), &self.pending.frames)
    }

    /// Returns the main file as it was when it was last looked at thoroughly.
    pub(super) fn stamp_below(&self) -> FileStamp {
        self.ground.stamp()
    }

    /// Returns the main file as it was at the last look, the digest of its page 1, and whether
    /// frames were copied into it since. Page 1 is read from the file that is open then.
    pub(super) fn last_below(&self) -> (FileStamp, Option<String>, bool) {
        let mut keeper = lock(&self.keeper);
        let index = keeper.index();
        let (stamp, is_copied_into) = self.ground.last(index.as_ref());
        let page_1 = match is_copied_into && self.opened.is_none() {
            true => keeper.main_page(1).map(|page| hex::encode(sha256(&[&page]))),
            false => self.page_1_sha256(),
        };
        (stamp, page_1, is_copied_into)
    }

    /// Returns the digest of page 1 as it stands in the main file, hexadecimal; of an encrypted
    /// database, of sealed bytes.
    pub(super) fn page_1_sha256(&self) -> Option<String> {
        let Some(file) = &self.opened else {
            return self.ground.page_1().map(|page| hex::encode(sha256(&[page])));
        };
        let mut bytes = vec![0; usize::try_from(self.page_size).ok()?];
        file.read_exact_at(&mut bytes, HEADER_AREA_LEN).ok()?;
        Some(hex::encode(sha256(&[&bytes])))
    }

    /// Returns device and inode of the log.
    pub(super) fn log(&self) -> Option<(u64, u64)> {
        self.ground.log()
    }

    /// Returns true while another process changes the key of the database.
    pub(super) fn is_key_changing(&self) -> bool {
        self.opened.as_ref().is_some_and(|file| is_key_changing(file).unwrap_or(false))
    }

    /// Keeps the log. If readers use all locks, the next call may succeed: until then, SQLite's
    /// count of commits shows whether anything was lost.
    pub(super) fn hold(&mut self) -> Result<bool, RunError> {
        lock(&self.keeper).hold()
    }

    /// Lets others start the log anew. What was read and not shipped is kept in memory, as far as
    /// it fits.
    pub(super) fn let_go(&mut self) {
        let mut keeper = lock(&self.keeper);
        self.pending.let_go(&mut keeper);
        keeper.let_go();
    }

    /// Notes when commits were seen; returns the number of frames in the log.
    pub(super) fn note(&mut self) -> u32 {
        look(&self.marks, &mut lock(&self.keeper)).map_or(0, |index| index.frames)
    }

    /// Reads what was committed since. Pages are kept in memory with `hold`, and where the log is
    /// not kept from being started anew.
    pub(super) fn capture(&mut self, hold: bool) -> Result<Captured, RunError> {
        let mut keeper = lock(&self.keeper);
        let hold = hold || !keeper.is_held();
        self.pending.capture(&mut keeper, hold)
    }

    /// Goes on from where `shipped` ends. Returns false if something may be missing in between.
    pub(super) fn resume(
        &mut self,
        shipped: &Shipped,
        (clean, ground): (Option<FileStamp>, Option<FileStamp>),
    ) -> Result<bool, RunError> {
        if (shipped.file, shipped.page_size) != (self.file, self.page_size) {
            return Ok(false);
        }
        let mut keeper = lock(&self.keeper);
        let Some(index) = keeper.index() else { return Ok(false) };
        let commits = index.commits;
        if self.is_shipped_from(&index, shipped) {
            let known = ground.is_some_and(|it| it.is_written_as(&self.ground.stamp()));
            if !known && !is_below(&self.path, &mut keeper)? {
                return Ok(false);
            }
            let frames = shipped.frames;
            let checksum = match frames.checked_sub(1) {
                Some(last) => keeper.stored_checksum(last)?,
                None => [0; 2],
            };
            let position = Position { salts: index.salts, frames, checksum, commits };
            drop(keeper);
            self.pending = Pending::new(position, shipped.time_ms, Arc::clone(&self.marks));
            return Ok(true);
        }
        let stamp = FileStamp::of(&self.path).map_err(RunError::io("read", &self.path))?;
        if clean != Some(stamp) {
            return Ok(false);
        }
        // Everything since is in the log: nothing was copied into the main file.
        let position = Position { salts: index.salts, frames: 0, checksum: [0; 2], commits };
        drop(keeper);
        self.pending = Pending::new(position, shipped.time_ms, Arc::clone(&self.marks));
        Ok(true)
    }

    /// Returns true if sets were shipped from this log. Logs without a frame cannot be
    /// distinguished: the index of an empty log has no salts.
    fn is_shipped_from(&self, index: &Index, shipped: &Shipped) -> bool {
        shipped.frames > 0
            && hex::encode(index.salts) == shipped.salts
            && index.frames >= shipped.frames
            && self.frame_sha256(shipped.frames) == shipped.frame_sha256
    }

    /// Returns true if another file was put in the place of the one below the log while nobody
    /// followed it, whose stamp and page 1 are recorded. From then on each look finds that, and no
    /// frame is copied.
    pub(super) fn is_rejected(
        &mut self,
        shipped: &Shipped,
        (ground, page_1_sha256): (Option<FileStamp>, Option<&str>),
    ) -> Result<bool, RunError> {
        let (Some(ground), Some(recorded)) = (ground, page_1_sha256) else { return Ok(false) };
        let keeper = Arc::clone(&self.keeper);
        let mut keeper = lock(&keeper);
        let Some(index) = keeper.index() else { return Ok(false) };
        if ground.is_written_as(&self.ground.stamp())
            || !self.is_shipped_from(&index, shipped)
            || self.page_1_sha256().as_deref() == Some(recorded)
            || !lacks_page_1(&mut keeper, &index)?
        {
            return Ok(false);
        }
        self.ground.reject();
        Ok(true)
    }

    /// Returns the digest of the bytes of the last of `frames` frames in the log's file.
    pub(super) fn frame_sha256(&self, frames: u32) -> Option<String> {
        let is_encrypted = self.encrypted_file_id.is_some();
        frame_sha256(&self.path, (is_encrypted, self.page_size), frames)
    }

    /// Begins a snapshot, and returns the time of that. What is committed behind it is read from
    /// then on.
    pub(super) fn snapshot(&mut self, last_ms: i64) -> Result<(Snapshot, i64), RunError> {
        let connection = connect(&self.path, self.encrypted_file_id.is_some())?;
        let asked = std::time::Instant::now();
        loop {
            // It excludes writers, and waits for this process.
            self.give_up_to_checkpoint();
            match self.exclude_writers(TURN_WAIT) {
                Err(RunError::Locked { .. }) if asked.elapsed() < WRITER_WAIT => {}
                excluded => break excluded?,
            }
        }
        let begun = self.begin_snapshot(connection, last_ms);
        self.admit_writers()?;
        begun
    }

    fn begin_snapshot(
        &mut self,
        connection: Connection,
        last_ms: i64,
    ) -> Result<(Snapshot, i64), RunError> {
        let mut keeper = lock(&self.keeper);
        let held = keeper.hold()?;
        let index = keeper.index().filter(|_| held);
        drop(keeper);
        let (path, reason) = (self.path.clone(), if held { NO_INDEX } else { LOCKS_IN_USE });
        let index = index.ok_or(ArchiveError::NotShipped { path, reason })?;
        let time_ms = now_ms().max(last_ms);
        let source = DatabaseSource {
            connection,
            path: self.path.clone(),
            encrypted_file_id: self.encrypted_file_id,
        };
        let snapshot = Snapshot::open(source)?;
        self.page_size = snapshot.page_size();
        self.ground = Ground::new(&self.path, &mut lock(&self.keeper), &index)?;
        self.pending = Pending::new(Position::end_of(&index), time_ms, Arc::clone(&self.marks));
        Ok((snapshot, time_ms))
    }

    /// Starts the log anew, if not too much waits in memory already.
    pub(super) fn turn_held(&mut self) -> Result<Turned, RunError> {
        match self.pending.held_bytes().is_some_and(|held| held < MAX_WAITING_BYTES) {
            true => self.turn(),
            false => Ok(Turned::TooLong),
        }
    }

    /// Copies the log into the main file and starts it anew, by a transaction that changes nothing.
    /// Everything read before is shipped, or in memory.
    ///
    /// Only a writer can start the log anew, and only if all of it was copied before its
    /// transaction began.
    pub(super) fn turn(&mut self) -> Result<Turned, RunError> {
        if self.pending.held_bytes().is_none() || self.checkpoint_that_waits().is_some() {
            return Ok(Turned::NotNow);
        }
        // Most is read and copied while writers go on. Where many write, each of them copies behind
        // its commit: then another process is about it nearly always, until it is excluded.
        match self.capture(true)? {
            Captured::Everything => {}
            Captured::NotNow => return Ok(Turned::NotNow),
            Captured::TooMany => return Ok(Turned::TooLong),
            Captured::Gap => return Ok(Turned::Gap),
        }
        match self.look_once()? {
            Found::Sound => lock(&self.keeper).checkpoint()?,
            Found::NotNow => {}
            _ => return Ok(Turned::NotNow),
        }
        self.turn_copied()
    }

    /// Starts the log anew, of which most was read and copied.
    pub(super) fn turn_copied(&mut self) -> Result<Turned, RunError> {
        for _ in 0..TURN_TRIES {
            match self.exclude_writers(TURN_WAIT) {
                Ok(()) => {}
                Err(error) if error.kind() == tdekit_key_crypto::Kind::Busy => break,
                Err(error) => return Err(error),
            }
            match self.turn_alone() {
                Ok(None) => self.admit_writers()?,
                Ok(Some(Turned::Anew)) => return self.begin_anew(),
                done => {
                    self.admit_writers()?;
                    return Ok(done?.unwrap_or(Turned::NotNow));
                }
            }
        }
        Ok(Turned::NotNow)
    }

    /// Reads the rest of the log and copies it, under exclusion of writers. Returns `Anew` if all
    /// was copied when that began, and `None` if the next transaction may begin so.
    fn turn_alone(&mut self) -> Result<Option<Turned>, RunError> {
        let index = lock(&self.keeper).index();
        let left = index.map_or(u32::MAX, |index| index.frames.saturating_sub(index.copied));
        if left > MOST_COPIED_ALONE {
            return Ok(Some(Turned::NotNow));
        }
        Ok(match self.capture(true)? {
            Captured::Everything if left == 0 => Some(Turned::Anew),
            Captured::Everything if self.copy_rest()? => None,
            Captured::TooMany => Some(Turned::TooLong),
            _ => Some(Turned::NotNow),
        })
    }

    /// Copies the rest of the log, under exclusion of writers: after another process that is about
    /// it. Returns false if a reader prevents it.
    pub(super) fn copy_rest(&mut self) -> Result<bool, RunError> {
        let begun = std::time::Instant::now();
        loop {
            match self.look_once()? {
                Found::Sound => lock(&self.keeper).checkpoint()?,
                Found::NotNow => {}
                _ => return Ok(false),
            }
            if lock(&self.keeper).index().is_some_and(|index| index.copied == index.frames) {
                return Ok(true);
            }
            if begun.elapsed() > COPY_WAIT {
                return Ok(false);
            }
            std::thread::sleep(COPY_PAUSE);
        }
    }

    /// Reads the rest of the log, under exclusion of writers. Returns true if all of it was copied
    /// when that began.
    fn is_all_copied(&mut self) -> Result<bool, RunError> {
        let index = lock(&self.keeper).index();
        let copied = index.is_some_and(|index| index.copied == index.frames);
        Ok(copied && self.capture(true)? == Captured::Everything)
    }

    fn begin_anew(&mut self) -> Result<Turned, RunError> {
        let path = self.path.clone();
        let failed = |source| DatabaseError::sqlite("write", &path, None)(source);
        let version: i64 = lock(&self.writer)
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(failed)?;
        if self.look_once()? != Found::Sound {
            self.admit_writers()?;
            return Ok(Turned::NotNow);
        }
        lock(&self.keeper).let_go();
        let writer = lock(&self.writer);
        let written = writer
            .pragma_update(None, "user_version", version)
            .and_then(|()| writer.execute_batch("COMMIT"));
        drop(writer);
        let held = lock(&self.keeper).hold()?;
        if let Err(error) = written {
            self.admit_writers()?;
            return Err(failed(error).into());
        }
        let captured = self.capture(true)?;
        self.look_once()?;
        match captured {
            _ if !held => Ok(Turned::NotNow),
            Captured::Gap => Ok(Turned::Gap),
            _ => Ok(Turned::Anew),
        }
    }

    /// Begins a transaction that writes nothing.
    pub(super) fn exclude_writers(&self, wait: Duration) -> Result<(), RunError> {
        let failed = |source| DatabaseError::sqlite("lock", &self.path, None)(source);
        let writer = lock(&self.writer);
        writer.busy_timeout(wait).map_err(failed)?;
        match writer.execute_batch("BEGIN IMMEDIATE") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                Err(RunError::Locked { path: self.path.clone() })
            }
            begun => Ok(begun.map_err(failed)?),
        }
    }

    /// Ends that transaction.
    pub(super) fn admit_writers(&self) -> Result<(), RunError> {
        let writer = lock(&self.writer);
        if writer.is_autocommit() {
            return Ok(());
        }
        let ended = writer.execute_batch("ROLLBACK");
        Ok(ended.map_err(DatabaseError::sqlite("unlock", &self.path, None))?)
    }

    /// Returns what identifies the main file, if all is in there and everything was read: under
    /// exclusion of writers.
    pub(super) fn stamp(&mut self) -> Result<Option<FileStamp>, RunError> {
        if self.look()? != Found::Sound {
            return Ok(None);
        }
        lock(&self.keeper).checkpoint()?;
        if !self.is_all_copied()?
            || self.look()? != Found::Sound
            || !self.pending.transactions.is_empty()
        {
            return Ok(None);
        }
        let stamp = || FileStamp::of(&self.path).map_err(RunError::io("read", &self.path));
        let first = stamp()?;
        if first.age() < CLOCK_STEP {
            std::thread::sleep(CLOCK_STEP);
        }
        let second = stamp()?;
        Ok(Some(second).filter(|second| *second == first))
    }
}

/// Returns the digest of the bytes of the last of `frames` frames in the file of a log.
fn frame_sha256(path: &Path, (encrypted, page_size): (bool, u32), frames: u32) -> Option<String> {
    let last = u64::from(frames.checked_sub(1)?);
    let (area, prefix) = match encrypted {
        true => (WAL_HEADER_AREA_LEN, FRAME_PREFIX_LEN),
        false => (HEADER_LEN, FRAME_HEADER_LEN),
    };
    let mut bytes = vec![0; prefix + usize::try_from(page_size).ok()?];
    // SQLite takes no locks on this file, which closing it would drop.
    let file = File::open(with_suffix(path, "-wal")).ok()?;
    let at = area as u64 + last * bytes.len() as u64;
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(hex::encode(sha256(&[&bytes])))
}

/// Puts the log aside that was shipped from, if the file is another one by its form or its key: it
/// took the place of that below the log while nobody followed it.
///
/// # Errors
/// `Locked` while a process has the database open, `Io`.
fn put_foreign_log_aside(
    path: &Path,
    encrypted_file_id: Option<[u8; 16]>,
) -> Result<Option<PathBuf>, RunError> {
    // A record that cannot be read shows nothing; the next step says so.
    let Ok(Some(record)) = read_beside(path) else { return Ok(None) };
    let (Some(shipped), Some(_)) = (&record.shipped, &record.page_1_sha256) else {
        return Ok(None);
    };
    let form = (!record.file_id.is_empty(), shipped.page_size);
    if record.file_id == encrypted_file_id.map(hex::encode).unwrap_or_default()
        || shipped.frame_sha256.is_none()
        || frame_sha256(path, form, shipped.frames) != shipped.frame_sha256
    {
        return Ok(None);
    }
    match put_aside(path, sides(path)[0])? {
        Aside::Nothing => Ok(None),
        Aside::Put(log) => Ok(Some(log)),
        Aside::InUse => Err(RunError::Locked { path: path.to_owned() }),
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.watch.end();
        // The last connection that ends copies the log into the main file: not into another one.
        if !self.leaves_log && matches!(self.look(), Ok(Found::Sound)) {
            return;
        }
        lock(&self.keeper).leave_log();
        let kept = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // It fails for no connection.
        let _ = lock(&self.writer).set_db_config(kept, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::source::open;

    /// Writers that copy the log behind each commit are about it nearly always.
    #[test]
    fn a_turn_does_not_wait_for_a_process_that_copies() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.db");
        let db = Connection::open(&path).unwrap();
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(n); INSERT INTO t VALUES (1)";
        db.execute_batch(sql).unwrap();
        let area = std::fs::read(&path).unwrap();
        let no_keys = || Err(RunError::Internal("a plain database needs no keys"));
        let again: Open<'_> = Box::new(|| open(path.clone(), &area, no_keys));
        let mut source = Source::open(&again, &mut |_| {}).unwrap();
        db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(source.capture(true).unwrap(), Captured::Everything);

        let mut other = Keeper::new(connect(&path, false).unwrap(), &path).unwrap();
        assert!(other.keep_from_copying());
        assert_eq!(source.turn().unwrap(), Turned::NotNow);
        // Writers are admitted again.
        db.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        other.admit_copying();
        assert_eq!(source.turn().unwrap(), Turned::Anew);
        assert_eq!(source.pending.transactions.len(), 3, "two rows, and the turn itself");
    }
}
