//! The directory of a file, and when the names in it are durable.

use std::fs::File;
use std::path::Path;

use crate::error::StoreError;

/// Returns the directory of a file.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in the directory of `path` durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    let parent = parent_of(path);
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(StoreError::io("sync", parent))
}
