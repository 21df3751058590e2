//! Latency of single operations, and what speaks for and against a run's figures: what else the
//! machine did, warm-up, the driver's own share.

use maud::{Markup, html};

use super::book::Book;
use super::cell::{As, Found, each, float, number, ratio_cell, text, wide};
use crate::model::{Class, Latency, Metric, Noise, Results};

/// The name of a class, with its place.
fn label(results: &Results, id: &str) -> Markup {
    match each(&results.classes, "classes").find(|class| class.item.id == id) {
        Some(class) => text(&format!("{}/label", class.at), &class.item.label),
        None => html! { "–" },
    }
}

/// Latency of single operations by class and side; nothing where none were timed.
pub(super) fn latency(book: &Book<'_>) -> Markup {
    let results = book.results;
    if results.latencies.is_empty() {
        return html! {};
    }
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
            (wide("Latency of single operations", &html! { table {
                thead { tr {
                    th scope="col" { "Class" }
                    th scope="col" { "Side" }
                    th scope="col" { "Mean" }
                    th scope="col" { "Median" }
                    @for name in ["90 %", "95 %", "99 %", "99.9 %"] {
                        th scope="col" data-fixed { (name) }
                    }
                    th scope="col" { "Slowest" }
                } }
                tbody { @for found in each(&results.latencies, "latencies") {
                    (latency_row(results, &found))
                } }
            } }))
            (latency_costs(book))
        }
    }
}

fn latency_row(results: &Results, found: &Found<'_, Latency>) -> Markup {
    let item = found.item;
    let time =
        |field: &str, ns: u64| number(&format!("{}/{field}", found.at), As::Duration, float(ns));
    html! {
        tr {
            th scope="row" { (label(results, &item.class)) }
            td { @match each(&results.sides, "sides").find(|side| side.item.id == item.side) {
                Some(side) => (text(&format!("{}/label", side.at), &side.item.label)),
                None => "–",
            } }
            td { (number(&format!("{}/mean_ns", found.at), As::Duration, item.mean_ns)) }
            td { (time("p50_ns", item.p50_ns)) }
            td { (time("p90_ns", item.p90_ns)) }
            td { (time("p95_ns", item.p95_ns)) }
            td { (time("p99_ns", item.p99_ns)) }
            td { (time("p999_ns", item.p999_ns)) }
            td { (time("max_ns", item.max_ns)) }
        }
    }
}

/// What encryption costs in latency.
fn latency_costs(book: &Book<'_>) -> Markup {
    let metrics = [Metric::MedianLatency, Metric::TailLatency];
    let timed: Vec<Found<'_, Class>> = book
        .classes("")
        .into_iter()
        .filter(|class| metrics.iter().any(|metric| book.overhead(class.item, *metric).is_some()))
        .collect();
    html! {
        @if !timed.is_empty() { (wide("Cost in latency", &html! { table {
            thead { tr {
                th scope="col" { "Class" }
                th scope="col" { "Cost in median latency" }
                th scope="col" { "In the latency that one in a hundred exceeds" }
            } }
            tbody { @for class in &timed { tr {
                th scope="row" { (text(&format!("{}/label", class.at), &class.item.label)) }
                @for metric in metrics { (ratio_cell(book.overhead(class.item, metric).as_ref())) }
            } } }
        } })) }
    }
}

/// Whether a run tells how far to trust it.
pub(super) fn measured(results: &Results) -> bool {
    results.noise.is_some() || !results.warm_up.is_empty() || !results.driver.is_empty()
}

/// What else the machine did, warm-up and the driver's share; nothing where none was measured.
pub(super) fn section(results: &Results) -> Markup {
    if !measured(results) {
        return html! {};
    }
    html! {
        section id="quality" {
            h2 { "How far to trust it" }
            @if let Some(found) = &results.noise { (noise(found)) }
            (driver(results))
            (warm_up(results))
        }
    }
}

/// What else the machine did, which stands under `noise` in every document.
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

fn driver(results: &Results) -> Markup {
    html! {
        @if !results.driver.is_empty() {
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
                tbody { @for found in each(&results.driver, "driver") { tr {
                    th scope="row" { (label(results, &found.item.class)) }
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

fn warm_up(results: &Results) -> Markup {
    html! {
        @if !results.warm_up.is_empty() {
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
                tbody { @for found in each(&results.warm_up, "warm_up") { tr {
                    th scope="row" { (label(results, &found.item.class)) }
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
