//! Keyed fingerprints of pages: they show which pages changed, without a copy of the pages.

use std::fmt;

use crate::aws_lc::GcmContexts;
use crate::{Algorithm, CryptoError};

/// Length of a fingerprint in bytes.
pub const FINGERPRINT_LEN: usize = 16;

/// Length of the key in bytes.
pub const FINGERPRINT_KEY_LEN: usize = 32;

/// A prepared fingerprint key. A fingerprint is the tag of AES-256-GCM with a nonce of 12 zero
/// bytes, no plaintext, and the page as AAD.
///
/// Against an attacker who chooses pages without seeing key or fingerprints, two different pages
/// have the same fingerprint with a probability of at most (blocks + 1) / 2^128, where a block has
/// 16 bytes. Whoever sees fingerprints can recover the hash key: store them sealed, and use the key
/// for nothing else. Equal pages have equal fingerprints.
pub struct PageFingerprint(GcmContexts);

impl PageFingerprint {
    /// Prepares a key of [`FINGERPRINT_KEY_LEN`] bytes.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn new(key: &[u8]) -> Result<Self, CryptoError> {
        let (algorithm, expected) = (Algorithm::Aes256, FINGERPRINT_KEY_LEN);
        if key.len() != expected {
            return Err(CryptoError::KeyLength { algorithm, expected, actual: key.len() });
        }
        let mut contexts = GcmContexts::new(algorithm)?;
        contexts.push(key)?;
        Ok(Self(contexts))
    }

    /// Computes the fingerprint of a page.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    #[inline]
    pub fn of(&self, page: &[u8]) -> Result<[u8; FINGERPRINT_LEN], CryptoError> {
        self.0.seal(0, &[0; 12], page, &[], &mut [])
    }
}

impl fmt::Debug for PageFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageFingerprint(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_keys_differ() {
        let one = PageFingerprint::new(&[1; 32]).unwrap();
        let other = PageFingerprint::new(&[2; 32]).unwrap();
        let mut page = vec![7; 4096];
        let before = one.of(&page).unwrap();
        assert_eq!(before, one.of(&page).unwrap());
        assert_ne!(before, other.of(&page).unwrap());
        page[4095] ^= 1;
        assert_ne!(before, one.of(&page).unwrap());
        assert_ne!(one.of(&page[..4095]).unwrap(), one.of(&page).unwrap());
        assert!(PageFingerprint::new(&[1; 16]).is_err());
        assert_eq!(format!("{one:?}"), "PageFingerprint(redacted)");
    }
}
