//! Options of every run on an existing server: its connection, and the limits of the run.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use zeroize::Zeroizing;

use crate::address::{Password, Protocol, ServerUrl};
use crate::error::{BenchError, Result};
use crate::numbers::size;

/// Environment variable with the password for the server.
pub(crate) const PASSWORD_VARIABLE: &str = "TDEKIT_LOGIN_PASSWORD";
/// Environment variable with the password for programs with MariaDB's or MySQL's client library.
pub(crate) const CLIENT_PASSWORD_VARIABLE: &str = "MYSQL_PWD";

/// Accepted certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those that chain to the system's roots.
    System,
    /// Those that chain to a certificate in this PEM file, or are in it.
    File(PathBuf),
    /// Any, also a self-signed one: the connection is encrypted, but the server is not
    /// authenticated.
    Anyone,
}

/// Room on a server, of a run there or of a script.
#[derive(Debug, Clone, Args)]
pub(crate) struct Room {
    /// Room that the run may take on the server, at most. A run that needs more is refused.
    #[arg(long = "max-size", value_name = "SIZE", default_value = "1GB", value_parser = size)]
    max_bytes: u64,
}

/// A run on a server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of --target mysql:// and mssql://")]
pub(crate) struct ServerOptions {
    /// Print every statement that the run would send, and send none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Connections to the server at a time, at most. Default: 16 to a SQL Server, 64 to a MySQL
    /// server.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=2_000))]
    max_connections: Option<u32>,
    #[command(flatten)]
    pub(crate) room: Room,
    /// Accept any certificate of the server, also a self-signed one.
    #[arg(long = "trust", conflicts_with = "tls_ca")]
    trust_any: bool,
    /// Accept certificates that those in this PEM file vouch for. Default: the system's roots.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Connect to a MySQL server without TLS, where whoever is on the way can read along. Default:
    /// TLS and a checked certificate, but on loopback, where nothing leaves the machine.
    #[arg(long, conflicts_with_all = ["trust_any", "tls_ca"])]
    plain: bool,
    /// Take the server's password from this file. Default: that of the address, else
    /// $TDEKIT_LOGIN_PASSWORD, for a MySQL server also $MYSQL_PWD, else what is typed on the
    /// terminal.
    #[arg(long, value_name = "FILE")]
    login_password_file: Option<PathBuf>,
}

impl Room {
    /// Fails if a run needs more space on the server than permitted.
    pub(crate) fn check(&self, rows: u64, needed_bytes: u64) -> Result<()> {
        if needed_bytes <= self.max_bytes {
            return Ok(());
        }
        let reason = format!(
            "{rows} rows a table need some {needed_bytes} bytes on the server, and {} are allowed: \
             fewer --rows, or a larger --max-size",
            self.max_bytes
        );
        Err(BenchError::option("--max-size", reason))
    }
}

impl ServerOptions {
    /// Returns the maximum number of concurrent connections; `usual` by default.
    pub(crate) fn max_connections(&self, usual: u32) -> u32 {
        self.max_connections.unwrap_or(usual)
    }

    /// Returns the accepted certificates.
    pub(crate) fn trust(&self) -> Trust {
        match &self.tls_ca {
            Some(path) => Trust::File(path.clone()),
            None if self.trust_any => Trust::Anyone,
            None => Trust::System,
        }
    }

    /// The same for a MySQL server; none for plain connections.
    pub(crate) fn mysql_trust(&self, url: &ServerUrl) -> Option<Trust> {
        let asked = self.tls_ca.is_some() || self.trust_any;
        (!self.plain && (asked || !url.is_loopback())).then(|| self.trust())
    }

    /// Fails if plain connections were requested, which the experiments on a SQL Server configure
    /// in another way.
    pub(crate) fn check_encrypted(&self) -> Result<()> {
        if !self.plain {
            return Ok(());
        }
        let reason = "on a SQL Server logins are always encrypted; --experiment messages compares \
                      plain connections";
        Err(BenchError::option("--plain", reason))
    }

    /// Returns the password for a server: from the named file, else from the address, else from the
    /// environment, else from the terminal. None if there is no terminal, and for a user without
    /// one: the address states that by `USER:@HOST`.
    pub(crate) fn password(&self, url: &ServerUrl) -> Result<Option<Password>> {
        let found = match &self.login_password_file {
            Some(path) => Some(read_password(path)?),
            None => url.password.clone().or_else(|| of_environment(url.protocol)),
        };
        let found = match found {
            None if std::io::stdin().is_terminal() => Some(ask(url)?),
            found => found,
        };
        Ok(found.filter(|password| !password.is_empty()))
    }
}

fn of_environment(protocol: Protocol) -> Option<Password> {
    let clients = (protocol == Protocol::Mysql).then_some(CLIENT_PASSWORD_VARIABLE);
    let mut names = [PASSWORD_VARIABLE].into_iter().chain(clients);
    let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    names.find_map(value).map(Zeroizing::new)
}

/// Reads the file's first line.
fn read_password(path: &Path) -> Result<Password> {
    let text = std::fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(BenchError::file("cannot read", path))?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

/// Prompts on the terminal, without echo.
fn ask(url: &ServerUrl) -> Result<Password> {
    rpassword::prompt_password(format!("Password for {url}: "))
        .map(Zeroizing::new)
        .map_err(BenchError::file("cannot ask on", "the terminal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::parsed;

    fn options(words: &[&str]) -> ServerOptions {
        parsed(words).unwrap()
    }

    #[test]
    fn passwords_come_from_a_file_first_and_may_be_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from file\nsecond line\n").unwrap();
        let path = file.path().to_str().unwrap();
        let found = |words: &[&str], url: &str| {
            let found = options(words).password(&url.parse().unwrap()).unwrap();
            found.map(|password| password.as_str().to_owned())
        };
        let named = ["--login-password-file", path];
        assert_eq!(found(&named, "mssql://sa:url@host").as_deref(), Some("from file"));
        assert_eq!(found(&[], "mysql://sa:url@host/d").as_deref(), Some("url"));
        assert_eq!(found(&[], "mysql://sa:@host/d"), None);
        let missing = options(&["--login-password-file", "/not/there"]);
        assert!(missing.password(&"mssql://sa@host".parse().unwrap()).is_err());
    }

    #[test]
    fn connections_are_plain_where_that_was_said_and_on_loopback() {
        let trust = |words: &[&str], host: &str| {
            options(words).mysql_trust(&format!("mysql://me@{host}/d").parse().unwrap())
        };
        assert_eq!(trust(&[], "db.example"), Some(Trust::System));
        assert_eq!(trust(&[], "127.0.0.1"), None);
        assert_eq!(trust(&["--trust"], "127.0.0.1"), Some(Trust::Anyone));
        assert_eq!(trust(&["--tls-ca", "x"], "localhost"), Some(Trust::File("x".into())));
        assert_eq!(trust(&["--plain"], "db.example"), None);
        assert!(parsed::<ServerOptions>(&["--plain", "--trust"]).is_err());
        assert!(options(&["--plain"]).check_encrypted().is_err());
    }

    #[test]
    fn room_is_bounded() {
        assert!(options(&[]).room.check(10, 1_000_000_000).is_ok());
        let refused = options(&["--max-size", "10MB"]).room.check(7, 10_000_001).unwrap_err();
        assert!(refused.to_string().starts_with("--max-size: 7 rows a table need some 10000001"));
        assert!(parsed::<ServerOptions>(&["--max-connections", "3"]).is_err());
        assert!(parsed::<ServerOptions>(&["--trust", "--tls-ca", "x.pem"]).is_err());
    }
}
