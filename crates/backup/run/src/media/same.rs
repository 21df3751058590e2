//! Whether sets are of one chain, where the sets between them are not at hand.

use super::Media;
use super::base::PageMap;
use super::opened::OpenSet;
use crate::{RunError, SetInfo, UnwrapSecret};

impl Media {
    /// Returns true if the fingerprints of two sets have one key: a full set hands its own on to
    /// the differential sets and log backups behind it.
    ///
    /// # Errors
    /// `NoBase` for a set without fingerprints; those of opening a set.
    pub fn have_one_map_key(
        &self,
        one: &SetInfo,
        other: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<bool, RunError> {
        let key = |set: &SetInfo| {
            PageMap::key(&OpenSet::open_readable(&self.media_of(set).volumes, set, keys)?)
        };
        Ok(key(one)?.expose() == key(other)?.expose())
    }
}
