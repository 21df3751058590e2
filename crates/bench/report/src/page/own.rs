//! The section of an experiment with its own sides: its source, its charts, its tables.

use maud::{Markup, html};

use super::documents::provenance;
use super::{charts, heat, published};
use crate::model::Experiment;
use crate::piece::{As, Piece, each, number, text};
use crate::plot::ChartError;
use crate::report::Report;
use crate::results::Results;
use crate::shown::Shown;

/// Charts, costs, and the figures of all sides, without the heading. `name` is the report's place
/// in the document.
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
        Experiment::Replicate => (html! {}, html! {}),
        _ => (charts::by_threads(&shown)?, html! {}),
    };
    let layout = shown.layout;
    // For backups, every cipher is a side, in a separate table.
    let of_peers = report.experiment == Experiment::Oltp;
    let peers = if of_peers { shown.peers() } else { Vec::new() };
    let here = Piece::parted(shown.facts().into_iter().chain(shown.told()).collect(), "; ");
    let mut figures = shown.figures();
    figures.title = format!("{}: figures of every side", layout.title);
    Ok(html! {
        (first)
        @if let Some(table) = shown.pooled() {
            h3 { (layout.pooled_note) }
            (table)
        }
        @if let Some(table) = shown.idle() {
            h3 { "Connections that wait" }
            (table)
        }
        (last)
        @for table in &peers { details { summary data-fixed { (table.title) } (table) } }
        @for (table, reference) in shown.costs() {
            details {
                summary data-fixed { "Every cell: " (table.title) }
                @if reference {
                    p class="quiet" {
                        "Ours over theirs in the same pairs: a factor of one half is half of \
                         it."
                    }
                }
                (table)
            }
        }
        details {
            summary { "Figures of every side" }
            p class="quiet" { (layout.figures_note) }
            (figures)
        }
        @if !report.limits.is_empty() { details {
            summary { "What could not be measured, or less exactly" }
            @for limit in each(&report.limits, &shown.place("limits")) {
                p class="notice" { (text(&limit.at, limit.item)) }
            }
        } }
        (provenance(results, name, &here))
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
