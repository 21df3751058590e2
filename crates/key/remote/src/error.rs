//! Errors of key services. No variant carries a secret: words of a server are cut, cleaned, and
//! lose what was sent to it.

use std::path::PathBuf;

/// Most characters of what a server says.
const MAX_WORDS: usize = 300;

/// Why a key service gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// The address is not one that credentials are sent to.
    #[error("{address:?} {reason}")]
    Address {
        /// The address.
        address: String,
        /// The rule that it breaks.
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
    /// There are no credentials, or they cannot be had.
    #[error("no credentials: {reason}")]
    Credentials {
        /// The places that were looked at, or the fault.
        reason: String,
    },
    /// No answer, whatever was tried.
    #[error("away, tried {} in {seconds:.1} s: {reason}", times(*.tries))]
    Away {
        /// How often it was tried.
        tries: u32,
        /// In how many seconds.
        seconds: f64,
        /// What came of the last try.
        reason: String,
    },
    /// Time is over.
    #[error("no answer within {after_s} s")]
    TimedOut {
        /// The time that was given.
        after_s: u16,
    },
    /// The server's certificate is not accepted.
    #[error("its TLS certificate is not accepted: {reason}")]
    Tls {
        /// The fault, in the TLS library's words.
        reason: String,
    },
    /// The service says no.
    #[error("it refused (HTTP {status}): {words}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// Its words.
        words: String,
    },
    /// The service sends us elsewhere.
    #[error("it answers with a redirect (HTTP {status}), which is never followed")]
    Redirected {
        /// The status of its answer.
        status: u16,
    },
    /// The answer is no answer to the request.
    #[error("its answer is not understood: {reason}")]
    Garbage {
        /// The fault, in words.
        reason: &'static str,
    },
    /// The system refused something.
    #[error("{reason}")]
    System {
        /// In words.
        reason: String,
    },
}

fn times(tries: u32) -> String {
    match tries {
        1 => "once".to_owned(),
        tries => format!("{tries} times"),
    }
}

/// What a server said, fit for a log: short, without control characters, and without `secrets`.
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
