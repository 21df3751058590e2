//! The description of a media set's sets that needs no key.

use tdekit_backup_media::{ContentHash, Recipient};
use tdekit_key_crypto::Algorithm;

use crate::Compression;

/// The content of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// Everything.
    Full,
    /// The pages that changed since its base.
    Differential,
}

/// The kind of a set's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// An SQLite database.
    Database,
    /// A stream of bytes.
    Stream,
}

/// A signature on a set, as it stands in the media set: [`crate::Media::verify`] checks it. A
/// striped set has one for each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureInfo {
    /// The file of a striped media set, from 0.
    pub family: u16,
    /// When, milliseconds since 1970.
    pub signed_ms: i64,
    /// Certificate of the signer, X.509 DER.
    pub certificate_der: Vec<u8>,
    /// RSASSA-PSS over `message`.
    pub signature: Vec<u8>,
    /// The bytes that are signed.
    pub message: Vec<u8>,
    /// SHA-256 of the set's trailer, as `message` has it.
    pub trailer_sha256: [u8; 32],
    /// The hash of the set's blocks.
    pub hash: ContentHash,
    /// SHA-256 over the hashes of the set's blocks, as `message` has it.
    pub content_sha256: [u8; 32],
}

/// A backup set. All is read without a key, and without one unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetInfo {
    /// 1 for the first set of the media set: its place in the file, which its header must say, too.
    pub position: u32,
    /// Number of its record, 1 for the first.
    pub ordinal: u32,
    /// Its id.
    pub set_id: [u8; 16],
    /// Full or differential.
    pub kind: SetKind,
    /// The kind of its source.
    pub source: SourceKind,
    /// Compression.
    pub compression: Compression,
    /// Encryption; `None` for plaintext.
    pub algorithm: Option<Algorithm>,
    /// Whether it is no base of differential sets.
    pub copy_only: bool,
    /// Whether the database was encrypted at rest.
    pub source_encrypted: bool,
    /// Whether it has the page map that a differential set needs of its base.
    pub page_map: bool,
    /// Plaintext bytes of a full block.
    pub block_size: u32,
    /// Page size of the database; 0 for a stream.
    pub page_size: u32,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// When it was begun, milliseconds since 1970.
    pub begun_ms: i64,
    /// When it was finished.
    pub finished_ms: i64,
    /// When it expires; 0 for never.
    pub expires_ms: i64,
    /// File id of an encrypted database; zeros otherwise.
    pub database_id: [u8; 16],
    /// Set id of the full set that a differential set stands on.
    pub base: Option<[u8; 16]>,
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
    /// Who can open it, those added later included; empty for plaintext.
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
    /// Files that it is split over.
    pub families: u16,
    /// A fault of its header, trailer or index; `None` where there is none. Blocks are seen
    /// by verifying only.
    pub damage: Option<String>,
}

/// Something about a media set that its reader should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Behind the last record stand bytes of one that was never finished; they are ignored, and
    /// cut off by the next append.
    UnfinishedTail {
        /// The file or object.
        media: String,
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A record cannot be used. Others can.
    DamagedRecord {
        /// The file or object.
        media: String,
        /// Number of the record, where that is known.
        ordinal: Option<u32>,
        /// Where it begins.
        offset: u64,
        /// The fault in words.
        reason: String,
    },
    /// A record says what the one before it was, and another one stands there.
    BrokenChain {
        /// The file or object.
        media: String,
        /// Number of the record.
        ordinal: u32,
    },
    /// A file that was named is no readable media; what it should hold is read from its mirror.
    UnreadableFile {
        /// The file or object.
        media: String,
        /// The fault in words.
        reason: String,
    },
    /// A file of a striped media set is not at hand: its sets cannot be restored.
    MissingFamily {
        /// The number of the file, from 0.
        family: u16,
        /// How many there are.
        families: u16,
    },
    /// Two mirrors hold different records in one place.
    MirrorsConflict {
        /// One.
        first: String,
        /// The other.
        media: String,
        /// Number of the record.
        ordinal: u32,
    },
    /// A stripe lacks the last records of the others: it is an older copy, or an append died while
    /// it made its set count.
    StripesDiffer {
        /// The file that lacks records.
        media: String,
        /// Records it has.
        records: u32,
        /// A file that has more.
        newer: String,
        /// Records that one has.
        of: u32,
        /// The last record was being published when that was interrupted: all of it is there, and
        /// the next append finishes it.
        interrupted: bool,
    },
    /// Positions do not rise by one: sets between were taken away.
    MissingSets {
        /// The first position that no set has.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// The header of a set says another position than the one that it stands at.
    WrongPosition {
        /// Where it stands.
        position: u32,
        /// The number in its header.
        says: u32,
    },
    /// There is no set, though a media set is made with its first one.
    NoSets {
        /// The file or object.
        media: String,
    },
    /// Mirrors are not equal; what one lacks is read from the other.
    MirrorsDiffer {
        /// The file that lacks records.
        media: String,
        /// Records it has.
        records: u32,
        /// Records the other has.
        of: u32,
    },
}
