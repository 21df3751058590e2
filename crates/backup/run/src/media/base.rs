//! The set on which a differential set, or a log backup, is based.

use tdekit_backup_media::payload::{MAP_PAGES_PER_BLOCK, PageMapBlock};
use tdekit_backup_media::{Base, BlockKind};
use tdekit_key_crypto::SecretBytes;

use super::list::Volumes;
use super::opened::{BlockReader, OpenSet};
use crate::error::At;
use crate::feed::Print;
use crate::{RunError, SetInfo, SetKind, SourceKind, UnwrapSecret};

/// A base whose page map can be read.
pub(crate) struct OpenBase<'a> {
    set: OpenSet<'a>,
    pub(crate) base: Base,
    pub(crate) map_key: SecretBytes,
    /// Indexes of the map blocks, in family 0.
    maps: Vec<u32>,
}

/// Finds the last full set on which a differential one of this database can be based; for a log
/// backup the last full set or log backup.
pub(crate) fn find<'a>(
    sets: &'a [SetInfo],
    (database_name, database_id): (&str, &[u8; 16]),
    log: bool,
) -> Result<&'a SetInfo, RunError> {
    let full = |set: &&SetInfo| {
        set.source == SourceKind::Database
            && (set.kind == SetKind::Full || log && set.is_log_backup())
            && !set.copy_only
            && set.damage.is_none()
            && set.database_id == *database_id
            && set.database_name == database_name
    };
    let none = |reason: String| RunError::NoBase { reason };
    let found = sets.iter().rev().find(full).ok_or_else(|| {
        none(format!("the media set has no full set of database {database_name:?}"))
    })?;
    match found.page_map {
        true => Ok(found),
        false => Err(none(format!("set {} has no page map", found.position))),
    }
}

impl<'a> OpenBase<'a> {
    pub(crate) fn open(
        volumes: &'a Volumes,
        info: &SetInfo,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<Self, RunError> {
        let set = OpenSet::open_readable(volumes, info, keys)?;
        let map_key = set.metadata()?.map_key;
        let no_key =
            || RunError::NoBase { reason: format!("set {} has no map key", info.position) };
        let map_key = map_key.ok_or_else(no_key)?;
        let first = set.families.first().ok_or(RunError::Internal("a set of no family"))?;
        let entries = first.index.entries.iter().zip(0..);
        let maps = entries.filter(|(entry, _)| entry.kind == BlockKind::PageMap);
        let maps = maps.map(|(_, index)| index).collect();
        let trailer_sha256 = trailer_digest(&set);
        let base = Base { set_id: set.set_id, trailer_sha256 };
        Ok(Self { set, base, map_key, maps })
    }

    /// Returns the number of pages of the base.
    pub(crate) fn pages(&self) -> u32 {
        self.set.header.source.pages()
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.set.header.source.page_size()
    }

    /// Returns true if its pages and their fingerprints are sealed.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.set.header.algorithm.is_some()
    }

    pub(crate) fn position(&self) -> u32 {
        self.set.position
    }

    /// Returns the fingerprints of map block `group`.
    pub(crate) fn prints(&self, group: u32) -> Result<Vec<Print>, RunError> {
        let first = u64::from(group) * MAP_PAGES_PER_BLOCK as u64 + 1;
        let foreign = || {
            let reason = format!("the page map of set {} has another shape", self.set.position);
            RunError::NoBase { reason }
        };
        let at = usize::try_from(group).ok().and_then(|group| self.maps.get(group));
        let index = *at.ok_or_else(foreign)?;
        let mut payload = Vec::new();
        BlockReader::new(&self.set)?.read(&self.set, (0, index), &mut payload)?;
        let at = At { media: "", position: self.set.position };
        let map = PageMapBlock::decode(index.into(), &payload).map_err(|error| at.error(error))?;
        if u64::from(map.first_page) != first {
            return Err(foreign());
        }
        Ok(map.fingerprints.to_vec())
    }
}

/// Returns the SHA-256 of a set's trailer in family 0.
pub(super) fn trailer_digest(set: &OpenSet<'_>) -> [u8; 32] {
    let first = set.families.first().and_then(|family| family.copies.first());
    first.map_or([0; 32], |(_, placed)| placed.record.digest())
}
