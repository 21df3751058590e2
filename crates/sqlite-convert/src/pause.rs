//! A change of a database's key that is halted, and how far one is.
//!
//! A halt is an empty file beside the database, `NAME-tdekit-paused`: whoever changes the key looks
//! for it before each transaction, in whatever process, after a restart of the machine too. It says
//! nothing of keys, and a database with two versions of its key is like any other.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tdekit_sqlite_page::Header;

use crate::error::{DatabaseError, io_error};
use crate::inspect::{FileKind, header_of, read_area};
use crate::source::{database_path, open_file};
use crate::target::{sync_directory, with_suffix};
use crate::versions::pages_by_key_version;
use crate::watch::{Watch, go_on};

/// What the note of a halt ends in.
const SUFFIX: &str = "-tdekit-paused";
/// How long a change is watched to tell its pace.
const SAMPLE: Duration = Duration::from_secs(1);

/// How far a change of a key is.
#[derive(Debug, Serialize)]
pub struct Progress {
    /// The database's resolved path.
    pub path: PathBuf,
    /// What is going on.
    pub state: State,
    /// The version of the key in force.
    pub key_version: u32,
    /// Versions that pages may still name.
    pub key_versions: Vec<u32>,
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
/// `NoKeyChange` where none has begun; `NotEncrypted`; `Io`.
pub fn pause(name: &Path) -> Result<PathBuf, DatabaseError> {
    let (path, _, header) = open(name)?;
    if header.deks.len() < 2 {
        return Err(DatabaseError::NoKeyChange { path });
    }
    let note = with_suffix(&path, SUFFIX);
    // What stands there, a link too, is not followed or changed.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&note) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => drop(other.map_err(io_error("make", &note))?),
    }
    sync_directory(&path)?;
    Ok(path)
}

/// Takes a halt back. True where there was one.
///
/// # Errors
/// `NoKeyChange` where none has begun; `NotEncrypted`; `Io`.
pub fn resume(name: &Path) -> Result<bool, DatabaseError> {
    let (path, _, header) = open(name)?;
    let halted = forget(&path)?;
    match header.deks.len() {
        0 | 1 => Err(DatabaseError::NoKeyChange { path }),
        _ => Ok(halted),
    }
}

/// Removes the note of a halt. True where there was one.
pub(crate) fn forget(path: &Path) -> Result<bool, DatabaseError> {
    let note = with_suffix(path, SUFFIX);
    match fs::remove_file(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(io_error("remove", &note))?,
    }
    sync_directory(path)?;
    Ok(true)
}

/// Whether the change of the key of the database at `path` is halted.
pub(crate) fn is_paused(path: &Path) -> bool {
    fs::symlink_metadata(with_suffix(path, SUFFIX)).is_ok()
}

/// How far the change of the key of `name` is. Needs no key, takes no lock, and changes nothing; a
/// change that is not halted is watched for a second.
///
/// # Errors
/// `NotEncrypted`, `NotADatabase`, `Header`, `Io`; `Interrupted`.
pub fn progress(name: &Path, watch: &dyn Watch) -> Result<Progress, DatabaseError> {
    let (path, file, header) = open(name)?;
    let count = || -> Result<(u64, u64), DatabaseError> {
        let pages = pages_by_key_version(&path, &file, header.page_size, watch)?;
        let all = pages.values().sum();
        Ok((all, all - pages.get(&header.current).copied().unwrap_or(0)))
    };
    let changes = header.deks.len() > 1;
    let begun = Instant::now();
    let (mut pages, mut pages_left) = count()?;
    let (mut state, mut pace) = (State::None, None);
    if changes && is_paused(&path) {
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
    let area = read_area(&file).map_err(io_error("read", &path))?;
    match FileKind::of(&area) {
        FileKind::Encrypted => {}
        FileKind::Other => return Err(DatabaseError::NotADatabase { path }),
        FileKind::Plain | FileKind::Empty => return Err(DatabaseError::NotEncrypted { path }),
    }
    let header = header_of(&path, &area)?;
    Ok((path, file, header))
}

#[allow(clippy::cast_precision_loss, reason = "for a reader; a file has fewer pages than 2^53")]
fn float(pages: u64) -> f64 {
    pages as f64
}
