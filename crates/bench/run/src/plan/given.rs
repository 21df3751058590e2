//! Options that experiments share, and their defaults.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tdekit_bench_report::ThinkTime;

use crate::control::think_time;

/// Seconds of measuring with `--quick`, and by default.
pub(crate) const MAX_TIME_S: (u64, u64) = (30, 150);
/// Maximum number of seconds that a run with a target precision measures.
const PRECISE_S: u64 = 3600;

/// How often, on how much and under which cipher: what every kind of run is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct Basics {
    /// Rows of each table of the generated database. Default: 100,000, on a SQL Server 20,000.
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=1_000_000_000))]
    pub(crate) rows: Option<u64>,
    /// Encryption algorithm, as for `tdekit encrypt`. May be repeated: each is a side of the run,
    /// on a database in the process, and the first one that of the answer. Default: AES_256, and
    /// where no --experiment is named AEGIS_256X2 too, for the classes of the headline.
    #[arg(long = "algorithm", value_name = "NAME", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(ALGORITHMS))]
    pub(crate) algorithms: Vec<String>,
    /// A rough answer, in half a minute to a minute.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Fresh processes on re-copied files; the unit of the interval. Default: 8, with --quick 3.
    /// For `backup` the repeats of the matrix. Default: 10, with --quick 3.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) restarts: Option<u32>,
    /// Pairs of blocks a restart and class. Default: 3, with --quick 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: Option<u32>,
    /// Base against base: shows what the method itself reports when the true overhead is 0 %.
    #[arg(long)]
    pub(crate) aa: bool,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What `tdekit encrypt` or a SQL Server may offer; each says if it does not.
const ALGORITHMS: [&str; 6] =
    ["AES_128", "AES_192", "AES_256", "AEGIS_128X2", "AEGIS_256X2", "TRIPLE_DES_3KEY"];

/// The algorithm of a run that names none.
const ALGORITHM: &str = "AES_256";

impl Basics {
    /// Returns the algorithm of our only side, or of the first one.
    pub(crate) fn algorithm(&self) -> &str {
        self.algorithms.first().map_or(ALGORITHM, String::as_str)
    }

    /// Returns the first value with `--quick`, else the second.
    pub(crate) fn by_quick<T>(&self, (quick, usual): (T, T)) -> T {
        if self.quick { quick } else { usual }
    }

    pub(crate) fn restarts(&self) -> u32 {
        self.restarts.unwrap_or(self.by_quick((3, 8)))
    }

    pub(crate) fn pairs(&self) -> u32 {
        self.pairs.unwrap_or(self.by_quick((1, 3)))
    }
}

/// Options that are used as they are given, and that experiments share.
#[derive(Debug, Clone, Args)]
pub(crate) struct Given {
    #[command(flatten)]
    pub(crate) basics: Basics,
    /// Loops of each process in a block. Default: as many as fill a quarter of a second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) loops: Option<u64>,
    /// Pauses of each process of the crud experiment: LOOPS/PAUSE such as 1000/1s, or
    /// `none`.
    #[arg(long, default_value = "none", value_parser = think_time_option)]
    pub(crate) think_time: Thinking,
    /// Loops a second of the crud experiment, all processes together: each is due at a time of its
    /// own, and its latency counts from then. Of the OLTP workloads on a server the transactions a
    /// second, likewise: throughput is the same on all sides then. Default: one follows the other
    /// at once. Of `replicate` those of the writers that pause. Default there: 1,000.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// `PRAGMA journal_mode` of every side.
    #[arg(long, value_parser = ["wal", "delete", "truncate", "persist"], default_value = "wal")]
    pub(crate) journal_mode: String,
    /// `PRAGMA synchronous` of every side.
    #[arg(long, value_parser = ["off", "normal", "full", "extra"], default_value = "normal")]
    pub(crate) synchronous: String,
    /// `PRAGMA cache_size` of every side: pages, or KiB when negative.
    #[arg(long, default_value_t = -2000, allow_negative_numbers = true)]
    pub(crate) cache_size: i64,
    /// Page size of the copies. Default: the database's own.
    #[arg(long, value_parser = page_size)]
    pub(crate) page_size: Option<u32>,
    /// `--size` of the speedtest1 experiment: how much SQLite's program does.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) speedtest_size: u32,
    /// Seconds of measuring after which no restart begins, beyond the first two. The backup matrix
    /// has as many of its own, and runs at least once. Default: 150, with --quick 30, with
    /// --precision 3600.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_time: Option<u64>,
    /// Go on until every interval is this narrow: +-1% is `1%`. Default: until the headline is
    /// within +-2 % or --max-time is over, unless --restarts or --quick is given.
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    pub(crate) precision: Option<u32>,
    /// Empty the system's whole cache before the cold classes, not only the files' own pages. Needs
    /// root, and slows everything else on the machine down for a while.
    #[arg(long)]
    pub(crate) drop_caches: bool,
}

impl Given {
    /// Returns the given number of restarts. A run that continues until its intervals are narrow
    /// has a first stage of this length in every experiment.
    pub(crate) fn first_stage(&self) -> Option<u32> {
        self.basics.restarts.or(self.precision.map(|_| self.basics.restarts()))
    }

    /// Returns the time of measuring; `seconds` has the values with `--quick` and by default.
    pub(crate) fn max_time(&self, seconds: (u64, u64)) -> Duration {
        let usual = if self.precision.is_some() { PRECISE_S } else { seconds.1 };
        Duration::from_secs(self.max_time.unwrap_or(self.basics.by_quick((seconds.0, usual))))
    }
}

/// Returns the given values without duplicates, in the order of their first occurrence.
pub(crate) fn each_once<T: PartialEq>(named: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in named {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// The value of `--think-time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thinking(pub(crate) Option<ThinkTime>);

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
