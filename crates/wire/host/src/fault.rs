//! Errors of the key store, of the backup engine and of databases, with SQL Server's numbers and
//! texts. The table of wire-tds has numbers and texts.

use std::io;

use tdekit_backup_run::RunError;
use tdekit_key_store::StoreError;
use tdekit_sqlite_convert::DatabaseError;
use tdekit_wire_tds::messages::ServerError;
use tdekit_wire_tsql::Error;

use super::files::NoPath;

/// Makes an error that SQL Server does not have.
pub(crate) fn own(text: impl Into<String>) -> Error {
    ServerError::Own { text: text.into() }.into()
}

/// Makes the error of a missing feature, by its name.
pub(crate) fn feature(what: &str) -> Error {
    Error::NotSupportedFeature { what: what.to_owned() }
}

/// Makes the error of a `DATABASE` that does not exist.
pub(crate) fn unknown_database(name: &str) -> Error {
    Error::UnknownDatabase { name: name.to_owned() }
}

/// Makes the error of a missing or locked master key.
pub(crate) fn no_master_key() -> Error {
    ServerError::NoMasterKey {}.into()
}

/// Makes the error of a named certificate that does not exist.
pub(crate) fn no_certificate(verb: &'static str, name: &str) -> Error {
    ServerError::NoCertificate { verb, name: name.to_owned() }.into()
}

/// Converts errors of the key store.
pub(crate) fn of_store(failure: &StoreError) -> Error {
    let error = match failure {
        StoreError::Missing { .. }
        | StoreError::NoProvider { .. }
        | StoreError::ProviderMismatch { .. } => ServerError::NoMasterKey {},
        StoreError::WrongPassword | StoreError::WrongKey { .. } => ServerError::WrongDecryptor {},
        StoreError::AlreadyExists { .. } => ServerError::MasterKeyExists {},
        StoreError::CertificateMissing { wanted } => {
            ServerError::NoCertificate { verb: "find", name: wanted.join(", ") }
        }
        StoreError::PrivateKeyMissing { name, .. } => {
            ServerError::NoPrivateKey { name: name.clone() }
        }
        StoreError::CertificateExists { name } => {
            ServerError::CertificateExists { name: name.clone() }
        }
        StoreError::CertificateInUse { .. } => ServerError::CertificateInUse {},
        StoreError::NotBackedUp { name, .. } => {
            ServerError::CertificateNotBackedUp { name: name.clone() }
        }
        StoreError::WrongBackupPassword { .. } => ServerError::WrongKeyPassword {},
        StoreError::BadCertificate { .. } | StoreError::KeyMismatch { .. } => {
            ServerError::BadCertificate {}
        }
        other => ServerError::Own { text: other.to_string() },
    };
    error.into()
}

/// Makes the error of a device that the system does not open.
pub(crate) fn device(path: &str, source: &io::Error) -> ServerError {
    let (code, words) = system(source);
    ServerError::Device { path: path.to_owned(), code, words }
}

/// Returns the error of a file that somebody else has open.
pub(crate) fn shared() -> io::Error {
    // EBUSY of Linux.
    io::Error::from_raw_os_error(16)
}

/// Returns number and words of a system's error, as Windows has them.
pub(crate) fn system(source: &io::Error) -> (i32, String) {
    // A path of a statement that names no file here.
    if source.get_ref().is_some_and(|inner| inner.is::<NoPath>()) {
        let code = if source.kind() == io::ErrorKind::PermissionDenied { 5 } else { 3 };
        return (code, source.to_string());
    }
    let code = source.raw_os_error().unwrap_or(match source.kind() {
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::PermissionDenied => 5,
        io::ErrorKind::NotADirectory => 20,
        _ => 0,
    });
    let (code, words) = match code {
        2 => (2, "The system cannot find the file specified.".to_owned()),
        5 | 13 => (5, "Access is denied.".to_owned()),
        16 => (32, USED.to_owned()),
        20 => (3, "The system cannot find the path specified.".to_owned()),
        28 => (112, "There is not enough space on the disk.".to_owned()),
        other => (other, source.kind().to_string()),
    };
    (code, words)
}

const USED: &str =
    "The process cannot access the file because it is being used by another process.";

/// Converts errors of the backup engine, including those of databases.
pub(crate) fn of_run(failure: &RunError) -> Error {
    let error = match failure {
        RunError::Io { path, source, .. } => device(&path.display().to_string(), source),
        RunError::Missing { path } => {
            device(&path.display().to_string(), &io::ErrorKind::NotFound.into())
        }
        RunError::NoSpace { path } => {
            let full = io::Error::from_raw_os_error(28);
            device(&path.display().to_string(), &full)
        }
        RunError::NotMedia { media }
        | RunError::FutureVersion { media, .. }
        | RunError::ShortRead { media, .. } => ServerError::NoMedia { device: media.clone() },
        RunError::Damaged { media, what, reason } | RunError::Tampered { media, what, reason } => {
            let (media, what, reason) = (media.clone(), what.clone(), reason.clone());
            ServerError::Unreadable { media, what, reason }
        }
        // Damage of a signed set is met by its signature, which covers every block.
        RunError::WrongKey { .. } | RunError::WrongSignature { .. } => {
            ServerError::Forged { detail: failure.to_string() }
        }
        RunError::NoSet { position, .. } => ServerError::NoSet { position: *position },
        RunError::Locked { path } => device(&path.display().to_string(), &shared()),
        RunError::MixedEncryption { has: "plain", .. } => ServerError::PlainMedia {},
        RunError::MixedEncryption { .. } => ServerError::EncryptedMedia {},
        RunError::TargetsDiffer { reason } => ServerError::OtherDevices { reason: reason.clone() },
        RunError::MissingFamily { family, families } => {
            ServerError::MissingFamily { family: family + 1, families: *families }
        }
        RunError::Store(StoreError::CertificateMissing { wanted }) => {
            ServerError::NoThumbprint { thumbprint: wanted.first().cloned().unwrap_or_default() }
        }
        RunError::Store(store) => return of_store(store),
        RunError::DatabaseFile(DatabaseError::InUse { .. } | DatabaseError::Converting { .. }) => {
            ServerError::Exclusive {}
        }
        RunError::Cancelled => ServerError::Aborted {},
        RunError::Downgrade { .. } | RunError::Unauthenticated { .. } => ServerError::Own {
            text: format!(
                "{failure}. No statement takes it all the same; `tdekit restore` has options for \
                 that."
            ),
        },
        other => ServerError::Own { text: other.to_string() },
    };
    error.into()
}
