//! The report of an experiment: sides, cells, and runs of a cell on a side, each a map from metrics
//! to values. Ratios, medians, tables and pages are all derived from this structure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fact::{Fact, Facts, RATE, float};
use crate::figures::{Pooled, Summary};
use crate::layout::{Layout, OLTP_AT_RATE};
use crate::metric::Metric;
use crate::model::{
    Class, DriverShare, Experiment, Latency, Probe, Role, Side, StatementInfo, WarmUp,
};

/// All measurements on the same sides: an experiment, or the four of [`Experiment::Embedded`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The experiment.
    pub experiment: Experiment,
    /// Its circumstances: `engine`, `rows`, `restarts` and so on.
    pub facts: Facts,
    /// Settings shared by all sides, by name; for backups the devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Figures that are missing or less accurate here, with the reasons.
    pub limits: Vec<String>,
    /// Base first.
    pub sides: Vec<Side>,
    /// In order of the report.
    pub cells: Vec<Class>,
    /// Every measured block.
    pub runs: Vec<Run>,
    /// The cost of idle connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<Idle>,
    /// Derived statements of the operations, in order of their `index`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementInfo>,
    /// Single measured values beside the blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// Latencies of single operations, all blocks of a cell and side together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<Latency>,
    /// The warm-up of each cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_up: Vec<WarmUp>,
    /// The driver's own cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver: Vec<DriverShare>,
    /// Computed from `runs` and `probes`.
    pub summary: Summary,
}

/// A measured block of a cell, or of one of its statements, on a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`Class::id`].
    pub cell: String,
    /// [`StatementInfo::index`](crate::StatementInfo::index); none for the whole cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<u32>,
    /// [`Side::id`].
    pub side: String,
    /// Restart number, from 0; for backups the block of the whole matrix.
    pub restart: u32,
    /// Number of the pair within the restart and cell, from 0.
    pub pair: u32,
    /// Position in the random order of the pair, from 0.
    pub position: u32,
    /// Measured values. Quantities that could not be measured are absent.
    pub values: BTreeMap<Metric, f64>,
}

/// Idle connections after login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// [`Side::id`].
    pub side: String,
    /// Number of connections.
    pub connections: u64,
    /// Resident memory of the server's process before they connected.
    pub before_bytes: u64,
    /// Resident memory while they are idle.
    pub after_bytes: u64,
    /// Peak of resident memory.
    pub peak_bytes: u64,
    /// Number of the server's threads while they are idle.
    pub threads: u64,
    /// Time until the last one had logged in.
    pub opened_ns: u64,
}

impl Report {
    /// Returns a report without measurements.
    #[must_use]
    pub fn new(experiment: Experiment, sides: Vec<Side>) -> Self {
        Self { experiment, sides, ..Self::default() }
    }

    /// Sets a circumstance.
    pub fn set(&mut self, name: &str, fact: impl Into<Fact>) {
        self.facts.insert(name.to_owned(), fact.into());
    }

    /// Returns a circumstance in words; empty if unknown.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.facts.get(name) {
            Some(Fact::Text(words)) => words,
            _ => "",
        }
    }

    /// Returns a circumstance as an amount; 0 if unknown.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.facts.get(name) {
            Some(Fact::Number(number)) => *number,
            _ => 0.0,
        }
    }

    /// Returns true if a circumstance is known to be true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.facts.get(name) == Some(&Fact::Flag(true))
    }

    /// Returns its ratios and presentation.
    pub(crate) fn layout(&self) -> &'static Layout {
        match self.experiment {
            Experiment::Oltp if self.number(RATE) > 0.0 => &OLTP_AT_RATE,
            experiment => experiment.layout(),
        }
    }

    /// Returns the plain side.
    #[must_use]
    pub fn base(&self) -> Option<&Side> {
        self.sides.iter().find(|side| side.role == Role::Base)
    }

    /// Returns the sides whose cost is reported, in the order of reports.
    pub fn others(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(|side| side.encrypts())
    }

    /// Returns our side: that of the first algorithm.
    pub(crate) fn ours(&self) -> Option<&Side> {
        self.sides.iter().find(|side| side.role == Role::Encrypted)
    }

    /// Returns our sides of further algorithms, of databases in the process.
    pub(crate) fn further(&self) -> impl Iterator<Item = &Side> {
        let first = self.ours().filter(|side| side.cipher.is_some());
        let first = first.filter(|_| self.experiment == Experiment::Embedded);
        self.sides.iter().filter(move |side| {
            let known = |first: &Side| side.id != first.id && side.cipher.is_some();
            side.role == Role::Encrypted && first.is_some_and(known)
        })
    }

    /// Returns true for one of [`further`](Self::further).
    pub(crate) fn is_further(&self, id: &str) -> bool {
        self.further().any(|side| side.id == id)
    }

    /// Returns the plain side with which a side is compared: the base, or that of its own library.
    pub(crate) fn plain(&self, side: &Side) -> Option<&Side> {
        let Some(own) = &side.plain else { return self.base() };
        self.sides.iter().find(|known| known.id == *own)
    }

    /// Returns true if a ratio is the cost of encryption: of a side that encrypts over its own
    /// plain one.
    pub(crate) fn is_cost(&self, found: &Pooled) -> bool {
        let side = self.others().find(|side| side.id == found.side);
        side.and_then(|side| self.plain(side)).is_some_and(|plain| plain.id == found.against)
    }

    /// Returns a side's name.
    pub(crate) fn label<'a>(&'a self, id: &'a str) -> &'a str {
        self.sides.iter().find(|side| side.id == id).map_or(id, |side| side.label.as_str())
    }

    /// Returns the values of cells on an axis, in their order.
    pub(crate) fn along(&self, axis: &str) -> Vec<&str> {
        let values = self.cells.iter().map(|cell| cell.axis(axis));
        distinct(values.filter(|value| !value.is_empty()), |value| *value)
    }

    /// Returns the median of a cell's runs on a side.
    #[must_use]
    pub fn median(&self, cell: &str, side: &str, metric: Metric) -> Option<f64> {
        Some(self.summary.totals(cell, side)?.values.get(&metric)?.median)
    }
}

impl Run {
    /// Returns a measured value, or one derived from measured values.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let of = |metric| self.values.get(&metric).copied();
        let over = |above: Option<f64>, below: Option<f64>| {
            Some(above? / below.filter(|below| *below > 0.0)?)
        };
        match metric {
            Metric::Throughput => {
                let done = of(Metric::Transactions).filter(|done| *done > 0.0);
                over(done.map(|done| done * 1e9), of(Metric::Elapsed))
            }
            Metric::CpuEach => over(of(Metric::Cpu), of(Metric::Transactions)),
            Metric::SwitchesEach => over(of(Metric::ServerSwitches), of(Metric::Packets)),
            _ => of(metric),
        }
    }
}

impl Idle {
    /// Returns the memory for each connection.
    pub(crate) fn each_bytes(&self) -> f64 {
        float(self.after_bytes.saturating_sub(self.before_bytes)) / float(self.connections.max(1))
    }
}

/// Returns the first item of each key, in their order.
pub(crate) fn distinct<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for item in items {
        if !found.iter().any(|known| key(known) == key(&item)) {
            found.push(item);
        }
    }
    found
}

/// Returns the values that were measured.
pub fn measured(values: impl IntoIterator<Item = (Metric, Option<u64>)>) -> BTreeMap<Metric, f64> {
    values.into_iter().filter_map(|(metric, value)| Some((metric, float(value?)))).collect()
}
