//! HCTR2 with AES-256 (Crowley, Huckleberry, Biggers, 2021): wide-block encryption.
//!
//! AES and POLYVAL come from their crates; this module only combines them as HCTR2 does. The
//! published vectors are in `tests/vectors/google-hctr2-aes-256.json`.

use std::fmt;
use std::sync::OnceLock;

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Block};
use polyval::Polyval;
use polyval::universal_hash::{UhfBackend, UniversalHash};

use crate::aes_polyval::{AesPolyval, BLOCK_LEN, decrypt_block, encrypt_block, product, xor};
use crate::memory::SecretBox;
use crate::xctr::Xctr;
use crate::{Algorithm, CryptoError};

/// Messages from here on are hashed in two halves side by side: one chain of multiplications waits
/// for itself, two fill the processor.
const SPLIT_BLOCKS: usize = 64;

/// A prepared key of HCTR2 with AES-256: a tweakable permutation of messages of one length.
///
/// Every bit of the output depends on every bit of the input, in both directions, so one that was
/// changed decrypts to noise. Nothing grows, and nothing is authenticated: a reader that finds the
/// content it expects in the plaintext knows as many bits of authenticity as that content has.
/// Messages that are equal under one tweak have equal ciphertexts; that is all that a repeated
/// tweak tells.
pub struct WideBlockKey(SecretBox<Prepared>);

struct Prepared {
    key: AesPolyval,
    /// Separates the counter's start from the two middle values.
    mask: [u8; BLOCK_LEN],
    /// The power of the hash key that joins the halves of messages of one length.
    join: OnceLock<Join>,
}

/// POLYVAL under the hash key's power `blocks`.
struct Join {
    blocks: usize,
    power: Polyval,
}

impl WideBlockKey {
    /// Length of a key in bytes.
    pub const KEY_LEN: usize = 32;
    /// Length of the shortest message in bytes.
    pub const MIN_LEN: usize = BLOCK_LEN;

    /// Prepares a key of [`Self::KEY_LEN`] bytes.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn new(key: &[u8]) -> Result<Self, CryptoError> {
        SecretBox::new(Prepared::new(key)?).map(Self)
    }

    /// Encrypts `plaintext` into `ciphertext`, of equal length.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`]; [`CryptoError::Length`] for messages shorter than
    /// [`Self::MIN_LEN`].
    #[inline]
    pub fn encrypt(
        &self,
        tweak: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<(), CryptoError> {
        crate::sealing::check_lengths(plaintext, ciphertext)?;
        let (head, rest) = split(plaintext)?;
        let Some((head_out, rest_out)) = ciphertext.split_first_chunk_mut() else {
            return Err(too_short(plaintext.len()));
        };
        let prepared = &*self.0;
        let start = prepared.start(tweak, rest.len());
        let inner = xor(*head, prepared.digest(&start, rest));
        let outer = encrypt_block(&prepared.key.aes, inner);
        prepared.xctr(xor(xor(inner, outer), prepared.mask), rest, rest_out);
        *head_out = xor(outer, prepared.digest(&start, rest_out));
        Ok(())
    }

    /// Decrypts `ciphertext` into `plaintext`, of equal length.
    ///
    /// # Errors
    /// As [`Self::encrypt`]. A changed ciphertext or another tweak is no error: it gives noise.
    #[inline]
    pub fn decrypt(
        &self,
        tweak: &[u8],
        ciphertext: &[u8],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        crate::sealing::check_lengths(ciphertext, plaintext)?;
        let (head, rest) = split(ciphertext)?;
        let Some((head_out, rest_out)) = plaintext.split_first_chunk_mut() else {
            return Err(too_short(ciphertext.len()));
        };
        let prepared = &*self.0;
        let start = prepared.start(tweak, rest.len());
        let outer = xor(*head, prepared.digest(&start, rest));
        let inner = decrypt_block(&prepared.key.aes, outer);
        prepared.xctr(xor(xor(inner, outer), prepared.mask), rest, rest_out);
        *head_out = xor(inner, prepared.digest(&start, rest_out));
        Ok(())
    }
}

impl fmt::Debug for WideBlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WideBlockKey(redacted)")
    }
}

impl Prepared {
    fn new(key: &[u8]) -> Result<Self, CryptoError> {
        let (algorithm, expected) = (Algorithm::Aes256, WideBlockKey::KEY_LEN);
        let actual = key.len();
        let aes = Aes256::new_from_slice(key).map_err(|_| CryptoError::KeyLength {
            algorithm,
            expected,
            actual,
        })?;
        let schedule = |number: u128| encrypt_block(&aes, number.to_le_bytes());
        let (hash_key, mask) = (schedule(0), schedule(1));
        Ok(Self { key: AesPolyval::new(aes, &hash_key), mask, join: OnceLock::new() })
    }

    /// The hash after the tweak, for messages whose rest has this length in bytes.
    #[inline]
    fn start(&self, tweak: &[u8], rest_len: usize) -> Polyval {
        let uneven = u128::from(!rest_len.is_multiple_of(BLOCK_LEN));
        let header = (tweak.len() as u128) * 16 + 2 + uneven;
        let mut hash = self.key.hash.clone();
        hash.proc_block(&header.to_le_bytes().into());
        hash.update_padded(tweak);
        hash
    }

    /// The hash of the rest of a message, begun by [`Self::start`].
    #[inline]
    fn digest(&self, start: &Polyval, rest: &[u8]) -> [u8; BLOCK_LEN] {
        let (blocks, tail) = rest.as_chunks();
        let (mut hash, mut carried, left) = self.hash_most(start, blocks);
        // The next block is added to the state before the multiplication, so the state may as well
        // be added to the next block.
        if let Some((first, others)) = left.split_first() {
            hash.proc_block(&xor(*first, carried).into());
            hash.update(Array::cast_slice_from_core(others));
            carried = [0; BLOCK_LEN];
        }
        if !tail.is_empty() {
            let mut last = [0; BLOCK_LEN];
            last[..tail.len()].copy_from_slice(tail);
            last[tail.len()] = 1;
            hash.proc_block(&xor(last, carried).into());
            carried = [0; BLOCK_LEN];
        }
        xor(hash.finalize().into(), carried)
    }

    /// Hashes most blocks of a long message. Returns a hash to continue with, the value to add to
    /// its next block, and the remaining blocks.
    #[inline]
    fn hash_most<'a>(
        &self,
        start: &Polyval,
        blocks: &'a [[u8; BLOCK_LEN]],
    ) -> (Polyval, [u8; BLOCK_LEN], &'a [[u8; BLOCK_LEN]]) {
        if blocks.len() < SPLIT_BLOCKS {
            return (start.clone(), [0; BLOCK_LEN], blocks);
        }
        match self.digest_halves(&mut start.clone(), Array::cast_slice_from_core(blocks)) {
            Some(joined) => (self.key.hash.clone(), joined, &[]),
            None => (start.clone(), [0; BLOCK_LEN], blocks),
        }
    }

    /// The hash after `blocks`, as two chains that are joined by a power of the key; `None` for
    /// messages of another length than the key's first.
    fn digest_halves(&self, first: &mut Polyval, blocks: &[Block]) -> Option<[u8; BLOCK_LEN]> {
        let half = (blocks.len() / 2).next_multiple_of(4).min(blocks.len());
        let (front, back) = blocks.split_at(half);
        let join = self.join.get_or_init(|| Join {
            blocks: back.len(),
            power: Polyval::new(
                &power(encrypt_block(&self.key.aes, [0; BLOCK_LEN]), back.len()).into(),
            ),
        });
        if join.blocks != back.len() {
            return None;
        }
        let mut second = self.key.hash.clone();
        let (front, _) = Array::slice_as_chunks(front);
        let (back, back_rest) = Array::slice_as_chunks(back);
        for (one, other) in front.iter().zip(back) {
            first.proc_par_blocks(one);
            second.proc_par_blocks(other);
        }
        for one in front.iter().skip(back.len()) {
            first.proc_par_blocks(one);
        }
        second.update(back_rest);
        let joined = product(&join.power, first.clone().finalize().into());
        Some(xor(joined, second.finalize().into()))
    }

    /// The stream of a message's rest.
    #[inline]
    fn xctr(&self, nonce: [u8; BLOCK_LEN], input: &[u8], output: &mut [u8]) {
        self.key.aes.encrypt_with_backend(Xctr { nonce, input, output });
    }
}

/// A key of POLYVAL multiplied by itself `exponent` times, at least once.
fn power(key: [u8; BLOCK_LEN], exponent: usize) -> [u8; BLOCK_LEN] {
    let times = |a: [u8; BLOCK_LEN], b| product(&Polyval::new(&a.into()), b);
    let mut power = key;
    for bit in (0..exponent.max(1).ilog2()).rev() {
        power = times(power, power);
        if exponent >> bit & 1 == 1 {
            power = times(power, key);
        }
    }
    power
}

#[inline]
fn split(message: &[u8]) -> Result<(&[u8; BLOCK_LEN], &[u8]), CryptoError> {
    message.split_first_chunk().ok_or_else(|| too_short(message.len()))
}

#[cold]
fn too_short(actual: usize) -> CryptoError {
    CryptoError::Length { what: "message", min: BLOCK_LEN, max: usize::MAX, actual }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hashes in one chain only: the reference for the joined halves.
    fn digest_in_one(start: &Polyval, rest: &[u8]) -> [u8; BLOCK_LEN] {
        let mut hash = start.clone();
        let (blocks, tail) = Array::slice_as_chunks(rest);
        for block in blocks {
            hash.proc_block(block);
        }
        if !tail.is_empty() {
            let mut last = [0; BLOCK_LEN];
            last[..tail.len()].copy_from_slice(tail);
            last[tail.len()] = 1;
            hash.proc_block(&last.into());
        }
        hash.finalize().into()
    }

    #[test]
    fn halves_join_to_the_hash_of_the_whole() {
        for blocks in [64, 65, 66, 67, 68, 71, 127, 128, 255, 1021, 4096] {
            for tail in [0, 1, 2, 15] {
                let key = WideBlockKey::new(&[7; 32]).unwrap();
                let rest: Vec<u8> = (0..blocks * 16 + tail).map(|at| (at % 251) as u8).collect();
                let start = key.0.start(&[9; 16], rest.len());
                // The second message has the length that the key knows, and another content.
                for message in [&rest, &rest.iter().map(|byte| byte ^ 0x5a).collect()] {
                    let expected = digest_in_one(&start, message);
                    assert_eq!(key.0.digest(&start, message), expected, "{blocks} {tail}");
                }
                // Another length than the key's first takes the one chain.
                let shorter = &rest[..64 * 16];
                let start = key.0.start(&[9; 16], shorter.len());
                let expected = digest_in_one(&start, shorter);
                assert_eq!(key.0.digest(&start, shorter), expected, "{blocks} {tail}");
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        assert!(matches!(WideBlockKey::new(&[0; 16]), Err(CryptoError::KeyLength { .. })));
        let key = WideBlockKey::new(&[1; 32]).unwrap();
        let short = key.encrypt(&[], &[0; 15], &mut [0; 15]);
        assert!(matches!(short, Err(CryptoError::Length { actual: 15, .. })));
        assert!(matches!(key.decrypt(&[], &[], &mut []), Err(CryptoError::Length { .. })));
        let unequal = key.encrypt(&[], &[0; 16], &mut [0; 17]);
        assert!(matches!(unequal, Err(CryptoError::BufferMismatch { .. })));
        assert_eq!(format!("{key:?}"), "WideBlockKey(redacted)");
    }

    proptest! {
        #[test]
        fn what_is_encrypted_decrypts_under_its_key_and_tweak_only(
            key: [u8; 32],
            tweak in proptest::collection::vec(any::<u8>(), 0..40),
            message in proptest::collection::vec(any::<u8>(), 16..5000),
            flip: prop::sample::Index,
        ) {
            let prepared = WideBlockKey::new(&key).unwrap();
            let mut sealed = vec![0; message.len()];
            prepared.encrypt(&tweak, &message, &mut sealed).unwrap();
            let mut opened = vec![0; message.len()];
            prepared.decrypt(&tweak, &sealed, &mut opened).unwrap();
            prop_assert_eq!(&opened, &message);

            let at = flip.index(sealed.len());
            sealed[at] ^= 1;
            prepared.decrypt(&tweak, &sealed, &mut opened).unwrap();
            // Each block of the plaintext changes, but with a chance of 2^-128.
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
