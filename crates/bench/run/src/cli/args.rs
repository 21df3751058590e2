//! The command line of `tdekit bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[cfg(feature = "servers")]
use super::mssql_script::ScriptArgs;
use super::peers::PeersCommand;
use crate::generate::Mix;
use crate::plan::{AnyPeer, BackupPlan, Given, MessagesPlan, MssqlPlan, OltpPlan, ReplicatePlan};
use crate::server_options::ServerOptions;

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
    /// `speedtest1` (SQLite's own program, built from the distribution's source), `backup` (the
    /// matrix of ciphers, compressions and devices), `oltp` (sysbench's workloads by threads, the
    /// only one on a MySQL server), `messages` (over TDS), `replicate` (what follows a database,
    /// beside Litestream), `all` (of a database: not `messages`, `replicate` and `speedtest1`). On
    /// a SQL Server: `operations`, `crud`, `backup` and `messages`. Default: `crud`, `operations`
    /// and `scans`, with DB the last two. May be repeated.
    #[arg(long, value_enum)]
    pub(super) experiment: Vec<ExperimentName>,
    /// A mix of the crud experiment: READS/UPDATES/INSERTS of every 10 loops, `load`, or `all` for
    /// sixteen mixes and load. May be repeated. Default: 10/0/0, 4/3/3, 0/5/5 and load.
    #[arg(long, value_parser = mixes)]
    pub(super) mix: Vec<Mixes>,
    /// Processes of the crud experiment. Default: twice the processors, 2 to 10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) processes: Option<u32>,
    #[command(flatten)]
    pub(super) given: Given,
    /// Price the statements of a file of SQL, each alone and all together, instead of derived ones.
    /// They run on copies, and what they change is taken back.
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,
    /// Another way to encrypt to run beside ours: a library, `sqlcipher`, `sqlite3mc[:CIPHER]`,
    /// `sqlite3mc-wheel[:CIPHER]`; `directory:PATH[=LABEL]`, a directory that you encrypt yourself
    /// (LUKS, fscrypt, gocryptfs), where the same database lies plain; with `--target mariadb`
    /// `file_key_management[:cbc|:ctr]`, `mysql[:DIR]`, private MySQL servers plain and with the
    /// file keyring, and `mysql-tdekit[:DIR]`, these and one with our keyring component, of the
    /// server below DIR or $TDEKIT_MYSQL_DIR. May be repeated; see `bench peers`.
    #[arg(long)]
    #[cfg_attr(feature = "manual", arg(add = super::manual::peer_names()))]
    pub(super) peer: Vec<AnyPeer>,
    /// SQLite library of both sides: `system`, `bundled`, or a path. Default: the system's if there
    /// is one.
    #[arg(long)]
    pub(super) sqlite_library: Option<String>,
    /// Directory for the copies, which are removed in the end. Default: the database's own, or
    /// /var/tmp.
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
    /// Where to write the measured figures; `-` for standard output instead of the table. Default:
    /// results-TIME.json, to which results.json leads; with --calibrate calibration.json.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Where to write every ratio with its interval as a table of comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Where to write every measured block likewise.
    #[arg(long, value_name = "FILE")]
    pub(super) csv_blocks: Option<PathBuf>,
    /// Where to write the page. Default: report-TIME.html, to which report.html leads; with
    /// --calibrate calibration.html.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
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
    #[command(flatten)]
    pub(super) backup: BackupPlan,
    #[command(flatten)]
    pub(super) replicate: ReplicatePlan,
    #[command(flatten)]
    pub(super) oltp: OltpPlan,
    #[command(flatten)]
    pub(super) messages: MessagesPlan,
    #[command(flatten)]
    pub(super) server: ServerOptions,
    #[command(flatten)]
    pub(super) mssql: MssqlPlan,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum BenchCommand {
    /// Other encrypting libraries: what is there, and how to get them.
    #[command(subcommand)]
    Peers(PeersCommand),
    #[cfg(feature = "servers")]
    /// The operations experiment as a T-SQL script, for whoever may not run a program against a SQL
    /// Server. `bench import` reads what it prints.
    MssqlScript(ScriptArgs),
    #[cfg(feature = "servers")]
    /// The page and the figures of a script that `bench mssql-script` made, from its output.
    Import {
        /// What sqlcmd or another client wrote while it ran the script.
        file: PathBuf,
        /// Where to write the measured figures; `-` for standard output instead of the table.
        /// Default: results-TIME.json, to which results.json leads.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Where to write every ratio with its interval as a table of comma-separated values.
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,
        /// Where to write every measured block likewise.
        #[arg(long, value_name = "FILE")]
        csv_blocks: Option<PathBuf>,
        /// Where to write the page. Default: report-TIME.html, to which report.html leads.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Did the cost change between two runs? Reads their results documents.
    Compare {
        /// Results of the older run. Default, of both: the last two results-TIME.json here.
        #[arg(requires = "new")]
        old: Option<PathBuf>,
        /// Results of the newer run.
        new: Option<PathBuf>,
        /// Where to write the figures; `-`, or nothing, for standard output instead of the table.
        /// Default: comparison-TIME.json, to which comparison.json leads.
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<PathBuf>,
        /// Where to write the page. Default: comparison-TIME.html, to which comparison.html leads.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExperimentName {
    Crud,
    Operations,
    Scans,
    Speedtest1,
    Backup,
    Oltp,
    Messages,
    Replicate,
    All,
}

/// The value of `--mix`: one, or all.
pub(super) type Mixes = Vec<Mix>;

fn mixes(text: &str) -> Result<Mixes, String> {
    if text == "all" { Ok(Mix::all()) } else { text.parse().map(|mix| vec![mix]) }
}
