//! Configuration of an endpoint.

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
    /// The client decides: at least the login if it can, everything if it wants.
    On,
    /// Everything, or the client is refused.
    Required,
    /// Everything, and TLS comes first (TDS 8.0).
    Strict,
}

/// The decision on a client that has stated its wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreed {
    Plain,
    LoginOnly,
    All,
    /// It is refused.
    Refused,
}

impl Mode {
    /// Returns the server's answer to a client within PRELOGIN, and the resulting decision. Source:
    /// the table in MS-TDS 2.2.6.5.
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

/// Maximum number of connections.
const MOST_CONNECTIONS: usize = 16_000;
/// Maximum number of descriptors for other purposes than sessions: the listener, clients that are
/// turned away, backups, key files.
const OWN_FILES: usize = 256;
/// Number of descriptors of an active session: a database, its log, the log's index, a temporary
/// file.
const FILES_OF_SESSION: usize = 4;

/// Limits on the resources of clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Concurrent connections; at most 32,767, the number of session IDs.
    pub connections: usize,
    /// Concurrent connections that have not logged in.
    pub logging_in: usize,
    /// Concurrently running requests; others wait.
    pub workers: usize,
    /// Concurrent sessions that keep their databases' files between requests; others are put to
    /// rest at the end of their request.
    pub awake: usize,
    /// Maximum length of a request.
    pub request_bytes: usize,
    /// Time limit from the connection to the end of the login.
    pub login: Duration,
    /// Idle time after which a session releases the resources that it does not need.
    pub rest: Duration,
    /// Time that running requests are given when the endpoint stops.
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
    /// Returns limits for which `files` descriptors suffice, so that a new client finds one, and a
    /// session with a request finds those of its databases. A resting connection has only its
    /// socket, so most of them are for connections.
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

/// Configuration of an endpoint.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on; port 0 for any.
    pub listen: SocketAddr,
    /// The parts of a connection that are encrypted.
    pub mode: Mode,
    /// The certificate; needed in all modes but [`Mode::Off`].
    pub identity: Option<IdentityFiles>,
    /// The list of logins.
    pub logins: PathBuf,
    /// Limits.
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
