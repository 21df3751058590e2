//! XCTR, the stream of HCTR2: block i, counted from 1, is combined with the encryption of `nonce`
//! xor i.

use std::hint::black_box;

use aes::Block;
use aes::cipher::common::{ParBlocks, ParBlocksSizeUser};
use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{Array, BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser};

use crate::aes_polyval::BLOCK_LEN;

/// Number of parallel blocks with 128-bit AES instructions, which have 16 registers.
const FEW: usize = 8;

/// A message of any length under a nonce, for [`aes::cipher::BlockCipherEncrypt`] to work on.
///
/// The cipher calls it from inside a function that is compiled for the processor at hand, so
/// counters and combining use that processor's instructions as well. Everything here must be
/// inlined into it.
pub(crate) struct Xctr<'a> {
    pub(crate) nonce: [u8; BLOCK_LEN],
    pub(crate) input: &'a [u8],
    /// Same length as the input.
    pub(crate) output: &'a mut [u8],
}

impl BlockSizeUser for Xctr<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Xctr<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let at_once = <B as ParBlocksSizeUser>::ParBlocksSize::USIZE;
        let counter = Counter::new(self.nonce);
        let mut next = 1;
        let mut stream = ParBlocks::<B>::default();
        let mut inputs = self.input.chunks_exact(at_once * BLOCK_LEN);
        let mut outputs = self.output.chunks_exact_mut(at_once * BLOCK_LEN);
        for (input, output) in inputs.by_ref().zip(outputs.by_ref()) {
            counter.fill(next, &mut stream);
            // With few registers, the compiler must not treat the round keys as constants of the
            // loop: it would spill them, and encrypt blocks one after the other to make room.
            let backend = if at_once == FEW { black_box(backend) } else { backend };
            backend.encrypt_par_blocks_inplace(&mut stream);
            combine(input, &stream, output);
            next += at_once as u64;
        }
        let (input, output) = (inputs.remainder(), outputs.into_remainder());
        let blocks = input.len().div_ceil(BLOCK_LEN);
        // A full batch costs as much as about a quarter of its blocks one by one.
        if blocks * 4 > at_once {
            counter.fill(next, &mut stream);
            backend.encrypt_par_blocks_inplace(&mut stream);
            combine(input, &stream, output);
            return;
        }
        for (input, output) in input.chunks(BLOCK_LEN).zip(output.chunks_mut(BLOCK_LEN)) {
            let mut block = [Block::default()];
            counter.fill(next, &mut block);
            backend.encrypt_block_inplace(&mut block[0]);
            combine(input, &block, output);
            next += 1;
        }
    }
}

/// `nonce` xor a number below 2^64, so only the first half changes.
struct Counter {
    low: u64,
    high: [u8; 8],
}

impl Counter {
    #[inline(always)]
    fn new(nonce: [u8; BLOCK_LEN]) -> Self {
        let [n0, n1, n2, n3, n4, n5, n6, n7, high @ ..] = nonce;
        Self { low: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]), high }
    }

    /// Fills `blocks` with the counter blocks from `first` on.
    #[inline(always)]
    fn fill(&self, first: u64, blocks: &mut [Block]) {
        for (number, block) in (first..).zip(blocks) {
            block[..8].copy_from_slice(&(self.low ^ number).to_le_bytes());
            block[8..].copy_from_slice(&self.high);
        }
    }
}

/// Writes to `output` the combination of `input` and the stream, which is at least as long.
#[inline(always)]
fn combine(input: &[u8], stream: &[Block], output: &mut [u8]) {
    let stream = Array::slice_as_flattened(stream);
    for ((out, byte), key) in output.iter_mut().zip(input).zip(stream) {
        *out = byte ^ key;
    }
}

#[cfg(test)]
mod tests {
    use aes::Aes256;
    use aes::cipher::{BlockCipherEncrypt, KeyInit};
    use proptest::prelude::*;

    use super::*;

    /// Computes the result block by block.
    fn expected(aes: &Aes256, nonce: [u8; 16], input: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        for (number, chunk) in (1u128..).zip(input.chunks(16)) {
            let mut block: Block = (u128::from_le_bytes(nonce) ^ number).to_le_bytes().into();
            aes.encrypt_block(&mut block);
            output.extend(chunk.iter().zip(block).map(|(byte, key)| byte ^ key));
        }
        output
    }

    fn check(key: [u8; 32], nonce: [u8; 16], input: &[u8]) {
        let aes = Aes256::new(&key.into());
        let mut output = vec![0xa5; input.len()];
        aes.encrypt_with_backend(Xctr { nonce, input, output: &mut output });
        assert_eq!(output, expected(&aes, nonce, input), "{} bytes", input.len());
    }

    /// Lengths around the number of blocks that any implementation of AES processes at once.
    #[test]
    fn every_length_gives_the_same_bytes_as_one_block_at_a_time() {
        let message: Vec<u8> = (0..2100u32).map(|at| (at % 251) as u8).collect();
        for len in (0..300).chain(1000..1100).chain(2030..2100) {
            check([7; 32], [0xff; 16], &message[..len]);
        }
    }

    proptest! {
        #[test]
        fn any_nonce(
            key: [u8; 32],
            nonce: [u8; 16],
            message in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            check(key, nonce, &message);
        }
    }
}
