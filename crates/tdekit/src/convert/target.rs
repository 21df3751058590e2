//! The copy that is written beside a database and then takes its place.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, RenameFlags, XattrFlags, fgetxattr, flistxattr, fsetxattr, renameat_with, statvfs,
};
use rustix::io::Errno;
use tdekit_sqlite::scratch;

use crate::convert::error::{DatabaseError, io_error};
use crate::convert::inspect::{FileKind, read_area};
use crate::error::CommandError;

/// What the copy's name adds to the database's. One name, so that the next run finds and removes
/// what a killed run left, and so that its lock keeps a second run out.
pub(crate) const SUFFIX: &str = ".tdekit-new";
/// What SQLite adds to a database's name for the files beside it.
pub(crate) const SIDE_SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Most bytes of a list of extended attributes, or of one attribute (Linux: `XATTR_LIST_MAX`).
const MAX_XATTR_BYTES: usize = 64 * 1024;

/// The copy, locked. Removed when it is dropped before it took the database's place.
pub(crate) struct Target {
    database: PathBuf,
    path: PathBuf,
    file: File,
    in_place: bool,
}

impl Target {
    /// Makes an empty copy for the database at `database`, in place of what a killed run left.
    ///
    /// # Errors
    /// `Converting` while another run has it, `Occupied` where a file of that name is not ours.
    pub(crate) fn create(database: &Path) -> Result<Self, CommandError> {
        Self::create_with(database, SUFFIX)
    }

    /// As [`Self::create`], under another suffix.
    pub(crate) fn create_with(database: &Path, suffix: &str) -> Result<Self, CommandError> {
        let path = with_suffix(database, suffix);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(nix_flags())
                .open(&path)
                .map_err(io_error("create", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(DatabaseError::Converting { path: database.to_owned() }.into());
                }
                Err(TryLockError::Error(source)) => return Err(io_error("lock", &path)(source)),
            }
            // Its last holder renamed or removed it before the lock was free: it may be anything
            // now, even the database itself.
            if !is_still(&path, &file) {
                continue;
            }
            refuse_foreign(&path, &file)?;
            let target = Self { database: database.to_owned(), path, file, in_place: false };
            target.empty()?;
            return Ok(target);
        }
    }

    /// Where the copy is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The copy's own descriptor. No lock of SQLite's is lost when it closes: by then the copy is
    /// removed, or nobody in this process has it open.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Takes everything out of the copy.
    pub(crate) fn empty(&self) -> Result<(), CommandError> {
        self.remove_side_files()?;
        self.file.set_len(0).map_err(io_error("truncate", &self.path))
    }

    /// Fails when the file system has not room for `needed_bytes`.
    pub(crate) fn check_space(&self, needed_bytes: u64) -> Result<(), DatabaseError> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        // Where the system does not tell, the copy itself will.
        let Ok(free) = statvfs(dir) else { return Ok(()) };
        let available_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        if available_bytes >= needed_bytes {
            return Ok(());
        }
        Err(DatabaseError::NoSpace { dir: dir.to_owned(), needed_bytes, available_bytes })
    }

    /// Gives the copy the original's owner, group, extended attributes (access control lists are
    /// among them) and permission bits, in the order in which none of them undoes another.
    pub(crate) fn take_metadata(&self, original: &File) -> Result<(), CommandError> {
        let refused = |what| {
            let path = self.database.clone();
            move |source| DatabaseError::Metadata { path, what, source }
        };
        let like = original.metadata().map_err(io_error("examine", &self.database))?;
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
    pub(crate) fn sync(&self) -> Result<(), CommandError> {
        self.file.sync_all().map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                DatabaseError::Full { path: self.database.clone() }.into()
            }
            _ => io_error("sync", &self.path)(source),
        })
    }

    /// Puts the copy in the database's place.
    pub(crate) fn replace_database(&mut self) -> Result<(), CommandError> {
        fs::rename(&self.path, &self.database).map_err(io_error("rename", &self.path))?;
        self.in_place = true;
        Ok(())
    }

    /// Gives the copy the database's name, which must be free.
    ///
    /// # Errors
    /// `Occupied` when it is not.
    pub(crate) fn take_free_name(&mut self) -> Result<(), CommandError> {
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(CWD, &self.path, CWD, &self.database, flags) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                return Err(
                    DatabaseError::Occupied { path: self.database.clone(), reason: "" }.into()
                );
            }
            // The file system cannot: a second name that must not exist does the same in two steps.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::hard_link(&self.path, &self.database)
                    .and_then(|()| fs::remove_file(&self.path))
                    .map_err(io_error("create", &self.database))?;
            }
            Err(error) => return Err(io_error("create", &self.database)(error.into())),
        }
        self.in_place = true;
        Ok(())
    }

    fn remove_side_files(&self) -> Result<(), CommandError> {
        remove_side_files(&self.path).map(|_| ())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.in_place {
            let _ = self.remove_side_files();
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The path with `suffix` behind its name.
pub(crate) fn with_suffix(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes journal, log and index of the database at `path`; tells whether there were any.
pub(crate) fn remove_side_files(path: &Path) -> Result<bool, CommandError> {
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
pub(crate) fn sync_directory(path: &Path) -> Result<(), CommandError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

/// Whether `path` names the file that is open.
pub(crate) fn is_still(path: &Path, file: &File) -> bool {
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => same(&named, &open),
        _ => false,
    }
}

fn nix_flags() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// Only what a killed run may have left is taken: a part of a copy, in a file with one name.
fn refuse_foreign(path: &Path, file: &File) -> Result<(), CommandError> {
    let occupied = |reason| DatabaseError::Occupied { path: path.to_owned(), reason };
    let metadata = file.metadata().map_err(io_error("examine", path))?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(occupied(" and is not an ordinary file").into());
    }
    let area = read_area(file).map_err(io_error("read", path))?;
    // A plain copy gets its first page last.
    let unfinished = area.iter().take(16).all(|&byte| byte == 0);
    let staged = area.starts_with(&scratch::MAGIC);
    match FileKind::of(&area) {
        FileKind::Other if !unfinished && !staged => {
            Err(occupied(" and was not left there by tdekit: move it away").into())
        }
        _ => Ok(()),
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

/// Overwrites the start of page 1 in a file that no name leads to any more, so that a connection
/// which still has it open fails, and does not go on with content that nobody else sees.
pub(crate) fn spoil_unlinked(file: &File, page_one_offset: u64) {
    const SQLITE_HEADER_LEN: usize = 100;
    if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
        let _ = file.write_all_at(&[0; SQLITE_HEADER_LEN], page_one_offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_at_a_time_and_leftovers_go() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        fs::write(&database, "SQLite format 3\0").unwrap();
        let path = with_suffix(&database, SUFFIX);
        fs::write(&path, b"tdekit database\0 and more").unwrap();
        fs::write(with_suffix(&path, "-journal"), b"x").unwrap();
        let first = Target::create(&database).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert!(!with_suffix(&path, "-journal").exists());
        let second = Target::create(&database);
        assert!(matches!(second, Err(CommandError::Database(DatabaseError::Converting { .. }))));
        drop(first);
        assert!(!path.exists());
        let mut third = Target::create(&database).unwrap();
        third.replace_database().unwrap();
        // The name is free, but its lock is still held: on what is the database now.
        let fourth = Target::create(&database).unwrap();
        assert!(!is_still(&path, &third.file) && is_still(&path, &fourth.file));
        drop(third);
        drop(fourth);
        assert!(database.exists() && !path.exists());
    }

    #[test]
    fn files_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        let path = with_suffix(&database, SUFFIX);
        fs::write(&path, b"my notes, not yours").unwrap();
        assert!(Target::create(&database).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"my notes, not yours");
        fs::remove_file(&path).unwrap();
        fs::write(dir.path().join("linked"), b"").unwrap();
        fs::hard_link(dir.path().join("linked"), &path).unwrap();
        assert!(Target::create(&database).is_err());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("linked"), &path).unwrap();
        assert!(Target::create(&database).is_err());
    }

    #[test]
    fn no_room_is_told_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create(&dir.path().join("a.db")).unwrap();
        target.check_space(4096).unwrap();
        assert!(matches!(target.check_space(u64::MAX), Err(DatabaseError::NoSpace { .. })));
    }
}
