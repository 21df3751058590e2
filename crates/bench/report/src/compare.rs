//! Comparison of two runs, to find changes of cost. The figure is a ratio of ratios, new (encrypted
//! over plain) over old (encrypted over plain), so that a faster machine or a newer SQLite alone
//! does not affect it. Its interval comes from the restarts of both runs (Welch), since they are
//! not paired.

use serde::{Deserialize, Serialize};

use crate::figures::{HEADLINE, ratios};
use crate::index::{Index, Stage, Versus};
use crate::layout::{FACTS, Way};
use crate::model::{Class, Metric};
use crate::piece::{As, Found, each};
use crate::report::{Report, distinct};
use crate::results::Results;
use crate::stats::{Estimate, welch_difference};
use crate::table::Table;

/// Name and version of the document's format.
pub const CHANGES_SCHEMA: &str = "tdekit-changes/1";

/// Direction in which a cost changed, by its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The interval lies on the worse side of 0 %.
    Dearer,
    /// The interval lies on the better side of 0 %.
    Cheaper,
    /// The interval holds 0 %.
    NoChangeSeen,
    /// One of the runs has fewer than two restarts.
    NoInterval,
}

impl Direction {
    /// Returns the direction in words.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Dearer => "dearer",
            Self::Cheaper => "cheaper",
            Self::NoChangeSeen => "no change seen",
            Self::NoInterval => "no interval",
        }
    }
}

/// Change of one cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Cell of the experiment, or `headline`.
    pub class: String,
    /// The displayed name.
    pub label: String,
    /// The metric compared.
    pub metric: Metric,
    /// Side that is compared with its plain one.
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
    /// The direction shown by the interval.
    pub direction: Direction,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Start time, RFC 3339.
    pub started: String,
    /// Version of the program that took the measurements.
    pub version: String,
    /// The command line that repeats it.
    pub command: String,
    /// The database.
    pub subject: String,
    /// The processor.
    pub cpu: String,
    /// Maximum number of restarts of a class.
    pub restarts: u64,
}

/// All changes between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// [`CHANGES_SCHEMA`].
    pub schema: String,
    /// The command line that repeats the comparison; empty if a program called the library.
    pub command: String,
    /// The older run.
    pub old: ComparedRun,
    /// The newer run.
    pub new: ComparedRun,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// Number of compared costs that have an interval.
    pub compared: u64,
    /// Number of those that are dearer now.
    pub dearer: u64,
    /// Number of those that are cheaper.
    pub cheaper: u64,
    /// The headline first, if both runs have the same, then each class.
    pub changes: Vec<Change>,
    /// Classes and sides that only one of the runs has.
    pub not_compared: Vec<String>,
    /// Reasons to doubt the comparison: unequal machines, settings, statements.
    pub warnings: Vec<String>,
}

/// Compares two runs, from their blocks.
#[must_use]
pub fn compare(old: &Results, new: &Results) -> Changes {
    let mut changes = Changes {
        schema: CHANGES_SCHEMA.to_owned(),
        command: String::new(),
        old: described(old),
        new: described(new),
        confidence: new.settings.confidence(),
        compared: 0,
        dearer: 0,
        cheaper: 0,
        changes: Vec::new(),
        not_compared: Vec::new(),
        warnings: differences(old, new),
    };
    let confidence = changes.confidence;
    for (name, newer) in new.reports() {
        let stages = [old, new]
            .map(|results| Stage { confidence, ..Stage::of(&results.settings, newer.experiment) });
        match of_name(old, name) {
            Some(older) => Both::of((older, newer), stages).compare(&mut changes),
            None => changes.not_compared.extend(cells_of(newer, "newer")),
        }
    }
    for (_, old) in old.reports().filter(|(name, _)| of_name(new, name).is_none()) {
        changes.not_compared.extend(cells_of(old, "older"));
    }
    for found in &changes.changes {
        changes.compared += u64::from(found.direction != Direction::NoInterval);
        changes.dearer += u64::from(found.direction == Direction::Dearer);
        changes.cheaper += u64::from(found.direction == Direction::Cheaper);
    }
    changes
}

fn of_name<'a>(results: &'a Results, name: &str) -> Option<&'a Report> {
    results.reports().find(|(known, _)| *known == name).map(|(_, report)| report)
}

fn alone(what: &str, which: &str) -> String {
    format!("{what} is in the {which} run alone")
}

/// Reports the cells of an experiment that the other run lacks.
fn cells_of(report: &Report, which: &str) -> impl Iterator<Item = String> {
    report.cells.iter().map(move |cell| alone(&cell.id, which))
}

/// An experiment in both runs.
struct Both<'a> {
    old: Index<'a>,
    new: Index<'a>,
    /// Of the older run, and of the newer one.
    stages: [Stage; 2],
}

impl<'a> Both<'a> {
    fn of((old, new): (&'a Report, &'a Report), stages: [Stage; 2]) -> Self {
        Self { old: Index::of(old), new: Index::of(new), stages }
    }

    fn compare(&self, changes: &mut Changes) {
        let (old, new) = (self.old.report, self.new.report);
        let sorted = |index: &Index<'_>| {
            let mut ids = index.heads().map_or_else(Vec::new, |pool| pool.cells.clone());
            ids.sort();
            ids
        };
        let same_heads = sorted(&self.old) == sorted(&self.new) && !sorted(&self.new).is_empty();
        let mut told: Vec<&str> = Vec::new();
        for versus in self.new.versus.iter().filter(|versus| versus.shown) {
            if !self.old.versus.contains(versus) {
                let known = old.sides.iter().any(|side| side.id == versus.side);
                if !known && !told.contains(&versus.side.as_str()) {
                    told.push(&versus.side);
                    changes.not_compared.push(alone(&format!("side {}", versus.side), "newer"));
                }
                continue;
            }
            let heads = same_heads && versus.cell.is_none();
            for metric in self.new.layout.wanted.iter().filter(|_| heads) {
                let found = self.heads(versus, *metric);
                changes.changes.extend(found);
            }
            for cell in new.cells.iter().filter(|cell| versus.is_of(&cell.id)) {
                for metric in self.new.layout.wanted {
                    changes.changes.extend(self.cell(cell, versus, metric));
                }
            }
        }
        changes.not_compared.extend(only(old, new, "older"));
        changes.not_compared.extend(only(new, old, "newer"));
        for cell in &new.cells {
            let same = |other: &&Class| other.id == cell.id && other.what != cell.what;
            if old.cells.iter().any(|other| same(&other)) {
                let warning = format!("{} does not do the same in both runs.", cell.id);
                changes.warnings.push(warning);
            }
        }
    }

    fn heads(&self, versus: &Versus, metric: Metric) -> Option<Change> {
        let of = |index: &Index<'_>, stage| {
            index.over(Way::Mean, &index.heads()?.cells, (versus, metric), stage)
        };
        let both = (of(&self.old, self.stages[0])?, of(&self.new, self.stages[1])?);
        Some(self.change((HEADLINE, &self.old.heads()?.what), metric, versus, both))
    }

    fn cell(&self, cell: &Class, versus: &Versus, metric: Metric) -> Option<Change> {
        let of = |index: &Index<'_>, stage| index.estimate((&cell.id, None), versus, metric, stage);
        let both = (of(&self.old, self.stages[0])?, of(&self.new, self.stages[1])?);
        Some(self.change((&cell.id, &cell.label), metric, versus, both))
    }

    fn change(
        &self,
        (class, label): (&str, &str),
        metric: Metric,
        versus: &Versus,
        (old, new): (Estimate, Estimate),
    ) -> Change {
        let (difference, ends) = welch_difference(&new, &old, self.stages[1].confidence);
        let (grew, fell) = if metric.info().lower_is_better {
            (Direction::Dearer, Direction::Cheaper)
        } else {
            (Direction::Cheaper, Direction::Dearer)
        };
        Change {
            class: class.to_owned(),
            label: label.to_owned(),
            metric,
            side: versus.side.clone(),
            side_label: self.new.report.label(&versus.side).to_owned(),
            old: old.center.exp(),
            new: new.center.exp(),
            ratio: difference.exp(),
            low: ends.map(|(low, _)| low.exp()),
            high: ends.map(|(_, high)| high.exp()),
            direction: match ends {
                None => Direction::NoInterval,
                Some((low, _)) if low > 0.0 => grew,
                Some((_, high)) if high < 0.0 => fell,
                Some(_) => Direction::NoChangeSeen,
            },
        }
    }
}

fn described(results: &Results) -> ComparedRun {
    let runs = results.reports().flat_map(|(_, report)| &report.runs);
    let restarts = runs.map(|run| u64::from(run.restart) + 1).max();
    ComparedRun {
        started: results.started.clone(),
        version: results.tool.version.clone(),
        command: results.command.clone(),
        subject: results.subject.label.clone(),
        cpu: results.environment.cpu.clone(),
        restarts: restarts.unwrap_or(0),
    }
}

/// Returns cells and sides of one run that the other lacks; sides of the newer one are reported
/// elsewhere.
fn only(one: &Report, other: &Report, which: &str) -> Vec<String> {
    let has_cell = |id: &str| other.cells.iter().any(|found| found.id == id);
    let has_side = |id: &str| which != "older" || other.sides.iter().any(|found| found.id == id);
    let cells = one.cells.iter().filter(|cell| !has_cell(&cell.id)).map(|cell| cell.id.clone());
    let sides = one.sides.iter().filter(|side| !has_side(&side.id));
    let sides = sides.map(|side| format!("side {}", side.id));
    cells.chain(sides).map(|what| alone(&what, which)).collect()
}

type Told = fn(&Results) -> String;

/// Properties of both runs that are reported if they differ: each may change a cost by itself.
const TOLD: [(&str, Told); 18] = [
    ("The program", |run| run.tool.version.clone()),
    ("The operating system", |run| run.environment.os.clone()),
    ("The kernel", |run| run.environment.kernel.clone()),
    ("The processor", |run| run.environment.cpu.clone()),
    ("The number of processors", |run| run.environment.cpus.to_string()),
    ("The memory", |run| run.environment.memory_bytes.to_string()),
    ("The file system", |run| run.environment.file_system.clone()),
    ("The journal mode", |run| run.settings.journal_mode.clone()),
    ("`synchronous`", |run| run.settings.synchronous.clone()),
    ("The cache", |run| run.settings.cache_size.to_string()),
    ("The page size", |run| run.settings.page_size_bytes.to_string()),
    ("The number of processes", |run| run.settings.processes.to_string()),
    ("Rows a generated table", |run| or_none(run.settings.rows)),
    ("The algorithm", |run| run.settings.algorithm.clone()),
    ("The rate", |run| or_none(run.settings.rate_per_s)),
    ("The think time", |run| format!("{:?}", run.settings.think_time)),
    ("The database", |run| run.subject.label.clone()),
    ("Its size", |run| run.subject.bytes.to_string()),
];

fn or_none(value: Option<u64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn differences(old: &Results, new: &Results) -> Vec<String> {
    let mut found = Vec::new();
    for (what, of) in TOLD {
        unequal(&mut found, what, [of(old), of(new)]);
    }
    unequal_parts(old, new, &mut found);
    for (results, which) in [(old, "older"), (new, "newer")] {
        if results.control {
            found.push(format!("The {which} run is base against base."));
        }
        if !results.incomplete.is_empty() {
            let reasons = results.incomplete.join("; ");
            found.push(format!("The {which} run is not complete: {reasons}"));
        }
    }
    found
}

fn unequal(found: &mut Vec<String>, what: &str, [then, now]: [String; 2]) {
    if then != now {
        found.push(format!("{what} differs: {then} then, {now} now."));
    }
}

/// Reports differences of sides, servers, tables and devices.
fn unequal_parts(old: &Results, new: &Results, found: &mut Vec<String>) {
    for (name, new) in new.reports() {
        let Some(old) = of_name(old, name) else { continue };
        let label = new.experiment.label();
        for fact in FACTS.iter().filter(|fact| fact.compared) {
            let value = |report: &Report| fact.value(&report.facts, "").map(|value| value.words());
            let both = [old, new].map(|report| value(report).unwrap_or_default());
            unequal(found, &format!("Of the {label} {}", fact.words), both);
        }
        for side in &new.sides {
            let Some(known) = old.sides.iter().find(|other| other.id == side.id) else { continue };
            let both = [known, side].map(|side| side.library.source_id.clone());
            unequal(found, &format!("The library of side {}", side.id), both);
        }
        if old.statements != new.statements {
            found.push("The lists of statements differ: their classes do other work.".to_owned());
        }
        let settings = [old, new].map(|report| {
            let each = report.settings.iter().map(|(name, value)| format!("{name}={value}"));
            each.collect::<Vec<_>>().join(", ")
        });
        unequal(found, &format!("Of the {label} a setting"), settings);
    }
}

ratios!(Change: |_| true);

impl Changes {
    /// Returns the first change of each side, which has its name.
    pub(crate) fn sides(&self) -> Vec<Found<'_, Change>> {
        distinct(each(&self.changes, "changes"), |found| &found.item.side)
    }

    /// Returns every cost of a side, old and new.
    pub(crate) fn table(&self, side: &Change) -> Table {
        let own = each(&self.changes, "changes").filter(|found| found.item.side == side.side);
        let rows = own.map(|found| {
            let item = found.item;
            vec![
                found.text("label", &item.label),
                item.metric.label().into(),
                found.number("old", As::Percent, item.old),
                found.number("new", As::Percent, item.new),
                found.with_ends(As::Percent),
                item.direction.label().into(),
            ]
        });
        let head = ["Cost of", "In", "Then", "Now", "Change", "Verdict"];
        Table::new(format!("Costs of {}, then and now", side.side_label), head, rows)
    }
}

/// Returns the changes as plain text, ending in a newline.
#[must_use]
pub fn changes_text(changes: &Changes) -> String {
    let confidence = changes.confidence * 100.0;
    let mut text =
        format!("Cost of encryption, {} against {}:\n", changes.new.started, changes.old.started);
    text.extend(changes.sides().iter().map(|side| changes.table(side.item).words()));
    text.push_str(&format!(
        "\nOf {} costs {} are dearer and {} cheaper with {confidence} % confidence each; where \
         nothing changed, {} in 100 say so by chance.\n",
        changes.compared,
        changes.dearer,
        changes.cheaper,
        (100.0 - confidence).round()
    ));
    text.extend(changes.not_compared.iter().map(|line| format!("not compared: {line}\n")));
    text.extend(changes.warnings.iter().map(|line| format!("warning: {line}\n")));
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::examples::{example, holds, two_algorithms, whole};
    use crate::fact::float;

    /// Returns two runs of which the newer one is dearer.
    pub(crate) fn changed() -> Changes {
        let mut changes = compare(&run(1000, 1), &run(1050, 2));
        changes.command = "tdekit bench compare old.json new.json".to_owned();
        changes.warnings.push("The kernel differs: <one> then, another now.".to_owned());
        changes
    }

    /// Returns the example with the encrypted side's blocks longer by a factor, with a little
    /// noise.
    fn run(per_mille: u64, seed: u64) -> Results {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut results = example();
        let embedded = results.embedded.as_mut().unwrap();
        for run in embedded.runs.iter_mut().filter(|run| run.side == "encrypted") {
            let mut noise = || float(rng.u64(..500));
            let elapsed = run.values.get_mut(&Metric::Elapsed).unwrap();
            *elapsed = *elapsed * float(per_mille) / 1000.0 + noise();
            *run.values.get_mut(&Metric::Cpu).unwrap() += noise();
        }
        results
    }

    fn find<'a>(changes: &'a Changes, class: &str, metric: Metric, side: &str) -> &'a Change {
        let is =
            |found: &&Change| found.class == class && found.metric == metric && found.side == side;
        changes.changes.iter().find(is).unwrap_or_else(|| panic!("{class} {side}"))
    }

    #[test]
    fn a_changed_cost_is_seen_and_an_equal_one_is_not() {
        let changes = compare(&run(1000, 1), &run(1050, 2));
        let find = |class, metric, side| find(&changes, class, metric, side);
        for class in ["headline", "crud/4-3-3"] {
            let elapsed = find(class, Metric::Elapsed, "encrypted");
            assert!((elapsed.ratio - 1.05).abs() < 2e-3, "{elapsed:?}");
            assert_eq!(elapsed.direction, Direction::Dearer);
            assert!((elapsed.old - 1.1).abs() < 2e-3 && (elapsed.new - 1.155).abs() < 3e-3);
        }
        let cpu = find("crud/4-3-3", Metric::Cpu, "encrypted");
        assert_eq!(cpu.direction, Direction::NoChangeSeen, "{cpu:?}");
        assert_eq!(changes.warnings, Vec::<String>::new());
        // Elapsed time of the headline and the one class, of both encrypting sides, including the
        // peer.
        assert_eq!((changes.compared, changes.cheaper, changes.old.restarts), (8, 0, 3));
        assert!(changes.dearer >= 2, "{changes:?}");
        let document = serde_json::to_string(&changes).unwrap();
        assert_eq!(serde_json::from_str::<Changes>(&document).unwrap(), changes);
        let text = changes_text(&changes);
        assert!(text.contains("dearer") && text.contains("+5.0 %"), "{text}");
        let back = compare(&run(1050, 2), &run(1000, 1));
        assert!(back.changes.iter().any(|found| found.direction == Direction::Cheaper));
    }

    /// A lower throughput is a higher cost.
    #[test]
    fn backups_workloads_and_messages_are_compared() {
        let old = whole();
        let mut new = old.clone();
        new.oltp.as_mut().unwrap().set("tables", 5_u32);
        for run in &mut new.oltp.as_mut().unwrap().runs {
            if run.side == "tdekit" {
                *run.values.get_mut(&Metric::Elapsed).unwrap() *= 1.25;
            }
        }
        for run in &mut new.backup.as_mut().unwrap().runs {
            if run.side == "AES_256" && run.cell.contains("/zstd/") {
                let elapsed = run.values.get_mut(&Metric::Elapsed).unwrap();
                *elapsed = *elapsed * 1.1 + f64::from(run.restart);
            }
        }
        let changes = compare(&old, &new);
        let find = |class, metric, side| find(&changes, class, metric, side);
        let throughput = find("oltp_read_write/8", Metric::Throughput, "tdekit");
        assert_eq!(throughput.direction, Direction::Dearer);
        assert!((throughput.ratio - 0.8).abs() < 1e-3, "{throughput:?}");
        let backup = find("backup/zstd/disk/disk", Metric::Elapsed, "AES_256");
        assert_eq!(backup.direction, Direction::Dearer);
        assert_eq!(
            find("backup/none/disk/disk", Metric::Cpu, "AES_256").ratio.to_bits(),
            1_f64.to_bits()
        );
        assert!((find("loop", Metric::ServerCpu, "on").ratio - 1.0).abs() < 1e-12);
        // A comparison with another tool, or with direct calls, is not a cost of encryption.
        assert!(changes.changes.iter().all(|found| found.side != "restic"));
        assert!(
            changes
                .warnings
                .iter()
                .any(|told| told == "Of the OLTP workloads tables differs: 4 then, 5 now.")
        );
        new.oltp = None;
        let changes = compare(&old, &new);
        let told = "oltp_read_write/8 is in the older run alone".to_owned();
        assert!(changes.not_compared.contains(&told), "{:?}", changes.not_compared);
    }

    #[test]
    fn unequal_runs_are_told() {
        let old = example();
        let mut new = example();
        new.environment.cpu = "another".to_owned();
        new.settings.synchronous = "full".to_owned();
        let report = new.embedded.as_mut().unwrap();
        report.cells[0].id = "crud/10-0-0".to_owned();
        report.sides.retain(|side| side.id != "peer");
        new.control = true;
        let changes = compare(&old, &new);
        let told = format!("{:?} {:?}", changes.warnings, changes.not_compared);
        holds(
            &told,
            [
                "The processor differs",
                "`synchronous` differs: normal then, full now.",
                "newer run is base against base",
                "crud/10-0-0 is in the newer run alone",
                "crud/4-3-3 is in the older run alone",
                "side peer is in the older run alone",
            ],
        );
    }

    #[test]
    fn further_algorithms_are_compared_over_plain_alone() {
        let changes = compare(&two_algorithms(0.9), &two_algorithms(0.99));
        let second = changes.changes.iter().filter(|found| found.side == "second");
        let second: Vec<_> = second.collect();
        assert!(second.len() == 4 && second.iter().all(|found| found.ratio > 1.09), "{second:?}");
        let changes = compare(&example(), &two_algorithms(0.9));
        assert!(changes.not_compared.iter().any(|one| one.contains("side second")));
    }

    #[test]
    fn one_restart_gives_no_interval() {
        let mut old = run(1000, 1);
        old.embedded.as_mut().unwrap().runs.retain(|run| run.restart == 0);
        let changes = compare(&old, &run(1000, 2));
        assert!(changes.changes.iter().all(|found| found.direction == Direction::NoInterval));
    }
}
