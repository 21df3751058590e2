//! Temporary files: temporary databases, sorter spills, statement journals.
//!
//! They live as long as one handle, so their key is drawn at opening and never stored. The file
//! is cut into blocks, each sealed with a counter that never repeats under the key.

use std::ffi::c_int;

use tdekit_key_crypto::{Algorithm, NONCE_LEN, SealingKey, SecretBytes, TAG_LEN, random_bytes};

use crate::VfsError;
use crate::base::{BaseFile, Read};
use crate::ffi;

/// Plaintext bytes of a block.
const BLOCK_LEN: usize = 4096;
/// Counter and tag behind each block's ciphertext.
const TRAILER_LEN: usize = 8 + TAG_LEN;
const STRIDE: usize = BLOCK_LEN + TRAILER_LEN;
/// Blocks gathered before they are written.
const MAX_PENDING_BLOCKS: usize = 16;

/// A temporary file.
pub(crate) struct TempFile {
    pub(crate) base: BaseFile,
    key: SealingKey,
    nonce_prefix: [u8; 12],
    counter: u64,
    len: u64,
    written: Vec<u64>,
    /// The block that is being filled or changed, in plaintext.
    current: Option<u64>,
    current_plain: Box<[u8; BLOCK_LEN]>,
    dirty: bool,
    pending_first: u64,
    pending: Vec<u8>,
    sealed: Vec<u8>,
}

impl TempFile {
    pub(crate) fn new(mut base: BaseFile) -> Result<Self, VfsError> {
        base.allow_mapping();
        let secret = SecretBytes::random(Algorithm::Aes256.key_len()).map_err(crypto)?;
        let mut nonce_prefix = [0; 12];
        random_bytes(&mut nonce_prefix).map_err(crypto)?;
        Ok(Self {
            base,
            key: SealingKey::new(Algorithm::Aes256, secret.expose()).map_err(crypto)?,
            nonce_prefix,
            counter: 0,
            len: 0,
            written: Vec::new(),
            current: None,
            current_plain: Box::new([0; BLOCK_LEN]),
            dirty: false,
            pending_first: 0,
            pending: Vec::new(),
            sealed: Vec::new(),
        })
    }

    /// Reads plaintext.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        self.flush()?;
        let available = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = available.min(out.len());
        let (wanted, rest) = out.split_at_mut(n);
        rest.fill(0);
        for (block, start, piece) in pieces_mut(wanted, offset) {
            if self.current == Some(block) {
                piece.copy_from_slice(&self.current_plain[start..start + piece.len()]);
            } else if piece.len() == BLOCK_LEN {
                self.open_block(block, piece)?;
            } else {
                self.make_current(block)?;
                piece.copy_from_slice(&self.current_plain[start..start + piece.len()]);
            }
        }
        Ok(if rest.is_empty() { Read::Full } else { Read::Short })
    }

    /// Writes plaintext.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        for (block, start, piece) in pieces(data, offset) {
            if piece.len() == BLOCK_LEN {
                if self.current == Some(block) {
                    (self.current, self.dirty) = (None, false);
                }
                self.seal_block(block, piece)?;
                continue;
            }
            self.make_current(block)?;
            self.current_plain[start..start + piece.len()].copy_from_slice(piece);
            self.dirty = true;
        }
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }

    /// Cuts the file.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        if len >= self.len {
            return Ok(());
        }
        let (whole, start) = split(len);
        if start > 0 {
            self.make_current(whole)?;
            self.current_plain[start..].fill(0);
            self.dirty = true;
        }
        let keep = whole + u64::from(start > 0);
        if self.current.is_some_and(|block| block >= keep) {
            (self.current, self.dirty) = (None, false);
        }
        self.flush()?;
        for block in keep..=split(self.len).0 {
            self.set_written(block, false);
        }
        self.len = len;
        self.base.truncate(keep * STRIDE as u64)
    }

    /// Temporary files need no durability, but SQLite may ask.
    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        self.retire_current()?;
        self.flush()?;
        self.base.sync(flags)
    }

    /// Size in plaintext bytes.
    pub(crate) fn size(&self) -> u64 {
        self.len
    }

    /// Makes `block` the one that is kept in plaintext.
    fn make_current(&mut self, block: u64) -> Result<(), VfsError> {
        if self.current == Some(block) {
            return Ok(());
        }
        self.retire_current()?;
        self.flush()?;
        let mut plain = std::mem::replace(&mut self.current_plain, Box::new([0; BLOCK_LEN]));
        let opened = self.open_block(block, plain.as_mut_slice());
        self.current_plain = plain;
        opened?;
        (self.current, self.dirty) = (Some(block), false);
        Ok(())
    }

    fn retire_current(&mut self) -> Result<(), VfsError> {
        let Some(block) = self.current.take().filter(|_| self.dirty) else { return Ok(()) };
        self.dirty = false;
        let plain = std::mem::replace(&mut self.current_plain, Box::new([0; BLOCK_LEN]));
        let sealed = self.seal_block(block, plain.as_slice());
        self.current_plain = plain;
        sealed
    }

    fn seal_block(&mut self, block: u64, plain: &[u8]) -> Result<(), VfsError> {
        let gathered = (self.pending.len() / STRIDE) as u64;
        let follows = block == self.pending_first + gathered;
        if gathered as usize >= MAX_PENDING_BLOCKS || (gathered > 0 && !follows) {
            self.flush()?;
        }
        if self.pending.is_empty() {
            self.pending_first = block;
        }
        self.counter += 1;
        let nonce = self.nonce(self.counter);
        let start = self.pending.len();
        self.pending.resize(start + STRIDE, 0);
        let (ciphertext, trailer) = self.pending[start..].split_at_mut(BLOCK_LEN);
        let tag = self.key.seal(&nonce, &block.to_le_bytes(), plain, ciphertext).map_err(crypto)?;
        trailer[..8].copy_from_slice(&self.counter.to_le_bytes());
        trailer[8..].copy_from_slice(&tag);
        self.set_written(block, true);
        Ok(())
    }

    fn open_block(&mut self, block: u64, out: &mut [u8]) -> Result<(), VfsError> {
        if !self.is_written(block) {
            out.fill(0);
            return Ok(());
        }
        let at = block * STRIDE as u64;
        let (key, prefix) = (&mut self.key, self.nonce_prefix);
        let mut open = |bytes: &[u8]| {
            let (ciphertext, trailer) = bytes.split_at(BLOCK_LEN);
            let (mut nonce, mut tag) = ([0; NONCE_LEN], [0; TAG_LEN]);
            nonce[..12].copy_from_slice(&prefix);
            nonce[16..].copy_from_slice(&trailer[..8]);
            tag.copy_from_slice(&trailer[8..]);
            key.open(&nonce, &block.to_le_bytes(), ciphertext, &tag, out)
                .map_err(|_| VfsError::Base(ffi::IOERR_DATA))
        };
        if let Some(opened) = self.base.with_mapped(at, STRIDE, None, &mut open) {
            return opened;
        }
        self.sealed.resize(STRIDE, 0);
        if self.base.read(&mut self.sealed, at)? == Read::Short {
            return Err(VfsError::Base(ffi::IOERR_DATA));
        }
        open(&self.sealed)
    }

    fn flush(&mut self) -> Result<(), VfsError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.base.write(&self.pending, self.pending_first * STRIDE as u64)?;
        self.pending.clear();
        Ok(())
    }

    fn nonce(&self, counter: u64) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        nonce[..12].copy_from_slice(&self.nonce_prefix);
        nonce[16..].copy_from_slice(&counter.to_le_bytes());
        nonce
    }

    fn is_written(&self, block: u64) -> bool {
        let word = usize::try_from(block / 64).unwrap_or(usize::MAX);
        self.written.get(word).is_some_and(|bits| bits & (1 << (block % 64)) != 0)
    }

    fn set_written(&mut self, block: u64, written: bool) {
        let word = usize::try_from(block / 64).unwrap_or(usize::MAX);
        if word >= self.written.len() {
            if !written {
                return;
            }
            self.written.resize(word + 1, 0);
        }
        let bit = 1 << (block % 64);
        if written {
            self.written[word] |= bit;
        } else {
            self.written[word] &= !bit;
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.current_plain.fill(0);
    }
}

fn crypto(error: tdekit_key_crypto::CryptoError) -> VfsError {
    VfsError::Page(error.into())
}

/// The block that holds byte `offset`, and where in it.
fn split(offset: u64) -> (u64, usize) {
    let within = usize::try_from(offset % BLOCK_LEN as u64).unwrap_or(0);
    (offset / BLOCK_LEN as u64, within)
}

/// Cuts `data` at block boundaries: block, offset in it, bytes.
fn pieces(data: &[u8], offset: u64) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let mut rest = data;
    let mut at = offset;
    std::iter::from_fn(move || {
        let (block, start) = split(at);
        let (piece, after) = rest.split_at(rest.len().min(BLOCK_LEN - start));
        (rest, at) = (after, at + piece.len() as u64);
        (!piece.is_empty()).then_some((block, start, piece))
    })
}

fn pieces_mut(data: &mut [u8], offset: u64) -> impl Iterator<Item = (u64, usize, &mut [u8])> {
    let mut rest = data;
    let mut at = offset;
    std::iter::from_fn(move || {
        let (block, start) = split(at);
        let all = std::mem::take(&mut rest);
        let cut = all.len().min(BLOCK_LEN - start);
        let (piece, after) = all.split_at_mut(cut);
        (rest, at) = (after, at + cut as u64);
        (!piece.is_empty()).then_some((block, start, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_once() {
        let data: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        for offset in [0, 1, 4095, 4096, 5000] {
            let mut joined = Vec::new();
            let mut at = offset;
            for (block, start, piece) in pieces(&data, offset) {
                assert_eq!(block * BLOCK_LEN as u64 + start as u64, at);
                assert!(start + piece.len() <= BLOCK_LEN);
                joined.extend_from_slice(piece);
                at += piece.len() as u64;
            }
            assert_eq!(joined, data);
        }
    }
}
