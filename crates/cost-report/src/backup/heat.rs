//! The matrix as heat maps in inline SVG: one map for each source and target, a row for each
//! cipher, a column for each compression. Every cell holds its number; the colour only repeats it.

use maud::{Markup, html};

use super::model::{
    Action, BackupMatrix, BackupMetric, BackupRatio, Cell, CellRole, cipher_words,
    compression_words,
};
use crate::format::{duration, interval, percent};

const LABEL_WIDTH: f64 = 128.0;
const COLUMN_WIDTH: f64 = 78.0;
const ROW_HEIGHT: f64 = 40.0;
const TOP: f64 = 24.0;
/// Space between cells.
const GAP: f64 = 3.0;

/// Shares of the colour by how far a ratio is from 0 %; below the first there is none.
const STEPS: [(f64, &str); 4] = [(0.30, "0.45"), (0.10, "0.32"), (0.03, "0.20"), FAINT];
const FAINT: (f64, &str) = (0.01, "0.10");

/// The maps of one action, where it was run.
pub(super) fn maps(matrix: &BackupMatrix, action: Action) -> Markup {
    html! {
        div class="heats" { @for route in matrix.routes() { (map(matrix, action, route)) } }
    }
}

fn map(matrix: &BackupMatrix, action: Action, route: (&str, &str)) -> Markup {
    let ciphers = matrix.ciphers();
    let compressions = matrix.compressions();
    let width = LABEL_WIDTH + COLUMN_WIDTH * index_f64(compressions.len());
    let height = TOP + ROW_HEIGHT * index_f64(ciphers.len());
    let title = match action {
        Action::Backup => format!("Backup from {} to {}", route.0, route.1),
        Action::Restore => format!("Restore from {} to {}", route.1, route.0),
    };
    html! {
        figure class="heat" {
            figcaption { (title) }
            svg role="img" aria-label=(words(matrix, action, route, &title))
                viewBox=(format!("0 0 {width} {height}"))
            {
                title { (title) }
                @for (column, compression) in compressions.iter().enumerate() {
                    text class="tick" x=(n(column_x(column) + COLUMN_WIDTH / 2.0))
                        y=(n(TOP - 8.0)) text-anchor="middle" { (compression_words(compression)) }
                }
                @for (row, cipher) in ciphers.iter().enumerate() {
                    text x=(n(LABEL_WIDTH - 8.0)) y=(n(row_y(row) + 24.0))
                        text-anchor="end" { (cipher_words(cipher)) }
                    @for (column, compression) in compressions.iter().enumerate() {
                        @if let Some(cell) = matrix.cell(cipher, compression, route) {
                            (square(matrix, action, cell, (column_x(column), row_y(row))))
                        }
                    }
                }
            }
        }
    }
}

fn square(matrix: &BackupMatrix, action: Action, cell: &Cell, at: (f64, f64)) -> Markup {
    let found = cost(matrix, cell, action);
    let (value, time) = numbers(matrix, cell, action);
    let middle = n(at.0 + COLUMN_WIDTH / 2.0);
    let certain = found.is_some_and(is_certain);
    html! {
        g class=(if certain { "certain" } else { "open" }) {
            title { (cell_words(matrix, cell, action)) }
            rect class=(tone(found)) fill-opacity=(share(found))
                x=(n(at.0 + GAP / 2.0)) y=(n(at.1 + GAP / 2.0)) rx="3"
                width=(n(COLUMN_WIDTH - GAP)) height=(n(ROW_HEIGHT - GAP)) {}
            text class="value" x=(middle) y=(n(at.1 + 18.0)) text-anchor="middle" { (value) }
            text class="tick" x=(middle) y=(n(at.1 + 33.0)) text-anchor="middle" { (time) }
        }
    }
}

/// What the cipher of a cell costs.
pub(super) fn cost<'a>(
    matrix: &'a BackupMatrix,
    cell: &Cell,
    action: Action,
) -> Option<&'a BackupRatio> {
    let base = matrix.base_of(cell)?;
    matrix.summary.ratio(&cell.id, &base.id, action, BackupMetric::Elapsed)
}

/// The two lines of a cell: the cost, with a mark where it cannot be told from 0 %, and the mean
/// time.
fn numbers(matrix: &BackupMatrix, cell: &Cell, action: Action) -> (String, String) {
    let value = match (cell.role, cost(matrix, cell, action)) {
        (CellRole::Base, _) => "base".to_owned(),
        (_, Some(found)) if is_certain(found) => percent(found.ratio),
        (_, Some(found)) => format!("≈ {}", percent(found.ratio)),
        (_, None) => "–".to_owned(),
    };
    let time = matrix
        .summary
        .cell(&cell.id, action)
        .map_or_else(|| "not run".to_owned(), |found| duration(found.avg_ns));
    (value, time)
}

/// Whether the interval leaves 0 % out.
fn is_certain(found: &BackupRatio) -> bool {
    found.low.is_some_and(|low| low > 1.0) || found.high.is_some_and(|high| high < 1.0)
}

fn tone(found: Option<&BackupRatio>) -> &'static str {
    match found {
        Some(found) if found.ratio > 1.0 => "slower",
        Some(_) => "faster",
        None => "plain",
    }
}

/// The colour's share; what cannot be told from 0 % gets the faintest.
fn share(found: Option<&BackupRatio>) -> &'static str {
    let Some(found) = found else { return "0" };
    let size = found.ratio.ln().abs();
    if !is_certain(found) && size >= FAINT.0 {
        return FAINT.1;
    }
    STEPS.iter().find(|(least, _)| size >= *least).map_or("0", |(_, share)| share)
}

fn cell_words(matrix: &BackupMatrix, cell: &Cell, action: Action) -> String {
    let (_, time) = numbers(matrix, cell, action);
    let cost = cost(matrix, cell, action).map_or_else(String::new, |found| {
        format!(", {} ({})", percent(found.ratio), interval(found.low, found.high))
    });
    format!(
        "{}, {}: {time}{cost}",
        compression_words(&cell.compression),
        cipher_words(&cell.cipher)
    )
}

/// The map for those who do not see it.
fn words(matrix: &BackupMatrix, action: Action, route: (&str, &str), title: &str) -> String {
    let mut text = format!("{title}: mean time, and cost of the cipher with its interval.");
    for cipher in matrix.ciphers() {
        for compression in matrix.compressions() {
            if let Some(cell) = matrix.cell(cipher, compression, route) {
                text.push(' ');
                text.push_str(&cell_words(matrix, cell, action));
                text.push('.');
            }
        }
    }
    text
}

fn column_x(column: usize) -> f64 {
    LABEL_WIDTH + COLUMN_WIDTH * index_f64(column)
}

fn row_y(row: usize) -> f64 {
    TOP + ROW_HEIGHT * index_f64(row)
}

fn n(value: f64) -> String {
    format!("{value:.1}")
}

fn index_f64(index: usize) -> f64 {
    f64::from(u32::try_from(index).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::matrix;
    use super::*;

    fn values(page: &str, class: &str) -> Vec<String> {
        page.split(&format!("<text class=\"{class}\""))
            .skip(1)
            .filter_map(|rest| rest.split_once('>')?.1.split_once('<').map(|(text, _)| text))
            .map(str::to_owned)
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
                            .map_or_else(|| "base".to_owned(), |found| percent(found.ratio)),
                    );
                }
            }
        }
        assert_eq!(values(&page, "value"), expected);
        assert!(expected.contains(&"+10.0 %".to_owned()), "{expected:?}");
        assert!(page.contains("role=\"img\""));
        assert!(page.contains("zstd, AES_256: 1.21 s, +10.0 % (+10.0 to +10.0)."));
    }

    #[test]
    fn colour_grows_with_the_cost_and_has_a_direction() {
        let mut found = matrix().summary.ratios.remove(0);
        let mut at = |ratio| {
            found.ratio = ratio;
            (tone(Some(&found)), share(Some(&found)))
        };
        assert_eq!(at(1.005), ("slower", "0"));
        assert_eq!(at(1.05), ("slower", "0.20"));
        assert_eq!(at(11.0), ("slower", "0.45"));
        assert_eq!(at(0.8), ("faster", "0.32"));
        assert_eq!((tone(None), share(None)), ("plain", "0"));
        (found.low, found.high) = (Some(0.5), Some(2.0));
        assert_eq!(share(Some(&found)), "0.10");
    }

    #[test]
    fn what_cannot_be_told_from_zero_is_marked_without_colour() {
        let mut matrix = matrix();
        for found in &mut matrix.summary.ratios {
            (found.low, found.high) = (Some(0.9), Some(1.4));
        }
        let page = maps(&matrix, Action::Restore).into_string();
        assert!(page.contains("≈ +10.0 %") && !page.contains("class=\"certain\""));
        assert!(page.contains("Restore from memory to disk"));
    }
}
