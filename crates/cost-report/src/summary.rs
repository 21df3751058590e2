//! From samples to ratios: every comparison, total and difference of a run, and its verdict.

use std::collections::BTreeMap;

use crate::headline::headlines;
use crate::model::{
    Comparison, Difference, Headline, Metric, ProbeKind, Results, Role, Sample, Side,
    StatementSample, Summary, Totals,
};
use crate::stats::{Estimate, grouped_estimate, median, staged_estimate};

/// Computes everything that a report shows from `results.samples` and `results.probes`.
#[must_use]
pub fn summarize(results: &Results) -> Summary {
    let confidence = results.settings.confidence();
    let stage = Stage::of(results);
    let opponents = opponents(&results.sides);
    let mut summary = Summary::default();
    for class in &results.classes {
        let samples: Vec<&Sample> =
            results.samples.iter().filter(|sample| sample.class == class.id).collect();
        let pairs = pair_up(&samples);
        for (side, against) in &opponents {
            compare(&mut summary, &pairs, &class.id, (side, against), stage);
        }
        summary
            .totals
            .extend(results.sides.iter().filter_map(|side| totals(&samples, &class.id, &side.id)));
    }
    summary.headlines = headlines(results, stage);
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

/// How intervals come about: their confidence, and the restarts of the first stage of a run that
/// ended by their widths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) confidence: f64,
    pub(crate) first: Option<usize>,
}

impl Stage {
    pub(crate) fn of(results: &Results) -> Self {
        let stopping = results.settings.stopping;
        Self {
            confidence: results.settings.confidence(),
            first: stopping.and_then(|plan| usize::try_from(plan.first_restarts).ok()),
        }
    }

    /// Ratio from groups of log ratios, a group for each restart.
    pub(crate) fn ratio(self, groups: &[Vec<f64>]) -> Option<Estimate> {
        staged_estimate(groups, self.confidence, self.first).map(Estimate::exp)
    }
}

/// Which side is held against which: all against the base, a peer also against its own library
/// without a cipher.
pub(crate) fn opponents(sides: &[Side]) -> Vec<(String, String)> {
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
pub(crate) fn shown_opponents(sides: &[Side]) -> Vec<(String, String)> {
    let Some(base) = sides.iter().find(|side| side.role == Role::Base) else {
        return Vec::new();
    };
    sides
        .iter()
        .filter(|side| matches!(side.role, Role::Encrypted | Role::Peer))
        .map(|side| (side.id.clone(), side.plain.as_ref().unwrap_or(&base.id).clone()))
        .collect()
}

/// Samples by restart and pair, and within them by side.
pub(crate) type Pairs<'a> = BTreeMap<(u32, u32), BTreeMap<&'a str, &'a Sample>>;

pub(crate) fn pair_up<'a>(samples: &[&'a Sample]) -> Pairs<'a> {
    let mut pairs = Pairs::new();
    for sample in samples {
        pairs.entry((sample.restart, sample.pair)).or_default().insert(&sample.side, sample);
    }
    pairs
}

fn compare(
    summary: &mut Summary,
    pairs: &Pairs<'_>,
    class: &str,
    (side, against): (&str, &str),
    stage: Stage,
) {
    let matched = matched(pairs, side, against);
    let mut push = |statement: Option<u32>, metric, value: &dyn Fn(&Sample) -> Option<u64>| {
        let groups: Vec<Vec<f64>> = log_ratios(&matched, value).into_values().collect();
        if let Some(estimate) = stage.ratio(&groups) {
            summary.comparisons.push(Comparison {
                class: class.to_owned(),
                statement,
                metric,
                side: side.to_owned(),
                against: against.to_owned(),
                ratio: estimate.center,
                low: estimate.interval.map(|(low, _)| low),
                high: estimate.interval.map(|(_, high)| high),
                restarts: estimate.groups as u64,
                pairs: estimate.values as u64,
            });
        }
    };
    for metric in Metric::ALL {
        push(None, metric, &|sample| metric.of(sample));
    }
    let statements = matched.iter().map(|(_, sample, _)| sample.statements.len()).max();
    for index in 0..statements.unwrap_or(0) {
        let of = |sample: &Sample, pick: fn(&StatementSample) -> u64| {
            sample.statements.get(index).map(pick)
        };
        let number = u32::try_from(index).ok();
        push(number, Metric::Elapsed, &|sample| of(sample, |part| part.elapsed_ns));
        push(number, Metric::Cpu, &|sample| of(sample, |part| part.cpu_ns));
    }
}

impl Metric {
    /// Every metric of a whole class.
    pub const ALL: [Self; 7] = [
        Self::Elapsed,
        Self::Cpu,
        Self::User,
        Self::System,
        Self::Instructions,
        Self::MedianLatency,
        Self::TailLatency,
    ];

    /// Name shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::Cpu => "CPU",
            Self::User => "user CPU",
            Self::System => "system CPU",
            Self::Instructions => "instructions",
            Self::MedianLatency => "median latency",
            Self::TailLatency => "latency, 99 %",
        }
    }

    /// Its value in a block, where that was measured.
    #[must_use]
    pub fn of(self, sample: &Sample) -> Option<u64> {
        match self {
            Self::Elapsed => Some(sample.elapsed_ns),
            Self::Cpu => Some(sample.cpu_ns),
            Self::User => Some(sample.user_ns),
            Self::System => Some(sample.system_ns),
            Self::Instructions => sample.instructions,
            Self::MedianLatency => sample.latency.map(|latency| latency.p50_ns),
            Self::TailLatency => sample.latency.map(|latency| latency.p99_ns),
        }
    }
}

/// Pairs in which both sides were measured, with their restart.
pub(crate) fn matched<'a>(
    pairs: &Pairs<'a>,
    side: &str,
    against: &str,
) -> Vec<(u32, &'a Sample, &'a Sample)> {
    pairs
        .iter()
        .filter_map(|((restart, _), by_side)| {
            Some((*restart, *by_side.get(side)?, *by_side.get(against)?))
        })
        .collect()
}

/// Log ratios of one metric, a group for each restart; pairs with a zero on either side are left
/// out, since the clock did not tick.
pub(crate) fn log_ratios(
    matched: &[(u32, &Sample, &Sample)],
    value: &dyn Fn(&Sample) -> Option<u64>,
) -> BTreeMap<u32, Vec<f64>> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (restart, side, against) in matched {
        if let (Some(above @ 1..), Some(below @ 1..)) = (value(side), value(against)) {
            groups.entry(*restart).or_default().push((float(above) / float(below)).ln());
        }
    }
    groups
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
