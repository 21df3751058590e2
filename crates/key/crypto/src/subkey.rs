//! AES-GCM with 24-byte nonces: the first 12 bytes select a subkey, the last 12 are its GCM nonce.
//!
//! With a 256-bit key this is XAES-256-GCM (C2SP). With 128 and 192 bits it is the same
//! construction with AES of that size: NIST SP 800-108r1 KDF in counter mode, PRF CMAC, 16-bit
//! counter first, label `X`, context the prefix; output cut to the key's length.

use crate::aes_gcm::GcmKeys;
use crate::aws_lc::AesKey;
use crate::sealing::{NONCE_LEN, TAG_LEN};
use crate::{Algorithm, CryptoError};

/// Bytes of a nonce that select the subkey.
pub(crate) const PREFIX_LEN: usize = 12;

/// Maximum number of messages per subkey (NIST SP 800-38D, random IVs).
pub(crate) const SEALS_PER_SUBKEY: u64 = 1 << 32;

const BLOCK_LEN: usize = 16;
const WAYS: usize = 4;
const SETS: usize = 64;

type Prefix = [u8; PREFIX_LEN];
type Iv = [u8; NONCE_LEN - PREFIX_LEN];

/// A subkey in the table, and the number of the prepared key.
#[derive(Clone, Copy)]
struct Subkey {
    prefix: Prefix,
    at: usize,
    seals: u64,
}

/// A key with its most recently used subkeys, prepared. All of it is in secret pages.
pub(crate) struct GcmKey {
    deriver: Deriver,
    keys: GcmKeys,
    last: usize,
    table: Box<[Option<Subkey>]>,
    victims: [usize; SETS],
}

impl GcmKey {
    pub(crate) fn new(algorithm: Algorithm, key: &[u8]) -> Result<Self, CryptoError> {
        let keys = GcmKeys::new(algorithm)?;
        let deriver = Deriver::new(algorithm, key)?;
        let table = vec![None; SETS * WAYS].into_boxed_slice();
        Ok(Self { deriver, keys, last: 0, table, victims: [0; SETS] })
    }

    #[inline]
    pub(crate) fn seal(
        &mut self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        plaintext: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<[u8; TAG_LEN], CryptoError> {
        let (prefix, iv) = split(nonce)?;
        let subkey = self.subkey(prefix)?;
        if subkey.seals >= SEALS_PER_SUBKEY {
            return Err(CryptoError::SealLimit { limit: SEALS_PER_SUBKEY });
        }
        subkey.seals += 1;
        let at = subkey.at;
        self.keys.seal(at, iv, aad, plaintext, ciphertext)
    }

    #[inline]
    pub(crate) fn open(
        &mut self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        ciphertext: &[u8],
        tag: &[u8; TAG_LEN],
        plaintext: &mut [u8],
    ) -> Result<(), CryptoError> {
        let (prefix, iv) = split(nonce)?;
        let at = self.subkey(prefix)?.at;
        self.keys.open(at, iv, aad, ciphertext, tag, plaintext)
    }

    /// The prepared subkey of `prefix`.
    #[inline]
    fn subkey(&mut self, prefix: &Prefix) -> Result<&mut Subkey, CryptoError> {
        if !self.holds(self.last, prefix) {
            self.last = self.find_or_derive(prefix)?;
        }
        self.table[self.last].as_mut().ok_or(CryptoError::Library { operation: "keep a subkey" })
    }

    #[inline]
    fn holds(&self, slot: usize, prefix: &Prefix) -> bool {
        matches!(&self.table[slot], Some(subkey) if subkey.prefix == *prefix)
    }

    fn find_or_derive(&mut self, prefix: &Prefix) -> Result<usize, CryptoError> {
        // Prefixes are random, so any of their bits spread evenly over the sets.
        let set = usize::from(prefix[0]) % SETS;
        let slots = set * WAYS..(set + 1) * WAYS;
        if let Some(slot) = slots.clone().find(|&slot| self.holds(slot, prefix)) {
            return Ok(slot);
        }
        let free = slots.clone().find(|&slot| self.table[slot].is_none());
        let slot = free.unwrap_or_else(|| {
            let victim = &mut self.victims[set];
            *victim = (*victim + 1) % WAYS;
            slots.start + *victim
        });
        let key = self.deriver.derive(prefix);
        // Taken out first: after a failure, no entry may name a key that is not its own. At most
        // SETS * WAYS keys can be lost that way.
        let at = match self.table[slot].take() {
            Some(evicted) => {
                self.keys.set(evicted.at, key)?;
                evicted.at
            }
            None => self.keys.push(key)?,
        };
        self.table[slot] = Some(Subkey { prefix: *prefix, at, seals: 0 });
        Ok(slot)
    }
}

/// The nonce's two halves, by reference: a copy costs the processor a stalled load.
#[inline]
fn split(nonce: &[u8; NONCE_LEN]) -> Result<(&Prefix, &Iv), CryptoError> {
    nonce
        .first_chunk()
        .zip(nonce.last_chunk())
        .ok_or(CryptoError::Library { operation: "split a nonce" })
}

/// Derives subkeys from a key: AES on two blocks each.
///
/// The key's work area holds CMAC's K1 (NIST SP 800-38B; every input is one whole block), then the
/// two blocks.
struct Deriver {
    key: AesKey,
    key_len: usize,
}

impl Deriver {
    fn new(algorithm: Algorithm, key: &[u8]) -> Result<Self, CryptoError> {
        let mut deriver =
            Self { key: AesKey::new(key, 3 * BLOCK_LEN)?, key_len: algorithm.key_len() };
        deriver.key.encrypt_work(0..BLOCK_LEN);
        if let Some(l) = deriver.key.work_mut().first_chunk_mut() {
            *l = double(l);
        }
        Ok(deriver)
    }

    /// The subkey of `prefix`, in secret pages.
    #[cold]
    fn derive(&mut self, prefix: &Prefix) -> &[u8] {
        let (k1, blocks) = self.key.work_mut().split_at_mut(BLOCK_LEN);
        for (counter, block) in (1u8..).zip(blocks.chunks_exact_mut(BLOCK_LEN)) {
            block[..4].copy_from_slice(&[0, counter, b'X', 0]);
            block[4..].copy_from_slice(prefix);
            block.iter_mut().zip(k1.iter()).for_each(|(byte, mask)| *byte ^= mask);
        }
        self.key.encrypt_work(BLOCK_LEN..3 * BLOCK_LEN);
        &self.key.work()[BLOCK_LEN..BLOCK_LEN + self.key_len]
    }
}

/// Doubling in GF(2^128) as CMAC defines it (NIST SP 800-38B, 6.1), without a secret branch.
fn double(block: &[u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    let value = u128::from_be_bytes(*block);
    ((value << 1) ^ ((value >> 127) * 0x87)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subkey_seals_up_to_its_limit_and_goes_on_opening() {
        let mut key = GcmKey::new(Algorithm::Aes128, &[1; 16]).unwrap();
        let (nonce, mut out) = ([2; NONCE_LEN], [0; 4]);
        key.seal(&nonce, b"", b"page", &mut out).unwrap();
        key.subkey(&[2; PREFIX_LEN]).unwrap().seals = SEALS_PER_SUBKEY - 1;
        let tag = key.seal(&nonce, b"", b"page", &mut out).unwrap();
        let mut more = [0; 4];
        assert_eq!(
            key.seal(&nonce, b"", b"page", &mut more),
            Err(CryptoError::SealLimit { limit: SEALS_PER_SUBKEY })
        );
        key.open(&nonce, b"", &out, &tag, &mut more).unwrap();
        assert_eq!(&more, b"page");
        let mut other = nonce;
        other[0] ^= 1;
        key.seal(&other, b"", b"page", &mut more).unwrap();
    }

    /// NIST SP 800-38B, appendix D.1: L and K1 of AES-128.
    #[test]
    fn doubling_agrees_with_nist() {
        let l = 0x7df7_6b0c_1ab8_99b3_3e42_f047_b91b_546f_u128.to_be_bytes();
        let k1 = 0xfbee_d618_3571_3366_7c85_e08f_7236_a8de_u128.to_be_bytes();
        let k2 = 0xf7dd_ac30_6ae2_66cc_f90b_c11e_e46d_513b_u128.to_be_bytes();
        assert_eq!(double(&l), k1);
        assert_eq!(double(&k1), k2);
    }
}
