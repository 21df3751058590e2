//! What is found at a place: the header of its media set, and its state in comparison with what is
//! expected there.

use tdekit_backup_media::{MediaHeader, is_media};

use crate::RunError;

/// An object by its address: the header of a media set, `None` if it does not begin like one, or
/// why it cannot be read as one.
pub(crate) type Below = (String, Result<Option<MediaHeader>, RunError>);

/// The content of a place, as far as is needed to recognize it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) media_id: [u8; 16],
    /// Number of parts; 1 for a file.
    pub(crate) parts: u32,
    /// Bytes of all parts.
    pub(crate) bytes: u64,
}

/// The state of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As expected.
    Whole,
    /// Some of the expected parts are gone, and there are no others. A file has one part.
    #[cfg_attr(not(feature = "object-stores"), allow(dead_code))]
    Begun,
    /// Nothing is there.
    Gone,
    /// It is the media set, and its size is another.
    Grown,
    /// Another media set, or another file.
    Foreign,
}

impl State {
    /// Returns true if some of the media set is gone from there.
    pub(crate) fn lacks(self) -> bool {
        matches!(self, Self::Begun | Self::Gone | Self::Foreign)
    }
}

/// Decodes the beginning of a file or an object that `name` names; `None` if it is not like that of
/// a media set.
pub(crate) fn decode(head: &[u8], name: &str) -> Result<Option<MediaHeader>, RunError> {
    if !is_media(head) {
        return Ok(None);
    }
    MediaHeader::decode(head).map(Some).map_err(|error| RunError::Damaged {
        media: name.to_owned(),
        what: "the media header".to_owned(),
        reason: error.to_string(),
    })
}
