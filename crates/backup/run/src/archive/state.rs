//! The record of what was shipped, beside the database: `NAME-replica`. Its lock keeps a second
//! process from following the database.
//!
//! It holds no content: of an encrypted database, only a digest of sealed bytes. Where it is lost,
//! damaged or older than the archive, a new chain begins.

use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::sha256;
use tdekit_key_store::led_to;
use tdekit_sqlite_convert::with_suffix;

use crate::RunError;
use crate::error::{ArchiveError, RecordFault};
use crate::labels::now_ms;

const SUFFIX: &str = "-replica";
/// Suffix of a standby's record.
pub(super) const STANDBY: &str = "-standby";
const VERSION: u32 = 1;
/// A record begins with it.
const FIRST_KEY: &[u8] = b"{\"version\":";
/// Longer files are not records.
const MAX_LEN: u64 = 1 << 20;
/// Time between a write and the time of a file's last change from which the two are told apart.
pub(super) const CLOCK_STEP: std::time::Duration = std::time::Duration::from_millis(50);
/// Age of the last write from which a file that was overwritten counts as written.
pub(super) const WRITTEN: std::time::Duration = std::time::Duration::from_secs(1);
/// Time for which a database may be written to while nobody follows it.
const UNFOLLOWED_MS: i64 = 15 * 60 * 1000;
/// Time by which a write may seem to be later than what was shipped with it.
const CLOCK_SLACK_MS: i64 = 5000;
/// Tries of the lock, and the pause between them.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// The archive.
    pub archive: String,
    /// The last object that was shipped.
    pub shipped: Option<Shipped>,
    /// An object that was about to be shipped, and what holds then.
    pub intent: Option<Intent>,
    /// The main file, where the process ended in order and had shipped everything in it; without a
    /// log, the main file as it was shipped last.
    pub clean: Option<FileStamp>,
    /// The last failure, since the last object.
    pub error: Option<String>,
    /// The archive has everything that was committed by then, milliseconds since 1970.
    #[serde(default)]
    pub current_ms: Option<i64>,
    /// The main file when it was last found to be that below the log.
    #[serde(default)]
    pub ground: Option<FileStamp>,
    /// SHA-256 of its page 1 then, hexadecimal; of an encrypted database, of sealed bytes.
    #[serde(default)]
    pub page_1_sha256: Option<String>,
    /// The id of the encrypted file, hexadecimal; empty for a plain one.
    #[serde(default)]
    pub file_id: String,
    /// The lineage of the sets, hexadecimal, the own id first; empty where an older version shipped
    /// them.
    #[serde(default)]
    pub lineage: Vec<String>,
    /// Identifies the claims on objects that the owner of the record has made.
    #[serde(default)]
    pub claimant: String,
}

/// The state behind an object that was shipped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shipped {
    /// Number of the object.
    pub number: u64,
    /// Set id, hexadecimal.
    pub set_id: String,
    /// SHA-256 of the set's trailer, hexadecimal.
    pub trailer_sha256: String,
    /// Set id of the chain's full set, hexadecimal.
    pub chain: String,
    /// Number of the object with that set.
    pub first: u64,
    /// Time of the last transaction, milliseconds since 1970.
    pub time_ms: i64,
    /// When the object was shipped.
    pub shipped_ms: i64,
    /// When the chain's full set was begun.
    pub snapshot_ms: i64,
    /// Bytes of that set, and of the log sets behind it.
    pub full_bytes: u64,
    /// Bytes of the log sets.
    pub log_bytes: u64,
    /// True if the object is encrypted; `None` if an older version shipped it.
    #[serde(default)]
    pub sealed: Option<bool>,
    /// Page size of the database.
    pub page_size: u32,
    /// Device and inode of its file.
    pub file: (u64, u64),
    /// Salts of the log, hexadecimal; empty for a database without one.
    pub salts: String,
    /// Frames of it that are shipped.
    pub frames: u32,
    /// SHA-256 of the bytes of the last of these frames in the log's file, hexadecimal.
    pub frame_sha256: Option<String>,
}

/// An object that is about to be shipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Time in its header.
    pub begun_ms: i64,
    /// Number of its transactions; 0 for a full set.
    pub transactions: u32,
    /// The state behind it; its digests are not known yet.
    pub then: Shipped,
}

/// Identifies a file that was not written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    file: (u64, u64),
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self {
            file: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Returns true if both are of one file.
    pub(super) fn is_of_file(&self, other: &Self) -> bool {
        self.file == other.file
    }

    /// Returns true if the file was not written to between the two.
    pub(super) fn is_written_as(&self, other: &Self) -> bool {
        (self.file, self.len, self.modified) == (other.file, other.len, other.modified)
    }

    /// Returns true if both were written at the same time.
    pub(super) fn is_timed_as(&self, other: &Self) -> bool {
        self.modified == other.modified
    }

    /// Returns true if both have the same times, also that of the last change of the file's entry,
    /// which only the system sets.
    pub(super) fn has_times_of(&self, other: &Self) -> bool {
        (self.modified, self.changed) == (other.modified, other.changed)
    }

    /// Returns the length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the time of the last write, milliseconds since 1970.
    fn written_ms(&self) -> i64 {
        let (seconds, nanoseconds) = self.modified;
        seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
    }

    /// Returns the age of the last write.
    pub(super) fn age(&self) -> std::time::Duration {
        let (seconds, nanoseconds) = self.modified.max(self.changed);
        let at = u64::try_from(seconds).unwrap_or(0);
        let since = std::time::Duration::new(at, u32::try_from(nanoseconds).unwrap_or(0));
        let at = std::time::UNIX_EPOCH.checked_add(since);
        at.and_then(|at| at.elapsed().ok()).unwrap_or_default()
    }
}

/// The record's file, locked.
pub(super) struct StateFile {
    file: File,
    path: PathBuf,
    pub(super) state: State,
}

impl State {
    /// Makes the record of an archive to which nothing was shipped yet.
    #[must_use]
    pub fn of(archive: String) -> Self {
        Self { archive, ..Self::default() }
    }

    /// Returns the time by which everything is in the archive; `None` for one that is later than
    /// now: the clock was set back since.
    pub(super) fn current_by(&self, now_ms: i64) -> Option<i64> {
        self.current_ms.filter(|current_ms| *current_ms <= now_ms)
    }

    /// Returns true if the last object was shipped from another file than the database's. The
    /// database may have been replaced since. Devices are not compared: their numbers may change.
    pub(super) fn is_of_other_file(&self, database: &Path) -> bool {
        let (Some(shipped), Ok(file)) = (&self.shipped, std::fs::metadata(database)) else {
            return false;
        };
        shipped.file.1 != file.ino()
    }
}

impl StateFile {
    /// Opens and locks the record of a database.
    ///
    /// # Errors
    /// `Followed`, `NotARecord`, `RecordRefused`, `Io`.
    pub(super) fn open(database: &Path) -> Result<Self, RunError> {
        Self::open_beside(database, SUFFIX)
    }

    /// As [`Self::open`], of the record with this ending.
    pub(super) fn open_beside(database: &Path, suffix: &str) -> Result<Self, RunError> {
        let path = with_suffix(database, suffix);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = options.custom_flags(nofollow).open(&path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied if path.exists() => {
                let (record, reason) = (path.clone(), error.to_string());
                ArchiveError::RecordRefused { record, reason }.into()
            }
            _ if is_no_file(&error) => ArchiveError::NotARecord { path: path.clone() }.into(),
            _ => RunError::io("open", &path)(error),
        })?;
        for left in (0..LOCK_TRIES).rev() {
            match file.try_lock() {
                Ok(()) => break,
                // It may be `is_followed` that looks.
                Err(TryLockError::WouldBlock) if left > 0 => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let path = database.to_owned();
                    return Err(match suffix {
                        SUFFIX => ArchiveError::Followed { path },
                        _ => ArchiveError::KeptUp { path },
                    }
                    .into());
                }
                Err(TryLockError::Error(source)) => {
                    return Err(RunError::io("lock", &path)(source));
                }
            }
        }
        let state = match read(&file) {
            None if !is_record(&file).map_err(RunError::io("read", &path))? => {
                return Err(ArchiveError::NotARecord { path }.into());
            }
            state => state.unwrap_or_default(),
        };
        let mut file = Self { file, path, state };
        if file.state.claimant.is_empty() {
            let random = RandomState::new().hash_one(std::process::id());
            file.state.claimant = format!("{random:016x}");
        }
        Ok(file)
    }

    /// Removes the record.
    pub(super) fn remove(self) {
        // One that stays is taken up again.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Makes the record anew where its name is gone: its lock, which a second process looks for, is
    /// that of the name.
    ///
    /// # Errors
    /// `Followed` if another file has the name, `Io`.
    pub(super) fn keep(&mut self, database: &Path) -> Result<(), RunError> {
        let own = self.file.metadata().map_err(RunError::io("examine", &self.path))?;
        let failed = || RunError::io("make", &self.path);
        match std::fs::symlink_metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed()(error)),
            Ok(_) => return Err(ArchiveError::Followed { path: database.to_owned() }.into()),
        }
        let mut options = OpenOptions::new();
        let made =
            match options.read(true).write(true).create_new(true).mode(0o600).open(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    return Err(ArchiveError::Followed { path: database.to_owned() }.into());
                }
                made => made.map_err(failed())?,
            };
        if made.try_lock().is_err() {
            return Err(ArchiveError::Followed { path: database.to_owned() }.into());
        }
        self.file = made;
        self.write()
    }

    /// Writes the record. It is not synced: after a power cut an older one, or none, may be there,
    /// which is noticed.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn write(&mut self) -> Result<(), RunError> {
        self.state.version = VERSION;
        let failed = || RunError::io("write", &self.path);
        let json = serde_json::to_vec(&self.state)
            .map_err(|_| RunError::Internal("a record of no form"))?;
        let line = [&json[..], b"\n", hex::encode(sha256(&[&json])).as_bytes(), b"\n"].concat();
        self.file.write_all_at(&line, 0).map_err(failed())?;
        self.file.set_len(line.len() as u64).map_err(failed())
    }
}

/// Records that a try to ship failed before the archive was open, for who asks for the state. What
/// another process follows keeps the record of that process.
pub fn note_failure(database: &Path, archive: &str, error: &str) {
    let Ok(database) = led_to(database) else { return };
    if !database.is_file() {
        return;
    }
    let Ok(mut file) = StateFile::open(&database) else { return };
    if file.state.shipped.is_none() {
        archive.clone_into(&mut file.state.archive);
    }
    file.state.error = Some(error.to_owned());
    file.state.current_ms = file.state.current_by(now_ms());
    // The failure itself is reported; this is for `status`.
    let _ = file.write();
}

/// Returns the record of a database that is followed, or was; `None` without one.
///
/// # Errors
/// `UnreadRecord` for what is there and cannot be read.
pub(super) fn read_beside(database: &Path) -> Result<Option<State>, RunError> {
    match recorded_beside(database) {
        Recorded::Nothing => Ok(None),
        Recorded::State(state) => Ok(Some(*state)),
        Recorded::Unread(reason) => {
            Err(ArchiveError::UnreadRecord { record: record_of(database), reason }.into())
        }
    }
}

/// Returns the path of a database's record.
pub(super) fn record_of(database: &Path) -> PathBuf {
    with_suffix(database, SUFFIX)
}

/// The record beside a database.
pub(super) enum Recorded {
    /// There is none, or a process has just begun to make it.
    Nothing,
    /// It is whole.
    State(Box<State>),
    /// It is there and cannot be read, for this reason.
    Unread(RecordFault),
}

/// Reads the record beside a database. It is written in place, so one that is not whole is read
/// again.
pub(super) fn recorded_beside(database: &Path) -> Recorded {
    let path = record_of(database);
    let mut left = LOCK_TRIES;
    loop {
        let file = match open_to_read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Recorded::Nothing,
            Err(error) => {
                return Recorded::Unread(RecordFault::NotOpened { reason: error.to_string() });
            }
            Ok(file) => file,
        };
        if let Some(state) = read(&file) {
            return Recorded::State(Box::new(state));
        }
        if left == 0 {
            let metadata = file.metadata();
            let is_empty = metadata.as_ref().is_ok_and(|it| it.is_file() && it.len() == 0);
            return match is_record(&file) {
                _ if is_empty && is_locked(&path).unwrap_or(false) => Recorded::Nothing,
                Ok(true) if metadata.is_ok_and(|it| it.is_file()) => {
                    Recorded::Unread(RecordFault::Damaged)
                }
                _ => Recorded::Unread(RecordFault::OtherFile),
            };
        }
        left -= 1;
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Returns the record of a standby, and whether a process keeps it up; `None` if it is none.
///
/// # Errors
/// `Io`.
pub fn standby_of(database: &Path) -> Result<Option<(State, bool)>, RunError> {
    let path = with_suffix(database, STANDBY);
    match state_in(&path)? {
        Some(state) => Ok(Some((state, is_locked(&path)?))),
        None => Ok(None),
    }
}

fn state_in(path: &Path) -> Result<Option<State>, RunError> {
    match open_to_read(path) {
        Ok(file) => Ok(read(&file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::io("open", path)(error)),
    }
}

/// Returns the time up to which everything is shipped, milliseconds since 1970, if the database was
/// written to since, that is some time ago, and no process follows it; `None` otherwise.
///
/// # Errors
/// `Io`, `UnreadRecord`.
pub fn unshipped_since(database: &Path) -> Result<Option<i64>, RunError> {
    let Some(state) = read_beside(database)? else { return Ok(None) };
    let shipped = state.shipped.as_ref().map(|shipped| shipped.time_ms);
    let Some(since_ms) = state.current_ms.or(shipped) else { return Ok(None) };
    if now_ms().saturating_sub(since_ms) < UNFOLLOWED_MS || is_followed(database)? {
        return Ok(None);
    }
    let own = FileStamp::of(database).map_err(RunError::io("examine", database))?;
    let is_clean = state.clean.is_some_and(|clean| clean.is_written_as(&own));
    let log = FileStamp::of(&with_suffix(database, "-wal")).ok().filter(|log| log.len() > 0);
    let own = (!is_clean).then_some(own);
    let written_ms = [own, log].iter().flatten().map(FileStamp::written_ms).max();
    let is_later = |written_ms: i64| written_ms > since_ms.saturating_add(CLOCK_SLACK_MS);
    Ok(written_ms.is_some_and(is_later).then_some(since_ms))
}

/// Returns true if a process follows the database.
///
/// # Errors
/// `Io`.
pub fn is_followed(database: &Path) -> Result<bool, RunError> {
    is_locked(&record_of(database))
}

fn is_locked(path: &Path) -> Result<bool, RunError> {
    let file = match open_to_read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(RunError::io("open", path))?,
    };
    match file.try_lock_shared() {
        // The lock ends with the file.
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(RunError::io("lock", path)(source)),
    }
}

/// Opens a record. It does not wait for the writer of a pipe in its place.
fn open_to_read(path: &Path) -> std::io::Result<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblock).open(path)
}

/// Returns true for an empty file, and for what is a record, even a damaged one; another file that
/// has its name is not overwritten.
fn is_record(file: &File) -> std::io::Result<bool> {
    let mut start = [0; FIRST_KEY.len()];
    let len = file.read_at(&mut start, 0)?;
    let same = start.iter().zip(FIRST_KEY).filter(|(found, wanted)| found == wanted).count();
    // One byte may be damaged.
    Ok(len == 0 || same + 1 >= FIRST_KEY.len())
}

/// Reads the record; `None` if it is not whole.
fn read(file: &File) -> Option<State> {
    let len = file.metadata().ok()?.len();
    let mut bytes = vec![0; usize::try_from(len).ok().filter(|_| len <= MAX_LEN)?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (json, digest) = text.split_once('\n')?;
    let whole = digest.trim_end() == hex::encode(sha256(&[json.as_bytes()]));
    let state: State = serde_json::from_str(json).ok().filter(|_| whole)?;
    (state.version == VERSION).then_some(state)
}

/// Returns true if a file could not be opened because its name is a directory's or a link's.
fn is_no_file(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::ISDIR, Errno::LOOP].map(Errno::raw_os_error).map(Some).contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_again_unless_a_byte_of_it_changed() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        assert_eq!(read_beside(&database).unwrap(), None);
        let mut file = StateFile::open(&database).unwrap();
        let claimant = file.state.claimant.clone();
        assert_eq!(file.state, State { claimant, ..State::default() });
        let shipped = Shipped { number: 7, ..Shipped::default() };
        file.state.shipped = Some(shipped);
        file.state.error = Some("a long text that is not there later".to_owned());
        file.write().unwrap();
        file.state.error = None;
        file.write().unwrap();
        assert_eq!(read_beside(&database).unwrap().unwrap(), file.state);
        assert!(matches!(
            StateFile::open(&database),
            Err(RunError::Archive(ArchiveError::Followed { .. }))
        ));
        drop(file);
        let other = dir.path().join("other.db");
        for text in [&b"a backup of something else"[..], b"\0", b"{}"] {
            std::fs::write(record_of(&other), text).unwrap();
            assert!(matches!(
                StateFile::open(&other),
                Err(RunError::Archive(ArchiveError::NotARecord { .. }))
            ));
            assert_eq!(std::fs::read(record_of(&other)).unwrap(), text);
        }
        let path = record_of(&database);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() - 1 {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            std::fs::write(&path, &wrong).unwrap();
            let found = state_in(&path);
            assert_eq!(found.unwrap(), None, "{at}");
            assert!(StateFile::open(&database).is_ok(), "{at}");
        }
        for len in [0, 40, whole.len() / 2] {
            std::fs::write(&path, &whole[..len]).unwrap();
            let error = read_beside(&database).unwrap_err().to_string();
            assert!(error.contains("a.db-replica is damaged"), "{len}: {error}");
        }
        // A process has begun, and has written nothing yet.
        let begun = StateFile::open(&database).unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(read_beside(&database).unwrap(), None);
        drop(begun);
    }
}
