//! Errors of archives.

use std::path::PathBuf;

use tdekit_key_crypto::Kind;

use super::record::{CLOSED, OTHER_FILE, RecordFault};

/// Why a chain begins where nothing is recorded of the objects before it.
pub(crate) const NO_RECORD: &str = "there is no record here of what the archive holds";

/// Why the first chain of an archive begins.
pub(crate) const FIRST: &str = "the archive is empty";

/// Reason why an archive is not written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The database has no write-ahead log.
    #[error("{} is in journal mode {mode}, which has no log to ship", .path.display())]
    NotWal {
        /// The database.
        path: PathBuf,
        /// Its journal mode.
        mode: String,
    },
    /// The database has no page.
    #[error("{} is empty: there is nothing to ship", .path.display())]
    NoDatabase {
        /// The database.
        path: PathBuf,
    },
    /// Another process follows the database.
    #[error("another process ships the log of {}", .path.display())]
    Followed {
        /// The database.
        path: PathBuf,
    },
    /// Another process keeps a standby up.
    #[error("another process keeps {} up", .path.display())]
    KeptUp {
        /// The standby.
        path: PathBuf,
    },
    /// A standby follows another archive.
    #[error("{} is a standby of {archive}", .path.display())]
    OtherArchive {
        /// The standby.
        path: PathBuf,
        /// Its archive.
        archive: String,
    },
    /// A database has another page size in the archive.
    #[error("{} has pages of {own} bytes, the archive's new chain of {page_size}", .path.display())]
    OtherPageSize {
        /// The standby.
        path: PathBuf,
        /// Its page size.
        own: u32,
        /// The archive's page size.
        page_size: u32,
    },
    /// A standby is encrypted and the database of the archive is not, or the reverse.
    #[error("{} is {}", .path.display(), standby_form(*.is_encrypted))]
    OtherStandby {
        /// The standby.
        path: PathBuf,
        /// True if it is encrypted.
        is_encrypted: bool,
    },
    /// This process follows the database already.
    #[error("{} is a file that this process follows under another name", .path.display())]
    FollowedTwice {
        /// The database.
        path: PathBuf,
    },
    /// The database was encrypted or decrypted: its keys, and those of its sets, are others now.
    #[error("{} {}", .path.display(), form(*.is_encrypted))]
    OtherForm {
        /// The database.
        path: PathBuf,
        /// True if it is encrypted now.
        is_encrypted: bool,
    },
    /// An encrypted set would join the plain ones of an archive, or the reverse.
    #[error("{archive} has {has} sets, and this one would be {wanted}")]
    OtherEncryption {
        /// The archive.
        archive: String,
        /// "plain" or "encrypted".
        has: &'static str,
        /// The other of them.
        wanted: &'static str,
    },
    /// A file that is not a record of replication has the name of one.
    #[error("{} has the name of a record of replication, and is not one", .path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
    },
    /// The archive holds sets that nothing here has recorded.
    #[error(
        "the last of the {objects} object(s) of {archive} was not shipped from here: it is of \
             database {database} on {host}"
    )]
    Foreign {
        /// The archive.
        archive: String,
        /// Number of its objects.
        objects: usize,
        /// The database of the last one.
        database: String,
        /// The host that shipped it.
        host: String,
    },
    /// Another process wrote the next object.
    #[error("{object} was written by another process: it ships to the same archive")]
    Overtaken {
        /// The object.
        object: String,
    },
    /// The index of the log cannot be used.
    #[error("the log of {} cannot be followed: {reason}", .path.display())]
    NoIndex {
        /// The database.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// Transactions in the log cannot be read just now.
    #[error("what was committed last to {} is not shipped: {reason}", .path.display())]
    NotShipped {
        /// The database.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The log does not hold what its index says.
    #[error("the log of {} cannot be read: {reason}", .path.display())]
    Log {
        /// The database.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// There is no archive.
    #[error("{archive} holds no archive")]
    Empty {
        /// The place.
        archive: String,
    },
    /// An object of a chain is missing.
    #[error("{object} is missing")]
    MissingObject {
        /// The object.
        object: String,
    },
    /// The newest objects are missing: the record beside the database has one that was shipped.
    #[error(
        "{object} is missing: {} says that {} shipped",
        .record.display(), were(*.first, *.last)
    )]
    LacksShipped {
        /// The first of them.
        object: String,
        /// Its number.
        first: u64,
        /// The number of the last one.
        last: u64,
        /// The record.
        record: PathBuf,
    },
    /// Objects of an older chain are missing that were there when a newer one began.
    #[error("{object} is missing: {}, and object {by} was shipped behind", lost(*.first, *.last))]
    Lost {
        /// The first of them.
        object: String,
        /// Its number.
        first: u64,
        /// The number of the last one.
        last: u64,
        /// The number of the full set behind them, which says so.
        by: u64,
    },
    /// The record beside a database is there and cannot be read.
    #[error(
        "{} {reason}: nothing shows whether objects that were shipped last are missing",
        .record.display()
    )]
    UnreadRecord {
        /// The record.
        record: PathBuf,
        /// The reason.
        reason: RecordFault,
    },
    /// The system does not let a process write the record beside its database.
    #[error("cannot open {}: {reason}", .record.display())]
    RecordRefused {
        /// The record.
        record: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The directory in which an archive is to be made is not there.
    #[error("cannot make {}: {} is not there", .path.display(), .parent.display())]
    NoParent {
        /// The archive.
        path: PathBuf,
        /// The directory.
        parent: PathBuf,
    },
    /// None of the keys at hand opens an object.
    #[error(
        "{object} is sealed for {}, and no private key at hand is theirs",
        .certificates.join(", ")
    )]
    Closed {
        /// The object.
        object: String,
        /// Names and thumbprints of its certificates, as its header has them.
        certificates: Vec<String>,
    },
    /// An object is not what belongs to its place.
    #[error("{object} {reason}")]
    Misplaced {
        /// The object.
        object: String,
        /// The faults.
        reason: String,
    },
    /// A page does not become the one that was shipped.
    #[error(
        "{object}: page {page} of transaction {number}.{transaction} does not follow its state \
         before"
    )]
    WrongState {
        /// The object.
        object: String,
        /// Its number.
        number: u64,
        /// The transaction in it, from 1.
        transaction: u32,
        /// Number of the page.
        page: u32,
    },
    /// The archive does not reach back that far.
    #[error("{archive} begins later: its first point is {first}")]
    TooEarly {
        /// The archive.
        archive: String,
        /// The first point.
        first: String,
    },
    /// Objects are missing that may hold transactions up to the time that was asked for.
    #[error(
        "objects {first} to {last} of {archive} are not there: what was committed up to that time \
         is not known{}",
        begun_behind(why)
    )]
    Hole {
        /// The archive.
        archive: String,
        /// Number of the first missing object.
        first: u64,
        /// Number of the last one.
        last: u64,
        /// Why the chain behind them was begun, as its full set says; empty if that is not known.
        why: String,
    },
    /// `prune` has removed objects that a point needs, and has not ended.
    #[error(
        "objects {first} to {last} of {archive} are not there: `prune` has begun to remove their \
         chain"
    )]
    Removed {
        /// The archive.
        archive: String,
        /// Number of the first object that is gone.
        first: u64,
        /// Number of the last one.
        last: u64,
        /// True if an object of the archive is before them.
        has_before: bool,
    },
    /// Bytes of an object are not as they were written.
    #[error("{fault}")]
    Damaged {
        /// The fault in words, which name the object.
        fault: String,
    },
    /// Everything that is there is whole, and nothing shows whether the newest objects are missing.
    #[error("{archive}: {finding}")]
    NotCompared {
        /// The archive.
        archive: String,
        /// The fault of the record that would show it.
        finding: String,
    },
    /// There is no such transaction.
    #[error("{archive} has no transaction {transaction}")]
    NoTransaction {
        /// The archive.
        archive: String,
        /// As it was asked for.
        transaction: String,
    },
    /// A log set alone is no database.
    #[error("{media} holds transactions of a log, and not the database that they belong to")]
    LogAlone {
        /// The object.
        media: String,
    },
    /// A signature on an object does not hold.
    #[error("{object}: its signature does not hold: it was changed after it was signed")]
    WrongSignature {
        /// The object.
        object: String,
    },
    /// An object lacks the signature that was asked for.
    #[error("{object} has no signature by certificate {certificate}")]
    NotSigned {
        /// The object.
        object: String,
        /// The certificate.
        certificate: String,
    },
    /// A backup was to be written to an object of an archive.
    #[error("{object} is an object of an archive, which holds what `replicate` shipped, no more")]
    NoBackupThere {
        /// The object.
        object: String,
    },
    /// No chain has an object up to which it is whole.
    #[error("{archive} has no point that can be restored: {first}{}", more(*.findings))]
    NothingGood {
        /// The archive.
        archive: String,
        /// The first finding.
        first: String,
        /// The object that it is about.
        object: String,
        /// Number of findings.
        findings: usize,
    },
    /// Objects of an archive are damaged or missing.
    #[error("{archive} is not whole: {first}{}", more(*.findings))]
    NotWhole {
        /// The archive.
        archive: String,
        /// The first finding.
        first: String,
        /// Number of findings.
        findings: usize,
    },
}

fn form(is_encrypted: bool) -> &'static str {
    match is_encrypted {
        true => "is encrypted now, and was plain before",
        false => "is plain now, and was encrypted before",
    }
}

fn standby_form(is_encrypted: bool) -> &'static str {
    match is_encrypted {
        true => "encrypted, and the database of the archive's new chain is plain",
        false => "plain, and the database of the archive's new chain is encrypted",
    }
}

fn begun_behind(why: &str) -> String {
    match why {
        "" => String::new(),
        why => format!("; the chain behind them was begun with this reason: {why}"),
    }
}

fn before(first: u64) -> String {
    format!("--at {} restores the last transaction before them", first.saturating_sub(1))
}

fn encryption_hint(wanted: &str) -> &'static str {
    match wanted {
        "plain" => "--certificate NAME encrypts them; a plain one goes to another archive",
        _ => "name another archive with --to; --encryption none goes on in the clear",
    }
}

fn were(first: u64, last: u64) -> String {
    match first == last {
        true => "it was".to_owned(),
        false => format!("objects {first} to {last} were"),
    }
}

fn lost(first: u64, last: u64) -> String {
    match first == last {
        true => format!("object {first} was lost"),
        false => format!("objects {first} to {last} were lost"),
    }
}

fn more(findings: usize) -> String {
    match findings.saturating_sub(1) {
        0 => String::new(),
        others => format!(", and {others} more finding(s)"),
    }
}

impl ArchiveError {
    /// Returns the kind of the error, which determines exit codes.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotWal { .. }
            | Self::NoDatabase { .. }
            | Self::OtherArchive { .. }
            | Self::OtherPageSize { .. }
            | Self::OtherStandby { .. }
            | Self::OtherEncryption { .. }
            | Self::Foreign { .. }
            | Self::TooEarly { .. }
            | Self::Hole { .. }
            | Self::Removed { .. }
            | Self::NoBackupThere { .. }
            | Self::NotARecord { .. }
            | Self::NoTransaction { .. } => Kind::Refused,
            Self::NotSigned { .. } | Self::Closed { .. } => Kind::Key,
            Self::Followed { .. }
            | Self::KeptUp { .. }
            | Self::FollowedTwice { .. }
            | Self::OtherForm { .. }
            | Self::Overtaken { .. }
            | Self::NotShipped { .. }
            | Self::NoIndex { .. } => Kind::Busy,
            Self::Empty { .. } | Self::RecordRefused { .. } | Self::NoParent { .. } => Kind::Io,
            Self::LogAlone { .. } => Kind::Usage,
            Self::NotCompared { .. } => Kind::NotVerified,
            Self::Log { .. }
            | Self::MissingObject { .. }
            | Self::LacksShipped { .. }
            | Self::Lost { .. }
            | Self::UnreadRecord { .. }
            | Self::Misplaced { .. }
            | Self::WrongState { .. }
            | Self::WrongSignature { .. }
            | Self::NothingGood { .. }
            | Self::Damaged { .. }
            | Self::NotWhole { .. } => Kind::Damaged,
        }
    }

    /// Returns what a user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotWal { path, .. } => format!(
                "`PRAGMA journal_mode = WAL` makes one, once and for all connections: sqlite3 {} \
                 \"PRAGMA journal_mode = WAL\"",
                path.display()
            ),
            Self::NoDatabase { .. } => "restore it, or make its tables first".to_owned(),
            Self::OtherEncryption { wanted, .. } => encryption_hint(wanted).to_owned(),
            Self::NotARecord { .. } => OTHER_FILE.to_owned(),
            Self::OtherStandby { is_encrypted: false, .. } => {
                "--plain keeps it plain; otherwise remove its file and the one with the ending \
                 -standby, and begin anew"
                    .to_owned()
            }
            Self::OtherArchive { .. } | Self::OtherPageSize { .. } | Self::OtherStandby { .. } => {
                "remove its file and the one with the ending -standby, and begin anew".to_owned()
            }
            Self::Followed { .. } | Self::KeptUp { .. } => {
                "end that process first; one is enough".to_owned()
            }
            Self::NotShipped { .. } => {
                "`tdekit replicate` ships it while the log still has it".to_owned()
            }
            Self::Foreign { .. } => "name another archive, or --take-over where nothing ships to \
                                     this one any more: a new chain begins behind what is there"
                .to_owned(),
            Self::Overtaken { .. } => {
                "let one process ship to an archive; --take-over continues with this one".to_owned()
            }
            Self::MissingObject { .. }
            | Self::LacksShipped { .. }
            | Self::Misplaced { .. }
            | Self::Damaged { .. }
            | Self::WrongSignature { .. } => {
                "`tdekit verify ARCHIVE` lists all that is wrong; --at latest-good restores up to \
                 the last object that is whole"
                    .to_owned()
            }
            Self::Closed { .. } => "--pkcs12 or --certificate-file names a certificate with its \
                                    private key; `tdekit cert list` shows those of the key store"
                .to_owned(),
            Self::NotWhole { .. } => {
                "--at latest-good restores up to the last object that is whole".to_owned()
            }
            Self::NothingGood { .. } => {
                "`tdekit verify ARCHIVE` lists all that is wrong".to_owned()
            }
            Self::NoBackupThere { .. } => "name another file; `tdekit replicate` ships to an \
                                           archive"
                .to_owned(),
            Self::LogAlone { .. } => "restore its archive: name the directory or prefix".to_owned(),
            Self::Empty { .. } => "`tdekit replicate` makes one".to_owned(),
            Self::UnreadRecord { reason, .. } => reason.hint().to_owned(),
            Self::NotCompared { .. } => {
                "`tdekit replicate status DATABASE` shows what that record has".to_owned()
            }
            Self::RecordRefused { .. } => CLOSED.to_owned(),
            Self::NoParent { .. } => "make it, or mount what belongs there: of an archive in a \
                                      directory, only the last directory is made"
                .to_owned(),
            Self::NoTransaction { .. }
            | Self::TooEarly { .. }
            | Self::Removed { has_before: false, .. } => {
                "`tdekit replicate status ARCHIVE` shows what is there".to_owned()
            }
            Self::Hole { first, .. } | Self::Lost { first, .. } | Self::Removed { first, .. } => {
                before(*first)
            }
            Self::WrongState { .. } => {
                "--at latest-good restores what is before the first object that is wrong; `tdekit \
                 replicate` begins a new chain after its record beside the database, with the \
                 ending -replica, is removed"
                    .to_owned()
            }
            Self::FollowedTwice { .. }
            | Self::OtherForm { .. }
            | Self::NotSigned { .. }
            | Self::NoIndex { .. }
            | Self::Log { .. } => return None,
        })
    }
}
