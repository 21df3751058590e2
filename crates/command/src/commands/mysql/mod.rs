//! `tdekit mysql`: the keyring component for MySQL, and its keys.

mod install;
mod keys;
mod migrate;
mod rotate;
mod status;
mod verify;

use clap::Subcommand;

use super::mariadb::connection::ConnectionArgs;
use crate::error::CommandError;
use install::{InstallArgs, UninstallArgs};
use keys::{KeysArgs, RewrapArgs};
use migrate::MigrateArgs;
use rotate::RotateArgs;
use status::StatusArgs;
use tdekit_console::GlobalArgs;
use verify::VerifyArgs;

/// The verbs of `tdekit mysql`.
#[derive(Debug, Subcommand)]
pub(crate) enum MysqlCommand {
    /// Copy the keyring component into the server, write its configuration and the manifest
    Install(InstallArgs),
    /// Take component, configuration and manifest away; keys stay
    Uninstall(UninstallArgs),
    /// Show the keys and, of a server that is named, what is encrypted and what is not
    Status(StatusArgs),
    /// Have the server draw new master keys, of InnoDB and of binary logs
    Rotate(RotateArgs),
    /// List the keys that servers keep in the store: names, owners, times
    Keys(KeysArgs),
    /// Wrap the keys of a namespace by one certificate, such as one that was rotated
    Rewrap(RewrapArgs),
    /// Take the keys of a keyring of MySQL's own, or write them to its file
    Migrate(MigrateArgs),
    /// Check the files of a stopped server for what is in the clear though it should not be
    Verify(VerifyArgs),
}

/// Runs a verb.
pub(crate) fn run(command: &MysqlCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        MysqlCommand::Install(args) => install::install(args, global),
        MysqlCommand::Uninstall(args) => install::uninstall(args),
        MysqlCommand::Status(args) => status::run(args, global),
        MysqlCommand::Rotate(args) => rotate::run(args, global),
        MysqlCommand::Keys(args) => keys::run(args, global),
        MysqlCommand::Rewrap(args) => keys::rewrap(args, global),
        MysqlCommand::Migrate(args) => migrate::run(args, global),
        MysqlCommand::Verify(args) => verify::run(args, global),
    }
}

fn no_server() -> CommandError {
    CommandError::usage("name the server with --socket and --user, or with --defaults-file")
}
