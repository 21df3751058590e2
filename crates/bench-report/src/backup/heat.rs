//! The matrix as heat maps: one table for each source and target, a row for each cipher, a column
//! for each compression. Every cell holds its numbers; colour and frame only repeat them.

use maud::{Markup, html};

use super::model::{Action, BackupMatrix, Cell, CellRole, cipher_words, compression_words};
use crate::model::{Comparison, Metric};
use crate::page::cell::{As, Found, find, number, ratio};

/// Classes of the colour by how far a ratio is from 0 %; below the first there is none.
const STEPS: [(f64, &str); 4] = [(0.30, "s4"), (0.10, "s3"), (0.03, "s2"), FAINT];
const FAINT: (f64, &str) = (0.01, "s1");

/// The maps of one action, where it was run.
pub(super) fn maps(matrix: &BackupMatrix, action: Action) -> Markup {
    html! {
        div class="heats" { @for route in matrix.routes() { (map(matrix, action, route)) } }
    }
}

fn map(matrix: &BackupMatrix, action: Action, route: (&str, &str)) -> Markup {
    let title = match action {
        Action::Backup => format!("Backup from {} to {}", route.0, route.1),
        Action::Restore => format!("Restore from {} to {}", route.1, route.0),
    };
    html! {
        table class="heat" {
            caption { (title) }
            thead { tr {
                td {}
                @for name in matrix.compressions() {
                    th scope="col" data-fixed { (compression_words(name)) }
                }
            } }
            tbody { @for cipher in matrix.ciphers() { tr {
                th scope="row" data-fixed { (cipher_words(cipher)) }
                @for compression in matrix.compressions() {
                    @match matrix.cell(cipher, compression, route) {
                        Some(cell) => (square(matrix, action, cell)),
                        None => td {},
                    }
                }
            } } }
        }
    }
}

fn square(matrix: &BackupMatrix, action: Action, cell: &Cell) -> Markup {
    let found = cost(matrix, cell, action);
    let time = find(&matrix.summary.cells, "backup/summary/cells", |time| {
        time.cell == cell.id && time.action == action
    });
    html! {
        td class=(shade(found.as_ref().map(|found| found.item))) {
            @match (cell.role, &found) {
                (CellRole::Base, _) => "base",
                (_, Some(found)) => {
                    @if !is_certain(found.item) { "≈ " }
                    (ratio(found, As::Percent))
                },
                (_, None) => "–",
            }
            br;
            small { @match time {
                Some(time) => {
                    (number(&format!("{}/avg_ns", time.at), As::Duration, time.item.avg_ns))
                },
                None => "not run",
            } }
        }
    }
}

/// What the cipher of a cell costs.
pub(super) fn cost<'a>(
    matrix: &'a BackupMatrix,
    cell: &Cell,
    action: Action,
) -> Option<Found<'a, Comparison>> {
    over_base(matrix, cell, action, Metric::Elapsed)
}

/// A cell over the one without a cipher that differs in nothing else.
pub(super) fn over_base<'a>(
    matrix: &'a BackupMatrix,
    cell: &Cell,
    action: Action,
    metric: Metric,
) -> Option<Found<'a, Comparison>> {
    let base = matrix.base_of(cell)?;
    find(&matrix.summary.ratios, "backup/summary/ratios", |found| {
        cell.is_over(base, action, metric, found)
    })
}

/// Whether the interval leaves 0 % out.
fn is_certain(found: &Comparison) -> bool {
    found.low.is_some_and(|low| low > 1.0) || found.high.is_some_and(|high| high < 1.0)
}

/// Direction and strength of the colour, and a frame for what can be told from 0 %.
fn shade(found: Option<&Comparison>) -> String {
    let Some(found) = found else { return "none".to_owned() };
    let direction = if found.ratio > 1.0 { "slower" } else { "faster" };
    let frame = if is_certain(found) { " certain" } else { "" };
    format!("{direction} {}{frame}", strength(found))
}

/// What cannot be told from 0 % gets the faintest.
fn strength(found: &Comparison) -> &'static str {
    let size = found.ratio.ln().abs();
    if !is_certain(found) && size >= FAINT.0 {
        return FAINT.1;
    }
    STEPS.iter().find(|(least, _)| size >= *least).map_or("s0", |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::matrix;
    use super::*;
    use crate::format::percent;

    /// Texts of the cells, without what stands below the break.
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
        let matrix = matrix();
        let page = maps(&matrix, Action::Backup).into_string();
        let mut expected = Vec::new();
        for route in matrix.routes() {
            for cipher in matrix.ciphers() {
                for compression in matrix.compressions() {
                    let cell = matrix.cell(cipher, compression, route).unwrap();
                    expected.push(
                        cost(&matrix, cell, Action::Backup)
                            .map_or_else(|| "base".to_owned(), |found| percent(found.item.ratio)),
                    );
                }
            }
        }
        assert_eq!(values(&page), expected);
        assert!(expected.contains(&"+10.0 %".to_owned()), "{expected:?}");
        assert!(page.contains("<caption>Backup from disk to memory</caption>"));
    }

    #[test]
    fn colour_grows_with_the_cost_and_has_a_direction() {
        let mut found = matrix().summary.ratios.remove(0);
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
        let mut matrix = matrix();
        for found in &mut matrix.summary.ratios {
            (found.low, found.high) = (Some(0.9), Some(1.4));
        }
        let page = maps(&matrix, Action::Restore).into_string();
        assert!(values(&page).contains(&"≈ +10.0 %".to_owned()) && !page.contains("certain"));
        assert!(page.contains("Restore from memory to disk"));
    }
}
