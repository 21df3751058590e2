//! The sealed blocks of a temporary file: in the file, or gathered for writing.

use std::collections::BTreeMap;
use std::ffi::c_int;

use tdekit_key_crypto::{Algorithm, NONCE_LEN, SealingKey, SecretBytes, TAG_LEN, random_bytes};

use super::{BLOCK_LEN, crypto};
use crate::VfsError;
use crate::base::{BaseFile, Read};
use crate::ffi;

/// Length of counter and tag after each block's ciphertext.
const TRAILER_LEN: usize = 8 + TAG_LEN;
const STRIDE: usize = BLOCK_LEN + TRAILER_LEN;
/// Number of blocks gathered before they are written.
const MAX_PENDING_BLOCKS: usize = 16;
/// Number of blocks that may be aside.
const MAX_ASIDE_BLOCKS: usize = 4 * MAX_PENDING_BLOCKS;

/// Blocks by number, each sealed with a counter that never repeats under the key.
///
/// A failed call leaves every block as it was. A gathered block stays until its write has
/// succeeded, and is read from here until then. Blocks whose write failed step aside: a full disk
/// has no room for a block at the end, but takes one in the place of its older version.
pub(super) struct Blocks {
    pub(super) base: BaseFile,
    key: SealingKey,
    nonce_prefix: [u8; 12],
    counter: u64,
    /// One bit per block: set if it was ever sealed.
    written: Vec<u64>,
    pending_first: u64,
    pending: Vec<u8>,
    /// Sealed blocks by number whose write failed; none of them is in `pending`.
    aside: BTreeMap<u64, Vec<u8>>,
    sealed: Vec<u8>,
}

impl Blocks {
    pub(super) fn new(mut base: BaseFile) -> Result<Self, VfsError> {
        base.allow_mapping();
        let secret = SecretBytes::random(Algorithm::Aes256.key_len()).map_err(crypto)?;
        let mut nonce_prefix = [0; 12];
        random_bytes(&mut nonce_prefix).map_err(crypto)?;
        Ok(Self {
            base,
            key: SealingKey::new(Algorithm::Aes256, secret.expose()).map_err(crypto)?,
            nonce_prefix,
            counter: 0,
            written: Vec::new(),
            pending_first: 0,
            pending: Vec::new(),
            aside: BTreeMap::new(),
            sealed: Vec::new(),
        })
    }

    /// Fills `out`, of `BLOCK_LEN` bytes, with block `block`; zeros if it was never sealed.
    pub(super) fn open(&mut self, block: u64, out: &mut [u8]) -> Result<(), VfsError> {
        if !self.is_written(block) {
            out.fill(0);
            return Ok(());
        }
        let gathered = self.place_in_pending(block);
        let at = block * STRIDE as u64;
        let (key, prefix) = (&mut self.key, self.nonce_prefix);
        let mut open = |bytes: &[u8]| {
            let (ciphertext, trailer) = bytes.split_at(BLOCK_LEN);
            let (mut counter, mut tag) = ([0; 8], [0; TAG_LEN]);
            counter.copy_from_slice(&trailer[..8]);
            tag.copy_from_slice(&trailer[8..]);
            let nonce = nonce(&prefix, u64::from_le_bytes(counter));
            key.open(&nonce, &block.to_le_bytes(), ciphertext, &tag, out)
                .map_err(|_| VfsError::Base(ffi::IOERR_DATA))
        };
        if let Some(start) = gathered {
            return open(&self.pending[start..start + STRIDE]);
        }
        if let Some(sealed) = self.aside.get(&block) {
            return open(sealed);
        }
        if let Some(opened) = self.base.with_mapped(at, STRIDE, None, &mut open) {
            return opened;
        }
        self.sealed.resize(STRIDE, 0);
        if self.base.read(&mut self.sealed, at)? == Read::Short {
            return Err(VfsError::Base(ffi::IOERR_DATA));
        }
        open(&self.sealed)
    }

    /// Seals `plain`, of `BLOCK_LEN` bytes, as block `block`, to be written soon.
    pub(super) fn seal(&mut self, block: u64, plain: &[u8]) -> Result<(), VfsError> {
        let gathered = self.pending.len() / STRIDE;
        let start = match self.place_in_pending(block) {
            Some(start) => start,
            None => {
                let follows = block == self.pending_first + gathered as u64;
                if gathered >= MAX_PENDING_BLOCKS || (gathered > 0 && !follows) {
                    self.flush()?;
                }
                self.pending.len()
            }
        };
        self.counter += 1;
        let nonce = nonce(&self.nonce_prefix, self.counter);
        self.sealed.resize(STRIDE, 0);
        let (ciphertext, trailer) = self.sealed.split_at_mut(BLOCK_LEN);
        let tag = self.key.seal(&nonce, &block.to_le_bytes(), plain, ciphertext).map_err(crypto)?;
        trailer[..8].copy_from_slice(&self.counter.to_le_bytes());
        trailer[8..].copy_from_slice(&tag);
        if self.pending.is_empty() {
            self.pending_first = block;
        }
        match self.pending.get_mut(start..start + STRIDE) {
            Some(before) => before.copy_from_slice(&self.sealed),
            None => self.pending.extend_from_slice(&self.sealed),
        }
        self.aside.remove(&block);
        self.set_written(block, true);
        Ok(())
    }

    /// Writes the gathered blocks, or puts them aside. Fails if there are too many aside: what
    /// SQLite was told is written must not be what fails first on a full disk.
    fn flush(&mut self) -> Result<(), VfsError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        match self.base.write(&self.pending, self.pending_first * STRIDE as u64) {
            Ok(()) => {
                self.pending.clear();
                // There may be room again.
                let _stay = self.write_aside();
            }
            Err(_) if self.aside.len() + self.pending.len() / STRIDE <= MAX_ASIDE_BLOCKS => {
                let blocks = self.pending.chunks_exact(STRIDE).map(<[u8]>::to_vec);
                self.aside.extend((self.pending_first..).zip(blocks));
                self.pending.clear();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes the blocks that are aside.
    fn write_aside(&mut self) -> Result<(), VfsError> {
        while let Some(entry) = self.aside.first_entry() {
            self.base.write(entry.get(), entry.key() * STRIDE as u64)?;
            entry.remove();
        }
        Ok(())
    }

    /// Drops the blocks from `keep` to `last`, the highest one.
    pub(super) fn cut(&mut self, keep: u64, last: u64) -> Result<(), VfsError> {
        let end = keep * STRIDE as u64;
        // Blocks below the cut may still be gathered, with the file ending before them.
        if self.base.size()? > end {
            self.base.truncate(end)?;
        }
        let kept = usize::try_from(keep.saturating_sub(self.pending_first)).unwrap_or(usize::MAX);
        self.pending.truncate(kept.saturating_mul(STRIDE));
        self.aside.split_off(&keep);
        for block in keep..=last {
            self.set_written(block, false);
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, flags: c_int) -> Result<(), VfsError> {
        self.flush()?;
        self.write_aside()?;
        self.base.sync(flags)
    }

    /// Returns the index in `pending` of block `block`.
    fn place_in_pending(&self, block: u64) -> Option<usize> {
        let index = usize::try_from(block.checked_sub(self.pending_first)?).ok()?;
        let start = index.checked_mul(STRIDE)?;
        (start < self.pending.len()).then_some(start)
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

fn nonce(prefix: &[u8; 12], counter: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..12].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(&counter.to_le_bytes());
    nonce
}
