//! Environment of an attack: a directory, a key store, the command and the stock shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// The certificate that wraps keys of databases and backups.
pub(crate) const CERTIFICATE: &str = "AttackCert";

/// A directory with a key store that is opened by a key file.
pub(crate) struct Place {
    dir: TempDir,
    programs: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if it was ended by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Shown by `Debug`, with every wrong outcome.
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns true if the program crashed: by a signal, or by a panic (101, 134).
    pub(crate) fn has_crashed(&self) -> bool {
        !matches!(self.code, Some(0..=100))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Place {
    /// Creates a place with a key store and a certificate.
    ///
    /// # Errors
    /// If the command fails.
    pub(crate) fn new(programs: &Path) -> Result<Self> {
        let dir = tempfile::tempdir().context("make a directory")?;
        let place = Self { dir, programs: programs.to_path_buf() };
        let key = place.path("store.key");
        let key = key.to_str().context("a temporary path in UTF-8")?;
        place.must(&["key", "init", "--key-file", key, "--generate-key-file"])?;
        place.must(&["cert", "create", CERTIFICATE])?;
        let bundle = place.path("cert.p12");
        let bundle = bundle.to_str().context("a temporary path in UTF-8")?;
        place.must(&["cert", "backup", CERTIFICATE, "--pkcs12", bundle])?;
        Ok(place)
    }

    /// Returns a path in the place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the directory of the key store.
    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// Returns `program` with the place's environment and directory.
    pub(crate) fn command(&self, program: &str) -> Command {
        let own = self.programs.join(program);
        let mut command = Command::new(if own.is_file() { own } else { program.into() });
        command
            .current_dir(self.dir.path())
            .env("TDEKIT_HOME", self.home())
            .env("TDEKIT_KEY_FILE", self.path("store.key"))
            .env("TDEKIT_BACKUP_PASSWORD", "a password for attacks")
            .stdin(Stdio::null());
        command
    }

    /// Runs the command.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn tdekit(&self, args: &[&str]) -> Result<Ended> {
        let output = self.command("tdekit").args(args).output().context("start tdekit")?;
        Ok(output.into())
    }

    /// Runs the command, which must succeed.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn must(&self, args: &[&str]) -> Result<Ended> {
        let ended = self.tdekit(args)?;
        ensure!(ended.is_ok(), "tdekit {}: {ended:?}", args.join(" "));
        Ok(ended)
    }

    /// Runs SQL in the stock shell, with the extension if `encrypted`.
    ///
    /// # Errors
    /// If the shell cannot be started.
    pub(crate) fn sql(&self, database: &str, encrypted: bool, sql: &str) -> Result<Ended> {
        let mut command = self.command("sqlite3");
        command.args(["-batch", "-bail"]);
        if encrypted {
            let extension = self.programs.join("libtdekit_sqlite.so");
            command.arg("-cmd").arg(format!(".load \"{}\"", extension.display()));
            command.arg("-cmd").arg(format!(".open {database}")).arg(":memory:");
        } else {
            command.arg(database);
        }
        Ok(command.arg(sql).output().context("start sqlite3")?.into())
    }

    /// Returns all rows of a database, or `None` if reading them fails.
    ///
    /// # Errors
    /// If the shell cannot be started.
    pub(crate) fn rows(&self, database: &str, encrypted: bool) -> Result<Option<String>> {
        Ok(self.read(database, encrypted)?.ok())
    }

    /// As [`Self::rows`], or the shell's error.
    ///
    /// # Errors
    /// If the shell cannot be started.
    pub(crate) fn read(&self, database: &str, encrypted: bool) -> Result<Result<String, String>> {
        let ended = self.sql(database, encrypted, "SELECT id, body FROM t ORDER BY id")?;
        ensure!(ended.code.is_some(), "sqlite3 died: {ended:?}");
        Ok(if ended.is_ok() { Ok(ended.stdout) } else { Err(ended.stderr) })
    }

    /// Creates a plain database whose rows contain `day`; returns them.
    ///
    /// # Errors
    /// If the shell fails.
    pub(crate) fn make_database(&self, database: &str, day: u32, rows: u32) -> Result<String> {
        let path = self.path(database);
        if path.exists() {
            fs::remove_file(&path).context("remove the database before")?;
        }
        let sql = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT);
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {rows})
             INSERT INTO t SELECT i, printf('day {day} row %d %s', i, hex(randomblob(40))) FROM c;"
        );
        let ended = self.sql(database, false, &sql)?;
        ensure!(ended.is_ok(), "make {database}: {ended:?}");
        match self.rows(database, false)? {
            Some(rows) => Ok(rows),
            None => bail!("{database} cannot be read"),
        }
    }

    /// Encrypts a database, which must then return the same `rows`: attacks on an unreadable
    /// database would prove nothing.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn encrypt(&self, database: &str, rows: &str) -> Result<()> {
        self.must(&["encrypt", database, "--certificate", CERTIFICATE])?;
        let read = self.read(database, true)?;
        ensure!(read.as_deref() == Ok(rows), "{database}, encrypted: {read:?}");
        Ok(())
    }

    /// Writes files into the place, and removes those in `absent`.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub(crate) fn lay(&self, files: &[(&str, &[u8])], absent: &[&str]) -> Result<()> {
        for name in absent {
            let path = self.path(name);
            if fs::symlink_metadata(&path).is_ok() {
                fs::remove_file(&path).with_context(|| format!("remove {name}"))?;
            }
        }
        for (name, bytes) in files {
            fs::write(self.path(name), bytes).with_context(|| format!("write {name}"))?;
        }
        Ok(())
    }

    /// Returns the bytes of a file in the place.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.path(name)).with_context(|| format!("read {name}"))
    }
}
