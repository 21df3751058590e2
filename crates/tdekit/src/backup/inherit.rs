//! What a set that is appended takes over from the media set: its encryption and its recipients.

use std::path::PathBuf;

use tdekit_backup_run::RunError;
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{KeyStore, thumbprint};

use crate::backup::error::BackupError;
use crate::backup::place::{Place, is_missing, open};
use crate::cli::GlobalArgs;
use crate::error::CommandError;
use crate::{output, session};

/// How the newest encrypted set of a media set is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) algorithm: Algorithm,
    /// SHA-256 of the certificates that open it.
    pub(crate) certificates: Vec<[u8; 32]>,
    /// Names and thumbprints of them, as the set tells them.
    names: Vec<String>,
}

impl Inherited {
    /// That of the media set at `places`; `None` where nothing is encrypted there, or nothing is.
    ///
    /// # Errors
    /// Those of opening a media set.
    pub(crate) fn of(places: &[Place]) -> Result<Option<Self>, CommandError> {
        let opened = match open(places) {
            Ok(opened) => opened,
            // The engine says what it makes of an empty file.
            Err(CommandError::Run(error))
                if is_missing(&error) || matches!(error, RunError::NotMedia { .. }) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut sets = opened.media.sets().iter().rev();
        Ok(sets.find_map(|set| {
            let told = |name: &str, sha256: &[u8; 32]| format!("{name} ({})", thumbprint(sha256));
            let recipients = set.recipients.iter();
            Some(Self {
                algorithm: set.algorithm?,
                certificates: recipients.clone().map(|each| each.wrapped.sha256).collect(),
                names: recipients.map(|each| told(&each.name, &each.wrapped.sha256)).collect(),
            })
        }))
    }

    /// Warns of certificates that the store does not have, for which the new set will not be.
    pub(crate) fn warn_of_missing(&self, store: &KeyStore) {
        for (sha256, name) in self.certificates.iter().zip(&self.names) {
            if store.by_sha256(sha256).is_none() {
                output::warning(format_args!(
                    "the sets that are there open with certificate {name}, which is not in the key \
                     store: the new one will not"
                ));
            }
        }
    }
}

/// Fails where the key store knows encrypted media at one of `places`: somebody else took them
/// away, or put others there, and the set that is appended would be plain.
///
/// # Errors
/// `WasEncrypted`.
pub(crate) fn refuse_downgrade(global: &GlobalArgs, places: &[Place]) -> Result<(), CommandError> {
    let Ok(uses) = session::open_store(global).and_then(|store| Ok(store.uses()?)) else {
        return Ok(());
    };
    let known = |path: &PathBuf| uses.iter().any(|each| each.path == *path);
    match places.iter().find(|place| place.recorded().as_ref().is_some_and(known)) {
        Some(place) => Err(BackupError::WasEncrypted { media: place.shown() }.into()),
        None => Ok(()),
    }
}
