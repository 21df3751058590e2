//! Faults of a media set.

use std::fmt;

use tdekit_key_crypto::{CryptoError, Kind};

/// A part of a media set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first 96 bytes of a file.
    MediaHeader,
    /// The header of a record.
    RecordHeader,
    /// A block, by its index in the record.
    Block(u64),
    /// A block with unknown index.
    AnyBlock,
    /// The index after the blocks.
    Index,
    /// The last 256 bytes of a record.
    Trailer,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MediaHeader => f.write_str("media header"),
            Self::RecordHeader => f.write_str("record header"),
            Self::Block(index) => write!(f, "block {index}"),
            Self::AnyBlock => f.write_str("block"),
            Self::Index => f.write_str("index"),
            Self::Trailer => f.write_str("trailer"),
        }
    }
}

/// An error in bytes that could not be read, or in values that could not be written, as a media
/// set.
///
/// The caller knows the file and the set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The bytes do not begin like a media set.
    #[error("it is no tdekit media set")]
    NotMedia,
    /// The media set was written by a later format version.
    #[error("media format version {found} is newer than {supported}, the newest this build reads")]
    FutureVersion {
        /// Version in the file.
        found: u16,
        /// Newest version that this build reads.
        supported: u16,
    },
    /// The bytes end inside a part.
    #[error("the {part} is cut off: {needed} bytes are needed and {available} are there")]
    Truncated {
        /// The part.
        part: Part,
        /// Length of the part, as far as known.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// A checksum or digest does not match: bytes were damaged.
    #[error("the {part} is damaged: {reason}")]
    Damaged {
        /// The part.
        part: Part,
        /// The mismatch, in words.
        reason: &'static str,
    },
    /// The bytes are whole but violate a rule of the format; or values to be written do.
    #[error("the {part} breaks the format: {reason}")]
    Malformed {
        /// The part.
        part: Part,
        /// The rule.
        reason: &'static str,
    },
    /// A size or number is beyond a limit of the format.
    #[error("the {part} has {value} for {what}, where {limit} is the most")]
    Limit {
        /// The part.
        part: Part,
        /// The items that the number counts.
        what: &'static str,
        /// The number.
        value: u64,
        /// The maximum accepted.
        limit: u64,
    },
    /// The set names an algorithm that this build does not support.
    #[error("unknown algorithm id {id}")]
    UnknownAlgorithm {
        /// Identifier in the header.
        id: u8,
    },
    /// The set names a compression that this build does not support.
    #[error("unknown compression id {id}")]
    UnknownCompression {
        /// Identifier in the header.
        id: u8,
    },
    /// The secret is not the one with which the set was made.
    #[error("the key that was unwrapped is not the key of this set")]
    WrongKey,
    /// The key is right but a MAC is wrong: someone without the key changed bytes.
    #[error("the {part} was changed by someone who does not have the key")]
    Forged {
        /// The part.
        part: Part,
    },
    /// A block does not open at its place under the key: it was changed, moved, or belongs to
    /// another set.
    #[error("block {index} does not authenticate at its place")]
    Authentication {
        /// Index of the expected block.
        index: u64,
    },
    /// Another block is in the place of this one.
    #[error("block {found} stands where block {expected} was due")]
    BlockOrder {
        /// Expected index.
        expected: u64,
        /// Index found.
        found: u64,
    },
    /// A record does not name the record before it: one was removed, replaced or inserted.
    #[error("record {ordinal} does not follow the record before it")]
    Chain {
        /// Ordinal of the record.
        ordinal: u32,
    },
    /// Parts that belong together disagree.
    #[error("{what} do not agree")]
    Disagreement {
        /// The parts, and their difference.
        what: &'static str,
    },
    /// A signature is invalid.
    #[error("the signature does not hold")]
    Signature,
    /// A compression library refused valid input.
    #[error("cannot {operation}")]
    Compression {
        /// The operation that failed, as a verb.
        operation: &'static str,
    },
    /// The cryptographic library refused.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

impl MediaError {
    pub(crate) fn malformed(part: Part, reason: &'static str) -> Self {
        Self::Malformed { part, reason }
    }

    pub(crate) fn damaged(part: Part, reason: &'static str) -> Self {
        Self::Damaged { part, reason }
    }

    /// Refuses a value above `limit`.
    pub(crate) fn check_limit(
        part: Part,
        what: &'static str,
        value: u64,
        limit: u64,
    ) -> Result<(), Self> {
        if value <= limit { Ok(()) } else { Err(Self::Limit { part, what, value, limit }) }
    }
}

impl MediaError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::WrongKey => Kind::Key,
            Self::Compression { .. } | Self::Crypto(_) => Kind::Refused,
            Self::NotMedia
            | Self::FutureVersion { .. }
            | Self::Truncated { .. }
            | Self::Damaged { .. }
            | Self::Malformed { .. }
            | Self::Limit { .. }
            | Self::UnknownAlgorithm { .. }
            | Self::UnknownCompression { .. }
            | Self::Forged { .. }
            | Self::Authentication { .. }
            | Self::BlockOrder { .. }
            | Self::Chain { .. }
            | Self::Disagreement { .. }
            | Self::Signature => Kind::Damaged,
        }
    }
}
