//! The tdekit command.

mod backup;
mod cli;
mod commands;
mod convert;
mod error;
mod harden;
mod mariadb;
mod output;
mod serve;
mod session;
mod when;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.command.handles_secrets() {
        harden::no_core_dumps();
    }
    match commands::run(&cli) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}
