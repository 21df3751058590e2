//! Files: media that are read and written, restored databases.

mod beside;
mod media;
mod remove;
mod room;
mod sink;
mod target;
mod writer;

pub use media::FileMedia;
pub(crate) use remove::{remove, state};
pub(crate) use room::Room;
pub use sink::FileSink;
pub use target::FileTarget;

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tdekit_key_store::StoreError;

use crate::RunError;

/// Converts an error of creating a file to one of this crate.
fn made(error: StoreError) -> RunError {
    match error {
        StoreError::BeingWritten { path } => RunError::Locked { path },
        StoreError::Exists { path } => RunError::Exists { path },
        StoreError::Io { action, path, source } => RunError::io(action, &path)(source),
        other => other.into(),
    }
}

/// Takes the lock that excludes a second writer; the system releases it with the file.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), RunError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(RunError::Locked { path: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(RunError::io("lock", path)(source)),
    }
}

/// Returns true if `path` still names this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let here = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the names in the directory of `path` durable.
fn sync_parent(path: &Path) -> Result<(), RunError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(RunError::io("sync", parent))
}
