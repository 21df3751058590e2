//! Sets that the history knows and that were not read: they keep what they stand on, until they are
//! known to be removed.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{Point, SetId};
use super::{Candidate, Fate, Pruned};
use crate::CatalogSet;
use crate::catalog::PrunedPlaces;
use crate::discover::{Discovered, Root};
use crate::names::is_object_name;
use crate::needed::{base_of, id_of, is_there, standing};
use crate::place::Place;
use crate::remove::{place_of, was_removed};

/// What the history knows, beside what was read.
pub(super) struct Known {
    /// The base of each set that has one.
    bases: BTreeMap<SetId, SetId>,
    /// All sets.
    sets: BTreeSet<SetId>,
    /// Bases of sets in other places.
    elsewhere: BTreeSet<SetId>,
    /// Bases of sets that could not be read.
    unread: BTreeSet<SetId>,
    /// What cannot be read, and of which nothing is known: it may stand on any set.
    unclear: Option<String>,
    /// Objects of archives for which that holds: they can only stand on the object before them.
    unclear_objects: Vec<String>,
}

impl Known {
    /// Compares the history with the media that were read at `root`. `pruned` has what could not be
    /// read, and what is not there.
    pub(super) fn of(
        all: &[CatalogSet],
        places: &PrunedPlaces,
        (root, found): (&Root, &Discovered),
        (pruned, media): (&Pruned, &[Candidate]),
    ) -> Self {
        let begun = pruned.media.iter().flat_map(|media| &media.places);
        let begun: BTreeSet<&str> = begun.map(String::as_str).collect();
        let mut read: BTreeMap<&str, &Candidate> = BTreeMap::new();
        for each in media {
            read.extend(each.fate.places.iter().map(|place| (place.as_str(), each)));
        }
        let is_gone = |set: &CatalogSet, device: &str| {
            let place = (set.media_uuid.clone(), device.to_owned());
            places.contains(&place) || begun.contains(device)
        };
        let is_unread = |set: &CatalogSet, device: &str| match read.get(device) {
            Some(media) if media.fate.media_uuid == set.media_uuid => !media.has(set),
            // Other media were written over it.
            Some(_) => false,
            None => match place_of(device) {
                Place::File(path) => !was_removed(&path),
                // The list of objects is complete.
                _ => {
                    let shown = device.to_owned();
                    found.others.contains(&shown) || !pruned.missing.contains(&shown)
                }
            },
        };
        let elsewhere = |set: &CatalogSet, device: &str| {
            !root.contains(device) && !is_gone(set, device) && is_there(device)
        };
        let unread = |set: &CatalogSet, device: &str| {
            root.contains(device) && !is_gone(set, device) && is_unread(set, device)
        };
        let bases = |stands: &dyn Fn(&CatalogSet, &str) -> bool| {
            standing(all, stands).map(|(base, _)| base).collect()
        };
        let devices = all.iter().flat_map(|set| {
            let devices = set.devices.iter().map(|device| device.physical_device_name.as_str());
            devices.filter(|device| !is_gone(set, device))
        });
        let devices: BTreeSet<&str> = devices.collect();
        let unread_of = |media: &Candidate| {
            let mut of = all.iter().filter(|set| set.media_uuid == media.fate.media_uuid);
            of.any(|set| !media.has(set))
        };
        let paths = pruned.unreadable.iter().map(|each| each.path.to_string_lossy().into_owned());
        let hides = media.iter().filter(|media| media.hides && !unread_of(media));
        let hides = hides.filter_map(|media| media.fate.places.first().cloned());
        let (unclear_objects, unclear): (Vec<_>, Vec<_>) = paths
            .into_iter()
            .filter(|path| !is_known(path, &devices))
            .chain(hides)
            .partition(|path| is_object_name(path));
        let based =
            all.iter().filter_map(|set| Some((id_of(&set.backup_set_uuid)?, base_of(set)?)));
        Self {
            bases: based.collect(),
            sets: all.iter().filter_map(|set| id_of(&set.backup_set_uuid)).collect(),
            elsewhere: bases(&elsewhere),
            unread: bases(&unread),
            unclear: unclear.into_iter().next(),
            unclear_objects,
        }
    }

    /// Keeps media sets with sets that are needed in other places, by a set that could not be read,
    /// or by one that stays, whether or not a rule keeps it. A chain in `torn` stays as a whole, as
    /// does one of which a log set stays.
    pub(super) fn keep_needed(&self, all: &mut [Candidate], torn: &BTreeSet<SetId>) {
        let here: BTreeSet<SetId> =
            all.iter().flat_map(|media| &media.points).map(|point| point.set).collect();
        let mut bases = self.bases.clone();
        for point in all.iter().flat_map(|media| &media.points) {
            bases.extend(point.needs.iter().map(|base| (point.set, *base)));
        }
        let chain = |from: &BTreeSet<SetId>| {
            let mut chain = from.clone();
            let mut next: Vec<SetId> = from.iter().copied().collect();
            while let Some(base) = next.pop().and_then(|set| bases.get(&set).copied()) {
                if chain.insert(base) {
                    next.push(base);
                }
            }
            chain
        };
        let (elsewhere, unread) = (chain(&self.elsewhere), chain(&self.unread));
        let mut before: BTreeMap<SetId, &str> = BTreeMap::new();
        for object in &self.unclear_objects {
            let sets = before_object(object, all).map(|media| media.points.iter().map(|it| it.set));
            let sets = chain(&sets.into_iter().flatten().collect()).into_iter();
            before.extend(sets.map(|set| (set, object.as_str())));
        }
        let mut changed = true;
        while std::mem::take(&mut changed) {
            let kept = all.iter().filter(|media| media.fate.fate == Fate::Keep);
            let points = kept.flat_map(|media| &media.points);
            let staying = chain(&points.clone().flat_map(|point| point.needs.clone()).collect());
            let chains: BTreeSet<SetId> = points.clone().map(Point::begins).collect();
            // The rest of a chain that ends before its last log set would be damage.
            let logs = points.clone().filter(|point| point.is_log);
            let followed: BTreeSet<SetId> = logs.map(Point::begins).collect();
            // Log backups whose chain ends at a set of which nothing is known.
            let is_lost = |point: &&Point| {
                let chain = chain(&point.needs.iter().copied().collect());
                point.is_log_backup
                    && chain.iter().any(|set| !self.sets.contains(set) && !here.contains(set))
            };
            let lost: Vec<_> =
                points.filter(is_lost).map(|point| (point.database.clone(), point.at_ms)).collect();
            for media in all.iter_mut().filter(|media| media.fate.fate == Fate::Remove) {
                for (point, set) in media.points.iter().zip(&mut media.fate.sets) {
                    let is_before = |(of, at_ms): &(Option<String>, i64)| {
                        *of == point.database && point.at_ms <= *at_ms
                    };
                    let may_be_base = point.is_base && lost.iter().any(is_before);
                    let why = if elsewhere.contains(&point.set) {
                        "needed by a set in another place".to_owned()
                    } else if unread.contains(&point.set) {
                        "needed by a set that cannot be read".to_owned()
                    } else if let Some(object) = before.get(&point.set) {
                        format!("may be needed by {object}, which cannot be read")
                    } else if staying.contains(&point.set) {
                        "needed by a set that stays".to_owned()
                    } else if followed.contains(&point.begins())
                        || (torn.contains(&point.begins()) && chains.contains(&point.begins()))
                    {
                        "of a chain that stays".to_owned()
                    } else if may_be_base {
                        "may be needed by a log backup whose chain is not known".to_owned()
                    } else if let Some(unclear) = self.unclear.as_ref().filter(|_| point.is_base) {
                        format!("may be needed by {unclear}, which cannot be read")
                    } else {
                        continue;
                    };
                    set.keep.push(why);
                    (media.fate.fate, changed) = (Fate::Keep, true);
                }
            }
        }
    }
}

/// Returns the last object before one of the same archive, among those that were read.
fn before_object<'a>(object: &str, all: &'a [Candidate]) -> Option<&'a Candidate> {
    let (archive, name) = object.rsplit_once('/')?;
    let places = all.iter().filter_map(|media| Some((media.fate.places.first()?, media)));
    let before = places.filter_map(|(place, media)| {
        let (of, other) = place.rsplit_once('/')?;
        (of == archive && is_object_name(other) && other < name && !media.points.is_empty())
            .then_some((other, media))
    });
    before.max_by_key(|(other, _)| *other).map(|(_, media)| media)
}

impl Candidate {
    fn has(&self, set: &CatalogSet) -> bool {
        self.fate.sets.iter().any(|own| own.backup_set_uuid == set.backup_set_uuid)
    }
}

/// Returns true if the history knows a media set at a path that cannot be read, or below it.
fn is_known(path: &str, devices: &BTreeSet<&str>) -> bool {
    let below = format!("{path}/");
    let mut from = devices.range(below.as_str()..);
    // A part of an object is named behind it.
    let part = path.rsplit_once('.').is_some_and(|(object, _)| devices.contains(object));
    devices.contains(path) || part || from.next().is_some_and(|next| next.starts_with(&below))
}
