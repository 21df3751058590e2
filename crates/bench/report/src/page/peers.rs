//! Other encrypting libraries beside ours, measured in the same run.

use maud::{Markup, html};

use super::book::Book;
use crate::model::{Class, Metric, Role, Side};
use crate::plot::{ChartError, Forest, Ink, Key, Line, Mark, forest};

/// Plot and table; nothing without peers.
///
/// # Errors
/// If the plot cannot be drawn.
pub(super) fn section(book: &Book<'_>) -> Result<Markup, ChartError> {
    let sides = &book.report.sides;
    let mut shown: Vec<&Side> = vec![book.side];
    shown.extend(sides.iter().filter(|side| side.role == Role::Peer));
    if shown.len() == 1 {
        return Ok(html! {});
    }
    let drawn = forest(&plot(book, &shown))?;
    let table =
        book.shown.side_by_side("Overhead of each encrypting library", &shown, Some(book.base));
    Ok(html! {
        section id="peers" {
            h2 { "Beside other encrypting libraries" }
            p {
                "Same run, same statements, same settings. Each library is held against itself \
                 without encryption, which leaves out how it was built."
            }
            h3 { "Elapsed time" }
            (drawn)
            (table)
        }
    })
}

fn plot(book: &Book<'_>, shown: &[&Side]) -> Forest {
    let drawn: Vec<(Ink, &Side)> = Ink::SIDES.into_iter().zip(shown.iter().copied()).collect();
    // A row is useful only if a peer was measured too.
    let row = |class: &Class| {
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
        title: "Elapsed overhead of each encrypting library by class; the table below holds the \
                numbers"
            .to_owned(),
        series: drawn.iter().map(|(ink, side)| Key::new(*ink, &side.label)).collect(),
        lines: book.report.cells.iter().filter_map(row).collect(),
    }
}
