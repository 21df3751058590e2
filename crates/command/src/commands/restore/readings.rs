//! What a restore shows of the sets that it read, for the history.

use tdekit_backup_run::SetInfo;
use tdekit_backup_run::archive::Archive;
use tdekit_backup_run::place::{Opened, Place};
use tdekit_backup_run::readings::{open_recorded, record_object, record_restore};
use tdekit_console::{ConsoleError, Failure, GlobalArgs};

use crate::error::CommandError;

/// Opens media sets and restores one of their sets, which `work` names when it is chosen. Records
/// the damage that was met, and that what the set stands on was read whole.
pub(super) fn restore(
    global: &GlobalArgs,
    places: &[Place],
    work: impl for<'a> FnOnce(&'a Opened, &mut Option<&'a SetInfo>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let opened = open_recorded(global, places)?;
    let mut asked = None;
    let ended = work(&opened, &mut asked);
    let failure = ended.as_ref().err().map(Failure::kind);
    record_restore(global, (places, &opened.media), asked, failure);
    ended
}

/// Records the damage by which a restore from an archive ended.
pub(super) fn record_archive<T>(
    global: &GlobalArgs,
    archive: &Archive,
    ended: Result<T, CommandError>,
) -> Result<T, CommandError> {
    if let Err(CommandError::Console(ConsoleError::Run(error))) = &ended {
        record_object(global, archive, error);
    }
    ended
}
