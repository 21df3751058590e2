//! Files on disk: atomic replacement, so that a crash leaves the old or the new file, whole; and
//! reading with a limit.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::error::StoreError;
use crate::parent::{parent_of, sync_parent};
use crate::workplace::Workplace;

/// The step that [`replace`] has just completed. A crash between any two leaves the old or the new
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The new file exists beside the old one, empty.
    Created,
    /// The file has all its bytes, which may still be in the system's cache.
    Written,
    /// The bytes are on disk.
    Synced,
    /// The file has replaced the old file.
    Renamed,
    /// The rename is on disk, too.
    DirectorySynced,
}

/// Called after each step. An error stops [`replace`] there as a crash would, leaving everything as
/// it is.
pub(crate) type OnStep<'a> = &'a (dyn Fn(Step) -> io::Result<()> + Send + Sync);

/// The usual [`OnStep`], which continues.
pub(crate) fn go_on(_: Step) -> io::Result<()> {
    Ok(())
}

/// Replaces the file at `path` by `bytes`, readable by its owner only. A link stays, and what it
/// leads to is replaced. On an error the old file is still in force.
pub(crate) fn replace(path: &Path, bytes: &[u8], on_step: OnStep<'_>) -> Result<(), StoreError> {
    let work = Workplace::beside(&linked(path)?)?;
    match replace_in(&work, bytes, on_step) {
        Err(Stopped::Crash(error)) => {
            work.abandon();
            Err(error)
        }
        Err(Stopped::Refused(error)) => Err(error),
        Ok(()) => Ok(()),
    }
}

/// Reason for which [`replace`] stops early.
enum Stopped {
    /// The error that [`OnStep`] returned.
    Crash(StoreError),
    /// An error of the system.
    Refused(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

fn replace_in(work: &Workplace, bytes: &[u8], on_step: OnStep<'_>) -> Result<(), Stopped> {
    let (path, place) = (work.path(), work.place());
    let step =
        |step| on_step(step).map_err(|error| Stopped::Crash(StoreError::io("write", path)(error)));
    let mut file = work.create()?;
    give_to_owner_of_directory(&file, path)
        .map_err(StoreError::io("change the owner of", &place))?;
    step(Step::Created)?;
    file.write_all(bytes).map_err(StoreError::io("write", &place))?;
    step(Step::Written)?;
    file.sync_all().map_err(StoreError::io("sync", &place))?;
    step(Step::Synced)?;
    work.replace()?;
    step(Step::Renamed)?;
    work.sync_name()?;
    step(Step::DirectorySynced)
}

/// The suffixes of the files that SQLite, and the extension, keep beside a database.
const SIDE_SUFFIXES: [&str; 7] =
    ["-journal", "-wal", "-shm", "-seals", "-seals2", "-tdekit-paused", "-replica"];
/// The name of a super-journal: the database's, this, and nine hexadecimal digits.
const SUPER_JOURNAL: &[u8] = b"-mj";
const SUPER_JOURNAL_DIGITS: usize = 9;

/// Returns true if the path has the name of a journal, log, list of seals, pause note or record of
/// replication of a file beside it: SQLite or tdekit takes such a file for its own, and deletes or
/// replaces it.
#[must_use]
pub fn is_side(path: &Path) -> bool {
    let name = path.as_os_str().as_bytes();
    let database = |suffix: &&str| name.strip_suffix(suffix.as_bytes());
    let mut databases = SIDE_SUFFIXES.iter().filter_map(database).chain(super_journal_of(name));
    databases.any(|name| Path::new(OsStr::from_bytes(name)).is_file())
}

fn super_journal_of(name: &[u8]) -> Option<&[u8]> {
    let (name, digits) = name.split_at_checked(name.len().checked_sub(SUPER_JOURNAL_DIGITS)?)?;
    let numbered = digits.iter().all(u8::is_ascii_hexdigit);
    name.strip_suffix(SUPER_JOURNAL).filter(|_| numbered)
}

/// Writes a file that must not exist yet, readable by its owner only, and waits until it is on
/// disk. It gets its name when it is whole.
///
/// # Errors
/// `InvalidValue` for a name of [`is_side`], `Exists`, `BeingWritten`, `Io`; nothing is left then.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    if is_side(path) {
        return Err(StoreError::InvalidValue {
            what: "file name",
            value: path.display().to_string(),
            reason: "SQLite or tdekit gives it to a file of the database beside it, and deletes it",
        });
    }
    let work = Workplace::beside(path)?;
    let mut file = work.create()?;
    file.write_all(bytes).map_err(StoreError::io("write", path))?;
    file.sync_all().map_err(StoreError::io("sync", path))?;
    work.publish()?;
    work.sync_name()
}

/// Replaces the file at `path` by `bytes`, with these permissions, and waits until it is on disk. A
/// link stays, and what it leads to is replaced. A process that has the old file open keeps it.
///
/// # Errors
/// `BeingWritten`, `Io`; the old file is then unchanged.
pub fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), StoreError> {
    let work = Workplace::beside(&linked(path)?)?;
    let mut file = work.create()?;
    file.write_all(bytes)
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .map_err(StoreError::io("write", path))?;
    work.replace()?;
    work.sync_name()
}

/// Returns the file that is written for `path`: that at the end of its links, as it is the one that
/// is read, or `path` itself.
fn linked(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = || StoreError::io("write", path);
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_symlink() => match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failed()(gone_link())),
            real => real.map_err(failed()),
        },
        // What else is there is found out when it is replaced.
        _ => Ok(path.to_owned()),
    }
}

fn gone_link() -> io::Error {
    io::Error::other("it is a link to a file that is gone")
}

/// Reads a whole file of at most `max` bytes. Returns `None` if there is no file.
///
/// # Errors
/// `Io`, also for a longer file.
pub fn read_limited(path: &Path, max: u64) -> Result<Option<Vec<u8>>, StoreError> {
    match open_waiting(path) {
        Ok(file) => read_opened(file, path, max).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", path)(error)),
    }
}

/// Opens a file for reading. Waits for the writer of a pipe, such as one that a shell makes, until
/// a signal arrives or the time is over.
pub(crate) fn open_waiting(path: &Path) -> io::Result<File> {
    const LONGEST: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    if file.metadata()?.file_type().is_fifo()
        && poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&LONGEST))? == 0
    {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody writes to this pipe"));
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Opens a file that tdekit made for reading; it must be a regular file. Does not wait for a pipe
/// in its place.
///
/// # Errors
/// Those of opening; an error for anything but a regular file, and for a link to none.
pub fn open_ordinary(path: &Path) -> io::Result<File> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => gone_link(),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not an ordinary file")),
    }
}

/// As [`read_limited`], for a file that tdekit made: see [`open_ordinary`].
///
/// # Errors
/// As there, and an error for anything but a regular file.
pub fn read_ordinary(path: &Path, max: u64) -> Result<Option<Vec<u8>>, StoreError> {
    match open_ordinary(path) {
        Ok(file) => read_opened(file, path, max).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", path)(error)),
    }
}

fn read_opened(file: File, path: &Path, max: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(StoreError::io("read", path))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= max) {
        return Ok(bytes);
    }
    let source = io::Error::new(io::ErrorKind::FileTooLarge, format!("over {max} bytes"));
    Err(StoreError::io("read", path)(source))
}

/// Opens a file of the store's directory for reading and appending, and makes it, readable by its
/// owner only, if it does not exist. Refuses links, pipes and files with several names.
pub(crate) fn open_appending(path: &Path) -> Result<File, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
        .map_err(StoreError::io("open", path))?;
    let facts = file.metadata().map_err(StoreError::io("examine", path))?;
    if !facts.is_file() || facts.nlink() != 1 {
        let other = io::Error::other("it is not an ordinary file with one name");
        return Err(StoreError::io("use", path)(other));
    }
    Ok(file)
}

/// Makes a directory and its parents, for its owner only; an existing directory is left alone.
pub(crate) fn create_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(StoreError::io("create", dir))?;
    sync_parent(dir)
}

/// A store that root writes for a server's user must stay readable by that user, who owns the
/// directory. For users other than root, the file belongs to them, as it should.
///
/// # Errors
/// Those of the file system.
pub fn give_to_owner_of_directory(file: &File, path: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let parent = fs::metadata(parent_of(path))?;
    match parent.uid() {
        0 => Ok(()),
        uid => fchown(file, Some(uid), Some(parent.gid())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const STEPS: [Step; 5] =
        [Step::Created, Step::Written, Step::Synced, Step::Renamed, Step::DirectorySynced];

    #[test]
    fn steps_come_in_the_order_that_keeps_the_old_file_until_the_new_one_is_durable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let seen = Mutex::new(Vec::new());
        let record = |step| {
            seen.lock().unwrap().push(step);
            Ok(())
        };
        replace(&path, b"one", &record).unwrap();
        assert_eq!(seen.into_inner().unwrap(), STEPS);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_crash_after_any_step_leaves_old_or_new_and_the_next_write_works() {
        for (index, last) in STEPS.into_iter().enumerate() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f");
            replace(&path, b"old", &go_on).unwrap();
            let crash = |step| match step == last {
                true => Err(io::Error::other("crash")),
                false => Ok(()),
            };
            replace(&path, b"newer", &crash).unwrap_err();
            let expected: &[u8] = if index < 3 { b"old" } else { b"newer" };
            assert_eq!(fs::read(&path).unwrap(), expected, "{last:?}");
            replace(&path, b"newest", &go_on).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"newest");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{last:?}");
        }
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        let (real, link) = (dir.path().join("real/f"), dir.path().join("f"));
        let second = dir.path().join("g");
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real/f", &link).unwrap();
        std::os::unix::fs::symlink("f", &second).unwrap();
        replace(&link, b"new", &go_on).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        replace_with_mode(&second, b"newer", 0o640).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"newer");
        assert!(link.is_symlink() && second.is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        fs::remove_file(&real).unwrap();
        let told = replace(&link, b"x", &go_on).unwrap_err().to_string();
        assert!(told.contains("a link to a file that is gone"), "{told}");
        assert!(link.is_symlink() && !real.exists());
    }

    /// Only root can give a file away; for other users the test has nothing to check.
    #[test]
    fn what_root_replaces_belongs_to_the_owner_of_the_directory() {
        const SOMEBODY: u32 = 65534;
        let dir = tempfile::tempdir().unwrap();
        let (path, root) = (dir.path().join("f"), rustix::process::geteuid().is_root());
        if root {
            std::os::unix::fs::chown(dir.path(), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        }
        replace(&path, b"one", &go_on).unwrap();
        let (file, owner) = (fs::metadata(&path).unwrap(), fs::metadata(dir.path()).unwrap());
        assert_eq!((file.uid(), file.gid()), (owner.uid(), owner.gid()));
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        assert_eq!(root, file.uid() == SOMEBODY);
    }

    #[test]
    fn names_beside_a_database_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let named = |name: &str| dir.path().join(name);
        std::fs::write(named("a.db"), b"").unwrap();
        for suffix in ["-journal", "-seals2", "-replica", "-mj12AB0F901"] {
            assert!(is_side(&named(&format!("a.db{suffix}"))), "{suffix}");
            assert!(!is_side(&named(&format!("b.db{suffix}"))), "{suffix}");
        }
        for free in ["a.db", "a.db-mj12345", "a.db-mjx12345678", "a.db-replica2", "-replica"] {
            assert!(!is_side(&named(free)), "{free}");
        }
    }

    #[test]
    fn write_new_does_not_overwrite_and_reading_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write_new(&path, b"12345").unwrap();
        assert!(write_new(&path, b"6").is_err());
        assert_eq!(read_limited(&path, 5).unwrap().as_deref(), Some(b"12345".as_slice()));
        assert!(read_limited(&path, 4).is_err());
        assert!(read_limited(&dir.path().join("none"), 4).unwrap().is_none());
    }
}
