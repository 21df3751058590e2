//! The hash of a set's blocks in signatures, which differs by format version.

use tdekit_key_crypto::fips::{IS_FIPS_BUILD, not_approved};
use tdekit_key_crypto::{CryptoError, blake3, sha256};

use crate::Digest;

/// The hash of a signed set's blocks. Each is collision-resistant: even a holder of the set's key
/// cannot find other blocks for a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentHash {
    /// SHA-256, of signatures of version 1.
    Sha256,
    /// BLAKE3, of signatures of version 2.
    Blake3,
}

impl ContentHash {
    /// The hash of signatures in new media sets.
    pub const NEW: Self = if IS_FIPS_BUILD { Self::Sha256 } else { Self::Blake3 };

    /// Refuses a hash that this build does not offer.
    ///
    /// # Errors
    /// [`CryptoError::NotApproved`].
    pub const fn check_offered(self) -> Result<(), CryptoError> {
        match self {
            Self::Sha256 => Ok(()),
            Self::Blake3 => not_approved("BLAKE3, the hash of this media set's signatures,"),
        }
    }

    /// Returns the version of the media set, which is also the version in a signature record; a
    /// record of version 1 does not have it.
    pub(crate) fn version(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Blake3 => 2,
        }
    }

    pub(crate) fn of_version(version: u8) -> Option<Self> {
        [Self::Sha256, Self::Blake3].into_iter().find(|hash| hash.version() == version)
    }

    pub(crate) fn label(self) -> &'static [u8] {
        match self {
            Self::Sha256 => b"tdekit backup signature/1",
            Self::Blake3 => b"tdekit backup signature/2",
        }
    }

    /// Hashes a whole block, header and stored bytes: a leaf of the set's digest. Threads can
    /// compute it independently.
    #[must_use]
    pub fn of_block(self, block: &[u8]) -> Digest {
        match self {
            Self::Sha256 => sha256(&[block]),
            Self::Blake3 => blake3(block),
        }
    }
}
