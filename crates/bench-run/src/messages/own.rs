//! A server of the bench's own: the shipped command, as a user starts it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tdekit_private_mariadb::die_with_parent;
use tempfile::TempDir;
use zeroize::Zeroizing;

use crate::command::run;
use crate::error::BenchError;
use crate::interrupt;
use crate::key_store::{self, KeyEnvironment};
use crate::private;

/// The login that the bench makes and uses.
pub(super) const LOGIN: &str = "sa";
const PASSWORD_VARIABLE: &str = "TDEKIT_LOGIN_PASSWORD";
/// What the command prints once it can be reached.
const LISTENING: &str = "listening on ";
/// Time that a server gets to be reachable, and to end.
const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(15);

/// A directory with a key store, a login and no database, removed in the end.
pub(super) struct Home {
    directory: TempDir,
    tdekit: PathBuf,
    environment: KeyEnvironment,
    pub(super) password: Zeroizing<String>,
}

impl Home {
    /// Makes it, below `directory`.
    pub(super) fn make(tdekit: PathBuf, directory: &std::path::Path) -> Result<Self, BenchError> {
        let made = private::directory(directory, "tdekit-messages-")?;
        let environment = key_store::make(&tdekit, made.path())?;
        let data = made.path().join("data");
        std::fs::create_dir(&data).map_err(BenchError::file("cannot make", &data))?;
        let secret = key_store::random_key()?;
        // Letters of three kinds and a digit, whatever the rules for passwords are.
        let password = Zeroizing::new(format!("Aa1-{}", hex::encode(secret)));
        run(key_store::command(&tdekit, &environment)
            .args(["serve", "login", "add", LOGIN])
            .env(PASSWORD_VARIABLE, password.as_str()))?;
        Ok(Self { directory: made, tdekit, environment, password })
    }

    /// The directory that is served.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Starts a server that offers encryption and does not ask for it.
    pub(super) fn start(&self) -> Result<OwnServer, BenchError> {
        let said = self.directory.path().join("stderr");
        let errors =
            std::fs::File::create(&said).map_err(BenchError::file("cannot make", &said))?;
        let mut command = key_store::command(&self.tdekit, &self.environment);
        command
            .arg("serve")
            .arg(self.data())
            .args(["--listen", "127.0.0.1:0", "--encrypt", "on"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            // A group of its own: Ctrl-C on the terminal reaches the bench alone, which ends it.
            .process_group(0);
        let mut server = OwnServer::spawn(&mut command, &self.tdekit)?;
        let failed = |detail: &str| {
            let words = std::fs::read_to_string(&said).unwrap_or_default();
            let detail = format!("{detail}: {}", words.trim());
            Err(BenchError::WorkerLost { side: "tdekit serve".to_owned(), detail })
        };
        match server.wait_for_address()? {
            Some(address) => {
                server.address = address;
                Ok(server)
            }
            None => failed("it does not say where it listens"),
        }
    }
}

/// A running server. Dropping it ends the process.
pub(super) struct OwnServer {
    child: Child,
    pub(super) address: SocketAddr,
}

impl OwnServer {
    fn spawn(command: &mut Command, program: &std::path::Path) -> Result<Self, BenchError> {
        let child = die_with_parent(command).spawn().map_err(|source| BenchError::Start {
            command: format!("{} serve", program.display()),
            source,
        })?;
        Ok(Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server says where it listens; none when it ends, or says it not in time.
    fn wait_for_address(&mut self) -> Result<Option<SocketAddr>, BenchError> {
        let (sender, lines) = channel();
        if let Some(output) = self.child.stdout.take() {
            // Reads on to the end: a server whose output nobody reads would stop some day.
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _nobody_waits = sender.send(line);
                }
            });
        }
        let began = Instant::now();
        while began.elapsed() < START {
            interrupt::check()?;
            match lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => {
                    if let Some(Ok(address)) = line.strip_prefix(LISTENING).map(str::parse) {
                        return Ok(Some(address));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(None)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone = kill_process(pid, Signal::TERM);
        }
        let began = Instant::now();
        while began.elapsed() < STOP {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
