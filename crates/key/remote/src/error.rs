//! Errors of key services. No variant carries a secret: a server's text is shortened, cleaned, and
//! stripped of what was sent to it.

use std::path::PathBuf;

/// Maximum number of characters of a server's text.
const MAX_WORDS: usize = 300;

/// Reason why a key service gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// Credentials must not be sent to this address.
    #[error("{address:?} {reason}")]
    Address {
        /// The address.
        address: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A file cannot be used.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// There are no credentials, or they cannot be read.
    #[error("no credentials: {reason}")]
    Credentials {
        /// The places that were searched, or the fault.
        reason: String,
    },
    /// No answer after all tries.
    #[error("away, tried {} in {seconds:.1} s: {reason}", times(*.tries))]
    Away {
        /// Number of tries.
        tries: u32,
        /// Duration of all tries, in seconds.
        seconds: f64,
        /// Failure of the last try.
        reason: String,
    },
    /// The time limit was exceeded.
    #[error("no answer within {after_s} s")]
    TimedOut {
        /// The time limit, in seconds.
        after_s: u16,
    },
    /// The server's certificate is not accepted.
    #[error("its TLS certificate is not accepted: {reason}")]
    Tls {
        /// The fault, in the TLS library's words.
        reason: String,
    },
    /// The service refused the request.
    #[error("it refused (HTTP {status}): {words}")]
    Refused {
        /// HTTP status of the answer.
        status: u16,
        /// Text of the answer.
        words: String,
    },
    /// The service redirects to another address.
    #[error("it answers with a redirect (HTTP {status}), which is never followed")]
    Redirected {
        /// HTTP status of the answer.
        status: u16,
    },
    /// The response is not an answer to the request.
    #[error("its answer is not understood: {reason}")]
    Garbage {
        /// The fault, in words.
        reason: &'static str,
    },
    /// The system refused an operation.
    #[error("{reason}")]
    System {
        /// The fault, in words.
        reason: String,
    },
}

fn times(tries: u32) -> String {
    match tries {
        1 => "once".to_owned(),
        tries => format!("{tries} times"),
    }
}

/// Makes a server's text fit for a log: short, without control characters, and without `secrets`.
pub(crate) fn words(said: &str, secrets: &[&str]) -> String {
    let mut said = said.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        said = said.replace(secret, "(a secret)");
    }
    let clean = said.chars().map(|c| if c.is_control() { ' ' } else { c });
    let short: String = clean.take(MAX_WORDS).collect();
    match short.trim() {
        "" => "it says nothing more".to_owned(),
        short => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_server_are_short_and_without_our_secrets() {
        let said = format!("no\n\x1b[31m for hvs.TOKEN {}", "x".repeat(5000));
        let told = words(&said, &["hvs.TOKEN", ""]);
        assert!(told.starts_with("no  [31m for (a secret) xxx"), "{told}");
        assert!(told.chars().count() <= MAX_WORDS && !told.contains("hvs."));
        assert_eq!(words(" \n", &[]), "it says nothing more");
    }
}
