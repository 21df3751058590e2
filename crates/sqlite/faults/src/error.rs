//! The error of the harness; a broken promise of the database is an [`Error::Broken`].

use std::io;
use std::path::{Path, PathBuf};

use tdekit_sqlite_client::SqliteError;

/// An error that stops a suite.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused a call.
    #[error("SQLite: {0}")]
    Sql(#[from] SqliteError),
    /// The file system refused a call that the harness made itself.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The harness cannot run here, for example because a library cannot be loaded.
    #[error("setup: {0}")]
    Setup(String),
    /// The database broke a promise: an illegal state, wrong bytes, a leak.
    #[error("broken promise: {0}")]
    Broken(String),
}

/// Result of the harness.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the primary SQLite code, if the error is SQLite's.
    #[must_use]
    pub fn sqlite_code(&self) -> Option<i32> {
        match self {
            Self::Sql(error) => Some(error.primary()),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
