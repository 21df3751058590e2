//! Errors of work on a database file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
use tdekit_sqlite::VfsError;
use tdekit_sqlite_page::PageError;
use unit_prefix::NumberPrefix;

use crate::ffi::last_vfs_error;
use crate::holders::Holder;
use crate::origin::Origin;
use crate::target::with_suffix;

/// An error of a database file.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The name is not that of a regular file.
    #[error("{} {problem}", .path.display())]
    NotAFile {
        /// The name.
        path: PathBuf,
        /// The kind of the file.
        problem: &'static str,
    },
    /// The file is neither a plain nor an encrypted database.
    #[error("{} is not a database", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// Only remains of an encrypted database were found.
    #[error("{} {problem}", .path.display())]
    Lost {
        /// The file, or its former path.
        path: PathBuf,
        /// The fault in words.
        problem: &'static str,
    },
    /// The file was emptied, and its log was not.
    #[error("{} is empty, and its log has what was committed last: {}", .path.display(),
        .log.display())]
    Emptied {
        /// The file.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// The database is encrypted already.
    #[error("{} is encrypted already", .path.display())]
    AlreadyEncrypted {
        /// The database.
        path: PathBuf,
    },
    /// The database is not encrypted.
    #[error("{} is not encrypted", .path.display())]
    NotEncrypted {
        /// The database.
        path: PathBuf,
    },
    /// The database has no freshness, so there is nothing to accept.
    #[error("{} has no freshness", .path.display())]
    NoFreshness {
        /// The database.
        path: PathBuf,
    },
    /// A copy of another database: both have the same file id, by which freshness is kept.
    #[error("{} is a copy of {}, and freshness belongs to one of them", .path.display(),
        .original.display())]
    CopyOf {
        /// The copy.
        path: PathBuf,
        /// The database with this file id in the key store.
        original: PathBuf,
    },
    /// A fault in the database's list of seals, or its anchor.
    #[error("{}: {source}", .path.display())]
    Freshness {
        /// The database.
        path: PathBuf,
        /// The fault.
        source: VfsError,
    },
    /// The database is in use.
    #[error("{} is in use{}", .path.display(), Holders(.holders))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The processes that have it open, where known.
        holders: Vec<Holder>,
    },
    /// Processes have the database open that would not notice its encryption.
    #[error("{} is open without this version of the extension{}", .path.display(),
        Holders(.holders))]
    WithoutExtension {
        /// The database.
        path: PathBuf,
        /// The processes.
        holders: Vec<Holder>,
    },
    /// The database cannot be encrypted while others use it.
    #[error("{} cannot be encrypted while others use it: {problem}", .path.display())]
    NotOnline {
        /// The database.
        path: PathBuf,
        /// The reason, in words.
        problem: String,
    },
    /// Another run converts the same database.
    #[error("another tdekit is converting {}", .path.display())]
    Converting {
        /// The database.
        path: PathBuf,
    },
    /// Another name refers to the same file, which would keep its old content.
    #[error("{} has {others} more hard link(s), which would stay as they are", .path.display())]
    HardLinked {
        /// The database.
        path: PathBuf,
        /// The number of other names.
        others: u64,
    },
    /// The database is not writable.
    #[error("{} can only be read", .path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// A transaction was cut short, and the next reader must roll it back, which needs write
    /// access.
    #[error("{} has a transaction that was cut short, in {}-journal", .path.display(),
        .path.display())]
    HotJournal {
        /// The database.
        path: PathBuf,
    },
    /// A database in WAL mode where SQLite cannot make the file for the shared index of the log.
    #[error("{} is in WAL mode, and nothing can be written beside it: SQLite reads it only where \
             it can make {}-shm", .path.display(), .path.display())]
    NoLogIndex {
        /// The database.
        path: PathBuf,
    },
    /// An encrypted database, but no key store.
    #[error("{} is encrypted for {}, and there is no key store here", .path.display(),
        .certificates.join(", "))]
    NoStoreHere {
        /// The database.
        path: PathBuf,
        /// Names, where the header has them, and thumbprints of the certificates that open it.
        certificates: Vec<String>,
    },
    /// A file exists at the path of the new one.
    #[error("{} exists{reason}", .path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
        /// Reason why it is not simply replaced.
        reason: &'static str,
    },
    /// There is no space for the copy.
    #[error("the copy needs about {} and {} has {} free", Bytes(*.needed_bytes), .dir.display(),
        Bytes(*.available_bytes))]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Bytes that the copy needs.
        needed_bytes: u64,
        /// Free bytes.
        available_bytes: u64,
    },
    /// The disk filled up. Nothing was changed.
    #[error("the disk is full; {} is as it was", .path.display())]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// A change of the key has begun and is incomplete. The header has both keys, the content is
    /// unchanged, and the next rotation continues it.
    #[error("{why}; the key change of {} has begun, its content is as it was", .path.display())]
    KeyChangeBegun {
        /// The database.
        path: PathBuf,
        /// The reason why it ended.
        why: CutShort,
    },
    /// A change of the key to another algorithm than the requested one has begun.
    #[error(
        "a key change of {} to {begun} has begun and is not done; it cannot become one to {asked}",
        .path.display()
    )]
    OtherKeyChange {
        /// The database.
        path: PathBuf,
        /// The algorithm of the change that has begun.
        begun: &'static str,
        /// The requested algorithm.
        asked: &'static str,
    },
    /// There is no key change to halt.
    #[error("no change of the key of {} has begun", .path.display())]
    NoKeyChange {
        /// The database.
        path: PathBuf,
    },
    /// The name refers to another file than the opened one.
    #[error("{} was replaced by another process", .path.display())]
    Replaced {
        /// The database.
        path: PathBuf,
    },
    /// An index is in descending order by a collation that only the application has.
    #[error("{} sorts an index by collation {name}, downwards", .path.display())]
    Collation {
        /// The database.
        path: PathBuf,
        /// The collation.
        name: String,
    },
    /// The copy is faulty. Nothing was changed.
    #[error("the copy of {} is not right: {problem}; the original is as it was", .path.display())]
    Verification {
        /// The database.
        path: PathBuf,
        /// The copy's fault, in words.
        problem: String,
    },
    /// The copy cannot get the owner, group or attributes of the original.
    #[error("the copy of {} cannot be given its {what}: {source}", .path.display())]
    Metadata {
        /// The database.
        path: PathBuf,
        /// The attribute that cannot be set.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// No library was found that opens another program's databases.
    #[error("no library of {}: {}: {reason}", .origin.name(), .path.display())]
    Library {
        /// The program.
        origin: Origin,
        /// The library that was tried.
        path: PathBuf,
        /// The reason why it cannot be used.
        reason: String,
    },
    /// Another program's database does not open.
    #[error("{} does not open in {}: another key, other settings of the cipher, or no database",
        .path.display(), .origin.name())]
    OldKey {
        /// The database.
        path: PathBuf,
        /// The program.
        origin: Origin,
    },
    /// Another program's library refused an operation.
    #[error("cannot {action} {} by its own library: {message}", .path.display())]
    Foreign {
        /// The operation that failed.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// SQLite's primary result code.
        code: i32,
        /// The library's error message.
        message: String,
    },
    /// There is no memory for a database that must be read into memory.
    #[error("{} needs {} of memory and {} can be had", .path.display(), Bytes(*.needed_bytes),
        Bytes(*.available_bytes))]
    NoMemory {
        /// The database.
        path: PathBuf,
        /// Bytes that it needs.
        needed_bytes: u64,
        /// Bytes that are free, or that SQLite can allocate at once.
        available_bytes: u64,
    },
    /// The user stopped the work. Nothing was changed.
    #[error("stopped; nothing was changed")]
    Interrupted,
    /// The header of an encrypted database is faulty.
    #[error("{}: {source}", .path.display())]
    Header {
        /// The database.
        path: PathBuf,
        /// The fault.
        source: PageError,
    },
    /// SQLite refused an operation.
    #[error("cannot {action} {}: {source}{}", .path.display(), Detail(.detail))]
    Sqlite {
        /// The operation that failed.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        source: Box<rusqlite::Error>,
        /// The VFS's own message, if it found the fault.
        detail: Option<String>,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A header has no space for so many certificates.
    #[error("a database's key is wrapped by at most {most} certificates")]
    TooManyCertificates {
        /// Maximum number of certificates.
        most: usize,
    },
    /// An error of the key store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The cause that interrupted a key change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutShort {
    /// The disk filled up.
    Full,
    /// The user stopped it.
    Stopped,
    /// It is halted until it is resumed.
    Paused,
}

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the disk is full",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
        })
    }
}

impl DatabaseError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotAFile { .. } | Self::TooManyCertificates { .. } => Kind::Usage,
            Self::AlreadyEncrypted { .. }
            | Self::NotEncrypted { .. }
            | Self::NoFreshness { .. }
            | Self::Emptied { .. }
            | Self::CopyOf { .. }
            | Self::HardLinked { .. }
            | Self::ReadOnly { .. }
            | Self::HotJournal { .. }
            | Self::NoLogIndex { .. }
            | Self::Occupied { .. }
            | Self::Collation { .. }
            | Self::NotOnline { .. }
            | Self::Library { .. }
            | Self::KeyChangeBegun { why: CutShort::Stopped | CutShort::Paused, .. }
            | Self::NoKeyChange { .. }
            | Self::OtherKeyChange { .. }
            | Self::Interrupted => Kind::Refused,
            Self::NotADatabase { .. } | Self::Lost { .. } | Self::Verification { .. } => {
                Kind::Damaged
            }
            Self::InUse { .. }
            | Self::WithoutExtension { .. }
            | Self::Converting { .. }
            | Self::Replaced { .. } => Kind::Busy,
            Self::NoSpace { .. }
            | Self::NoMemory { .. }
            | Self::Full { .. }
            | Self::KeyChangeBegun { why: CutShort::Full, .. }
            | Self::Metadata { .. }
            | Self::Io { .. } => Kind::Io,
            Self::OldKey { .. } | Self::NoStoreHere { .. } => Kind::Key,
            Self::Foreign { code, .. } => foreign_kind(*code),
            Self::Header { source, .. } => source.kind(),
            Self::Freshness { source, .. } => source.kind(),
            Self::Sqlite { source, .. } => sqlite_kind(source),
            Self::Store(source) => source.kind(),
        }
    }

    /// Returns the name, for programs, of the finding for this error.
    #[must_use]
    pub fn finding_name(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "lost",
            Self::NotADatabase { .. } => "not-a-database",
            _ => "unreadable",
        }
    }

    /// Translates SQLite's error on `db` for the database at `path`.
    pub fn sqlite<'a>(
        action: &'static str,
        path: &'a Path,
        db: Option<&'a Connection>,
    ) -> impl FnOnce(rusqlite::Error) -> Self + 'a {
        move |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    Self::InUse { path, holders: Vec::new() }
                }
                Some(ErrorCode::DiskFull) => Self::Full { path },
                Some(ErrorCode::OperationInterrupted) => Self::Interrupted,
                Some(ErrorCode::ReadOnly) if extended_code(&source) == READONLY_ROLLBACK => {
                    Self::HotJournal { path }
                }
                Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
                Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
                Some(ErrorCode::CannotOpen) if lacks_log_index(&path) => Self::NoLogIndex { path },
                code => {
                    let below = matches!(
                        code,
                        Some(
                            ErrorCode::SystemIoFailure
                                | ErrorCode::CannotOpen
                                | ErrorCode::AuthorizationForStatementDenied
                        )
                    );
                    // An opening that was refused explains itself.
                    let said = source.to_string();
                    let detail = if below { last_vfs_error(db) } else { None };
                    let detail = detail.filter(|detail| !said.contains(detail));
                    Self::Sqlite { action, path, source: Box::new(source), detail }
                }
            }
        }
    }
}

/// Returns true if the file exists and SQLite can read it but cannot write beside it.
fn lacks_log_index(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let writable = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok();
    let has_index = with_suffix(path, "-shm").exists();
    !writable && !has_index && std::fs::File::open(path).is_ok()
}

/// Translates a failed call of the operating system on a file.
pub fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DatabaseError {
    let path = path.to_owned();
    move |source| DatabaseError::Io { action, path, source }
}

/// A journal is hot, and the connection may not write.
const READONLY_ROLLBACK: i32 = rusqlite::ffi::SQLITE_READONLY | (3 << 8);

/// Returns SQLite's extended result code, or 0 for an error that is not SQLite's.
fn extended_code(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().map_or(0, |failure| failure.extended_code)
}

/// Returns the kind of SQLite's error.
#[must_use]
pub fn sqlite_kind(error: &rusqlite::Error) -> Kind {
    // The data read does not authenticate.
    const IOERR_DATA: i32 = rusqlite::ffi::SQLITE_IOERR | (32 << 8);
    match extended_code(error) {
        IOERR_DATA => Kind::Damaged,
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => Kind::Damaged,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Kind::Io,
            Some(ErrorCode::AuthorizationForStatementDenied) => Kind::Key,
            _ => Kind::Refused,
        },
    }
}

/// Returns the kind of a result code of another library.
fn foreign_kind(code: i32) -> Kind {
    match code {
        rusqlite::ffi::SQLITE_CORRUPT | rusqlite::ffi::SQLITE_NOTADB => Kind::Damaged,
        rusqlite::ffi::SQLITE_BUSY | rusqlite::ffi::SQLITE_LOCKED => Kind::Busy,
        rusqlite::ffi::SQLITE_IOERR
        | rusqlite::ffi::SQLITE_FULL
        | rusqlite::ffi::SQLITE_CANTOPEN
        | rusqlite::ffi::SQLITE_NOMEM => Kind::Io,
        _ => Kind::Refused,
    }
}

struct Holders<'a>(&'a [Holder]);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        for (index, holder) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{holder}", if index == 0 { " by " } else { ", " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct Detail<'a>(&'a Option<String>);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
        match NumberPrefix::binary(self.0 as f64) {
            NumberPrefix::Standalone(number) => write!(f, "{number:.0} B"),
            NumberPrefix::Prefixed(prefix, number) => write!(f, "{number:.2} {prefix}B"),
        }
    }
}
