//! `tdekit bench`: what encryption costs.

use std::env;
use std::process::ExitCode;

use tdekit_cost_bench::{BenchArgs, Tools, cli, worker_main};

use crate::commands::sqlite::extension;
use crate::convert::error::DatabaseError;
use crate::error::CommandError;

/// Runs the bench on this command and the extension that it would name.
///
/// # Errors
/// `Bench`, also where an extension is needed and there is none; `Output`.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, CommandError> {
    let command = env::current_exe()?;
    let extension = match extension() {
        // Not every bench needs it: one that does will say that it is missing.
        Ok(path) | Err(DatabaseError::NoExtension { path }) => path,
        Err(other) => return Err(other.into()),
    };
    let tools = Tools { worker: command.clone(), tdekit: command, extension };
    Ok(cli::run(args, &tools)?.into())
}

/// Serves one side of a bench on standard input and output.
///
/// # Errors
/// `Output`.
pub(crate) fn serve_worker() -> Result<(), CommandError> {
    Ok(worker_main()?)
}
