//! Why a connection could not be made, or an answer not be had.

/// Why a connection could not be made, or an answer not be had.
#[derive(Debug, thiserror::Error)]
pub enum TdsError {
    /// A server could not be reached.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A connection to a server ended before its time.
    #[error("the connection to the server is lost: {source}")]
    ConnectionLost {
        /// The system's answer.
        source: std::io::Error,
    },
    /// A server said what its protocol does not allow.
    #[error("the server breaks the protocol: {what}")]
    Protocol {
        /// The fault, in words.
        what: String,
    },
    /// A server refused.
    #[error("Msg {number}, Level {class}, State {state}: {text}")]
    ServerSaid {
        /// Number of the error.
        number: i32,
        /// Its severity.
        class: u8,
        /// Its state.
        state: u8,
        /// Its words.
        text: String,
    },
    /// A statement failed behind a result whose rows are not read.
    #[error("the statement failed (status {status:#06x} at the end of its answer)")]
    StatementFailed {
        /// Status of the final DONE.
        status: u16,
    },
    /// A server does not encrypt as asked for.
    #[error("encryption {mode}: {reason}")]
    Encryption {
        /// The item that was asked for.
        mode: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// TLS with a server failed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A server's name, or what is to be said to it, cannot be used.
    #[error("{reason}")]
    Target {
        /// Why not.
        reason: String,
    },
    /// Nobody is there who could vouch for a server.
    #[error("{reason}")]
    Authority {
        /// Why not.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl TdsError {
    /// Whether a server's certificate was not accepted.
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::Tls(rustls::Error::InvalidCertificate(_)))
    }
}
