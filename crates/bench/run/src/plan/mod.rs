//! The plan of a run, checked and with every default filled in.
//!
//! [`given`] has the options that experiments share; each experiment with a plan of its own has a
//! file. The experiments themselves are above, and receive the whole plan.

#[cfg(not(feature = "servers"))]
mod absent;
pub(crate) mod backup;
mod given;
#[cfg(feature = "servers")]
pub(crate) mod messages;
#[cfg(feature = "servers")]
mod mssql;
pub(crate) mod oltp;
pub(crate) mod replicate;

use std::path::PathBuf;
use std::time::Duration;

use tdekit_bench_report::Stopping;

use crate::directory::DirectoryPeer;
use crate::generate::Mix;
use crate::job::LibraryChoice;
use crate::peers::Peer;
use tdekit_bench_work::CrudRequest;

#[cfg(not(feature = "servers"))]
pub(crate) use absent::{MessagesPlan, MssqlPlan};
pub(crate) use backup::BackupPlan;
pub(crate) use given::{Basics, Given, MAX_TIME_S, each_once};
#[cfg(feature = "servers")]
pub(crate) use messages::MessagesPlan;
#[cfg(feature = "servers")]
pub(crate) use mssql::{Bounds, MssqlPlan};
pub(crate) use oltp::{AnyPeer, OltpPlan, OltpTarget};
pub(crate) use replicate::{BucketAddress, ReplicatePlan};

/// Experiments to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Experiments {
    pub(crate) crud: bool,
    pub(crate) operations: bool,
    pub(crate) scans: bool,
    pub(crate) speedtest: bool,
    pub(crate) backup: bool,
    pub(crate) oltp: bool,
    pub(crate) messages: bool,
    pub(crate) replicate: bool,
    /// On a SQL Server, in databases created for the run.
    pub(crate) server: bool,
    /// The user's own statements.
    pub(crate) script: bool,
}

impl Experiments {
    /// Returns true if anything runs that compares sides: all but the backup matrix.
    pub(crate) fn needs_sides(self) -> bool {
        let sides = self.crud || self.operations || self.scans || self.speedtest || self.script;
        sides && !self.server
    }

    /// Returns true if only speedtest1 runs.
    pub(crate) fn speedtest_alone(self) -> bool {
        self == Self { speedtest: true, ..Self::default() }
    }

    /// Returns true if a database is needed on which statements run.
    pub(crate) fn needs_subject(self) -> bool {
        self.operations || self.scans || self.script
    }
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) given: Given,
    /// The user's database; none to generate one.
    pub(crate) database: Option<PathBuf>,
    /// It is encrypted by tdekit.
    pub(crate) encrypted: bool,
    pub(crate) experiments: Experiments,
    pub(crate) mixes: Vec<Mix>,
    /// The user's own statements.
    pub(crate) script: Vec<String>,
    pub(crate) processes: u32,
    pub(crate) rows: u64,
    pub(crate) peers: Vec<Peer>,
    /// Directories that are encrypted another way.
    pub(crate) directories: Vec<DirectoryPeer>,
    pub(crate) library: LibraryChoice,
    /// The library's name in reports.
    pub(crate) library_origin: String,
    /// Parent directory of the copies' directory.
    pub(crate) directory: PathBuf,
    pub(crate) restarts: u32,
    pub(crate) pairs: u32,
    /// Algorithms of further sides of ours.
    pub(crate) further: Further,
    /// Further restarts follow until this is reached.
    pub(crate) stopping: Option<Stopping>,
    pub(crate) block_time: Duration,
    pub(crate) max_time: Duration,
    /// A further side: the base slowed down by this many thousandths.
    pub(crate) toll_per_mille: Option<u64>,
    pub(crate) backup: BackupPlan,
    pub(crate) replicate: ReplicatePlan,
    pub(crate) oltp: OltpPlan,
    pub(crate) messages: MessagesPlan,
    pub(crate) mssql: MssqlPlan,
    /// The command line that repeats the run.
    pub(crate) command: String,
    pub(crate) version: String,
}

impl Config {
    /// Returns the stopping rule of an experiment without a headline.
    pub(crate) fn stopping_beside(&self) -> Option<Stopping> {
        self.stopping.filter(|plan| plan.all_ppm.is_some())
    }

    /// Returns what a reader of figures of other directories must know.
    pub(crate) fn doubts_of_directories(&self) -> Vec<String> {
        self.directories.iter().flat_map(|peer| peer.doubts(&self.directory)).collect()
    }

    /// Returns the page size of a generated database.
    pub(crate) fn page_size_bytes(&self) -> u32 {
        self.given.page_size.unwrap_or(4096)
    }

    /// Returns loops under a control row, at the run's rate.
    pub(crate) fn loops(&self, control: i64, loops: u64, seed: u64) -> CrudRequest {
        let interval_ns = self.interval_ns();
        CrudRequest { control, loops, rows: self.rows, seed, interval_ns }
    }

    /// Returns the interval between the due times of two loops of a process, if they follow a
    /// schedule.
    fn interval_ns(&self) -> Option<u64> {
        let rate = self.given.rate?.max(1);
        Some((u64::from(self.processes) * 1_000_000_000 / rate).max(1))
    }
}

/// Algorithms of our sides after the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Further {
    pub(crate) algorithms: Vec<String>,
    /// The classes that these sides run.
    pub(crate) part: Part,
}

/// The classes in which a side takes part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Part {
    #[default]
    All,
    /// Only the classes of the headline, in the first pair of a restart.
    Heads,
}
