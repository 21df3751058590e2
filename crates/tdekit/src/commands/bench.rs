//! `tdekit bench`: what encryption costs.

use std::env;
use std::process::ExitCode;

use tdekit_cost_bench::{BenchArgs, Tools, cli, worker_main};

use crate::commands::sqlite::extension;
use crate::error::CommandError;

/// Runs the bench on this command and the extension that it would name.
///
/// # Errors
/// `Database` where there is no extension, `Bench`.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, CommandError> {
    let command = env::current_exe()?;
    let tools = Tools { worker: command.clone(), tdekit: command, extension: extension()? };
    Ok(cli::run(args, &tools)?.into())
}

/// Serves one side of a bench on standard input and output.
///
/// # Errors
/// `Output`.
pub(crate) fn serve_worker() -> Result<(), CommandError> {
    Ok(worker_main()?)
}
