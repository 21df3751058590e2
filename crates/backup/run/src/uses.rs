//! Records in the key store of media sets that need its certificates, so that none is dropped.

use std::path::PathBuf;

use tdekit_key_store::{CertificateInfo, KeyStore, StoreError};
use tdekit_sqlite_convert::{Known, known_of};

use crate::catalog::Catalog;
use crate::names::is_object_name;
use crate::operator::{Notice, Operator};
use crate::place::{Place, open};

/// The id of a media set, the SHA-256 of a certificate that opens a set of it, and the media set's
/// path or address.
pub type Use = ([u8; 16], [u8; 32], PathBuf);

/// Returns the certificates that the sets at `places` need. Omits sets that cannot be read.
#[must_use]
pub fn uses_of(places: &[Place]) -> Vec<Use> {
    let opened = places.iter().filter_map(|place| {
        let opened = open(std::slice::from_ref(place)).ok()?;
        Some((opened, place.recorded()?))
    });
    let uses = opened.flat_map(|(opened, path)| {
        let id = opened.media.id();
        let recipients = opened.media.sets().iter().flat_map(|set| set.recipients.iter());
        recipients.map(|each| (id, each.wrapped.sha256, path.clone())).collect::<Vec<_>>()
    });
    uses.collect()
}

/// Returns the encrypted databases that the key store knows; none without a key store. Its list
/// also has media sets: the history has their places, and objects of archives have their names.
///
/// # Errors
/// As [`KeyStore::uses`].
pub fn known_databases(operator: &dyn Operator) -> Result<Known, StoreError> {
    let Ok(store) = operator.open_store() else { return Ok(Known::new()) };
    let catalog = Catalog::open_existing(store.dir()).ok().flatten();
    let media = catalog.and_then(|catalog| catalog.media_places().ok());
    let mut uses = store.uses()?;
    uses.retain(|each| !is_object_name(&each.path.to_string_lossy()));
    Ok(known_of(uses, &media.unwrap_or_default()))
}

/// Removes replaced media sets from the key store's records.
pub fn forget_uses(operator: &dyn Operator, uses: &[Use]) {
    let Ok(store) = operator.open_store() else { return };
    let forgotten: Result<(), StoreError> =
        uses.iter().try_for_each(|(id, sha256, path)| store.forget_use(sha256, *id, path));
    if let Err(error) = forgotten {
        operator.tell(&Notice::NotForgotten { error: &error });
    }
}

/// Records in the key store that the media set at `places` needs these certificates.
pub fn note_uses(
    operator: &dyn Operator,
    store: &KeyStore,
    certificates: &[CertificateInfo],
    (media_id, places): ([u8; 16], &[Place]),
) {
    let Some(path) = places.iter().find_map(Place::recorded) else { return };
    let noted: Result<(), StoreError> =
        certificates.iter().try_for_each(|info| store.record_use(&info.sha256, media_id, &path));
    if let Err(error) = noted {
        operator.tell(&Notice::NotNoted { error: &error });
    }
}
