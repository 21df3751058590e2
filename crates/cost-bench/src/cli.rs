//! `tdekit bench`: its options, its defaults and what it leaves behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tdekit_cost_report::{Results, html, terminal, to_json};

use crate::backup::{self, BackupArgs};
use crate::command::shell_line;
use crate::config::{Config, Experiments};
use crate::driver;
use crate::environment::processors;
use crate::error::BenchError;
use crate::generate::Mix;
use crate::interrupt;
use crate::job::LibraryChoice;
use crate::oltp::{AnyPeer, Given, OltpArgs};
use crate::peers::{Peer, PeerLibrary};
use crate::sqlite::Library;

pub use crate::tools::Tools;

/// Name by which the dynamic loader finds the system's SQLite.
const SYSTEM_LIBRARY: &str = "libsqlite3.so.0";

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
    /// threads, the only one on a server), `all`. Default: `crud`,
    /// `operations` and `scans`, with DB the last two. May be repeated.
    #[arg(long, value_enum)]
    experiment: Vec<ExperimentName>,
    /// A mix of the crud experiment: READS/UPDATES/INSERTS of every 10 loops, or `load`. May be
    /// repeated. Default: 10/0/0, 4/3/3, 0/5/5 and load.
    #[arg(long)]
    mix: Vec<Mix>,
    /// Processes of the crud experiment. Default: twice the processors, 2 to 10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    processes: Option<u32>,
    /// Loops of each process in a block. Default: as many as fill a quarter of a second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
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
    /// Where to write the measured figures; `-` for standard output instead of the table.
    #[arg(long, value_name = "FILE", default_value = "results.json")]
    json: PathBuf,
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
    /// has as many of its own, and runs at least once. Default: 150, with --quick 30.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_time: Option<u64>,
    /// Base against base: shows what the method itself reports when the true overhead is 0 %.
    #[arg(long)]
    control: bool,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    backup: BackupArgs,
    #[command(flatten)]
    oltp: OltpArgs,
}

#[derive(Debug, Clone, Subcommand)]
enum BenchCommand {
    /// Other encrypting libraries: what is there, and how to get them.
    #[command(subcommand)]
    Peers(PeersCommand),
}

#[derive(Debug, Clone, Subcommand)]
enum PeersCommand {
    /// Fetches libraries from their package registries into the user's cache.
    Install {
        /// Names; without any all.
        names: Vec<Peer>,
    },
    /// Lists libraries and backup tools, and whether each is installed.
    List {
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
    if let Some(BenchCommand::Peers(command)) = &args.command {
        interrupt::install();
        return match peers(command) {
            Err(BenchError::Interrupted) => Ok(Outcome::Interrupted),
            done => done.map(|()| Outcome::Complete),
        };
    }
    let config = configure(args)?;
    for path in [&args.json, &args.html] {
        check_writable(path)?;
    }
    let results = match driver::run(&config, tools) {
        // Stopped before anything was measured: there is nothing to report.
        Err(BenchError::Interrupted) => return Ok(Outcome::Interrupted),
        results => results?,
    };
    report(args, &results)?;
    Ok(if results.incomplete.is_empty() {
        Outcome::Complete
    } else if interrupt::check().is_err() {
        Outcome::Interrupted
    } else {
        Outcome::Incomplete
    })
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
    let mixes = if args.mix.is_empty() {
        ["10/0/0", "4/3/3", "0/5/5", "load"].iter().filter_map(|mix| mix.parse().ok()).collect()
    } else {
        args.mix.clone()
    };
    let restarts = args.restarts.unwrap_or(by_quick(3, 8));
    let usual_processes = u32::try_from(2 * processors()).unwrap_or(10).clamp(2, 10);
    Ok(Config {
        experiments: experiments(args)?,
        database: args.database.clone(),
        mixes,
        processes: args.processes.unwrap_or(by_quick(2, usual_processes)),
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
        max_time: Duration::from_secs(args.max_time.unwrap_or(by_quick_u64(30, 150))),
        control: args.control,
        seed: args.seed,
        backup: args.backup.plan(args.quick, args.restarts)?,
        oltp: args.oltp.plan(given(args), &args.peer)?,
        command: shell_line(std::iter::once("tdekit".to_owned()).chain(std::env::args().skip(1))),
        version: env!("CARGO_PKG_VERSION").to_owned(),
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

fn experiments(args: &BenchArgs) -> Result<Experiments, BenchError> {
    let names = &args.experiment;
    let named = |name| names.contains(&name) || names.contains(&ExperimentName::All);
    let none =
        Experiments { crud: false, operations: false, scans: false, backup: false, oltp: true };
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
    if names.is_empty() {
        let crud = args.database.is_none();
        return Ok(Experiments { crud, operations: true, scans: true, backup: false, oltp: false });
    }
    Ok(Experiments {
        crud: named(ExperimentName::Crud),
        operations: named(ExperimentName::Operations),
        scans: named(ExperimentName::Scans),
        backup: named(ExperimentName::Backup),
        oltp: named(ExperimentName::Oltp),
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

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails before the long run when a report could not be written after it.
fn check_writable(path: &Path) -> Result<(), BenchError> {
    if is_stdout(path) {
        return Ok(());
    }
    tempfile::tempfile_in(directory_of(path))
        .map(drop)
        .map_err(BenchError::file("cannot write a report beside", path))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

fn report(args: &BenchArgs, results: &Results) -> Result<(), BenchError> {
    let document = to_json(results)?;
    let page = html(results)?;
    if is_stdout(&args.json) {
        print(&document)?;
    } else {
        replace(&args.json, &document)?;
        print(&terminal(results))?;
    }
    if is_stdout(&args.html) {
        print(&page)?;
    } else {
        replace(&args.html, &page)?;
    }
    if !is_stdout(&args.json) && !is_stdout(&args.html) {
        print(&format!("\nReport: {}; figures: {}\n", args.html.display(), args.json.display()))?;
    }
    Ok(())
}

fn print(text: &str) -> Result<(), BenchError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(BenchError::file("cannot write to", "standard output"))
}

/// Writes a file so that a failure leaves the one that was there.
fn replace(path: &Path, text: &str) -> Result<(), BenchError> {
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory_of(path))?;
        file.write_all(text.as_bytes())?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable)?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(BenchError::file("cannot write", path))
}

fn peers(command: &PeersCommand) -> Result<(), BenchError> {
    match command {
        PeersCommand::Install { names } => {
            let wanted: Vec<PeerLibrary> = if names.is_empty() {
                PeerLibrary::ALL.to_vec()
            } else {
                names.iter().map(|peer| peer.library).collect()
            };
            for library in wanted {
                let path = library.install()?;
                print(&format!("{}: {}\n", library.name(), path.display()))?;
            }
            Ok(())
        }
        PeersCommand::List { json } => {
            let rows: Vec<serde_json::Value> = PeerLibrary::ALL
                .into_iter()
                .map(|library| {
                    serde_json::json!({
                        "name": library.name(),
                        "from": library.origin(),
                        "path": library.locate().ok(),
                    })
                })
                .chain(backup::available().into_iter().map(|(tool, packages, there)| {
                    serde_json::json!({
                        "name": tool.name(),
                        "from": format!("Debian {packages}"),
                        "installed": there,
                    })
                }))
                .collect();
            if *json {
                return print(&format!("{:#}\n", serde_json::Value::Array(rows)));
            }
            for library in PeerLibrary::ALL {
                let state = if library.locate().is_ok() { "installed" } else { "not installed" };
                print(&format!("{:16} {state:14} {}\n", library.name(), library.origin()))?;
            }
            for (tool, packages, there) in backup::available() {
                let state = if there { "installed" } else { "not installed" };
                let from = format!("backup tool, apt-get install {packages}");
                print(&format!("{:16} {state:14} {from}\n", tool.name()))?;
            }
            Ok(())
        }
    }
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
        let args = parse(&["--json", "/no/such/directory/x.json", "--control"]);
        let tools = Tools {
            worker: PathBuf::from("unused"),
            tdekit: PathBuf::from("unused"),
            extension: PathBuf::from("unused"),
        };
        assert!(matches!(run(&args, &tools), Err(BenchError::File { .. })));
    }

    #[test]
    fn reports_replace_older_ones_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        std::fs::write(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
