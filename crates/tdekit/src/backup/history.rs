//! Writing to the backup history. It only tells: what cannot be written there is a warning.

use std::path::Path;

use tdekit_backup_run::{Catalog, CatalogDevice, CatalogSet, CatalogUse, Finding, Media, RunError};

use crate::backup::error::BackupError;
use crate::backup::labels::{now_ms, user};
use crate::backup::place::{Place, is_missing, open};
use crate::cli::GlobalArgs;
use crate::error::{CommandError, hint};
use crate::{output, session};

/// Records the sets of `media` at `positions`.
pub(crate) fn record(
    global: &GlobalArgs,
    media: &Media,
    devices: &[CatalogDevice],
    positions: &[u32],
) {
    let recorded = with_catalog(global, |catalog| {
        for set in media.sets().iter().filter(|set| positions.contains(&set.position)) {
            catalog.record(&CatalogSet::of(set, &media.id(), devices))?;
        }
        Ok(())
    });
    warn(recorded);
}

/// The sets that the history knows of this media set, newer than all that stand there. Where there
/// is no history, it knows none; one that cannot be read is a warning.
pub(crate) fn newer(global: &GlobalArgs, media: &Media) -> Vec<CatalogSet> {
    let Ok(dir) = session::store_dir(global) else { return Vec::new() };
    let known = Catalog::open_existing(&dir).and_then(|catalog| match catalog {
        Some(catalog) => catalog.newer_than(&media.id(), media.sets()),
        None => Ok(Vec::new()),
    });
    known.unwrap_or_else(|error| {
        output::warning(format_args!("not compared with the backup history: {error}"));
        Vec::new()
    })
}

/// Fails where an append would cut off what the history knows as a finished set: bytes behind the
/// last whole record of `places` that look unfinished, where a newer set is known.
///
/// # Errors
/// `CutsFinished`; those of opening a media set.
pub(crate) fn refuse_cut(global: &GlobalArgs, places: &[Place]) -> Result<(), CommandError> {
    let opened = match open(places) {
        Ok(opened) => opened,
        // The engine says what it makes of an empty file.
        Err(CommandError::Run(error))
            if is_missing(&error) || matches!(error, RunError::NotMedia { .. }) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let tail = opened.media.findings().iter().find_map(|finding| match finding {
        Finding::UnfinishedTail { media, .. } => Some(media.clone()),
        _ => None,
    });
    let Some(media) = tail else { return Ok(()) };
    match newer(global, &opened.media).first() {
        Some(known) => {
            let (position, finished) = (known.position, known.backup_finish_date.clone());
            Err(BackupError::CutsFinished { media, position, finished }.into())
        }
        None => Ok(()),
    }
}

/// Records that the set at `position` was used.
pub(crate) fn record_use(
    global: &GlobalArgs,
    media: &Media,
    position: u32,
    done: CatalogUse,
    destination: Option<&Path>,
) {
    let recorded = with_catalog(global, |catalog| {
        let set = CatalogSet::of(media.set(Some(position))?, &media.id(), &[]);
        let destination = destination.map(|path| path.to_string_lossy().into_owned());
        let uuid = &set.backup_set_uuid;
        catalog.record_use(uuid, done, destination.as_deref(), &user(), now_ms())
    });
    warn(recorded);
}

fn with_catalog(
    global: &GlobalArgs,
    work: impl FnOnce(&mut Catalog) -> Result<(), RunError>,
) -> Result<(), CommandError> {
    let dir = session::kept_dir(global)?;
    Ok(work(&mut Catalog::open(&dir)?)?)
}

fn warn(recorded: Result<(), CommandError>) {
    if let Err(error) = recorded {
        output::warning(format_args!("the backup history was not written: {error}"));
        if let Some(hint) = hint(&error) {
            output::note(format_args!("hint: {hint}"));
        }
    }
}
