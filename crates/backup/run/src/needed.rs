//! Media sets that others need, before one is replaced or appended to; and bases that are known to
//! be damaged, before a set is made that stands on one.

use std::collections::BTreeSet;

use crate::operator::{Notice, Operator};
use crate::place::{Place, open};
use crate::retention::standing_elsewhere;
use crate::{Catalog, CatalogFilter, Media, RunError, SetInfo};

/// Refuses to change a media set at `places` that holds a binary log: it stands alone there, and is
/// kept, as by `prune`. Places without a media set are not refused.
///
/// # Errors
/// `Needed`.
pub fn refuse_binary_log(places: &[Place]) -> Result<(), RunError> {
    for media in media_at(places) {
        if let Some(set) = media.sets().iter().find(|set| set.is_binary_log()) {
            let reason = format!("it is the binary log {} of an archive", set.name);
            return Err(needed(&media, reason));
        }
    }
    Ok(())
}

/// Refuses to replace media sets at `places` on which sets stand that the history knows on other
/// media.
///
/// # Errors
/// `Needed`; errors of reading the history.
pub fn refuse_needed(operator: &dyn Operator, places: &[Place]) -> Result<(), RunError> {
    let media: Vec<Media> = media_at(places).collect();
    let catalog = match operator.access().dir() {
        Ok(dir) if !media.is_empty() => Catalog::open_existing(&dir)?,
        _ => None,
    };
    let Some(catalog) = catalog else { return Ok(()) };
    let all = catalog.sets(&CatalogFilter::default())?;
    let recorded = places.iter().filter_map(Place::recorded);
    let here: BTreeSet<String> = recorded.map(|path| path.to_string_lossy().into_owned()).collect();
    let here = |device: &str| here.contains(device);
    for (base, by) in standing_elsewhere(&all, &here) {
        let is_held = |one: &&Media| {
            // A copy of the same media set has the base as well.
            by.media_uuid != hex::encode(one.id()) && one.sets().iter().any(|it| it.set_id == base)
        };
        let Some(one) = media.iter().find(is_held) else { continue };
        let mut elsewhere = by.devices.iter().map(|device| device.physical_device_name.as_str());
        let at = elsewhere.find(|device| !here(device)).unwrap_or_default();
        let reason = format!("set {} of {}, at {at}, stands on it", by.position, by.database_name);
        return Err(needed(one, reason));
    }
    Ok(())
}

fn media_at(places: &[Place]) -> impl Iterator<Item = Media> {
    places.iter().filter_map(|place| Some(open(std::slice::from_ref(place)).ok()?.media))
}

fn needed(media: &Media, reason: String) -> RunError {
    RunError::Needed { media: media.names().into_iter().next().unwrap_or_default(), reason }
}

/// Refuses to stand on a set of `media` if it, or one that it stands on, was damaged when it was
/// last read.
pub(crate) fn refuse_damaged(
    operator: &dyn Operator,
    media: &Media,
    base: &SetInfo,
) -> Result<(), RunError> {
    let damaged = damaged_sets(operator).unwrap_or_else(|error| {
        operator.tell(&Notice::NotCompared { error: &error });
        BTreeSet::new()
    });
    match media.with_base(base).find(|set| damaged.contains(&hex::encode(set.set_id))) {
        Some(set) => {
            let of = media.media_of(set).names().into_iter().next().unwrap_or_default();
            let position = set.position;
            let reason = format!("set {position} of {of} was damaged when it was last read");
            Err(RunError::NoBase { reason })
        }
        None => Ok(()),
    }
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
