//! Flipped bits: each must give an error or the same result.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::crash::restore;
use crate::disk::{Cut, Disk, State};
use crate::error::{Error, Result};
use crate::ffi::db::{Db, Value};
use crate::ledger::digest;
use crate::record::{Op, Recorder};
use crate::rng::Rng;
use crate::top::Top;

/// Number of pages of the damaged databases.
pub const PAGES: i64 = 64;

/// A database at rest, and the content that reading it must return.
pub struct Target {
    /// The layer that wrote it.
    pub top: Top,
    /// Its directory; every trial starts from a fresh copy there.
    pub directory: PathBuf,
    /// Its files.
    pub state: State,
    /// Digests of its committed states, oldest first; the last one is the current state.
    pub history: Vec<u64>,
    page_size: usize,
}

/// Outcomes of the trials.
#[derive(Debug, Default, Clone)]
pub struct Outcomes {
    /// Trials.
    pub trials: u64,
    /// SQLite reported an error.
    pub errors: u64,
    /// Everything read as before.
    pub same: u64,
    /// An earlier committed state was read.
    pub earlier: u64,
    /// The largest number of commits by which a state was older; see `earlier`.
    pub earlier_by: usize,
    /// Different bytes were read, without an error.
    pub wrong: u64,
    /// Places of the first few of `wrong` and `earlier`.
    pub examples: Vec<String>,
    /// Places of the first few errors.
    pub first_errors: Vec<String>,
}

impl Outcomes {
    fn count(&mut self, outcome: &Outcome, place: impl FnOnce() -> String) {
        self.trials += 1;
        match outcome {
            Outcome::Error => self.errors += 1,
            Outcome::Same => self.same += 1,
            Outcome::Earlier(by) => {
                self.earlier += 1;
                self.earlier_by = self.earlier_by.max(*by);
            }
            Outcome::Wrong => self.wrong += 1,
        }
        if *outcome == Outcome::Error && self.first_errors.len() < 12 {
            self.first_errors.push(place());
            return;
        }
        let notable = matches!(outcome, Outcome::Wrong | Outcome::Earlier(_));
        if notable && self.examples.len() < 12 {
            self.examples.push(format!("{outcome:?}: {}", place()));
        }
    }
}

/// Outcome of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// SQLite reported an error.
    Error,
    /// Everything read as before.
    Same,
    /// The state `.0` commits ago was read.
    Earlier(usize),
    /// Different bytes, without an error.
    Wrong,
}

impl Target {
    /// Makes a closed database of [`PAGES`] pages.
    ///
    /// # Errors
    /// SQLite's and the file system's.
    pub fn closed(top: Top, page_size: usize, directory: &Path) -> Result<Self> {
        let db = filled(top, page_size, directory, "DELETE")?;
        let history = vec![digest(&db, "main")?];
        db.close()?;
        Self::of(top, page_size, directory, history)
    }

    /// Makes a database of [`PAGES`] pages whose log has several transactions.
    ///
    /// # Errors
    /// SQLite's and the file system's.
    pub fn with_log(top: Top, page_size: usize, directory: &Path) -> Result<Self> {
        let db = filled(top, page_size, directory, "WAL")?;
        db.run("PRAGMA wal_autocheckpoint=0; PRAGMA wal_checkpoint(TRUNCATE)")?;
        db.run("PRAGMA synchronous=FULL")?;
        let mut history = vec![digest(&db, "main")?];
        for n in 0..6_i64 {
            db.query("UPDATE t SET a = a || 'x' WHERE id % 6 = ?1", &[Value::Int(n)])?;
            history.push(digest(&db, "main")?);
        }
        // The copy is taken while the connection is open: closing would checkpoint.
        let target = Self::of(top, page_size, directory, history)?;
        db.close()?;
        Ok(target)
    }

    /// Makes a database of [`PAGES`] pages that was killed between its last page write and its
    /// commit.
    ///
    /// # Errors
    /// SQLite's and the file system's; [`Error::Setup`] if no such moment was found.
    pub fn with_hot_journal(top: Top, page_size: usize, directory: &Path) -> Result<Self> {
        let db = filled(top, page_size, directory, "DELETE")?;
        let history = vec![digest(&db, "main")?];
        let recorder = Recorder::attach(directory);
        db.close()?;
        let db = top.open(&directory.join("main.db"))?;
        recorder.begin()?;
        db.run("UPDATE t SET a = a || 'y' WHERE id % 2 = 0; DELETE FROM t WHERE id % 9 = 0")?;
        let log = recorder.take();
        db.close()?;
        let mut disk = Disk::new(&log);
        // Just before the first commit: the journal is whole and pages are overwritten.
        let commit = log.ops.iter().position(|op| matches!(op, Op::Delete { .. }));
        let commit = commit.ok_or_else(|| Error::Setup("no journal was deleted".into()))?;
        log.ops[..commit].iter().for_each(|op| disk.apply(op));
        let state = disk.crash(Cut::Kill { torn_bytes: 0 }, None);
        if state.files.len() != 2 {
            return Err(Error::Setup("no hot journal".into()));
        }
        Ok(Self { top, directory: directory.to_owned(), state, history, page_size })
    }

    fn of(top: Top, page_size: usize, directory: &Path, history: Vec<u64>) -> Result<Self> {
        let recorder = Recorder::attach(directory);
        recorder.begin()?;
        let files = recorder.take().base.into_iter().map(|(path, _, bytes)| (path, bytes));
        let state = State { files: files.collect(), ..State::default() };
        Ok(Self { top, directory: directory.to_owned(), state, history, page_size })
    }

    /// Returns the file whose name ends with `suffix`.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is none.
    pub fn file(&self, suffix: &str) -> Result<(PathBuf, &[u8])> {
        let found =
            self.state.files.iter().find(|(path, _)| path.to_string_lossy().ends_with(suffix));
        found
            .map(|(path, bytes)| (path.clone(), bytes.as_slice()))
            .ok_or_else(|| Error::Setup(format!("no file {suffix}")))
    }

    /// Opens `state` by SQL, as an application does, and reads everything.
    ///
    /// # Errors
    /// Only the file system's: SQLite's errors are outcomes.
    pub fn read_by_sql(&self, state: &State) -> Result<Outcome> {
        restore(&self.directory, state)?;
        let path = self.directory.join("main.db");
        let read = || -> Result<u64> {
            let db = Db::open(&self.top.uri(&path, ""), Some(self.top.vfs()?), false)?;
            digest(&db, "main")
        };
        Ok(match read() {
            Err(_) => Outcome::Error,
            Ok(digest) => match self.history.iter().rposition(|known| *known == digest) {
                Some(at) if at + 1 == self.history.len() => Outcome::Same,
                Some(at) => Outcome::Earlier(self.history.len() - 1 - at),
                None => Outcome::Wrong,
            },
        })
    }

    /// Flips bits of the file `suffix`, one at a time, and reads everything through SQL. Bits are
    /// numbered from the file's start; every `stride`-th is flipped.
    ///
    /// # Errors
    /// The file system's.
    pub fn flip_by_sql(
        &self,
        suffix: &str,
        bits: std::ops::Range<usize>,
        stride: usize,
    ) -> Result<Outcomes> {
        let (path, _) = self.file(suffix)?;
        let mut state = self.state.clone();
        let mut outcomes = Outcomes::default();
        for bit in bits.step_by(stride.max(1)) {
            flip(&mut state, &path, bit);
            let outcome = self.read_by_sql(&state)?;
            outcomes.count(&outcome, || format!("bit {bit} of {suffix}"));
            flip(&mut state, &path, bit);
        }
        Ok(outcomes)
    }

    /// Returns the number of bits in the file `suffix`.
    ///
    /// # Errors
    /// As [`Target::file`].
    pub fn bits(&self, suffix: &str) -> Result<usize> {
        Ok(self.file(suffix)?.1.len() * 8)
    }

    /// Returns the number of bytes before the first page of the main file.
    ///
    /// # Errors
    /// SQLite's and the file system's.
    pub fn shift(&self) -> Result<usize> {
        restore(&self.directory, &self.state)?;
        let db = self.open()?;
        let logical = db.file("main", false)?.size().map_err(code)?;
        let physical = self.file("main.db")?.1.len() as u64;
        usize::try_from(physical - logical).map_err(|_| Error::Setup("size".into()))
    }

    /// Flips every `stride`-th bit of the main file's pages, one at a time, and reads the page
    /// through the VFS as the pager does. No page is read intact first, so no cache can help.
    ///
    /// # Errors
    /// SQLite's, before any bit is flipped.
    pub fn flip_pages(&self, stride: usize) -> Result<Outcomes> {
        let shift = self.shift()?;
        let (path, bytes) = self.file("main.db")?;
        let intact = self.intact_pages()?;
        let raw =
            OpenOptions::new().read(true).write(true).open(&path).map_err(Error::io(&path))?;
        let mut db = self.open()?;
        let mut outcomes = Outcomes::default();
        let mut seen = vec![0; self.page_size];
        for bit in (shift * 8..bytes.len() * 8).step_by(stride.max(1)) {
            let byte = bit / 8;
            let page = (byte - shift) / self.page_size;
            let damaged = [bytes[byte] ^ (1 << (bit % 8))];
            raw.write_all_at(&damaged, byte as u64).map_err(Error::io(&path))?;
            if page == 0 {
                // Opening reads page 1, so each trial uses a connection that has seen it only
                // damaged.
                db.close()?;
                db = self.open()?;
            }
            let file = db.file("main", false)?;
            file.lock_shared();
            let rc = file.read(&mut seen, (page * self.page_size) as u64);
            file.unlock();
            let outcome = match rc {
                0 if seen == intact[page] => Outcome::Same,
                0 => Outcome::Wrong,
                _ => Outcome::Error,
            };
            outcomes.count(&outcome, || format!("bit {bit}, page {}", page + 1));
            raw.write_all_at(&bytes[byte..=byte], byte as u64).map_err(Error::io(&path))?;
        }
        db.close()?;
        Ok(outcomes)
    }

    fn intact_pages(&self) -> Result<Vec<Vec<u8>>> {
        restore(&self.directory, &self.state)?;
        let db = self.open()?;
        let file = db.file("main", false)?;
        let size = usize::try_from(file.size().map_err(code)?).unwrap_or(0);
        let page = |at: usize| {
            let mut page = vec![0; self.page_size];
            match file.read(&mut page, (at * self.page_size) as u64) {
                0 => Ok(page),
                rc => Err(code(rc)),
            }
        };
        (0..size / self.page_size).map(page).collect()
    }

    fn open(&self) -> Result<Db> {
        let path = self.directory.join("main.db");
        Db::open(&self.top.uri(&path, ""), Some(self.top.vfs()?), false)
    }

    /// Flips every `stride`-th bit of the log's frames while a connection has recovered it, and
    /// reads the frame's page as the pager does. No frame is read intact first.
    ///
    /// # Errors
    /// SQLite's, before any bit is flipped.
    pub fn flip_frames(&self, stride: usize) -> Result<Outcomes> {
        restore(&self.directory, &self.state)?;
        let (path, bytes) = self.file("-wal")?;
        let raw =
            OpenOptions::new().read(true).write(true).open(&path).map_err(Error::io(&path))?;
        let frames = self.frames()?;
        let (first, length) = self.top.log_layout(self.page_size);
        let db = self.open()?;
        // Recovery reads the log's header and every frame; the pager reads page 1 only.
        db.run("PRAGMA wal_autocheckpoint=0; PRAGMA journal_mode")?;
        let mut outcomes = Outcomes::default();
        let mut seen = vec![0; self.page_size];
        let file = db.file("main", true)?;
        for (frame, bit) in frame_bits(frames.len(), first, length, self.page_size, stride) {
            let byte = bit / 8;
            let damaged = [bytes[byte] ^ (1 << (bit % 8))];
            raw.write_all_at(&damaged, byte as u64).map_err(Error::io(&path))?;
            let outcome = match file.read(&mut seen, self.frame_offset(frame)) {
                0 if seen == frames[frame] => Outcome::Same,
                0 => Outcome::Wrong,
                _ => Outcome::Error,
            };
            outcomes.count(&outcome, || format!("bit {bit}, frame {frame}"));
            raw.write_all_at(&bytes[byte..=byte], byte as u64).map_err(Error::io(&path))?;
        }
        Ok(outcomes)
    }

    /// Offset at which SQLite reads the page of frame `frame`.
    fn frame_offset(&self, frame: usize) -> u64 {
        (32 + frame * (24 + self.page_size) + 24) as u64
    }

    /// Returns the pages of all frames, as another connection reads them.
    fn frames(&self) -> Result<Vec<Vec<u8>>> {
        let db = self.open()?;
        db.run("PRAGMA journal_mode; SELECT count(*) FROM sqlite_schema")?;
        let file = db.file("main", true)?;
        let size = usize::try_from(file.size().map_err(code)?).unwrap_or(0);
        let count = size.saturating_sub(32) / (24 + self.page_size);
        let page = |frame: usize| {
            let mut page = vec![0; self.page_size];
            match file.read(&mut page, self.frame_offset(frame)) {
                0 => Ok(page),
                rc => Err(code(rc)),
            }
        };
        let frames = (0..count).map(page).collect();
        // Closing the last connection would checkpoint and delete the log. The leaked one holds no
        // lock and reads nothing more.
        std::mem::forget(db);
        frames
    }
}

/// Returns frame and bit of every `stride`-th bit of a log. In each frame the page's bits come
/// before the header's: reading a page of which only the header is damaged may succeed and be
/// remembered.
fn frame_bits(
    frames: usize,
    first: usize,
    length: usize,
    page_size: usize,
    stride: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let header = length - page_size;
    (0..frames * length * 8).step_by(stride.max(1)).map(move |at| {
        let (frame, within) = (at / (length * 8), at % (length * 8));
        let turned = (within + header * 8) % (length * 8);
        (frame, (first + frame * length) * 8 + turned)
    })
}

fn flip(state: &mut State, path: &Path, bit: usize) {
    if let Some(byte) = state.files.get_mut(path).and_then(|bytes| bytes.get_mut(bit / 8)) {
        *byte ^= 1 << (bit % 8);
    }
}

fn code(rc: i32) -> Error {
    Error::Setup(format!("a file method returned {rc}"))
}

/// Makes a database of [`PAGES`] pages with random rows, an index and overflow pages.
///
/// # Errors
/// SQLite's own.
pub fn filled(top: Top, page_size: usize, directory: &Path, journal: &str) -> Result<Db> {
    let db = top.open(&directory.join("main.db"))?;
    db.run(&format!(
        "PRAGMA page_size={page_size}; PRAGMA journal_mode={journal};
         CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB); CREATE INDEX t_a ON t(a);"
    ))?;
    let mut rng = Rng::new(page_size as u64);
    let mut id = 0;
    db.run("BEGIN")?;
    while db.int("PRAGMA page_count")? < PAGES {
        id += 1;
        let large = if rng.percent(10) { page_size * 2 } else { page_size / 6 };
        let text = format!("row {id} {}", rng.below(1000));
        let row = [Value::Int(id), Value::from(text.as_str()), Value::Blob(rng.bytes(large))];
        db.query("INSERT INTO t VALUES(?1, ?2, ?3)", &row)?;
    }
    db.run("COMMIT")?;
    Ok(db)
}
