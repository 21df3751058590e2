//! What stops work on backups, its exit code and its hint.

use std::path::PathBuf;

use rusqlite::ErrorCode;
use tdekit_backup_run::{ObjectFault, RunError};

use crate::convert::error::sqlite_exit;
use crate::error::{Exit, store_exit, store_hint};

/// An error of a backup command that the engine does not know of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    /// Media that would be overwritten hold sets that are still wanted.
    #[error("{media} holds {sets} set(s) that have not expired")]
    NotExpired {
        /// The media.
        media: String,
        /// How many.
        sets: usize,
    },
    /// An encrypted database would be restored, and it is not known for whom.
    #[error("{} was encrypted, and no certificate that it could be encrypted with again is in the \
             key store", .path.display())]
    NoCertificate {
        /// The database to be.
        path: PathBuf,
    },
    /// Sets do not hold what was written.
    #[error("{damaged} of {sets} set(s) of {media} are damaged")]
    DamagedSets {
        /// The media.
        media: String,
        /// How many are.
        damaged: usize,
        /// How many were checked.
        sets: usize,
    },
    /// A signature that is there does not hold.
    #[error("a signature on set {position} does not hold: it was changed after it was signed")]
    WrongSignature {
        /// The set.
        position: u32,
    },
    /// A signature that was asked for is not there.
    #[error("set {position} has no signature by certificate {certificate}")]
    NotSigned {
        /// The set.
        position: u32,
        /// Whose was asked for.
        certificate: String,
    },
    /// A restored file would take the place of its own backup.
    #[error("{} is the backup itself", .path.display())]
    OntoMedia {
        /// The file.
        path: PathBuf,
    },
}

impl BackupError {
    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NotExpired { .. } | Self::OntoMedia { .. } => Exit::Error,
            Self::NoCertificate { .. } | Self::NotSigned { .. } => Exit::Key,
            Self::DamagedSets { .. } | Self::WrongSignature { .. } => Exit::Damaged,
        }
    }

    /// What the user may do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotExpired { .. } => {
                "--append keeps them and adds a set; --init --replace overwrites them"
            }
            Self::NoCertificate { .. } => {
                "--certificate NAME encrypts it for another one; --plain restores it in the clear"
            }
            Self::DamagedSets { .. } => "a mirror or an earlier set may still be whole",
            Self::WrongSignature { .. } => "do not restore it unless you know who changed it",
            Self::NotSigned { .. } => "`tdekit inspect` shows the signatures that there are",
            Self::OntoMedia { .. } => return None,
        })
    }
}

/// The exit code of what the engine says.
pub(crate) fn run_exit(error: &RunError) -> Exit {
    match error {
        RunError::Io { .. }
        | RunError::NoSpace { .. }
        | RunError::Missing { .. }
        | RunError::Thread { .. }
        | RunError::Stream { .. } => Exit::Io,
        RunError::Locked { .. } | RunError::SourceChanged { .. } => Exit::Busy,
        RunError::Exists { .. }
        | RunError::NoSet { .. }
        | RunError::MissingFamily { .. }
        | RunError::TargetsDiffer { .. }
        | RunError::NoBase { .. }
        | RunError::MixedEncryption { .. }
        | RunError::Cancelled
        | RunError::Internal(_)
        | RunError::Crypto(_)
        | RunError::Other(_) => Exit::Error,
        RunError::NoPart { .. }
        | RunError::ShortRead { .. }
        | RunError::NotMedia { .. }
        | RunError::FutureVersion { .. }
        | RunError::Damaged { .. }
        | RunError::Tampered { .. } => Exit::Damaged,
        RunError::WrongKey { .. } | RunError::KeyNeeded { .. } => Exit::Key,
        RunError::OtherMedia { .. } | RunError::WrongSource { .. } | RunError::Option { .. } => {
            Exit::Usage
        }
        RunError::Database { source, .. } => database_exit(source),
        RunError::Store(error) => store_exit(error),
        RunError::Object { fault, .. } => object_exit(fault),
    }
}

fn object_exit(fault: &ObjectFault) -> Exit {
    match fault {
        ObjectFault::Configuration { .. } => Exit::Usage,
        ObjectFault::Changed => Exit::Busy,
        ObjectFault::Exists => Exit::Error,
        ObjectFault::Leftover { fault, .. } => object_exit(fault),
        ObjectFault::NoBucket
        | ObjectFault::NoObject
        | ObjectFault::Denied { .. }
        | ObjectFault::Unreachable { .. }
        | ObjectFault::TimedOut { .. }
        | ObjectFault::Failed { .. }
        | ObjectFault::Refused { .. } => Exit::Io,
    }
}

fn database_exit(error: &rusqlite::Error) -> Exit {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Exit::Busy,
        Some(ErrorCode::DiskFull) => Exit::Io,
        Some(ErrorCode::NotADatabase) => Exit::Damaged,
        _ => sqlite_exit(error),
    }
}

/// What the user may do about what the engine says.
pub(crate) fn run_hint(error: &RunError) -> Option<String> {
    let hint = match error {
        RunError::Exists { .. } | RunError::Object { fault: ObjectFault::Exists, .. } => {
            "--append adds a set to it; --init --replace puts a new media set in its place"
        }
        RunError::Locked { .. } => "try again when it is done",
        RunError::Object { fault: ObjectFault::Denied { .. }, .. } => {
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the like \
             tell who you are and where: docs/object-stores.md"
        }
        RunError::Object { fault: ObjectFault::NoBucket, .. } => {
            "make the bucket first; AWS_ENDPOINT_URL names a server other than Amazon's"
        }
        RunError::NoSpace { .. } => "free some space, then try again; earlier sets are whole",
        RunError::SourceChanged { .. } => "find out what writes to it besides SQLite",
        RunError::FutureVersion { .. } => "use the newer tdekit that wrote it",
        RunError::NotMedia { .. } => "`tdekit status` tells what a database file is",
        RunError::Damaged { .. } => "name its mirror as well, or restore an earlier set",
        RunError::KeyNeeded { .. } => {
            "--certificate-file and --key-file, or --pkcs12, name a key that is in no key store"
        }
        RunError::NoSet { .. } => "`tdekit inspect` shows what there is",
        RunError::MissingFamily { .. } => "name all files that it was striped over",
        RunError::NoBase { .. } => {
            "make a full set in the same media set first; copy-only sets do not count"
        }
        RunError::MixedEncryption { .. } => "--mixed allows it",
        RunError::Store(error) => return store_hint(error),
        RunError::Io { .. }
        | RunError::Object { .. }
        | RunError::Thread { .. }
        | RunError::Missing { .. }
        | RunError::NoPart { .. }
        | RunError::ShortRead { .. }
        | RunError::Tampered { .. }
        | RunError::WrongKey { .. }
        | RunError::OtherMedia { .. }
        | RunError::TargetsDiffer { .. }
        | RunError::WrongSource { .. }
        | RunError::Database { .. }
        | RunError::Stream { .. }
        | RunError::Option { .. }
        | RunError::Cancelled
        | RunError::Internal(_)
        | RunError::Crypto(_)
        | RunError::Other(_) => return None,
    };
    Some(hint.to_owned())
}
