//! Gives an encrypted database a new key while others use it: each page is sealed anew.
//!
//! The header gets a second version of the key, made current under SQLite's write lock; from then
//! on every connection seals under it. A sweep makes SQLite write each page again that names an
//! older version. Versions that no page needs any more are dropped from the header. An interrupted
//! run leaves a header with both versions, and the next one continues.
//!
//! Before a version is dropped, a checkpoint with `TRUNCATE` has emptied the log: its frames were
//! copied, and no reader needs one of them. Everything written later is under the new version, and
//! so is everything that a later checkpoint copies. A journal that is older than the header was
//! gone when the header was written, and the directory is synced then.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::hooks::Wal;
use rusqlite::{ErrorCode, TransactionBehavior};
use tdekit_key_crypto::{Algorithm, SecretBytes};
use tdekit_key_store::{AuditAction, StoreError, Unlocked};
use tdekit_sqlite::keyring;
use tdekit_sqlite_page::header::{commitment, read_all_slots};
use tdekit_sqlite_page::keys::DEK_LEN;
use tdekit_sqlite_page::page::key_version;
use tdekit_sqlite_page::{
    DekEntry, DekVersion, FileKeys, HEADER_AREA_LEN, Header, PageCodec, PageError, PageSize,
    SLOT_COUNT,
};

use crate::at_work::AtWork;
use crate::certificates;
use crate::error::{CutShort, DatabaseError, io_error};
use crate::freshness::original_of;
use crate::inspect::wrapped_of;
use crate::logged::log;
use crate::pace::{CHUNK_LEN, Pace, SHORTEST_YIELD};
use crate::pause::{Finishing, forget_earlier, is_paused};
use crate::rewrap::{check, write_slots};
use crate::source::{Hold, Source, database_path, open_file, pragma};
use crate::step::Step;
use crate::target::{sync_directory, with_suffix};
use crate::watch::{Phase, Watch, go_on};

/// Maximum wait for the write lock before the header is written.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// Maximum wait of one statement of the sweep for a lock. A committing connection blocks new
/// readers.
const SWEEP_WAIT: Duration = Duration::from_millis(20);
/// SQLite's cache holds a transaction, in KiB: spilling a page syncs the journal first.
const CACHE_KIB: usize = 2 * (CHUNK_LEN >> 10);
/// Pages opened per transaction, so that no writer waits for long.
const OPENED_AT_ONCE: u32 = 256;
/// Bytes per read of the search for older versions: few enough for the processor's cache.
const PIECE_LEN: usize = 256 << 10;
/// Interval at which a pause checks for a stop.
const PAUSE_LOOK: Duration = Duration::from_millis(250);
/// Frames added to the log before the sweep checkpoints while others write: below SQLite's 1000, at
/// which a committing connection has to checkpoint.
const FEWEST_FRAMES: i64 = 900;
/// The same limit when alone; also the number of frames in the log without a checkpoint at which
/// the sweep waits.
const MOST_FRAMES: i64 = 8192;
/// Maximum wait for readers of the log, while writers wait too: longer than others' reading
/// transactions, of which one begins before the last one ends.
const READERS_WAIT: Duration = Duration::from_millis(2560);
/// Pause while readers prevent the log from being emptied.
const LOG_WAIT: Duration = Duration::from_millis(50);
/// SQLite's locks are at this offset of its view of a file; the page with this byte is never used.
const LOCK_BYTE: u64 = 1 << 30;

/// Options of a key change.
#[derive(Debug, Clone, Default)]
pub struct Rotation {
    /// The algorithm of the new key; the current one by default.
    pub algorithm: Option<Algorithm>,
    /// A descriptor of the database, open for reading and writing, for a process that has
    /// connections to it: closing any descriptor would drop their locks, so none is opened or
    /// closed then.
    pub file: Option<Arc<File>>,
}

/// Result of a rotation.
#[derive(Debug)]
pub struct Rotated {
    /// The database's resolved path.
    pub path: PathBuf,
    /// The version of the key in force.
    pub version: u32,
    /// Algorithm of the key in force.
    pub algorithm: Algorithm,
    /// The dropped versions.
    pub dropped: Vec<u32>,
    /// True if it continued an earlier rotation.
    pub resumed: bool,
    /// Reason why the start is missing from the key store's log, if nobody here can write to the
    /// store.
    pub not_logged: Option<StoreError>,
    /// Set if the key store could not note a database that it did not know.
    pub not_recorded: Option<StoreError>,
}

/// Gives the database `name` a new key for the certificates that wrap the present one, and seals
/// every page under it. If a rotation was interrupted, completes that instead.
///
/// # Errors
/// `NotEncrypted`, `InUse` if the write lock cannot be had. `OtherKeyChange` if a change to another
/// algorithm than the requested one has begun. `CopyOf` for a copy of a database with freshness,
/// whose anchor it would move. `KeyChangeBegun` if `watch` stops it or the disk is
/// full: the header then has both versions and a later call continues. Errors of the key store.
pub fn rotate(
    name: &Path,
    how: &Rotation,
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<Rotated, DatabaseError> {
    keyring::set_unlocked(Arc::clone(unlocked));
    let (path, algorithm) = (database_path(name)?, how.algorithm);
    let file = match &how.file {
        Some(file) => Arc::clone(file),
        None => Arc::new(open_file(&path)?),
    };
    let (_, header, _) = check(&path, &file, unlocked)?;
    refuse_another(&path, &header, algorithm)?;
    if header.freshness
        && let Some(original) = original_of(&path, &header.file_id, unlocked)?
    {
        return Err(DatabaseError::CopyOf { path, original });
    }
    if header.deks.len() < 2 {
        forget_earlier(&path, header.current)?;
    } else if is_paused(&path, header.current) {
        return Err(DatabaseError::KeyChangeBegun { path, why: CutShort::Paused });
    }
    let mut source = open_locked(&path, &file, watch)?;
    let frames = count_frames(&mut source)?;
    let _at_work = AtWork::begin(&file);
    Finishing::clear(&path)?;
    let (area, header, keys) = check(&path, &source.file, unlocked)?;
    refuse_another(&path, &header, algorithm)?;
    let resumed = header.deks.len() > 1;
    let mut not_logged = None;
    let (version, algorithm) = if resumed {
        let slots = read_all_slots(&area).map_err(bad_header(&path))?;
        let same = |slot: &Header| (slot.current, &slot.deks) == (header.current, &header.deks);
        if slots.len() < SLOT_COUNT || !slots.iter().all(same) {
            write_slots(&source, &area, &header, &keys, unlocked, watch)?;
        }
        (header.current, header.algorithm)
    } else {
        let (new, keys) = with_new_version(&path, &header, &keys, algorithm, unlocked)?;
        not_logged = log(AuditAction::RotationBegun, &path, &new, unlocked)?;
        write_slots(&source, &area, &new, &keys, unlocked, watch)?;
        (new.current, new.algorithm)
    };
    let dropped = seal_anew(&source, &frames, version, unlocked, watch).map_err(begun(&path))?;
    let not_recorded = certificates::note(unlocked, &header, &path);
    Ok(Rotated { path, version, algorithm, dropped, resumed, not_logged, not_recorded })
}

/// Fails if a key change to another algorithm than the requested one has begun.
fn refuse_another(
    path: &Path,
    header: &Header,
    algorithm: Option<Algorithm>,
) -> Result<(), DatabaseError> {
    match algorithm {
        Some(asked) if header.deks.len() > 1 && asked != header.algorithm => {
            let begun = header.algorithm.name();
            Err(DatabaseError::OtherKeyChange { path: path.to_owned(), begun, asked: asked.name() })
        }
        _ => Ok(()),
    }
}

/// Completes a rotation whose new version is in the header: all pages get it, and the others are
/// dropped. `source` is locked against writers before, and not afterwards.
fn seal_anew(
    source: &Source,
    frames: &AtomicI64,
    version: u32,
    unlocked: &Unlocked,
    watch: &dyn Watch,
) -> Result<Vec<u32>, DatabaseError> {
    // The deletion of an older journal must be durable: it may need a version that will be dropped.
    sync_directory(&source.path)?;
    source.db.execute_batch("COMMIT").map_err(source.failed("commit"))?;
    source.db.busy_timeout(SWEEP_WAIT).map_err(source.failed("rotate"))?;
    let mut settings = format!("PRAGMA main.cache_size=-{CACHE_KIB}");
    if source.wal {
        // No sync while the write lock is held; the last checkpoint syncs.
        settings.push_str("; PRAGMA main.synchronous=NORMAL");
    }
    source.db.execute_batch(&settings).map_err(source.failed("rotate"))?;
    let size = PageSize::new(pragma::<u32>(&source.db, "page_size").map_or(0, u64::from))
        .map_err(bad_header(&source.path))?;
    let sweep = Sweep { source, frames, size, version, watch };
    let mut opened = false;
    loop {
        sweep.rewrite()?;
        watch.done(Step::Swept);
        sweep.empty_log()?;
        // From here on nothing writes a page under an older version.
        let stale = sweep.stale_in_file()?;
        // The version that a page names is not authenticated: a page that falsely claims the new
        // version would be lost with the key that opens it.
        if stale.is_empty() && !opened {
            sweep.open_every_page()?;
            opened = true;
        }
        if let Some(dropped) = sweep.drop_versions(&stale, unlocked)? {
            return Ok(dropped);
        }
        sleep(SHORTEST_YIELD);
    }
}

/// An error which claims that nothing was changed is not correct once a key change has begun.
fn begun(path: &Path) -> impl FnOnce(DatabaseError) -> DatabaseError + '_ {
    let of = |why| DatabaseError::KeyChangeBegun { path: path.to_owned(), why };
    move |error| match error {
        DatabaseError::Full { .. } => of(CutShort::Full),
        DatabaseError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            of(CutShort::Full)
        }
        DatabaseError::Interrupted => of(CutShort::Stopped),
        other => other,
    }
}

fn bad_header(path: &Path) -> impl FnOnce(PageError) -> DatabaseError + '_ {
    move |source| DatabaseError::Header { path: path.to_owned(), source }
}

/// Counts the frames in the log, as of the connection's last commit. From here on none of its
/// commits copies them to the main file.
fn count_frames(source: &mut Source) -> Result<Arc<AtomicI64>, DatabaseError> {
    let frames = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&frames);
    let count = move |_: &mut Wal, pages: c_int| {
        counted.store(i64::from(pages), Ordering::Relaxed);
        Ok(())
    };
    let set = source.db.wal_hook(Some(count));
    set.map_err(source.failed("rotate"))?;
    Ok(frames)
}

fn open_locked(path: &Path, file: &Arc<File>, watch: &dyn Watch) -> Result<Source, DatabaseError> {
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match Source::open_through(Arc::clone(file), path, Hold::Writers) {
            Err(DatabaseError::InUse { .. }) if Instant::now() < end => {
                go_on(watch)?;
                sleep(LOG_WAIT);
            }
            other => return other,
        }
    }
}

/// Returns the header with one more version, for the certificates and with the algorithm of the
/// present one, unless another algorithm is requested.
fn with_new_version(
    path: &Path,
    header: &Header,
    keys: &FileKeys,
    algorithm: Option<Algorithm>,
    unlocked: &Unlocked,
) -> Result<(Header, FileKeys), DatabaseError> {
    let algorithm = algorithm.unwrap_or(header.algorithm);
    let missing = || bad_header(path)(PageError::UnknownKeyVersion { version: header.current });
    let present = header.dek(header.current).ok_or_else(missing)?;
    let newest = header.deks.iter().map(|dek| dek.version).max().unwrap_or(0);
    let version = newest.checked_add(1).ok_or_else(missing)?;
    let dek = SecretBytes::random(DEK_LEN).map_err(|e| bad_header(path)(e.into()))?;
    let mut recipients = Vec::with_capacity(present.recipients.len());
    for wrapped in wrapped_of(&present.recipients)? {
        let info = match unlocked.store().by_sha256(&wrapped.sha256) {
            Some(info) => info,
            // The certificate is missing: the store's own error names it.
            None => unlocked.store().find(&wrapped.thumbprint())?,
        };
        let anew = unlocked.wrap_dek(&info.thumbprint(), &dek)?;
        recipients.push(anew.encode()?);
    }
    let created_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let commitment = commitment(&dek, &header.file_id, algorithm).map_err(bad_header(path))?;
    let mut new = Header { algorithm, current: version, ..header.clone() };
    new.deks.push(DekEntry { version, created_unix_s, algorithm, commitment, recipients });
    let mut keys = FileKeys { current: version, ..keys.clone() };
    keys.versions.push(DekVersion { version, algorithm, dek: Arc::new(dek) });
    Ok((new, keys))
}

/// The work on the pages of one database.
struct Sweep<'a> {
    source: &'a Source,
    /// Frames in the log; see [`count_frames`].
    frames: &'a AtomicI64,
    size: PageSize,
    /// The version that all pages get.
    version: u32,
    watch: &'a dyn Watch,
}

impl Sweep<'_> {
    /// Fails if the user wants to stop, or has halted the change.
    fn go_on(&self) -> Result<(), DatabaseError> {
        go_on(self.watch)?;
        match is_paused(&self.source.path, self.version) {
            true => Err(self.paused()),
            false => Ok(()),
        }
    }

    fn paused(&self) -> DatabaseError {
        let path = self.source.path.clone();
        DatabaseError::KeyChangeBegun { path, why: CutShort::Paused }
    }

    /// Makes SQLite write each page again that has an older version in the main file.
    fn rewrite(&self) -> Result<(), DatabaseError> {
        let path = &self.source.path;
        let mut pages = self.pages()?;
        let length = u64::from(pages) * u64::from(self.size.bytes());
        let phase = Phase::begin(self.watch, "rotating", Some(length));
        let data_version = pragma(&self.source.db, "data_version").unwrap_or(0);
        let mut pace = Pace::new(self.source.wal, data_version);
        let mut first = 1;
        while first <= pages {
            self.go_on()?;
            let (stale, next) =
                stale_pages(&self.source.file, self.size, self.version, first, pages)
                    .map_err(io_error("read", path))?;
            let mut rest = stale.as_slice();
            while !rest.is_empty() {
                self.go_on()?;
                let (now, later) = rest.split_at(pace.pages().min(rest.len()));
                if self.rewrite_run(now, &mut pace)? {
                    rest = later;
                }
                self.bound_log(&mut pace)?;
                self.rest(std::mem::take(&mut pace.pause))?;
            }
            phase.at(u64::from(next) * u64::from(self.size.bytes()));
            first = next;
            pages = self.pages()?;
        }
        Ok(())
    }

    /// Writes pages again in one transaction. Returns false if others prevent it.
    fn rewrite_run(&self, run: &[u32], pace: &mut Pace) -> Result<bool, DatabaseError> {
        let mut locked = None;
        let written = self.try_run(run, &mut locked);
        if written.is_err() && !self.source.db.is_autocommit() {
            self.source.db.execute_batch("ROLLBACK").map_err(self.source.failed("rotate"))?;
        }
        let held = locked.map_or(Duration::ZERO, |since| since.elapsed());
        let done = match written {
            Ok(()) => true,
            Err(error) if is_busy(&error) => false,
            Err(error) => return Err(self.source.failed("rotate")(error)),
        };
        let version: i64 =
            pragma(&self.source.db, "data_version").map_or(pace.data_version, |now: i64| now);
        let changed = std::mem::replace(&mut pace.data_version, version) != version;
        pace.adapt(!done || changed, held);
        Ok(done)
    }

    /// Sets `locked` to the time at which the write lock was acquired.
    fn try_run(&self, run: &[u32], locked: &mut Option<Instant>) -> rusqlite::Result<()> {
        let transaction =
            rusqlite::Transaction::new_unchecked(&self.source.db, TransactionBehavior::Immediate)?;
        *locked = Some(Instant::now());
        {
            let mut write = transaction.prepare_cached(
                "UPDATE sqlite_dbpage SET data = data WHERE schema = 'main' AND pgno = ?1",
            )?;
            for page in run {
                write.execute([page])?;
            }
        }
        transaction.commit()
    }

    /// Pauses so that others can work.
    fn rest(&self, pause: Duration) -> Result<(), DatabaseError> {
        let end = Instant::now() + pause;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(PAUSE_LOOK));
            self.go_on()?;
        }
    }

    /// Checkpoints the log when it has grown, and waits while it holds more than could be copied.
    fn bound_log(&self, pace: &mut Pace) -> Result<(), DatabaseError> {
        let frames = self.frames.load(Ordering::Relaxed);
        if frames < pace.asked_at {
            // Somebody restarted the log.
            pace.asked_at = 0;
        }
        let most = if pace.others() { FEWEST_FRAMES } else { MOST_FRAMES };
        if frames - pace.asked_at < most {
            return Ok(());
        }
        loop {
            self.rest(pace.until_copy())?;
            let begun = Instant::now();
            let (log, copied) = self.checkpoint(frames)?;
            pace.has_copied(begun.elapsed());
            if log - copied < MOST_FRAMES {
                pace.asked_at = log;
                if log == copied {
                    // The next commit restarts the log, which takes a sync: better ours than
                    // another's.
                    pace.pause = Duration::ZERO;
                    pace.asked_at = 0;
                    self.frames.store(0, Ordering::Relaxed);
                }
                return Ok(());
            }
            self.go_on()?;
            sleep(LOG_WAIT);
        }
    }

    /// Returns the number of frames in the log, and how many of them are copied. `frames` are known
    /// to be there.
    fn checkpoint(&self, frames: i64) -> Result<(i64, i64), DatabaseError> {
        let asked = self.source.db.query_row("PRAGMA main.wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        match asked {
            Err(error) if is_busy(&error) => Ok((frames, 0)),
            // Another process is checkpointing: SQLite reports neither.
            Ok((..0, _) | (_, ..0)) => Ok((frames, 0)),
            other => other.map_err(self.source.failed("checkpoint")),
        }
    }

    /// Copies the whole log into the main file and empties it, once no reader needs it.
    fn empty_log(&self) -> Result<(), DatabaseError> {
        let set = |wait| self.source.db.busy_timeout(wait).map_err(self.source.failed("rotate"));
        let mut wait = SWEEP_WAIT;
        loop {
            self.go_on()?;
            set(wait)?;
            let busy =
                self.source.db.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |row| {
                    row.get::<_, i64>(0)
                });
            match busy {
                Ok(0) => return set(SWEEP_WAIT),
                Ok(_) => {}
                Err(error) if is_busy(&error) => {}
                Err(error) => return Err(self.source.failed("checkpoint")(error)),
            }
            // Others have twice the time that they were held up for.
            sleep(LOG_WAIT.max(wait * 2));
            wait = (wait * 2).min(READERS_WAIT);
        }
    }

    /// Returns the first pages that name an older version; empty if there are none.
    fn stale_in_file(&self) -> Result<Vec<u32>, DatabaseError> {
        let pages = self.pages()?;
        let mut first = 1;
        while first <= pages {
            let (stale, next) =
                stale_pages(&self.source.file, self.size, self.version, first, pages)
                    .map_err(io_error("read", &self.source.path))?;
            if !stale.is_empty() {
                return Ok(stale);
            }
            first = next;
        }
        Ok(Vec::new())
    }

    /// Makes SQLite read every page; opening the seal shows its key version.
    fn open_every_page(&self) -> Result<(), DatabaseError> {
        // SQLite reports their number: a file may have been truncated within its last page.
        let sql = "SELECT sum(length(data)), (SELECT page_count FROM pragma_page_count('main'))
            FROM sqlite_dbpage('main') WHERE pgno BETWEEN ?1 AND ?2";
        let read = |first: u32, last: u32| -> rusqlite::Result<u32> {
            let mut read = self.source.db.prepare_cached(sql)?;
            read.query_row([first, last], |row| row.get(1))
        };
        let mut pages = self.pages()?.max(1);
        let phase = Phase::begin(self.watch, "opening every page", Some(pages.into()));
        let mut first = 1;
        while first <= pages {
            self.go_on()?;
            let last = first.saturating_add(OPENED_AT_ONCE - 1).min(pages);
            match read(first, last) {
                Ok(all) => (first, pages) = (last + 1, all),
                Err(error) if is_busy(&error) => sleep(LOG_WAIT),
                Err(error) => return Err(self.source.failed("rotate")(error)),
            }
            phase.at(u64::from(last));
        }
        Ok(())
    }

    /// Drops the older versions from the header, under the write lock. Returns `None` if something
    /// intervened that needs them.
    fn drop_versions(
        &self,
        stale: &[u32],
        unlocked: &Unlocked,
    ) -> Result<Option<Vec<u32>>, DatabaseError> {
        let source = self.source;
        match source.db.execute_batch("BEGIN IMMEDIATE; SELECT 1 FROM sqlite_schema") {
            Ok(()) => {}
            Err(error) if is_busy(&error) => return Ok(None),
            Err(error) => return Err(source.failed("lock")(error)),
        }
        let dropped = self.drop_locked(stale, unlocked);
        source.db.execute_batch("ROLLBACK").map_err(source.failed("unlock"))?;
        dropped
    }

    fn drop_locked(
        &self,
        stale: &[u32],
        unlocked: &Unlocked,
    ) -> Result<Option<Vec<u32>>, DatabaseError> {
        let (source, path) = (self.source, &self.source.path);
        let (area, header, keys) = check(path, &source.file, unlocked)?;
        if header.current != self.version {
            return Err(DatabaseError::InUse { path: path.clone(), holders: Vec::new() });
        }
        if !stale.is_empty() {
            // After the database's end. With an empty log, everybody sees the same end as we do.
            let used: u32 = pragma(&source.db, "page_count").map_err(source.failed("read"))?;
            if stale.iter().all(|page| *page > used) && self.log_is_empty()? {
                stale.iter().try_for_each(|page| self.blank(*page, &keys))?;
            }
            return Ok(None);
        }
        self.blank_lock_page(&keys)?;
        // Pages are synced before the header: they must not need a version that it lacks.
        source.file.sync_all().map_err(io_error("sync", path))?;
        if source.wal {
            match File::open(with_suffix(path, "-wal")).and_then(|log| log.sync_all()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error("sync", path)(error));
                }
                _ => {}
            }
        }
        let (kept, dropped): (Vec<_>, Vec<_>) =
            header.deks.iter().cloned().partition(|dek| dek.version == self.version);
        if !dropped.is_empty() {
            let new = Header { deks: kept, ..header };
            let Some(_finishing) = Finishing::begin(path, self.version)? else {
                return Err(self.paused());
            };
            self.watch.done(Step::Proved);
            log(AuditAction::Rotated, path, &new, unlocked)?;
            write_slots(source, &area, &new, &keys, unlocked, self.watch)?;
        }
        Ok(Some(dropped.iter().map(|dek| dek.version).collect()))
    }

    fn log_is_empty(&self) -> Result<bool, DatabaseError> {
        match std::fs::metadata(with_suffix(&self.source.path, "-wal")) {
            Ok(metadata) => Ok(metadata.len() == 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(io_error("examine", &self.source.path)(error)),
        }
    }

    /// Seals the page that SQLite never uses under the new version, if the file has it.
    fn blank_lock_page(&self, keys: &FileKeys) -> Result<(), DatabaseError> {
        let page = lock_page(self.size);
        if self.pages()? < page {
            return Ok(());
        }
        let mut sealed = vec![0; self.size.len()];
        self.source
            .file
            .read_exact_at(&mut sealed, self.size.page_offset(page))
            .map_err(io_error("read", &self.source.path))?;
        if key_version(&sealed) == Some(self.version) {
            return Ok(());
        }
        self.blank(page, keys)
    }

    /// Writes a page of zeros where SQLite has none.
    fn blank(&self, page: u32, keys: &FileKeys) -> Result<(), DatabaseError> {
        let path = &self.source.path;
        let (zeros, mut sealed) = (vec![0; self.size.len()], vec![0; self.size.len()]);
        PageCodec::new(keys.clone()).seal(page, &zeros, &mut sealed).map_err(bad_header(path))?;
        self.source
            .file
            .write_all_at(&sealed, self.size.page_offset(page))
            .map_err(io_error("write", path))
    }

    fn pages(&self) -> Result<u32, DatabaseError> {
        pages_in(&self.source.file, self.size).map_err(io_error("examine", &self.source.path))
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn lock_page(size: PageSize) -> u32 {
    u32::try_from(LOCK_BYTE / u64::from(size.bytes()) + 1).unwrap_or(u32::MAX)
}

fn pages_in(file: &File, size: PageSize) -> io::Result<u32> {
    let bytes = file.metadata()?.len().saturating_sub(HEADER_AREA_LEN);
    Ok(u32::try_from(bytes / u64::from(size.bytes())).unwrap_or(u32::MAX))
}

/// For a stretch from page `first` on, up to page `last`: returns the pages that do not name
/// `version`, and the page after the stretch. The page that SQLite never uses does not count.
fn stale_pages(
    file: &File,
    size: PageSize,
    version: u32,
    first: u32,
    last: u32,
) -> io::Result<(Vec<u32>, u32)> {
    let pages_of = |len: usize| u32::try_from(len / size.len()).unwrap_or(1).max(1);
    let count = pages_of(CHUNK_LEN).min(last.saturating_sub(first).saturating_add(1));
    let next = first.saturating_add(count);
    let unused = lock_page(size);
    let mut stale = Vec::new();
    let mut bytes = vec![0; PIECE_LEN.max(size.len())];
    for begin in (first..next).step_by(pages_of(PIECE_LEN) as usize) {
        let piece = pages_of(PIECE_LEN).min(next - begin) as usize * size.len();
        match file.read_exact_at(&mut bytes[..piece], size.page_offset(begin)) {
            // Somebody truncated the file.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return match pages_in(file, size)?.min(last) {
                    end if end < first => Ok((Vec::new(), last.saturating_add(1))),
                    end => stale_pages(file, size, version, first, end.min(first + count / 2)),
                };
            }
            other => other?,
        }
        let pages = (begin..).zip(bytes[..piece].chunks_exact(size.len()));
        let of_others =
            pages.filter(|(page, bytes)| *page != unused && key_version(bytes) != Some(version));
        stale.extend(of_others.map(|(page, _)| page));
    }
    Ok((stale, next))
}
