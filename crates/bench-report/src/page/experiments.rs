//! A section for each experiment that compares sides: its document, its figures, how to repeat it.

use maud::{Markup, html};

use super::book::Book;
use super::cell::{As, Found, number, text};
use super::documents::{MIXES, OPERATIONS, beside, provenance};
use super::{overhead, statements};
use crate::model::{Class, Totals};

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

/// Reads and writes of every class.
pub(super) fn volumes(book: &Book<'_>) -> Markup {
    let name = "Reads and writes of a block, medians";
    let value = |at: &str, field: &str, kind, value| number(&format!("{at}/{field}"), kind, value);
    let totals = &book.results.summary.totals;
    let switches = totals
        .iter()
        .any(|found| found.voluntary_switches > 0.0 || found.involuntary_switches > 0.0);
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
                        th scope="colgroup" colspan="2" { "Pages read" }
                        th scope="colgroup" colspan="2" { "Pages written" }
                        th scope="colgroup" colspan="2" { "Read from the device" }
                        th scope="colgroup" colspan="2" { "Written to the device" }
                        @if switches {
                            th scope="colgroup" colspan="2" { "Context switches, waiting" }
                            th scope="colgroup" colspan="2" { "Context switches, forced" }
                        }
                    }
                    tr { @for _ in 0..(if switches { 6 } else { 4 }) {
                        th scope="col" { "plain" }
                        th scope="col" { "encrypted" }
                    } }
                }
                tbody { @for class in book.classes("") {
                    @let sides = [book.base, book.side].map(|side| book.totals(class.item, side));
                    @if let [Some(plain), Some(sealed)] = &sides { tr {
                        th scope="row" {
                            (text(&format!("{}/label", class.at), &class.item.label))
                        }
                        @for found in [plain, sealed] { td {
                            (value(&found.at, "logical_reads", As::Count, found.item.logical_reads))
                        } }
                        @for found in [plain, sealed] { td {
                            (value(
                                &found.at, "logical_writes", As::Count, found.item.logical_writes))
                        } }
                        @for found in [plain, sealed] { td {
                            (value(
                                &found.at,
                                "device_read_bytes",
                                As::Bytes,
                                found.item.device_read_bytes,
                            ))
                        } }
                        @for found in [plain, sealed] { td {
                            (value(
                                &found.at,
                                "device_write_bytes",
                                As::Bytes,
                                found.item.device_write_bytes,
                            ))
                        } }
                        @if switches { (switched(plain, sealed)) }
                    } }
                } }
            } }))
        }
    }
}

/// Context switches of both kinds, plain and encrypted.
fn switched(plain: &Found<'_, Totals>, sealed: &Found<'_, Totals>) -> Markup {
    html! {
        @for found in [plain, sealed] { td { (number(
            &format!("{}/voluntary_switches", found.at),
            As::Count,
            found.item.voluntary_switches,
        )) } }
        @for found in [plain, sealed] { td { (number(
            &format!("{}/involuntary_switches", found.at),
            As::Count,
            found.item.involuntary_switches,
        )) } }
    }
}
