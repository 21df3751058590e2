//! The crate's one error type: facts with fields.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use tdekit_backup_media::MediaError;
use tdekit_key_crypto::{CryptoError, Kind};
use tdekit_key_store::StoreError;
use tdekit_sqlite_convert::{DatabaseError, sqlite_kind};

use crate::ObjectFault;

/// Why a backup, a restore or a reading of media stopped. No variant carries a secret.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file or device failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The target has no room left.
    #[error("no space left for {}", .path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes there.
    #[error("{} is being written by another process", .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Something would be overwritten.
    #[error("{} exists already", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to read.
    #[error("there is nothing at {}", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A part of a media set is not there.
    #[error("{media} has no part {part}")]
    NoPart {
        /// The media.
        media: String,
        /// The part.
        part: u32,
    },
    /// A file ended before what its headers promise.
    #[error("{media} ends before offset {end}")]
    ShortRead {
        /// The media.
        media: String,
        /// Where the bytes that were asked for end.
        end: u64,
    },
    /// The file there is no media set.
    #[error("{media} is no media set of tdekit")]
    NotMedia {
        /// The media.
        media: String,
    },
    /// It was written by a newer program.
    #[error(
        "{media} has format version {version}, which is newer than those that this program reads"
    )]
    FutureVersion {
        /// The media.
        media: String,
        /// The version.
        version: u16,
    },
    /// Bytes of the media set are not what they must be.
    #[error("{media}: {what} is damaged: {reason}")]
    Damaged {
        /// The media.
        media: String,
        /// Which part of it, such as "block 7 of set 2".
        what: String,
        /// The fault in words.
        reason: String,
    },
    /// Bytes of the media set were changed by somebody who has not the key, or the key is wrong.
    #[error("{media}: {what} was changed: {reason}")]
    Tampered {
        /// The media.
        media: String,
        /// Which part of it.
        what: String,
        /// The condition that does not hold.
        reason: String,
    },
    /// The certificate unwraps a secret, and it is not that of the set under this header.
    #[error(
        "the header of set {position}, or a wrapped key in it, was changed: the key that the \
             certificate gives is not the key of the set"
    )]
    WrongKey {
        /// The set.
        position: u32,
    },
    /// The set is encrypted and no keys were given.
    #[error("set {position} is encrypted, and no key is at hand")]
    KeyNeeded {
        /// The set.
        position: u32,
    },
    /// There is no such set.
    #[error("the media set has no set at position {position}: it has {sets}")]
    NoSet {
        /// The position that was asked for; 0 for the last.
        position: u32,
        /// How many sets there are.
        sets: u32,
    },
    /// The media set holds several databases, and none was named.
    #[error("{media} holds sets of several databases: {}", .databases.join(", "))]
    SeveralDatabases {
        /// The media.
        media: String,
        /// Names; paths where databases have one name.
        databases: Vec<String>,
    },
    /// The media set has no set of the database that was named.
    #[error("{media} holds no set of database {database}, or not at that position")]
    NoSuchDatabase {
        /// The media.
        media: String,
        /// The name that was given.
        database: String,
    },
    /// The file to be replaced is another database than the set's.
    #[error("{} is not the database of set {position}, which is of {database}", .path.display())]
    OtherDatabase {
        /// The file.
        path: PathBuf,
        /// The set.
        position: u32,
        /// The database of the set.
        database: String,
    },
    /// It cannot be told which set was the last to be finished.
    #[error("{media}: its newest set cannot be told: {reason}")]
    NewestUnknown {
        /// The media.
        media: String,
        /// The fault at its end.
        reason: String,
    },
    /// Files of different media sets were given together.
    #[error("{media} is of another media set than {first}")]
    OtherMedia {
        /// The first file.
        first: String,
        /// The file that does not fit.
        media: String,
    },
    /// A file of a striped media set is not at hand.
    #[error("file {} of the {families} that the media set is striped over is missing", .family + 1)]
    MissingFamily {
        /// Its number, from 0.
        family: u16,
        /// How many there are.
        families: u16,
    },
    /// Targets do not fit the media set: another number of stripes, or mirrors that differ.
    #[error("the targets do not fit the media set: {reason}")]
    TargetsDiffer {
        /// The part that does not fit.
        reason: String,
    },
    /// The base of a differential set is not there or cannot serve.
    #[error("no base for a differential set: {reason}")]
    NoBase {
        /// Why.
        reason: String,
    },
    /// An encrypted set would join plain ones, or the reverse.
    #[error("the media set has {has} sets, and this one would be {wanted}")]
    MixedEncryption {
        /// "plain" or "encrypted".
        has: &'static str,
        /// The other of them.
        wanted: &'static str,
    },
    /// The set is not of the kind that was asked for.
    #[error("set {position} holds {holds}, which cannot be restored as {wanted}")]
    WrongSource {
        /// The set.
        position: u32,
        /// The kind of its content.
        holds: &'static str,
        /// As what it was to be restored.
        wanted: &'static str,
    },
    /// The database cannot be read.
    #[error("cannot {action} database {}: {source}", .path.display())]
    Database {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The database's file was replaced, cut or written past SQLite's locks during the backup.
    #[error("database {} was changed from outside during the backup: {reason}", .path.display())]
    SourceChanged {
        /// The database.
        path: PathBuf,
        /// The observation.
        reason: String,
    },
    /// The stream that is backed up failed.
    #[error("cannot read the stream: {source}")]
    Stream {
        /// The system's error.
        source: io::Error,
    },
    /// An object store did not do what was asked.
    #[error("cannot {action} {address}: {fault}")]
    Object {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The object.
        address: String,
        /// Why not.
        fault: ObjectFault,
    },
    /// An option cannot be honoured.
    #[error("{what}: {reason}")]
    Option {
        /// Which option.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The system gives no thread.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// A thread of the run failed in a way that is a fault of the program.
    #[error("internal fault: {0}")]
    Internal(&'static str),
    /// The key store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Cryptography failed.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// A database file.
    #[error(transparent)]
    DatabaseFile(DatabaseError),
    /// A place is named more than once.
    #[error("{place} is given twice")]
    GivenTwice {
        /// The place.
        place: String,
    },
    /// A media set would be read from standard input, which cannot be read twice.
    #[error("a media set is not read from standard input: write it to a file first")]
    StandardInput,
    /// A set that shall be plain is to be opened by certificates.
    #[error("a set that is not encrypted takes no certificate")]
    CertificateUnused,
    /// An encrypted set needs a certificate that opens it.
    #[error("an encrypted backup needs a certificate")]
    CertificateNeeded,
    /// Too many certificates were named.
    #[error("a set is encrypted for at most {most} certificates")]
    TooManyRecipients {
        /// How many there may be.
        most: usize,
    },
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
    /// An encrypted database would be restored where there is no key store, and nothing to open a
    /// new one with.
    #[error("{} was encrypted, and to encrypt it again for certificate {name} ({thumbprint}) a key \
             store is made, which needs a password or key", .path.display())]
    NoStoreYet {
        /// The database to be.
        path: PathBuf,
        /// Name of the certificate.
        name: String,
        /// Its thumbprint.
        thumbprint: String,
    },
    /// A set is encrypted, and there is no key store here.
    #[error(
        "set {position} is encrypted for {}, and there is no key store here",
        .certificates.join(", ")
    )]
    NoStoreHere {
        /// The set.
        position: u32,
        /// Names and thumbprints of the certificates that open it.
        certificates: Vec<String>,
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
        /// The record in the history.
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
    /// A set of unproven origin would take the place of an encrypted database.
    #[error("no certificate whose private key is in the key store signed the backup: anybody can \
             have made what would take the place of the encrypted database {}", .path.display())]
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
    /// SQLite's quick_check found the database that was read to be corrupt.
    #[error("{} is corrupt: {problem}; nothing was backed up", .path.display())]
    CorruptSource {
        /// The database.
        path: PathBuf,
        /// The first problem that SQLite found.
        problem: String,
    },
    /// All that stands there is whole, and the history could not be asked whether it is all.
    #[error("{media}: {finding}")]
    NotCompared {
        /// Name of the media set.
        media: String,
        /// The finding.
        finding: String,
    },
    /// Media sets that a scan met are damaged, or could not be read.
    #[error(
        "not all was recorded, or what was recorded is not whole: {unreadable} file(s) cannot be \
             read, and media sets have {findings} finding(s)"
    )]
    ScanUnsound {
        /// Files and directories that could not be read.
        unreadable: usize,
        /// Findings in those that could.
        findings: usize,
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
    /// The name is one that SQLite takes for its own, beside a database.
    #[error("{} has the name of a journal or log of a database beside it, which SQLite deletes",
        .path.display())]
    SideFile {
        /// The file.
        path: PathBuf,
    },
    /// A restore may not replace the file that is there.
    #[error("{} is {what}: nothing was replaced", .path.display())]
    NotReplaced {
        /// The file.
        path: PathBuf,
        /// What it is, in words.
        what: &'static str,
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

impl From<DatabaseError> for RunError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Store(error) => Self::Store(error),
            DatabaseError::Io { action, path, source } => Self::Io { action, path, source },
            other => Self::DatabaseFile(other),
        }
    }
}

/// Where in a media set something was found, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    /// The file or object.
    pub(crate) media: &'a str,
    /// Position of the set; 0 where it is not known.
    pub(crate) position: u32,
}

impl At<'_> {
    /// For `map_err`: what the codec says, here.
    pub(crate) fn error(self, error: MediaError) -> RunError {
        let media = self.media.to_owned();
        let what = match self.position {
            0 => "the media set".to_owned(),
            position => format!("set {position}"),
        };
        match error {
            MediaError::NotMedia => RunError::NotMedia { media },
            MediaError::FutureVersion { found, .. } => {
                RunError::FutureVersion { media, version: found }
            }
            MediaError::WrongKey => RunError::WrongKey { position: self.position },
            MediaError::Crypto(error) => RunError::Crypto(error),
            MediaError::Forged { .. }
            | MediaError::Authentication { .. }
            | MediaError::Signature
            | MediaError::Chain { .. } => {
                RunError::Tampered { media, what, reason: error.to_string() }
            }
            _ => RunError::Damaged { media, what, reason: error.to_string() },
        }
    }
}

impl RunError {
    /// The kind of the error, which decides exit codes and hints.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Io { .. }
            | Self::NoSpace { .. }
            | Self::Missing { .. }
            | Self::Thread { .. }
            | Self::Stream { .. } => Kind::Io,
            Self::Locked { .. } | Self::SourceChanged { .. } => Kind::Busy,
            Self::Exists { .. }
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
            | Self::WasEncrypted { .. }
            | Self::OntoMedia { .. }
            | Self::SideFile { .. }
            | Self::NotReplaced { .. }
            | Self::Downgrade { .. }
            | Self::Unauthenticated { .. }
            | Self::WouldBeRefused { .. }
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
            | Self::NothingReadable { .. } => Kind::Damaged,
            Self::KeyNeeded { .. }
            | Self::NoCertificate { .. }
            | Self::NoStoreYet { .. }
            | Self::NoStoreHere { .. }
            | Self::NotSigned { .. } => Kind::Key,
            Self::NotVerified { .. } | Self::NotCompared { .. } => Kind::NotVerified,
            Self::ScanUnsound { .. } | Self::CorruptSource { .. } => Kind::Damaged,
            Self::OtherMedia { .. }
            | Self::WrongSource { .. }
            | Self::Option { .. }
            | Self::GivenTwice { .. }
            | Self::StandardInput
            | Self::CertificateUnused
            | Self::CertificateNeeded
            | Self::TooManyRecipients { .. } => Kind::Usage,
            Self::Database { source, .. } => database_kind(source),
            Self::Store(error) => error.kind(),
            Self::DatabaseFile(error) => error.kind(),
            Self::Object { fault, .. } => fault.kind(),
        }
    }

    /// For `map_err`: a failed system call on a path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            _ => Self::Io { action, path, source },
        }
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
