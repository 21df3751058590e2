//! The objects of an archive that a copy of its database shipped, which went on by itself.

use std::collections::BTreeSet;

use crate::error::ArchiveError;

/// Which objects are of another branch.
#[derive(Default)]
pub(super) struct Branch {
    /// The first objects of the chains that the record contradicts.
    pub(super) chains: BTreeSet<u64>,
    /// In the chain that the record names: the objects from the one on that it contradicts.
    pub(super) objects: Option<Contradicted>,
    /// Objects of which nothing shows whether they are of the archive or of the branch.
    pub(super) unsure: Vec<Unsure>,
}

/// Objects that the record contradicts, one behind the other.
pub(super) struct Contradicted {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) fault: ArchiveError,
}

/// Objects of a chain, from the first to the last.
pub(super) struct Unsure {
    pub(super) first: u64,
    pub(super) last: u64,
    /// The object of the branch that goes on behind them.
    pub(super) by: u64,
}

impl Branch {
    /// Returns why an object in the chain that the record names is not of the archive.
    pub(super) fn fault(&self, number: u64) -> Option<&ArchiveError> {
        let objects = self.objects.as_ref()?;
        (objects.first..=objects.last).contains(&number).then_some(&objects.fault)
    }

    /// Returns true if the record contradicts an object, of the chain that begins with `first`.
    pub(super) fn has(&self, number: u64, first: u64) -> bool {
        self.chains.contains(&first) || self.fault(number).is_some()
    }
}
