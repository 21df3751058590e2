//! `tdekit decrypt`: converts an encrypted database to a plain one.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::commands::encrypt::warn_unchecked;
use crate::commands::open_store_for;
use crate::error::CommandError;
use crate::progress::{Shown, StopAfter, heed_signals};
use tdekit_console::{GlobalArgs, output};
use tdekit_key_store::{KeyStore, StoreError, Use};
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
    let known = unlocked.store().uses().unwrap_or_default();
    let done = convert(&args.database, &Form::Plain, &options, &unlocked, &shown)?;
    if before.has_any() {
        forget_freshness(&done.path, &before.anchor)?;
    }
    output::line(format_args!("Decrypted {}", done.path.display()))?;
    warn_unchecked(args.verify, &done.unknown);
    if let Some(error) = &done.not_synced {
        output::warning(format_args!("a power cut now may bring the old database back: {error}"));
    }
    let corrected = correct_uses(unlocked.store(), known, &done.path);
    if let Some(error) = done.not_recorded.or(corrected.err()) {
        output::warning(format_args!("the key store still lists the file: {error}"));
    }
    Ok(())
}

/// What was at the path before is not expected there any more; and if the path was a copy, its
/// original, which has the same id, stays known.
fn correct_uses(store: &KeyStore, known: Vec<Use>, path: &Path) -> Result<(), StoreError> {
    let now = store.uses()?;
    if now.iter().any(|each| each.path == path) {
        store.forget_files(&[path.to_owned()])?;
    }
    let is_lacking = |each: &Use| each.path != path && !each.is_missing() && !now.contains(each);
    let mut lacking = known.into_iter().filter(is_lacking);
    lacking.try_for_each(|each| store.record_use(&each.sha256, each.file_id, &each.path))
}
