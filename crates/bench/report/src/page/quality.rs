//! Latency of single operations, and the quality of a run's figures: other work of the machine,
//! warm-up, the driver's own share.

use maud::{Markup, html};

use super::book::Book;
use super::folded;
use crate::model::{Metric, Noise, WarmUp};
use crate::piece::{As, Found, Piece, all, each, number};
use crate::report::Report;
use crate::results::Results;
use crate::shown::Shown;
use crate::table::Table;

/// Latency of single operations by class and side; nothing if none were timed.
pub(super) fn latency(book: &Book<'_>) -> Markup {
    let results = book.results;
    let Some(table) = book.shown.latencies() else { return html! {} };
    let inside = html! {
        p {
            "All blocks of a class and side together, from a histogram of three digits. "
            @if let Some(rate) = results.settings.rate_per_s {
                "Operations were due at " (number("settings/rate_per_s", As::Count, rate))
                " a second, and latency counts from when one was due: a late start is not left \
                 out."
            } @else {
                "Operations follow one another at once, so latency counts from when one began."
            }
        }
        (table)
        (latency_costs(book))
    };
    folded("latency", "Latency of single operations", &inside)
}

/// The cost of encryption in latency.
fn latency_costs(book: &Book<'_>) -> Markup {
    let metrics = [Metric::MedianLatency, Metric::TailLatency];
    let mut timed = book.shown.cells("");
    timed.retain(|class| metrics.iter().any(|one| book.overhead(class.item, *one).is_some()));
    let sides = (book.side, book.base);
    let table = book.shown.overheads("Cost in latency", &timed, sides, &metrics);
    html! { @if !timed.is_empty() { (table) } }
}

/// Returns true if a run has data on its reliability.
pub(super) fn measured(results: &Results) -> bool {
    let tells = |report: &Report| !(report.warm_up.is_empty() && report.driver.is_empty());
    results.noise.is_some() || results.classes().is_some_and(|(_, report)| tells(report))
}

/// Noise, warm-up and the driver's share; nothing if none was measured.
pub(super) fn section(results: &Results) -> Markup {
    if !measured(results) {
        return html! {};
    }
    let inside = html! {
        @if let Some(found) = &results.noise { (noise(found)) }
        @if let Some((name, report)) = results.classes() {
            @let shown = Shown::of(name, report);
            @if let Some(table) = driver(&shown) {
                h3 { (table.title) }
                p class="quiet" {
                    "CPU of the same code on a library whose calls do nothing, a part of the \
                     base's."
                }
                (table)
            }
            @if let Some(table) = warm_up(&shown) {
                h3 { (table.title) }
                p class="quiet" {
                    "Short blocks that a class took to settle after its processes began, off \
                     the clock; and by what factor the overhead of first pairs differs from \
                     that of later ones. Only the mixes try blocks."
                }
                (table)
            }
        }
    };
    folded("quality", "How far to trust it", &inside)
}

/// Other work of the machine, which is under `noise` in every document.
pub(super) fn noise(noise: &Noise) -> Markup {
    let found = Found::at("noise", noise);
    let [start, end] = [("load_start", noise.load_start), ("load_end", noise.load_end)]
        .map(|(field, load)| found.number(field, As::Decimal, load));
    let mut rows = vec![
        ("CPU of other programs", found.number("others", As::Share, noise.others)),
        ("Given to other machines (steal)", found.number("steal", As::Share, noise.steal)),
        ("Load average, start and end", all![start, ", ", end]),
    ];
    rows.extend(noise.frequency_mhz.map(|(low, high)| {
        let ends = [("frequency_mhz/0", low), ("frequency_mhz/1", high)];
        let ends = ends.map(|(field, frequency)| found.number(field, As::Count, frequency));
        ("Frequency", all![Piece::span(ends), " MHz"])
    }));
    html! {
        h3 { "What else the machine did" }
        dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
    }
}

fn driver(shown: &Shown<'_>) -> Option<Table> {
    let rows = each(&shown.report.driver, &shown.place("driver")).map(|found| {
        vec![
            shown.names(&found.item.class, &[]),
            found.number("driver_ns", As::Duration, found.item.driver_ns),
            found.number("base_ns", As::Duration, found.item.base_ns),
            found.number("share", As::Share, found.item.share),
        ]
    });
    let head = ["Class", "Driver, each", "Driver and SQLite, each", "Share"];
    Table::new("What the driver itself costs", head, rows).filled()
}

fn warm_up(shown: &Shown<'_>) -> Option<Table> {
    let first = |found: &Found<'_, WarmUp>| {
        let factor = found.item.first_pair?;
        let factor = found.number("first_pair", As::Percent, factor);
        let Some((low, high)) = found.item.first_pair_interval else { return Some(factor) };
        let ends = [("first_pair_interval/0", low), ("first_pair_interval/1", high)];
        let ends = Piece::span(ends.map(|(field, end)| found.number(field, As::Bare, end)));
        Some(all![factor, ends.below()])
    };
    let rows = each(&shown.report.warm_up, &shown.place("warm_up")).map(|found| {
        // A class that tried no blocks needed none either, which says nothing.
        let count = |field: &str, value: u64| match found.item.tried {
            0 => Piece::Nothing,
            _ => found.number(field, As::Count, value),
        };
        vec![
            shown.names(&found.item.class, &[]),
            count("needed", found.item.needed),
            count("tried", found.item.tried),
            first(&found).unwrap_or_default(),
        ]
    });
    let head = ["Class", "Needed", "Tried", "First pairs over later ones"];
    Table::new("Warm-up", head, rows).filled()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn a_class_that_tried_no_blocks_has_no_counts() {
        let mut report = examples::embedded();
        crate::note_first_pairs(&mut report);
        let table = warm_up(&Shown::of("embedded", &report)).unwrap().words();
        let row = table.lines().find(|line| line.contains("mix 4/3/3")).unwrap();
        assert!(row.matches(" - ").count() >= 1 && !row.contains(" 0 "), "{table}");
    }
}
