//! Faults of an encrypted file.

use tdekit_key_crypto::{CryptoError, Kind};

/// An error in bytes that could not be read or written as an encrypted database file.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Neither header slot is intact.
    #[error("neither header slot is intact: {reason}")]
    Header {
        /// The fault of the slot whose decoding got furthest.
        reason: &'static str,
    },
    /// The file was written by a later format version.
    #[error("format version {found} is newer than {supported}, the newest this build reads")]
    FutureVersion {
        /// Version in the file.
        found: u16,
        /// Newest version that this build reads.
        supported: u16,
    },
    /// The header names an algorithm that this build does not support.
    #[error("unknown algorithm id {id}")]
    UnknownAlgorithm {
        /// Identifier in the file.
        id: u8,
    },
    /// The header's MAC or a key's commitment does not match the unwrapped key.
    #[error("the header does not belong to the key that opened it")]
    KeyMismatch,
    /// The page, frame or extent names a key version that the header does not have.
    #[error("key version {version} is not in the header")]
    UnknownKeyVersion {
        /// Version that the unit names.
        version: u32,
    },
    /// A page does not authenticate at its place.
    #[error("page {page} does not authenticate at its place")]
    Page {
        /// Page number, from 1.
        page: u32,
    },
    /// A WAL frame's header does not authenticate at its place.
    #[error("WAL frame {frame} does not authenticate at its place")]
    Frame {
        /// Frame index, from 0.
        frame: u32,
    },
    /// A journal extent does not authenticate at its place.
    #[error("journal extent {index} does not authenticate at its place")]
    Extent {
        /// Extent index, from 0.
        index: u64,
    },
    /// The host tried to store data in the bytes reserved for the seal.
    #[error("page {page} carries data in its reserved bytes")]
    ReserveInUse {
        /// Page number, from 1.
        page: u32,
    },
    /// A header with this many keys and certificates does not fit a slot.
    #[error("the header needs {needed} bytes and a slot has {available}")]
    HeaderFull {
        /// Bytes that the header needs.
        needed: usize,
        /// Bytes that a slot has.
        available: usize,
    },
    /// A buffer or size is outside the limits of the format.
    #[error("size {size} is not valid for {what}")]
    Size {
        /// The size given.
        size: u64,
        /// The purpose of the size.
        what: &'static str,
    },
    /// The cryptographic library refused.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

impl PageError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::KeyMismatch => Kind::Key,
            Self::Crypto(_) | Self::HeaderFull { .. } => Kind::Refused,
            Self::Header { .. }
            | Self::FutureVersion { .. }
            | Self::UnknownAlgorithm { .. }
            | Self::UnknownKeyVersion { .. }
            | Self::Page { .. }
            | Self::Frame { .. }
            | Self::Extent { .. }
            | Self::ReserveInUse { .. }
            | Self::Size { .. } => Kind::Damaged,
        }
    }
}
