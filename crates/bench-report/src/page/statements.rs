//! Statements of the operations: by type, laid out as the source's table, and each derived one.

use maud::{Markup, html};

use super::book::Book;
use super::cell::{As, Found, each, number, ratio_cell, text, wide};
use crate::model::{Class, Metric};

/// CPU, reads, writes and duration as the document prints them.
struct Row {
    operation: &'static str,
    encrypted: [&'static str; 4],
    plain: [&'static str; 4],
}

/// The source's tables. Statement durations have no unit there that fits their size.
const DOCUMENT: [Row; 7] = [
    Row {
        operation: "SELECT",
        encrypted: ["7390 ms", "121,576", "18", "26,037,103"],
        plain: ["3062 ms", "121,397", "1", "23,409,175"],
    },
    Row {
        operation: "INSERT",
        encrypted: ["125 ms", "784", "16", "1,509,177"],
        plain: ["32 ms", "798", "16", "1,254,881"],
    },
    Row {
        operation: "UPDATE",
        encrypted: ["500 ms", "2181", "31", "1,376,947"],
        plain: ["108 ms", "2215", "24", "1,080,074"],
    },
    Row {
        operation: "DELETE",
        encrypted: ["502 ms", "2380", "30", "1,271,479"],
        plain: ["63 ms", "2417", "29", "708,979"],
    },
    Row {
        operation: "rebuild of every index",
        encrypted: ["14,936 ms", "347,345", "46,028", "21,898 ms"],
        plain: ["7420 ms", "347,116", "46,190", "17,133 ms"],
    },
    Row {
        operation: "full backup, compressed",
        encrypted: ["234 ms", "319", "14", "57,264 ms"],
        plain: ["195 ms", "298", "13", "51,632 ms"],
    },
    Row {
        operation: "full backup, not compressed",
        encrypted: ["203 ms", "319", "14", "70,384 ms"],
        plain: ["171 ms", "300", "13", "55,714 ms"],
    },
];

/// The source's columns.
const COLUMNS: [Metric; 4] =
    [Metric::Cpu, Metric::PagesRead, Metric::PagesWritten, Metric::Elapsed];

/// The source's table, with ours above it.
pub(super) fn by_type(book: &Book<'_>) -> Markup {
    let name = "CPU, reads, writes and duration by type of statement, as the source's table";
    let classes = book.shown.cells("operations/");
    let of =
        |end: &str| classes.iter().filter(|class| class.item.id.ends_with(end)).collect::<Vec<_>>();
    html! {
        h3 { "As the source's table" }
        p class="quiet" {
            "Medians of a block here; reads and writes are pages. The source does not say in \
             which unit the durations of its statements are."
        }
        (wide(name, &html! { table class="document" {
            thead {
                tr {
                    th scope="col" rowspan="2" { "Statement" }
                    th scope="colgroup" colspan="4" { "Encrypted" }
                    th scope="colgroup" colspan="4" { "Plain" }
                }
                tr { @for _ in 0..2 { @for column in ["CPU", "Reads", "Writes", "Duration"] {
                    th scope="col" { (column) }
                } } }
            }
            @for (heading, classes) in
                [("Here, cold files", of("/cold")), ("Here, warm files", of("/warm"))]
            {
                @if !classes.is_empty() { tbody {
                    tr { th colspan="9" scope="rowgroup" { (heading) } }
                    @for class in classes { tr {
                        th scope="row" {
                            (text(&format!("{}/label", class.at), &class.item.label))
                        }
                        @for side in [book.side, book.base] { @for metric in COLUMNS {
                            (book.median(class.item, side, metric))
                        } }
                    } }
                } }
            }
            tbody data-fixed {
                tr { th colspan="9" scope="rowgroup" { "The source, SQL Server 2008" } }
                @for row in &DOCUMENT { tr {
                    th scope="row" { (row.operation) }
                    @for value in row.encrypted.iter().chain(&row.plain) { td { (value) } }
                } }
            }
        } }))
    }
}

/// Every derived statement with its overhead.
pub(super) fn derived(book: &Book<'_>) -> Markup {
    let (results, statements) = (book.results, &book.report.statements);
    if statements.is_empty() {
        return html! {};
    }
    let pair = (book.side.id.as_str(), book.base.id.as_str());
    let classes = |operation: &str| -> Vec<Found<'_, Class>> {
        book.shown.cells(&format!("operations/{operation}/"))
    };
    html! {
        h3 { "Derived statements" }
        @for note in each(&results.subject.notes, "subject/notes") {
            p { (text(&note.at, note.item)) }
        }
        details {
            summary { "Each statement with its overhead" }
            (wide("Derived statements", &html! { table class="statements" {
                thead { tr {
                    th scope="col" { "Statement" }
                    th scope="col" { "Value sets" }
                    th scope="col" { "Class" }
                    th scope="col" { "Elapsed" }
                    th scope="col" { "CPU" }
                } }
                tbody { @for statement in each(statements, "embedded/statements") {
                    @let item = statement.item;
                    @let words = |field: &str, words: &str| {
                        text(&format!("{}/{field}", statement.at), words)
                    };
                    @for class in classes(&item.operation) { tr {
                        th scope="row" {
                            (words("operation", &item.operation)) ", " (words("what", &item.what))
                            br;
                            code { (words("sql", &item.sql)) }
                        }
                        td { (number(
                            &format!("{}/variants", statement.at),
                            As::Count,
                            f64::from(item.variants),
                        )) }
                        td { (text(&format!("{}/label", class.at), &class.item.label)) }
                        @for metric in [Metric::Elapsed, Metric::Cpu] {
                            @let of = (class.item.id.as_str(), Some(item.index));
                            (ratio_cell(book.shown.statement(of, metric, pair).as_ref()))
                        }
                    } }
                } }
            } }))
        }
    }
}
