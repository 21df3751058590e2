//! The server that ran the mixes and operations, and the method.

use maud::{Markup, html};

use crate::piece::{As, Piece, each, number, text};
use crate::report::Report;
use crate::results::Results;
use crate::shown::Shown;

/// Its circumstances, its sides, and the quantities that could not be measured.
pub(super) fn section(report: &Report) -> Markup {
    let shown = Shown::of("server", report);
    html! {
        section id="server" {
            h2 { "The server" }
            p { (Piece::parted(shown.facts(), "; ")) }
            ul class="sides" { @for side in shown.told() { li { (side) } } }
            @if report.others().next().is_none() {
                p class="quiet" { (shown.layout.figures_note) }
                (shown.figures())
            }
            @for limit in each(&report.limits, &shown.place("limits")) {
                p class="notice" { (text(&limit.at, limit.item)) }
            }
        }
    }
}

/// Computation of figures on a server.
pub(super) fn method(results: &Results) -> Markup {
    let settings = &results.settings;
    let by_script = results.server.as_ref().is_some_and(|report| report.flag("script"));
    html! {
        p {
            "Two databases of the run's own on one server, one of them encrypted. Each block of \
             work runs on both in random order, directly one after the other, never at the same \
             time. After some such rounds both databases are dropped and made anew, in random order"
            @if !by_script { ", with new connections" }
            ": a restart. The server itself goes on. "
            @if by_script {
                "All of it was a script in one session, whose order was drawn when it was written. "
            }
            "Planned were " (number("settings/pairs", As::Count, settings.pairs))
            " rounds in each of " (number("settings/restarts", As::Count, settings.restarts))
            " restarts; each section says what was measured."
        }
        p {
            "A ratio is the Hodges-Lehmann estimate of the paired log ratios within a restart, \
             averaged over restarts. Its interval is Student's t over the restarts."
        }
    }
}
