//! What readings of sets found, for the history: by set, so that damage counts wherever a set is
//! stood on, and ends when that set was read whole, through whichever set above it.

use std::collections::{BTreeMap, BTreeSet};

use tdekit_key_crypto::Kind;

use crate::archive::{Archive, ArchiveReport};
use crate::elsewhere::open_chain;
use crate::error::ArchiveError;
use crate::history::{self, unsigned_here, warn, with_catalog};
use crate::labels::{now_ms, user};
use crate::media::Loss;
use crate::needed::fault_of;
use crate::operator::Operator;
use crate::place::{Opened, Place, is_missing, open, recorded};
use crate::{Catalog, Check, CheckedKind, Finding, Media, RunError, SetInfo};

/// Result of reading a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Whole,
    Damaged,
    /// It, or a set that it stands on, was not there.
    Absent,
}

/// Records the sets that readers of `media` found damaged so far, also those of other media, and
/// the bases that were not found where the history has them.
pub fn record_met(operator: &dyn Operator, media: &Media) {
    write(operator, &met(media));
}

fn met(media: &Media) -> Vec<(String, Found)> {
    let damaged = media.damaged().into_iter().map(|set| (hex::encode(set), Found::Damaged));
    let lost = media.all().flat_map(Media::lost).filter_map(|lost| {
        let found = match lost.why {
            Loss::Absent => Found::Absent,
            Loss::Damaged => Found::Damaged,
            Loss::OutOfReach => return None,
        };
        Some((hex::encode(lost.set_id), found))
    });
    damaged.chain(lost).collect()
}

/// Records that a set of `media` could not be restored, and why: which of the sets that it stands
/// on are damaged, or not there. A set that only lacks another one is not damaged. Returns the
/// damaged ones.
pub fn record_unrestored(operator: &dyn Operator, media: &Media, set: &SetInfo) -> Vec<String> {
    let mut found = met(media);
    let of = media.media_of(set);
    let lacks = of.findings().is_empty() && media.lacks_base(set);
    match lacks && !media.damaged().contains(&set.set_id) {
        false => found.push((hex::encode(set.set_id), Found::Damaged)),
        true if is_out_of_reach(media) => {}
        true => found.push((hex::encode(set.set_id), Found::Absent)),
    }
    write(operator, &found);
    found.retain(|(_, found)| *found == Found::Damaged);
    found.into_iter().map(|(set, _)| set).collect()
}

/// Returns true if a base may be where the history has it: that could not be looked at.
pub fn is_out_of_reach(media: &Media) -> bool {
    media.all().flat_map(Media::lost).any(|lost| lost.why == Loss::OutOfReach)
}

/// Records what a restore of `set` shows of others. Damage and absence of the sets which it stands
/// on end: they were read whole, all but those in which a reader met damage that a mirror made
/// good. Sets that were passed over are damaged.
pub fn record_restored(operator: &dyn Operator, media: &Media, set: &SetInfo) {
    let damaged = media.damaged();
    let chain: BTreeSet<_> = media.with_base(set).map(|each| each.set_id).collect();
    let passed = damaged.difference(&chain).map(|set| (hex::encode(set), Found::Damaged));
    write(operator, &passed.collect::<Vec<_>>());
    let bases = chain.iter().filter(|base| **base != set.set_id && !damaged.contains(*base));
    let whole: Vec<String> = bases.map(hex::encode).collect();
    if whole.is_empty() {
        return;
    }
    let recorded = with_catalog(operator, |catalog| {
        let known = catalog.last_checks(CheckedKind::Backup)?;
        let marked = |set: &String| known.get(set).is_some_and(|last| last.findings > 0);
        let ended = whole.into_iter().filter(marked).map(|set| (set, Found::Whole));
        write_to(catalog, &ended.collect::<Vec<_>>())
    });
    warn(operator, recorded);
}

/// Records that media sets could not be opened, or no set of them read: for each of `places` by
/// itself, whether what the history knows there is gone or damaged. Media without a fault are left
/// out.
pub fn record_unopened(operator: &dyn Operator, places: &[Place]) {
    let (mut gone, mut damaged) = (Vec::new(), Vec::new());
    for place in places {
        match open(std::slice::from_ref(place)) {
            Ok(opened) if fault_of(&opened.media).is_some() => damaged.push(place.clone()),
            // Of something else in their place, nothing was read that is damaged.
            Err(error) if is_missing(&error) || matches!(error, RunError::NotMedia { .. }) => {
                gone.push(place.clone());
            }
            Err(error) if error.is_damage() => damaged.push(place.clone()),
            Ok(_) | Err(_) => {}
        }
    }
    record_at(operator, &gone, (Found::Absent, &[]));
    record_at(operator, &damaged, (Found::Damaged, &[]));
}

/// Records that the media at `places` are damaged: for each set that the history knows there,
/// except those of `others`. Where all that is wrong is an unfinished tail, the sets before it are
/// not, as far as no reader found them damaged, and none has lost its signature.
pub fn record_damage(operator: &dyn Operator, places: &[Place], media: &Media, others: &[String]) {
    let is_tail = |finding: &Finding| matches!(finding, Finding::UnfinishedTail { .. });
    let mut others = others.to_vec();
    if media.findings().iter().all(is_tail) {
        let damaged = media.damaged();
        let unsigned = unsigned_here(operator, media).unwrap_or_default();
        let unsigned: BTreeSet<_> = unsigned.into_iter().map(|set| set.backup_set_uuid).collect();
        let sound = |set: &&SetInfo| {
            set.damage.is_none()
                && !damaged.contains(&set.set_id)
                && !unsigned.contains(&hex::encode(set.set_id))
        };
        others.extend(media.sets().iter().filter(sound).map(|set| hex::encode(set.set_id)));
    }
    record_at(operator, places, (Found::Damaged, &others));
}

/// Records what a restore of media at `places` showed: damage, and that what the set stands on was
/// read whole. `set` is the set, once it was chosen; `failure` the kind of the error that ended it.
pub fn record_restore(
    operator: &dyn Operator,
    (places, media): (&[Place], &Media),
    set: Option<&SetInfo>,
    failure: Option<Kind>,
) {
    match (failure, set) {
        (None, Some(set)) => record_restored(operator, media, set),
        (Some(Kind::Damaged), Some(set)) => {
            record_unrestored(operator, media, set);
        }
        (Some(Kind::Damaged), None) => {
            record_damage(operator, places, media, &[]);
            record_met(operator, media);
        }
        _ => {}
    }
}

/// Opens media sets as [`open_chain`], and records damage that prevents it.
///
/// # Errors
/// As there; `Pruned` if that is why they are missing.
pub fn open_recorded(operator: &dyn Operator, places: &[Place]) -> Result<Opened, RunError> {
    open_chain(operator, places).map_err(|error| {
        if error.kind() == Kind::Damaged {
            record_unopened(operator, places);
        }
        history::explain(operator, places, error)
    })
}

/// Records what reading all objects of an archive found: the sets that are whole, those that are
/// not, and what is wrong beside them.
pub fn record_archive(operator: &dyn Operator, archive: &Archive, report: &ArchiveReport) {
    for finding in report.findings.iter().filter(|finding| finding.is_of_reading) {
        // If it cannot be read any more, it is not whole either way.
        let _ = history::record_object(operator, archive, finding.number);
    }
    history::record_readings(operator, &report.readings);
    record_beside(operator, archive, &report.faults_beside());
}

/// Records that objects of an archive are wrong, as [`record_archive`] does: their sets, or that
/// they are missing or cannot be read.
pub fn record_objects(operator: &dyn Operator, archive: &Archive, numbers: &[u64]) {
    let sets = numbers.iter().map(|number| history::record_object(operator, archive, *number));
    let sets: Vec<_> = sets.collect();
    let damaged = sets.iter().flatten().map(|set| (hex::encode(set), Found::Damaged));
    write(operator, &damaged.collect::<Vec<_>>());
    let beside = numbers.iter().zip(&sets).filter(|(_, set)| set.is_none());
    record_beside(operator, archive, &beside.map(|(number, _)| *number).collect::<Vec<_>>());
}

/// Records that a restore from an archive failed by damage of the object that the error names.
pub fn record_object(operator: &dyn Operator, archive: &Archive, error: &RunError) {
    let object = match error {
        RunError::Damaged { media, .. }
        | RunError::Tampered { media, .. }
        | RunError::ShortRead { media, .. }
        | RunError::FutureVersion { media, .. } => media,
        RunError::Archive(
            ArchiveError::Misplaced { object, .. }
            | ArchiveError::MissingObject { object }
            | ArchiveError::LacksShipped { object, .. }
            | ArchiveError::Lost { object, .. }
            | ArchiveError::NothingGood { object, .. }
            | ArchiveError::WrongSignature { object },
        ) => object,
        _ => return,
    };
    let Some(number) = archive.number_of_object(object) else { return };
    match error {
        // it may be whole in its own place, or another database's
        RunError::Archive(ArchiveError::Misplaced { .. }) => {
            record_beside(operator, archive, &[number]);
        }
        _ => record_objects(operator, archive, &[number]),
    }
}

/// Records that objects are missing, or that their headers cannot be read: at their places, as far
/// as the history knows sets there, and by the nearest set before each of them, or behind it.
pub fn record_beside(operator: &dyn Operator, archive: &Archive, numbers: &[u64]) {
    let places: Vec<_> =
        numbers.iter().map(|number| Place::of(archive.object(*number).as_ref())).collect();
    record_unopened(operator, &places);
    let (mut nearest, mut known) = (BTreeSet::new(), BTreeMap::new());
    for number in numbers {
        let mut is_readable = |number: &u64| {
            let read = || archive.media(*number).is_ok_and(|media| media.only_info().is_ok());
            !numbers.contains(number)
                && !archive.is_foreign(*number)
                && *known.entry(*number).or_insert_with(read)
        };
        let objects = archive.objects();
        let mut before = objects.range(..number).rev().map(|(number, _)| *number);
        let mut behind = objects.range(number.saturating_add(1)..).map(|(number, _)| *number);
        nearest.extend(before.find(&mut is_readable).or_else(|| behind.find(&mut is_readable)));
    }
    let sets = nearest.into_iter();
    let sets: Vec<_> =
        sets.filter_map(|number| history::record_object(operator, archive, number)).collect();
    if sets.is_empty() {
        return;
    }
    let recorded = with_catalog(operator, |catalog| {
        let (user, at_ms) = (user(), now_ms());
        sets.iter().try_for_each(|set| catalog.record_beside_fault(&hex::encode(set), &user, at_ms))
    });
    warn(operator, recorded);
}

/// Records that sets were read, and that what they stand on was not there.
pub fn record_lacking(operator: &dyn Operator, sets: &[String]) {
    let found: Vec<_> = sets.iter().map(|set| (set.clone(), Found::Absent)).collect();
    write(operator, &found);
}

fn record_at(operator: &dyn Operator, places: &[Place], (found, others): (Found, &[String])) {
    let places = recorded(places);
    if places.is_empty() {
        return;
    }
    let recorded = with_catalog(operator, |catalog| {
        let all = catalog.sets_at(&places)?;
        let all = all.into_iter().filter(|set| !others.contains(set)).map(|set| (set, found));
        write_to(catalog, &all.collect::<Vec<_>>())
    });
    warn(operator, recorded);
}

fn write(operator: &dyn Operator, found: &[(String, Found)]) {
    if !found.is_empty() {
        warn(operator, with_catalog(operator, |catalog| write_to(catalog, found)));
    }
}

/// Writes each set once: damage comes before absence.
fn write_to(catalog: &mut Catalog, found: &[(String, Found)]) -> Result<(), RunError> {
    let (user, at_ms) = (user(), now_ms());
    let mut written = BTreeSet::new();
    for wanted in [Found::Damaged, Found::Absent, Found::Whole] {
        for (subject, _) in found.iter().filter(|(_, found)| *found == wanted) {
            if !written.insert(subject) {
                continue;
            }
            if wanted == Found::Absent {
                catalog.record_absent(subject, &user, at_ms)?;
                continue;
            }
            let findings = u64::from(wanted == Found::Damaged);
            let kind = CheckedKind::Backup;
            let check = Check { kind, subject, findings, facts: None, user: &user, at_ms };
            catalog.record_check(&check)?;
        }
    }
    Ok(())
}
