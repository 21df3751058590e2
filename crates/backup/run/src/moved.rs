//! Media sets that were moved. A scan finds one at a place where the history did not know it, and a
//! place where the history knew it does not have it any more.
//!
//! A copy is not a move: nothing is concluded where a place is out of reach, which may hold a copy,
//! and where more places lack the media set than it was found at anew.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::place::{Place, is_missing, open};
use crate::remove::{place_of, was_removed};
use crate::{Catalog, CatalogDevice, RunError};

/// State of a media set at a place that the history knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// It is there, or something is that cannot be read.
    There,
    /// It is not, and the place can be looked at.
    Left,
    /// It may be on a file system that is not mounted.
    OutOfReach,
}

/// Takes the places off the history that a media set was moved from; `known` are its places before
/// the scan, and `found` those at which it is now. Returns the ones that were taken off.
///
/// # Errors
/// `Database`.
pub(crate) fn forget_left(
    catalog: &mut Catalog,
    media_id: &[u8; 16],
    known: &[CatalogDevice],
    found: &[CatalogDevice],
) -> Result<Vec<String>, RunError> {
    let media_uuid = hex::encode(media_id);
    let pruned = catalog.pruned_places()?;
    let mut left = Vec::new();
    let families: BTreeSet<u32> = known.iter().map(|it| it.family_sequence_number).collect();
    for family in families {
        let is_own = |device: &&CatalogDevice| device.family_sequence_number == family;
        let new: Vec<&str> = names(found.iter().filter(is_own).filter(|it| !known.contains(it)));
        let others = known.iter().filter(is_own).filter(|it| !found.contains(it));
        let lacking: Vec<(&str, At)> = names(others)
            .into_iter()
            .filter(|name| !pruned.contains(&(media_uuid.clone(), (*name).to_owned())))
            .map(|name| (name, state(name, &media_uuid, &new)))
            .filter(|(_, state)| *state != At::There)
            .collect();
        if lacking.len() <= new.len() {
            let moved = lacking.into_iter().filter(|(_, state)| *state == At::Left);
            left.extend(moved.map(|(name, _)| name.to_owned()));
        }
    }
    for place in &left {
        catalog.forget_place(&media_uuid, place)?;
    }
    Ok(left)
}

fn names<'a>(devices: impl Iterator<Item = &'a CatalogDevice>) -> Vec<&'a str> {
    devices.map(|device| device.physical_device_name.as_str()).collect()
}

fn state(name: &str, media_uuid: &str, new: &[&str]) -> At {
    let place = place_of(name);
    match (open(std::slice::from_ref(&place)), &place) {
        (Ok(opened), _) if hex::encode(opened.media.id()) == media_uuid => At::There,
        // Another media set is there.
        (Ok(_), _) => At::Left,
        (Err(error), _) if !is_missing(&error) => At::There,
        (Err(_), Place::File(path)) => match was_removed(path) || was_renamed_above(path, new) {
            true => At::Left,
            false => At::OutOfReach,
        },
        // The store says so.
        (Err(_), _) => At::Left,
    }
}

/// Returns true if a directory above a file was renamed: what is left above it has one of the new
/// places below it, on the same file system. An unmounted disk's files are found on another one.
fn was_renamed_above(path: &Path, new: &[&str]) -> bool {
    let left = path.ancestors().skip(1).find_map(|above| Some((above, fs::metadata(above).ok()?)));
    let Some((above, facts)) = left.filter(|(above, _)| Some(*above) != path.parent()) else {
        return false;
    };
    let mut new = new.iter().map(Path::new);
    new.any(|new| {
        new.starts_with(above) && fs::metadata(new).is_ok_and(|new| new.dev() == facts.dev())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_empty_is_not_a_renamed_one() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("disk")).unwrap();
        fs::create_dir_all(at("new")).unwrap();
        fs::write(at("new/a.bak"), "").unwrap();
        let new = at("new/a.bak");
        let new = [new.to_str().unwrap()];
        assert!(was_renamed_above(&at("old/a.bak"), &new));
        assert!(was_renamed_above(&at("old/more/a.bak"), &new));
        assert!(!was_renamed_above(&at("disk/a.bak"), &new));
        assert!(!was_renamed_above(&at("disk/old/a.bak"), &new));
        assert!(!was_renamed_above(&at("old/a.bak"), &[]));
        assert!(!was_renamed_above(&at("old/a.bak"), &["/proc/self/status"]));
    }
}
