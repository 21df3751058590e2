//! A new file that is made beside its final name and takes it once it is whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{is_at, lock, sync_parent};
use crate::RunError;

const SUFFIX: &str = ".tdekit-new";
/// How often another writer may take the name between opening and locking.
const ATTEMPTS: usize = 16;

/// A file on its way to its final name. Dropped before that, it is removed.
pub(super) struct Beside {
    path: PathBuf,
    beside: PathBuf,
    file: File,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It stands beside.
    Beside,
    /// It has the final name, where nothing was.
    Placed,
    /// It has the final name; what was there stands beside until this is dropped.
    Exchanged,
    /// It has the final name; what was there is gone.
    Replaced,
}

impl Beside {
    /// Makes the file, readable by its owner only. What a crash left of an earlier one is
    /// overwritten; one that is being written is [`RunError::Locked`].
    pub(super) fn create(path: &Path) -> Result<Self, RunError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(SUFFIX);
        let beside = path.with_file_name(name);
        for _ in 0..ATTEMPTS {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(NO_FOLLOW)
                .open(&beside)
                .map_err(RunError::io("create", &beside))?;
            lock(&file, &beside)?;
            if is_at(&file, &beside).map_err(RunError::io("create", &beside))? {
                file.set_len(0).map_err(RunError::io("write", &beside))?;
                let path = path.to_path_buf();
                return Ok(Self { path, beside, file, state: State::Beside });
            }
        }
        Err(RunError::Locked { path: beside })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Where it is written.
    pub(super) fn beside(&self) -> &Path {
        &self.beside
    }

    /// Gives the file its name. Its bytes are durable already.
    pub(super) fn place(&mut self, replace: bool) -> Result<(), RunError> {
        if replace && self.exchange()? {
            self.state = State::Exchanged;
        } else if replace {
            fs::rename(&self.beside, &self.path).map_err(RunError::io("rename", &self.path))?;
            self.state = State::Replaced;
        } else {
            self.place_new()?;
            self.state = State::Placed;
        }
        sync_parent(&self.path)
    }

    /// False where nothing is there to be exchanged, or the file system cannot.
    fn exchange(&self) -> Result<bool, RunError> {
        match renameat_with(CWD, &self.beside, CWD, &self.path, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(error) if cannot(error) || error == rustix::io::Errno::NOENT => Ok(false),
            Err(error) => Err(RunError::io("rename", &self.path)(error.into())),
        }
    }

    fn place_new(&self) -> Result<(), RunError> {
        let renamed = renameat_with(CWD, &self.beside, CWD, &self.path, RenameFlags::NOREPLACE);
        let placed = match renamed {
            Err(error) if cannot(error) => {
                fs::hard_link(&self.beside, &self.path).and_then(|()| fs::remove_file(&self.beside))
            }
            other => other.map_err(io::Error::from),
        };
        placed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RunError::Exists { path: self.path.clone() },
            _ => RunError::io("rename", &self.path)(error),
        })
    }

    /// Takes back what [`Self::place`] did.
    pub(super) fn withdraw(&mut self) -> Result<(), RunError> {
        match self.state {
            State::Beside => return Ok(()),
            State::Placed => {
                fs::remove_file(&self.path).map_err(RunError::io("remove", &self.path))?;
            }
            State::Exchanged => {
                if !self.exchange()? {
                    return Err(self.replaced());
                }
                self.state = State::Beside;
            }
            State::Replaced => return Err(self.replaced()),
        }
        sync_parent(&self.path)
    }

    fn replaced(&self) -> RunError {
        let source = io::Error::other("what it replaced is gone");
        RunError::Io { action: "take back", path: self.path.clone(), source }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if matches!(self.state, State::Beside | State::Exchanged) {
            // What stays is overwritten by the next one.
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// Whether the file system lacks a kind of renaming.
fn cannot(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn content(path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn written(path: &Path, text: &str) -> Beside {
        let beside = Beside::create(path).unwrap();
        beside.file().write_all(text.as_bytes()).unwrap();
        beside
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_placed_and_not_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        drop(written(&path, "never"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut first = written(&path, "first");
        assert!(matches!(Beside::create(&path), Err(RunError::Locked { .. })));
        first.place(false).unwrap();
        assert_eq!(content(&path).as_deref(), Some("first"));
        let mut second = written(&path, "second");
        assert!(matches!(second.place(false), Err(RunError::Exists { .. })));
        second.place(true).unwrap();
        drop(second);
        assert_eq!(content(&path).as_deref(), Some("second"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_placed_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut first = written(&path, "first");
        first.place(true).unwrap();
        first.withdraw().unwrap_err();
        drop(first);
        let mut second = written(&path, "second");
        second.place(true).unwrap();
        assert_eq!(content(&path).as_deref(), Some("second"));
        second.withdraw().unwrap();
        drop(second);
        assert_eq!(content(&path).as_deref(), Some("first"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_its_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("f.tdekit-new")).unwrap();
        assert!(Beside::create(&dir.path().join("f")).is_err());
        assert_eq!(content(&other).as_deref(), Some("other"));
    }
}
