//! The log that is left of a database's file after another one took its place, or while it is
//! moved away.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tdekit_sqlite_convert::{has_log_users, with_suffix};

use super::ground::{Aside, put_aside};
use super::source::Source;
use super::state::FileStamp;

/// Time for which who replaces a database removes its log.
const REMOVED_BY: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// The log. It stays open, so that the system gives its number to no other file.
pub(super) struct Left {
    path: PathBuf,
    /// Device and inode; `None` if it was gone from its path already.
    log: Option<(u64, u64)>,
    _file: Option<File>,
    /// The database's file as it was.
    stamp: FileStamp,
    /// True if the log is to be put aside once another file is under the path.
    waits: bool,
    is_back: bool,
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
        Self {
            path,
            log: source.log().filter(|_| file.is_some()),
            _file: file,
            stamp: source.stamp_below(),
            waits: true,
            is_back: false,
        }
    }

    /// Puts the log aside, if it is still under its path: SQLite would lay it over the new file.
    /// One of a file that was moved away stays, until that or another one is under the path: it may
    /// come back. This process has no connection to the database.
    pub(super) fn heed(&mut self, is_replaced: bool) -> Aside {
        let there = FileStamp::of(&self.path);
        let is_away = there.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if !self.waits || is_away {
            return Aside::Nothing;
        }
        self.waits = false;
        self.is_back = is_replaced && there.is_ok_and(|now| now.is_written_as(&self.stamp));
        if self.is_back {
            return Aside::Nothing;
        }
        let begun = Instant::now();
        loop {
            match put_aside(&self.path, self.log) {
                Ok(aside) if aside != Aside::InUse => return aside,
                _ => {}
            }
            // Whoever replaced the file may be about to remove the log.
            if !is_replaced || begun.elapsed() >= REMOVED_BY {
                return Aside::InUse;
            }
            sleep(LOOK);
        }
    }

    /// Returns true if the file that was moved away is there again.
    pub(super) fn is_back(&self) -> bool {
        self.is_back
    }

    /// Returns true if others use a database under the path through another log. Then it is whole,
    /// however often they write to it. This process has no connection to it.
    pub(super) fn has_successor(&self) -> bool {
        let now = fs::metadata(with_suffix(&self.path, "-wal"));
        let is_other = now.is_ok_and(|now| Some((now.dev(), now.ino())) != self.log);
        is_other && has_log_users(&self.path).unwrap_or(false)
    }
}
