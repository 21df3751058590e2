//! Hints for errors of the libraries. The libraries do not know the command, so the texts that name
//! its options are here.

use std::path::Path;

use tdekit_backup_run::{Notice, ObjectFault, RunError};
use tdekit_key_crypto::Kind;
use tdekit_key_store::{NAMED_KEYS, StoreError, USES_FILE_NAME};
use tdekit_sqlite_convert::{CutShort, DatabaseError};
use tdekit_sqlite_page::PageError;

use crate::output;

const NO_AGENT: &str =
    "`tdekit agent` starts one; unset TDEKIT_AGENT_SOCK to give the password itself";

const ONLY_SERVICE: &str =
    "`tdekit key provider add` adds a second secret, which opens the key store without the service";
const OTHER_SECRET: &str = "give another secret that opens it, such as by --password-file or \
     --key-file; `tdekit key provider list` shows them";
const COPY_OF_NAMED_KEYS: &str = "put named-keys-NAMESPACE.json back from a copy of the store's \
     directory; `tdekit key backup` does not include it";
const ONLY_FORGOTTEN: &str = "if none of them exists any more, --force drops it; a file that does \
     needs it, or a backup of it";
const NEW_HISTORY: &str = "move history.db away; `tdekit history --scan DIRECTORY` makes it anew";
const BUSY_HISTORY: &str = "another program writes history.db: try again when it is done";
const STILL_NEEDED: &str = "wrap these files' keys by another certificate first; --force drops it \
     all the same, and then nothing opens them but a backup of the certificate";

/// Hints for errors of the key store.
pub fn store_hint(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::NoHome => "name the directory with --store or TDEKIT_HOME",
        StoreError::Missing { .. } => {
            "make one with `tdekit key init`, or name another directory with --store or \
             TDEKIT_HOME; `tdekit init FILE` makes it with a certificate, and encrypts FILE"
        }
        StoreError::AlreadyExists { .. } => {
            "`tdekit encrypt FILE --certificate NAME` encrypts with it; `tdekit key status` shows \
             it; `tdekit key rotate` changes its master key or password"
        }
        StoreError::WrongPassword => {
            "if it is lost, `tdekit key restore` sets a new one from a backup of the master key"
        }
        StoreError::Agent { .. } => NO_AGENT,
        StoreError::AgentOnlyOpens => "give it by --password-file or --key-file, or on a terminal",
        StoreError::NoProvider { .. } | StoreError::ProviderMismatch { .. } => {
            "`tdekit --help` lists the ways to give a password or key"
        }
        StoreError::Service { others, .. } if others.is_empty() => ONLY_SERVICE,
        StoreError::Service { .. } => OTHER_SECRET,
        StoreError::OtherServiceKey { .. } => {
            "`tdekit key provider list` shows the keys; `tdekit key provider add` adds another"
        }
        StoreError::NoServiceProgram { .. } => {
            "`tdekit` itself needs none: this is for what loads the extension or the plugin"
        }
        StoreError::InsecureFile { path, threat, .. } => return Some(chmod(path, threat)),
        StoreError::ForeignOwner { .. } => "`chown` it: it must be root's, or yours",
        StoreError::CertificateMissing { .. } => {
            "`tdekit cert list` shows what is there; `tdekit cert restore` takes one from a backup"
        }
        StoreError::OtherCertificate { .. } => "`tdekit inspect` shows whose certificate it takes",
        StoreError::PrivateKeyMissing { .. } => "`tdekit cert restore` adds it from its backup",
        StoreError::CertificateExpired { .. } => {
            "`tdekit cert rotate` makes a new one under the same name"
        }
        StoreError::CertificateInUse { files, .. } if files.is_empty() => ONLY_FORGOTTEN,
        StoreError::CertificateInUse { .. } => STILL_NEEDED,
        StoreError::NotBackedUp { .. } => {
            "back it up with `tdekit cert backup`, or lose it for good with --force"
        }
        StoreError::CertificateExists { .. } => {
            "`tdekit cert list` shows it. `tdekit cert rotate` makes a new one under its name; \
             `tdekit cert restore OTHERNAME` takes one from elsewhere under another name"
        }
        StoreError::Corrupt { field, .. } if *field == USES_FILE_NAME => {
            "move it away; `tdekit rewrap` and `tdekit backup` note a database or a media set \
             again, and until then `tdekit cert drop` does not know of them"
        }
        StoreError::Corrupt { field, .. } if *field == NAMED_KEYS => COPY_OF_NAMED_KEYS,
        StoreError::Corrupt { .. } => {
            "`tdekit key restore --replace` puts a backup in its place and keeps the damaged file"
        }
        StoreError::FutureVersion { .. } => "use the newer tdekit that wrote it",
        StoreError::Locked { .. } | StoreError::BeingWritten { .. } => "try again when it is done",
        StoreError::MasterKeyChanged => "run the command again",
        StoreError::SeveralProtectors { .. } => {
            "remove the others (`tdekit key provider list`, `remove ID`), then add them again"
        }
        StoreError::DifferentStore { .. } => {
            "it may also be of the same store, from before its master key was rotated; --replace \
             puts the backup in its place and keeps the store that is there under another name"
        }
        StoreError::NotLogged { .. } => NO_LOG,
        StoreError::WrongKey { .. }
        | StoreError::BadSecret { .. }
        | StoreError::Config { .. }
        | StoreError::BadCertificate { .. }
        | StoreError::WrongBackupPassword { .. }
        | StoreError::KeyMismatch { .. }
        | StoreError::InvalidValue { .. }
        | StoreError::UnknownMechanism { .. }
        | StoreError::WrappedKeyDamaged { .. }
        | StoreError::Exists { .. }
        | StoreError::Io { .. }
        | StoreError::Crypto(_) => return None,
    };
    Some(hint.to_owned())
}

fn chmod(path: &Path, threat: &str) -> String {
    let bits = if threat == "read" { "600" } else { "go-w" };
    format!("chmod {bits} {}", output::shell_path(path))
}

/// Remedy if a database was emptied, and its log was not.
fn emptied(log: &Path) -> String {
    let log = output::shell_path(log);
    format!(
        "SQLite removes {log} when it opens the empty file: put the file back that the log belongs \
         to; or, if nothing of it is needed, remove the log"
    )
}

/// Remedy if the audit log cannot be written.
const NO_LOG: &str = "the log stands in the key store's directory, which must be writable \
     (docs/format/audit-log.md)";

/// Hints for errors of databases.
pub(crate) fn database_hint(error: &DatabaseError) -> Option<String> {
    let hint = match error {
        DatabaseError::NotADatabase { .. } => {
            "`tdekit import` takes what SQLCipher or SQLite3 Multiple Ciphers encrypted; another \
             program's must be decrypted with that first"
        }
        DatabaseError::Lost { .. } => {
            "put a backup in its place: `tdekit history` lists them, `tdekit restore` takes one; \
             or `tdekit cert forget FILE`, if that was on purpose"
        }
        DatabaseError::AlreadyEncrypted { .. } => {
            "`tdekit status` shows how; `tdekit rewrap` changes its certificates"
        }
        DatabaseError::CopyOf { .. } => {
            "`VACUUM INTO` makes a copy with an id of its own; or remove one of the two"
        }
        DatabaseError::NoFreshness { .. } => "`tdekit freshness on` gives it that",
        DatabaseError::InUse { .. } => "stop what uses it, then try again",
        DatabaseError::WithoutExtension { .. } => {
            "stop it, or have it load the extension that belongs to this tdekit"
        }
        DatabaseError::NotOnline { .. } => "stop what uses it, then encrypt it without --online",
        DatabaseError::Converting { .. } => "try again when it is done",
        DatabaseError::HardLinked { .. } => "remove the other names first",
        DatabaseError::NoLogIndex { .. } => {
            "copy it, with its -wal where there is one, to a directory where you may write"
        }
        DatabaseError::NoStoreHere { .. } => {
            "`tdekit key restore` brings the key store back from its backup; or `tdekit key init`, \
             then `tdekit cert restore NAME` with the certificate's files"
        }
        DatabaseError::Emptied { log, .. } => return Some(emptied(log)),
        DatabaseError::HotJournal { .. } => {
            "SQLite rolls it back when a program that may write opens the database: start the \
             application, or run `PRAGMA user_version` in a shell with the extension"
        }
        DatabaseError::NoSpace { .. } => {
            "the copy stands beside the original until it takes its place"
        }
        DatabaseError::Library { .. } => {
            "name it with --library; Debian's package libsqlcipher1 has SQLCipher's, and `tdekit \
             bench peers install` fetches SQLCipher's and SQLite3 Multiple Ciphers'"
        }
        DatabaseError::OldKey { .. } => {
            "--compatibility, --cipher, --page-size, --kdf-iter and --pragma tell what is not the \
             library's default"
        }
        DatabaseError::Full { .. } => "free some space, then try again",
        DatabaseError::KeyChangeBegun { why, .. } => match why {
            CutShort::Full => "free some space; `tdekit rotate` then goes on from there",
            CutShort::Paused => "`tdekit rotate --resume` goes on with it",
            CutShort::Stopped => "`tdekit rotate` goes on from there",
        },
        DatabaseError::OtherKeyChange { .. } => {
            "bring it to its end by `tdekit rotate` without --algorithm, then begin the other one"
        }
        DatabaseError::Collation { .. } => {
            "drop the index, and let the application make it again afterwards"
        }
        DatabaseError::Metadata { .. } => "run the command as root, or as the file's owner",
        DatabaseError::Header { source: PageError::FutureVersion { .. }, .. } => {
            "use the newer tdekit that wrote it"
        }
        DatabaseError::Occupied { .. }
        | DatabaseError::NotAFile { .. }
        | DatabaseError::NotEncrypted { .. }
        | DatabaseError::NoKeyChange { .. }
        | DatabaseError::Freshness { .. }
        | DatabaseError::ReadOnly { .. }
        | DatabaseError::Replaced { .. }
        | DatabaseError::Verification { .. }
        | DatabaseError::Interrupted
        | DatabaseError::Foreign { .. }
        | DatabaseError::NoMemory { .. }
        | DatabaseError::Header { .. }
        | DatabaseError::Io { .. }
        | DatabaseError::TooManyCertificates { .. }
        | DatabaseError::Sqlite { .. } => return None,
        DatabaseError::Store(error) => return store_hint(error),
    };
    Some(hint.to_owned())
}

/// Hints for errors of the backup engine.
// One line per error: a table that the compiler checks for completeness.
#[allow(clippy::too_many_lines)]
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
        RunError::Object { fault: ObjectFault::Claimed, .. } => {
            "try again when it is done. A claim that was left counts for an hour; to go on at \
             once, see that no backup runs, and delete the object NAME.claim-... beside that part"
        }
        RunError::NoSpace { .. } => "free some space, then try again; earlier sets are whole",
        RunError::SourceChanged { .. } => "find out what writes to it besides SQLite",
        RunError::FutureVersion { .. } => "use the newer tdekit that wrote it",
        RunError::NotMedia { .. } => {
            "`tdekit status FILE` shows whether it is a database; a backup goes to another name"
        }
        RunError::Taken { .. } => "name another place, or move away what is there",
        RunError::Unclear { .. } => {
            "`tdekit verify FILE` shows what is left of it; --init --replace overwrites it all the \
             same"
        }
        RunError::Emptied { .. } => {
            "put a copy of it back; a full set with --init --replace begins a new media set there"
        }
        RunError::BaseUnread { .. } => "make its file readable, or name a copy of it first",
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
        RunError::NoSet { .. } | RunError::NoSuchDatabase { .. } => {
            "`tdekit inspect` shows what there is"
        }
        RunError::SeveralDatabases { .. } => {
            "--database NAME takes the newest set of one; --position takes a set by its number"
        }
        RunError::OtherDatabase { database, .. } => {
            return Some(format!("--database '{database}' puts it there all the same"));
        }
        RunError::NoStoreYet { name, .. } => {
            return Some(format!(
                "set TDEKIT_PASSWORD, or another way that `tdekit --help` lists, and run this \
                 again; or `tdekit key init`, then `tdekit cert restore {name}` with the \
                 certificate's files, then this without them; --plain restores it in the clear"
            ));
        }
        RunError::NoStoreHere { .. } => {
            "--pkcs12 FILE, or --certificate-file and --key-file, restores with a certificate's \
             backup and makes a key store; or bring the key store back with `tdekit key restore`, \
             then run this again"
        }
        RunError::MissingFamily { .. } => "name all files that it was striped over",
        RunError::NoBase { .. } => {
            "make a full set first, which begins a new chain; copy-only sets and those of an \
             archive do not count"
        }
        RunError::MixedEncryption { wanted: "plain", .. } => {
            "without --encryption it is encrypted as they are; a plain one goes to other media"
        }
        RunError::MixedEncryption { .. } => {
            "name other media with --to, or begin anew with --init once all sets have expired"
        }
        RunError::Needed { .. } => {
            "name other media with --to; --init --replace replaces it all the same"
        }
        RunError::NotExpired { .. } => {
            "--append keeps them and adds a set; --init --replace overwrites them"
        }
        RunError::NoCertificate { .. } => {
            "--certificate NAME encrypts it for another one; --plain restores it in the clear"
        }
        RunError::DamagedSets { .. } => "a mirror or an earlier set may still be whole",
        RunError::WrongSignature { .. } => "do not restore it unless you know who changed it",
        RunError::Unsound { .. } => {
            "`tdekit verify --json` lists all findings; restore takes a set at a --position"
        }
        RunError::MirrorsDiffer { .. } => "name the one whose content you trust, alone",
        RunError::LacksNewest { .. } => {
            "--position names a set; --latest-readable takes the newest that is here"
        }
        RunError::OlderState { .. } => {
            "append to the newest copy, or move this one away and `tdekit copy` the newest here; \
             another name, or a full set with --init --replace, begins a new media set"
        }
        RunError::CutsFinished { .. } => {
            "nothing was cut off: put a whole copy of the file back, or begin a new media set"
        }
        RunError::Downgrade { .. } => {
            "--certificate NAME keeps it encrypted; --plain restores it in the clear"
        }
        RunError::Unauthenticated { .. } => {
            "--signed-by NAME restores what that certificate signed; --allow-unauthenticated \
             restores it whoever made it"
        }
        RunError::PlainSet { .. } => {
            "where you know who made it, restore takes it with --allow-unauthenticated"
        }
        RunError::SideFile { .. } => "give it another name",
        RunError::NotReplaced { .. } => {
            "give another name; --force with --replace replaces any file but those of a key store"
        }
        RunError::CorruptSource { .. } => {
            "`tdekit doctor` names all faults; `tdekit backup --no-check` backs it up all the same"
        }
        RunError::NotCompared { is_busy: true, .. } => BUSY_HISTORY,
        RunError::NotCompared { .. } => NEW_HISTORY,
        RunError::History(inner) => match error.kind() {
            Kind::Busy => BUSY_HISTORY,
            Kind::NotVerified => return run_hint(inner).or(Some(NEW_HISTORY.to_owned())),
            _ => return None,
        },
        RunError::ScanUnsound { .. } => "`tdekit verify` says of each what is wrong",
        RunError::NotVerified { .. } => {
            "--certificate-file or --pkcs12 names a key that is in no key store; \
             --checksums-only asks for no more"
        }
        RunError::NotSigned { .. } => "`tdekit inspect` shows the signatures that there are",
        RunError::WasEncrypted { .. } => {
            "find out who put it there; --certificate NAME encrypts the new set, and \
             --encryption none says that it shall be plain"
        }
        RunError::NoRule => {
            "--keep, --keep-last, --keep-daily, --keep-weekly or --keep-monthly, or [retention] in \
             config.toml"
        }
        RunError::ChangedMeanwhile { .. } => "run it again, which judges it anew",
        RunError::NotPruned { .. } => {
            "what was begun and not finished is finished by the next run; --dry-run shows it"
        }
        RunError::KeptUnsound { .. } => {
            "`tdekit verify` says of each what is wrong; remove it by hand when nothing of it is \
             needed"
        }
        RunError::SetsStay { .. } => {
            "give each period a media set of its own: `tdekit backup --to 'NAME-{date}.bak'`"
        }
        RunError::CertificateNeeded => "name it with --certificate",
        RunError::Store(error) => return store_hint(error),
        RunError::DatabaseFile(error) => return database_hint(error),
        RunError::Archive(error) => return error.hint(),
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
        | RunError::GivenTwice { .. }
        | RunError::StandardInput
        | RunError::CertificateUnused
        | RunError::TooManyRecipients { .. }
        | RunError::OntoMedia { .. }
        | RunError::Pruned { .. }
        | RunError::NothingReadable { .. }
        | RunError::WouldBeRefused { .. }
        | RunError::Crypto(_) => return None,
    };
    Some(hint.to_owned())
}

/// Hints for notices of the backup engine.
pub(crate) fn notice_hint(notice: &Notice<'_>) -> Option<String> {
    Some(match notice {
        Notice::StoreExposed { dir, .. } => format!("chmod go-w {}", dir.display()),
        Notice::Expires { name, .. } => format!("tdekit cert rotate {name:?}"),
        Notice::NotRecorded { error } => return run_hint(error),
        Notice::Expired { .. }
        | Notice::NotInherited { .. }
        | Notice::PlainNow { .. }
        | Notice::NotCompared { .. }
        | Notice::NotNoted { .. }
        | Notice::NotLogged { .. }
        | Notice::NotForgotten { .. } => return None,
    })
}
