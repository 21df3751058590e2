//! Objects that are missing because `prune` removed them, where its run has not ended: the history
//! names each object of a chain before the first one goes.

use std::collections::BTreeSet;

use super::read::Archive;
use crate::catalog::Removal;
use crate::error::ArchiveError;
use crate::{Catalog, Operator, RunError};

/// Returns the error of a restore. Where the history has that `prune` began to remove the chain of
/// objects that are missing, they were not lost, and the error says so.
pub fn explain_removed(operator: &dyn Operator, archive: &Archive, error: RunError) -> RunError {
    let missing = match &error {
        RunError::Archive(
            ArchiveError::Lost { first, last, .. } | ArchiveError::Hole { first, last, .. },
        ) => Some((*first, *last)),
        RunError::Archive(ArchiveError::MissingObject { object }) => {
            archive.number_of_object(object).map(|number| (number, number))
        }
        _ => None,
    };
    let removed = || {
        let missing = missing?;
        let catalog = Catalog::open_existing(&operator.access().dir().ok()?).ok()??;
        let gone = archive.gone_by_prune(&catalog.unfinished_removals().ok()?).ok()?;
        archive.removed(missing, &gone)
    };
    removed().map_or(error, RunError::from)
}

impl Archive {
    /// Returns the numbers of the objects that `prune` has removed, in runs that have not ended:
    /// those that it recorded as gone, and those that are gone from the ends of chains.
    fn gone_by_prune(&self, removals: &[Removal]) -> Result<BTreeSet<u64>, RunError> {
        let begun = self.begun_chains(removals)?;
        let ends = begun.into_iter().filter(|chain| chain.is_cut_at_end);
        let over = removals.iter().filter(|removal| removal.is_over);
        let over = over.filter_map(|removal| self.number_of_removal(removal));
        Ok(over.chain(ends.flat_map(|chain| chain.gone)).collect())
    }

    /// Returns the error that objects were removed, if all that are missing are among those that
    /// are gone so. It names all that are gone beside them.
    fn removed(&self, (first, last): (u64, u64), gone: &BTreeSet<u64>) -> Option<ArchiveError> {
        if !(first..=last).all(|number| gone.contains(&number)) {
            return None;
        }
        let (mut first, mut last) = (first, last);
        while first.checked_sub(1).is_some_and(|before| gone.contains(&before)) {
            first -= 1;
        }
        while last.checked_add(1).is_some_and(|behind| gone.contains(&behind)) {
            last += 1;
        }
        let has_before = first.checked_sub(1).is_some_and(|it| self.objects.contains_key(&it));
        Some(ArchiveError::Removed { archive: self.shown(), first, last, has_before })
    }
}
