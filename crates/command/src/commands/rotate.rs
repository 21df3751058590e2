//! `tdekit rotate`: gives an encrypted database a new key, while it is read and written.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use tdekit_console::{GlobalArgs, output};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::StoreError;

use crate::commands::encrypt::{page_algorithms, warn_unsettled};
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::{Shown, StopAfter, heed_signals};
use tdekit_sqlite_convert::{
    DatabaseError, Progress, Rotation, State, pause, progress, resume, rotate,
};

/// Arguments of `rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The databases. One whose rotation was cut short is brought to its end
    #[arg(required = true)]
    database: Vec<PathBuf>,
    /// The algorithm that seals under the new key; the present one's by default
    #[arg(long, value_name = "NAME", conflicts_with_all = ["status", "pause"],
        value_parser = PossibleValuesParser::new(page_algorithms()), ignore_case = true)]
    algorithm: Option<String>,
    /// Show how far it is, and how fast
    #[arg(long, conflicts_with_all = ["pause", "resume"])]
    status: bool,
    /// Halt a rotation that has begun, whoever carries it out, until --resume
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Take back --pause, and go on
    #[arg(long)]
    resume: bool,
    /// With --status: print JSON, a list with an object for each
    #[arg(long, requires = "status")]
    json: bool,
    #[command(flatten)]
    stop_after: StopAfter,
}

/// Runs the command.
pub(crate) fn run(args: &RotateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    if args.status {
        return show(args);
    }
    if args.pause {
        for database in &args.database {
            let path = pause(database)?;
            output::line(format_args!("Paused: {}", path.display()))?;
        }
        return Ok(());
    }
    let algorithm = args.algorithm.as_deref().map(str::parse::<Algorithm>).transpose();
    let algorithm = algorithm.map_err(StoreError::Crypto)?;
    let how = Rotation { algorithm, file: None };
    let Some(first) = args.database.first() else { return Ok(()) };
    let unlocked = open_store_for(first, global)?;
    let shown = Shown::stopping_after(args.stop_after);
    for database in &args.database {
        if args.resume && !resume(database)? {
            output::note(format_args!("{} was not paused", database.display()));
        }
        let done = rotate(database, &how, &unlocked, &shown)?;
        let how = if done.resumed { "Rotated, from where it was" } else { "Rotated" };
        let (version, algorithm) = (done.version, done.algorithm);
        let path = done.path.display();
        output::line(format_args!("{how}: {path}, key version {version}, {algorithm}"))?;
        if let Some(error) = done.not_logged {
            output::warning(format_args!("the key store's audit log lacks it: {error}"));
        }
        warn_unsettled(None, done.not_recorded);
    }
    Ok(())
}

/// The state of a database, or why it cannot be shown.
#[derive(Serialize)]
#[serde(untagged)]
enum Listed<'a> {
    Told(Progress),
    Failed {
        #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
        path: &'a PathBuf,
        error: String,
    },
}

/// Shows the progress of each database. The first failure is the command's error; it hides no other
/// database.
fn show(args: &RotateArgs) -> Result<(), CommandError> {
    let (mut listed, mut first) = (Vec::new(), None);
    for database in &args.database {
        let error = match progress(database, &Shown::default()) {
            Ok(one) => {
                if !args.json {
                    print(&one)?;
                }
                listed.push(Listed::Told(one));
                continue;
            }
            Err(error @ DatabaseError::Interrupted) => return Err(error.into()),
            Err(error) => error,
        };
        if !args.json && first.is_some() {
            output::warning(&error);
        }
        listed.push(Listed::Failed { path: database, error: error.to_string() });
        first.get_or_insert(error);
    }
    if args.json {
        output::json(&listed)?;
    }
    first.map_or(Ok(()), |error| Err(error.into()))
}

fn print(one: &Progress) -> Result<(), CommandError> {
    output::line(one.path.display())?;
    let state = match one.state {
        State::None => {
            let version = one.key_version;
            let algorithm = one.algorithm;
            return Ok(output::line(format_args!(
                "  no key changes; key version {version}, {algorithm}"
            ))?);
        }
        State::Running => "running",
        State::Waiting => "begun; nobody seals pages now",
        State::Paused => "paused",
    };
    let (left, all) = (one.pages_left, one.pages);
    output::line(format_args!("  {state}, to key version {}, {}", one.key_version, one.algorithm))?;
    output::line(format_args!("  {:.1} %: {left} of {all} pages left", one.percent_complete))?;
    if let (Some(pace), Some(left_s)) = (one.pages_per_s, one.left_s) {
        output::line(format_args!("  {pace:.0} pages a second, {left_s:.0} s left"))?;
    }
    Ok(())
}
