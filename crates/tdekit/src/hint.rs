//! What the user may do about an error of a library. The libraries know no command, so the words
//! that name its options stand here.

use tdekit_key_store::StoreError;
use tdekit_mariadb_admin::MariadbError;
use tdekit_sqlite_convert::DatabaseError;
use tdekit_sqlite_page::PageError;

/// What the user may do about what the key store says.
pub(crate) fn store_hint(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::NoHome => "name the directory with --store or TDEKIT_HOME",
        StoreError::Missing { .. } => {
            "make one with `tdekit key init`, or name another directory with --store or TDEKIT_HOME"
        }
        StoreError::AlreadyExists { .. } => {
            "`tdekit key status` shows it; `tdekit key rotate` changes its master key or password"
        }
        StoreError::WrongPassword => {
            "if it is lost, `tdekit key restore` sets a new one from a backup of the master key"
        }
        StoreError::NoProvider { .. } | StoreError::ProviderMismatch { .. } => {
            "`tdekit --help` lists the ways to give a password or key"
        }
        StoreError::InsecureFile { path, threat, .. } => {
            let bits = if *threat == "read" { "600" } else { "go-w" };
            return Some(format!("chmod {bits} {}", path.display()));
        }
        StoreError::CertificateMissing { .. } => {
            "`tdekit cert list` shows what is there; `tdekit cert restore` takes one from a backup"
        }
        StoreError::OtherCertificate { .. } => "`tdekit inspect` shows whose certificate it takes",
        StoreError::PrivateKeyMissing { .. } => {
            "`tdekit cert restore` with the private key's backup adds it"
        }
        StoreError::CertificateExpired { .. } => {
            "`tdekit cert rotate` makes a new one under the same name"
        }
        StoreError::CertificateInUse { .. } => {
            "wrap these files' keys by another certificate first; --force drops it all the same, \
             and then nothing opens them but a backup of the certificate"
        }
        StoreError::NotBackedUp { .. } => {
            "back it up with `tdekit cert backup`, or lose it for good with --force"
        }
        StoreError::CertificateExists { .. } => {
            "`tdekit cert list` shows it; `tdekit cert rotate` makes a new one under its name"
        }
        StoreError::Corrupt { .. } => {
            "`tdekit key restore --replace` puts a backup in its place and keeps the damaged file"
        }
        StoreError::FutureVersion { .. } => "use the newer tdekit that wrote it",
        StoreError::Locked { .. } | StoreError::BeingWritten { .. } => "try again when it is done",
        StoreError::MasterKeyChanged => "run the command again",
        StoreError::DifferentStore { .. } => {
            "it may also be of the same store, from before its master key was rotated; --replace \
             puts the backup in its place and keeps the store that is there under another name"
        }
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

/// What the user may do about what is wrong with a database.
pub(crate) fn database_hint(error: &DatabaseError) -> Option<String> {
    let hint = match error {
        DatabaseError::NotADatabase { .. } => {
            "a database that another program encrypted must be decrypted with that first"
        }
        DatabaseError::AlreadyEncrypted { .. } => {
            "`tdekit status` shows how; `tdekit rewrap` changes its certificates"
        }
        DatabaseError::InUse { .. } => "stop what uses it, then try again",
        DatabaseError::Converting { .. } => "try again when it is done",
        DatabaseError::HardLinked { .. } => "remove the other names first",
        DatabaseError::NoSpace { .. } => {
            "the copy stands beside the original until it takes its place"
        }
        DatabaseError::Full { .. } => "free some space, then try again",
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
        | DatabaseError::ReadOnly { .. }
        | DatabaseError::Replaced { .. }
        | DatabaseError::Verification { .. }
        | DatabaseError::Interrupted
        | DatabaseError::Header { .. }
        | DatabaseError::Io { .. }
        | DatabaseError::TooManyCertificates { .. }
        | DatabaseError::Sqlite { .. } => return None,
        DatabaseError::Store(error) => return store_hint(error),
    };
    Some(hint.to_owned())
}

/// What the user may do about what is wrong with a MariaDB server.
pub(crate) fn mariadb_hint(error: &MariadbError) -> Option<String> {
    let hint = match error {
        MariadbError::NoPlugin { .. } => {
            "`make bench` builds it; put it beside the command, or name it with \
             TDEKIT_MARIADB_PLUGIN"
        }
        MariadbError::NoPluginDir => "name it with --plugin-dir; SELECT @@plugin_dir shows it",
        MariadbError::NoOptionDir => "name a file that the server reads with --option-file",
        MariadbError::ForeignFile { .. } => "name another file with --option-file",
        MariadbError::Behind { .. } => {
            "the server goes on; `tdekit mariadb verify` shows the versions in use, and \
             `tdekit mariadb rotate --existing` waits again"
        }
        MariadbError::NoData { .. } | MariadbError::OtherHost { .. } => {
            "name the data directory with --datadir, or a server with --socket and --user"
        }
        MariadbError::Findings { .. } => {
            "docs/mariadb.md tells under \"Verify\" what each means and what to do"
        }
        MariadbError::Program { .. } => "install MariaDB's client and server programs",
        MariadbError::Server(_) => {
            "--socket, --host, --user or --defaults-file tell how the server is reached"
        }
        MariadbError::StillEncrypted(_) => "decrypt the tables first, or use --force",
        MariadbError::RotateAge(_) => "lower it for the rotation: SET GLOBAL",
        MariadbError::NotSeen { .. } => {
            "does the server use this key store (SELECT @@tdekit_key_store), and can it read \
             the file? Its error log says more"
        }
        MariadbError::Stalled { .. } => {
            "SHOW GLOBAL STATUS LIKE 'innodb_encryption%' and the server's error log say more; \
             the server goes on by itself"
        }
        MariadbError::NoServerKeys => "`tdekit mariadb install` or `tdekit mariadb key create`",
        MariadbError::Store(error) => return store_hint(error),
        MariadbError::NoUser(_)
        | MariadbError::UnwritablePath { .. }
        | MariadbError::Io { .. }
        | MariadbError::Answer { .. }
        | MariadbError::Plugin(_) => return None,
    };
    Some(hint.to_owned())
}
