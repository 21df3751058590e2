//! The answer: the first part of the page, a sentence and a row of tiles.

use maud::{Markup, html};

use super::{ALERT, NOTICE, notices};
use crate::figures::{HEADLINE, Pooled, Ratio};
use crate::model::{Experiment, Metric, ProbeKind, Role};
use crate::piece::{As, Found, Piece, all, each, number, text};
use crate::results::Results;
use crate::shown::{Shown, more, pooled};
use crate::verdict::{CONTROL, NOTHING, answers};

/// Title, verdict, tiles, and notices on its reliability.
pub(super) fn head(results: &Results) -> Markup {
    let answers = answers(results);
    let subject = &results.subject;
    let tiles = results.reports().next().map(|(name, report)| tiles(&Shown::of(name, report)));
    html! {
        header {
            p class="subject" {
                "What encryption costs"
                @if !subject.label.is_empty() {
                    " · " (text("subject/label", &subject.label))
                    // A server's size may be unknown.
                    @if subject.bytes > 0 {
                        ", " (number("subject/bytes", As::Bytes, subject.bytes))
                    }
                }
                " · " (text("started", &results.started))
            }
            @match answers.first() {
                Some(first) => h1 { (first) },
                None => h1 { (NOTHING) },
            }
            @if results.control { p class=(NOTICE) { (Piece::from(CONTROL)) } }
            (notices(&results.incomplete, "incomplete", (ALERT, "Incomplete: ")))
            @if let Some(tiles) = tiles.filter(|tiles| !tiles.is_empty()) { dl class="facts" {
                @for (name, value) in tiles { div { dt data-fixed { (name) } dd { (value) } } }
            } }
            @for answer in answers.iter().skip(1) { p class="answer" { (answer) } }
            @if !results.warnings.is_empty() { details {
                summary { "Notes on this run: what may have made its figures less certain" }
                (notices(&results.warnings, "warnings", (NOTICE, "Note: ")))
            } }
        }
    }
}

/// Ratios over several cells: their set, the metric, and the tile's name.
type Wanted = (&'static str, Metric, &'static str);

const OF_CLASSES: &[Wanted] = &[
    (HEADLINE, Metric::Elapsed, "Elapsed time"),
    (HEADLINE, Metric::Cpu, "CPU"),
    (HEADLINE, Metric::TailLatency, "Latency, p99"),
];
const OF_THREADS: &[Wanted] = &[
    ("all", Metric::Throughput, "Throughput"),
    ("all", Metric::CpuEach, "CPU a transaction"),
    ("all", Metric::TailLatency, "Latency, p99"),
];
const OF_BACKUPS: &[Wanted] = &[
    ("backup/all", Metric::Elapsed, "Time of a backup"),
    ("backup/all", Metric::Cpu, "CPU of a backup"),
    ("restore/all", Metric::Elapsed, "Time of a restore"),
    ("backup/all", Metric::Size, "Size of a backup"),
];

/// The first experiment's costs, each in a box.
fn tiles(shown: &Shown<'_>) -> Vec<(&'static str, Piece)> {
    let report = shown.report;
    let Some(side) = report.sides.iter().find(|side| side.role == Role::Encrypted) else {
        return Vec::new();
    };
    let Some(plain) = report.plain(side) else { return Vec::new() };
    let pair = (side.id.as_str(), plain.id.as_str());
    let wanted = match report.experiment {
        Experiment::Oltp => OF_THREADS,
        Experiment::Backup => OF_BACKUPS,
        Experiment::Messages => return of_messages(shown, pair),
        Experiment::Replicate => return Vec::new(),
        _ => OF_CLASSES,
    };
    let ratios = wanted.iter().filter_map(|(id, metric, name)| {
        let found = shown.over(id, *metric, pair)?;
        Some((*name, if found.item.is_unclear() { untold(&found) } else { pooled(&found) }))
    });
    let probes = [(ProbeKind::OpenOther, "Opening a database"), (ProbeKind::FileBytes, "Size")];
    let differences = probes.into_iter().filter_map(|(kind, name)| {
        let mut all = each(&report.summary.differences, &shown.place("summary/differences"));
        let found = all.find(|found| found.item.kind == kind && found.item.side == side.id)?;
        Some((name, more(&found)))
    });
    ratios.chain(differences).collect()
}

/// A tile without a figure: what cannot be told has its interval alone.
fn untold(found: &Found<'_, Pooled>) -> Piece {
    all!["?", found.ends(As::Percent).below()]
}

/// The costs in the first batch.
fn of_messages(shown: &Shown<'_>, pair: (&str, &str)) -> Vec<(&'static str, Piece)> {
    let Some(cell) = shown.report.cells.first() else { return Vec::new() };
    let wanted = [
        (Metric::Elapsed, "Elapsed time", As::Percent),
        (Metric::ServerCpu, "CPU of the server", As::Percent),
        (Metric::ServerSwitches, "Context switches", As::Times),
    ];
    let of = |(metric, name, kind)| {
        Some((name, shown.comparison(&cell.id, metric, pair)?.with_ends(kind)))
    };
    wanted.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, holds, whole};

    #[test]
    fn the_answer_and_the_tiles_stand_first() {
        let page = head(&example()).into_string();
        let heading = page.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
        assert!(heading.starts_with("Encryption costs ") && heading.contains(" of elapsed time"));
        assert!(!heading.contains('+'), "{heading}");
        let tiles = |results: &Results| {
            let (name, report) = results.reports().next().unwrap();
            tiles(&Shown::of(name, report)).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let mut results = whole();
        assert_eq!(tiles(&results)[..2], ["Elapsed time", "CPU"]);
        results.embedded = None;
        assert_eq!(tiles(&results)[..2], ["Throughput", "CPU a transaction"]);
        results.oltp = None;
        assert_eq!(tiles(&results), ["Elapsed time", "CPU of the server", "Context switches"]);
        results.messages = None;
        assert_eq!(tiles(&results).len(), 4);
    }

    #[test]
    fn an_unknown_size_is_not_told_and_notes_are_folded() {
        let mut results = example();
        results.warnings.push("the machine was busy".to_owned());
        let known = head(&results).into_string();
        holds(&known, ["subject/bytes", "<details><summary>Notes on this run"]);
        results.subject.bytes = 0;
        assert!(!head(&results).into_string().contains("subject/bytes"));
    }
}
