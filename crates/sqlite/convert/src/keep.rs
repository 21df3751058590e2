//! Keeps the original under another name.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tdekit_key_store::{Workplace, is_side};

use crate::error::{DatabaseError, io_error};
use crate::source::Source;
use crate::target::{is_still, made, sync_directory};
use crate::watch::{Watch, go_on};

const CHUNK_LEN: usize = 1 << 20;

/// Refuses a name that belongs to a database beside it.
///
/// # Errors
/// `NotAFile`.
pub(crate) fn refuse_side(path: &Path) -> Result<(), DatabaseError> {
    if !is_side(path) {
        return Ok(());
    }
    let problem =
        "has a name that SQLite or tdekit gives to a file of the database beside it, and deletes";
    Err(DatabaseError::NotAFile { path: path.to_owned(), problem })
}

/// The original's second name, or a copy of it; removed again unless it is kept.
pub(crate) struct Kept {
    path: PathBuf,
    keep: bool,
}

impl Kept {
    /// Fails if another file exists at `path`. The database itself may be there: a run that was
    /// killed left it.
    pub(crate) fn check(path: &Path, original: &File) -> Result<(), DatabaseError> {
        refuse_side(path)?;
        if fs::symlink_metadata(path).is_err() || is_still(path, original) {
            return Ok(());
        }
        Err(DatabaseError::Occupied { path: path.to_owned(), reason: "" })
    }

    /// Gives the original the second name `path`, or copies it if the file system has no hard links
    /// or differs.
    pub(crate) fn make(
        path: &Path,
        source: &Source,
        watch: &dyn Watch,
    ) -> Result<Self, DatabaseError> {
        match fs::hard_link(&source.path, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Self::check(path, &source.file)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io_error("create", path)(error));
            }
            Err(_) => copy(&source.file, path, watch)?,
        }
        let kept = Self { path: path.to_owned(), keep: false };
        sync_directory(&std::path::absolute(path).map_err(io_error("resolve", path))?)?;
        Ok(kept)
    }

    /// Keeps the file.
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

/// Copies through the open descriptor: opening and closing another one would drop the database's
/// locks.
fn copy(from: &File, path: &Path, watch: &dyn Watch) -> Result<(), DatabaseError> {
    let work = Workplace::beside(path).map_err(made)?;
    let mut to = work.create().map_err(made)?;
    let mut chunk = vec![0; CHUNK_LEN];
    let mut at = 0;
    loop {
        go_on(watch)?;
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
        .map_err(io_error("write", path))?;
    work.publish().map_err(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Unwatched;

    #[test]
    fn a_copy_has_the_original_s_mode_and_overwrites_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (original, path) = (dir.path().join("a.db"), dir.path().join("kept"));
        fs::write(&original, "content").unwrap();
        fs::set_permissions(&original, Permissions::from_mode(0o640)).unwrap();
        let original = File::open(&original).unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        copy(&original, &path, &Unwatched).unwrap_err();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        fs::remove_file(&path).unwrap();
        copy(&original, &path, &Unwatched).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
