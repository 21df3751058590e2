//! The answer: the first part of the page.

use maud::{Markup, html};

use super::{ALERT, NOTICE, notices};
use crate::model::{Metric, ProbeKind, Results, Role};
use crate::piece::{As, Piece, all, each, number, text};
use crate::report::Report;
use crate::shown::{Shown, more};
use crate::verdict::{CONTROL, NOTHING, answers};

/// Title, verdict, and notices on its reliability.
pub(super) fn head(results: &Results) -> Markup {
    let answers = answers(results);
    html! {
        header {
            p class="subject" {
                "What encryption costs"
                @if !results.subject.label.is_empty() {
                    " · " (text("subject/label", &results.subject.label)) ", "
                    (number("subject/bytes", As::Bytes, results.subject.bytes))
                }
                " · " (text("started", &results.started))
            }
            @match answers.split_first() {
                Some((first, rest)) => {
                    h1 { (first) }
                    @for answer in rest { p class="answer" { (answer) } }
                },
                None => h1 { (NOTHING) },
            }
            @if results.control { p class=(NOTICE) { (Piece::from(CONTROL)) } }
            @if let Some((name, report)) = results.classes() { (facts(name, report)) }
            (notices(&results.incomplete, "incomplete", (ALERT, "Incomplete: ")))
            (notices(&results.warnings, "warnings", (NOTICE, "Note: ")))
        }
    }
}

/// CPU, and what encryption costs beside time, each in a box.
fn facts(name: &str, report: &Report) -> Markup {
    let side = report.sides.iter().find(|side| side.role == Role::Encrypted);
    let shown = Shown::of(name, report);
    let heads = [(Metric::Cpu, "CPU time"), (Metric::Instructions, "Instructions")];
    let heads = heads.into_iter().filter_map(|(metric, name)| {
        let found = shown.headline(side?, metric)?;
        Some((name, all![found.ratio(As::Percent), " ", found.ends(As::Percent).small()]))
    });
    let differences = each(&report.summary.differences, &shown.place("summary/differences"))
        .filter(|found| side.is_some_and(|side| found.item.side == side.id))
        .map(|found| (short(found.item.kind), more(&found)));
    let boxes: Vec<(&str, Piece)> = heads.chain(differences).collect();
    html! {
        @if !boxes.is_empty() { dl class="facts" {
            @for (name, value) in boxes { div { dt { (name) } dd { (value) } } }
        } }
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
