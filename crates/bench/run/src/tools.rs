//! The programs that the bench drives: the command and the extension as shipped.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{BenchError, Result};

#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// The running program, which serves `bench-worker`.
    pub(crate) worker: PathBuf,
    /// The `tdekit` command, used as `key init`, `cert create`, `encrypt`, `backup`,
    /// `restore` and `inspect`.
    pub(crate) tdekit: PathBuf,
    /// The loadable extension. It need not exist if no encrypted SQLite database is measured.
    pub(crate) extension: PathBuf,
}

impl Tools {
    /// Returns those named by the environment, else those beside the running program.
    pub(crate) fn find() -> Result<Self> {
        let worker = std::env::current_exe()
            .map_err(BenchError::file("cannot find", "the running program"))?;
        let named = |variable| std::env::var_os(variable).map(PathBuf::from);
        let beside = |name| worker.with_file_name(name);
        let tdekit = named("TDEKIT_COMMAND").unwrap_or_else(|| beside("tdekit"));
        let extension = named("TDEKIT_EXTENSION")
            .or_else(|| extension_of(&tdekit))
            .unwrap_or_else(|| beside("libtdekit_sqlite.so"));
        Ok(Self { worker, tdekit, extension })
    }

    /// Returns true if the command encrypts with an algorithm: a build on a FIPS module lacks some.
    pub(crate) fn offers(&self, algorithm: &str) -> bool {
        let asked =
            Command::new(&self.tdekit).args(["encrypt", "-h"]).stdin(Stdio::null()).output();
        let words = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        asked.is_ok_and(|asked| {
            let told = words(&asked.stdout);
            told.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'))
                .any(|word| word == algorithm)
        })
    }

    /// Returns true if the command can back up. A control run may have no command.
    pub(crate) fn can_back_up(&self) -> bool {
        Command::new(&self.tdekit)
            .args(["backup", "--help"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// Returns the extension that the command names. A bench that needs one reports its absence.
fn extension_of(tdekit: &Path) -> Option<PathBuf> {
    let output = Command::new(tdekit).args(["sqlite", "path"]).output().ok()?;
    let path = output.status.success().then_some(output.stdout)?;
    Some(PathBuf::from(OsStr::from_bytes(path.trim_ascii_end())))
}
