//! Errors of work for MariaDB.

use std::io;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::Kind;
use tdekit_key_store::StoreError;
use tdekit_mariadb::PluginError;

/// An error of work for MariaDB.
#[derive(Debug, thiserror::Error)]
pub enum MariadbError {
    /// The plugin's library was not found.
    #[error("the plugin is not at {}", .path.display())]
    NoPlugin {
        /// Its expected path.
        path: PathBuf,
    },
    /// The file is not the plugin.
    #[error("{} is not the plugin of tdekit for MariaDB", .path.display())]
    NotThePlugin {
        /// The file.
        path: PathBuf,
    },
    /// The server's plugin directory is unknown.
    #[error("the directory of the server's plugins is not known")]
    NoPluginDir,
    /// The server's option directory is unknown.
    #[error("the directory /etc/mysql/mariadb.conf.d is not there")]
    NoOptionDir,
    /// The file exists but somebody else wrote it.
    #[error("{} was not written by `tdekit mariadb install`", .path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// A program is not installed or does not start.
    #[error("the program {program} does not start: {source}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The server, or the client program for it, reported an error.
    #[error("the server: {0}")]
    Server(String),
    /// An answer of the server does not have the expected form.
    #[error("the server gave no number for {what}")]
    Answer {
        /// The requested item.
        what: &'static str,
    },
    /// A user that the system does not know.
    #[error("there is no user {0}")]
    NoUser(String),
    /// The server has tables that it could no longer open.
    #[error("the server has {0} encrypted tablespaces, which it cannot open without the plugin")]
    StillEncrypted(u64),
    /// The server would encrypt data that it must read at its next start.
    #[error("the server still encrypts, by {}: it would not start without the plugin",
        .settings.join(", "))]
    StillEncrypts {
        /// The enabled settings.
        settings: Vec<&'static str>,
    },
    /// The server has older files that it could no longer read.
    #[error("{count} files of the server are encrypted, which nothing reads without the plugin: {}",
        .files.join(", "))]
    StillRead {
        /// The first of them: tables of Aria, binary logs, relay logs.
        files: Vec<String>,
        /// Number of these files.
        count: usize,
    },
    /// The server has another encryption plugin, and it can have only one.
    #[error("{place} loads {plugin}, and a server has one encryption plugin at a time")]
    OtherPlugin {
        /// The other plugin.
        plugin: &'static str,
        /// The option file, or the other place that names it.
        place: String,
    },
    /// The server would need too many versions.
    #[error("innodb_encryption_rotate_key_age is {0}: as many versions would have to be made")]
    RotateAge(u32),
    /// The server does not see a new version.
    #[error("the server does not see version {version} of key {id}")]
    NotSeen {
        /// The key's number.
        id: u32,
        /// The version.
        version: u32,
    },
    /// The server stopped re-encrypting pages.
    #[error("no page was encrypted anew for {seconds} s; {left} tablespaces are left")]
    Stalled {
        /// Seconds without progress.
        seconds: u64,
        /// Tablespaces with pages under older versions.
        left: u64,
    },
    /// The server reports that a rotation is done, but its files have pages that it did not reach.
    #[error("{pages} pages in use are still under older versions, in {}", .files.join(", "))]
    Behind {
        /// Number of these pages.
        pages: u64,
        /// The files.
        files: Vec<String>,
    },
    /// The binary logs of an archive are not those of the server.
    #[error("the archive is of another server, or its binary logs were begun anew: {reason}")]
    OtherBinlogs {
        /// What differs.
        reason: String,
    },
    /// No server was named.
    #[error("no server is named")]
    NoServer,
    /// The files of a server that runs on another machine cannot be read.
    #[error("the server runs on {host}, so its files are not here")]
    OtherHost {
        /// Its name.
        host: String,
    },
    /// A directory does not contain a server's data.
    #[error("{} holds no data files of a MariaDB server", .path.display())]
    NoData {
        /// The directory.
        path: PathBuf,
    },
    /// A server's files have faults.
    #[error("{findings} findings in {}", .path.display())]
    Findings {
        /// Number of findings.
        findings: u64,
        /// The data directory.
        path: PathBuf,
    },
    /// No keys have been made yet.
    #[error("the key store has no server keys")]
    NoServerKeys,
    /// A path cannot be written in an option file.
    #[error("an option file cannot hold the path {}", .path.display())]
    UnwritablePath {
        /// The path.
        path: PathBuf,
    },
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
    /// An error of the plugin's own code.
    #[error(transparent)]
    Plugin(PluginError),
}

impl MariadbError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoPlugin { .. }
            | Self::NotThePlugin { .. }
            | Self::StillEncrypts { .. }
            | Self::NoPluginDir
            | Self::NoOptionDir
            | Self::ForeignFile { .. }
            | Self::NoData { .. }
            | Self::OtherHost { .. }
            | Self::OtherBinlogs { .. }
            | Self::Behind { .. }
            | Self::Server(_)
            | Self::Answer { .. }
            | Self::StillEncrypted(_)
            | Self::RotateAge(_)
            | Self::NotSeen { .. }
            | Self::Stalled { .. }
            | Self::StillRead { .. }
            | Self::OtherPlugin { .. } => Kind::Refused,
            Self::NoServer | Self::NoUser(_) | Self::UnwritablePath { .. } => Kind::Usage,
            Self::NoServerKeys => Kind::Key,
            Self::Findings { .. } => Kind::Damaged,
            Self::Program { .. } | Self::Io { .. } => Kind::Io,
            Self::Store(error) => error.kind(),
            Self::Plugin(error) => error.kind(),
        }
    }
}

impl From<PluginError> for MariadbError {
    /// An error of the key store keeps its own variant, whoever reports it.
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Store(error) => Self::Store(error),
            other => Self::Plugin(other),
        }
    }
}

/// Makes an error of a file.
pub(crate) fn failed(
    action: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> MariadbError + use<> {
    let path = path.to_owned();
    move |source| MariadbError::Io { action, path: path.clone(), source }
}
