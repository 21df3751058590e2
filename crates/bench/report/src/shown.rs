//! The tables of every experiment.

use crate::fact::Facts;
use crate::figures::{Comparison, Difference, HEADLINE, Pooled, Spread, Totals};
use crate::format::As;
use crate::layout::{Column, FACTS, FactInfo, Layout, Of};
use crate::metric::Metric;
use crate::model::{Class, Latency, ProbeKind, Role, Side};
use crate::piece::{Change, Found, Piece, all, each, find, text};
use crate::report::{Idle, Report, distinct};
use crate::table::Table;

/// A report with its place in the document.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) at: &'a str,
    pub(crate) report: &'a Report,
    pub(crate) layout: &'static Layout,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(at: &'a str, report: &'a Report) -> Self {
        Self { at, report, layout: report.layout() }
    }

    /// Returns the place of one of the report's lists.
    pub(crate) fn place(&self, list: &str) -> String {
        format!("{}/{list}", self.at)
    }

    fn sides(&self) -> impl Iterator<Item = Found<'a, Side>> + use<'a> {
        each(&self.report.sides, &self.place("sides"))
    }

    /// Returns a side's name.
    pub(crate) fn side(&self, id: &str) -> Piece {
        let side = self.sides().find(|side| side.item.id == id);
        side.map_or_else(|| id.into(), |side| side.text("label", &side.item.label))
    }

    /// Returns a side's cipher.
    pub(crate) fn cipher(&self, id: &str) -> Piece {
        let side = self.sides().find(|side| side.item.id == id);
        side.map_or(Piece::Nothing, |side| {
            side.item.cipher.as_deref().map(|cipher| side.text("cipher", cipher)).into()
        })
    }

    /// Returns a side's name, with that of its own plain one if that is not the base.
    pub(crate) fn named(&self, id: &str) -> Piece {
        let side = self.report.sides.iter().find(|side| side.id == id);
        match side.and_then(|side| side.plain.as_deref()) {
            Some(plain) => all![self.side(id), " against ", self.side(plain)],
            None => self.side(id),
        }
    }

    /// Returns cells whose id has this prefix, in order of the report.
    pub(crate) fn cells(&self, start: &str) -> Vec<Found<'a, Class>> {
        each(&self.report.cells, &self.place("cells"))
            .filter(|cell| cell.item.id.starts_with(start))
            .collect()
    }

    /// Returns a cell's name, with those of the sides of its row if there are several.
    pub(crate) fn names(&self, cell: &str, sides: &[&str]) -> Piece {
        let cells = self.cells(cell);
        let known = cells.iter().find(|known| known.item.id == cell);
        let mut names =
            vec![known.map_or_else(|| cell.into(), |cell| cell.text("label", &cell.item.label))];
        names.extend(sides.iter().flat_map(|side| [", ".into(), self.side(side)]));
        Piece::All(names)
    }

    pub(crate) fn comparison(
        &self,
        cell: &str,
        metric: Metric,
        pair: (&str, &str),
    ) -> Option<Found<'a, Comparison>> {
        self.statement((cell, None), metric, pair)
    }

    /// Returns the same for one of a cell's statements.
    pub(crate) fn statement(
        &self,
        cell: (&str, Option<u32>),
        metric: Metric,
        pair: (&str, &str),
    ) -> Option<Found<'a, Comparison>> {
        let all = &self.report.summary.comparisons;
        find(all, &self.place("summary/comparisons"), |found| found.is(cell, metric, pair))
    }

    /// Returns a ratio over several cells.
    pub(crate) fn over(
        &self,
        id: &str,
        metric: Metric,
        pair: (&str, &str),
    ) -> Option<Found<'a, Pooled>> {
        let all = &self.report.summary.pooled;
        find(all, &self.place("summary/pooled"), |found| found.is(id, metric, pair))
    }

    /// Returns the headline of a side against its own plain one.
    pub(crate) fn headline(&self, side: &Side, metric: Metric) -> Option<Found<'a, Pooled>> {
        self.over(HEADLINE, metric, (&side.id, &self.report.plain(side)?.id))
    }

    pub(crate) fn totals(&self, cell: &str, side: &str) -> Option<Found<'a, Totals>> {
        find(&self.report.summary.totals, &self.place("summary/totals"), |found| {
            found.class == cell && found.side == side
        })
    }

    /// Returns a cell's cost, as a factor if it is compared with another way to the same end.
    fn ratio(&self, cell: &str, metric: Metric, pair: (&str, &str), times: bool) -> Piece {
        let kind = if times { As::Times } else { metric.cost() };
        self.comparison(cell, metric, pair).map_or(Piece::Nothing, |found| found.with_ends(kind))
    }

    /// Returns a figure of a metric of a cell on a side.
    pub(crate) fn figure(&self, cell: &str, side: &str, metric: Metric, of: Of) -> Piece {
        let totals = self.totals(cell, side);
        totals.map_or(Piece::Nothing, |totals| figure(&totals, metric, of))
    }

    /// Returns the circumstances, and the settings of all sides.
    pub(crate) fn facts(&self) -> Vec<Piece> {
        let settings = self.report.settings.iter().map(|(name, value)| {
            let at = format!("{}/settings/{name}", self.at);
            all![name.as_str(), "=", text(&at, value)]
        });
        [known(&self.report.facts, &self.place("facts")), settings.collect()].concat()
    }

    /// Returns the properties of the sides that have some.
    pub(crate) fn told(&self) -> impl Iterator<Item = Piece> {
        self.sides().filter_map(|side| {
            let cipher = side.item.cipher.iter().map(|cipher| side.text("cipher", cipher));
            let facts = known(&side.item.facts, &format!("{}/facts", side.at));
            let own: Vec<Piece> = cipher.chain(facts).collect();
            let label = side.text("label", &side.item.label);
            (!own.is_empty()).then(|| all![label, ": ", Piece::parted(own, ", ")])
        })
    }

    /// Returns ratios over several cells, if there are any.
    pub(crate) fn pooled(&self) -> Option<Table> {
        let at = self.place("summary/pooled");
        let all = || {
            each(&self.report.summary.pooled, &at).filter(|found| self.report.is_cost(found.item))
        };
        let key = |found: &Found<'a, Pooled>| (&found.item.id, &found.item.side);
        let row = |first: Found<'a, Pooled>| {
            let side = self.named(key(&first).1);
            let name = all![first.text("what", &first.item.what), ", ", side];
            let ratio = |metric: &Metric| {
                let like = |one: &Found<'_, Pooled>| {
                    (&one.item.id, &one.item.side) == key(&first) && one.item.metric == *metric
                };
                all().find(like).map_or(Piece::Nothing, |found| pooled(&found))
            };
            let ratios = self.layout.pooled.iter().map(ratio);
            std::iter::once(name).chain(ratios).collect()
        };
        let rows = distinct(all(), key).into_iter().map(row);
        Table::new(self.layout.pooled_note, self.head(self.layout.pooled), rows).filled()
    }

    /// Returns a table for each side and its opponent, with true if it includes other ways to the
    /// same end.
    pub(crate) fn costs(&self) -> Vec<(Table, bool)> {
        let pairs = self.report.summary.comparisons.iter().map(Comparison::pair);
        distinct(pairs, |pair| *pair).into_iter().map(|pair| self.cost(pair)).collect()
    }

    fn cost(&self, (side, against): (&str, &str)) -> (Table, bool) {
        let other = self.report.sides.iter().find(|side| side.id == against);
        let reference = other.is_some_and(|side| side.role == Role::Reference);
        let row = |cell: &Class| {
            let of = |metric: &Metric| self.ratio(&cell.id, *metric, (side, against), reference);
            let ratios: Vec<Piece> = self.layout.costs.iter().map(of).collect();
            let known = ratios.iter().any(|ratio| *ratio != Piece::Nothing);
            known.then(|| [vec![self.names(&cell.id, &[side])], ratios].concat())
        };
        let title = format!("{} against {}", self.report.label(side), self.report.label(against));
        let rows = self.report.cells.iter().filter_map(row);
        (Table::new(title, self.head(self.layout.costs), rows), reference)
    }

    /// Returns costs of one side in some cells, with elapsed time also that of one operation.
    /// Metrics that no cell has are left out.
    pub(crate) fn overheads(
        &self,
        title: &str,
        cells: &[Found<'_, Class>],
        (side, base): (&Side, &Side),
        metrics: &[Metric],
    ) -> Table {
        let pair = (side.id.as_str(), base.id.as_str());
        let known = |metric: &&Metric| {
            cells.iter().any(|cell| self.comparison(&cell.item.id, **metric, pair).is_some())
        };
        let metrics: Vec<Metric> = metrics.iter().filter(known).copied().collect();
        let timed = metrics.contains(&Metric::Elapsed);
        let row = |cell: &Found<'_, Class>| {
            let ratios = metrics.iter().map(|one| self.ratio(&cell.item.id, *one, pair, false));
            let each = timed.then(|| self.each(cell.item, pair)).into_iter().flatten();
            std::iter::once(self.names(&cell.item.id, &[])).chain(ratios).chain(each).collect()
        };
        let mut head = self.head(&metrics);
        if timed {
            head.extend([base, side].map(|side| format!("Each, {}", side.label)));
            head.push("More, each".to_owned());
        }
        Table::new(title, head, cells.iter().map(row))
    }

    /// Returns one cost of several sides, a column for each: against `base` if given, else each
    /// against its own plain one. Cells without any are left out.
    pub(crate) fn side_by_side(
        &self,
        title: String,
        (cells, sides): (&[&Class], &[&Side]),
        (metric, base): (Metric, Option<&Side>),
    ) -> Table {
        let mut head = self.head(&[]);
        head.extend(sides.iter().map(|side| side.label.clone()));
        let row = |cell: &&Class| {
            let ratio = |side: &&Side| {
                let against = base.or_else(|| self.report.plain(side));
                against.map_or(Piece::Nothing, |against| {
                    self.ratio(&cell.id, metric, (&side.id, &against.id), false)
                })
            };
            let ratios: Vec<Piece> = sides.iter().map(ratio).collect();
            let known = ratios.iter().any(|ratio| *ratio != Piece::Nothing);
            known.then(|| [vec![self.names(&cell.id, &[])], ratios].concat())
        };
        Table::new(title, head, cells.iter().filter_map(row))
    }

    /// Returns the sides of several ways to encrypt, a table for each decisive cost; none if there
    /// is only one.
    pub(crate) fn peers(&self) -> Vec<Table> {
        let sides: Vec<&Side> = self.report.others().collect();
        let cells: Vec<&Class> = self.report.cells.iter().collect();
        let table = |metric: &Metric| {
            let title = format!("Side by side, each against its own plain one: {}", metric.label());
            self.side_by_side(title, (&cells, &sides), (*metric, None)).filled()
        };
        let some = sides.iter().any(|side| side.role == Role::Peer);
        self.layout.wanted.iter().filter(|_| some).filter_map(table).collect()
    }

    fn head(&self, metrics: &[Metric]) -> Vec<String> {
        let names = metrics.iter().map(|metric| metric.label());
        std::iter::once(self.layout.cell).chain(names).map(str::to_owned).collect()
    }

    /// Returns figures of every side. Unmeasured metrics have no column.
    pub(crate) fn figures(&self) -> Table {
        let of = |totals: &Found<'_, Totals>, column: &Column| figure(totals, column.1, column.2);
        let cells = self.report.cells.iter();
        let sides = |cell: &'a Class| self.report.sides.iter().map(move |side| (cell, side));
        let totals = |(cell, side): (&Class, &Side)| self.totals(&cell.id, &side.id);
        let found: Vec<Found<'_, Totals>> = cells.flat_map(sides).filter_map(totals).collect();
        let known = |column: &&Column| found.iter().any(|one| of(one, column) != Piece::Nothing);
        let columns: Vec<&Column> = self.layout.figures.iter().filter(known).collect();
        let row = |totals: &Found<'_, Totals>| {
            let names = self.names(&totals.item.class, &[&totals.item.side]);
            std::iter::once(names).chain(columns.iter().map(|one| of(totals, one))).collect()
        };
        let heads = columns.iter().map(|column| column.0);
        let head = std::iter::once(self.layout.cell).chain(heads);
        Table::new("Figures of every side", head, found.iter().map(row))
    }

    /// Returns latencies of single operations, if they were timed.
    pub(crate) fn latencies(&self) -> Option<Table> {
        let row = |found: Found<'_, Latency>| {
            let item = found.item;
            let of = |field: &str, value: u64| found.number(field, As::Duration, value);
            vec![
                self.names(&item.class, &[&item.side]),
                found.number("mean_ns", As::Duration, item.mean_ns),
                of("p50_ns", item.p50_ns),
                of("p90_ns", item.p90_ns),
                of("p95_ns", item.p95_ns),
                of("p99_ns", item.p99_ns),
                of("p999_ns", item.p999_ns),
                of("max_ns", item.max_ns),
            ]
        };
        let head =
            [self.layout.cell, "Mean", "Median", "90 %", "95 %", "99 %", "99.9 %", "Slowest"];
        let rows = each(&self.report.latencies, &self.place("latencies")).map(row);
        Table::new("Latency of single operations", head, rows).filled()
    }

    /// Returns single values of encrypted sides in these roles beside their plain ones, if there
    /// are any.
    pub(crate) fn probes(&self, roles: &[Role]) -> Option<Table> {
        let wanted = |found: &Found<'_, Difference>| {
            let mut sides = self.report.sides.iter().filter(|side| roles.contains(&side.role));
            sides.any(|side| side.id == found.item.side)
        };
        let row = |found: Found<'_, Difference>| {
            let item = found.item;
            let kind = probe_kind(item.kind);
            vec![
                item.kind.label().into(),
                self.side(&item.side),
                grown(&found, kind),
                self.side(&item.against),
                found.number("against_value", kind, item.against_value),
                more(&found),
            ]
        };
        let at = self.place("summary/differences");
        let rows = each(&self.report.summary.differences, &at).filter(wanted).map(row);
        let head = ["What", "Side", "Value", "Against", "Value", "More"];
        Table::new("Opening, memory, size", head, rows).filled()
    }

    /// Returns the cost of idle connections.
    pub(crate) fn idle(&self) -> Option<Table> {
        let row = |found: Found<'_, Idle>| {
            let item = found.item;
            let bytes = |field: &str, value: u64| found.number(field, As::Bytes, value);
            vec![
                found.text("side", &item.side),
                found.number("connections", As::Count, item.connections),
                bytes("before_bytes", item.before_bytes),
                bytes("after_bytes", item.after_bytes),
                As::Bytes.words(item.each_bytes()).into(),
                bytes("peak_bytes", item.peak_bytes),
                found.number("threads", As::Count, item.threads),
                found.number("opened_ns", As::Duration, item.opened_ns),
            ]
        };
        let rows = each(&self.report.idle, &self.place("idle")).map(row);
        let head = ["Kind", "Connections", "Memory before", "Memory then", "Each", "At most"];
        let head = head.into_iter().chain(["Threads", "Opened in"]);
        Table::new("Idle connections", head, rows).filled()
    }
}

/// Returns circumstances in words, with their places below `at`.
pub(crate) fn known(facts: &Facts, at: &str) -> Vec<Piece> {
    let piece = |info: &FactInfo| Some(all![info.words, " ", info.value(facts, at)?]);
    FACTS.iter().filter_map(piece).collect()
}

/// Returns a ratio over several cells; for a median with the minimum and the maximum of them.
pub(crate) fn pooled(found: &Found<'_, Pooled>) -> Piece {
    let (item, kind) = (found.item, found.item.metric.cost());
    if item.restarts > 0 || kind == As::Fine {
        return found.with_ends(kind);
    }
    let ends = [("least", item.least), ("most", item.most)];
    let ends = Piece::span(ends.map(|(field, end)| found.number(field, As::Bare, end)));
    all![found.ratio(kind), ends.below()]
}

/// Returns the format of a probe's value.
fn probe_kind(kind: ProbeKind) -> As {
    match kind {
        ProbeKind::OpenOther | ProbeKind::OpenAgain => As::Duration,
        ProbeKind::ProcessMemory | ProbeKind::FileBytes => As::Bytes,
    }
}

/// Returns a side's value: its opponent's median and the difference, which is a mean over restarts,
/// so that the columns of a row agree.
fn grown(found: &Found<'_, Difference>, kind: As) -> Piece {
    let more = Change::Plus(format!("{}/difference", found.at), found.item.difference);
    let at = format!("{}/against_value", found.at);
    Piece::Changed(at, kind, found.item.against_value, more)
}

/// Returns the additional amount that a side takes over its opponent; growth of a file as a
/// percentage.
pub(crate) fn more(found: &Found<'_, Difference>) -> Piece {
    let item = found.item;
    if item.kind == ProbeKind::FileBytes && item.against_value > 0.0 {
        let over = (format!("{}/against_value", found.at), item.against_value);
        let at = format!("{}/difference", found.at);
        return Piece::Per(at, As::Growth, item.difference, over);
    }
    let of = |field: &str, value| {
        let plus = if value > 0.0 { "+" } else { "" };
        all![plus, found.number(field, probe_kind(item.kind), value)]
    };
    let difference = of("difference", item.difference);
    match item.low.zip(item.high).filter(|(low, high)| low < high) {
        Some((low, high)) => {
            all![difference, Piece::span([of("low", low), of("high", high)]).below()]
        }
        None => difference,
    }
}

fn figure(found: &Found<'_, Totals>, metric: Metric, of: Of) -> Piece {
    if of == Of::Blocks {
        return found.number("blocks", As::Count, found.item.blocks);
    }
    let Some(Spread { median, mean, least, most, each }) = found.item.values.get(&metric) else {
        return Piece::Nothing;
    };
    let (field, value) = match of {
        Of::Blocks | Of::Median => ("median", Some(*median)),
        Of::Each => ("each", *each),
        Of::Mean => ("mean", Some(*mean)),
        Of::Least => ("least", Some(*least)),
        Of::Most => ("most", Some(*most)),
    };
    // Counts of one operation are small.
    let kind = match (metric.info().shown, of) {
        (As::Count, Of::Each) => As::Amount,
        (kind, _) => kind,
    };
    let field = format!("values/{}/{field}", metric.name());
    value.map_or(Piece::Nothing, |value| found.number(&field, kind, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{self, holds};

    fn text(report: &Report) -> String {
        let shown = Shown::of("oltp", report);
        let costs: String = shown.costs().iter().map(|(table, _)| table.words()).collect();
        let whole = [shown.pooled(), Some(shown.figures()), shown.idle()];
        costs + &whole.into_iter().flatten().map(|table| table.words()).collect::<String>()
    }

    #[test]
    fn backups_show_costs_durations_and_other_tools() {
        holds(
            &text(&examples::backup()),
            [
                "backup, zstd, AES_256",
                "+19.6 % (+19.6 to +19.6)",
                "+0.020 %",
                "backup, zstd, disk to memory, AES_256",
                "1.21 s",
                "AES_256 against restic",
                "backup, uncompressed, disk to disk, none",
                "x0.28 (x0.28 to x0.28)",
                "restore, all together",
            ],
        );
        let mut plain = examples::backup();
        plain.runs.retain(|run| run.cell.starts_with("backup"));
        examples::summarize(&mut plain);
        assert!(!text(&plain).contains("restore"));
    }

    #[test]
    fn an_opening_is_its_plain_one_and_what_it_costs_more() {
        let mut report = examples::embedded();
        let found = &mut report.summary.differences[0];
        found.kind = ProbeKind::OpenOther;
        (found.value, found.against_value, found.difference) = (3.36e6, 206e3, 4.58e6);
        let table = Shown::of("embedded", &report).probes(&[Role::Encrypted]).unwrap().words();
        holds(&table, ["4.79 ms", "206 us", "+4.58 ms"]);
        assert!(!table.contains("3.36 ms"), "{table}");
    }

    #[test]
    fn workloads_show_overheads_and_figures_of_every_side() {
        holds(
            &text(&examples::oltp()),
            [
                "tdekit against base",
                "oltp_read_write, 1 thread",
                "oltp_read_write, 8 threads",
                "2 workloads and numbers of threads, tdekit",
                "peer against base",
                "-20.0 %",
                "2.00 ms",
            ],
        );
    }

    /// A column for each side, so that several still fit on a page.
    #[test]
    fn sides_have_a_table_for_each_decisive_cost() {
        let report = examples::oltp();
        let [throughput, cpu] = Shown::of("oltp", &report).peers().try_into().unwrap();
        assert_eq!(
            (throughput.columns().as_str(), cpu.columns().as_str()),
            ("tdekit, peer", "tdekit, peer")
        );
        holds(&throughput.words(), ["throughput", "-20.0 %"]);
        holds(&cpu.words(), ["CPU a transaction", "+25.0 %"]);
        let mut alone = examples::oltp();
        alone.sides.retain(|side| side.role != Role::Peer);
        assert!(Shown::of("oltp", &alone).peers().is_empty());
    }

    #[test]
    fn messages_show_overheads_other_ways_and_what_waits() {
        holds(&text(&examples::messages()), ["message loop, on", "+10.0 %", "+25.0 %"]);
        assert!(!text(&examples::messages()).contains("Idle connections"));
        holds(
            &text(&examples::messages_with_everything()),
            [
                "in-process",
                "point selects, off",
                "x2.50 (x2.50 to x2.50)",
                "Memory then",
                "30.0 kB",
            ],
        );
    }
}
