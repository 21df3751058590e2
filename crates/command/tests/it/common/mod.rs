//! Runs the command on a separate store.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The cost of a password in tests: the minimum that the format allows.
pub const CHEAP: [&str; 2] = ["--argon2-memory=8", "--argon2-passes=1"];

/// A directory with a store at `home`, which `key` or the password `secret` opens.
pub struct Place {
    dir: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    /// No store yet, and nothing in the environment.
    pub fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// A store that the password `secret` in the environment opens.
    pub fn with_store() -> Self {
        let mut place = Self::empty();
        place.set("TDEKIT_PASSWORD", "secret");
        place.set("TDEKIT_BACKUP_PASSWORD", "backup");
        place.ok(["key", "init", CHEAP[0], CHEAP[1]]);
        place
    }

    pub fn set(&mut self, name: &'static str, value: &str) {
        self.variables.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            self.variables.push((name, value.to_owned()));
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub fn store_file(&self) -> PathBuf {
        self.home().join("keystore.tdk")
    }

    /// Writes a file that only its owner can read.
    pub fn secret_file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Returns the command in the place's directory, with its variables and no others of ours.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(tdekit());
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("TDEKIT_HOME", self.home())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        Run::of(&self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{run:?}");
        run
    }

    /// Runs a command that must fail with `code`; returns its message.
    #[track_caller]
    pub fn fails<S: AsRef<OsStr>>(&self, code: i32, args: impl IntoIterator<Item = S>) -> String {
        let run = self.run(args);
        assert_eq!(run.code, code, "{run:?}");
        let told = run.err.lines().any(|line| line.starts_with("error: "));
        assert!(told && run.out.is_empty(), "{run:?}");
        run.err
    }

    pub fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        serde_json::from_str(&self.ok(args).out).unwrap()
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }
}

/// Returns the command: of the same build as this test program, which is in `target/PROFILE/deps`.
pub fn tdekit() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("tdekit")
}

/// Copies a program, in a separate process: a fork by another thread would otherwise inherit a
/// descriptor that writes it, and a program that is open for writing cannot be started.
pub fn install(program: &Path, to: &Path) {
    assert!(Command::new("cp").args([program, to]).status().unwrap().success());
}

/// Runs OpenSSL's command.
pub fn openssl(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("openssl").args(args).current_dir(dir).output().unwrap();
    let run = Run::of(&output);
    assert_eq!(run.code, 0, "{args:?}: {run:?}");
    run.out
}
