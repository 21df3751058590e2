//! Pure codec of backup media sets: headers, sealed blocks, index, trailer, signatures.
//!
//! Nothing here opens a file or a socket: every function maps bytes to bytes. The byte layouts are
//! specified in `docs/format/media.md`.
//!
//! To write a set: [`SetHeader::encode`], then for each block [`BlockSealer::seal`] (any thread, in
//! any order), whose entries [`SetBuilder`] collects; it returns index and trailer. To read one:
//! [`Scan`], [`SetKeys::of_set`] and [`SetKeys::check_trailer`], [`Index::open`], and for each
//! block [`BlockHeader::decode`], [`IndexEntry::check`], [`BlockOpener::open`].

pub mod block;
pub mod builder;
mod bytes;
mod checksum;
mod compress;
pub mod error;
mod frame;
mod hash;
pub mod header;
pub mod index;
pub mod keys;
pub mod media;
pub mod payload;
pub mod scan;
pub mod seal;
pub mod signature;
pub mod trailer;

/// A random identity: of a media set, of a backup set.
pub type Id = [u8; 16];
/// A SHA-256 digest.
pub type Digest = [u8; 32];

pub use block::{BLOCK_HEADER_LEN, BlockHeader, BlockKind, BlockRules, MAX_PAYLOAD_LEN};
pub use builder::SetBuilder;
pub use compress::Compression;
pub use error::{MediaError, Part};
pub use hash::ContentHash;
pub use header::{
    Base, EncodedSet, FullPlace, InArchive, Lineage, LogLink, MAX_LINEAGES, Recipient,
    RecipientsHeader, RecordFields, RecordHeader, RecordKind, RecordPlace, SetHeader, SetKind,
    SetTexts, ShippedBehind, Source, clean_text,
};
pub use index::{Index, IndexEntry};
pub use keys::{SetKeys, SetSecret};
pub use media::{Family, Holds, MEDIA_HEADER_LEN, MediaHeader, is_media};
pub use payload::LogForm;
pub use scan::{Gap, GapKind, Record, Scan, Scanned};
pub use seal::{Block, BlockKey, BlockOpener, BlockSealer};
pub use signature::{ContentDigest, SignatureHeader};
pub use trailer::{TRAILER_LEN, Trailer, finished_trailer, prepared_trailer, trailer_digest};
