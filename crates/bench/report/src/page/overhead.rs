//! Overheads: the chart at the top, and the plot of all classes in a fold.

use maud::{Markup, html};

use super::book::Book;
use crate::headline::GROUPS;
use crate::model::{Class, Metric};
use crate::piece::{As, Found, number};
use crate::plot::{ChartError, Forest, Ink, Key, Line, Mark, forest};

/// The forest plot of the most important classes, and that of every class.
///
/// # Errors
/// If a plot cannot be drawn.
pub(super) fn section(book: &Book<'_>) -> Result<Markup, ChartError> {
    let glance = book.glance();
    let all: Vec<&Class> = book.report.cells.iter().collect();
    let first = plot(book, &glance)?;
    let rest = if glance.len() < all.len() { Some(plot(book, &all)?) } else { None };
    let confidence = book.results.settings.confidence_permille;
    Ok(html! {
        section id="overhead" class="first" {
            h2 { "Overhead at a glance" }
            (first)
            p class="quiet" {
                (book.shown.side(&book.side.id)) " against " (book.shown.side(&book.base.id))
                "; to the right is slower. The axis is logarithmic: equal distances are equal \
                 factors. A line is the interval that holds the true value in "
                (number("settings/confidence_permille", As::Permille, confidence))
                " of runs; where it crosses zero, no difference can be seen."
            }
            @if let Some(rest) = rest { details { summary { "Every class" } (rest) } }
        }
    })
}

fn plot(book: &Book<'_>, classes: &[&Class]) -> Result<Markup, ChartError> {
    let mut lines = Vec::new();
    for (name, fits) in GROUPS {
        let own: Vec<&&Class> = classes.iter().filter(|class| fits(class)).collect();
        if !own.is_empty() {
            lines.push(Line::Heading(name.to_owned()));
        }
        lines.extend(own.into_iter().map(|class| {
            let mark = |metric| book.overhead(class, metric).map(|found| Mark::of(found.item));
            Line::Row(short(&class.label), vec![mark(Metric::Elapsed), mark(Metric::Cpu)])
        }));
    }
    forest(&Forest {
        title: format!(
            "Overhead of {} over {} by class, with intervals; the tables below hold the numbers",
            book.side.label, book.base.label
        ),
        series: vec![Key::new(Ink::One, "elapsed time"), Key::new(Ink::Two, "CPU time")],
        lines,
    })
}

/// Removes from a label the words of its group.
fn short(label: &str) -> String {
    label.trim_end_matches(", warm").trim_end_matches(", cold").to_owned()
}

/// Returns the work of each class, in words.
pub(super) fn what(classes: &[Found<'_, Class>]) -> Markup {
    html! {
        details {
            summary { "What one block of each class does" }
            ul { @for class in classes { li {
                strong { (class.text("label", &class.item.label)) } ": "
                (class.text("what", &class.item.what))
            } } }
        }
    }
}
