//! `tdekit serve` on loopback, for one client.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::store::forget_tdekit;
use crate::process::{output, run_quietly, shown};
use crate::s3_server::die_with_us;
use crate::shipped::command_path;

/// Password of the login `sa`, and of the key store.
pub(super) const PASSWORD: &str = "only for the interop tests 1";
/// Time limit for a server to listen.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Time limit for a server to stop.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A running server. It is killed when dropped.
pub(super) struct Server {
    child: Child,
    directory: PathBuf,
    port: u16,
    certificate: PathBuf,
    /// A certificate that the server does not have.
    other_certificate: PathBuf,
}

impl Server {
    /// Starts a server with no databases in `directory`.
    ///
    /// # Errors
    /// When the login or a certificate cannot be made, or the server does not listen.
    pub(super) fn start(directory: &Path) -> Result<Self> {
        let data = directory.join("data");
        for made in [&data, &directory.join("home")] {
            fs::create_dir_all(made).with_context(|| format!("make {}", made.display()))?;
        }
        let mut login = tdekit(Command::new(command_path()), directory);
        login.env("TDEKIT_LOGIN_PASSWORD", PASSWORD);
        output(login.args(["serve", "login", "add", "sa"]))?;
        let other_certificate = make_certificate(directory)?;
        let log = directory.join("server.log");
        let log = File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let mut command = tdekit(die_with_us(&command_path()), directory);
        command.arg("serve").arg(&data);
        command.args(["--listen", "127.0.0.1:0", "--encrypt", "on"]);
        eprintln!("$ {}", shown(&command));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let child = child.context("start the server")?;
        let directory = directory.to_path_buf();
        let mut server =
            Self { child, directory, port: 0, certificate: PathBuf::new(), other_certificate };
        let stdout = server.child.stdout.take().context("the server's standard output")?;
        server.listen_to(stdout)?;
        Ok(server)
    }

    /// Waits until the server prints its port, and keeps reading its output.
    fn listen_to(&mut self, stdout: ChildStdout) -> Result<()> {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to the end, so that the server never blocks; the receiver may be gone.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let begun = Instant::now();
        while let Ok(line) = lines.recv_timeout(START_LIMIT.saturating_sub(begun.elapsed())) {
            if let Some(path) = line.strip_prefix("made a self-signed certificate: ") {
                self.certificate = path.into();
            }
            if let Some(address) = line.strip_prefix("listening on ") {
                let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
                self.port = port.with_context(|| format!("no port in {line}"))?;
                return Ok(());
            }
        }
        bail!("the server does not listen: {}", self.last_words())
    }

    /// Returns the served directory.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Gives a client the server's address, credentials and certificate, and the encryption mode.
    pub(super) fn tell(&self, command: &mut Command, mode: &str) {
        forget_tdekit(command);
        command.arg(self.port.to_string()).arg(mode);
        command.arg(&self.certificate).arg(&self.other_certificate);
        command.env("INTEROP_PASSWORD", PASSWORD).env("INTEROP_MARKER", super::MARKER);
    }

    /// Stops the server as its operator does, and returns the served directory.
    ///
    /// # Errors
    /// When it does not stop, or fails.
    pub(super) fn stop(mut self) -> Result<PathBuf> {
        let pid = self.child.id().to_string();
        run_quietly(Command::new("kill").args(["-TERM", "--", &pid]))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                if status.success() {
                    return Ok(self.data());
                }
                bail!("the server ended with {status}: {}", self.last_words());
            }
            if begun.elapsed() > STOP_LIMIT {
                bail!("the server does not end: {}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the end of the server's error output.
    fn last_words(&self) -> String {
        let log = fs::read(self.directory.join("server.log")).unwrap_or_default();
        let end = &log[log.len().saturating_sub(2000)..];
        String::from_utf8_lossy(end).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command with a separate key store below `directory`.
fn tdekit(mut command: Command, directory: &Path) -> Command {
    forget_tdekit(&mut command);
    command.env("TDEKIT_HOME", directory.join("home"));
    command
}

/// Creates a certificate with the same names as the server's, without keeping its key.
fn make_certificate(directory: &Path) -> Result<PathBuf> {
    let (certificate, key) = (directory.join("other.pem"), directory.join("other.key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-days", "30", "-subj", "/CN=localhost"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    run_quietly(&mut openssl)?;
    Ok(certificate)
}
