//! A database in a rollback mode, which has no log: it is looked at from time to time, and the
//! pages that differ from what was shipped last are one transaction of a log set.
//!
//! A look is one read transaction. In these modes that keeps writers from committing, so the file
//! is as it was at one commit. Of what was shipped, keyed fingerprints of the pages are in memory,
//! and nowhere else. After a restart they are computed again, if the file is still the one that
//! was looked at last: its stamp is taken under SQLite's lock, and late enough for a later write to
//! change it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::fingerprint::{FINGERPRINT_KEY_LEN, PageFingerprint};
use tdekit_sqlite_convert::DatabaseError;

use super::follow::Why;
use super::pending::{PageAt, Position, Transaction};
use super::source::Open;
use super::state::{CLOCK_STEP, FileStamp, Shipped};
use crate::database::source::{Database, connect};
use crate::error::ArchiveError;
use crate::feed::Print;
use crate::labels::now_ms;
use crate::output::lock;
use crate::snapshot::{LOCK_BYTES, Snapshot};
use crate::{DatabaseSource, RunError};

/// Bytes that are read at a time.
const READ_BYTES: u32 = 1 << 20;
/// Most bytes of pages that are kept, so that the read transaction ends before they are shipped.
const MAX_HELD_BYTES: usize = 64 << 20;
/// The counter of changes in page 1 (SQLite file format, 1.3). Outside WAL mode it grows with each
/// transaction that writes.
const COUNTER_AT: usize = 24;

impl Shipped {
    /// Returns true if the database had a log when the object was shipped.
    #[must_use]
    pub fn has_log(&self) -> bool {
        !self.salts.is_empty()
    }
}

/// The database.
pub(super) struct Looks {
    path: PathBuf,
    /// Its journal mode, as a new connection has it.
    pub(super) mode: String,
    encrypted_file_id: Option<[u8; 16]>,
    /// Asks for the mode. It is in no transaction in between.
    watch: Connection,
    /// Device and inode.
    file: (u64, u64),
    /// The file when its mode was asked for.
    glanced: FileStamp,
    key: Arc<SecretBytes>,
    /// `None` until a full set is shipped.
    known: Option<Known>,
    /// When the database was read last, and shipped.
    looked: Option<Instant>,
    /// True once the caller knows of the mode.
    pub(super) is_announced: bool,
}

/// The state that was shipped last.
pub(super) struct Known {
    prints: Vec<Print>,
    page_size: u32,
    facts: Facts,
}

/// The file in a read transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) time_ms: i64,
    pub(super) stamp: FileStamp,
    counter: u32,
}

/// A read transaction that has begun.
pub(super) struct Moment {
    pub(super) snapshot: Snapshot,
    pub(super) facts: Facts,
}

/// The file, by `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Glance {
    /// Nothing was written since it was looked at.
    Same,
    Written,
    /// Another file, or none, is under the path.
    Replaced,
    /// It is in WAL mode now.
    Logged,
}

/// The result of a look.
pub(super) enum Look {
    /// No page differs.
    Same(Facts),
    Differs(Box<Differing>),
    /// No log set can follow.
    Ends(Why),
}

/// Pages that differ.
pub(super) struct Differing {
    pub(super) transaction: Arc<Transaction>,
    /// The read transaction, if not all pages are kept in memory.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) facts: Facts,
    prints: Vec<(u32, Print)>,
}

impl Looks {
    /// Opens a database in this mode.
    ///
    /// # Errors
    /// The errors of opening and reading the database.
    pub(super) fn open(open: &Open<'_>, mode: String) -> Result<Self, RunError> {
        let Database { source, .. } = open()?;
        let DatabaseSource { connection: watch, path, encrypted_file_id } = source;
        let failed = DatabaseError::sqlite("open", &path, None);
        watch.busy_timeout(Duration::ZERO).map_err(failed)?;
        let failed = RunError::io("read", &path);
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        let glanced = FileStamp::of(&path).map_err(RunError::io("read", &path))?;
        Ok(Self {
            path,
            mode,
            encrypted_file_id,
            watch,
            file: (metadata.dev(), metadata.ino()),
            glanced,
            key: Arc::new(SecretBytes::random(FINGERPRINT_KEY_LEN)?),
            known: None,
            looked: None,
            is_announced: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> (u64, u64) {
        self.file
    }

    pub(super) fn encrypted_file_id(&self) -> Option<[u8; 16]> {
        self.encrypted_file_id
    }

    /// Returns true if the last look is so long ago. One whose set was not shipped does not count.
    pub(super) fn is_due(&self, every: Duration) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= every)
    }

    /// Returns the age of the last write to the file.
    pub(super) fn age(&self) -> Duration {
        FileStamp::of(&self.path).map_or(Duration::ZERO, |stamp| stamp.age())
    }

    /// Returns true if the file has no bytes.
    pub(super) fn is_empty(&self) -> bool {
        FileStamp::of(&self.path).is_ok_and(|stamp| stamp.len() == 0)
    }

    /// Looks by `stat`, and at the mode of a file that was written to.
    ///
    /// # Errors
    /// `Io`, those of SQLite.
    pub(super) fn glance(&mut self) -> Result<Glance, RunError> {
        let stamp = match FileStamp::of(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Glance::Replaced),
            stamp => stamp.map_err(RunError::io("read", &self.path))?,
        };
        if !stamp.is_of_file(&self.glanced) {
            return Ok(Glance::Replaced);
        }
        if self.known.as_ref().is_some_and(|known| known.facts.stamp == stamp) {
            return Ok(Glance::Same);
        }
        // A write that follows at once may leave the stamp as it is.
        if stamp != self.glanced || stamp.age() < CLOCK_STEP {
            match self.mode_now()? {
                Some(mode) if mode == "wal" => return Ok(Glance::Logged),
                Some(_) => self.glanced = stamp,
                None => {}
            }
        }
        Ok(Glance::Written)
    }

    /// Returns the journal mode; `None` while another process writes.
    fn mode_now(&self) -> Result<Option<String>, RunError> {
        let read = self.watch.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        let mode = read.and_then(|()| {
            self.watch.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))
        });
        match mode {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(None),
            mode => Ok(Some(mode.map_err(DatabaseError::sqlite("read", &self.path, None))?)),
        }
    }

    /// Begins a read transaction. Its time is no earlier than `last_ms`, and everything that was
    /// committed by then is in it.
    ///
    /// # Errors
    /// `SourceChanged` for another file, or another mode; `NoDatabase`; those of the database.
    pub(super) fn begin(&self, last_ms: i64) -> Result<Moment, RunError> {
        let path = self.path.clone();
        let connection = connect(&path, self.encrypted_file_id.is_some())?;
        let encrypted_file_id = self.encrypted_file_id;
        let source = DatabaseSource { connection, path: path.clone(), encrypted_file_id };
        let snapshot = Snapshot::open(source)?;
        let time_ms = now_ms().max(last_ms);
        if snapshot.pages() == 0 {
            return Err(ArchiveError::NoDatabase { path }.into());
        }
        let stamp = FileStamp::of(&path).map_err(RunError::io("read", &path))?;
        let changed = |reason: &str| {
            let (path, reason) = (path.clone(), reason.to_owned());
            Err(RunError::SourceChanged { path, reason })
        };
        if !stamp.is_of_file(&self.glanced) {
            return changed("another file took its place");
        }
        if snapshot.facts().journal_mode == "wal" {
            return changed("it is in WAL mode now");
        }
        if stamp.age() < CLOCK_STEP {
            // The next write has a later time.
            std::thread::sleep(CLOCK_STEP);
        }
        let mut first = vec![0; snapshot.page_len()];
        snapshot.read(1, &mut first)?;
        let counter = first.get(COUNTER_AT..).and_then(|bytes| bytes.first_chunk());
        let counter = counter.copied().map_or(0, u32::from_be_bytes);
        Ok(Moment { snapshot, facts: Facts { time_ms, stamp, counter } })
    }

    /// Goes on from `shipped`, if the file is as it was then. Returns why it cannot.
    ///
    /// # Errors
    /// The errors of opening and reading the database.
    pub(super) fn resume(
        &mut self,
        shipped: &Shipped,
        clean: Option<FileStamp>,
    ) -> Result<Option<Why>, RunError> {
        if shipped.has_log() {
            return Ok(Some(Why::Mode));
        }
        let now = FileStamp::of(&self.path).map_err(RunError::io("read", &self.path))?;
        if shipped.file != self.file || clean != Some(now) {
            return Ok(Some(Why::Absence));
        }
        let Moment { mut snapshot, facts } = self.begin(shipped.time_ms)?;
        if clean != Some(facts.stamp) || snapshot.page_size() != shipped.page_size {
            return Ok(Some(Why::Absence));
        }
        let learnt = self.learn(&mut snapshot);
        let mut bytes = Vec::new();
        for (first, count) in parts(&snapshot) {
            bytes.resize(count * snapshot.page_len(), 0);
            snapshot.read(first, &mut bytes)?;
        }
        snapshot.check()?;
        self.know(learnt, facts)?;
        Ok(None)
    }

    /// Has fingerprints taken of all pages that are read.
    pub(super) fn learn(&self, snapshot: &mut Snapshot) -> Learnt {
        let (page_len, page_size) = (snapshot.page_len(), snapshot.page_size());
        let pages = usize::try_from(snapshot.pages()).unwrap_or(usize::MAX);
        let prints = Arc::new(Mutex::new((vec![Print::default(); pages], 0)));
        let (key, into) = (Arc::clone(&self.key), Arc::clone(&prints));
        snapshot.observe(Box::new(move |first, bytes| {
            let found = prints_of(&key, bytes, page_len)?;
            let at = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
            let (all, taken) = &mut *lock(&into);
            *taken += found.len();
            if let Some(places) = all.get_mut(at..at.saturating_add(found.len())) {
                places.copy_from_slice(&found);
            }
            Ok(())
        }));
        Learnt { prints, page_size }
    }

    /// Takes a state that was shipped, of which each page was read.
    ///
    /// # Errors
    /// `Internal`: a page was not.
    pub(super) fn know(&mut self, learnt: Learnt, facts: Facts) -> Result<(), RunError> {
        let (prints, taken) = std::mem::take(&mut *lock(&learnt.prints));
        if taken != prints.len() {
            return Err(RunError::Internal("a page that was shipped, and not read"));
        }
        self.known = Some(Known { prints, page_size: learnt.page_size, facts });
        self.looked = Some(Instant::now());
        Ok(())
    }

    /// Reads the database, and finds the pages that differ from what was shipped last.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(super) fn look(&mut self, last_ms: i64) -> Result<Look, RunError> {
        let Moment { snapshot, facts } = self.begin(last_ms)?;
        let Some(known) = &mut self.known else {
            return Err(RunError::Internal("a look without anything to compare with"));
        };
        if snapshot.page_size() != known.page_size {
            return Ok(Look::Ends(Why::PageSize));
        }
        let found = compare(&snapshot, &self.key, known)?;
        snapshot.check()?;
        let size = snapshot.pages();
        if found.pages.is_empty() && usize::try_from(size) == Ok(known.prints.len()) {
            known.facts = facts;
            self.looked = Some(Instant::now());
            return Ok(Look::Same(facts));
        }
        // SQLite counts its transactions.
        let counted = facts.counter.wrapping_sub(known.facts.counter).cast_signed();
        if counted <= 0 || found.pages.is_empty() {
            return Ok(Look::Ends(Why::Overwritten));
        }
        let position = Position { salts: [0; 8], frames: 0, checksum: [0; 2], commits: 0 };
        let time_ms = facts.time_ms;
        let transaction = Transaction { pages: found.pages, size, time_ms, end: position };
        Ok(Look::Differs(Box::new(Differing {
            transaction: Arc::new(transaction),
            snapshot: (!found.is_held).then(|| Arc::new(snapshot)),
            facts,
            prints: found.prints,
        })))
    }

    /// Takes what differed as shipped.
    pub(super) fn shipped(&mut self, size: u32, prints: Vec<(u32, Print)>, facts: Facts) {
        let Some(known) = &mut self.known else { return };
        // Of the page of the lock bytes, which is never looked at, the value does not matter.
        known.prints.resize(usize::try_from(size).unwrap_or(usize::MAX), Print::default());
        for (page, print) in prints {
            let at = usize::try_from(page.saturating_sub(1)).unwrap_or(usize::MAX);
            if let Some(place) = known.prints.get_mut(at) {
                *place = print;
            }
        }
        known.facts = facts;
        self.looked = Some(Instant::now());
    }
}

impl Differing {
    /// Returns the new fingerprints.
    pub(super) fn into_prints(self) -> Vec<(u32, Print)> {
        self.prints
    }
}

/// Fingerprints of the pages that are being read.
pub(super) struct Learnt {
    /// With the number of pages that were read.
    prints: Arc<Mutex<(Vec<Print>, usize)>>,
    page_size: u32,
}

/// Pages that differ.
#[derive(Default)]
struct Found {
    pages: BTreeMap<u32, PageAt>,
    prints: Vec<(u32, Print)>,
    /// True if all of them are in memory.
    is_held: bool,
}

fn compare(snapshot: &Snapshot, key: &SecretBytes, known: &Known) -> Result<Found, RunError> {
    let page_len = snapshot.page_len();
    let lock_page = LOCK_BYTES / u64::from(known.page_size) + 1;
    let (mut found, mut bytes, mut held) = (Found::default(), Vec::new(), 0);
    for (first, count) in parts(snapshot) {
        bytes.resize(count * page_len, 0);
        snapshot.read(first, &mut bytes)?;
        let prints = prints_of(key, &bytes, page_len)?;
        for ((number, page), print) in (first..).zip(bytes.chunks_exact(page_len)).zip(prints) {
            let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
            if known.prints.get(at) == Some(&print) || u64::from(number) == lock_page {
                continue;
            }
            let fits = held + page_len <= MAX_HELD_BYTES;
            held += if fits { page_len } else { 0 };
            let place = if fits { PageAt::Held(page.into()) } else { PageAt::Main };
            found.pages.insert(number, place);
            found.prints.push((number, print));
        }
    }
    found.is_held = !found.pages.values().any(|at| *at == PageAt::Main);
    Ok(found)
}

/// Returns the first pages of the parts in which a database is read, and their numbers of pages.
fn parts(snapshot: &Snapshot) -> impl Iterator<Item = (u32, usize)> {
    let (pages, step) = (snapshot.pages(), (READ_BYTES / snapshot.page_size()).max(1));
    let firsts = (0..pages.div_ceil(step)).map(move |part| part * step + 1);
    firsts.map(move |first| {
        (first, usize::try_from(step.min(pages - first + 1)).unwrap_or(usize::MAX))
    })
}

fn prints_of(key: &SecretBytes, bytes: &[u8], page_len: usize) -> Result<Vec<Print>, RunError> {
    let fingerprint = PageFingerprint::new(key.expose())?;
    let prints = bytes.chunks_exact(page_len).map(|page| fingerprint.of(page));
    Ok(prints.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::database::source::open;

    const PAGE: u32 = 65_536;

    fn looks(path: &Path) -> Looks {
        let area = std::fs::read(path).unwrap();
        let no_keys = || Err(RunError::Internal("a plain database needs no keys"));
        let path = path.to_owned();
        let again: Open<'_> = Box::new(|| open(path.clone(), &area, no_keys));
        Looks::open(&again, "delete".to_owned()).unwrap()
    }

    /// Reads everything, as a full set does.
    fn learn(looks: &mut Looks) {
        let Moment { mut snapshot, facts } = looks.begin(0).unwrap();
        let learnt = looks.learn(&mut snapshot);
        for (first, count) in parts(&snapshot) {
            snapshot.read(first, &mut vec![0; count * snapshot.page_len()]).unwrap();
        }
        looks.know(learnt, facts).unwrap();
    }

    fn differing(look: Look) -> Differing {
        match look {
            Look::Differs(differing) => *differing,
            Look::Same(_) => panic!("nothing differs"),
            Look::Ends(why) => panic!("{why}"),
        }
    }

    fn database(dir: &Path) -> (PathBuf, Connection) {
        let path = dir.canonicalize().unwrap().join("a.db");
        let db = Connection::open(&path).unwrap();
        let sql = format!("PRAGMA page_size = {PAGE}; CREATE TABLE t(n); INSERT INTO t VALUES (1)");
        db.execute_batch(&sql).unwrap();
        (path, db)
    }

    #[test]
    fn a_database_grows_over_the_page_of_the_lock_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _db) = database(dir.path());
        let mut looks = looks(&path);
        learn(&mut looks);
        let lock_page = u32::try_from(LOCK_BYTES).unwrap() / PAGE + 1;
        let size = lock_page + 1;
        // Kept open: closing it would drop SQLite's locks. The new pages are holes.
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_len(u64::from(size) * u64::from(PAGE)).unwrap();
        let mut counter = [0; 4];
        file.read_exact_at(&mut counter, 24).unwrap();
        let counter = (u32::from_be_bytes(counter) + 1).to_be_bytes();
        for (bytes, at) in [(counter, 24), (size.to_be_bytes(), 28), (counter, 92)] {
            file.write_all_at(&bytes, at).unwrap();
        }
        let found = differing(looks.look(0).unwrap());
        let pages = &found.transaction.pages;
        // Page 2 has not changed.
        assert_eq!(pages.len(), usize::try_from(size).unwrap() - 2);
        assert!(pages.contains_key(&1) && !pages.contains_key(&lock_page));
        assert!(found.snapshot.is_some(), "more than is kept in memory");
        assert_eq!(pages.get(&size), Some(&PageAt::Main));
        let (facts, prints) = (found.facts, found.into_prints());
        looks.shipped(size, prints, facts);
        assert!(matches!(looks.look(0).unwrap(), Look::Same(_)));
    }

    #[test]
    fn what_was_not_shipped_differs_again_and_a_change_without_a_count_is_none_of_sqlite() {
        let dir = tempfile::tempdir().unwrap();
        let (path, db) = database(dir.path());
        let mut looks = looks(&path);
        learn(&mut looks);
        assert_eq!(looks.glance().unwrap(), Glance::Same);
        db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(looks.glance().unwrap(), Glance::Written);
        looks.looked = None;
        for _ in 0..2 {
            assert!(looks.is_due(Duration::from_hours(1)));
            let found = differing(looks.look(0).unwrap());
            assert_eq!(found.transaction.pages.keys().copied().collect::<Vec<_>>(), [1, 2]);
            assert!(found.snapshot.is_none());
        }
        assert_eq!(differing(looks.look(i64::MAX).unwrap()).transaction.time_ms, i64::MAX);
        let found = differing(looks.look(0).unwrap());
        let (facts, prints) = (found.facts, found.into_prints());
        looks.shipped(2, prints, facts);
        assert!(!looks.is_due(Duration::from_hours(1)));
        assert_eq!(looks.glance().unwrap(), Glance::Same);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"x", u64::from(PAGE) * 2 - 1).unwrap();
        assert!(matches!(looks.look(0).unwrap(), Look::Ends(Why::Overwritten)));
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        assert_eq!(looks.glance().unwrap(), Glance::Logged);
        assert!(matches!(looks.begin(0), Err(RunError::SourceChanged { .. })));
    }

    /// So that a write that follows at once leaves another time.
    #[test]
    fn a_read_transaction_stays_until_its_stamp_is_old_enough() {
        let dir = tempfile::tempdir().unwrap();
        let (path, db) = database(dir.path());
        let looks = looks(&path);
        for n in 0..5 {
            db.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
            let moment = looks.begin(0).unwrap();
            assert!(moment.facts.stamp.age() >= CLOCK_STEP, "{n}");
        }
    }

    /// A writer that was killed leaves half a transaction in the file, and the journal beside it.
    #[test]
    fn half_a_transaction_is_taken_back_by_sqlite_and_not_shipped() {
        let dir = tempfile::tempdir().unwrap();
        let (path, db) = database(dir.path());
        let fill = "WITH RECURSIVE k(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM k LIMIT 60)
                    INSERT INTO t SELECT zeroblob(60000) FROM k";
        db.execute_batch(fill).unwrap();
        let mut looks = looks(&path);
        learn(&mut looks);
        let whole = std::fs::read(&path).unwrap();
        // More than the cache holds.
        db.execute_batch("PRAGMA cache_size = 2; BEGIN; UPDATE t SET n = 7").unwrap();
        let name = tdekit_sqlite_convert::with_suffix(&path, "-journal");
        let (half, journal) = (std::fs::read(&path).unwrap(), std::fs::read(&name).unwrap());
        assert!(half != whole && !journal.is_empty());
        db.execute_batch("ROLLBACK").unwrap();
        drop(db);
        std::fs::write(&path, half).unwrap();
        std::fs::write(&name, journal).unwrap();
        assert!(matches!(looks.look(0).unwrap(), Look::Same(_)));
        assert!(std::fs::read(&path).unwrap() == whole && !name.exists());
        assert_eq!(looks.glance().unwrap(), Glance::Same);
    }

    #[test]
    fn writers_wait_while_a_look_reads_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let (path, db) = database(dir.path());
        let looks = looks(&path);
        db.busy_timeout(Duration::ZERO).unwrap();
        let moment = looks.begin(0).unwrap();
        let busy = db.execute_batch("INSERT INTO t VALUES (2)").unwrap_err();
        assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
        drop(moment);
        db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    }
}
