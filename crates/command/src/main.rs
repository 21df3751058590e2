//! The tdekit command.

mod backup;
mod cli;
mod commands;
mod dispatch;
mod error;
mod open;
mod overview;
mod pem;
mod processor;
mod progress;
mod tips;
mod when;

use std::process::ExitCode;

use tdekit_console::{harden, report};

fn main() -> ExitCode {
    harden::outlive_size_limit();
    harden::no_core_dumps();
    #[cfg(feature = "manual")]
    commands::complete::answer(<cli::Cli as clap::CommandFactory>::command);
    tdekit_key_store::ask_services_by_this_program();
    let cli = cli::parse();
    if cli.global.wide {
        tdekit_console::table::show_all();
    }
    for (name, known) in tdekit_key_store::misspelt_variables() {
        tdekit_console::output::warning(format_args!(
            "the variable {name} is not known and has no effect: {known} is the nearest that is"
        ));
    }
    match dispatch::run(&cli) {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}
