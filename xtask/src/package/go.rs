//! The Go module: source, and the library in the user's location.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::cross::Emulated;
use crate::process::{root, run, target_dir};

/// Runs the module's own proof, which encrypts, reopens and refuses, with the shipped library and
/// command.
///
/// # Errors
/// When it does not work as it should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    let mut go = go();
    go.args(["test", "-count=1", "-buildvcs=false", "./..."]);
    run(with_programs(&mut go, &super::command(packages)?)?)
}

/// As [`prove`] for another processor: the test is compiled here, and runs there.
///
/// # Errors
/// As [`prove`].
pub(super) fn prove_emulated(packages: &Path, emulated: &Emulated) -> Result<()> {
    let test = target_dir().join("proofs").join(format!("go-{}", emulated.arch()));
    let mut go = go();
    go.args(["test", "-c", "-buildvcs=false", "-o"]).arg(&test);
    run(go.env("GOARCH", "arm64").env("CC", emulated.compiler()?))?;
    let command = super::command_for(packages, emulated.arch())?;
    let mut prove = emulated.command(&test);
    prove.current_dir(root().join("packages/go"));
    run(with_programs(&mut prove, &command)?)
}

fn go() -> Command {
    let mut go = Command::new("go");
    go.current_dir(root().join("packages/go")).env("CGO_ENABLED", "1").env("CGO_CFLAGS", "-O2 -w");
    go
}

/// Gives a proof the paths of the command, and of the library beside it.
fn with_programs<'a>(proof: &'a mut Command, tdekit: &Path) -> Result<&'a mut Command> {
    let directory = tdekit.parent().and_then(Path::parent).context("a command in no directory")?;
    let library = directory.join("lib/tdekit/libtdekit_sqlite.so");
    Ok(proof.env("PROVE_COMMAND", tdekit).env("TDEKIT_EXTENSION", library))
}
