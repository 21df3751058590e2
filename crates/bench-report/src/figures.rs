//! What is computed from a run: ratios with their intervals, medians, headlines.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::model::ProbeKind;

/// Everything computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Ratios, by class, side, the side it is held against, and metric.
    pub comparisons: Vec<Comparison>,
    /// Medians of a block, by class and side.
    pub totals: Vec<Totals>,
    /// Probes compared.
    pub differences: Vec<Difference>,
    /// What a run is about: the mean over classes that stand for the work, by side and metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headlines: Vec<Headline>,
}

/// The mean over several classes of one side's ratios, with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// What it is over, in words.
    pub what: String,
    /// [`Class::id`](crate::Class::id)s that it is the (geometric) mean over.
    pub classes: Vec<String>,
    /// What the ratio is of.
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
}

/// One ratio with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Cell of the experiment, such as [`Class::id`](crate::Class::id).
    pub class: String,
    /// [`StatementInfo::index`](crate::StatementInfo::index) within the class's operation; none for
    /// the whole class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<u32>,
    /// What the ratio is of.
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

/// Medians over the blocks of one class and side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// [`Class::id`](crate::Class::id).
    pub class: String,
    /// [`Side::id`](crate::Side::id).
    pub side: String,
    /// Blocks measured.
    pub blocks: u64,
    /// Median of [`Sample::elapsed_ns`](crate::Sample::elapsed_ns).
    pub elapsed_ns: f64,
    /// Median of [`Sample::cpu_ns`](crate::Sample::cpu_ns).
    pub cpu_ns: f64,
    /// Median of [`Sample::logical_reads`](crate::Sample::logical_reads).
    pub logical_reads: f64,
    /// Median of [`Sample::logical_writes`](crate::Sample::logical_writes).
    pub logical_writes: f64,
    /// Median of [`Sample::device_read_bytes`](crate::Sample::device_read_bytes).
    pub device_read_bytes: f64,
    /// Median of [`Sample::device_write_bytes`](crate::Sample::device_write_bytes).
    pub device_write_bytes: f64,
    /// Median of [`Sample::voluntary_switches`](crate::Sample::voluntary_switches).
    #[serde(default)]
    pub voluntary_switches: f64,
    /// Median of [`Sample::involuntary_switches`](crate::Sample::involuntary_switches).
    #[serde(default)]
    pub involuntary_switches: f64,
    /// Median of [`Sample::instructions`](crate::Sample::instructions), where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
}

/// A probe of one side held against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What it is of.
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
