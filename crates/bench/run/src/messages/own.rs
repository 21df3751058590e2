//! A server started by the bench: the shipped command, as started by a user.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tdekit_system_use::{die_with_parent, has_ended};
use zeroize::Zeroizing;

use crate::command::run;
use crate::error::{BenchError, Result};
use crate::key_store::{self, KeyEnvironment};
use crate::private;
use crate::process::{next_line, read_lines};

/// The login that the bench creates and uses.
pub(super) const LOGIN: &str = "sa";
const PASSWORD_VARIABLE: &str = "TDEKIT_LOGIN_PASSWORD";
/// Prefix of the line that the command prints once it accepts connections.
const LISTENING: &str = "listening on ";
/// Time limit for a server to start, and to stop.
const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(15);

/// A directory with a key store, a login and no database, removed in the end.
pub(super) struct Home {
    directory: private::Directory,
    tdekit: PathBuf,
    environment: KeyEnvironment,
    pub(super) password: Zeroizing<String>,
}

impl Home {
    /// Creates it below `directory`.
    pub(super) fn make(tdekit: PathBuf, directory: &std::path::Path) -> Result<Self> {
        let made = private::directory(directory, "tdekit-messages-")?;
        let environment = key_store::make(&tdekit, made.path())?;
        let data = made.path().join("data");
        private::make(&data)?;
        let secret = key_store::random_key()?;
        // Letters of three kinds and a digit, to satisfy any password rules.
        let password = Zeroizing::new(format!("Aa1-{}", hex::encode(secret)));
        run(key_store::command(&tdekit, &environment)
            .args(["serve", "login", "add", LOGIN])
            .env(PASSWORD_VARIABLE, password.as_str()))?;
        Ok(Self { directory: made, tdekit, environment, password })
    }

    /// Returns the directory that is served.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Starts a server that offers encryption but does not require it.
    pub(super) fn start(&self) -> Result<OwnServer> {
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
            // A separate process group: Ctrl-C on the terminal reaches the bench alone, which ends
            // it.
            .process_group(0);
        let shown = format!("{} serve", self.tdekit.display());
        let child = die_with_parent(&mut command).spawn().map_err(BenchError::start(shown))?;
        let mut server = OwnServer { child, port: 0 };
        let silent = || {
            let words = std::fs::read_to_string(&said).unwrap_or_default();
            let detail = format!("it does not say where it listens: {}", words.trim());
            BenchError::WorkerLost { side: "tdekit serve".to_owned(), detail }
        };
        let lines = read_lines(server.child.stdout.take(), |line| line);
        let began = Instant::now();
        let mut in_time = || if began.elapsed() < START { Ok(()) } else { Err(silent()) };
        while let Some(line) = next_line(&lines, &mut in_time)? {
            let address = line.strip_prefix(LISTENING).map(str::parse::<SocketAddr>);
            if let Some(Ok(address)) = address {
                server.port = address.port();
                return Ok(server);
            }
        }
        Err(silent())
    }
}

/// A running server. Dropping it ends the process.
pub(super) struct OwnServer {
    child: Child,
    /// On loopback.
    pub(super) port: u16,
}

impl OwnServer {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _gone = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if !has_ended(&self.child, STOP) {
            let _gone = self.child.kill();
        }
        let _reaped = self.child.wait();
    }
}
