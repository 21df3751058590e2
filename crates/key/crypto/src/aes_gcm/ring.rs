//! AES-GCM keys of ring, kept in secret pages.

use ::ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

use crate::aws_lc::{IV_LEN, TAG_LEN};
use crate::memory::SecretBox;
use crate::{Algorithm, CryptoError};

/// Prepared keys, numbered from 0, in pages that are added as they fill.
pub(crate) struct RingKeys {
    algorithm: &'static ::ring::aead::Algorithm,
    chunks: Vec<SecretBox<Chunk>>,
    len: usize,
}

type Chunk = [Option<LessSafeKey>; PER_CHUNK];

const PER_CHUNK: usize = 4096 / size_of::<Option<LessSafeKey>>();
const _: () = assert!(PER_CHUNK > 0);

impl RingKeys {
    /// No keys yet, for AES of the algorithm's key length.
    pub(crate) fn new(algorithm: Algorithm) -> Result<Self, CryptoError> {
        let algorithm = match algorithm {
            Algorithm::Aes128 => &AES_128_GCM,
            Algorithm::Aes256 => &AES_256_GCM,
            other => return Err(CryptoError::NotForPages(other)),
        };
        Ok(Self { algorithm, chunks: Vec::new(), len: 0 })
    }

    /// Prepares a key and returns its number.
    pub(crate) fn push(&mut self, key: &[u8]) -> Result<usize, CryptoError> {
        if self.len == self.chunks.len() * PER_CHUNK {
            self.chunks.push(SecretBox::new([const { None }; PER_CHUNK])?);
        }
        self.len += 1;
        self.set(self.len - 1, key).inspect_err(|_| self.len -= 1)?;
        Ok(self.len - 1)
    }

    /// Prepares a key in the place of another. After a failure that place has none.
    pub(crate) fn set(&mut self, at: usize, key: &[u8]) -> Result<(), CryptoError> {
        if at >= self.len {
            return Err(unusable_key());
        }
        let slot = &mut self.chunks[at / PER_CHUNK][at % PER_CHUNK];
        *slot = None;
        let done = prepare(self.algorithm, key, slot);
        scrub_stack();
        done
    }

    /// Encrypts into `ciphertext`, of the plaintext's length, and returns the tag.
    #[inline]
    pub(crate) fn seal(
        &self,
        at: usize,
        iv: &[u8; IV_LEN],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_LEN], CryptoError> {
        let key = self.key(at, plaintext, ciphertext)?;
        // ring works in place. The copy is in the processor's nearest cache.
        ciphertext.copy_from_slice(plaintext);
        let iv = Nonce::assume_unique_for_key(*iv);
        let tag = key.seal_in_place_separate_tag(iv, Aad::from(aad), ciphertext);
        let tag = tag.ok().and_then(|tag| tag.as_ref().try_into().ok());
        tag.ok_or(CryptoError::Library { operation: "seal with AES-GCM" })
    }

    /// Decrypts into `plaintext`, of the ciphertext's length, whose content is undefined after a
    /// failure.
    #[inline]
    pub(crate) fn open(
        &self,
        at: usize,
        iv: &[u8; IV_LEN],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8; TAG_LEN],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        let key = self.key(at, ciphertext, plaintext)?;
        plaintext.copy_from_slice(ciphertext);
        let iv = Nonce::assume_unique_for_key(*iv);
        key.open_in_place_separate_tag(iv, Aad::from(aad), (*tag).into(), plaintext, 0..)
            .map(|_| ())
            .map_err(|_| CryptoError::Authentication)
    }

    /// A prepared key, for buffers of equal length.
    #[inline]
    fn key(&self, at: usize, input: &[u8], output: &[u8]) -> Result<&LessSafeKey, CryptoError> {
        crate::sealing::check_lengths(input, output)?;
        let chunk = self.chunks.get(at / PER_CHUNK).ok_or_else(unusable_key)?;
        chunk[at % PER_CHUNK].as_ref().ok_or_else(unusable_key)
    }
}

/// Prepares a key in `slot`. ring moves it over the stack: everything here is below the caller's
/// frame.
#[inline(never)]
fn prepare(
    algorithm: &'static ::ring::aead::Algorithm,
    key: &[u8],
    slot: &mut Option<LessSafeKey>,
) -> Result<(), CryptoError> {
    let key = UnboundKey::new(algorithm, key).map_err(|_| unusable_key())?;
    *slot = Some(LessSafeKey::new(key));
    Ok(())
}

/// Overwrites the stack below the caller's frame, where [`prepare`] left copies of a key.
#[inline(never)]
fn scrub_stack() {
    let mut below = [0u8; 16 << 10];
    below.zeroize();
    std::hint::black_box(&mut below);
}

fn unusable_key() -> CryptoError {
    CryptoError::Library { operation: "prepare an AES key" }
}
