//! Errors that any of the programs may have, the output of an error, and exit codes.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tdekit_backup_run::RunError;
use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
use tdekit_sqlite_convert::DatabaseError;

use crate::hint::{database_hint, run_hint, store_hint};
use crate::output;

/// Reason why a program stopped, other than its own reasons.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// An error of the key store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of a database file.
    #[error(transparent)]
    Database(DatabaseError),
    /// An error of the backup engine.
    #[error(transparent)]
    Run(RunError),
    /// A part that this build omits.
    #[error("this build of tdekit is without {what}")]
    NotBuilt {
        /// The part.
        what: &'static str,
        /// The cargo feature that it comes with.
        feature: &'static str,
    },
    /// Arguments that do not go together, beyond the checks of the parser.
    #[error("{0}")]
    Usage(String),
    /// A password was typed twice, differently.
    #[error("the two passwords differ")]
    PasswordsDiffer,
    /// A password is needed and there is no terminal for a prompt.
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
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Standard output or the terminal failed.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// An error of a program, as [`report`] shows it.
pub trait Failure: std::error::Error {
    /// Returns its kind, which determines the exit code.
    fn kind(&self) -> Kind;
    /// Returns the remedy, if there is one.
    fn hint(&self) -> Option<String>;
    /// Returns its common error, if it is one.
    fn console(&self) -> Option<&ConsoleError>;
}

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The operation was refused or failed.
    Error = 1,
    /// The usage was wrong; the argument parser exits with this code, too.
    Usage = 2,
    /// A key, password or certificate is missing or wrong.
    Key = 3,
    /// Data is damaged, or of a newer version.
    Damaged = 4,
    /// Another process holds a lock or has changed the data.
    Busy = 5,
    /// No fault was found, but without a key not everything could be checked.
    NotVerified = 6,
    /// Input or output failed, or the disk is full.
    Io = 7,
}

/// Prints the error, and a hint if there is one, and returns the exit code.
pub fn report(error: &impl Failure) -> ExitCode {
    // No line that a name of others begins looks like an error or a hint of its own.
    let said = error.to_string();
    let lines: Vec<_> = said.lines().map(output::single).collect();
    output::note(format_args!("error: {}", lines.join("\n  ")));
    if let Some(hint) = error.hint() {
        output::note(format_args!("hint: {hint}"));
    }
    ExitCode::from(Exit::from(error.kind()) as u8)
}

impl Failure for ConsoleError {
    fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Database(error) => error.kind(),
            Self::Run(error) => error.kind(),
            Self::NotBuilt { .. } => Kind::Refused,
            Self::Usage(_) => Kind::Usage,
            Self::PasswordsDiffer | Self::NoSecret { .. } => Kind::Key,
            Self::Io { .. } | Self::Output(_) => Kind::Io,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => store_hint(error),
            Self::Database(error) => database_hint(error),
            Self::Run(error) => run_hint(error),
            Self::NotBuilt { feature, .. } => {
                Some(format!("`make build` builds all; cargo's feature {feature} brings this part"))
            }
            Self::NoSecret { ways, .. } => Some((*ways).to_owned()),
            Self::Usage(_) | Self::PasswordsDiffer | Self::Io { .. } | Self::Output(_) => None,
        }
    }

    fn console(&self) -> Option<&ConsoleError> {
        Some(self)
    }
}

impl From<DatabaseError> for ConsoleError {
    /// Errors of the key store and of the system keep their own variants.
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Store(error) => Self::Store(error),
            DatabaseError::Io { action, path, source } => Self::Io { action, path, source },
            other => Self::Database(other),
        }
    }
}

impl From<RunError> for ConsoleError {
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
