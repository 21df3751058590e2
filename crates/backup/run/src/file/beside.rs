//! A new file that is made beside its final name and gets it once it is whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tdekit_key_store::Workplace;

use super::made;
use crate::RunError;

/// A file on the way to its final name, readable by its owner only. Dropped before that, it is
/// removed.
pub(super) struct Beside {
    file: File,
    beside: PathBuf,
    // After the file, so that it is closed before its directory is removed.
    work: Workplace,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The file is beside its final name.
    Beside,
    /// The file has its final name, which was unused.
    Placed,
    /// The file has its final name; the previous file is kept beside it until this is dropped.
    Exchanged,
    /// The file has its final name; the previous file is gone.
    Replaced,
}

impl Beside {
    /// Makes the file. Remains of killed runs are removed; a file that another run is making is
    /// [`RunError::Locked`].
    pub(super) fn create(path: &Path) -> Result<Self, RunError> {
        Self::create_in(Workplace::beside(path).map_err(made)?)
    }

    /// Makes a file that nobody else makes. The directory is not listed.
    pub(super) fn create_alone(path: &Path) -> Result<Self, RunError> {
        Self::create_in(Workplace::make(path).map_err(made)?)
    }

    fn create_in(work: Workplace) -> Result<Self, RunError> {
        let file = work.create().map_err(made)?;
        Ok(Self { beside: work.place(), work, file, state: State::Beside })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path to which it is written.
    pub(super) fn beside(&self) -> &Path {
        &self.beside
    }

    /// Gives the file its name. Its bytes are durable already.
    pub(super) fn place(&mut self, replace: bool) -> Result<(), RunError> {
        if replace && self.work.exchange().map_err(made)? {
            self.state = State::Exchanged;
        } else if replace {
            self.work.replace().map_err(made)?;
            self.state = State::Replaced;
        } else {
            self.work.publish().map_err(made)?;
            self.state = State::Placed;
        }
        self.work.sync_name().map_err(made)
    }

    /// Undoes [`Self::place`].
    pub(super) fn withdraw(&mut self) -> Result<(), RunError> {
        let path = self.work.path();
        match self.state {
            State::Beside => return Ok(()),
            State::Placed => {
                fs::remove_file(path).map_err(RunError::io("remove", path))?;
            }
            State::Exchanged => {
                if !self.work.exchange().map_err(made)? {
                    return Err(self.replaced());
                }
                self.state = State::Beside;
            }
            State::Replaced => return Err(self.replaced()),
        }
        self.work.sync_name().map_err(made)
    }

    fn replaced(&self) -> RunError {
        let source = io::Error::other("what it replaced is gone");
        RunError::Io { action: "take back", path: self.work.path().to_owned(), source }
    }
}

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
        drop(first);
        assert_eq!(content(&path).as_deref(), Some("first"));
        let mut second = written(&path, "second");
        assert!(matches!(second.place(false), Err(RunError::Exists { .. })));
        second.place(true).unwrap();
        drop(second);
        assert_eq!(content(&path).as_deref(), Some("second"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_two_that_make_a_file_without_a_look_one_gets_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut first = Beside::create_alone(&path).unwrap();
        let mut second = Beside::create_alone(&path).unwrap();
        second.place(false).unwrap();
        assert!(matches!(first.place(false), Err(RunError::Exists { .. })));
        drop((first, second));
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
    fn what_stands_under_the_former_name_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("f"), dir.path().join("other"));
        fs::write(&other, "other").unwrap();
        let former = dir.path().join("f.tdekit-new");
        std::os::unix::fs::symlink(&other, &former).unwrap();
        written(&path, "whole").place(false).unwrap();
        assert_eq!(content(&path).as_deref(), Some("whole"));
        assert!(former.is_symlink());
        assert_eq!(content(&other).as_deref(), Some("other"));
    }
}
