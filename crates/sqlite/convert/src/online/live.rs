//! A plain database in use by others, and the moments at which nobody changes it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::emptied::refuse_emptied;
use crate::error::{DatabaseError, io_error};
use crate::ffi::{keep_openers_out, register};
use crate::holders::strangers_of;
use crate::inspect::FileKind;
use crate::source::{open_file, pragma, refuse_other_names};
use crate::target::{is_still, with_suffix};
use crate::watch::{Watch, go_on};
use tdekit_sqlite_client::file_uri;

/// Maximum wait for a moment without writers, or without any users.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Time for which others wait for us while we wait for others.
const BUSY_WAIT: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(20);
/// Time for which a process that would not follow may be the child of a fork, and the interval of
/// that check.
const FORK_WAIT: Duration = Duration::from_millis(200);
const FORK_LOOK: Duration = Duration::from_millis(5);
/// Bytes at the start of a log's index by which connections check that it is valid.
const INDEX_HEADER_LEN: usize = 96;

/// The access from which others are excluded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Writing.
    Writers,
    /// Beginning any transaction; readers of the main file alone may finish reading.
    Everyone,
}

pub(crate) struct Live {
    db: Connection,
    /// Copies the log while `db` excludes writers.
    second: Connection,
    /// Closed after the connections, because closing it drops their locks. The same holds for the
    /// log's index.
    index: Option<File>,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) wal: bool,
}

impl Live {
    /// Opens the plain database at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, DatabaseError> {
        register().map_err(DatabaseError::sqlite("prepare to open", path, None))?;
        let file = open_file(path)?;
        refuse_other_names(path, &file, None)?;
        let (db, second) = (connect(path)?, connect(path)?);
        if db.is_readonly("main").map_err(failed(path, &db))? {
            return Err(DatabaseError::ReadOnly { path: path.to_owned() });
        }
        let wal = pragma::<String>(&db, "journal_mode").map_err(failed(path, &db))? == "wal";
        let live = Self { db, second, index: None, file, path: path.to_owned(), wal };
        live.check_users()?;
        Ok(live)
    }

    /// Fails if a process has the file open that would not follow, or if the path names another
    /// file.
    pub(crate) fn check_users(&self) -> Result<(), DatabaseError> {
        if !is_still(&self.path, &self.file) {
            return Err(DatabaseError::Replaced { path: self.path.clone() });
        }
        let metadata = self.file.metadata().map_err(io_error("examine", &self.path))?;
        let begun = Instant::now();
        loop {
            let holders = strangers_of(&metadata);
            if holders.is_empty() {
                return Ok(());
            }
            // The child of a fork has its parent's open files until it executes another program.
            if begun.elapsed() > FORK_WAIT {
                return Err(DatabaseError::WithoutExtension { path: self.path.clone(), holders });
            }
            sleep(FORK_LOOK);
        }
    }

    /// Waits for a moment at which the main file has all data, and excludes others until `release`.
    pub(crate) fn hold(&self, keep: Keep, watch: &dyn Watch) -> Result<(), DatabaseError> {
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            go_on(watch)?;
            let held = match (self.wal, keep) {
                (true, Keep::Writers) => self.try_log_copied(),
                (true, Keep::Everyone) => self.try_log_empty(),
                (false, Keep::Writers) => self.begin("BEGIN; SELECT 1 FROM sqlite_schema"),
                (false, Keep::Everyone) => {
                    self.begin("BEGIN EXCLUSIVE; SELECT 1 FROM sqlite_schema")
                }
            };
            let held = held.map_err(failed(&self.path, &self.db));
            if !matches!(held, Ok(true)) {
                self.release();
            }
            match held {
                Ok(true) => return self.check_mode(),
                Ok(false) | Err(DatabaseError::InUse { .. }) if Instant::now() < end => {
                    sleep(PAUSE)
                }
                Ok(false) => {
                    return Err(DatabaseError::InUse {
                        path: self.path.clone(),
                        holders: Vec::new(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the exclusion of others.
    pub(crate) fn release(&self) {
        if !self.db.is_autocommit() {
            // A transaction that wrote nothing.
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }

    fn check_mode(&self) -> Result<(), DatabaseError> {
        let mode =
            pragma::<String>(&self.db, "journal_mode").map_err(failed(&self.path, &self.db))?;
        if (mode == "wal") == self.wal {
            return Ok(());
        }
        self.release();
        let problem = "its journal mode was changed meanwhile".to_owned();
        Err(DatabaseError::NotOnline { path: self.path.clone(), problem })
    }

    fn begin(&self, sql: &str) -> rusqlite::Result<bool> {
        match self.db.execute_batch(sql) {
            Err(error) if is_busy(&error) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Excludes writers, then copies the content of the log.
    fn try_log_copied(&self) -> rusqlite::Result<bool> {
        if !self.begin("BEGIN IMMEDIATE; SELECT 1 FROM sqlite_schema")? {
            return Ok(false);
        }
        checkpoint(&self.second, "PASSIVE")
    }

    /// Empties the log, which requires that nobody reads it, then excludes writers.
    fn try_log_empty(&self) -> rusqlite::Result<bool> {
        checkpoint(&self.second, "TRUNCATE")?;
        let begun = self.begin("BEGIN IMMEDIATE; SELECT 1 FROM sqlite_schema")?;
        let log = fs::metadata(with_suffix(&self.path, "-wal")).map_or(0, |log| log.len());
        Ok(begun && log == 0)
    }

    /// Under `Keep::Everyone`: prevents new connections from opening the file, and makes existing
    /// ones check the log's index again, so that a connection that cannot follow fails.
    pub(crate) fn close_doors(&mut self) -> Result<(), DatabaseError> {
        let journal = with_suffix(&self.path, "-journal");
        match fs::OpenOptions::new().write(true).open(&journal).and_then(|file| file.set_len(0)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("truncate", &journal)(error));
            }
            _ => {}
        }
        if !self.wal {
            return Ok(());
        }
        let end = Instant::now() + BUSY_WAIT;
        while !keep_openers_out(&self.file).map_err(io_error("lock", &self.path))? {
            if Instant::now() >= end {
                return Err(DatabaseError::InUse { path: self.path.clone(), holders: Vec::new() });
            }
            sleep(PAUSE / 20);
        }
        let name = with_suffix(&self.path, "-shm");
        let index =
            fs::OpenOptions::new().write(true).open(&name).map_err(io_error("open", &name))?;
        let blank = [0; INDEX_HEADER_LEN];
        let index = self.index.insert(index);
        index.write_all_at(&blank, 0).map_err(io_error("write", &name))
    }
}

/// Copies the content of the log into the main file, and returns true if that is complete. Another
/// connection that is checkpointing prevents it.
fn checkpoint(db: &Connection, how: &str) -> rusqlite::Result<bool> {
    let sql = format!("PRAGMA main.wal_checkpoint({how})");
    let copied = db.query_row(&sql, [], |row| {
        let (busy, frames, copied): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(!busy && frames >= 0 && frames == copied)
    });
    match copied {
        Err(error) if is_busy(&error) => Ok(false),
        copied => copied,
    }
}

fn connect(path: &Path) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    refuse_emptied(path, FileKind::Plain)?;
    let open = DatabaseError::sqlite("open", path, None);
    let db = Connection::open_with_flags(file_uri(path) + "?tdekit=plain", flags).map_err(open)?;
    db.busy_timeout(LONGEST_WAIT).map_err(failed(path, &db))?;
    // Reads the schema, and recovers after a crash.
    db.execute_batch("SELECT 1 FROM sqlite_schema").map_err(failed(path, &db))?;
    db.busy_timeout(BUSY_WAIT).map_err(failed(path, &db))?;
    Ok(db)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn failed<'a>(
    path: &'a Path,
    db: &'a Connection,
) -> impl FnOnce(rusqlite::Error) -> DatabaseError + 'a {
    DatabaseError::sqlite("lock", path, Some(db))
}
