//! The last 256 bytes of a record.

use tdekit_key_crypto::sha256;

use crate::Digest;
use crate::bytes::Reader;
use crate::error::{MediaError, Part};
use crate::frame::{MAX_HEADER_LEN, RecordKind};
use crate::keys::SetKeys;

/// Length of a trailer in bytes.
pub const TRAILER_LEN: usize = 256;

pub(crate) const MAGIC: [u8; 8] = *b"tdekend\n";
pub(crate) const END_MAGIC: [u8; 8] = *b"tdekit]\n";

const PART: Part = Part::Trailer;
const BODY_LEN: usize = 184;
const CHECKED_LEN: usize = 216;
const END_AT: usize = 248;

/// A trailer. A record is valid once its trailer is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Ordinal of the record.
    pub ordinal: u32,
    /// Length of the whole record in bytes, trailer included.
    pub record_len: u64,
    /// Length of the record header in bytes.
    pub header_len: u32,
    /// Blocks in this record.
    pub blocks: u64,
    /// Payload bytes of its data blocks, before compression.
    pub data_bytes: u64,
    /// Bytes of its blocks as stored, headers included.
    pub stored_bytes: u64,
    /// Pages of the database in this state; 0 for a stream.
    pub pages: u32,
    /// Time of completion, milliseconds since 1970-01-01 UTC.
    pub finished_ms: i64,
    /// Offset of the index from the record's first byte; 0 without.
    pub index_offset: u64,
    /// Length of the index in bytes; 0 without.
    pub index_len: u64,
    /// Data blocks over all families.
    pub data_blocks: u64,
    /// SHA-256 of the record header.
    pub header_sha256: Digest,
    /// SHA-256 of the index; of an empty string without.
    pub index_sha256: Digest,
}

impl Trailer {
    /// Makes the trailer of a record that consists only of a header.
    ///
    /// # Errors
    /// [`MediaError::Limit`] for a header that is too long.
    pub fn of_header(
        kind: RecordKind,
        ordinal: u32,
        header: &[u8],
        finished_ms: i64,
    ) -> Result<Self, MediaError> {
        let limit = MAX_HEADER_LEN as u64;
        let len = header.len() as u64;
        MediaError::check_limit(PART, "the header's length", len, limit)?;
        Ok(Self {
            kind,
            ordinal,
            record_len: len + TRAILER_LEN as u64,
            header_len: u32::try_from(len).unwrap_or(u32::MAX),
            blocks: 0,
            data_bytes: 0,
            stored_bytes: 0,
            pages: 0,
            finished_ms,
            index_offset: 0,
            index_len: 0,
            data_blocks: 0,
            header_sha256: sha256(&[header]),
            index_sha256: sha256(&[]),
        })
    }

    /// Encodes the trailer. `keys` are the set's, for an encrypted set and for recipients that are
    /// added to it.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] if its lengths do not add up.
    pub fn encode(&self, keys: Option<&SetKeys>) -> Result<[u8; TRAILER_LEN], MediaError> {
        self.check()?;
        let mut out = Vec::with_capacity(TRAILER_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.kind.id(), 0, 0, 0]);
        out.extend_from_slice(&self.ordinal.to_le_bytes());
        out.extend_from_slice(&self.record_len.to_le_bytes());
        out.extend_from_slice(&self.header_len.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.data_bytes.to_le_bytes());
        out.extend_from_slice(&self.stored_bytes.to_le_bytes());
        out.extend_from_slice(&u64::from(self.pages).to_le_bytes());
        out.extend_from_slice(&self.finished_ms.to_le_bytes());
        out.extend_from_slice(&self.index_offset.to_le_bytes());
        out.extend_from_slice(&self.index_len.to_le_bytes());
        out.extend_from_slice(&self.data_blocks.to_le_bytes());
        out.extend_from_slice(&self.header_sha256);
        out.extend_from_slice(&self.index_sha256);
        out.resize(BODY_LEN, 0);
        let checksum = sha256(&[&out]);
        out.extend_from_slice(&checksum);
        let mac = keys.map_or([0; 32], |keys| keys.trailer_mac(&out));
        out.extend_from_slice(&mac);
        out.extend_from_slice(&END_MAGIC);
        out.try_into().map_err(|_| MediaError::malformed(PART, "its length is not 256"))
    }

    /// Reads a trailer. Its checksum is checked; its MAC needs the key:
    /// [`SetKeys::check_trailer`].
    ///
    /// # Errors
    /// [`MediaError::Damaged`], [`MediaError::Malformed`], [`MediaError::Limit`].
    pub fn decode(bytes: &[u8; TRAILER_LEN]) -> Result<Self, MediaError> {
        if !bytes.starts_with(&MAGIC) || !bytes.ends_with(&END_MAGIC) {
            return Err(MediaError::damaged(PART, "no trailer stands here"));
        }
        let mut whole = Reader::new(PART, bytes);
        let body = whole.take(BODY_LEN)?;
        if whole.array::<32>()? != sha256(&[body]) {
            return Err(MediaError::damaged(PART, "its checksum does not match"));
        }
        let mut reader = Reader::new(PART, body);
        reader.take(MAGIC.len())?;
        let kind = RecordKind::from_id(reader.u8()?)
            .ok_or(MediaError::malformed(PART, "there is no such kind of record"))?;
        reader.zeros(3)?;
        let (ordinal, record_len, header_len) = (reader.u32()?, reader.u64()?, reader.u32()?);
        reader.zeros(4)?;
        let (blocks, data_bytes, stored_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let pages = u32::try_from(reader.u64()?)
            .map_err(|_| MediaError::malformed(PART, "no database has so many pages"))?;
        let trailer = Self {
            kind,
            ordinal,
            record_len,
            header_len,
            blocks,
            data_bytes,
            stored_bytes,
            pages,
            finished_ms: reader.i64()?,
            index_offset: reader.u64()?,
            index_len: reader.u64()?,
            data_blocks: reader.u64()?,
            header_sha256: reader.array()?,
            index_sha256: reader.array()?,
        };
        reader.zeros(24)?;
        trailer.check()?;
        Ok(trailer)
    }

    /// Checks that lengths add up: header, blocks, index, trailer, and nothing between.
    fn check(&self) -> Result<(), MediaError> {
        let header_len = u64::from(self.header_len);
        let limit = MAX_HEADER_LEN as u64;
        MediaError::check_limit(PART, "the header's length", header_len, limit)?;
        let end = header_len.checked_add(self.stored_bytes);
        let len = end
            .and_then(|end| end.checked_add(self.index_len))
            .and_then(|len| len.checked_add(TRAILER_LEN as u64));
        let index = match self.kind {
            RecordKind::Set => {
                (end, self.blocks.checked_mul(32).and_then(|len| len.checked_add(8)))
            }
            _ => (Some(0), Some(0)),
        };
        if len != Some(self.record_len) || (Some(self.index_offset), Some(self.index_len)) != index
        {
            return Err(MediaError::malformed(PART, "its lengths do not add up"));
        }
        let header_only = self.blocks == 0
            && self.data_bytes == 0
            && self.stored_bytes == 0
            && self.pages == 0
            && self.data_blocks == 0;
        if (self.kind == RecordKind::Set) == (self.blocks == 0) {
            return Err(MediaError::malformed(PART, "a set has blocks, and nothing else has"));
        }
        if self.kind != RecordKind::Set && !header_only {
            return Err(MediaError::malformed(PART, "a record without blocks has sizes"));
        }
        if self.ordinal == 0 {
            return Err(MediaError::malformed(PART, "ordinals begin with 1"));
        }
        Ok(())
    }
}

impl SetKeys {
    /// Checks the MAC of the trailer of the set, or of a recipients record for it.
    ///
    /// # Errors
    /// [`MediaError::Forged`].
    pub fn check_trailer(&self, trailer: &[u8; TRAILER_LEN]) -> Result<(), MediaError> {
        let (bound, mac) = mac_parts(trailer);
        if self.is_trailer_mac(bound, mac) {
            return Ok(());
        }
        Err(MediaError::Forged { part: Part::Trailer })
    }
}

/// Returns a trailer that is not valid yet: its bytes without the magics at both ends.
#[must_use]
pub fn prepared_trailer(trailer: &[u8; TRAILER_LEN]) -> [u8; TRAILER_LEN] {
    let mut bytes = *trailer;
    bytes[..MAGIC.len()].fill(0);
    bytes[END_AT..].fill(0);
    bytes
}

/// Returns the trailer from which [`prepared_trailer`] made these bytes, if it did and the checksum
/// is right.
#[must_use]
pub fn finished_trailer(bytes: &[u8; TRAILER_LEN]) -> Option<([u8; TRAILER_LEN], Trailer)> {
    let mut trailer = *bytes;
    trailer[..MAGIC.len()].copy_from_slice(&MAGIC);
    trailer[END_AT..].copy_from_slice(&END_MAGIC);
    if prepared_trailer(&trailer) != *bytes {
        return None;
    }
    let facts = Trailer::decode(&trailer).ok()?;
    Some((trailer, facts))
}

/// Returns the SHA-256 of a trailer: the `previous` of the next record.
#[must_use]
pub fn trailer_digest(trailer: &[u8; TRAILER_LEN]) -> Digest {
    sha256(&[trailer])
}

/// Returns the bytes that the MAC covers, and the MAC.
fn mac_parts(trailer: &[u8; TRAILER_LEN]) -> (&[u8], &[u8]) {
    let (bound, rest) = trailer.split_at(CHECKED_LEN);
    (bound, &rest[..END_AT - CHECKED_LEN])
}
