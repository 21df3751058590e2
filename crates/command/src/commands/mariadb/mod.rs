//! `tdekit mariadb`: the plugin for MariaDB, its keys, its binary logs.

mod archive;
mod binlog;
pub(super) mod connection;
mod install;
mod keys;
mod rotate;
mod status;
mod verify;

use clap::Subcommand;

use crate::error::CommandError;
use archive::ArchiveArgs;
use binlog::BinlogArgs;
use install::{InstallArgs, UninstallArgs};
use keys::KeyCommand;
use rotate::RotateArgs;
use status::StatusArgs;
use tdekit_console::GlobalArgs;
use verify::VerifyFilesArgs;

/// The verbs of `tdekit mariadb`.
#[derive(Debug, Subcommand)]
pub(crate) enum MariadbCommand {
    /// Copy the plugin into the server, make keys 1 and 2, write an option file
    Install(Box<InstallArgs>),
    /// Take plugin and option file away; keys stay
    Uninstall(UninstallArgs),
    /// Show the keys and, of a server that is named, what is encrypted
    Status(StatusArgs),
    /// Look at every page of the server's files: in the clear, damaged, changed, versions in use
    Verify(VerifyFilesArgs),
    /// Add a version to keys, and have the server encrypt its pages by it
    Rotate(RotateArgs),
    /// The numbered keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Decrypt a binary log for reading without the server
    Binlog(BinlogArgs),
    /// Ship binary logs to an archive as they are closed, encrypted for certificates
    Archive(ArchiveArgs),
}

/// Runs a verb.
pub(crate) fn run(command: &MariadbCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        MariadbCommand::Install(args) => install::install(args, global),
        MariadbCommand::Uninstall(args) => install::uninstall(args),
        MariadbCommand::Status(args) => status::run(args, global),
        MariadbCommand::Verify(args) => verify::run(args, global),
        MariadbCommand::Rotate(args) => rotate::run(args, global),
        MariadbCommand::Key(command) => keys::run(command, global),
        MariadbCommand::Binlog(args) => binlog::run(args, global),
        MariadbCommand::Archive(args) => archive::run(args, global),
    }
}
