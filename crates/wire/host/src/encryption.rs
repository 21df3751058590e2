//! Database encryption keys, and databases encrypted and decrypted.
//!
//! A file has a key only while it is encrypted. CREATE DATABASE ENCRYPTION KEY therefore only
//! records the database's future encryption, and SET ENCRYPTION ON makes the key. The record is
//! lost when the server ends.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tdekit_backup_run::RunError;
use tdekit_backup_run::labels::now_ms;
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{KeyStore, StoreError, Unlocked};
use tdekit_sqlite_convert::{
    CancelledBy, DatabaseError, FileKind, Form, Options, convert, find_certificates, header_of,
    rewrap, wrapped_of,
};
use tdekit_sqlite_page::Header;
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tsql::{AlterDatabase, EncryptionKey, Error, Progress, Recovery};

use super::certificates::warn_of;
use super::databases::{Databases, Found, is_system};
use super::keys::Keys;
use super::scan::Scans;
use super::{create, fault, kept, noted};

/// The future encryption of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) algorithm: Algorithm,
    /// Thumbprint or name.
    pub(crate) certificate: String,
    /// Time in milliseconds since 1970.
    pub(crate) created_ms: i64,
}

/// The records, by the databases' names in lower case.
#[derive(Default)]
pub(crate) struct Encryption {
    noted: Mutex<HashMap<String, Noted>>,
    pub(crate) scans: Scans,
}

impl Encryption {
    /// Returns the record of a database.
    pub(crate) fn noted(&self, name: &str) -> Option<Noted> {
        self.notes().get(&name.to_lowercase()).cloned()
    }

    /// `CREATE DATABASE ENCRYPTION KEY`.
    pub(crate) fn create(
        &self,
        (databases, keys): (&Databases, &Keys),
        name: &str,
        key: &EncryptionKey,
        out: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let found = user_database(databases, name)?;
        if header(&found.path)?.is_some() || self.noted(name).is_some() {
            return Err(ServerError::KeyExists {}.into());
        }
        let algorithm = algorithm_of(key.algorithm.as_deref().unwrap_or(Algorithm::Aes256.name()))?;
        let certificate = key.certificate.as_deref().unwrap_or_default();
        let certificate = usable(keys, certificate, out)?;
        let created_ms = tdekit_backup_run::labels::now_ms();
        let noted = Noted { algorithm, certificate, created_ms };
        self.notes().insert(name.to_lowercase(), noted);
        Ok(())
    }

    /// `ALTER DATABASE ENCRYPTION KEY`: another certificate, or a new key, whose scan continues in
    /// the background.
    pub(crate) fn alter(
        &self,
        (databases, keys): (&Databases, &Keys),
        name: &str,
        key: &EncryptionKey,
        out: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let found = user_database(databases, name)?;
        let encrypted = header(&found.path)?.is_some();
        if !encrypted && self.noted(name).is_none() {
            return Err(no_key());
        }
        if key.regenerate && encrypted {
            return self.regenerate(keys, &found, key, out);
        }
        if self.scans.is_running(&found.path) {
            return Err(ServerError::KeyIsChanging {}.into());
        }
        let certificate = match &key.certificate {
            Some(named) => Some(usable(keys, named, out)?),
            None => None,
        };
        if !encrypted {
            let algorithm = key.algorithm.as_deref().map(algorithm_of).transpose()?;
            if let Some(noted) = self.notes().get_mut(&name.to_lowercase()) {
                noted.algorithm = algorithm.unwrap_or(noted.algorithm);
                noted.certificate = certificate.unwrap_or_else(|| noted.certificate.clone());
            }
            return Ok(());
        }
        let Some(certificate) = certificate else { return Ok(()) };
        let Some(_taken) = databases.take(&found) else {
            return Err(ServerError::KeyNotLocked { name: name.to_owned() }.into());
        };
        let work = || {
            let unlocked = keys.open()?;
            let certificates = find_certificates(&unlocked, &[certificate])?;
            let watch = CancelledBy(out.cancel_flag());
            rewrap(&found.path, None, &certificates, &unlocked, &watch)?;
            Ok(())
        };
        work().map_err(|failure: RunError| fault::of_run(&failure))
    }

    /// `DROP DATABASE ENCRYPTION KEY`.
    pub(crate) fn drop_key(&self, databases: &Databases, name: &str) -> Result<(), Error> {
        let found = user_database(databases, name)?;
        if header(&found.path)?.is_some() {
            return Err(ServerError::KeyInUse {}.into());
        }
        self.notes().remove(&name.to_lowercase()).map(drop).ok_or_else(no_key)
    }

    /// `ALTER DATABASE`.
    pub(crate) fn alter_database(
        &self,
        (databases, keys): (&Databases, &Keys),
        name: &str,
        change: &AlterDatabase,
        out: &mut Progress<'_>,
    ) -> Result<(), Error> {
        match change {
            AlterDatabase::EncryptionOn => self.turn_on((databases, keys), name, out),
            AlterDatabase::EncryptionOff => self.turn_off((databases, keys), name, out),
            AlterDatabase::EncryptionSuspend => {
                let found = user_database(databases, name)?;
                match self.scans.suspend(&found.path) {
                    Ok(true) => Ok(()),
                    Ok(false) => tell(out, "The scan is halted. Its last step has not ended yet."),
                    Err(failure) => Err(of_scan(&found, failure)),
                }
            }
            AlterDatabase::EncryptionResume => {
                let found = user_database(databases, name)?;
                let unlocked = keys.open().map_err(|failure| fault::of_store(&failure))?;
                match self.scans.release(&found.path) {
                    Ok(true) => self.scan(&found, None, &unlocked, out).map(drop),
                    Ok(false) => Ok(()),
                    Err(failure) => Err(of_scan(&found, failure)),
                }
            }
            AlterDatabase::Recovery(model) => set_recovery(databases, name, model, out),
            AlterDatabase::ModifyFile(change) => {
                create::modify_file(databases, name, change)?;
                match change.sizes {
                    true => tell(out, "MODIFY FILE sets no size: files grow as they need."),
                    false => Ok(()),
                }
            }
            // Readers see the state at which they began, and hold up no writer.
            AlterDatabase::Set(option, value) if is_versioned(option) && value == "ON" => {
                databases.find(name).map(|_| ())
            }
            AlterDatabase::Set(option, _) => {
                Err(fault::feature(&format!("ALTER DATABASE SET {option}")))
            }
        }
    }

    /// Makes a new key, which is in force when the statement ends.
    fn regenerate(
        &self,
        keys: &Keys,
        found: &Found,
        key: &EncryptionKey,
        out: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let algorithm = key.algorithm.as_deref().map(algorithm_of).transpose()?;
        let unlocked = keys.open().map_err(|failure| fault::of_store(&failure))?;
        let changes = || Ok::<_, Error>(header(&found.path)?.is_some_and(|h| h.deks.len() > 1));
        if changes()? || !self.scan(found, algorithm, &unlocked, out)? {
            return Err(ServerError::KeyIsChanging {}.into());
        }
        Ok(())
    }

    fn scan(
        &self,
        found: &Found,
        algorithm: Option<Algorithm>,
        unlocked: &Arc<Unlocked>,
        out: &mut Progress<'_>,
    ) -> Result<bool, Error> {
        let started = self.scans.start(&found.path, algorithm, unlocked, out.cancel_flag());
        started.map_err(|failure| of_scan(found, failure))
    }

    /// Continues key changes in progress, when the server starts.
    pub(crate) fn go_on(&self, databases: &Databases, unlocked: &Arc<Unlocked>) {
        for found in databases.found().unwrap_or_default() {
            if let Ok(Some(header)) = header(&found.path) {
                self.scans.go_on(&found.path, &header, unlocked);
            }
        }
    }

    fn turn_on(
        &self,
        (databases, keys): (&Databases, &Keys),
        name: &str,
        out: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let found = &user_database(databases, name)?;
        if header(&found.path)?.is_some() {
            return Err(ServerError::IsEncrypted {}.into());
        }
        let noted = self.noted(&found.name).ok_or(ServerError::NoKeySet {})?;
        let certificate = usable(keys, &noted.certificate, out)?;
        let _taken = databases.take(found).ok_or_else(|| no_lock(found))?;
        let work = || {
            let unlocked = keys.open()?;
            let certificates = find_certificates(&unlocked, &[certificate])?;
            let form = Form::Encrypted { certificates, algorithm: noted.algorithm };
            let watch = CancelledBy(out.cancel_flag());
            Ok(convert(&found.path, &form, &Options::default(), &unlocked, &watch)?)
        };
        work().map_err(|failure| not_converted(&failure, found))?;
        self.notes().remove(&found.name.to_lowercase());
        Ok(())
    }

    fn turn_off(
        &self,
        (databases, keys): (&Databases, &Keys),
        name: &str,
        out: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let found = &user_database(databases, name)?;
        let Some(header) = header(&found.path)? else {
            return Err(ServerError::IsPlain {}.into());
        };
        if self.scans.is_running(&found.path) {
            return Err(ServerError::ScanInProgress {}.into());
        }
        let _taken = databases.take(found).ok_or_else(|| no_lock(found))?;
        let work = || {
            let watch = CancelledBy(out.cancel_flag());
            Ok(convert(&found.path, &Form::Plain, &Options::default(), &keys.open()?, &watch)?)
        };
        work().map_err(|failure| not_converted(&failure, found))?;
        // As in SQL Server, the database keeps a key until that is dropped.
        if let Some(certificate) = thumbprint_of(&header) {
            let noted = Noted {
                algorithm: header.algorithm,
                certificate,
                created_ms: tdekit_backup_run::labels::now_ms(),
            };
            self.notes().insert(found.name.to_lowercase(), noted);
        }
        Ok(())
    }

    fn notes(&self) -> MutexGuard<'_, HashMap<String, Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts the error of a scan.
fn of_scan(found: &Found, failure: DatabaseError) -> Error {
    match failure {
        DatabaseError::InUse { .. } => {
            ServerError::KeyNotLocked { name: found.name.clone() }.into()
        }
        other => fault::of_run(&other.into()),
    }
}

/// Returns the header of an encrypted database; `None` for a plain one.
pub(crate) fn header(path: &Path) -> Result<Option<Header>, Error> {
    let failed =
        |failure: &dyn std::fmt::Display| fault::own(format!("{}: {failure}", path.display()));
    let area = kept::area(path).map_err(|failure| failed(&failure))?;
    match FileKind::of(&area) {
        FileKind::Encrypted => header_of(path, &area).map(Some).map_err(|failure| failed(&failure)),
        _ => Ok(None),
    }
}

/// Returns 33111 if the key store has no private key of a certificate that wraps the key in force.
pub(crate) fn missing_certificate(path: &Path, keys: &Keys) -> Option<Error> {
    let header = header(path).ok()??;
    let wrapped = wrapped_of(&header.dek(header.current)?.recipients).ok()?;
    let store = keys.store().ok()?;
    let all = store.as_ref().map(KeyStore::certificates).unwrap_or_default();
    let has =
        |sha256: &[u8; 32]| all.iter().any(|info| info.has_private_key && info.sha256 == *sha256);
    if wrapped.iter().any(|one| has(&one.sha256)) {
        return None;
    }
    let thumbprint = wrapped.first()?.thumbprint();
    Some(ServerError::NoThumbprint { thumbprint }.into())
}

/// Returns the SHA-1 thumbprint of the first certificate that wraps the key in force.
pub(crate) fn thumbprint_of(header: &Header) -> Option<String> {
    let wrapped = wrapped_of(&header.dek(header.current)?.recipients).ok()?;
    wrapped.first().map(tdekit_key_store::WrappedDek::thumbprint)
}

/// `SET RECOVERY`. A full or differential backup since the model ceased to be simple begins a chain
/// of log backups.
fn set_recovery(
    databases: &Databases,
    name: &str,
    model: &str,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    if is_system(name) {
        let name = name.to_owned();
        return Err(ServerError::OptionOfSystem { option: "RECOVERY", name }.into());
    }
    let found = databases.find(name)?;
    let recovery = Recovery::of(model)
        .ok_or_else(|| Error::NotARecognizedOption { name: model.to_uppercase() })?;
    noted::change(&found.path, |noted| {
        let logged_since_ms = match (noted.recovery, recovery) {
            (_, Recovery::Simple) => None,
            (Recovery::Simple, _) => Some(now_ms()),
            (Recovery::Full | Recovery::BulkLogged, _) => noted.logged_since_ms,
        };
        Some(noted::Noted { recovery, logged_since_ms, ..noted })
    })?;
    match recovery {
        Recovery::Simple => Ok(()),
        Recovery::Full | Recovery::BulkLogged => tell(
            out,
            "BACKUP LOG can be used behind the next full or differential backup. Each log backup \
             holds the database as it is then: no point between two of them can be restored.",
        ),
    }
}

fn user_database(databases: &Databases, name: &str) -> Result<Found, Error> {
    if is_system(name) {
        return Err(ServerError::SystemNotEncrypted {}.into());
    }
    databases.find(name)
}

/// Returns the thumbprint of a certificate that wraps and unwraps, and warns if it is in no backup.
fn usable(keys: &Keys, named: &str, out: &mut Progress<'_>) -> Result<String, Error> {
    let work = || -> Result<_, RunError> {
        let unlocked = keys.open()?;
        Ok(find_certificates(&unlocked, &[named.to_owned()])?)
    };
    let found = work().map_err(|failure| match failure {
        RunError::Store(StoreError::CertificateMissing { .. }) => {
            fault::no_certificate("find", named)
        }
        failure => fault::of_run(&failure),
    })?;
    let info = found.first().ok_or_else(|| fault::no_certificate("find", named))?;
    warn_of(keys.operator(), std::slice::from_ref(info), out);
    Ok(info.thumbprint())
}

fn algorithm_of(name: &str) -> Result<Algorithm, Error> {
    let known = Algorithm::from_str(name).ok().filter(|algorithm| algorithm.seals_pages());
    known.ok_or_else(|| fault::feature(&format!("ENCRYPTION KEY WITH ALGORITHM = {name}")))
}

fn not_converted(failure: &RunError, found: &Found) -> Error {
    use tdekit_sqlite_convert::DatabaseError::{Converting, InUse};
    match failure {
        RunError::DatabaseFile(InUse { .. } | Converting { .. }) => no_lock(found),
        failure => fault::of_run(failure),
    }
}

fn no_lock(found: &Found) -> Error {
    ServerError::NotLocked { name: found.name.clone() }.into()
}

fn no_key() -> Error {
    ServerError::NoKey {}.into()
}

fn tell(out: &mut Progress<'_>, text: &str) -> Result<(), Error> {
    out.tell(Told::Own { text: text.to_owned() }.message());
    Ok(())
}

/// Returns true for the options by which readers see versions of rows.
fn is_versioned(option: &str) -> bool {
    matches!(option, "READ_COMMITTED_SNAPSHOT" | "ALLOW_SNAPSHOT_ISOLATION")
}
