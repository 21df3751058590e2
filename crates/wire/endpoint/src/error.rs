//! Errors of starting the endpoint, and of connections.

use std::io;
use std::path::PathBuf;

use tdekit_key_crypto::{CryptoError, Kind};

/// Reason why the endpoint, or its list of logins, does not work.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The endpoint cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("{what} in {}: {reason}", path.display())]
    Identity {
        /// The certificate or the key.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {reason}")]
    Tls {
        /// The reason.
        reason: String,
    },
    /// The list of logins is damaged.
    #[error("the list of logins in {} is damaged: {reason}", path.display())]
    Logins {
        /// Its file.
        path: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// No login has this name.
    #[error("login {name:?}: there is none of this name")]
    NoLogin {
        /// The name.
        name: String,
    },
    /// A login of this name is there already.
    #[error("login {name:?}: there is one of this name already")]
    LoginExists {
        /// The name.
        name: String,
    },
    /// The last member of sysadmin cannot go.
    #[error("login {name:?}: it is the last member of sysadmin; make another one first")]
    LastSysadmin {
        /// Its name.
        name: String,
    },
    /// A login has an invalid name or password.
    #[error("login {name:?}: {reason}")]
    Login {
        /// Its name.
        name: String,
        /// The fault, in words.
        reason: &'static str,
    },
    /// A cryptographic operation failed.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The system refuses a service that the endpoint needs.
    #[error("the system refuses {what}")]
    System {
        /// The requested service.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Reason why a connection ends without a message to the client, or after its last one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the client is gone: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] tdekit_wire_tds::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Refused(&'static str),
}

impl EndpointError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Listen { .. } => Kind::Busy,
            Self::File { .. } | Self::System { .. } => Kind::Io,
            Self::Identity { .. } => Kind::Key,
            Self::Logins { .. } => Kind::Damaged,
            Self::Login { .. }
            | Self::NoLogin { .. }
            | Self::LoginExists { .. }
            | Self::LastSysadmin { .. } => Kind::Usage,
            Self::Tls { .. } | Self::Crypto(_) => Kind::Refused,
        }
    }
}
