//! The section of an experiment that has sides of its own: its document, its charts, its tables.

use maud::{Markup, html};

use super::cell::{As, each, number, text};
use super::documents::{BACKUP, Document, MESSAGES, OLTP, provenance};
use super::{charts, heat, published};
use crate::layout::FACTS;
use crate::model::{Experiment, Results};
use crate::plot::ChartError;
use crate::report::{Fact, Report};
use crate::shown::Shown;

fn document(experiment: Experiment) -> &'static Document {
    match experiment {
        Experiment::Backup => &BACKUP,
        Experiment::Messages => &MESSAGES,
        _ => &OLTP,
    }
}

/// Charts, costs, and the figures of all sides. `name` is the report's place in the document.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn section(
    results: &Results,
    name: &str,
    report: &Report,
) -> Result<Markup, ChartError> {
    let shown = Shown::of(name, report);
    let (first, last) = match report.experiment {
        Experiment::Backup => (heat::maps(&shown), published::of_backups(&shown)),
        Experiment::Messages => (charts::of_messages(&shown)?, published::of_messages()),
        _ => (charts::by_threads(&shown)?, html! {}),
    };
    let layout = shown.layout;
    Ok(html! {
        section id=(name) {
            h2 { (layout.title) }
            (provenance(results, name, Some(document(report.experiment)), &here(&shown)))
            (first)
            @if let Some(table) = shown.pooled() {
                h3 { (layout.pooled_note) }
                (table.markup())
            }
            @for (table, reference) in shown.costs() {
                h3 data-fixed { (table.title) }
                @if reference {
                    p class="quiet" {
                        "Ours over theirs in the same pairs: a factor of one half is half of it."
                    }
                }
                (table.markup())
            }
            @if let Some(table) = shown.idle() {
                h3 { "Connections that wait" }
                (table.markup())
            }
            h3 { "Figures of every side" }
            details {
                summary { "Each cell on each side" }
                p class="quiet" { (layout.figures_note) }
                (shown.figures().markup())
            }
            (last)
            @for limit in each(&report.limits, &format!("{name}/limits")) {
                p class="notice" { (text(&limit.at, limit.item)) }
            }
        }
    })
}

/// The circumstances, what every side was given, and what the sides tell of themselves.
fn here(shown: &Shown<'_>) -> Markup {
    let facts = |facts: &crate::report::Facts, at: &str| -> Vec<Markup> {
        let known = FACTS.iter().filter_map(|info| Some((info, facts.get(info.name)?)));
        known
            .map(|(info, fact)| {
                let at = format!("{at}/{}", info.name);
                html! { (info.words) " " @match fact {
                    Fact::Flag(flag) => @if *flag { "yes" } @else { "no" },
                    Fact::Number(value) => (number(&at, info.shown, *value)),
                    Fact::Text(words) => (text(&at, words)),
                } }
            })
            .collect()
    };
    let report = shown.report;
    let mut all = facts(&report.facts, &format!("{}/facts", shown.at));
    all.extend(report.settings.iter().map(|(name, value)| {
        let at = format!("{}/settings/{name}", shown.at);
        html! { span data-fixed { (name) } "=" (text(&at, value)) }
    }));
    for side in shown.sides() {
        let mut own = facts(&side.item.facts, &format!("{}/facts", side.at));
        if let Some(cipher) = &side.item.cipher {
            own.insert(0, text(&format!("{}/cipher", side.at), cipher));
        }
        if !own.is_empty() {
            let label = text(&format!("{}/label", side.at), &side.item.label);
            all.push(html! { (label) ": " (parted(&own, ", ")) });
        }
    }
    parted(&all, "; ")
}

fn parted(parts: &[Markup], by: &str) -> Markup {
    html! { @for (index, part) in parts.iter().enumerate() { @if index > 0 { (by) } (part) } }
}

/// How backups are measured.
pub(super) fn backup_method(report: &Report) -> Markup {
    html! {
        p {
            "Backups: a block runs the whole matrix once. Sources, targets and compressions follow \
             one another in random order, and within each the ciphers do, directly one after the \
             other. A run is a process of its own until its output is on the device (fdatasync). A \
             cipher's cost is the ratio to the run without a cipher of the same compression, \
             source and target in the same block; its interval is Student's t over the blocks. "
            (number("backup/facts/restarts", As::Count, report.number("restarts")))
            " blocks were planned. Costs over all sources and targets are first put together \
             within a block (Hodges-Lehmann), since a block's runs share its time."
        }
    }
}
