//! Messages over TDS on the page: elapsed time, CPU and context switches of messages over TDS.

use maud::{Markup, html};

use super::cell::{As, Found, each, ends, find, float, number, ratio, ratio_cell, text, wide};
use super::documents::{MESSAGES, provenance};
use crate::messages::{
    self, MessagesCell, MessagesPoint, MessagesReport, MessagesSeries, MessagesSide,
    PUBLISHED_MESSAGES, published_reckoning,
};
use crate::model::{Comparison, Metric, Results};
use crate::plot::{Bar, Bars, ChartError, Ink, bars};

/// Charts with the published figures beside ours, costs, and the figures of all sides.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn section(results: &Results, report: &MessagesReport) -> Result<Markup, ChartError> {
    let charts: Vec<Markup> =
        report.summary.series.iter().map(chart).collect::<Result<_, ChartError>>()?;
    Ok(html! {
        section id="messages" {
            h2 { "Messages and context switches" }
            (provenance(results, "messages", Some(&MESSAGES), &here(report)))
            div class="charts" { @for chart in &charts { (chart) } }
            (series(report))
            @if !report.cells.is_empty() {
                (costs(report))
                (figures(report))
            }
            @if !report.summary.direct.is_empty() { (over_direct(report)) }
            @if !report.idle.is_empty() { (idle(report)) }
            (published())
            @for limit in each(&report.limits, "messages/limits") {
                p class="notice" { (text(&limit.at, limit.item)) }
            }
        }
    })
}

fn here(report: &MessagesReport) -> Markup {
    html! {
        (text("messages/server", &report.server)) "; a loop of "
        (number("messages/loops", As::Count, float(report.loops))) " messages, a result of "
        (number("messages/stream_rows", As::Count, float(report.stream_rows)))
        " rows; packets of "
        (number("messages/packet_bytes", As::Count, f64::from(report.packet_bytes)))
        " bytes; interleaved on fresh connections, "
        (number("messages/restarts", As::Count, f64::from(report.restarts))) " restarts"
    }
}

fn chart(series: &MessagesSeries) -> Result<Markup, ChartError> {
    let bar = |point: &MessagesPoint| Bar {
        name: point.label.clone(),
        ink: match (point.published, point.encrypted) {
            (true, _) => Ink::Plain,
            (false, true) => Ink::One,
            (false, false) => Ink::Three,
        },
        value: point.value,
        bounds: point.low.zip(point.high),
    };
    bars(&Bars {
        title: series.title.clone(),
        words: super::cell::amount,
        bars: series.points.iter().map(bar).collect(),
    })
}

/// The charts' numbers.
fn series(report: &MessagesReport) -> Markup {
    html! {
        details {
            summary { "The charts' numbers" }
            @for series in each(&report.summary.series, "messages/summary/series") {
                (wide(&series.item.title, &html! { table {
                    caption { (text(&format!("{}/title", series.at), &series.item.title)) }
                    thead { tr {
                        th scope="col" { "Connection" }
                        th scope="col" { "Whose" }
                        th scope="col" { "Figure" }
                    } }
                    tbody {
                        @for point in each(&series.item.points, &format!("{}/points", series.at)) {
                            tr {
                                th scope="row" {
                                    (text(&format!("{}/label", point.at), &point.item.label))
                                }
                                td { @if point.item.published { "published" } @else { "here" } }
                                td { (number(
                                    &format!("{}/value", point.at), As::Amount, point.item.value)) }
                            }
                        }
                    }
                } }))
            }
        }
    }
}

fn find_ratio<'a>(
    report: &'a MessagesReport,
    cell: &MessagesCell,
    side: &MessagesSide,
    metric: Metric,
) -> Option<Found<'a, Comparison>> {
    find(&report.summary.ratios, "messages/summary/ratios", |found| {
        found.class == cell.id && found.side == side.id && found.metric == metric
    })
}

fn heading(cell: &Found<'_, MessagesCell>, side: &Found<'_, MessagesSide>) -> Markup {
    html! {
        th scope="row" {
            (text(&format!("{}/label", cell.at), &cell.item.label)) ", "
            (text(&format!("{}/label", side.at), &side.item.label))
        }
    }
}

fn costs(report: &MessagesReport) -> Markup {
    html! {
        h3 { "Encrypted against plain" }
        (wide("Cost of encrypted connections", &html! { table {
            thead { tr {
                th scope="col" { "Batch" }
                th scope="col" { "Elapsed" }
                th scope="col" { "Server's CPU" }
                th scope="col" { "Server's context switches" }
                th scope="col" { "Client's CPU" }
                th scope="col" { "Client's context switches" }
            } }
            tbody { @for cell in each(&report.cells, "messages/cells") {
                @for side in each(&report.sides, "messages/sides") {
                    @let known =
                        find_ratio(report, cell.item, side.item, Metric::Elapsed);
                    @if side.item.is_compared() && known.is_some() { tr {
                        (heading(&cell, &side))
                        @for metric in messages::RATIOS.iter().copied() {
                            (ratio_cell(find_ratio(report, cell.item, side.item, metric).as_ref()))
                        }
                    } }
                }
            } }
        } }))
    }
}

fn figures(report: &MessagesReport) -> Markup {
    html! {
        h3 { "Figures of every connection" }
        (wide("Figures of every connection", &html! { table {
            thead { tr {
                th scope="col" { "Batch" }
                th scope="col" { "Elapsed" }
                th scope="col" { "Each" }
                th scope="col" { "A second" }
                th scope="col" { "Packets" }
                th scope="col" { "Bytes" }
                th scope="col" { "Encrypted bytes" }
                th scope="col" { "Server's CPU" }
                th scope="col" { "Each" }
                th scope="col" { "Server's switches" }
                th scope="col" { "A packet" }
            } }
            tbody { @for cell in each(&report.cells, "messages/cells") {
                @for side in each(&report.sides, "messages/sides") {
                    @let found = find(&report.summary.totals, "messages/summary/totals", |found| {
                        found.cell == cell.item.id && found.side == side.item.id
                    });
                    @if let Some(found) = found { tr {
                        (heading(&cell, &side))
                        @let value = |field: &str, kind, value| {
                            number(&format!("{}/{field}", found.at), kind, value)
                        };
                        @let seen = |field: &str, kind, seen: Option<f64>| {
                            seen.map_or_else(|| html! { "–" }, |seen| value(field, kind, seen))
                        };
                        @let counted = |field: &str, kind, amount: f64| {
                            seen(field, kind, (amount > 0.0).then_some(amount))
                        };
                        td { (value("elapsed_ns", As::Duration, found.item.elapsed_ns)) }
                        td { (value(
                            "elapsed_ns_a_unit", As::Duration, found.item.elapsed_ns_a_unit)) }
                        td { (value("units_a_second", As::Count, found.item.units_a_second)) }
                        td { (counted("packets", As::Count, found.item.packets)) }
                        td { (counted("bytes", As::Bytes, found.item.bytes)) }
                        td { (counted("wire_bytes", As::Bytes, found.item.wire_bytes)) }
                        td { (seen("server_cpu_ns", As::Duration, found.item.server_cpu_ns)) }
                        td { (seen(
                            "server_cpu_ns_a_unit",
                            As::Duration,
                            found.item.server_cpu_ns_a_unit,
                        )) }
                        td { (seen("server_switches", As::Count, found.item.server_switches)) }
                        td { (seen(
                            "server_switches_a_packet",
                            As::Amount,
                            found.item.server_switches_a_packet,
                        )) }
                    } }
                }
            } }
        } }))
    }
}

fn times_cell(found: Option<&Found<'_, Comparison>>) -> Markup {
    html! {
        @match found {
            None => td { "–" },
            Some(found) => td {
                (ratio(found, As::Times)) br;
                small { (ends(found, As::Times)) }
            },
        }
    }
}

/// Connections against SQLite called in the bench's own process.
fn over_direct(report: &MessagesReport) -> Markup {
    let of = |cell: &MessagesCell, side: &MessagesSide, metric| {
        find(&report.summary.direct, "messages/summary/direct", |found: &Comparison| {
            found.class == cell.id && found.side == side.id && found.metric == metric
        })
    };
    html! {
        h3 { "Against SQLite called directly" }
        (wide("Connections against SQLite called directly", &html! { table {
            thead { tr {
                th scope="col" { "Work" }
                th scope="col" { "Server's CPU" }
                th scope="col" { "Elapsed" }
            } }
            tbody { @for cell in each(&report.cells, "messages/cells") {
                @for side in each(&report.sides, "messages/sides") {
                    @let cpu = of(cell.item, side.item, Metric::ServerCpu);
                    @if cpu.is_some() { tr {
                        (heading(&cell, &side))
                        (times_cell(cpu.as_ref()))
                        (times_cell(of(cell.item, side.item, Metric::Elapsed).as_ref()))
                    } }
                }
            } }
        } }))
    }
}

fn idle(report: &MessagesReport) -> Markup {
    html! {
        h3 { "Connections that wait" }
        (wide("Connections that wait", &html! { table {
            thead { tr {
                th scope="col" { "Connections" }
                th scope="col" { "Kind" }
                th scope="col" { "Server's memory before" }
                th scope="col" { "Server's memory then" }
                th scope="col" { "At most" }
                th scope="col" { "Threads" }
                th scope="col" { "Opened in" }
            } }
            tbody { @for found in each(&report.idle, "messages/idle") { tr {
                @let value = |field: &str, kind, amount| {
                    number(&format!("{}/{field}", found.at), kind, float(amount))
                };
                td { (value("connections", As::Count, found.item.connections)) }
                th scope="row" { (text(&format!("{}/side", found.at), &found.item.side)) }
                td { (value("before_bytes", As::Bytes, found.item.before_bytes)) }
                td { (value("after_bytes", As::Bytes, found.item.after_bytes)) }
                td { (value("peak_bytes", As::Bytes, found.item.peak_bytes)) }
                td { (value("threads", As::Count, found.item.threads)) }
                td { (value("opened_ns", As::Duration, found.item.opened_ns)) }
            } } }
        } }))
    }
}

/// Noveljic's table.
fn published() -> Markup {
    html! {
        h3 { "As the source's table" }
        div data-fixed {
            (wide("The source's table of messages", &html! { table {
                thead { tr {
                    th scope="col" { "Server" }
                    th scope="col" { "Elapsed" }
                    th scope="col" { "CPU" }
                    th scope="col" { "Waited to encrypt" }
                    th scope="col" { "Context switches" }
                } }
                tbody { @for row in PUBLISHED_MESSAGES { tr {
                    th scope="row" {
                        (row.server) @if row.encrypted { ", encrypted" } @else { ", plain" }
                    }
                    td { (row.elapsed_ms) " ms" }
                    td { (row.cpu_ms) " ms" }
                    td { (row.encrypt_wait_ms) " ms" }
                    td { (crate::format::count(float(row.switches))) }
                } } }
            } }))
            p class="quiet" { (published_reckoning()) }
        }
    }
}
