//! Figures computed from a run: ratios with their intervals, medians, ratios over several cells.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::format::too_wide;
use crate::metric::Metric;
use crate::model::ProbeKind;

/// A ratio with its interval.
pub(crate) trait Ratio {
    /// Returns the ratio: 1 is as fast, or as large.
    fn ratio(&self) -> f64;

    /// Returns both ends of the interval, with the names of their fields. None if two restarts
    /// agree to the last digit: what was measured was too coarse to show a spread.
    fn ends(&self) -> Option<[(&'static str, f64); 2]>;

    /// Returns the side of 0 % on which the interval lies; none if it holds 0 %.
    fn sure(&self) -> Option<Ordering> {
        match self.ends()? {
            [(_, low), _] if low > 1.0 => Some(Ordering::Greater),
            [_, (_, high)] if high < 1.0 => Some(Ordering::Less),
            _ => None,
        }
    }

    /// Returns true if an interval holds 0 %, or is too wide: then no cost can be told.
    fn is_unclear(&self) -> bool {
        let wide = |ends: [(_, f64); 2]| too_wide(ends.map(|(_, end)| end));
        self.ends().is_some_and(|ends| self.sure().is_none() || wide(ends))
    }
}

/// Implements [`Ratio`] for types whose interval may be absent. The expression is true if an
/// interval of width 0 is exact.
macro_rules! ratios {
    ($($name:ty: $exact:expr),* $(,)?) => { $(impl $crate::figures::Ratio for $name {
        fn ratio(&self) -> f64 {
            self.ratio
        }

        fn ends(&self) -> Option<[(&'static str, f64); 2]> {
            let exact: fn(&Self) -> bool = $exact;
            let (low, high) = self.low.zip(self.high)?;
            (low < high || exact(self)).then_some([("low", low), ("high", high)])
        }
    })* };
}
pub(crate) use ratios;

ratios!(
    Comparison: |one| one.restarts > 2 || one.metric == Metric::Size,
    Pooled: |one| one.restarts > 2 || one.metric == Metric::Size,
);

/// Everything computed of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Ratios, by cell, side, opposing side, and metric.
    pub comparisons: Vec<Comparison>,
    /// Figures of a block, by cell and side.
    pub totals: Vec<Totals>,
    /// Ratios over several cells, by side and metric: the headline, and others.
    pub pooled: Vec<Pooled>,
    /// Comparisons of probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

/// One side's ratio over several cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pooled {
    /// The set of cells: `headline` for the subject of a run, `all`, or such as `backup/zstd`.
    pub id: String,
    /// Description of the cells.
    pub what: String,
    /// Ids of the cells.
    pub cells: Vec<String>,
    /// The metric compared.
    pub metric: Metric,
    /// The numerator's side.
    pub side: String,
    /// The denominator's side.
    pub against: String,
    /// Side over against: 1 is as fast. For most experiments the mean of cells within restarts, for
    /// backups their Hodges-Lehmann estimate; for workloads the median of the cells' own ratios.
    pub ratio: f64,
    /// Lower end of the interval; none with fewer than two restarts, and for a median.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of restarts on which it is based; 0 for a median.
    pub restarts: u64,
    /// Minimum of the cells' own ratios.
    pub least: f64,
    /// Maximum.
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
    /// Number of restarts on which it is based.
    pub restarts: u64,
    /// Number of pairs on which it is based.
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
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Minimum.
    pub least: f64,
    /// Maximum.
    pub most: f64,
    /// Median of the value of one operation; none if operations are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<f64>,
}

/// A probe of one side compared with the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The quantity.
    pub kind: ProbeKind,
    /// [`Side::id`](crate::Side::id).
    pub side: String,
    /// [`Side::id`](crate::Side::id) of the opposing side.
    pub against: String,
    /// Median of the side.
    pub value: f64,
    /// Median of the opposing side.
    pub against_value: f64,
    /// Side minus against: mean over restarts of the difference of medians.
    pub difference: f64,
    /// Lower end of the difference's interval; none with fewer than two restarts.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Comparison {
    /// Returns true if it is that of a cell, or of one of the cell's statements.
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

    /// Returns the side and the opposing side.
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
    /// Returns the median of a metric; 0 if it was not measured.
    #[must_use]
    pub fn median(&self, metric: Metric) -> f64 {
        self.values.get(&metric).map_or(0.0, |found| found.median)
    }
}

impl Summary {
    /// Returns the whole-class comparison of `side` with `against`.
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

    /// Returns a ratio of `side` against `against` over several cells.
    #[must_use]
    pub fn pooled(&self, id: &str, metric: Metric, side: &str, against: &str) -> Option<&Pooled> {
        self.pooled.iter().find(|found| found.is(id, metric, (side, against)))
    }

    /// Returns the headline of `side` against `against`.
    #[must_use]
    pub fn headline(&self, metric: Metric, side: &str, against: &str) -> Option<&Pooled> {
        self.pooled(HEADLINE, metric, side, against)
    }

    /// Returns the figures of one cell and side.
    #[must_use]
    pub fn totals(&self, class: &str, side: &str) -> Option<&Totals> {
        self.totals.iter().find(|totals| totals.class == class && totals.side == side)
    }
}

/// [`Pooled::id`] of the headline.
pub(crate) const HEADLINE: &str = "headline";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_restarts_that_agree_have_no_interval() {
        let mut found = crate::examples::embedded().summary.comparisons.remove(0);
        (found.restarts, found.low, found.high) = (2, Some(1.1), Some(1.1));
        assert_eq!((found.ends(), found.sure()), (None, None));
        let ends = Some([("low", 1.1), ("high", 1.1)]);
        assert_eq!(Comparison { restarts: 3, ..found.clone() }.ends(), ends);
        assert_eq!(Comparison { metric: Metric::Size, ..found.clone() }.ends(), ends);
        assert!(Comparison { high: Some(1.2), ..found }.ends().is_some());
    }
}
