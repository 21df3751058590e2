//! The log that is left of a database's file after another one took its place, or while it is
//! moved away.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tdekit_key_crypto::sha256;
use tdekit_sqlite_convert::{has_log_users, with_suffix};
use tdekit_sqlite_page::HEADER_AREA_LEN;

use super::ground::{Aside, put_aside};
use super::source::Source;
use super::state::{FileStamp, WRITTEN};

/// Time for which who replaces a database removes its log.
const REMOVED_BY: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// The log. It stays open, so that the system gives its number to no other file.
pub(super) struct Left {
    path: PathBuf,
    /// Device and inode; `None` if it was gone from its path already.
    log: Option<(u64, u64)>,
    _file: Option<File>,
    /// The database's file as it was, and the digest of its page 1.
    stamp: FileStamp,
    page_1_sha256: Option<String>,
    /// True if frames may have been copied into it since.
    may_be_longer: bool,
    /// The place of page 1 in it.
    page_1_at: u64,
    page_size: u32,
    /// True if the file was seen to be empty: then it is being written anew.
    was_empty: bool,
    state: State,
}

/// The file that took the database's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// None is there yet, or it is being written.
    Awaited,
    /// A process has it open, and sees the log over it.
    InUse,
    /// It is the same, and the log is its own.
    Back,
    /// It is another one, and the log is not under its path any more.
    Settled,
}

impl Left {
    /// Takes the log of a database that is still open.
    pub(super) fn of(source: &Source) -> Self {
        let path = source.path().to_owned();
        // SQLite takes no locks on this file, which closing it would drop.
        let file = File::open(with_suffix(&path, "-wal")).ok();
        let is_here = |file: &File| {
            let there = file.metadata().ok().map(|it| (it.dev(), it.ino()));
            there == source.log()
        };
        let file = file.filter(is_here);
        let (stamp, page_1, may_be_longer) = source.last_below();
        Self {
            path,
            log: source.log().filter(|_| file.is_some()),
            _file: file,
            stamp,
            may_be_longer,
            // The digest of an encrypted file is read from the file, which may be empty by now.
            page_1_sha256: page_1.or_else(|| source.page_1_noted.clone()),
            page_1_at: source.encrypted_file_id().map_or(0, |_| HEADER_AREA_LEN),
            page_size: source.page_size(),
            was_empty: false,
            state: State::Awaited,
        }
    }

    /// Puts the log aside, if it is still under its path: SQLite would lay it over the new file.
    /// One of a file that was moved away or emptied stays, until something is under the path: it
    /// may come back, or be replaced by a copy of itself. This process has no connection to the
    /// database.
    pub(super) fn heed(&mut self, is_replaced: bool) -> Aside {
        let is_first = self.state != State::InUse;
        match self.state {
            State::Settled => return Aside::Nothing,
            // It may be another one by now.
            State::Back => self.state = State::Awaited,
            State::Awaited | State::InUse => {}
        }
        let there = match FileStamp::of(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Aside::Nothing,
            there => there.ok(),
        };
        if there.as_ref().is_some_and(|there| there.len() == 0) {
            self.was_empty = true;
            return Aside::Nothing;
        }
        if (is_replaced || self.was_empty) && is_first {
            match there.and_then(|there| self.is_same(&there)) {
                Some(true) => {
                    self.state = State::Back;
                    return Aside::Nothing;
                }
                Some(false) => {}
                None => return Aside::Nothing,
            }
        }
        let begun = Instant::now();
        loop {
            match put_aside(&self.path, self.log) {
                Ok(aside) if aside != Aside::InUse => {
                    self.state = State::Settled;
                    return aside;
                }
                _ => {}
            }
            // Whoever replaced the file may be about to remove the log.
            if !is_replaced || !is_first || begun.elapsed() >= REMOVED_BY {
                self.state = State::InUse;
                return Aside::InUse;
            }
            sleep(LOOK);
        }
    }

    /// Returns true if a file is the one that was there, or a copy of it; `None` while it may
    /// become that: it is being written, or its time is not set yet.
    fn is_same(&self, there: &FileStamp) -> Option<bool> {
        let page_1 = self.page_1_of_file();
        if page_1.is_some() && page_1 != self.page_1_sha256 {
            return Some(false);
        }
        let is_file = there.is_of_file(&self.stamp);
        let is_longer = is_file && self.may_be_longer && there.len() > self.stamp.len();
        let is_whole = page_1.is_some() && (is_longer || there.len() == self.stamp.len());
        match is_whole && (is_file || there.is_timed_as(&self.stamp)) {
            true => Some(true),
            false if there.age() < WRITTEN => None,
            false => Some(false),
        }
    }

    fn page_1_of_file(&self) -> Option<String> {
        let mut bytes = vec![0; usize::try_from(self.page_size).ok()?];
        let file = File::open(&self.path).ok()?;
        file.read_exact_at(&mut bytes, self.page_1_at).ok()?;
        Some(hex::encode(sha256(&[&bytes])))
    }

    /// Returns true if the file that came back is there still.
    pub(super) fn stays_back(&self) -> bool {
        let there = FileStamp::of(&self.path);
        self.is_back() && there.is_ok_and(|there| self.is_same(&there) == Some(true))
    }

    /// Returns true if the file that was moved away, or a copy of it, is there again.
    pub(super) fn is_back(&self) -> bool {
        self.state == State::Back
    }

    /// Returns true if a process has the new file open, and sees the log over it.
    pub(super) fn is_in_use(&self) -> bool {
        self.state == State::InUse
    }

    /// Returns true if others use a database under the path through another log. Then it is whole,
    /// however often they write to it. This process has no connection to it.
    pub(super) fn has_successor(&self) -> bool {
        let now = fs::metadata(with_suffix(&self.path, "-wal"));
        let is_other = now.is_ok_and(|now| Some((now.dev(), now.ino())) != self.log);
        is_other && has_log_users(&self.path).unwrap_or(false)
    }
}
