//! AES-256 in counter mode, for streams that arrive in pieces.

use std::fmt;

use crate::aws_lc::AesKey;
use crate::fips::not_approved;
use crate::{Algorithm, CryptoError};

const BLOCK_LEN: usize = 16;

/// A prepared key of AES-256 in counter mode. Nothing is authenticated.
///
/// The counter starts at the encryption of the IV, not at the IV. So IVs that differ by less than
/// the length of a stream, such as IVs that contain a byte offset, still give disjoint streams: two
/// of 2^40 streams of 2^20 blocks overlap with a probability below 2^-27.
pub struct CtrKey(AesKey);

/// Position in a stream, made by [`CtrKey::stream`]. Plain bytes, but as secret as the plaintext.
#[derive(Clone)]
pub struct CtrStream {
    counter: [u8; BLOCK_LEN],
    keystream: [u8; BLOCK_LEN],
    /// Used bytes of `keystream`; 0 means none or all.
    used: u32,
}

impl CtrKey {
    /// Length of a key in bytes.
    pub const KEY_LEN: usize = 32;

    /// Prepares a key of [`Self::KEY_LEN`] bytes.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn new(key: &[u8]) -> Result<Self, CryptoError> {
        not_approved("counter mode without a tag")?;
        let (algorithm, expected, actual) = (Algorithm::Aes256, Self::KEY_LEN, key.len());
        if actual != expected {
            return Err(CryptoError::KeyLength { algorithm, expected, actual });
        }
        AesKey::new(key, 0).map(Self)
    }

    /// Returns the stream of `iv` in a lane. Lanes of one IV never overlap.
    ///
    /// Using the same IV and lane twice gives the same keystream twice.
    #[inline]
    #[must_use]
    pub fn stream(&self, iv: &[u8; BLOCK_LEN], lane: u64) -> CtrStream {
        let mut counter = self.0.encrypt_block(*iv);
        // The counter occupies the last bytes, so lanes are 2^64 blocks apart.
        for (byte, lane) in counter.iter_mut().zip(lane.to_be_bytes()) {
            *byte ^= lane;
        }
        CtrStream { counter, keystream: [0; BLOCK_LEN], used: 0 }
    }

    /// Encrypts or decrypts the next bytes of a stream, in pieces of any length.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`].
    #[inline]
    pub fn apply(
        &self,
        stream: &mut CtrStream,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), CryptoError> {
        self.0.ctr(&mut stream.counter, &mut stream.keystream, &mut stream.used, input, output)
    }
}

impl fmt::Debug for CtrKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CtrKey(redacted)")
    }
}

impl fmt::Debug for CtrStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CtrStream(redacted)")
    }
}

#[cfg(test)]
#[cfg(not(feature = "fips"))]
mod tests {
    use aes::Aes256;
    use aes::cipher::{BlockCipherEncrypt, KeyInit};
    use proptest::prelude::*;

    use super::*;

    /// Computes the keystream with another library, block by block.
    fn expected(key: &[u8; 32], iv: [u8; 16], lane: u64, len: usize) -> Vec<u8> {
        let aes = Aes256::new(&(*key).into());
        let encrypt = |block: [u8; 16]| -> [u8; 16] {
            let mut block = block.into();
            aes.encrypt_block(&mut block);
            block.into()
        };
        let start = u128::from_be_bytes(encrypt(iv)) ^ (u128::from(lane) << 64);
        let blocks = (0..).flat_map(|at: u128| encrypt(start.wrapping_add(at).to_be_bytes()));
        blocks.take(len).collect()
    }

    #[test]
    fn lanes_differ_and_keys_have_one_length() {
        assert!(matches!(CtrKey::new(&[1; 16]), Err(CryptoError::KeyLength { .. })));
        let key = CtrKey::new(&[1; 32]).unwrap();
        let mut outs = [[0; 40]; 3];
        for (lane, out) in (0..).zip(&mut outs) {
            key.apply(&mut key.stream(&[2; 16], lane), &[0; 40], out).unwrap();
            assert_eq!(out.to_vec(), expected(&[1; 32], [2; 16], lane, 40));
        }
        assert_ne!(outs[0], outs[1]);
        assert_ne!(outs[1], outs[2]);
        let mut stream = key.stream(&[2; 16], 0);
        let unequal = key.apply(&mut stream, &[0; 3], &mut [0; 4]);
        assert!(matches!(unequal, Err(CryptoError::BufferMismatch { .. })));
        assert_eq!(format!("{key:?} {stream:?}"), "CtrKey(redacted) CtrStream(redacted)");
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_bytes(
            key: [u8; 32],
            iv: [u8; 16],
            lane in 0u64..4,
            message in proptest::collection::vec(any::<u8>(), 0..600),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let prepared = CtrKey::new(&key).unwrap();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(message.len() + 1)).collect();
            cuts.push(message.len());
            cuts.sort_unstable();
            let (mut stream, mut out) = (prepared.stream(&iv, lane), vec![0; message.len()]);
            let mut from = 0;
            for to in cuts {
                prepared.apply(&mut stream, &message[from..to], &mut out[from..to]).unwrap();
                from = to;
            }
            let keystream = expected(&key, iv, lane, message.len());
            let whole: Vec<_> = message.iter().zip(keystream).map(|(a, b)| a ^ b).collect();
            prop_assert_eq!(out, whole);
        }
    }
}
