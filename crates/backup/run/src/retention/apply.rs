//! Removing media sets so that a crash leaves nothing half done.
//!
//! The history names each place before the first file goes. Until then nothing has happened; from
//! then on, the next run looks at each named place: if all of a media set is there, its removal had
//! not begun, and it is judged anew; if some of it is gone, the rest goes, too. A chain of an
//! archive counts as one media set for that: what is left of it goes, whatever the rules are now.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tdekit_sqlite_convert::{Watch, go_on};

use super::begun::{Progress, begun_chains};
use super::{Candidate, Fate, MediaFate};
use crate::catalog::Doomed;
use crate::discover::Root;
use crate::found::{Expected, State};
use crate::labels::{now_ms, user};
use crate::operator::Notice;
use crate::remove::{place_of, remove, state};
use crate::{Catalog, Operator, RunError};

/// Finishes the removals at `root` that an earlier run began. A dry run only returns them.
pub(super) fn finish(
    operator: &dyn Operator,
    catalog: &mut Catalog,
    root: &Root,
    dry_run: bool,
) -> Result<Vec<MediaFate>, RunError> {
    let mut begun: BTreeMap<String, Vec<Doomed>> = BTreeMap::new();
    for doomed in catalog.begun_pruning()? {
        if root.contains(&doomed.device) {
            begun.entry(doomed.media_uuid.clone()).or_default().push(doomed);
        }
    }
    let chains = begun_chains(catalog, root)?;
    // The objects of a chain go from the last one back.
    let mut begun: Vec<(String, Vec<Doomed>)> = begun.into_iter().collect();
    begun.sort_by_cached_key(|(_, doomed)| Reverse(doomed.first().map(|it| it.device.clone())));
    let (mut finished, mut stopped) = (Vec::new(), BTreeSet::new());
    for (media_uuid, doomed) in begun {
        let chain = doomed.iter().find_map(|each| chains.get(&each.device).copied());
        let states = doomed
            .iter()
            .map(|each| state(&place_of(&each.device), &expected(each)?))
            .collect::<Result<Vec<_>, _>>()?;
        // A set was added to what was left of it: it is judged anew, as if nothing is gone.
        let grown = states.contains(&State::Grown);
        if grown || (chain.is_none() && !states.iter().any(|it| it.lacks())) {
            if !dry_run {
                forget_begun(catalog, &media_uuid, doomed.iter().zip(&states))?;
            }
            continue;
        }
        let mut media = MediaFate {
            media_uuid,
            places: doomed.iter().map(|each| each.device.clone()).collect(),
            bytes: doomed.iter().map(|each| each.bytes).sum(),
            fate: Fate::Finish,
            removed: false,
            error: None,
            findings: Vec::new(),
            sets: Vec::new(),
        };
        if !dry_run && chain.is_none_or(|chain| !stopped.contains(&chain)) {
            let left = doomed.iter().zip(&states).filter(|(_, it)| **it != State::Foreign);
            let left: Vec<Doomed> = left.map(|(each, _)| each.clone()).collect();
            carry_out(operator, catalog, &mut media, (&left, chain.is_some()))?;
            stopped.extend(chain.filter(|_| !media.removed));
        }
        finished.push(media);
    }
    Ok(finished)
}

/// Removes all media sets whose fate that is.
pub(super) fn remove_all(
    operator: &dyn Operator,
    catalog: &mut Catalog,
    media: &mut [Candidate],
    watch: &dyn Watch,
) -> Result<(), RunError> {
    let going = |media: &&Candidate| media.fate.fate == Fate::Remove;
    let doomed: Vec<Doomed> =
        media.iter().filter(going).flat_map(|media| media.doomed.clone()).collect();
    if doomed.is_empty() {
        return Ok(());
    }
    // The history has what it says was removed, also if another machine made it.
    for row in media.iter().filter(going).flat_map(|media| &media.rows) {
        catalog.record(row)?;
    }
    catalog.begin_pruning(&doomed, (&user(), now_ms()))?;
    let mut progress = Progress::default();
    for media in media.iter_mut().filter(|media| media.fate.fate == Fate::Remove) {
        let chain = media.chain();
        if progress.is_stopped(chain) {
            // Of a chain of which nothing went, all is as before.
            for each in media.doomed.iter().filter(|_| !progress.has_begun(chain)) {
                catalog.drop_pruning(&each.media_uuid, &each.device)?;
            }
            continue;
        }
        if let Err(stopped) = go_on(watch) {
            media.fate.error = Some(stopped.into());
            continue;
        }
        let doomed = (media.doomed.as_slice(), progress.has_begun(chain));
        carry_out(operator, catalog, &mut media.fate, doomed)?;
        progress.note(chain, media.fate.removed);
    }
    Ok(())
}

/// Removes a media set from all its places, and records it. A failure to remove is in `media`; of
/// one whose chain `is_begun`, the record stays that it goes.
fn carry_out(
    operator: &dyn Operator,
    catalog: &mut Catalog,
    media: &mut MediaFate,
    (doomed, is_begun): (&[Doomed], bool),
) -> Result<(), RunError> {
    for each in doomed {
        if let Err(error) = remove(&place_of(&each.device), &expected(each)?) {
            media.error = Some(error);
            let states = doomed
                .iter()
                .map(|each| state(&place_of(&each.device), &expected(each)?))
                .collect::<Result<Vec<_>, _>>();
            // Nothing of it is gone: it is as before.
            if !is_begun
                && let Ok(states) = states
                && !states.iter().any(|it| it.lacks())
            {
                forget_begun(catalog, &media.media_uuid, doomed.iter().zip(&states))?;
            }
            return Ok(());
        }
    }
    forget_uses(operator, catalog, media)?;
    catalog.end_pruning(&media.media_uuid, &media.places, now_ms())?;
    media.removed = true;
    Ok(())
}

/// Withdraws the records of a removal; places where nothing is left stay recorded as removed.
fn forget_begun<'a>(
    catalog: &mut Catalog,
    media_uuid: &str,
    doomed: impl Iterator<Item = (&'a Doomed, &'a State)>,
) -> Result<(), RunError> {
    for (each, state) in doomed {
        match state {
            State::Gone | State::Foreign => {
                catalog.end_pruning(media_uuid, std::slice::from_ref(&each.device), now_ms())?;
            }
            State::Whole | State::Begun | State::Grown => {
                catalog.drop_pruning(media_uuid, &each.device)?;
            }
        }
    }
    Ok(())
}

/// Takes removed media off the key store's list of what needs its certificates.
fn forget_uses(
    operator: &dyn Operator,
    catalog: &Catalog,
    media: &MediaFate,
) -> Result<(), RunError> {
    let Ok(store) = operator.open_store() else { return Ok(()) };
    let media_id = id_of(&media.media_uuid)?;
    for thumbprint in catalog.encryptors_of(&media.media_uuid)? {
        let mut sha256 = [0; 32];
        let digits = thumbprint.trim_start_matches("0x");
        if hex::decode_to_slice(digits, &mut sha256).is_err() {
            continue;
        }
        for place in &media.places {
            if let Err(error) = store.forget_use(&sha256, media_id, Path::new(place)) {
                operator.tell(&Notice::NotForgotten { error: &error });
                return Ok(());
            }
        }
    }
    Ok(())
}

fn expected(doomed: &Doomed) -> Result<Expected, RunError> {
    let media_id = id_of(&doomed.media_uuid)?;
    Ok(Expected { media_id, parts: doomed.parts, bytes: doomed.bytes })
}

fn id_of(media_uuid: &str) -> Result<[u8; 16], RunError> {
    let mut media_id = [0; 16];
    hex::decode_to_slice(media_uuid, &mut media_id)
        .map_err(|_| RunError::Internal("the history has a media set without an identifier"))?;
    Ok(media_id)
}
