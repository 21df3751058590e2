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

const BENCH: &str = "tdekit-bench";
/// Variable that names the command for the bench to measure.
const COMMAND: &str = "TDEKIT_COMMAND";

/// Becomes the bench, which measures this command: signals and exit codes are its own.
///
/// # Errors
/// `NoProgram`; `Io` if it cannot be started.
pub(crate) fn bench(arguments: &[OsString]) -> Result<Infallible, CommandError> {
    let command = env::current_exe()?;
    start(&command, BENCH, |program| program.args(arguments).env(COMMAND, &command))
}

/// Becomes the endpoint, which parses the same command line again.
///
/// # Errors
/// `NoProgram`; `Io` if it cannot be started.
pub(crate) fn serve() -> Result<Infallible, CommandError> {
    start(&env::current_exe()?, "tdekit-serve", |program| program.args(env::args_os().skip(1)))
}

/// Becomes the bench, which completes `words` of its own; `index` is the variable with the number
/// of the word that is completed, and that number.
///
/// # Errors
/// As [`bench()`].
#[cfg(feature = "manual")]
pub(crate) fn complete_bench(
    words: &[OsString],
    (variable, index): (&str, usize),
) -> Result<Infallible, CommandError> {
    start(&env::current_exe()?, BENCH, |program| {
        program.args(["--", BENCH]).args(words).env(variable, index.to_string())
    })
}

/// Has the bench write its manual pages into `directory`, if it is there: it knows its options.
///
/// # Errors
/// `Io` if it cannot.
#[cfg(feature = "manual")]
pub(crate) fn write_pages_of_bench(command: &Path, directory: &Path) -> Result<(), CommandError> {
    let Ok(path) = find_beside(command, BENCH) else { return Ok(()) };
    let failed = |source| CommandError::io("run", &path, source);
    let ended = Command::new(&path).arg("man-pages").arg(directory).status().map_err(failed)?;
    match ended.success() {
        true => Ok(()),
        false => Err(failed(std::io::Error::other(ended.to_string()))),
    }
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
