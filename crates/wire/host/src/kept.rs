//! First bytes of served files, read through descriptors that stay open.
//!
//! POSIX drops all locks of a process on a file when it closes any descriptor of it, and sessions
//! of this process hold such locks. So a descriptor is closed only when its file is gone, or when
//! nobody here has it open.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tdekit_sqlite_convert::read_area;

/// Device and inode.
type Identity = (u64, u64);

type Files = HashMap<Identity, Arc<File>>;

static KEPT: LazyLock<Mutex<Files>> = LazyLock::new(Mutex::default);
/// Those that are also open for writing.
static WRITERS: LazyLock<Mutex<Files>> = LazyLock::new(Mutex::default);

/// Returns the file at `path`, open for reading.
pub(crate) fn open(path: &Path) -> io::Result<Arc<File>> {
    kept_in(&KEPT, path, || File::open(path))
}

fn kept_in(
    all: &Mutex<Files>,
    path: &Path,
    open: impl FnOnce() -> io::Result<File>,
) -> io::Result<Arc<File>> {
    let mut kept = all.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody can open a file again after its last name is gone.
    kept.retain(|_, file| file.metadata().is_ok_and(|metadata| metadata.nlink() > 0));
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if let Some(file) = kept.get(&(metadata.dev(), metadata.ino())) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(open()?);
    let metadata = file.metadata()?;
    kept.insert((metadata.dev(), metadata.ino()), Arc::clone(&file));
    Ok(file)
}

/// Returns the file at `path`, open for reading and writing by a change of its key.
pub(crate) fn open_to_write(path: &Path) -> io::Result<Arc<File>> {
    kept_in(&WRITERS, path, || File::options().read(true).write(true).open(path))
}

/// Reads the first bytes of the file at `path`.
pub(crate) fn area(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    read_area(&file)
}

/// Returns true if SQLite has the file open in this process for writing. Other descriptors are
/// those that are kept here, and those of the backup engine, which only reads.
pub(crate) fn in_use(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    let identity = (metadata.dev(), metadata.ino());
    let own = {
        let kept = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&identity).map(|file| file.as_raw_fd().to_string())
    };
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return false };
    descriptors.flatten().any(|descriptor| {
        let same =
            fs::metadata(descriptor.path()).is_ok_and(|open| (open.dev(), open.ino()) == identity);
        let name = descriptor.file_name();
        let name = name.to_string_lossy();
        same && own.as_deref() != Some(&*name) && writes(&name)
    })
}

/// Returns true if a descriptor of this process is open for writing (proc(5), fdinfo).
fn writes(descriptor: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_none_or(|f| f & 3 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_use_while_it_is_open_to_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "SQLite format 3\0").unwrap();
        assert_eq!(area(&path).unwrap(), b"SQLite format 3\0");
        assert!(!in_use(&path));
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        assert!(in_use(&path));
        drop(writer);
        assert!(!in_use(&path));
        let kept = open_to_write(&path).unwrap();
        assert!(Arc::ptr_eq(&kept, &open_to_write(&path).unwrap()));
        assert!(!in_use(&path), "it is no connection's");
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        assert!(in_use(&path));
        drop(writer);
        assert!(!in_use(&dir.path().join("none")));
    }
}
