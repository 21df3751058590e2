//! What stops the commands for MariaDB.

use std::path::PathBuf;

use tdekit_mariadb::PluginError;

use crate::error::Exit;

/// What stops a command for MariaDB.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MariadbError {
    /// The plugin's library is not where the command looks for it.
    #[error("the plugin is not at {}", .path.display())]
    NoPlugin {
        /// Where it should be.
        path: PathBuf,
    },
    /// It is not known where the server has its plugins.
    #[error("the directory of the server's plugins is not known")]
    NoPluginDir,
    /// It is not known where the server reads its options.
    #[error("the directory /etc/mysql/mariadb.conf.d is not there")]
    NoOptionDir,
    /// A file is there that somebody else wrote.
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
        /// The system's answer.
        source: std::io::Error,
    },
    /// The server, or the client program for it, says no.
    #[error("the server: {0}")]
    Server(String),
    /// An answer of the server has not the form that was expected.
    #[error("the server gave no number for {what}")]
    Answer {
        /// What it was asked for.
        what: &'static str,
    },
    /// A user that the system does not know.
    #[error("there is no user {0}")]
    NoUser(String),
    /// The server has tables that it could not open any more.
    #[error("the server has {0} encrypted tablespaces, which it cannot open without the plugin")]
    StillEncrypted(u64),
    /// The server would need very many versions.
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
    /// The server stopped encrypting pages anew.
    #[error("no page was encrypted anew for {seconds} s; {left} tablespaces are left")]
    Stalled {
        /// How long nothing happened.
        seconds: u64,
        /// Tablespaces with pages under older versions.
        left: u64,
    },
    /// No keys were made yet.
    #[error("the key store has no server keys")]
    NoServerKeys,
    /// The plugin's own code.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl MariadbError {
    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NoPlugin { .. }
            | Self::NoPluginDir
            | Self::NoOptionDir
            | Self::ForeignFile { .. }
            | Self::Server(_)
            | Self::Answer { .. }
            | Self::StillEncrypted(_)
            | Self::RotateAge(_)
            | Self::NotSeen { .. }
            | Self::Stalled { .. } => Exit::Error,
            Self::NoUser(_) => Exit::Usage,
            Self::NoServerKeys => Exit::Key,
            Self::Program { .. } => Exit::Io,
            Self::Plugin(error) => plugin_exit(error),
        }
    }

    /// What the user may do.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoPlugin { .. } => {
                "`make bench` builds it; put it beside the command, or name it with \
                 TDEKIT_MARIADB_PLUGIN"
            }
            Self::NoPluginDir => "name it with --plugin-dir; SELECT @@plugin_dir shows it",
            Self::NoOptionDir => "name a file that the server reads with --option-file",
            Self::ForeignFile { .. } => "name another file with --option-file",
            Self::Program { .. } => "install MariaDB's client and server programs",
            Self::Server(_) => {
                "--socket, --host, --user or --defaults-file tell how the server is reached"
            }
            Self::StillEncrypted(_) => "decrypt the tables first, or use --force",
            Self::RotateAge(_) => "lower it for the rotation: SET GLOBAL",
            Self::NotSeen { .. } => {
                "does the server use this key store (SELECT @@tdekit_key_store), and can it read \
                 the file? Its error log says more"
            }
            Self::Stalled { .. } => {
                "SHOW GLOBAL STATUS LIKE 'innodb_encryption%' and the server's error log say more; \
                 the server goes on by itself"
            }
            Self::NoServerKeys => "`tdekit mariadb install` or `tdekit mariadb key create`",
            Self::NoUser(_) | Self::Answer { .. } | Self::Plugin(_) => return None,
        })
    }
}

fn plugin_exit(error: &PluginError) -> Exit {
    match error {
        PluginError::NoKeyStore
        | PluginError::NoKey { .. }
        | PluginError::NoSystemKey { .. }
        | PluginError::OtherSigner { .. } => Exit::Key,
        PluginError::Binlog { .. } | PluginError::PageRefused { .. } | PluginError::SealRefused => {
            Exit::Damaged
        }
        PluginError::Io(_) => Exit::Io,
        PluginError::Store(error) => crate::error::store_exit(error),
        _ => Exit::Error,
    }
}
