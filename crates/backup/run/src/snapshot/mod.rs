//! A consistent snapshot of a database that may be in use.
//!
//! It is a read transaction on the caller's connection: in WAL mode writers continue, otherwise
//! they wait. Pages come through the virtual table `sqlite_dbpage`, or without SQLite where that is
//! sound (see [`direct`]).

mod direct;
pub(crate) mod ffi;
mod log_index;
mod wal;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Row};
use tdekit_backup_media::Id;
use tdekit_sqlite::SlotIds;
use tdekit_sqlite_convert::{DatabaseError, pass_over_constraints, stand_in_for_collations};

pub(crate) use self::direct::open_kept;
use self::direct::{By, Direct};
use self::ffi::MainFile;
use crate::options::DatabaseSource;
use crate::{Run, RunError};

/// Maximum wait for a writer that holds the database outside WAL mode.
const BUSY: Duration = Duration::from_secs(10);
/// Number of pages that the connection caches: each is read once.
const CACHE_PAGES: i64 = 16;
/// Interval at which a check tests whether it was cancelled.
const CANCEL_WAIT: Duration = Duration::from_millis(100);
/// Offset of the bytes that SQLite locks; the page with them is never used.
pub(crate) const LOCK_BYTES: u64 = 0x4000_0000;
/// Maximum number of table names that are recorded.
const MAX_TABLES: i64 = 10_000;

const READ_PAGE: &str = "SELECT data FROM sqlite_dbpage('main') WHERE pgno = ?1";

/// Result of SQLite's quick_check of a database that was backed up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Checked {
    /// No fault was found.
    Sound,
    /// It was not requested, or the source is a stream.
    #[default]
    NotAsked,
    /// It could not be run, for this reason: the database needs functions that only its application
    /// has.
    Failed(String),
}

/// A database as it is at one commit.
pub(crate) struct Snapshot {
    path: PathBuf,
    connection: Mutex<Connection>,
    direct: Option<Direct>,
    page_size: u32,
    pages: u32,
    /// Bytes at the end of each page that count as zeros.
    zeroed: usize,
    encrypted_file_id: Option<Id>,
    facts: Facts,
    seen: Seen,
    observer: Option<Observer>,
}

/// Is given the first number and the bytes of all pages that are read.
pub(crate) type Observer = Box<dyn Fn(u32, &[u8]) -> Result<(), RunError> + Send + Sync>;

/// Properties of the database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) tables: Vec<String>,
    pub(crate) sqlite_version: Option<u32>,
    pub(crate) journal_mode: String,
    pub(crate) encoding: String,
}

/// The file when the snapshot had begun.
#[derive(Clone, Copy)]
struct Seen {
    identity: (u64, u64),
    len: u64,
    modified: (i64, i64),
    /// The identities of the header's slots, for an encrypted file.
    header: Option<SlotIds>,
}

impl Seen {
    /// The header is read before the time, so that a change between the two is detected.
    fn of(path: &Path, connection: &mut Connection, encrypted: bool) -> io::Result<Self> {
        let file = MainFile::of(connection).filter(|_| encrypted);
        let header = file.and_then(|file| file.slot_ids());
        let metadata = fs::metadata(path)?;
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            header,
        })
    }
}

impl Snapshot {
    pub(crate) fn open(source: DatabaseSource) -> Result<Self, RunError> {
        let DatabaseSource { mut connection, path, encrypted_file_id } = source;
        let failed = |action| {
            let translated = DatabaseError::sqlite(action, &path, None);
            move |source| RunError::from(translated(source))
        };
        connection.busy_timeout(BUSY).map_err(failed("open"))?;
        connection.pragma_update(None, "mmap_size", 0).map_err(failed("open"))?;
        connection.pragma_update(None, "cache_size", CACHE_PAGES).map_err(failed("open"))?;
        connection.execute_batch("BEGIN").map_err(failed("read"))?;
        let tables = tables(&connection).map_err(failed("read"))?;
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        let page_size = number("page_size").map_err(failed("read"))?;
        let pages = number("page_count").map_err(failed("read"))?;
        let text = |name| connection.pragma_query_value(None, name, |row| row.get::<_, String>(0));
        let journal_mode = text("journal_mode").map_err(failed("read"))?;
        let encoding = text("encoding").map_err(failed("read"))?;
        if !page_size.is_power_of_two() || !(512..=65536).contains(&page_size) {
            let reason = format!("its page size is {page_size}");
            return Err(RunError::SourceChanged { path, reason });
        }
        let file = connection.path().filter(|file| !file.is_empty()).map(PathBuf::from);
        let file = file.unwrap_or_else(|| path.clone());
        let seen = Seen::of(&file, &mut connection, encrypted_file_id.is_some())
            .map_err(RunError::io("read", &file))?;
        let direct = match encrypted_file_id {
            None => Direct::open(&file, page_size, journal_mode == "wal")
                .map_err(RunError::io("read", &file))?,
            Some(_) => Direct::through_vfs(&mut connection, page_size, journal_mode == "wal"),
        };
        let mut facts = Facts { tables, sqlite_version: None, journal_mode, encoding };
        let connection = Mutex::new(connection);
        let mut snapshot = Self {
            path: file,
            connection,
            direct: None,
            page_size,
            pages,
            zeroed: 0,
            encrypted_file_id,
            facts: Facts::default(),
            seen,
            observer: None,
        };
        if pages > 0 {
            let mut first = vec![0; snapshot.page_len()];
            snapshot.read(1, &mut first)?;
            let version = first.get(96..).and_then(|bytes| bytes.first_chunk());
            facts.sqlite_version = version.copied().map(u32::from_be_bytes);
            let reserved = usize::from(first.get(20).copied().unwrap_or(0));
            snapshot.zeroed = if encrypted_file_id.is_some() { reserved } else { 0 };
            let connection = snapshot.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
            snapshot.direct = direct.filter(|direct| direct.agrees(connection, &first));
        }
        snapshot.facts = facts;
        Ok(snapshot)
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    pub(crate) fn page_len(&self) -> usize {
        usize::try_from(self.page_size).unwrap_or(usize::MAX)
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    pub(crate) fn encrypted_file_id(&self) -> Option<Id> {
        self.encrypted_file_id
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Has the observer called for all that is read from now on, by the threads that read it.
    pub(crate) fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Fills `out` with whole pages from `first` on. Several threads may read at once.
    pub(crate) fn read(&self, first: u32, out: &mut [u8]) -> Result<(), RunError> {
        let count = u32::try_from(out.len() / self.page_len()).unwrap_or(u32::MAX);
        let end = first.saturating_add(count);
        let mut number = first;
        let mut rest = &mut *out;
        while number < end {
            let (by, run) = match &self.direct {
                Some(direct) => direct.run(number, end),
                None => (By::Sqlite, end - number),
            };
            let bytes = usize::try_from(run).unwrap_or(usize::MAX).saturating_mul(self.page_len());
            let (part, behind) = rest.split_at_mut(bytes.min(rest.len()));
            match (&self.direct, by) {
                (Some(direct), By::File) => direct.read(number, part).map_err(|error| {
                    if error.kind() == io::ErrorKind::UnexpectedEof {
                        return self.changed("its file was cut");
                    }
                    RunError::io("read", &self.path)(error)
                })?,
                (Some(direct), By::Vfs) => self.read_by_vfs(direct, number, part)?,
                _ => self.read_by_sqlite(number, part)?,
            }
            (number, rest) = (number + run, behind);
        }
        self.blank(first, out);
        self.observer.as_ref().map_or(Ok(()), |observer| observer(first, out))
    }

    /// Pages that the VFS refuses are requested from SQLite, which reports the reason.
    fn read_by_vfs(&self, direct: &Direct, first: u32, out: &mut [u8]) -> Result<(), RunError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let read = direct.read_by_vfs(&mut connection, first, out);
        drop(connection);
        if read { Ok(()) } else { self.read_by_sqlite(first, out) }
    }

    fn read_by_sqlite(&self, first: u32, out: &mut [u8]) -> Result<(), RunError> {
        let failed =
            |source| RunError::Database { action: "read", path: self.path.clone(), source };
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut query = connection.prepare_cached(READ_PAGE).map_err(failed)?;
        for (page, number) in out.chunks_exact_mut(self.page_len()).zip(first..) {
            let copy = |row: &Row<'_>| {
                let bytes = row.get_ref(0)?.as_blob()?;
                let fits = bytes.len() == page.len();
                if fits {
                    page.copy_from_slice(bytes);
                }
                Ok(fits)
            };
            match query.query_row([number], copy) {
                Ok(true) => {}
                Ok(false) => return Err(self.changed("a page has another size")),
                Err(rusqlite::Error::QueryReturnedNoRows) => {
                    return Err(self.changed("a page is gone"));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Zeros bytes that no restored database may depend on: the page of the lock bytes, and the
    /// reserved bytes of an encrypted database.
    fn blank(&self, first: u32, pages: &mut [u8]) {
        blank(first, pages, self.page_len(), self.zeroed);
    }

    /// Checks that nobody changed the file without SQLite's locks, as far as that can be detected.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let mut now = self.look()?;
        if self.is_rewritten(&now) {
            // Its header may have been written between the two readings.
            now = self.look()?;
        }
        if now.identity != self.seen.identity {
            return Err(self.changed("another file took its place"));
        }
        let whole = u64::from(self.pages) * u64::from(self.page_size);
        if now.len < self.seen.len.min(whole) {
            return Err(self.changed("its file was cut"));
        }
        if self.is_rewritten(&now) {
            return Err(self.changed("its file was written to"));
        }
        Ok(())
    }

    /// Runs SQLite's quick_check on the snapshot. It cannot run if it needs something that only the
    /// database's application has, such as a module of a virtual table.
    ///
    /// # Errors
    /// `CorruptSource`; `Database` if the file cannot be read; `Cancelled`.
    pub(crate) fn check_structure(&self, run: &Run<'_>) -> Result<Checked, RunError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let stop = connection.get_interrupt_handle();
        let done = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if run.check().is_err() {
                        stop.interrupt();
                    }
                    std::thread::park_timeout(CANCEL_WAIT);
                }
            });
            let found = stand_in_for_collations(&connection).and_then(|()| {
                pass_over_constraints(&connection)?;
                let sql = "PRAGMA main.quick_check(1)";
                connection.query_row(sql, [], |row| row.get::<_, String>(0))
            });
            done.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            found
        });
        run.check()?;
        let corrupt = |problem| RunError::CorruptSource { path: self.path.clone(), problem };
        match found {
            Ok(found) if found == "ok" => Ok(Checked::Sound),
            Ok(found) => Err(corrupt(found)),
            Err(error) if is_corrupt(&error) => Err(corrupt(error.to_string())),
            Err(source) if is_unreadable(&source) => {
                let path = self.path.clone();
                Err(RunError::Database { action: "check", path, source })
            }
            Err(error) => Ok(Checked::Failed(error.to_string())),
        }
    }

    fn look(&self) -> Result<Seen, RunError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match Seen::of(&self.path, &mut connection, self.encrypted_file_id.is_some()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.changed("its file was removed"))
            }
            seen => seen.map_err(RunError::io("read", &self.path)),
        }
    }

    /// Returns true if more of the file than its header was written while nobody may write pages. A
    /// key change writes headers beside readers.
    fn is_rewritten(&self, now: &Seen) -> bool {
        let Seen { header, len, modified, .. } = self.seen;
        let only_header = header.is_some() && now.header.is_some() && header != now.header;
        let is_same = len == now.len && (modified == now.modified || only_header);
        self.facts.journal_mode != "wal" && !is_same
    }

    fn changed(&self, reason: &str) -> RunError {
        RunError::SourceChanged { path: self.path.clone(), reason: reason.to_owned() }
    }
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn is_unreadable(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen
        )
    )
}

fn blank(first: u32, pages: &mut [u8], page_len: usize, zeroed: usize) {
    for (page, number) in pages.chunks_exact_mut(page_len).zip(u64::from(first)..) {
        if number == LOCK_BYTES / page_len as u64 + 1 {
            page.fill(0);
        }
        let at = page.len().saturating_sub(zeroed);
        page[at..].fill(0);
    }
}

/// Starts the read transaction, as its first statement.
fn tables(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name LIMIT ?1";
    let mut query = connection.prepare(sql)?;
    let name = |row: &Row<'_>| {
        let bytes = row.get_ref(0)?.as_bytes_or_null()?.unwrap_or_default();
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    query.query_map([MAX_TABLES], name)?.collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use tdekit_key_crypto::{Algorithm, SecretBytes};
    use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, Unlock};
    use tdekit_sqlite_convert::{Form, Options, Unwatched, convert};

    use super::*;

    #[test]
    fn the_lock_page_and_reserved_bytes_are_blank() {
        for page_len in [512, 4096, 65536] {
            let lock_page =
                u32::try_from(LOCK_BYTES).unwrap() / u32::try_from(page_len).unwrap() + 1;
            let mut pages = vec![7; 3 * page_len];
            blank(lock_page - 1, &mut pages, page_len, 48);
            for (n, page) in pages.chunks(page_len).enumerate() {
                let (body, reserve) = page.split_at(page_len - 48);
                assert!(body.iter().all(|byte| *byte == if n == 1 { 0 } else { 7 }));
                assert_eq!(reserve, [0; 48]);
            }
        }
    }

    /// The key store that opens databases is one for the process.
    static KEY_STORE: Mutex<()> = Mutex::new(());

    /// Makes an encrypted database in `dir`, with a few pages in its log if `mode` is "wal".
    fn encrypted(dir: &Path, mode: &str) -> DatabaseSource {
        let path = dir.join("app.db");
        let plain = Connection::open(&path).unwrap();
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, a);
            WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 900)
            INSERT INTO t SELECT x, randomblob(900) FROM n";
        plain.execute_batch(sql).unwrap();
        drop(plain);
        let key = SecretBytes::from_slice(&[1; 32]).unwrap();
        let unlock = Unlock::Key { key, origin: "test".to_owned() };
        let mut store =
            KeyStore::create(&dir.join("keys"), &unlock, PasswordParams::default()).unwrap();
        let expires_at = i64::from(u32::MAX);
        let new = NewCertificate { name: "C", subject: None, key_type: None, expires_at };
        let certificates = vec![store.create_certificate(&new).unwrap()];
        let form = Form::Encrypted { certificates, algorithm: Algorithm::Aes256 };
        convert(&path, &form, &Options::default(), &Arc::new(store), &Unwatched).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
        connection.execute_batch("UPDATE t SET a = 'in the log' WHERE id % 300 = 0").unwrap();
        DatabaseSource { connection, path, encrypted_file_id: Some([0; 16]) }
    }

    #[test]
    fn pages_of_an_encrypted_database_are_read_past_sqlite() {
        let _alone = KEY_STORE.lock().unwrap_or_else(PoisonError::into_inner);
        for (mode, logged) in [("delete", 0), ("wal", 3)] {
            let dir = tempfile::tempdir().unwrap();
            let snapshot = Snapshot::open(encrypted(dir.path(), mode)).unwrap();
            let pages = snapshot.pages();
            let direct = snapshot.direct.as_ref().expect(mode);
            let by_vfs =
                (1..=pages).filter(|page| direct.run(*page, page + 1) == (By::Vfs, 1)).count();
            assert_eq!(by_vfs, pages as usize - logged, "{mode}");
            let mut all = vec![0; snapshot.page_len() * pages as usize];
            snapshot.read(1, &mut all).unwrap();
            let mut slowly = vec![0; all.len()];
            snapshot.read_by_sqlite(1, &mut slowly).unwrap();
            snapshot.blank(1, &mut slowly);
            assert!(all == slowly, "{mode}");
            snapshot.check().unwrap();
        }
    }

    /// Headers are written beside readers; all other writes without the locks are detected.
    #[test]
    fn a_header_that_was_written_is_told_from_pages_that_were() {
        let _alone = KEY_STORE.lock().unwrap_or_else(PoisonError::into_inner);
        const SLOT: usize = 8192;
        let dir = tempfile::tempdir().unwrap();
        let snapshot = Snapshot::open(encrypted(dir.path(), "delete")).unwrap();
        // Kept open: closing it would drop the snapshot's lock.
        let file = File::options().read(true).write(true).open(dir.path().join("app.db")).unwrap();
        let mut sequence = [0; 8];
        file.read_exact_at(&mut sequence, SLOT as u64 + 24).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let next = u64::from_le_bytes(sequence) + 2;
        file.write_all_at(&next.to_le_bytes(), SLOT as u64 + 24).unwrap();
        snapshot.check().unwrap();
        let again = Snapshot { seen: snapshot.look().unwrap(), ..snapshot };
        std::thread::sleep(Duration::from_millis(20));
        file.write_all_at(&[0; 8], 2 * SLOT as u64 + 4096).unwrap();
        assert!(matches!(again.check(), Err(RunError::SourceChanged { .. })));
    }
}
