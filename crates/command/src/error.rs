//! The command's errors, and their remedies.

use std::io;
use std::path::PathBuf;

use tdekit_backup_run::RunError;
#[cfg(feature = "mariadb")]
use tdekit_console::store_hint;
use tdekit_console::{ConsoleError, Failure, output};
use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
#[cfg(feature = "mariadb")]
use tdekit_mariadb::PluginError;
#[cfg(feature = "mariadb")]
use tdekit_mariadb_admin::MariadbError;
#[cfg(feature = "mysql")]
use tdekit_mysql_admin::MysqlError;
use tdekit_sqlite_convert::DatabaseError;

/// Reason why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// An error that any of the programs may have.
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// The extension was not found.
    #[error("the SQLite extension is not at {}", .path.display())]
    NoExtension {
        /// The first place that was searched.
        path: PathBuf,
    },
    /// An examination has findings.
    #[error("{findings} finding(s) in {databases} database(s)")]
    Findings {
        /// The worst kind of them.
        kind: Kind,
        /// All of them.
        findings: usize,
        /// Number of databases with findings.
        databases: usize,
    },
    /// There is nothing to work on.
    #[error("{reason}")]
    Nothing {
        /// What was searched, in words.
        reason: String,
    },
    /// The audit log has faults; each was reported.
    #[error("the audit log is not whole: {faults} fault(s)")]
    AuditLog {
        /// Number of faults.
        faults: usize,
    },
    /// Databases of a directory were not imported; each was reported with its reason.
    #[error("{failed} of {all} database(s) were not imported")]
    NotImported {
        /// The kind of the first failure.
        kind: Kind,
        /// Databases that were not imported.
        failed: usize,
        /// Databases found.
        all: usize,
    },
    /// Some of several databases were not backed up; each was reported with its reason.
    #[error("{failed} of {all} database(s) were not backed up")]
    NotBackedUp {
        /// The worst kind of the failures.
        kind: Kind,
        /// Databases that were not backed up.
        failed: usize,
        /// Databases that were named.
        all: usize,
    },
    /// Some of several databases are not shipped; each was reported with its reason.
    #[error("{failed} of {all} database(s) are not shipped")]
    NotShipped {
        /// The worst kind of the failures.
        kind: Kind,
        /// Databases that are not shipped.
        failed: usize,
        /// Databases of the configuration.
        all: usize,
    },
    /// There is no record of a database's replication.
    #[error("nothing was shipped from {}", .path.display())]
    NothingShipped {
        /// The database.
        path: PathBuf,
    },
    /// A database is in use, and `replicate` follows it.
    #[error("{source}: `tdekit replicate` follows it")]
    Followed {
        /// The error.
        source: DatabaseError,
    },
    /// Nothing shows whether a certificate was changed.
    #[error("nothing shows whether the certificate was changed: it did not sign itself")]
    UnverifiedCertificate,
    /// Binary logs of an archive are damaged, or lie between others and are not there.
    #[error("the binary logs of {archive} have {findings} finding(s): {first}")]
    UnsoundLogs {
        /// The archive.
        archive: String,
        /// The first finding.
        first: String,
        /// Number of findings.
        findings: usize,
    },
    /// A binary log was shipped meanwhile, by another process.
    #[cfg(feature = "mariadb")]
    #[error("{object} was not there before, and holds its log: another process ships to it")]
    LogTaken {
        /// The file or object.
        object: String,
    },
    /// The place of a binary log in an archive is taken by something else.
    #[cfg(feature = "mariadb")]
    #[error("{object} is damaged: {reason}")]
    DamagedLog {
        /// The file or object.
        object: String,
        /// The fault in words.
        reason: String,
    },
    /// An error of MariaDB.
    #[cfg(feature = "mariadb")]
    #[error(transparent)]
    Mariadb(MariadbError),
    /// An error of MySQL.
    #[cfg(feature = "mysql")]
    #[error(transparent)]
    Mysql(MysqlError),
    /// A program beside the command that implements one of its verbs is missing.
    #[error("there is no {program} at {}", .path.display())]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// Its expected path.
        path: PathBuf,
    },
}

impl CommandError {
    /// Makes an error about arguments that do not go together.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        ConsoleError::Usage(text.into()).into()
    }

    /// Makes the error of a failed action on a file at `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        ConsoleError::Io { action, path: path.into(), source }.into()
    }
}

impl Failure for CommandError {
    fn kind(&self) -> Kind {
        match self {
            Self::Console(error) => error.kind(),
            #[cfg(feature = "mariadb")]
            Self::Mariadb(error) => error.kind(),
            #[cfg(feature = "mysql")]
            Self::Mysql(error) => error.kind(),
            Self::Findings { kind, .. }
            | Self::NotImported { kind, .. }
            | Self::NotBackedUp { kind, .. }
            | Self::NotShipped { kind, .. } => *kind,
            Self::NoProgram { .. }
            | Self::NoExtension { .. }
            | Self::UnverifiedCertificate
            | Self::Nothing { .. } => Kind::Refused,
            Self::NothingShipped { .. } => Kind::Usage,
            Self::AuditLog { .. } | Self::UnsoundLogs { .. } => Kind::Damaged,
            Self::Followed { source } => source.kind(),
            #[cfg(feature = "mariadb")]
            Self::DamagedLog { .. } => Kind::Damaged,
            #[cfg(feature = "mariadb")]
            Self::LogTaken { .. } => Kind::Refused,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Console(error) => error.hint(),
            #[cfg(feature = "mariadb")]
            Self::Mariadb(error) => mariadb_hint(error),
            #[cfg(feature = "mysql")]
            Self::Mysql(error) => mysql_hint(error),
            #[cfg(feature = "mariadb")]
            Self::LogTaken { .. } => Some(
                "let one process ship to an archive; the next run goes on behind it".to_owned(),
            ),
            #[cfg(feature = "mariadb")]
            Self::DamagedLog { .. } => Some(
                "move it to another place, with its parts; while the server has the log, the next \
                 call ships it again"
                    .to_owned(),
            ),
            Self::UnsoundLogs { .. } => Some(
                "`tdekit verify --json` lists all findings; `tdekit mariadb archive` ships logs \
                 again that are not in the archive, while the server has them: move damaged ones \
                 to another place first"
                    .to_owned(),
            ),
            Self::NoExtension { .. } => Some(
                "name it with TDEKIT_EXTENSION, or install it beside the command or in \
                 ../lib/tdekit"
                    .to_owned(),
            ),
            Self::NoProgram { program, .. } => {
                Some(format!("install the package {program}, or put the program beside tdekit"))
            }
            Self::Followed { .. } => {
                Some("end that process first, and start it again behind this".to_owned())
            }
            Self::NothingShipped { path } => {
                let path = output::shell_path(path);
                Some(format!("`tdekit replicate {path} --to ARCHIVE` ships it"))
            }
            Self::UnverifiedCertificate => Some(
                "--unverified takes a certificate of an authority: check its thumbprint first"
                    .to_owned(),
            ),
            Self::Findings { .. }
            | Self::Nothing { .. }
            | Self::NotImported { .. }
            | Self::NotBackedUp { .. }
            | Self::NotShipped { .. }
            | Self::AuditLog { .. } => None,
        }
    }

    fn console(&self) -> Option<&ConsoleError> {
        match self {
            Self::Console(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Console(error.into())
    }
}

impl From<DatabaseError> for CommandError {
    fn from(error: DatabaseError) -> Self {
        Self::Console(error.into())
    }
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        Self::Console(error.into())
    }
}

impl From<io::Error> for CommandError {
    /// Standard output or the terminal failed.
    fn from(error: io::Error) -> Self {
        Self::Console(error.into())
    }
}

#[cfg(feature = "mariadb")]
impl From<MariadbError> for CommandError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: MariadbError) -> Self {
        match error {
            MariadbError::Store(error) => error.into(),
            MariadbError::Io { action, path, source } => Self::io(action, path, source),
            MariadbError::Plugin(PluginError::Io(source)) => source.into(),
            other => Self::Mariadb(other),
        }
    }
}

/// Hints for errors of MariaDB servers.
#[cfg(feature = "mariadb")]
fn mariadb_hint(error: &MariadbError) -> Option<String> {
    let hint = match error {
        MariadbError::NoPlugin { .. } => {
            "`make build` builds it; put it beside the command, or name it with \
             TDEKIT_MARIADB_PLUGIN"
        }
        MariadbError::NotThePlugin { .. } => "TDEKIT_MARIADB_PLUGIN names another file",
        MariadbError::StillEncrypts { .. } => {
            "SET GLOBAL innodb_encrypt_tables = OFF and wait until `tdekit mariadb status` shows \
             none; turn innodb-encrypt-log, aria-encrypt-tables and encrypt-binlog off in the \
             option file, restart, ALTER TABLE .. FORCE for Aria's; then again, or use --force"
        }
        MariadbError::StillRead { .. } => {
            "write tables of Aria (.MAI) anew with ALTER TABLE .. FORCE, FLUSH BINARY LOGS and \
             PURGE them when all replicas have read them; then again, or use --force"
        }
        MariadbError::OtherPlugin { .. } => {
            "docs/mariadb.md has the way under \"From another plugin, and back\""
        }
        MariadbError::NoPluginDir => "name it with --plugin-dir; SELECT plugin_dir shows it",
        MariadbError::NoOptionDir => "name a file that the server reads with --option-file",
        MariadbError::ForeignFile { .. } => "name another file with --option-file",
        MariadbError::Behind { .. } => {
            "the server goes on; `tdekit mariadb verify` shows the versions in use, and \
             `tdekit mariadb rotate --existing` waits again"
        }
        MariadbError::OtherBinlogs { .. } => "name another archive with --to",
        MariadbError::NoServer => {
            "--socket, --host, --user or --defaults-file say how the server is reached"
        }
        MariadbError::NoData { .. } | MariadbError::OtherHost { .. } => {
            "name the data directory with --datadir, or a server with --socket and --user"
        }
        MariadbError::Findings { .. } => {
            "docs/mariadb.md has under \"Verify\" what each means and what to do"
        }
        MariadbError::Program { .. } => "install MariaDB's client and server programs",
        MariadbError::Server(_) => {
            "--socket, --host, --user or --defaults-file say how the server is reached"
        }
        MariadbError::StillEncrypted(_) => "decrypt the tables first, or use --force",
        MariadbError::RotateAge(_) => "lower it for the rotation: SET GLOBAL",
        MariadbError::NotSeen { .. } => {
            "does the server use this key store (SELECT tdekit_key_store), and can it read \
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

#[cfg(feature = "mysql")]
impl From<MysqlError> for CommandError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: MysqlError) -> Self {
        match error {
            MysqlError::Store(error) => error.into(),
            MysqlError::Io { action, path, source } => Self::io(action, path, source),
            other => Self::Mysql(other),
        }
    }
}

/// Hints for errors of MySQL servers.
#[cfg(feature = "mysql")]
fn mysql_hint(error: &MysqlError) -> Option<String> {
    let hint = match error {
        MysqlError::NoComponent { .. } => {
            "`make build` builds it; put it beside the command, or name it with \
             TDEKIT_MYSQL_COMPONENT"
        }
        MysqlError::NotTheComponent { .. } => "TDEKIT_MYSQL_COMPONENT names another file",
        MysqlError::NoServer { .. } => "name the server's program with --mysqld",
        MysqlError::NoPluginDir => "name it with --plugin-dir; SELECT @@plugin_dir shows it",
        MysqlError::OtherManifest { .. } => {
            "a server has one keyring: move its keys first, see docs/mysql.md under \"From \
             another keyring\""
        }
        MysqlError::StillNeeded { .. } => {
            "docs/mysql.md has under \"Uninstall\" how each is decrypted; then again, or use \
             --force"
        }
        MysqlError::OtherKeyring { .. } => {
            "`tdekit mysql install` installs the component; then restart the server"
        }
        MysqlError::NotStored { .. } => {
            "does the server use this key store and namespace? Its error log says more"
        }
        MysqlError::Server(MariadbError::Program { .. }) => "install MySQL's client, `mysql`",
        MysqlError::Server(error) => return mariadb_hint(error),
        MysqlError::Store(error) => return store_hint(error),
        MysqlError::KeyringFile { .. } => {
            "component_keyring_file.cnf names the file as `path`, and the plugin keyring_file as \
             keyring_file_data"
        }
        MysqlError::ClosedFormat { .. } => {
            "MySQL's own mysql_migrate_keyring moves its keys: docs/mysql.md has how under \"From \
             another keyring\""
        }
        MysqlError::NoKeys { .. } => "`tdekit mysql keys` shows the namespaces",
        MysqlError::NoData { .. } => "SELECT @@datadir shows it",
        MysqlError::Findings { .. }
        | MysqlError::NotTheSame { .. }
        | MysqlError::Answer { .. }
        | MysqlError::Io { .. } => {
            return None;
        }
    };
    Some(hint.to_owned())
}
