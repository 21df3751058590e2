//! A real driver: its time as seen by the user, which includes the driver's own work and the wire.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tdekit_private_mariadb::find_program;
use tdekit_system_use::{Use, die_with_parent, wait, wall_ns, without_terminal};

use super::tds::{Login, Mode, Trust};
use crate::command::{failed, last_words};
use crate::error::{BenchError, Result};
use crate::private;

/// FreeTDS's program over its DB-Library.
const PROGRAM: &str = "bsqldb";
const PACKAGE: &str = "freetds-bin";
/// Name of the server in its configuration.
const SERVER: &str = "tdekit_bench";

/// FreeTDS, run as by a user: a process for each batch, which logs in, runs it and writes the
/// result to a file.
pub(super) struct Freetds {
    program: PathBuf,
    directory: private::Directory,
}

/// A batch through a driver.
pub(super) struct Driven {
    pub(super) elapsed_ns: u64,
    /// The driver's process.
    pub(super) client: Use,
    pub(super) lines: u64,
    pub(super) last_line: String,
}

impl Freetds {
    /// Finds the program.
    ///
    /// # Errors
    /// [`BenchError::ToolMissing`] if it is not installed.
    pub(super) fn find(directory: &Path) -> Result<Self> {
        let program = find_program(PROGRAM).ok_or_else(|| BenchError::ToolMissing {
            name: "FreeTDS".to_owned(),
            remedy: format!("apt-get install {PACKAGE}"),
        })?;
        let directory = private::directory(directory, "tdekit-driver-")?;
        Ok(Self { program, directory })
    }

    /// Returns true if it supports this kind of connection.
    pub(super) fn knows(mode: Mode) -> bool {
        matches!(mode, Mode::Off | Mode::On)
    }

    /// Runs a batch.
    ///
    /// # Errors
    /// A program that fails, or that writes to its error output.
    pub(super) fn run(&self, login: &Login, mode: Mode, batch: &str) -> Result<Driven> {
        let (script, result) = (self.place("batch.sql"), self.place("result"));
        private::write(&script, batch.as_bytes())?;
        let configuration = configuration(login, mode);
        private::write(&self.place("freetds.conf"), configuration.as_bytes())?;
        let mut command = Command::new(&self.program);
        command
            .env("FREETDSCONF", self.place("freetds.conf"))
            .env_remove("TDSVER")
            .args(["-q", "-S", SERVER, "-U", &login.user, "-i"])
            .arg(&script)
            .arg("-o")
            .arg(&result)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if !login.database.is_empty() {
            command.args(["-D", &login.database]);
        }
        let began = wall_ns();
        let mut child = without_terminal(die_with_parent(&mut command))
            .spawn()
            .map_err(BenchError::start(PROGRAM))?;
        if let Some(mut input) = child.stdin.take() {
            // If the program has ended or does not read it, it reports that itself.
            let _taken = writeln!(input, "{}", login.password.as_str());
        }
        let said = child.stderr.take().map(last_words).unwrap_or_default();
        let finished = wait(child).map_err(BenchError::start(PROGRAM))?;
        let elapsed_ns = wall_ns().saturating_sub(began);
        // It prompts for the password there.
        let said = said.replace("Password: ", "");
        if !finished.status.success() || !said.trim().is_empty() {
            return Err(failed(PROGRAM, finished.status, &said));
        }
        let (lines, last_line) = count_lines(&result)?;
        Ok(Driven { elapsed_ns, client: finished.used, lines, last_line })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Trust as in the bench's own client; FreeTDS trusts any certificate by default.
fn configuration(login: &Login, mode: Mode) -> String {
    let encryption = if mode == Mode::Off { "off" } else { "require" };
    let mut text = format!(
        "[{SERVER}]\nhost = {}\nport = {}\ntds version = 7.4\nencryption = {encryption}\n\
         initial block size = {}\nclient charset = UTF-8\n",
        login.host, login.port, login.packet_bytes
    );
    match &login.trust {
        Trust::Anyone => text.push_str("check certificate hostname = no\n"),
        Trust::System => text.push_str("ca file = system\n"),
        Trust::File(path) => text.push_str(&format!("ca file = {}\n", path.display())),
    }
    text
}

/// Returns the number of non-empty lines, and the last of them.
fn count_lines(path: &Path) -> Result<(u64, String)> {
    let file = File::open(path).map_err(BenchError::file("cannot read", path))?;
    let mut found = (0, String::new());
    for line in BufReader::new(file).lines() {
        let line = line.map_err(BenchError::file("cannot read", path))?;
        if !line.trim().is_empty() {
            found = (found.0 + 1, line.trim().to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_configuration_has_no_password() {
        let login = Login {
            host: "127.0.0.1".to_owned(),
            port: 1500,
            user: "sa".to_owned(),
            password: Zeroizing::new("secret".to_owned()),
            database: String::new(),
            trust: Trust::File(PathBuf::from("ca.pem")),
            packet_bytes: 4096,
            stopped: || false,
        };
        let text = configuration(&login, Mode::On);
        for wanted in ["port = 1500", "encryption = require", "ca file = ca.pem"] {
            assert!(text.contains(wanted), "{text}");
        }
        assert!(!text.contains("secret"));
        assert!(configuration(&login, Mode::Off).contains("encryption = off"));
        assert!(!Freetds::knows(Mode::Strict));
    }

    #[test]
    fn lines_of_a_result_are_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1  a\n\n 20000  \n").unwrap();
        assert_eq!(count_lines(file.path()).unwrap(), (2, "20000".to_owned()));
    }
}
