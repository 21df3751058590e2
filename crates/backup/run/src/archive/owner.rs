//! The records beside databases on this machine, and the one that shows whose an archive is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tdekit_backup_media::Lineage;

use super::chains::{Source, Stretch};
use super::lineage::{from_hex, of_database};
use super::read::Archive;
use super::state::{Shipped, record_of};
use super::store::Place;
use super::verify::recorded;
use crate::RunError;
use crate::error::ArchiveError;

/// The record beside a database of which sets are here.
pub(super) struct Record {
    /// The database.
    pub(super) source: Source,
    /// The record.
    pub(super) path: PathBuf,
    /// The set that was shipped last.
    pub(super) shipped: Shipped,
    pub(super) lineage: Lineage,
    /// True if the archive that it names is at this place.
    pub(super) is_of_place: bool,
    /// The archive that it names.
    archive: String,
    /// True if the set is here under its number, with the full set of its chain.
    is_here: bool,
}

impl Archive {
    /// Returns the records beside the databases of chains. Where nothing was shipped, a record
    /// shows nothing.
    pub(super) fn records(&self, stretches: &[Stretch]) -> Vec<Record> {
        let (here, place) = (crate::labels::host(), self.store.place.recorded());
        let mut looked = BTreeSet::new();
        let sources = stretches.iter().rev().map(|stretch| &stretch.source);
        let here = sources.filter(|source| source.host == here && !here.is_empty());
        let record = |source: &Source| {
            let state = recorded(Path::new(&source.path))?;
            let shipped = state.shipped?;
            let lineage = from_hex(&state.lineage);
            Some(Record {
                source: source.clone(),
                path: record_of(Path::new(&source.path)),
                lineage: lineage.unwrap_or_else(|| of_database(&source.host, &source.path)),
                is_of_place: state.archive == place,
                is_here: self.holds(&shipped) && self.has_set(shipped.first, &shipped.chain),
                archive: state.archive,
                shipped,
            })
        };
        here.filter(|source| looked.insert(&source.path)).filter_map(record).collect()
    }

    /// Returns the record that shows whose the archive is: the one that names it, or one whose
    /// newest object is here, and not in the archive that it names; otherwise one whose newest
    /// object is the last one here.
    pub(super) fn owner<'a>(&self, records: &'a [Record]) -> Option<&'a Record> {
        let last = self.objects.keys().next_back();
        let is_last = |record: &&Record| record.is_here && last == Some(&record.shipped.number);
        let of_place = records.iter().find(|record| record.is_of_place);
        let moved = || records.iter().find(|record| record.is_here && record.is_sure());
        of_place.or_else(moved).or_else(|| records.iter().find(is_last))
    }
}

impl Record {
    /// Returns true unless it names another archive, where its set is too: what is here may be a
    /// copy of that archive, and it may be another one, into which that set was copied.
    pub(super) fn is_sure(&self) -> bool {
        if self.is_of_place {
            return true;
        }
        let place = Place::of(self.archive.as_ref());
        // An archive in an object store is not asked.
        if let Place::Prefix(_) = place {
            return false;
        }
        match Archive::open(&place) {
            Ok(there) => !there.holds(&self.shipped),
            Err(error) => matches!(error, RunError::Archive(ArchiveError::Empty { .. })),
        }
    }
}
