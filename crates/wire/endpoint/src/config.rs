//! How an endpoint is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tdekit_wire_tds::prelogin::Encryption;

use crate::tls::IdentityFiles;

/// The parts of a connection that are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: there is no TLS.
    Off,
    /// The client's choice: the login at least where it can, all if it wants.
    On,
    /// All, or the client is refused.
    Required,
    /// All, and TLS comes first (TDS 8.0).
    Strict,
}

/// The decision on a client that has said what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreed {
    Plain,
    LoginOnly,
    All,
    /// It cannot come in.
    Refused,
}

impl Mode {
    /// The server's answer to a client within PRELOGIN, and the resulting decision. Source: the
    /// table in MS-TDS 2.2.6.5.
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

/// The most connections that are served.
const MOST_CONNECTIONS: usize = 16_000;
/// The most descriptors for other uses than sessions: the listener, clients that are turned away,
/// backups, key files.
const OWN_FILES: usize = 256;
/// Descriptors of a session that is awake: a database, its log, the log's index, a temporary file.
const FILES_OF_SESSION: usize = 4;

/// Bounds on what clients can take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; at most 32,767, the numbers that sessions have.
    pub connections: usize,
    /// Connections at a time that have not logged in.
    pub logging_in: usize,
    /// Requests that run at a time; others wait.
    pub workers: usize,
    /// Sessions at a time that keep their databases' files between requests; any others are put to
    /// rest at the end of their request.
    pub awake: usize,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// From the connection to the end of the login.
    pub login: Duration,
    /// A session without requests for so long releases the resources that it does not need.
    pub rest: Duration,
    /// The time that running requests are given when the endpoint stops.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: MOST_CONNECTIONS,
            logging_in: 1000,
            workers: 256,
            awake: MOST_CONNECTIONS,
            request_bytes: 64 << 20,
            login: Duration::from_secs(15),
            rest: Duration::from_secs(5),
            stop: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Bounds that `files` descriptors suffice for, so that a client that comes in finds one, and
    /// a session that has a request finds those of its databases. A connection at rest has its
    /// socket and no more, so most of them are for connections.
    pub fn within(files: u64) -> Limits {
        let limits = Limits::default();
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let own = (files / 8).min(OWN_FILES);
        let connections = limits.connections.min(files / 5 * 3).max(1);
        let sessions = files.saturating_sub(own + connections) / FILES_OF_SESSION;
        let workers = limits.workers.min(sessions / 2).max(1);
        let awake = limits.awake.min(sessions.saturating_sub(workers));
        Limits { connections, workers, awake, ..limits }
    }
}

/// An endpoint's setup.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens; port 0 for any.
    pub listen: SocketAddr,
    /// The parts of a connection that are encrypted.
    pub mode: Mode,
    /// The certificate; needed in all modes but [`Mode::Off`].
    pub identity: Option<IdentityFiles>,
    /// The list of logins.
    pub logins: PathBuf,
    /// Bounds.
    pub limits: Limits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_fit_the_descriptors_and_most_are_for_connections() {
        for files in [64, 256, 1024, 4096, 20_000, 65_536, 1 << 20, u64::MAX] {
            let limits = Limits::within(files);
            let Limits { connections, workers, awake, .. } = limits;
            let taken = connections + FILES_OF_SESSION * (workers + awake);
            assert!(taken as u64 <= files, "{files}: {limits:?}");
            assert!(workers >= 1 && connections as u64 >= files.min(16_000) / 2, "{limits:?}");
        }
        assert!(Limits::within(20_000).connections > 10_000);
        assert_eq!(Limits::within(u64::MAX).connections, Limits::default().connections);
        assert_eq!(Limits::within(65_536).workers, Limits::default().workers);
    }
}
