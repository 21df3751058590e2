//! `tdekit freshness`: lets an encrypted database detect that an older state of it was restored.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use tdekit_console::{GlobalArgs, output};
use tdekit_sqlite_convert::{Change, Changed, change_freshness, check_freshness, freshness};

use crate::commands::encrypt::warn_unsettled;
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::{Shown, StopAfter, heed_signals};

/// The commands of `freshness`.
#[derive(Debug, Subcommand)]
pub(crate) enum FreshnessCommand {
    /// List the seals of all pages and anchor them in the key store
    On(FreshnessArgs),
    /// Forget list and anchor: older pages are no longer detected
    Off(FreshnessArgs),
    /// Take the database as it is for its last state, such as a copy that you put back yourself
    Accept(FreshnessArgs),
    /// Show whether a database has freshness, and whether it is in its last state
    Status(StatusArgs),
}

/// Arguments of a change.
#[derive(Debug, Args)]
pub(crate) struct FreshnessArgs {
    /// The database
    database: PathBuf,
    #[command(flatten)]
    stop_after: StopAfter,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The database
    database: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Told {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    path: PathBuf,
    freshness: bool,
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    anchor: PathBuf,
    moves: Option<u64>,
    last_state: bool,
}

/// Runs the command.
pub(crate) fn run(command: &FreshnessCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        FreshnessCommand::On(args) => change(args, Change::On, global),
        FreshnessCommand::Off(args) => change(args, Change::Off, global),
        FreshnessCommand::Accept(args) => change(args, Change::Accept, global),
        FreshnessCommand::Status(args) => status(args, global),
    }
}

fn change(args: &FreshnessArgs, to: Change, global: &GlobalArgs) -> Result<(), CommandError> {
    let unlocked = open_store_for(&args.database, global)?;
    heed_signals();
    let shown = Shown::stopping_after(args.stop_after);
    say(change_freshness(&args.database, to, &unlocked, &shown)?, to)
}

/// Reports the result.
pub(crate) fn say(done: Changed, to: Change) -> Result<(), CommandError> {
    warn_unsettled(None, done.not_recorded);
    let found = done.now;
    let path = found.path.display();
    match (to, done.changed) {
        (Change::On, true) => Ok(output::line(format_args!(
            "Freshness is on: {path}\n  Its anchor is {}",
            found.anchor.display()
        ))?),
        (Change::On, false) => Ok(output::line(format_args!("Freshness was on: {path}"))?),
        (Change::Off, true) => Ok(output::line(format_args!("Freshness is off: {path}"))?),
        (Change::Off, false) => Ok(output::line(format_args!("Freshness was off: {path}"))?),
        (Change::Accept, _) => Ok(output::line(format_args!("Accepted as it is: {path}"))?),
    }
}

fn status(args: &StatusArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let unlocked = open_store_for(&args.database, global)?;
    let found = freshness(&args.database, &unlocked)?;
    let checked = match found.has_any() {
        true => check_freshness(&found, &Shown::default()),
        false => Ok(()),
    };
    if args.json {
        output::json(&Told {
            path: found.path.clone(),
            freshness: found.on,
            anchor: found.anchor.clone(),
            moves: found.moves,
            last_state: found.on && checked.is_ok(),
        })?;
        return Ok(checked?);
    }
    checked?;
    let path = found.path.display();
    match (found.on, found.moves) {
        (true, Some(moves)) => Ok(output::line(format_args!(
            "{path}: freshness on, in its last state\n  Its anchor is {}, moved {moves} times",
            found.anchor.display()
        ))?),
        (true, None) => Ok(output::line(format_args!("{path}: freshness on"))?),
        (false, _) => Ok(output::line(format_args!("{path}: freshness off"))?),
    }
}
