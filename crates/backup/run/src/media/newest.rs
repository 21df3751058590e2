//! The set that was finished last in a media set.
//!
//! A set that cannot be read must never make the one before it the newest: nothing after the last
//! readable set, in any file, may be an unknown set.

use super::list::Volumes;
use super::volume::Volume;
use crate::{RunError, SetInfo};

/// Returns the newest of `sets`, which belong to `volumes` in order.
pub(super) fn newest<'a>(volumes: &Volumes, sets: &'a [SetInfo]) -> Result<&'a SetInfo, RunError> {
    if let Some(family) = volumes.missing_family() {
        return Err(RunError::MissingFamily { family, families: volumes.families });
    }
    let unknown = |media: &str, reason: String| {
        Err(RunError::NewestUnknown { media: media.to_owned(), reason })
    };
    let name = volumes.all.first().map_or("", |volume| volume.name.as_str());
    let Some(last) = sets.last() else {
        return unknown(name, "it holds no set that can be read".to_owned());
    };
    if let Some(damage) = &last.damage {
        return unknown(name, format!("set {}: {damage}", last.position));
    }
    for volume in &volumes.all {
        let family = volume.header.family.index;
        let mirrors: Vec<&Volume> = volumes.of_family(family).collect();
        if volume.has_unknown_behind(last.ordinal, &mirrors) {
            let reason = format!("behind set {} stands what cannot be read", last.position);
            return unknown(&volume.name, reason);
        }
        let lacks = volume.record(last.ordinal).is_none();
        if lacks && volume.records.iter().any(|it| volumes.conflicts(family, it.ordinal())) {
            return unknown(&volume.name, "its mirror went on from another state".to_owned());
        }
    }
    let behind = volumes.ordinals().into_iter().filter(|ordinal| *ordinal > last.ordinal);
    for (due, ordinal) in (last.ordinal.saturating_add(1)..).zip(behind) {
        let readable = |family| {
            volumes.header(family, ordinal).is_some() && !volumes.conflicts(family, ordinal)
        };
        if ordinal != due || !(0..volumes.families).all(readable) {
            let reason = format!("record {due} behind set {} cannot be read", last.position);
            return unknown(name, reason);
        }
    }
    Ok(last)
}
