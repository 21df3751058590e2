//! Record headers: of a backup set, of added recipients, of a signature.

mod keys;
mod place;
mod set;
mod text;

pub use crate::frame::{HEADER_PREFIX_LEN, MAX_HEADER_LEN, RecordKind, RecordPlace, header_len};
pub use place::{FullPlace, InArchive, Lineage, MAX_LINEAGES, ShippedBehind};
pub use set::{
    Base, EncodedSet, LogLink, MAX_BLOCK_SIZE, MIN_BLOCK_SIZE, Recipient, SetHeader, SetKind,
    SetTexts, Source,
};
pub use text::{MAX_TEXT_LEN, clean_text};

use crate::bytes::Reader;
use crate::error::MediaError;
use crate::frame::{MAC_LEN, PART, begin, finish, set_len, split};
use crate::keys::SetKeys;
use crate::signature::SignatureHeader;

/// Maximum number of recipients of a set, or of a recipients record.
pub const MAX_RECIPIENTS: usize = 64;

/// The fields of a record header besides its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFields {
    /// A backup set.
    Set(Box<SetHeader>),
    /// Additional recipients for an earlier set.
    Recipients(RecipientsHeader),
    /// A signature on an earlier set.
    Signature(SignatureHeader),
}

/// A record header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    /// Its place.
    pub place: RecordPlace,
    /// The other fields.
    pub fields: RecordFields,
}

impl RecordHeader {
    /// Reads a whole header. Its checksum is checked; its MAC requires the key: see
    /// [`SetKeys::of_set`] and [`SetKeys::check_recipients`].
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Damaged`], [`MediaError::Malformed`],
    /// [`MediaError::Limit`], [`MediaError::UnknownAlgorithm`],
    /// [`MediaError::UnknownCompression`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MediaError> {
        let (kind, body) = split(bytes)?;
        let mut reader = Reader::new(PART, body);
        reader.take(HEADER_PREFIX_LEN)?;
        let place = RecordPlace {
            ordinal: reader.u32()?,
            previous: reader.array()?,
            media_id: reader.array()?,
            set_id: reader.array()?,
        };
        if place.ordinal == 0 {
            return Err(MediaError::malformed(PART, "ordinals begin with 1"));
        }
        let fields = match kind {
            RecordKind::Set => RecordFields::Set(Box::new(SetHeader::read(&mut reader)?)),
            RecordKind::Recipients => {
                RecordFields::Recipients(RecipientsHeader::read(&mut reader)?)
            }
            RecordKind::Signature => RecordFields::Signature(SignatureHeader::read(&mut reader)?),
        };
        reader.end()?;
        if let RecordFields::Set(set) = &fields
            && set.algorithm.is_none()
            && !bytes.ends_with(&[0; MAC_LEN])
        {
            return Err(MediaError::malformed(PART, "it has a MAC, and no key"));
        }
        Ok(Self { place, fields })
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        match self.fields {
            RecordFields::Set(_) => RecordKind::Set,
            RecordFields::Recipients(_) => RecordKind::Recipients,
            RecordFields::Signature(_) => RecordKind::Signature,
        }
    }

    /// Returns the header of a backup set, if it is one.
    #[must_use]
    pub fn as_set(&self) -> Option<&SetHeader> {
        match &self.fields {
            RecordFields::Set(set) => Some(set),
            _ => None,
        }
    }
}

/// Additional recipients for an earlier set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientsHeader {
    /// Time at which they were added, milliseconds since 1970-01-01 UTC.
    pub time_ms: i64,
    /// The set's secret, wrapped for each: 1 to [`MAX_RECIPIENTS`].
    pub recipients: Vec<Recipient>,
}

impl RecipientsHeader {
    /// Encodes the header. `keys` belong to the set that `place` names.
    ///
    /// # Errors
    /// [`MediaError::Limit`], [`MediaError::Malformed`].
    pub fn encode(&self, place: &RecordPlace, keys: &SetKeys) -> Result<Vec<u8>, MediaError> {
        keys.check_set(&place.set_id)?;
        let mut out = begin(RecordKind::Recipients, place);
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        if self.recipients.is_empty() {
            return Err(MediaError::malformed(PART, "there is no recipient"));
        }
        set::put_recipients(&mut out, &self.recipients)?;
        set_len(&mut out, 0)?;
        Ok(finish(out, Some(keys)))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, MediaError> {
        let time_ms = reader.i64()?;
        let recipients = set::read_recipients(reader)?;
        if recipients.is_empty() {
            return Err(MediaError::malformed(PART, "there is no recipient"));
        }
        Ok(Self { time_ms, recipients })
    }
}
