//! One server: initialised, started, queried, stopped or killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tdekit_system_use::{Moment, die_with_parent};

use crate::error::ServerError;
use crate::mysql::Unpacked;
use crate::programs::Programs;

/// Time limit for a server's first answer.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Time limit for a clean shutdown, which writes out the whole buffer pool.
const STOP_LIMIT: Duration = Duration::from_mins(2);
/// Number of bytes of an error log that are included in an error.
const LAST_WORDS: usize = 3000;

/// Configuration of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    /// Its data directory, initialised.
    pub data: PathBuf,
    /// Lines of the server's section, such as `innodb-encrypt-log=ON`.
    pub options: Vec<String>,
    /// Option files that are read first.
    pub include: Vec<PathBuf>,
    /// Additional variables of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Port on loopback; `None` for the socket alone.
    pub port: Option<u16>,
    /// A program with its arguments that starts the server, such as a tracer; it must end as the
    /// server, in the same process.
    pub under: Vec<OsString>,
}

/// Makes the data directory `data` with system tables and a `root@localhost` without a password.
/// `options` are lines of an option file for it, such as `innodb-page-size=4k`.
///
/// # Errors
/// When the program fails.
pub fn initialise(programs: &Programs, data: &Path, options: &[&str]) -> Result<(), ServerError> {
    // For the reason in `temporary_in`.
    let temporary = tempfile::tempdir()
        .map_err(ServerError::file("cannot make a directory in", std::env::temp_dir()))?;
    let mut command = match &programs.unpacked {
        Some(unpacked) => {
            let mut command = programs.command();
            command.args(["--no-defaults", "--initialize-insecure"]);
            command.args(unpacked.options().iter().map(|option| format!("--{option}")));
            command
        }
        None => {
            let mut command = Command::new(&programs.install);
            command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
            command.args(["--skip-test-db", "--skip-name-resolve"]);
            command.arg("--innodb-flush-log-at-trx-commit=0");
            command
        }
    };
    command
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--tmpdir={}", temporary.path().display()))
        .args(options.iter().map(|option| format!("--{option}")));
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ServerError::Start { program: programs.install.clone(), source })?;
    let name = programs.install.file_name().unwrap_or_default();
    checked(&name.to_string_lossy(), output).map(drop)
}

/// A running server. Dropping it kills it; its data directory stays.
#[derive(Debug)]
pub struct Server {
    child: Child,
    client: PathBuf,
    data: PathBuf,
    log: PathBuf,
    /// Directory of the socket, whose path must be short, and the option file.
    run: tempfile::TempDir,
}

impl Server {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// `Ended` with the end of the error log if the server refuses.
    pub fn start(programs: &Programs, config: &ServerConfig) -> Result<Self, ServerError> {
        let run = tempfile::Builder::new()
            .prefix("tdekit-db-")
            .tempdir()
            .map_err(ServerError::file("cannot make a directory in", std::env::temp_dir()))?;
        let temporary = temporary_in(run.path());
        std::fs::create_dir(&temporary).map_err(ServerError::file("cannot make", &temporary))?;
        let options = run.path().join("my.cnf");
        std::fs::write(&options, option_file(run.path(), programs, config))
            .map_err(ServerError::file("cannot write", &options))?;
        let log = config.data.with_extension("err");
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .open(&log)
                .map_err(ServerError::file("cannot write", &log))
        };
        let mut command = programs.command_under(&config.under);
        command
            .arg(format!("--defaults-file={}", options.display()))
            .envs(config.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?);
        let child = die_with_parent(&mut command)
            .spawn()
            .map_err(|source| ServerError::Start { program: programs.server.clone(), source })?;
        let (client, data) = (programs.client.clone(), config.data.clone());
        let mut server = Self { child, client, data, log, run };
        server.wait_for_answer()?;
        Ok(server)
    }

    fn wait_for_answer(&mut self) -> Result<(), ServerError> {
        let begun = Instant::now();
        while !(self.socket().exists() && self.sql("SELECT 1").is_ok()) {
            let ended =
                self.child.try_wait().map_err(ServerError::file("cannot wait for", "it"))?;
            if let Some(status) = ended {
                return Err(ServerError::Ended { status, log: self.last_words() });
            }
            if begun.elapsed() > START_LIMIT {
                let waited_s = START_LIMIT.as_secs();
                return Err(ServerError::Silent { waited_s, log: self.last_words() });
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(())
    }

    /// Returns the path of its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.run.path().join("s")
    }

    /// Returns its data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the current counters of its process.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment::of(self.pid())
    }

    /// Returns its error log, including earlier starts on the same data directory.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the path of the error log of a server on `data`.
    #[must_use]
    pub fn log_path(data: &Path) -> PathBuf {
        data.with_extension("err")
    }

    fn last_words(&self) -> String {
        let log = self.log();
        let start = log.len().saturating_sub(LAST_WORDS);
        let start = (start..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(0);
        log[start..].trim().to_owned()
    }

    /// Returns the client, which connects as root.
    #[must_use]
    pub fn client(&self) -> Command {
        let mut command = Command::new(&self.client);
        command.arg("--no-defaults").arg(format!("--socket={}", self.socket().display())).args([
            "--user=root",
            "--batch",
            "--skip-column-names",
        ]);
        command
    }

    /// Runs statements; returns their rows, with columns separated by tabs, lines ending in a
    /// newline.
    ///
    /// # Errors
    /// `Sql` with the server's error.
    pub fn sql(&self, sql: &str) -> Result<String, ServerError> {
        let mut child = self
            .client()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ServerError::Start { program: self.client.clone(), source })?;
        if let Some(mut input) = child.stdin.take() {
            let sql = sql.to_owned();
            // From a thread: rows may fill the pipe before all statements are read. A client that
            // ended early reports the reason itself.
            std::thread::spawn(move || input.write_all(sql.as_bytes()));
        }
        let output = child
            .wait_with_output()
            .map_err(|source| ServerError::Start { program: self.client.clone(), source })?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(ServerError::Sql { message })
        }
    }

    /// Suspends its process, so that it does nothing until [`Self::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues after [`Self::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Fails only for a process that has ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// Shuts it down cleanly.
    ///
    /// # Errors
    /// If it ends otherwise, or not at all.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.resume();
        self.signal(Signal::TERM);
        let begun = Instant::now();
        loop {
            let ended =
                self.child.try_wait().map_err(ServerError::file("cannot wait for", "it"))?;
            match ended {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(ServerError::Ended { status, log: self.last_words() });
                }
                None if begun.elapsed() > STOP_LIMIT => {
                    let waited_s = STOP_LIMIT.as_secs();
                    return Err(ServerError::Silent { waited_s, log: self.last_words() });
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Kills it (SIGKILL), as a crash would.
    ///
    /// # Errors
    /// If the process cannot be reaped.
    pub fn kill(mut self) -> Result<ExitStatus, ServerError> {
        // Fails only for a process that has ended.
        let _ = self.child.kill();
        self.child.wait().map_err(ServerError::file("cannot wait for", "it"))
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for what is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the directory of a server's temporary tables. It is not shared: a server that starts
/// removes other servers' tables in the same directory.
fn temporary_in(run: &Path) -> PathBuf {
    run.join("tmp")
}

/// Returns the whole option file: `--defaults-file` excludes the system's own.
fn option_file(run: &Path, programs: &Programs, config: &ServerConfig) -> String {
    let mut text = String::new();
    for path in &config.include {
        text.push_str(&format!("!include {}\n", path.display()));
    }
    let base = [
        format!("datadir={}", config.data.display()),
        format!("socket={}", run.join("s").display()),
        format!("tmpdir={}", temporary_in(run).display()),
        format!("pid-file={}", run.join("pid").display()),
        "skip-name-resolve".to_owned(),
        "loose-innodb-buffer-pool-load-at-startup=OFF".to_owned(),
        "loose-innodb-buffer-pool-dump-at-shutdown=OFF".to_owned(),
        "loose-feedback=OFF".to_owned(),
    ];
    let own = programs.unpacked.as_ref().map(Unpacked::options);
    text.push_str(if own.is_some() { "[mysqld]\n" } else { "[mariadbd]\n" });
    let own = own.unwrap_or_default();
    for line in base.iter().chain(&own).chain(&config.options) {
        text.push_str(line);
        text.push('\n');
    }
    match config.port {
        Some(port) => text.push_str(&format!("bind-address=127.0.0.1\nport={port}\n")),
        None => text.push_str("skip-networking\n"),
    }
    if rustix::process::geteuid().is_root() {
        text.push_str("user=root\n");
    }
    text
}

fn checked(program: &str, output: Output) -> Result<Output, ServerError> {
    if output.status.success() {
        return Ok(output);
    }
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.trim().is_empty() {
        said = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    let lines: Vec<&str> = said.trim().lines().collect();
    let stderr = lines[lines.len().saturating_sub(12)..].join("\n");
    Err(ServerError::Program { program: program.to_owned(), status: output.status, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_file_keeps_to_the_socket_unless_a_port_is_given() {
        let mut config = ServerConfig {
            data: "/d".into(),
            options: vec!["innodb-encrypt-log=ON".into()],
            include: vec!["/i.cnf".into()],
            ..ServerConfig::default()
        };
        let paths = [const { PathBuf::new() }; 3];
        let [server, install, client] = paths;
        let programs = Programs { server, install, client, unpacked: None };
        let text = option_file(Path::new("/r"), &programs, &config);
        assert!(text.starts_with("!include /i.cnf\n[mariadbd]\ndatadir=/d\nsocket=/r/s\n"));
        assert!(text.contains("\ntmpdir=/r/tmp\n"));
        assert!(text.contains("\ninnodb-encrypt-log=ON\n") && text.contains("\nskip-networking\n"));
        config.port = Some(4000);
        let text = option_file(Path::new("/r"), &programs, &config);
        assert!(text.contains("bind-address=127.0.0.1\nport=4000\n"));
        assert!(!text.contains("skip-networking"));
    }
}
