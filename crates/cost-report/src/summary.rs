//! From samples to ratios: every comparison, total and difference of a run, and its verdict.

use std::collections::BTreeMap;

use crate::format::percent;
use crate::model::{
    Class, Comparison, Difference, Experiment, Metric, ProbeKind, Results, Role, Sample, Side,
    StatementSample, Summary, Totals,
};
use crate::stats::{grouped_estimate, median, ratio_estimate};
use crate::{backup, oltp};

/// Computes everything that a report shows from `results.samples` and `results.probes`.
#[must_use]
pub fn summarize(results: &Results) -> Summary {
    let confidence = results.settings.confidence();
    let opponents = opponents(&results.sides);
    let mut summary = Summary::default();
    for class in &results.classes {
        let samples: Vec<&Sample> =
            results.samples.iter().filter(|sample| sample.class == class.id).collect();
        let pairs = pair_up(&samples);
        for (side, against) in &opponents {
            compare(&mut summary, &pairs, &class.id, side, against, confidence);
        }
        summary
            .totals
            .extend(results.sides.iter().filter_map(|side| totals(&samples, &class.id, &side.id)));
    }
    for kind in
        [ProbeKind::OpenOther, ProbeKind::OpenAgain, ProbeKind::ProcessMemory, ProbeKind::FileBytes]
    {
        summary.differences.extend(
            shown_differences(&results.sides)
                .iter()
                .filter_map(|(side, against)| difference(results, kind, side, against, confidence)),
        );
    }
    summary
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
fn shown_differences(sides: &[Side]) -> Vec<(String, String)> {
    let Some(base) = sides.iter().find(|side| side.role == Role::Base) else {
        return Vec::new();
    };
    sides
        .iter()
        .filter(|side| matches!(side.role, Role::Encrypted | Role::Peer))
        .map(|side| (side.id.clone(), side.plain.as_ref().unwrap_or(&base.id).clone()))
        .collect()
}

type Pairs<'a> = BTreeMap<(u32, u32), BTreeMap<&'a str, &'a Sample>>;

fn pair_up<'a>(samples: &[&'a Sample]) -> Pairs<'a> {
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
    side: &str,
    against: &str,
    confidence: f64,
) {
    let matched: Vec<(u32, &Sample, &Sample)> = pairs
        .iter()
        .filter_map(|((restart, _), by_side)| {
            Some((*restart, *by_side.get(side)?, *by_side.get(against)?))
        })
        .collect();
    let mut push = |statement: Option<u32>, metric, value: &dyn Fn(&Sample) -> Option<u64>| {
        let groups = log_ratios(&matched, value);
        if let Some(estimate) = ratio_estimate(&groups, confidence) {
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
    push(None, Metric::Elapsed, &|sample| Some(sample.elapsed_ns));
    push(None, Metric::Cpu, &|sample| Some(sample.cpu_ns));
    push(None, Metric::User, &|sample| Some(sample.user_ns));
    push(None, Metric::System, &|sample| Some(sample.system_ns));
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

/// Log ratios of one metric, a group for each restart; pairs with a zero on either side are left
/// out, since the clock did not tick.
fn log_ratios(
    matched: &[(u32, &Sample, &Sample)],
    value: &dyn Fn(&Sample) -> Option<u64>,
) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (restart, side, against) in matched {
        if let (Some(above @ 1..), Some(below @ 1..)) = (value(side), value(against)) {
            groups.entry(*restart).or_default().push((float(above) / float(below)).ln());
        }
    }
    groups.into_values().collect()
}

fn totals(samples: &[&Sample], class: &str, side: &str) -> Option<Totals> {
    let own: Vec<&&Sample> = samples.iter().filter(|sample| sample.side == side).collect();
    let middle = |pick: fn(&Sample) -> u64| {
        median(&own.iter().map(|sample| float(pick(sample))).collect::<Vec<_>>())
    };
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
fn float(value: u64) -> f64 {
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

    /// Medians of one class and side.
    #[must_use]
    pub fn totals(&self, class: &str, side: &str) -> Option<&Totals> {
        self.totals.iter().find(|totals| totals.class == class && totals.side == side)
    }
}

/// The answer in sentences, most important first. Empty when nothing was compared.
#[must_use]
pub fn verdict(results: &Results) -> Vec<String> {
    let mut sentences = of_sides(results);
    if let Some(matrix) = &results.backup {
        let costs = backup::verdict(matrix, &results.settings.algorithm);
        if results.control && sentences.is_empty() && !costs.is_empty() {
            sentences.push(CONTROL.to_owned());
        }
        sentences.extend(costs);
    }
    if let Some(report) = &results.oltp {
        sentences.extend(oltp::verdict(report));
    }
    sentences
}

const CONTROL: &str = "Base against base, a control: the true overhead is 0 %. Found were:";

fn of_sides(results: &Results) -> Vec<String> {
    let Some(base) = results.sides.iter().find(|side| side.role == Role::Base) else {
        return Vec::new();
    };
    let Some(side) = results.sides.iter().find(|side| side.role == Role::Encrypted) else {
        return Vec::new();
    };
    let mut sentences = vec![if results.control {
        CONTROL.to_owned()
    } else {
        format!("Encryption with {} costs:", results.settings.algorithm)
    }];
    for (group, fits) in GROUPS {
        let span = |metric| {
            let ratios: Vec<&Comparison> = results
                .classes
                .iter()
                .filter(|class| fits(class))
                .filter_map(|class| {
                    results.summary.comparison(&class.id, metric, &side.id, &base.id)
                })
                .collect();
            span(&ratios)
        };
        if let (Some(elapsed), Some(cpu)) = (span(Metric::Elapsed), span(Metric::Cpu)) {
            sentences.push(format!("{group}: elapsed time {elapsed}, CPU {cpu}."));
        }
    }
    sentences.extend(significance(results, side, base));
    sentences
}

/// Classes that the verdict puts together, by name.
type Group = (&'static str, fn(&Class) -> bool);

const GROUPS: [Group; 4] = [
    ("CRUD mixes", |class| class.experiment == Experiment::Crud),
    ("Statements, index rebuild, backup", |class| {
        class.experiment == Experiment::Operations && class.id.ends_with("/warm")
    }),
    ("The same with cold files", |class| {
        class.experiment == Experiment::Operations && class.id.ends_with("/cold")
    }),
    ("Scans and copies", |class| class.experiment == Experiment::Scans),
];

/// The geometric mean of the ratios, with the smallest and the largest where there are several.
fn span(ratios: &[&Comparison]) -> Option<String> {
    let low = ratios.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let high = ratios.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let logs: f64 = ratios.iter().map(|found| found.ratio.ln()).sum();
    let mean = percent((logs / float(ratios.len() as u64)).exp());
    if ratios.len() == 1 {
        return Some(mean);
    }
    let bare = |found: &Comparison| percent(found.ratio).trim_end_matches(" %").to_owned();
    Some(format!("{mean} (classes from {} to {})", bare(low), bare(high)))
}

fn significance(results: &Results, side: &Side, base: &Side) -> Option<String> {
    let whole: Vec<&Comparison> = results
        .summary
        .comparisons
        .iter()
        .filter(|comparison| {
            comparison.statement.is_none()
                && matches!(comparison.metric, Metric::Elapsed | Metric::Cpu)
                && comparison.side == side.id
                && comparison.against == base.id
        })
        .collect();
    let bounded: Vec<(f64, f64)> =
        whole.iter().filter_map(|comparison| comparison.low.zip(comparison.high)).collect();
    if bounded.is_empty() {
        return (!whole.is_empty())
            .then(|| "No intervals: they need at least two restarts.".to_owned());
    }
    let slower = bounded.iter().filter(|(low, _)| *low > 1.0).count();
    let faster = bounded.iter().filter(|(_, high)| *high < 1.0).count();
    Some(format!(
        "Of {} ratios, {slower} are above 0 % and {faster} below it with {} % confidence; the \
         others cannot be told from 0 %.",
        bounded.len(),
        f64::from(results.settings.confidence_permille) / 10.0
    ))
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

    #[test]
    fn verdict_names_algorithm_and_overheads() {
        let mut results = example();
        results.summary = summarize(&results);
        let sentences = verdict(&results);
        assert!(sentences[0].contains("AES_256"), "{sentences:?}");
        assert!(sentences[1].contains("+10.0 %"), "{sentences:?}");
        results.control = true;
        assert!(verdict(&results)[0].contains("true overhead is 0 %"));
    }
}
