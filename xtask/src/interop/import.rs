//! `tdekit import`, on databases created by SQLCipher and SQLite3 Multiple Ciphers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::store::{Store, forget_tdekit};
use super::{MARKER, empty};
use crate::drivers::{install_python, source};
use crate::process::run;
use crate::shipped::command_path;

/// The name on the command line, and the folder in `tests/interop/`.
pub(super) const NAME: &str = "import";

/// Creates databases with the other programs, imports them, and compares.
///
/// # Errors
/// When a package cannot be installed, a database is not imported completely, or a file is imported
/// that must be refused.
pub(super) fn check(top: &Path, store: &Store) -> Result<()> {
    let (build, place) = (top.join("build"), top.join("place"));
    install_python(NAME, &build)?;
    empty(&place)?;
    let mut command = Command::new("python3");
    forget_tdekit(&mut command);
    store.give_to(&mut command);
    let paths = [build.join("site"), source("python")].map(PathBuf::into_os_string);
    command.env("PYTHONPATH", paths.join(":".as_ref())).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("TDEKIT_COMMAND", command_path()).env("TDEKIT_PEERS", build.join("peers"));
    run(command.env("INTEROP_MARKER", MARKER).arg(source(NAME).join("import.py")).arg(place))
}
