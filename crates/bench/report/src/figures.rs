//! Figures computed from a run: ratios with their intervals, medians, ratios over several cells.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::model::ProbeKind;

/// A ratio with its interval.
pub(crate) trait Ratio {
    /// 1 is as fast, or as large.
    fn ratio(&self) -> f64;

    /// Both ends of the interval, with the names of their fields.
    fn ends(&self) -> Option<[(&'static str, f64); 2]>;

    /// On which side of 0 % the interval lies; none where it cannot be told.
    fn sure(&self) -> Option<Ordering> {
        match self.ends()? {
            [(_, low), _] if low > 1.0 => Some(Ordering::Greater),
            [_, (_, high)] if high < 1.0 => Some(Ordering::Less),
            _ => None,
        }
    }
}

/// Ratios whose interval may be absent.
macro_rules! ratios {
    ($($name:ty),*) => { $(impl $crate::figures::Ratio for $name {
        fn ratio(&self) -> f64 {
            self.ratio
        }

        fn ends(&self) -> Option<[(&'static str, f64); 2]> {
            Some([("low", self.low?), ("high", self.high?)])
        }
    })* };
}
pub(crate) use ratios;

ratios!(Comparison, Pooled);

/// Everything computed of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Ratios, by cell, side, the side it is held against, and metric.
    pub comparisons: Vec<Comparison>,
    /// Figures of a block, by cell and side.
    pub totals: Vec<Totals>,
    /// Ratios over several cells, by side and metric: the headline, and others.
    pub pooled: Vec<Pooled>,
    /// Probes compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

/// One side's ratio over several cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pooled {
    /// Which cells: `headline` for what a run is about, `all`, or such as `backup/zstd`.
    pub id: String,
    /// The cells in words.
    pub what: String,
    /// Cells that it is over.
    pub cells: Vec<String>,
    /// The metric compared.
    pub metric: Metric,
    /// The numerator's side.
    pub side: String,
    /// The denominator's side.
    pub against: String,
    /// Side over against: 1 is as fast. The mean of cells within restarts, of backups their
    /// Hodges-Lehmann estimate; of workloads the median of the cells' own ratios.
    pub ratio: f64,
    /// Lower end of the interval; none with fewer than two restarts, and for a median.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Restarts it rests on; 0 for a median.
    pub restarts: u64,
    /// The least of the cells' own ratios.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// One ratio with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Cell of the experiment: [`Class::id`](crate::Class::id).
    pub class: String,
    /// [`StatementInfo::index`](crate::StatementInfo::index) within the class's operation; none for
    /// the whole class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<u32>,
    /// The metric compared.
    pub metric: Metric,
    /// The numerator's side.
    pub side: String,
    /// The denominator's side.
    pub against: String,
    /// Side over against: 1 is as fast.
    pub ratio: f64,
    /// Lower end of the interval; none with fewer than two restarts.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Restarts it rests on.
    pub restarts: u64,
    /// Pairs it rests on.
    pub pairs: u64,
}

/// Figures of the blocks of one cell and side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// [`Class::id`](crate::Class::id).
    pub class: String,
    /// [`Side::id`](crate::Side::id).
    pub side: String,
    /// Blocks measured.
    pub blocks: u64,
    /// By metric, those that were measured.
    pub values: BTreeMap<Metric, Spread>,
}

/// The values of a metric over blocks, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Median of the value of one operation; none where no operations are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<f64>,
}

/// A probe of one side held against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The quantity.
    pub kind: ProbeKind,
    /// [`Side::id`](crate::Side::id).
    pub side: String,
    /// [`Side::id`](crate::Side::id) it is held against.
    pub against: String,
    /// Median of the side.
    pub value: f64,
    /// Median of the side it is held against.
    pub against_value: f64,
    /// Side minus against: mean over restarts of the difference of medians.
    pub difference: f64,
    /// Lower end of the difference's interval; none with fewer than two restarts.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Comparison {
    /// Whether it is that of a cell, or of one of the cell's statements.
    pub(crate) fn is(
        &self,
        (class, statement): (&str, Option<u32>),
        metric: Metric,
        pair: (&str, &str),
    ) -> bool {
        self.class == class
            && self.statement == statement
            && self.metric == metric
            && self.pair() == pair
    }

    /// The side, and what it is held against.
    pub(crate) fn pair(&self) -> (&str, &str) {
        (&self.side, &self.against)
    }
}

impl Pooled {
    pub(crate) fn is(&self, id: &str, metric: Metric, (side, against): (&str, &str)) -> bool {
        self.id == id && self.metric == metric && self.side == side && self.against == against
    }
}

impl Totals {
    /// The median of a metric; 0 where it was not measured.
    #[must_use]
    pub fn median(&self, metric: Metric) -> f64 {
        self.values.get(&metric).map_or(0.0, |found| found.median)
    }
}

impl Summary {
    /// The whole-class comparison of `side` with `against`.
    #[must_use]
    pub fn comparison(
        &self,
        class: &str,
        metric: Metric,
        side: &str,
        against: &str,
    ) -> Option<&Comparison> {
        let is = |found: &&Comparison| found.is((class, None), metric, (side, against));
        self.comparisons.iter().find(is)
    }

    /// A ratio of `side` against `against` over several cells.
    #[must_use]
    pub fn pooled(&self, id: &str, metric: Metric, side: &str, against: &str) -> Option<&Pooled> {
        self.pooled.iter().find(|found| found.is(id, metric, (side, against)))
    }

    /// The headline of `side` against `against`.
    #[must_use]
    pub fn headline(&self, metric: Metric, side: &str, against: &str) -> Option<&Pooled> {
        self.pooled(HEADLINE, metric, side, against)
    }

    /// Figures of one cell and side.
    #[must_use]
    pub fn totals(&self, class: &str, side: &str) -> Option<&Totals> {
        self.totals.iter().find(|totals| totals.class == class && totals.side == side)
    }
}

/// [`Pooled::id`] of the headline.
pub(crate) const HEADLINE: &str = "headline";
