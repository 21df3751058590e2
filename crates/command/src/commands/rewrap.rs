//! `tdekit rewrap`: makes other certificates open an encrypted database.

use std::path::PathBuf;

use clap::Args;

use crate::commands::encrypt::warn_unsettled;
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::{Shown, StopAfter};
use tdekit_console::{GlobalArgs, output};
use tdekit_sqlite_convert::{find_certificates, rewrap};

/// Arguments of `rewrap`.
#[derive(Debug, Args)]
pub(crate) struct RewrapArgs {
    /// The databases
    #[arg(required = true)]
    database: Vec<PathBuf>,
    /// Certificate that will open it, by name or thumbprint; may be given repeatedly. Any other no
    /// longer opens it [default: the active generations of those that open it]
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,
    #[command(flatten)]
    stop_after: StopAfter,
}

/// Runs the command.
pub(crate) fn run(args: &RewrapArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let Some(first) = args.database.first() else { return Ok(()) };
    let unlocked = open_store_for(first, global)?;
    let certificates = find_certificates(&unlocked, &args.certificate)?;
    let shown = Shown::stopping_after(args.stop_after);
    for database in &args.database {
        let done = rewrap(database, None, &certificates, &unlocked, &shown)?;
        let names: Vec<_> = done
            .certificates
            .iter()
            .map(|info| format!("{} (generation {})", info.name, info.generation))
            .collect();
        let did = if done.changed { "Wrapped anew" } else { "Left as it was" };
        let by = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        output::line(format_args!("{did}: {}{by}", done.path.display()))?;
        warn_unsettled(None, done.not_recorded);
        if done.changed {
            done.certificates
                .iter()
                .for_each(|info| output::warn_of_certificate(unlocked.store(), info));
        }
    }
    Ok(())
}
