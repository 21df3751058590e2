//! Chains whose removal `prune` began and did not end: what is left of them counts as gone.
//!
//! `prune` removes a chain from its last object back, so what is left is its beginning. The history
//! names each object of it before the first one goes.

use std::collections::{BTreeMap, BTreeSet};

use super::read::Archive;
use crate::RunError;
use crate::catalog::{Doomed, Removal};
use crate::names::number_of;

/// The removals by `prune` that the history has.
pub struct KnownRemovals<'a> {
    /// Returns true if removals of objects of an archive were begun, and have not ended.
    pub is_pruning: &'a dyn Fn(&Archive) -> bool,
    /// Returns the objects that are left of chains of which others went.
    pub begun: &'a dyn Fn(&Archive) -> BTreeSet<u64>,
}

/// The rest of a chain of which some objects were removed.
pub(crate) struct BegunChain {
    /// The objects, by their numbers.
    pub(crate) left: BTreeMap<u64, Doomed>,
    /// The numbers of the objects that are gone.
    pub(super) gone: BTreeSet<u64>,
    /// True if only objects behind these are gone, as `prune` leaves it.
    pub(super) is_cut_at_end: bool,
}

impl Archive {
    /// Returns the chains whose removal was begun. One of which nothing is gone is none of them.
    ///
    /// # Errors
    /// `Io`, and the errors of an object store, for a place that cannot be read.
    pub(crate) fn begun_chains(&self, removals: &[Removal]) -> Result<Vec<BegunChain>, RunError> {
        let number = |removal: &Removal| self.number_of_removal(removal);
        let own: Vec<(u64, &Removal)> =
            removals.iter().filter_map(|each| Some((number(each)?, each))).collect();
        if own.iter().all(|(_, removal)| removal.is_over) {
            return Ok(Vec::new());
        }
        let full = own.iter().filter(|(_, removal)| removal.is_full).map(|(number, _)| *number);
        let chains = self.chains()?;
        let firsts: BTreeSet<u64> = chains.iter().map(|chain| chain.first).chain(full).collect();
        let mut begun: BTreeMap<u64, (BTreeMap<u64, Doomed>, BTreeSet<u64>)> = BTreeMap::new();
        for (number, removal) in own {
            let first = firsts.range(..=number).next_back().copied().unwrap_or(number);
            let (left, gone) = begun.entry(first).or_default();
            if removal.is_over || !self.objects.contains_key(&number) {
                gone.insert(number);
            } else if self.is_of_media(number, &removal.doomed.media_uuid) {
                left.insert(number, removal.doomed.clone());
            }
        }
        let begun = begun.into_values().filter(|(left, gone)| {
            // Another object may have taken the number of one that is gone.
            !left.is_empty() && gone.iter().any(|number| !left.contains_key(number))
        });
        let chain = |(left, gone): (BTreeMap<u64, Doomed>, BTreeSet<u64>)| {
            let is_cut_at_end = left.keys().next_back() < gone.iter().next();
            BegunChain { left, gone, is_cut_at_end }
        };
        Ok(begun.map(chain).collect())
    }

    /// Returns the number of the object that a removal is of; `None` for one of another place.
    pub(super) fn number_of_removal(&self, removal: &Removal) -> Option<u64> {
        let place = self.store.place.recorded();
        let (archive, name) = removal.doomed.device.rsplit_once('/')?;
        number_of(name).filter(|_| archive == place.trim_end_matches('/'))
    }

    fn is_of_media(&self, number: u64, media_uuid: &str) -> bool {
        self.media(number).is_ok_and(|media| hex::encode(media.id()) == media_uuid)
    }

    /// Returns the numbers of the objects that count as gone: the beginnings of chains of which
    /// only later objects are gone.
    ///
    /// # Errors
    /// As [`Self::begun_chains`].
    pub(crate) fn left_by_prune(&self, removals: &[Removal]) -> Result<BTreeSet<u64>, RunError> {
        let begun = self.begun_chains(removals)?.into_iter().filter(|chain| chain.is_cut_at_end);
        Ok(begun.flat_map(|chain| chain.left.into_keys()).collect())
    }
}

/// Returns numbers as stretches without a gap, each with its first and last.
pub(super) fn stretches(numbers: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for number in numbers.iter().copied() {
        match all.last_mut().filter(|(_, last)| last.checked_add(1) == Some(number)) {
            Some((_, last)) => *last = number,
            None => all.push((number, number)),
        }
    }
    all
}

/// Takes what counts as gone, and is there, out of gaps.
pub(super) fn without(gaps: &[(u64, u64)], left: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all = gaps.to_vec();
    for (first, last) in left.iter().copied() {
        let cut = |gap: (u64, u64)| {
            let before = (gap.0, gap.1.min(first.saturating_sub(1)));
            let behind = (gap.0.max(last.saturating_add(1)), gap.1);
            let parts = match last < gap.0 || first > gap.1 {
                true => [gap, (1, 0)],
                false => [before, behind],
            };
            parts.into_iter().filter(|(first, last)| first <= last)
        };
        all = all.into_iter().flat_map(cut).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_cut_by_what_is_there() {
        let numbers = BTreeSet::from([5, 6, 7, 12]);
        let left = stretches(&numbers);
        assert_eq!(left, [(5, 7), (12, 12)]);
        for (gaps, cut) in [
            (vec![(5, 9)], vec![(8, 9)]),
            (vec![(3, 13)], vec![(3, 4), (8, 11), (13, 13)]),
            (vec![(5, 7)], vec![]),
            (vec![(1, 4), (8, 11)], vec![(1, 4), (8, 11)]),
            (vec![(1, 6)], vec![(1, 4)]),
        ] {
            assert_eq!(without(&gaps, &left), cut, "{gaps:?}");
        }
    }
}
