//! Arguments of `tdekit serve`: `tdekit` shows and completes them, `tdekit-serve` executes them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::storage::StorageArgs;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ServeArgs {
    /// What is done beside serving
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
    /// Directory whose databases are served, or one database
    #[arg(required = true, value_name = "DIR|FILE")]
    pub path: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1433")]
    pub listen: SocketAddr,
    /// How much of the connection is encrypted
    #[arg(long, value_enum, default_value_t = Encrypt::On)]
    pub encrypt: Encrypt,
    /// TLS certificate and its chain, PEM [default: one made on the first start]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, PEM, not encrypted
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Memory that all sessions together may hold, in MiB [default: a quarter of the machine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..))]
    pub memory_mib: Option<u32>,
    /// Memory that a session may hold, in MiB [default: a quarter of --memory-mib]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..))]
    pub session_memory_mib: Option<u32>,
    /// How BACKUP TO URL keeps its objects
    #[command(flatten)]
    pub storage: StorageArgs,
}

/// How much of the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Encrypt {
    /// Nothing, not even passwords
    Off,
    /// As the client asks; passwords at least, where it can
    On,
    /// All: clients that cannot are refused
    Required,
    /// All, with TLS before anything else (TDS 8.0)
    Strict,
}

/// The verbs beside serving.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Manage the logins
    #[command(subcommand)]
    Login(LoginCommand),
}

/// The verbs of `serve login`.
#[derive(Debug, Subcommand)]
pub enum LoginCommand {
    /// Add a login, or set the password of one
    Add(AddArgs),
    /// List the logins
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a login
    Remove {
        /// Its name
        name: String,
    },
}

/// Arguments of `serve login add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Its name
    pub name: String,
    /// Take the password from this file [default: $TDEKIT_LOGIN_PASSWORD, else a prompt]
    #[arg(long, value_name = "FILE")]
    pub login_password_file: Option<PathBuf>,
}
