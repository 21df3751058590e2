//! Encrypts a plain database while others use it.
//!
//! Its pages are read without a lock and kept sealed ([`mirror`]); changed pages are read again
//! until all pages are of one moment. An encrypted copy is made of that moment. Later changes are
//! found from the pages ([`tree`]) and applied row by row ([`catch_up`]), at the end while
//! everybody is excluded; then the copy takes the original's name. Connections that have the
//! original open follow it: see `follow.rs` of the VFS.

mod catch_up;
mod fingerprint;
mod live;
mod mirror;
mod tree;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tdekit_key_store::{AuditAction, StoreError, Unlocked};
use tdekit_sqlite::keyring;

use self::catch_up::Follower;
use self::live::{Keep, Live};
use self::mirror::Mirror;
use crate::certificates;
use crate::convert::{Form, Options, copy_encrypted};
use crate::copy::unknown_names;
use crate::error::{DatabaseError, io_error};
use crate::inspect::{FileKind, read_area};
use crate::logged::log_target;
use crate::source::{Source, database_path, open_file};
use crate::step::Step;
use crate::target::{Target, remove_side_files, spoil_unlinked, sync_directory};
use crate::watch::{Phase, Watch, go_on};

/// Maximum number of pages changed since the last round at which everybody is excluded.
const FEW_PAGES: usize = 64;
/// Maximum number of rounds: a writer that is faster makes the last one longer.
const MOST_ROUNDS: u32 = 8;
/// Maximum number of copies: each change of the schema requires a new one.
const MOST_COPIES: u32 = 4;
/// Space beyond the pages of mirror and copy.
const EXTRA_BYTES: u64 = 2 << 20;

/// Result of an online encryption.
#[derive(Debug)]
pub struct Online {
    /// The database's resolved path.
    pub path: PathBuf,
    /// Number of times that changes by others were applied, including the last time, while they
    /// were excluded.
    pub rounds: u32,
    /// Time for which everybody was excluded.
    pub locked: Duration,
    /// Maximum time before that for which writers could not commit.
    pub writers_held: Duration,
    /// Reason why the new name may not be on disk yet.
    pub not_synced: Option<DatabaseError>,
    /// Reason why the key store could not record the change.
    pub not_recorded: Option<StoreError>,
}

/// Encrypts the plain database `name` while others read and write it.
///
/// # Errors
/// After any error the database is unchanged, except for what others wrote. `WithoutExtension`,
/// `NotOnline`, `InUse` if there is no moment without readers of the log, or none without writers.
pub fn encrypt_online(
    name: &Path,
    form: &Form,
    options: &Options,
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<Online, DatabaseError> {
    keyring::set_unlocked(Arc::clone(unlocked));
    let path = database_path(name)?;
    // Checked before anything is made beside it. Closing the file here does not drop a lock of
    // SQLite's yet.
    check(&path)?;
    let target = Target::create(&path)?;
    watch.done(Step::Created);
    let mut work = Work {
        live: Live::open(&path)?,
        target: &target,
        form,
        options,
        unlocked,
        watch,
        writers_held: Duration::ZERO,
    };
    let len = work.live.file.metadata().map_err(io_error("examine", &path))?.len();
    target.check_space(len * 2 + len / 32 + EXTRA_BYTES)?;
    let mut mirror = Mirror::new(&path, &work.live.file, &target)?;
    mirror.copy(&path, &work.live.file, watch)?;
    work.follow(&mut mirror)?;
    watch.done(Step::Read);
    for _ in 0..MOST_COPIES {
        if let Some(done) = work.attempt(&mut mirror)? {
            return Ok(done);
        }
        target.empty()?;
    }
    let problem = "its schema changes again and again".to_owned();
    Err(DatabaseError::NotOnline { path, problem })
}

fn check(path: &Path) -> Result<(), DatabaseError> {
    let path = || path.to_owned();
    let area = read_area(&open_file(&path())?).map_err(io_error("read", &path()))?;
    match FileKind::of(&area) {
        FileKind::Plain => Ok(()),
        FileKind::Encrypted => Err(DatabaseError::AlreadyEncrypted { path: path() }),
        FileKind::Empty => {
            let problem = "it is empty".to_owned();
            Err(DatabaseError::NotOnline { path: path(), problem })
        }
        FileKind::Other => Err(DatabaseError::NotADatabase { path: path() }),
    }
}

/// The work in progress.
struct Work<'a> {
    live: Live,
    target: &'a Target,
    form: &'a Form,
    options: &'a Options,
    unlocked: &'a Unlocked,
    watch: &'a dyn Watch,
    writers_held: Duration,
}

impl Work<'_> {
    /// Brings the mirror to a moment at which nobody writes.
    fn follow(&mut self, mirror: &mut Mirror) -> Result<mirror::Changes, DatabaseError> {
        self.live.hold(Keep::Writers, self.watch)?;
        let begun = Instant::now();
        let changes = mirror.follow(&self.live.path, &self.live.file);
        self.live.release();
        self.writers_held = self.writers_held.max(begun.elapsed());
        changes
    }

    /// Makes a copy of the mirror, brings it up to date and puts it in place. Returns `None` if the
    /// schema changed.
    fn attempt(&mut self, mirror: &mut Mirror) -> Result<Option<Online>, DatabaseError> {
        let (target, watch) = (self.target, self.watch);
        let source = self.source(mirror)?;
        let file_id =
            copy_encrypted(source, (self.form, self.options), self.unlocked, target, watch)?;
        self.refuse_unknown()?;
        target.take_metadata(&self.live.file)?;
        watch.done(Step::Copied);
        let original = self.source(mirror)?;
        let mut follower = Follower::new(&original, mirror, target)?;
        let mut rounds = 1;
        let phase = Phase::begin(watch, "catching up", None);
        loop {
            go_on(watch)?;
            let changes = self.follow(mirror)?;
            if changes.schema {
                return Ok(None);
            }
            follower.follow(mirror, &changes, watch)?;
            target.sync()?;
            rounds += 1;
            if changes.pages.len() <= FEW_PAGES || rounds >= MOST_ROUNDS {
                break;
            }
        }
        drop(phase);
        watch.done(Step::CaughtUp);
        let to = (target, self.live.path.as_path());
        let logged = log_target(AuditAction::Encrypted, to, self.unlocked)?;
        let recorded = certificates::record(self.form, self.unlocked, file_id, &self.live.path);
        watch.done(Step::Recorded);
        let switched = self.switch(mirror, follower);
        if !matches!(switched, Ok(Some(_))) {
            let _ = certificates::forget(self.form, self.unlocked, file_id, &self.live.path);
        }
        Ok(switched?.map(|(locked, not_synced)| Online {
            path: self.live.path.clone(),
            rounds,
            locked,
            writers_held: self.writers_held,
            not_synced,
            not_recorded: logged.or(recorded.err()),
        }))
    }

    /// Returns the mirror as a database to be copied.
    fn source(&self, mirror: &Mirror) -> Result<Source, DatabaseError> {
        let path = self.live.path.as_path();
        let db = mirror.open().map_err(DatabaseError::sqlite("read the pages of", path, None))?;
        // Not the database: closing another descriptor of it drops SQLite's locks.
        let dir = path.parent().unwrap_or(Path::new("/"));
        let file = File::open(dir).map_err(io_error("open", dir))?;
        Ok(Source { db, file: file.into(), path: path.to_owned(), wal: false })
    }

    /// Rows are written one by one, which requires everything that the schema names.
    fn refuse_unknown(&self) -> Result<(), DatabaseError> {
        let unknown = unknown_names();
        let names = [unknown.functions, unknown.collations].concat().join(", ");
        if names.is_empty() {
            return Ok(());
        }
        let problem = format!("its schema names what only your application has ({names})");
        Err(DatabaseError::NotOnline { path: self.live.path.clone(), problem })
    }

    /// Excludes everybody, applies the last changes, and puts the copy in place. Returns the time
    /// this took, and whether the new name is on disk; `None` if the schema changed.
    fn switch(
        &mut self,
        mirror: &mut Mirror,
        mut follower: Follower<'_>,
    ) -> Result<Option<(Duration, Option<DatabaseError>)>, DatabaseError> {
        let (target, watch) = (self.target, self.watch);
        self.live.check_users()?;
        self.live.hold(Keep::Everyone, watch)?;
        let begun = Instant::now();
        let changes = mirror.follow(&self.live.path, &self.live.file)?;
        if changes.schema {
            self.live.release();
            return Ok(None);
        }
        follower.follow(mirror, &changes, watch)?;
        if self.live.wal {
            follower.set_log()?;
        }
        target.sync()?;
        go_on(watch)?;
        watch.done(Step::Held);
        self.live.close_doors()?;
        // Finds any process that got in before the doors were closed.
        self.live.check_users()?;
        target.replace_database()?;
        watch.done(Step::Renamed);
        // Too late to turn back. Nobody opens the new file before the follower closes it. Until the
        // new name is durable, a power cut gives the name back to the original: commits to the copy
        // must not be acknowledged before, and the original must stay whole.
        let path = &self.live.path;
        let synced = sync_directory(path);
        if synced.is_ok() {
            spoil_unlinked(&self.live.file, 0);
        }
        let removed = remove_side_files(path);
        watch.done(Step::Unlinked);
        drop(follower);
        self.live.release();
        let locked = begun.elapsed();
        let synced = synced.and(removed).and_then(|_| sync_directory(path));
        watch.done(Step::Settled);
        Ok(Some((locked, synced.err())))
    }
}
