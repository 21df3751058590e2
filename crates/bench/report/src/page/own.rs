//! The section of an experiment with its own sides: its source, its charts, its tables.

use maud::{Markup, html};

use super::documents::provenance;
use super::{charts, heat, published};
use crate::model::{Experiment, Results};
use crate::piece::{As, Piece, each, number, text};
use crate::plot::ChartError;
use crate::report::Report;
use crate::shown::Shown;

/// Charts, costs, and the figures of all sides. `name` is the report's place in the document.
///
/// # Errors
/// If a chart cannot be drawn.
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
    // For backups, every cipher is a side, in a separate table.
    let peers = shown.peers().filter(|_| report.experiment == Experiment::Oltp);
    let here = Piece::parted(shown.facts().into_iter().chain(shown.told()).collect(), "; ");
    Ok(html! {
        section id=(name) {
            h2 { (layout.title) }
            (provenance(results, name, &here))
            (first)
            @if let Some(table) = shown.pooled() {
                h3 { (layout.pooled_note) }
                (table)
            }
            @if let Some(table) = peers {
                h3 { (table.title) }
                (table)
            }
            @for (table, reference) in shown.costs() {
                h3 data-fixed { (table.title) }
                @if reference {
                    p class="quiet" {
                        "Ours over theirs in the same pairs: a factor of one half is half of it."
                    }
                }
                (table)
            }
            @if let Some(table) = shown.idle() {
                h3 { "Connections that wait" }
                (table)
            }
            h3 { "Figures of every side" }
            details {
                summary { "Each cell on each side" }
                p class="quiet" { (layout.figures_note) }
                (shown.figures())
            }
            (last)
            @for limit in each(&report.limits, &shown.place("limits")) {
                p class="notice" { (text(&limit.at, limit.item)) }
            }
        }
    })
}

/// Returns the method of the measurement of backups.
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
