//! The words that `tdekit bench` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tdekit_bench_report::ThinkTime;

use super::peers::PeersCommand;
use crate::backup::BackupArgs;
use crate::control::think_time;
use crate::generate::Mix;
use crate::messages::MessagesArgs;
use crate::oltp::{AnyPeer, OltpArgs};

/// What does encryption cost? Runs the same work on a plain and an encrypted copy of a database,
/// in interleaved pairs, and reports the overhead with an interval.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    pub(super) command: Option<BenchCommand>,
    /// The database to price encryption on; it is only read, the work runs on copies. Without it a
    /// database is generated.
    pub(super) database: Option<PathBuf>,
    /// What to run: `crud` (mixes by several processes, on a generated database), `operations`
    /// (statements derived from the database, rebuild of its indexes, full backups), `scans`,
    /// `backup` (the matrix of ciphers, compressions and devices), `oltp` (sysbench's workloads by
    /// threads, the only one on a MySQL server), `messages` (over TDS, the only one on a SQL
    /// Server), `all` (of a database: not `messages`). Default: `crud`, `operations` and `scans`,
    /// with DB the last two. May be repeated.
    #[arg(long, value_enum)]
    pub(super) experiment: Vec<ExperimentName>,
    /// A mix of the crud experiment: READS/UPDATES/INSERTS of every 10 loops, `load`, or `all` for
    /// sixteen mixes and load. May be repeated. Default: 10/0/0, 4/3/3, 0/5/5 and load.
    #[arg(long, value_parser = mixes)]
    pub(super) mix: Vec<Mixes>,
    /// Processes of the crud experiment. Default: twice the processors, 2 to 10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) processes: Option<u32>,
    /// Loops of each process in a block. Default: as many as fill a quarter of a second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) loops: Option<u64>,
    /// Pauses of each process of the crud experiment: LOOPS/PAUSE such as 1000/1s, or
    /// `none`.
    #[arg(long, default_value = "none", value_parser = think_time_option)]
    pub(super) think_time: Thinking,
    /// Loops a second of the crud experiment, all processes together: each is due at a time of its
    /// own, and its latency counts from then. Default: loops follow at once.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) rate: Option<u64>,
    /// Price the statements of a file of SQL, each alone and all together, instead of derived ones.
    /// They run on copies, and what they change is taken back.
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,
    /// Rows of each table of the generated database. Default: 100,000.
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=1_000_000_000))]
    pub(super) rows: Option<u64>,
    /// Encryption algorithm, as for `tdekit encrypt`.
    #[arg(long, default_value = "AES_256")]
    pub(super) algorithm: String,
    /// Another encrypting library to run beside ours: `sqlcipher`, `sqlite3mc[:CIPHER]`,
    /// `sqlite3mc-wheel[:CIPHER]`; with `--target mariadb` `file_key_management[:cbc|:ctr]`. May be
    /// repeated; see `bench peers`.
    #[arg(long)]
    pub(super) peer: Vec<AnyPeer>,
    /// SQLite library of both sides: `system`, `bundled`, or a path. Default: the system's if there
    /// is one.
    #[arg(long)]
    pub(super) sqlite_library: Option<String>,
    /// `PRAGMA journal_mode` of every side.
    #[arg(long, value_parser = ["wal", "delete", "truncate", "persist"], default_value = "wal")]
    pub(super) journal_mode: String,
    /// `PRAGMA synchronous` of every side.
    #[arg(long, value_parser = ["off", "normal", "full", "extra"], default_value = "normal")]
    pub(super) synchronous: String,
    /// `PRAGMA cache_size` of every side: pages, or KiB when negative.
    #[arg(long, default_value_t = -2000, allow_negative_numbers = true)]
    pub(super) cache_size: i64,
    /// Page size of the copies. Default: the database's own.
    #[arg(long, value_parser = page_size)]
    pub(super) page_size: Option<u32>,
    /// Directory for the copies, which are removed in the end. Default: the database's own, or
    /// /var/tmp.
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
    /// Where to write the measured figures; `-` for standard output instead of the table. Default:
    /// results.json, with --calibrate calibration.json.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Where to write every ratio with its interval as a table of comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Where to write every measured block likewise.
    #[arg(long, value_name = "FILE")]
    pub(super) csv_blocks: Option<PathBuf>,
    /// Where to write the page. Default: report.html, with --calibrate calibration.html.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// A rough answer in some 20 seconds.
    #[arg(long)]
    pub(super) quick: bool,
    /// Fresh processes on re-copied files; the unit of the interval. Default: 8, with --quick 3.
    /// For `backup` the repeats of the matrix. Default: 10, with --quick 3.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) restarts: Option<u32>,
    /// Pairs of blocks a restart and class. Default: 3, with --quick 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) pairs: Option<u32>,
    /// Seconds of measuring after which no restart begins, beyond the first two. The backup matrix
    /// has as many of its own, and runs at least once. Default: 150, with --quick 30, with
    /// --precision 3600.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_time: Option<u64>,
    /// Go on until every interval is this narrow: +-1% is `1%`. Default: until the headline is
    /// within +-2 % or --max-time is over, unless --restarts or --quick is given.
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    pub(super) precision: Option<u32>,
    /// Base against base: shows what the method itself reports when the true overhead is 0 %.
    #[arg(long)]
    pub(super) aa: bool,
    /// Calibrate the method on this machine: many short runs of base against base and against a
    /// base made 3 % dearer. Tells how many intervals hold the truth, and the least overhead seen.
    #[arg(long, conflicts_with_all = ["database", "aa", "script", "precision", "rate"])]
    pub(super) calibrate: bool,
    /// Runs of --calibrate. Default: 100, with --default-length 10.
    #[arg(long, requires = "calibrate", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) runs: Option<u32>,
    /// Length of each run of --calibrate.
    #[arg(long, requires = "calibrate", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) seconds: u64,
    /// Runs of --calibrate are as long as the bench's default.
    #[arg(long, requires = "calibrate", conflicts_with = "seconds")]
    pub(super) default_length: bool,
    /// Change or stop a bench that is running: `set mix=0/5/5`, `set delay=1000/1s`, `stop`,
    /// `status`.
    #[arg(long, value_name = "WORD", num_args = 1..,
          conflicts_with_all = ["database", "calibrate"])]
    pub(super) control: Vec<String>,
    /// The process of the bench to --control, when several run.
    #[arg(long, requires = "control", value_name = "PROCESS")]
    pub(super) run: Option<u32>,
    /// Empty the system's whole cache before the cold classes, not only the files' own pages. Needs
    /// root, and slows everything else on the machine down for a while.
    #[arg(long)]
    pub(super) drop_caches: bool,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) backup: BackupArgs,
    #[command(flatten)]
    pub(super) oltp: OltpArgs,
    #[command(flatten)]
    pub(super) messages: MessagesArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum BenchCommand {
    /// Other encrypting libraries: what is there, and how to get them.
    #[command(subcommand)]
    Peers(PeersCommand),
    /// Did the cost change between two runs? Reads their results documents.
    Compare {
        /// Results of the older run.
        old: PathBuf,
        /// Results of the newer run.
        new: PathBuf,
        /// Where to write the figures; `-`, or nothing, for standard output instead of the table.
        /// Default: comparison.json.
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<PathBuf>,
        /// Where to write the page. Default: comparison.html.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExperimentName {
    Crud,
    Operations,
    Scans,
    Backup,
    Oltp,
    Messages,
    All,
}

/// The mixes that a `--mix` names: one, or all.
pub(super) type Mixes = Vec<Mix>;

fn mixes(text: &str) -> Result<Mixes, String> {
    if text == "all" { Ok(Mix::all()) } else { text.parse().map(|mix| vec![mix]) }
}

/// The value of `--think-time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thinking(pub(super) Option<ThinkTime>);

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
