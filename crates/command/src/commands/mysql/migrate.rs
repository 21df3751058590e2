//! `tdekit mysql migrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{
    FileKeyring, MysqlError, export_keyring_file, import_keyring_file, process_with,
};

use crate::error::CommandError;

/// Arguments of `mysql migrate`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("direction").required(true))]
pub(crate) struct MigrateArgs {
    /// Take the keys of this keyring, whose server is stopped
    #[arg(long, value_name = "KEYRING", group = "direction", requires = "certificate")]
    from: Option<Keyring>,
    /// Write the keys to a new file for this keyring, in the clear
    #[arg(long, value_name = "KEYRING", group = "direction")]
    to: Option<Keyring>,
    /// The keyring's file
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Certificate that wraps and signs the keys
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
    /// Namespace of the keys
    #[arg(long, value_name = "NAME", default_value = "mysql")]
    namespace: String,
}

/// A keyring of MySQL's own, by the server's name for it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Keyring {
    /// The component of MySQL Community
    #[value(name = "component_keyring_file")]
    Component,
    /// The plugin of MySQL 5.7 to 8.3
    #[value(name = "keyring_file")]
    Plugin,
    /// The component of MySQL Enterprise; refused, its format is not public
    #[value(name = "component_keyring_encrypted_file")]
    Encrypted,
}

impl Keyring {
    fn file_keyring(self) -> Result<FileKeyring, MysqlError> {
        match self {
            Self::Component => Ok(FileKeyring::Component),
            Self::Plugin => Ok(FileKeyring::Plugin),
            Self::Encrypted => {
                Err(MysqlError::ClosedFormat { keyring: "component_keyring_encrypted_file" })
            }
        }
    }
}

/// Moves keys from another keyring, or to it.
pub(crate) fn run(args: &MigrateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let (namespace, file) = (&args.namespace, &args.file);
    if let (Some(from), Some(certificate)) = (args.from, &args.certificate) {
        let keyring = from.file_keyring()?;
        let store = session::open_unlocked_store(global)?;
        warn_of_server(keyring);
        let count = import_keyring_file(&store, keyring, file, namespace, certificate)?;
        output::warn_of_certificate(store.store(), store.store().find(certificate)?);
        return Ok(output::line(format_args!(
            "Took {count} keys into namespace {namespace}, each compared. {} still has them in the \
             clear: remove it when the server has started with the component.",
            file.display()
        ))?);
    }
    let Some(to) = args.to else {
        return Err(CommandError::usage("name --from with --certificate, or --to"));
    };
    let keyring = to.file_keyring()?;
    let store = session::open_unlocked_store(global)?;
    let count = export_keyring_file(&store, keyring, namespace, file)?;
    Ok(output::line(format_args!(
        "Wrote {count} keys of namespace {namespace} to {} for {}, each compared. They are in the \
         clear there.",
        file.display(),
        keyring.name()
    ))?)
}

/// A server that runs may add keys to its keyring after they were taken.
fn warn_of_server(keyring: FileKeyring) {
    let Some(process) = process_with(keyring) else { return };
    output::warning(format_args!(
        "process {process} runs with {}: if this is its file, stop it and migrate again into \
         another namespace, because keys that it makes from now on are not taken",
        keyring.name()
    ));
}
