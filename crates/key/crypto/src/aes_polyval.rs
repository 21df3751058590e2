//! AES-256 and POLYVAL (RFC 8452), prepared together: the parts of HCTR2 and the online cipher.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt};
use aes::{Aes256, Block};
use polyval::Polyval;
use polyval::universal_hash::{UhfBackend, UniversalHash};

pub(crate) const BLOCK_LEN: usize = 16;

/// A prepared AES key and POLYVAL key. Keep it in memory that is wiped.
pub(crate) struct AesPolyval {
    pub(crate) aes: Aes256,
    /// POLYVAL under the hash key, with nothing hashed yet.
    pub(crate) hash: Polyval,
}

impl AesPolyval {
    pub(crate) fn new(aes: Aes256, hash_key: &[u8; BLOCK_LEN]) -> Self {
        Self { aes, hash: Polyval::new(hash_key.into()) }
    }
}

/// POLYVAL of one block: its product with the hash key.
#[inline(always)]
pub(crate) fn product(hash: &Polyval, block: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    let mut hash = hash.clone();
    hash.proc_block(&block.into());
    hash.finalize().into()
}

#[inline]
pub(crate) fn encrypt_block(aes: &Aes256, block: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    let mut block = Block::from(block);
    aes.encrypt_block(&mut block);
    block.into()
}

#[inline]
pub(crate) fn decrypt_block(aes: &Aes256, block: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    let mut block = Block::from(block);
    aes.decrypt_block(&mut block);
    block.into()
}

#[inline]
pub(crate) fn xor(a: [u8; BLOCK_LEN], b: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}
