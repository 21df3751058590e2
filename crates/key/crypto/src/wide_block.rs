//! Wide-block encryption by hash, counter and hash: HCTR2 (Crowley, Huckleberry, Biggers, 2021),
//! and the same construction with another hash.
//!
//! AES comes from its crate; this module only combines AES and hash as HCTR2 does.

use std::fmt;

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use crate::aes_polyval::{BLOCK_LEN, decrypt_block, encrypt_block, xor};
use crate::fips::not_approved;
use crate::gmac_hash::GmacHash;
use crate::hctr2::Hctr2Hash;
use crate::memory::SecretBox;
use crate::xctr::Xctr;
use crate::{Algorithm, CryptoError};

/// A prepared wide-block key with AES-256: a tweakable permutation of messages of one length.
///
/// Every bit of the output depends on every bit of the input, in both directions, so a changed
/// ciphertext decrypts to noise. The length does not grow, and nothing is authenticated: a reader
/// that finds the expected content in the plaintext has as many bits of authenticity as that
/// content. Equal messages under one tweak have equal ciphertexts; a repeated tweak reveals nothing
/// else.
pub struct WideBlockKey(Cipher);

enum Cipher {
    Hctr2(SecretBox<Prepared<Hctr2Hash>>),
    Gmac(SecretBox<Prepared<GmacHash>>),
}

/// A keyed, almost xor-universal hash of a tweak and of the message after its first block: for two
/// different inputs, no difference of the hashes is more likely than any other.
pub(crate) trait Hash {
    /// State after the tweak; both hashes of a message begin with it.
    type Start;

    /// Starts a hash for messages whose rest has `rest_len` bytes.
    fn start(&self, tweak: &[u8], rest_len: usize) -> Result<Self::Start, CryptoError>;

    /// Hashes the rest of a message, starting from [`Self::start`].
    fn digest(&self, start: &Self::Start, rest: &[u8]) -> Result<[u8; BLOCK_LEN], CryptoError>;
}

impl WideBlockKey {
    /// Length of a key of HCTR2 in bytes.
    pub const HCTR2_KEY_LEN: usize = 32;
    /// Length of a key with the GMAC hash in bytes: the AES key, then the hash keys.
    pub const GMAC_KEY_LEN: usize = 32 + GmacHash::KEY_LEN;
    /// Length of the shortest message in bytes.
    pub const MIN_LEN: usize = BLOCK_LEN;

    /// Prepares a key of [`Self::HCTR2_KEY_LEN`] bytes for HCTR2, whose hash is POLYVAL.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn hctr2(key: &[u8]) -> Result<Self, CryptoError> {
        not_approved("HCTR2")?;
        let aes = aes(key, Self::HCTR2_KEY_LEN)?;
        let hash = Hctr2Hash::new(encrypt_block(&aes, block(0)));
        SecretBox::new(Prepared::new(aes, hash)).map(Cipher::Hctr2).map(Self)
    }

    /// Prepares a key of [`Self::GMAC_KEY_LEN`] bytes for the wide block whose hash is two GMAC
    /// tags: `docs/crypto.md`, "The wide block over GMAC".
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn gmac(key: &[u8]) -> Result<Self, CryptoError> {
        not_approved("the wide block over GMAC")?;
        let (first, rest) = key.split_at(key.len().min(Self::HCTR2_KEY_LEN));
        let (aes, hash) = (aes(first, Self::HCTR2_KEY_LEN)?, GmacHash::new(rest)?);
        SecretBox::new(Prepared::new(aes, hash)).map(Cipher::Gmac).map(Self)
    }

    /// Encrypts `plaintext` into `ciphertext`, of equal length.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`]; [`CryptoError::Length`] for messages shorter than
    /// [`Self::MIN_LEN`]; [`CryptoError::Library`].
    #[inline]
    pub fn encrypt(
        &self,
        tweak: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<(), CryptoError> {
        match &self.0 {
            Cipher::Hctr2(key) => key.apply(tweak, plaintext, ciphertext, Direction::Encrypt),
            Cipher::Gmac(key) => key.apply(tweak, plaintext, ciphertext, Direction::Encrypt),
        }
    }

    /// Decrypts `ciphertext` into `plaintext`, of equal length.
    ///
    /// # Errors
    /// As [`Self::encrypt`]. A changed ciphertext or another tweak is not an error: it gives noise.
    #[inline]
    pub fn decrypt(
        &self,
        tweak: &[u8],
        ciphertext: &[u8],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        match &self.0 {
            Cipher::Hctr2(key) => key.apply(tweak, ciphertext, plaintext, Direction::Decrypt),
            Cipher::Gmac(key) => key.apply(tweak, ciphertext, plaintext, Direction::Decrypt),
        }
    }
}

impl fmt::Debug for WideBlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WideBlockKey(redacted)")
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Encrypt,
    Decrypt,
}

struct Prepared<H> {
    aes: Aes256,
    /// Separates the counter's start from the two middle values.
    mask: [u8; BLOCK_LEN],
    hash: H,
}

impl<H: Hash> Prepared<H> {
    fn new(aes: Aes256, hash: H) -> Self {
        let mask = encrypt_block(&aes, block(1));
        Self { aes, mask, hash }
    }

    /// Both directions: they differ only in the AES operation on the middle value.
    #[inline]
    fn apply(
        &self,
        tweak: &[u8],
        input: &[u8],
        output: &mut [u8],
        direction: Direction,
    ) -> Result<(), CryptoError> {
        crate::sealing::check_lengths(input, output)?;
        let Some((head, rest)) = input.split_first_chunk() else {
            return Err(too_short(input.len()));
        };
        let Some((head_out, rest_out)) = output.split_first_chunk_mut() else {
            return Err(too_short(input.len()));
        };
        let start = self.hash.start(tweak, rest.len())?;
        let before = xor(*head, self.hash.digest(&start, rest)?);
        let after = match direction {
            Direction::Encrypt => encrypt_block(&self.aes, before),
            Direction::Decrypt => decrypt_block(&self.aes, before),
        };
        let nonce = xor(xor(before, after), self.mask);
        self.aes.encrypt_with_backend(Xctr { nonce, input: rest, output: rest_out });
        *head_out = xor(after, self.hash.digest(&start, rest_out)?);
        Ok(())
    }
}

fn aes(key: &[u8], expected: usize) -> Result<Aes256, CryptoError> {
    let (algorithm, actual) = (Algorithm::Aes256, key.len());
    Aes256::new_from_slice(key).map_err(|_| CryptoError::KeyLength { algorithm, expected, actual })
}

fn block(number: u128) -> [u8; BLOCK_LEN] {
    number.to_le_bytes()
}

#[cold]
fn too_short(actual: usize) -> CryptoError {
    CryptoError::Length { what: "message", min: BLOCK_LEN, max: usize::MAX, actual }
}

#[cfg(test)]
#[cfg(not(feature = "fips"))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_checked() {
        assert!(matches!(WideBlockKey::hctr2(&[0; 16]), Err(CryptoError::KeyLength { .. })));
        for len in [0, 32, 95, 97] {
            let key = vec![0; len];
            assert!(
                matches!(WideBlockKey::gmac(&key), Err(CryptoError::KeyLength { .. })),
                "{len}"
            );
        }
        for key in [WideBlockKey::hctr2(&[1; 32]), WideBlockKey::gmac(&[1; 96])] {
            let key = key.unwrap();
            let short = key.encrypt(&[], &[0; 15], &mut [0; 15]);
            assert!(matches!(short, Err(CryptoError::Length { actual: 15, .. })));
            assert!(matches!(key.decrypt(&[], &[], &mut []), Err(CryptoError::Length { .. })));
            let unequal = key.encrypt(&[], &[0; 16], &mut [0; 17]);
            assert!(matches!(unequal, Err(CryptoError::BufferMismatch { .. })));
            assert_eq!(format!("{key:?}"), "WideBlockKey(redacted)");
        }
    }

    proptest! {
        #[test]
        fn what_is_encrypted_decrypts_under_its_key_and_tweak_only(
            key in proptest::collection::vec(any::<u8>(), 96),
            tweak in proptest::collection::vec(any::<u8>(), 0..40),
            message in proptest::collection::vec(any::<u8>(), 16..5000),
            flip: prop::sample::Index,
        ) {
            for prepared in [WideBlockKey::hctr2(&key[..32]), WideBlockKey::gmac(&key)] {
                let prepared = prepared.unwrap();
                let mut sealed = vec![0; message.len()];
                prepared.encrypt(&tweak, &message, &mut sealed).unwrap();
                let mut opened = vec![0; message.len()];
                prepared.decrypt(&tweak, &sealed, &mut opened).unwrap();
                prop_assert_eq!(&opened, &message);

                let at = flip.index(sealed.len());
                sealed[at] ^= 1;
                prepared.decrypt(&tweak, &sealed, &mut opened).unwrap();
                // Every block of the plaintext changes, except with a probability of 2^-128.
                for (new, old) in opened.chunks_exact(16).zip(message.chunks_exact(16)) {
                    prop_assert_ne!(new, old);
                }
                sealed[at] ^= 1;
                let other = [tweak.as_slice(), &[0]].concat();
                prepared.decrypt(&other, &sealed, &mut opened).unwrap();
                prop_assert_ne!(&opened, &message);
            }
        }
    }
}
