//! AES-256-GCM with IVs from the caller, for formats that prescribe them.

use std::fmt;

use crate::aes_gcm::GcmKeys;
use crate::{Algorithm, CryptoError};

/// A prepared key of AES-256-GCM (NIST SP 800-38D).
///
/// Callers that choose their own nonces use [`crate::SealingKey`], which takes longer ones.
pub struct GcmKey(GcmKeys);

impl GcmKey {
    /// Length of a key in bytes.
    pub const KEY_LEN: usize = 32;
    /// Length of an IV in bytes.
    pub const IV_LEN: usize = 12;
    /// Length of a tag in bytes.
    pub const TAG_LEN: usize = 16;

    /// Prepares a key of [`Self::KEY_LEN`] bytes.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn new(key: &[u8]) -> Result<Self, CryptoError> {
        let (algorithm, expected, actual) = (Algorithm::Aes256, Self::KEY_LEN, key.len());
        if actual != expected {
            return Err(CryptoError::KeyLength { algorithm, expected, actual });
        }
        let mut keys = GcmKeys::new(algorithm)?;
        keys.push(key)?;
        Ok(Self(keys))
    }

    /// Encrypts `plaintext` into `ciphertext`, of equal length, and returns the tag. An IV may seal
    /// only one message: a second one reveals both plaintexts and the authentication key.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`].
    #[inline]
    pub fn seal(
        &self,
        iv: &[u8; Self::IV_LEN],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<[u8; Self::TAG_LEN], CryptoError> {
        self.0.seal(0, iv, aad, plaintext, ciphertext)
    }

    /// Checks `tag` and decrypts `ciphertext` into `plaintext`, of equal length. On failure
    /// `plaintext` is zeroed.
    ///
    /// # Errors
    /// [`CryptoError::Authentication`]; [`CryptoError::BufferMismatch`].
    #[inline]
    pub fn open(
        &self,
        iv: &[u8; Self::IV_LEN],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8; Self::TAG_LEN],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        let opened = self.0.open(0, iv, aad, ciphertext, tag, plaintext);
        if opened.is_err() {
            plaintext.fill(0);
        }
        opened
    }
}

impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GcmKey(redacted)")
    }
}
