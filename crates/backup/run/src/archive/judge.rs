//! Which chains of an archive are none of it: by the lineages in their headers, by the objects
//! behind which they were shipped, and by records beside databases.

use std::collections::{BTreeMap, BTreeSet};

use tdekit_backup_media::Lineage;

use super::branch::Branch;
use super::chains::Stretch;
use super::owner::Record;
use super::read::Archive;
use super::state::Shipped;
use crate::error::ArchiveError;

/// The verdict on the chains, by headers and records.
#[derive(Default)]
pub(super) struct Judged {
    /// Why chains are none of this archive, by the numbers of their first objects.
    pub(super) foreign: BTreeMap<u64, ArchiveError>,
    /// Number of the full set that the record of the archive names, if it is here.
    pub(super) named: Option<u64>,
    /// Why the archive may be another database's than the records show, or than headers do.
    pub(super) doubt: Option<String>,
    /// The last object by the record that names the archive, and the path of that record.
    pub(super) recorded: Option<(Shipped, String)>,
    /// The lineage of the archive; `None` where no header can be read.
    pub(super) lineage: Option<Lineage>,
    /// The objects that went another way than the record.
    pub(super) branch: Branch,
}

impl Judged {
    /// Returns true if a lineage is that of the archive, or one that it goes on behind.
    pub(super) fn has(&self, lineage: &Lineage) -> bool {
        self.lineage.as_ref().is_none_or(|own| own.has(&lineage.own()))
    }
}

impl Archive {
    /// Judges the chains, the oldest first.
    pub(super) fn judge(&self, stretches: &[Stretch]) -> Judged {
        let records = self.records(stretches);
        let mut owner = self.owner(&records);
        let mut doubt = None;
        let by_headers = tip(stretches, &|_| true);
        if let Some(record) = owner.filter(|record| !record.is_sure()) {
            let own = of_record(stretches, record);
            let is_other = |it: &&Stretch| !own.has(&it.lineage.own());
            let is_same = by_headers.as_ref().is_none_or(|by_headers| {
                let of = |it: &Stretch| by_headers.has(&it.lineage.own());
                stretches.iter().all(|it| of(it) == own.has(&it.lineage.own()))
            });
            // The archive may be that of a database whose record is gone, or on another machine.
            let is_elsewhere = |it: &Stretch| records.iter().any(|of| of.source == it.source);
            let are_elsewhere = stretches.iter().filter(is_other).all(is_elsewhere);
            doubt = (!is_same || !are_elsewhere).then(|| self.doubt_of(record));
            if !is_same && !are_elsewhere {
                owner = None;
            }
        }
        let lineage = owner.map(|record| of_record(stretches, record)).or(by_headers);
        let mut judged = Judged { doubt, lineage, ..Judged::default() };
        self.judge_lineages(stretches, &mut judged);
        if let (None, Some(number)) = (owner, judged.foreign.keys().next()) {
            let doubt = format!(
                "{} is of another archive than most objects here, and no record on this machine \
                 shows which of the two this is",
                self.object(*number)
            );
            judged.doubt.get_or_insert(doubt);
        }
        if let Some(record) = owner {
            self.judge_recorded(stretches, record, &mut judged);
        }
        self.judge_places(stretches, &mut judged);
        self.judge_unsure(stretches, &mut judged);
        judged
    }

    fn judge_lineages(&self, stretches: &[Stretch], judged: &mut Judged) {
        let is_own = |it: &&Stretch| judged.has(&it.lineage);
        let mut before: Option<&Stretch> = None;
        let mut foreign = BTreeMap::new();
        // Lineages that a later writer went on behind.
        let mut ended = BTreeSet::new();
        for (at, stretch) in stretches.iter().enumerate() {
            let own = stretch.lineage.own();
            if is_own(&stretch) && !ended.contains(&own) {
                ended.extend(stretch.lineage.ids().iter().copied().filter(|id| *id != own));
                before = Some(stretch);
                continue;
            }
            let beside = before.or_else(|| stretches.iter().skip(at).find(is_own));
            let object = self.object(stretch.number);
            let reason = of_another(stretch, beside);
            foreign.insert(stretch.number, ArchiveError::Misplaced { object, reason });
        }
        judged.foreign = foreign;
    }

    /// Compares each chain with the object behind which the next one was shipped, and with the full
    /// set that log sets behind it name, from the chain that the record names, otherwise from the
    /// last one.
    fn judge_places(&self, stretches: &[Stretch], judged: &mut Judged) {
        let own = stretches.iter().filter(|it| !judged.foreign.contains_key(&it.number));
        let own: Vec<_> = own.collect();
        let named = own.iter().position(|it| it.is_full && Some(it.number) == judged.named);
        let Some(at) = named.or(own.len().checked_sub(1)) else { return };
        let (older, newer) = own.split_at(at);
        let Some((start, newer)) = newer.split_first() else { return };
        let mut foreign = |stretch: &Stretch, reason: String| {
            let object = self.object(stretch.number);
            judged.foreign.insert(stretch.number, ArchiveError::Misplaced { object, reason });
        };
        let mut next = start;
        for stretch in older.iter().rev() {
            if self.is_shipped_behind(next, stretch) {
                next = stretch;
                continue;
            }
            let last = stretch.last;
            let lost = next.behind.filter(|behind| behind.number <= last && !self.is_there(behind));
            let lost = lost.map(|lost| format!(" object {}, which is lost", lost.number));
            let next = next.number;
            let mut reason =
                format!("has a chain up to {last}, and object {next} was shipped behind another");
            reason.extend(lost);
            foreign(stretch, reason);
        }
        let mut before = start;
        for stretch in newer {
            if self.is_shipped_behind(stretch, before) {
                before = stretch;
                continue;
            }
            foreign(stretch, format!("was shipped behind another object than {}", before.last));
        }
    }

    /// Returns false if a full set was shipped behind another object than the chain before it has,
    /// or if log sets name a full set in whose place that chain has another object.
    fn is_shipped_behind(&self, next: &Stretch, before: &Stretch) -> bool {
        if !next.is_full && before.last >= next.link.0 {
            return false;
        }
        let Some(behind) = next.behind else { return true };
        if before.last > behind.number {
            return false;
        }
        let there = self.header(behind.number).filter(|_| before.last == behind.number);
        there.is_none_or(|there| there.set_id == behind.set.set_id)
    }

    fn doubt_of(&self, record: &Record) -> String {
        format!(
            "{} names another archive, which has object {} of this one too: whether this is a copy \
             of that, of {}, or the archive of another database, is not known",
            record.path.display(),
            record.shipped.number,
            record.source.path
        )
    }
}

/// Returns the lineage of which most objects are, with those that it goes on behind; of several,
/// that which comes first. Of one database, that with the newest set counts alone: the other one is
/// an older archive.
fn tip(stretches: &[Stretch], is_wanted: &dyn Fn(&Lineage) -> bool) -> Option<Lineage> {
    let objects = |of: &&Stretch| -> usize {
        let own = stretches.iter().filter(|it| of.lineage.has(&it.lineage.own()));
        own.map(|it| it.objects).sum()
    };
    let newest = |of: &Stretch| {
        let own = stretches.iter().filter(|it| of.lineage.has(&it.lineage.own()));
        own.map(|it| it.last_ms).max()
    };
    let tips: Vec<_> = stretches.iter().rev().filter(|it| is_wanted(&it.lineage)).collect();
    let is_older = |it: &Stretch| {
        let mut of_database = tips.iter().filter(|other| other.source == it.source);
        of_database.any(|other| newest(other) > newest(it))
    };
    let tips = tips.iter().copied().filter(|it| !is_older(it));
    tips.max_by_key(objects).map(|it| it.lineage.clone())
}

/// Returns the lineage of a record, or the one that goes on behind it in the archive.
fn of_record(stretches: &[Stretch], record: &Record) -> Lineage {
    let own = record.lineage.own();
    tip(stretches, &|lineage| lineage.has(&own)).unwrap_or_else(|| record.lineage.clone())
}

fn of_another(stretch: &Stretch, beside: Option<&Stretch>) -> String {
    let of = |it: &Stretch| format!("{} on {}", it.source.path, it.source.host);
    match beside {
        Some(beside) if beside.source != stretch.source => format!(
            "is of another archive, of database {}, and object {} of {}",
            of(stretch),
            beside.number,
            of(beside)
        ),
        Some(beside) => {
            let number = beside.number;
            format!("is of another archive of database {} than object {number}", of(stretch))
        }
        None => format!("is of another archive, of database {}", of(stretch)),
    }
}
