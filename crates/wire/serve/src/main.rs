//! The program `tdekit-serve`: SQL Server's protocol over encrypted databases. `tdekit serve`
//! executes it, and it parses `tdekit`'s command line.

mod error;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tdekit_console::serve::ServeArgs;
use tdekit_console::{GlobalArgs, harden, report};

use crate::error::ServeError;

/// Counts the memory that sessions hold.
#[global_allocator]
static ALLOCATOR: tdekit_wire_tds::memory::Counting = tdekit_wire_tds::memory::Counting;

/// What of `tdekit`'s command line this program carries out.
#[derive(Debug, Parser)]
#[command(name = "tdekit", version)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serve databases to clients of SQL Server (TDS), and manage who may log in
    Serve(Box<ServeArgs>),
    /// Ask a key service what standard input says, for a process that opens a key store
    #[command(hide = true)]
    KeyService,
}

fn main() -> ExitCode {
    harden::outlive_size_limit();
    harden::no_core_dumps();
    tdekit_key_store::ask_services_by_this_program();
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Serve(args) => serve::run(args, &cli.global),
        Command::KeyService => tdekit_console::key_service::run().map_err(ServeError::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}
