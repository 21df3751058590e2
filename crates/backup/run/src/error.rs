//! The crate's error type.

pub(crate) mod archive;
mod kind;
mod record;

pub use archive::ArchiveError;
pub use record::RecordFault;

use std::io;
use std::path::{Path, PathBuf};

use tdekit_backup_media::MediaError;
use tdekit_key_crypto::CryptoError;
use tdekit_key_store::StoreError;
use tdekit_sqlite_convert::DatabaseError;

use crate::ObjectFault;

/// Reason why a backup, a restore or a reading of media stopped. No variant carries a secret.
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
    /// The target has no space left.
    #[error("no space left for {}", .path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes to the file.
    #[error("{} is being written by another process", .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The operation would overwrite a file.
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
    /// A part of a media set is missing.
    #[error("{media} has no part {part}")]
    NoPart {
        /// The media.
        media: String,
        /// The part.
        part: u32,
    },
    /// A file ended before the length in its headers.
    #[error("{media} ends before offset {end}")]
    ShortRead {
        /// The media.
        media: String,
        /// End of the requested bytes.
        end: u64,
    },
    /// The file is not a media set.
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
    /// Bytes of the media set are wrong.
    #[error("{media}: {what} is damaged: {reason}")]
    Damaged {
        /// The media.
        media: String,
        /// The damaged part, such as "block 7 of set 2".
        what: String,
        /// The fault in words.
        reason: String,
    },
    /// A set's base is at the place that the history names, but cannot be opened.
    #[error("{media}: the base of set {position} cannot be read: {reason}")]
    BaseUnread {
        /// The media of the set.
        media: String,
        /// Position of the set.
        position: u32,
        /// The error of opening the base.
        reason: String,
    },
    /// Somebody without the key changed bytes of the media set, or the key is wrong.
    #[error("{media}: {what} was changed: {reason}")]
    Tampered {
        /// The media.
        media: String,
        /// The changed part.
        what: String,
        /// The violated condition.
        reason: String,
    },
    /// The certificate unwraps a secret, but it is not that of the set with this header.
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
        /// The requested position; 0 for the last.
        position: u32,
        /// Number of sets.
        sets: u32,
    },
    /// The media set holds several databases, and none was named.
    #[error("{media} holds sets of several databases: {}", .databases.join(", "))]
    SeveralDatabases {
        /// The media.
        media: String,
        /// Names; paths if databases have the same name.
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
    /// The file to replace is another database than the set's.
    #[error("{} is not the database of set {position}, which is of {database}", .path.display())]
    OtherDatabase {
        /// The file.
        path: PathBuf,
        /// The set.
        position: u32,
        /// The database of the set.
        database: String,
    },
    /// The set that was finished last cannot be determined.
    #[error("{media}: its newest set is not known: {reason}")]
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
    /// A file of a striped media set is missing.
    #[error("file {} of the {families} that the media set is striped over is missing", .family + 1)]
    MissingFamily {
        /// Its number, from 0.
        family: u16,
        /// Number of files.
        families: u16,
    },
    /// Targets do not match the media set: another number of stripes, or mirrors that differ.
    #[error("the targets do not fit the media set: {reason}")]
    TargetsDiffer {
        /// The mismatch.
        reason: String,
    },
    /// The base of a differential set or of a log backup is missing or not usable.
    #[error("it has no base: {reason}")]
    NoBase {
        /// The reason.
        reason: String,
    },
    /// A media set that others need would be replaced, or changed.
    #[error("{media} is needed: {reason}")]
    Needed {
        /// The media set.
        media: String,
        /// The set that stands on it, or the reason to keep it.
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
    /// The set is not of the requested kind.
    #[error("set {position} holds {holds}, which cannot be restored as {wanted}")]
    WrongSource {
        /// The set.
        position: u32,
        /// The kind of its content.
        holds: &'static str,
        /// The requested kind.
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
    /// The database's file was replaced, truncated or written without SQLite's locks during the
    /// backup.
    #[error("database {} was changed from outside during the backup: {reason}", .path.display())]
    SourceChanged {
        /// The database.
        path: PathBuf,
        /// The observation.
        reason: String,
    },
    /// The stream being backed up failed.
    #[error("cannot read the stream: {source}")]
    Stream {
        /// The system's error.
        source: io::Error,
    },
    /// An object store did not perform an operation.
    #[error("cannot {action} {address}: {fault}")]
    Object {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The object.
        address: String,
        /// The fault.
        fault: ObjectFault,
    },
    /// An option cannot be honoured.
    #[error("{what}: {reason}")]
    Option {
        /// The option.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The system cannot start a thread.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// A thread of the run failed because of a bug in the program.
    #[error("internal fault: {0}")]
    Internal(&'static str),
    /// The key store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Cryptography failed.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// An error of a database file.
    #[error(transparent)]
    DatabaseFile(DatabaseError),
    /// An error of an archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A place is named more than once.
    #[error("{place} is given twice")]
    GivenTwice {
        /// The place.
        place: String,
    },
    /// A media set would be read from standard input, which cannot be read twice.
    #[error("a media set is not read from standard input: write it to a file first")]
    StandardInput,
    /// Certificates were named for a set that must be plain.
    #[error("a set that is not encrypted takes no certificate")]
    CertificateUnused,
    /// An encrypted set needs a certificate that opens it.
    #[error("an encrypted backup needs a certificate")]
    CertificateNeeded,
    /// Too many certificates were named.
    #[error("a set is encrypted for at most {most} certificates")]
    TooManyRecipients {
        /// Maximum number of certificates.
        most: usize,
    },
    /// Media to overwrite contain sets that have not expired.
    #[error("{media} holds {sets} set(s) that have not expired")]
    NotExpired {
        /// The media.
        media: String,
        /// Number of these sets.
        sets: usize,
    },
    /// Media to overwrite cannot be read whole, so it is not known that all sets have expired.
    #[error("{media} cannot be read whole, so nothing shows that its sets have expired: {reason}")]
    Unclear {
        /// The media.
        media: String,
        /// The fault.
        reason: String,
    },
    /// Nothing is left of media that the history knows.
    #[error("{media} is empty, and the backup history knows {sets} set(s) there")]
    Emptied {
        /// The media.
        media: String,
        /// Number of these sets.
        sets: usize,
    },
    /// A file is already at the place, and is never overwritten.
    #[error("{place} exists already, and {why}")]
    Taken {
        /// The place.
        place: String,
        /// The reason in words.
        why: &'static str,
    },
    /// An encrypted database would be restored, but no recipient is known.
    #[error("{} was encrypted, and no certificate that it could be encrypted with again is in the \
             key store", .path.display())]
    NoCertificate {
        /// The new database.
        path: PathBuf,
    },
    /// An encrypted database would be restored, but there is no key store, and no secret for a new
    /// one.
    #[error("{} was encrypted, and to encrypt it again for certificate {name} ({thumbprint}) a key \
             store is made, which needs a password or key", .path.display())]
    NoStoreYet {
        /// The new database.
        path: PathBuf,
        /// Name of the certificate.
        name: String,
        /// Its thumbprint.
        thumbprint: String,
    },
    /// A set is encrypted, but there is no key store here.
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
    /// Sets do not contain what was written.
    #[error("{damaged} of {sets} set(s) of {media} are damaged")]
    DamagedSets {
        /// The media.
        media: String,
        /// Number of damaged sets.
        damaged: usize,
        /// Number of checked sets.
        sets: usize,
    },
    /// The checked sets are whole, but the media set is not.
    #[error("{media} is not as it was written: {first}{}", more(*.findings))]
    Unsound {
        /// The media.
        media: String,
        /// Number of findings.
        findings: usize,
        /// The first.
        first: String,
    },
    /// Mirrors have different blocks, each of which is whole.
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
    /// An append would cut off the remains of a set that the history knows.
    #[error(
        "{media} ends with what looks unfinished, and the backup history knows set {position} \
             there, finished {finished}: an append would cut off what is left of it"
    )]
    CutsFinished {
        /// The media.
        media: String,
        /// Position of the set.
        position: u32,
        /// Time of its completion.
        finished: String,
    },
    /// An append would go on from an older state of a media set.
    #[error(
        "{media} is an older state of its media set: the backup history knows set {position}, \
             finished {finished}, which is not there"
    )]
    OlderState {
        /// The media.
        media: String,
        /// Position of the newest set.
        position: u32,
        /// Time of its completion.
        finished: String,
    },
    /// No set can be read completely.
    #[error("{media} holds no set that can be restored")]
    NothingReadable {
        /// The media.
        media: String,
    },
    /// A plain database would replace an encrypted one.
    #[error("the backup is plain, and {} is an encrypted database", .path.display())]
    Downgrade {
        /// The database.
        path: PathBuf,
    },
    /// A set of unproven origin would replace an encrypted database.
    #[error("no certificate whose private key is in the key store signed the backup: anybody can \
             have made what would take the place of the encrypted database {}", .path.display())]
    Unauthenticated {
        /// The database.
        path: PathBuf,
    },
    /// The set would lack a property that the configuration requires.
    #[error("[backup] require in config.toml asks for {lacks}")]
    WouldBeRefused {
        /// The missing property, and how to get it.
        lacks: &'static str,
    },
    /// The configuration requires encrypted sets.
    #[error("set {position} is not encrypted, as [backup] require in config.toml asks for")]
    PlainSet {
        /// The set.
        position: u32,
    },
    /// Encrypted sets were checked without a key.
    #[error(
        "{closed} of {sets} set(s) are not verified: without a key only structure and \
             checksums were checked, and neither their content nor who changed them"
    )]
    NotVerified {
        /// Number of sets that were not opened.
        closed: usize,
        /// Number of checked sets.
        sets: usize,
    },
    /// SQLite's quick_check found that the database is corrupt.
    #[error("{} is corrupt: {problem}; nothing was backed up", .path.display())]
    CorruptSource {
        /// The database.
        path: PathBuf,
        /// The first problem that SQLite found.
        problem: String,
    },
    /// An operation on the backup history failed.
    #[error(transparent)]
    History(Box<RunError>),
    /// The history cannot be read, and it alone shows that no set is lacking, or where the base of
    /// a set is.
    #[error("{media}: {finding}")]
    NotCompared {
        /// Name of the media set.
        media: String,
        /// The finding.
        finding: String,
        /// True if another program writes the history.
        is_busy: bool,
    },
    /// Media sets found by a scan are damaged, or could not be read.
    #[error(
        "not all was recorded, or what was recorded is not whole: {unreadable} file(s) cannot be \
             read, and media sets have {findings} finding(s)"
    )]
    ScanUnsound {
        /// Files and directories that could not be read.
        unreadable: usize,
        /// Findings in those that could be read.
        findings: usize,
    },
    /// A signature is invalid.
    #[error("a signature on set {position} does not hold: it was changed after it was signed")]
    WrongSignature {
        /// The set.
        position: u32,
    },
    /// A requested signature is missing.
    #[error("set {position} has no signature by certificate {certificate}")]
    NotSigned {
        /// The set.
        position: u32,
        /// Certificate of the requested signer.
        certificate: String,
    },
    /// Plain media, or none, are where the key store knows encrypted ones.
    #[error("{media} was encrypted when it was last written, and what is there now is not")]
    WasEncrypted {
        /// The media.
        media: String,
    },
    /// SQLite uses this name for its own files beside a database.
    #[error("{} has a name that SQLite or tdekit gives to a file of the database beside it, and \
        deletes", .path.display())]
    SideFile {
        /// The file.
        path: PathBuf,
    },
    /// A restore may not replace the existing file.
    #[error("{} is {what}: nothing was replaced", .path.display())]
    NotReplaced {
        /// The file.
        path: PathBuf,
        /// The kind of the file, in words.
        what: &'static str,
    },
    /// No rule says what to keep.
    #[error("no rule says what to keep")]
    NoRule,
    /// What would be removed changed after it was judged.
    #[error("{media} was changed meanwhile, and was kept")]
    ChangedMeanwhile {
        /// The media.
        media: String,
    },
    /// Media sets could not be removed.
    #[error("{failed} media set(s) could not be removed: {first}")]
    NotPruned {
        /// Number of these media sets.
        failed: usize,
        /// The first reason.
        first: Box<RunError>,
    },
    /// Media sets were kept because they could not be judged.
    #[error(
        "{media} media set(s) have findings and {unreadable} file(s) cannot be read: they were \
             kept, and count for no rule"
    )]
    KeptUnsound {
        /// Media sets with findings.
        media: usize,
        /// Files, objects and directories that could not be read.
        unreadable: usize,
    },
    /// Sets that no rule keeps are in a media set with others.
    #[error("{sets} set(s) of {media} could go, and stay: sets cannot be taken out of a media set")]
    SetsStay {
        /// The media.
        media: String,
        /// Number of these sets.
        sets: usize,
    },
    /// The media were removed by `prune`.
    #[error("there is nothing at {media}: `prune` removed it at {at}")]
    Pruned {
        /// The media.
        media: String,
        /// Time of the removal.
        at: String,
    },
    /// A restored file would replace its own backup.
    #[error("{} is the backup itself", .path.display())]
    OntoMedia {
        /// The file.
        path: PathBuf,
    },
}

/// Formats the number of findings that are not listed.
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

/// The place of a finding in a media set, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    /// The file or object.
    pub(crate) media: &'a str,
    /// Position of the set; 0 if it is not known.
    pub(crate) position: u32,
}

impl At<'_> {
    /// For `map_err`: converts the codec's error at this place.
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
    /// Returns true if another program holds the lock of a database of SQLite.
    pub(crate) fn is_busy(&self) -> bool {
        let code = self.sqlite().and_then(rusqlite::Error::sqlite_error_code);
        code == Some(rusqlite::ErrorCode::DatabaseBusy)
    }

    /// Returns SQLite's error, of the history too.
    pub(crate) fn sqlite(&self) -> Option<&rusqlite::Error> {
        match self {
            Self::Database { source, .. } => Some(source),
            Self::History(error) => error.sqlite(),
            _ => None,
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
