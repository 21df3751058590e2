//! Sets that stand on sets of other media: found among the media that are named, or where the
//! history knows them. A set names its base by its id and the digest of its trailer, so a place
//! that the history names wrongly gives an error and never another base.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tdekit_backup_media::clean_text;

use crate::media::base::{self, Wanted};
use crate::media::{Loss, LostBase};
use crate::names::{is_object_name, refuse_object};
use crate::needed::{fault_of, id_of, refuse_damaged};
use crate::operator::Operator;
use crate::place::{Opened, Place, is_missing, open};
use crate::remove::place_of;
use crate::{Catalog, CatalogSet, Media, OwnSets, Run, RunError};

/// Most media sets that one chain is looked for in.
const MOST: usize = 1000;

/// Opens one media set, or several of which the last one is meant and the others have what its sets
/// stand on. Those that are not named are taken from the history.
///
/// # Errors
/// As [`open`].
pub fn open_chain(operator: &dyn Operator, places: &[Place]) -> Result<Opened, RunError> {
    let mut opened = match open(places) {
        Err(error @ RunError::OtherMedia { .. }) => {
            let opened = open_several(places)?;
            if !opened.media.uses_others() && !opened.media.lacks_a_link() {
                return Err(error);
            }
            opened
        }
        opened => opened?,
    };
    attach(operator, &mut opened.media);
    Ok(opened)
}

fn open_several(places: &[Place]) -> Result<Opened, RunError> {
    let mut groups: Vec<([u8; 16], Vec<Place>)> = Vec::new();
    for place in places {
        let id = open(std::slice::from_ref(place))?.media.id();
        let at = groups.iter().position(|(other, _)| *other == id);
        let (_, mut group) = at.map_or((id, Vec::new()), |at| groups.remove(at));
        group.push(place.clone());
        groups.push((id, group));
    }
    let (_, last) = groups.pop().ok_or(RunError::Internal("media of no place"))?;
    let mut opened = open(&last)?;
    for (_, group) in groups {
        opened.media.add_other(open(&group)?.media);
    }
    Ok(opened)
}

/// Adds the media sets that the history knows to hold what sets of `media` stand on. A history that
/// cannot be read adds none: reading a set whose base is missing then gives the history's error.
pub fn attach(operator: &dyn Operator, media: &mut Media) {
    if let Err(error) = attach_known(operator, media) {
        media.note_unsearched(&error);
    }
}

fn attach_known(operator: &dyn Operator, media: &mut Media) -> Result<(), RunError> {
    if media.missing_base(&BTreeSet::new()).is_some() {
        attach_among(&known_sets(operator)?, media);
    }
    Ok(())
}

/// As [`attach`], for the sets of the history.
pub(crate) fn attach_among(known: &[CatalogSet], media: &mut Media) {
    let mut tried = BTreeSet::new();
    while let Some(missing) = media.missing_base(&tried).filter(|_| tried.len() < MOST) {
        tried.insert(missing);
        let uuid = hex::encode(missing);
        let Some(found) = known.iter().find(|set| set.backup_set_uuid == uuid) else { continue };
        let (why, reason) = match open_known(found) {
            Ok(other) => {
                let (is_sound, id) = (other.findings().is_empty(), other.id());
                let name = other.names().into_iter().next().unwrap_or_default();
                media.add_other(other);
                let mut others = media.all().filter(|media| media.id() == id);
                if others.any(|media| media.sets().iter().any(|set| set.set_id == missing)) {
                    continue;
                }
                // An older state, or a record that cannot be read.
                let position = found.position;
                match is_sound {
                    true => (Loss::Absent, format!("{name} has no set {position}")),
                    false => (Loss::Damaged, format!("set {position} of {name} is damaged")),
                }
            }
            Err(error) => (loss_of(&error), error.to_string()),
        };
        media.note_lost(LostBase { set_id: missing, why, reason });
    }
}

/// Of something else in the place of media, nothing was read that is damaged.
fn loss_of(error: &RunError) -> Loss {
    let is_absent = matches!(error, RunError::NotMedia { .. } | RunError::NoBase { .. });
    match error {
        _ if is_missing(error) || is_absent => Loss::Absent,
        _ if error.is_damage() => Loss::Damaged,
        _ => Loss::OutOfReach,
    }
}

/// Returns media sets beside `places` for a differential set or a log backup of a database: those
/// that hold what the sets there stand on, or where nothing there is a base, those with the newest
/// base that the history knows.
///
/// # Errors
/// Errors of opening `places`; those of a history without which no base is found; `NoBase` if the
/// newest base cannot be read, or it or what it stands on is damaged.
pub fn bases_for(
    operator: &dyn Operator,
    places: &[Place],
    subject: Subject<'_>,
    log: bool,
) -> Result<Vec<Media>, RunError> {
    bases_read(operator, places, subject, (log, &Run::default()))
}

/// A database.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its name.
    pub name: &'a str,
    /// Its file id, if it is encrypted.
    pub database_id: Option<[u8; 16]>,
    /// When it was made, if that is known: see [`crate::BackupJob::made_ms`].
    pub made_ms: Option<i64>,
    /// The sets of its own, if they are known: see [`crate::BackupJob::own`].
    pub own: Option<&'a OwnSets>,
}

/// As [`bases_for`], where `run` controls the reading of the base.
///
/// # Errors
/// As there, and `Cancelled`.
pub fn bases_read(
    operator: &dyn Operator,
    places: &[Place],
    subject: Subject<'_>,
    (log, run): (bool, &Run<'_>),
) -> Result<Vec<Media>, RunError> {
    refuse_object(places.iter().map(Place::shown).find(|name| is_object_name(name)))?;
    let (shown, name) = (clean_text(&subject.path.to_string_lossy()), clean_text(subject.name));
    let (database_id, made_ms) = (subject.database_id.unwrap_or_default(), subject.made_ms);
    let (path, own) = (Some(shown.as_str()), subject.own);
    let wanted = Wanted { name: &name, database_id: &database_id, path, made_ms, own };
    match open(places) {
        Ok(Opened { mut media, .. }) => {
            let searched = attach_known(operator, &mut media);
            if let Some(found) = base::candidate(&media, wanted, log) {
                let is_whole = media.with_base(found).next().is_some_and(|it| it.base.is_none());
                if !is_whole {
                    searched?;
                }
                refuse_damaged(operator, &media, found, run)?;
                return Ok(media.into_others());
            }
        }
        // The engine reports an empty file.
        Err(error) if is_missing(&error) || matches!(error, RunError::NotMedia { .. }) => {}
        Err(error) => return Err(error),
    }
    let is_base = |set: &&CatalogSet| {
        (set.kind == "D" || log && set.kind == "L")
            && !set.is_copy_only
            && !set.is_stream
            && match own {
                Some(own) => own.has_uuid(&set.backup_set_uuid),
                None => set.database_name == name && set.database_path == shown,
            }
    };
    let mut passed_over = None;
    let known = known_sets(operator)?;
    for newest in known.iter().rev().filter(is_base) {
        match known_base(operator, newest, wanted, (log, run))? {
            Ok(media) => return Ok(media),
            // The newest one of an archive: older ones lie beside it.
            Err(reason) => passed_over = passed_over.or(Some(reason)),
        }
    }
    let by_another_name = || {
        let of_file = |set: &&CatalogSet| !set.is_stream && set.database_path == shown;
        let found = known.iter().rev().filter(of_file).find(|set| set.database_name != name)?;
        Some(base::by_another_name(&found.database_name))
    };
    match passed_over.or_else(by_another_name) {
        Some(reason) => Err(RunError::NoBase { reason }),
        None => Ok(Vec::new()),
    }
}

/// Returns the media set of a set that the history knows, and those that it stands on; the reason
/// if it is the full set of an archive, on which no other set stands.
fn known_base(
    operator: &dyn Operator,
    newest: &CatalogSet,
    wanted: Wanted<'_>,
    (log, run): (bool, &Run<'_>),
) -> Result<Result<Vec<Media>, String>, RunError> {
    let position = newest.position;
    let mut names = newest.devices.iter().map(|device| device.physical_device_name.as_str());
    if let Some(object) = names.find(|name| is_object_name(name)) {
        return Ok(Err(base::of_archive(position, object)));
    }
    let mut found = open_known(newest).map_err(|error| {
        let uuid = &newest.media_uuid;
        let reason = format!("the newest one, set {position} of media set {uuid}: {error}");
        RunError::NoBase { reason }
    })?;
    attach_known(operator, &mut found)?;
    match base::candidate(&found, wanted, log) {
        Some(base) => refuse_damaged(operator, &found, base, run)?,
        None => {
            let mut sets = found.sets().iter();
            let own = sets.find(|set| hex::encode(set.set_id) == newest.backup_set_uuid);
            if own.is_some_and(|set| set.damage.is_none() && set.is_of_archive()) {
                let name = found.names().into_iter().next().unwrap_or_default();
                return Ok(Err(base::of_archive(position, &name)));
            }
            if let Some(fault) = fault_of(&found) {
                let reason = format!("the newest one, set {position}: {fault}");
                return Err(RunError::NoBase { reason });
            }
        }
    }
    let mut others = found.take_others();
    others.insert(0, found);
    Ok(Ok(others))
}

/// Adds the media set that the history knows to hold this set, if it is in none yet.
pub fn attach_set(operator: &dyn Operator, media: &mut Media, set_id: [u8; 16]) {
    if media.all().flat_map(Media::sets).any(|set| set.set_id == set_id) {
        return;
    }
    let known = known_sets(operator).unwrap_or_else(|error| {
        media.note_unsearched(&error);
        Vec::new()
    });
    let uuid = hex::encode(set_id);
    let found = known.iter().find(|set| set.backup_set_uuid == uuid);
    if let Some(other) = found.and_then(|set| open_known(set).ok()) {
        media.add_other(other);
        attach(operator, media);
    }
}

/// Returns the places of a media set in the history, whether or not its files exist. There are none
/// if the history cannot be read.
#[must_use]
pub fn places_of(operator: &dyn Operator, media_id: [u8; 16]) -> Vec<Place> {
    let (known, uuid) = (known_sets(operator).unwrap_or_default(), hex::encode(media_id));
    let mut sets = known.into_iter().filter(|set| set.media_uuid == uuid);
    let devices = sets.next().map_or_else(Vec::new, |set| set.devices);
    devices.iter().map(|device| place_of(&device.physical_device_name)).collect()
}

/// Returns the full set that a set of the history stands on, or is. `None` if the history does not
/// know all sets between them.
pub fn known_full(operator: &dyn Operator, set_id: [u8; 16]) -> Option<[u8; 16]> {
    let known = known_sets(operator).ok()?;
    let bases: BTreeMap<_, _> =
        known.iter().map(|set| (&set.backup_set_uuid, &set.differential_base_guid)).collect();
    let uuid = hex::encode(set_id);
    let mut at = &uuid;
    // Rows that somebody wrote may name each other in a circle.
    for _ in 0..=known.len() {
        match bases.get(at)? {
            Some(base) => at = base,
            None => return id_of(at),
        }
    }
    None
}

/// Returns all sets of the history; none without one.
pub(crate) fn known_sets(operator: &dyn Operator) -> Result<Vec<CatalogSet>, RunError> {
    let Ok(dir) = operator.access().dir() else { return Ok(Vec::new()) };
    let catalog = Catalog::open_existing(&dir)?;
    catalog.map_or_else(|| Ok(Vec::new()), |catalog| catalog.sets(&crate::CatalogFilter::default()))
}

/// Opens the media set of a set that the history knows, at those of its places where it is.
fn open_known(set: &CatalogSet) -> Result<Media, RunError> {
    let mut failure = None;
    let mut places = Vec::new();
    for device in &set.devices {
        let place = place_of(&device.physical_device_name);
        match open(std::slice::from_ref(&place)) {
            Ok(opened) if hex::encode(opened.media.id()) == set.media_uuid => places.push(place),
            Ok(_) => {}
            Err(error) if failure.is_none() || error.is_damage() => failure = Some(error),
            Err(_) => {}
        }
    }
    match places.is_empty() {
        false => Ok(open(&places)?.media),
        true => Err(failure.unwrap_or_else(|| {
            let reason = "it is at none of its places any more".to_owned();
            RunError::NoBase { reason }
        })),
    }
}
