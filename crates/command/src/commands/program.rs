//! Verbs that another program implements: `tdekit bench` and `tdekit serve` become it. So the
//! process that holds master keys contains neither plotters nor an interpreter of T-SQL.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::commands::sqlite::find_beside;
use crate::error::CommandError;

/// Variable that names the command for the bench to measure.
const COMMAND: &str = "TDEKIT_COMMAND";

/// Becomes the bench, which measures this command: signals and exit codes are its own.
///
/// # Errors
/// `NoProgram`; `Io` if it cannot be started.
pub(crate) fn bench(arguments: &[OsString]) -> Result<Infallible, CommandError> {
    let command = env::current_exe()?;
    start(&command, "tdekit-bench", |program| program.args(arguments).env(COMMAND, &command))
}

/// Becomes the endpoint, which parses the same command line again.
///
/// # Errors
/// `NoProgram`; `Io` if it cannot be started.
pub(crate) fn serve() -> Result<Infallible, CommandError> {
    start(&env::current_exe()?, "tdekit-serve", |program| program.args(env::args_os().skip(1)))
}

fn start(
    command: &Path,
    name: &'static str,
    with: impl Fn(&mut Command) -> &mut Command,
) -> Result<Infallible, CommandError> {
    let path = find_beside(command, name)
        .map_err(|path| CommandError::NoProgram { program: name, path })?;
    let source = with(&mut Command::new(&path)).exec();
    Err(CommandError::io("start", path, source))
}
