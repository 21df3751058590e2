//! A standby: a database that is kept as an archive is, and that others read meanwhile.
//!
//! Pages are written through SQLite's own virtual table `sqlite_dbpage`, in transactions of the
//! standby's log: one for each object, or one for a whole chain, of which only pages that differ
//! are written. So readers see the database as it was behind some transaction, and a process that
//! is killed leaves the last of these states. Between two of them the writer's lock is held, so
//! that nobody else writes; a write all the same shows in SQLite's count of changes.
//!
//! The record beside the database is trusted only after a clean end, and if the file is the one
//! that was left then. Otherwise the standby is compared with the archive and made equal.

mod away;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tdekit_key_crypto::Kind;
use tdekit_sqlite_convert::{DatabaseError, with_suffix};

use super::chain::{At, Point};
use super::check::{Links, log_ends};
use super::follow::wait_after;
use super::pages::Pages;
use super::read::Archive;
use super::source::Open;
use super::state::{FileStamp, STANDBY, Shipped, StateFile};
use super::store::{Place, Store};
use crate::error::ArchiveError;
use crate::labels::now_ms;
use crate::place::is_missing;
use crate::{Chain, Media, Run, RunError, SetKind, Storage, UnwrapSecret};

/// Interval of looks whether the process is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Interval of lists of the archive: a new chain may follow behind a gap.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// Time that a writer of the standby is waited for.
const WRITER_WAIT: Duration = Duration::from_secs(10);
/// Checks sets before they are taken, by their signatures.
pub type Accept<'a> = &'a dyn Fn(&mut Chain<'_>, &Run<'_>) -> Result<(), RunError>;

/// Options and keys of a standby.
pub struct StandbyWith<'a> {
    /// The archive.
    pub place: Place,
    /// Opens the standby.
    pub open: Open<'a>,
    /// The keys of the archive.
    pub keys: Option<&'a dyn UnwrapSecret>,
    /// Checks sets.
    pub accept: Accept<'a>,
    /// Interval at which the archive is asked for more.
    pub every: Duration,
    /// Threads, throttle and cancellation.
    pub run: &'a Run<'a>,
}

/// Why a standby is compared with the whole chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// The process begins, and nothing shows that the standby is as the last one left it: that one
    /// was killed, or could not empty the log at its end, because others read.
    Begin,
    /// The process begins, and the archive does not have the object that the last one ended with.
    OtherObject,
    /// The archive has a new chain.
    NewChain,
    /// Another program wrote to it.
    Written,
    /// A page of it is not the one that a page of the archive stands on.
    Differs,
}

impl std::fmt::Display for Resync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Begin => "nothing shows that it is as the last process left it",
            Self::OtherObject => "the archive has not the object up to which it was kept",
            Self::NewChain => "a new chain begins",
            Self::Written => "another program wrote to it",
            Self::Differs => "a page of it is not that of the archive",
        })
    }
}

/// An event of a standby, for the caller to report.
#[derive(Debug)]
pub enum StandbyEvent {
    /// It was compared with the archive, and made equal.
    Synced {
        /// Why.
        why: Resync,
        /// The last transaction in it.
        point: Point,
        /// Pages that differed.
        pages: u64,
    },
    /// It goes on from this object.
    Goes(u64),
    /// Transactions were applied, up to this one.
    Applied(Point),
    /// A try failed; the next one follows after this time.
    Failed(RunError, Duration),
}

/// The record of a standby, locked: nobody else keeps it up.
pub struct StandbyRecord {
    file: StateFile,
    /// True if it was there before.
    pub existed: bool,
}

impl StandbyRecord {
    /// Opens the record of the standby at `path` of an archive.
    ///
    /// # Errors
    /// `KeptUp` if another process has it, `OtherArchive`, `NotARecord`, `Io`.
    pub fn open(path: &Path, place: &Place) -> Result<Self, RunError> {
        let existed = with_suffix(path, STANDBY).exists();
        let mut file = StateFile::open_beside(path, STANDBY)?;
        let archive = place.recorded();
        let known = file.state.archive.clone();
        if !known.is_empty() && known != archive {
            let path = path.to_owned();
            return Err(ArchiveError::OtherArchive { path, archive: known }.into());
        }
        if known.is_empty() {
            file.state.archive = archive;
            file.write()?;
        }
        Ok(Self { file, existed })
    }

    /// Notes that the standby was restored up to this object.
    ///
    /// # Errors
    /// Those of the archive, `Io`.
    pub fn made(&mut self, path: &Path, place: &Place, number: u64) -> Result<(), RunError> {
        let set_id = Archive::open(place)?.media(number)?.only_info()?.set_id;
        let set_id = hex::encode(set_id);
        self.file.state.shipped = Some(Shipped { number, set_id, ..Shipped::default() });
        self.file.state.clean = Some(FileStamp::of(path).map_err(RunError::io("read", path))?);
        self.file.write()
    }

    /// Removes it again: nothing was made.
    pub fn remove(self) {
        self.file.remove();
    }
}

/// A standby that is kept up.
pub struct Standby<'a> {
    with: StandbyWith<'a>,
    path: PathBuf,
    store: Store,
    file: StateFile,
    /// The last object that is in it.
    number: u64,
    links: Links,
    /// Why it is compared with the whole chain, if it is due.
    due: Option<Resync>,
    database: Option<Connection>,
    /// The file that is open.
    opened: Option<FileStamp>,
    /// SQLite's count of changes by others.
    version: i64,
    listed: Option<Instant>,
}

impl<'a> Standby<'a> {
    /// Goes on with the standby at `path`.
    ///
    /// # Errors
    /// Those of the archive's place.
    pub fn begin(
        path: &Path,
        record: StandbyRecord,
        with: StandbyWith<'a>,
    ) -> Result<Self, RunError> {
        let StandbyRecord { file, .. } = record;
        let store = Store::open(&with.place, None, &Storage::default())?;
        let clean = file.state.clean;
        let log = std::fs::metadata(with_suffix(path, "-wal")).map_or(0, |log| log.len());
        let same = FileStamp::of(path).is_ok_and(|stamp| clean == Some(stamp)) && log == 0;
        let why = match (clean, same) {
            (None, _) => Resync::Begin,
            (Some(_), false) => Resync::Written,
            (Some(_), true) => Resync::OtherObject,
        };
        let known = file.state.shipped.as_ref().filter(|_| same).cloned();
        let found = known.and_then(|shipped| {
            let archive = Archive::open(&with.place).ok()?;
            let links = archive.links_up_to(shipped.number, with.keys).ok()?;
            links.is_at(&shipped.set_id).then_some((shipped.number, links))
        });
        let due = found.is_none().then_some(why);
        let (number, links) = found.unwrap_or_default();
        let path = path.to_owned();
        Ok(Self {
            with,
            path,
            store,
            file,
            number,
            links,
            due,
            database: None,
            opened: None,
            version: 0,
            listed: None,
        })
    }

    /// Keeps it up until `stop` becomes true.
    ///
    /// # Errors
    /// Failures that waiting does not end: errors of keys, another process that keeps it up.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(StandbyEvent),
    ) -> Result<(), RunError> {
        if self.due.is_none() {
            tell(StandbyEvent::Goes(self.number));
        }
        let (mut failures, mut next) = (0_u32, Instant::now());
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() < next {
                sleep(LOOK);
                continue;
            }
            match self.step(tell) {
                Ok(()) => {
                    failures = 0;
                    next = Instant::now() + self.with.every;
                }
                Err(RunError::Cancelled) => break,
                Err(error) => {
                    next = Instant::now() + fail(&mut self.file, error, &mut failures, tell)?;
                }
            }
        }
        self.end()
    }

    /// Applies what is there.
    fn step(&mut self, tell: &mut dyn FnMut(StandbyEvent)) -> Result<(), RunError> {
        let begun_ms = now_ms();
        if self.file.keep(&self.path).is_err() {
            return Err(ArchiveError::KeptUp { path: self.path.clone() }.into());
        }
        let stamp = FileStamp::of(&self.path).map_err(RunError::io("read", &self.path))?;
        if self.opened.is_some_and(|opened| !opened.is_of_file(&stamp)) {
            (self.database, self.due) = (None, Some(Resync::Written));
        }
        if self.database.is_none() {
            self.open()?;
            self.opened = Some(stamp);
        }
        loop {
            self.with.run.check()?;
            self.hold()?;
            match self.due.map_or_else(|| self.next(), |why| Ok(Next::Chain(why)))? {
                Next::Nothing => break,
                Next::Chain(why) => self.sync(why, tell)?,
                Next::Object(media) => match self.apply(&media, tell) {
                    Err(error @ RunError::Archive(ArchiveError::Misplaced { .. })) => {
                        if let Next::Chain(why) = self.look_behind(Some(error))? {
                            self.sync(why, tell)?;
                        }
                    }
                    applied => applied?,
                },
            }
        }
        let state = &mut self.file.state;
        (state.current_ms, state.error) = (Some(begun_ms), None);
        self.file.write()
    }

    /// Opens the standby, and keeps others from writing to it.
    fn open(&mut self) -> Result<(), RunError> {
        // Up to here nothing was written: a process that ends leaves it as the last one did.
        if self.file.state.clean.take().is_some() {
            self.file.write()?;
        }
        let database = (self.with.open)()?.source.connection;
        let failed = DatabaseError::sqlite("open", &self.path, None);
        let failed = |error| RunError::from(failed(error));
        database.busy_timeout(WRITER_WAIT).map_err(failed)?;
        // A database that has no log has none in the archive either. Readers need one here.
        let mode: String = database
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
            .map_err(|error| self.failed("open", error))?;
        if mode != "wal" {
            return Err(ArchiveError::NotWal { path: self.path.clone(), mode }.into());
        }
        // Pages are written as they are, whatever tables they hold.
        let prepared = database.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA writable_schema = ON; PRAGMA trusted_schema = OFF",
        );
        prepared.map_err(|error| self.failed("open", error))?;
        self.version = database
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .map_err(|error| self.failed("read", error))?;
        self.database = Some(database);
        Ok(())
    }

    /// Keeps others from writing; notices if one did since the last transaction.
    fn hold(&mut self) -> Result<(), RunError> {
        if !self.database()?.is_autocommit() {
            return Ok(());
        }
        let version = self.exclude_writers()?;
        if version != self.version {
            self.version = version;
            self.due.get_or_insert(Resync::Written);
        }
        Ok(())
    }

    /// Begins a transaction that writes nothing yet. Returns SQLite's count of changes by others.
    fn exclude_writers(&self) -> Result<i64, RunError> {
        let database = self.database()?;
        match database.execute_batch("BEGIN IMMEDIATE") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                return Err(RunError::Locked { path: self.path.clone() });
            }
            begun => begun.map_err(|error| self.failed("lock", error))?,
        }
        let version = database.pragma_query_value(None, "data_version", |row| row.get(0));
        version.map_err(|error| self.failed("read", error))
    }

    fn database(&self) -> Result<&Connection, RunError> {
        self.database.as_ref().ok_or(RunError::Internal("a standby that is not open"))
    }

    fn failed(&self, action: &'static str, error: rusqlite::Error) -> RunError {
        DatabaseError::sqlite(action, &self.path, None)(error).into()
    }

    /// Finds what follows in the archive.
    fn next(&mut self) -> Result<Next, RunError> {
        let number = self.number.saturating_add(1);
        let found = self.store.now(number).and_then(|media| {
            let is_full = media.only_info()?.kind == SetKind::Full;
            Ok(if is_full { Next::Chain(Resync::NewChain) } else { Next::Object(Box::new(media)) })
        });
        match found {
            Err(error) if is_missing(&error) => {
                if self.listed.is_some_and(|listed| listed.elapsed() < LIST_EVERY) {
                    return Ok(Next::Nothing);
                }
                self.look_behind(None)
            }
            Err(error) => self.look_behind(Some(error)),
            Ok(found) => Ok(found),
        }
    }

    /// Looks for a chain behind an object that is missing, or that cannot be used.
    fn look_behind(&mut self, error: Option<RunError>) -> Result<Next, RunError> {
        let archive = Archive::open(&self.with.place)?;
        self.listed = Some(Instant::now());
        let last = archive.objects().keys().next_back().copied().unwrap_or(0);
        if archive.chains()?.last().is_some_and(|chain| chain.first > self.number) {
            return Ok(Next::Chain(Resync::NewChain));
        }
        if let Some(error) = error {
            return Err(error);
        }
        let gone = match last.cmp(&self.number) {
            std::cmp::Ordering::Equal => return Ok(Next::Nothing),
            std::cmp::Ordering::Less => self.number,
            std::cmp::Ordering::Greater => self.number.saturating_add(1),
        };
        if gone > self.number && archive.objects().contains_key(&gone) {
            // It was shipped since it was asked for, or is a link that leads nowhere.
            return archive.media(gone).map(|_| Next::Nothing);
        }
        Err(ArchiveError::MissingObject { object: archive.object(gone) }.into())
    }

    /// Applies a log set: all of it, or nothing.
    fn apply(&mut self, media: &Media, tell: &mut dyn FnMut(StandbyEvent)) -> Result<(), RunError> {
        let number = self.number.saturating_add(1);
        let (object, keys) = (self.store.shown(number), self.with.keys);
        let mut links = self.links.clone();
        let (info, set) = links.add((number, &object), media, keys)?;
        let ends = log_ends(&set)?;
        let Some(end) = ends.last().copied() else {
            return Err(RunError::Internal("a log set of no transaction"));
        };
        let count = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        let mut chain = Chain::of_archive(vec![(info, set)], Some((count, end.pages)));
        let point = Point { number, transaction: count, time_ms: end.time_ms };
        match self.take(&mut chain, false) {
            // Either the standby or the object is wrong: comparing with the whole chain decides.
            Err(RunError::Archive(ArchiveError::WrongState { .. })) => {
                self.due = Some(Resync::Differs);
                return Ok(());
            }
            taken => taken?,
        };
        self.commit(links, point, media)?;
        tell(StandbyEvent::Applied(point));
        Ok(())
    }

    /// Makes it equal to the last point of the archive.
    fn sync(&mut self, why: Resync, tell: &mut dyn FnMut(StandbyEvent)) -> Result<(), RunError> {
        let archive = Archive::open(&self.with.place)?;
        let found = archive.chain(At::Latest)?;
        if archive.is_encrypted()? {
            found.refuse_plain()?;
        }
        let (mut chain, point) = found.open(self.with.keys)?;
        // It may be the last copy of transactions whose objects are gone.
        if let Some(had) = self.file.state.shipped.as_ref().filter(|had| had.number > point.number)
        {
            let object = archive.object(had.number);
            return Err(ArchiveError::MissingObject { object }.into());
        }
        let pages = self.take(&mut chain, true)?;
        drop(chain);
        let links = archive.links_up_to(point.number, self.with.keys)?;
        self.due = None;
        self.commit(links, point, &archive.media(point.number)?)?;
        tell(StandbyEvent::Synced { why, point, pages });
        Ok(())
    }

    /// Writes the pages of a chain, or of its log set, in the transaction that is open. Returns
    /// the number of pages written.
    fn take(&mut self, chain: &mut Chain<'_>, is_whole: bool) -> Result<u64, RunError> {
        (self.with.accept)(chain, self.with.run)?;
        let database = self.database.take();
        let database = database.ok_or(RunError::Internal("a standby that is not open"))?;
        let mut pages = Pages::new(self.path.clone(), database, is_whole);
        let done = match is_whole {
            true => chain.restore_database(&mut pages, self.with.run).map(drop),
            false => chain.replay_log(&mut pages, self.with.run).map(drop),
        };
        let (database, written) = pages.end();
        if done.is_err() && !database.is_autocommit() {
            // It fails where SQLite has done so.
            let _ = database.execute_batch("ROLLBACK");
        }
        self.database = Some(database);
        done.map(|()| written)
    }

    /// Ends the transaction, and begins the next one.
    fn commit(&mut self, links: Links, point: Point, media: &Media) -> Result<(), RunError> {
        let info = media.only_info()?;
        let first = info.log.map_or(point.number, |link| link.first);
        let then = Shipped {
            number: point.number,
            first,
            set_id: hex::encode(info.set_id),
            trailer_sha256: hex::encode(media.only_digest()?),
            time_ms: point.time_ms,
            shipped_ms: now_ms(),
            page_size: info.page_size,
            sealed: Some(info.algorithm.is_some()),
            ..Shipped::default()
        };
        let committed = self.database()?.execute_batch("COMMIT");
        committed.map_err(|error| self.failed("write", error))?;
        (self.number, self.links) = (point.number, links);
        (self.file.state.shipped, self.file.state.error) = (Some(then), None);
        self.file.write()?;
        self.hold()
    }

    /// Ends in order: then the next process can go on without comparing.
    fn end(&mut self) -> Result<(), RunError> {
        let Some(database) = self.database.take() else { return Ok(()) };
        // It may have ended with a failure.
        let _ = database.execute_batch("ROLLBACK");
        let emptied =
            database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        drop(database);
        let log = std::fs::metadata(with_suffix(&self.path, "-wal")).map_or(0, |log| log.len());
        if self.due.is_none() && emptied == Ok(0) && log == 0 {
            let stamp = FileStamp::of(&self.path).map_err(RunError::io("read", &self.path))?;
            self.file.state.clean = Some(stamp);
        }
        self.file.write()
    }
}

/// Records a failure for `status` and reports it. Returns the wait until the next try.
///
/// # Errors
/// The failure, if waiting does not end it.
fn fail(
    file: &mut StateFile,
    error: RunError,
    failures: &mut u32,
    tell: &mut dyn FnMut(StandbyEvent),
) -> Result<Duration, RunError> {
    file.state.error = Some(error.to_string());
    // The failure itself is reported; one of the record would be the next.
    let _ = file.write();
    if is_for_good(&error) {
        return Err(error);
    }
    let wait = wait_after(*failures);
    *failures = failures.saturating_add(1);
    tell(StandbyEvent::Failed(error, wait));
    Ok(wait)
}

fn is_for_good(error: &RunError) -> bool {
    error.kind() == Kind::Key || matches!(error, RunError::Archive(ArchiveError::KeptUp { .. }))
}

/// The next step in the archive.
enum Next {
    Nothing,
    Chain(Resync),
    Object(Box<Media>),
}
