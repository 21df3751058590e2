//! Writing to the backup history. It only tells: what cannot be written there is a warning.

use std::path::Path;

use tdekit_backup_run::{Catalog, CatalogDevice, CatalogSet, CatalogUse, Media, RunError};

use crate::backup::labels::{now_ms, user};
use crate::cli::GlobalArgs;
use crate::error::CommandError;
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
    let dir = session::store_dir(global)?;
    Ok(work(&mut Catalog::open(&dir)?)?)
}

fn warn(recorded: Result<(), CommandError>) {
    if let Err(error) = recorded {
        output::warning(format_args!("the backup history was not written: {error}"));
    }
}
