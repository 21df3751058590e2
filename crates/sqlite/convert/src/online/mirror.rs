//! The pages of a plain database as they were at one moment, sealed under a key that only this
//! process has.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use rusqlite::{Connection, OpenFlags};
use tdekit_sqlite::VfsError;
use tdekit_sqlite::scratch::Scratch;

use super::fingerprint::Fingerprints;
use crate::error::{DatabaseError, io_error};
use crate::target::Target;
use crate::watch::{Phase, Watch, go_on};
use tdekit_sqlite_client::file_uri;

/// Bytes per read.
const CHUNK_LEN: usize = 1 << 20;
/// Bytes per step of the first copy.
const STEP_LEN: usize = 32 << 20;
/// Number of threads that look for changed pages.
const THREADS: usize = 2;
/// Name of its file in the copy's workplace.
const NAME: &str = "tdekit-mirror";
/// Offsets in page 1 of the versions that show whether the journal is a log, and the values without
/// one.
const VERSIONS: std::ops::Range<usize> = 18..20;
const NO_LOG: [u8; 2] = [1, 1];
/// Offset in page 1 of the number that changes with the schema.
const COOKIE_AT: u64 = 40;

pub(crate) struct Mirror {
    scratch: Scratch,
    path: PathBuf,
    page_len: usize,
    prints: Fingerprints,
    /// The fingerprint of each page; 0 for pages never read.
    known: Vec<u128>,
    cookie: [u8; 4],
}

/// Changes found in the file.
pub(crate) struct Changes {
    /// Numbers of the changed pages, from 1.
    pub(crate) pages: HashSet<u32>,
    /// True if the schema changed.
    pub(crate) schema: bool,
}

impl Mirror {
    /// Makes an empty mirror of the database in `file`.
    pub(crate) fn new(path: &Path, file: &File, target: &Target) -> Result<Self, DatabaseError> {
        let page_len = page_len(path, file)?;
        let (own, at) = target.create_other(NAME)?;
        let bytes = u32::try_from(page_len).unwrap_or(0);
        let scratch = Scratch::new(own, bytes).map_err(scratch_error(&at))?;
        let prints =
            Fingerprints::new(page_len).map_err(|error| DatabaseError::Store(error.into()))?;
        Ok(Self { scratch, path: at, page_len, prints, known: Vec::new(), cookie: [0; 4] })
    }

    /// Copies every page while others may write: some may be torn or from different moments.
    pub(crate) fn copy(
        &mut self,
        path: &Path,
        file: &File,
        watch: &dyn Watch,
    ) -> Result<(), DatabaseError> {
        let pages = self.pages_in(path, file)?;
        let phase = Phase::begin(watch, "reading", Some((pages * self.page_len) as u64));
        for first in (0..pages).step_by(STEP_LEN / self.page_len) {
            go_on(watch)?;
            let last = (first + STEP_LEN / self.page_len).min(pages);
            self.known.resize(last, 0);
            match self.take(file, first) {
                // Somebody truncated the file.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                taken => taken.map_err(io_error("copy", path))?,
            };
            phase.at((last * self.page_len) as u64);
        }
        Ok(())
    }

    /// Copies the changed pages while nobody writes: afterwards the mirror equals the file.
    pub(crate) fn follow(&mut self, path: &Path, file: &File) -> Result<Changes, DatabaseError> {
        if page_len(path, file)? != self.page_len {
            let problem = "its page size was changed meanwhile".to_owned();
            return Err(DatabaseError::NotOnline { path: path.to_owned(), problem });
        }
        // A page that is removed and added again counts as changed.
        let pages = self.pages_in(path, file)?;
        self.known.resize(pages, 0);
        let found = self.take(file, 0).map_err(io_error("copy", path))?;
        self.scratch.set_pages(u32::try_from(pages).unwrap_or(u32::MAX));
        let mut cookie = [0; 4];
        file.read_exact_at(&mut cookie, COOKIE_AT).map_err(io_error("read", path))?;
        let schema = std::mem::replace(&mut self.cookie, cookie) != cookie;
        Ok(Changes { pages: found, schema })
    }

    /// Copies the known pages that have changed, starting at index `first`.
    fn take(&mut self, file: &File, first: usize) -> io::Result<HashSet<u32>> {
        let found = Mutex::new(HashSet::new());
        let known = &mut self.known[first..];
        let share = known.len().div_ceil(THREADS).max(1);
        let look = Look {
            file,
            prints: &self.prints,
            scratch: &self.scratch,
            page_len: self.page_len,
            found: &found,
        };
        thread::scope(|scope| {
            let look = &look;
            let threads: Vec<_> = known
                .chunks_mut(share)
                .enumerate()
                .map(|(index, known)| scope.spawn(move || look.over(first + index * share, known)))
                .collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            })
        })?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn pages_in(&self, path: &Path, file: &File) -> Result<usize, DatabaseError> {
        let len = file.metadata().map_err(io_error("examine", path))?.len();
        Ok(usize::try_from(len).unwrap_or(usize::MAX) / self.page_len)
    }

    /// Its address for SQLite.
    pub(crate) fn uri(&self) -> String {
        format!("{}?{}", file_uri(&self.path), self.scratch.parameters())
    }

    /// Opens it as a database. It must be opened again after a change.
    pub(crate) fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(self.uri(), flags)
    }
}

/// The search for changed pages.
struct Look<'a> {
    file: &'a File,
    prints: &'a Fingerprints,
    scratch: &'a Scratch,
    page_len: usize,
    found: &'a Mutex<HashSet<u32>>,
}

impl Look<'_> {
    /// Checks the pages from index `first` on, whose fingerprints are in `known`.
    fn over(&self, first: usize, known: &mut [u128]) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_LEN];
        let per_chunk = CHUNK_LEN / self.page_len;
        let mut at = first;
        for known in known.chunks_mut(per_chunk) {
            let bytes = &mut chunk[..known.len() * self.page_len];
            self.file.read_exact_at(bytes, (at * self.page_len) as u64)?;
            for (index, (page, known)) in
                bytes.chunks_exact_mut(self.page_len).zip(known).enumerate()
            {
                let print = self.prints.of(page);
                if print != *known {
                    self.keep(at + index, page)?;
                    *known = print;
                }
            }
            at += per_chunk;
        }
        chunk.fill(0);
        Ok(())
    }

    fn keep(&self, index: usize, page: &mut [u8]) -> io::Result<()> {
        let number = u32::try_from(index + 1).map_err(io::Error::other)?;
        if index == 0 {
            // The mirror has no log of its own.
            page[VERSIONS].copy_from_slice(&NO_LOG);
        }
        self.scratch.write(number, page).map_err(|error| match error {
            VfsError::File(error) => error,
            other => io::Error::other(other),
        })?;
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        Ok(())
    }
}

fn page_len(path: &Path, file: &File) -> Result<usize, DatabaseError> {
    let mut header = [0; 100];
    file.read_exact_at(&mut header, 0).map_err(io_error("read", path))?;
    match u16::from_be_bytes([header[16], header[17]]) {
        1 => Ok(65536),
        len if len.is_power_of_two() && len >= 512 => Ok(usize::from(len)),
        _ => Err(DatabaseError::NotADatabase { path: path.to_owned() }),
    }
}

fn scratch_error(path: &Path) -> impl FnOnce(VfsError) -> DatabaseError + '_ {
    move |error| match error {
        VfsError::File(error) => io_error("write", path)(error),
        other => io_error("write", path)(io::Error::other(other)),
    }
}
