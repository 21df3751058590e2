//! Objects of a copy of the database that went on by itself: they have the archive's lineage, and
//! the record beside the database contradicts them.
//!
//! An outdated record names an object that is there as it says. One that names a number under which
//! another object of its lineage is there shows that the objects from there on are not its own.

use std::collections::BTreeSet;

use tdekit_backup_media::ShippedBehind;

use super::branch::{Contradicted, Unsure};
use super::chains::Stretch;
use super::judge::Judged;
use super::lineage::lineage_of;
use super::owner::Record;
use super::read::Archive;
use crate::error::ArchiveError;
use crate::{RunError, SetInfo, SetKind};

impl Archive {
    /// Compares the chain that a record names, and what was shipped behind its last object.
    pub(super) fn judge_recorded(
        &self,
        stretches: &[Stretch],
        record: &Record,
        judged: &mut Judged,
    ) {
        let shipped = &record.shipped;
        let path = record.path.display().to_string();
        for stretch in stretches {
            let is_of_chain =
                stretch.link.0 == shipped.first && hex::encode(stretch.link.1) == shipped.chain;
            if is_of_chain {
                if stretch.is_full {
                    judged.named = Some(stretch.number);
                    self.judge_last(stretch, record, judged);
                }
                continue;
            }
            let is_named = stretch.is_full && stretch.number == shipped.first;
            let is_branch = is_of_branch(stretch, record, judged);
            let reason = if is_named {
                format!("is not the full set that {path} says was shipped")
            } else if !is_branch {
                continue;
            } else if stretch.number <= shipped.number && stretch.last >= shipped.first {
                format!(
                    "has a chain up to {}, and {path} says that object {} is a full set, with a \
                     chain up to {}",
                    stretch.last, shipped.first, shipped.number
                )
            } else if self.is_behind_branch(stretch, record, judged) {
                format!("was shipped behind another object than {path} says was shipped")
            } else {
                continue;
            };
            let object = self.object(stretch.number);
            judged.foreign.insert(stretch.number, ArchiveError::Misplaced { object, reason });
            if is_branch {
                judged.branch.chains.insert(stretch.number);
            }
        }
        if record.is_of_place {
            judged.recorded = Some((shipped.clone(), path));
        }
    }

    /// Compares the last object by the record, in the chain that it names.
    fn judge_last(&self, stretch: &Stretch, record: &Record, judged: &mut Judged) {
        let number = record.shipped.number;
        if !(stretch.number..=stretch.last).contains(&number) {
            return;
        }
        let is_same = |set_id: [u8; 16]| hex::encode(set_id) == record.shipped.set_id;
        let Some(there) = self.header(number).filter(|there| !is_same(there.set_id)) else {
            return;
        };
        let link = there.log.filter(|link| link.number == number && is_link(stretch, &there));
        let Some(link) = link.filter(|_| record.lineage.has(&lineage_of(&there).own())) else {
            return;
        };
        let before_of = |next: &SetInfo| next.log.map(|link| link.before.set_id);
        let next = self.header(number.saturating_add(1));
        let goes_on = next.and_then(|next| before_of(&next)) == Some(there.set_id);
        let last = if goes_on { stretch.last } else { number };
        let reason = format!("is not the object that {} says was shipped", record.path.display());
        let fault = ArchiveError::Misplaced { object: self.object(number), reason };
        judged.branch.objects = Some(Contradicted { first: number, last, fault });
        let (first, before) = (stretch.number.saturating_add(1), number.saturating_sub(1));
        let is_behind = self.header(before).is_some_and(|it| it.set_id == link.before.set_id);
        if is_behind && first <= before {
            judged.branch.unsure.push(Unsure { first, last: before, by: number });
        }
    }

    /// Returns true if a full set was shipped behind another object than the one that the record
    /// names, or behind one that is of a branch.
    fn is_behind_branch(&self, stretch: &Stretch, record: &Record, judged: &Judged) -> bool {
        let Some(behind) = stretch.behind else { return false };
        let shipped = &record.shipped;
        if behind.number == shipped.number {
            return hex::encode(behind.set.set_id) != shipped.set_id;
        }
        behind.number > shipped.number
            && judged.branch.has(behind.number, behind.first)
            && self.is_there(&behind)
    }

    /// Returns true if an object is here that a full set was shipped behind.
    pub(super) fn is_there(&self, behind: &ShippedBehind) -> bool {
        self.header(behind.number).is_some_and(|there| there.set_id == behind.set.set_id)
    }

    /// Finds the objects behind which foreign chains of the archive's lineage were shipped. Whether
    /// they are of the archive is not known, unless its own chains go on behind them too.
    pub(super) fn judge_unsure(&self, stretches: &[Stretch], judged: &mut Judged) {
        if judged.foreign.is_empty() {
            return;
        }
        let is_own = |it: &Stretch| !judged.foreign.contains_key(&it.number);
        let before = |stretch: &Stretch| -> Option<(&Stretch, u64)> {
            let behind = stretch.behind.filter(|behind| self.is_there(behind))?;
            let before = stretches.iter().filter(|it| is_own(it)).find(|it| {
                (it.number..=it.last).contains(&behind.number) && it.number < stretch.number
            })?;
            Some((before, behind.number))
        };
        let named = stretches.iter().find(|it| it.is_full && Some(it.number) == judged.named);
        // Where the record contradicts the newest chains, the chains before them prove nothing.
        let shows = named.is_some() || judged.branch.chains.is_empty();
        let last = stretches.iter().rev().find(|it| shows && is_own(it));
        let mut known = BTreeSet::new();
        for from in [named, last].into_iter().flatten() {
            let mut next = Some(from);
            while let Some(stretch) = next.filter(|it| known.insert(it.number)) {
                next = before(stretch).map(|it| it.0);
            }
        }
        let mut unsure = Vec::new();
        for by in stretches.iter().filter(|it| !is_own(it) && judged.has(&it.lineage)) {
            let mut next = before(by);
            while let Some((stretch, last)) = next.filter(|it| !known.contains(&it.0.number)) {
                unsure.push(Unsure { first: stretch.number, last, by: by.number });
                next = before(stretch);
            }
        }
        judged.branch.unsure.extend(unsure);
    }

    /// Returns that nothing shows whether an object is of the archive: objects of another branch,
    /// which took the places of its own, go on behind it.
    #[must_use]
    pub fn unsure(&self, number: u64) -> Option<String> {
        let unsure = &self.by_headers().judged.branch.unsure;
        let Unsure { first, last, by } =
            unsure.iter().find(|it| (it.first..=it.last).contains(&number))?;
        let which = match first == last {
            true => format!("object {first}"),
            false => format!("objects {first} to {last}"),
        };
        Some(format!(
            "{} goes on behind {which}, and is not of this archive: what is before it may not be \
             either",
            self.object(*by)
        ))
    }

    /// Refuses an object that the record contradicts.
    ///
    /// # Errors
    /// `Misplaced`.
    pub(super) fn refuse_branch(&self, number: u64) -> Result<(), RunError> {
        match self.by_headers().judged.branch.fault(number) {
            Some(fault) => Err(fault.clone().into()),
            None => Ok(()),
        }
    }

    /// Returns true for an object that the record of its own lineage contradicts.
    pub(super) fn is_of_branch(&self, number: u64) -> bool {
        let branch = &self.by_headers().judged.branch;
        let first = self.header(number).and_then(|info| info.log).map_or(number, |it| it.first);
        branch.has(number, first)
    }
}

/// Returns true if a chain was shipped with the record's lineage, or one that it goes on behind. A
/// writer that went on behind the record's lineage may ship other objects than it names.
fn is_of_branch(stretch: &Stretch, record: &Record, judged: &Judged) -> bool {
    record.lineage.has(&stretch.lineage.own()) && !judged.foreign.contains_key(&stretch.number)
}

fn is_link(stretch: &Stretch, there: &SetInfo) -> bool {
    there.kind != SetKind::Full
        && there.log.is_some_and(|link| (link.first, link.chain) == stretch.link)
}
