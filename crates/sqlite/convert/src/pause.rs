//! Halting a change of a database's key, and its progress.
//!
//! A halt is a file beside the database, `NAME-tdekit-paused`: whoever changes the key looks for it
//! before each transaction, in any process, and after a restart of the machine too. It contains the
//! number of the version that must not be applied, so a file that outlived its change does not halt
//! another one. Before a change ends, it puts its own note there, `finishing`, while it has the
//! write lock: so a halt comes before the end, or is refused. Any other note halts. A note without
//! a final newline is being written, or was when the power failed: nobody was told of a halt, and
//! it has no effect.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tdekit_key_store::open_ordinary;
use tdekit_sqlite_page::Header;

use crate::error::{DatabaseError, io_error};
use crate::inspect::{header_of, read_area, refuse_unencrypted};
use crate::source::{database_path, open_file};
use crate::status::names_of;
use crate::target::{NOTE_SUFFIX, sync_directory, with_suffix};
use crate::versions::{page_size_in, pages_by_key_version};
use crate::watch::{Watch, go_on};

/// The note of a change that is about to end.
const FINISHING: &str = "finishing";
/// Maximum wait for a change that is about to end.
const END_WAIT: Duration = Duration::from_secs(10);
/// Maximum wait for the end of an incomplete note.
const WRITE_WAIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
/// Time for which a change is observed to measure its pace.
const SAMPLE: Duration = Duration::from_secs(1);

/// Progress of a key change.
#[derive(Debug, Serialize)]
pub struct Progress {
    /// The database's resolved path.
    #[serde(serialize_with = "crate::path_text::path_text")]
    pub path: PathBuf,
    /// State of the change.
    pub state: State,
    /// The version of the key in force.
    pub key_version: u32,
    /// Versions that pages may still name.
    pub key_versions: Vec<u32>,
    /// Algorithm of the key in force.
    pub algorithm: &'static str,
    /// All algorithms that pages may still be sealed with.
    pub algorithms: Vec<&'static str>,
    /// Pages of the main file.
    pub pages: u64,
    /// Number of these pages that are sealed under an older version.
    pub pages_left: u64,
    /// Percentage of pages sealed anew; 100 if no key change is in progress.
    pub percent_complete: f64,
    /// Pages per second, if any were sealed during the observation.
    pub pages_per_s: Option<f64>,
    /// Estimated remaining time at this pace, in seconds.
    pub left_s: Option<f64>,
}

/// State of a key change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No key change.
    None,
    /// Pages were sealed anew during the observation.
    Running,
    /// A change has begun, but no page was sealed during the observation: nobody is working on it,
    /// or the worker is waiting.
    Waiting,
    /// A change is halted until it is resumed.
    Paused,
}

/// Halts the change of the key of `name`, in whatever process, until [`resume`].
///
/// # Errors
/// `NoKeyChange` if none has begun, or it ended in the meantime; `InUse` if one is about to end for
/// too long; `NotEncrypted`; `Io`.
pub fn pause(name: &Path) -> Result<PathBuf, DatabaseError> {
    let path = database_path(name)?;
    pause_through(&open_file(&path)?, &path)?;
    Ok(path)
}

/// As [`pause`], for a process with connections to the database: closing a descriptor of it would
/// drop their locks. `path` is resolved.
///
/// # Errors
/// Those of [`pause`].
pub fn pause_through(file: &File, path: &Path) -> Result<(), DatabaseError> {
    let begun = Instant::now();
    let owned = || path.to_owned();
    loop {
        let header = look(path, file)?;
        if header.deks.len() < 2 {
            return Err(DatabaseError::NoKeyChange { path: owned() });
        }
        let said = match make(path, &header.current.to_string())? {
            Made::New => {
                // The change may have ended before the note was there.
                let now = look(path, file)?;
                if now.deks.len() < 2 || now.current != header.current {
                    forget(path)?;
                } else if is_paused(path, header.current) {
                    return Ok(());
                }
                continue;
            }
            Made::There(said) => said,
        };
        match said {
            Some(Said::Version(version)) if version == header.current => return Ok(()),
            Some(Said::Version(_)) => drop(forget(path)?),
            Some(Said::Other) if begun.elapsed() > WRITE_WAIT => return Ok(()),
            Some(Said::Finishing) if begun.elapsed() > END_WAIT => {
                return Err(DatabaseError::InUse { path: owned(), holders: Vec::new() });
            }
            Some(Said::Unfinished) if begun.elapsed() > WRITE_WAIT => drop(forget(path)?),
            Some(Said::Finishing | Said::Unfinished | Said::Other) | None => {
                std::thread::sleep(POLL);
            }
        }
    }
}

/// Cancels a halt. Returns true if there was one.
///
/// # Errors
/// `NoKeyChange` if none has begun; `NotEncrypted`; `Io`.
pub fn resume(name: &Path) -> Result<bool, DatabaseError> {
    let path = database_path(name)?;
    resume_through(&open_file(&path)?, &path)
}

/// As [`resume`], for a process with connections to the database; see [`pause_through`].
///
/// # Errors
/// Those of [`resume`].
pub fn resume_through(file: &File, path: &Path) -> Result<bool, DatabaseError> {
    let header = look(path, file)?;
    let is_halt = !matches!(read(path), None | Some(Said::Finishing));
    let halted = is_halt && forget(path)?;
    match header.deks.len() {
        0 | 1 => Err(DatabaseError::NoKeyChange { path: path.to_owned() }),
        _ => Ok(halted),
    }
}

/// Returns the time at which the key change in `header` was halted; `None` if it is not. `path` is
/// the database's resolved path.
pub fn halted_since(path: &Path, header: &Header) -> Option<SystemTime> {
    let halted = header.deks.len() > 1 && is_paused(path, header.current);
    let note = fs::symlink_metadata(with_suffix(path, NOTE_SUFFIX)).ok().filter(|_| halted)?;
    note.modified().ok()
}

/// Removes the note of an earlier change, before one begins from version `current`.
pub(crate) fn forget_earlier(path: &Path, current: u32) -> Result<(), DatabaseError> {
    match read(path) {
        Some(Said::Version(version)) if version <= current => forget(path).map(drop),
        _ => Ok(()),
    }
}

/// Excludes halts while a change ends. The caller has the write lock, so there is only one.
pub(crate) struct Finishing<'a>(&'a Path);

impl<'a> Finishing<'a> {
    /// Returns `None` if the change to `version` is halted.
    pub(crate) fn begin(path: &'a Path, version: u32) -> Result<Option<Self>, DatabaseError> {
        let begun = Instant::now();
        loop {
            match make(path, FINISHING)? {
                // A note of a killed process is as good as our own.
                Made::New | Made::There(Some(Said::Finishing)) => return Ok(Some(Self(path))),
                Made::There(Some(Said::Version(other))) if other != version => {
                    forget(path)?;
                }
                Made::There(Some(Said::Unfinished)) if begun.elapsed() > WRITE_WAIT => {
                    forget(path)?;
                }
                Made::There(Some(Said::Unfinished)) => std::thread::sleep(POLL),
                Made::There(Some(_)) => return Ok(None),
                Made::There(None) => {}
            }
        }
    }

    /// Removes the note of a process that was killed at the end of a change.
    pub(crate) fn clear(path: &Path) -> Result<(), DatabaseError> {
        match read(path) {
            Some(Said::Finishing) => forget(path).map(drop),
            _ => Ok(()),
        }
    }
}

impl Drop for Finishing<'_> {
    /// A note that cannot be removed halts nothing, and the next change removes it.
    fn drop(&mut self) {
        let _ = forget(self.0);
    }
}

/// Content of a note.
enum Said {
    /// The version that must not be applied.
    Version(u32),
    /// The change is about to end.
    Finishing,
    /// Incomplete: it has no final newline.
    Unfinished,
    /// Unknown.
    Other,
}

enum Made {
    New,
    /// A note exists, with this content; `None` if it was removed in the meantime.
    There(Option<Said>),
}

/// Makes the note, unless there is one. An existing file or link is not followed or changed.
fn make(path: &Path, text: &str) -> Result<Made, DatabaseError> {
    let note = with_suffix(path, NOTE_SUFFIX);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&note) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Ok(Made::There(read(path)));
        }
        other => other.map_err(io_error("make", &note))?,
    };
    // In one write: a note that ends in a newline is complete.
    let written = file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // It would be a halt that nobody asked for, and stay for ever.
        let _ = fs::remove_file(&note);
        return Err(io_error("write", &note)(error));
    }
    sync_directory(path)?;
    Ok(Made::New)
}

/// Reads the note; `None` if there is none.
fn read(path: &Path) -> Option<Said> {
    const LONGEST: usize = 32;
    let note = with_suffix(path, NOTE_SUFFIX);
    match fs::symlink_metadata(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Ok(metadata) if metadata.is_file() => {}
        _ => return Some(Said::Other),
    }
    let mut text = String::new();
    let opened =
        open_ordinary(&note).and_then(|file| file.take(LONGEST as u64).read_to_string(&mut text));
    Some(match (opened, text.trim_end()) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => return None,
        (Err(_), _) => Said::Other,
        (Ok(len), _) if len < LONGEST && !text.ends_with('\n') => Said::Unfinished,
        (Ok(_), FINISHING) => Said::Finishing,
        (Ok(_), number) => number.parse().map_or(Said::Other, Said::Version),
    })
}

/// Removes the note. Returns true if there was one.
fn forget(path: &Path) -> Result<bool, DatabaseError> {
    let note = with_suffix(path, NOTE_SUFFIX);
    match fs::remove_file(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(io_error("remove", &note))?,
    }
    sync_directory(path)?;
    Ok(true)
}

/// Returns true if the change to `version` of the key of the database at `path` is halted.
pub(crate) fn is_paused(path: &Path, version: u32) -> bool {
    match read(path) {
        None | Some(Said::Finishing | Said::Unfinished) => false,
        Some(Said::Version(halted)) => halted == version,
        Some(Said::Other) => true,
    }
}

/// Returns the progress of the key change of `name`. Needs no key, takes no lock, and changes
/// nothing; a change that is not halted is observed for a second.
///
/// # Errors
/// `NotEncrypted`, `NotADatabase`, `Header`, `Io`; `Interrupted`.
pub fn progress(name: &Path, watch: &dyn Watch) -> Result<Progress, DatabaseError> {
    let (path, file, header) = open(name)?;
    let size = page_size_in(&path, &file, &header)?;
    let count = || -> Result<(u64, u64), DatabaseError> {
        let pages = pages_by_key_version(&path, &file, size, watch)?;
        let all = pages.values().sum();
        Ok((all, all - pages.get(&header.current).copied().unwrap_or(0)))
    };
    let changes = header.deks.len() > 1;
    let begun = Instant::now();
    let (mut pages, mut pages_left) = count()?;
    let (mut state, mut pace) = (State::None, None);
    if changes && is_paused(&path, header.current) {
        state = State::Paused;
    } else if changes {
        let before = pages_left;
        while begun.elapsed() < SAMPLE {
            go_on(watch)?;
            std::thread::sleep(SAMPLE / 20);
        }
        let took_s = begun.elapsed().as_secs_f64();
        (pages, pages_left) = count()?;
        let sealed = before.saturating_sub(pages_left);
        state = if sealed > 0 { State::Running } else { State::Waiting };
        pace = (sealed > 0).then(|| float(sealed) / took_s);
    }
    Ok(Progress {
        state,
        key_version: header.current,
        algorithm: header.algorithm.name(),
        algorithms: names_of(&header.algorithms()),
        key_versions: header.deks.iter().map(|dek| dek.version).collect(),
        percent_complete: 100.0 * float(pages - pages_left) / float(pages.max(1)),
        left_s: pace.map(|pace| float(pages_left) / pace),
        pages_per_s: pace,
        pages,
        pages_left,
        path,
    })
}

fn open(name: &Path) -> Result<(PathBuf, File, Header), DatabaseError> {
    let path = database_path(name)?;
    let file = open_file(&path)?;
    let header = look(&path, &file)?;
    Ok((path, file, header))
}

fn look(path: &Path, file: &File) -> Result<Header, DatabaseError> {
    let area = read_area(file).map_err(io_error("read", path))?;
    refuse_unencrypted(path, &area)?;
    header_of(path, &area)
}

#[allow(clippy::cast_precision_loss, reason = "for a reader; a file has fewer pages than 2^53")]
fn float(pages: u64) -> f64 {
    pages as f64
}
