//! Pages that are written to a database through SQLite's own virtual table `sqlite_dbpage`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension};
use tdekit_sqlite_convert::DatabaseError;

use crate::error::ArchiveError;
use crate::output::lock;
use crate::{PageSink, RunError};

/// Offset of the bytes that SQLite locks; the page with them is never used.
const LOCK_BYTES: u64 = 0x4000_0000;
/// Parts of page 1 that SQLite writes by itself with each transaction: its counter of changes, and
/// the version that wrote it (SQLite file format, 1.3).
const OWN_PARTS: [Range<usize>; 2] = [24..28, 92..100];

/// The versions of the file format for writing and reading (there, 1.3): those of a database in WAL
/// mode, as a standby is whatever mode the original has.
const VERSIONS: Range<usize> = 18..20;
const WAL_VERSION: u8 = 2;

/// The pages of the standby, in a transaction.
pub(super) struct Pages {
    path: PathBuf,
    database: Mutex<Connection>,
    /// True to write only what differs.
    compares: bool,
    held: Mutex<Held>,
    page_len: usize,
    size: u32,
    /// Pages of the database before.
    before: u32,
}

/// The pages written, and page 1, which is written last: it makes SQLite read its tables anew.
#[derive(Default)]
struct Held {
    page_1: Option<Vec<u8>>,
    beyond: BTreeSet<u32>,
    written: u64,
}

impl Pages {
    /// Takes the connection, in a transaction that may write. With `compares`, only pages that
    /// differ are written.
    pub(super) fn new(path: PathBuf, database: Connection, compares: bool) -> Self {
        Self {
            path,
            database: Mutex::new(database),
            compares,
            held: Mutex::default(),
            page_len: 0,
            size: 0,
            before: 0,
        }
    }

    /// Returns the connection, and the number of pages written.
    pub(super) fn end(self) -> (Connection, u64) {
        let held = self.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        (self.database.into_inner().unwrap_or_else(PoisonError::into_inner), held.written)
    }

    fn put(&self, page: u32, bytes: &[u8]) -> Result<(), RunError> {
        let database = lock(&self.database);
        let failed = |error| self.failed(error);
        if self.compares {
            let mut query = database
                .prepare_cached("SELECT data FROM sqlite_dbpage('main') WHERE pgno = ?1")
                .map_err(failed)?;
            let here: Option<Vec<u8>> =
                query.query_row([page], |row| row.get(0)).optional().map_err(failed)?;
            if here.is_some_and(|here| is_equal(page, &here, bytes)) {
                return Ok(());
            }
        }
        let mut insert = database
            .prepare_cached("INSERT INTO sqlite_dbpage (pgno, data) VALUES (?1, ?2)")
            .map_err(failed)?;
        insert.execute((page, bytes)).map_err(failed)?;
        lock(&self.held).written += 1;
        Ok(())
    }

    fn failed(&self, error: rusqlite::Error) -> RunError {
        DatabaseError::sqlite("write", &self.path, None)(error).into()
    }
}

/// Compares a page with the one to write, but for what SQLite writes itself.
fn is_equal(page: u32, here: &[u8], bytes: &[u8]) -> bool {
    let is_own = |at: usize| page == 1 && OWN_PARTS.iter().any(|part| part.contains(&at));
    here.len() == bytes.len()
        && (here == bytes
            || here.iter().zip(bytes).enumerate().all(|(at, (a, b))| a == b || is_own(at)))
}

impl PageSink for Pages {
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError> {
        let database = lock(&self.database);
        let number = |name| database.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        let failed = DatabaseError::sqlite("read", &self.path, None);
        let (own, before) = (number("page_size"), number("page_count"));
        let (own, before) = match (own, before) {
            (Ok(own), Ok(before)) => (own, before),
            (Err(error), _) | (_, Err(error)) => return Err(failed(error).into()),
        };
        if own != page_size {
            let path = self.path.clone();
            return Err(ArchiveError::OtherPageSize { path, own, page_size }.into());
        }
        drop(database);
        self.before = before;
        self.page_len = usize::try_from(page_size).unwrap_or(usize::MAX);
        self.size = u32::try_from(pages).unwrap_or(u32::MAX);
        Ok(())
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let page_len = self.page_len.max(1);
        for (page, bytes) in (first..).zip(bytes.chunks(page_len)) {
            let at = u64::from(page) * page_len as u64;
            if (LOCK_BYTES + 1..=LOCK_BYTES + page_len as u64).contains(&at) {
                continue;
            }
            if page == 1 {
                let mut bytes = bytes.to_vec();
                if let Some(versions) = bytes.get_mut(VERSIONS) {
                    versions.fill(WAL_VERSION);
                }
                lock(&self.held).page_1 = Some(bytes);
                continue;
            }
            self.put(page, bytes)?;
            if page > self.before {
                lock(&self.held).beyond.insert(page);
            }
        }
        Ok(())
    }

    fn read(&self, page: u32, bytes: &mut Vec<u8>) -> Result<(), RunError> {
        bytes.clear();
        let failed = |error| DatabaseError::sqlite("read", &self.path, None)(error);
        let database = lock(&self.database);
        let mut query = database
            .prepare_cached("SELECT data FROM sqlite_dbpage('main') WHERE pgno = ?1")
            .map_err(failed)?;
        let found = query
            .query_row([page], |row| {
                bytes.extend_from_slice(row.get_ref(0)?.as_blob()?);
                Ok(())
            })
            .optional();
        Ok(found.map(|_| ()).map_err(failed)?)
    }

    fn finish(&mut self) -> Result<(), RunError> {
        let (page_1, beyond) = {
            let mut held = lock(&self.held);
            (held.page_1.take(), std::mem::take(&mut held.beyond))
        };
        // Pages that SQLite added to the list of free ones, and did not write.
        let zeros = vec![0; self.page_len];
        for page in self.before.saturating_add(1)..=self.size {
            if !beyond.contains(&page) {
                self.write(page, &zeros)?;
            }
        }
        if let Some(page_1) = page_1 {
            self.put(1, &page_1)?;
        }
        if self.size < self.before {
            let cut = "INSERT INTO sqlite_dbpage (pgno, data) VALUES (?1, NULL)";
            let database = lock(&self.database);
            database.execute(cut, [self.size + 1]).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}
