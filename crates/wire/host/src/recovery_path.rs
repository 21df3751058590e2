//! The path of recovery of a database that is RESTORING: the full set that it was restored from,
//! and the sets behind that one. A set of another path is not restored over it.

use tdekit_backup_run::elsewhere::known_full;
use tdekit_backup_run::{Media, SetInfo, SetKind, UnwrapSecret};
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::Error;

use super::keys::Keys;
use super::noted::{Noted, RestoredTo, Restoring};

/// Returns the full set that a database which is RESTORING was restored from. `None` where an older
/// version noted it.
pub(crate) fn full_of(noted: &Noted) -> Option<[u8; 16]> {
    noted.own.as_ref().and_then(|own| own.full().last().copied())
}

/// Returns true for a differential set that stands on a set which the database was restored from,
/// whatever name it had when the set was made.
pub(crate) fn stands_on(set: &SetInfo, noted: &Noted) -> bool {
    let is_own = |base: [u8; 16]| noted.own.as_ref().is_some_and(|own| own.has(&base));
    set.kind == SetKind::Differential && set.base.is_some_and(is_own)
}

/// Refuses a differential set over a database that is RESTORING from another full set than its own.
///
/// # Errors
/// 3136.
pub(crate) fn refuse_other_base(set: &SetInfo, noted: &Noted) -> Result<(), Error> {
    let Some(Restoring::At(to)) = &noted.restoring else { return Ok(()) };
    let is_other = match full_of(noted) {
        Some(full) => set.base != Some(full),
        None => false,
    };
    match set.kind == SetKind::Differential && set.base != Some(to.set_id) && is_other {
        true => Err(ServerError::NoBaseToRestore {}.into()),
        false => Ok(()),
    }
}

/// Returns true for a log backup that does not stand on the full set that the database was restored
/// from, by the headers at hand, by the history, and by the key of fingerprints, which sets have
/// from their full set. `at` is the set that it was restored from, if that is at hand. `None` where
/// nothing shows it.
pub(crate) fn is_other(
    (media, keys): (&Media, &Keys),
    set: &SetInfo,
    (at, full): (Option<&SetInfo>, Option<[u8; 16]>),
) -> Option<bool> {
    let known = |id| known_full(keys.operator(), id);
    let full_at = |set: &SetInfo| {
        let first = media.with_base(set).next()?;
        first.base.map_or(Some(first.set_id), known)
    };
    let full = full.or_else(|| at.and_then(full_at));
    if let (Some(of_set), Some(full)) = (full_at(set), full) {
        return Some(of_set != full);
    }
    let mut all = media.all().flat_map(Media::sets);
    let at = at.or_else(|| all.find(|it| Some(it.set_id) == full))?;
    let unlocked = keys.open().ok();
    let keys = unlocked.as_deref().map(|keys| keys as &dyn UnwrapSecret);
    media.have_one_map_key(at, set, keys).ok().map(|is_same| !is_same)
}

/// Returns true if the set that the database was restored from is not on the path of a log backup
/// that stands on `before`: whoever made that one went past it, in the media set that both are in,
/// since a restore had left it out.
pub(crate) fn was_left_out(
    media: &Media,
    before: &SetInfo,
    (at, to): (Option<&SetInfo>, &RestoredTo),
) -> bool {
    at.is_some_and(|at| {
        at.kind != SetKind::Differential
            && !at.copy_only
            && media.media_of(before).id() == to.media_id
            && at.position > before.position
    })
}
