//! What is backed up, and whether its backup is encrypted.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use tdekit_backup_run::DatabaseSource;
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{CertificateInfo, KeyStore, StoreError, Unlocked, iso8601, now_seconds};
use tdekit_sqlite::keyring;
use tdekit_sqlite_convert::{
    DatabaseError, FileKind, certificates_of, database_path, file_uri, io_error, open_header,
    read_area, register,
};

use crate::backup::inherit::Inherited;
use crate::backup::value::EncryptionChoice;
use crate::cli::GlobalArgs;
use crate::error::CommandError;
use crate::session;

/// Certificates of one set.
const MAX_RECIPIENTS: usize = 64;

/// A database to back up.
pub(crate) struct Database {
    pub(crate) source: DatabaseSource,
    /// Of an encrypted one: SHA-256 of the certificates that wrap its key.
    pub(crate) certificates: Option<Vec<[u8; 32]>>,
    /// The store that opened it.
    pub(crate) unlocked: Option<Arc<Unlocked>>,
}

/// With what a set is encrypted.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) algorithm: Algorithm,
    pub(crate) certificates: Vec<CertificateInfo>,
}

/// A key store that wraps: unlocked where a secret is at hand, which rules out certificates that
/// others put there.
pub(crate) enum Wrapping {
    Unlocked(Arc<Unlocked>),
    Store(KeyStore),
}

impl Wrapping {
    /// Opens the key store with a secret that is configured; without one, only to read. Asks for
    /// nothing: wrapping needs no secret.
    ///
    /// # Errors
    /// Those of opening the store.
    pub(crate) fn open(global: &GlobalArgs) -> Result<Self, CommandError> {
        match session::open_unlocked_store_unasked(global) {
            Ok(unlocked) => Ok(Self::Unlocked(Arc::new(unlocked))),
            Err(CommandError::Store(StoreError::NoProvider { .. })) => {
                Ok(Self::Store(session::open_store(global)?))
            }
            Err(error) => Err(error),
        }
    }

    /// The store.
    pub(crate) fn store(&self) -> &KeyStore {
        match self {
            Self::Unlocked(unlocked) => unlocked.store(),
            Self::Store(store) => store,
        }
    }
}

/// Opens the database `name`; an encrypted one with the key store.
///
/// # Errors
/// `NotAFile`, `NotADatabase`, those of the key store and of SQLite.
pub(crate) fn open(name: &Path, global: &GlobalArgs) -> Result<Database, CommandError> {
    let path = database_path(name)?;
    register().map_err(DatabaseError::sqlite("prepare to open", &path, None))?;
    // Closed again before SQLite has any lock that closing would drop.
    let area = {
        let file = File::open(&path).map_err(io_error("open", &path))?;
        read_area(&file).map_err(io_error("read", &path))?
    };
    let (mut unlocked, mut encrypted) = (None, None);
    match FileKind::of(&area) {
        FileKind::Plain | FileKind::Empty => {}
        FileKind::Encrypted => {
            let store = Arc::new(session::open_unlocked_store(global)?);
            keyring::set_unlocked(Arc::clone(&store));
            let (header, _) = open_header(&path, &area, &store)?;
            unlocked = Some(store);
            encrypted = Some((header.file_id, certificates_of(&header)));
        }
        FileKind::Other => return Err(DatabaseError::NotADatabase { path }.into()),
    }
    let connection = connect(&path, encrypted.is_some())?;
    let (encrypted_file_id, certificates) = encrypted.unzip();
    let source = DatabaseSource { connection, path, encrypted_file_id };
    Ok(Database { source, certificates, unlocked })
}

fn connect(path: &Path, encrypted: bool) -> Result<Connection, CommandError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // So that TDEKIT_ENCRYPT_NEW does not reach an empty file.
    let parameters = if encrypted { "" } else { "?tdekit=plain" };
    let opened = Connection::open_with_flags(file_uri(path) + parameters, flags);
    Ok(opened.map_err(DatabaseError::sqlite("open", path, None))?)
}

/// Decides with what a set is encrypted, so that nothing becomes plaintext that was not asked for:
/// a certificate without an algorithm means `AES_256`, a set that is appended to encrypted ones is
/// encrypted as they are, and a database that is encrypted is backed up with its own certificates.
///
/// # Errors
/// `Usage` for what does not go together, `NoCertificate`, those of the store.
pub(crate) fn choose(
    choice: Option<EncryptionChoice>,
    selectors: &[String],
    database: Option<&Database>,
    inherited: Option<&Inherited>,
    wrapping: impl FnOnce() -> Result<Wrapping, CommandError>,
) -> Result<Option<(Chosen, Wrapping)>, CommandError> {
    let own = database.and_then(|database| database.certificates.as_ref());
    let own = inherited.map(|inherited| &inherited.certificates).or(own);
    let algorithm = match choice {
        Some(EncryptionChoice::None) if selectors.is_empty() => return Ok(None),
        Some(EncryptionChoice::None) => {
            let told = "--encryption none and --certificate do not go together";
            return Err(CommandError::Usage(told.to_owned()));
        }
        Some(EncryptionChoice::Algorithm(algorithm)) => algorithm,
        None if selectors.is_empty() && own.is_none() => return Ok(None),
        None => inherited
            .filter(|_| selectors.is_empty())
            .map_or(Algorithm::Aes256, |inherited| inherited.algorithm),
    };
    if selectors.is_empty() && own.is_none() {
        let told = "an encrypted backup needs --certificate";
        return Err(CommandError::Usage(told.to_owned()));
    }
    let wrapping = match database.and_then(|database| database.unlocked.as_ref()) {
        Some(unlocked) => Wrapping::Unlocked(Arc::clone(unlocked)),
        None => wrapping()?,
    };
    let store = wrapping.store();
    let found = match own {
        Some(own) if selectors.is_empty() => {
            if let Some(inherited) = inherited {
                inherited.warn_of_missing(store);
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
        let told = format!("a set is encrypted for at most {MAX_RECIPIENTS} certificates");
        return Err(CommandError::Usage(told));
    }
    Ok(Some((Chosen { algorithm, certificates }, wrapping)))
}

/// The active generations of the certificates with these digests.
///
/// # Errors
/// `CertificateMissing` when the store knows none of them.
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

/// Fails for a certificate that wraps nothing any more.
///
/// # Errors
/// `CertificateExpired`.
pub(crate) fn refuse_expired(info: &CertificateInfo) -> Result<(), StoreError> {
    match info.not_after < now_seconds() {
        true => Err(StoreError::CertificateExpired {
            name: info.name.clone(),
            expired_at: iso8601(info.not_after),
        }),
        false => Ok(()),
    }
}
