//! `tdekit bench mssql-script` and `import`: an experiment as a script, and its output as a page.

use std::path::Path;

use clap::{Args, FromArgMatches};
use tdekit_bench_report::{html, to_json};

use super::Outcome;
use super::args::{BenchArgs, ExperimentName};
use super::configure::configure;
use super::outcome;
use super::write::{Reports, print};
use crate::error::{BenchError, Result};
use crate::mssql;
use crate::plan::{Basics, Bounds, Config};
use crate::server_options::Room;

/// The words of a run whose statements are not sent: the server does not matter.
const UNSENT: [&str; 3] = ["--dry-run", "--target", "mssql://script@server"];

/// What a script does.
#[derive(Debug, Clone, Args)]
pub(super) struct ScriptArgs {
    /// What to run: `operations`, the default. Nothing else can be a script.
    #[arg(long, value_enum)]
    experiment: Vec<ExperimentName>,
    #[command(flatten)]
    basics: Basics,
    #[command(flatten)]
    room: Room,
    #[command(flatten)]
    bounds: Bounds,
}

/// Prints the script.
pub(super) fn script(args: &ScriptArgs) -> Result<Outcome> {
    print(&mssql::script(&plan(args)?)?)?;
    Ok(Outcome::Complete)
}

/// Makes the page and the document of a script's output.
pub(super) fn import(file: &Path, reports: &Reports) -> Result<Outcome> {
    reports.check(Some(file))?;
    let results = mssql::import(file, planned)?;
    reports.write(&results)?;
    Ok(outcome(&results.incomplete, false))
}

/// Reads bytes that may be a script's output, up to the page and the document of it: for fuzzers.
/// Returns true if they are one.
#[doc(hidden)]
#[must_use]
pub fn script_output(bytes: &[u8]) -> bool {
    let found = mssql::imported((bytes, Path::new("output")), planned);
    found.is_ok_and(|results| to_json(&results).is_ok() && html(&results).is_ok())
}

/// Returns a record of a script's output around these parts, with the correct check: for fuzzers.
#[doc(hidden)]
#[must_use]
pub fn script_record(parts: &str) -> String {
    mssql::sealed(parts)
}

/// Returns the plan of a script with these words.
pub(super) fn planned(words: &[String]) -> Result<Config> {
    plan(&parsed(words)?)
}

/// Returns the plan of a run with these options.
fn plan(args: &ScriptArgs) -> Result<Config> {
    if args.experiment.iter().any(|name| *name != ExperimentName::Operations) {
        let reason = "only operations can be a script: the others need several connections, or a \
                      client's clock";
        return Err(BenchError::option("--experiment", reason));
    }
    let mut run: BenchArgs = parsed(&UNSENT)?;
    run.experiment = vec![ExperimentName::Operations];
    run.given.basics = args.basics.clone();
    run.server.room = args.room.clone();
    run.mssql.bounds = args.bounds.clone();
    configure(&run)
}

fn parsed<A: Args + FromArgMatches>(words: &[impl AsRef<str>]) -> Result<A> {
    let command = A::augment_args(clap::Command::new("bench").no_binary_name(true));
    command
        .try_get_matches_from(words.iter().map(AsRef::as_ref))
        .and_then(|found| A::from_arg_matches(&found))
        .map_err(|error| {
            let words = error.to_string();
            let first = words.lines().next().unwrap_or_default();
            BenchError::option("the script's options", first.trim_start_matches("error: "))
        })
}
