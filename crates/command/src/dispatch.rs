//! From the command line to the command.

use std::process::ExitCode;

#[cfg(feature = "manual")]
use clap::CommandFactory;

use crate::cli::{Cli, Command};
#[cfg(not(all(feature = "manual", feature = "mysql")))]
use crate::commands::absent;
#[cfg(feature = "mariadb")]
use crate::commands::mariadb;
#[cfg(feature = "mysql")]
use crate::commands::mysql;
use crate::commands::{
    agent, audit, backup, backup_key, cert, copy, decrypt, doctor, encrypt, freshness, history,
    import, init, inspect, key, overview, program, prune, replicate, restore, rewrap, rotate,
    shell_init, sqlite, status, verify,
};
#[cfg(feature = "manual")]
use crate::commands::{complete, manual};
use crate::error::CommandError;

/// Runs the command.
pub(crate) fn run(cli: &Cli) -> Result<ExitCode, CommandError> {
    match &cli.command {
        Command::Bench { arguments } => match program::bench(arguments)? {},
        Command::Serve(_) => match program::serve()? {},
        Command::Agent(args) => return agent::run(args, &cli.global),
        Command::Key(command) => key::run(command, &cli.global),
        Command::Cert(command) => cert::run(command, &cli.global),
        Command::Init(args) => init::run(args, &cli.global),
        Command::Encrypt(args) => encrypt::run(args, &cli.global),
        Command::Decrypt(args) => decrypt::run(args, &cli.global),
        Command::Import(args) => import::run(args, &cli.global),
        Command::Status(args) => status::run(args, &cli.global),
        Command::Doctor(args) => doctor::run(args, &cli.global),
        Command::Audit(args) => audit::run(args, &cli.global),
        Command::Overview(args) => overview::run(args, &cli.global),
        Command::Rewrap(args) => rewrap::run(args, &cli.global),
        Command::Rotate(args) => rotate::run(args, &cli.global),
        Command::Freshness(command) => freshness::run(command, &cli.global),
        Command::Backup(args) => backup::run(args, &cli.global),
        Command::Replicate(args) => replicate::run(args, &cli.global),
        Command::Restore(args) => restore::run(args, &cli.global),
        Command::Verify(args) => verify::run(args, &cli.global),
        Command::Inspect(args) => inspect::run(args, &cli.global),
        Command::History(args) => history::run(args, &cli.global),
        Command::Copy(args) => copy::run(args, &cli.global),
        Command::Prune(args) => prune::run(args, &cli.global),
        Command::BackupKey(command) => backup_key::run(command, &cli.global),
        #[cfg(feature = "mariadb")]
        Command::Mariadb(command) => mariadb::run(command, &cli.global),
        #[cfg(not(feature = "mariadb"))]
        Command::Mariadb(_) => absent::refuse("`tdekit mariadb`", "mariadb"),
        #[cfg(feature = "mysql")]
        Command::Mysql(command) => mysql::run(command, &cli.global),
        #[cfg(not(feature = "mysql"))]
        Command::Mysql(_) => absent::refuse("`tdekit mysql`", "mysql"),
        Command::Sqlite(command) => sqlite::run(command),
        Command::ShellInit(args) => shell_init::run(args),
        #[cfg(feature = "manual")]
        Command::Completions(args) => complete::completions(args),
        #[cfg(not(feature = "manual"))]
        Command::Completions(_) => absent::refuse("`tdekit completions`", "manual"),
        #[cfg(feature = "manual")]
        Command::ManPages(args) => manual::man_pages(args, Cli::command()),
        Command::KeyService => tdekit_console::key_service::run().map_err(Into::into),
    }?;
    Ok(ExitCode::SUCCESS)
}
