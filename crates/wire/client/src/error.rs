//! Errors of connections and answers.

/// Reason why a connection could not be made, or an answer not be received.
#[derive(Debug, thiserror::Error)]
pub enum TdsError {
    /// A server could not be reached.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A connection to a server ended prematurely.
    #[error("the connection to the server is lost: {source}")]
    ConnectionLost {
        /// The system's error.
        source: std::io::Error,
    },
    /// A server violated the protocol.
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
        /// Its text.
        text: String,
    },
    /// A statement failed after a result whose rows are not read.
    #[error("the statement failed (status {status:#06x} at the end of its answer)")]
    StatementFailed {
        /// Status of the final DONE.
        status: u16,
    },
    /// A server does not encrypt as requested.
    #[error("encryption {mode}: {reason}")]
    Encryption {
        /// The requested mode.
        mode: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// TLS with a server failed.
    #[error("{}", of_tls(.0))]
    Tls(#[from] rustls::Error),
    /// A server's name, or a value to be sent to it, cannot be used.
    #[error("{reason}")]
    Target {
        /// The reason.
        reason: String,
    },
    /// There are no certificate authorities to verify a server.
    #[error("{reason}")]
    Authority {
        /// The reason.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Describes a failure of TLS for an administrator of the server's certificate.
fn of_tls(error: &rustls::Error) -> String {
    use rustls::CertificateError as Of;
    let rustls::Error::InvalidCertificate(why) = error else { return format!("TLS: {error}") };
    let why = match why {
        Of::Expired | Of::ExpiredContext { .. } => "it has expired".to_owned(),
        Of::NotValidYet | Of::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        Of::NotValidForName | Of::NotValidForNameContext { .. } => {
            "it is for a server of another name".to_owned()
        }
        Of::Revoked => "it was revoked".to_owned(),
        // A self-signed certificate may fail with any of these.
        Of::UnknownIssuer
        | Of::BadSignature
        | Of::UnsupportedSignatureAlgorithmContext { .. }
        | Of::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "nobody who is trusted here vouches for it".to_owned()
        }
        other => other.to_string(),
    };
    format!("TLS: the server's certificate is not accepted: {why}")
}

impl TdsError {
    /// Returns true if a server's certificate was not accepted.
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::Tls(rustls::Error::InvalidCertificate(_)))
    }
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    #[test]
    fn certificates_are_refused_in_words() {
        for (why, words) in [
            (CertificateError::UnknownIssuer, "vouches"),
            (CertificateError::Expired, "expired"),
            (CertificateError::NotValidForName, "another name"),
        ] {
            let error = TdsError::Tls(rustls::Error::InvalidCertificate(why));
            assert!(error.is_distrust() && error.to_string().contains(words), "{error}");
        }
    }
}
