//! Tables: made once, written for the terminal and for the page. Each item knows its place in the
//! document.

use comfy_table::{CellAlignment, LineStyle, presets};
use maud::{Markup, html};

use crate::figures::{Comparison, Difference, Pooled};
use crate::format::As;
use crate::metric::Metric;
use crate::model::ProbeKind;
use crate::page::cell::{Found, number, number_per, text, wide};

/// An item of a table.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Nothing,
    /// Not of the document.
    Fixed(String),
    /// Names, each with its place, parted by commas.
    Names(Vec<(String, String)>),
    /// An amount, with its place.
    Number(String, As, f64),
    /// Nanoseconds of one operation, with their place, and the operation's name.
    Each(String, f64, String),
    /// How much more a side takes than what it is held against, with the difference's place.
    More(String, Difference),
    /// A ratio, with the place of what it belongs to, and two ends by their names there.
    Ratio(String, As, f64, Ends),
}

/// The interval behind a ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ends {
    /// Nothing.
    Unasked,
    NoInterval,
    Of([(&'static str, f64); 2]),
}

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Of all columns; the terminal puts the title over the first.
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<Item>>,
}

impl Item {
    /// The cost of a side, or what it takes of another way's.
    pub(crate) fn of(found: &Found<'_, Comparison>, times: bool) -> Self {
        let item = found.item;
        let kind = if times { As::Times } else { ratio_kind(item.metric) };
        Self::Ratio(found.at.clone(), kind, item.ratio, ends(item.low, item.high, kind))
    }

    /// The same over several cells; of a median the least and the largest.
    pub(crate) fn over(found: &Found<'_, Pooled>) -> Self {
        let item = found.item;
        let kind = ratio_kind(item.metric);
        let ends = if item.restarts == 0 {
            Ends::Of([("least", item.least), ("most", item.most)])
        } else {
            ends(item.low, item.high, kind)
        };
        Self::Ratio(found.at.clone(), kind, item.ratio, ends)
    }

    fn words(&self) -> String {
        match self {
            Self::Nothing => "-".to_owned(),
            Self::Fixed(words) => words.clone(),
            Self::Names(names) => {
                names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ")
            }
            Self::Number(_, kind, value) => kind.words(*value),
            Self::Each(_, each_ns, unit) => format!("{}/{unit}", As::Duration.words(*each_ns)),
            Self::More(_, difference) => more_words(difference),
            Self::Ratio(_, kind, ratio, ends) => {
                let ratio = kind.words(*ratio);
                match ends {
                    Ends::Unasked => ratio,
                    Ends::NoInterval => format!("{ratio} (no interval)"),
                    Ends::Of(both) if is_too_wide(both) => format!("{ratio} (too wide to tell)"),
                    Ends::Of(both) => {
                        let [low, high] = both.map(|(_, end)| bare(*kind).words(end));
                        format!("{ratio} ({low} to {high})")
                    }
                }
            }
        }
    }

    fn markup(&self) -> Markup {
        match self {
            Self::Nothing => html! { td { "–" } },
            Self::Fixed(words) => html! { td data-fixed { (words) } },
            Self::Names(names) => html! { th scope="row" {
                @for (index, (at, name)) in names.iter().enumerate() {
                    @if index > 0 { ", " }
                    (text(at, name))
                }
            } },
            Self::Number(at, kind, value) => html! { td { (number(at, *kind, *value)) } },
            Self::Each(at, each_ns, unit) => {
                html! { td { (number(at, As::Duration, *each_ns)) "/" (unit) } }
            }
            Self::More(at, difference) => html! { td { (more(at, difference)) } },
            Self::Ratio(at, kind, ratio, ends) => html! { td {
                (number(&format!("{at}/ratio"), *kind, *ratio))
                @match ends {
                    Ends::Unasked => {},
                    Ends::NoInterval => { br; small { "no interval" } },
                    Ends::Of(both) if is_too_wide(both) => { br; small { "too wide to tell" } },
                    Ends::Of([low, high]) => {
                        br;
                        small {
                            (number(&format!("{at}/{}", low.0), bare(*kind), low.1)) " to "
                            (number(&format!("{at}/{}", high.0), bare(*kind), high.1))
                        }
                    },
                }
            } },
        }
    }
}

/// How a probe's value is written.
pub(crate) fn probe_kind(kind: ProbeKind) -> As {
    match kind {
        ProbeKind::OpenOther | ProbeKind::OpenAgain => As::Duration,
        ProbeKind::ProcessMemory | ProbeKind::FileBytes => As::Bytes,
    }
}

fn plus(difference: f64) -> &'static str {
    if difference > 0.0 { "+" } else { "" }
}

/// The difference with its interval; growth of a file as a percentage.
fn more_words(found: &Difference) -> String {
    let of = |value| format!("{}{}", plus(value), probe_kind(found.kind).words(value));
    match (found.kind, found.low, found.high) {
        (ProbeKind::FileBytes, ..) if found.against_value > 0.0 => {
            As::Growth.words(found.difference / found.against_value)
        }
        (_, Some(low), Some(high)) => {
            format!("{} ({} to {})", of(found.difference), of(low), of(high))
        }
        _ => of(found.difference),
    }
}

/// The same for the page; `at` is the difference's place.
pub(crate) fn more(at: &str, found: &Difference) -> Markup {
    let of = |field: &str, value| number(&format!("{at}/{field}"), probe_kind(found.kind), value);
    html! {
        @match (found.kind, found.low, found.high) {
            (ProbeKind::FileBytes, ..) if found.against_value > 0.0 => (number_per(
                &format!("{at}/difference"),
                As::Growth,
                found.difference,
                (&format!("{at}/against_value"), found.against_value),
            )),
            (_, Some(low), Some(high)) => {
                (plus(found.difference)) (of("difference", found.difference)) br;
                small { (of("low", low)) " to " (of("high", high)) }
            },
            _ => { (plus(found.difference)) (of("difference", found.difference)) },
        }
    }
}

fn ratio_kind(metric: Metric) -> As {
    if metric == Metric::Size { As::Fine } else { As::Percent }
}

fn bare(kind: As) -> As {
    if kind == As::Percent { As::Bare } else { kind }
}

fn ends(low: Option<f64>, high: Option<f64>, kind: As) -> Ends {
    match (low, high) {
        _ if kind == As::Fine => Ends::Unasked,
        (Some(low), Some(high)) => Ends::Of([("low", low), ("high", high)]),
        _ => Ends::NoInterval,
    }
}

fn is_too_wide([(_, low), (_, high)]: &[(&str, f64); 2]) -> bool {
    *low < 0.01 || *high > 100.0
}

impl Table {
    /// As plain text, ending in a newline.
    pub(crate) fn words(&self) -> String {
        let mut head = self.head.clone();
        if let Some(first) = head.first_mut() {
            first.clone_from(&self.title);
        }
        let mut table = new_table(head);
        for row in &self.rows {
            table.add_row(row.iter().map(Item::words));
        }
        format!("\n{table}\n")
    }

    /// As a part of the page.
    pub(crate) fn markup(&self) -> Markup {
        wide(
            &self.title,
            &html! { table {
                thead { tr {
                    @for name in &self.head { th scope="col" data-fixed { (name) } }
                } }
                tbody { @for row in &self.rows { tr {
                    @for item in row { (item.markup()) }
                } } }
            } },
        )
    }
}

/// An empty table of the terminal.
pub(crate) fn new_table(header: Vec<String>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::new('─', '─', '─', '─')));
    let columns = header.len();
    table.set_header(header);
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
