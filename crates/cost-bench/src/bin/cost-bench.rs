//! The bench on its own, for work on the bench. `TDEKIT_COMMAND` and `TDEKIT_EXTENSION` name the
//! command and the extension to price; `--aa` needs neither.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tdekit_cost_bench::{BenchArgs, Tools, cli, worker_main};

#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What does encryption cost?
    Bench(Box<BenchArgs>),
    #[command(hide = true)]
    BenchWorker,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::BenchWorker => worker_main().map(|()| ExitCode::SUCCESS).map_err(|error| {
            eprintln!("error: {error}");
        }),
        Command::Bench(args) => bench(&args),
    };
    result.unwrap_or(ExitCode::FAILURE)
}

fn bench(args: &BenchArgs) -> Result<ExitCode, ()> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let worker = std::env::current_exe().map_err(|error| eprintln!("error: {error}"))?;
    let tools =
        Tools { worker, tdekit: path("TDEKIT_COMMAND"), extension: path("TDEKIT_EXTENSION") };
    cli::run(args, &tools).map(ExitCode::from).map_err(|error| {
        eprintln!("error: {error}");
        if let Some(hint) = error.hint() {
            eprintln!("hint: {hint}");
        }
    })
}
