//! Options of a backup.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use rusqlite::Connection;
use tdekit_key_crypto::Algorithm;

use crate::keys::{Sign, UnwrapSecret, WrapSecret};
use crate::{Media, RunError};

/// Compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4 block format.
    Lz4,
    /// Zstandard, one frame per block.
    Zstd {
        /// 1 to 19 (22 needs more memory); negative levels are faster.
        level: i8,
    },
}

/// The source of a backup.
pub enum Source {
    /// An SQLite database, through an open connection.
    Database(DatabaseSource),
    /// Any bytes.
    Stream(StreamSource),
}

/// An SQLite database that may be in use.
///
/// In WAL mode writers continue during the backup, and their log grows until it ends. Outside WAL
/// mode the snapshot is a shared lock: readers continue, writers wait (`SQLITE_BUSY`) until the
/// backup ends, as with `VACUUM INTO`.
pub struct DatabaseSource {
    /// A connection to the database as `main`, without a transaction; it is closed at the end. For
    /// an encrypted database it uses the VFS that decrypts.
    pub connection: Connection,
    /// The database's file.
    pub path: PathBuf,
    /// The file id of an encrypted database; `None` for a plain one. Its reserved bytes are kept
    /// as zeros.
    pub encrypted_file_id: Option<[u8; 16]>,
}

/// A stream of bytes, read once to its end.
pub struct StreamSource {
    /// The bytes.
    pub reader: Box<dyn Read + Send>,
}

/// The way in which several targets share a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Every target gets all bytes; they stay equal.
    #[default]
    Mirrors,
    /// Each target is a family: blocks are distributed to them in turn.
    Stripes,
}

/// The treatment of existing files at the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// No file may exist.
    #[default]
    Create,
    /// The set is appended to the media set, which is made if it does not exist.
    Append,
    /// A new media set replaces the existing one, once it is whole. Only media are replaced.
    Replace,
}

/// Encryption of a set.
#[derive(Clone, Copy)]
pub struct Encryption<'a> {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Wraps the set's secret for its recipients.
    pub recipients: &'a dyn WrapSecret,
}

/// Texts in a set's header that are readable without a key. Each is at most 65,535 bytes, without
/// control characters (these are replaced).
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Name of the set.
    pub set_name: String,
    /// Name of the database.
    pub database_name: String,
    /// Path of the database, or empty.
    pub path: String,
    /// Host.
    pub host: String,
    /// User.
    pub user: String,
    /// Free text.
    pub description: String,
    /// Program that writes, such as "tdekit 0.1.0".
    pub program: String,
}

/// A backup to make.
pub struct BackupJob<'a> {
    /// The source of a backup; `None` for what an archive has begun itself.
    pub source: Option<Source>,
    /// How several targets share the set.
    pub layout: Layout,
    /// The treatment of existing files at the targets.
    pub mode: Mode,
    /// True for a set of the pages that changed since the last full set that is not copy-only, of
    /// the same media set or of [`Self::bases`].
    pub differential: bool,
    /// True for a log backup: the pages that changed since the last full set, or log backup, there
    /// that is not copy-only.
    pub log: bool,
    /// True if the set must not be a base of later differential ones.
    pub copy_only: bool,
    /// True if a full set gets the page map that a differential one needs.
    pub page_map: bool,
    /// True if SQLite's quick_check of the pages read must pass before the set becomes valid.
    pub check: bool,
    /// Compression.
    pub compression: Compression,
    /// Encryption; `None` writes plaintext.
    pub encryption: Option<Encryption<'a>>,
    /// Other media sets: those in which the base of a differential set or of a log backup is looked
    /// for if the targets have none, and those that it stands on.
    pub bases: Vec<Media>,
    /// Opens the base of a differential set or of a log backup, if that is encrypted.
    pub base_keys: Option<&'a dyn UnwrapSecret>,
    /// True if an encrypted set may join plain ones in a media set, and the reverse.
    pub allow_mixed: bool,
    /// The signer of the set. If its signature cannot be published with it, the outcome has the
    /// data that [`crate::sign`] needs.
    pub signer: Option<&'a dyn Sign>,
    /// Milliseconds since 1970 after which the set may be discarded; 0 for never.
    pub expires_ms: i64,
    /// Texts.
    pub labels: Labels,
    /// Called once the set is whole, before it becomes valid; an error prevents that.
    pub before_publish: Option<&'a dyn Fn() -> Result<(), RunError>>,
}

impl<'a> BackupJob<'a> {
    /// Makes a full set, compressed with zstd level 1, not encrypted, on new media.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source: Some(source), ..Self::begun() }
    }

    /// As [`Self::new`], for a source that was begun already.
    pub(crate) fn begun() -> Self {
        Self {
            source: None,
            layout: Layout::default(),
            mode: Mode::default(),
            differential: false,
            log: false,
            copy_only: false,
            page_map: true,
            check: true,
            compression: Compression::Zstd { level: 1 },
            encryption: None,
            bases: Vec::new(),
            base_keys: None,
            allow_mixed: false,
            signer: None,
            expires_ms: 0,
            labels: Labels::default(),
            before_publish: None,
        }
    }
}

impl fmt::Debug for BackupJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupJob")
            .field("layout", &self.layout)
            .field("mode", &self.mode)
            .field("differential", &self.differential)
            .field("log", &self.log)
            .field("compression", &self.compression)
            .field("algorithm", &self.encryption.map(|encryption| encryption.algorithm))
            .finish_non_exhaustive()
    }
}

/// How a store keeps new objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// Storage class, such as `STANDARD_IA`; `None` for the bucket's own.
    pub class: Option<String>,
    /// Lock of each object.
    pub lock: Option<ObjectLock>,
}

/// The time for which nobody can remove or replace an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectLock {
    /// Number of days from when the object is made.
    pub days: u32,
    /// True if no right of any user ends it early.
    pub compliance: bool,
}
