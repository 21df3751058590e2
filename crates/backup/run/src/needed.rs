//! Media sets that others need, or that may hold sets that have not expired, before one is replaced
//! or appended to; and bases that are known to be damaged, before a set is made that stands on one.

use std::collections::{BTreeMap, BTreeSet};

use tdekit_backup_media::Id;

use crate::operator::{Notice, Operator};
use crate::place::{Place, is_missing, open, recorded};
use crate::remove::{place_of, was_removed};
use crate::{
    Catalog, CatalogFilter, CatalogSet, Finding, FindingReport, Media, Run, RunError, SetInfo,
};

/// Refuses to change a media set at `places` that holds a binary log: it stands alone there, and is
/// kept, as by `prune`. Places without a media set are not refused.
///
/// # Errors
/// `Needed`.
pub fn refuse_binary_log(places: &[Place]) -> Result<(), RunError> {
    for place in places {
        let Ok(opened) = open(std::slice::from_ref(place)) else { continue };
        if let Some(set) = opened.media.sets().iter().find(|set| set.is_binary_log()) {
            let reason = format!("it is the binary log {} of an archive", set.name);
            return Err(RunError::Needed { media: place.shown(), reason });
        }
    }
    Ok(())
}

/// Refuses to replace media at `places` of which a set has not expired, or of which a header cannot
/// be read: what cannot be read may not have expired. Of striped media all files are needed.
///
/// # Errors
/// `NotExpired`, `Unclear`; `NotMedia` for what is no media set; those of opening a media set.
pub fn refuse_unexpired(places: &[Place], now_ms: i64) -> Result<(), RunError> {
    // The stripes that none of the places has, of each media set.
    let mut lacking: BTreeMap<[u8; 16], (&Place, BTreeSet<u16>)> = BTreeMap::new();
    for place in places {
        let unclear = |reason| Err(RunError::Unclear { media: place.shown(), reason });
        let media = match open(std::slice::from_ref(place)) {
            Ok(opened) => opened.media,
            Err(error) if is_missing(&error) => continue,
            Err(error) if error.is_damage() => return unclear(error.to_string()),
            Err(error) => return Err(error),
        };
        let wanted = |expires_ms| expires_ms == 0 || expires_ms > now_ms;
        let sets = media.sets().iter().filter(|set| wanted(set.expires_ms)).count();
        if sets > 0 {
            return Err(RunError::NotExpired { media: place.shown(), sets });
        }
        if let Some(fault) = fault_of(&media) {
            return unclear(fault);
        }
        let missing = media.findings().iter().filter_map(|finding| match finding {
            Finding::MissingFamily { family, .. } => Some(*family),
            _ => None,
        });
        let missing: BTreeSet<u16> = missing.collect();
        let (_, all) = lacking.entry(media.id()).or_insert_with(|| (place, missing.clone()));
        all.retain(|family| missing.contains(family));
    }
    let first =
        lacking.into_values().find_map(|(place, all)| Some((place, all.into_iter().next()?)));
    let Some((place, family)) = first else { return Ok(()) };
    let reason = format!("file {} of this striped media set is missing", family + 1);
    Err(RunError::Unclear { media: place.shown(), reason })
}

/// Returns the first fault of a file of a media set: it may hide a set.
pub(crate) fn fault_of(media: &Media) -> Option<String> {
    // The other stripes have places of their own.
    let hides = |finding: &&Finding| !matches!(finding, Finding::MissingFamily { .. });
    let finding = media.findings().iter().find(hides).map(|it| FindingReport::of(it).message);
    finding.or_else(|| media.sets().iter().find_map(|set| set.damage.clone()))
}

/// Refuses to replace media sets at `places` on which sets stand that the history knows on other
/// media. Of what cannot be read there, the history says what it holds.
///
/// # Errors
/// `Needed`; errors of reading the history.
pub fn refuse_needed(operator: &dyn Operator, places: &[Place]) -> Result<(), RunError> {
    let found: Vec<(&Place, Result<Media, RunError>)> = places
        .iter()
        .filter(|place| **place != Place::Standard)
        .map(|place| (place, open(std::slice::from_ref(place)).map(|opened| opened.media)))
        .filter(|(_, media)| !media.as_ref().is_err_and(is_missing))
        .collect();
    let catalog = match operator.access().dir() {
        Ok(dir) if !found.is_empty() => Catalog::open_existing(&dir)?,
        _ => None,
    };
    let Some(catalog) = catalog else { return Ok(()) };
    let all = catalog.sets(&CatalogFilter::default())?;
    let here: BTreeSet<String> = recorded(places).into_iter().collect();
    let here = |device: &str| here.contains(device);
    let held: Vec<Held<'_>> =
        found.iter().map(|(place, media)| Held::of(place, media.as_ref().ok(), &all)).collect();
    for (base, by) in standing_elsewhere(&all, &here) {
        // A copy of the same media set has the base as well.
        let is_held = |one: &&Held<'_>| by.media_uuid != one.media_uuid && one.sets.contains(&base);
        let Some(one) = held.iter().find(is_held) else { continue };
        let mut elsewhere = by.devices.iter().map(|device| device.physical_device_name.as_str());
        let at = elsewhere.find(|device| !here(device)).unwrap_or_default();
        let reason = format!("set {} of {}, at {at}, stands on it", by.position, by.database_name);
        return Err(RunError::Needed { media: one.place.shown(), reason });
    }
    Ok(())
}

/// Returns the sets of the history that stand on another one and are somewhere that is not `here`,
/// as far as they were not removed from there, each behind its base.
fn standing_elsewhere<'a>(
    all: &'a [CatalogSet],
    here: &dyn Fn(&str) -> bool,
) -> impl Iterator<Item = (Id, &'a CatalogSet)> {
    standing(all, move |_, device| !here(device) && is_there(device))
}

/// Returns the sets of the history that stand on another one, each behind its base, as far as one
/// of their places counts for `stands`.
pub(crate) fn standing(
    all: &[CatalogSet],
    stands: impl Fn(&CatalogSet, &str) -> bool,
) -> impl Iterator<Item = (Id, &CatalogSet)> {
    let stands = move |set: &&CatalogSet| {
        let mut devices = set.devices.iter();
        set.prune_date.is_none() && devices.any(|device| stands(set, &device.physical_device_name))
    };
    all.iter().filter(stands).filter_map(|set| Some((base_of(set)?, set)))
}

/// Returns true if a place of the history may still hold what was written there.
pub(crate) fn is_there(device: &str) -> bool {
    match place_of(device) {
        Place::File(path) => !was_removed(&path),
        Place::Object(_) | Place::Standard => true,
    }
}

/// Returns the identifier of the set that a set of the history stands on.
pub(crate) fn base_of(set: &CatalogSet) -> Option<Id> {
    id_of(set.differential_base_guid.as_ref()?)
}

/// Returns the identifier that the history writes as text.
pub(crate) fn id_of(uuid: &str) -> Option<Id> {
    let mut id = Id::default();
    hex::decode_to_slice(uuid, &mut id).ok()?;
    Some(id)
}

/// The media set at a place, as far as it can be read, and otherwise as the history knows it.
struct Held<'a> {
    place: &'a Place,
    media_uuid: String,
    sets: BTreeSet<[u8; 16]>,
}

impl<'a> Held<'a> {
    fn of(place: &'a Place, media: Option<&Media>, all: &[CatalogSet]) -> Self {
        let at = recorded(std::slice::from_ref(place));
        let is_here = |set: &&CatalogSet| {
            let mut devices = set.devices.iter();
            devices.any(|device| at.contains(&device.physical_device_name))
        };
        let media_uuid = match media {
            Some(media) => hex::encode(media.id()),
            // The last one that was made there.
            None => {
                let mut there = all.iter().filter(|set| set.prune_date.is_none());
                let newest = there.rfind(is_here);
                newest.map(|set| set.media_uuid.clone()).unwrap_or_default()
            }
        };
        let mut sets: BTreeSet<[u8; 16]> =
            media.iter().flat_map(|media| media.sets()).map(|set| set.set_id).collect();
        if media.is_none_or(|media| fault_of(media).is_some()) {
            let known = all.iter().filter(|set| set.media_uuid == media_uuid).filter(is_here);
            sets.extend(known.filter_map(|set| id_of(&set.backup_set_uuid)));
        }
        Self { place, media_uuid, sets }
    }
}

/// Refuses to stand on a set of `media` if it, or one that it stands on, is damaged: by the
/// history, when it was last read, or by its checksums, which need no key. Objects are read so
/// only where the history cannot be read: nothing changes them in place.
pub(crate) fn refuse_damaged(
    operator: &dyn Operator,
    media: &Media,
    base: &SetInfo,
    run: &Run<'_>,
) -> Result<(), RunError> {
    let known = damaged_sets(operator);
    if let Err(error) = &known {
        operator.tell(&Notice::NotCompared { error });
    }
    let damage_of = |set: &SetInfo| -> Result<Option<String>, RunError> {
        if known.as_ref().is_ok_and(|damaged| damaged.contains(&hex::encode(set.set_id))) {
            return Ok(Some("was damaged when it was last read".to_owned()));
        }
        let on_store = || media.media_of(set).names().iter().all(|name| is_object(name));
        if known.is_ok() && on_store() {
            return Ok(None);
        }
        match media.check_set(set, run) {
            Ok(damage) => Ok(damage.map(|damage| format!("is damaged: {damage}"))),
            Err(error) if error.is_damage() => Ok(Some(format!("is damaged: {error}"))),
            Err(error) => Err(error),
        }
    };
    let first = media.with_base(base).next();
    if let Some((first, lacks)) = first.and_then(|first| Some((first, first.base?))) {
        let reason = match media.lost_base(lacks) {
            Some(lost) => {
                format!("what set {} stands on cannot be read: {}", first.position, lost.reason)
            }
            None => format!("the set that set {} stands on is not there", first.position),
        };
        return Err(RunError::NoBase { reason });
    }
    for set in media.with_base(base) {
        let Some(damage) = damage_of(set)? else { continue };
        let of = media.media_of(set).names().into_iter().next().unwrap_or_default();
        let reason = format!("set {} of {of} {damage}", set.position);
        return Err(RunError::NoBase { reason });
    }
    Ok(())
}

fn is_object(name: &str) -> bool {
    matches!(Place::of(name.as_ref()), Place::Object(_))
}

/// Returns the identifiers of the sets that were damaged when they were last read.
///
/// # Errors
/// Errors of reading the history.
pub fn damaged_sets(operator: &dyn Operator) -> Result<BTreeSet<String>, RunError> {
    let Ok(dir) = operator.access().dir() else { return Ok(BTreeSet::new()) };
    let Some(catalog) = Catalog::open_existing(&dir)? else { return Ok(BTreeSet::new()) };
    let readings = catalog.last_readings()?.into_iter();
    Ok(readings.filter(|(_, is_whole)| !is_whole).map(|(set, _)| set).collect())
}
