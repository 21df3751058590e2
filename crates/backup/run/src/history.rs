//! Writing to the backup history. It is only informative: a failure to write is a warning.

use std::collections::BTreeSet;
use std::path::Path;

use tdekit_key_store::thumbprint;

use crate::archive::{Archive, Reading};
use crate::catalog::WRONG_STATE;
use crate::finding::{IN_USE, NEWER, NOT_COMPARED, SIGNATURE_GONE};
use crate::labels::{now_ms, user};
use crate::operator::{Notice, Operator};
use crate::place::{Place, is_missing, open, recorded};
use crate::target::MediaSource;
use crate::{
    Catalog, CatalogDevice, CatalogFilter, CatalogSet, CatalogStatement, CatalogUse, Check,
    CheckedKind, Finding, FindingReport, Media, RunError, SetInfo,
};

/// Records the sets of `media` at `positions`.
pub fn record(
    operator: &dyn Operator,
    media: &Media,
    devices: &[CatalogDevice],
    positions: &[u32],
) {
    let recorded = with_catalog(operator, |catalog| {
        for set in media.sets().iter().filter(|set| positions.contains(&set.position)) {
            catalog.record(&CatalogSet::of(set, &media.id(), devices))?;
        }
        Ok(())
    });
    warn(operator, recorded);
}

/// Returns the sets that the history knows of this media set, newer than all existing ones. Without
/// a history there are none.
///
/// # Errors
/// As `Catalog::open_existing`.
pub fn newer(operator: &dyn Operator, media: &Media) -> Result<Vec<CatalogSet>, RunError> {
    let Ok(dir) = operator.access().dir() else { return Ok(Vec::new()) };
    match Catalog::open_existing(&dir)? {
        Some(catalog) => catalog.newer_than(&media.id(), media.sets()),
        None => Ok(Vec::new()),
    }
}

/// Returns the sets of `media` that the history knows as signed, and that have no signature here:
/// its record was cut off, or cannot be read. Without a history there are none.
///
/// # Errors
/// As `Catalog::open_existing`.
pub fn unsigned_here(operator: &dyn Operator, media: &Media) -> Result<Vec<CatalogSet>, RunError> {
    let unsigned: BTreeSet<String> = media
        .sets()
        .iter()
        .filter(|set| set.signatures.is_empty() && set.log.is_none())
        .map(|set| hex::encode(set.set_id))
        .collect();
    let Ok(dir) = operator.access().dir() else { return Ok(Vec::new()) };
    let catalog = if unsigned.is_empty() { None } else { Catalog::open_existing(&dir)? };
    let Some(catalog) = catalog else { return Ok(Vec::new()) };
    let mut known = catalog.sets(&CatalogFilter::default())?;
    known.retain(|set| set.is_signed && unsigned.contains(&set.backup_set_uuid));
    Ok(known)
}

impl FindingReport {
    /// Returns all findings of a media set: of its files, and of the comparison with the history.
    #[must_use]
    pub fn all(operator: &dyn Operator, media: &Media) -> Vec<Self> {
        let mut findings: Vec<Self> = media.described_findings().collect();
        match newer(operator, media) {
            Ok(newer) => findings.extend(newer.iter().map(Self::newer)),
            Err(error) => findings.push(Self::not_compared(&error)),
        }
        // Of a history that cannot be read, that is said once.
        let unsigned = unsigned_here(operator, media).unwrap_or_default();
        findings.extend(unsigned.iter().map(Self::unsigned));
        findings
    }

    /// Describes a set that the history knows and that is newer than all sets in the media set.
    fn newer(set: &CatalogSet) -> Self {
        let CatalogSet { position, database_name, backup_finish_date, .. } = set;
        let message = format!(
            "the backup history knows set {position} of {database_name}, finished \
             {backup_finish_date}, and it is not here"
        );
        Self { kind: NEWER, message }
    }

    /// Describes a set that has lost its signature.
    fn unsigned(set: &CatalogSet) -> Self {
        let message = format!(
            "the backup history knows a signature on set {} of {}, and it is not here",
            set.position, set.database_name
        );
        Self { kind: SIGNATURE_GONE, message }
    }

    /// The history cannot be read: a set that was removed from the end cannot be detected.
    fn not_compared(error: &RunError) -> Self {
        let message = format!(
            "the backup history cannot be read, so nothing shows whether newer sets were removed: \
             {error}"
        );
        Self { kind: if error.is_busy() { IN_USE } else { NOT_COMPARED }, message }
    }
}

/// Returns what the history knows of other copies of this media set that went on from another
/// state: sets, signatures and certificates that this one does not have.
///
/// # Errors
/// As `Catalog::open_existing`.
pub fn other_states(operator: &dyn Operator, media: &Media) -> Result<Vec<String>, RunError> {
    let Ok(dir) = operator.access().dir() else { return Ok(Vec::new()) };
    let Some(catalog) = Catalog::open_existing(&dir)? else { return Ok(Vec::new()) };
    let uuid = hex::encode(media.id());
    let known = catalog.sets(&CatalogFilter::default())?.into_iter();
    let name = media.names().into_iter().next().unwrap_or_default();
    let mut differences = Vec::new();
    for known in known.filter(|known| known.media_uuid == uuid && known.prune_date.is_none()) {
        let CatalogSet { position, backup_finish_date, .. } = &known;
        let here = media.sets().iter().find(|it| hex::encode(it.set_id) == known.backup_set_uuid);
        let Some(here) = here else {
            differences.push(format!(
                "another copy of {name} has another set {position}, finished {backup_finish_date}"
            ));
            continue;
        };
        if known.is_signed && here.signatures.is_empty() {
            differences.push(format!("another copy of {name} has a signature on set {position}"));
        }
        let lacks = |sha256: &String| {
            here.recipients.iter().all(|it| thumbprint(&it.wrapped.sha256) != *sha256)
        };
        for more in known.encryptors.iter().filter(|it| lacks(&it.thumbprint_sha256)) {
            let certificate = &more.certificate_name;
            differences.push(format!(
                "set {position} of another copy of {name} opens with certificate {certificate} too"
            ));
        }
    }
    Ok(differences)
}

/// Returns the error of opening the media at `places`; that `prune` removed them, if that is why
/// they are missing.
#[must_use]
pub fn explain(operator: &dyn Operator, places: &[Place], error: RunError) -> RunError {
    if !is_missing(&error) {
        return error;
    }
    let pruned = places.iter().filter_map(|place| {
        let recorded = place.recorded()?;
        let catalog = Catalog::open_existing(&operator.access().dir().ok()?).ok()??;
        let at = catalog.pruned_at(&recorded.to_string_lossy()).ok()??;
        Some(RunError::Pruned { media: place.shown(), at })
    });
    pruned.last().unwrap_or(error)
}

/// Fails if an append would go on from an older state than the history knows, or cut off a set that
/// it knows as finished: bytes after the last whole record of `places` that look unfinished.
///
/// # Errors
/// `OlderState`, `CutsFinished`; `Emptied` if nothing is left of media that the history knows
/// there; those of opening a media set.
pub fn refuse_cut(operator: &dyn Operator, places: &[Place]) -> Result<(), RunError> {
    refuse_emptied(operator, places)?;
    let opened = match open(places) {
        Ok(opened) => opened,
        // The engine reports an empty file.
        Err(error) if is_missing(&error) || matches!(error, RunError::NotMedia { .. }) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let tail = opened.media.findings().iter().find_map(|finding| match finding {
        Finding::UnfinishedTail { media, .. } => Some(media.clone()),
        _ => None,
    });
    let known = newer(operator, &opened.media).unwrap_or_else(|error| {
        operator.tell(&Notice::NotCompared { error: &error });
        Vec::new()
    });
    // One that is there, and cannot be read, is not lacking.
    let hides = opened.media.findings().iter().any(Finding::hides_set);
    let lacks =
        |known: &&CatalogSet| tail.is_some() || !hides || known.position > opened.media.last();
    let Some(known) = known.iter().rev().find(lacks) else { return Ok(()) };
    let (position, finished) = (known.position, known.backup_finish_date.clone());
    Err(match (tail, places.first()) {
        (Some(media), _) => RunError::CutsFinished { media, position, finished },
        (None, place) => {
            let media = place.map(Place::shown).unwrap_or_default();
            RunError::OlderState { media, position, finished }
        }
    })
}

/// Fails if one of `places` is empty and the history knows sets there: media were lost. Any other
/// empty file is taken for a new media set.
///
/// # Errors
/// `Emptied`.
pub fn refuse_emptied(operator: &dyn Operator, places: &[Place]) -> Result<(), RunError> {
    places.iter().try_for_each(|place| refuse_emptied_at(operator, place))
}

fn refuse_emptied_at(operator: &dyn Operator, place: &Place) -> Result<(), RunError> {
    let is_empty =
        |source: &dyn MediaSource| source.parts() == 1 && matches!(source.part_len(0), Ok(0));
    if *place == Place::Standard || !place.source().is_ok_and(|source| is_empty(&*source)) {
        return Ok(());
    }
    let known = || match operator.access().dir() {
        Ok(dir) => match Catalog::open_existing(&dir)? {
            Some(catalog) => catalog.sets_at(&recorded(std::slice::from_ref(place))),
            None => Ok(Vec::new()),
        },
        Err(_) => Ok(Vec::new()),
    };
    match known() {
        Ok(known) if known.is_empty() => Ok(()),
        Ok(known) => Err(RunError::Emptied { media: place.shown(), sets: known.len() }),
        Err(error) => {
            operator.tell(&Notice::NotCompared { error: &error });
            Ok(())
        }
    }
}

/// Records that the set at `position` was used.
pub fn record_use(
    operator: &dyn Operator,
    media: &Media,
    position: u32,
    done: CatalogUse,
    destination: Option<&Path>,
) {
    let recorded = with_catalog(operator, |catalog| {
        let set = CatalogSet::of(media.set(Some(position))?, &media.id(), &[]);
        let destination = destination.map(|path| path.to_string_lossy().into_owned());
        let uuid = &set.backup_set_uuid;
        catalog.record_use(uuid, done, destination.as_deref(), &user(), now_ms())
    });
    warn(operator, recorded);
}

/// Records that a statement of T-SQL restored the database at `destination` from a set.
pub fn record_statement(
    operator: &dyn Operator,
    set: &SetInfo,
    statement: &CatalogStatement,
    destination: &Path,
) {
    let recorded = with_catalog(operator, |catalog| {
        let destination = destination.to_string_lossy();
        let by = (&*destination, &*user(), now_ms());
        catalog.record_statement(&hex::encode(set.set_id), statement, by)
    });
    warn(operator, recorded);
}

/// Records that sets, on whatever media, were verified and are whole.
pub fn record_verified(operator: &dyn Operator, sets: &[&SetInfo]) {
    if !sets.is_empty() {
        note_verified(operator, sets, None);
    }
}

/// Records that a set was restored on trial in `scratch`, whole, and its media set.
pub fn record_trial(
    operator: &dyn Operator,
    (media, devices): (&Media, &[CatalogDevice]),
    set: &SetInfo,
    scratch: &Path,
) {
    record(operator, media, devices, &[set.position]);
    note_verified(operator, &[set], Some(scratch));
}

fn note_verified(operator: &dyn Operator, sets: &[&SetInfo], destination: Option<&Path>) {
    let recorded = with_catalog(operator, |catalog| {
        let (user, at_ms) = (user(), now_ms());
        let destination = destination.map(|path| path.to_string_lossy().into_owned());
        for set in sets {
            let subject = &hex::encode(set.set_id);
            let destination = destination.as_deref();
            catalog.record_use(subject, CatalogUse::Verified, destination, &user, at_ms)?;
            let kind = CheckedKind::Backup;
            let check = Check { kind, subject, findings: 0, facts: None, user: &user, at_ms };
            catalog.record_check(&check)?;
        }
        Ok(())
    });
    warn(operator, recorded);
}

/// Records a check: the number of its findings, and its statistics, as JSON.
pub fn record_check(
    operator: &dyn Operator,
    kind: CheckedKind,
    subject: &str,
    findings: u64,
    facts: Option<&str>,
) {
    let recorded = with_catalog(operator, |catalog| {
        let (user, at_ms) = (user(), now_ms());
        catalog.record_check(&Check { kind, subject, findings, facts, user: &user, at_ms })
    });
    warn(operator, recorded);
}

/// Records what reading the sets of an archive found: of each full set, of each set that is not
/// whole, and of those that were not.
pub fn record_readings(operator: &dyn Operator, readings: &[Reading]) {
    let recorded = with_catalog(operator, |catalog| {
        let (user, at_ms) = (user(), now_ms());
        let known = catalog.last_readings()?;
        let checks = catalog.last_checks(CheckedKind::Backup)?;
        let is_wrong = |subject: &String| {
            checks.get(subject).is_some_and(|last| last.facts.as_deref() == Some(WRONG_STATE))
        };
        for Reading { set_id, is_full, is_whole, .. } in readings {
            let subject = &hex::encode(set_id);
            let findings = u64::from(!is_whole);
            if *is_whole {
                catalog.end_beside_fault(subject)?;
            }
            if *is_whole && is_wrong(subject) {
                continue;
            }
            // Also one that was not there when it was to be read.
            let is_marked = checks.get(subject).is_some_and(|last| last.findings > 0);
            if *is_full || !is_whole || is_marked || known.get(subject) == Some(&false) {
                let kind = CheckedKind::Backup;
                let check = Check { kind, subject, findings, facts: None, user: &user, at_ms };
                catalog.record_check(&check)?;
            }
        }
        Ok(())
    });
    warn(operator, recorded);
}

/// Returns true if the history has removals by `prune` of objects of an archive that were begun,
/// and that have not ended.
#[must_use]
pub fn is_pruning(operator: &dyn Operator, archive: &Archive) -> bool {
    let begun = || {
        let catalog = Catalog::open_existing(&operator.access().dir().ok()?).ok()??;
        catalog.begun_pruning().ok()
    };
    let begun = begun().unwrap_or_default();
    let all = archive.recorded_objects();
    begun.iter().any(|doomed| all.contains(&doomed.device))
}

/// Returns the objects that are left of chains of an archive whose removal `prune` began, according
/// to the history: they count as gone.
#[must_use]
pub fn left_by_prune(operator: &dyn Operator, archive: &Archive) -> BTreeSet<u64> {
    let left = || {
        let catalog = Catalog::open_existing(&operator.access().dir().ok()?).ok()??;
        archive.left_by_prune(&catalog.unfinished_removals().ok()?).ok()
    };
    left().unwrap_or_default()
}

/// Records the set of an object: a log set is not in the history unless something is to be said of
/// it. Returns its id; `None` if the object cannot be read.
pub fn record_object(operator: &dyn Operator, archive: &Archive, number: u64) -> Option<[u8; 16]> {
    let place = archive.place_of(number);
    let opened = open(std::slice::from_ref(&place)).ok()?;
    let set = opened.media.set(None).ok()?;
    record(operator, &opened.media, &opened.devices, &[set.position]);
    Some(set.set_id)
}

/// Records that a chain of an archive, whose last object has this number, cannot be restored: a
/// page does not follow its state before.
pub fn record_wrong_state(operator: &dyn Operator, archive: &Archive, last: u64) {
    let Some(set_id) = record_object(operator, archive, last) else { return };
    let recorded = with_catalog(operator, |catalog| {
        let (user, at_ms, subject) = (user(), now_ms(), &hex::encode(set_id));
        let (kind, facts) = (CheckedKind::Backup, Some(WRONG_STATE));
        catalog.record_check(&Check { kind, subject, findings: 1, facts, user: &user, at_ms })
    });
    warn(operator, recorded);
}

pub(crate) fn with_catalog(
    operator: &dyn Operator,
    work: impl FnOnce(&mut Catalog) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let dir = operator.access().kept_dir()?;
    work(&mut Catalog::open(&dir)?)
}

pub(crate) fn warn(operator: &dyn Operator, recorded: Result<(), RunError>) {
    if let Err(error) = recorded {
        operator.tell(&Notice::NotRecorded { error: &error });
    }
}
