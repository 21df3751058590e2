//! `tdekit decrypt`: converts an encrypted database to a plain one.

use std::path::PathBuf;

use clap::Args;

use crate::commands::encrypt::warn_unchecked;
use crate::commands::followed::name_follower;
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::{Shown, StopAfter, heed_signals};
use tdekit_console::{GlobalArgs, output};
use tdekit_sqlite_convert::{Form, Options, convert, forget_freshness, freshness};

/// Arguments of `decrypt`.
#[derive(Debug, Args)]
pub(crate) struct DecryptArgs {
    /// The database
    database: PathBuf,
    /// Check the copy's structure and compare every row before the original is replaced
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    stop_after: StopAfter,
}

/// Runs the command.
pub(crate) fn run(args: &DecryptArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let unlocked = open_store_for(&args.database, global)?;
    let options = Options { verify: args.verify, ..Options::default() };
    heed_signals();
    let shown = Shown::stopping_after(args.stop_after);
    let before = freshness(&args.database, &unlocked)?;
    let done = convert(&args.database, &Form::Plain, &options, &unlocked, &shown)
        .map_err(name_follower)?;
    if before.has_any() && before.copy_of.is_none() {
        forget_freshness(&done.path, &before.anchor)?;
    }
    output::line(format_args!("Decrypted {}", done.path.display()))?;
    warn_unchecked(args.verify, &done.unknown);
    if let Some(error) = &done.not_synced {
        output::warning(format_args!("a power cut now may bring the old database back: {error}"));
    }
    if let Some(error) = done.not_recorded {
        output::warning(format_args!("the key store still lists the file: {error}"));
    }
    Ok(())
}
