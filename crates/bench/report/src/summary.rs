//! From blocks to ratios: every comparison, total, pooled ratio and difference of a run.

use std::collections::BTreeMap;

use crate::fact::float;
use crate::figures::{Difference, Spread, Summary, Totals};
use crate::index::{Index, Stage};
use crate::model::{Class, Metric, ProbeKind, Side};
use crate::report::{Report, Run};
use crate::results::Results;
use crate::stats::{grouped_estimate, mean, median};

/// Computes everything that a report shows from blocks and probes, for every experiment.
pub fn summarize(results: &mut Results) {
    let settings = results.settings.clone();
    for report in results.reports_mut() {
        report.summary = summary(report, Stage::of(&settings, report.experiment));
    }
}

/// Computes the summary of one report.
pub(crate) fn summary(report: &Report, stage: Stage) -> Summary {
    let index = Index::of(report);
    let comparisons = index.comparisons(stage);
    let pooled = index.pooled(&comparisons, stage);
    let mut totals = Vec::new();
    for cell in &report.cells {
        let of = |side: &Side| {
            let own =
                |run: &&Run| run.cell == cell.id && run.side == side.id && run.statement.is_none();
            let runs: Vec<&Run> = report.runs.iter().filter(own).collect();
            (!runs.is_empty()).then(|| totals_of(cell, side, &runs))
        };
        totals.extend(report.sides.iter().filter_map(of));
    }
    Summary { comparisons, totals, pooled, differences: differences(report, stage.confidence) }
}

fn totals_of(cell: &Class, side: &Side, runs: &[&Run]) -> Totals {
    let units = |run: &Run| {
        let done = run.value(Metric::Transactions).unwrap_or(float(cell.operations));
        Some(done).filter(|done| *done > 0.0)
    };
    let value = |run: &Run, metric| match metric {
        // For blocks with a fixed number of operations.
        Metric::Throughput => Some(units(run)? * 1e9 / run.value(Metric::Elapsed)?),
        _ => run.value(metric),
    };
    let spread = |metric: Metric| {
        let values: Vec<f64> = runs.iter().filter_map(|run| value(run, metric)).collect();
        let each: Vec<f64> =
            runs.iter().filter_map(|run| Some(value(run, metric)? / units(run)?)).collect();
        Some(Spread {
            median: median(&values)?,
            mean: mean(&values)?,
            least: values.iter().copied().min_by(f64::total_cmp)?,
            most: values.iter().copied().max_by(f64::total_cmp)?,
            each: median(&each),
        })
    };
    Totals {
        class: cell.id.clone(),
        side: side.id.clone(),
        blocks: runs.len() as u64,
        values: Metric::EVERY.iter().filter_map(|one| Some((*one, spread(*one)?))).collect(),
    }
}

/// For single values only the cost of encryption: each encrypted side against its own plain one.
fn differences(report: &Report, confidence: f64) -> Vec<Difference> {
    let of = |kind| {
        report.others().filter_map(move |side| {
            difference(report, kind, (&side.id, &report.plain(side)?.id), confidence)
        })
    };
    [ProbeKind::OpenOther, ProbeKind::OpenAgain, ProbeKind::ProcessMemory, ProbeKind::FileBytes]
        .into_iter()
        .flat_map(of)
        .collect()
}

fn difference(
    report: &Report,
    kind: ProbeKind,
    (side, against): (&str, &str),
    confidence: f64,
) -> Option<Difference> {
    let by_restart = |id: &str| {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for probe in report.probes.iter().filter(|probe| probe.kind == kind && probe.side == id) {
            values.entry(probe.restart).or_default().push(probe.value);
        }
        values
    };
    let (own, other) = (by_restart(side), by_restart(against));
    let groups: Vec<Vec<f64>> = own
        .iter()
        .filter_map(|(restart, values)| Some(vec![median(values)? - median(other.get(restart)?)?]))
        .collect();
    let estimate = grouped_estimate(&groups, confidence)?;
    let all = |values: BTreeMap<u32, Vec<f64>>| {
        median(&values.into_values().flatten().collect::<Vec<_>>())
    };
    let (low, high) = estimate.interval.unzip();
    Some(Difference {
        kind,
        side: side.to_owned(),
        against: against.to_owned(),
        value: all(own)?,
        against_value: all(other)?,
        difference: estimate.center,
        low,
        high,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{embedded, example};

    #[test]
    fn ratios_come_from_pairs_and_restarts() {
        let summary = embedded().summary;
        let elapsed = summary.comparison("crud/4-3-3", Metric::Elapsed, "encrypted", "base");
        let elapsed = elapsed.unwrap();
        // Every encrypted block of the example takes 10 % longer than its base block.
        assert!((elapsed.ratio - 1.1).abs() < 1e-6, "{}", elapsed.ratio);
        assert_eq!((elapsed.restarts, elapsed.pairs), (3, 6));
        let cpu = summary.comparison("crud/4-3-3", Metric::Cpu, "encrypted", "base").unwrap();
        assert!((cpu.ratio - 1.2).abs() < 1e-6, "{}", cpu.ratio);
        assert!(cpu.low.unwrap() <= cpu.ratio && cpu.high.unwrap() >= cpu.ratio);
    }

    #[test]
    fn a_lost_half_of_a_pair_is_left_out() {
        let mut results = example();
        let report = results.embedded.as_mut().unwrap();
        report.runs.retain(|run| run.side != "base" || (run.restart, run.pair) != (2, 1));
        summarize(&mut results);
        let summary = results.embedded.unwrap().summary;
        let elapsed = summary.comparison("crud/4-3-3", Metric::Elapsed, "encrypted", "base");
        assert_eq!(elapsed.unwrap().pairs, 5);
    }

    #[test]
    fn a_peer_is_held_against_the_base_and_its_own_plain_library() {
        let summary = embedded().summary;
        let base = summary.comparison("crud/4-3-3", Metric::Elapsed, "peer", "base").unwrap();
        let plain =
            summary.comparison("crud/4-3-3", Metric::Elapsed, "peer", "peer-plain").unwrap();
        assert!((base.ratio - 3.0).abs() < 1e-6);
        assert!((plain.ratio - 2.5).abs() < 1e-6);
    }

    #[test]
    fn zero_ticks_are_no_ratio() {
        let mut results = example();
        for run in &mut results.embedded.as_mut().unwrap().runs {
            run.values.insert(Metric::System, 0.0);
        }
        summarize(&mut results);
        let summary = results.embedded.unwrap().summary;
        assert!(summary.comparison("crud/4-3-3", Metric::System, "encrypted", "base").is_none());
    }

    #[test]
    fn differences_of_probes() {
        let summary = embedded().summary;
        let memory = summary
            .differences
            .iter()
            .find(|difference| {
                difference.kind == ProbeKind::ProcessMemory && difference.side == "encrypted"
            })
            .unwrap();
        assert!((memory.difference - 1_000_000.0).abs() < 1e-6);
    }
}
