//! The tdekit command.

mod backup;
mod cli;
mod commands;
mod error;
mod global;
mod harden;
mod hint;
mod output;
mod progress;
mod session;
mod when;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

/// Counts what sessions of `tdekit serve` hold.
#[cfg(feature = "endpoint")]
#[global_allocator]
static ALLOCATOR: tdekit_wire_tds::memory::Counting = tdekit_wire_tds::memory::Counting;

fn main() -> ExitCode {
    harden::outlive_size_limit();
    harden::no_core_dumps();
    tdekit_key_store::ask_services_by_this_program();
    let cli = Cli::parse();
    match commands::run(&cli) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}
