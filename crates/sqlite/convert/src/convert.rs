//! Turns a plain database into an encrypted one and back.
//!
//! A copy is made beside the database, checked, made durable and renamed over it, all under a lock
//! that excludes everyone else. A crash at any point leaves the old database or the new one, whole,
//! and perhaps the unfinished copy, which the next run removes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{
    AuditAction, CertificateInfo, StoreError, Unlocked, is_history, thumbprint,
};
use tdekit_sqlite::keyring;
use tdekit_sqlite_page::{HEADER_AREA_LEN, Header, MIN_PAGE_SIZE, PageSize, RESERVE_LEN};

use crate::certificates;
use crate::copy::{self, Unknown};
use crate::error::{DatabaseError, io_error};
use crate::inspect::{FileKind, certificates_of, header_of, open_header, read_area};
use crate::keep::Kept;
use crate::logged::{self, log_target};
use crate::source::{Hold, Source, database_path, open_file, pragma, refuse_other_names};
use crate::step::Step;
use crate::target::{Target, remove_side_files, spoil_unlinked, sync_directory};
use crate::verify;
use crate::watch::{Watch, go_on};

/// Space that a copy may take beyond its pages: its header area, and its journal's header.
const EXTRA_BYTES: u64 = 1 << 20;
/// Offset of the number of reserved bytes in a plain database.
const RESERVED_OFFSET: usize = 20;

/// The form that a database is converted to.
#[derive(Debug, Clone)]
pub enum Form {
    /// Plain.
    Plain,
    /// Encrypted.
    Encrypted {
        /// The certificates that wrap its key.
        certificates: Vec<CertificateInfo>,
        /// The algorithm for its pages.
        algorithm: Algorithm,
    },
}

/// Options of a conversion.
#[derive(Debug, Default)]
pub struct Options {
    /// Page size of the result; `None` for the original's, or the smallest possible.
    pub page_size: Option<PageSize>,
    /// Keep the original under this name.
    pub keep: Option<PathBuf>,
    /// Compare every row, and check the copy's structure.
    pub verify: bool,
}

/// Result of a conversion.
#[derive(Debug)]
pub struct Converted {
    /// The database's resolved path.
    pub path: PathBuf,
    /// Page size of the original, bytes.
    pub old_page_size: u32,
    /// Page size of the result, bytes.
    pub page_size: u32,
    /// Reason why the new name may not be on disk yet.
    pub not_synced: Option<DatabaseError>,
    /// Functions and collations of its schema that only the application has.
    pub unknown: Unknown,
    /// Reason why the key store could not record the change.
    pub not_recorded: Option<StoreError>,
}

/// Converts the database `name`.
///
/// # Errors
/// After any error the database is unchanged, and the copy is removed.
pub fn convert(
    name: &Path,
    form: &Form,
    options: &Options,
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<Converted, DatabaseError> {
    keyring::set_unlocked(Arc::clone(unlocked));
    let path = database_path(name)?;
    if is_history(&path) {
        let problem = "is the history of a key store";
        return Err(DatabaseError::NotAFile { path, problem });
    }
    // Checked before anything is made beside it. Closing the file here does not drop a lock of
    // SQLite's yet.
    check(&path, &open_file(&path)?, form, unlocked)?;
    let target = Target::create(&path)?;
    watch.done(Step::Created);
    let work = Work::begin(&path, (form, options), unlocked, watch)?;
    watch.done(Step::Locked);
    target.check_space(work.expected_bytes + EXTRA_BYTES)?;
    work.copy_into(&target)?;
    watch.done(Step::Copied);
    let copied = work.check(&target)?;
    watch.done(Step::Checked);
    target.take_metadata(&work.source.file)?;
    target.sync()?;
    watch.done(Step::Durable);
    work.replace(&target, &copied)
}

/// Fills the empty `target` with an encrypted copy of `source`, and checks the copy as [`convert`]
/// does. Returns the new file's identifier.
///
/// # Errors
/// As [`convert`]; the caller must then remove the target.
pub fn copy_encrypted(
    source: Source,
    (form, options): (&Form, &Options),
    unlocked: &Unlocked,
    target: &Target,
    watch: &dyn Watch,
) -> Result<[u8; 16], DatabaseError> {
    let work = Work::over(source, Vec::new(), (form, options), unlocked, watch)?;
    work.copy_into(target)?;
    let copied = work.check(target)?;
    copied.file_id.ok_or_else(|| work.wrong("it is not encrypted"))
}

/// A conversion in progress.
struct Work<'a> {
    source: Source,
    /// First bytes of the original.
    area: Vec<u8>,
    form: &'a Form,
    options: &'a Options,
    unlocked: &'a Unlocked,
    watch: &'a dyn Watch,
    old_page_size: u32,
    expected_bytes: u64,
}

/// A checked copy.
struct Copied {
    page_size: u32,
    /// Identifier of the new file, if it is encrypted.
    file_id: Option<[u8; 16]>,
}

impl<'a> Work<'a> {
    fn begin(
        path: &Path,
        (form, options): (&'a Form, &'a Options),
        unlocked: &'a Unlocked,
        watch: &'a dyn Watch,
    ) -> Result<Self, DatabaseError> {
        let source = Source::open(path, Hold::Everyone)?;
        // The file may have been replaced before the lock was taken.
        let area = check(path, &source.file, form, unlocked)?;
        if let Some(keep) = &options.keep {
            Kept::check(keep, &source.file)?;
        }
        refuse_other_names(path, &source.file, options.keep.as_deref())?;
        Self::over(source, area, (form, options), unlocked, watch)
    }

    fn over(
        source: Source,
        area: Vec<u8>,
        (form, options): (&'a Form, &'a Options),
        unlocked: &'a Unlocked,
        watch: &'a dyn Watch,
    ) -> Result<Self, DatabaseError> {
        let numbers = || -> rusqlite::Result<(u32, u32, u32)> {
            let db = &source.db;
            Ok((pragma(db, "page_size")?, pragma(db, "page_count")?, pragma(db, "freelist_count")?))
        };
        let (old_page_size, pages, free) = numbers().map_err(source.failed("examine"))?;
        let usable = u64::from(old_page_size) * u64::from(pages.saturating_sub(free));
        let reserve = RESERVE_LEN as u64 * u64::from(pages);
        let expected_bytes = usable + reserve + HEADER_AREA_LEN;
        Ok(Self { source, area, form, options, unlocked, watch, old_page_size, expected_bytes })
    }

    /// Fills the copy. It is not synced while it is filled, but once, when it is whole.
    fn copy_into(&self, target: &Target) -> Result<(), DatabaseError> {
        let db = &self.source.db;
        let prepare = || -> rusqlite::Result<()> {
            db.pragma_update(Some("main"), "synchronous", "OFF")?;
            if let Some(size) = self.new_page_size() {
                db.pragma_update(None, "page_size", size)?;
            }
            Ok(())
        };
        prepare().map_err(self.source.failed("prepare to copy"))?;
        let parameters = match self.form {
            Form::Plain => "tdekit=plain&reserve=0".to_owned(),
            Form::Encrypted { certificates, algorithm } => {
                let thumbprints: Vec<_> =
                    certificates.iter().map(|info| thumbprint(&info.sha256)).collect();
                format!(
                    "tdekit_certificate={}&tdekit_algorithm={algorithm}&reserve={RESERVE_LEN}",
                    thumbprints.join(",")
                )
            }
        };
        copy::copy(&self.source, target, &parameters, self.expected_bytes, self.watch)
    }

    /// Returns the page size to set, if it differs from the original's.
    fn new_page_size(&self) -> Option<u32> {
        match (self.options.page_size, self.form) {
            (Some(size), _) => Some(size.bytes()),
            // Smaller pages leave too little space beside the seal.
            (None, Form::Encrypted { .. }) if self.old_page_size < MIN_PAGE_SIZE => {
                Some(MIN_PAGE_SIZE)
            }
            (None, _) => None,
        }
    }

    /// Checks the copy and gives it the original's journal mode.
    fn check(&self, target: &Target) -> Result<Copied, DatabaseError> {
        let source = &self.source;
        let copy = verify::open_copy(source, target)?;
        verify::compare_schema(source, &copy)?;
        if self.options.verify {
            verify::verify_content(source, &copy, self.watch)?;
        }
        let finish = || -> rusqlite::Result<(u32, u32)> {
            if source.wal {
                // The change of mode itself needs no durable journal.
                copy.query_row("PRAGMA main.journal_mode=MEMORY", [], |_| Ok(()))?;
                copy.query_row("PRAGMA main.journal_mode=WAL", [], |_| Ok(()))?;
            }
            Ok((pragma(&copy, "page_size")?, pragma(&copy, "page_count")?))
        };
        let action = "finish the copy of";
        let (page_size, pages) =
            finish().map_err(DatabaseError::sqlite(action, &source.path, Some(&copy)))?;
        let closed = copy.close().map_err(|(_, error)| error);
        closed.map_err(DatabaseError::sqlite(action, &source.path, None))?;
        let area = read_area(target.file()).map_err(io_error("read", target.path()))?;
        match (self.form, FileKind::of(&area)) {
            (Form::Plain, FileKind::Plain) if area.get(RESERVED_OFFSET) == Some(&0) => {
                Ok(Copied { page_size, file_id: None })
            }
            (Form::Encrypted { certificates, algorithm }, FileKind::Encrypted) => {
                let header = header_of(target.path(), &area)?;
                let wrapped = certificates_of(&header);
                let all = certificates.iter().all(|info| wrapped.contains(&info.sha256));
                if !all || header.algorithm != *algorithm {
                    return Err(self.wrong("certificates or algorithm are others"));
                }
                let file_id = self.check_sealed(target, &area, page_size, pages)?;
                Ok(Copied { page_size, file_id: Some(file_id) })
            }
            _ => Err(self.wrong("it is of another form")),
        }
    }

    /// Checks an encrypted copy with its keys unwrapped from the file, as the next reader must get
    /// them. Returns the file's identifier.
    fn check_sealed(
        &self,
        target: &Target,
        area: &[u8],
        page_size: u32,
        pages: u32,
    ) -> Result<[u8; 16], DatabaseError> {
        let bad_header = |source| DatabaseError::Header { path: target.path().to_owned(), source };
        let (header, keys) = open_header(target.path(), area, self.unlocked)?;
        let page_size = PageSize::new(u64::from(page_size)).map_err(bad_header)?;
        if header.page_size != page_size {
            // It was written before SQLite reported the final page size.
            let sequence = header.sequence + 1;
            let dek = keys.dek(header.current).map_err(bad_header)?;
            let header = Header { sequence, page_size, ..header };
            let area = header.encode_area(dek).map_err(bad_header)?;
            target.file().write_all_at(&area, 0).map_err(io_error("write", target.path()))?;
        }
        let file_id = keys.file_id;
        verify::authenticate(&self.source, target, keys, (page_size, pages), self.watch)?;
        Ok(file_id)
    }

    fn wrong(&self, problem: &str) -> DatabaseError {
        let path = self.source.path.clone();
        DatabaseError::Verification { path, problem: problem.to_owned() }
    }

    /// Replaces the original by the copy.
    fn replace(self, target: &Target, copied: &Copied) -> Result<Converted, DatabaseError> {
        let logged = self.log(target)?;
        let recorded = copied.file_id.map_or(Ok(()), |file_id| {
            certificates::record(self.form, self.unlocked, file_id, &self.source.path)
        });
        self.watch.done(Step::Recorded);
        if let Err(error) = self.swap(target) {
            if let Some(file_id) = copied.file_id {
                let path = &self.source.path;
                let _ = certificates::forget(self.form, self.unlocked, file_id, path);
            }
            return Err(error);
        }
        // Too late to turn back.
        let synced = sync_directory(&self.source.path);
        self.watch.done(Step::Settled);
        let page_one = match self.form {
            Form::Plain => HEADER_AREA_LEN,
            Form::Encrypted { .. } => 0,
        };
        if synced.is_ok() {
            spoil_unlinked(&self.source.file, page_one);
        }
        let forgotten = match self.form {
            Form::Plain => self.forget_original(),
            Form::Encrypted { .. } => Ok(()),
        };
        Ok(Converted {
            path: self.source.path.clone(),
            old_page_size: self.old_page_size,
            page_size: copied.page_size,
            not_synced: synced.err(),
            unknown: copy::unknown_names(),
            not_recorded: logged.or(recorded.and(forgotten).err()),
        })
    }

    /// Logs the change of the database.
    fn log(&self, target: &Target) -> Result<Option<StoreError>, DatabaseError> {
        let path = &self.source.path;
        match self.form {
            Form::Encrypted { .. } => {
                log_target(AuditAction::Encrypted, (target, path), self.unlocked)
            }
            Form::Plain => {
                let header = header_of(path, &self.area)?;
                logged::log(AuditAction::Decrypted, path, &header, self.unlocked)
            }
        }
    }

    fn swap(&self, target: &Target) -> Result<(), DatabaseError> {
        let (source, watch) = (&self.source, self.watch);
        let keep = self.options.keep.as_deref();
        let kept = keep.map(|keep| Kept::make(keep, source, watch)).transpose()?;
        watch.done(Step::Kept);
        source.check_alone()?;
        go_on(watch)?;
        // The rest of a journal belonged to its last transaction, and a log is empty; the new
        // database must not find them.
        if remove_side_files(&source.path)? {
            sync_directory(&source.path)?;
        }
        watch.done(Step::Unlinked);
        target.replace_database()?;
        watch.done(Step::Renamed);
        if let Some(kept) = kept {
            kept.keep();
        }
        Ok(())
    }

    fn forget_original(&self) -> Result<(), StoreError> {
        let Ok(header) = header_of(&self.source.path, &self.area) else { return Ok(()) };
        self.unlocked.store().forget_path(header.file_id, &self.source.path)
    }
}

/// Checks that the file can be converted, and returns its first bytes.
fn check(
    path: &Path,
    file: &File,
    form: &Form,
    unlocked: &Unlocked,
) -> Result<Vec<u8>, DatabaseError> {
    let area = read_area(file).map_err(io_error("read", path))?;
    let owned = || path.to_owned();
    match (FileKind::of(&area), form) {
        (FileKind::Plain | FileKind::Empty, Form::Encrypted { .. }) => Ok(area),
        (FileKind::Encrypted, Form::Plain) => {
            open_header(path, &area, unlocked)?;
            Ok(area)
        }
        (FileKind::Encrypted, Form::Encrypted { .. }) => {
            Err(DatabaseError::AlreadyEncrypted { path: owned() })
        }
        (FileKind::Plain | FileKind::Empty, Form::Plain) => {
            Err(DatabaseError::NotEncrypted { path: owned() })
        }
        (FileKind::Other, _) => Err(DatabaseError::NotADatabase { path: owned() }),
    }
}
