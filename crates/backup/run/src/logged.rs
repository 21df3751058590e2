//! Entries of the key store's audit log about backups, and about restored databases and streams.
//! Each is written before the event takes effect.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_key_store::{
    AuditAction, AuditCertificate, AuditDatabase, AuditKey, StoreError, Unlocked,
};

use crate::database::source::{Chosen, Database, Wrapping};
use crate::operator::{Notice, Operator};
use crate::place::Place;
use crate::{RunError, SetInfo};

/// The log's name for the algorithm of plain pages.
const NO_ALGORITHM: &str = "none";

/// The entry about a new backup.
pub struct BackupEntry {
    unlocked: Arc<Unlocked>,
    database: AuditDatabase,
}

impl BackupEntry {
    /// Makes the entry for a backup that involves a key: the database's, or the set's. A process
    /// that only wraps for certificates, without a secret of the store, cannot log.
    #[must_use]
    pub fn of(
        database: Option<&Database>,
        chosen: Option<&(Chosen, Wrapping)>,
        places: &[Place],
    ) -> Option<Self> {
        let of_set = match chosen {
            Some((_, Wrapping::Unlocked(unlocked))) => Some(unlocked),
            _ => None,
        };
        let of_database = database.and_then(|database| database.unlocked.as_ref());
        let unlocked = Arc::clone(of_database.or(of_set)?);
        let certificates = chosen.iter().flat_map(|(chosen, _)| &chosen.certificates);
        let key = AuditKey {
            version: database.and_then(|database| database.key_version),
            algorithm: name_of(chosen.map(|(chosen, _)| chosen.algorithm)),
            certificates: certificates.map(AuditCertificate::of).collect(),
            media: media(places),
            ..AuditKey::default()
        };
        let path = database.map(|database| database.source.path.clone());
        let path = path.unwrap_or_else(|| PathBuf::from("standard input"));
        let file_id = database.and_then(|database| database.source.encrypted_file_id);
        Some(Self { unlocked, database: AuditDatabase { path, file_id, key } })
    }

    /// Writes it. If nobody here can write to the store, that is a notice.
    ///
    /// # Errors
    /// `NotLogged` of the key store.
    pub fn write(&self, operator: &dyn Operator) -> Result<(), RunError> {
        let logged = self.unlocked.log_database(AuditAction::BackedUp, &self.database)?;
        if let Some(error) = &logged {
            operator.tell(&Notice::NotLogged { error });
        }
        Ok(())
    }
}

/// Writes the entry about a stream that is restored to `path`, or to standard output. If nobody
/// here can write to the store, the error is returned as a value, for a warning.
///
/// # Errors
/// `NotLogged` of the key store: the stream must not be output.
pub fn log_restored_stream(
    unlocked: &Unlocked,
    set: &SetInfo,
    places: &[Place],
    path: Option<&Path>,
) -> Result<Option<StoreError>, RunError> {
    let path = path.unwrap_or(Path::new("standard output")).to_owned();
    let database = AuditDatabase { path, file_id: None, key: key_of(set, places) };
    Ok(unlocked.log_database(AuditAction::Restored, &database)?)
}

/// Returns the log's description of the set from which a database or a stream comes.
#[must_use]
pub fn key_of(set: &SetInfo, places: &[Place]) -> AuditKey {
    let certificate = |recipient: &crate::Recipient| AuditCertificate {
        id: recipient.wrapped.thumbprint(),
        name: recipient.name.clone(),
    };
    AuditKey {
        algorithm: name_of(set.algorithm),
        certificates: set.recipients.iter().map(certificate).collect(),
        media: media(places),
        ..AuditKey::default()
    }
}

fn name_of(algorithm: Option<tdekit_key_crypto::Algorithm>) -> String {
    algorithm.map_or(NO_ALGORITHM, |algorithm| algorithm.name()).to_owned()
}

fn media(places: &[Place]) -> String {
    let shown = |place: &Place| match place.recorded() {
        Some(path) => path.to_string_lossy().into_owned(),
        None => place.shown(),
    };
    places.iter().map(shown).collect::<Vec<_>>().join(", ")
}
