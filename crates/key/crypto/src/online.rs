//! An online cipher with AES-256, for streams whose IVs repeat and whose pieces have any length.
//!
//! Blocks of 16 bytes are enciphered by TC3 (Rogaway and Zhang, "Online Ciphers from Tweakable
//! Blockciphers", CT-RSA 2011) over the tweakable block cipher LRW2 (Liskov, Rivest, Wagner,
//! "Tweakable Block Ciphers", 2002), with POLYVAL (RFC 8452) as its hash. Up to 15 bytes that are
//! left are enciphered by the Feistel network of FFX-A2 (Bellare, Rogaway, Spies, "The FFX Mode of
//! Operation for Format-Preserving Encryption", 2010). AES and POLYVAL come from their crates.

use std::fmt;

use aes::cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use aes::{Aes256, Block};
use polyval::Polyval;

use crate::aes_polyval::{AesPolyval, BLOCK_LEN, encrypt_block, product, xor};
use crate::fips::not_approved;
use crate::memory::SecretBox;
use crate::sealing::check_lengths;
use crate::{Algorithm, CryptoError};

const AES_KEY_LEN: usize = 32;

/// A prepared key of the online cipher.
///
/// Each byte of the output depends on the IV and on all input up to the end of its block. So
/// streams under one IV reveal how many leading whole blocks they have in common (and, where that
/// is everything but the tail, whether tails of one length are equal), and nothing else. A changed
/// ciphertext decrypts to noise from the changed block to the end of the stream. The length does
/// not grow, and nothing is authenticated.
pub struct OnlineKey(SecretBox<Prepared>);

struct Prepared {
    /// Enciphers blocks.
    blocks: AesPolyval,
    /// The round function of tails.
    tails: Aes256,
}

/// Position in a stream, made by [`OnlineKey::encryptor`] and [`OnlineKey::decryptor`]. Plain
/// bytes, but as secret as the plaintext.
#[derive(Clone)]
pub struct OnlineStream {
    encrypts: bool,
    /// Plaintext xor ciphertext of the previous block; initially of the IV.
    chain: [u8; BLOCK_LEN],
    /// Input that does not fill a block yet.
    held: [u8; BLOCK_LEN],
    held_len: usize,
}

impl OnlineKey {
    /// Length of a key in bytes: the key for blocks, the key for tails, the hash key.
    pub const KEY_LEN: usize = 2 * AES_KEY_LEN + BLOCK_LEN;

    /// Prepares a key of [`Self::KEY_LEN`] bytes.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`]; [`CryptoError::Memory`].
    pub fn new(key: &[u8]) -> Result<Self, CryptoError> {
        not_approved("the online cipher")?;
        let (algorithm, expected, actual) = (Algorithm::Aes256, Self::KEY_LEN, key.len());
        let wrong = || CryptoError::KeyLength { algorithm, expected, actual };
        let (blocks, rest) = key.split_first_chunk::<AES_KEY_LEN>().ok_or_else(wrong)?;
        let (tails, rest) = rest.split_first_chunk::<AES_KEY_LEN>().ok_or_else(wrong)?;
        let hash: &[u8; BLOCK_LEN] = rest.try_into().map_err(|_| wrong())?;
        SecretBox::new(Prepared {
            blocks: AesPolyval::new(Aes256::new(blocks.into()), hash),
            tails: Aes256::new(tails.into()),
        })
        .map(Self)
    }

    /// Starts a stream that encrypts.
    #[inline]
    #[must_use]
    pub fn encryptor(&self, iv: &[u8; BLOCK_LEN]) -> OnlineStream {
        self.stream(iv, true)
    }

    /// Starts a stream that decrypts.
    #[inline]
    #[must_use]
    pub fn decryptor(&self, iv: &[u8; BLOCK_LEN]) -> OnlineStream {
        self.stream(iv, false)
    }

    /// The IV is TC3's first block, under the tweak 0; its ciphertext is not output.
    fn stream(&self, iv: &[u8; BLOCK_LEN], encrypts: bool) -> OnlineStream {
        let chain = xor(*iv, encrypt_block(&self.0.blocks.aes, *iv));
        OnlineStream { encrypts, chain, held: [0; BLOCK_LEN], held_len: 0 }
    }

    /// Takes the next piece, of any length, and writes the blocks that became whole; `output` has
    /// the length that [`OnlineStream::ready_len`] returned.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`].
    #[inline]
    pub fn update(
        &self,
        stream: &mut OnlineStream,
        mut input: &[u8],
        mut output: &mut [u8],
    ) -> Result<(), CryptoError> {
        let ready = stream.ready_len(input.len());
        if output.len() != ready {
            return Err(CryptoError::BufferMismatch { input_len: ready, output_len: output.len() });
        }
        if stream.held_len > 0 && ready > 0 {
            let (head, rest) = input.split_at(BLOCK_LEN - stream.held_len);
            stream.held[stream.held_len..].copy_from_slice(head);
            let (block, left) = output.split_at_mut(BLOCK_LEN);
            let held = stream.held;
            self.0.whole(stream, &held, block);
            (stream.held_len, input, output) = (0, rest, left);
        }
        let (whole, rest) = input.split_at(output.len());
        self.0.whole(stream, whole, output);
        let held_len = stream.held_len + rest.len();
        stream.held[stream.held_len..held_len].copy_from_slice(rest);
        stream.held_len = held_len;
        Ok(())
    }

    /// Ends a stream and writes its tail; `output` has the length that [`OnlineStream::tail_len`]
    /// returned.
    ///
    /// # Errors
    /// [`CryptoError::BufferMismatch`].
    #[inline]
    pub fn finish(&self, stream: &mut OnlineStream, output: &mut [u8]) -> Result<(), CryptoError> {
        let tail = &stream.held[..stream.held_len];
        check_lengths(tail, output)?;
        if !tail.is_empty() {
            self.0.tail(stream.chain, stream.encrypts, tail, output);
        }
        stream.held_len = 0;
        Ok(())
    }
}

impl OnlineStream {
    /// Length of the output for the next `input_len` bytes: whole blocks only.
    #[inline]
    #[must_use]
    pub fn ready_len(&self, input_len: usize) -> usize {
        let known = self.held_len.saturating_add(input_len);
        known - known % BLOCK_LEN
    }

    /// Number of bytes held back.
    #[inline]
    #[must_use]
    pub fn tail_len(&self) -> usize {
        self.held_len
    }
}

impl fmt::Debug for OnlineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnlineKey(redacted)")
    }
}

impl fmt::Debug for OnlineStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnlineStream(redacted)")
    }
}

impl Prepared {
    /// Processes the next whole blocks; both slices have the same length.
    #[inline]
    fn whole(&self, stream: &mut OnlineStream, input: &[u8], output: &mut [u8]) {
        let (input, _) = input.as_chunks();
        let (output, _) = output.as_chunks_mut();
        let AesPolyval { aes, hash } = &self.blocks;
        let run = Run { hash, chain: &mut stream.chain, input, output };
        match stream.encrypts {
            true => aes.encrypt_with_backend(run),
            false => aes.decrypt_with_backend(run),
        }
    }

    /// FFX-A2's network over the bits of 1 to 15 bytes. Both halves have the same number of bits;
    /// the tweak is `chain`, which the round function processes first, as CBC-MAC of two blocks.
    fn tail(&self, chain: [u8; BLOCK_LEN], encrypts: bool, input: &[u8], output: &mut [u8]) {
        let half_bits = input.len() * 4;
        let mask = (1_u64 << half_bits) - 1;
        let begun = u128::from_be_bytes(encrypt_block(&self.tails, chain));
        let function = |round: u8, half: u64| {
            let head = u128::from(input.len() as u64) << 120 | u128::from(round) << 112;
            let block = begun ^ head ^ u128::from(half);
            let out = u128::from_be_bytes(encrypt_block(&self.tails, block.to_be_bytes()));
            low_half(out) & mask
        };
        let mut number = [0; BLOCK_LEN];
        number[BLOCK_LEN - input.len()..].copy_from_slice(input);
        let number = u128::from_be_bytes(number);
        let (mut left, mut right) = (low_half(number >> half_bits), low_half(number) & mask);
        if encrypts {
            for round in 0..rounds(input.len()) {
                (left, right) = (right, left ^ function(round, right));
            }
        } else {
            for round in (0..rounds(input.len())).rev() {
                (left, right) = (right ^ function(round, left), left);
            }
        }
        let number = u128::from(left) << half_bits | u128::from(right);
        output.copy_from_slice(&number.to_be_bytes()[BLOCK_LEN - input.len()..]);
    }
}

/// Number of FFX-A2 rounds for this many bytes: the fewer bytes, the more rounds.
const fn rounds(len: usize) -> u8 {
    match len {
        1 => 36,
        2 => 24,
        3 => 18,
        _ => 12,
    }
}

/// A run of whole blocks, for [`Aes256`] to process in code that is compiled for the processor at
/// hand; everything called here must be inlined into that code.
struct Run<'a> {
    hash: &'a Polyval,
    chain: &'a mut [u8; BLOCK_LEN],
    input: &'a [[u8; BLOCK_LEN]],
    /// As many blocks as the input.
    output: &'a mut [[u8; BLOCK_LEN]],
}

impl Run<'_> {
    /// TC3 over LRW2: `cipher` processes each block, masked by the hash of the chain before and
    /// after.
    #[inline(always)]
    fn through(self, cipher: impl Fn(&mut Block)) {
        let mut chain = *self.chain;
        for (input, output) in self.input.iter().zip(self.output) {
            let mask = product(self.hash, chain);
            let mut block = Block::from(xor(*input, mask));
            cipher(&mut block);
            *output = xor(block.into(), mask);
            chain = xor(*input, *output);
        }
        *self.chain = chain;
    }
}

impl BlockSizeUser for Run<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Run<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        self.through(|block| backend.encrypt_block_inplace(block));
    }
}

impl BlockCipherDecClosure for Run<'_> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        self.through(|block| backend.decrypt_block_inplace(block));
    }
}

/// The low 64 bits.
#[inline]
#[allow(clippy::cast_possible_truncation)] // truncation is intended
const fn low_half(number: u128) -> u64 {
    number as u64
}

#[cfg(test)]
#[cfg(not(feature = "fips"))]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn key() -> OnlineKey {
        let bytes: Vec<u8> = (0..80).collect();
        OnlineKey::new(&bytes).unwrap()
    }

    /// Processes a message in pieces that end at `cuts` and at the end of the message.
    fn cut(key: &OnlineKey, mut stream: OnlineStream, message: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut cuts = cuts.to_vec();
        cuts.push(message.len());
        cuts.sort_unstable();
        let (mut out, mut from) = (Vec::new(), 0);
        for to in cuts {
            let mut part = vec![0; stream.ready_len(to - from)];
            key.update(&mut stream, &message[from..to], &mut part).unwrap();
            out.extend(part);
            from = to;
        }
        let mut tail = vec![0; stream.tail_len()];
        key.finish(&mut stream, &mut tail).unwrap();
        out.extend(tail);
        out
    }

    fn sealed(key: &OnlineKey, iv: [u8; 16], message: &[u8]) -> Vec<u8> {
        cut(key, key.encryptor(&iv), message, &[])
    }

    fn opened(key: &OnlineKey, iv: [u8; 16], message: &[u8]) -> Vec<u8> {
        cut(key, key.decryptor(&iv), message, &[])
    }

    /// Number of equal leading bytes.
    fn common(a: &[u8], b: &[u8]) -> usize {
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn keys_and_outputs_have_one_length_and_say_nothing() {
        for len in [0, 64, 79, 81] {
            let refused = OnlineKey::new(&vec![1; len]);
            assert!(matches!(refused, Err(CryptoError::KeyLength { .. })), "{len}");
        }
        let key = key();
        let mut stream = key.encryptor(&[2; 16]);
        assert_eq!((stream.ready_len(15), stream.ready_len(33)), (0, 32));
        let unequal = key.update(&mut stream, &[0; 17], &mut [0; 17]);
        assert!(matches!(unequal, Err(CryptoError::BufferMismatch { .. })));
        key.update(&mut stream, &[0; 17], &mut [0; 16]).unwrap();
        assert_eq!((stream.tail_len(), stream.ready_len(15)), (1, 16));
        assert!(key.finish(&mut stream, &mut [0; 2]).is_err());
        assert_eq!(format!("{key:?} {stream:?}"), "OnlineKey(redacted) OnlineStream(redacted)");
    }

    /// A tail of one byte, and all 65,536 tails of two bytes: every ciphertext occurs once.
    #[test]
    fn the_smallest_tails_are_permuted() {
        let key = key();
        for (len, count) in [(1, 256_u32), (2, 65536)] {
            let all: HashSet<Vec<u8>> = (0..count)
                .map(|number| sealed(&key, [3; 16], &number.to_le_bytes()[..len]))
                .collect();
            assert_eq!(all.len(), count as usize);
        }
        let moved = (0..=255).filter(|byte| sealed(&key, [3; 16], &[*byte]) != [*byte]).count();
        assert!(moved > 240, "{moved}");
    }

    /// The ciphertext of a tail is bound to its length, the IV, and the block before.
    #[test]
    fn tails_depend_on_all_before_them() {
        let key = key();
        let tail = |iv: u8, before: &[u8], len: usize| {
            let message = [before, &vec![7; len]].concat();
            sealed(&key, [iv; 16], &message)[before.len()..].to_vec()
        };
        for len in 4..16 {
            let one = tail(1, &[5; 32], len);
            assert_ne!(one, tail(2, &[5; 32], len));
            assert_ne!(one, tail(1, &[5; 16], len));
            assert_ne!(one, tail(1, &[&[6; 16][..], &[5; 16]].concat(), len));
            assert_ne!(one[..], tail(1, &[5; 32], len - 1)[..]);
            assert!(common(&one, &tail(1, &[5; 32], len - 1)) < 3);
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_bytes_and_both_ways(
            bytes in proptest::collection::vec(any::<u8>(), 80),
            iv: [u8; 16],
            message in proptest::collection::vec(any::<u8>(), 0..600),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
            others in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let key = OnlineKey::new(&bytes).unwrap();
            let at = |cuts: &[prop::sample::Index]| -> Vec<usize> {
                cuts.iter().map(|cut| cut.index(message.len() + 1)).collect()
            };
            let whole = sealed(&key, iv, &message);
            prop_assert_eq!(whole.len(), message.len());
            prop_assert_eq!(&cut(&key, key.encryptor(&iv), &message, &at(&cuts)), &whole);
            prop_assert_eq!(&cut(&key, key.decryptor(&iv), &whole, &at(&others)), &message);
        }

        /// Only the whole blocks before the first difference repeat under a repeated IV.
        #[test]
        fn equal_beginnings_are_all_that_shows(
            iv: [u8; 16],
            message in proptest::collection::vec(any::<u8>(), 16..400),
            at: prop::sample::Index,
            change in 1u8..,
        ) {
            let key = key();
            let at = at.index(message.len());
            let mut other = message.clone();
            other[at] ^= change;
            let block = at / 16 * 16;
            for (a, b) in [
                (sealed(&key, iv, &message), sealed(&key, iv, &other)),
                (opened(&key, iv, &message), opened(&key, iv, &other)),
            ] {
                prop_assert_eq!(&a[..block], &b[..block]);
                // From there on every block differs, and no byte of a long run is kept.
                for (a, b) in a[block..].chunks(16).zip(b[block..].chunks(16)) {
                    prop_assert!(a != b || a.len() < 4);
                }
                let kept = a[block..].iter().zip(&b[block..]).filter(|(a, b)| a == b).count();
                prop_assert!(kept <= 6 + (a.len() - block) / 16, "{kept}");
            }
            let mut next = iv;
            next[15] ^= change;
            let elsewhere = sealed(&key, next, &message);
            prop_assert!(common(&elsewhere, &sealed(&key, iv, &message)) < 8);
        }
    }
}
