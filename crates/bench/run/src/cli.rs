//! `tdekit bench`: running it, and its output files.

mod args;
mod beside;
mod configure;
#[cfg(feature = "manual")]
mod manual;
#[cfg(feature = "servers")]
mod mssql_script;
mod newest;
mod peers;
mod write;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use time::OffsetDateTime;

use crate::driver;
use crate::error::{BenchError, Result};
use crate::interrupt;
#[cfg(feature = "servers")]
use crate::mssql;
use crate::oltp;
use crate::tools::Tools;
use crate::twin;
use crate::worker;
use args::{BenchArgs, BenchCommand};
use configure::configure;
#[doc(hidden)]
#[cfg(feature = "servers")]
#[doc(hidden)]
pub use mssql_script::{script_output, script_record};
use write::{Files, Reports};

/// Makes the clocks coarse, to test runs on such machines.
const STEP_VARIABLE: &str = "TDEKIT_BENCH_CLOCK_STEP_NS";

/// Tell what encryption costs, on a database of yours or on one made for it
#[derive(Debug, Parser)]
#[command(name = "tdekit-bench", bin_name = "tdekit bench", version)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
    /// Show all columns of tables, and names as they are, however narrow the terminal is.
    #[arg(long, global = true)]
    wide: bool,
}

/// Runs the program `tdekit-bench`: a worker for one side if its first word is `bench-worker`, the
/// writer of its manual pages if it is `man-pages`, else the bench itself.
///
/// It measures the command `tdekit` beside it, or the one in `TDEKIT_COMMAND`, with the extension
/// that this command names, or `TDEKIT_EXTENSION`. Either may be set to an empty value, for a run
/// that needs none, such as `--aa`.
pub fn main() -> ExitCode {
    #[cfg(feature = "manual")]
    if let Some(code) = manual::answer() {
        return code;
    }
    let step = std::env::var(STEP_VARIABLE).ok().and_then(|text| text.parse().ok());
    step.into_iter().for_each(tdekit_system_use::set_clock_step);
    let failed = |error: &dyn std::fmt::Display| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    };
    if std::env::args_os().nth(1).is_some_and(|word| word == "bench-worker") {
        let served = worker::serve(std::io::stdin().lock(), std::io::stdout().lock());
        return served.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS);
    }
    let Cli { args, wide } = Cli::parse();
    tdekit_bench_report::fit_to(tdekit_columns::room().filter(|_| !wide));
    match Tools::find().and_then(|tools| run(&args, &tools)) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            failed(&error);
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Everything was done.
    Complete,
    /// A failure ended the run early; the measurements so far are in the report.
    Incomplete,
    /// The user or the system stopped the run; the measurements so far are in the report.
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::SUCCESS,
            Outcome::Incomplete => Self::FAILURE,
            // The code that a shell reports for a program that Ctrl-C ended.
            Outcome::Interrupted => Self::from(130),
        }
    }
}

/// Prints the table, writes the JSON document and the page. Fails if nothing could be measured, or
/// a report could not be written.
fn run(args: &BenchArgs, tools: &Tools) -> Result<Outcome> {
    match &args.command {
        Some(BenchCommand::Peers(command)) => {
            interrupt::install();
            return match peers::run(command) {
                Err(BenchError::Interrupted) => Ok(Outcome::Interrupted),
                done => done.map(|()| Outcome::Complete),
            };
        }
        Some(BenchCommand::Compare { old, new, json, html }) => {
            let given = [json.as_deref(), html.as_deref()];
            let files = newest::files_of_comparison(given, OffsetDateTime::now_utc());
            let last = match (old, new) {
                (Some(old), Some(new)) => (old.clone(), new.clone()),
                _ => newest::last_two()?,
            };
            return beside::compare_files((&last.0, &last.1), &files);
        }
        #[cfg(feature = "servers")]
        Some(BenchCommand::MssqlScript(script)) => return mssql_script::script(script),
        #[cfg(feature = "servers")]
        Some(BenchCommand::Import { file, json, csv, csv_blocks, html }) => {
            let files = run_files(json.as_deref(), html.as_deref());
            let reports = Reports { files, csv: csv.clone(), csv_blocks: csv_blocks.clone() };
            return mssql_script::import(file, &reports);
        }
        None => {}
    }
    if !args.control.is_empty() {
        return beside::order(args);
    }
    let config = configure(args)?;
    if args.server.dry_run {
        #[cfg(feature = "servers")]
        let dry_run = match config.oltp.sql_server() {
            Some(_) => mssql::dry_run,
            None => oltp::dry_run,
        };
        #[cfg(not(feature = "servers"))]
        let dry_run = oltp::dry_run;
        print!("{}", dry_run(&config));
        return Ok(Outcome::Complete);
    }
    if args.calibrate {
        return beside::calibrate(args, &config, tools);
    }
    let config = twin::settled(config, tools, args.dir.is_some(), driver::needed_bytes)?;
    let files = run_files(args.json.as_deref(), args.html.as_deref());
    let (csv, csv_blocks) = (args.csv.clone(), args.csv_blocks.clone());
    let reports = Reports { files, csv, csv_blocks };
    reports.check(None)?;
    let results = match driver::run(&config, tools) {
        // Stopped before anything was measured: there is nothing to report.
        Err(BenchError::Interrupted) => return Ok(Outcome::Interrupted),
        results => results?,
    };
    reports.write(&results)?;
    let stopped = results.incomplete.contains(&BenchError::Stopped.to_string());
    Ok(outcome(&results.incomplete, stopped))
}

/// Returns the output files of a run that begins now.
fn run_files(json: Option<&Path>, html: Option<&Path>) -> Files {
    newest::files_of_run(json, html, OffsetDateTime::now_utc())
}

fn outcome(incomplete: &[String], stopped: bool) -> Outcome {
    if incomplete.is_empty() {
        Outcome::Complete
    } else if stopped || interrupt::check().is_err() {
        Outcome::Interrupted
    } else {
        Outcome::Incomplete
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use super::configure::chosen_mixes;
    use super::*;
    use crate::plan::{Config, Further, Part};

    /// Parses options from words of a command line.
    pub(crate) fn parsed<A: clap::Args>(words: &[&str]) -> Result<A, clap::Error> {
        let command = A::augment_args(clap::Command::new("bench").no_binary_name(true));
        A::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    fn parse(words: &[&str]) -> BenchArgs {
        parsed(words).unwrap()
    }

    pub(crate) fn config_of(words: &[&str]) -> Result<Config> {
        configure(&parse(words))
    }

    #[cfg(feature = "servers")]
    pub(crate) fn config_of_script(words: &[String]) -> Result<Config> {
        mssql_script::planned(words)
    }

    pub(crate) fn config() -> Config {
        configure(&parse(&["--sqlite-library", "bundled"])).unwrap()
    }

    #[test]
    fn defaults_depend_on_the_database() {
        let generated = config();
        assert!(generated.experiments.crud && generated.experiments.operations);
        assert_eq!(generated.mixes.len(), 4);
        let given = configure(&parse(&["dir/app.db"])).unwrap();
        assert!(!given.experiments.crud && given.experiments.scans);
        assert_eq!(given.directory, Path::new("dir"));
        assert_eq!(configure(&parse(&["app.db"])).unwrap().directory, Path::new("."));
    }

    #[test]
    fn bad_values_are_refused_before_any_work() {
        for bad in [
            ["--mix", "5/5/5"],
            ["--algorithm", "nosuch"],
            ["--page-size", "1000"],
            ["--peer", "nothing"],
            ["--processes", "0"],
            ["--journal-mode", "memory"],
            ["--experiment", "everything"],
            ["--precision", "0%"],
            ["--precision", "x"],
            ["--think-time", "1000"],
            ["--rate", "0"],
            ["--runs", "5"],
            ["app.db", "--calibrate"],
        ] {
            assert!(parsed::<BenchArgs>(&bad).is_err(), "{bad:?}");
        }
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("not there/x.json");
        let args = parse(&["--json", json.to_str().unwrap(), "--aa"]);
        let [worker, tdekit, extension] = [const { PathBuf::new() }; 3];
        let tools = Tools { worker, tdekit, extension };
        assert!(matches!(run(&args, &tools), Err(BenchError::File { .. })));
    }

    #[test]
    fn a_run_ends_by_its_intervals_unless_its_length_is_given() {
        let of = |words: &[&str]| {
            let words = [words, &["--sqlite-library", "bundled"]].concat();
            configure(&parse(&words)).unwrap()
        };
        let usual = of(&[]);
        let stopping = usual.stopping.unwrap();
        assert_eq!((stopping.first_restarts, stopping.headline_ppm), (12, 20_000));
        assert_eq!((stopping.all_ppm, usual.max_time.as_secs()), (None, 150));
        assert!(of(&["--quick"]).stopping.is_none() && of(&["--restarts", "4"]).stopping.is_none());
        assert!(of(&["--experiment", "messages"]).stopping.is_none());
        let precise = of(&["--precision", "1%"]);
        let stopping = precise.stopping.unwrap();
        assert_eq!((stopping.first_restarts, stopping.all_ppm), (8, Some(10_000)));
        assert_eq!(precise.max_time.as_secs(), 3600);
        assert_eq!(of(&["--precision", "0.5"]).stopping.unwrap().headline_ppm, 5_000);
    }

    #[test]
    fn several_algorithms_are_sides_of_one_run() {
        let of = |words: &[&str]| configure(&parse(words)).unwrap();
        let usual = of(&[]);
        assert_eq!(usual.given.basics.algorithm(), "AES_256");
        assert_eq!(usual.further.algorithms, ["AEGIS_256X2"]);
        assert_eq!((usual.further.part, of(&["app.db"]).further.part), (Part::Heads, Part::Heads));
        for alone in [
            &["--algorithm", "AES_128"][..],
            &["--experiment", "crud"][..],
            &["--aa"][..],
            &["--target", "mssql://me@host", "--dry-run"][..],
        ] {
            assert_eq!(of(alone).further, Further::default(), "{alone:?}");
        }
        let both = ["AES_128", "AEGIS_256X2", "AES_128"].map(|name| ["--algorithm", name]).concat();
        let named = of(&both);
        assert_eq!(named.given.basics.algorithm(), "AES_128");
        let further = Further { algorithms: vec!["AEGIS_256X2".to_owned()], part: Part::All };
        assert_eq!(named.further, further);
        let elsewhere = [&both[..], &["--experiment", "backup"]].concat();
        let refused = configure(&parse(&elsewhere)).unwrap_err();
        assert!(refused.to_string().starts_with("--algorithm: "), "{refused}");
    }

    #[test]
    fn all_mixes_are_sixteen_and_the_load() {
        let of = |words: &[&str]| chosen_mixes(&parse(words));
        assert_eq!(of(&["--mix", "all"]).len(), 17);
        assert_eq!(of(&["--mix", "4/3/3", "--mix", "all", "--mix", "4/3/3"]).len(), 17);
        assert_eq!(of(&["--mix", "4/3/3"]).len(), 1);
        assert_eq!(of(&["--calibrate"]).len(), 2);
        assert_eq!(of(&["--calibrate", "--default-length"]).len(), 4);
    }

    #[test]
    fn a_comparison_leaves_files_or_prints() {
        let files = |words: &[&str]| {
            let words = ["compare", "old.json", "new.json"].iter().chain(words).copied();
            match parse(&words.collect::<Vec<_>>()).command {
                Some(BenchCommand::Compare { json, html, .. }) => {
                    let given = [json.as_deref(), html.as_deref()];
                    let files = newest::files_of_comparison(given, OffsetDateTime::UNIX_EPOCH);
                    (files.json, files.html)
                }
                other => panic!("{other:?}"),
            }
        };
        let both = |json: &str, html: &str| (PathBuf::from(json), PathBuf::from(html));
        let of_time = "comparison-1970-01-01-000000";
        let [json, html] = ["json", "html"].map(|end| format!("{of_time}.{end}"));
        assert_eq!(files(&[]), both(&json, &html));
        assert_eq!(files(&["--json"]), both("-", &html));
        assert_eq!(files(&["--json", "x.json", "--html", "y"]), both("x.json", "y"));
    }

    #[test]
    fn orders_are_words() {
        let args = parse(&["--control", "set", "mix=0/5/5", "--run", "7"]);
        assert_eq!((args.control.join(" ").as_str(), args.run), ("set mix=0/5/5", Some(7)));
    }
}
