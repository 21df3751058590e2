//! What the bench drives, as shipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What the bench drives: the command and the extension as shipped.
#[derive(Debug, Clone)]
pub struct Tools {
    /// A program that serves `bench-worker` by [`crate::worker_main`]; usually the running one.
    pub worker: PathBuf,
    /// The `tdekit` command, used as `key init`, `cert create`, `encrypt`, `backup`,
    /// `restore` and `inspect`.
    pub tdekit: PathBuf,
    /// The loadable extension. It need not be there where no encrypted SQLite database is priced.
    pub extension: PathBuf,
}

impl Tools {
    /// Whether the command can back up. Without a command, as a control run may be, it cannot.
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
