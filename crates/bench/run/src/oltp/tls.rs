//! TLS to an existing MySQL server, configured for its two clients.
//!
//! Sysbench's own `--mysql-ssl` requires a client's certificate and checks no name. MariaDB's
//! client library, with which it is linked, accepts a connection string in place of a host (from
//! version 3.3 on), which supports all options. An older library takes the string for the name of a
//! host, which does not exist, so nothing is sent.

use std::path::Path;

use super::client::Client;
use crate::address::ServerUrl;
use crate::error::{BenchError, Result};
use crate::private;
use crate::server_options::Trust;

/// The certificate authorities, in the clients' working directory.
const AUTHORITIES: &str = "ca.pem";
/// For `localhost`, which both clients interpret as a socket.
const LOOPBACK: &str = "127.0.0.1";

/// How connections are made: plain, or by TLS with this trust in the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channel(Option<Trust>);

impl Channel {
    /// Writes the files that the clients need into their working directory.
    pub(super) fn prepare(trust: Option<&Trust>, directory: &Path) -> Result<Self> {
        if let Some(Trust::File(path)) = trust {
            let authorities = std::fs::read(path).map_err(BenchError::file("cannot read", path))?;
            private::write(&directory.join(AUTHORITIES), &authorities)?;
        }
        Ok(Self(trust.cloned()))
    }

    /// Returns lines of the command-line client's option file.
    pub(super) fn client_lines(&self) -> String {
        match &self.0 {
            None => "skip-ssl\n".to_owned(),
            Some(Trust::Anyone) => "ssl\nskip-ssl-verify-server-cert\n".to_owned(),
            Some(Trust::System) => "ssl\nssl-verify-server-cert\n".to_owned(),
            Some(Trust::File(_)) => format!("ssl-ca={AUTHORITIES}\nssl-verify-server-cert\n"),
        }
    }

    /// Returns sysbench's host.
    pub(super) fn sysbench_host(&self, url: &ServerUrl) -> String {
        let host = host(url);
        match &self.0 {
            None => host.to_owned(),
            Some(Trust::Anyone) => format!("host={host};ssl-enforce=1"),
            Some(Trust::System) => format!("host={host};ssl-enforce=1;ssl-verify-server-cert=1"),
            Some(Trust::File(_)) => {
                format!("host={host};ssl-enforce=1;ssl-verify-server-cert=1;ssl-ca={AUTHORITIES}")
            }
        }
    }

    /// Returns the protocol and suite of the control connection.
    ///
    /// # Errors
    /// If TLS is required, and the server offered none.
    pub(super) fn negotiated(&self, client: &Client) -> Result<Option<String>> {
        if self.0.is_none() {
            return Ok(None);
        }
        let rows = client.sql(STATUS)?;
        let value = |name: &str| {
            let line = rows.lines().find_map(|line| line.strip_prefix(name))?.trim();
            (!line.is_empty()).then(|| line.to_owned())
        };
        let found = value("Ssl_version").zip(value("Ssl_cipher"));
        let found = found.map(|(version, suite)| format!("{version} {suite}"));
        found.map(Some).ok_or_else(|| {
            let reason = "the server offers no TLS; --plain connects without";
            BenchError::option("--target", reason)
        })
    }

    /// Returns its limits, for the report.
    pub(super) fn limit(&self, url: &ServerUrl) -> Option<String> {
        let limit = match &self.0 {
            Some(Trust::Anyone) => {
                "--trust: the server's certificate was not checked, so anybody may have answered."
            }
            Some(Trust::System | Trust::File(_)) => return None,
            None if url.is_loopback() => {
                "Connections were plain: they did not leave the machine (--trust or --tls-ca asks \
                 for TLS there)."
            }
            None => {
                "--plain: connections were neither encrypted nor the server checked; login and \
                 rows could be read on the way."
            }
        };
        Some(limit.to_owned())
    }
}

/// The statement that returns the encryption of the connection.
pub(super) const STATUS: &str = "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_version', \
                                 'Ssl_cipher')";

/// Returns the host for both clients.
pub(super) fn host(url: &ServerUrl) -> &str {
    if url.host == "localhost" { LOOPBACK } else { &url.host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clients_ask_for_the_same() {
        let url: ServerUrl = "mysql://me@db.example/app".parse().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a b;c.pem");
        std::fs::write(&file, "authority").unwrap();
        let of = |trust: Option<Trust>| {
            let channel = Channel::prepare(trust.as_ref(), directory.path()).unwrap();
            (channel.client_lines(), channel.sysbench_host(&url))
        };
        let checked = "ssl-verify-server-cert";
        for trust in [Trust::System, Trust::File(file.clone())] {
            let (lines, host) = of(Some(trust));
            assert!(lines.contains(&format!("\n{checked}\n")), "{lines}");
            assert!(host.contains(&format!(";{checked}=1")), "{host}");
        }
        assert_eq!(of(Some(Trust::File(file))).1.matches("ssl-ca=ca.pem").count(), 1);
        assert_eq!(std::fs::read(directory.path().join("ca.pem")).unwrap(), b"authority");
        let (lines, host) = of(Some(Trust::Anyone));
        assert!(lines.starts_with("ssl\n") && host.ends_with(";ssl-enforce=1"));
        assert_eq!(of(None), ("skip-ssl\n".to_owned(), "db.example".to_owned()));
        let missing = Trust::File("/not/there.pem".into());
        assert!(Channel::prepare(Some(&missing), directory.path()).is_err());
    }

    #[test]
    fn what_was_not_checked_is_told() {
        let far: ServerUrl = "mysql://me@db.example/app".parse().unwrap();
        let near: ServerUrl = "mysql://me@localhost/app".parse().unwrap();
        assert_eq!(Channel(Some(Trust::System)).limit(&far), None);
        assert!(Channel(Some(Trust::Anyone)).limit(&far).unwrap().starts_with("--trust"));
        assert!(Channel(None).limit(&far).unwrap().starts_with("--plain"));
        assert!(Channel(None).limit(&near).unwrap().contains("did not leave the machine"));
        assert_eq!((host(&near), host(&far)), (LOOPBACK, "db.example"));
    }
}
