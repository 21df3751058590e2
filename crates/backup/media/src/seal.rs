//! Sealing and opening of blocks: compress, seal, checksum; and back.

use std::fmt;

use tdekit_key_crypto::{
    Algorithm, NONCE_LEN, NonceSource, SealingKey, SecretBytes, TAG_LEN, triple_des,
};

use crate::Id;
use crate::block::{
    BLOCK_HEADER_LEN, BOUND_LEN, BlockHeader, BlockKind, MAX_PAYLOAD_LEN, sealed_len,
};
use crate::checksum::checksum;
use crate::compress::{Compression, Compressor, Decompressor};
use crate::error::{MediaError, Part};
use crate::index::IndexEntry;
use crate::keys::SetKeys;

const AAD_LEN: usize = 16 + 2 + 2 + BOUND_LEN;

/// The prepared key of one set's blocks in one family, or none. Use one for each thread.
pub struct BlockKey {
    set_id: Id,
    family: u16,
    algorithm: Option<Algorithm>,
    prepared: Prepared,
    nonces: NonceSource,
}

enum Prepared {
    Plain,
    Sealing(Box<SealingKey>),
    TripleDes(SecretBytes),
}

impl BlockKey {
    pub(crate) fn new(
        algorithm: Algorithm,
        key: &[u8],
        set_id: Id,
        family: u16,
    ) -> Result<Self, MediaError> {
        let prepared = match algorithm {
            Algorithm::TripleDes3Key => Prepared::TripleDes(SecretBytes::from_slice(key)?),
            _ => Prepared::Sealing(Box::new(SealingKey::new(algorithm, key)?)),
        };
        let nonces = NonceSource::new();
        Ok(Self { set_id, family, algorithm: Some(algorithm), prepared, nonces })
    }

    /// Makes the key of a set without an algorithm.
    #[must_use]
    pub fn plain(set_id: Id, family: u16) -> Self {
        let (prepared, nonces) = (Prepared::Plain, NonceSource::new());
        Self { set_id, family, algorithm: None, prepared, nonces }
    }

    fn aad(&self, header: &BlockHeader) -> [u8; AAD_LEN] {
        let mut aad = [0; AAD_LEN];
        aad[..16].copy_from_slice(&self.set_id);
        aad[16..18].copy_from_slice(&self.family.to_le_bytes());
        aad[20..].copy_from_slice(&header.checked()[..BOUND_LEN]);
        aad
    }

    /// Seals `plain` into the whole of `stored`.
    fn seal(
        &mut self,
        header: &mut BlockHeader,
        plain: &[u8],
        stored: &mut [u8],
    ) -> Result<(), MediaError> {
        if !matches!(self.prepared, Prepared::Plain) {
            header.nonce = self.nonces.next()?;
        }
        let aad = self.aad(header);
        match &mut self.prepared {
            Prepared::Plain => stored.copy_from_slice(plain),
            Prepared::Sealing(key) => {
                let (ciphertext, tag) = stored.split_at_mut(plain.len());
                tag.copy_from_slice(&key.seal(&header.nonce, &aad, plain, ciphertext)?);
            }
            Prepared::TripleDes(key) => {
                let sealed = triple_des::seal_segment(key.expose(), &header.nonce, &aad, plain)?;
                stored.copy_from_slice(&sealed);
            }
        }
        Ok(())
    }
}

impl SetKeys {
    /// Returns the prepared block key; make one for each thread.
    ///
    /// # Errors
    /// [`MediaError::Crypto`].
    pub fn block_key(&self) -> Result<BlockKey, MediaError> {
        BlockKey::new(self.algorithm(), self.block.expose(), self.set_id, self.family)
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.algorithm.map_or("none", Algorithm::name);
        write!(f, "BlockKey({name}, redacted)")
    }
}

/// A block to be sealed.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The kind of its content.
    pub kind: BlockKind,
    /// 0 for the first block of the record, incremented for each block of any kind.
    pub index: u64,
    /// For the index: first page number of a database's data block and of a page map, otherwise 0.
    pub first_page: u32,
    /// 1 to [`MAX_PAYLOAD_LEN`] bytes.
    pub payload: &'a [u8],
}

/// Seals blocks. Use one for each thread: it keeps the compression's context and a buffer.
pub struct BlockSealer {
    compressor: Compressor,
    scratch: Vec<u8>,
}

impl BlockSealer {
    /// Makes a sealer for sets with this compression.
    ///
    /// # Errors
    /// [`MediaError::Compression`].
    pub fn new(compression: Compression) -> Result<Self, MediaError> {
        Ok(Self { compressor: Compressor::new(compression)?, scratch: Vec::new() })
    }

    /// Returns the buffer length that [`Self::seal`] needs for a payload of this length, for any
    /// compression and algorithm.
    #[must_use]
    pub const fn room(payload_len: usize) -> usize {
        BLOCK_HEADER_LEN + payload_len + 64
    }

    /// Compresses and seals a block: writes header and stored bytes to the front of `out`, which
    /// has at least [`Self::room`] bytes, and returns the block's entry in the index with an offset
    /// of 0. [`IndexEntry::block_len`] is the number of bytes written.
    ///
    /// Each call draws a new nonce, so a block may be sealed again.
    ///
    /// # Errors
    /// [`MediaError::Limit`] or [`MediaError::Malformed`] for a payload's length;
    /// [`MediaError::Compression`]; [`MediaError::Crypto`].
    pub fn seal(
        &mut self,
        key: &mut BlockKey,
        block: &Block<'_>,
        out: &mut [u8],
    ) -> Result<IndexEntry, MediaError> {
        let part = Part::Block(block.index);
        let (len, limit) = (block.payload.len() as u64, MAX_PAYLOAD_LEN.into());
        MediaError::check_limit(part, "payload bytes", len, limit)?;
        if block.payload.is_empty() || out.len() < Self::room(block.payload.len()) {
            return Err(MediaError::malformed(part, "it is empty, or there is no room for it"));
        }
        let Some((head, stored)) = out.split_first_chunk_mut::<BLOCK_HEADER_LEN>() else {
            return Err(MediaError::malformed(part, "there is no room for it"));
        };
        let plain_set = matches!(key.prepared, Prepared::Plain);
        let target = if plain_set {
            &mut *stored
        } else {
            if self.scratch.len() < block.payload.len() {
                self.scratch.resize(block.payload.len(), 0);
            }
            &mut self.scratch
        };
        let compressed = self.compressor.compress(block.payload, target)?;
        let plain_len = compressed.unwrap_or(block.payload.len());
        let as_u32 = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let stored_len = sealed_len(key.algorithm, as_u32(plain_len));
        let mut header = BlockHeader {
            kind: block.kind,
            compressed: compressed.is_some(),
            index: block.index,
            payload_len: as_u32(block.payload.len()),
            stored_len,
            nonce: [0; NONCE_LEN],
            checksum: 0,
        };
        let stored = &mut stored[..usize::try_from(stored_len).unwrap_or(usize::MAX)];
        match compressed {
            Some(_) if plain_set => {}
            Some(len) => key.seal(&mut header, &self.scratch[..len], stored)?,
            None => key.seal(&mut header, block.payload, stored)?,
        }
        header.checksum = checksum(&header.checked(), stored);
        *head = header.encode();
        Ok(IndexEntry::of(&header, block.first_page))
    }
}

impl fmt::Debug for BlockSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockSealer")
    }
}

/// Opens blocks. Use one for each thread: it keeps the compression's context and a buffer.
pub struct BlockOpener {
    decompressor: Decompressor,
    scratch: Vec<u8>,
}

impl BlockOpener {
    /// Makes an opener for sets with this compression.
    ///
    /// # Errors
    /// [`MediaError::Compression`].
    pub fn new(compression: Compression) -> Result<Self, MediaError> {
        Ok(Self { decompressor: Decompressor::new(compression)?, scratch: Vec::new() })
    }

    /// Opens the stored bytes after `header` into the whole of `out`, which has `payload_len`
    /// bytes. On failure the content of `out` is useless.
    ///
    /// The caller has checked the header against [`crate::BlockRules`] and against the expected
    /// index ([`IndexEntry::check`] does both for a block that the index names).
    ///
    /// # Errors
    /// [`MediaError::Damaged`] if the checksum does not match; [`MediaError::Authentication`] if it
    /// does but the seal is invalid; [`MediaError::Truncated`], [`MediaError::Malformed`].
    pub fn open(
        &mut self,
        key: &mut BlockKey,
        header: &BlockHeader,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), MediaError> {
        let part = Part::Block(header.index);
        header.check_stored_len(stored)?;
        if u32::try_from(out.len()) != Ok(header.payload_len) {
            return Err(MediaError::malformed(part, "the buffer has not its payload's length"));
        }
        if let Prepared::Plain = key.prepared {
            header.check_stored(stored)?;
            return self.unpack(header, stored, out);
        }
        if !header.compressed {
            return open_stored(key, header, stored, out).map(drop);
        }
        if self.scratch.len() < stored.len() {
            self.scratch.resize(stored.len(), 0);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let opened = open_stored(key, header, stored, &mut scratch)
            .and_then(|len| self.unpack(header, &scratch[..len], out));
        self.scratch = scratch;
        opened
    }

    fn unpack(
        &mut self,
        header: &BlockHeader,
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<(), MediaError> {
        let part = Part::Block(header.index);
        if header.compressed {
            return self.decompressor.decompress(part, plain, out);
        }
        if plain.len() != out.len() {
            return Err(MediaError::malformed(part, "its lengths do not fit one another"));
        }
        out.copy_from_slice(plain);
        Ok(())
    }
}

impl fmt::Debug for BlockOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockOpener")
    }
}

/// Opens the seal into the front of `out`, and returns the number of bytes. If it is invalid, the
/// checksum distinguishes damage from tampering.
fn open_stored(
    key: &mut BlockKey,
    header: &BlockHeader,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, MediaError> {
    let index = header.index;
    let failed = || match header.check_stored(stored) {
        Ok(()) => MediaError::Authentication { index },
        Err(error) => error,
    };
    let lengths =
        || MediaError::malformed(Part::Block(index), "its lengths do not fit one another");
    let aad = key.aad(header);
    match &mut key.prepared {
        Prepared::Plain => Err(lengths()),
        Prepared::Sealing(key) => {
            let (ciphertext, tag) = stored.split_last_chunk::<TAG_LEN>().ok_or_else(lengths)?;
            let len = ciphertext.len();
            let exact = header.compressed || len == out.len();
            let plain = out.get_mut(..len).filter(|_| exact).ok_or_else(lengths)?;
            key.open(&header.nonce, &aad, ciphertext, tag, plain).map_err(|_| failed())?;
            Ok(len)
        }
        Prepared::TripleDes(key) => {
            let plain = triple_des::open_segment(key.expose(), &header.nonce, &aad, stored)
                .map_err(|_| failed())?;
            let exact = header.compressed || plain.len() == out.len();
            let target = out.get_mut(..plain.len()).filter(|_| exact).ok_or_else(lengths)?;
            target.copy_from_slice(&plain);
            Ok(plain.len())
        }
    }
}
