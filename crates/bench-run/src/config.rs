//! The plan of a run, checked and with every default filled in.

use std::path::PathBuf;
use std::time::Duration;

use tdekit_bench_report::{Stopping, ThinkTime};

use crate::backup::BackupPlan;
use crate::generate::Mix;
use crate::job::LibraryChoice;
use crate::messages::MessagesPlan;
use crate::oltp::OltpPlan;
use crate::peers::Peer;

/// Experiments to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Experiments {
    pub(crate) crud: bool,
    pub(crate) operations: bool,
    pub(crate) scans: bool,
    pub(crate) backup: bool,
    pub(crate) oltp: bool,
    pub(crate) messages: bool,
    /// The user's own statements.
    pub(crate) script: bool,
}

impl Experiments {
    /// True when anything runs that compares sides: all but the backup matrix.
    pub(crate) fn needs_sides(self) -> bool {
        self.crud || self.operations || self.scans || self.script
    }

    /// True when a database is needed that statements run on.
    pub(crate) fn needs_subject(self) -> bool {
        self.operations || self.scans || self.script
    }
}

/// Seconds of measuring with `--quick`, and usually.
pub(crate) const MAX_TIME_S: (u64, u64) = (30, 150);
/// Seconds that a run with a wanted precision measures at most.
const PRECISE_S: u64 = 3600;

/// Options that experiments share, as the user gave them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    pub(crate) quick: bool,
    /// The run goes on until its intervals are as narrow as wanted.
    pub(crate) precise: bool,
    pub(crate) rows: Option<u64>,
    pub(crate) loops: Option<u64>,
    pub(crate) restarts: Option<u32>,
    pub(crate) pairs: Option<u32>,
    pub(crate) max_time_s: Option<u64>,
}

impl Given {
    /// The first with `--quick`, else the second.
    pub(crate) fn by_quick<T>(self, (quick, usual): (T, T)) -> T {
        if self.quick { quick } else { usual }
    }

    pub(crate) fn restarts(self) -> u32 {
        self.restarts.unwrap_or(self.by_quick((3, 8)))
    }

    pub(crate) fn pairs(self) -> u32 {
        self.pairs.unwrap_or(self.by_quick((1, 3)))
    }

    /// Restarts as given. A run that goes on until its intervals are narrow has a first stage of
    /// as many in every experiment.
    pub(crate) fn first_stage(self) -> Option<u32> {
        self.restarts.or(self.precise.then(|| self.restarts()))
    }

    /// Time of measuring, of which `seconds` are there with `--quick` and usually.
    pub(crate) fn max_time(self, seconds: (u64, u64)) -> Duration {
        let usual = if self.precise { PRECISE_S } else { seconds.1 };
        Duration::from_secs(self.max_time_s.unwrap_or(self.by_quick((seconds.0, usual))))
    }
}

/// The values that were named, each once, in the order of its first naming.
pub(crate) fn each_once<T: PartialEq>(named: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in named {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The user's database; none to generate one.
    pub(crate) database: Option<PathBuf>,
    pub(crate) experiments: Experiments,
    pub(crate) mixes: Vec<Mix>,
    /// Pauses of the mixes' processes.
    pub(crate) think_time: Option<ThinkTime>,
    /// Loops a second of all processes of a mix together; none to let them follow at once.
    pub(crate) rate_per_s: Option<u64>,
    /// The user's own statements.
    pub(crate) script: Vec<String>,
    pub(crate) processes: u32,
    /// Loops a process and block; none to fill `block_time`.
    pub(crate) loops: Option<u64>,
    pub(crate) rows: u64,
    pub(crate) algorithm: String,
    pub(crate) peers: Vec<Peer>,
    pub(crate) library: LibraryChoice,
    /// The library's name in reports.
    pub(crate) library_origin: String,
    pub(crate) journal_mode: String,
    pub(crate) synchronous: String,
    pub(crate) cache_size: i64,
    /// None to keep the user's, 4096 for a generated database.
    pub(crate) page_size_bytes: Option<u32>,
    /// Directory that the copies' directory is made in.
    pub(crate) directory: PathBuf,
    pub(crate) restarts: u32,
    pub(crate) pairs: u32,
    /// Restarts beyond those go on until this is reached.
    pub(crate) stopping: Option<Stopping>,
    pub(crate) block_time: Duration,
    pub(crate) max_time: Duration,
    /// Base against base (`--aa`).
    pub(crate) control: bool,
    /// A further side: the base made dearer by so many thousandths.
    pub(crate) toll_per_mille: Option<u64>,
    /// Cold classes empty the system's whole cache.
    pub(crate) drop_caches: bool,
    pub(crate) seed: u64,
    pub(crate) backup: BackupPlan,
    pub(crate) oltp: OltpPlan,
    pub(crate) messages: MessagesPlan,
    /// The command line that repeats the run.
    pub(crate) command: String,
    pub(crate) version: String,
}

impl Config {
    /// When an experiment without a headline may end.
    pub(crate) fn stopping_beside(&self) -> Option<Stopping> {
        self.stopping.filter(|plan| plan.all_ppm.is_some())
    }

    /// Time between two loops of a process being due, where they follow a schedule.
    pub(crate) fn interval_ns(&self) -> Option<u64> {
        let rate = self.rate_per_s?.max(1);
        Some((u64::from(self.processes) * 1_000_000_000 / rate).max(1))
    }
}
