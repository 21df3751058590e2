//! Options of a backup.

use std::io::Read;
use std::path::PathBuf;

use rusqlite::Connection;
use tdekit_key_crypto::Algorithm;

use crate::keys::WrapSecret;

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
