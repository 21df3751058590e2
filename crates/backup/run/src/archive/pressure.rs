//! Back-pressure: while the log is long, writers wait for moments in which it is read, shipped as
//! far as it does not fit into memory, and started anew.
//!
//! Writers that never pause commit faster than sets are shipped, and then each set finds more in
//! the log than fits into memory: it would never be started anew. Where the archive takes too
//! little for that in the time that writers may wait, they go on, and wait again later. A log that
//! grows beyond its limit all the same is given up.
//!
//! The log is looked at between sets, and it grows while one is shipped. So sets are short in time,
//! also those of a log that is not long when they begin: much of it may wait in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tdekit_key_crypto::Kind;

use super::follow::{Event, Why};
use super::ground::Found;
use super::pace::{LONGEST_SET, Pace};
use super::pending::Captured;
use super::ship::{MAX_PAGES, Shipper};
use super::source::{MAX_WAITING_BYTES, Source, Turned};
use crate::RunError;
use crate::error::ArchiveError;
use crate::output::lock;

/// Bytes of the log from which writers wait, and the part of its limit if that is smaller.
const LONG_LOG_BYTES: u64 = 256_000_000;
const PART_OF_LIMIT: u64 = 4;
/// Longest time for which writers wait. Many programs wait for five seconds.
const LONGEST_PAUSE: Duration = LONGEST_SET;
/// Time until writers wait again, where a pause did not end with a new log.
const PAUSE_AGAIN: Duration = Duration::from_secs(4);
/// Time for which the follower waits for its turn among writers.
const WRITER_WAIT: Duration = Duration::from_secs(1);
/// Pages that are shipped beyond what has to be: no set of a few pages follows.
const SPARE_PAGES: u64 = MAX_PAGES / 16;
/// Tries to copy the rest of the log.
const COPY_TRIES: usize = 5;

/// The pauses of writers so far.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    again_at: Option<Instant>,
    /// The chain, and the bytes of the log that were not shipped, when a pause began in which too
    /// little was shipped.
    behind: Option<(u64, u64)>,
    pace: Pace,
}

/// The end of shipping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// All that had been read, and what was read in a pause, is shipped. What was committed
    /// meanwhile may have been read, and waits in the log.
    Shipped,
    /// The main file is not that below the log: nothing that was read in the pause is shipped.
    Not(Found),
    /// The chain cannot go on.
    Over(Why),
}

/// The end of a pause.
#[derive(Debug, PartialEq, Eq)]
enum Paused {
    /// All of the log is read and copied, and what is not shipped is in memory.
    Ready,
    /// Writers go on: too little was shipped.
    TooSlow,
    /// Readers, or other writers, are in the way.
    NotNow,
    Not(Found),
    Over(Why),
}

impl Pressure {
    /// Ships all transactions that wait, with pauses of writers while the log is long.
    pub(super) fn ship(
        &mut self,
        shipper: &mut Shipper<'_>,
        source: &mut Source,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Pressed, RunError> {
        loop {
            let waited = pages_of(source);
            if let Some(over) = self.ship_read(shipper, source, tell)? {
                return Ok(over);
            }
            if stops(shipper) || unread_pages(source) <= self.short_set(shipper, source) {
                break;
            }
            // `Source::turn` would take it into memory, to be shipped at once.
            match source.capture(false) {
                Ok(Captured::Everything) => {}
                Ok(Captured::NotNow | Captured::TooMany) => break,
                Ok(Captured::Gap) => return Ok(Pressed::Over(Why::Gap)),
                Err(RunError::Archive(ArchiveError::Log { .. })) => {
                    return Ok(Pressed::Over(Why::Unreadable));
                }
                Err(error) => return Err(error),
            }
            match source.look()? {
                Found::Sound => {}
                found => return Ok(Pressed::Not(found)),
            }
            // Much is left: the caller looks at all else before it is shipped.
            if pages_of(source) > waited / 2 {
                break;
            }
        }
        if !is_long(source, shipper.settings.max_log_bytes) {
            self.behind = None;
        }
        Ok(Pressed::Shipped)
    }

    /// Ships what was read. Returns the end if that is another one than that all is shipped.
    fn ship_read(
        &mut self,
        shipper: &mut Shipper<'_>,
        source: &mut Source,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<Pressed>, RunError> {
        let max = shipper.settings.max_log_bytes;
        let (mut may_pause, mut is_too_slow) = (true, false);
        while !source.pending.transactions.is_empty() {
            // One that ends lifts the limit, and lets nobody wait.
            if stops(shipper) {
                shipper.ship_set(source, MAX_PAGES, tell)?;
                continue;
            }
            if self.gives_up(unshipped(shipper, source), max) {
                *self = Self { pace: self.pace, ..Self::default() };
                source.let_go();
                return Ok(Some(Pressed::Over(Why::TooSlow)));
            }
            if may_pause && is_long(source, max) && self.is_due(source) {
                may_pause = false;
                match self.pause(shipper, source, tell)? {
                    Paused::Not(found) => return Ok(Some(Pressed::Not(found))),
                    Paused::Over(why) => return Ok(Some(Pressed::Over(why))),
                    Paused::TooSlow => is_too_slow = true,
                    Paused::Ready | Paused::NotNow => {}
                }
                continue;
            }
            let most = self.short_set(shipper, source);
            self.ship_set(shipper, source, (most, tell))?;
            may_pause = !is_too_slow;
        }
        Ok(None)
    }

    /// Ships a set of up to `most` pages, and notes the time that it took.
    fn ship_set(
        &mut self,
        shipper: &mut Shipper<'_>,
        source: &mut Source,
        (most, tell): (u64, &mut dyn FnMut(Event)),
    ) -> Result<(), RunError> {
        let (begun, before) = (Instant::now(), pages_of(source));
        shipper.ship_set(source, most, tell)?;
        self.pace.shipped(before.saturating_sub(pages_of(source)), begun.elapsed());
        Ok(())
    }

    /// Returns the most pages of a set.
    fn short_set(&self, shipper: &Shipper<'_>, source: &Source) -> u64 {
        let throttle = shipper.settings.throttle_bytes_per_s;
        self.pace.most(source.page_size(), throttle).min(fitting_pages(source))
    }

    /// Returns true if writers are to wait.
    fn is_due(&self, source: &Source) -> bool {
        self.again_at.is_none_or(|at| Instant::now() >= at) && lock(&source.keeper).is_held()
    }

    /// Has writers wait, and starts the log anew.
    fn pause(
        &mut self,
        shipper: &mut Shipper<'_>,
        source: &mut Source,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Paused, RunError> {
        let behind = unshipped(shipper, source);
        // Most is copied while writers go on.
        match source.look()? {
            Found::Sound => lock(&source.keeper).checkpoint()?,
            Found::NotNow => {}
            found => return Ok(Paused::Not(found)),
        }
        let alone = |source: &mut Source| self.ship_alone(shipper, source, tell);
        let paused = match source.keep_out(LONGEST_PAUSE, alone) {
            Err(error) if error.kind() == Kind::Busy => Paused::NotNow,
            Err(RunError::Archive(ArchiveError::Log { .. })) => Paused::Over(Why::Unreadable),
            Ok(Paused::Ready) => match source.turn_copied()? {
                Turned::Anew => Paused::Ready,
                Turned::NotNow | Turned::TooLong => Paused::NotNow,
                Turned::Gap => Paused::Over(Why::Gap),
            },
            paused => paused?,
        };
        match paused {
            Paused::Ready => *self = Self { pace: self.pace, ..Self::default() },
            Paused::TooSlow => self.behind = Some(behind),
            Paused::NotNow | Paused::Not(_) | Paused::Over(_) => {}
        }
        if paused != Paused::Ready {
            self.again_at = Some(Instant::now() + PAUSE_AGAIN);
        }
        Ok(paused)
    }

    /// Reads the log to its end, and ships what does not fit into memory, while writers wait.
    fn ship_alone(
        &mut self,
        shipper: &mut Shipper<'_>,
        source: &mut Source,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Paused, RunError> {
        match source.capture(false)? {
            Captured::Everything => {}
            Captured::NotNow | Captured::TooMany => return Ok(Paused::NotNow),
            Captured::Gap => return Ok(Paused::Over(Why::Gap)),
        }
        match source.look()? {
            Found::Sound => {}
            found => return Ok(Paused::Not(found)),
        }
        let fitting = fitting_pages(source);
        let short = self.short_set(shipper, source);
        loop {
            let beyond = pages_of(source).saturating_sub(fitting);
            if beyond == 0 {
                break;
            }
            if source.admits_writers() {
                return Ok(Paused::TooSlow);
            }
            self.ship_set(shipper, source, ((beyond + SPARE_PAGES).min(short), tell))?;
        }
        if !source.pending.take_pages(&mut lock(&source.keeper))? {
            return Ok(Paused::NotNow);
        }
        for _ in 0..COPY_TRIES {
            if source.copy_rest()? {
                return Ok(Paused::Ready);
            }
        }
        Ok(Paused::NotNow)
    }

    /// Returns true if more waits than the limit allows, and no less than at the last pause.
    fn gives_up(&self, (chain, bytes): (u64, u64), max_log_bytes: u64) -> bool {
        let grows = |before: (u64, u64)| before.0 == chain && bytes >= before.1;
        bytes > max_log_bytes && self.behind.is_some_and(grows)
    }
}

/// Returns the number of pages that fit into memory.
fn fitting_pages(source: &Source) -> u64 {
    MAX_WAITING_BYTES / u64::from(source.page_size().max(1))
}

/// Returns true if the follower is to end.
fn stops(shipper: &Shipper<'_>) -> bool {
    shipper.settings.stop.load(Ordering::Relaxed)
}

/// Returns the number of pages that were read and not shipped.
fn pages_of(source: &Source) -> u64 {
    source.pending.transactions.iter().map(|each| each.pages.len() as u64).sum()
}

/// Returns the number of frames that were committed since the log was read.
fn unread_pages(source: &Source) -> u64 {
    let position = source.pending.position;
    let index = lock(&source.keeper).index();
    index.map_or(0, |index| {
        let read = if index.salts == position.salts { position.frames } else { 0 };
        index.frames.saturating_sub(read).into()
    })
}

/// Returns true if the log is so long that writers are to wait.
fn is_long(source: &mut Source, max_log_bytes: u64) -> bool {
    let bytes = u64::from(source.note()) * u64::from(source.page_size());
    bytes >= LONG_LOG_BYTES.min(max_log_bytes / PART_OF_LIMIT)
}

/// Returns the chain, and the bytes of the log behind the first transaction that is not shipped.
fn unshipped(shipper: &Shipper<'_>, source: &mut Source) -> (u64, u64) {
    let chain = shipper.state().shipped.as_ref().map_or(0, |shipped| shipped.first);
    let Some(index) = lock(&source.keeper).index() else { return (chain, 0) };
    let first = source.pending.transactions.front().map(|first| first.end);
    let shipped = first.filter(|end| end.salts == index.salts).map_or(0, |end| end.frames);
    let frames = index.frames.saturating_sub(shipped);
    (chain, u64::from(frames) * u64::from(source.page_size()))
}

impl Source {
    /// Does `work` while writers wait, which they do for no longer than `longest`, however long it
    /// takes.
    ///
    /// # Errors
    /// `Locked`, `Thread`, those of `work`.
    fn keep_out<T>(
        &mut self,
        longest: Duration,
        work: impl FnOnce(&mut Self) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let writer = Arc::clone(&self.writer);
        self.exclude_writers(WRITER_WAIT)?;
        let worked = std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let admit = move || {
                if ended.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
                    // The end of the pause shows a failure.
                    let _ = lock(&writer).execute_batch("ROLLBACK");
                }
            };
            let begun = Builder::new().name("tdekit-pause".to_owned()).spawn_scoped(scope, admit);
            begun.map_err(|source| RunError::Thread { source })?;
            let worked = work(self);
            drop(done);
            worked
        });
        self.admit_writers()?;
        worked
    }

    /// Returns true if no pause of writers lasts.
    fn admits_writers(&self) -> bool {
        lock(&self.writer).is_autocommit()
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::super::source::Open;
    use super::*;
    use crate::database::source::open;

    #[test]
    fn a_log_is_given_up_beyond_its_limit_if_it_grows_from_pause_to_pause() {
        let pressure = |behind| Pressure { behind, ..Pressure::default() };
        assert!(!pressure(None).gives_up((1, 500), 100), "no pause was too short");
        let one = pressure(Some((1, 300)));
        assert!(one.gives_up((1, 300), 100) && one.gives_up((1, 301), 100));
        assert!(!one.gives_up((1, 299), 100), "it becomes shorter");
        assert!(!one.gives_up((1, 300), 300), "it is not beyond its limit");
        assert!(!one.gives_up((7, 300), 100), "it is that of a full set");
    }

    /// Writers go on before a store that does not answer does.
    #[test]
    fn a_pause_ends_by_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(n)").unwrap();
        let area = std::fs::read(&path).unwrap();
        let no_keys = || Err(RunError::Internal("a plain database needs no keys"));
        let again: Open<'_> = Box::new(|| open(path.clone(), &area, no_keys));
        let mut source = Source::open(&again, &mut |_| {}).unwrap();
        db.busy_timeout(Duration::ZERO).unwrap();
        let add = "INSERT INTO t VALUES (1)";
        let longest = Duration::from_millis(300);
        let (seen, mut began) = (std::cell::Cell::new(false), Instant::now());
        let worked = source.keep_out(longest, |source| {
            assert!(!source.admits_writers() && db.execute_batch(add).is_err());
            db.busy_timeout(Duration::from_secs(20)).unwrap();
            began = Instant::now();
            db.execute_batch(add).unwrap();
            seen.set(source.admits_writers());
            Ok(7)
        });
        assert_eq!((worked.unwrap(), seen.get()), (7, true));
        assert!(began.elapsed() > longest / 2);
        // One that ends before has them go on at once.
        source.keep_out(Duration::from_secs(600), |_| Ok(())).unwrap();
        db.execute_batch(add).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let kept = source.keep_out(longest, |_| Ok(()));
        assert!(matches!(kept, Err(RunError::Locked { .. })), "{kept:?}");
    }
}
