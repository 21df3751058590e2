//! The copy that is written beside a database and then replaces it.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr, statvfs};
use rustix::io::Errno;
use tdekit_key_store::{StoreError, Workplace};

use crate::error::{DatabaseError, io_error};

/// The suffixes of the files that SQLite keeps beside a database.
pub const SIDE_SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Suffix of the note that halts a change of the key.
pub(crate) const NOTE_SUFFIX: &str = "-tdekit-paused";
/// Maximum size of a list of extended attributes, or of one attribute (Linux: `XATTR_LIST_MAX`).
const MAX_XATTR_BYTES: usize = 64 * 1024;

/// The copy, in a directory of its own. Removed if it is dropped before it has replaced the
/// database.
pub struct Target {
    file: File,
    path: PathBuf,
    // After the file, so that it is closed before its directory is removed.
    work: Workplace,
}

impl Target {
    /// Makes an empty copy for the database at `database`, and removes the remains of killed runs.
    ///
    /// # Errors
    /// `Converting` if another run is converting it.
    pub fn create(database: &Path) -> Result<Self, DatabaseError> {
        let work = Workplace::beside(database).map_err(made)?;
        let file = work.create().map_err(made)?;
        Ok(Self { path: work.place(), work, file })
    }

    /// Makes another file beside the copy, removed together with it. Returns its path, too.
    ///
    /// # Errors
    /// `Io`.
    pub fn create_other(&self, name: &str) -> Result<(File, PathBuf), DatabaseError> {
        self.work.create_other(name).map_err(made)
    }

    /// Path of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The copy's own descriptor. Closing it loses no lock of SQLite's: by then the copy is
    /// removed, or nobody in this process has it open.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Truncates the copy to nothing.
    pub fn empty(&self) -> Result<(), DatabaseError> {
        remove_side_files(&self.path)?;
        self.file.set_len(0).map_err(io_error("truncate", &self.path))
    }

    /// Fails if the file system does not have `needed_bytes` of free space.
    pub fn check_space(&self, needed_bytes: u64) -> Result<(), DatabaseError> {
        let dir = self.work.path().parent().unwrap_or(Path::new("."));
        // If the system does not report it, copying will.
        let Ok(free) = statvfs(dir) else { return Ok(()) };
        let available_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        if available_bytes >= needed_bytes {
            return Ok(());
        }
        Err(DatabaseError::NoSpace { dir: dir.to_owned(), needed_bytes, available_bytes })
    }

    /// Gives the copy the original's owner, group, extended attributes (including access control
    /// lists) and permission bits, in an order in which none of them undoes another.
    pub fn take_metadata(&self, original: &File) -> Result<(), DatabaseError> {
        let refused = |what| {
            let path = self.work.path().to_owned();
            move |source| DatabaseError::Metadata { path, what, source }
        };
        let like = original.metadata().map_err(io_error("examine", self.work.path()))?;
        let own = self.file.metadata().map_err(io_error("examine", &self.path))?;
        if (like.uid(), like.gid()) != (own.uid(), own.gid()) {
            fchown(&self.file, Some(like.uid()), Some(like.gid()))
                .map_err(refused("owner and group"))?;
        }
        copy_attributes(original, &self.file).map_err(refused("extended attributes"))?;
        self.file
            .set_permissions(Permissions::from_mode(like.mode() & 0o7777))
            .map_err(refused("permissions"))?;
        Ok(())
    }

    /// Waits until the copy is on disk.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        self.file.sync_all().map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                DatabaseError::Full { path: self.work.path().to_owned() }
            }
            _ => io_error("sync", &self.path)(source),
        })
    }

    /// Replaces the database by the copy.
    pub fn replace_database(&self) -> Result<(), DatabaseError> {
        self.work.replace().map_err(made)
    }

    /// Gives the copy the database's name, which must be unused.
    ///
    /// # Errors
    /// `Occupied` if it is in use.
    pub fn take_free_name(&self) -> Result<(), DatabaseError> {
        self.work.publish().map_err(made)
    }
}

/// Translates an error of creating a file.
pub fn made(error: StoreError) -> DatabaseError {
    match error {
        StoreError::BeingWritten { path } => DatabaseError::Converting { path },
        StoreError::Exists { path } => DatabaseError::Occupied { path, reason: "" },
        StoreError::Io { action, path, source } => io_error(action, &path)(source),
        other => other.into(),
    }
}

/// Returns the path with `suffix` appended to its name.
pub fn with_suffix(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes journal, log and index of the database at `path`. Returns true if there were any.
pub fn remove_side_files(path: &Path) -> Result<bool, DatabaseError> {
    let mut removed = false;
    for suffix in SIDE_SUFFIXES {
        let side = with_suffix(path, suffix);
        match fs::remove_file(&side) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("remove", &side)(error)),
        }
    }
    Ok(removed)
}

/// Makes the names in the directory of `path` durable.
pub fn sync_directory(path: &Path) -> Result<(), DatabaseError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

/// Returns true if `path` names the open file.
pub(crate) fn is_still(path: &Path, file: &File) -> bool {
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => same(&named, &open),
        _ => false,
    }
}

fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0u8; MAX_XATTR_BYTES];
    let length = match flistxattr(from, &mut names) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut value = vec![0u8; MAX_XATTR_BYTES];
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let length = match fgetxattr(from, name, &mut value) {
            Ok(length) => length,
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error.into()),
        };
        match fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            Ok(()) => {}
            // Labels that the system itself gives to new files.
            Err(Errno::PERM | Errno::NOTSUP | Errno::ACCESS)
                if !name.starts_with(b"user.") && !name.starts_with(b"system.posix_acl") => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Overwrites the start of page 1 in a file that has lost its name, so that a connection that still
/// has it open fails instead of using content that nobody else sees.
pub fn spoil_unlinked(file: &File, page_one_offset: u64) {
    const SQLITE_HEADER_LEN: usize = 100;
    if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
        let _ = file.write_all_at(&[0; SQLITE_HEADER_LEN], page_one_offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_at_a_time_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        fs::write(&database, "SQLite format 3\0").unwrap();
        let first = Target::create(&database).unwrap();
        fs::write(with_suffix(first.path(), "-journal"), b"x").unwrap();
        first.empty().unwrap();
        assert!(!with_suffix(first.path(), "-journal").exists());
        let second = Target::create(&database);
        assert!(matches!(second, Err(DatabaseError::Converting { .. })));
        drop(first);
        let third = Target::create(&database).unwrap();
        assert!(third.take_free_name().is_err());
        third.replace_database().unwrap();
        assert!(is_still(&database, &third.file));
        drop(third);
        assert_eq!(fs::metadata(&database).unwrap().len(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        let path = with_suffix(&database, ".tdekit-new");
        fs::write(&path, b"my notes, not yours").unwrap();
        let target = Target::create(&database).unwrap();
        target.file().write_all_at(b"copy", 0).unwrap();
        target.take_free_name().unwrap();
        drop(target);
        assert_eq!(fs::read(&path).unwrap(), b"my notes, not yours");
        assert_eq!(fs::read(&database).unwrap(), b"copy");
        let mode = fs::metadata(&database).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn no_room_is_told_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create(&dir.path().join("a.db")).unwrap();
        target.check_space(4096).unwrap();
        assert!(matches!(target.check_space(u64::MAX), Err(DatabaseError::NoSpace { .. })));
    }
}
