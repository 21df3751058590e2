//! What a run is about: the mean over the classes that stand for its work. And what is not narrow
//! enough yet, in a run whose length follows from its intervals.

use std::collections::BTreeMap;

use crate::model::{Class, Experiment, Headline, Metric, Results, Sample, Side, Stopping};
use crate::stats::{Estimate, center, staged_centers};
use crate::summary::{Stage, log_ratios, matched, opponents, pair_up, shown_opponents};

/// Metrics that a run is to make narrow.
const WANTED: [Metric; 2] = [Metric::Elapsed, Metric::Cpu];

/// Classes that stand for the work of a run, and what they are together: the user's own statements,
/// else the mixes (without the load phase), else the derived statements with warm files, else all.
#[must_use]
pub fn headline_classes(classes: &[Class]) -> (String, Vec<&Class>) {
    let of = |fits: &dyn Fn(&Class) -> bool| -> Vec<&Class> {
        classes.iter().filter(|class| fits(class)).collect()
    };
    let script = of(&|class| class.id == "script/all");
    if !script.is_empty() {
        return ("your statements".to_owned(), script);
    }
    let mixes = of(&|class| class.experiment == Experiment::Crud && class.id != "crud/load");
    if let [first, ..] = mixes.as_slice() {
        let what = if mixes.len() == 1 {
            format!("CRUD {}", first.label)
        } else {
            format!("{} CRUD mixes", mixes.len())
        };
        return (what, mixes);
    }
    let statements = of(&|class| {
        ["select", "insert", "update", "delete"]
            .iter()
            .any(|name| class.id == format!("operations/{name}/warm"))
    });
    if !statements.is_empty() {
        return ("statements on your tables, files in the system's cache".to_owned(), statements);
    }
    let all = of(&|_| true);
    match all.as_slice() {
        [one] => (one.label.clone(), all),
        _ => (format!("{} classes", all.len()), all),
    }
}

/// The headline of every side against what it is held against.
pub(crate) fn headlines(results: &Results, stage: Stage) -> Vec<Headline> {
    let (what, classes) = headline_classes(&results.classes);
    let opponents = opponents(&results.sides);
    let mut headlines = Vec::new();
    for (side, against) in &opponents {
        for metric in Metric::ALL {
            let found = mean_over(&results.samples, &classes, (side, against), metric, stage);
            headlines.extend(found.map(|estimate| {
                let estimate = estimate.exp();
                Headline {
                    what: what.clone(),
                    classes: classes.iter().map(|class| class.id.clone()).collect(),
                    metric,
                    side: side.clone(),
                    against: against.clone(),
                    ratio: estimate.center,
                    low: estimate.interval.map(|(low, _)| low),
                    high: estimate.interval.map(|(_, high)| high),
                    restarts: estimate.groups as u64,
                }
            }));
        }
    }
    headlines
}

/// Mean of the log ratio over classes within each restart that measured all of them, then over
/// restarts. None when no restart did.
pub(crate) fn mean_over(
    samples: &[Sample],
    classes: &[&Class],
    (side, against): (&str, &str),
    metric: Metric,
    stage: Stage,
) -> Option<Estimate> {
    let mut by_restart: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for class in classes {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.class == class.id).collect();
        let pairs = pair_up(&own);
        let groups = log_ratios(&matched(&pairs, side, against), &|sample| metric.of(sample));
        for (restart, ratios) in groups {
            by_restart.entry(restart).or_default().extend(center(&ratios));
        }
    }
    let centers: Vec<f64> = by_restart
        .into_values()
        .filter(|centers| centers.len() == classes.len())
        .filter_map(|centers| crate::stats::mean(&centers))
        .collect();
    staged_centers(&centers, stage.confidence, stage.first)
}

/// Classes that need further restarts before all that `stopping` wants is narrow enough: elapsed
/// time and CPU of every encrypting side against its own plain one. The classes of the headline go
/// on together until it is narrow, and where all are wanted until each of them is.
#[must_use]
pub fn too_wide(
    (sides, classes, samples): (&[Side], &[Class], &[Sample]),
    stopping: &Stopping,
    confidence: f64,
) -> Vec<String> {
    let stage = Stage { confidence, first: usize::try_from(stopping.first_restarts).ok() };
    let (_, heads) = headline_classes(classes);
    // What a side takes no part in, as peers in full backups, is not waited for.
    let wide = |found: Option<Estimate>, ppm: u32| {
        let wanted = (f64::from(ppm) / 1e6).ln_1p();
        found.is_some_and(|found| found.half_width().is_none_or(|half| half > wanted))
    };
    let opposed = shown_opponents(sides);
    let too_wide = |classes: &[&Class], ppm: u32| {
        opposed.iter().any(|(side, against)| {
            WANTED.iter().any(|metric| {
                wide(mean_over(samples, classes, (side, against), *metric, stage), ppm)
            })
        })
    };
    let measured = |class: &&Class| samples.iter().any(|sample| sample.class == class.id);
    let mut wanting: Vec<String> = stopping.all_ppm.map_or_else(Vec::new, |ppm| {
        classes
            .iter()
            .filter(measured)
            .filter(|class| too_wide(&[*class], ppm))
            .map(|class| class.id.clone())
            .collect()
    });
    let of_heads = |id: &String| heads.iter().any(|class| class.id == *id);
    if too_wide(&heads, stopping.headline_ppm) || wanting.iter().any(of_heads) {
        wanting.retain(|id| !of_heads(id));
        wanting.extend(heads.iter().map(|class| class.id.clone()));
    }
    wanting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;

    #[test]
    fn the_headline_is_the_mean_over_the_mixes() {
        let mut results = example();
        let mut other = results.classes[0].clone();
        other.id = "crud/0-5-5".to_owned();
        results.classes.push(other);
        let more: Vec<Sample> = results
            .samples
            .iter()
            // The third restart lacks the second mix, and is left out.
            .filter(|sample| sample.restart < 2)
            .map(|sample| {
                let mut sample = sample.clone();
                sample.class = "crud/0-5-5".to_owned();
                if sample.side == "encrypted" {
                    sample.elapsed_ns = sample.elapsed_ns / 110 * 130;
                }
                sample
            })
            .collect();
        results.samples.extend(more);
        results.summary = crate::summary::summarize(&results);
        let found = results.summary.headline(Metric::Elapsed, "encrypted", "base").unwrap();
        let wanted = (1.1_f64.ln() + 1.3_f64.ln()) / 2.0;
        assert!((found.ratio.ln() - wanted).abs() < 1e-4, "{}", found.ratio);
        assert_eq!((found.restarts, found.classes.len()), (2, 2));
    }

    #[test]
    fn what_is_too_wide_goes_on() {
        let mut results = example();
        let stopping = Stopping {
            first_restarts: 2,
            headline_ppm: 20_000,
            all_ppm: Some(10_000),
            reached: false,
        };
        let wide = |results: &Results| {
            too_wide((&results.sides, &results.classes, &results.samples), &stopping, 0.95)
        };
        assert_eq!(wide(&results), Vec::<String>::new());
        let noisy = results.samples.iter_mut().find(|sample| sample.side == "encrypted").unwrap();
        noisy.cpu_ns *= 2;
        assert_eq!(wide(&results), ["crud/4-3-3"]);
        // A class that a side takes no part in is not waited for.
        let mut without = results.clone();
        without.samples.retain(|sample| sample.side != "encrypted");
        assert_eq!(wide(&without), Vec::<String>::new());
        // One restart gives no interval, so all goes on.
        results.samples.retain(|sample| sample.restart == 0);
        assert_eq!(wide(&results), ["crud/4-3-3"]);
    }
}
