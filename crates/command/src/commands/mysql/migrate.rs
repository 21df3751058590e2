//! `tdekit mysql migrate`.

use std::path::PathBuf;

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{export_keyring_file, import_keyring_file};

use crate::error::CommandError;

/// Arguments of `mysql migrate`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("file").required(true))]
pub(crate) struct MigrateArgs {
    /// Take the keys of this file of component_keyring_file, whose server is stopped
    #[arg(long, value_name = "FILE", group = "file", requires = "certificate")]
    from_file: Option<PathBuf>,
    /// Write the keys to this new file for component_keyring_file, in the clear
    #[arg(long, value_name = "FILE", group = "file")]
    to_file: Option<PathBuf>,
    /// Certificate that wraps and signs the keys
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
    /// Namespace of the keys
    #[arg(long, value_name = "NAME", default_value = "mysql")]
    namespace: String,
}

/// Moves keys from another keyring, or to it.
pub(crate) fn run(args: &MigrateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = session::open_unlocked_store(global)?;
    let namespace = &args.namespace;
    if let (Some(file), Some(certificate)) = (&args.from_file, &args.certificate) {
        let count = import_keyring_file(&store, file, namespace, certificate)?;
        output::warn_of_certificate(store.store(), store.store().find(certificate)?);
        return Ok(output::line(format_args!(
            "Took {count} keys into namespace {namespace}, each compared. {} still has them in the \
             clear: remove it when the server has started with the component.",
            file.display()
        ))?);
    }
    let Some(file) = &args.to_file else {
        return Err(CommandError::usage("name --from-file with --certificate, or --to-file"));
    };
    let count = export_keyring_file(&store, namespace, file)?;
    Ok(output::line(format_args!(
        "Wrote {count} keys of namespace {namespace} to {}, each compared. They are in the clear \
         there.",
        file.display()
    ))?)
}
