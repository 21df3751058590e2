//! Other algorithms, libraries and ways to encrypt beside ours, measured in the same run.

use maud::{Markup, html};

use super::book::Book;
use crate::model::{Class, Metric, Role, Side};
use crate::plot::{ChartError, Forest, Ink, Key, Line, Mark, forest};
use crate::table::Table;

/// Plot and tables; nothing without peers.
///
/// # Errors
/// If the plot cannot be drawn.
pub(super) fn section(book: &Book<'_>) -> Result<Markup, ChartError> {
    let beside = |side: &&Side| side.role == Role::Peer || book.report.is_further(&side.id);
    let beside = book.report.sides.iter().filter(beside);
    let shown: Vec<&Side> = std::iter::once(book.side).chain(beside).collect();
    if shown.len() == 1 {
        return Ok(html! {});
    }
    let glance = book.glance();
    let all: Vec<&Class> = book.report.cells.iter().collect();
    let own: Vec<&Side> = shown.iter().copied().filter(|side| side.plain.is_some()).collect();
    let table = |title: &str, sides: &[&Side], metric, base| {
        book.shown.side_by_side(title.to_owned(), (&all, sides), (metric, base))
    };
    let tables: Vec<Table> = [
        table("Elapsed time, each against its own plain side", &shown, Metric::Elapsed, None),
        table("CPU, each against its own plain side", &shown, Metric::Cpu, None),
        table("Elapsed time against the base", &own, Metric::Elapsed, Some(book.base)),
    ]
    .into_iter()
    .filter_map(Table::filled)
    .collect();
    let drawn = forest(&plot(book, &glance, &shown))?;
    Ok(html! {
        section id="peers" {
            h2 { "Beside other ways to encrypt" }
            p {
                "Same run, same statements, same settings; elapsed time. Each library is held \
                 against itself without encryption, which leaves out how it was built; a directory \
                 that is encrypted another way against an ordinary one. The axis is logarithmic."
            }
            (drawn)
            details {
                summary { "Every class, CPU, and each against the base" }
                @for table in &tables { h3 { (table.title) } (table) }
            }
        }
    })
}

fn plot(book: &Book<'_>, classes: &[&Class], shown: &[&Side]) -> Forest {
    let drawn: Vec<(Ink, &Side)> = Ink::SIDES.into_iter().zip(shown.iter().copied()).collect();
    // A row is useful only if a peer was measured too.
    let row = |class: &&Class| {
        let mark = |side: &Side| {
            let pair = (side.id.as_str(), book.report.plain(side)?.id.as_str());
            let found = book.shown.comparison(&class.id, Metric::Elapsed, pair)?;
            Some(Mark::of(found.item))
        };
        let marks: Vec<_> = drawn.iter().map(|(_, side)| mark(side)).collect();
        let beside = marks.iter().skip(1).any(Option::is_some);
        beside.then(|| Line::Row(class.label.clone(), marks))
    };
    Forest {
        title: "Elapsed overhead of each way to encrypt by class; the tables below hold the \
                numbers"
            .to_owned(),
        series: drawn.iter().map(|(ink, side)| Key::new(*ink, &side.label)).collect(),
        lines: classes.iter().filter_map(row).collect(),
    }
}
