//! A section for each experiment that compares sides: its document, its figures, how to repeat it.

use maud::{Markup, html};

use super::book::Book;
use super::cell::{As, Found, number, text};
use super::documents::{MIXES, OPERATIONS, beside, provenance};
use super::{overhead, statements};
use crate::model::{Class, Metric};

/// Sections of the experiments that were run.
pub(super) fn sections(book: &Book<'_>) -> Markup {
    let classes = |start: &str| book.classes(start);
    html! {
        @if !classes("script/").is_empty() { (script(book, &classes("script/"))) }
        @if !classes("crud/").is_empty() { (crud(book, &classes("crud/"))) }
        @if !classes("operations/").is_empty() { (operations(book, &classes("operations/"))) }
        @if !classes("scans/").is_empty() { (scans(book, &classes("scans/"))) }
    }
}

/// What every experiment of this kind does the same.
fn pairs(book: &Book<'_>) -> Markup {
    let settings = &book.results.settings;
    html! {
        (number("settings/pairs", As::Count, f64::from(settings.pairs)))
        " interleaved pairs in each of "
        (number("settings/restarts", As::Count, f64::from(settings.restarts)))
        " restarts on fresh copies, in random order"
    }
}

fn script(book: &Book<'_>, classes: &[Found<'_, Class>]) -> Markup {
    let here = html! { "statements of your own, in the order of your script; " (pairs(book)) };
    html! {
        section id="script" {
            h2 { "Your statements" }
            (provenance(book.results, "script", None, &here))
            (overhead::table(book, "Overhead of your statements", classes))
            (overhead::what(classes))
        }
    }
}

fn crud(book: &Book<'_>, classes: &[Found<'_, Class>]) -> Markup {
    let settings = &book.results.settings;
    let here = html! {
        (number("settings/processes", As::Count, f64::from(settings.processes)))
        " processes, the source's tables and indexes, no think time; " (pairs(book))
    };
    html! {
        section id="crud" {
            h2 { "CRUD mixes" }
            (provenance(book.results, "crud", Some(&MIXES), &here))
            (overhead::table(book, "Overhead of the mixes: reads/updates/inserts", classes))
            (beside(book, "crud/"))
            (overhead::what(classes))
        }
    }
}

fn operations(book: &Book<'_>, classes: &[Found<'_, Class>]) -> Markup {
    let here = html! {
        "statements derived from the database's own tables and indexes; SQLite's cache emptied \
         before each, in the cold classes the system's too; each measured alone with its commit \
         and undone off the clock; " (pairs(book))
    };
    html! {
        section id="operations" {
            h2 { "Operations of a DBA" }
            (provenance(book.results, "operations", Some(&OPERATIONS), &here))
            (overhead::table(book, "Overhead by type of statement", classes))
            (statements::by_type(book))
            (beside(book, "operations/"))
            (statements::derived(book))
            (overhead::what(classes))
        }
    }
}

fn scans(book: &Book<'_>, classes: &[Found<'_, Class>]) -> Markup {
    let here = html! {
        "full reads and copies, where a cipher has the least else to hide behind; no document \
         measures them; " (pairs(book))
    };
    html! {
        section id="scans" {
            h2 { "Scans and copies" }
            (provenance(book.results, "scans", None, &here))
            (overhead::table(book, "Overhead of scans and copies", classes))
            (overhead::what(classes))
        }
    }
}

/// Metrics of a block's reads and writes, and what they are called.
const VOLUMES: [(Metric, &str); 6] = [
    (Metric::PagesRead, "Pages read"),
    (Metric::PagesWritten, "Pages written"),
    (Metric::DeviceRead, "Read from the device"),
    (Metric::DeviceWrite, "Written to the device"),
    (Metric::VoluntarySwitches, "Context switches, waiting"),
    (Metric::InvoluntarySwitches, "Context switches, forced"),
];

/// Reads and writes of every class.
pub(super) fn volumes(book: &Book<'_>) -> Markup {
    let name = "Reads and writes of a block, medians";
    let totals = &book.results.summary.totals;
    let counted = |metric: Metric| {
        totals.iter().any(|found| found.median(metric) > 0.0) || !is_switch(metric)
    };
    let shown: Vec<_> = VOLUMES.into_iter().filter(|(metric, _)| counted(*metric)).collect();
    html! {
        section id="volumes" {
            h2 { "Reads and writes" }
            p {
                "Medians of a block. Pages are SQLite's own count (not found in its cache; \
                 written); device bytes are the kernel's, for the measured processes."
            }
            (super::cell::wide(name, &html! { table {
                thead {
                    tr {
                        th scope="col" rowspan="2" { "Class" }
                        @for (_, name) in &shown { th scope="colgroup" colspan="2" { (name) } }
                    }
                    tr { @for _ in &shown {
                        th scope="col" { "plain" }
                        th scope="col" { "encrypted" }
                    } }
                }
                tbody { @for class in book.classes("") {
                    @let measured = |side| {
                        book.figure(class.item, side, Metric::Elapsed).is_some()
                    };
                    @if measured(book.base) && measured(book.side) { tr {
                        th scope="row" {
                            (text(&format!("{}/label", class.at), &class.item.label))
                        }
                        @for (metric, _) in &shown { @for side in [book.base, book.side] {
                            (book.median(class.item, side, *metric))
                        } }
                    } }
                } }
            } }))
        }
    }
}

/// Documents of old do not know them.
fn is_switch(metric: Metric) -> bool {
    matches!(metric, Metric::VoluntarySwitches | Metric::InvoluntarySwitches)
}
