//! Sealing of pages and blocks: authenticated encryption with 24-byte nonces.

use std::fmt;

use crate::libaegis::AegisKey;
use crate::subkey::GcmKey;
use crate::{Algorithm, CryptoError};

/// Length of a nonce in bytes, for every algorithm.
pub const NONCE_LEN: usize = 24;

/// Length of a tag in bytes, for every algorithm.
pub const TAG_LEN: usize = 16;

/// A prepared key. Keep one for each file handle: it caches subkeys, so its methods take
/// `&mut self`.
///
/// Nonces come from [`crate::NonceSource`]: `AEGIS_128X2` rests on the randomness of a nonce's
/// last 16 bytes, the AES algorithms on that of the last 12.
pub struct SealingKey {
    algorithm: Algorithm,
    prepared: Prepared,
}

enum Prepared {
    Gcm(Box<GcmKey>),
    Aegis128X2(AegisKey<16>),
    Aegis256X2(AegisKey<32>),
}

impl SealingKey {
    /// Prepares `key`, which must be [`Algorithm::key_len`] bytes long.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::NotForPages`] for an algorithm that does not seal
    /// pages; [`CryptoError::NotApproved`] and [`CryptoError::NoFipsModule`] in a FIPS build;
    /// [`CryptoError::Memory`].
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Result<Self, CryptoError> {
        let expected = algorithm.key_len();
        if key.len() != expected {
            return Err(CryptoError::KeyLength { algorithm, expected, actual: key.len() });
        }
        algorithm.check_offered()?;
        crate::fips::check_module()?;
        let prepared = match algorithm {
            Algorithm::Aes128 | Algorithm::Aes192 | Algorithm::Aes256 => {
                Prepared::Gcm(Box::new(GcmKey::new(algorithm, key)?))
            }
            Algorithm::Aegis128X2 => Prepared::Aegis128X2(AegisKey::aegis_128x2(key)?),
            Algorithm::Aegis256X2 => Prepared::Aegis256X2(AegisKey::aegis_256x2(key)?),
            Algorithm::TripleDes3Key => return Err(CryptoError::NotForPages(algorithm)),
        };
        Ok(Self { algorithm, prepared })
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Encrypts `plaintext` into `ciphertext`, of equal length, and returns the tag over it, the
    /// nonce and `aad`.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`]; [`CryptoError::SealLimit`] when the nonce's prefix was
    /// used too often.
    #[inline]
    pub fn seal(
        &mut self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_LEN], CryptoError> {
        match &mut self.prepared {
            Prepared::Gcm(key) => key.seal(nonce, aad, plaintext, ciphertext),
            Prepared::Aegis128X2(key) => {
                let (head, nonce) = split_128x2(nonce);
                with_head(&head, aad, |aad| key.seal(&nonce, aad, plaintext, ciphertext))
            }
            Prepared::Aegis256X2(key) => key.seal(&widen_256x2(nonce), aad, plaintext, ciphertext),
        }
    }

    /// Checks `tag` over `ciphertext`, the nonce and `aad`, and decrypts into `plaintext`, of
    /// equal length. On failure `plaintext` is zeroed.
    ///
    /// # Errors
    /// [`CryptoError::Authentication`]; [`CryptoError::BufferMismatch`].
    #[inline]
    pub fn open(
        &mut self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8; TAG_LEN],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        let opened = match &mut self.prepared {
            Prepared::Gcm(key) => key.open(nonce, aad, ciphertext, tag, plaintext),
            Prepared::Aegis128X2(key) => {
                let (head, nonce) = split_128x2(nonce);
                with_head(&head, aad, |aad| key.open(&nonce, aad, ciphertext, tag, plaintext))
            }
            Prepared::Aegis256X2(key) => {
                key.open(&widen_256x2(nonce), aad, ciphertext, tag, plaintext)
            }
        };
        if opened.is_err() {
            plaintext.fill(0);
        }
        opened
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({}, redacted)", self.algorithm)
    }
}

/// Refuses buffers of different length.
#[inline]
pub(crate) fn check_lengths(input: &[u8], output: &[u8]) -> Result<(), CryptoError> {
    if input.len() == output.len() {
        return Ok(());
    }
    Err(CryptoError::BufferMismatch { input_len: input.len(), output_len: output.len() })
}

/// AEGIS-128X2 takes 16 bytes of nonce: the last 16, which contain all the randomness of a nonce.
/// The first 8 are bound as a prefix of the AAD.
#[inline]
fn split_128x2(nonce: &[u8; NONCE_LEN]) -> ([u8; 8], [u8; 16]) {
    let (mut head, mut tail) = ([0; 8], [0; 16]);
    head.copy_from_slice(&nonce[..8]);
    tail.copy_from_slice(&nonce[8..]);
    (head, tail)
}

/// AEGIS-256X2 takes 32 bytes of nonce: the 24, then 8 zero bytes.
#[inline]
fn widen_256x2(nonce: &[u8; NONCE_LEN]) -> [u8; 32] {
    let mut wide = [0; 32];
    wide[..NONCE_LEN].copy_from_slice(nonce);
    wide
}

/// Calls `f` with the bytes of `head` followed by `aad`.
#[inline]
fn with_head<T>(head: &[u8; 8], aad: &[u8], f: impl FnOnce(&[u8]) -> T) -> T {
    const INLINE_LEN: usize = 128;
    let len = head.len() + aad.len();
    if len > INLINE_LEN {
        return f(&[head, aad].concat());
    }
    let mut bound = [0; INLINE_LEN];
    bound[..head.len()].copy_from_slice(head);
    bound[head.len()..len].copy_from_slice(aad);
    f(&bound[..len])
}
