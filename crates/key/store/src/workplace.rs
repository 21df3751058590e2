//! The place where a file is made before it has its name: a separate directory beside it,
//! accessible to its owner only.
//!
//! The directory's name holds 64 random bits, and we alone make everything in it: nobody can have
//! put a file, a link or an SQLite journal there first. A file in it names the file being made, and
//! is locked for as long as the work lasts. Both identify the remains of a killed run.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use tdekit_key_crypto::random_bytes;

use crate::error::StoreError;
use crate::parent::{parent_of, sync_parent};

/// Prefix of the names of these directories.
const PREFIX: &str = "tdekit-new.";
/// The prefix of the lock file's name; the directory's number follows.
const LOCK_PREFIX: &str = "tdekit-lock.";
/// First bytes of the lock file; the name of the file being made follows.
const LOCK_MAGIC: &[u8] = b"tdekit work 1\n";
/// File names have at most 255 bytes on the systems we know.
const MAX_LOCK_BYTES: u64 = 4096;
/// Number of attempts to make the directory when another run clears it away right after its
/// creation.
const ATTEMPTS: usize = 16;
/// Number of times to wait for another run, which may only just be examining ours.
const MEETINGS: u16 = 4;

/// A directory in which one file is made. When dropped, it is removed with its content.
#[derive(Debug)]
pub struct Workplace {
    /// The file's final path.
    path: PathBuf,
    dir: PathBuf,
    /// The open directory: files are made and renamed through it, whatever its name refers to.
    handle: File,
    lock_name: OsString,
    lock: File,
    abandoned: bool,
}

impl Workplace {
    /// Makes the directory beside `path`, the path of the new file, and removes the remains of
    /// killed runs there.
    ///
    /// # Errors
    /// `BeingWritten` while another run makes the same file, `Io`.
    pub fn beside(path: &Path) -> Result<Self, StoreError> {
        for meeting in 1..=MEETINGS {
            let made = Self::make(path)?;
            if !made.meets_another_run() {
                return Ok(made);
            }
            // Two runs that see each other would both stop, so both withdraw for a while.
            drop(made);
            let mut random = [0; 2];
            random_bytes(&mut random)?;
            let wait_ms = u16::from_le_bytes(random) % (meeting * 20);
            thread::sleep(Duration::from_millis(u64::from(wait_ms)));
        }
        Err(StoreError::BeingWritten { path: path.to_owned() })
    }

    /// Makes the directory beside `path`, and looks for no other run's: two that make the same file
    /// find out when they publish it.
    ///
    /// # Errors
    /// `BeingWritten` where other runs take it for remains each time, `Io`.
    pub fn make(path: &Path) -> Result<Self, StoreError> {
        for _ in 0..ATTEMPTS {
            let mut number = [0; 8];
            random_bytes(&mut number)?;
            let number = u64::from_le_bytes(number);
            let dir = parent_of(path).join(format!("{PREFIX}{number:016x}"));
            let lock_name = OsString::from(format!("{LOCK_PREFIX}{number:016x}"));
            match Self::make_in(path, dir.clone(), lock_name) {
                Ok(Some(made)) => return Ok(made),
                // Another run took the directory for a leftover.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io("create", &dir)(error)),
            }
        }
        Err(StoreError::BeingWritten { path: path.to_owned() })
    }

    fn make_in(path: &Path, dir: PathBuf, lock_name: OsString) -> io::Result<Option<Self>> {
        DirBuilder::new().mode(0o700).create(&dir)?;
        let made = open_directory(&dir).and_then(|handle| {
            let lock = create_in(&handle, &lock_name)?;
            Ok((handle, lock))
        });
        let (handle, lock) = match made {
            Ok(made) => made,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let _ = fs::remove_dir(&dir);
                return Err(error);
            }
        };
        // Whatever owner the file system gives to new files, it gives both the same one.
        if handle.metadata()?.uid() != lock.metadata()?.uid() {
            return Err(io::Error::other("somebody put another directory in its place"));
        }
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let path = path.to_owned();
        let mut made = Self { path, dir, handle, lock_name, lock, abandoned: false };
        if made.lock.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        let name = made.path.file_name().unwrap_or_default().as_bytes();
        made.lock.write_all(&[LOCK_MAGIC, name].concat())?;
        Ok(Some(made))
    }

    /// Removes the remains of killed runs in the directory, and returns true if a live one makes
    /// the same file.
    fn meets_another_run(&self) -> bool {
        let parent = parent_of(&self.path);
        // If the directory cannot be listed, all its content stays.
        let Ok(entries) = fs::read_dir(parent) else { return false };
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
        let own = self.dir.file_name();
        let mut meets = false;
        for name in names.filter(|name| number_of(name).is_some() && Some(&**name) != own) {
            if let Ok(Some(Found::Living(file_name))) = self.look_at(&parent.join(name)) {
                meets |= self.path.file_name() == Some(&*file_name);
            }
        }
        meets
    }

    /// Examines `dir`, and removes it if it is ours and its run is dead. `None` if it is not ours.
    fn look_at(&self, dir: &Path) -> io::Result<Option<Found>> {
        let handle = open_directory(dir)?;
        let (own, other) = (self.handle.metadata()?, handle.metadata()?);
        if !is_like(&own, &other) {
            return Ok(None);
        }
        let number = dir.file_name().and_then(number_of).unwrap_or_default();
        let lock_name = OsString::from(format!("{LOCK_PREFIX}{number}"));
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = match rustix::fs::openat(&handle, &lock_name, flags, Mode::empty()) {
            Ok(lock) => File::from(lock),
            // The lock file is removed last, or not made yet: an empty directory has no owner.
            Err(Errno::NOENT) => {
                let _ = fs::remove_dir(dir);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let facts = lock.metadata()?;
        if !facts.is_file() || facts.nlink() != 1 || !is_like(&self.lock.metadata()?, &facts) {
            return Ok(None);
        }
        let mut content = Vec::new();
        (&lock).take(MAX_LOCK_BYTES).read_to_end(&mut content)?;
        let name = match content.strip_prefix(LOCK_MAGIC) {
            Some(name) => OsStr::from_bytes(name).to_owned(),
            None if content.is_empty() => OsString::new(),
            None => return Ok(None),
        };
        match lock.try_lock() {
            Ok(()) => {
                clear(&handle, &lock_name)?;
                fs::remove_dir(dir)?;
                Ok(None)
            }
            Err(TryLockError::WouldBlock) => Ok(Some(Found::Living(name))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path at which the file is made: its own name, in the directory.
    #[must_use]
    pub fn place(&self) -> PathBuf {
        self.dir.join(self.path.file_name().unwrap_or_default())
    }

    /// Makes the file, empty, for its owner only.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(&self) -> Result<File, StoreError> {
        create_in(&self.handle, self.name()).map_err(StoreError::io("create", &self.place()))
    }

    /// Makes another file in the directory, removed together with it. Returns its path, too.
    ///
    /// # Errors
    /// `Io`.
    pub fn create_other(&self, name: &str) -> Result<(File, PathBuf), StoreError> {
        let path = self.dir.join(name);
        let file =
            create_in(&self.handle, OsStr::new(name)).map_err(StoreError::io("create", &path))?;
        Ok((file, path))
    }

    /// Gives the file its final name, which must be free.
    ///
    /// # Errors
    /// `Exists` where it is in use, `Io`.
    pub fn publish(&self) -> Result<(), StoreError> {
        let (name, path) = (self.name(), &self.path);
        let renamed =
            rustix::fs::renameat_with(&self.handle, name, CWD, path, RenameFlags::NOREPLACE);
        let placed = match renamed {
            // A hard link, which fails if the name exists, does the same in two steps.
            Err(error) if cannot(error) => {
                rustix::fs::linkat(&self.handle, name, CWD, path, AtFlags::empty())
                    .and_then(|()| rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()))
            }
            other => other,
        };
        placed.map_err(|error| match error {
            Errno::EXIST => StoreError::Exists { path: path.clone() },
            other => StoreError::io("create", path)(other.into()),
        })
    }

    /// Gives the file its final name, replacing an existing file.
    ///
    /// # Errors
    /// `Io`.
    pub fn replace(&self) -> Result<(), StoreError> {
        rustix::fs::renameat(&self.handle, self.name(), CWD, &self.path)
            .map_err(|error| StoreError::io("rename", &self.path)(error.into()))
    }

    /// Exchanges the file with the existing one. Returns false if there is none, or the file system
    /// cannot do it.
    ///
    /// # Errors
    /// `Io`.
    pub fn exchange(&self) -> Result<bool, StoreError> {
        let (name, path) = (self.name(), &self.path);
        match rustix::fs::renameat_with(&self.handle, name, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(error) if cannot(error) || error == Errno::NOENT => Ok(false),
            Err(error) => Err(StoreError::io("rename", path)(error.into())),
        }
    }

    /// Makes the names in the directory of the final path durable.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_name(&self) -> Result<(), StoreError> {
        sync_parent(&self.path)
    }

    /// Leaves everything as a killed process would.
    pub(crate) fn abandon(mut self) {
        self.abandoned = true;
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if !self.abandoned && clear(&self.handle, &self.lock_name).is_ok() {
            // The next run removes anything left here.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// A directory of ours in which a live run makes the file of this name.
enum Found {
    Living(OsString),
}

/// Returns true if `dir` has the name of a workplace.
#[must_use]
pub fn is_workplace(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| number_of(name).is_some())
}

fn number_of(name: &OsStr) -> Option<&str> {
    let number = name.to_str()?.strip_prefix(PREFIX)?;
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (number.len() == 16 && number.bytes().all(hex)).then_some(number)
}

/// Returns true if two files have the same owner and permissions.
fn is_like(own: &Metadata, other: &Metadata) -> bool {
    (own.uid(), own.mode()) == (other.uid(), other.mode())
}

fn open_directory(dir: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(dir)
}

fn create_in(directory: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(file.into())
}

/// Removes all files in a directory of ours, the lock file last.
fn clear(directory: &File, lock_name: &OsStr) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && name != lock_name {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
        }
    }
    Ok(rustix::fs::unlinkat(directory, lock_name, AtFlags::empty())?)
}

/// Returns true if the file system lacks a kind of renaming.
fn cannot(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn write(place: &Workplace, text: &str) -> File {
        let mut file = place.create().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_file_is_for_its_owner_only_and_gets_its_name_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let place = Workplace::beside(&path).unwrap();
        let file = write(&place, "whole");
        let mode = |metadata: Metadata| metadata.permissions().mode() & 0o777;
        assert_eq!(mode(file.metadata().unwrap()), 0o600);
        assert_eq!(mode(fs::metadata(&place.dir).unwrap()), 0o700);
        assert!(!path.exists() && is_workplace(&place.dir));
        place.publish().unwrap();
        drop(place);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        let place = Workplace::beside(&path).unwrap();
        write(&place, "another");
        assert!(matches!(place.publish(), Err(StoreError::Exists { .. })));
        assert!(place.exchange().unwrap());
        assert_eq!(fs::read(place.place()).unwrap(), b"whole");
        assert!(place.exchange().unwrap());
        place.replace().unwrap();
        drop(place);
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn what_others_put_there_first_is_neither_used_nor_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("f"), dir.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        for name in ["f.tdekit-new", "f.tdekit-stage", "f.new"] {
            symlink(&victim, dir.path().join(name)).unwrap();
        }
        let fake = dir.path().join("tdekit-new.0123456789abcdef");
        fs::create_dir(&fake).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(fake.join("tdekit-lock.0123456789abcdef"), "tdekit work 1\nf").unwrap();
        symlink(dir.path(), dir.path().join("tdekit-new.00000000000000aa")).unwrap();
        fs::write(dir.path().join("tdekit-new.00000000000000bb"), "notes").unwrap();
        let own = dir.path().join("tdekit-new.00000000000000cc");
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        fs::write(own.join("notes"), "of the owner").unwrap();
        let before = names(dir.path());
        let place = Workplace::beside(&path).unwrap();
        write(&place, "whole");
        place.publish().unwrap();
        drop(place);
        let mut after = names(dir.path());
        after.retain(|name| name != "f");
        assert_eq!(after, before);
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert_eq!(names(&fake), ["tdekit-lock.0123456789abcdef"]);
        assert_eq!(names(&own), ["notes"]);
    }

    #[test]
    fn a_foreign_lock_on_a_foreign_directory_keeps_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("tdekit-new.0123456789abcdef");
        fs::create_dir(&fake).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        let lock = fake.join("tdekit-lock.0123456789abcdef");
        fs::write(&lock, "tdekit work 1\nf").unwrap();
        let held = File::open(&lock).unwrap();
        held.lock().unwrap();
        Workplace::beside(&dir.path().join("f")).unwrap();
        // A pipe in place of the lock file blocks nobody.
        let own = dir.path().join("tdekit-new.00000000000000cc");
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        let pipe = own.join("tdekit-lock.00000000000000cc");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        Workplace::beside(&dir.path().join("f")).unwrap();
        assert!(pipe.exists());
    }

    #[test]
    fn one_run_at_a_time_makes_a_file_and_what_a_killed_one_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let first = Workplace::beside(&path).unwrap();
        assert!(matches!(Workplace::beside(&path), Err(StoreError::BeingWritten { .. })));
        let other = Workplace::beside(&dir.path().join("g")).unwrap();
        write(&first, "half");
        first.create_other("stage").unwrap();
        fs::write(first.dir.join("f-journal"), "of SQLite").unwrap();
        first.abandon();
        assert_eq!(names(dir.path()).len(), 2);
        drop(Workplace::beside(&path).unwrap());
        assert_eq!(names(dir.path()), [other.dir.file_name().unwrap().to_str().unwrap()]);
        drop(other);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn many_that_begin_at_once_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let path = dir.path().join("f");
            let made = thread::scope(|scope| {
                let runs: Vec<_> =
                    (0..3).map(|_| scope.spawn(|| Workplace::beside(&path).ok())).collect();
                runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
            });
            assert!(made.iter().flatten().count() <= 1);
        }
        assert!(names(dir.path()).is_empty());
    }
}
