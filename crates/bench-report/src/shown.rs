//! The tables of every experiment.

use crate::figures::{Comparison, Difference, Pooled, Spread, Totals};
use crate::format::As;
use crate::layout::{Column, Layout, Of};
use crate::metric::Metric;
use crate::model::{Class, Latency, Role, Side};
use crate::page::cell::{Found, each, find};
use crate::report::{Report, float};
use crate::table::{Item, Table, probe_kind};

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

    /// Cells with an id that begins so, in order of the report.
    pub(crate) fn cells(&self, start: &str) -> Vec<Found<'a, Class>> {
        each(&self.report.cells, &self.place("cells"))
            .filter(|cell| cell.item.id.starts_with(start))
            .collect()
    }

    /// A cell, and the sides of its row where there are several.
    fn names(&self, cell: &str, sides: &[&str]) -> Item {
        let cells = self.cells(cell);
        let cell = match cells.iter().find(|known| known.item.id == cell) {
            Some(known) => (format!("{}/label", known.at), known.item.label.clone()),
            None => (self.place("cells"), cell.to_owned()),
        };
        let sides = sides.iter().map(|side| self.side(side));
        Item::Names(std::iter::once(cell).chain(sides).collect())
    }

    pub(crate) fn comparison(
        &self,
        cell: &str,
        metric: Metric,
        pair: (&str, &str),
    ) -> Option<Found<'a, Comparison>> {
        self.statement((cell, None), metric, pair)
    }

    /// The same of one of a cell's statements.
    pub(crate) fn statement(
        &self,
        (cell, statement): (&str, Option<u32>),
        metric: Metric,
        (side, against): (&str, &str),
    ) -> Option<Found<'a, Comparison>> {
        find(&self.report.summary.comparisons, &self.place("summary/comparisons"), |found| {
            found.class == cell
                && found.statement == statement
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
        for cell in &self.report.cells {
            let of = |metric: &Metric| {
                let found = self.comparison(&cell.id, *metric, (side, against));
                found.map_or(Item::Nothing, |found| Item::of(&found, reference))
            };
            let items: Vec<Item> = self.layout.costs.iter().map(of).collect();
            if items.iter().any(|item| !matches!(item, Item::Nothing)) {
                rows.push(std::iter::once(self.names(&cell.id, &[side])).chain(items).collect());
            }
        }
        let title = format!("{} against {}", self.report.label(side), self.report.label(against));
        (Table { title, head: self.head(self.layout.costs), rows }, reference)
    }

    /// Costs of one side in some cells, and what one operation takes on both sides. Metrics that no
    /// cell has are left out.
    pub(crate) fn overheads(
        &self,
        title: &str,
        cells: &[Found<'_, Class>],
        (side, base): (&Side, &Side),
        metrics: &[Metric],
    ) -> Table {
        let of = |cell: &Class, metric| self.comparison(&cell.id, metric, (&side.id, &base.id));
        let known = |metric: &&Metric| cells.iter().any(|cell| of(cell.item, **metric).is_some());
        let metrics: Vec<Metric> = metrics.iter().filter(known).copied().collect();
        let row = |cell: &Found<'_, Class>| {
            let ratio = |metric: &Metric| {
                of(cell.item, *metric).map_or(Item::Nothing, |found| Item::of(&found, false))
            };
            let each = |side: &Side| self.each(cell.item, &side.id);
            let names = std::iter::once(self.names(&cell.item.id, &[]));
            names.chain(metrics.iter().map(ratio)).chain([base, side].map(each)).collect()
        };
        let mut head = self.head(&metrics);
        head.extend([base, side].map(|side| format!("Each, {}", side.label)));
        Table { title: title.to_owned(), head, rows: cells.iter().map(row).collect() }
    }

    /// Elapsed time of one operation.
    fn each(&self, cell: &Class, side: &str) -> Item {
        let Some(found) = self.totals(&cell.id, side) else { return Item::Nothing };
        let each_ns = found.item.values.get(&Metric::Elapsed).and_then(|spread| spread.each);
        each_ns.map_or(Item::Nothing, |each_ns| {
            let at = format!("{}/values/{}/each", found.at, Metric::Elapsed.name());
            Item::Each(at, each_ns, cell.unit.clone())
        })
    }

    /// Elapsed time and CPU of several sides, each against its own plain one; of those that have
    /// another library also elapsed time against the base.
    pub(crate) fn libraries(&self, title: &str, sides: &[&Side], base: &Side) -> Table {
        let mut head = self.head(&[]);
        let mut columns = Vec::new();
        for side in sides {
            let own = side.plain.as_ref().unwrap_or(&base.id);
            let mut column = |words: &str, metric, against| {
                head.push(format!("{}, {words}", side.label));
                columns.push((metric, (side.id.as_str(), against)));
            };
            column("elapsed", Metric::Elapsed, own.as_str());
            column("CPU", Metric::Cpu, own);
            if side.plain.is_some() {
                let words = format!("elapsed against {}", base.label);
                column(&words, Metric::Elapsed, &base.id);
            }
        }
        let row = |cell: &Class| {
            let of = |(metric, pair): &(Metric, (&str, &str))| {
                let found = self.comparison(&cell.id, *metric, *pair);
                found.map_or(Item::Nothing, |found| Item::of(&found, false))
            };
            std::iter::once(self.names(&cell.id, &[])).chain(columns.iter().map(of)).collect()
        };
        let rows = self.report.cells.iter().map(row).collect();
        Table { title: title.to_owned(), head, rows }
    }

    fn head(&self, metrics: &[Metric]) -> Vec<String> {
        let names = metrics.iter().map(|metric| metric.label().to_owned());
        std::iter::once(self.layout.cell.to_owned()).chain(names).collect()
    }

    /// Figures of every side. What was not measured has no column.
    pub(crate) fn figures(&self) -> Table {
        let mut found: Vec<(&Class, &Side, Found<'_, Totals>)> = Vec::new();
        for cell in &self.report.cells {
            for side in &self.report.sides {
                found.extend(self.totals(&cell.id, &side.id).map(|totals| (cell, side, totals)));
            }
        }
        let known = |column: &&Column| {
            found.iter().any(|(.., totals)| !matches!(figure(totals, column), Item::Nothing))
        };
        let columns: Vec<&Column> = self.layout.figures.iter().filter(known).collect();
        let row = |(cell, side, totals): &(&Class, &Side, Found<'_, Totals>)| {
            let names = std::iter::once(self.names(&cell.id, &[&side.id]));
            names.chain(columns.iter().map(|column| figure(totals, column))).collect()
        };
        let heads = columns.iter().map(|column| column.head.to_owned());
        let head = std::iter::once(self.layout.cell.to_owned()).chain(heads).collect();
        let title = "Figures of every side".to_owned();
        Table { title, head, rows: found.iter().map(row).collect() }
    }

    /// Latencies of single operations, where they were timed.
    pub(crate) fn latencies(&self) -> Option<Table> {
        let row = |found: Found<'_, Latency>| {
            let item = found.item;
            let points = [
                ("p50_ns", item.p50_ns),
                ("p90_ns", item.p90_ns),
                ("p95_ns", item.p95_ns),
                ("p99_ns", item.p99_ns),
                ("p999_ns", item.p999_ns),
                ("max_ns", item.max_ns),
            ];
            let of = |field: &str, value| {
                Item::Number(format!("{}/{field}", found.at), As::Duration, value)
            };
            let points = points.map(|(field, point)| of(field, float(point)));
            let first = [self.names(&item.class, &[&item.side]), of("mean_ns", item.mean_ns)];
            first.into_iter().chain(points).collect()
        };
        let rows: Vec<_> =
            each(&self.report.latencies, &self.place("latencies")).map(row).collect();
        let head =
            [self.layout.cell, "Mean", "Median", "90 %", "95 %", "99 %", "99.9 %", "Slowest"];
        let title = "Latency of single operations".to_owned();
        (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
    }

    /// Single values of encrypted sides beside their plain ones, where there are some.
    pub(crate) fn probes(&self) -> Option<Table> {
        let row = |found: Found<'_, Difference>| {
            let item = found.item;
            let of = |field: &str, value| {
                Item::Number(format!("{}/{field}", found.at), probe_kind(item.kind), value)
            };
            let side = |id: &str| Item::Names(vec![self.side(id)]);
            vec![
                Item::Fixed(item.kind.label().to_owned()),
                side(&item.side),
                of("value", item.value),
                side(&item.against),
                of("against_value", item.against_value),
                Item::More(found.at.clone(), item.clone()),
            ]
        };
        let at = self.place("summary/differences");
        let rows: Vec<_> = each(&self.report.summary.differences, &at).map(row).collect();
        let head = ["What", "Side", "Value", "Against", "Value", "More"];
        let title = "Opening, memory, size".to_owned();
        (!rows.is_empty()).then(|| Table { title, head: head.map(str::to_owned).to_vec(), rows })
    }

    /// The cost of idle connections.
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
