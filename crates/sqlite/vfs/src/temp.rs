//! Temporary files: temporary databases, sorter spills, statement journals.
//!
//! They live as long as one handle, so their key is drawn at opening and never stored. The file is
//! cut into blocks. Data that SQLite believes to be written is in `changed`, or sealed in `blocks`,
//! and it stays there until its pending write has succeeded: SQLite continues a transaction after a
//! full disk, and undoes a statement from such a file. So a failed call leaves the file as it was,
//! and a read writes nothing.

mod blocks;

use std::ffi::c_int;

use tdekit_key_crypto::CryptoError;

use crate::VfsError;
use crate::base::{BaseFile, Read};
use blocks::Blocks;

/// Plaintext bytes of a block.
const BLOCK_LEN: usize = 4096;

/// A temporary file.
pub(crate) struct TempFile {
    blocks: Blocks,
    len: u64,
    /// The block that SQLite fills or changes. Its version in `blocks` is older.
    changed: Plain,
    /// The block that was last read in part, as in `blocks`; never the changed one.
    opened: Plain,
}

/// A block in plaintext, or none.
struct Plain {
    block: Option<u64>,
    bytes: Box<[u8; BLOCK_LEN]>,
}

impl TempFile {
    pub(crate) fn new(base: BaseFile) -> Result<Self, VfsError> {
        let none = || Plain { block: None, bytes: Box::new([0; BLOCK_LEN]) };
        Ok(Self { blocks: Blocks::new(base)?, len: 0, changed: none(), opened: none() })
    }

    /// The file below.
    pub(crate) fn base(&mut self) -> &mut BaseFile {
        &mut self.blocks.base
    }

    /// Reads plaintext.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> Result<Read, VfsError> {
        let available = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = available.min(out.len());
        let (wanted, rest) = out.split_at_mut(n);
        rest.fill(0);
        for (block, start, piece) in pieces_mut(wanted, offset) {
            if self.changed.block == Some(block) {
                piece.copy_from_slice(&self.changed.bytes[start..start + piece.len()]);
            } else if piece.len() == BLOCK_LEN {
                self.blocks.open(block, piece)?;
            } else {
                self.opened.load(block, &mut self.blocks)?;
                piece.copy_from_slice(&self.opened.bytes[start..start + piece.len()]);
            }
        }
        Ok(if rest.is_empty() { Read::Full } else { Read::Short })
    }

    /// Writes plaintext.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), VfsError> {
        for (block, start, piece) in pieces(data, offset) {
            if piece.len() == BLOCK_LEN {
                // The previous one is complete now: if it is sealed first, both are written at
                // once.
                if self.changed.block.is_some_and(|changed| changed + 1 == block) {
                    self.seal_changed()?;
                }
                self.blocks.seal(block, piece)?;
                self.changed.forget(block, block);
                self.opened.forget(block, block);
            } else {
                self.change(block)?;
                self.changed.bytes[start..start + piece.len()].copy_from_slice(piece);
            }
        }
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }

    /// Truncates the file.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), VfsError> {
        if len >= self.len {
            return Ok(());
        }
        let (whole, start) = split(len);
        if start > 0 {
            self.change(whole)?;
        }
        let keep = whole + u64::from(start > 0);
        self.blocks.cut(keep, split(self.len).0)?;
        if start > 0 {
            self.changed.bytes[start..].fill(0);
        }
        self.changed.forget(keep, u64::MAX);
        self.opened.forget(keep, u64::MAX);
        self.len = len;
        Ok(())
    }

    /// Temporary files need no durability, but SQLite may ask.
    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        self.seal_changed()?;
        self.blocks.sync(flags)
    }

    /// Returns the size in plaintext bytes.
    pub(crate) fn size(&self) -> u64 {
        self.len
    }

    /// Makes `block` the changed one.
    fn change(&mut self, block: u64) -> Result<(), VfsError> {
        if self.changed.block == Some(block) {
            return Ok(());
        }
        self.seal_changed()?;
        if self.opened.block == Some(block) {
            std::mem::swap(&mut self.changed, &mut self.opened);
            return Ok(());
        }
        self.changed.load(block, &mut self.blocks)
    }

    fn seal_changed(&mut self) -> Result<(), VfsError> {
        if let Some(block) = self.changed.block {
            self.blocks.seal(block, self.changed.bytes.as_slice())?;
            self.changed.block = None;
        }
        Ok(())
    }
}

impl Plain {
    /// Loads block `block` from `blocks`.
    fn load(&mut self, block: u64, blocks: &mut Blocks) -> Result<(), VfsError> {
        if self.block != Some(block) {
            self.block = None;
            blocks.open(block, self.bytes.as_mut_slice())?;
            self.block = Some(block);
        }
        Ok(())
    }

    /// Clears it if its number is between `first` and `last`.
    fn forget(&mut self, first: u64, last: u64) {
        self.block = self.block.filter(|block| !(first..=last).contains(block));
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.bytes.fill(0);
        std::hint::black_box(&self.bytes);
    }
}

fn crypto(error: CryptoError) -> VfsError {
    VfsError::Page(error.into())
}

/// Returns the block of byte `offset`, and the offset in it.
fn split(offset: u64) -> (u64, usize) {
    let within = usize::try_from(offset % BLOCK_LEN as u64).unwrap_or(0);
    (offset / BLOCK_LEN as u64, within)
}

/// Splits `data` at block boundaries: block, offset in it, bytes.
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
