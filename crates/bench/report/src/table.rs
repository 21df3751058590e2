//! Tables: built once, rendered for the terminal and for the page.

use std::sync::atomic::{AtomicUsize, Ordering};

use comfy_table::{CellAlignment, LineStyle, presets};
use maud::{Markup, Render, html};
use tdekit_columns::{Fit, Fitted, fit};

use crate::piece::Piece;

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Class of the style sheet.
    pub(crate) class: Option<&'static str>,
    /// Headings of all columns; the terminal puts the title over the first.
    head: Vec<String>,
    /// The first piece of each names the row.
    rows: Vec<Vec<Piece>>,
}

impl Table {
    pub(crate) fn new<N: Into<String>>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = N>,
        rows: impl IntoIterator<Item = Vec<Piece>>,
    ) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        Self { title: title.into(), class: None, head, rows: rows.into_iter().collect() }
    }

    /// Returns the table; none if it has no rows.
    pub(crate) fn filled(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// Returns the headings of its columns beside the names; empty if there are none.
    pub(crate) fn columns(&self) -> String {
        self.head.get(1..).unwrap_or_default().join(", ")
    }

    /// Returns it as plain text, ending in a newline; within the width of [`fit_to`] with its title
    /// above it, and with the names of columns left out.
    pub(crate) fn words(&self) -> String {
        if let Some(room) = room() {
            return self.within(room);
        }
        let columns = self.head.iter().skip(1).map(String::as_str);
        let head: Vec<&str> = std::iter::once(self.title.as_str()).chain(columns).collect();
        format!("\n{}\n", plain(&head, self.cells()))
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let words = |row: &Vec<Piece>| row.iter().map(Piece::words).collect();
        self.rows.iter().map(words).collect()
    }

    fn within(&self, room: usize) -> String {
        let columns = self.head.iter().skip(1).map(String::as_str);
        let rows = self.cells();
        let head: Vec<(&str, Fit)> = std::iter::once(("", Fit::Cut))
            .chain(columns.zip(1..).map(|(name, at)| (name, fit_of(name, at))))
            .collect();
        // The style has a cell more between columns, and one at each end.
        let cut = |count: usize| fit(&head, &rows, room.saturating_sub(count + 1));
        let fits = |count: &usize| cut(*count).columns.len() <= *count;
        let count = (1..head.len()).find(fits).unwrap_or(head.len());
        let Fitted { columns, rows } = cut(count);
        let names = |wanted: &dyn Fn(&usize) -> bool| -> Vec<&str> {
            let all = head.iter().enumerate();
            all.filter(|(at, _)| wanted(at)).map(|(_, (name, _))| *name).collect()
        };
        let table = plain(&names(&|at| columns.contains(at)), rows);
        let left = names(&|at| !columns.contains(at));
        let left = match left.is_empty() {
            true => String::new(),
            false => format!("Left out for want of room: {}. --wide shows all.\n", left.join("; ")),
        };
        format!("\n  {}\n{table}\n{left}", self.title)
    }
}

/// Width of tables as plain text; 0 if they are as wide as their content.
static ROOM: AtomicUsize = AtomicUsize::new(0);

/// Makes tables as plain text fit this width, in columns of a terminal; without one they are as
/// wide as their content.
pub fn fit_to(room: Option<usize>) {
    ROOM.store(room.unwrap_or(0), Ordering::Relaxed);
}

fn room() -> Option<usize> {
    Some(ROOM.load(Ordering::Relaxed)).filter(|room| *room > 0)
}

/// Returns what becomes of a column, by its name and its number, where there is little room: the
/// first ones stay longest, but amounts that the ratio already tells go first.
fn fit_of(name: &str, at: u8) -> Fit {
    let is_told = name.starts_with("Each, ") || ["Then", "Now"].contains(&name);
    match (at, name) {
        (1, _) | (_, "Change" | "Verdict") => Fit::Keep,
        _ if is_told => Fit::Drop(at.saturating_add(100)),
        _ => Fit::Drop(at),
    }
}

fn plain(head: &[&str], rows: Vec<Vec<String>>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::new('─', '─', '─', '─')));
    table.set_header(head.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(rows);
    table
}

impl Render for Table {
    fn render(&self) -> Markup {
        wide(
            &self.title,
            &html! { table class=[self.class] {
                thead { tr {
                    @for name in &self.head { th scope="col" data-fixed { (name) } }
                } }
                tbody { @for row in &self.rows { tr {
                    @for (index, piece) in row.iter().enumerate() {
                        @if index == 0 { th scope="row" { (piece) } } @else { td { (piece) } }
                    }
                } } }
            } },
        )
    }
}

/// Returns a table that may be wider than the screen: it scrolls separately, also by keyboard.
/// `name` is its accessible name.
pub(crate) fn wide(name: &str, table: &Markup) -> Markup {
    html! { div class="wide" role="region" tabindex="0" aria-label=(name) { (table) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn a_table_fits_the_terminal() {
        let name = "SELECT name, price FROM products WHERE category = ?1 ORDER BY price LIMIT 20";
        let row = [name, "+10.0 % (+9.0 to +11.0)", "+12.0 % (+11.0 to +13.0)", "12.3 us", "13 us"];
        let head = ["Class", "elapsed", "CPU", "Each, plain", "Each, tdekit AES_256", "More, each"];
        let row: Vec<Piece> = row.iter().map(|cell| Piece::from(*cell)).collect();
        let row = [row, vec!["+1.2 us".into()]].concat();
        let title = "tdekit AES_256 against plain, 95 % intervals";
        let table = Table::new(title, head, [row]);
        let shown = table.within(80);
        let text = shown.lines().filter(|line| !line.starts_with("Left out"));
        assert!(text.clone().all(|line| line.width() <= 80), "{shown}");
        assert!(shown.contains("LIMIT 20") && shown.contains('…'), "{shown}");
        assert!(
            shown.contains("room: Each, plain; Each, tdekit AES_256; More, each. --wide"),
            "{shown}"
        );
        let wider = table.within(100);
        assert!(wider.contains("AES_256. --wide") && wider.contains("+1.2 us"), "{wider}");
        assert!(table.words().contains(name) && table.words().contains("Each, plain"));
    }
}
