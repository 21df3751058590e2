//! Latency of single operations, and what speaks for and against a run's figures: what else the
//! machine did, warm-up, the driver's own share.

use maud::{Markup, html};

use super::book::Book;
use super::cell::{As, each, float, number, text, wide};
use crate::model::{Metric, Noise, Results};
use crate::report::Report;

/// The name of a class, with its place.
fn label(report: &Report, id: &str) -> Markup {
    match each(&report.cells, "embedded/cells").find(|class| class.item.id == id) {
        Some(class) => text(&format!("{}/label", class.at), &class.item.label),
        None => html! { "–" },
    }
}

/// Latency of single operations by class and side; nothing where none were timed.
pub(super) fn latency(book: &Book<'_>) -> Markup {
    let results = book.results;
    let Some(table) = book.shown.latencies() else { return html! {} };
    html! {
        section id="latency" {
            h2 { "Latency of single operations" }
            p {
                "All blocks of a class and side together, from a histogram of three digits. "
                @if let Some(rate) = results.settings.rate_per_s {
                    "Operations were due at "
                    (number("settings/rate_per_s", As::Count, float(rate)))
                    " a second, and latency counts from when one was due: a late start is not left \
                     out."
                } @else {
                    "Operations follow one another at once, so latency counts from when one began."
                }
            }
            (table.markup())
            (latency_costs(book))
        }
    }
}

/// The cost of encryption in latency.
fn latency_costs(book: &Book<'_>) -> Markup {
    let metrics = [Metric::MedianLatency, Metric::TailLatency];
    let mut timed = book.shown.cells("");
    timed.retain(|class| metrics.iter().any(|one| book.overhead(class.item, *one).is_some()));
    let sides = (book.side, book.base);
    let table = book.shown.overheads("Cost in latency", &timed, sides, &metrics);
    html! { @if !timed.is_empty() { (table.markup()) } }
}

/// Whether a run tells how far to trust it.
pub(super) fn measured(results: &Results) -> bool {
    let tells = |report: &Report| !(report.warm_up.is_empty() && report.driver.is_empty());
    results.noise.is_some() || results.embedded.as_ref().is_some_and(tells)
}

/// Noise, warm-up and the driver's share; nothing where none was measured.
pub(super) fn section(results: &Results) -> Markup {
    if !measured(results) {
        return html! {};
    }
    html! {
        section id="quality" {
            h2 { "How far to trust it" }
            @if let Some(found) = &results.noise { (noise(found)) }
            @if let Some(report) = &results.embedded { (driver(report)) (warm_up(report)) }
        }
    }
}

/// The machine's other work, which stands under `noise` in every document.
pub(super) fn noise(noise: &Noise) -> Markup {
    html! {
        h3 { "What else the machine did" }
        dl {
            div { dt { "CPU of other programs" } dd {
                (number("noise/others", As::Share, noise.others))
            } }
            div { dt { "Given to other machines (steal)" } dd {
                (number("noise/steal", As::Share, noise.steal))
            } }
            div { dt { "Load average, start and end" } dd {
                (number("noise/load_start", As::Decimal, noise.load_start)) ", "
                (number("noise/load_end", As::Decimal, noise.load_end))
            } }
            @if let Some((low, high)) = noise.frequency_mhz { div { dt { "Frequency" } dd {
                (number("noise/frequency_mhz/0", As::Count, float(low))) " to "
                (number("noise/frequency_mhz/1", As::Count, float(high))) " MHz"
            } } }
        }
    }
}

fn driver(report: &Report) -> Markup {
    html! {
        @if !report.driver.is_empty() {
            h3 { "What the driver itself costs" }
            p class="quiet" {
                "CPU of the same code on a library whose calls do nothing, a part of the base's."
            }
            (wide("What the driver itself costs", &html! { table {
                thead { tr {
                    th scope="col" { "Class" }
                    th scope="col" { "Driver, each" }
                    th scope="col" { "Driver and SQLite, each" }
                    th scope="col" { "Share" }
                } }
                tbody { @for found in each(&report.driver, "embedded/driver") { tr {
                    th scope="row" { (label(report, &found.item.class)) }
                    td { (number(
                        &format!("{}/driver_ns", found.at), As::Duration, found.item.driver_ns)) }
                    td { (number(
                        &format!("{}/base_ns", found.at), As::Duration, found.item.base_ns)) }
                    td { (number(&format!("{}/share", found.at), As::Share, found.item.share)) }
                } } }
            } }))
        }
    }
}

fn warm_up(report: &Report) -> Markup {
    html! {
        @if !report.warm_up.is_empty() {
            h3 { "Warm-up" }
            p class="quiet" {
                "Short blocks that a class took to settle after its processes began, off the \
                 clock; and by what factor the overhead of first pairs differs from that of later \
                 ones."
            }
            (wide("Warm-up", &html! { table {
                thead { tr {
                    th scope="col" { "Class" }
                    th scope="col" { "Needed" }
                    th scope="col" { "Tried" }
                    th scope="col" { "First pairs over later ones" }
                } }
                tbody { @for found in each(&report.warm_up, "embedded/warm_up") { tr {
                    th scope="row" { (label(report, &found.item.class)) }
                    td { (number(
                        &format!("{}/needed", found.at), As::Count, float(found.item.needed))) }
                    td { (number(
                        &format!("{}/tried", found.at), As::Count, float(found.item.tried))) }
                    td {
                        @match found.item.first_pair {
                            Some(factor) => (number(
                                &format!("{}/first_pair", found.at), As::Percent, factor)),
                            None => "–",
                        }
                        @if let Some((low, high)) = found.item.first_pair_interval {
                            @let at = format!("{}/first_pair_interval", found.at);
                            br;
                            small {
                                (number(&format!("{at}/0"), As::Bare, low)) " to "
                                (number(&format!("{at}/1"), As::Bare, high))
                            }
                        }
                    }
                } } }
            } }))
        }
    }
}
