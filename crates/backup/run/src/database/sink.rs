//! The destination of a restored database's pages: a plain file, an encrypted one, or one that is
//! sealed for this process alone, from which they are copied to an encrypted one.
//!
//! All are written beside the final name, which [`DatabaseSink::publish`] gives at the end. No page
//! of a database that must be encrypted is ever on disk in the clear.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tdekit_key_store::{AuditAction, AuditDatabase, AuditKey, StoreError, Unlocked, thumbprint};
use tdekit_sqlite::keyring::{self, NewDatabase};
use tdekit_sqlite::scratch::Scratch;
use tdekit_sqlite_convert::{
    DatabaseError, Form, Options, Phase, Source, Target, Watch, audited_target, check_pages,
    copy_encrypted, file_uri, interruptible, io_error, register,
};
use tdekit_sqlite_page::{FileKeys, HEADER_AREA_LEN, PageCodec, PageSize};

use super::ownership::Ownership;
use super::publish::{Naming, publish};
use crate::buffer::Aligned;
use crate::file::Room;
use crate::{PageSink, RunError};

/// The name of the staged pages, beside the file being made.
const STAGE_NAME: &str = "tdekit-stage";
/// Space beyond the pages, as for a conversion.
const EXTRA_BYTES: u64 = 1 << 20;
/// Bytes 18 and 19 of a database whose journal is a write-ahead log (SQLite file format, 1.3.3).
const WAL_VERSIONS: &[u8] = &[2, 2];

/// The form of a restored database.
pub struct Wanted {
    /// Its final path, resolved.
    pub path: PathBuf,
    /// True if an existing file may be replaced.
    pub replace: bool,
    /// Plain or encrypted.
    pub form: Form,
    /// True if its pages have space for a seal: the database that was backed up was encrypted.
    pub sealable: bool,
    /// True if SQLite must check the whole file before it gets its name.
    pub check: bool,
    /// Owner and permissions. A file that replaces another one has that one's by default.
    pub ownership: Ownership,
    /// The audit log's description of the set.
    pub set_key: AuditKey,
}

/// Result of publishing.
#[derive(Debug)]
pub struct Published {
    /// Reason why the new name may not be on disk yet.
    pub not_synced: Option<RunError>,
    /// Reason why the key store could not record an encrypted database.
    pub not_recorded: Option<StoreError>,
}

/// A database being restored.
pub struct DatabaseSink<'a> {
    wanted: Wanted,
    unlocked: Option<Arc<Unlocked>>,
    watch: &'a dyn Watch,
    pages: Option<Pages>,
    target: Target,
    count: u32,
    complete: bool,
}

/// The way in which pages are written.
enum Pages {
    Plain { page_size: u32, room: Room },
    Sealed { keys: FileKeys, size: PageSize, room: Room, sealers: Mutex<Vec<Sealer>> },
    Staged(Box<Staged>),
}

/// A thread's codec for sealing pages, and a buffer for them.
struct Sealer {
    codec: PageCodec,
    sealed: Aligned,
}

/// Pages that are sealed beside the future database.
struct Staged {
    scratch: Scratch,
    /// Their path.
    path: PathBuf,
    file: File,
    /// True if the database's journal is a write-ahead log.
    wal: AtomicBool,
}

impl<'a> DatabaseSink<'a> {
    /// Makes the empty file beside the final name. An encrypted database needs the store.
    ///
    /// # Errors
    /// `Converting` if another run writes there, `Io`.
    pub fn new(
        wanted: Wanted,
        unlocked: Option<Arc<Unlocked>>,
        watch: &'a dyn Watch,
    ) -> Result<Self, RunError> {
        register().map_err(DatabaseError::sqlite("prepare to restore", &wanted.path, None))?;
        let target = Target::create(&wanted.path)?;
        // What the system refuses is refused before the work.
        wanted.ownership.give(target.file(), &wanted.path)?;
        Ok(Self { wanted, unlocked, watch, target, pages: None, count: 0, complete: false })
    }

    /// Finishes the database and gives it its name.
    ///
    /// # Errors
    /// `InUse`, `Verification`, `Io`; the content of the name is then unchanged.
    pub fn publish(mut self) -> Result<Published, RunError> {
        let unfinished = || DatabaseError::Verification {
            path: self.wanted.path.clone(),
            problem: "pages are missing".to_owned(),
        };
        let pages = self.pages.take().filter(|_| self.complete).ok_or_else(unfinished)?;
        let file_id = match pages {
            Pages::Plain { page_size, .. } => {
                self.set_len(u64::from(self.count) * u64::from(page_size))?;
                None
            }
            Pages::Sealed { keys, size, .. } => {
                let pages = u64::from(self.count) * u64::from(size.bytes());
                self.set_len(HEADER_AREA_LEN + pages)?;
                Some(keys.file_id)
            }
            Pages::Staged(staged) => Some(self.copy_staged(&staged)?),
        };
        if self.wanted.check {
            self.check()?;
        }
        let logged = self.log()?;
        let recorded = file_id.map_or(Ok(()), |file_id| self.record(file_id));
        let Wanted { path, replace, ownership, .. } = &self.wanted;
        let naming = Naming { path, replace: *replace, ownership: *ownership };
        let not_synced = publish(&self.target, &naming, self.watch)?;
        Ok(Published { not_synced, not_recorded: logged.or(recorded.err()) })
    }

    fn set_len(&self, bytes: u64) -> Result<(), RunError> {
        let set = self.target.file().set_len(bytes);
        Ok(set.map_err(io_error("truncate", self.target.path()))?)
    }

    fn start(&mut self, page_size: u32, pages: u64) -> Result<Pages, RunError> {
        self.count = u32::try_from(pages).map_err(|_| DatabaseError::Verification {
            path: self.wanted.path.clone(),
            problem: format!("SQLite has no database of {pages} pages"),
        })?;
        let bytes = pages.saturating_mul(u64::from(page_size));
        let header = |source| DatabaseError::Header { path: self.wanted.path.clone(), source };
        let Form::Encrypted { certificates, algorithm } = &self.wanted.form else {
            self.target.check_space(bytes)?;
            let room = self.reserve(bytes)?;
            return Ok(Pages::Plain { page_size, room });
        };
        if !self.wanted.sealable {
            self.target.check_space(bytes.saturating_mul(2).saturating_add(EXTRA_BYTES))?;
            let (file, path) = self.target.create_other(STAGE_NAME)?;
            let pages = file.try_clone().map_err(io_error("open", &path))?;
            let scratch = Scratch::new(pages, page_size).map_err(|error| self.vfs(error))?;
            let wal = AtomicBool::new(false);
            return Ok(Pages::Staged(Box::new(Staged { scratch, path, file, wal })));
        }
        let len = bytes.saturating_add(HEADER_AREA_LEN);
        self.target.check_space(len)?;
        let room = self.reserve(len)?;
        let size = PageSize::new(u64::from(page_size)).map_err(header)?;
        let certificates = certificates.iter().map(|info| thumbprint(&info.sha256)).collect();
        let new = NewDatabase { certificates, algorithm: *algorithm, freshness: false };
        let (opened, area) = keyring::create_header(&new, size).map_err(|error| self.vfs(error))?;
        let target = &self.target;
        target.file().write_all_at(&area, 0).map_err(io_error("write", target.path()))?;
        Ok(Pages::Sealed { keys: opened.keys, size, room, sealers: Mutex::new(Vec::new()) })
    }

    /// A file that will be checked is read again at once.
    fn reserve(&self, len: u64) -> Result<Room, RunError> {
        Room::reserve(self.target.file(), self.target.path(), len, self.wanted.check)
    }

    fn put(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let (file, path) = (self.target.file(), self.target.path());
        match &self.pages {
            None => Err(self.wrong("it has pages before its size is known")),
            Some(Pages::Plain { page_size, room }) => {
                let at = u64::from(first.saturating_sub(1)) * u64::from(*page_size);
                Ok(room.write(file, bytes, at).map_err(io_error("write", path))?)
            }
            Some(Pages::Sealed { keys, size, room, sealers }) => {
                let take = || sealers.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = take().pop().filter(|sealer| sealer.sealed.len() >= bytes.len());
                let new = || Sealer {
                    codec: PageCodec::new(keys.clone()),
                    sealed: Aligned::new(bytes.len()),
                };
                let mut sealer = kept.unwrap_or_else(new);
                let Sealer { codec, sealed } = &mut sealer;
                let sealed = &mut sealed[..bytes.len()];
                let pages = bytes.chunks_exact(size.len()).zip(sealed.chunks_exact_mut(size.len()));
                for (page, (plain, sealed)) in (first..).zip(pages) {
                    codec.seal(page, plain, sealed).map_err(|source| DatabaseError::Header {
                        path: self.wanted.path.clone(),
                        source,
                    })?;
                }
                let at = size.page_offset(first);
                room.write(file, sealed, at).map_err(io_error("write", path))?;
                take().push(sealer);
                Ok(())
            }
            Some(Pages::Staged(staged)) => {
                if first == 1 {
                    staged.wal.store(bytes.get(18..20) == Some(WAL_VERSIONS), Ordering::Relaxed);
                }
                staged.scratch.write(first, bytes).map_err(|error| self.vfs(error))
            }
        }
    }

    /// Copies the staged pages to the encrypted database. Returns its identifier.
    fn copy_staged(&self, staged: &Staged) -> Result<[u8; 16], RunError> {
        let Staged { scratch, path: stage, file, wal } = staged;
        scratch.set_pages(self.count);
        let path = &self.wanted.path;
        let uri = format!("{}?{}", file_uri(stage), scratch.parameters());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(uri, flags).map_err(DatabaseError::sqlite(
            "read back",
            path,
            None,
        ))?;
        let file = file.try_clone().map_err(io_error("open", stage))?;
        let wal = wal.load(Ordering::Relaxed);
        let source = Source { db, file: file.into(), path: path.clone(), wal };
        let unlocked = self.unlocked.as_ref().ok_or_else(|| self.wrong("no key store is open"))?;
        let wanted = (&self.wanted.form, &Options::default());
        Ok(copy_encrypted(source, wanted, unlocked, &self.target, self.watch)?)
    }

    /// Makes SQLite check the file as it is, without a journal or log of its own.
    fn check(&self) -> Result<(), RunError> {
        let plain = match self.wanted.form {
            Form::Plain => "&tdekit=plain",
            Form::Encrypted { .. } => "",
        };
        let uri = format!("{}?mode=ro&immutable=1{plain}", file_uri(self.target.path()));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let failed = |db| DatabaseError::sqlite("check", &self.wanted.path, db);
        let db = Connection::open_with_flags(uri, flags).map_err(failed(None))?;
        let phase = Phase::begin(self.watch, "checking: integrity_check", None);
        let found = interruptible(&db, self.watch, || 0, || check_pages(&db, "integrity_check"));
        drop(phase);
        match found.map_err(failed(Some(&db)))? {
            found if found == "ok" => Ok(()),
            found => Err(self.wrong(&format!("integrity_check: {found}"))),
        }
    }

    /// Logs the place of the database, and its key: its own, or for a plain one that of the set.
    fn log(&self) -> Result<Option<StoreError>, RunError> {
        let Some(unlocked) = &self.unlocked else { return Ok(None) };
        let path = &self.wanted.path;
        let database = match self.wanted.form {
            Form::Encrypted { .. } => {
                let mut database = audited_target(&self.target, path, unlocked)?;
                database.key.media.clone_from(&self.wanted.set_key.media);
                database
            }
            Form::Plain => {
                let key = self.wanted.set_key.clone();
                AuditDatabase { path: path.clone(), file_id: None, key }
            }
        };
        Ok(unlocked.log_database(AuditAction::Restored, &database)?)
    }

    /// Records the new file in the key store before it has its name, so that no crash leaves a file
    /// whose certificate it would drop.
    fn record(&self, file_id: [u8; 16]) -> Result<(), StoreError> {
        let (Form::Encrypted { certificates, .. }, Some(unlocked)) =
            (&self.wanted.form, &self.unlocked)
        else {
            return Ok(());
        };
        let store = unlocked.store();
        certificates
            .iter()
            .try_for_each(|info| store.record_use(&info.sha256, file_id, &self.wanted.path))
    }

    fn wrong(&self, problem: &str) -> RunError {
        let path = self.wanted.path.clone();
        DatabaseError::Verification { path, problem: problem.to_owned() }.into()
    }

    fn vfs(&self, source: tdekit_sqlite::VfsError) -> RunError {
        vfs_error(&self.wanted.path, source)
    }
}

impl PageSink for DatabaseSink<'_> {
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError> {
        self.pages = Some(self.start(page_size, pages)?);
        Ok(())
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        self.put(first, bytes)
    }

    /// Only records that all pages were written: [`DatabaseSink::publish`] gives the name.
    fn finish(&mut self) -> Result<(), RunError> {
        self.complete = true;
        Ok(())
    }
}

/// Returns the VFS's own error for the database at `path`.
pub(crate) fn vfs_error(path: &Path, error: tdekit_sqlite::VfsError) -> RunError {
    use tdekit_sqlite::VfsError;
    match error {
        VfsError::Store(error) | VfsError::Key(error) => error.into(),
        VfsError::Page(source) => DatabaseError::Header { path: path.to_owned(), source }.into(),
        VfsError::File(source) => io_error("write", path)(source).into(),
        other => {
            let problem = other.to_string();
            DatabaseError::Verification { path: path.to_owned(), problem }.into()
        }
    }
}
