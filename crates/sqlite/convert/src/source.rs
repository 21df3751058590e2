//! A database that is opened to be converted or to get another header, locked against other users.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tdekit_key_store::is_workplace;

use crate::emptied::refuse_emptied;
use crate::error::{DatabaseError, io_error};
use crate::ffi::register;
use crate::holders::holders_of;
use crate::inspect::{FileKind, read_area, refuse_unencrypted};
use crate::memory::available_bytes;
use crate::target::{is_still, with_suffix};
use tdekit_sqlite_client::file_uri;

/// Maximum wait for another connection's transaction.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// SQLite's cache for a check of a whole database: so much of the memory that is left, at least and
/// at most so much.
const CHECK_CACHE_PART: u64 = 8;
const MIN_CHECK_CACHE_BYTES: u64 = 64 << 20;
const MAX_CHECK_CACHE_BYTES: u64 = 1 << 30;
/// Interval of attempts to get its lock.
const BUSY_LOOK: Duration = Duration::from_micros(500);

/// Time for which a process may have the file open in passing: one that is ending, or a forked
/// child that has not executed its own program yet.
const PASSING: Duration = Duration::from_millis(300);

/// The connections that a database is locked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Every other connection, until the source is dropped.
    Everyone,
    /// Other writers, until the source is dropped.
    Writers,
}

/// A database, locked and recovered.
pub struct Source {
    /// The connection. Dropped before `file`.
    pub db: Connection,
    /// Our own descriptor. POSIX locks belong to the process: closing it before the connection
    /// would drop the connection's locks.
    pub file: Arc<File>,
    /// The resolved path.
    pub path: PathBuf,
    /// True if its journal is a write-ahead log.
    pub wal: bool,
}

impl Source {
    /// Opens and locks the database at `path`, which [`database_path`] has checked. A hot journal
    /// is rolled back, and a log left by a crash is copied into the database.
    ///
    /// # Errors
    /// `InUse` when others have it open, `ReadOnly`, SQLite's errors for a damaged file.
    pub fn open(path: &Path, hold: Hold) -> Result<Self, DatabaseError> {
        Self::open_through(Arc::new(open_file(path)?), path, hold)
    }

    /// As [`open`](Self::open), through a descriptor of the caller's that is open for reading and
    /// writing. Closing any descriptor drops the locks of all connections that the process has to
    /// the database.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); `Replaced` if the descriptor is of another file.
    pub fn open_through(file: Arc<File>, path: &Path, hold: Hold) -> Result<Self, DatabaseError> {
        register().map_err(DatabaseError::sqlite("prepare to open", path, None))?;
        refuse_odd_sides(path)?;
        if hold == Hold::Everyone {
            // Others must close it: waiting for a lock is no use.
            check_alone(path, &file)?;
        }
        let kind = FileKind::of(&read_area(&file).map_err(io_error("read", path))?);
        refuse_emptied(path, kind)?;
        let parameters = match kind {
            FileKind::Encrypted => "",
            // Keeps TDEKIT_ENCRYPT_NEW from applying to an empty file.
            FileKind::Plain | FileKind::Empty | FileKind::Other => "?tdekit=plain",
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(file_uri(path) + parameters, flags)
            .map_err(DatabaseError::sqlite("open", path, None))?;
        if let Err(error) = db.busy_handler(Some(ask_often)) {
            return Err(DatabaseError::sqlite("open", path, Some(&db))(error));
        }
        let failed = |db| DatabaseError::sqlite("open", path, db);
        if db.is_readonly("main").map_err(failed(Some(&db)))? {
            return Err(DatabaseError::ReadOnly { path: path.to_owned() });
        }
        let locked = lock(&db, hold);
        db.busy_timeout(BUSY_WAIT).map_err(failed(Some(&db)))?;
        match locked {
            Ok(()) => {}
            Err(error) => {
                let error = failed(Some(&db))(error);
                return Err(name_holders(error, &file));
            }
        }
        let wal = pragma::<String>(&db, "journal_mode").map_err(failed(Some(&db)))? == "wal";
        let source = Self { db, file, path: path.to_owned(), wal };
        source.check_place()?;
        if hold == Hold::Everyone {
            source.check_alone()?;
            source.empty_log()?;
        }
        Ok(source)
    }

    /// Fails if another process has the file open, or if the path names another file.
    pub fn check_alone(&self) -> Result<(), DatabaseError> {
        self.check_place()?;
        check_alone(&self.path, &self.file)
    }

    /// Translates SQLite's error on this database.
    pub fn failed(
        &self,
        action: &'static str,
    ) -> impl FnOnce(rusqlite::Error) -> DatabaseError + '_ {
        DatabaseError::sqlite(action, &self.path, Some(&self.db))
    }

    fn check_place(&self) -> Result<(), DatabaseError> {
        match is_still(&self.path, &self.file) {
            true => Ok(()),
            false => Err(DatabaseError::Replaced { path: self.path.clone() }),
        }
    }

    /// Copies the log into the database and truncates it to nothing: only then may it be removed.
    fn empty_log(&self) -> Result<(), DatabaseError> {
        if !self.wal {
            return Ok(());
        }
        let busy: i64 = self
            .db
            .query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map_err(self.failed("checkpoint"))?;
        match busy {
            0 => Ok(()),
            _ => Err(DatabaseError::InUse { path: self.path.clone(), holders: Vec::new() }),
        }
    }
}

/// Resolves the name of a database file, through symbolic links.
///
/// # Errors
/// `NotAFile` if it is not a regular file, or is a temporary file of our own; `Io`.
pub fn database_path(name: &Path) -> Result<PathBuf, DatabaseError> {
    let refused = |path: &Path, problem| DatabaseError::NotAFile { path: path.to_owned(), problem };
    let path = match fs::canonicalize(name) {
        Ok(path) => path,
        Err(_) if is_no_file_name(name) => {
            return Err(refused(name, "is not the path of a database file"));
        }
        Err(source) => return Err(io_error("open", name)(source)),
    };
    let metadata = fs::metadata(&path).map_err(io_error("examine", &path))?;
    if metadata.is_dir() {
        return Err(refused(&path, "is a directory"));
    }
    if !metadata.is_file() {
        return Err(refused(&path, "is not an ordinary file"));
    }
    if path.parent().is_some_and(is_workplace) {
        return Err(refused(&path, "is what tdekit calls its own temporary files"));
    }
    Ok(path)
}

/// Fails if `name` is not that of an encrypted database, as far as is known without a key.
///
/// # Errors
/// `NotEncrypted`, `NotADatabase`; as [`database_path`].
pub fn require_encrypted(name: &Path) -> Result<(), DatabaseError> {
    let path = database_path(name)?;
    let file = File::open(&path).map_err(io_error("open", &path))?;
    refuse_unencrypted(&path, &read_area(&file).map_err(io_error("read", &path))?)
}

/// Fails if the file has names besides `path` and, if it differs, `besides`.
pub(crate) fn refuse_other_names(
    path: &Path,
    file: &File,
    besides: Option<&Path>,
) -> Result<(), DatabaseError> {
    let links = file.metadata().map_err(io_error("examine", path))?.nlink();
    let ours = 1 + u64::from(besides.is_some_and(|other| is_still(other, file)));
    match links.saturating_sub(ours) {
        0 => Ok(()),
        others => Err(DatabaseError::HardLinked { path: path.to_owned(), others }),
    }
}

/// Fails if a pipe in place of a journal or a log would make SQLite wait for ever.
///
/// # Errors
/// `Io`.
pub fn refuse_odd_sides(path: &Path) -> Result<(), DatabaseError> {
    for suffix in ["-journal", "-wal"] {
        let side = with_suffix(path, suffix);
        if fs::metadata(&side).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
            let odd = io::Error::other("it is not an ordinary file");
            return Err(io_error("use", &side)(odd));
        }
    }
    Ok(())
}

/// Opens a file for reading and writing, or only for reading if writing is not allowed.
pub fn open_file(path: &Path) -> Result<File, DatabaseError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.or_else(|_| File::open(path)).map_err(io_error("open", path))
}

/// Returns the value of a pragma of the main database.
pub fn pragma<T: rusqlite::types::FromSql>(db: &Connection, name: &str) -> rusqlite::Result<T> {
    db.pragma_query_value(Some("main"), name, |row| row.get(0))
}

/// Makes SQLite's checks pass over rows that violate a CHECK. They are not damage: SQLite accepts
/// them when it is told to, as for constraints of T-SQL that are not trusted. It also leaves out
/// functions of the application in such a constraint.
///
/// # Errors
/// SQLite's.
pub fn pass_over_constraints(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "ignore_check_constraints", true)
}

/// Runs SQLite's check with this name, and returns its first line. An integrity_check looks each
/// row up in each index; with a small cache it reads, and opens, most pages many times.
///
/// # Errors
/// SQLite's.
pub fn check_pages(db: &Connection, check: &str) -> rusqlite::Result<String> {
    pass_over_constraints(db)?;
    let bytes = available_bytes().unwrap_or(0) / CHECK_CACHE_PART;
    let bytes = bytes.clamp(MIN_CHECK_CACHE_BYTES, MAX_CHECK_CACHE_BYTES);
    let kib = i64::try_from(bytes / 1024).unwrap_or(i64::MAX);
    db.pragma_update(Some("main"), "cache_size", -kib)?;
    pragma(db, check)
}

/// Fails if another process has the file open.
pub fn check_alone(path: &Path, file: &File) -> Result<(), DatabaseError> {
    let metadata = file.metadata().map_err(io_error("examine", path))?;
    let end = Instant::now() + PASSING;
    loop {
        let holders = holders_of(&metadata);
        if holders.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(DatabaseError::InUse { path: path.to_owned(), holders });
        }
        thread::sleep(PASSING / 10);
    }
}

/// A continuous writer releases its lock only for moments, which SQLite's own handler sleeps
/// through.
fn ask_often(asked: i32) -> bool {
    thread::sleep(BUSY_LOOK);
    u128::try_from(asked).is_ok_and(|n| n * BUSY_LOOK.as_micros() < BUSY_WAIT.as_micros())
}

fn lock(db: &Connection, hold: Hold) -> rusqlite::Result<()> {
    match hold {
        // In this mode the locks of the first transaction stay until the connection closes, and a
        // log is opened only if no other connection has the database open.
        Hold::Everyone => {
            db.query_row("PRAGMA main.locking_mode=EXCLUSIVE", [], |_| Ok(()))?;
            db.execute_batch("BEGIN EXCLUSIVE; SELECT 1 FROM sqlite_schema; COMMIT")
        }
        Hold::Writers => db.execute_batch("BEGIN IMMEDIATE; SELECT 1 FROM sqlite_schema"),
    }
}

/// Adds to the error the processes that have the database open, where the system reports them.
fn name_holders(error: DatabaseError, file: &File) -> DatabaseError {
    match (error, file.metadata()) {
        (DatabaseError::InUse { path, .. }, Ok(metadata)) => {
            DatabaseError::InUse { path, holders: holders_of(&metadata) }
        }
        (error, _) => error,
    }
}

fn is_no_file_name(name: &Path) -> bool {
    let name = name.as_os_str().as_bytes();
    name.is_empty() || name == b":memory:" || name.starts_with(b"file:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in [Path::new(":memory:"), Path::new(""), Path::new("file:x?mode=memory")] {
            let refused = database_path(name);
            assert!(matches!(refused, Err(DatabaseError::NotAFile { .. })), "{name:?}");
        }
        assert!(database_path(dir.path()).is_err());
        assert!(database_path(&dir.path().join("none")).is_err());
        let own = dir.path().join("tdekit-new.0123456789abcdef/a.db");
        fs::create_dir(own.parent().unwrap()).unwrap();
        fs::write(&own, "x").unwrap();
        assert!(database_path(&own).is_err());
        let file = dir.path().join("a.db");
        fs::write(&file, "x").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(database_path(&link).unwrap(), fs::canonicalize(&file).unwrap());
    }
}
