//! The examination of a database: header, keys, certificates, and every page as its users read it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde::{Serialize, Serializer};
use tdekit_key_crypto::Kind;
use tdekit_key_store::is_history;
use tdekit_sqlite::keyring;
use tdekit_sqlite_page::{HEADER_AREA_LEN, PageSize};

use crate::copy::stand_in_for_collations;
use crate::emptied::refuse_emptied;
use crate::error::{DatabaseError, io_error};
use crate::ffi::{last_vfs_error, register};
use crate::inspect::{FileKind, read_area};
use crate::source::{pass_over_constraints, pragma, refuse_odd_sides};
use crate::status::{Encryption, Status, Store, status};
use crate::target::with_suffix;
use crate::versions::pages_by_key_version;
use crate::watch::{Phase, Watch, go_on, interruptible};
use tdekit_sqlite_client::file_uri;

/// Maximum number of pages that are listed individually.
const MOST_NAMED: u64 = 20;
/// Maximum number of structural faults that SQLite lists.
const MOST_STRUCTURE: u32 = 10;

/// Result of an examination.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// The properties that are known without opening the database.
    #[serde(flatten)]
    pub status: Status,
    /// Pages read through SQLite, from the log or the file; 0 if the key does not open.
    pub pages: u64,
    /// Number of these pages that do not open.
    pub damaged_pages: u64,
    /// Pages of an encrypted file, by the version of the key that sealed them.
    pub pages_by_key_version: BTreeMap<u32, u64>,
    /// Faults and risks.
    pub findings: Vec<Finding>,
}

/// A fault, or a risk that deserves attention.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Its name, for programs: `page`, `structure`, `header`, `key`, `certificate`, `lost`,
    /// `unreadable`.
    pub what: &'static str,
    /// Its severity: damage, a key that does not open, input or output, or a risk
    /// ([`Kind::Refused`]).
    #[serde(serialize_with = "weight")]
    pub kind: Kind,
    /// The fault in words.
    pub message: String,
}

fn weight<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match kind {
        Kind::Damaged => "damaged",
        Kind::Key => "key",
        Kind::Io => "io",
        Kind::Busy => "busy",
        Kind::Refused | Kind::Usage | Kind::NotVerified => "risk",
    })
}

/// Examines the database `name`. It is only read; others may use it in the meantime.
///
/// # Errors
/// As [`status()`]; `Interrupted`; errors of opening the database with a key that opens it.
pub fn examine(
    name: &Path,
    store: &Store<'_>,
    watch: &dyn Watch,
) -> Result<Examination, DatabaseError> {
    let status = status(name, store)?;
    let mut found = Examination {
        findings: status.encryption.as_ref().map_or_else(Vec::new, risks),
        status,
        pages: 0,
        damaged_pages: 0,
        pages_by_key_version: BTreeMap::new(),
    };
    if let Some(problem) = found.status.problem {
        found.add("lost", Kind::Damaged, format!("the file {problem}"));
    }
    let opens = found.status.encryption.as_ref().is_none_or(|encryption| encryption.key_opens);
    if opens {
        if let Ok(unlocked) = &*store.unlocked {
            keyring::set_unlocked(unlocked.clone());
        }
        read_pages(&mut found, watch)?;
    }
    let size = found.status.page_size.map(|bytes| PageSize::new(bytes.into()));
    if let (Some(Ok(size)), true) = (size, found.status.encryption.is_some()) {
        let path = &found.status.path;
        let file = File::open(path).map_err(io_error("open", path))?;
        found.pages_by_key_version = pages_by_key_version(path, &file, size, watch)?;
    }
    Ok(found)
}

/// Results of a search in a directory and below it, and the unreadable places.
#[derive(Debug)]
pub struct Search<T> {
    /// The results, by name.
    pub found: Vec<T>,
    /// Directories and files that could not be read, with the reason.
    pub unread: Vec<(PathBuf, DatabaseError)>,
}

/// Finds the databases in `directory` and below it, plain and encrypted, by name. Links are not
/// followed.
#[must_use]
pub fn databases_in(directory: &Path) -> Search<(PathBuf, FileKind)> {
    let (Search { found: files, mut unread }, _) = files_in(directory);
    let mut found = Vec::new();
    for path in files {
        match kind_of(&path) {
            // It may be a database that was overwritten.
            Ok(FileKind::Other) if has_usual_extension(&path) => {
                unread.push((path.clone(), DatabaseError::NotADatabase { path }));
            }
            Ok(FileKind::Empty | FileKind::Other) => {}
            Ok(kind) => found.push((path, kind)),
            Err(error) => unread.push((path, error)),
        }
    }
    Search { found, unread }
}

/// Usual file extensions of SQLite databases, and of those of its encrypting forks.
const EXTENSIONS: [&str; 8] =
    ["db", "db3", "sqlite", "sqlite3", "sqlitedb", "s3db", "sl3", "sqlcipher"];

/// Returns true if the file has a usual extension of databases.
pub(crate) fn has_usual_extension(path: &Path) -> bool {
    let extension = path.extension().map(OsStr::to_ascii_lowercase);
    extension.is_some_and(|found| EXTENSIONS.iter().any(|known| found == *known))
}

fn kind_of(path: &Path) -> Result<FileKind, DatabaseError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let area = read_area(&file).map_err(io_error("read", path))?;
    Ok(FileKind::of(&area))
}

/// Finds regular files in `directory` and below it, by name; second, links and special files. Links
/// are not followed.
pub(crate) fn files_in(directory: &Path) -> (Search<PathBuf>, Vec<PathBuf>) {
    let mut others = Vec::new();
    let mut search = Search { found: Vec::new(), unread: Vec::new() };
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        if let Err(error) = list(&directory, &mut left, (&mut search, &mut others)) {
            search.unread.push((directory, error));
        }
    }
    search.found.sort();
    others.sort();
    (search, others)
}

/// Adds the regular files of one directory to `search`, its links and special files to `others`,
/// and its directories to those left.
fn list(
    directory: &Path,
    left: &mut Vec<PathBuf>,
    (search, others): (&mut Search<PathBuf>, &mut Vec<PathBuf>),
) -> Result<(), DatabaseError> {
    for entry in fs::read_dir(directory).map_err(io_error("read", directory))? {
        let entry = entry.map_err(io_error("read", directory))?;
        let path = entry.path();
        match entry.file_type().map_err(io_error("examine", &path)) {
            Ok(kind) if kind.is_dir() => left.push(path),
            Ok(_) if is_history(&path) => {}
            Ok(kind) if kind.is_file() => search.found.push(path),
            Ok(_) => others.push(path),
            Err(error) => search.unread.push((path, error)),
        }
    }
    Ok(())
}

impl Examination {
    fn add(&mut self, what: &'static str, kind: Kind, message: String) {
        self.findings.push(Finding { what, kind, message });
    }
}

/// Returns the faults and risks that header and key store show.
fn risks(encryption: &Encryption) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |what, kind, message| findings.push(Finding { what, kind, message });
    if encryption.intact_header_slots < 2 {
        let message =
            "one of the header's two copies is damaged, or another file's; the other serves";
        add("header", Kind::Damaged, message.to_owned());
    }
    if let Some(problem) = &encryption.key_problem {
        add("key", Kind::Key, format!("the key does not open here: {problem}"));
    }
    for certificate in &encryption.certificates {
        let Some(name) = &certificate.name else {
            let thumbprint = &certificate.thumbprint;
            let message = format!("certificate {thumbprint} is not in the key store");
            add("certificate", Kind::Refused, message);
            continue;
        };
        if certificate.has_private_key && certificate.backed_up_at.is_none() {
            let message = format!("certificate {name} was never backed up");
            add("certificate", Kind::Refused, message);
        }
        if let (Some(days), Some(at)) = (certificate.expires_in_days, &certificate.expires_at) {
            let message = format!("certificate {name} expires in {days} day(s), at {at}");
            add("certificate", Kind::Refused, message);
        }
        if certificate.active == Some(false) {
            let message = format!("certificate {name} was rotated since: rewrap the database");
            add("certificate", Kind::Refused, message);
        }
    }
    findings
}

/// Reads every page through SQLite, and makes SQLite check the structure if all of them open.
fn read_pages(found: &mut Examination, watch: &dyn Watch) -> Result<(), DatabaseError> {
    let path = found.status.path.clone();
    register().map_err(DatabaseError::sqlite("prepare to open", &path, None))?;
    refuse_odd_sides(&path)?;
    let is_encrypted = found.status.encryption.is_some();
    refuse_emptied(&path, if is_encrypted { FileKind::Encrypted } else { FileKind::Plain })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file_uri(&path), flags)
        .map_err(DatabaseError::sqlite("open", &path, None))?;
    let failed = || DatabaseError::sqlite("read", &path, Some(&db));
    stand_in_for_collations(&db).map_err(failed())?;
    let begin = || db.execute_batch("BEGIN");
    begin().map_err(failed())?;
    let count: u32 = match pragma(&db, "page_count") {
        Ok(count) => count,
        Err(error) => {
            let error = DatabaseError::sqlite("read", &path, Some(&db))(error);
            if error.kind() != Kind::Damaged {
                return Err(error);
            }
            found.damaged_pages = 1;
            found.add("page", Kind::Damaged, format!("page 1 does not open: {error}"));
            return Ok(());
        }
    };
    let phase = Phase::begin(watch, "reading pages", Some(u64::from(count)));
    let sql = "SELECT length(data) FROM sqlite_dbpage('main') WHERE pgno = ?1";
    for page in 1..=count {
        go_on(watch)?;
        // An I/O error ends the transaction.
        if db.is_autocommit() {
            begin().map_err(failed())?;
        }
        let read = db
            .prepare_cached(sql)
            .and_then(|mut one| one.query_row([page], |row| row.get::<_, i64>(0)));
        found.pages += 1;
        if let Err(error) = read {
            found.damaged_pages += 1;
            if found.damaged_pages <= MOST_NAMED {
                let why = last_vfs_error(Some(&db)).unwrap_or_else(|| error.to_string());
                found.add("page", Kind::Damaged, format!("page {page} does not open: {why}"));
            }
        }
        phase.at(u64::from(page));
    }
    drop(phase);
    if let Some(more) = found.damaged_pages.checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        found.add("page", Kind::Damaged, format!("{more} more pages do not open"));
    }
    if found.damaged_pages == 0 {
        check_length(&db, count, found)?;
        check_structure(&db, found, watch)?;
    }
    Ok(())
}

/// Looks for bytes after the last page. While a log or a journal exists, the file may be longer
/// than the database; zeros are space that an application made SQLite allocate in advance.
fn check_length(db: &Connection, count: u32, found: &mut Examination) -> Result<(), DatabaseError> {
    let path = found.status.path.clone();
    let has = |suffix| fs::metadata(with_suffix(&path, suffix)).is_ok_and(|side| side.len() > 0);
    if has("-wal") || has("-journal") {
        return Ok(());
    }
    let size: u32 = pragma(db, "page_size").map_err(DatabaseError::sqlite("read", &path, None))?;
    let area = if found.status.encryption.is_some() { HEADER_AREA_LEN } else { 0 };
    let end = area + u64::from(count) * u64::from(size);
    let file = File::open(&path).map_err(io_error("open", &path))?;
    let len = file.metadata().map_err(io_error("examine", &path))?.len();
    let (mut at, mut chunk) = (end, vec![0; 64 << 10]);
    while at < len {
        let read = file.read_at(&mut chunk, at).map_err(io_error("read", &path))?;
        let bytes = chunk.get(..read).unwrap_or_default();
        if bytes.iter().any(|byte| *byte != 0) {
            let extra = len - end;
            let message = format!("{extra} bytes stand behind the last page, and are not SQLite's");
            found.add("length", Kind::Damaged, message);
            return Ok(());
        }
        if read == 0 {
            return Ok(());
        }
        at += read as u64;
    }
    Ok(())
}

fn check_structure(
    db: &Connection,
    found: &mut Examination,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    let path = found.status.path.clone();
    let phase = Phase::begin(watch, "checking the structure", None);
    let check = || -> rusqlite::Result<Vec<String>> {
        pass_over_constraints(db)?;
        let mut check = db.prepare(&format!("PRAGMA main.quick_check({MOST_STRUCTURE})"))?;
        check.query_map([], |row| row.get(0))?.collect()
    };
    let lines = interruptible(db, watch, || 0, check);
    drop(phase);
    match lines {
        Ok(lines) if lines == ["ok"] => {}
        Ok(lines) => {
            lines.into_iter().for_each(|line| found.add("structure", Kind::Damaged, line));
        }
        Err(error) => {
            go_on(watch)?;
            let error = DatabaseError::sqlite("check", &path, Some(db))(error);
            match error.kind() {
                Kind::Damaged => found.add("structure", Kind::Damaged, error.to_string()),
                // A function or virtual table that only the application has.
                _ => found.add("structure", Kind::Refused, format!("not checked: {error}")),
            }
        }
    }
    Ok(())
}
