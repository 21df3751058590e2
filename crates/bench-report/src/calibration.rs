//! The method calibrated: many runs of base against base, and against a base that was made dearer
//! by a known cost. What share of the intervals holds the truth, and what is the least cost that
//! can be seen?

use serde::{Deserialize, Serialize};

use crate::format::percent;
use crate::model::{Environment, Metric, Noise, Tool};
use crate::stats::{deviation, mean, median, share_interval};
use crate::table::new_table;

/// Name and version of the document's shape.
pub const CALIBRATION_SCHEMA: &str = "tdekit-calibration/1";

pub(crate) use crate::figures::HEADLINE;

/// Quantile of the normal distribution below which 8 of 10 values lie.
const EIGHT_OF_TEN: f64 = 0.841_621;

/// The result of a calibration. Figures can be put together from several documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`CALIBRATION_SCHEMA`].
    pub schema: String,
    /// The program that measured.
    pub tool: Tool,
    /// Start, RFC 3339.
    pub started: String,
    /// Length of all runs together, preparation included.
    pub duration_s: f64,
    /// The command line that repeats it.
    pub command: String,
    /// The machine.
    pub environment: Environment,
    /// How each run was made, in words.
    pub design: String,
    /// Runs asked for.
    pub runs_wanted: u32,
    /// Cost that one of the sides was made dearer by: 0.03 is 3 %.
    pub injected: f64,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// Why there are fewer runs than asked for; empty when there are not.
    pub incomplete: Vec<String>,
    /// The machine's other work meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Share of its elapsed time that the dearer base was really made dearer by, all runs together.
    #[serde(default)]
    pub added_elapsed: f64,
    /// Share of its CPU.
    #[serde(default)]
    pub added_cpu: f64,
    /// Every interval, by run.
    pub intervals: Vec<CalibratedInterval>,
    /// Computed from `intervals`.
    pub rows: Vec<CalibrationRow>,
}

/// The true cost of what a run compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// Base against base: 0 %.
    Nothing,
    /// Base against a base made dearer.
    Injected,
}

impl Truth {
    /// The true ratio.
    pub(crate) fn ratio(self, injected: f64) -> f64 {
        match self {
            Self::Nothing => 1.0,
            Self::Injected => 1.0 + injected,
        }
    }
}

/// The interval that one run found.
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
    /// Restarts it rests on.
    pub restarts: u64,
}

impl CalibratedInterval {
    /// Whether a ratio lies within.
    pub(crate) fn holds(&self, ratio: f64) -> bool {
        self.low <= ratio && self.high >= ratio
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
    /// Intervals that hold the truth.
    pub held: u64,
    /// Least share of all such runs' intervals that would hold it, after Clopper and Pearson, with
    /// the confidence of the intervals.
    #[serde(default)]
    pub share_low: f64,
    /// Largest share.
    #[serde(default)]
    pub share_high: f64,
    /// The share that was promised, the confidence, lies between the two.
    #[serde(default)]
    pub kept: bool,
    /// Intervals that lie above the truth.
    pub above: u64,
    /// Intervals that lie below it.
    pub below: u64,
    /// Runs whose ratio is within one point of the truth.
    pub within_a_point: u64,
    /// Mean of (ratio found - true ratio), in points of a percent.
    pub bias_points: f64,
    /// Median of half the length of an interval, in points.
    pub half_width_points: f64,
    /// Standard deviation of the ratios found, in points; none with one run.
    pub deviation_points: Option<f64>,
    /// The cost that 8 of 10 such runs would tell from 0 %, in points; for [`Truth::Nothing`].
    pub visible_points: Option<f64>,
}

impl Calibration {
    /// Computes `rows` from `intervals`.
    pub fn summarize(&mut self) {
        let mut rows: Vec<CalibrationRow> = Vec::new();
        for found in &self.intervals {
            let known = rows.iter().any(|row| {
                (&row.class, row.metric, row.truth) == (&found.class, found.metric, found.truth)
            });
            if !known {
                rows.extend(row(&self.intervals, found, (self.injected, self.confidence)));
            }
        }
        rows.sort_by_key(|row| row.truth == Truth::Injected);
        self.rows = rows;
    }
}

fn row(
    all: &[CalibratedInterval],
    like: &CalibratedInterval,
    (injected, confidence): (f64, f64),
) -> Option<CalibrationRow> {
    let own: Vec<&CalibratedInterval> = all
        .iter()
        .filter(|one| (&one.class, one.metric, one.truth) == (&like.class, like.metric, like.truth))
        .collect();
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

/// The calibration as plain text, ending in a newline.
#[must_use]
pub fn calibration_text(calibration: &Calibration) -> String {
    let injected = percent(1.0 + calibration.injected);
    let mut text = format!(
        "{} of {} runs: {}\n",
        runs(calibration),
        calibration.runs_wanted,
        calibration.design
    );
    let mut table = new_table(
        [
            "truth",
            "class",
            "of",
            "runs",
            "hold it",
            "above",
            "below",
            "within 1 point",
            "bias",
            "half-width",
            "visible",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    for row in &calibration.rows {
        let truth = if row.truth == Truth::Injected { injected.as_str() } else { "0 %" };
        let points = |value: f64| format!("{value:.2}");
        table.add_row(vec![
            truth.to_owned(),
            row.class.clone(),
            row.metric.label().to_owned(),
            row.runs.to_string(),
            format!(
                "{} ({:.0} to {:.0} %)",
                row.held,
                row.share_low * 100.0,
                row.share_high * 100.0
            ),
            row.above.to_string(),
            row.below.to_string(),
            row.within_a_point.to_string(),
            format!("{:+.2}", row.bias_points),
            points(row.half_width_points),
            row.visible_points.map_or_else(String::new, points),
        ]);
    }
    text.push_str(&format!("\n{table}\n\n"));
    text.push_str(&format!(
        "\"hold it\": intervals that contain the truth, and what share of all such runs' would; \
         {} % should. Bias, half-width and the least overhead that 8 of 10 such runs would see \
         are in points of a percent.\n",
        calibration.confidence * 100.0
    ));
    let broken: Vec<&CalibrationRow> = calibration.rows.iter().filter(|row| !row.kept).collect();
    if broken.is_empty() && !calibration.rows.is_empty() {
        text.push_str("The promise is kept in every row.\n");
    }
    for row in broken {
        text.push_str(&format!(
            "The promise is not kept: {}, {}, {} of {} hold the truth.\n",
            row.class,
            row.metric.label(),
            row.held,
            row.runs
        ));
    }
    if calibration.added_cpu > 0.0 {
        text.push_str(&format!(
            "Really added: {:.2} % of elapsed time, {:.2} % of CPU.\n",
            calibration.added_elapsed * 100.0,
            calibration.added_cpu * 100.0
        ));
    }
    for reason in &calibration.incomplete {
        text.push_str(&format!("incomplete: {reason}\n"));
    }
    text
}

/// Runs that have given intervals.
fn runs(calibration: &Calibration) -> u64 {
    calibration.rows.iter().map(|row| row.runs).max().unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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

    /// Four runs of the five wanted; half of each truth's intervals hold it.
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
        for wanted in [
            "4 of 5 runs: two mixes",
            "+3.0 %",
            "2 (7 to 93 %)",
            "not kept",
            "3.01 % of elapsed",
            "incomplete: interrupted",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
        let document = serde_json::to_string(&calibration).unwrap();
        let read: Calibration = serde_json::from_str(&document).unwrap();
        assert_eq!(read, calibration);
    }
}
