//! Directories of work that is done anew.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Recreates `directory` empty.
///
/// # Errors
/// When it cannot be removed or made.
pub(crate) fn empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_directory_has_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        empty(&directory).unwrap();
        fs::create_dir(directory.join("c")).unwrap();
        fs::write(directory.join("c/d"), "d").unwrap();
        empty(&directory).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
}
