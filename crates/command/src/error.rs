//! The command's errors, what is printed of them, and the exit code of each.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tdekit_backup_run::RunError;
use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
#[cfg(feature = "mariadb")]
use tdekit_mariadb::PluginError;
#[cfg(feature = "mariadb")]
use tdekit_mariadb_admin::MariadbError;
use tdekit_sqlite_convert::DatabaseError;
#[cfg(feature = "endpoint")]
use tdekit_wire_endpoint::EndpointError;

#[cfg(feature = "endpoint")]
use crate::hint::endpoint_hint;
#[cfg(feature = "mariadb")]
use crate::hint::mariadb_hint;
use crate::hint::{database_hint, run_hint, store_hint};
use crate::output;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The key store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A database file.
    #[error(transparent)]
    Database(DatabaseError),
    /// There is no extension where it was looked for.
    #[error("the SQLite extension is not at {}", .path.display())]
    NoExtension {
        /// The place that was looked at first.
        path: PathBuf,
    },
    /// The engine of backups.
    #[error(transparent)]
    Run(RunError),
    /// An examination has findings.
    #[error("{findings} finding(s) in {databases} database(s)")]
    Findings {
        /// The worst kind of them.
        kind: Kind,
        /// All of them.
        findings: usize,
        /// Databases that have some.
        databases: usize,
    },
    /// There is nothing to work on.
    #[error("{reason}")]
    Nothing {
        /// What was looked at, in words.
        reason: String,
    },
    /// The audit log has faults; each was told.
    #[error("the audit log is not whole: {faults} fault(s)")]
    AuditLog {
        /// How many.
        faults: usize,
    },
    /// Databases of a directory were not imported; each was told with its reason.
    #[error("{failed} of {all} database(s) were not imported")]
    NotImported {
        /// The kind of the first failure.
        kind: Kind,
        /// Databases that were not imported.
        failed: usize,
        /// Databases found.
        all: usize,
    },
    /// A part that this build was made without.
    #[error("this build of tdekit is without {what}")]
    NotBuilt {
        /// The part.
        what: &'static str,
        /// The cargo feature that it comes with.
        feature: &'static str,
    },
    /// MariaDB.
    #[cfg(feature = "mariadb")]
    #[error(transparent)]
    Mariadb(MariadbError),
    /// The endpoint.
    #[cfg(feature = "endpoint")]
    #[error("{}", with_cause(.0))]
    Endpoint(#[from] EndpointError),
    /// The bench is a program beside the command, and is not there.
    #[error("there is no bench at {}", .path.display())]
    NoBench {
        /// Where it should be.
        path: PathBuf,
    },
    /// Arguments that do not go together, beyond what the parser knows.
    #[error("{0}")]
    Usage(String),
    /// A password was typed twice, differently.
    #[error("the two passwords differ")]
    PasswordsDiffer,
    /// A password is needed and there is no terminal to ask for it.
    #[error("there is no {what}")]
    NoSecret {
        /// The missing secret, such as "password for the backup".
        what: &'static str,
        /// The ways to give it.
        ways: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Standard output or the terminal failed.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// An error and what caused it, in one line.
#[cfg(feature = "endpoint")]
fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The command's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was refused or failed.
    Error = 1,
    /// It was used wrongly; the argument parser exits with this code, too.
    Usage = 2,
    /// A key, password or certificate is missing or wrong.
    Key = 3,
    /// Data is damaged, or of a newer version.
    Damaged = 4,
    /// Another process holds a lock or changed the data.
    Busy = 5,
    /// Nothing is wrong as far as was looked, and without a key not all was looked at.
    NotVerified = 6,
    /// Input or output failed, or the disk is full.
    Io = 7,
}

/// Prints the error, and a hint where there is one, and gives the exit code.
pub(crate) fn report(error: &CommandError) -> ExitCode {
    if let CommandError::Output(source) = error
        && source.kind() == io::ErrorKind::BrokenPipe
    {
        // Whoever read the output had enough of it.
        return ExitCode::SUCCESS;
    }
    output::note(format_args!("error: {error}"));
    if let Some(hint) = hint(error) {
        output::note(format_args!("hint: {hint}"));
    }
    ExitCode::from(Exit::from(error.kind()) as u8)
}

impl CommandError {
    /// The kind of the error, which decides exit codes and hints.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Database(error) => error.kind(),
            Self::Run(error) => error.kind(),
            #[cfg(feature = "mariadb")]
            Self::Mariadb(error) => error.kind(),
            #[cfg(feature = "endpoint")]
            Self::Endpoint(error) => error.kind(),
            Self::Findings { kind, .. } | Self::NotImported { kind, .. } => *kind,
            Self::NoBench { .. } | Self::NoExtension { .. } | Self::Nothing { .. } => Kind::Refused,
            Self::NotBuilt { .. } => Kind::Refused,
            Self::AuditLog { .. } => Kind::Damaged,
            Self::Usage(_) => Kind::Usage,
            Self::PasswordsDiffer | Self::NoSecret { .. } => Kind::Key,
            Self::Io { .. } | Self::Output(_) => Kind::Io,
        }
    }
}

impl From<DatabaseError> for CommandError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Store(error) => Self::Store(error),
            DatabaseError::Io { action, path, source } => Self::Io { action, path, source },
            other => Self::Database(other),
        }
    }
}

impl From<RunError> for CommandError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => Self::Store(error),
            RunError::DatabaseFile(error) => error.into(),
            RunError::Io { action, path, source } => Self::Io { action, path, source },
            other => Self::Run(other),
        }
    }
}

#[cfg(feature = "mariadb")]
impl From<MariadbError> for CommandError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: MariadbError) -> Self {
        match error {
            MariadbError::Store(error) => Self::Store(error),
            MariadbError::Io { action, path, source } => Self::Io { action, path, source },
            MariadbError::Plugin(PluginError::Io(source)) => Self::Output(source),
            other => Self::Mariadb(other),
        }
    }
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Refused => Self::Error,
            Kind::Usage => Self::Usage,
            Kind::Key => Self::Key,
            Kind::Damaged => Self::Damaged,
            Kind::Busy => Self::Busy,
            Kind::NotVerified => Self::NotVerified,
            Kind::Io => Self::Io,
        }
    }
}

/// The remedy, where there is one.
pub(crate) fn hint(error: &CommandError) -> Option<String> {
    match error {
        CommandError::Store(error) => store_hint(error),
        CommandError::Database(error) => database_hint(error),
        CommandError::NoExtension { .. } => Some(
            "name it with TDEKIT_EXTENSION, or install it beside the command or in ../lib/tdekit"
                .to_owned(),
        ),
        CommandError::Run(error) => run_hint(error),
        #[cfg(feature = "mariadb")]
        CommandError::Mariadb(error) => mariadb_hint(error),
        CommandError::NotBuilt { feature, .. } => {
            Some(format!("`make build` builds all; cargo's feature {feature} brings this part"))
        }
        CommandError::NoBench { .. } => {
            Some("`tdekit bench` starts the program tdekit-bench; keep it beside tdekit".to_owned())
        }
        CommandError::NoSecret { ways, .. } => Some((*ways).to_owned()),
        #[cfg(feature = "endpoint")]
        CommandError::Endpoint(error) => endpoint_hint(error).map(str::to_owned),
        CommandError::Usage(_)
        | CommandError::Findings { .. }
        | CommandError::Nothing { .. }
        | CommandError::NotImported { .. }
        | CommandError::AuditLog { .. }
        | CommandError::PasswordsDiffer
        | CommandError::Io { .. }
        | CommandError::Output(_) => None,
    }
}
