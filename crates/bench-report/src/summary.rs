//! From samples to ratios: every comparison, total and difference of a run, and its verdict.

use std::collections::BTreeMap;

use crate::grid::{Grid, GridCell, Index, Run, Stage, Versus};
use crate::headline::{headline_classes, headlines};
use crate::model::{
    Class, Comparison, Difference, Headline, Metric, ProbeKind, Results, Role, Sample, Side,
    Summary, Totals,
};
use crate::stats::{grouped_estimate, median};

/// Computes everything that a report shows from `results.samples` and `results.probes`.
#[must_use]
pub fn summarize(results: &Results) -> Summary {
    let confidence = results.settings.confidence();
    let grid = grid(&results.sides, &results.classes, &results.samples);
    let stage = Stage::of(&results.settings, &grid);
    let index = Index::of(&grid);
    let mut summary = Summary {
        comparisons: index.comparisons(stage),
        headlines: headlines(&grid, &index, stage),
        ..Summary::default()
    };
    for class in &results.classes {
        let samples: Vec<&Sample> =
            results.samples.iter().filter(|sample| sample.class == class.id).collect();
        summary
            .totals
            .extend(results.sides.iter().filter_map(|side| totals(&samples, &class.id, &side.id)));
    }
    for kind in
        [ProbeKind::OpenOther, ProbeKind::OpenAgain, ProbeKind::ProcessMemory, ProbeKind::FileBytes]
    {
        summary.differences.extend(
            shown_opponents(&results.sides)
                .iter()
                .filter_map(|(side, against)| difference(results, kind, side, against, confidence)),
        );
    }
    summary
}

/// What compares sides, as every experiment is seen.
#[must_use]
pub fn grid(sides: &[Side], classes: &[Class], samples: &[Sample]) -> Grid {
    let shown = shown_opponents(sides);
    let (cells, heads) = of_classes(classes);
    let versus = opponents(sides).into_iter().map(|pair| Versus {
        shown: shown.contains(&pair),
        cell: None,
        side: pair.0,
        against: pair.1,
        against_cell: None,
    });
    Grid {
        sides: sides.iter().map(|side| (side.id.clone(), side.label.clone())).collect(),
        cells,
        versus: versus.collect(),
        ratios: RATIOS,
        wanted: [Metric::Elapsed, Metric::Cpu],
        heads,
        runs: samples.iter().flat_map(runs).collect(),
    }
}

/// The cells of classes, with the headline that they have.
fn of_classes(classes: &[Class]) -> (Vec<GridCell>, (String, Vec<String>)) {
    let (what, heads) = headline_classes(classes);
    let cells = classes.iter().map(|class| GridCell {
        experiment: class.experiment,
        id: class.id.clone(),
        label: class.label.clone(),
        what: class.what.clone(),
    });
    let heads = heads.iter().map(|class| class.id.clone()).collect();
    (cells.collect(), (what, heads))
}

/// Metrics of a class whose ratios are computed.
const RATIOS: &[Metric] = &[
    Metric::Elapsed,
    Metric::Cpu,
    Metric::User,
    Metric::System,
    Metric::Instructions,
    Metric::MedianLatency,
    Metric::TailLatency,
];

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
        run(Some(index), values.map(|(metric, value)| (metric, float(value))).to_vec())
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

/// Values that were measured.
pub(crate) fn measured(
    values: impl IntoIterator<Item = (Metric, Option<u64>)>,
) -> Vec<(Metric, f64)> {
    values.into_iter().filter_map(|(metric, value)| Some((metric, float(value?)))).collect()
}

/// Which side is held against which: all against the base, a peer also against its own library
/// without a cipher.
fn opponents(sides: &[Side]) -> Vec<(String, String)> {
    let Some(base) = sides.iter().find(|side| side.role == Role::Base) else {
        return Vec::new();
    };
    let mut opponents = Vec::new();
    for side in sides.iter().filter(|side| side.id != base.id) {
        opponents.push((side.id.clone(), base.id.clone()));
        opponents.extend(side.plain.iter().map(|plain| (side.id.clone(), plain.clone())));
    }
    opponents
}

/// For single values only what encryption adds: each encrypted side against its own plain one.
fn shown_opponents(sides: &[Side]) -> Vec<(String, String)> {
    let Some(base) = sides.iter().find(|side| side.role == Role::Base) else {
        return Vec::new();
    };
    sides
        .iter()
        .filter(|side| matches!(side.role, Role::Encrypted | Role::Peer))
        .map(|side| (side.id.clone(), side.plain.as_ref().unwrap_or(&base.id).clone()))
        .collect()
}

fn totals(samples: &[&Sample], class: &str, side: &str) -> Option<Totals> {
    let own: Vec<&&Sample> = samples.iter().filter(|sample| sample.side == side).collect();
    let middle = |pick: fn(&Sample) -> u64| {
        median(&own.iter().map(|sample| float(pick(sample))).collect::<Vec<_>>())
    };
    let instructions: Vec<f64> =
        own.iter().filter_map(|sample| sample.instructions.map(float)).collect();
    Some(Totals {
        class: class.to_owned(),
        side: side.to_owned(),
        blocks: own.len() as u64,
        elapsed_ns: middle(|sample| sample.elapsed_ns)?,
        cpu_ns: middle(|sample| sample.cpu_ns)?,
        logical_reads: middle(|sample| sample.logical_reads)?,
        logical_writes: middle(|sample| sample.logical_writes)?,
        device_read_bytes: middle(|sample| sample.device_read_bytes)?,
        device_write_bytes: middle(|sample| sample.device_write_bytes)?,
        voluntary_switches: middle(|sample| sample.voluntary_switches)?,
        involuntary_switches: middle(|sample| sample.involuntary_switches)?,
        instructions: median(&instructions),
    })
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

#[allow(clippy::cast_precision_loss, reason = "nanoseconds and bytes stay far below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
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
        self.statement_comparison(class, None, metric, side, against)
    }

    /// The comparison of one derived statement, or of the whole class.
    #[must_use]
    pub fn statement_comparison(
        &self,
        class: &str,
        statement: Option<u32>,
        metric: Metric,
        side: &str,
        against: &str,
    ) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| {
            comparison.class == class
                && comparison.statement == statement
                && comparison.metric == metric
                && comparison.side == side
                && comparison.against == against
        })
    }

    /// The headline of `side` against `against`.
    #[must_use]
    pub fn headline(&self, metric: Metric, side: &str, against: &str) -> Option<&Headline> {
        self.headlines.iter().find(|headline| {
            headline.metric == metric && headline.side == side && headline.against == against
        })
    }

    /// Medians of one class and side.
    #[must_use]
    pub fn totals(&self, class: &str, side: &str) -> Option<&Totals> {
        self.totals.iter().find(|totals| totals.class == class && totals.side == side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;

    #[test]
    fn ratios_come_from_pairs_and_restarts() {
        let results = example();
        let summary = summarize(&results);
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
        let summary = summarize(&results);
        let elapsed = summary.comparison("crud/4-3-3", Metric::Elapsed, "encrypted", "base");
        assert_eq!(elapsed.unwrap().pairs, 5);
    }

    #[test]
    fn a_peer_is_held_against_the_base_and_its_own_plain_library() {
        let results = example();
        let summary = summarize(&results);
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
        let summary = summarize(&results);
        assert!(summary.comparison("crud/4-3-3", Metric::System, "encrypted", "base").is_none());
    }

    #[test]
    fn differences_of_probes() {
        let results = example();
        let summary = summarize(&results);
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
