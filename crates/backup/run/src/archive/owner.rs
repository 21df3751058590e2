//! The database that an archive is of, as records beside databases on this machine show it.

use std::collections::BTreeSet;
use std::path::Path;

use super::line::{Databases, Own, Source};
use super::read::Archive;
use super::state::{Shipped, record_of};
use super::store::Place;
use super::verify::recorded;
use crate::RunError;
use crate::error::ArchiveError;

/// The record beside a database of which sets are here.
pub(super) struct Record {
    /// Stands for the database.
    pub(super) database: usize,
    /// Its path.
    pub(super) path: String,
    /// The path of the record.
    pub(super) record: String,
    /// The set that was shipped last.
    pub(super) shipped: Shipped,
    /// The archive that it names.
    archive: String,
    /// True if that is at this place.
    is_of_place: bool,
    /// True if the set is here under its number.
    pub(super) is_here: bool,
}

/// The database that an archive is of.
#[derive(Default)]
pub(super) struct Owner {
    /// Sure unless its record names another archive, where that set is too: what is here may be a
    /// copy of that archive, and it may be another one, into which that set was copied.
    pub(super) own: Own,
    /// The number of the full set that its record names.
    pub(super) first: Option<u64>,
    /// True if that full set is here; otherwise another one is in its place, or none.
    pub(super) is_here: bool,
}

impl Archive {
    /// Returns the records beside the databases of sets, in the order of these. Where nothing was
    /// shipped, a record shows nothing.
    pub(super) fn records(&self, sources: &[Source], databases: &Databases) -> Vec<Record> {
        let (here, place) = (crate::labels::host(), self.store.place.recorded());
        let mut looked = BTreeSet::new();
        let is_here = |source: &&Source| source.host == here && !here.is_empty();
        let record = |Source { host, path, .. }: &Source| {
            let state = looked.insert(path.clone()).then(|| recorded(Path::new(path)))??;
            let shipped = state.shipped?;
            Some(Record {
                database: databases.at(host, path)?,
                path: path.clone(),
                record: record_of(Path::new(path)).display().to_string(),
                is_of_place: state.archive == place,
                is_here: self.holds(&shipped),
                archive: state.archive,
                shipped,
            })
        };
        sources.iter().filter(is_here).filter_map(record).collect()
    }

    /// Returns the database that the archive is of: that whose record names it, otherwise that
    /// whose record names an object that is here, with the full set of its chain, the newest one.
    pub(super) fn owner(&self, records: &[Record]) -> Owner {
        let has_full = |it: &Shipped| self.has_set(it.first, &it.chain);
        let of_place = records.iter().find(|record| record.is_of_place);
        let copied = records.iter().filter(|it| it.is_here && has_full(&it.shipped));
        let copied = copied.max_by_key(|record| record.shipped.number);
        let Some(record) = of_place.or(copied) else { return Owner::default() };
        Owner {
            own: Own {
                database: Some(record.database),
                is_sure: record.is_of_place || record.is_moved(),
            },
            first: Some(record.shipped.first),
            is_here: has_full(&record.shipped),
        }
    }
}

impl Record {
    /// Returns true if its set is not in the archive that it names: that was moved. An archive in
    /// an object store is not asked.
    fn is_moved(&self) -> bool {
        let place = Place::of(self.archive.as_ref());
        if let Place::Prefix(_) = place {
            return false;
        }
        match Archive::open(&place) {
            Ok(there) => !there.holds(&self.shipped),
            Err(error) => matches!(error, RunError::Archive(ArchiveError::Empty { .. })),
        }
    }
}
