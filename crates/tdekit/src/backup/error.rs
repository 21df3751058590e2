//! What stops work on backups, and its hint.

use std::path::PathBuf;

use tdekit_backup_run::{ObjectFault, RunError};
use tdekit_key_crypto::Kind;

use crate::hint::store_hint;

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
    /// The sets that were checked are whole, and the media set is not.
    #[error("{media} is not as it was written: {first}{}", more(*.findings))]
    Unsound {
        /// The media.
        media: String,
        /// How many findings there are.
        findings: usize,
        /// The first.
        first: String,
    },
    /// Mirrors hold different blocks, and each is whole.
    #[error("the mirrors hold different blocks of set {position}")]
    MirrorsDiffer {
        /// The set.
        position: u32,
    },
    /// The history knows a newer set than the media set has.
    #[error("{media} lacks its newest set: {told}")]
    LacksNewest {
        /// The media.
        media: String,
        /// What the history knows.
        told: String,
    },
    /// An append would cut off what is left of a set that the history knows.
    #[error(
        "{media} ends with what looks unfinished, and the backup history knows set {position} \
             there, finished {finished}: an append would cut off what is left of it"
    )]
    CutsFinished {
        /// The media.
        media: String,
        /// Position of the set.
        position: u32,
        /// When it was finished.
        finished: String,
    },
    /// Not one set can be read whole.
    #[error("{media} holds no set that can be restored")]
    NothingReadable {
        /// The media.
        media: String,
    },
    /// A plain database would take the place of an encrypted one.
    #[error("the backup is plain, and {} is an encrypted database", .path.display())]
    Downgrade {
        /// The database.
        path: PathBuf,
    },
    /// What anybody can have made would take the place of an encrypted database.
    #[error("the backup is plain and not signed: anybody can have made what would take the place \
             of the encrypted database {}", .path.display())]
    Unauthenticated {
        /// The database.
        path: PathBuf,
    },
    /// The configuration asks for what the set to be made would not have.
    #[error("[backup] require in config.toml asks for {lacks}")]
    WouldBeRefused {
        /// For what, and how it is made.
        lacks: &'static str,
    },
    /// The configuration asks for encrypted sets.
    #[error("set {position} is not encrypted, as [backup] require in config.toml asks for")]
    PlainSet {
        /// The set.
        position: u32,
    },
    /// Encrypted sets were looked at without a key.
    #[error(
        "{closed} of {sets} set(s) are not verified: without a key only structure and \
             checksums were checked, and neither their content nor who changed them"
    )]
    NotVerified {
        /// How many were not opened.
        closed: usize,
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
    /// Plain media, or none, stand where the key store knows encrypted ones.
    #[error("{media} was encrypted when it was last written, and what is there now is not")]
    WasEncrypted {
        /// The media.
        media: String,
    },
    /// A restored file would take the place of its own backup.
    #[error("{} is the backup itself", .path.display())]
    OntoMedia {
        /// The file.
        path: PathBuf,
    },
}

/// How many findings are not told.
fn more(findings: usize) -> String {
    match findings.saturating_sub(1) {
        0 => String::new(),
        others => format!(", and {others} more finding(s)"),
    }
}

impl BackupError {
    /// What it means to whoever asked.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::NotExpired { .. }
            | Self::WasEncrypted { .. }
            | Self::OntoMedia { .. }
            | Self::Downgrade { .. }
            | Self::Unauthenticated { .. }
            | Self::WouldBeRefused { .. }
            | Self::PlainSet { .. } => Kind::Refused,
            Self::NoCertificate { .. } | Self::NotSigned { .. } => Kind::Key,
            Self::DamagedSets { .. }
            | Self::WrongSignature { .. }
            | Self::Unsound { .. }
            | Self::MirrorsDiffer { .. }
            | Self::LacksNewest { .. }
            | Self::CutsFinished { .. }
            | Self::NothingReadable { .. } => Kind::Damaged,
            Self::NotVerified { .. } => Kind::NotVerified,
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
            Self::Unsound { .. } => {
                "`tdekit verify --json` tells all findings; restore takes a set at a --position"
            }
            Self::MirrorsDiffer { .. } => "name the one whose content you trust, alone",
            Self::LacksNewest { .. } => {
                "--position names a set; --latest-readable takes the newest that is here"
            }
            Self::CutsFinished { .. } => {
                "nothing was cut off: put a whole copy of the file back, or begin a new media set"
            }
            Self::NothingReadable { .. } | Self::WouldBeRefused { .. } => return None,
            Self::Downgrade { .. } => {
                "--certificate NAME keeps it encrypted; --plain restores it in the clear"
            }
            Self::Unauthenticated { .. } => {
                "--signed-by NAME restores what that certificate signed; --allow-unauthenticated \
                 restores it whoever made it"
            }
            Self::PlainSet { .. } => {
                "where you know who made it, restore takes it with --allow-unauthenticated"
            }
            Self::NotVerified { .. } => {
                "--certificate-file or --pkcs12 names a key that is in no key store; \
                 --checksums-only asks for no more"
            }
            Self::NotSigned { .. } => "`tdekit inspect` shows the signatures that there are",
            Self::WasEncrypted { .. } => {
                "find out who put it there; --certificate NAME encrypts the new set, and \
                 --encryption none says that it shall be plain"
            }
            Self::OntoMedia { .. } => return None,
        })
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
        RunError::NewestUnknown { .. } => {
            "--position names a set; --latest-readable takes the newest that is left"
        }
        RunError::TargetsDiffer { .. } => {
            "nothing was cut off: name files of one state, or begin a new media set"
        }
        RunError::KeyNeeded { .. } => {
            "--certificate-file and --key-file, or --pkcs12, name a key that is in no key store"
        }
        RunError::NoSet { .. } => "`tdekit inspect` shows what there is",
        RunError::MissingFamily { .. } => "name all files that it was striped over",
        RunError::NoBase { .. } => {
            "make a full set in the same media set first; copy-only sets do not count"
        }
        RunError::MixedEncryption { wanted: "plain", .. } => {
            "without --encryption it is encrypted as they are; a plain one goes to other media"
        }
        RunError::MixedEncryption { .. } => {
            "name other media with --to, or begin anew with --init once all sets have expired"
        }
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
