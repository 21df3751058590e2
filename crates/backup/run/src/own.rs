//! The sets of a database's own: those that were made of it, or that it was restored from. Their
//! ids show that a set is of this database, and of its path of recovery: names do not, since
//! another server has databases of the same names, and since a restore leaves sets out.

use tdekit_backup_media::Id;

use crate::SetKind;

/// Most full sets that are kept.
pub const MOST_FULL: usize = 32;
/// Most sets of changes that are kept. The newest ones are bases; older ones stand below them.
pub const MOST_CHANGES: usize = 64;

/// Ids of sets, the newest ones last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnSets {
    full: Vec<Id>,
    changes: Vec<Id>,
}

impl OwnSets {
    /// Takes full sets, and differential sets and log backups.
    #[must_use]
    pub fn of(full: Vec<Id>, changes: Vec<Id>) -> Self {
        Self { full, changes }
    }

    /// Adds a set as the newest one of its kind.
    pub fn add(&mut self, kind: SetKind, set_id: Id) {
        let (ids, most) = match kind {
            SetKind::Full => (&mut self.full, MOST_FULL),
            SetKind::Differential | SetKind::Log => (&mut self.changes, MOST_CHANGES),
        };
        ids.retain(|id| *id != set_id);
        ids.push(set_id);
        let older = ids.len().saturating_sub(most);
        ids.drain(..older);
    }

    /// Returns the full sets.
    #[must_use]
    pub fn full(&self) -> &[Id] {
        &self.full
    }

    /// Returns the differential sets and log backups.
    #[must_use]
    pub fn changes(&self) -> &[Id] {
        &self.changes
    }

    /// Returns true for one of these sets.
    #[must_use]
    pub fn has(&self, set_id: &Id) -> bool {
        self.full.contains(set_id) || self.changes.contains(set_id)
    }

    /// As [`Self::has`], of a set of the history.
    pub(crate) fn has_uuid(&self, uuid: &str) -> bool {
        let mut id = Id::default();
        hex::decode_to_slice(uuid, &mut id).is_ok() && self.has(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sets_of_each_kind_are_kept() {
        let mut own = OwnSets::default();
        let id = |at: usize| [u8::try_from(at).unwrap(); 16];
        own.add(SetKind::Full, id(200));
        for at in 0..=MOST_CHANGES {
            let kind = if at % 2 == 0 { SetKind::Log } else { SetKind::Differential };
            own.add(kind, id(at));
        }
        assert_eq!(own.changes().len(), MOST_CHANGES);
        assert!(own.has(&id(200)) && own.has(&id(1)) && !own.has(&id(0)));
        assert!(own.has_uuid(&hex::encode(id(1))) && !own.has_uuid("01"));
        own.add(SetKind::Log, id(1));
        assert_eq!(own.changes().last(), Some(&id(1)));
        assert_eq!(own.changes().len(), MOST_CHANGES);
        (0..=MOST_FULL).for_each(|at| own.add(SetKind::Full, id(at)));
        assert_eq!((own.full().len(), own.full().first()), (MOST_FULL, Some(&id(1))));
    }
}
