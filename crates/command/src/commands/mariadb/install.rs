//! `tdekit mariadb install` and `uninstall`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::PathBuf;
use std::{env, fs};

use clap::{Args, ValueEnum};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mariadb_admin::{Done, Installation, MariadbError, Options, Tables};

use super::connection::ConnectionArgs;
use super::keys::PageCipherArg;
use crate::commands::sqlite::find_beside;
use crate::error::CommandError;

const LIBRARY: &str = "tdekit_mariadb";
const VARIABLE: &str = "TDEKIT_MARIADB_PLUGIN";

/// How new tables are encrypted: the server's `innodb_encrypt_tables`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TablesArg {
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
    /// Directory of the server's plugins [default: the server's own]
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
    /// Option file to write [default: 99-tdekit.cnf in /etc/mysql/mariadb.conf.d]
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    /// Certificate that wraps the keys
    #[arg(long, value_name = "NAME")]
    certificate: String,
    /// Cipher of pages under keys that are made [default: gmac]
    #[arg(long, value_enum, value_name = "CIPHER")]
    page_cipher: Option<PageCipherArg>,
    /// User that the server runs as: the key store becomes this user's [default: mysql, for root]
    #[arg(long, value_name = "USER")]
    server_user: Option<String>,
    /// Which tables are encrypted
    #[arg(long, value_enum, default_value_t = TablesArg::Force)]
    tables: TablesArg,
    /// Threads of the server that encrypt in the background
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    encryption_threads: u8,
}

/// Arguments of `mariadb uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Directory of the server's plugins [default: the server's own]
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
    /// Option file that `install` wrote [default: 99-tdekit.cnf in /etc/mysql/mariadb.conf.d]
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    /// Do so without asking a server, or though it has encrypted files, which it cannot open then
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Installs the plugin.
pub(crate) fn install(args: &InstallArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let library = plugin()?;
    let places = Installation::find(args.plugin_dir.as_deref(), args.option_file.as_deref())?;
    let store = session::open_unlocked_store(global)?;
    let options = Options {
        certificate: args.certificate.clone(),
        page_cipher: args.page_cipher.map(PageCipherArg::cipher),
        server_user: args.server_user.clone(),
        tables: match args.tables {
            TablesArg::Force => Tables::Force,
            TablesArg::On => Tables::On,
            TablesArg::Off => Tables::Off,
        },
        encryption_threads: args.encryption_threads,
        password_file: global.password_file.clone(),
        key_file: global.key_file.clone(),
    };
    let mut told = Ok(());
    places.install(&library, &options, &store, &mut |done| {
        if matches!(done, Done::KeysThere)
            && let Ok(info) = store.store().find(&args.certificate)
        {
            output::warn_of_certificate(store.store(), info);
        }
        told = std::mem::replace(&mut told, Ok(())).and_then(|()| tell(&done, &args.certificate));
    })?;
    told?;
    Ok(output::line(
        "Restart the server; SHOW PLUGINS then lists tdekit. Back up the key store and its \
         certificate: without them nothing that is encrypted from now on can be read.",
    )?)
}

/// Removes the plugin.
pub(crate) fn uninstall(args: &UninstallArgs) -> Result<(), CommandError> {
    let connection = args.connection.connection();
    let data = match connection.client() {
        _ if args.force => None,
        Some(client) => Some(client.refuse_encrypted()?.data),
        None => {
            return Err(CommandError::usage(
                "name the server with --socket and --user, so that it can be asked what it still \
                 encrypts, or use --force without asking",
            ));
        }
    };
    let places = Installation::find(args.plugin_dir.as_deref(), args.option_file.as_deref())?;
    let mut told = Ok(());
    places.remove(plugin().ok().as_deref(), data.as_deref(), &mut |done| {
        told = std::mem::replace(&mut told, Ok(())).and_then(|()| tell(&done, ""));
    })?;
    told?;
    Ok(output::line(
        "The keys stay in the key store. Tables, logs and backups that are encrypted cannot be \
         read without the plugin.",
    )?)
}

fn tell(done: &Done, certificate: &str) -> Result<(), CommandError> {
    match done {
        Done::KeyMade(id) => {
            Ok(output::line(format_args!("Made key {id}, wrapped by {certificate}."))?)
        }
        Done::KeysThere => Ok(()),
        Done::StoreGiven { dir, user } => Ok(output::line(format_args!(
            "Made the key store {} the property of {user}.",
            dir.display()
        ))?),
        Done::NoUser => {
            output::warning(
                "there is no user mysql; --server-user names the one that the server runs as, \
                 who must be able to read the key store",
            );
            Ok(())
        }
        Done::PluginCopied(path) => {
            Ok(output::line(format_args!("Copied the plugin to {}.", path.display()))?)
        }
        Done::PluginOfPackage(path) => {
            Ok(output::line(format_args!("{} belongs to the system's package.", path.display()))?)
        }
        Done::OptionsWritten { path, text } => {
            output::line(format_args!("Wrote {}:\n", path.display()))?;
            Ok(output::line(text)?)
        }
        Done::Removed(path) => Ok(output::line(format_args!("Removed {}.", path.display()))?),
        Done::WasNotThere(path) => {
            Ok(output::line(format_args!("{} was not there.", path.display()))?)
        }
    }
}

/// Returns the plugin's library: `TDEKIT_MARIADB_PLUGIN`, or beside the command and its other
/// libraries.
fn plugin() -> Result<PathBuf, MariadbError> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return if path.is_file() { Ok(path) } else { Err(MariadbError::NoPlugin { path }) };
    }
    let command = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
    find_beside(&command, &format!("{DLL_PREFIX}{LIBRARY}{DLL_SUFFIX}"))
        .map_err(|path| MariadbError::NoPlugin { path })
}
