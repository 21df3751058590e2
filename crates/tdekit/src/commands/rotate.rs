//! `tdekit rotate`: gives an encrypted database a new key, under its readers and writers.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::error::CommandError;
use crate::global::GlobalArgs;
use crate::progress::{Shown, StopAfter, heed_signals};
use crate::{output, session};
use tdekit_sqlite_convert::rotate;

/// Arguments of `rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The databases. One whose rotation was cut short is brought to its end
    #[arg(required = true)]
    database: Vec<PathBuf>,
    #[command(flatten)]
    stop_after: StopAfter,
}

/// Runs the command.
pub(crate) fn run(args: &RotateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let unlocked = Arc::new(session::open_unlocked_store(global)?);
    heed_signals();
    let shown = Shown::stopping_after(args.stop_after);
    for database in &args.database {
        let done = rotate(database, &unlocked, &shown)?;
        let how = if done.resumed { "Rotated, from where it was" } else { "Rotated" };
        let version = done.version;
        output::line(format_args!("{how}: {}, key version {version}", done.path.display()))?;
    }
    Ok(())
}
