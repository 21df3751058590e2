//! Two runs compared: did the cost change? The figure is a ratio of ratios, (encrypted over plain)
//! now over (encrypted over plain) then, so that a faster machine or a newer SQLite alone does not
//! move it. Its interval comes from the restarts of both runs (Welch), since nothing pairs them.

use serde::{Deserialize, Serialize};

use crate::format::{interval, percent};
use crate::headline::mean_over;
use crate::headline_classes;
use crate::model::{Class, Metric, Results};
use crate::stats::{Estimate, staged_estimate, welch_difference};
use crate::summary::{Stage, log_ratios, matched, pair_up, shown_opponents};
use crate::terminal::new_table;

/// Name and version of the document's shape.
pub const CHANGES_SCHEMA: &str = "tdekit-changes/1";

/// [`Change::class`] of the headline.
pub(crate) const HEADLINE: &str = "headline";

/// Whether a cost changed, by its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The interval lies above 0 %.
    Dearer,
    /// The interval lies below 0 %.
    Cheaper,
    /// The interval holds 0 %.
    NoChangeSeen,
    /// One of the runs has fewer than two restarts.
    NoInterval,
}

impl Direction {
    /// In words.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Dearer => "dearer",
            Self::Cheaper => "cheaper",
            Self::NoChangeSeen => "no change seen",
            Self::NoInterval => "no interval",
        }
    }
}

/// How one cost changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// [`Class::id`], or `headline`.
    pub class: String,
    /// Name shown.
    pub label: String,
    /// What the ratios are of.
    pub metric: Metric,
    /// Side, held against its plain one.
    pub side: String,
    /// Name of the side.
    pub side_label: String,
    /// Cost in the older run: encrypted over plain.
    pub old: f64,
    /// Cost in the newer run.
    pub new: f64,
    /// New over old: 1 is unchanged.
    pub ratio: f64,
    /// Lower end of the change's interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What the interval says.
    pub direction: Direction,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// When it started, RFC 3339.
    pub started: String,
    /// Version of the program that measured.
    pub version: String,
    /// The command line that repeats it.
    pub command: String,
    /// What was measured on.
    pub subject: String,
    /// The processor.
    pub cpu: String,
    /// Most restarts of a class.
    pub restarts: u64,
}

/// All changes between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// [`CHANGES_SCHEMA`].
    pub schema: String,
    /// The command line that repeats the comparison; empty when a program called the library.
    pub command: String,
    /// The older run.
    pub old: ComparedRun,
    /// The newer run.
    pub new: ComparedRun,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// Costs compared that have an interval.
    pub compared: u64,
    /// Of these, those that are dearer now.
    pub dearer: u64,
    /// And those that are cheaper.
    pub cheaper: u64,
    /// The headline first, where both runs have the same, then each class.
    pub changes: Vec<Change>,
    /// Classes and sides that only one of the runs has.
    pub not_compared: Vec<String>,
    /// What makes the comparison doubtful: unequal machines, settings, statements.
    pub warnings: Vec<String>,
}

const METRICS: [Metric; 2] = [Metric::Elapsed, Metric::Cpu];

/// Compares two runs, from their blocks.
#[must_use]
pub fn compare(old: &Results, new: &Results) -> Changes {
    let confidence = new.settings.confidence();
    let mut changes = Changes {
        schema: CHANGES_SCHEMA.to_owned(),
        command: String::new(),
        old: described(old),
        new: described(new),
        confidence,
        compared: 0,
        dearer: 0,
        cheaper: 0,
        changes: Vec::new(),
        not_compared: Vec::new(),
        warnings: differences(old, new),
    };
    let (what, old_heads) = headline_classes(&old.classes);
    let (_, new_heads) = headline_classes(&new.classes);
    let ids = |classes: &[&Class]| {
        let mut ids: Vec<String> = classes.iter().map(|class| class.id.clone()).collect();
        ids.sort();
        ids
    };
    let same_heads = ids(&old_heads) == ids(&new_heads);
    let old_opponents = shown_opponents(&old.sides);
    for pair in &shown_opponents(&new.sides) {
        if !old_opponents.contains(pair) {
            changes.not_compared.push(format!("side {} is in the newer run alone", pair.0));
            continue;
        }
        let label = new.sides.iter().find(|side| side.id == pair.0).map(|side| &side.label);
        let side = (pair.0.as_str(), label.map_or("", String::as_str));
        for metric in METRICS.into_iter().filter(|_| same_heads) {
            let of = |results: &Results, heads: &[&Class]| {
                let stage = Stage { confidence, ..Stage::of(results) };
                mean_over(&results.samples, heads, (&pair.0, &pair.1), metric, stage)
            };
            let found = of(old, &old_heads).zip(of(new, &new_heads));
            changes.changes.extend(
                found.map(|both| change((HEADLINE, &what), metric, side, both, confidence)),
            );
        }
        for class in &new.classes {
            for metric in METRICS {
                let found = estimate(old, class, pair, metric, confidence)
                    .zip(estimate(new, class, pair, metric, confidence));
                changes.changes.extend(
                    found.map(|both| {
                        change((&class.id, &class.label), metric, side, both, confidence)
                    }),
                );
            }
        }
    }
    changes.not_compared.extend(only(old, new, "older"));
    changes.not_compared.extend(only(new, old, "newer"));
    for found in &changes.changes {
        changes.compared += u64::from(found.direction != Direction::NoInterval);
        changes.dearer += u64::from(found.direction == Direction::Dearer);
        changes.cheaper += u64::from(found.direction == Direction::Cheaper);
    }
    changes
}

fn described(results: &Results) -> ComparedRun {
    let restarts = results.samples.iter().map(|sample| u64::from(sample.restart) + 1).max();
    ComparedRun {
        started: results.started.clone(),
        version: results.tool.version.clone(),
        command: results.command.clone(),
        subject: results.subject.label.clone(),
        cpu: results.environment.cpu.clone(),
        restarts: restarts.unwrap_or(0),
    }
}

/// Classes and sides of one run that the other has not; sides of the newer one are told elsewhere.
fn only(one: &Results, other: &Results, which: &str) -> Vec<String> {
    let unknown = |class: &&Class| !other.classes.iter().any(|found| found.id == class.id);
    let sides = one
        .sides
        .iter()
        .filter(|side| which == "older" && !other.sides.iter().any(|found| found.id == side.id));
    one.classes
        .iter()
        .filter(unknown)
        .map(|class| format!("{} is in the {which} run alone", class.id))
        .chain(sides.map(|side| format!("side {} is in the {which} run alone", side.id)))
        .collect()
}

fn estimate(
    results: &Results,
    class: &Class,
    (side, against): &(String, String),
    metric: Metric,
    confidence: f64,
) -> Option<Estimate> {
    let own: Vec<_> = results.samples.iter().filter(|sample| sample.class == class.id).collect();
    let pairs = pair_up(&own);
    let groups: Vec<Vec<f64>> =
        log_ratios(&matched(&pairs, side, against), &|sample| metric.of(sample))
            .into_values()
            .collect();
    staged_estimate(&groups, confidence, Stage::of(results).first)
}

fn change(
    (class, label): (&str, &str),
    metric: Metric,
    (side, side_label): (&str, &str),
    (old, new): (Estimate, Estimate),
    confidence: f64,
) -> Change {
    let (difference, ends) = welch_difference(&new, &old, confidence);
    Change {
        class: class.to_owned(),
        label: label.to_owned(),
        metric,
        side: side.to_owned(),
        side_label: side_label.to_owned(),
        old: old.center.exp(),
        new: new.center.exp(),
        ratio: difference.exp(),
        low: ends.map(|(low, _)| low.exp()),
        high: ends.map(|(_, high)| high.exp()),
        direction: match ends {
            None => Direction::NoInterval,
            Some((low, _)) if low > 0.0 => Direction::Dearer,
            Some((_, high)) if high < 0.0 => Direction::Cheaper,
            Some(_) => Direction::NoChangeSeen,
        },
    }
}

/// What is not equal and may move a cost by itself.
fn differences(old: &Results, new: &Results) -> Vec<String> {
    let mut found = Vec::new();
    let mut unequal = |what: &str, one: &str, other: &str| {
        if one != other {
            found.push(format!("{what} differs: {one} then, {other} now."));
        }
    };
    unequal("The program", &old.tool.version, &new.tool.version);
    let (one, other) = (&old.environment, &new.environment);
    unequal("The operating system", &one.os, &other.os);
    unequal("The kernel", &one.kernel, &other.kernel);
    unequal("The processor", &one.cpu, &other.cpu);
    unequal("The number of processors", &one.cpus.to_string(), &other.cpus.to_string());
    unequal("The memory", &one.memory_bytes.to_string(), &other.memory_bytes.to_string());
    unequal("The file system", &one.file_system, &other.file_system);
    let (one, other) = (&old.settings, &new.settings);
    unequal("The journal mode", &one.journal_mode, &other.journal_mode);
    unequal("`synchronous`", &one.synchronous, &other.synchronous);
    unequal("The cache", &one.cache_size.to_string(), &other.cache_size.to_string());
    unequal("The page size", &one.page_size_bytes.to_string(), &other.page_size_bytes.to_string());
    unequal("The number of processes", &one.processes.to_string(), &other.processes.to_string());
    let rows = |rows: Option<u64>| rows.map_or_else(|| "none".to_owned(), |rows| rows.to_string());
    unequal("Rows a generated table", &rows(one.rows), &rows(other.rows));
    unequal("The algorithm", &one.algorithm, &other.algorithm);
    unequal("The rate", &rows(one.rate_per_s), &rows(other.rate_per_s));
    unequal("The think time", &format!("{:?}", one.think_time), &format!("{:?}", other.think_time));
    unequal("The database", &old.subject.label, &new.subject.label);
    unequal("Its size", &old.subject.bytes.to_string(), &new.subject.bytes.to_string());
    for side in &new.sides {
        if let Some(other) = old.sides.iter().find(|other| other.id == side.id) {
            let what = format!("The library of side {}", side.id);
            unequal(&what, &other.library.source_id, &side.library.source_id);
        }
    }
    if old.statements != new.statements {
        found.push("The lists of statements differ: their classes do other work.".to_owned());
    }
    for class in &new.classes {
        let same = |other: &&Class| other.id == class.id && other.what != class.what;
        if old.classes.iter().any(|other| same(&other)) {
            found.push(format!("{} does not do the same in both runs.", class.id));
        }
    }
    for (results, which) in [(old, "older"), (new, "newer")] {
        if results.control {
            found.push(format!("The {which} run is base against base."));
        }
        if !results.incomplete.is_empty() {
            found.push(format!(
                "The {which} run is not complete: {}",
                results.incomplete.join("; ")
            ));
        }
    }
    found
}

/// The changes as plain text, ending in a newline.
#[must_use]
pub fn changes_text(changes: &Changes) -> String {
    let confidence = changes.confidence * 100.0;
    let mut text =
        format!("Cost of encryption, {} against {}:\n", changes.new.started, changes.old.started);
    let mut table = new_table(
        ["cost of", "side", "of", "then", "now", "change", "interval", ""]
            .map(str::to_owned)
            .to_vec(),
    );
    for found in &changes.changes {
        table.add_row(vec![
            found.label.clone(),
            found.side.clone(),
            found.metric.label().to_owned(),
            percent(found.old),
            percent(found.new),
            percent(found.ratio),
            interval(found.low, found.high),
            found.direction.label().to_owned(),
        ]);
    }
    text.push_str(&format!("\n{table}\n"));
    text.push_str(&format!(
        "\nOf {} costs {} are dearer and {} cheaper with {confidence} % confidence each; where \
         nothing changed, {} in 100 say so by chance.\n",
        changes.compared,
        changes.dearer,
        changes.cheaper,
        (100.0 - confidence).round()
    ));
    for line in &changes.not_compared {
        text.push_str(&format!("not compared: {line}\n"));
    }
    for line in &changes.warnings {
        text.push_str(&format!("warning: {line}\n"));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::json::tests::example;

    /// Two runs of which the newer one is dearer.
    pub(crate) fn changed() -> Changes {
        let mut changes = compare(&run(1000, 1), &run(1050, 2));
        changes.command = "tdekit bench compare old.json new.json".to_owned();
        changes.warnings.push("The kernel differs: <one> then, another now.".to_owned());
        changes
    }

    /// The example with the encrypted side's blocks longer by a factor, and a little noise.
    fn run(per_mille: u64, seed: u64) -> Results {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut results = example();
        for sample in &mut results.samples {
            if sample.side == "encrypted" {
                sample.elapsed_ns = sample.elapsed_ns * per_mille / 1000 + rng.u64(..500);
                sample.cpu_ns += rng.u64(..500);
            }
        }
        results
    }

    #[test]
    fn a_changed_cost_is_seen_and_an_equal_one_is_not() {
        let changes = compare(&run(1000, 1), &run(1050, 2));
        let find = |class: &str, metric, side: &str| {
            changes
                .changes
                .iter()
                .find(|found| found.class == class && found.metric == metric && found.side == side)
                .unwrap()
        };
        for class in ["headline", "crud/4-3-3"] {
            let elapsed = find(class, Metric::Elapsed, "encrypted");
            assert!((elapsed.ratio - 1.05).abs() < 2e-3, "{elapsed:?}");
            assert_eq!(elapsed.direction, Direction::Dearer);
            assert!((elapsed.old - 1.1).abs() < 2e-3 && (elapsed.new - 1.155).abs() < 3e-3);
        }
        let cpu = find("crud/4-3-3", Metric::Cpu, "encrypted");
        assert_eq!(cpu.direction, Direction::NoChangeSeen, "{cpu:?}");
        assert_eq!(changes.warnings, Vec::<String>::new());
        // Elapsed time of the headline and the one class, of both encrypting sides; the peer's too.
        assert_eq!((changes.compared, changes.cheaper, changes.old.restarts), (8, 0, 3));
        assert!(changes.dearer >= 2, "{changes:?}");
        let document = serde_json::to_string(&changes).unwrap();
        assert_eq!(serde_json::from_str::<Changes>(&document).unwrap(), changes);
        let text = changes_text(&changes);
        assert!(text.contains("dearer") && text.contains("+5.0 %"), "{text}");
        let back = compare(&run(1050, 2), &run(1000, 1));
        assert!(back.changes.iter().any(|found| found.direction == Direction::Cheaper));
    }

    #[test]
    fn unequal_runs_are_told() {
        let old = example();
        let mut new = example();
        new.environment.cpu = "another".to_owned();
        new.settings.synchronous = "full".to_owned();
        new.classes[0].id = "crud/10-0-0".to_owned();
        new.sides.retain(|side| side.id != "peer");
        new.control = true;
        let changes = compare(&old, &new);
        let told = format!("{:?} {:?}", changes.warnings, changes.not_compared);
        for wanted in [
            "The processor differs",
            "`synchronous` differs: normal then, full now.",
            "newer run is base against base",
            "crud/10-0-0 is in the newer run alone",
            "crud/4-3-3 is in the older run alone",
            "side peer is in the older run alone",
        ] {
            assert!(told.contains(wanted), "{wanted} is missing in {told}");
        }
    }

    #[test]
    fn one_restart_gives_no_interval() {
        let mut old = run(1000, 1);
        old.samples.retain(|sample| sample.restart == 0);
        let changes = compare(&old, &run(1000, 2));
        assert!(changes.changes.iter().all(|found| found.direction == Direction::NoInterval));
    }
}
