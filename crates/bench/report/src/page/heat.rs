//! The backup matrix as heat maps: one table for each source and target, a row for each cipher, a
//! column for each compression. Every cell holds its numbers; colour and frame only repeat them.

use maud::{Markup, html};

use crate::figures::{Comparison, Ratio};
use crate::index::compression_words;
use crate::layout::Of;
use crate::model::{Class, Metric, Role, Side};
use crate::piece::{As, Piece};
use crate::report::distinct;
use crate::shown::Shown;

/// Colour classes by the distance of a ratio from 0 %; none below the first.
const STEPS: [(f64, &str); 4] = [(0.30, "s4"), (0.10, "s3"), (0.03, "s2"), FAINT];
const FAINT: (f64, &str) = (0.01, "s1");

/// Returns the maps of backups, and of restores if they were run.
pub(super) fn maps(shown: &Shown<'_>) -> Markup {
    html! {
        p {
            "Each cell: what the cipher alone costs in elapsed time, against the same backup \
             without a cipher in the same block, and the mean time. "
            span class="swatch slower s4" {} " slower, "
            span class="swatch faster s4" {} " faster; a framed cell can be told from no cost, \
             ≈ marks one that cannot."
        }
        (of_action(shown, "backup"))
        @if shown.report.flag("restored") {
            details { summary { "Restores" } (of_action(shown, "restore")) }
        }
    }
}

fn of_action(shown: &Shown<'_>, action: &str) -> Markup {
    let of_action = || shown.report.cells.iter().filter(|cell| cell.axis("action") == action);
    let routes = of_action().map(|cell| ["source", "target"].map(|name| cell.axis(name)));
    let routes = distinct(routes, |route| *route);
    let cells = |route: [&str; 2]| -> Vec<&Class> {
        let fits = |cell: &&Class| ["source", "target"].map(|name| cell.axis(name)) == route;
        of_action().filter(fits).collect()
    };
    html! {
        div class="heats" { @for route in routes { (map(shown, action, route, &cells(route))) } }
    }
}

fn map(shown: &Shown<'_>, action: &str, [source, target]: [&str; 2], cells: &[&Class]) -> Markup {
    let title = match action {
        "backup" => format!("Backup from {source} to {target}"),
        _ => format!("Restore from {target} to {source}"),
    };
    let compressions = shown.report.along("compression");
    html! {
        table class="heat" {
            caption { (title) }
            thead { tr {
                td {}
                @for name in &compressions {
                    th scope="col" data-fixed { (compression_words(name)) }
                }
            } }
            tbody {
                @for side in shown.report.sides.iter().filter(|side| side.role != Role::Reference) {
                    tr {
                        th scope="row" data-fixed { (cipher_words(&side.label)) }
                        @for name in &compressions {
                            @match cells.iter().find(|cell| cell.axis("compression") == *name) {
                                Some(cell) => (square(shown, cell, side)),
                                None => td {},
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the displayed name of a cipher.
fn cipher_words(name: &str) -> &str {
    if name == "none" { "not encrypted" } else { name }
}

fn square(shown: &Shown<'_>, cell: &Class, side: &Side) -> Markup {
    let base = shown.report.base().map_or("", |base| base.id.as_str());
    let found = shown.comparison(&cell.id, Metric::Elapsed, (&side.id, base));
    let mean = shown.figure(&cell.id, &side.id, Metric::Elapsed, Of::Mean);
    let mean = if mean == Piece::Nothing { "not run".into() } else { mean };
    html! {
        td class=(shade(found.as_ref().map(|found| found.item))) {
            @match (side.role, &found) {
                (Role::Base, _) => "base",
                (_, Some(found)) => {
                    @if found.item.sure().is_none() { "≈ " }
                    (found.ratio(As::Percent))
                },
                (_, None) => "–",
            }
            br;
            (mean.small())
        }
    }
}

/// Direction and strength of the colour, and a frame if the cost can be distinguished from 0 %.
fn shade(found: Option<&Comparison>) -> String {
    let Some(found) = found else { return "none".to_owned() };
    let direction = if found.ratio > 1.0 { "slower" } else { "faster" };
    let frame = if found.sure().is_some() { " certain" } else { "" };
    format!("{direction} {}{frame}", strength(found))
}

/// A cost that cannot be distinguished from 0 % gets the faintest shade.
fn strength(found: &Comparison) -> &'static str {
    let size = found.ratio.ln().abs();
    if found.sure().is_none() && size >= FAINT.0 {
        return FAINT.1;
    }
    STEPS.iter().find(|(least, _)| size >= *least).map_or("s0", |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use crate::format::percent;

    /// Returns the texts of the cells, without the part below the break.
    fn values(page: &str) -> Vec<String> {
        page.split("<td class=\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('>')?.1.split_once("<br>"))
            .map(|(value, _)| {
                value
                    .split('<')
                    .map(|part| part.split_once('>').map_or(part, |(_, text)| text))
                    .collect::<String>()
            })
            .collect()
    }

    /// Every cell's number is that of the summary, in order of the matrix.
    #[test]
    fn cells_hold_the_summarys_numbers() {
        let report = examples::backup();
        let shown = Shown::of("backup", &report);
        let page = of_action(&shown, "backup").into_string();
        let mut expected = Vec::new();
        for target in ["disk", "memory"] {
            for side in ["none", "AES_256"] {
                for compression in ["none", "zstd"] {
                    let cell = format!("backup/{compression}/disk/{target}");
                    let found = report.summary.comparison(&cell, Metric::Elapsed, side, "none");
                    expected
                        .push(found.map_or_else(|| "base".to_owned(), |one| percent(one.ratio)));
                }
            }
        }
        assert_eq!(values(&page), expected);
        assert!(expected.contains(&"+10.0 %".to_owned()), "{expected:?}");
        assert!(page.contains("<caption>Backup from disk to memory</caption>"));
    }

    #[test]
    fn colour_grows_with_the_cost_and_has_a_direction() {
        let mut found = examples::backup().summary.comparisons.remove(0);
        (found.low, found.high) = (Some(1.001), Some(12.0));
        let mut at = |ratio| {
            found.ratio = ratio;
            shade(Some(&found))
        };
        assert_eq!(at(1.005), "slower s0 certain");
        assert_eq!(at(1.05), "slower s2 certain");
        assert_eq!(at(11.0), "slower s4 certain");
        assert_eq!(at(0.8), "faster s3 certain");
        assert_eq!(shade(None), "none");
        (found.low, found.high) = (Some(0.5), Some(2.0));
        assert_eq!(shade(Some(&found)), "faster s1");
    }

    #[test]
    fn what_cannot_be_told_from_zero_is_marked_without_colour() {
        let mut report = examples::backup();
        for found in &mut report.summary.comparisons {
            (found.low, found.high) = (Some(0.9), Some(1.4));
        }
        let page = maps(&Shown::of("backup", &report)).into_string();
        assert!(values(&page).contains(&"≈ +10.0 %".to_owned()) && !page.contains("certain"));
        assert!(page.contains("Restore from memory to disk"));
    }

    #[test]
    fn an_empty_matrix_is_still_shown() {
        let mut report = examples::backup();
        report.runs.clear();
        examples::summarize(&mut report);
        assert!(maps(&Shown::of("backup", &report)).into_string().contains("not run"));
    }
}
