//! Calibration of the method: many runs of base against base, and against a base slowed down by a
//! known cost. It finds the share of intervals that hold the truth, and the smallest detectable
//! cost.

use serde::{Deserialize, Serialize};

use crate::figures::Ratio;
use crate::model::{Environment, Metric, Noise, Tool};
use crate::piece::{As, Piece, all, each, number};
use crate::report::distinct;
use crate::stats::{deviation, mean, median, share_interval};
use crate::table::Table;

/// Name and version of the document's format.
pub const CALIBRATION_SCHEMA: &str = "tdekit-calibration/1";

/// Quantile of the normal distribution below which 8 of 10 values lie.
const EIGHT_OF_TEN: f64 = 0.841_621;

/// The result of a calibration. Figures can be merged from several documents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`CALIBRATION_SCHEMA`].
    pub schema: String,
    /// The program that took the measurements.
    pub tool: Tool,
    /// Start, RFC 3339.
    pub started: String,
    /// Duration of all runs together, including preparation.
    pub duration_s: f64,
    /// The command line that repeats it.
    pub command: String,
    /// The machine.
    pub environment: Environment,
    /// Description of how each run was made.
    pub design: String,
    /// Number of runs requested.
    pub runs_wanted: u32,
    /// Cost added to one of the sides: 0.03 is 3 %.
    pub injected: f64,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// Reasons why there are fewer runs than requested; empty if there are not.
    pub incomplete: Vec<String>,
    /// Other work of the machine during the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Actual share of its elapsed time that was added to the slowed base, over all runs.
    #[serde(default)]
    pub added_elapsed: f64,
    /// Actual share of its CPU.
    #[serde(default)]
    pub added_cpu: f64,
    /// Every interval, by run.
    pub intervals: Vec<CalibratedInterval>,
    /// Computed from `intervals`.
    pub rows: Vec<CalibrationRow>,
}

/// The true cost in a comparison of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// Base against base: 0 %.
    Nothing,
    /// Base against a slowed base.
    Injected,
}

impl Truth {
    /// Returns the true ratio.
    pub(crate) fn ratio(self, injected: f64) -> f64 {
        match self {
            Self::Nothing => 1.0,
            Self::Injected => 1.0 + injected,
        }
    }
}

/// The interval of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibratedInterval {
    /// Run, from 0.
    pub run: u32,
    /// Class, or `headline`.
    pub class: String,
    /// The metric compared.
    pub metric: Metric,
    /// The true cost.
    pub truth: Truth,
    /// Ratio found.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of restarts on which it is based.
    pub restarts: u64,
}

impl CalibratedInterval {
    /// Returns true if the interval contains a ratio.
    fn holds(&self, ratio: f64) -> bool {
        self.low <= ratio && self.high >= ratio
    }

    /// Returns the key of the row to which it counts.
    pub(crate) fn key(&self) -> (&str, Metric, Truth) {
        (&self.class, self.metric, self.truth)
    }
}

impl Ratio for CalibratedInterval {
    fn ratio(&self) -> f64 {
        self.ratio
    }

    fn ends(&self) -> Option<[(&'static str, f64); 2]> {
        Some([("low", self.low), ("high", self.high)])
    }
}

/// The figures of many runs of one class, metric and truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRow {
    /// Class, or `headline`.
    pub class: String,
    /// The metric compared.
    pub metric: Metric,
    /// The true cost.
    pub truth: Truth,
    /// Runs.
    pub runs: u64,
    /// Number of intervals that hold the truth.
    pub held: u64,
    /// Lower bound of the share of all such intervals that would hold it, after Clopper and
    /// Pearson, with the confidence of the intervals.
    #[serde(default)]
    pub share_low: f64,
    /// Upper bound of the share.
    #[serde(default)]
    pub share_high: f64,
    /// True if the promised share, the confidence, lies between the two.
    #[serde(default)]
    pub kept: bool,
    /// Number of intervals above the truth.
    pub above: u64,
    /// Number of intervals below it.
    pub below: u64,
    /// Number of runs whose ratio is within one point of the truth.
    pub within_a_point: u64,
    /// Mean of (ratio found - true ratio), in points of a percent.
    pub bias_points: f64,
    /// Median half-width of the intervals, in points.
    pub half_width_points: f64,
    /// Standard deviation of the ratios found, in points; none with one run.
    pub deviation_points: Option<f64>,
    /// The cost that 8 of 10 such runs would distinguish from 0 %, in points; for
    /// [`Truth::Nothing`].
    pub visible_points: Option<f64>,
}

impl Calibration {
    /// Computes `rows` from `intervals`.
    pub fn summarize(&mut self) {
        let firsts = distinct(&self.intervals, |one| one.key());
        let row = |first| row(&self.intervals, first, (self.injected, self.confidence));
        let mut rows: Vec<CalibrationRow> = firsts.into_iter().filter_map(row).collect();
        rows.sort_by_key(|row| row.truth == Truth::Injected);
        self.rows = rows;
    }
}

fn row(
    all: &[CalibratedInterval],
    like: &CalibratedInterval,
    (injected, confidence): (f64, f64),
) -> Option<CalibrationRow> {
    let own: Vec<&CalibratedInterval> = all.iter().filter(|one| one.key() == like.key()).collect();
    let truth = like.truth.ratio(injected);
    let count = |fits: &dyn Fn(&CalibratedInterval) -> bool| {
        own.iter().filter(|one| fits(one)).count() as u64
    };
    let points = |of: &dyn Fn(&CalibratedInterval) -> f64| -> Vec<f64> {
        own.iter().map(|one| of(one) * 100.0).collect()
    };
    let half_width_points = median(&points(&|one| (one.high - one.low) / 2.0))?;
    let deviation_points = deviation(&points(&|one| one.ratio));
    let held = count(&|one| one.holds(truth));
    let (share_low, share_high) = share_interval(held, own.len() as u64, confidence);
    Some(CalibrationRow {
        class: like.class.clone(),
        metric: like.metric,
        truth: like.truth,
        runs: own.len() as u64,
        held,
        share_low,
        share_high,
        kept: (share_low..=share_high).contains(&confidence),
        above: count(&|one| one.low > truth),
        below: count(&|one| one.high < truth),
        within_a_point: count(&|one| (one.ratio - truth).abs() <= 0.01),
        bias_points: mean(&points(&|one| one.ratio - truth))?,
        half_width_points,
        deviation_points,
        visible_points: deviation_points
            .filter(|_| like.truth == Truth::Nothing)
            .map(|deviation| half_width_points + EIGHT_OF_TEN * deviation),
    })
}

impl Calibration {
    /// Returns a true cost.
    pub(crate) fn cost(&self, truth: Truth) -> Piece {
        match truth {
            Truth::Nothing => "0 %".into(),
            Truth::Injected => number("injected", As::Growth, self.injected),
        }
    }

    /// Returns a table of the intervals that hold the truth, by class, metric and truth.
    pub(crate) fn table(&self) -> Table {
        let rows = each(&self.rows, "rows").map(|found| {
            let item = found.item;
            let count = |field: &str, value: u64| found.number(field, As::Count, value);
            let width = |field: &str, points: f64| found.number(field, As::Decimal, points);
            let shares = [("share_low", item.share_low), ("share_high", item.share_high)];
            let shares = shares.map(|(field, share)| found.number(field, As::Share, share));
            let kept = Piece::from(if item.kept { "kept" } else { "not kept" });
            vec![
                found.text("class", &item.class),
                item.metric.label().into(),
                self.cost(item.truth),
                count("held", item.held),
                count("runs", item.runs),
                all![Piece::span(shares), kept.below()],
                count("above", item.above),
                count("below", item.below),
                count("within_a_point", item.within_a_point),
                found.number("bias_points", As::Points, item.bias_points),
                width("half_width_points", item.half_width_points),
                item.visible_points.map_or(Piece::Nothing, |value| width("visible_points", value)),
            ]
        });
        let head = ["Class", "In", "True cost", "Hold it", "Runs", "Of all such", "Above", "Below"];
        let head = head.into_iter().chain(["Within a point", "Bias", "Half-width", "Visible"]);
        Table::new("Intervals that hold the truth", head, rows)
    }
}

/// Returns the calibration as plain text, ending in a newline.
#[must_use]
pub fn calibration_text(calibration: &Calibration) -> String {
    let Calibration { runs_wanted, design, rows, .. } = calibration;
    let mut text = format!("{} of {runs_wanted} runs: {design}\n", runs(calibration));
    text.push_str(&calibration.table().words());
    text.push_str(&format!(
        "\n\"Of all such\": what share of all such runs' intervals would contain the truth; {} % \
         should. Bias, half-width and the least overhead that 8 of 10 such runs would see are in \
         points of a percent.\n",
        calibration.confidence * 100.0
    ));
    if !rows.is_empty() && rows.iter().all(|row| row.kept) {
        text.push_str("The promise is kept in every row.\n");
    }
    text.extend(rows.iter().filter(|row| !row.kept).map(|row| {
        let CalibrationRow { class, held, runs, .. } = row;
        let metric = row.metric.label();
        format!("The promise is not kept: {class}, {metric}, {held} of {runs} hold the truth.\n")
    }));
    if calibration.added_cpu > 0.0 {
        text.push_str(&format!(
            "Really added: {:.2} % of elapsed time, {:.2} % of CPU.\n",
            calibration.added_elapsed * 100.0,
            calibration.added_cpu * 100.0
        ));
    }
    text.extend(calibration.incomplete.iter().map(|reason| format!("incomplete: {reason}\n")));
    text
}

/// Number of runs with intervals.
fn runs(calibration: &Calibration) -> u64 {
    calibration.rows.iter().map(|row| row.runs).max().unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::examples::holds;

    fn interval(run: u32, truth: Truth, ratio: f64) -> CalibratedInterval {
        CalibratedInterval {
            run,
            class: "headline".to_owned(),
            metric: Metric::Cpu,
            truth,
            ratio,
            low: ratio - 0.01,
            high: ratio + 0.01,
            restarts: 8,
        }
    }

    /// Four of the five requested runs; half of each truth's intervals hold it.
    pub(crate) fn calibration() -> Calibration {
        let mut calibration = Calibration {
            schema: CALIBRATION_SCHEMA.to_owned(),
            tool: Tool { name: "tdekit".to_owned(), version: "0".to_owned() },
            started: "2026-11-22T06:00:00Z".to_owned(),
            duration_s: 80.0,
            command: "tdekit bench --calibrate --runs 5".to_owned(),
            environment: Environment::default(),
            design: "two mixes".to_owned(),
            runs_wanted: 5,
            injected: 0.03,
            confidence: 0.95,
            incomplete: vec!["interrupted".to_owned()],
            noise: None,
            added_elapsed: 0.0301,
            added_cpu: 0.03,
            intervals: Vec::new(),
            rows: Vec::new(),
        };
        for (run, ratio) in (0..).zip([1.0, 1.005, 0.98, 1.02]) {
            for metric in [Metric::Cpu, Metric::Elapsed] {
                let of =
                    |truth, ratio| CalibratedInterval { metric, ..interval(run, truth, ratio) };
                calibration.intervals.push(of(Truth::Nothing, ratio));
                calibration.intervals.push(of(Truth::Injected, ratio * 1.03));
            }
        }
        calibration.summarize();
        calibration
    }

    #[test]
    fn shares_are_counted_against_the_truth() {
        let calibration = calibration();
        let [nothing, _, injected, _] = calibration.rows.as_slice() else {
            panic!("{:?}", calibration.rows)
        };
        assert_eq!((nothing.held, nothing.above, nothing.below), (2, 1, 1));
        assert_eq!((nothing.runs, nothing.within_a_point), (4, 2));
        // 2 of 4: from 6.8 to 93.2 %, which is not 95 %.
        assert!((nothing.share_low - 0.0676).abs() < 1e-4 && !nothing.kept, "{nothing:?}");
        assert!((nothing.bias_points - 0.125).abs() < 1e-9);
        let deviation = nothing.deviation_points.unwrap();
        assert!((nothing.visible_points.unwrap() - 1.0 - 0.841_621 * deviation).abs() < 1e-9);
        assert_eq!(
            (injected.truth, injected.held, injected.visible_points),
            (Truth::Injected, 2, None)
        );
        let text = calibration_text(&calibration);
        holds(
            &text,
            [
                "4 of 5 runs: two mixes",
                "+3.00 %",
                "6.8 % to 93.2 % (not kept)",
                "3.01 % of elapsed",
                "incomplete: interrupted",
            ],
        );
        let document = serde_json::to_string(&calibration).unwrap();
        let read: Calibration = serde_json::from_str(&document).unwrap();
        assert_eq!(read, calibration);
    }
}
