//! A hash of tweak and message by AWS-LC's GMAC, the fastest GHASH available.

use crate::aes_polyval::{BLOCK_LEN, xor};
use crate::aws_lc::GcmContexts;
use crate::wide_block::Hash;
use crate::{Algorithm, CryptoError};

/// Contexts of the two keys.
const REST: usize = 0;
const TWEAK: usize = 1;
const EACH_LEN: usize = 32;

/// `GMAC(K1, rest) xor GMAC(K2, tweak)`, each with AES-256 (NIST SP 800-38D) and a nonce of 12 zero
/// bytes.
///
/// Under a fixed nonce, a tag is GHASH of its message, lengths included, xor a constant that
/// depends only on the key. GHASH is almost xor-universal and the constant cancels in every
/// difference, so each half is almost xor-universal, and because the two keys are independent, so
/// is the sum over pairs. Tags under one nonce reveal the key to whoever sees them: nobody sees
/// these, and these keys must never seal anything else.
pub(crate) struct GmacHash(GcmContexts);

impl GmacHash {
    /// Length of both keys in bytes.
    pub(crate) const KEY_LEN: usize = 2 * EACH_LEN;

    /// Prepares a key of [`Self::KEY_LEN`] bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Self, CryptoError> {
        let (algorithm, expected, actual) = (Algorithm::Aes256, Self::KEY_LEN, key.len());
        if actual != expected {
            return Err(CryptoError::KeyLength { algorithm, expected, actual });
        }
        let mut contexts = GcmContexts::new(algorithm)?;
        for key in key.chunks(EACH_LEN) {
            contexts.push(key)?;
        }
        Ok(Self(contexts))
    }

    #[inline]
    fn tag(&self, at: usize, message: &[u8]) -> Result<[u8; BLOCK_LEN], CryptoError> {
        self.0.seal(at, &[0; 12], message, &[], &mut [])
    }
}

impl Hash for GmacHash {
    /// GMAC tag of the tweak.
    type Start = [u8; BLOCK_LEN];

    #[inline]
    fn start(&self, tweak: &[u8], _rest_len: usize) -> Result<Self::Start, CryptoError> {
        self.tag(TWEAK, tweak)
    }

    #[inline]
    fn digest(&self, start: &Self::Start, rest: &[u8]) -> Result<[u8; BLOCK_LEN], CryptoError> {
        self.tag(REST, rest).map(|tag| xor(tag, *start))
    }
}
