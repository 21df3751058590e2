//! Why the endpoint does not start, and why a connection ends.

use std::io;
use std::path::PathBuf;

use tdekit_key_crypto::{CryptoError, Kind};

/// Why the endpoint, or its list of logins, does not work.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
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
        /// Why.
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
        /// Why.
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
    /// A login that cannot be made or is not there.
    #[error("login {name:?}: {reason}")]
    Login {
        /// Its name.
        name: String,
        /// The fault, in words.
        reason: &'static str,
    },
    /// A primitive failed.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The system refuses a service that the endpoint needs.
    #[error("the system refuses {what}")]
    System {
        /// The item that was asked for.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Why a connection ends without a word to the client, or with its last one.
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
    /// The error's kind, which tells a caller how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Listen { .. } => Kind::Busy,
            Self::File { .. } | Self::System { .. } => Kind::Io,
            Self::Identity { .. } => Kind::Key,
            Self::Logins { .. } => Kind::Damaged,
            Self::Login { .. } => Kind::Usage,
            Self::Tls { .. } | Self::Crypto(_) => Kind::Refused,
        }
    }
}
