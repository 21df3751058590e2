//! From blocks to ratios: every comparison, total, pooled ratio and difference of a run.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::figures::{Difference, Spread, Summary, Totals};
use crate::index::{Index, Stage};
use crate::model::{Class, Experiment, Metric, ProbeKind, Results, Role, Sample, Side};
use crate::report::{Report, Run, float, measured};
use crate::stats::{grouped_estimate, mean, median};

/// Computes everything that a report shows from blocks and probes, of every experiment.
pub fn summarize(results: &mut Results) {
    let sides = sides_report(&results.sides, &results.classes, &results.samples);
    results.summary = summary(&sides, Stage::of(&results.settings, sides.experiment));
    results.summary.differences = differences(results);
    let settings = results.settings.clone();
    for report in results.reports_mut() {
        report.summary = summary(report, Stage::of(&settings, report.experiment));
    }
}

/// What a report shows of one experiment.
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
    Summary { comparisons, totals, pooled, differences: Vec::new() }
}

fn totals_of(cell: &Class, side: &Side, runs: &[&Run]) -> Totals {
    let units = |run: &Run| {
        let done = run.value(Metric::Transactions).unwrap_or(float(cell.operations));
        Some(done).filter(|done| *done > 0.0)
    };
    let value = |run: &Run, metric| match metric {
        // Where a block does so many operations, however long it takes.
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

fn differences(results: &Results) -> Vec<Difference> {
    let confidence = results.settings.confidence();
    let opponents = shown_opponents(&results.sides);
    let of = |kind| {
        let found = opponents.iter().filter_map(move |(side, against)| {
            difference(results, kind, side, against, confidence)
        });
        found.collect::<Vec<_>>()
    };
    [ProbeKind::OpenOther, ProbeKind::OpenAgain, ProbeKind::ProcessMemory, ProbeKind::FileBytes]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// What compares sides of SQLite, as every experiment is seen.
#[must_use]
pub fn sides_report(sides: &[Side], classes: &[Class], samples: &[Sample]) -> Report {
    Report {
        cells: classes.to_vec(),
        runs: samples.iter().flat_map(runs).collect(),
        ..Report::new(Experiment::Crud, sides.to_vec())
    }
}

/// Every experiment of a run.
pub(crate) fn every_report(results: &Results) -> Vec<Cow<'_, Report>> {
    let sides = (!results.sides.is_empty())
        .then(|| Cow::Owned(sides_report(&results.sides, &results.classes, &results.samples)));
    sides.into_iter().chain(results.reports().map(|(_, one)| Cow::Borrowed(one))).collect()
}

/// The block, and the share of each of its statements.
fn runs(sample: &Sample) -> impl Iterator<Item = Run> {
    let run = |statement, values| Run {
        cell: sample.class.clone(),
        statement,
        side: sample.side.clone(),
        restart: sample.restart,
        pair: sample.pair,
        position: sample.position,
        values,
    };
    let statements = (0..).zip(&sample.statements).map(move |(index, part)| {
        let values = [(Metric::Elapsed, part.elapsed_ns), (Metric::Cpu, part.cpu_ns)];
        run(Some(index), measured(values.map(|(metric, value)| (metric, Some(value)))))
    });
    let latency = sample.latency;
    let values = [
        (Metric::Elapsed, Some(sample.elapsed_ns)),
        (Metric::Cpu, Some(sample.cpu_ns)),
        (Metric::User, Some(sample.user_ns)),
        (Metric::System, Some(sample.system_ns)),
        (Metric::PagesRead, Some(sample.logical_reads)),
        (Metric::PagesWritten, Some(sample.logical_writes)),
        (Metric::DeviceRead, Some(sample.device_read_bytes)),
        (Metric::DeviceWrite, Some(sample.device_write_bytes)),
        (Metric::Retries, Some(sample.retries)),
        (Metric::VoluntarySwitches, Some(sample.voluntary_switches)),
        (Metric::InvoluntarySwitches, Some(sample.involuntary_switches)),
        (Metric::Instructions, sample.instructions),
        (Metric::MedianLatency, latency.map(|found| found.p50_ns)),
        (Metric::P95Latency, latency.map(|found| found.p95_ns)),
        (Metric::TailLatency, latency.map(|found| found.p99_ns)),
        (Metric::MaxLatency, latency.map(|found| found.max_ns)),
    ];
    std::iter::once(run(None, measured(values))).chain(statements)
}

/// For single values only what encryption adds: each encrypted side against its own plain one.
fn shown_opponents(sides: &[Side]) -> Vec<(String, String)> {
    let Some(base) = sides.iter().find(|side| side.role == Role::Base) else {
        return Vec::new();
    };
    sides
        .iter()
        .filter(|side| side.encrypts())
        .map(|side| (side.id.clone(), side.plain.as_ref().unwrap_or(&base.id).clone()))
        .collect()
}

fn difference(
    results: &Results,
    kind: ProbeKind,
    side: &str,
    against: &str,
    confidence: f64,
) -> Option<Difference> {
    let by_restart = |id: &str| {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for probe in results.probes.iter().filter(|probe| probe.kind == kind && probe.side == id) {
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
    Some(Difference {
        kind,
        side: side.to_owned(),
        against: against.to_owned(),
        value: all(own)?,
        against_value: all(other)?,
        difference: estimate.center,
        low: estimate.interval.map(|(low, _)| low),
        high: estimate.interval.map(|(_, high)| high),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;

    #[test]
    fn ratios_come_from_pairs_and_restarts() {
        let summary = example().summary;
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
        let lost = results
            .samples
            .iter()
            .position(|sample| sample.side == "base" && sample.restart == 2 && sample.pair == 1);
        results.samples.remove(lost.unwrap());
        summarize(&mut results);
        let summary = results.summary;
        let elapsed = summary.comparison("crud/4-3-3", Metric::Elapsed, "encrypted", "base");
        assert_eq!(elapsed.unwrap().pairs, 5);
    }

    #[test]
    fn a_peer_is_held_against_the_base_and_its_own_plain_library() {
        let summary = example().summary;
        let base = summary.comparison("crud/4-3-3", Metric::Elapsed, "peer", "base").unwrap();
        let plain =
            summary.comparison("crud/4-3-3", Metric::Elapsed, "peer", "peer-plain").unwrap();
        assert!((base.ratio - 3.0).abs() < 1e-6);
        assert!((plain.ratio - 2.5).abs() < 1e-6);
    }

    #[test]
    fn zero_ticks_are_no_ratio() {
        let mut results = example();
        for sample in &mut results.samples {
            sample.system_ns = 0;
        }
        summarize(&mut results);
        let summary = results.summary;
        assert!(summary.comparison("crud/4-3-3", Metric::System, "encrypted", "base").is_none());
    }

    #[test]
    fn differences_of_probes() {
        let summary = example().summary;
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
