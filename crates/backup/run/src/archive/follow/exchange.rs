//! A database whose file was exchanged or overwritten: it is given up, its log is put aside, and
//! what is under the path is opened.

use super::looks::Opened;
use super::{Event, Follower, Why};
use crate::RunError;
use crate::archive::ground::{Aside, Found};
use crate::archive::left::Left;
use crate::archive::source::Open;
use crate::archive::state::{FileStamp, WRITTEN};
use crate::error::ArchiveError;

impl Follower<'_> {
    /// Looks whether the file is still that below the log, and gives the database up if not.
    pub(super) fn is_given_up(&mut self, tell: &mut dyn FnMut(Event)) -> bool {
        // A failure is that of the next step.
        let found = self.source.as_mut().and_then(|source| source.glance().ok());
        found.is_some_and(|found| self.gives_up(found, tell))
    }

    /// Gives the database up where its file is not that below the log: nothing that was read since
    /// the last look is shipped, and no frame is copied. Returns true if so.
    pub(super) fn gives_up(&mut self, found: Found, tell: &mut dyn FnMut(Event)) -> bool {
        let why = match found {
            Found::Sound | Found::NotNow => return false,
            Found::Touched => {
                if self.why.as_ref().is_none_or(Why::is_optional) {
                    self.why = Some(Why::Touched);
                }
                return false;
            }
            Found::Overwritten => Why::Overwritten,
            Found::Replaced => Why::Replaced,
            Found::LogGone => Why::LogGone,
        };
        if let Some(source) = self.source.take() {
            self.left = Some(Left::of(&source));
            // Closed before the file is opened again.
            drop(source);
        }
        self.why = Some(why);
        self.key_change = false;
        self.heed_left(tell);
        true
    }

    /// Puts the log that is left aside, once another file is under the path.
    pub(super) fn heed_left(&mut self, tell: &mut dyn FnMut(Event)) {
        let Some(left) = &mut self.left else { return };
        let (was_back, was_in_use) = (left.is_back(), left.is_in_use());
        let is_replaced = match self.why {
            Some(Why::Replaced) => true,
            Some(Why::Overwritten) => false,
            _ if was_back => true,
            _ => return,
        };
        match left.heed(is_replaced) {
            Aside::Put(log) => tell(Event::PutAside(log)),
            Aside::InUse if !was_in_use => tell(Event::StillOpen),
            Aside::Nothing | Aside::InUse => {}
        }
        if left.is_back() {
            self.why = Some(Why::Back);
        } else if was_back {
            self.why = Some(Why::Replaced);
        }
    }

    /// Returns true if the file came back, and can be opened again at once.
    pub(super) fn has_come_back(&self) -> bool {
        self.left.as_ref().is_some_and(Left::is_back)
    }

    /// Opens the database again, once it is whole: if it was not written to for some time, or
    /// others use it.
    ///
    /// # Errors
    /// `NoDatabase` for an empty file; `Locked` while a program sees the old log over the new file.
    pub(super) fn open_again(&mut self, tell: &mut dyn FnMut(Event)) -> Result<bool, RunError> {
        if !self.is_open() {
            let path = &self.shipper.path;
            let stamp = FileStamp::of(path).map_err(RunError::io("read", path))?;
            if stamp.age() < WRITTEN && !self.left.as_ref().is_some_and(Left::has_successor) {
                return Ok(false);
            }
            if stamp.len() == 0 {
                // SQLite removes the log of an empty file, which may get its content back.
                return Err(ArchiveError::NoDatabase { path: path.clone() }.into());
            }
            if self.left.as_ref().is_some_and(|left| left.is_in_use() && !left.has_successor()) {
                return Err(RunError::Locked { path: path.clone() });
            }
            let left = &self.left;
            let open: Open<'_> = Box::new(|| {
                let opened = (self.shipper.open)()?;
                // Keys may have been waited for. From here on SQLite sees the log over the file.
                match left.as_ref().is_none_or(|left| !left.is_back() || left.stays_back()) {
                    true => Ok(opened),
                    false => Err(RunError::Locked { path: path.clone() }),
                }
            });
            let opened = Opened::of(&open, tell)?;
            drop(open);
            (self.source, self.looks) = opened.parts();
            self.left = None;
        }
        Ok(true)
    }
}
