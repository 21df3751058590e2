//! Keeping the original under another name.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::convert::error::{DatabaseError, io_error};
use crate::convert::progress::go_on;
use crate::convert::source::Source;
use crate::convert::target::{is_still, sync_directory};
use crate::error::CommandError;

const CHUNK_LEN: usize = 1 << 20;

/// The original's second name, or a copy of it; goes again unless it is kept.
pub(crate) struct Kept {
    path: PathBuf,
    keep: bool,
}

impl Kept {
    /// Fails when something else stands at `path`. The database itself may: a run that was killed
    /// left it there.
    pub(crate) fn check(path: &Path, original: &File) -> Result<(), DatabaseError> {
        if fs::symlink_metadata(path).is_err() || is_still(path, original) {
            return Ok(());
        }
        Err(DatabaseError::Occupied { path: path.to_owned(), reason: "" })
    }

    /// Gives the original the second name `path`; where the file system has no second names, or
    /// is another one, copies it.
    pub(crate) fn make(path: &Path, source: &Source) -> Result<Self, CommandError> {
        match fs::hard_link(&source.path, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Self::check(path, &source.file)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io_error("create", path)(error));
            }
            Err(_) => copy(&source.file, path)?,
        }
        let kept = Self { path: path.to_owned(), keep: false };
        sync_directory(&std::path::absolute(path).map_err(io_error("resolve", path))?)?;
        Ok(kept)
    }

    /// Lets it stay.
    pub(crate) fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Copies through the descriptor that is open: opening and closing another one would drop the
/// database's locks.
fn copy(from: &File, path: &Path) -> Result<(), CommandError> {
    let mut to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error("create", path))?;
    let copied = copy_bytes(from, &mut to, path);
    if copied.is_err() {
        let _ = fs::remove_file(path);
    }
    copied
}

fn copy_bytes(from: &File, to: &mut File, path: &Path) -> Result<(), CommandError> {
    let mut chunk = vec![0; CHUNK_LEN];
    let mut at = 0;
    loop {
        go_on()?;
        let n = from.read_at(&mut chunk, at).map_err(io_error("copy the database to", path))?;
        if n == 0 {
            break;
        }
        to.write_all(&chunk[..n]).map_err(io_error("write", path))?;
        at += n as u64;
    }
    let mode = from.metadata().map_err(io_error("examine the original of", path))?.mode();
    to.set_permissions(Permissions::from_mode(mode & 0o7777))
        .and_then(|()| to.sync_all())
        .map_err(io_error("write", path))
}
