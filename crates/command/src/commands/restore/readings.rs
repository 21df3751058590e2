//! What a restore shows of the sets that it read, for the history.

use tdekit_backup_run::elsewhere::open_chain;
use tdekit_backup_run::place::{Opened, Place};
use tdekit_backup_run::readings::{
    record_damage, record_met, record_restored, record_unopened, record_unrestored,
};
use tdekit_backup_run::{SetInfo, history};
use tdekit_console::{Failure, GlobalArgs};
use tdekit_key_crypto::Kind;

use crate::error::CommandError;

/// Opens media sets and restores one of their sets, which `work` names when it is chosen. Records
/// the damage that was met, and that what the set stands on was read whole.
pub(super) fn restore(
    global: &GlobalArgs,
    places: &[Place],
    work: impl for<'a> FnOnce(&'a Opened, &mut Option<&'a SetInfo>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let opened = match open_chain(global, places) {
        Ok(opened) => opened,
        Err(error) => {
            if error.kind() == Kind::Damaged {
                record_unopened(global, places);
            }
            return Err(history::explain(global, places, error).into());
        }
    };
    let mut asked = None;
    let ended = work(&opened, &mut asked);
    let media = &opened.media;
    match (&ended, asked) {
        (Ok(()), Some(set)) => record_restored(global, media, set),
        (Err(error), Some(set)) if error.kind() == Kind::Damaged => {
            record_unrestored(global, media, set);
        }
        (Err(error), None) if error.kind() == Kind::Damaged => {
            record_damage(global, places, media, &[]);
            record_met(global, media);
        }
        _ => {}
    }
    ended
}
