//! Queries to a server, through a command-line client of MariaDB or MySQL.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::MariadbError;

/// MariaDB's client.
const PROGRAM: &str = "mariadb";

/// Connection to a server. A password comes from an option file or from `MYSQL_PWD`.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Option file for the client, read in place of the usual ones
    pub defaults_file: Option<PathBuf>,
    /// Socket of the server
    pub socket: Option<PathBuf>,
    /// Host of the server
    pub host: Option<String>,
    /// Port of the server
    pub port: Option<u16>,
    /// User of the server
    pub user: Option<String>,
}

/// A client for a named server.
#[derive(Debug)]
pub struct Client<'a> {
    connection: &'a Connection,
    program: &'static str,
}

impl Connection {
    /// Returns a client for the named server; `None` if none is named.
    #[must_use]
    pub fn client(&self) -> Option<Client<'_>> {
        self.client_by(PROGRAM)
    }

    /// As [`Self::client`], by another program with the same arguments.
    #[must_use]
    pub fn client_by(&self, program: &'static str) -> Option<Client<'_>> {
        let named = self.defaults_file.is_some()
            || self.socket.is_some()
            || self.host.is_some()
            || self.port.is_some()
            || self.user.is_some();
        named.then_some(Client { connection: self, program })
    }
}

impl Client<'_> {
    /// Runs a statement; returns the rows' columns as text.
    ///
    /// # Errors
    /// `Program`, `Server`.
    pub fn rows(&self, sql: &str) -> Result<Vec<Vec<String>>, MariadbError> {
        let output = self
            .command()
            .args(["--batch", "--skip-column-names", "--execute", sql])
            .stdin(Stdio::null())
            .output()
            .map_err(|source| MariadbError::Program { program: self.program, source })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(MariadbError::Server(said));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    }

    /// Returns one row of numbers; NULL is 0.
    ///
    /// # Errors
    /// `Answer`; those of [`Self::rows`].
    pub fn numbers<const N: usize>(
        &self,
        what: &'static str,
        sql: &str,
    ) -> Result<[u64; N], MariadbError> {
        let rows = self.rows(sql)?;
        let row = rows.first().ok_or(MariadbError::Answer { what })?;
        let mut numbers = [0; N];
        if row.len() != N {
            return Err(MariadbError::Answer { what });
        }
        for (number, text) in numbers.iter_mut().zip(row) {
            if text != "NULL" {
                *number = text.parse().map_err(|_| MariadbError::Answer { what })?;
            }
        }
        Ok(numbers)
    }

    fn command(&self) -> Command {
        let Self { connection: args, program } = self;
        let mut command = Command::new(program);
        if let Some(file) = &args.defaults_file {
            // The client accepts this option only as its first argument.
            command.arg(format!("--defaults-file={}", file.display()));
        }
        if let Some(socket) = &args.socket {
            command.arg(format!("--socket={}", socket.display()));
        }
        if let Some(host) = &args.host {
            command.arg(format!("--host={host}"));
        }
        if let Some(port) = args.port {
            command.arg(format!("--port={port}"));
        }
        if let Some(user) = &args.user {
            command.arg(format!("--user={user}"));
        }
        command
    }
}
