//! Files and directories that only the run's user can read, and that nobody else can have created.

use std::fs::{File, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::removal::remove_or_name;

/// Prefix of a run's directories.
const RUN: &str = ".tdekit-bench-";
/// The file in a run's directory that is locked while the run goes on.
const LOCK: &str = ".lock";
/// A directory that only the user can read. Dropping it removes it with its contents, and so does a
/// second stop request.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: Option<File>,
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove_or_name(&self.path);
        interrupt::left().directories.remove(&self.path);
    }
}

/// Creates a directory below `parent` whose name consists of `prefix` and random letters.
pub(crate) fn directory(parent: &Path, prefix: &str) -> Result<Directory> {
    // A second stop request removes what is known, so nothing is made that is not.
    let mut left = interrupt::left();
    let made = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(BenchError::file("cannot make a directory in", parent))?;
    let path = made.keep();
    left.directories.insert(path.clone());
    Ok(Directory { path, _lock: None })
}

/// Creates a directory of a run below `parent`, after it removed those that killed runs left there.
pub(crate) fn run_directory(parent: &Path) -> Result<Directory> {
    remove_left(parent);
    loop {
        let mut made = directory(parent, RUN)?;
        let path = made.path.join(LOCK);
        let locked = File::create(&path).inspect(|file| {
            // Where a file system has no locks, a later run names the directory.
            let _unlocked = file.lock();
        });
        made._lock = Some(locked.map_err(BenchError::file("cannot write", &path))?);
        // Another run may have seen the file before it was locked.
        if path.exists() {
            return Ok(made);
        }
    }
}

/// Removes the directories that killed runs of this user left below `parent`, and says so; those
/// that cannot be told from a running one's are named.
pub(crate) fn remove_left(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(RUN) || !is_own(&path) {
            continue;
        }
        // Without the file it is not a run's, or is being made or removed.
        let Ok(lock) = File::options().write(true).open(path.join(LOCK)) else { continue };
        let shown = path.display();
        match lock.try_lock() {
            Ok(()) => {
                eprintln!("note: a run that was killed left {shown}, which is removed now");
                remove_or_name(&path);
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => eprintln!(
                "note: a run that was killed may have left {shown}: remove it if no bench runs"
            ),
        }
    }
}

/// Returns true for a directory of this user's that nobody else may enter.
fn is_own(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|state| {
        let mine = state.uid() == rustix::process::geteuid().as_raw();
        state.is_dir() && mine && state.mode() & 0o077 == 0
    })
}

/// Creates a directory that may exist, with its parents.
pub(crate) fn make(path: &Path) -> Result<()> {
    // A second stop request may have removed its parents.
    interrupt::check()?;
    std::fs::create_dir_all(path).map_err(BenchError::file("cannot make", path))
}

/// Writes a file readable by its owner only, replacing an existing one.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes, 0o600)
}

/// Writes a file with these permissions, so that a failure keeps the existing one.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let directory = parent_of(path);
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        std::fs::File::open(directory)?.sync_all()
    };
    write().map_err(BenchError::file("cannot write", path))
}

/// Returns the parent directory of a file.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removal::PLAIN;

    /// Makes a run's directory with a plain database in it.
    fn of_run(parent: &Path) -> Directory {
        let made = run_directory(parent).unwrap();
        std::fs::create_dir(made.path().join("plain")).unwrap();
        std::fs::write(made.path().join("plain/subject.db"), PLAIN).unwrap();
        made
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let running = of_run(parent.path());
        let mut killed = of_run(parent.path());
        // As the kernel does for a process that ends.
        killed._lock = None;
        let foreign = parent.path().join(".tdekit-bench-notes");
        std::fs::create_dir(&foreign).unwrap();
        let next = run_directory(parent.path()).unwrap();
        assert!(!killed.path().exists());
        assert!(running.path().join("plain/subject.db").exists() && foreign.exists());
        drop((running, next));
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn nobody_else_reads_them_and_what_is_there_is_not_written_through() {
        let parent = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let made = directory(parent.path(), ".bench-").unwrap();
        assert_eq!(mode(made.path()), 0o700);
        let victim = parent.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        let path = parent.path().join("key");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        write(&path, b"secret").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        assert_eq!((mode(&path), std::fs::read(&path).unwrap()), (0o600, b"secret".to_vec()));
    }
}
