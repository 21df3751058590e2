//! `tdekit mariadb`: the plugin for MariaDB, its keys, its binary logs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::GlobalArgs;
use crate::error::CommandError;
use crate::mariadb::client::ConnectionArgs;
use crate::mariadb::{binlog, install, keys, rotate, status};

/// The verbs of `tdekit mariadb`.
#[derive(Debug, Subcommand)]
pub(crate) enum MariadbCommand {
    /// Copy the plugin into the server, make keys 1 and 2, write an option file
    Install(Box<InstallArgs>),
    /// Take plugin and option file away; keys stay
    Uninstall(UninstallArgs),
    /// Show the keys and, of a server that is named, what is encrypted
    Status(StatusArgs),
    /// Add a version to keys, and have the server encrypt its pages by it
    Rotate(RotateArgs),
    /// The numbered keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Decrypt a binary log for reading without the server
    Binlog(BinlogArgs),
}

/// How new tables are encrypted: the server's `innodb_encrypt_tables`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tables {
    /// Every table, and none may ask not to be
    Force,
    /// Every table that does not ask not to be
    On,
    /// Tables that ask for it
    Off,
}

/// Arguments of `mariadb install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Directory of the server's plugins [default: as the server tells]
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Option<PathBuf>,
    /// Option file to write [default: 99-tdekit.cnf in /etc/mysql/mariadb.conf.d]
    #[arg(long, value_name = "FILE")]
    pub(crate) option_file: Option<PathBuf>,
    /// Certificate that wraps the keys
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: String,
    /// User that the server runs as: the key store becomes this user's [default: mysql, for root]
    #[arg(long, value_name = "USER")]
    pub(crate) server_user: Option<String>,
    /// Which tables are encrypted
    #[arg(long, value_enum, default_value_t = Tables::Force)]
    pub(crate) tables: Tables,
    /// Threads of the server that encrypt in the background
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    pub(crate) encryption_threads: u8,
}

/// Arguments of `mariadb uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Directory of the server's plugins [default: as the server tells]
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Option<PathBuf>,
    /// Option file that `install` wrote [default: 99-tdekit.cnf in /etc/mysql/mariadb.conf.d]
    #[arg(long, value_name = "FILE")]
    pub(crate) option_file: Option<PathBuf>,
    /// Do so though the server has encrypted tables, which it cannot open without the plugin
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Arguments of `mariadb status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Arguments of `mariadb rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Number of the key; may be given several times [default: all keys]
    #[arg(long, value_name = "N")]
    pub(crate) key_id: Vec<u32>,
    /// Certificate that wraps the new versions [default: the one that signed the last ones]
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: Option<String>,
    /// The server's `innodb_encryption_rotate_key_age`, where no server is named
    #[arg(long, value_name = "AGE", default_value_t = 1)]
    pub(crate) rotate_key_age: u32,
    /// Make no version: have the server use those that are there, such as on the other nodes of a
    /// cluster
    #[arg(long)]
    pub(crate) existing: bool,
    /// Set the server's `innodb_encryption_threads` first
    #[arg(long, value_name = "COUNT")]
    pub(crate) encryption_threads: Option<u8>,
    /// Do not wait until the server has encrypted its pages anew
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// The verbs of `tdekit mariadb key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key under a number that is free
    Create(KeyCreateArgs),
    /// Wrap all keys by one certificate, such as one that was rotated
    Rewrap(KeyRewrapArgs),
}

/// Arguments of `mariadb key create`.
#[derive(Debug, Args)]
pub(crate) struct KeyCreateArgs {
    /// Number of the key: what ENCRYPTION_KEY_ID names. Below 10 they are the server's own
    #[arg(long, value_name = "N")]
    pub(crate) key_id: u32,
    /// Certificate that wraps it [default: the one that signed the last keys]
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: Option<String>,
}

/// Arguments of `mariadb key rewrap`.
#[derive(Debug, Args)]
pub(crate) struct KeyRewrapArgs {
    /// Certificate that shall wrap the keys
    #[arg(long, value_name = "NAME")]
    pub(crate) certificate: String,
}

/// Arguments of `mariadb binlog`.
#[derive(Debug, Args)]
pub(crate) struct BinlogArgs {
    /// The binary log or relay log
    pub(crate) file: PathBuf,
    /// File to write, which must not exist [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Runs a verb.
pub(crate) fn run(command: &MariadbCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        MariadbCommand::Install(args) => install::install(args, global),
        MariadbCommand::Uninstall(args) => install::uninstall(args),
        MariadbCommand::Status(args) => status::status(args, global),
        MariadbCommand::Rotate(args) => rotate::rotate(args, global),
        MariadbCommand::Key(KeyCommand::Create(args)) => keys::create(args, global),
        MariadbCommand::Key(KeyCommand::Rewrap(args)) => keys::rewrap(args, global),
        MariadbCommand::Binlog(args) => binlog::binlog(args, global),
    }
}
