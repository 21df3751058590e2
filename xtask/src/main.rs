//! The workspace's own commands. `make` is a door to them; see README.md.

mod check;
mod fuzz;
mod interop;
mod process;
mod release;
mod setup;
mod tally;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use crate::setup::Purpose;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The workspace's own commands")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the system packages that are missing.
    Setup {
        /// What is to be done with the machine.
        #[arg(long, value_enum, default_value = "test")]
        purpose: Purpose,
    },
    /// Format, rules, lints, documents and unit tests; every warning is an error.
    Check {
        /// Leave the tests out, for when they run next anyway.
        #[arg(long)]
        no_tests: bool,
    },
    /// The rules of ARCHITECTURE.md that a compiler does not know.
    Tidy,
    /// Set up, build, and run every test: the crates' own and the interop programs.
    Test,
    /// Build in release and run `tdekit bench`, on the embedded default or on what is given.
    Bench {
        /// Passed to `tdekit bench`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the interop programs against an encrypted database, and the packages' databases.
    Interop {
        /// Only the one with this name.
        name: Option<String>,
        /// Without encryption: checks the programs themselves.
        #[arg(long)]
        plain: bool,
    },
    /// Fuzz one target, or each in turn; needs nightly Rust and cargo-fuzz.
    Fuzz {
        /// The target's name.
        target: Option<String>,
        /// How long each target runs.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup { purpose } => setup::setup(purpose),
        Task::Check { no_tests } => check::check(!no_tests),
        Task::Tidy => tidy::tidy(),
        Task::Test => test(),
        Task::Bench { arguments } => release::bench(&arguments),
        Task::Interop { name, plain } => {
            let tally = interop::interop(name.as_deref(), plain)?;
            close(&tally)
        }
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
    }
}

fn test() -> Result<()> {
    setup::setup(Purpose::Test)?;
    release::build()?;
    let mut tally = check::cargo_test()?;
    tally.add(interop::interop(None, false)?);
    close(&tally)
}

/// Prints the closing line.
fn close(tally: &tally::Tally) -> Result<()> {
    for name in &tally.failures {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failures.len());
    if tally.failures.is_empty() { Ok(()) } else { bail!("tests failed") }
}
