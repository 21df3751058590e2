//! The hash of HCTR2 (Crowley, Huckleberry, Biggers, 2021): POLYVAL of tweak and message.
//!
//! POLYVAL comes from its crate. The published vectors of HCTR2 with AES-256 are in
//! `tests/vectors/google-hctr2-aes-256.json`.

use std::sync::OnceLock;

use aes::Block;
use aes::cipher::Array;
use polyval::Polyval;
use polyval::universal_hash::{UhfBackend, UniversalHash};

use crate::CryptoError;
use crate::aes_polyval::{BLOCK_LEN, product, xor};
use crate::wide_block::Hash;

/// Longer messages are hashed in two halves side by side: in a single chain, each multiplication
/// waits for the one before; two chains fill the processor.
const SPLIT_BLOCKS: usize = 64;

/// A prepared hash key. Keep it in memory that is wiped.
pub(crate) struct Hctr2Hash {
    key: [u8; BLOCK_LEN],
    /// POLYVAL under the key, with nothing hashed yet.
    hash: Polyval,
    /// The power of the key that joins the halves of messages of one length.
    join: OnceLock<Join>,
}

/// POLYVAL under the hash key's power `blocks`.
struct Join {
    blocks: usize,
    power: Polyval,
}

impl Hctr2Hash {
    pub(crate) fn new(key: [u8; BLOCK_LEN]) -> Self {
        Self { key, hash: Polyval::new(&key.into()), join: OnceLock::new() }
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
            Some(joined) => (self.hash.clone(), joined, &[]),
            None => (start.clone(), [0; BLOCK_LEN], blocks),
        }
    }

    /// Hashes `blocks` in two chains, joined by a power of the key. Returns `None` for messages
    /// whose length differs from the first length that the key saw.
    fn digest_halves(&self, first: &mut Polyval, blocks: &[Block]) -> Option<[u8; BLOCK_LEN]> {
        let half = (blocks.len() / 2).next_multiple_of(4).min(blocks.len());
        let (front, back) = blocks.split_at(half);
        let join = self.join.get_or_init(|| Join {
            blocks: back.len(),
            power: Polyval::new(&power(self.key, back.len()).into()),
        });
        if join.blocks != back.len() {
            return None;
        }
        let mut second = self.hash.clone();
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
}

impl Hash for Hctr2Hash {
    type Start = Polyval;

    #[inline]
    fn start(&self, tweak: &[u8], rest_len: usize) -> Result<Polyval, CryptoError> {
        let uneven = u128::from(!rest_len.is_multiple_of(BLOCK_LEN));
        let header = (tweak.len() as u128) * 16 + 2 + uneven;
        let mut hash = self.hash.clone();
        hash.proc_block(&header.to_le_bytes().into());
        hash.update_padded(tweak);
        Ok(hash)
    }

    #[inline]
    fn digest(&self, start: &Polyval, rest: &[u8]) -> Result<[u8; BLOCK_LEN], CryptoError> {
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
        Ok(xor(hash.finalize().into(), carried))
    }
}

/// Raises a POLYVAL key to the power `exponent`, which is at least 1.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes in a single chain: the reference for the joined halves.
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
                let key = Hctr2Hash::new([7; 16]);
                let rest: Vec<u8> = (0..blocks * 16 + tail).map(|at| (at % 251) as u8).collect();
                let start = key.start(&[9; 16], rest.len()).unwrap();
                // The second message has the length that the key has seen, and different content.
                for message in [&rest, &rest.iter().map(|byte| byte ^ 0x5a).collect()] {
                    let expected = digest_in_one(&start, message);
                    assert_eq!(key.digest(&start, message).unwrap(), expected, "{blocks} {tail}");
                }
                // A length other than the first one uses the single chain.
                let shorter = &rest[..64 * 16];
                let start = key.start(&[9; 16], shorter.len()).unwrap();
                let expected = digest_in_one(&start, shorter);
                assert_eq!(key.digest(&start, shorter).unwrap(), expected, "{blocks} {tail}");
            }
        }
    }
}
