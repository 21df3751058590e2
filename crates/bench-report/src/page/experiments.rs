//! A section for each experiment that compares sides: its document, its figures, how to repeat it.

use maud::{Markup, html};

use super::book::Book;
use super::cell::{As, Found, number};
use super::documents::{MIXES, OPERATIONS, beside, provenance};
use super::{overhead, statements};
use crate::model::Class;

/// Sections of the experiments that were run.
pub(super) fn sections(book: &Book<'_>) -> Markup {
    let classes = |start: &str| book.shown.cells(start);
    html! {
        @if !classes("script/").is_empty() { (script(book, &classes("script/"))) }
        @if !classes("crud/").is_empty() { (crud(book, &classes("crud/"))) }
        @if !classes("operations/").is_empty() { (operations(book, &classes("operations/"))) }
        @if !classes("scans/").is_empty() { (scans(book, &classes("scans/"))) }
    }
}

/// How often and in which order blocks ran, the same for all classes.
fn pairs(book: &Book<'_>) -> Markup {
    let settings = &book.results.settings;
    html! {
        (number("settings/pairs", As::Count, f64::from(settings.pairs)))
        " interleaved pairs in each of "
        (number("settings/restarts", As::Count, f64::from(settings.restarts)))
        " restarts on fresh copies, in random order"
    }
}

/// Overheads of some classes, and the time of one operation.
fn table(book: &Book<'_>, title: &str, classes: &[Found<'_, Class>]) -> Markup {
    let metrics = book.shown.layout.costs;
    book.shown.overheads(title, classes, (book.side, book.base), metrics).markup()
}

fn script(book: &Book<'_>, classes: &[Found<'_, Class>]) -> Markup {
    let here = html! { "statements of your own, in the order of your script; " (pairs(book)) };
    html! {
        section id="script" {
            h2 { "Your statements" }
            (provenance(book.results, "script", None, &here))
            (table(book, "Overhead of your statements", classes))
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
            (table(book, "Overhead of the mixes: reads/updates/inserts", classes))
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
            (table(book, "Overhead by type of statement", classes))
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
            (table(book, "Overhead of scans and copies", classes))
            (overhead::what(classes))
        }
    }
}

/// Reads and writes of every class.
pub(super) fn volumes(book: &Book<'_>) -> Markup {
    html! {
        section id="volumes" {
            h2 { "Reads and writes" }
            p { (book.shown.layout.figures_note) }
            (book.shown.figures().markup())
        }
    }
}
