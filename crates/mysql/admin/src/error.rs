//! Errors of work for MySQL.

use std::io;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
use tdekit_mariadb_admin::MariadbError;

/// An error of work for MySQL.
#[derive(Debug, thiserror::Error)]
pub enum MysqlError {
    /// The component's library was not found.
    #[error("the keyring component is not at {}", .path.display())]
    NoComponent {
        /// Its expected path.
        path: PathBuf,
    },
    /// The file is not the component.
    #[error("{} is not the keyring component of tdekit for MySQL", .path.display())]
    NotTheComponent {
        /// The file.
        path: PathBuf,
    },
    /// The server's program is not there, or is MariaDB's.
    #[error("{} is not a MySQL server", .path.display())]
    NoServer {
        /// Its expected path.
        path: PathBuf,
    },
    /// The server's plugin directory is unknown.
    #[error("the directory of the server's plugins is not known")]
    NoPluginDir,
    /// The manifest exists and loads other components.
    #[error("{} has the server load other components", .path.display())]
    OtherManifest {
        /// The manifest.
        path: PathBuf,
    },
    /// Data and settings of the server need its keys.
    #[error("the server still needs its keys: {}", .needs.join(", "))]
    StillNeeded {
        /// What needs them.
        needs: Vec<String>,
    },
    /// The server has no keyring, or another one.
    #[error("the server does not use component_keyring_tdekit: {found}")]
    OtherKeyring {
        /// What it uses.
        found: String,
    },
    /// A rotation made no key that is in the store.
    #[error("the server rotated its {what}, and no new key is in namespace {namespace}")]
    NotStored {
        /// The kind of key.
        what: &'static str,
        /// The namespace.
        namespace: String,
    },
    /// A file of another keyring cannot be read.
    #[error("{}: {reason}", .path.display())]
    KeyringFile {
        /// The file.
        path: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// The keyring's file has no public format.
    #[error("the format of the file of {keyring} is not public, so its keys are not read")]
    ClosedFormat {
        /// The keyring.
        keyring: &'static str,
    },
    /// There are no keys to write.
    #[error("the key store has no keys in namespace {namespace}")]
    NoKeys {
        /// The namespace.
        namespace: String,
    },
    /// What was written is not what was read.
    #[error("the keys in {place} are not those that were to be written there")]
    NotTheSame {
        /// The namespace or the file.
        place: String,
    },
    /// There is no tablespace where the data should be.
    #[error("{} is not a MySQL server's data directory: it has no tablespace", .path.display())]
    NoData {
        /// The directory.
        path: PathBuf,
    },
    /// A check found faults, or data in the clear.
    #[error("{findings} finding(s) in the files of {}", .path.display())]
    Findings {
        /// Their number.
        findings: usize,
        /// The data directory.
        path: PathBuf,
    },
    /// An answer of the server does not have the expected form.
    #[error("the server gave no answer about {what}")]
    Answer {
        /// The requested item.
        what: &'static str,
    },
    /// The server or its client reported an error.
    #[error(transparent)]
    Server(MariadbError),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An error of the key store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MysqlError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoComponent { .. }
            | Self::NotTheComponent { .. }
            | Self::NoServer { .. }
            | Self::NoPluginDir
            | Self::OtherManifest { .. }
            | Self::StillNeeded { .. }
            | Self::OtherKeyring { .. }
            | Self::NotStored { .. }
            | Self::NoData { .. }
            | Self::ClosedFormat { .. }
            | Self::Answer { .. } => Kind::Refused,
            Self::Findings { .. } | Self::KeyringFile { .. } | Self::NotTheSame { .. } => {
                Kind::Damaged
            }
            Self::NoKeys { .. } => Kind::Key,
            Self::Server(error) => error.kind(),
            Self::Io { .. } => Kind::Io,
            Self::Store(error) => error.kind(),
        }
    }
}

impl From<MariadbError> for MysqlError {
    /// Errors of the key store and of the system keep their own variants, whoever reports them.
    fn from(error: MariadbError) -> Self {
        match error {
            MariadbError::Store(error) => Self::Store(error),
            MariadbError::Io { action, path, source } => Self::Io { action, path, source },
            other => Self::Server(other),
        }
    }
}

/// Makes an error of a file.
pub(crate) fn failed(
    action: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> MysqlError + use<> {
    let path = path.to_owned();
    move |source| MysqlError::Io { action, path: path.clone(), source }
}
