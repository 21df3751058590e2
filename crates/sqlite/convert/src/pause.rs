//! A change of a database's key that is halted, and how far one is.
//!
//! A halt is a file beside the database, `NAME-tdekit-paused`: whoever changes the key looks for it
//! before each transaction, in whatever process, after a restart of the machine too. It holds the
//! number of the version that it keeps pages from, so one that outlived its change halts no other.
//! Before a change ends, it puts a note of its own there, `finishing`, while it has the write lock:
//! so a halt comes before the end, or is refused. A note that says anything else halts. One that
//! does not end in a newline is being written, or was when the power went: nobody was told of a
//! halt, and it is none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tdekit_key_store::open_ordinary;
use tdekit_sqlite_page::Header;

use crate::error::{DatabaseError, io_error};
use crate::inspect::{FileKind, header_of, read_area};
use crate::source::{database_path, open_file};
use crate::status::names_of;
use crate::target::{sync_directory, with_suffix};
use crate::versions::{page_size_in, pages_by_key_version};
use crate::watch::{Watch, go_on};

/// What the note of a halt ends in.
const SUFFIX: &str = "-tdekit-paused";
/// What the note of a change that is about to end says.
const FINISHING: &str = "finishing";
/// How long a change that is about to end is waited for.
const END_WAIT: Duration = Duration::from_secs(10);
/// How long a note is given that has no end.
const WRITE_WAIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
/// How long a change is watched to tell its pace.
const SAMPLE: Duration = Duration::from_secs(1);

/// How far a change of a key is.
#[derive(Debug, Serialize)]
pub struct Progress {
    /// The database's resolved path.
    #[serde(serialize_with = "crate::path_text::path_text")]
    pub path: PathBuf,
    /// What is going on.
    pub state: State,
    /// The version of the key in force.
    pub key_version: u32,
    /// Versions that pages may still name.
    pub key_versions: Vec<u32>,
    /// The algorithm that seals under the key in force.
    pub algorithm: &'static str,
    /// All algorithms that pages may still be sealed with.
    pub algorithms: Vec<&'static str>,
    /// Pages of the main file.
    pub pages: u64,
    /// Pages of these that an older version sealed.
    pub pages_left: u64,
    /// Pages sealed anew, percent; 100 where no key changes.
    pub percent_complete: f64,
    /// Pages a second, where some were sealed while this was watched.
    pub pages_per_s: Option<f64>,
    /// Seconds that the rest takes at this pace.
    pub left_s: Option<f64>,
}

/// What is going on with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No key changes.
    None,
    /// Pages were sealed anew while this was watched.
    Running,
    /// A change has begun, and no page was sealed meanwhile: nobody is at work, or waits.
    Waiting,
    /// A change is halted until it is resumed.
    Paused,
}

/// Halts the change of the key of `name`, whoever carries it out, until [`resume`].
///
/// # Errors
/// `NoKeyChange` where none has begun, or it came to its end meanwhile; `InUse` where one is about
/// to end for long; `NotEncrypted`; `Io`.
pub fn pause(name: &Path) -> Result<PathBuf, DatabaseError> {
    let path = database_path(name)?;
    pause_through(&open_file(&path)?, &path)?;
    Ok(path)
}

/// The same for a process with connections to the database: closing a descriptor of it would drop
/// their locks. `path` is resolved.
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
                // It may have come to its end before there was a note.
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

/// Takes a halt back. True where there was one.
///
/// # Errors
/// `NoKeyChange` where none has begun; `NotEncrypted`; `Io`.
pub fn resume(name: &Path) -> Result<bool, DatabaseError> {
    let path = database_path(name)?;
    resume_through(&open_file(&path)?, &path)
}

/// The same for a process with connections to the database, as [`pause_through`].
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

/// Since when the change of the key that `header` shows is halted; `None` where it is not. `path`
/// is the database's resolved path.
pub fn halted_since(path: &Path, header: &Header) -> Option<SystemTime> {
    let halted = header.deks.len() > 1 && is_paused(path, header.current);
    let note = fs::symlink_metadata(with_suffix(path, SUFFIX)).ok().filter(|_| halted)?;
    note.modified().ok()
}

/// Removes a note of an earlier change, before one begins from version `current`.
pub(crate) fn forget_earlier(path: &Path, current: u32) -> Result<(), DatabaseError> {
    match read(path) {
        Some(Said::Version(version)) if version <= current => forget(path).map(drop),
        _ => Ok(()),
    }
}

/// Keeps halts out of a change's end. The caller has the write lock, and so is the only one.
pub(crate) struct Finishing<'a>(&'a Path);

impl<'a> Finishing<'a> {
    /// `None` where the change to `version` is halted.
    pub(crate) fn begin(path: &'a Path, version: u32) -> Result<Option<Self>, DatabaseError> {
        let begun = Instant::now();
        loop {
            match make(path, FINISHING)? {
                // One of a process that was killed is as good as our own.
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

    /// What a process left that was killed at a change's end.
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

/// What a note says.
enum Said {
    /// The version that pages are not to get.
    Version(u32),
    /// The change is about to end.
    Finishing,
    /// Nothing yet: it has no end.
    Unfinished,
    /// Nothing that is known.
    Other,
}

enum Made {
    New,
    /// There is one, which says this; `None` where it went meanwhile.
    There(Option<Said>),
}

/// Makes the note, unless there is one. What stands there, a link too, is not followed or changed.
fn make(path: &Path, text: &str) -> Result<Made, DatabaseError> {
    let note = with_suffix(path, SUFFIX);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&note) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Ok(Made::There(read(path)));
        }
        other => other.map_err(io_error("make", &note))?,
    };
    // In one write: what ends in a newline is whole.
    let written = file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // It would halt for ever what nobody halted.
        let _ = fs::remove_file(&note);
        return Err(io_error("write", &note)(error));
    }
    sync_directory(path)?;
    Ok(Made::New)
}

/// What the note says; `None` where there is none.
fn read(path: &Path) -> Option<Said> {
    const LONGEST: usize = 32;
    let note = with_suffix(path, SUFFIX);
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

/// Removes the note. True where there was one.
fn forget(path: &Path) -> Result<bool, DatabaseError> {
    let note = with_suffix(path, SUFFIX);
    match fs::remove_file(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(io_error("remove", &note))?,
    }
    sync_directory(path)?;
    Ok(true)
}

/// Whether the change to `version` of the key of the database at `path` is halted.
pub(crate) fn is_paused(path: &Path, version: u32) -> bool {
    match read(path) {
        None | Some(Said::Finishing | Said::Unfinished) => false,
        Some(Said::Version(halted)) => halted == version,
        Some(Said::Other) => true,
    }
}

/// How far the change of the key of `name` is. Needs no key, takes no lock, and changes nothing; a
/// change that is not halted is watched for a second.
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
    let owned = || path.to_owned();
    match FileKind::of(&area) {
        FileKind::Encrypted => header_of(path, &area),
        FileKind::Other => Err(DatabaseError::NotADatabase { path: owned() }),
        FileKind::Plain | FileKind::Empty => Err(DatabaseError::NotEncrypted { path: owned() }),
    }
}

#[allow(clippy::cast_precision_loss, reason = "for a reader; a file has fewer pages than 2^53")]
fn float(pages: u64) -> f64 {
    pages as f64
}
