//! The keys of a set from its header, and the MACs of headers under them.

use super::set::context_len;
use super::{RecordFields, RecordHeader};
use crate::error::{MediaError, Part};
use crate::keys::{COMMITMENT_LEN, SetKeys, SetSecret};

impl SetKeys {
    /// Derives the keys of the set whose whole header is `header`. Checks the secret against the
    /// commitment, then the header's MAC.
    ///
    /// # Errors
    /// [`MediaError::WrongKey`]; [`MediaError::Forged`]; those of [`RecordHeader::decode`];
    /// [`MediaError::Malformed`] if it is not the header of an encrypted set;
    /// [`MediaError::Crypto`].
    pub fn of_set(header: &[u8], secret: &SetSecret) -> Result<Self, MediaError> {
        const PART: Part = Part::RecordHeader;
        let decoded = RecordHeader::decode(header)?;
        let RecordFields::Set(set) = &decoded.fields else {
            return Err(MediaError::malformed(PART, "it is not of a backup set"));
        };
        let Some(algorithm) = set.algorithm else {
            return Err(MediaError::malformed(PART, "the set is not encrypted"));
        };
        let at = context_len(header)?;
        let context = header.get(..at).unwrap_or_default();
        let stored = header.get(at..at + COMMITMENT_LEN).unwrap_or_default();
        let set_id = decoded.place.set_id;
        let (keys, commitment) =
            Self::derive(secret, algorithm, set_id, set.family.index, context)?;
        if commitment != stored {
            return Err(MediaError::WrongKey);
        }
        keys.check_header_mac(header)?;
        Ok(keys)
    }

    /// Checks the MAC of a recipients record's header, which must name this set.
    ///
    /// # Errors
    /// [`MediaError::Forged`]; [`MediaError::Disagreement`]; those of [`RecordHeader::decode`].
    pub fn check_recipients(&self, header: &[u8]) -> Result<(), MediaError> {
        let decoded = RecordHeader::decode(header)?;
        self.check_set(&decoded.place.set_id)?;
        self.check_header_mac(header)
    }
}
