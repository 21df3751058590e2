//! The report of an experiment: sides, cells, and runs of a cell on a side, each a map from metrics
//! to values. Ratios, medians, tables and pages come from this shape alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figures::{Pooled, Summary};
use crate::layout::{Layout, OLTP_AT_RATE};
use crate::metric::Metric;
use crate::model::{
    Class, DriverShare, Experiment, Latency, Probe, Role, Side, StatementInfo, WarmUp,
};

/// The circumstance that transactions follow a schedule: as many a second are due on every side.
pub const RATE: &str = "rate_per_s";

/// Circumstances by name.
pub type Facts = BTreeMap<String, Fact>;

/// A circumstance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact {
    /// Whether it is so.
    Flag(bool),
    /// An amount, in the unit that its name ends in.
    Number(f64),
    /// Words.
    Text(String),
}

macro_rules! facts {
    ($($kind:ty: $fact:expr),* $(,)?) => { $(impl From<$kind> for Fact {
        fn from(known: $kind) -> Self {
            $fact(known)
        }
    })* };
}

facts! {
    bool: Self::Flag,
    u32: |number| Self::Number(f64::from(number)),
    u64: |number| Self::Number(float(number)),
    f64: Self::Number,
    &str: |words: &str| Self::Text(words.to_owned()),
    String: Self::Text,
}

/// Everything measured on the same sides: an experiment, or the four of [`Experiment::Embedded`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which one.
    pub experiment: Experiment,
    /// Its circumstances: `engine`, `rows`, `restarts` and so on.
    pub facts: Facts,
    /// Settings that all sides share, by name; of backups the devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Figures that this experiment cannot give here, or less well, and why.
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
    /// Restart it belongs to, from 0; of backups the block of the whole matrix.
    pub restart: u32,
    /// Pair within the restart and cell, from 0.
    pub pair: u32,
    /// Place in the random order of the pair, from 0.
    pub position: u32,
    /// Measured values. A quantity that could not be measured is absent.
    pub values: BTreeMap<Metric, f64>,
}

/// Connections that have logged in and wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// [`Side::id`].
    pub side: String,
    /// How many.
    pub connections: u64,
    /// Resident memory of the server's process before they came.
    pub before_bytes: u64,
    /// The same while they wait.
    pub after_bytes: u64,
    /// The most that it ever was.
    pub peak_bytes: u64,
    /// Threads of the server while they wait.
    pub threads: u64,
    /// Until the last one had logged in.
    pub opened_ns: u64,
}

impl Report {
    /// One of which nothing is known yet.
    #[must_use]
    pub fn new(experiment: Experiment, sides: Vec<Side>) -> Self {
        Self { experiment, sides, ..Self::default() }
    }

    /// Notes a circumstance.
    pub fn set(&mut self, name: &str, fact: impl Into<Fact>) {
        self.facts.insert(name.to_owned(), fact.into());
    }

    /// A circumstance in words; empty where it is not known.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.facts.get(name) {
            Some(Fact::Text(words)) => words,
            _ => "",
        }
    }

    /// A circumstance as an amount; 0 where it is not known.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.facts.get(name) {
            Some(Fact::Number(number)) => *number,
            _ => 0.0,
        }
    }

    /// Whether something is known to be so.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.facts.get(name) == Some(&Fact::Flag(true))
    }

    /// Its ratios, and how it is shown.
    pub(crate) fn layout(&self) -> &'static Layout {
        match self.experiment {
            Experiment::Oltp if self.number(RATE) > 0.0 => &OLTP_AT_RATE,
            experiment => experiment.layout(),
        }
    }

    /// The plain side.
    #[must_use]
    pub fn base(&self) -> Option<&Side> {
        self.sides.iter().find(|side| side.role == Role::Base)
    }

    /// Sides whose cost is told, in the order of reports.
    pub fn others(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(|side| side.encrypts())
    }

    /// The plain side that a side is held against: the base, or that of its own library.
    pub(crate) fn plain(&self, side: &Side) -> Option<&Side> {
        let Some(own) = &side.plain else { return self.base() };
        self.sides.iter().find(|known| known.id == *own)
    }

    /// Whether a ratio is what encryption costs: of a side that encrypts over its own plain one.
    pub(crate) fn is_cost(&self, found: &Pooled) -> bool {
        let side = self.others().find(|side| side.id == found.side);
        side.and_then(|side| self.plain(side)).is_some_and(|plain| plain.id == found.against)
    }

    /// A side's name.
    pub(crate) fn label<'a>(&'a self, id: &'a str) -> &'a str {
        self.sides.iter().find(|side| side.id == id).map_or(id, |side| side.label.as_str())
    }

    /// The values that cells have on an axis, in their order.
    pub(crate) fn along(&self, axis: &str) -> Vec<&str> {
        let values = self.cells.iter().map(|cell| cell.axis(axis));
        distinct(values.filter(|value| !value.is_empty()), |value| *value)
    }

    /// Medians of a cell's runs on a side.
    #[must_use]
    pub fn median(&self, cell: &str, side: &str, metric: Metric) -> Option<f64> {
        Some(self.summary.totals(cell, side)?.values.get(&metric)?.median)
    }
}

impl Run {
    /// A value that was measured, or that follows from what was.
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
    /// Memory that each connection takes.
    pub(crate) fn each_bytes(&self) -> f64 {
        float(self.after_bytes.saturating_sub(self.before_bytes)) / float(self.connections.max(1))
    }
}

/// The first item of each key, in their order.
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

/// Values that were measured.
pub fn measured(values: impl IntoIterator<Item = (Metric, Option<u64>)>) -> BTreeMap<Metric, f64> {
    values.into_iter().filter_map(|(metric, value)| Some((metric, float(value?)))).collect()
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds and bytes stay far below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}
