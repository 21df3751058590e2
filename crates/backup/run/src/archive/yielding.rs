//! Giving way to a program's checkpoint that waits for the readers of the log.
//!
//! `PRAGMA wal_checkpoint(RESTART)` and `TRUNCATE` copy the log, then wait for the locks of all
//! marks of readers, one of which the follower holds. Meanwhile they have the locks of writers and
//! of checkpoints: nothing is committed, so all that was is read into memory, and the lock is let
//! go until the log was started anew or the checkpoint was given up.
//!
//! Threads of one process share its locks: a writer and a checkpoint that is about to wait for it
//! look like a checkpoint that waits for readers. So the log's index has to stay as it is for some
//! time, and what is read behind the pause is judged as ever: by SQLite's count of commits
//! (`Pending::capture`). The salts of the log are no proof. A restart adds one to the first of
//! them, but a writer that has started no log anew itself makes both by chance, if it finds the log
//! empty.

use std::time::{Duration, Instant};

use tdekit_sqlite_convert::is_excluded_by_checkpoint;

use super::ground::Found;
use super::keeper::Index;
use super::pending::Captured;
use super::source::{MAX_WAITING_BYTES, Source};
use super::state::{CLOCK_STEP, FileStamp};
use crate::RunError;
use crate::output::lock;

/// Looks that have to agree before a checkpoint counts as waiting, and the pause between them.
const LOOKS: usize = 3;
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Interval of looks whether the log was started anew: it is kept again before the next checkpoint.
const POLL: Duration = Duration::from_micros(200);
/// Most time without the lock, where the checkpoint waits for other readers too. SQLite asks again
/// every 100 ms at least.
const LONGEST: Duration = Duration::from_secs(1);

/// The end of giving way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Yielded {
    /// No checkpoint waits, or not for this process.
    Nobody,
    /// The log was let go for a moment, and everything that was committed is here.
    Everything,
    /// Too much is to be shipped before.
    TooLong,
    /// The log was let go, and transactions may be missing.
    Gap,
    /// The main file is not that below the log.
    Not(Found),
}

impl Source {
    /// Lets a checkpoint that waits start the log anew, once all that was committed is in memory.
    ///
    /// # Errors
    /// `Log`, `NoIndex`, `Io`.
    pub(super) fn give_way(&mut self) -> Result<Yielded, RunError> {
        if !lock(&self.keeper).is_held() {
            return Ok(Yielded::Nobody);
        }
        let Some(index) = self.checkpoint_that_waits() else { return Ok(Yielded::Nobody) };
        if !self.pending.take_pages(&mut lock(&self.keeper))?
            || self.pending.held_bytes().is_none_or(|held| held >= MAX_WAITING_BYTES)
        {
            return Ok(Yielded::TooLong);
        }
        match self.capture(true)? {
            Captured::Everything => {}
            Captured::NotNow => return Ok(Yielded::Nobody),
            Captured::TooMany => return Ok(Yielded::TooLong),
            Captured::Gap => return Ok(Yielded::Gap),
        }
        match self.look_beside_checkpoint()? {
            Some(Found::Sound) => {}
            None | Some(Found::NotNow) => return Ok(Yielded::Nobody),
            Some(found) => return Ok(Yielded::Not(found)),
        }
        // Nothing was committed since the log was read.
        if self.waits_now() != Some(index) {
            return Ok(Yielded::Nobody);
        }
        lock(&self.keeper).let_go();
        let found = self.wait_without_lock(&index);
        let begun = Instant::now();
        while !lock(&self.keeper).hold()? && begun.elapsed() < LONGEST {
            std::thread::sleep(POLL);
        }
        if found != Found::Sound {
            return Ok(Yielded::Not(found));
        }
        Ok(match self.capture(true)? {
            Captured::Gap => Yielded::Gap,
            _ => Yielded::Everything,
        })
    }

    /// Returns what identifies the main file, if all that was read is in there and shipped, and the
    /// log was emptied since: copies of what is committed later change it.
    pub(super) fn stamp_of_empty_log(&mut self) -> Option<FileStamp> {
        let is_empty = |source: &Self| {
            let index = lock(&source.keeper).index()?;
            let nothing = (index.frames, index.attempted) == (0, 0);
            (nothing && index.commits == source.pending.position.commits).then_some(index)
        };
        let index = is_empty(self).filter(|_| self.pending.transactions.is_empty())?;
        let stamp = FileStamp::of(&self.path).ok()?;
        // Of the file that was looked at, and such that a later write has another time.
        let is_known = stamp.is_written_as(&self.ground.stamp()) && stamp.age() >= CLOCK_STEP;
        (is_known && is_empty(self) == Some(index)).then_some(stamp)
    }

    /// Lets the log go for a checkpoint that waits: what is in it is not needed.
    pub(super) fn give_up_to_checkpoint(&mut self) {
        if lock(&self.keeper).is_held() && self.checkpoint_that_waits().is_some() {
            self.let_go();
        }
    }

    /// Returns the index of the log while a checkpoint has copied all of it and waits for readers.
    pub(super) fn checkpoint_that_waits(&mut self) -> Option<Index> {
        let first = self.waits_now()?;
        for _ in 1..LOOKS {
            std::thread::sleep(LOOK_PAUSE);
            self.waits_now().filter(|index| *index == first)?;
        }
        Some(first)
    }

    fn waits_now(&mut self) -> Option<Index> {
        let index = lock(&self.keeper).index().filter(|index| index.copied == index.frames)?;
        // Systems without such locks show no checkpoint.
        is_excluded_by_checkpoint(&self.index).unwrap_or(false).then_some(index)
    }

    /// Looks thoroughly whether the main file is that below the log, beside a checkpoint that has
    /// copied everything and keeps others from it. `None` if none waits.
    pub(super) fn look_beside_checkpoint(&mut self) -> Result<Option<Found>, RunError> {
        let Some(index) = self.checkpoint_that_waits() else { return Ok(None) };
        let keeper = &mut lock(&self.keeper);
        let found = self.ground.look_while_copied(keeper, &self.pending.frames);
        // If it ended meanwhile, others may have copied.
        let excluded = is_excluded_by_checkpoint(&self.index).unwrap_or(false);
        match excluded && keeper.index() == Some(index) {
            true => found.map(Some),
            false => Ok(Some(Found::NotNow)),
        }
    }

    /// Waits until the checkpoint has started the log anew or was given up. Returns what was found
    /// of the main file meanwhile: nobody writes to it.
    fn wait_without_lock(&mut self, index: &Index) -> Found {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST {
            std::thread::sleep(POLL);
            // A failure is that of the next look.
            let found = self.glance().unwrap_or(Found::Sound);
            if !matches!(found, Found::Sound | Found::NotNow) {
                return found;
            }
            if self.waits_now().as_ref() != Some(index) {
                break;
            }
        }
        Found::Sound
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rusqlite::Connection;

    use super::super::keeper::Keeper;
    use super::super::source::Open;
    use super::*;
    use crate::database::source::{connect, open};

    /// A database in a new directory, a connection to it, and how it is followed.
    fn followed() -> (tempfile::TempDir, PathBuf, Connection, Source) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.db");
        let db = Connection::open(&path).unwrap();
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(n); INSERT INTO t VALUES (1)";
        db.execute_batch(sql).unwrap();
        let area = std::fs::read(&path).unwrap();
        let no_keys = || Err(RunError::Internal("a plain database needs no keys"));
        let again: Open<'_> = Box::new(|| open(path.clone(), &area, no_keys));
        let source = Source::open(&again, &mut |_| {}).unwrap();
        drop(again);
        (dir, path, db, source)
    }

    /// As a change of the key requires, while the archive cannot be reached.
    #[test]
    fn what_was_read_is_not_lost_with_the_log() {
        let (_dir, _path, db, mut source) = followed();
        db.execute_batch("INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)").unwrap();
        assert_eq!(source.capture(false).unwrap(), Captured::Everything);
        assert!(source.pending.held_bytes().is_none());
        source.let_go();
        assert!(source.pending.held_bytes().is_some());
        assert_eq!(source.capture(false).unwrap(), Captured::Everything);
        // More than fits into memory.
        source.hold().unwrap();
        db.execute_batch("INSERT INTO t VALUES (zeroblob(70 << 20))").unwrap();
        assert_eq!(source.capture(false).unwrap(), Captured::Everything);
        source.let_go();
        assert_eq!(source.capture(false).unwrap(), Captured::Gap);
    }

    /// Both exclude writers.
    #[test]
    fn a_snapshot_and_a_checkpoint_do_not_wait_for_each_other() {
        let (_dir, _path, db, mut source) = followed();
        let checkpoint = std::thread::spawn(move || {
            db.busy_timeout(Duration::from_secs(60)).unwrap();
            let busy = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], busy).unwrap()
        });
        while source.checkpoint_that_waits().is_none() {
            std::thread::sleep(LOOK_PAUSE);
        }
        let (_snapshot, _) = source.snapshot(0).unwrap();
        assert_eq!(checkpoint.join().unwrap(), 0);
        assert!(lock(&source.keeper).is_held());
    }

    /// A writer of this process, and what holds the lock of checkpoints beside it.
    #[test]
    fn the_lock_is_held_again_once_nobody_waits_or_something_is_committed() {
        let (_dir, path, db, mut source) = followed();
        let mut other = Keeper::new(connect(&path, false).unwrap(), &path).unwrap();
        // Not all is copied.
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(other.keep_from_copying());
        assert_eq!(source.give_way().unwrap(), Yielded::Nobody);
        other.admit_copying();
        db.execute_batch("INSERT INTO t VALUES (2); COMMIT").unwrap();
        other.checkpoint().unwrap();
        // A writer or a checkpoint alone.
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(source.give_way().unwrap(), Yielded::Nobody);
        assert!(other.keep_from_copying());
        let commit = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            db.execute_batch("INSERT INTO t VALUES (3); COMMIT").unwrap();
            db
        });
        let begun = Instant::now();
        assert_eq!(source.give_way().unwrap(), Yielded::Everything);
        assert!(begun.elapsed() > Duration::from_millis(200), "it did not let go");
        let db = commit.join().unwrap();
        assert!(lock(&source.keeper).is_held());
        // The log was started anew before that commit.
        assert_eq!(source.capture(true).unwrap(), Captured::Everything);
        assert_eq!(source.pending.transactions.len(), 2);
        assert!(source.pending.held_bytes().is_some());
        // Now frames are left to copy.
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(source.give_way().unwrap(), Yielded::Nobody);
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(source.give_way().unwrap(), Yielded::Nobody);
        other.admit_copying();
    }
}
