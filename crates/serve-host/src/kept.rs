//! First bytes of served files, read through descriptors that stay open.
//!
//! POSIX drops all locks of a process on a file when it closes any descriptor of it, and sessions
//! of this process hold such locks. So a descriptor is closed only when its file is gone, or when
//! nobody here has it open.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tdekit_sqlite_convert::read_area;

/// Device and inode.
type Identity = (u64, u64);

static KEPT: LazyLock<Mutex<HashMap<Identity, Arc<File>>>> = LazyLock::new(Mutex::default);

/// The file at `path`, open to be read.
pub(crate) fn open(path: &Path) -> io::Result<Arc<File>> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody can open a file again whose last name is gone.
    kept.retain(|_, file| file.metadata().is_ok_and(|metadata| metadata.nlink() > 0));
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if let Some(file) = kept.get(&(metadata.dev(), metadata.ino())) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    let metadata = file.metadata()?;
    kept.insert((metadata.dev(), metadata.ino()), Arc::clone(&file));
    Ok(file)
}

/// The first bytes of the file at `path`.
pub(crate) fn area(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    read_area(&file)
}

/// Whether this process has the file open to be written, as SQLite does. Descriptors that are kept
/// here and by the engine of backups only read.
pub(crate) fn in_use(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    let identity = (metadata.dev(), metadata.ino());
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return false };
    descriptors.flatten().any(|descriptor| {
        let same =
            fs::metadata(descriptor.path()).is_ok_and(|open| (open.dev(), open.ino()) == identity);
        same && writes(&descriptor.file_name().to_string_lossy())
    })
}

/// Whether a descriptor of this process is open to be written (proc(5), fdinfo).
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
        assert!(!in_use(&dir.path().join("none")));
    }
}
