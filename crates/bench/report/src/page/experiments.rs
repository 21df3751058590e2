//! A section for each experiment that compares sides: its source, its figures, the command to
//! repeat it.

use maud::{Markup, html};

use super::book::Book;
use super::documents::provenance;
use super::{folded, overhead, statements};
use crate::piece::{As, Found};

/// A section, in the order of the page.
struct Section {
    /// Its name, and the prefix of the identifiers of its classes.
    name: &'static str,
    heading: &'static str,
    /// Description of the measurement.
    here: &'static str,
    /// The same on a SQL Server; empty if it does not run there.
    there: &'static str,
    /// Title of the table of overheads.
    table: &'static str,
}

const SECTIONS: [Section; 5] = [
    Section {
        name: "script",
        heading: "Your statements",
        here: "statements of your own, in the order of your script; ",
        there: "",
        table: "Overhead of your statements",
    },
    Section {
        name: "crud",
        heading: "CRUD mixes",
        here: " processes, the source's tables and indexes, no think time; ",
        there: " connections, the source's tables and indexes, stored procedures that read the \
                control table first; ",
        table: "Overhead of the mixes: reads/updates/inserts",
    },
    Section {
        name: "operations",
        heading: "Operations of a DBA",
        here: "statements derived from the database's own tables and indexes; SQLite's cache \
               emptied before each, in the cold classes the system's too; each measured alone with \
               its commit and undone off the clock; ",
        there: "statements on the source's tables, each with its commit, in the cold classes after \
                CHECKPOINT and DBCC DROPCLEANBUFFERS; by the server's own counters; what they \
                change is undone off the clock; ",
        table: "Overhead by type of statement",
    },
    Section {
        name: "scans",
        heading: "Scans and copies",
        here: "full reads and copies, where a cipher has the least else to hide behind; no \
               document measures them; ",
        there: "",
        table: "Overhead of scans and copies",
    },
    Section {
        name: "speedtest1",
        heading: "SQLite's speedtest1",
        here: "SQLite's own program, from its start to its end on a new database; no document \
               measures it; ",
        there: "",
        table: "Overhead of speedtest1 by journal and cache",
    },
];

/// Returns the sections of the experiments that ran.
pub(super) fn sections(book: &Book<'_>) -> Markup {
    html! { @for one in &SECTIONS { (section(book, one)) } }
}

fn section(book: &Book<'_>, one: &Section) -> Markup {
    let start = format!("{}/", one.name);
    let classes = book.shown.cells(&start);
    let settings = &book.results.settings;
    let found = Found::at("settings", settings);
    let here = html! {
        @if one.name == "crud" { (found.number("processes", As::Count, settings.processes)) }
        @if book.results.server.is_some() { (one.there) } @else { (one.here) }
        "interleaved pairs, in random order: " (book.measured(&classes)) " on fresh copies"
    };
    let sides = (book.side, book.base);
    let (main, rest): (Vec<_>, Vec<_>) = book
        .shown
        .layout
        .costs
        .iter()
        .partition(|metric| book.shown.layout.wanted.contains(metric));
    let table = book.shown.overheads(one.table, &classes, sides, &main);
    let title = format!("{}: other costs", one.heading);
    let parts = book.shown.overheads(&title, &classes, sides, &rest);
    html! {
        @if !classes.is_empty() {
            section id=(one.name) {
                h2 { (one.heading) }
                (table)
                @if !parts.columns().is_empty() {
                    details { summary { "Also: " (parts.columns()) } (parts) }
                }
                @if one.name == "operations" {
                    (statements::by_type(book))
                    (statements::derived(book))
                }
                (overhead::what(&classes))
                (provenance(book.results, one.name, &here))
            }
        }
    }
}

/// Returns reads and writes of every class.
pub(super) fn volumes(book: &Book<'_>) -> Markup {
    let inside = html! {
        p { (book.shown.layout.figures_note) }
        (book.shown.figures())
    };
    folded("volumes", "Reads and writes", &inside)
}
