//! Inheritance: an appended set takes encryption and recipients from its media set, a restored
//! database its certificates from the database that was backed up.

use std::path::PathBuf;

use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{KeyStore, now_seconds, thumbprint};

use crate::operator::{Notice, Operator};
use crate::place::{Place, is_missing, open};
use crate::{Media, RunError, SetInfo};

/// Encryption of the newest encrypted set of a media set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// SHA-256 of the certificates that open it.
    pub certificates: Vec<[u8; 32]>,
    /// Their names and thumbprints, as in the set.
    names: Vec<String>,
}

impl Inherited {
    /// Reads it from the media set at `places`; `None` if nothing is encrypted there, or nothing
    /// exists.
    ///
    /// # Errors
    /// Those of opening a media set.
    pub fn of(places: &[Place]) -> Result<Option<Self>, RunError> {
        let opened = match open(places) {
            Ok(opened) => opened,
            // The engine reports an empty file.
            Err(error) if is_missing(&error) || matches!(error, RunError::NotMedia { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(Self::of_media(&opened.media))
    }

    /// Reads it from the media sets that the new set stands on, if there is none at `places`.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_chain(places: &[Place], bases: &[Media]) -> Result<Option<Self>, RunError> {
        Ok(Self::of(places)?.or_else(|| bases.iter().find_map(Self::of_media)))
    }

    fn of_media(media: &Media) -> Option<Self> {
        let mut sets = media.sets().iter().rev();
        sets.find_map(|set| {
            let told = |name: &str, sha256: &[u8; 32]| format!("{name} ({})", thumbprint(sha256));
            let recipients = set.recipients.iter();
            Some(Self {
                algorithm: set.algorithm?,
                certificates: recipients.clone().map(|each| each.wrapped.sha256).collect(),
                names: recipients.map(|each| told(&each.name, &each.wrapped.sha256)).collect(),
            })
        })
    }

    /// Warns of certificates that the store does not have, so that they cannot open the new set.
    pub fn warn_of_missing(&self, store: &KeyStore, operator: &dyn Operator) {
        for (sha256, name) in self.certificates.iter().zip(&self.names) {
            if store.by_sha256(sha256).is_none() {
                operator.tell(&Notice::NotInherited { certificate: name });
            }
        }
    }
}

/// Fails if the key store knows encrypted media at one of `places`: somebody removed or replaced
/// them, and the appended set would be plain.
///
/// # Errors
/// `WasEncrypted`.
pub fn refuse_downgrade(operator: &dyn Operator, places: &[Place]) -> Result<(), RunError> {
    let Ok(uses) = operator.open_store().and_then(|store| store.uses()) else {
        return Ok(());
    };
    let known = |path: &PathBuf| uses.iter().any(|each| each.path == *path);
    match places.iter().find(|place| place.recorded().as_ref().is_some_and(known)) {
        Some(place) => Err(RunError::WasEncrypted { media: place.shown() }),
        None => Ok(()),
    }
}

/// Returns the thumbprints of the certificates for a restored database if the user names none:
/// those of the database that was backed up, as far as the store knows them; otherwise those that
/// open the set. Each stands for the active certificate of its name, unless that has expired.
#[must_use]
pub fn certificates_for(set: &SetInfo, store: &KeyStore) -> Vec<String> {
    let active = |sha256: &[u8; 32]| {
        let active = store.find(&store.by_sha256(sha256)?.name).ok()?;
        (active.not_after >= now_seconds()).then(|| active.thumbprint())
    };
    let uses = store.uses().unwrap_or_default();
    let of_database = uses
        .iter()
        .filter(|known| set.database_id != [0; 16] && known.file_id == set.database_id)
        .filter_map(|known| active(&known.sha256));
    let own: Vec<_> = of_database.collect();
    match own.is_empty() {
        false => own,
        true => set.recipients.iter().filter_map(|each| active(&each.wrapped.sha256)).collect(),
    }
}
