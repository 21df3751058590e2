//! Errors of the key store, of the backup engine and of databases, as SQL Server numbers and words
//! them.

use std::io;

use tdekit_key_store::StoreError;
use tdekit_sqlite_convert::DatabaseError;
use tdekit_wire_tds::Message;
use tdekit_wire_tsql::Error;

use tdekit_backup_run::RunError;

/// What has no number of SQL Server's.
pub(crate) const OWN: i32 = 50_000;

/// An error of class 16. The front end adds the line.
pub(crate) fn error(number: i32, text: impl Into<String>) -> Error {
    raised(number, 16, text)
}

/// An error that SQL Server does not know.
pub(crate) fn own(text: impl Into<String>) -> Error {
    error(OWN, text)
}

/// An error of another class.
pub(crate) fn raised(number: i32, class: u8, text: impl Into<String>) -> Error {
    let mut message = Message::new(number, class, 1, text);
    message.line = 0;
    Error::Raised(Box::new(message))
}

/// A message that tells, and is no error.
pub(crate) fn told(number: i32, text: impl Into<String>) -> Message {
    Message::new(number, 0, 1, text)
}

/// A feature that is not there, by its name.
pub(crate) fn feature(what: &str) -> Error {
    Error::NotSupportedFeature { what: what.to_owned() }
}

/// `DATABASE` that is not there.
pub(crate) fn unknown_database(name: &str) -> Error {
    Error::UnknownDatabase { name: name.to_owned() }
}

/// No master key, or none that is open.
pub(crate) fn no_master_key() -> Error {
    error(
        15581,
        "Please create a master key in the database or open the master key in the session before \
         performing this operation.",
    )
}

/// A certificate that a statement names and that is not there.
pub(crate) fn no_certificate(verb: &str, name: &str) -> Error {
    let text = format!(
        "Cannot {verb} the certificate '{name}', because it does not exist or you do not have \
         permission."
    );
    error(15151, text)
}

/// What the key store says.
pub(crate) fn of_store(failure: &StoreError) -> Error {
    match failure {
        StoreError::Missing { .. }
        | StoreError::NoProvider { .. }
        | StoreError::ProviderMismatch { .. } => no_master_key(),
        StoreError::WrongPassword | StoreError::WrongKey { .. } => {
            error(15313, "The key is not encrypted using the specified decryptor.")
        }
        StoreError::AlreadyExists { .. } => error(
            15578,
            "There is already a master key in the database. Please drop it before performing this \
             statement.",
        ),
        StoreError::CertificateMissing { wanted } => no_certificate("find", &wanted.join(", ")),
        StoreError::PrivateKeyMissing { name, .. } => error(
            33101,
            format!(
                "Cannot use certificate '{name}', because its private key is not present or it is \
                 not protected by the database master key. SQL Server requires the ability to \
                 automatically access the private key of the certificate used for this operation."
            ),
        ),
        StoreError::CertificateExists { name } => error(
            15232,
            format!(
                "A certificate with name '{name}' already exists or this certificate already has \
                 been added to the database."
            ),
        ),
        StoreError::CertificateInUse { .. } => error(
            15352,
            "The certificate cannot be dropped because one or more entities are either signed or \
             encrypted using it.",
        ),
        StoreError::WrongBackupPassword { .. } => {
            error(15465, "The private key password is invalid.")
        }
        StoreError::BadCertificate { .. } | StoreError::KeyMismatch { .. } => {
            error(15297, "The certificate, asymmetric key, or private key data is invalid.")
        }
        other => own(other.to_string()),
    }
}

/// A device that the system does not open.
pub(crate) fn device(path: &str, source: &io::Error) -> Error {
    let code = source.raw_os_error().unwrap_or(match source.kind() {
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::PermissionDenied => 5,
        _ => 0,
    });
    // SQL Server shows Windows' numbers, on Linux too.
    let (code, words) = match code {
        2 => (2, "The system cannot find the file specified.".to_owned()),
        5 | 13 => (5, "Access is denied.".to_owned()),
        20 => (3, "The system cannot find the path specified.".to_owned()),
        28 => (112, "There is not enough space on the disk.".to_owned()),
        other => (other, source.kind().to_string()),
    };
    let text =
        format!("Cannot open backup device '{path}'. Operating system error {code}({words}).");
    error(3201, text)
}

/// What the engine of backups says, of databases too.
pub(crate) fn of_run(failure: &RunError) -> Error {
    match failure {
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
        | RunError::ShortRead { media, .. } => error(
            3241,
            format!(
                "The media family on device '{media}' is incorrectly formed. SQL Server cannot \
                 process this media family."
            ),
        ),
        RunError::Damaged { media, what, reason } | RunError::Tampered { media, what, reason } => {
            error(3203, format!("Read on \"{media}\" failed: {what}: {reason}"))
        }
        RunError::WrongKey { .. } => error(3203, failure.to_string()),
        RunError::NoSet { position, .. } => {
            error(4038, format!("Cannot find file ID {position} on device."))
        }
        RunError::Locked { path } => {
            let busy = format!(
                "Cannot open backup device '{}'. Operating system error 32(The process cannot \
                 access the file because it is being used by another process.).",
                path.display()
            );
            error(3201, busy)
        }
        RunError::MixedEncryption { has: "plain", .. } => error(
            3095,
            "The backup cannot be performed because 'ENCRYPTION' was requested after the media \
             was formatted with an incompatible structure. To append to this media set, either \
             omit 'ENCRYPTION' or create a new media set by using WITH FORMAT in your BACKUP \
             statement. If you use WITH FORMAT on an existing media set, all its backup sets will \
             be overwritten.",
        ),
        RunError::MixedEncryption { .. } => error(
            3095,
            "The backup cannot be performed because 'ENCRYPTION' was omitted and the media holds \
             encrypted backup sets. Name 'ENCRYPTION', or create a new media set by using WITH \
             FORMAT in your BACKUP statement.",
        ),
        RunError::TargetsDiffer { reason } => error(
            3132,
            format!("The media set does not fit the devices that are specified: {reason}."),
        ),
        RunError::MissingFamily { family, families } => error(
            3132,
            format!(
                "The media set has {families} media families but only some are provided: family {} \
                 is missing. All members must be provided.",
                family + 1
            ),
        ),
        RunError::Store(StoreError::CertificateMissing { wanted }) => error(
            33111,
            format!(
                "Cannot find server certificate with thumbprint '{}'.",
                wanted.first().map_or("", String::as_str)
            ),
        ),
        RunError::Store(store) => of_store(store),
        RunError::DatabaseFile(DatabaseError::InUse { .. } | DatabaseError::Converting { .. }) => {
            error(3101, "Exclusive access could not be obtained because the database is in use.")
        }
        RunError::Cancelled => raised(3204, 16, "The backup or restore was aborted."),
        other => own(other.to_string()),
    }
}
