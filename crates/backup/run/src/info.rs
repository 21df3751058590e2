//! The description of a media set's sets that needs no key.

use tdekit_backup_media::{ContentHash, InArchive, LogLink, Recipient};
use tdekit_key_crypto::Algorithm;

use crate::Compression;

/// The beginning of the description of a set that holds a binary log of MariaDB; the length of the
/// server's file and the header of its first event follow. Rules of retention do not apply to it.
pub const BINARY_LOG: &str = "MariaDB binary log of bytes: ";

/// The content of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// Everything.
    Full,
    /// The pages that changed since its base.
    Differential,
    /// The transactions that were committed since the set before it in its archive; a log backup in
    /// a media set: the pages that changed since the full set or the log backup before it.
    Log,
}

/// The kind of a set's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// An SQLite database.
    Database,
    /// A stream of bytes.
    Stream,
}

/// A signature on a set, as read from the media set: [`crate::Media::verify`] checks it. A striped
/// set has one for each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureInfo {
    /// The file of a striped media set, from 0.
    pub family: u16,
    /// Time of the signature, milliseconds since 1970.
    pub signed_ms: i64,
    /// Certificate of the signer, X.509 DER.
    pub certificate_der: Vec<u8>,
    /// ECDSA or RSASSA-PSS over `message`.
    pub signature: Vec<u8>,
    /// The bytes that are signed.
    pub message: Vec<u8>,
    /// SHA-256 of the set's trailer, as in `message`.
    pub trailer_sha256: [u8; 32],
    /// The hash of the set's blocks.
    pub hash: ContentHash,
    /// SHA-256 over the hashes of the set's blocks, as in `message`.
    pub content_sha256: [u8; 32],
}

/// A backup set. Everything is read without a key, and is not verified without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetInfo {
    /// 1 for the first set of the media set: its place in the file, which its header must repeat.
    pub position: u32,
    /// Number of its record, 1 for the first.
    pub ordinal: u32,
    /// Its id.
    pub set_id: [u8; 16],
    /// Full, differential or log.
    pub kind: SetKind,
    /// The kind of its source.
    pub source: SourceKind,
    /// Compression.
    pub compression: Compression,
    /// Encryption; `None` for plaintext.
    pub algorithm: Option<Algorithm>,
    /// True if it cannot be a base of differential sets.
    pub copy_only: bool,
    /// True if the database was encrypted at rest.
    pub source_encrypted: bool,
    /// True if it has the page map that a differential set needs of its base.
    pub page_map: bool,
    /// Plaintext bytes of a full block.
    pub block_size: u32,
    /// Page size of the database; 0 for a stream.
    pub page_size: u32,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// Start time, milliseconds since 1970.
    pub begun_ms: i64,
    /// Time of completion.
    pub finished_ms: i64,
    /// Expiration time; 0 for never.
    pub expires_ms: i64,
    /// File id of an encrypted database; zeros otherwise.
    pub database_id: [u8; 16],
    /// Set id of the full set on which a differential set is based, or of the set before a log set.
    pub base: Option<[u8; 16]>,
    /// The place of a log set in its archive; `None` for a log backup in a media set.
    pub log: Option<LogLink>,
    /// The place of a full set or log set in its archive, with its lineage; `None` where its header
    /// has none.
    pub archive: Option<InArchive>,
    /// Name of the set.
    pub name: String,
    /// Name of the database.
    pub database_name: String,
    /// Path of the database.
    pub path: String,
    /// Host.
    pub host: String,
    /// User.
    pub user: String,
    /// Free text.
    pub description: String,
    /// Program that wrote it.
    pub program: String,
    /// The certificates that open it, including those added later; empty for plaintext.
    pub recipients: Vec<Recipient>,
    /// Signatures.
    pub signatures: Vec<SignatureInfo>,
    /// Blocks of any kind, over all families.
    pub blocks: u64,
    /// Bytes before compression.
    pub payload_bytes: u64,
    /// Bytes of the blocks as stored.
    pub stored_bytes: u64,
    /// Bytes of the records, headers and trailers included.
    pub record_bytes: u64,
    /// Number of files over which it is striped.
    pub families: u16,
    /// A fault of its header, trailer or index; `None` if there is none. Only verifying checks
    /// blocks.
    pub damage: Option<String>,
}

impl SetInfo {
    /// Returns true for a binary log of MariaDB in an archive.
    #[must_use]
    pub fn is_binary_log(&self) -> bool {
        self.source == SourceKind::Stream && self.description.starts_with(BINARY_LOG)
    }

    /// Returns true for a set of an archive of a database: no differential set or log backup stands
    /// on one.
    #[must_use]
    pub fn is_of_archive(&self) -> bool {
        let is_full = self.source == SourceKind::Database && self.kind == SetKind::Full;
        self.log.is_some() || is_full && !self.copy_only && !self.page_map
    }

    /// Returns the certificates that open it, by name and thumbprint, as users see them.
    #[must_use]
    pub fn certificates(&self) -> Vec<String> {
        let shown = |it: &Recipient| format!("{} ({})", it.name, it.wrapped.thumbprint());
        self.recipients.iter().map(shown).collect()
    }

    /// Returns true for a log backup in a media set, false for a log set of an archive.
    #[must_use]
    pub fn is_log_backup(&self) -> bool {
        self.kind == SetKind::Log && self.log.is_none()
    }
}

impl Finding {
    /// Returns true if a set may be there whose header was not read.
    pub(crate) fn hides_set(&self) -> bool {
        matches!(self, Self::DamagedRecord { .. } | Self::NoSets { .. })
    }
}

/// A finding about a media set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// After the last record there are bytes of one that was never finished; they are ignored, and
    /// cut off by the next append.
    UnfinishedTail {
        /// The file or object.
        media: String,
        /// Their offset.
        offset: u64,
        /// Their number.
        bytes: u64,
    },
    /// A record cannot be used. Others can.
    DamagedRecord {
        /// The file or object.
        media: String,
        /// Number of the record, if known.
        ordinal: Option<u32>,
        /// Its offset.
        offset: u64,
        /// The fault in words.
        reason: String,
    },
    /// A record names another previous record than the one that is there.
    BrokenChain {
        /// The file or object.
        media: String,
        /// Number of the record.
        ordinal: u32,
    },
    /// A named file is not readable as media; its content is read from its mirror.
    UnreadableFile {
        /// The file or object.
        media: String,
        /// The fault in words.
        reason: String,
    },
    /// A file of a striped media set is missing: its sets cannot be restored.
    MissingFamily {
        /// The number of the file, from 0.
        family: u16,
        /// Number of files.
        families: u16,
    },
    /// Two mirrors have different records in one place.
    MirrorsConflict {
        /// The first mirror.
        first: String,
        /// The other mirror.
        media: String,
        /// Number of the record.
        ordinal: u32,
    },
    /// A stripe lacks the last records of the others: it is an older copy, or an append was
    /// interrupted while it published its set.
    StripesDiffer {
        /// The file that lacks records.
        media: String,
        /// Number of its records.
        records: u32,
        /// A file that has more.
        newer: String,
        /// Number of records in that file.
        of: u32,
        /// The publishing of the last record was interrupted: all of it is there, and the next
        /// append completes it.
        interrupted: bool,
    },
    /// Positions are not consecutive: sets in between were removed.
    MissingSets {
        /// The first missing position.
        first: u32,
        /// The last missing position.
        last: u32,
    },
    /// The header of a set has another position than its place.
    WrongPosition {
        /// Its place.
        position: u32,
        /// The number in its header.
        says: u32,
    },
    /// There is no set, although a media set is made together with its first one.
    NoSets {
        /// The file or object.
        media: String,
    },
    /// Mirrors are not equal; records that one lacks are read from the other.
    MirrorsDiffer {
        /// The file that lacks records.
        media: String,
        /// Number of its records.
        records: u32,
        /// Number of records of the other.
        of: u32,
    },
}
