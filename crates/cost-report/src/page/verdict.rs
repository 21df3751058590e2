//! The answer: what stands first on the page.

use maud::{Markup, html};

use super::cell::{As, Found, each, float, number, text};
use super::circumstances::more;
use crate::model::{Difference, ProbeKind, Results, Role};
use crate::summary::verdict;

/// Title, verdict, and what a reader should know before trusting it.
pub(super) fn head(results: &Results) -> Markup {
    let sentences = verdict(results);
    html! {
        header {
            p class="subject" {
                "What encryption costs · " (text("subject/label", &results.subject.label)) ", "
                (number("subject/bytes", As::Bytes, float(results.subject.bytes))) " · "
                (text("started", &results.started))
            }
            @match sentences.split_first() {
                Some((first, rest)) => {
                    h1 data-fixed { (first) }
                    @for line in rest { p class="answer" data-fixed { (line) } }
                },
                None => h1 { "Nothing was compared" },
            }
            (facts(results))
            @for reason in each(&results.incomplete, "incomplete") {
                p class="notice alert" {
                    strong { "Incomplete: " } (text(&reason.at, reason.item))
                }
            }
            @for warning in each(&results.warnings, "warnings") {
                p class="notice" { strong { "Note: " } (text(&warning.at, warning.item)) }
            }
        }
    }
}

/// What encryption adds beside time, each in a box.
fn facts(results: &Results) -> Markup {
    let ours = results.sides.iter().find(|side| side.role == Role::Encrypted);
    let found: Vec<Found<'_, Difference>> =
        each(&results.summary.differences, "summary/differences")
            .filter(|found| ours.is_some_and(|side| side.id == found.item.side))
            .collect();
    html! {
        @if !found.is_empty() { dl class="facts" { @for found in &found { div {
            dt { (short(found.item.kind)) }
            dd { (more(found)) }
        } } } }
    }
}

fn short(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::OpenOther => "Opening a database",
        ProbeKind::OpenAgain => "Opening it again",
        ProbeKind::ProcessMemory => "Memory of a process",
        ProbeKind::FileBytes => "File size",
    }
}
