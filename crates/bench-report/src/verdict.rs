//! The answer of a run in sentences.

use crate::figures::Ratio;
use crate::format::{As, percent};
use crate::model::{Class, Comparison, Experiment, Metric, Results, Role, Side};
use crate::report::{Report, float};
use crate::{backup, messages, oltp};

/// The answer in sentences, most important first. Empty when nothing was compared.
#[must_use]
pub fn verdict(results: &Results) -> Vec<String> {
    let embedded = results.embedded.as_ref();
    let mut sentences = embedded.map_or_else(Vec::new, |report| of_embedded(results, report));
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
    if let Some(report) = &results.messages {
        sentences.extend(messages::verdict(report));
    }
    sentences
}

const CONTROL: &str = "Base against base, a control: the true overhead is 0 %. Found were:";

fn of_embedded(results: &Results, report: &Report) -> Vec<String> {
    let side = report.sides.iter().find(|side| side.role == Role::Encrypted);
    let Some((base, side)) = report.base().zip(side) else { return Vec::new() };
    let mut sentences = Vec::new();
    if results.control {
        sentences.push(CONTROL.to_owned());
    }
    sentences.extend(headline(report, side, base));
    if sentences.is_empty() {
        sentences.push(format!("Encryption with {} costs:", results.settings.algorithm));
    }
    for peer in report.sides.iter().filter(|side| side.role == Role::Peer) {
        sentences.extend(headline(report, peer, base));
    }
    for (group, fits) in GROUPS {
        let span = |metric| {
            let of =
                |class: &Class| report.summary.comparison(&class.id, metric, &side.id, &base.id);
            let classes = report.cells.iter().filter(|class| fits(class));
            span(&classes.filter_map(of).collect::<Vec<_>>())
        };
        if let (Some(elapsed), Some(cpu)) = (span(Metric::Elapsed), span(Metric::Cpu)) {
            sentences.push(format!("{group}: elapsed time {elapsed}, CPU {cpu}."));
        }
    }
    sentences.extend(significance(report, (side, base), results.settings.confidence()));
    sentences
}

/// The cost of a side over the headline's classes: elapsed time and CPU with their intervals.
fn headline(report: &Report, side: &Side, base: &Side) -> Option<String> {
    let against = side.plain.as_ref().unwrap_or(&base.id);
    let find = |metric| report.summary.headline(metric, &side.id, against);
    let (elapsed, cpu) = (find(Metric::Elapsed)?, find(Metric::Cpu)?);
    Some(format!(
        "{} costs {} of elapsed time and {} of CPU over {}.",
        side.label,
        elapsed.words(),
        cpu.words(),
        elapsed.what
    ))
}

/// Classes that the verdict puts together, by name.
type Group = (&'static str, fn(&Class) -> bool);

const GROUPS: [Group; 5] = [
    ("CRUD mixes", |class| class.experiment == Experiment::Crud),
    ("Statements, index rebuild, backup", |class| {
        class.experiment == Experiment::Operations && class.id.ends_with("/warm")
    }),
    ("The same with cold files", |class| {
        class.experiment == Experiment::Operations && class.id.ends_with("/cold")
    }),
    ("Scans and copies", |class| class.experiment == Experiment::Scans),
    ("Your statements", |class| class.experiment == Experiment::Script && class.id != "script/all"),
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
    let [low, high] = [low, high].map(|found| As::Bare.words(found.ratio));
    Some(format!("{mean} (classes from {low} to {high})"))
}

fn significance(report: &Report, (side, base): (&Side, &Side), confidence: f64) -> Option<String> {
    let whole: Vec<&Comparison> = report
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
        confidence * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::example;

    #[test]
    fn verdict_names_algorithm_and_overheads() {
        let mut results = example();
        let sentences = verdict(&results);
        assert!(sentences[0].contains("encrypted costs +10.0 % (+10.0 to +10.0)"), "{sentences:?}");
        assert!(sentences[1].contains("peer costs +150 %"), "{sentences:?}");
        assert!(sentences[2].contains("+10.0 %"), "{sentences:?}");
        results.control = true;
        assert!(verdict(&results)[0].contains("true overhead is 0 %"));
    }
}
