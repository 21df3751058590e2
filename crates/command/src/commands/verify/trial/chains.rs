//! The chains of an archive whose objects are restored on trial, and what goes meanwhile.

use std::collections::BTreeMap;

use tdekit_backup_run::archive::{Archive, ArchiveError, ArchivePlace, HeldChain};
use tdekit_backup_run::place::{Place, open};
use tdekit_backup_run::{RunError, Unreadable, history, readings};
use tdekit_console::GlobalArgs;

use crate::backup::progress::run as steer;
use crate::error::CommandError;

/// The chains of an archive when the test began.
pub(super) struct Chains {
    pub(super) place: ArchivePlace,
    pub(super) archive: Archive,
    chains: Vec<HeldChain>,
}

impl Chains {
    pub(super) fn of(place: &ArchivePlace) -> Result<Self, RunError> {
        let archive = Archive::open(place)?;
        let chains = archive.chains()?;
        Ok(Self { place: place.clone(), archive, chains })
    }

    /// Adds the objects that are links: a search of a directory follows none, and readers do.
    pub(super) fn with_links(&self, mut media: Vec<Vec<Place>>) -> Vec<Vec<Place>> {
        for number in self.archive.objects().keys() {
            let object = self.archive.place_of(*number);
            let Place::File(path) = &object else { continue };
            let is_link = std::fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
            let places = vec![object];
            // One that does not open is a finding of the archive.
            if is_link && open(&places).is_ok() {
                media.push(places);
            }
        }
        media
    }

    /// Returns the last objects of the chains that have log sets, by the numbers of the media sets
    /// with them.
    pub(super) fn ends(&self, media: &[Vec<Place>]) -> BTreeMap<usize, u64> {
        let mut ends = BTreeMap::new();
        for chain in self.chains.iter().filter(|chain| chain.last > chain.first) {
            let object = self.archive.place_of(chain.last).recorded();
            let is_last = |places: &Vec<Place>| places.iter().any(|it| it.recorded() == object);
            if let Some(number) = media.iter().position(is_last) {
                ends.insert(number, chain.last);
            }
        }
        ends
    }

    /// Returns true if an error is that the last object of a chain, or its whole chain, is none of
    /// the archive.
    pub(super) fn is_misplaced(&self, last: u64, error: &RunError) -> bool {
        let RunError::Archive(ArchiveError::Misplaced { object, .. }) = error else { return false };
        *object == self.archive.object(last) || self.archive.is_foreign(last)
    }

    /// Returns what cannot be read, without objects that `prune` removed with their whole chain.
    pub(super) fn still_there(
        &self,
        global: &GlobalArgs,
        unreadable: Vec<Unreadable>,
    ) -> Result<Vec<Unreadable>, CommandError> {
        let mut left = Vec::new();
        for each in unreadable {
            if !self.is_removed(global, &Place::of(each.path.as_os_str()))? {
                left.push(each);
            }
        }
        Ok(left)
    }

    /// Returns true if `prune` removed an object of the archive with its whole chain. One that is
    /// being removed is waited for.
    pub(super) fn is_removed(&self, global: &GlobalArgs, place: &Place) -> Result<bool, RunError> {
        let recorded = place.recorded();
        let is_it = |number: &u64| self.archive.place_of(*number).recorded() == recorded;
        let Some(number) = self.archive.objects().keys().copied().find(is_it) else {
            return Ok(false);
        };
        let has = |chain: &&HeldChain| (chain.first..=chain.last).contains(&number);
        let chain = self.chains.iter().find(has);
        let chain = chain.map_or((number, number), |chain| (chain.first, chain.last));
        let is_pruning = |archive: &Archive| history::is_pruning(global, archive);
        self.archive.is_removed(chain, &steer(0, None, &|_| {}), &is_pruning)
    }
}

/// Returns what cannot be read any more; nothing if `prune` removed it meanwhile: of an archive
/// with its whole chain or by the history, of other media by the history.
pub(super) fn lost(
    global: &GlobalArgs,
    places: &[Place],
    archive: Option<&Chains>,
    error: RunError,
) -> Result<Vec<Unreadable>, CommandError> {
    if let (Some(archive), [place]) = (archive, places)
        && archive.is_removed(global, place)?
    {
        return Ok(Vec::new());
    }
    let error = history::explain(global, places, error);
    // A part of a chain that `prune` left is a finding of the archive.
    if matches!(error, RunError::Pruned { .. }) {
        return Ok(Vec::new());
    }
    readings::record_unopened(global, places);
    let unreadable =
        |place: &Place| Unreadable { path: place.shown().into(), error: error.to_string() };
    Ok(places.iter().map(unreadable).collect())
}
