//! The control connection to an existing MySQL server: MariaDB's command-line client, which reads
//! address and password from a pipe, so that they are in no file that a killed run leaves behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use tdekit_private_mariadb::Programs;

use super::swap::{ASIDE, Clause};
use super::tls::{Channel, host};
use crate::address::{Password, ServerUrl};
use crate::error::{BenchError, Result};
use crate::server_options::CLIENT_PASSWORD_VARIABLE;

/// What MySQL encrypts besides tables, with the settings.
pub(super) const MYSQL_LOGS: [(&str, &str); 3] = [
    ("innodb_redo_log_encrypt", "the redo log"),
    ("innodb_undo_log_encrypt", "undo logs"),
    ("binlog_encryption", "binary logs"),
];
/// MySQL's error if no keyring has a master key.
const NO_KEYRING: u32 = 3185;

/// The error for a user who may not create a table.
const NO_RIGHT: u32 = 1142;

/// The client, with its target.
pub(super) struct Client {
    program: PathBuf,
    /// Names in the options are relative to it.
    directory: PathBuf,
    /// Its option file, with the password.
    options: Password,
    pub(super) database: String,
}

impl Client {
    /// `directory` is where the client runs.
    pub(super) fn new(url: &ServerUrl, channel: &Channel, directory: &Path) -> Result<Self> {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!(
            "[client]\nhost={}\nport={}\nuser=\"{}\"\nprotocol=tcp\n{}",
            host(url),
            url.port,
            quoted(&url.user),
            channel.client_lines()
        );
        let mut options = Password::new(text);
        if let Some(password) = &url.password {
            let password = Password::new(quoted(password.as_str()));
            // Reallocation would leave copies behind.
            options.reserve(password.len() + 16);
            options.push_str("password=\"");
            options.push_str(&password);
            options.push_str("\"\n");
        }
        let database = url.database.clone();
        let (program, directory) = (Programs::find_client()?, directory.to_owned());
        Ok(Self { program, directory, options, database })
    }

    pub(super) fn sql(&self, sql: &str) -> Result<String> {
        crate::command::run_fed(
            Command::new(&self.program)
                .arg("--defaults-file=/dev/stdin")
                .args(["--batch", "--skip-column-names", "--execute", sql])
                .arg(&self.database)
                .current_dir(&self.directory)
                // Otherwise it would take precedence over the file's.
                .env_remove(CLIENT_PASSWORD_VARIABLE),
            self.options.as_bytes(),
        )
        .map(|output| String::from_utf8_lossy(&output).into_owned())
        .map_err(by_number)
    }

    /// Returns how tables are created with and without encryption; `None` if that is impossible.
    ///
    /// # Errors
    /// If the server could, but its keyring or a privilege is missing.
    pub(super) fn clause(&self) -> Result<Option<Clause>> {
        for clause in Clause::ALL {
            let probe = |encrypted| self.sql(&clause.probe(encrypted));
            match probe(true) {
                Ok(_) if probe(false).is_ok() => return Ok(Some(clause)),
                Err(BenchError::MySql { number: NO_KEYRING, .. }) => {
                    let reason = "the server has no keyring, so it encrypts no table: load one, \
                                  such as component_keyring_file named in mysqld.my beside \
                                  mysqld, and start the server anew; docs/bench-servers.md has \
                                  the files";
                    return Err(BenchError::option("--target", reason));
                }
                Err(error @ BenchError::MySql { number: NO_RIGHT, .. }) => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the keyring that MySQL has loaded, and its state.
    pub(super) fn keyring(&self) -> Option<String> {
        let component = "SELECT GROUP_CONCAT(STATUS_VALUE ORDER BY STATUS_KEY SEPARATOR ', ') \
                         FROM performance_schema.keyring_component_status \
                         WHERE STATUS_KEY IN ('Component_name', 'Component_status')";
        let plugin = "SELECT GROUP_CONCAT(PLUGIN_NAME) FROM information_schema.plugins \
                      WHERE PLUGIN_NAME LIKE 'keyring%' AND PLUGIN_STATUS = 'ACTIVE'";
        [component, plugin].into_iter().find_map(|sql| {
            let told = self.sql(sql).ok()?.trim().to_owned();
            (!told.is_empty() && told != "NULL").then_some(told)
        })
    }

    /// Returns which of MySQL's logs are encrypted, on both sides.
    pub(super) fn logs(&self) -> impl Iterator<Item = String> {
        let said = |name: &str| self.sql(&format!("SELECT @@{name}")).ok();
        let state = |(name, what): (&str, &'static str)| {
            let state = if said(name)?.trim() == "1" { "encrypted" } else { "in the clear" };
            Some(format!("{what} {state}"))
        };
        let states: Vec<String> = MYSQL_LOGS.into_iter().filter_map(state).collect();
        let told = format!("By the server's settings, on both sides: {}.", states.join(", "));
        (!states.is_empty()).then_some(told).into_iter()
    }

    /// Returns what cannot be compared at a provider that encrypts the storage below the server.
    pub(super) fn provider(&self) -> Option<String> {
        let said = |sql: &str| self.sql(sql).unwrap_or_default().trim().to_lowercase();
        let name = if !said("SELECT @@aurora_version").is_empty() {
            "Amazon Aurora"
        } else if said("SELECT @@basedir").starts_with("/rdsdbbin") {
            "Amazon RDS"
        } else if said("SELECT VERSION()").contains("-google") {
            "Google Cloud SQL"
        } else {
            return None;
        };
        Some(format!(
            "{name}: the storage below the server is encrypted or not for the whole instance, and \
             no table can switch that. What it costs is told by two instances, one of each kind, \
             and `tdekit bench compare` over their results."
        ))
    }
}

impl Clause {
    /// Returns the statements that check if the server creates such a table.
    pub(super) fn probe(self, encrypted: bool) -> String {
        format!(
            "CREATE TABLE {ASIDE}probe(a INT) ENGINE=InnoDB {}; DROP TABLE {ASIDE}probe",
            self.option(encrypted)
        )
    }
}

/// Returns a failed program's error as that of the server, or of the client library, by its number;
/// others unchanged.
pub(super) fn by_number(error: BenchError) -> BenchError {
    let told = match &error {
        BenchError::Command { stderr, .. } => stderr.lines().find_map(told),
        _ => None,
    };
    told.map_or(error, |(number, message)| BenchError::MySql { number, message })
}

/// `ERROR 1045 (28000) at line 1: Access denied` of the client; `error 2003: Can't connect` and
/// `returned error 1114 (The table is full) for query 'INSERT` of sysbench.
fn told(line: &str) -> Option<(u32, String)> {
    let client = line.strip_prefix("ERROR ");
    let rest = client.or_else(|| line.split_once("error ").map(|(_, rest)| rest))?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let message = match (client, rest.strip_prefix(" (")) {
        (None, Some(rest)) => rest.split_once(") for query").map_or(rest, |(said, _)| said),
        _ => rest.split_once(": ")?.1,
    };
    Some((number.parse().ok()?, message.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_known_by_their_numbers() {
        for (line, number, message) in [
            ("ERROR 1045 (28000): Access denied for user 'a'@'b'", 1045, "Access denied for user"),
            ("ERROR 3185 (HY000) at line 1: Can't find master key", 3185, "Can't find master key"),
            ("FATAL: error 2003: Can't connect to server on 'h' (111)", 2003, "Can't connect to"),
            (
                "FATAL: mysql_drv_query() returned error 1114 (The table 'sbtest1' is full) for \
                 query 'INSERT INTO sbtest1(k, c, pad) VALUES(1, 'x: y')'",
                1114,
                "The table 'sbtest1' is full",
            ),
        ] {
            let (found, said) = told(line).unwrap();
            assert!(found == number && said.starts_with(message), "{found} {said}");
            assert!(!said.contains("for query"), "{said}");
        }
        assert_eq!(told("FATAL: `thread_run' function failed"), None);
        assert_eq!(told("error message"), None);
        let other = by_number(BenchError::Interrupted);
        assert!(matches!(other, BenchError::Interrupted));
    }
}
