//! Tables of the experiments that have sides of their own: made once, written for the terminal and
//! for the page. Each item knows its place in the document.

use comfy_table::{CellAlignment, LineStyle, presets};
use maud::{Markup, html};

use crate::figures::{Comparison, Pooled, Spread, Totals};
use crate::format::As;
use crate::layout::{Column, Layout, Of};
use crate::metric::Metric;
use crate::model::{Role, Side};
use crate::page::cell::{Found, each, find, number, text, wide};
use crate::report::{Report, float};

/// What stands in a table.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Nothing,
    /// Not of the document.
    Fixed(String),
    /// Names, each with its place, parted by commas.
    Names(Vec<(String, String)>),
    /// An amount, with its place.
    Number(String, As, f64),
    /// A ratio, with the place of what it belongs to, and two ends by their names there.
    Ratio(String, As, f64, Ends),
}

/// What stands behind a ratio.
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
    fn of(found: &Found<'_, Comparison>, times: bool) -> Self {
        let item = found.item;
        let kind = if times { As::Times } else { ratio_kind(item.metric) };
        Self::Ratio(found.at.clone(), kind, item.ratio, ends(item.low, item.high, kind))
    }

    /// The same over several cells; of a median the least and the largest.
    fn over(found: &Found<'_, Pooled>) -> Self {
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

/// A report with its place in the document.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) at: &'a str,
    pub(crate) report: &'a Report,
    pub(crate) layout: &'static Layout,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(at: &'a str, report: &'a Report) -> Self {
        Self { at, report, layout: report.experiment.layout() }
    }

    fn place(&self, list: &str) -> String {
        format!("{}/{list}", self.at)
    }

    pub(crate) fn sides(&self) -> Vec<Found<'a, Side>> {
        each(&self.report.sides, &self.place("sides")).collect()
    }

    fn side(&self, id: &str) -> (String, String) {
        match self.sides().iter().find(|side| side.item.id == id) {
            Some(side) => (format!("{}/label", side.at), side.item.label.clone()),
            None => (self.place("sides"), id.to_owned()),
        }
    }

    pub(crate) fn comparison(
        &self,
        cell: &str,
        metric: Metric,
        (side, against): (&str, &str),
    ) -> Option<Found<'a, Comparison>> {
        find(&self.report.summary.comparisons, &self.place("summary/comparisons"), |found| {
            found.class == cell
                && found.metric == metric
                && found.side == side
                && found.against == against
        })
    }

    pub(crate) fn totals(&self, cell: &str, side: &str) -> Option<Found<'a, Totals>> {
        find(&self.report.summary.totals, &self.place("summary/totals"), |found| {
            found.class == cell && found.side == side
        })
    }

    /// Ratios over several cells, where there are some.
    pub(crate) fn pooled(&self) -> Option<Table> {
        let all = &self.report.summary.pooled;
        let at = self.place("summary/pooled");
        let mut rows: Vec<Vec<Item>> = Vec::new();
        let mut known: Vec<(&str, &str)> = Vec::new();
        for first in each(all, &at) {
            let key = (first.item.id.as_str(), first.item.side.as_str());
            if known.contains(&key) {
                continue;
            }
            known.push(key);
            let name = (format!("{}/what", first.at), first.item.what.clone());
            let mut row = vec![Item::Names(vec![name, self.side(key.1)])];
            row.extend(self.layout.pooled.iter().map(|metric| {
                let of = |found: &Pooled| {
                    (found.id.as_str(), found.side.as_str()) == key && found.metric == *metric
                };
                find(all, &at, of).map_or(Item::Nothing, |found| Item::over(&found))
            }));
            rows.push(row);
        }
        let title = self.layout.pooled_note.to_owned();
        (!rows.is_empty()).then(|| Table { title, head: self.head(self.layout.pooled), rows })
    }

    /// A table for each side and what it is held against.
    pub(crate) fn costs(&self) -> Vec<(Table, bool)> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for found in &self.report.summary.comparisons {
            let pair = (found.side.as_str(), found.against.as_str());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        pairs.into_iter().map(|pair| self.cost(pair)).collect()
    }

    /// The table, and whether it tells of other ways to the same end.
    fn cost(&self, (side, against): (&str, &str)) -> (Table, bool) {
        let other = self.report.sides.iter().find(|side| side.id == against);
        let reference = other.is_some_and(|side| side.role == Role::Reference);
        let mut rows = Vec::new();
        for cell in each(&self.report.cells, &self.place("cells")) {
            let of = |metric: &Metric| {
                let found = self.comparison(&cell.item.id, *metric, (side, against));
                found.map_or(Item::Nothing, |found| Item::of(&found, reference))
            };
            let items: Vec<Item> = self.layout.costs.iter().map(of).collect();
            if items.iter().all(|item| matches!(item, Item::Nothing)) {
                continue;
            }
            let name = (format!("{}/label", cell.at), cell.item.label.clone());
            let mut row = vec![Item::Names(vec![name, self.side(side)])];
            row.extend(items);
            rows.push(row);
        }
        let title = format!("{} against {}", self.report.label(side), self.report.label(against));
        (Table { title, head: self.head(self.layout.costs), rows }, reference)
    }

    fn head(&self, metrics: &[Metric]) -> Vec<String> {
        let names = metrics.iter().map(|metric| metric.label().to_owned());
        std::iter::once(self.layout.cell.to_owned()).chain(names).collect()
    }

    /// Figures of every side.
    pub(crate) fn figures(&self) -> Table {
        let mut rows = Vec::new();
        for cell in each(&self.report.cells, &self.place("cells")) {
            for side in self.sides() {
                let Some(found) = self.totals(&cell.item.id, &side.item.id) else { continue };
                let names = [
                    (format!("{}/label", cell.at), cell.item.label.clone()),
                    (format!("{}/label", side.at), side.item.label.clone()),
                ];
                let mut row = vec![Item::Names(names.to_vec())];
                row.extend(self.layout.figures.iter().map(|column| figure(&found, column)));
                rows.push(row);
            }
        }
        let heads = self.layout.figures.iter().map(|column| column.head.to_owned());
        let head = std::iter::once(self.layout.cell.to_owned()).chain(heads).collect();
        Table { title: "Figures of every side".to_owned(), head, rows }
    }

    /// What connections cost that do nothing.
    pub(crate) fn idle(&self) -> Option<Table> {
        let row = |found: Found<'_, crate::report::Idle>| {
            let item = found.item;
            let value = |field: &str, kind, amount| {
                Item::Number(format!("{}/{field}", found.at), kind, float(amount))
            };
            let each = float(item.after_bytes.saturating_sub(item.before_bytes))
                / float(item.connections.max(1));
            vec![
                Item::Names(vec![(format!("{}/side", found.at), item.side.clone())]),
                value("connections", As::Count, item.connections),
                value("before_bytes", As::Bytes, item.before_bytes),
                value("after_bytes", As::Bytes, item.after_bytes),
                Item::Fixed(As::Bytes.words(each)),
                value("peak_bytes", As::Bytes, item.peak_bytes),
                value("threads", As::Count, item.threads),
                value("opened_ns", As::Duration, item.opened_ns),
            ]
        };
        let rows: Vec<_> = each(&self.report.idle, &self.place("idle")).map(row).collect();
        let head = [
            "Kind",
            "Connections",
            "Memory before",
            "Memory then",
            "Each",
            "At most",
            "Threads",
            "Opened in",
        ];
        let title = "Idle connections".to_owned();
        (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
    }
}

fn figure(found: &Found<'_, Totals>, column: &Column) -> Item {
    if column.of == Of::Blocks {
        let at = format!("{}/blocks", found.at);
        return Item::Number(at, As::Count, float(found.item.blocks));
    }
    let Some(Spread { median, mean, least, most, each }) = found.item.values.get(&column.metric)
    else {
        return Item::Nothing;
    };
    let (field, value) = match column.of {
        Of::Blocks | Of::Median => ("median", Some(*median)),
        Of::Each => ("each", *each),
        Of::Mean => ("mean", Some(*mean)),
        Of::Least => ("least", Some(*least)),
        Of::Most => ("most", Some(*most)),
    };
    let info = column.metric.info();
    // Counts of one operation are small.
    let kind = match (info.shown, column.of) {
        (As::Count, Of::Each) => As::Amount,
        (kind, _) => kind,
    };
    let at = format!("{}/values/{}/{field}", found.at, column.metric.name());
    value.map_or(Item::Nothing, |value| Item::Number(at, kind, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    fn text(report: &Report) -> String {
        let shown = Shown::of("oltp", report);
        let costs: String = shown.costs().iter().map(|(table, _)| table.words()).collect();
        let whole = [shown.pooled(), Some(shown.figures()), shown.idle()];
        costs + &whole.into_iter().flatten().map(|table| table.words()).collect::<String>()
    }

    fn holds(text: &str, all: &[&str]) {
        for wanted in all {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }

    #[test]
    fn backups_show_costs_durations_and_other_tools() {
        let wanted = [
            "backup, zstd, AES_256",
            "+19.6 % (+19.6 to +19.6)",
            "+0.020 %",
            "backup, zstd, disk to memory, AES_256",
            "1.21 s",
            "AES_256 against restic",
            "backup, uncompressed, disk to disk, none",
            "x0.28 (x0.28 to x0.28)",
            "restore, all together",
        ];
        holds(&text(&examples::backup()), &wanted);
        let mut plain = examples::backup();
        plain.runs.retain(|run| run.cell.starts_with("backup"));
        examples::summarize(&mut plain);
        assert!(!text(&plain).contains("restore"));
    }

    #[test]
    fn workloads_show_overheads_and_figures_of_every_side() {
        let wanted = [
            "tdekit against base",
            "oltp_read_write, 1 thread",
            "oltp_read_write, 8 threads",
            "2 workloads and numbers of threads, tdekit",
            "peer against base",
            "-20.0 %",
            "2.00 ms",
        ];
        holds(&text(&examples::oltp()), &wanted);
    }

    #[test]
    fn messages_show_overheads_other_ways_and_what_waits() {
        holds(&text(&examples::messages()), &["message loop, on", "+10.0 %", "+25.0 %"]);
        assert!(!text(&examples::messages()).contains("Idle connections"));
        let wanted = [
            "in-process",
            "point selects, off",
            "x2.50 (x2.50 to x2.50)",
            "Memory then",
            "30.0 kB",
        ];
        holds(&text(&examples::messages_with_everything()), &wanted);
    }
}
