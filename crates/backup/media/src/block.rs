//! Block headers, and the limits that a set puts on them.

use tdekit_key_crypto::triple_des::{MAX_SEGMENT_LEN, SEGMENT_TAG_LEN};
use tdekit_key_crypto::{Algorithm, NONCE_LEN, TAG_LEN};

use crate::bytes::Reader;
use crate::checksum::checksum;
use crate::error::{MediaError, Part};
use crate::payload::MAX_MAP_PAYLOAD_LEN;

pub use crate::payload::MAX_METADATA_LEN;

/// Length of a block header in bytes.
pub const BLOCK_HEADER_LEN: usize = 64;
/// Maximum payload of any block, in bytes: the capacity of one segment of TRIPLE_DES_3KEY.
pub const MAX_PAYLOAD_LEN: u32 = 8 * 1024 * 1024 - 8;

/// Number of bytes of a header that are bound by the seal.
pub(crate) const BOUND_LEN: usize = 24;
/// Number of bytes of a header that are covered by the checksum.
pub(crate) const CHECKED_LEN: usize = 48;

pub(crate) const MAGIC: [u8; 4] = *b"tblk";

const COMPRESSED: u8 = 1;
const LAST: u8 = 2;
const TRIPLE_DES_BLOCK_LEN: u32 = 8;
const TAG: u32 = 16;
const SEGMENT_TAG: u32 = 32;
const _: () = assert!(TAG_LEN == TAG as usize && SEGMENT_TAG_LEN == SEGMENT_TAG as usize);
const _: () = assert!(MAX_PAYLOAD_LEN as usize == MAX_SEGMENT_LEN);

/// The kinds of content of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Pages or a piece of a stream.
    Data,
    /// Fingerprints of pages.
    PageMap,
    /// Metadata: the last block of each family, and only that.
    Metadata,
}

impl BlockKind {
    /// Returns the number in a block header.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::PageMap => 1,
            Self::Metadata => 2,
        }
    }

    pub(crate) fn flags(self, compressed: bool) -> u8 {
        let last = if self == Self::Metadata { LAST } else { 0 };
        last | if compressed { COMPRESSED } else { 0 }
    }

    /// Returns the kind and whether the block is compressed, from their two bytes.
    pub(crate) fn from_id_and_flags(
        part: Part,
        id: u8,
        flags: u8,
    ) -> Result<(Self, bool), MediaError> {
        let kind = match id {
            0 => Self::Data,
            1 => Self::PageMap,
            2 => Self::Metadata,
            _ => return Err(MediaError::malformed(part, "there is no such kind of block")),
        };
        let compressed = flags & COMPRESSED != 0;
        if flags != kind.flags(compressed) {
            return Err(MediaError::malformed(part, "its flags do not fit its kind"));
        }
        Ok((kind, compressed))
    }
}

/// A block header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// The kind of its content.
    pub kind: BlockKind,
    /// True if the payload was compressed before it was sealed.
    pub compressed: bool,
    /// 0 for the first block of the record, incremented for each block of any kind.
    pub index: u64,
    /// Length of the payload in bytes.
    pub payload_len: u32,
    /// Length of the stored bytes after the header.
    pub stored_len: u32,
    /// Nonce of the seal; zeros without an algorithm.
    pub nonce: [u8; NONCE_LEN],
    /// XXH3-64 of the header before it and of the stored bytes.
    pub checksum: u64,
}

impl BlockHeader {
    /// Reads a header from [`BLOCK_HEADER_LEN`] bytes.
    ///
    /// # Errors
    /// [`MediaError::Damaged`] if no block begins there; [`MediaError::Malformed`].
    pub fn decode(bytes: &[u8; BLOCK_HEADER_LEN]) -> Result<Self, MediaError> {
        let mut reader = Reader::new(Part::AnyBlock, bytes);
        if reader.array()? != MAGIC {
            return Err(MediaError::damaged(Part::AnyBlock, "no block begins here"));
        }
        let (kind, flags, zeros) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let index = reader.u64()?;
        let part = Part::Block(index);
        let (kind, compressed) = BlockKind::from_id_and_flags(part, kind, flags)?;
        let header = Self {
            kind,
            compressed,
            index,
            payload_len: reader.u32()?,
            stored_len: reader.u32()?,
            nonce: reader.array()?,
            checksum: reader.u64()?,
        };
        if zeros != 0 || reader.u64()? != 0 {
            return Err(MediaError::malformed(part, "a reserved byte is not zero"));
        }
        Ok(header)
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_HEADER_LEN] {
        let mut out = [0; BLOCK_HEADER_LEN];
        out[..CHECKED_LEN].copy_from_slice(&self.checked());
        out[CHECKED_LEN..56].copy_from_slice(&self.checksum.to_le_bytes());
        out
    }

    /// Returns the length of header and stored bytes.
    #[must_use]
    pub fn block_len(&self) -> u64 {
        BLOCK_HEADER_LEN as u64 + u64::from(self.stored_len)
    }

    /// Checks the checksum over `stored`; needs no key.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] or [`MediaError::Malformed`] for a length that is not
    /// `stored_len`; [`MediaError::Damaged`].
    pub fn check_stored(&self, stored: &[u8]) -> Result<(), MediaError> {
        self.check_stored_len(stored)?;
        if checksum(&self.checked(), stored) == self.checksum {
            return Ok(());
        }
        Err(MediaError::damaged(Part::Block(self.index), "its checksum does not match"))
    }

    pub(crate) fn check_stored_len(&self, stored: &[u8]) -> Result<(), MediaError> {
        let (needed, available) = (u64::from(self.stored_len), stored.len() as u64);
        let part = Part::Block(self.index);
        match available.cmp(&needed) {
            std::cmp::Ordering::Less => Err(MediaError::Truncated { part, needed, available }),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => {
                Err(MediaError::malformed(part, "more bytes are stored than its header says"))
            }
        }
    }

    pub(crate) fn checked(&self) -> [u8; CHECKED_LEN] {
        let mut out = [0; CHECKED_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = self.kind.id();
        out[5] = self.kind.flags(self.compressed);
        out[8..16].copy_from_slice(&self.index.to_le_bytes());
        out[16..20].copy_from_slice(&self.payload_len.to_le_bytes());
        out[20..24].copy_from_slice(&self.stored_len.to_le_bytes());
        out[24..48].copy_from_slice(&self.nonce);
        out
    }
}

/// The limits that a set's header puts on its blocks. Checked before memory is allocated for a
/// block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRules {
    pub(crate) compression: bool,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) max_data_len: u32,
    pub(crate) page_map: bool,
}

impl BlockRules {
    /// Returns the maximum payload of a block of this kind, in bytes; 0 if the set has none.
    #[must_use]
    pub fn max_payload_len(&self, kind: BlockKind) -> u32 {
        match kind {
            BlockKind::Data => self.max_data_len,
            BlockKind::PageMap if self.page_map => {
                u32::try_from(MAX_MAP_PAYLOAD_LEN).unwrap_or(u32::MAX)
            }
            BlockKind::PageMap => 0,
            BlockKind::Metadata => MAX_METADATA_LEN,
        }
    }

    /// Checks that a header's lengths are possible, and that they require no more memory than
    /// allowed.
    ///
    /// # Errors
    /// [`MediaError::Limit`], [`MediaError::Malformed`].
    pub fn check(&self, header: &BlockHeader) -> Result<(), MediaError> {
        let part = Part::Block(header.index);
        let lens = (header.payload_len, header.stored_len);
        self.check_lens(part, header.kind, header.compressed, lens)?;
        if self.algorithm.is_none() && header.nonce != [0; NONCE_LEN] {
            return Err(MediaError::malformed(part, "it has a nonce, and the set no algorithm"));
        }
        Ok(())
    }

    pub(crate) fn check_lens(
        &self,
        part: Part,
        kind: BlockKind,
        compressed: bool,
        (payload_len, stored_len): (u32, u32),
    ) -> Result<(), MediaError> {
        let limit = self.max_payload_len(kind);
        MediaError::check_limit(part, "payload bytes", payload_len.into(), limit.into())?;
        if payload_len == 0 {
            return Err(MediaError::malformed(part, "it is empty"));
        }
        if compressed && !self.compression {
            return Err(MediaError::malformed(part, "it is compressed, and the set is not"));
        }
        let fits = if compressed {
            // At least one byte, and less than the payload.
            (sealed_len(self.algorithm, 1)..=sealed_len(self.algorithm, payload_len - 1))
                .contains(&stored_len)
        } else {
            stored_len == sealed_len(self.algorithm, payload_len)
        };
        if fits {
            return Ok(());
        }
        Err(MediaError::malformed(part, "its lengths do not fit one another"))
    }
}

/// Returns the number of stored bytes for `len` bytes under an algorithm.
pub(crate) fn sealed_len(algorithm: Option<Algorithm>, len: u32) -> u32 {
    match algorithm {
        None => len,
        Some(Algorithm::TripleDes3Key) => {
            let pad = TRIPLE_DES_BLOCK_LEN - len % TRIPLE_DES_BLOCK_LEN;
            len.saturating_add(pad).saturating_add(SEGMENT_TAG)
        }
        Some(_) => len.saturating_add(TAG),
    }
}
