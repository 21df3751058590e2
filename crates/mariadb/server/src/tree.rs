//! Copies of data directories.

use std::path::Path;

use crate::error::ServerError;

/// Copies a directory recursively; `to` must not exist. Sockets and other special files are
/// omitted. The kernel shares blocks if the file system can (`copy_file_range`).
///
/// # Errors
/// `File`.
pub fn copy_tree(from: &Path, to: &Path) -> Result<(), ServerError> {
    std::fs::create_dir(to).map_err(ServerError::file("cannot make", to))?;
    let entries = std::fs::read_dir(from).map_err(ServerError::file("cannot list", from))?;
    for entry in entries {
        let entry = entry.map_err(ServerError::file("cannot list", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(ServerError::file("cannot read", &source))?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_file() {
            std::fs::copy(&source, &target).map_err(ServerError::file("cannot copy", &source))?;
        } else if kind.is_symlink() {
            let place =
                std::fs::read_link(&source).map_err(ServerError::file("cannot read", &source))?;
            std::os::unix::fs::symlink(place, &target)
                .map_err(ServerError::file("cannot make", &target))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_copied_whole_and_never_over_another() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        std::fs::create_dir_all(from.join("mysql")).unwrap();
        std::fs::write(from.join("mysql/a"), "x").unwrap();
        let to = directory.path().join("to");
        copy_tree(&from, &to).unwrap();
        assert_eq!(std::fs::read(to.join("mysql/a")).unwrap(), b"x");
        assert!(matches!(copy_tree(&from, &to), Err(ServerError::File { .. })));
    }
}
