//! `tdekit mysql install` and `uninstall`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::PathBuf;
use std::{env, fs};

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{CLIENT, Done, Installation, MysqlError, Options, refuse_encrypted};

use super::ConnectionArgs;
use crate::commands::sqlite::find_beside;
use crate::error::CommandError;

const LIBRARY: &str = "component_keyring_tdekit";
const VARIABLE: &str = "TDEKIT_MYSQL_COMPONENT";

/// Arguments of `mysql install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Directory of the server's plugins [default: the server's own]
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
    /// The server's program, beside which its manifest lies [default: /usr/sbin/mysqld]
    #[arg(long, value_name = "FILE")]
    mysqld: Option<PathBuf>,
    /// Certificate that wraps and signs the keys
    #[arg(long, value_name = "NAME")]
    certificate: String,
    /// Namespace of the server's keys; another one for each server on this key store
    #[arg(long, value_name = "NAME", default_value = "mysql")]
    namespace: String,
    /// User that the server runs as: the key store becomes this user's [default: mysql, for root]
    #[arg(long, value_name = "USER")]
    server_user: Option<String>,
}

/// Arguments of `mysql uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Directory of the server's plugins [default: the server's own]
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
    /// The server's program, beside which its manifest lies [default: /usr/sbin/mysqld]
    #[arg(long, value_name = "FILE")]
    mysqld: Option<PathBuf>,
    /// Do so without asking a server, or though it needs its keys, without which it does not start
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Installs the component.
pub(crate) fn install(args: &InstallArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let library = component()?;
    let places = Installation::find(args.plugin_dir.as_deref(), args.mysqld.as_deref())?;
    let store = session::open_unlocked_store(global)?;
    output::warn_of_certificate(store.store(), store.store().find(&args.certificate)?);
    let options = Options {
        certificate: args.certificate.clone(),
        namespace: args.namespace.clone(),
        server_user: args.server_user.clone(),
        password_file: global.password_file.clone(),
        key_file: global.key_file.clone(),
    };
    let mut told = Ok(());
    places.install(&library, &options, &store, &mut |done| {
        told = std::mem::replace(&mut told, Ok(())).and_then(|()| tell(&done));
    })?;
    told?;
    Ok(output::line(
        "Restart the server; performance_schema.keyring_component_status then has the component. \
         It encrypts nothing by itself: docs/mysql.md has the server's own statements. Back up the \
         key store and its certificate: without them nothing that is encrypted from now on can be \
         read.",
    )?)
}

/// Removes the component.
pub(crate) fn uninstall(args: &UninstallArgs) -> Result<(), CommandError> {
    let connection = args.connection.connection();
    let data = match connection.client_by(CLIENT) {
        _ if args.force => None,
        Some(client) => Some(refuse_encrypted(&client)?),
        None => {
            return Err(CommandError::usage(
                "name the server with --socket and --user, so that it can be asked what it still \
                 encrypts, or use --force without asking",
            ));
        }
    };
    let places = Installation::find(args.plugin_dir.as_deref(), args.mysqld.as_deref())?;
    let mut told = Ok(());
    places.remove(component().ok().as_deref(), data.as_deref(), &mut |done| {
        told = std::mem::replace(&mut told, Ok(())).and_then(|()| tell(&done));
    })?;
    told?;
    Ok(output::line(
        "The keys stay in the key store. Backups and logs that are encrypted cannot be read \
         without the component.",
    )?)
}

fn tell(done: &Done) -> Result<(), CommandError> {
    match done {
        Done::StoreGiven { dir, user } => Ok(output::line(format_args!(
            "Made the key store {} the property of {user}.",
            dir.display()
        ))?),
        Done::NoUser => {
            output::warning(
                "there is no user mysql; --server-user names the one that the server runs as, \
                 who must be able to read and write the key store",
            );
            Ok(())
        }
        Done::ComponentCopied(path) => {
            Ok(output::line(format_args!("Copied the component to {}.", path.display()))?)
        }
        Done::ComponentOfPackage(path) => {
            Ok(output::line(format_args!("{} belongs to the system's package.", path.display()))?)
        }
        Done::Written { path, text } => {
            output::line(format_args!("Wrote {}:\n", path.display()))?;
            Ok(output::line(text)?)
        }
        Done::Removed(path) => Ok(output::line(format_args!("Removed {}.", path.display()))?),
        Done::WasNotThere(path) => {
            Ok(output::line(format_args!("{} was not there.", path.display()))?)
        }
    }
}

/// Returns the component's library: `TDEKIT_MYSQL_COMPONENT`, or beside the command and its other
/// libraries.
fn component() -> Result<PathBuf, MysqlError> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return if path.is_file() { Ok(path) } else { Err(MysqlError::NoComponent { path }) };
    }
    let command = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
    find_beside(&command, &format!("{DLL_PREFIX}{LIBRARY}{DLL_SUFFIX}"))
        .map_err(|path| MysqlError::NoComponent { path })
}
