//! `tdekit bench`: its options, its defaults and what it leaves behind.

mod beside;
mod peers;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tdekit_cost_report::{Stopping, ThinkTime};

use crate::backup::BackupArgs;
use crate::command::shell_line;
use crate::config::{Config, Experiments};
use crate::control::think_time;
use crate::driver;
use crate::environment::processors;
use crate::error::BenchError;
use crate::generate::Mix;
use crate::interrupt;
use crate::job::LibraryChoice;
use crate::messages::{MessagesArgs, Shared};
use crate::oltp::{AnyPeer, Given, OltpArgs};
use crate::script;
use crate::sqlite::Library;
use peers::PeersCommand;
use write::Reports;

pub use crate::tools::Tools;

/// Name by which the dynamic loader finds the system's SQLite.
const SYSTEM_LIBRARY: &str = "libsqlite3.so.0";
/// Half-width that the default run wants of its headline, in millionths.
const HEADLINE_PPM: u32 = 20_000;

/// What does encryption cost? Runs the same work on a plain and an encrypted copy of a database,
/// in interleaved pairs, and reports the overhead with an interval.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// The database to price encryption on; it is only read, the work runs on copies. Without it a
    /// database is generated.
    database: Option<PathBuf>,
    /// What to run: `crud` (mixes by several processes, on a generated database), `operations`
    /// (statements derived from the database, rebuild of its indexes, full backups), `scans`,
    /// `backup` (the matrix of ciphers, compressions and devices), `oltp` (sysbench's workloads by
    /// threads, the only one on a MySQL server), `messages` (over TDS, the only one on a SQL
    /// Server), `all` (of a database: not `messages`). Default: `crud`, `operations` and `scans`,
    /// with DB the last two. May be repeated.
    #[arg(long, value_enum)]
    experiment: Vec<ExperimentName>,
    /// A mix of the crud experiment: READS/UPDATES/INSERTS of every 10 loops, `load`, or `all` for
    /// sixteen mixes and load. May be repeated. Default: 10/0/0, 4/3/3, 0/5/5 and load.
    #[arg(long, value_parser = mixes)]
    mix: Vec<Mixes>,
    /// Processes of the crud experiment. Default: twice the processors, 2 to 10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    processes: Option<u32>,
    /// Loops of each process in a block. Default: as many as fill a quarter of a second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// Pauses of each process of the crud experiment: LOOPS/PAUSE such as 1000/1s, `document` for
    /// just that, or `none`.
    #[arg(long, default_value = "none", value_parser = think_time_option)]
    think_time: Thinking,
    /// Loops a second of the crud experiment, all processes together: each is due at a time of its
    /// own, and its latency counts from then. Default: loops follow at once.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Price the statements of a file of SQL, each alone and all together, instead of derived ones.
    /// They run on copies, and what they change is taken back.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Rows of each table of the generated database. Default: 100,000.
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=1_000_000_000))]
    rows: Option<u64>,
    /// Encryption algorithm, as for `tdekit encrypt`.
    #[arg(long, default_value = "AES_256")]
    algorithm: String,
    /// Another encrypting library to run beside ours: `sqlcipher`, `sqlite3mc[:CIPHER]`,
    /// `sqlite3mc-wheel[:CIPHER]`; with `--target mariadb` `file_key_management[:cbc|:ctr]`. May be
    /// repeated; see `bench peers`.
    #[arg(long)]
    peer: Vec<AnyPeer>,
    /// SQLite library of both sides: `system`, `bundled`, or a path. Default: the system's if there
    /// is one.
    #[arg(long)]
    sqlite_library: Option<String>,
    /// `PRAGMA journal_mode` of every side.
    #[arg(long, value_enum, default_value = "wal")]
    journal_mode: JournalMode,
    /// `PRAGMA synchronous` of every side.
    #[arg(long, value_enum, default_value = "normal")]
    synchronous: Synchronous,
    /// `PRAGMA cache_size` of every side: pages, or KiB when negative.
    #[arg(long, default_value_t = -2000, allow_negative_numbers = true)]
    cache_size: i64,
    /// Page size of the copies. Default: the database's own.
    #[arg(long, value_parser = page_size)]
    page_size: Option<u32>,
    /// Directory for the copies, which are removed in the end. Default: the database's own, or
    /// /var/tmp.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where to write the measured figures; `-` for standard output instead of the table. Default:
    /// results.json, with --calibrate calibration.json.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write every ratio with its interval as a table of comma-separated values.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Where to write every measured block likewise.
    #[arg(long, value_name = "FILE")]
    csv_blocks: Option<PathBuf>,
    /// Where to write the report page.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    html: PathBuf,
    /// A rough answer in some 20 seconds.
    #[arg(long)]
    quick: bool,
    /// Fresh processes on re-copied files; the unit of the interval. Default: 8, with --quick 3.
    /// For `backup` the repeats of the matrix. Default: 10, with --quick 3.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    restarts: Option<u32>,
    /// Pairs of blocks a restart and class. Default: 3, with --quick 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: Option<u32>,
    /// Seconds of measuring after which no restart begins, beyond the first two. The backup matrix
    /// has as many of its own, and runs at least once. Default: 150, with --quick 30, with
    /// --precision 3600.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_time: Option<u64>,
    /// Go on until every interval is this narrow: +-1% is `1%`. Default: until the headline is
    /// within +-2 % or --max-time is over, unless --restarts or --quick is given.
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    precision: Option<u32>,
    /// Base against base: shows what the method itself reports when the true overhead is 0 %.
    #[arg(long)]
    aa: bool,
    /// Calibrate the method on this machine: many short runs of base against base and against a
    /// base made 3 % dearer. Tells how many intervals hold the truth, and the least overhead seen.
    #[arg(long, conflicts_with_all = ["database", "aa", "script", "precision", "rate"])]
    calibrate: bool,
    /// Runs of --calibrate. Default: 100, with --default-length 10.
    #[arg(long, requires = "calibrate", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Length of each run of --calibrate.
    #[arg(long, requires = "calibrate", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Runs of --calibrate are as long as the bench's default.
    #[arg(long, requires = "calibrate", conflicts_with = "seconds")]
    default_length: bool,
    /// Change or stop a bench that is running: `set mix=0/5/5`, `set delay=1000/1s`, `stop`,
    /// `status`.
    #[arg(long, value_name = "WORD", num_args = 1..,
          conflicts_with_all = ["database", "calibrate"])]
    control: Vec<String>,
    /// The process of the bench to --control, when several run.
    #[arg(long, requires = "control", value_name = "PROCESS")]
    run: Option<u32>,
    /// Empty the system's whole cache before the cold classes, not only the files' own pages. Needs
    /// root, and slows everything else on the machine down for a while.
    #[arg(long)]
    drop_caches: bool,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    backup: BackupArgs,
    #[command(flatten)]
    oltp: OltpArgs,
    #[command(flatten)]
    messages: MessagesArgs,
}

#[derive(Debug, Clone, Subcommand)]
enum BenchCommand {
    /// Other encrypting libraries: what is there, and how to get them.
    #[command(subcommand)]
    Peers(PeersCommand),
    /// Did the cost change between two runs? Reads their results documents.
    Compare {
        /// Results of the older run.
        old: PathBuf,
        /// Results of the newer run.
        new: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExperimentName {
    Crud,
    Operations,
    Scans,
    Backup,
    Oltp,
    Messages,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JournalMode {
    Wal,
    Delete,
    Truncate,
    Persist,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What `--mix` names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mixes {
    One(Mix),
    All,
}

fn mixes(text: &str) -> Result<Mixes, String> {
    if text == "all" { Ok(Mixes::All) } else { text.parse().map(Mixes::One) }
}

/// What `--think-time` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thinking(Option<ThinkTime>);

fn think_time_option(text: &str) -> Result<Thinking, String> {
    think_time(text).map(Thinking)
}

/// `1%`, `0.5%` or `1`, in millionths.
fn precision(text: &str) -> Result<u32, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.01..=100.0).contains(percent))
        .and_then(|percent| format!("{:.0}", percent * 10_000.0).parse().ok())
        .ok_or_else(|| "expected a percentage from 0.01% to 100%, such as 1%".to_owned())
}

fn page_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(bytes) if bytes.is_power_of_two() && (512..=65536).contains(&bytes) => Ok(bytes),
        _ => Err("expected a power of two from 512 to 65536".to_owned()),
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All was done.
    Complete,
    /// A failure ended the run early; what was measured is in the report.
    Incomplete,
    /// The user or the system stopped the run; what was measured is in the report.
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::SUCCESS,
            Outcome::Incomplete => Self::FAILURE,
            // What a shell reports for a program that Ctrl-C ended.
            Outcome::Interrupted => Self::from(130),
        }
    }
}

/// Runs `tdekit bench`: prints the table, writes the JSON document and the page.
///
/// # Errors
/// Fails when nothing could be measured, or a report not be written.
pub fn run(args: &BenchArgs, tools: &Tools) -> Result<Outcome, BenchError> {
    match &args.command {
        Some(BenchCommand::Peers(command)) => {
            interrupt::install();
            return match peers::run(command) {
                Err(BenchError::Interrupted) => Ok(Outcome::Interrupted),
                done => done.map(|()| Outcome::Complete),
            };
        }
        Some(BenchCommand::Compare { old, new, json }) => {
            return beside::compare_files(old, new, *json);
        }
        None => {}
    }
    if !args.control.is_empty() {
        return beside::order(args);
    }
    let config = configure(args)?;
    if args.calibrate {
        return beside::calibrate(args, &config, tools);
    }
    let reports = Reports {
        json: args.json.clone().unwrap_or_else(|| PathBuf::from("results.json")),
        html: args.html.clone(),
        csv: args.csv.clone(),
        csv_blocks: args.csv_blocks.clone(),
    };
    reports.check()?;
    let results = match driver::run(&config, tools) {
        // Stopped before anything was measured: there is nothing to report.
        Err(BenchError::Interrupted) => return Ok(Outcome::Interrupted),
        results => results?,
    };
    reports.write(&results)?;
    let stopped = results.incomplete.contains(&BenchError::Stopped.to_string());
    Ok(outcome(&results.incomplete, stopped))
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

fn configure(args: &BenchArgs) -> Result<Config, BenchError> {
    let (library, library_origin) = choose_library(args.sqlite_library.as_deref());
    let directory = match (&args.dir, &args.database) {
        (Some(directory), _) => directory.clone(),
        (None, Some(database)) => match database.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        },
        (None, None) => default_directory(),
    };
    let by_quick = |quick: u32, usual: u32| if args.quick { quick } else { usual };
    let by_quick_u64 = |quick: u32, usual: u32| u64::from(by_quick(quick, usual));
    let restarts = args.restarts.unwrap_or(by_quick(3, 8));
    let quick_or_precise = |quick, precise, usual| match (args.quick, args.precision) {
        (true, _) => quick,
        (false, Some(_)) => precise,
        (false, None) => usual,
    };
    if args.drop_caches {
        check_drop_caches()?;
    }
    let script = args.script.as_deref().map(script::read).transpose()?.unwrap_or_default();
    let usual_processes = u32::try_from(2 * processors()).unwrap_or(10).clamp(2, 10);
    Ok(Config {
        experiments: experiments(args)?,
        database: args.database.clone(),
        mixes: chosen_mixes(args),
        think_time: args.think_time.0,
        rate_per_s: args.rate,
        script,
        processes: args.processes.unwrap_or(if args.calibrate && !args.default_length {
            2
        } else {
            by_quick(2, usual_processes)
        }),
        loops: args.loops,
        rows: args.rows.unwrap_or(by_quick_u64(10_000, 100_000)),
        algorithm: args.algorithm.clone(),
        peers: args.peer.iter().filter_map(AnyPeer::library).collect(),
        library,
        library_origin,
        journal_mode: name_of(args.journal_mode),
        synchronous: name_of(args.synchronous),
        cache_size: args.cache_size,
        page_size_bytes: args.page_size,
        directory,
        restarts,
        pairs: args.pairs.unwrap_or(by_quick(1, 3)),
        block_time: Duration::from_millis(by_quick_u64(100, 250)),
        stopping: stopping(args, restarts),
        max_time: Duration::from_secs(args.max_time.unwrap_or(quick_or_precise(30, 3600, 150))),
        control: args.aa,
        toll_per_mille: None,
        drop_caches: args.drop_caches,
        seed: args.seed,
        backup: args.backup.plan(args.quick, args.restarts)?,
        oltp: args.oltp.plan(given(args), &args.peer)?,
        messages: args.messages.plan(shared(args), args.oltp.sql_server())?,
        command: shell_line(
            std::iter::once("tdekit".to_owned())
                .chain(std::env::args().skip(1).map(crate::oltp::without_password)),
        ),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn chosen_mixes(args: &BenchArgs) -> Vec<Mix> {
    let usual = |names: &[&str]| names.iter().filter_map(|mix| mix.parse().ok()).collect();
    match args.mix.as_slice() {
        [] if args.calibrate && !args.default_length => usual(&["10/0/0", "0/5/5"]),
        [] => usual(&["10/0/0", "4/3/3", "0/5/5", "load"]),
        given => {
            let mut mixes: Vec<Mix> = Vec::new();
            for named in given {
                let named = match named {
                    Mixes::One(mix) => vec![*mix],
                    Mixes::All => {
                        Mix::sixteen().into_iter().chain(std::iter::once(Mix::LOAD)).collect()
                    }
                };
                for mix in named {
                    if !mixes.contains(&mix) {
                        mixes.push(mix);
                    }
                }
            }
            mixes
        }
    }
}

/// The default run ends when the headline is narrow; a run whose restarts are given ends with them.
fn stopping(args: &BenchArgs, restarts: u32) -> Option<Stopping> {
    let fixed = args.quick || args.restarts.is_some();
    let stop = |headline_ppm, all_ppm| Stopping {
        first_restarts: restarts,
        headline_ppm,
        all_ppm,
        reached: false,
    };
    match args.precision {
        Some(ppm) => Some(stop(ppm, Some(ppm))),
        None if fixed => None,
        None => Some(stop(HEADLINE_PPM, None)),
    }
}

/// Fails where the system's cache cannot be emptied.
fn check_drop_caches() -> Result<(), BenchError> {
    let switch = "/proc/sys/vm/drop_caches";
    std::fs::OpenOptions::new().write(true).open(switch).map(drop).map_err(|error| {
        BenchError::Option {
            option: "--drop-caches",
            reason: format!("cannot open {switch}: {error}; only root may"),
        }
    })
}

/// Options that the OLTP workloads share with other experiments, as given.
fn given(args: &BenchArgs) -> Given {
    Given {
        quick: args.quick,
        rows: args.rows,
        restarts: args.restarts,
        pairs: args.pairs,
        max_time_s: args.max_time,
    }
}

/// Options that the message experiment shares with other experiments.
fn shared(args: &BenchArgs) -> Shared {
    Shared {
        quick: args.quick,
        loops: args.loops,
        restarts: args.restarts.unwrap_or(if args.quick { 3 } else { 8 }),
        pairs: args.pairs.unwrap_or(if args.quick { 1 } else { 3 }),
        max_time: Duration::from_secs(args.max_time.unwrap_or(if args.quick { 30 } else { 150 })),
    }
}

fn experiments(args: &BenchArgs) -> Result<Experiments, BenchError> {
    let names = &args.experiment;
    if args.oltp.sql_server().is_some() {
        let fits = names.iter().all(|name| *name == ExperimentName::Messages);
        return if args.database.is_none() && fits {
            Ok(Experiments { messages: true, ..Experiments::default() })
        } else {
            Err(BenchError::Option {
                option: "--target",
                reason: "on a SQL Server only --experiment messages runs".to_owned(),
            })
        };
    }
    let named = |name| names.contains(&name) || names.contains(&ExperimentName::All);
    let none = Experiments { oltp: true, ..Experiments::default() };
    if args.oltp.on_server() {
        let fits = [ExperimentName::Oltp, ExperimentName::All];
        return if args.database.is_none() && names.iter().all(|name| fits.contains(name)) {
            Ok(none)
        } else {
            Err(BenchError::Option {
                option: "--target",
                reason: "on a server only --experiment oltp runs, and on its own tables".to_owned(),
            })
        };
    }
    let script = args.script.is_some();
    if names.is_empty() {
        let crud = args.database.is_none() && !script;
        let (operations, scans) = (!script, !script);
        return Ok(Experiments { crud, operations, scans, script, ..Experiments::default() });
    }
    Ok(Experiments {
        crud: named(ExperimentName::Crud),
        operations: named(ExperimentName::Operations),
        scans: named(ExperimentName::Scans),
        backup: named(ExperimentName::Backup),
        oltp: named(ExperimentName::Oltp),
        messages: names.contains(&ExperimentName::Messages),
        script,
    })
}

fn choose_library(name: Option<&str>) -> (LibraryChoice, String) {
    let system = || LibraryChoice::Shared(PathBuf::from(SYSTEM_LIBRARY));
    match name {
        Some("bundled") => (LibraryChoice::Bundled, "bundled".to_owned()),
        Some("system") => (system(), "system".to_owned()),
        Some(path) => (LibraryChoice::Shared(PathBuf::from(path)), path.to_owned()),
        None if Library::shared(Path::new(SYSTEM_LIBRARY)).is_ok() => {
            (system(), "system".to_owned())
        }
        None => (LibraryChoice::Bundled, "bundled".to_owned()),
    }
}

/// `/var/tmp` lies on a disk where `/tmp` may lie in memory.
fn default_directory() -> PathBuf {
    let lasting = PathBuf::from("/var/tmp");
    if tempfile::tempfile_in(&lasting).is_ok() { lasting } else { std::env::temp_dir() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(words: &[&str]) -> BenchArgs {
        let words = std::iter::once("bench").chain(words.iter().copied());
        Cli::try_parse_from(words).unwrap().bench
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
            ["--page-size", "1000"],
            ["--peer", "nothing"],
            ["--processes", "0"],
            ["--journal-mode", "memory"],
            ["--experiment", "everything"],
        ] {
            let words = std::iter::once("bench").chain(bad);
            assert!(Cli::try_parse_from(words).is_err(), "{bad:?}");
        }
        for bad in [
            ["--precision", "0%"],
            ["--precision", "x"],
            ["--think-time", "1000"],
            ["--rate", "0"],
            ["--runs", "5"],
            ["app.db", "--calibrate"],
        ] {
            let words = std::iter::once("bench").chain(bad);
            assert!(Cli::try_parse_from(words).is_err(), "{bad:?}");
        }
        let args = parse(&["--json", "/no/such/directory/x.json", "--aa"]);
        let tools = Tools {
            worker: PathBuf::from("unused"),
            tdekit: PathBuf::from("unused"),
            extension: PathBuf::from("unused"),
        };
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
        assert_eq!((stopping.first_restarts, stopping.headline_ppm), (8, 20_000));
        assert_eq!((stopping.all_ppm, usual.max_time.as_secs()), (None, 150));
        assert!(of(&["--quick"]).stopping.is_none() && of(&["--restarts", "4"]).stopping.is_none());
        let precise = of(&["--precision", "1%"]);
        assert_eq!(precise.stopping.unwrap().all_ppm, Some(10_000));
        assert_eq!(precise.max_time.as_secs(), 3600);
        assert_eq!(of(&["--precision", "0.5"]).stopping.unwrap().headline_ppm, 5_000);
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
    fn orders_are_words() {
        let args = parse(&["--control", "set", "mix=0/5/5", "--run", "7"]);
        assert_eq!(
            (args.control.as_slice(), args.run),
            (["set".to_owned(), "mix=0/5/5".to_owned()].as_slice(), Some(7))
        );
    }
}
