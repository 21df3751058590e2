//! Chains of archives as removals: one that was begun is finished. Where an object cannot be
//! removed, those before it stay: it stands on them.

use std::collections::{BTreeMap, BTreeSet};

use super::Candidate;
use super::rules::SetId;
use crate::archive::{Archive, ArchiveError, ArchivePlace};
use crate::catalog::Removal;
use crate::discover::Root;
use crate::names::is_object_name;
use crate::{Catalog, RunError};

/// The objects at a place that are left of chains whose removal was begun, each with the number of
/// its chain.
pub(super) type Begun = BTreeMap<String, usize>;

/// Returns the objects at `root` that are left of chains whose removal was begun.
///
/// # Errors
/// Those of the history, and of archives that cannot be read.
pub(super) fn begun_chains(catalog: &Catalog, root: &Root) -> Result<Begun, RunError> {
    let removals = catalog.unfinished_removals()?;
    let is_open = |removal: &&Removal| {
        let device = &removal.doomed.device;
        !removal.is_over && root.contains(device) && is_object_name(device)
    };
    let archives = removals.iter().filter(is_open);
    let archives: BTreeSet<&str> =
        archives.filter_map(|removal| Some(removal.doomed.device.rsplit_once('/')?.0)).collect();
    let mut begun = Begun::new();
    let mut chains = 0;
    for archive in archives {
        let opened = match Archive::open(&ArchivePlace::of(archive.as_ref())) {
            Err(RunError::Archive(ArchiveError::Empty { .. })) => continue,
            opened => opened?,
        };
        for chain in opened.begun_chains(&removals)? {
            begun.extend(chain.left.into_values().map(|doomed| (doomed.device, chains)));
            chains += 1;
        }
    }
    begun.retain(|device, _| root.contains(device));
    Ok(begun)
}

/// How far the removal of each chain is.
#[derive(Default)]
pub(super) struct Progress {
    /// True for one of which an object went.
    chains: BTreeMap<SetId, bool>,
    /// Those of which an object could not be removed.
    stopped: BTreeSet<SetId>,
}

impl Progress {
    /// Returns true if nothing more is to be removed of a chain.
    pub(super) fn is_stopped(&self, chain: Option<SetId>) -> bool {
        chain.is_some_and(|chain| self.stopped.contains(&chain))
    }

    /// Returns true if an object of the chain went.
    pub(super) fn has_begun(&self, chain: Option<SetId>) -> bool {
        chain.is_some_and(|chain| self.chains.get(&chain) == Some(&true))
    }

    /// Takes note of whether an object of a chain went.
    pub(super) fn note(&mut self, chain: Option<SetId>, is_removed: bool) {
        let Some(chain) = chain else { return };
        match is_removed {
            true => drop(self.chains.insert(chain, true)),
            false => drop(self.stopped.insert(chain)),
        }
    }
}

impl Candidate {
    /// Returns the chain of an archive's object.
    pub(super) fn chain(&self) -> Option<SetId> {
        self.points.iter().find(|point| point.in_archive).map(super::rules::Point::begins)
    }
}

/// Puts the newest media set first: what needs others goes before them. The objects of a chain
/// follow each other from the last one back.
pub(super) fn sort_newest_first(all: &mut [Candidate]) {
    let mut newest: BTreeMap<SetId, i64> = BTreeMap::new();
    for point in all.iter().flat_map(|media| &media.points) {
        let of_chain = newest.entry(point.begins()).or_insert(point.at_ms);
        *of_chain = point.at_ms.max(*of_chain);
    }
    all.sort_by_cached_key(|media| {
        let of_chain = |point: &super::rules::Point| newest.get(&point.begins()).copied();
        let place = media.fate.places.first().filter(|_| media.chain().is_some()).cloned();
        let newest = media.points.iter().filter_map(of_chain).max();
        std::cmp::Reverse((newest, media.chain(), place))
    });
}
