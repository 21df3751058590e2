//! The OLTP workloads on the page: throughput and latency by threads.

use maud::{Markup, html};

use super::cell::{As, Found, each, find, float, number, ratio_cell, text, wide};
use super::documents::{OLTP, provenance};
use crate::format::{count, duration};
use crate::model::{Comparison, Metric, Results, Role};
use crate::oltp::{self, OltpCell, OltpReport, OltpSide, OltpTotals, OltpUnit};
use crate::plot::{ChartError, Ink, Key, Lines, Point, Series, lines};

/// Inks of the sides beside the plain one. A run with more peers shows the rest in the tables.
const INKS: [Ink; 4] = [Ink::One, Ink::Two, Ink::Three, Ink::Four];

/// Charts by workload, overheads, and the figures of all sides.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn section(results: &Results, report: &OltpReport) -> Result<Markup, ChartError> {
    let charts = charts(report)?;
    Ok(html! {
        section id="oltp" {
            h2 { "OLTP by threads" }
            (provenance(results, "oltp", Some(&OLTP), &here(report)))
            @if !charts.is_empty() {
                p class="quiet" {
                    "Medians of the blocks; the tables below hold the same figures. Amounts begin \
                     at zero, threads double."
                }
                div class="charts" { @for chart in &charts { (chart) } }
            }
            (overheads(report))
            (figures(report))
            @for limit in each(&report.limits, "oltp/limits") {
                p class="notice" { (text(&limit.at, limit.item)) }
            }
        }
    })
}

fn here(report: &OltpReport) -> Markup {
    html! {
        (text("oltp/engine", &report.engine)) ", driven by " (text("oltp/driver", &report.driver))
        "; " (number("oltp/tables", As::Count, f64::from(report.tables))) " tables of "
        (number("oltp/rows", As::Count, float(report.rows))) " rows"
        @if report.data_bytes > 0 {
            ", " (number("oltp/data_bytes", As::Bytes, float(report.data_bytes)))
        }
        "; blocks of " (number("oltp/block_s", As::Seconds, report.block_s)) ", interleaved, in "
        (number("oltp/restarts", As::Count, f64::from(report.restarts))) " restarts on fresh copies"
        @for setting in each(&report.settings, "oltp/settings") {
            "; " (text(&format!("{}/name", setting.at), &setting.item.name)) "="
            (text(&format!("{}/value", setting.at), &setting.item.value))
        }
    }
}

/// Workloads of transactions, in order of the report.
fn workloads(report: &OltpReport) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for cell in report.cells.iter().filter(|cell| cell.unit == OltpUnit::Transaction) {
        if !found.contains(&cell.workload.as_str()) {
            found.push(&cell.workload);
        }
    }
    found
}

/// A side with its ink.
fn inked(report: &OltpReport) -> Vec<(Ink, &OltpSide)> {
    let base = report.base().map(|side| (Ink::Plain, side));
    base.into_iter().chain(INKS.into_iter().zip(report.others())).collect()
}

fn charts(report: &OltpReport) -> Result<Vec<Markup>, ChartError> {
    let mut drawn = Vec::new();
    for workload in workloads(report) {
        let cells: Vec<&OltpCell> =
            report.cells.iter().filter(|cell| cell.workload == workload).collect();
        let plot = |what: &str, words: fn(f64) -> String, value: &dyn Fn(&OltpTotals) -> f64| {
            lines(&Lines {
                title: format!("{workload}: {what}"),
                across: "threads".to_owned(),
                words,
                series: series(report, &cells, value),
            })
        };
        drawn.push(plot("transactions a second", count, &|found| found.per_second)?);
        drawn.push(plot("latency, 95th percentile", time, &|found| float(found.latency.p95_ns))?);
    }
    Ok(drawn)
}

/// A time on an axis that begins at 0.
fn time(ns: f64) -> String {
    if ns == 0.0 { "0".to_owned() } else { duration(ns) }
}

fn series(
    report: &OltpReport,
    cells: &[&OltpCell],
    value: &dyn Fn(&OltpTotals) -> f64,
) -> Vec<Series> {
    let points = |side: &OltpSide| {
        let found = cells.iter().filter_map(|cell| {
            let y = value(report.summary.totals(&cell.id, &side.id)?);
            Some(Point { x: f64::from(cell.threads.max(1)), y, bounds: None })
        });
        let mut points: Vec<Point> = found.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    };
    inked(report)
        .into_iter()
        .map(|(ink, side)| {
            let key = Key { ink, name: side.label.clone() };
            Series { key, points: points(side) }
        })
        .filter(|series| !series.points.is_empty())
        .collect()
}

fn find_ratio<'a>(
    report: &'a OltpReport,
    cell: &OltpCell,
    side: &OltpSide,
    metric: Metric,
) -> Option<Found<'a, Comparison>> {
    find(&report.summary.ratios, "oltp/summary/ratios", |found| {
        found.class == cell.id && found.side == side.id && found.metric == metric
    })
}

/// The name of a cell, as a row's heading.
fn heading(cell: &Found<'_, OltpCell>) -> Markup {
    html! {
        th scope="row" {
            (text(&format!("{}/workload", cell.at), &cell.item.workload)) ", "
            (number(&format!("{}/threads", cell.at), As::Count, f64::from(cell.item.threads)))
            @if cell.item.threads == 1 { " thread" } @else { " threads" }
        }
    }
}

fn overheads(report: &OltpReport) -> Markup {
    let sides: Vec<Found<'_, OltpSide>> =
        each(&report.sides, "oltp/sides").filter(|side| side.item.role != Role::Base).collect();
    html! {
        @for side in sides {
            @let name = format!("Cost by workload and threads, {}", side.item.label);
            h3 { (text(&format!("{}/label", side.at), &side.item.label)) " against plain" }
            (wide(&name, &html! { table {
                thead { tr {
                    th scope="col" { "Workload" }
                    th scope="col" { "Throughput" }
                    th scope="col" { "CPU, each" }
                    th scope="col" { "Latency, median" }
                    th scope="col" data-fixed { "95th percentile" }
                    th scope="col" data-fixed { "99th percentile" }
                } }
                tbody { @for cell in each(&report.cells, "oltp/cells") { tr {
                    (heading(&cell))
                    @for metric in oltp::RATIOS.iter().copied() {
                        (ratio_cell(find_ratio(report, cell.item, side.item, metric).as_ref()))
                    }
                } } }
                (overall(report, side.item))
            } }))
        }
    }
}

/// Median and ends over all cells.
fn overall(report: &OltpReport, side: &OltpSide) -> Markup {
    let of = |metric| {
        find(&report.summary.overall, "oltp/summary/overall", |found| {
            found.side == side.id && found.metric == metric
        })
    };
    let value = |metric, field: &str| {
        of(metric).map_or_else(
            || html! { "–" },
            |found| {
                let value = match field {
                    "median" => found.item.median,
                    "least" => found.item.least,
                    _ => found.item.most,
                };
                number(&format!("{}/{field}", found.at), As::Percent, value)
            },
        )
    };
    html! {
        @if of(Metric::Throughput).is_some() { tfoot {
            @for (name, field) in
                [("median of all", "median"), ("least of all", "least"), ("most of all", "most")]
            {
                tr {
                    th scope="row" { (name) }
                    @for metric in oltp::RATIOS.iter().copied() { td { (value(metric, field)) } }
                }
            }
        } }
    }
}

fn figures(report: &OltpReport) -> Markup {
    html! {
        h3 { "Figures of every side" }
        details {
            summary { "Throughput, latency, CPU, context switches, reads and writes" }
            p class="quiet" {
                "Medians of the blocks. CPU, context switches, reads and writes are those of one \
                 transaction (of a scan: of one page). The bench's own CPU is that of its code: \
                 on SQLite a part of the CPU before it, beside a client what was used meanwhile."
            }
            (wide("Figures of every side", &html! { table {
                thead { tr {
                    th scope="col" { "Workload" }
                    th scope="col" { "Side" }
                    @for name in [
                        "A second", "Median", "95th", "99th", "CPU", "Client CPU",
                        "Bench's own CPU", "Context switches", "Read", "Written",
                    ] { th scope="col" data-fixed { (name) } }
                } }
                tbody { @for cell in each(&report.cells, "oltp/cells") {
                    @for side in each(&report.sides, "oltp/sides") {
                        @let found = find(&report.summary.totals, "oltp/summary/totals", |found| {
                            found.cell == cell.item.id && found.side == side.item.id
                        });
                        @if let Some(found) = found { tr {
                            (heading(&cell))
                            td { (text(&format!("{}/label", side.at), &side.item.label)) }
                            (row(&found))
                        } }
                    }
                } }
            } }))
        }
    }
}

fn row(found: &Found<'_, OltpTotals>) -> Markup {
    let value = |field: &str, kind, value| number(&format!("{}/{field}", found.at), kind, value);
    let item = found.item;
    let time = |field: &str, ns: u64| {
        if ns == 0 {
            html! { "–" }
        } else {
            value(field, As::Duration, float(ns))
        }
    };
    html! {
        td { (value("per_second", As::Count, item.per_second)) }
        td { (time("latency/p50_ns", item.latency.p50_ns)) }
        td { (time("latency/p95_ns", item.latency.p95_ns)) }
        td { (time("latency/p99_ns", item.latency.p99_ns)) }
        td { @match item.cpu_each_ns {
            Some(ns) => (value("cpu_each_ns", As::Duration, ns)),
            None => "–",
        } }
        td { (value("client_cpu_each_ns", As::Duration, item.client_cpu_each_ns)) }
        td { (value("own_cpu_each_ns", As::Duration, item.own_cpu_each_ns)) }
        td { (value("context_switches_each", As::Decimal, item.context_switches_each)) }
        td { (value("device_read_each_bytes", As::Bytes, item.device_read_each_bytes)) }
        td { (value("device_write_each_bytes", As::Bytes, item.device_write_each_bytes)) }
    }
}
