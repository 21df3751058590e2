//! Tables that fit the terminal: names are shortened in the middle, and the least important columns
//! are omitted.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Minimum assumed width of a terminal.
const MIN_WIDTH: usize = 80;
/// Minimum length of a shortened text.
const MIN_CUT: usize = 16;
/// Width of the gap between columns.
const GAP: usize = 2;

/// Treatment of a column if there is too little space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It stays unchanged.
    Keep,
    /// Its texts are shortened in the middle.
    Cut,
    /// It is omitted; the highest number first.
    Drop(u8),
    /// Its texts are shortened, and if that is not enough it is omitted.
    CutOrDrop(u8),
}

/// True to show all columns, whatever the terminal's width: `--wide`.
static WIDE: AtomicBool = AtomicBool::new(false);

/// Makes all tables show all columns.
pub fn show_all() {
    WIDE.store(true, Ordering::Relaxed);
}

/// Returns the width for tables: `COLUMNS`, or that of the terminal. `None` without either: the
/// reader of a pipe gets everything.
#[must_use]
pub fn room() -> Option<usize> {
    if WIDE.load(Ordering::Relaxed) {
        return None;
    }
    let named = env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<usize>().ok());
    let own = || {
        let out = io::stdout();
        let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(out).ok()).flatten()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    named.or_else(own).map(|width| width.max(MIN_WIDTH))
}

/// A fitted table: the remaining columns, by number, and its rows.
pub struct Fitted {
    /// The numbers of the remaining columns.
    pub columns: Vec<usize>,
    /// The cells of these columns.
    pub rows: Vec<Vec<String>>,
}

/// Fits a table of these columns into `room`.
#[must_use]
pub fn fit(header: &[(&str, Fit)], rows: &[Vec<String>], room: usize) -> Fitted {
    let mut columns: Vec<usize> = (0..header.len()).collect();
    loop {
        let widths: Vec<usize> = columns.iter().map(|at| width(header, rows, *at)).collect();
        let gaps = GAP * columns.len();
        let needed = widths.iter().sum::<usize>() + gaps;
        let is_cut = |fit: &Fit| matches!(fit, Fit::Cut | Fit::CutOrDrop(_));
        let cut = |at: &usize| header.get(*at).is_some_and(|(_, fit)| is_cut(fit));
        let (mut longest, mut left) = (0, needed);
        // The maximum text width at which everything fits; it is the same for each shortened
        // column.
        for limit in (MIN_CUT..=room).rev() {
            let of = |(at, width): (&usize, &usize)| match cut(at) {
                true => (*width).min(limit.max(header_width(header, *at))),
                false => *width,
            };
            left = columns.iter().zip(&widths).map(of).sum::<usize>() + gaps;
            longest = limit;
            if left <= room {
                break;
            }
        }
        if left > room
            && let Some(least) = least_wanted(header, &columns)
        {
            columns.retain(|at| *at != least);
            continue;
        }
        let cell = |row: &Vec<String>, at: &usize| {
            let text = row.get(*at).cloned().unwrap_or_default();
            if cut(at) { shortened(&text, longest) } else { text }
        };
        let rows = rows.iter().map(|row| columns.iter().map(|at| cell(row, at)).collect());
        return Fitted { rows: rows.collect(), columns };
    }
}

fn header_width(header: &[(&str, Fit)], at: usize) -> usize {
    header.get(at).map_or(0, |(name, _)| name.width())
}

fn width(header: &[(&str, Fit)], rows: &[Vec<String>], at: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width());
    cells.chain([header_width(header, at)]).max().unwrap_or(0)
}

/// Returns the column to omit next.
fn least_wanted(header: &[(&str, Fit)], columns: &[usize]) -> Option<usize> {
    let rank = |at: &usize| match header.get(*at) {
        Some((_, Fit::Drop(rank) | Fit::CutOrDrop(rank))) => Some((*rank, *at)),
        _ => None,
    };
    columns.iter().filter_map(rank).max().map(|(_, at)| at)
}

/// Shortens a text to at most `room` cells by omitting its middle: names differ at their ends.
fn shortened(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let half = room.saturating_sub(1) / 2;
    let take = |chars: &mut dyn Iterator<Item = char>| {
        let mut used = 0;
        chars
            .take_while(|c| {
                used += c.width().unwrap_or(0);
                used <= half
            })
            .collect::<Vec<char>>()
    };
    let begin: String = take(&mut text.chars()).into_iter().collect();
    let end: String = take(&mut text.chars().rev()).into_iter().rev().collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_first_and_then_columns_go() {
        let header = [
            ("NAME", Fit::Cut),
            ("SIZE", Fit::Keep),
            ("WHO", Fit::Drop(1)),
            ("WHEN", Fit::Drop(2)),
        ];
        let row = |name: &str| {
            ["1 MiB", "somebody@somewhere", "2026-11-27T22:00:00Z"]
                .iter()
                .fold(vec![name.to_owned()], |row, cell| [row, vec![(*cell).to_owned()]].concat())
        };
        let rows = vec![row("short"), row(&format!("begin{}end", "x".repeat(100)))];
        let all = fit(&header, &rows, 400);
        assert_eq!((all.columns, &all.rows), (vec![0, 1, 2, 3], &rows));
        let some = fit(&header, &rows, 80);
        assert_eq!(some.columns, [0, 1, 2, 3]);
        let total = |fitted: &Fitted| {
            let widest = |at: usize| fitted.rows.iter().map(|row| row[at].width()).max().unwrap();
            (0..fitted.columns.len()).map(|at| widest(at) + GAP).sum::<usize>()
        };
        assert!(total(&some) <= 80, "{:?}", some.rows);
        assert!(some.rows[1][0].starts_with("begin") && some.rows[1][0].ends_with("xend"));
        assert_eq!(some.rows[0][0], "short");
        let few = fit(&header, &rows, 50);
        assert_eq!(few.columns, [0, 1, 2]);
        // Nothing more can be omitted.
        let least = fit(&header, &rows, 10);
        assert_eq!(least.columns, [0, 1]);
    }

    #[test]
    fn wide_characters_count_twice() {
        let cut = shortened(&"語".repeat(40), 17);
        assert!(cut.width() <= 17 && cut.contains('…'), "{cut}");
    }
}
