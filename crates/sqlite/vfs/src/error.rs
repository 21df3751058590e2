//! Errors below SQLite, and the result code of each.

use std::ffi::c_int;

use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
use tdekit_sqlite_page::PageError;

use crate::ffi;

/// A failure of the VFS.
#[derive(Debug, thiserror::Error)]
pub enum VfsError {
    /// The VFS below returned this result code.
    #[error("the operating system's VFS answered with code {0}")]
    Base(c_int),
    /// Bytes of an encrypted file differ from those written.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The key store has no key for the file, or did not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No key was available for an encrypted file.
    #[error("the database's key did not open: {0}")]
    Key(#[source] StoreError),
    /// The key store that a connection named has no key, or did not open.
    #[error(
        "{error} (key store {}, named by tdekit_home: only its own config.toml says what opens it)",
        home.display()
    )]
    Tenant {
        /// The key store's directory.
        home: std::path::PathBuf,
        /// Its failure.
        error: Box<StoreError>,
    },
    /// A new database for a key store that the connection names or gave a secret for, but without a
    /// certificate of it.
    #[error(
        "the connection names a key store by tdekit_home, or has a secret of its own, and names no \
         certificate: a new database needs tdekit_certificate, or tdekit=plain to be left plain"
    )]
    NoCertificate,
    /// A journal that is damaged or belongs to another database.
    #[error("the rollback journal is damaged or belongs to another database")]
    Journal,
    /// A shim opens journals under its own names, for more than one connection.
    #[error(
        "a VFS above tdekit opens journals under names of its own: only one connection of a \
         process can use an encrypted database through it"
    )]
    JournalName,
    /// A new database that should be encrypted would be made through another VFS.
    #[error(
        "a new database was to be encrypted and would become plain: the connection does not use \
         the VFS tdekit (name no other one; after sqlite3_shutdown load the extension again)"
    )]
    Unguarded,
    /// A new encrypted database cannot be made without locks.
    #[error("a new encrypted database cannot be made with nolock=1: make it without, once")]
    NoLock,
    /// Pages were still gathered when the journal that could undo them was closed.
    #[error("pages were not written: the journal that could undo them is gone")]
    JournalGone,
    /// The creation of the database was interrupted, and no setting asks for encryption.
    #[error(
        "the creation of this encrypted database was cut short: open it once with \
         TDEKIT_ENCRYPT_NEW, or delete the file"
    )]
    Unfinished,
    /// A page of an encrypted database would be written to a plain one.
    #[error(
        "pages of an encrypted database may not be written to a plain one: copy with VACUUM INTO, \
         name the target's certificate (tdekit_certificate), or allow it (?tdekit=plain)"
    )]
    PlainTarget,
    /// Pages without space for a seal would be written to an encrypted database.
    #[error(
        "page 1 reserves {reserved} bytes where an encrypted database needs 48: pages of a plain \
         one are copied by VACUUM INTO and not by a backup"
    )]
    Reserve {
        /// Reserved bytes that page 1 declares.
        reserved: u8,
    },
    /// `VACUUM` or a backup would change the page size of an encrypted database in place.
    #[error(
        "the page size of an encrypted database does not change in place ({from} to {to}): \
         use VACUUM INTO"
    )]
    PageSize {
        /// Size of the written pages.
        from: u32,
        /// Size in page 1.
        to: u32,
    },
    /// Pages without space for a seal would be written.
    #[error("pages of {size} bytes are too small for an encrypted database: 1024 at least")]
    PageTooSmall {
        /// Bytes of a page.
        size: u32,
    },
    /// An access that SQLite does not make to this kind of file.
    #[error("unexpected access of {len} bytes at {offset} to {file}")]
    Access {
        /// Kind of file.
        file: &'static str,
        /// Offset as SQLite sees the file.
        offset: u64,
        /// Number of bytes.
        len: usize,
    },
    /// The file is truncated inside a unit.
    #[error("the file ends inside page {page}")]
    Truncated {
        /// Page number, from 1.
        page: u32,
    },
    /// A page, log or journal is older than the database's last state.
    #[error("{what} {number} is not that of the database's last state: an older one was put back")]
    Stale {
        /// The kind of unit.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// The write-ahead log lacks frames that were committed, or is an older one.
    #[error("the write-ahead log lacks frames that were committed: an older one was put back")]
    StaleLog,
    /// The list of seals is not the one that the anchor names.
    #[error(
        "the list of seals beside the database is not that of its last state: it is missing, or an \
         older one was put back (a copy that you made yourself: tdekit freshness accept)"
    )]
    StaleList,
    /// The anchor is missing or damaged.
    #[error(
        "the freshness anchor {} is missing or damaged (a copy that you made yourself: tdekit \
         freshness accept)", path.display()
    )]
    NoAnchor {
        /// Its expected path.
        path: std::path::PathBuf,
    },
    /// A header without freshness although there is an anchor.
    #[error(
        "the header says that the database has no freshness, and it has an anchor, {}: an older \
         header was put back (to give freshness up: tdekit freshness off)", path.display()
    )]
    OlderHeader {
        /// The anchor.
        path: std::path::PathBuf,
    },
    /// Freshness was switched on or off after the connection opened the database.
    #[error("freshness was switched on or off meanwhile: open the database again")]
    FreshnessSwitched,
    /// An unknown URI parameter with our prefix.
    #[error("the URI's parameter {name} is not known: {nearest} is the nearest that is")]
    UnknownParameter {
        /// Its name.
        name: String,
        /// The most similar known parameter.
        nearest: &'static str,
    },
    /// One of our URI parameters occurs twice.
    #[error("the URI has the parameter {name} more than once")]
    RepeatedParameter {
        /// Its name.
        name: String,
    },
    /// An unknown variable that resembles one of ours.
    #[error("the variable {name} is not known: {nearest} is the nearest that is")]
    UnknownVariable {
        /// Its name.
        name: String,
        /// The most similar known variable.
        nearest: &'static str,
    },
    /// A URI parameter for an encrypted database, without a certificate.
    #[error(
        "{parameter} goes with tdekit_certificate, or TDEKIT_ENCRYPT_NEW: the new database \
             would be plain"
    )]
    NoCertificateFor {
        /// The parameter.
        parameter: &'static str,
    },
    /// A URI parameter, or a variable, without a value.
    #[error("{name} has no value")]
    NoValue {
        /// The parameter or variable.
        name: String,
    },
    /// A URI that its driver used as a file name.
    #[error(
        "{} is the name of a new file and holds a URI: the driver takes it for a name, and the \
         database would be plain (open it with SQLITE_OPEN_URI, or set TDEKIT_ENCRYPT_NEW)",
        path.display()
    )]
    UriAsName {
        /// The file that was not made.
        path: std::path::PathBuf,
    },
    /// `tdekit_unlock` without a secret that it knows. Its arguments may be in the wrong order, so
    /// none of them is shown.
    #[error(
        "tdekit_unlock takes the name of a database, then 'password', 'password_file' or \
         'key_file', then that secret"
    )]
    NoSecret,
    /// A setting for a new database is not usable.
    #[error("{what} is not usable: {value}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// An error of a file that this library writes itself.
    #[error("a temporary file cannot be written: {0}")]
    File(#[source] std::io::Error),
    /// The host's SQLite library is too old.
    #[error("SQLite {0} is older than 3.39, the first that tdekit works with")]
    HostTooOld(c_int),
}

impl VfsError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Page(error) => error.kind(),
            Self::Store(error) | Self::Key(error) => error.kind(),
            Self::Tenant { error, .. } => error.kind(),
            Self::Journal
            | Self::Truncated { .. }
            | Self::Stale { .. }
            | Self::StaleLog
            | Self::StaleList
            | Self::NoAnchor { .. }
            | Self::OlderHeader { .. } => Kind::Damaged,
            Self::Base(_) | Self::JournalGone | Self::File(_) => Kind::Io,
            Self::Setting { .. }
            | Self::UnknownParameter { .. }
            | Self::RepeatedParameter { .. }
            | Self::UnknownVariable { .. }
            | Self::NoCertificateFor { .. }
            | Self::NoValue { .. }
            | Self::UriAsName { .. }
            | Self::NoSecret
            | Self::NoCertificate => Kind::Usage,
            Self::JournalName
            | Self::Unguarded
            | Self::NoLock
            | Self::FreshnessSwitched
            | Self::Unfinished
            | Self::PlainTarget
            | Self::Reserve { .. }
            | Self::PageSize { .. }
            | Self::PageTooSmall { .. }
            | Self::Access { .. }
            | Self::HostTooOld(_) => Kind::Refused,
        }
    }

    /// Returns the SQLite result code for this failure. `write` distinguishes writes from reads.
    pub(crate) fn code(&self, write: bool) -> c_int {
        match self {
            Self::Base(code) => *code,
            Self::Page(error) => page_code(error),
            Self::Store(_) | Self::Key(_) | Self::Tenant { .. } => ffi::AUTH,
            Self::Journal
            | Self::Truncated { .. }
            | Self::Stale { .. }
            | Self::StaleLog
            | Self::StaleList
            | Self::NoAnchor { .. }
            | Self::OlderHeader { .. } => ffi::IOERR_DATA,
            Self::FreshnessSwitched => ffi::IOERR_AUTH,
            Self::PlainTarget
            | Self::Reserve { .. }
            | Self::PageSize { .. }
            | Self::PageTooSmall { .. } => ffi::IOERR_AUTH,
            Self::Access { .. } => {
                if write {
                    ffi::IOERR_WRITE
                } else {
                    ffi::IOERR_READ
                }
            }
            Self::JournalGone => ffi::IOERR_WRITE,
            Self::Unfinished => ffi::NOTADB,
            Self::NoLock => ffi::IOERR_WRITE,
            Self::NoCertificate => ffi::IOERR_AUTH,
            Self::Setting { .. }
            | Self::UnknownParameter { .. }
            | Self::RepeatedParameter { .. }
            | Self::UnknownVariable { .. }
            | Self::NoCertificateFor { .. }
            | Self::NoValue { .. }
            | Self::UriAsName { .. }
            | Self::NoSecret
            | Self::JournalName
            | Self::Unguarded => ffi::CANTOPEN,
            Self::File(_) => ffi::IOERR_WRITE,
            Self::HostTooOld(_) => ffi::ERROR,
        }
    }
}

/// Returns a code for a failed write with which SQLite gives up the transaction. It does so only
/// after `FULL` and `IOERR` (`pager_error` of pager.c): after another code it continues, without
/// the data that was not written.
pub(crate) fn ends_transaction(code: c_int) -> c_int {
    match code & 0xff {
        ffi::OK | ffi::FULL | ffi::IOERR => code,
        _ => ffi::IOERR_WRITE,
    }
}

fn page_code(error: &PageError) -> c_int {
    match error {
        PageError::Header { .. } | PageError::FutureVersion { .. } => ffi::NOTADB,
        PageError::UnknownAlgorithm { .. } => ffi::NOTADB,
        PageError::KeyMismatch => ffi::AUTH,
        PageError::Page { .. }
        | PageError::Frame { .. }
        | PageError::Extent { .. }
        | PageError::UnknownKeyVersion { .. } => ffi::IOERR_DATA,
        PageError::ReserveInUse { .. } => ffi::IOERR_AUTH,
        PageError::HeaderFull { .. } => ffi::FULL,
        PageError::Size { .. } => ffi::CORRUPT,
        PageError::Crypto(_) => ffi::IOERR,
    }
}
