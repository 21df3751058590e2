//! The databases to back up, and the choice of encryption for their backups.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{CertificateInfo, KeyStore, StoreError, Unlocked, iso8601, now_seconds};
use tdekit_sqlite::keyring;
use tdekit_sqlite_convert::{
    DatabaseError, FileKind, certificates_of, database_path, file_uri, io_error, open_header,
    read_area, refuse_emptied, refuse_lost, refuse_odd_sides, register,
};

use crate::inherit::Inherited;
use crate::operator::Operator;
use crate::{DatabaseSource, RunError};

/// Maximum number of certificates of one set.
const MAX_RECIPIENTS: usize = 64;

/// A database to back up.
pub struct Database {
    /// The source that the engine reads.
    pub source: DatabaseSource,
    /// For an encrypted one: SHA-256 of the certificates that wrap its key.
    pub certificates: Option<Vec<[u8; 32]>>,
    /// For an encrypted one: the version of its key.
    pub key_version: Option<u32>,
    /// The store that opened it.
    pub unlocked: Option<Arc<Unlocked>>,
}

/// The user's choice of encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptionChoice {
    /// Plaintext, explicitly.
    None,
    /// This algorithm.
    Algorithm(Algorithm),
}

/// Encryption of a set.
#[derive(Debug)]
pub struct Chosen {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// The certificates that open it, at least one.
    pub certificates: Vec<CertificateInfo>,
}

/// A key store that wraps: unlocked if a secret is available, which rules out certificates that
/// others put there.
pub enum Wrapping {
    /// With its master key open.
    Unlocked(Arc<Unlocked>),
    /// As anybody may read it.
    Store(KeyStore),
}

impl Wrapping {
    /// Opens the key store with a configured secret; without one, only for reading. Never prompts:
    /// wrapping needs no secret.
    ///
    /// # Errors
    /// Those of opening the store.
    pub fn open(operator: &dyn Operator) -> Result<Self, RunError> {
        Self::of(operator.open_unlocked(), operator)
    }

    /// As [`Self::open`], if opening the store was tried already.
    ///
    /// # Errors
    /// Those of opening the store.
    pub fn of(
        unlocked: Result<Arc<Unlocked>, StoreError>,
        operator: &dyn Operator,
    ) -> Result<Self, RunError> {
        match unlocked {
            Ok(unlocked) => Ok(Self::Unlocked(unlocked)),
            Err(StoreError::NoProvider { .. }) => Ok(Self::Store(operator.open_store()?)),
            Err(error) => Err(error.into()),
        }
    }

    /// The store.
    pub fn store(&self) -> &KeyStore {
        match self {
            Self::Unlocked(unlocked) => unlocked.store(),
            Self::Store(store) => store,
        }
    }
}

/// Determines the kind of the database `name`: returns its resolved path, and its first bytes.
///
/// # Errors
/// `NotAFile`, `Io`.
pub fn look(name: &Path) -> Result<(PathBuf, Vec<u8>), RunError> {
    let path = database_path(name)?;
    // Closed again before SQLite has any lock that closing would drop.
    let file = File::open(&path).map_err(io_error("open", &path))?;
    let area = read_area(&file).map_err(io_error("read", &path))?;
    Ok((path, area))
}

/// Opens the database at `path`, which begins with `area`; an encrypted one with the store that
/// `unlock` returns.
///
/// # Errors
/// `NotADatabase`, `Lost`, `Emptied`, those of the key store and of SQLite.
pub fn open<E: From<RunError>>(
    path: PathBuf,
    area: &[u8],
    unlock: impl FnOnce() -> Result<Arc<Unlocked>, E>,
) -> Result<Database, E> {
    let failed = |error: DatabaseError| E::from(error.into());
    register().map_err(DatabaseError::sqlite("prepare to open", &path, None)).map_err(failed)?;
    refuse_odd_sides(&path).map_err(failed)?;
    refuse_lost(&path, area, false).map_err(failed)?;
    let (mut unlocked, mut encrypted, mut key_version) = (None, None, None);
    match FileKind::of(area) {
        FileKind::Plain | FileKind::Empty => {}
        FileKind::Encrypted => {
            let store = unlock()?;
            keyring::set_unlocked(Arc::clone(&store));
            let (header, _) = open_header(&path, area, &store).map_err(failed)?;
            unlocked = Some(store);
            encrypted = Some((header.file_id, certificates_of(&header)));
            key_version = Some(header.current);
        }
        FileKind::Other => return Err(failed(DatabaseError::NotADatabase { path })),
    }
    let connection = connect(&path, encrypted.is_some())?;
    let (encrypted_file_id, certificates) = encrypted.unzip();
    let source = DatabaseSource { connection, path, encrypted_file_id };
    Ok(Database { source, certificates, key_version, unlocked })
}

/// Opens a further connection to a database that [`open`] opened.
///
/// # Errors
/// `Emptied`, those of SQLite.
pub(crate) fn connect(path: &Path, encrypted: bool) -> Result<Connection, RunError> {
    refuse_emptied(path, if encrypted { FileKind::Encrypted } else { FileKind::Plain })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Keeps TDEKIT_ENCRYPT_NEW from applying to an empty file.
    let parameters = if encrypted { "" } else { "?tdekit=plain" };
    let opened = Connection::open_with_flags(file_uri(path) + parameters, flags);
    Ok(opened.map_err(DatabaseError::sqlite("open", path, None))?)
}

/// Chooses the encryption of a set, so that nothing becomes plaintext unless requested: a
/// certificate without an algorithm means `AES_256`, a set that is appended to encrypted ones is
/// encrypted in the same way, and an encrypted database is backed up with its own certificates.
///
/// # Errors
/// `CertificateUnused`, `CertificateNeeded`, `TooManyRecipients`; those of the store.
pub fn choose(
    choice: Option<EncryptionChoice>,
    selectors: &[String],
    database: Option<&Database>,
    inherited: Option<&Inherited>,
    (operator, wrapping): (&dyn Operator, impl FnOnce() -> Result<Wrapping, RunError>),
) -> Result<Option<(Chosen, Wrapping)>, RunError> {
    let own = database.and_then(|database| database.certificates.as_ref());
    let own = inherited.map(|inherited| &inherited.certificates).or(own);
    let algorithm = match choice {
        Some(EncryptionChoice::None) if selectors.is_empty() => return Ok(None),
        Some(EncryptionChoice::None) => {
            return Err(RunError::CertificateUnused);
        }
        Some(EncryptionChoice::Algorithm(algorithm)) => algorithm,
        None if selectors.is_empty() && own.is_none() => return Ok(None),
        None => inherited
            .filter(|_| selectors.is_empty())
            .map_or(Algorithm::Aes256, |inherited| inherited.algorithm),
    };
    if selectors.is_empty() && own.is_none() {
        return Err(RunError::CertificateNeeded);
    }
    let wrapping = match database.and_then(|database| database.unlocked.as_ref()) {
        Some(unlocked) => Wrapping::Unlocked(Arc::clone(unlocked)),
        None => wrapping()?,
    };
    let store = wrapping.store();
    let found = match own {
        Some(own) if selectors.is_empty() => {
            if let Some(inherited) = inherited {
                inherited.warn_of_missing(store, operator);
            }
            active_of(store, own)?
        }
        _ => selectors.iter().map(|name| store.find(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let mut certificates: Vec<CertificateInfo> = Vec::new();
    for info in found {
        refuse_expired(info)?;
        if !certificates.iter().any(|known| known.sha256 == info.sha256) {
            certificates.push(info.clone());
        }
    }
    if certificates.len() > MAX_RECIPIENTS {
        return Err(RunError::TooManyRecipients { most: MAX_RECIPIENTS });
    }
    Ok(Some((Chosen { algorithm, certificates }, wrapping)))
}

/// Returns the active generations of the certificates with these digests.
///
/// # Errors
/// `CertificateMissing` if the store knows none of them.
fn active_of<'a>(
    store: &'a KeyStore,
    digests: &[[u8; 32]],
) -> Result<Vec<&'a CertificateInfo>, StoreError> {
    let known = digests.iter().filter_map(|sha256| store.by_sha256(sha256));
    let active = known.map(|info| store.find(&info.name)).collect::<Result<Vec<_>, _>>()?;
    match active.is_empty() {
        true => {
            let wanted =
                digests.iter().map(|sha256| tdekit_key_store::thumbprint(sha256)).collect();
            Err(StoreError::CertificateMissing { wanted })
        }
        false => Ok(active),
    }
}

/// Fails for a certificate that no longer wraps.
///
/// # Errors
/// `CertificateExpired`.
pub fn refuse_expired(info: &CertificateInfo) -> Result<(), StoreError> {
    match info.not_after < now_seconds() {
        true => Err(StoreError::CertificateExpired {
            name: info.name.clone(),
            expired_at: iso8601(info.not_after),
        }),
        false => Ok(()),
    }
}
