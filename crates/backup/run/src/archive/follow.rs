//! Following a database: what is committed is shipped to its archive.

mod exchange;
mod in_use;
mod looks;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tdekit_key_crypto::Kind;

use self::looks::Opened;
use super::chain::Point;
use super::gate::Gate;
use super::left::Left;
use super::looks::Looks;
use super::pending::Captured;
use super::pressure::{Pressed, Pressure};
use super::ship::Shipper;
use super::source::{Source, Turned};
use super::state::State;
use super::store::Place;
use super::watch::LOOK;
use super::yielding::Yielded;
use crate::error::ArchiveError;
use crate::error::archive::{FIRST, NO_RECORD};
use crate::labels::now_ms;
use crate::{Compression, Encryption, Labels, RunError, Sign, Storage};

/// Interval of looks where there is no log to look at.
const LOOK_WITHOUT_LOG: Duration = Duration::from_millis(50);
/// Interval while the log grows fast: it is seen to be long before writers copy it themselves.
const LOOK_OFTEN: Duration = Duration::from_millis(2);
/// Frames between two looks that are fast growth.
const FAST_FRAMES: u32 = TURN_FRAMES / 8;
/// Interval of looks at the header of the key.
const LOOK_AT_FILE: Duration = Duration::from_secs(1);
/// Frames in the log at which its transactions are shipped at once, and others may then start it
/// anew. Stock SQLite checkpoints at 1,000 frames: below that, no writer has that work.
const TURN_FRAMES: u32 = 800;
/// A log that stays longer than that for want of a moment without readers is tried again then.
const TURN_AGAIN: Duration = Duration::from_millis(100);
/// A long log is not shipped more often than that: it is started anew, and its transactions wait in
/// memory.
const LONG_EVERY: Duration = Duration::from_millis(250);
/// Time of shipping up to which a long log is started anew first, and shipped in one set. Of a
/// process that is killed meanwhile, a full set has to follow: an archive that takes longer gets
/// the log before that, and what came meanwhile in a second set.
const QUICK: Duration = Duration::from_millis(100);
/// Age of the last shipment at which transactions that wait in memory are shipped: the log that
/// they were in is gone.
const HELD_AT_MOST: Duration = Duration::from_secs(1);
/// Waits after failures: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Interval at which a full set that is due asks whether it may be made.
const FULL_WAIT: Duration = Duration::from_millis(100);
/// A chain whose log sets are larger than this, and than its full set, gets a successor.
const MIN_LOG_BYTES: u64 = 64 << 20;

/// The settings of a follower.
pub struct Settings<'a> {
    /// Interval at which transactions are shipped.
    pub every: Duration,
    /// Interval at which a database without a log is read, if it was written to.
    pub differential_every: Duration,
    /// Age at which a chain gets a successor, which begins with a full set.
    pub snapshot_every: Duration,
    /// Bytes of the log at which it is given up, where the archive cannot be reached or takes less
    /// than is committed: a new chain begins later.
    pub max_log_bytes: u64,
    /// Most bytes of pages that are shipped in a second, until the follower is to end.
    pub throttle_bytes_per_s: Option<u64>,
    /// Compression.
    pub compression: Compression,
    /// Encryption; `None` writes plaintext.
    pub encryption: Option<Encryption<'a>>,
    /// Signs the sets.
    pub signer: Option<&'a dyn Sign>,
    /// Lock and storage class of the objects.
    pub storage: Storage,
    /// Texts.
    pub labels: Labels,
    /// Why a new chain begins all the same, where the caller found out.
    pub due: Option<Why>,
    /// True to begin a chain behind objects that were not shipped from here.
    pub take_over: bool,
    /// Limits the full sets that are made at the same time.
    pub gate: &'a Gate,
    /// When set to true from elsewhere, ends the follower in order: what is committed is shipped, a
    /// full set that is being made is given up.
    pub stop: &'static AtomicBool,
}

/// Why a new chain begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The archive is empty.
    First,
    /// There is no record of what was shipped, or it is not that of the archive.
    NoRecord,
    /// The log was started anew, or the database changed, while nobody followed it.
    Absence,
    /// The log was started anew before it was shipped.
    Gap,
    /// Another file is under the path.
    Replaced,
    /// The file was moved away or emptied, and it, or a copy of it, is there again.
    Back,
    /// The database was plain before.
    Encrypted,
    /// The database was encrypted before.
    Decrypted,
    /// Something else than SQLite wrote to the database's file, or cut it.
    Overwritten,
    /// Something else than SQLite wrote to it, and left the same as far as that is compared.
    Touched,
    /// The log was removed or cut, or another one is under its path.
    LogGone,
    /// The chain is old.
    Age,
    /// The log sets of the chain are larger than its full set.
    Size,
    /// The log grew beyond its limit while the archive could not be reached.
    LogLimit,
    /// The log grew beyond its limit while the key of the database was changed.
    KeyChange,
    /// The log grew beyond its limit while less was shipped than was committed.
    TooSlow,
    /// The log does not hold what its index says.
    Unreadable,
    /// The database has a log now, or has none any more.
    Mode,
    /// The pages of the database have another size.
    PageSize,
    /// Another process was told to take the archive over, or its last object is gone.
    Archive,
}

impl Why {
    /// Returns true if the chain before could go on.
    fn is_optional(&self) -> bool {
        matches!(self, Self::Age | Self::Size)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => FIRST,
            Self::NoRecord => NO_RECORD,
            Self::Absence => "the database changed while nobody followed it",
            Self::Gap => "the log was started anew before all of it was read",
            Self::Replaced => "another file took the place of the database",
            Self::Back => "the file of the database was away for a while",
            Self::Encrypted => "the database was encrypted",
            Self::Decrypted => "the database was decrypted",
            Self::Overwritten => "the file of the database was overwritten in place",
            Self::Touched => "the file of the database was written to by other ways than its log",
            Self::LogGone => "the log of the database was removed or replaced",
            Self::Age => "the last full set is old",
            Self::Size => "the log sets are larger than the full set",
            Self::LogLimit => "the log became too long while the archive could not be reached",
            Self::KeyChange => "the log became too long while the key was changed",
            Self::TooSlow => "the log became too long: less was shipped than was committed",
            Self::Unreadable => "the log cannot be read",
            Self::Mode => "the journal mode of the database changed",
            Self::PageSize => "the page size of the database changed",
            Self::Archive => "the last object of the archive is not the one that was shipped",
        })
    }
}

/// An event, for the caller to report.
#[derive(Debug)]
pub enum Event {
    /// The database is in a rollback mode, which has no log: it is read at this interval.
    NoLog {
        /// Its journal mode.
        mode: String,
        /// The interval.
        every: Duration,
    },
    /// A new chain begins, with a full set.
    NewChain(Why),
    /// The full set is in the archive.
    Full {
        /// Number of its object.
        number: u64,
        /// Bytes of the object.
        bytes: u64,
        /// Pages of the database.
        pages: u64,
    },
    /// The process ends before a full set that is due: it is left to the next one, and the chain
    /// goes on.
    PutOff,
    /// A log set is in the archive.
    Log {
        /// The last transaction in it.
        end: Point,
        /// Bytes of the object.
        bytes: u64,
    },
    /// A try failed; the next one follows after this time.
    Failed(RunError, Duration),
    /// All that was committed is in the archive, for the first time or again after failures.
    UpToDate,
    /// The process follows the log from here on, and the chain goes on.
    Goes(u64),
    /// The database's file was replaced or overwritten while another process has it open, which
    /// sees both.
    StillOpen,
    /// The log of a file that was replaced or overwritten is under this name now. It may hold the
    /// only copy of what was committed last.
    PutAside(PathBuf),
}

/// Follows a database.
pub struct Follower<'a> {
    shipper: Shipper<'a>,
    source: Option<Source>,
    /// In place of that, a database without a log.
    looks: Option<Looks>,
    /// The log of the file that was under the path before, while the next one is not open.
    left: Option<Left>,
    /// True if the database could not be opened while programs use its log.
    in_use: bool,
    why: Option<Why>,
    looked: Instant,
    /// When a long log is tried again, and when everything was shipped last.
    turn_at: Instant,
    shipped: Instant,
    /// Time that shipping took last.
    took: Duration,
    /// True while another process changes the key of the database: that writes each page anew.
    key_change: bool,
    pressure: Pressure,
    /// Frames in the log at the last look, and the pause until the next one.
    frames: u32,
    pause: Duration,
}

impl<'a> Follower<'a> {
    /// Opens the archive and the database, which `open` opens, and finds where to go on.
    ///
    /// # Errors
    /// `Followed`, `Foreign`; those of the database and of the archive's place.
    pub fn begin(
        place: &Place,
        open: super::source::Open<'a>,
        settings: Settings<'a>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        let mut opened = Opened::of(&open, tell)?;
        let due = settings.due.clone();
        let (mut shipper, why) = Shipper::begin(place, opened.path(), open, settings)?;
        let why = match (why.or(due), &mut opened) {
            (Some(why), _) => Some(why),
            (None, Opened::Log(source)) => shipper.resume(source)?,
            (None, Opened::NoLog(looks)) => shipper.resume_looks(looks)?,
        };
        let (source, looks) = opened.parts();
        let now = Instant::now();
        Ok(Self {
            shipper,
            source,
            looks,
            left: None,
            in_use: false,
            why,
            looked: now,
            turn_at: now,
            shipped: now,
            took: Duration::MAX,
            key_change: false,
            pressure: Pressure::default(),
            frames: 0,
            pause: LOOK,
        })
    }

    /// Ships until it is to end; with `once`, what is there now.
    ///
    /// # Errors
    /// Failures that waiting does not end: `Overtaken`, errors of keys; `OtherForm`, upon which the
    /// caller begins again with the keys of the new form; with `once`, and once it is to end, any
    /// failure; `Cancelled` for a full set that no chain can do without.
    pub fn run(&mut self, once: bool, tell: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        if let (None, Some(number)) = (&self.why, self.shipper.number()) {
            tell(Event::Goes(number));
        }
        let (mut failures, mut next, mut works) = (0_u32, Instant::now(), false);
        loop {
            let stops = self.stops();
            if stops {
                self.put_off(tell);
            }
            let ends = once || stops;
            let long = self.look(failures > 0, tell);
            let comes_back = failures == 0 && self.has_come_back();
            let opens = comes_back || self.have_programs_ended();
            let due = ends || opens || Instant::now() >= next;
            let long = long && failures == 0;
            if due || long {
                self.watch(true);
                let done = self.turn_and_ship(long, (due, ends), tell);
                self.watch(false);
                match done {
                    Ok(()) => {
                        if due {
                            // A full set that is due waits for those of others.
                            let waits = self.is_open() && self.waits();
                            if !waits && !std::mem::replace(&mut works, true) {
                                tell(Event::UpToDate);
                            }
                            failures = 0;
                            let every = self.shipper.settings.every;
                            next =
                                Instant::now() + if waits { every.min(FULL_WAIT) } else { every };
                        }
                    }
                    Err(error) if is_other_form(&error) => return Err(error),
                    // The next round ships by the chain that can go on.
                    Err(_) if self.stops() && self.is_optional() => continue,
                    // It is that of a file which is not the database any more.
                    Err(_) if self.is_given_up(tell) => next = Instant::now(),
                    // A file that is being written anew is opened again later, unless other keys
                    // are needed.
                    Err(error)
                        if ends
                            || self.stops()
                            || error.kind() == Kind::Key
                            || (self.is_open() && !may_pass(&error)) =>
                    {
                        self.shipper.failed(&error);
                        return Err(error);
                    }
                    Err(error) => {
                        let wait = wait_after(failures);
                        works = false;
                        self.shipper.failed(&error);
                        self.note_programs();
                        failures = failures.saturating_add(1);
                        next = Instant::now() + wait;
                        tell(Event::Failed(error, wait));
                    }
                }
            }
            if ends && !self.waits() {
                return self.end();
            }
            if ends && self.stops() {
                return Err(RunError::Cancelled);
            }
            sleep(self.pause);
        }
    }

    /// Has the log looked at by another thread, or not.
    fn watch(&self, looks: bool) {
        if let Some(source) = &self.source {
            source.watch.looks(looks);
        }
    }

    /// Returns true if the follower is to end.
    fn stops(&self) -> bool {
        self.shipper.settings.stop.load(Ordering::Relaxed)
    }

    /// Returns true if a full set is due, and the chain could go on without it.
    fn is_optional(&self) -> bool {
        self.why.as_ref().is_some_and(Why::is_optional)
    }

    /// Goes on with the chain that there is, if it can do without the full set that is due.
    fn put_off(&mut self, tell: &mut dyn FnMut(Event)) {
        if self.is_optional() {
            self.why = None;
            tell(Event::PutOff);
        }
    }

    fn is_open(&self) -> bool {
        self.source.is_some() || self.looks.is_some()
    }

    /// Returns true if a full set is due, and was not begun yet.
    fn waits(&self) -> bool {
        self.why.is_some()
    }

    /// Returns true if the new chain begins behind the change of the key: until then the log would
    /// become too long again.
    fn waits_for_key(&self) -> bool {
        self.key_change && self.why == Some(Why::KeyChange)
    }

    /// Notes the time of commits, and whether the file is still that below the log. Returns true if
    /// the log is long. While shipping fails, and while the key is changed, it is given up at its
    /// limit.
    fn look(&mut self, fails: bool, tell: &mut dyn FnMut(Event)) -> bool {
        if self.is_given_up(tell) {
            return false;
        }
        self.look_at_key();
        let Some(source) = &mut self.source else {
            self.heed_left(tell);
            self.pause = if self.looks.is_some() { LOOK_WITHOUT_LOG } else { LOOK };
            return false;
        };
        let frames = source.note();
        let grown = frames.saturating_sub(std::mem::replace(&mut self.frames, frames));
        self.pause = if grown > FAST_FRAMES { LOOK_OFTEN } else { LOOK };
        let (max, page) = (self.shipper.settings.max_log_bytes, source.page_size());
        let held = self.why.as_ref().is_none_or(Why::is_optional);
        let is_too_long = u64::from(frames) * u64::from(page) > max && held;
        if is_too_long && (fails || self.key_change) {
            self.why = Some(if fails { Why::LogLimit } else { Why::KeyChange });
            source.let_go();
        }
        let is_long = frames >= TURN_FRAMES && Instant::now() >= self.turn_at;
        let waits = self.gives_way(tell) || self.is_held_long();
        (is_long || waits) && self.why.is_none()
    }

    /// Lets a program's checkpoint that waits start the log anew. Returns true if something has to
    /// be shipped before.
    fn gives_way(&mut self, tell: &mut dyn FnMut(Event)) -> bool {
        let Some(source) = &mut self.source else { return false };
        if self.why.is_some() {
            source.give_up_to_checkpoint();
            return false;
        }
        // A failure is that of the next step.
        match source.give_way().unwrap_or(Yielded::Nobody) {
            Yielded::Nobody | Yielded::Everything => {}
            Yielded::TooLong => return true,
            Yielded::Gap => self.why = Some(Why::Gap),
            Yielded::Not(found) => drop(self.gives_up(found, tell)),
        }
        false
    }

    /// Returns true if transactions wait in memory for longer than a process should rely on it.
    fn is_held_long(&self) -> bool {
        let waits = |source: &Source| !source.pending.transactions.is_empty();
        self.source.as_ref().is_some_and(waits) && self.shipped.elapsed() >= HELD_AT_MOST
    }

    /// Starts a long log anew, while its transactions wait in memory, and ships what was committed
    /// if that is due, too long ago, or necessary.
    fn turn_and_ship(
        &mut self,
        long: bool,
        (due, ends): (bool, bool),
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        let ships = due || self.shipped.elapsed() >= LONG_EVERY;
        let is_quick = self.took <= QUICK && self.frames >= TURN_FRAMES && !self.stops();
        let turns = long && (!ships || is_quick);
        match if turns { self.turn_held()? } else { Turned::NotNow } {
            Turned::TooLong => self.step(ends, tell),
            _ if ships => self.step(ends, tell),
            _ => Ok(()),
        }
    }

    /// Starts the log anew, while its transactions wait in memory.
    fn turn_held(&mut self) -> Result<Turned, RunError> {
        let Some(source) = &mut self.source else { return Ok(Turned::NotNow) };
        let turned = source.turn_held()?;
        self.heed(turned);
        Ok(turned)
    }

    fn heed(&mut self, turned: Turned) {
        match turned {
            // The next step ships what came meanwhile.
            Turned::Anew | Turned::TooLong => {}
            Turned::NotNow => self.turn_at = Instant::now() + TURN_AGAIN,
            Turned::Gap => self.why = Some(Why::Gap),
        }
    }

    /// Reads and ships everything that was committed.
    fn step(&mut self, ends: bool, tell: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        if !self.open_again(tell)? {
            return Ok(());
        }
        self.shipper.keep_record()?;
        if self.looks.is_some() {
            return self.step_without_log(ends, tell);
        }
        let stops = self.stops();
        let Some(source) = &mut self.source else {
            return Err(RunError::Internal("a source that was opened"));
        };
        let mut captured_ms = 0;
        if self.why.is_none() {
            source.hold()?;
            captured_ms = now_ms();
            match source.capture_for(ends) {
                // Nothing was read.
                Ok(Captured::NotNow | Captured::TooMany) => captured_ms = 0,
                Ok(Captured::Gap) => self.why = Some(Why::Gap),
                Ok(_) => {}
                Err(RunError::Archive(ArchiveError::Log { .. })) => {
                    self.why = Some(Why::Unreadable);
                }
                Err(error) => return Err(error),
            }
        }
        // Behind the reading, and before anything of it is shipped.
        let found = source.look()?;
        if self.gives_up(found, tell) {
            return Ok(());
        }
        let Some(source) = &mut self.source else { return Ok(()) };
        if self.why.is_none() && !self.shipper.is_last_there()? {
            self.why = Some(Why::Archive);
        }
        if self.why.is_none() {
            let (begun, ships) = (Instant::now(), !source.pending.transactions.is_empty());
            match self.pressure.ship(&mut self.shipper, source, tell)? {
                Pressed::Shipped if ships => self.took = begun.elapsed(),
                Pressed::Shipped => {}
                Pressed::Not(found) => {
                    self.gives_up(found, tell);
                    return Ok(());
                }
                Pressed::Over(why) => self.why = Some(why),
            }
        }
        let Some(source) = &mut self.source else { return Ok(()) };
        if self.why.is_none() {
            self.shipped = Instant::now();
            self.shipper.is_current(captured_ms);
            self.shipper.note_empty_log(source);
            // A full set, which reads the log, would hold up the end of a change of the key.
            self.why = self.shipper.due().filter(|_| !stops && !self.key_change);
        }
        if self.waits_for_key() {
            return Ok(());
        }
        let Some(source) = &mut self.source else { return Ok(()) };
        if self.why.is_some() {
            return self.begin_chain(tell);
        }
        // A log that stays as it is needs no time, and no page of it waits in memory.
        if stops || source.note() < TURN_FRAMES || Instant::now() < self.turn_at {
            return Ok(());
        }
        let turned = source.turn()?;
        if turned == Turned::Anew {
            return self.shipper.ship(source, tell);
        }
        self.heed(turned);
        Ok(())
    }

    /// Begins the chain that is due, if no other full sets are in the way.
    fn begin_chain(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        let (Some(source), Some(why)) = (&mut self.source, &self.why) else { return Ok(()) };
        let gate = self.shipper.settings.gate;
        let Some(_permit) = gate.enter() else { return Ok(()) };
        tell(Event::NewChain(why.clone()));
        let before = why.is_optional().then(|| source.pending.clone());
        let begun = self.shipper.begin_chain(source, why, tell);
        match (&begun, before) {
            // Its chain can go on: the log holds everything behind it.
            (Err(_), Some(before)) => source.pending = before,
            // The next try begins anew, and needs nothing of the log. If the log is that of another
            // file, nothing of it may be copied.
            (Err(error), None) => {
                source.leaves_log |= error.kind() == Kind::Damaged;
                source.let_go();
            }
            (Ok(()), _) => {}
        }
        begun?;
        self.why = None;
        Ok(())
    }

    /// Notes whether the key of the database is being changed.
    fn look_at_key(&mut self) {
        if self.looked.elapsed() >= LOOK_AT_FILE {
            self.looked = Instant::now();
            self.key_change = self.source.as_ref().is_some_and(Source::is_key_changing);
        }
    }

    /// Records that everything is shipped, if nobody else writes just now.
    fn end(&mut self) -> Result<(), RunError> {
        match &mut self.source {
            Some(source) if self.why.is_none() => self.shipper.end(source),
            _ => Ok(()),
        }
    }

    /// Returns why a new chain is due, if so.
    #[must_use]
    pub fn why(&self) -> Option<&Why> {
        self.why.as_ref()
    }

    /// Returns what is recorded beside the database.
    #[must_use]
    pub fn state(&self) -> &State {
        self.shipper.state()
    }
}

fn is_other_form(error: &RunError) -> bool {
    matches!(error, RunError::Archive(ArchiveError::OtherForm { .. }))
}

/// Returns true for a failure that may pass by itself: of the place, of the network, of locks.
fn may_pass(error: &RunError) -> bool {
    match error {
        RunError::Archive(ArchiveError::NotShipped { .. }) => true,
        RunError::Archive(_) | RunError::Cancelled => false,
        RunError::Store(error) => matches!(error.kind(), Kind::Busy | Kind::Io),
        error => matches!(error.kind(), Kind::Busy | Kind::Io | Kind::Refused),
    }
}

/// Returns the wait after this many failures before: twice as long each time, and between half and
/// all of that, so that many followers do not come back at once.
#[must_use]
pub fn wait_after(failures: u32) -> Duration {
    let whole = FIRST_WAIT.saturating_mul(1 << failures.min(10)).min(LONGEST_WAIT);
    // The clock's last digits differ from process to process.
    let random = u32::try_from(now_ms().rem_euclid(1000)).unwrap_or(0);
    whole / 2 + whole / 2 / 1000 * random
}

/// Returns true if a chain is due to get a successor by the sizes of its sets.
pub(super) fn is_large(full_bytes: u64, log_bytes: u64) -> bool {
    log_bytes > full_bytes.max(MIN_LOG_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        for failures in 0..40 {
            let wait = wait_after(failures);
            assert!(wait <= LONGEST_WAIT && wait >= FIRST_WAIT / 2, "{failures} {wait:?}");
        }
        assert!(wait_after(20) >= LONGEST_WAIT / 2);
    }
}
