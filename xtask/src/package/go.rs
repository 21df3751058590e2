//! The Go module: source, and the library where its user puts it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{root, run};

/// Has the module's own proof encrypt, reopen and refuse, with the shipped library and command.
///
/// # Errors
/// When it does not do what it should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    let tdekit = super::command(packages)?;
    let directory = tdekit.parent().and_then(Path::parent).context("a command in no directory")?;
    let library = directory.join("lib/tdekit/libtdekit_sqlite.so");
    let mut go = Command::new("go");
    go.args(["test", "-count=1", "-buildvcs=false", "./..."]);
    go.current_dir(root().join("packages/go")).env("CGO_ENABLED", "1").env("CGO_CFLAGS", "-O2 -w");
    go.env("PROVE_COMMAND", tdekit).env("TDEKIT_EXTENSION", library);
    run(&mut go)
}
