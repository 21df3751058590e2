//! `tdekit bench`: starts the bench, which is a program of its own.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::commands::sqlite::find_beside;
use crate::error::CommandError;

const PROGRAM: &str = "tdekit-bench";

/// Becomes the bench, which prices this command: signals and exit codes are its own.
///
/// # Errors
/// `NoBench`; `Io` when it cannot be started.
pub(crate) fn run(arguments: &[OsString]) -> Result<Infallible, CommandError> {
    let command = env::current_exe()?;
    let program = find_beside(&command, PROGRAM).map_err(|path| CommandError::NoBench { path })?;
    let source = Command::new(&program).args(arguments).env("TDEKIT_COMMAND", command).exec();
    Err(CommandError::Io { action: "start", path: program, source })
}
