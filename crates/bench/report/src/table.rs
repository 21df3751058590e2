//! Tables: built once, rendered for the terminal and for the page.

use comfy_table::{CellAlignment, LineStyle, presets};
use maud::{Markup, Render, html};

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

    /// Returns it as plain text, ending in a newline.
    pub(crate) fn words(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING.header_separator(LineStyle::new('─', '─', '─', '─')));
        table.set_header(std::iter::once(&self.title).chain(self.head.iter().skip(1)));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in &self.rows {
            table.add_row(row.iter().map(Piece::words));
        }
        format!("\n{table}\n")
    }
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
