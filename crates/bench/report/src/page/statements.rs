//! Statements of the operations: by type, in the layout of the source's table, and each derived
//! one.

use maud::{Markup, html};

use super::book::Book;
use crate::layout::Of;
use crate::model::Metric;
use crate::piece::{As, Piece, all, each, text};
use crate::published::PUBLISHED;
use crate::table::{Table, wide};

/// The source's columns.
const COLUMNS: [Metric; 4] =
    [Metric::Cpu, Metric::PagesRead, Metric::PagesWritten, Metric::Elapsed];

/// The source's table, with ours above it.
pub(super) fn by_type(book: &Book<'_>) -> Markup {
    let name = "CPU, reads, writes and duration by type of statement, as the source's table";
    let published = &PUBLISHED.operations;
    let classes = book.shown.cells("operations/");
    let of =
        |end: &str| classes.iter().filter(|class| class.item.id.ends_with(end)).collect::<Vec<_>>();
    html! { details { summary { "CPU, reads, writes and duration, as the source's table" }
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
                        th scope="row" { (class.text("label", &class.item.label)) }
                        @for side in [book.side, book.base] { @for metric in COLUMNS {
                            td { (book.shown.figure(&class.item.id, &side.id, metric, Of::Median)) }
                        } }
                    } }
                } }
            }
            tbody data-fixed {
                tr { th colspan="9" scope="rowgroup" { "The source, SQL Server 2008" } }
                @for (operation, values) in published.iter().filter_map(|one| one.row()) { tr {
                    th scope="row" { (operation) }
                    @for value in values { td { (value) } }
                } }
            }
        } }))
    } }
}

/// Every derived statement with its overhead.
pub(super) fn derived(book: &Book<'_>) -> Markup {
    let pair = (book.side.id.as_str(), book.base.id.as_str());
    let mut rows = Vec::new();
    for statement in each(&book.report.statements, &book.shown.place("statements")) {
        let item = statement.item;
        let [operation, what] = [("operation", &item.operation), ("what", &item.what)]
            .map(|(field, words)| statement.text(field, words));
        let name = all![operation, ", ", what];
        let sql = Piece::Code(Box::new(statement.text("sql", &item.sql)));
        for class in book.shown.cells(&format!("operations/{}/", item.operation)) {
            let ratio = |metric| {
                let of = (class.item.id.as_str(), Some(item.index));
                let found = book.shown.statement(of, metric, pair);
                found.map_or(Piece::Nothing, |found| found.with_ends(As::Percent))
            };
            rows.push(vec![
                Piece::Lines(vec![name.clone(), sql.clone()]),
                statement.number("variants", As::Count, item.variants),
                class.text("label", &class.item.label),
                ratio(Metric::Elapsed),
                ratio(Metric::Cpu),
            ]);
        }
    }
    let head = ["Statement", "Value sets", "Class", "Elapsed", "CPU"];
    let mut table = Table::new("Derived statements", head, rows);
    table.class = Some("statements");
    html! {
        @if !book.report.statements.is_empty() {
            details {
                summary { "Each derived statement with its overhead" }
                @for note in each(&book.results.subject.notes, "subject/notes") {
                    p { (text(&note.at, note.item)) }
                }
                (table)
            }
        }
    }
}
