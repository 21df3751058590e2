//! The frame of record headers: kind, length and place at the front, checksum and MAC at the end.

use tdekit_key_crypto::sha256;

use crate::bytes::Reader;
use crate::error::{MediaError, Part};
use crate::keys::SetKeys;
use crate::{Digest, Id};

/// Maximum length of a record header in bytes.
pub const MAX_HEADER_LEN: usize = 1024 * 1024;
/// Number of bytes that determine a record header's length: see [`header_len`].
pub const HEADER_PREFIX_LEN: usize = 12;

/// Number of bytes before the fields of a kind.
pub(crate) const COMMON_LEN: usize = 80;
const CHECKSUM_LEN: usize = 32;
pub(crate) const MAC_LEN: usize = 32;
pub(crate) const PART: Part = Part::RecordHeader;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A backup set.
    Set,
    /// Additional recipients for an earlier set.
    Recipients,
    /// A signature on an earlier set.
    Signature,
}

impl RecordKind {
    /// Returns the number in a trailer.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Set => 1,
            Self::Recipients => 2,
            Self::Signature => 3,
        }
    }

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        [Self::Set, Self::Recipients, Self::Signature].into_iter().find(|kind| kind.id() == id)
    }

    fn magic(self) -> [u8; 8] {
        match self {
            Self::Set => *b"tdekset\n",
            Self::Recipients => *b"tdekrcp\n",
            Self::Signature => *b"tdeksig\n",
        }
    }

    fn from_magic(magic: [u8; 8]) -> Option<Self> {
        let kinds = [Self::Set, Self::Recipients, Self::Signature];
        kinds.into_iter().find(|kind| kind.magic() == magic)
    }
}

/// Position of a record, and the set that it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// 1 for the first record of a media set, incremented for each.
    pub ordinal: u32,
    /// SHA-256 of the trailer of the record before, of the media header for the first.
    pub previous: Digest,
    /// Identity of the media set.
    pub media_id: Id,
    /// Random identity of the set: this one, or the one that the record concerns.
    pub set_id: Id,
}

/// Returns the length of a record header, from its first [`HEADER_PREFIX_LEN`] bytes.
///
/// # Errors
/// [`MediaError::Truncated`]; [`MediaError::Damaged`] if no record begins there;
/// [`MediaError::Limit`]; [`MediaError::Malformed`].
pub fn header_len(prefix: &[u8]) -> Result<usize, MediaError> {
    kind_and_len(prefix).map(|(_, len)| len)
}

fn kind_and_len(prefix: &[u8]) -> Result<(RecordKind, usize), MediaError> {
    let mut reader = Reader::new(PART, prefix);
    let kind = RecordKind::from_magic(reader.array()?)
        .ok_or(MediaError::damaged(PART, "no record begins here"))?;
    let len = reader.u32()?;
    MediaError::check_limit(PART, "its length", len.into(), MAX_HEADER_LEN as u64)?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len < COMMON_LEN + CHECKSUM_LEN + MAC_LEN {
        return Err(MediaError::malformed(PART, "its length is too short"));
    }
    Ok((kind, len))
}

/// Checks frame and checksum of a whole header; returns its kind and the bytes before the checksum.
pub(crate) fn split(bytes: &[u8]) -> Result<(RecordKind, &[u8]), MediaError> {
    let (kind, len) = kind_and_len(bytes)?;
    let mut reader = Reader::new(PART, bytes);
    let body = reader.take(len - CHECKSUM_LEN - MAC_LEN)?;
    let checksum: [u8; CHECKSUM_LEN] = reader.array()?;
    let mac: [u8; MAC_LEN] = reader.array()?;
    reader.end()?;
    if checksum != sha256(&[body]) {
        return Err(MediaError::damaged(PART, "its checksum does not match"));
    }
    if kind == RecordKind::Signature && mac != [0; MAC_LEN] {
        return Err(MediaError::malformed(PART, "it has a MAC, and no key"));
    }
    Ok((kind, body))
}

/// Starts a header; [`finish`] completes it.
pub(crate) fn begin(kind: RecordKind, place: &RecordPlace) -> Vec<u8> {
    let mut out = kind.magic().to_vec();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&place.ordinal.to_le_bytes());
    out.extend_from_slice(&place.previous);
    out.extend_from_slice(&place.media_id);
    out.extend_from_slice(&place.set_id);
    out
}

/// Writes the length of a header that has `more` bytes between `out` and its checksum.
pub(crate) fn set_len(out: &mut [u8], more: usize) -> Result<(), MediaError> {
    let len = out.len() + more + CHECKSUM_LEN + MAC_LEN;
    MediaError::check_limit(PART, "its length", len as u64, MAX_HEADER_LEN as u64)?;
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(8..HEADER_PREFIX_LEN) {
        field.copy_from_slice(&len.to_le_bytes());
    }
    Ok(())
}

/// Completes a header: checksum, then the MAC of all bytes before it, or zeros without a key.
pub(crate) fn finish(mut out: Vec<u8>, keys: Option<&SetKeys>) -> Vec<u8> {
    let checksum = sha256(&[&out]);
    out.extend_from_slice(&checksum);
    let mac = keys.map_or([0; MAC_LEN], |keys| keys.header_mac(&out));
    out.extend_from_slice(&mac);
    out
}
