//! The kinds of errors.

use rusqlite::ErrorCode;
use tdekit_key_crypto::Kind;
use tdekit_sqlite_convert::sqlite_kind;

use crate::RunError;
use crate::error::ArchiveError;

impl RunError {
    /// Returns the kind of the error, which determines exit codes and hints.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Io { .. }
            | Self::NoSpace { .. }
            | Self::Missing { .. }
            | Self::Thread { .. }
            | Self::Stream { .. }
            | Self::Pruned { .. } => Kind::Io,
            Self::Locked { .. } | Self::SourceChanged { .. } | Self::ChangedMeanwhile { .. } => {
                Kind::Busy
            }
            Self::Exists { .. }
            | Self::Taken { .. }
            | Self::NoSet { .. }
            | Self::SeveralDatabases { .. }
            | Self::NoSuchDatabase { .. }
            | Self::OtherDatabase { .. }
            | Self::MissingFamily { .. }
            | Self::TargetsDiffer { .. }
            | Self::NoBase { .. }
            | Self::MixedEncryption { .. }
            | Self::Cancelled
            | Self::Internal(_)
            | Self::Crypto(_)
            | Self::NotExpired { .. }
            | Self::Needed { .. }
            | Self::WasEncrypted { .. }
            | Self::OntoMedia { .. }
            | Self::SideFile { .. }
            | Self::NotReplaced { .. }
            | Self::Downgrade { .. }
            | Self::Unauthenticated { .. }
            | Self::WouldBeRefused { .. }
            | Self::SetsStay { .. }
            | Self::PlainSet { .. } => Kind::Refused,
            Self::NoPart { .. }
            | Self::ShortRead { .. }
            | Self::NotMedia { .. }
            | Self::FutureVersion { .. }
            | Self::NewestUnknown { .. }
            | Self::WrongKey { .. }
            | Self::Damaged { .. }
            | Self::Tampered { .. }
            | Self::DamagedSets { .. }
            | Self::WrongSignature { .. }
            | Self::Unsound { .. }
            | Self::MirrorsDiffer { .. }
            | Self::LacksNewest { .. }
            | Self::CutsFinished { .. }
            | Self::OlderState { .. }
            | Self::BaseUnread { .. }
            | Self::Unclear { .. }
            | Self::Emptied { .. }
            | Self::NothingReadable { .. } => Kind::Damaged,
            Self::KeyNeeded { .. }
            | Self::NoCertificate { .. }
            | Self::NoStoreYet { .. }
            | Self::NoStoreHere { .. }
            | Self::NotSigned { .. } => Kind::Key,
            Self::NotCompared { is_busy: true, .. } => Kind::Busy,
            Self::NotVerified { .. } | Self::NotCompared { .. } => Kind::NotVerified,
            Self::History(error) => history_kind(error),
            Self::ScanUnsound { .. } | Self::CorruptSource { .. } | Self::KeptUnsound { .. } => {
                Kind::Damaged
            }
            Self::NotPruned { first, .. } => first.kind(),
            Self::OtherMedia { .. }
            | Self::WrongSource { .. }
            | Self::Option { .. }
            | Self::GivenTwice { .. }
            | Self::StandardInput
            | Self::CertificateUnused
            | Self::CertificateNeeded
            | Self::NoRule
            | Self::TooManyRecipients { .. } => Kind::Usage,
            Self::Database { source, .. } => database_kind(source),
            Self::Store(error) => error.kind(),
            Self::DatabaseFile(error) => error.kind(),
            Self::Object { fault, .. } => fault.kind(),
            Self::Archive(error) => error.kind(),
        }
    }
}

impl RunError {
    /// Returns an error of bytes as one of an object of an archive, of which nothing is mirrored:
    /// what helps is a point before it.
    #[must_use]
    pub fn in_archive(self) -> Self {
        match self {
            Self::Damaged { .. } | Self::Tampered { .. } | Self::ShortRead { .. } => {
                ArchiveError::Damaged { fault: self.to_string() }.into()
            }
            error => error,
        }
    }

    /// Returns true if bytes of a set are not as they were written.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Damaged { .. }
                | Self::Tampered { .. }
                | Self::ShortRead { .. }
                | Self::NoPart { .. }
                | Self::WrongKey { .. }
                | Self::WrongSignature { .. }
        )
    }
}

/// A history that cannot be read is of one kind, whatever the reason, unless another program writes
/// it. One that can be read, and not written, has the kind of the failure.
fn history_kind(error: &RunError) -> Kind {
    let RunError::Database { action, source, .. } = error else { return Kind::NotVerified };
    match (database_kind(source), *action) {
        (Kind::Busy, _) => Kind::Busy,
        (Kind::Damaged, _) | (_, "open" | "read") => Kind::NotVerified,
        (kind, _) => kind,
    }
}

fn database_kind(error: &rusqlite::Error) -> Kind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Kind::Busy,
        Some(ErrorCode::DiskFull) => Kind::Io,
        Some(ErrorCode::NotADatabase) => Kind::Damaged,
        _ => sqlite_kind(error),
    }
}
