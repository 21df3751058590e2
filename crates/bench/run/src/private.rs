//! Files and directories that only the run's user can read, and that nobody else can have created.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::error::{BenchError, Result};

/// Creates a directory below `parent` whose name consists of `prefix` and random letters; it is
/// removed with its contents when it is dropped.
pub(crate) fn directory(parent: &Path, prefix: &str) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(BenchError::file("cannot make a directory in", parent))
}

/// Creates a directory that may exist, with its parents.
pub(crate) fn make(path: &Path) -> Result<()> {
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
