//! How an endpoint is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tdekit_wire_tds::prelogin::Encryption;

use crate::tls::IdentityFiles;

/// What is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: there is no TLS.
    Off,
    /// What the client asks for: the login at least where it can, all if it wants.
    On,
    /// All, or the client is refused.
    Required,
    /// All, and TLS comes first (TDS 8.0).
    Strict,
}

/// What becomes of a client that has said what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreed {
    Plain,
    LoginOnly,
    All,
    /// It cannot come in.
    Refused,
}

impl Mode {
    /// The server's answer to a client within PRELOGIN, and what follows from it.
    /// Source: the table in MS-TDS 2.2.6.5.
    pub(crate) fn agree(self, client: Encryption) -> (Encryption, Agreed) {
        use Encryption::{NotSupported, Off, On, Required};
        match (self, client) {
            (Mode::Off, Off | NotSupported) => (NotSupported, Agreed::Plain),
            (Mode::Off, On | Required) => (NotSupported, Agreed::Refused),
            (Mode::On, Off) => (Off, Agreed::LoginOnly),
            (Mode::On, On | Required) => (On, Agreed::All),
            (Mode::On, NotSupported) => (NotSupported, Agreed::Plain),
            (Mode::Required | Mode::Strict, On | Required) => (On, Agreed::All),
            (Mode::Required | Mode::Strict, Off) => (Required, Agreed::All),
            (Mode::Required | Mode::Strict, NotSupported) => (Required, Agreed::Refused),
        }
    }

    pub(crate) fn takes_strict(self) -> bool {
        self != Mode::Off
    }

    pub(crate) fn takes_wrapped(self) -> bool {
        self != Mode::Strict
    }
}

/// Bounds on what clients can take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; at most 32,767, the numbers that sessions have.
    pub connections: usize,
    /// Connections at a time that have not logged in.
    pub logging_in: usize,
    /// Requests that run at a time; others wait.
    pub workers: usize,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// From the connection to the end of the login.
    pub login: Duration,
    /// A session without requests for so long gives back what it can do without.
    pub rest: Duration,
    /// What running requests are given when the endpoint stops.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 16_000,
            logging_in: 1000,
            workers: 256,
            request_bytes: 64 << 20,
            login: Duration::from_secs(15),
            rest: Duration::from_secs(5),
            stop: Duration::from_secs(5),
        }
    }
}

/// An endpoint's setup.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens; port 0 for any.
    pub listen: SocketAddr,
    /// What is encrypted.
    pub mode: Mode,
    /// The certificate; needed in all modes but [`Mode::Off`].
    pub identity: Option<IdentityFiles>,
    /// The list of logins.
    pub logins: PathBuf,
    /// Bounds.
    pub limits: Limits,
}
