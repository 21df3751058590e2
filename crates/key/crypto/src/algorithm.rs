//! The algorithms that users choose among, by the names they see on every surface.

use std::fmt;
use std::str::FromStr;

use crate::CryptoError;

/// An encryption algorithm by its surface name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Algorithm {
    /// `AES_128`: AES-128-GCM under derived subkeys.
    Aes128,
    /// `AES_192`: AES-192-GCM under derived subkeys.
    Aes192,
    /// `AES_256`: XAES-256-GCM (C2SP), the default.
    #[default]
    Aes256,
    /// `AEGIS_128X2` (RFC 10032).
    Aegis128X2,
    /// `AEGIS_256X2` (RFC 10032).
    Aegis256X2,
    /// `TRIPLE_DES_3KEY`: 3DES-CBC and HMAC-SHA-256, for backups only.
    TripleDes3Key,
}

impl Algorithm {
    /// Every algorithm, in the order of their ids.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        &[
            Self::Aes128,
            Self::Aes192,
            Self::Aes256,
            Self::Aegis128X2,
            Self::Aegis256X2,
            Self::TripleDes3Key,
        ]
    }

    /// Algorithms that this build offers: all, or in a FIPS build those that satisfy
    /// [`Self::is_fips`].
    pub fn offered() -> impl Iterator<Item = Self> {
        Self::all().iter().copied().filter(|algorithm| algorithm.check_offered().is_ok())
    }

    /// Refuses an algorithm that this build does not offer.
    ///
    /// # Errors
    /// [`CryptoError::NotApproved`].
    pub const fn check_offered(self) -> Result<(), CryptoError> {
        if self.is_fips() { Ok(()) } else { crate::fips::not_approved(self.name()) }
    }

    /// The name on every surface, such as `AES_256`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "AES_128",
            Self::Aes192 => "AES_192",
            Self::Aes256 => "AES_256",
            Self::Aegis128X2 => "AEGIS_128X2",
            Self::Aegis256X2 => "AEGIS_256X2",
            Self::TripleDes3Key => "TRIPLE_DES_3KEY",
        }
    }

    /// The number that file formats store. It never changes.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Aes128 => 1,
            Self::Aes192 => 2,
            Self::Aes256 => 3,
            Self::Aegis128X2 => 4,
            Self::Aegis256X2 => 5,
            Self::TripleDes3Key => 6,
        }
    }

    /// The algorithm with this id, if there is one.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::all().iter().copied().find(|algorithm| algorithm.id() == id)
    }

    /// Length of a key in bytes.
    #[must_use]
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128 | Self::Aegis128X2 => 16,
            Self::Aes192 | Self::TripleDes3Key => 24,
            Self::Aes256 | Self::Aegis256X2 => 32,
        }
    }

    /// Returns true if [`crate::SealingKey`] accepts the algorithm.
    #[must_use]
    pub const fn seals_pages(self) -> bool {
        !matches!(self, Self::TripleDes3Key)
    }

    /// Returns true if a FIPS profile may offer the algorithm: its parts are NIST-approved (AES-GCM
    /// with subkeys by NIST SP 800-108r1). The build itself is validated only with the library's
    /// FIPS module.
    #[must_use]
    pub const fn is_fips(self) -> bool {
        matches!(self, Self::Aes128 | Self::Aes192 | Self::Aes256)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = CryptoError;

    /// Parses a surface name, in any case.
    fn from_str(name: &str) -> Result<Self, CryptoError> {
        Self::all()
            .iter()
            .copied()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| CryptoError::UnknownAlgorithm(name.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_names_and_lengths_are_the_stored_ones() {
        let rows = [
            (Algorithm::Aes128, 1, "AES_128", 16, true, true),
            (Algorithm::Aes192, 2, "AES_192", 24, true, true),
            (Algorithm::Aes256, 3, "AES_256", 32, true, true),
            (Algorithm::Aegis128X2, 4, "AEGIS_128X2", 16, true, false),
            (Algorithm::Aegis256X2, 5, "AEGIS_256X2", 32, true, false),
            (Algorithm::TripleDes3Key, 6, "TRIPLE_DES_3KEY", 24, false, false),
        ];
        assert_eq!(rows.len(), Algorithm::all().len());
        for (algorithm, id, name, key_len, pages, fips) in rows {
            assert_eq!(algorithm.id(), id);
            assert_eq!(Algorithm::from_id(id), Some(algorithm));
            assert_eq!(algorithm.to_string(), name);
            assert_eq!(name.to_lowercase().parse(), Ok(algorithm));
            assert_eq!(algorithm.key_len(), key_len);
            assert_eq!(algorithm.seals_pages(), pages);
            assert_eq!(algorithm.is_fips(), fips);
        }
        assert_eq!(Algorithm::from_id(0), None);
        assert_eq!(Algorithm::from_id(7), None);
        assert_eq!(Algorithm::default(), Algorithm::Aes256);
        assert!("AES_512".parse::<Algorithm>().is_err());
    }
}
