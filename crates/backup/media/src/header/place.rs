//! The place of a set in an archive (`docs/format/archive.md`).

use super::set::Base;
use crate::Id;
use crate::bytes::Reader;
use crate::error::MediaError;
use crate::frame::PART;

/// Maximum number of lineages in a header.
pub const MAX_LINEAGES: usize = 16;
/// Bytes of the place of a full set.
const FULL_LEN: usize = 72;

/// Names the writers of an archive, one after the other: random ids, that of the record by which a
/// set was shipped first, then those that it goes on behind, the nearest first. It has 1 to
/// [`MAX_LINEAGES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage(Vec<Id>);

/// The object behind which a full set was shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShippedBehind {
    /// Its number.
    pub number: u64,
    /// Number of the full set of its chain; 0 where that was not there.
    pub first: u64,
    /// Its set.
    pub set: Base,
}

/// The place of a full set. That of a log set is its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullPlace {
    /// Number of its object.
    pub number: u64,
    /// The object before it; `None` in an archive that was empty, or where that was not readable.
    pub behind: Option<ShippedBehind>,
}

/// The place of a set in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InArchive {
    /// The lineages of its writer.
    pub lineage: Lineage,
    /// The place of a full set; `None` for a log set.
    pub full: Option<FullPlace>,
}

impl Lineage {
    /// Begins a lineage behind others. Of too many, the last ones are left out.
    #[must_use]
    pub fn begin(own: Id, behind: impl IntoIterator<Item = Id>) -> Self {
        let mut ids = vec![own];
        for id in behind {
            if ids.len() < MAX_LINEAGES && !ids.contains(&id) {
                ids.push(id);
            }
        }
        Self(ids)
    }

    /// Takes the ids of a lineage; `None` if their number is out of bounds.
    #[must_use]
    pub fn of(ids: Vec<Id>) -> Option<Self> {
        (1..=MAX_LINEAGES).contains(&ids.len()).then_some(Self(ids))
    }

    /// Returns its own id.
    #[must_use]
    pub fn own(&self) -> Id {
        self.0.first().copied().unwrap_or_default()
    }

    /// Returns all ids, its own first.
    #[must_use]
    pub fn ids(&self) -> &[Id] {
        &self.0
    }

    /// Returns true if an id is its own, or one that it goes on behind.
    #[must_use]
    pub fn has(&self, id: &Id) -> bool {
        self.0.contains(id)
    }
}

impl InArchive {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        if let Some(full) = &self.full {
            let none = ShippedBehind {
                number: 0,
                first: 0,
                set: Base { set_id: [0; 16], trailer_sha256: [0; 32] },
            };
            let behind = full.behind.unwrap_or(none);
            out.extend_from_slice(&full.number.to_le_bytes());
            out.extend_from_slice(&behind.number.to_le_bytes());
            out.extend_from_slice(&behind.first.to_le_bytes());
            out.extend_from_slice(&behind.set.set_id);
            out.extend_from_slice(&behind.set.trailer_sha256);
        }
        out.push(u8::try_from(self.lineage.0.len()).unwrap_or(u8::MAX));
        self.lineage.0.iter().for_each(|id| out.extend_from_slice(id));
    }

    pub(super) fn read(reader: &mut Reader<'_>, is_full: bool) -> Result<Self, MediaError> {
        let full = if is_full { Some(FullPlace::read(reader)?) } else { None };
        let count = reader.u8()?;
        MediaError::check_limit(PART, "lineages", count.into(), MAX_LINEAGES as u64)?;
        let ids = (0..count).map(|_| reader.array()).collect::<Result<_, _>>()?;
        let lineage = Lineage::of(ids);
        let lineage = lineage.ok_or(MediaError::malformed(PART, "a set of no lineage"))?;
        Ok(Self { lineage, full })
    }

    /// Passes over one in a header.
    pub(super) fn pass(reader: &mut Reader<'_>, is_full: bool) -> Result<(), MediaError> {
        reader.take(if is_full { FULL_LEN } else { 0 })?;
        let count = usize::from(reader.u8()?);
        reader.take(count * size_of::<Id>())?;
        Ok(())
    }
}

impl FullPlace {
    fn read(reader: &mut Reader<'_>) -> Result<Self, MediaError> {
        let number = reader.u64()?;
        let (before, first) = (reader.u64()?, reader.u64()?);
        let set = Base { set_id: reader.array()?, trailer_sha256: reader.array()? };
        let is_none = before == 0;
        let zeros = first == 0 && set.set_id == [0; 16] && set.trailer_sha256 == [0; 32];
        if is_none && !zeros {
            return Err(MediaError::malformed(PART, "a set of no object"));
        }
        let behind = ShippedBehind { number: before, first, set };
        Ok(Self { number, behind: (!is_none).then_some(behind) })
    }

    /// Returns true if the numbers of the objects follow each other.
    pub(super) fn is_in_order(&self) -> bool {
        let follows = |behind: ShippedBehind| {
            behind.number < self.number && behind.first <= behind.number && behind.number > 0
        };
        self.number > 0 && self.behind.is_none_or(follows)
    }
}
