//! Messages over TDS as the terminal shows it.

use super::model::{MessagesCell, MessagesMode, MessagesReport, MessagesSide};
use super::published::{
    PUBLISHED_MESSAGES, PUBLISHED_MESSAGES_SOURCE, STEPS, published_packets, published_reckoning,
};
use crate::format::{bytes, count, duration, interval, percent, times};
use crate::model::{Comparison, Metric};
use crate::summary::float;
use crate::terminal::new_table;

/// Overheads, the figures of all sides, and the source's beside them.
pub(crate) fn tables(report: &MessagesReport, confidence: f64) -> String {
    let mut text = format!("\n{} ({})", report.server, report.target);
    match &report.server_process {
        Some(name) => text.push_str(&format!("; server process {name}\n")),
        None => text.push('\n'),
    }
    for side in &report.sides {
        text.push_str(&format!("{}\n", describe(side)));
    }
    if !report.cells.is_empty() {
        text.push_str(&overheads(report, confidence));
        text.push_str(&figures(report));
    }
    if !report.summary.direct.is_empty() {
        text.push_str(&over_direct(report, confidence));
    }
    if !report.idle.is_empty() {
        text.push_str(&idle(report));
    }
    text.push_str(&published());
    for limit in &report.limits {
        text.push_str(&format!("\nnote: {limit}\n"));
    }
    text
}

fn describe(side: &MessagesSide) -> String {
    if side.mode == MessagesMode::Direct {
        return format!("{}: SQLite called by the bench itself, on the same database", side.label);
    }
    let tls = match (&side.protocol, &side.suite) {
        (Some(protocol), Some(suite)) => format!("{protocol}, {suite}"),
        _ => "not encrypted".to_owned(),
    };
    format!("{}: {tls}, packets of {} bytes", side.label, side.packet_bytes)
}

fn words(found: Option<&Comparison>) -> String {
    found.map_or_else(
        || "-".to_owned(),
        |found| format!("{} ({})", percent(found.ratio), interval(found.low, found.high)),
    )
}

fn overheads(report: &MessagesReport, confidence: f64) -> String {
    let mut table = new_table(vec![
        "encrypted against plain".to_owned(),
        format!("elapsed ({} %)", confidence * 100.0),
        "server CPU".to_owned(),
        "server switches".to_owned(),
        "client CPU".to_owned(),
    ]);
    for cell in &report.cells {
        for side in report.others() {
            let of = |metric| report.summary.ratio(&cell.id, &side.id, metric);
            // A driver does not know every kind of connection.
            if of(Metric::Elapsed).is_none() {
                continue;
            }
            table.add_row(vec![
                format!("{}, {}", cell.label, side.label),
                words(of(Metric::Elapsed)),
                words(of(Metric::ServerCpu)),
                words(of(Metric::ServerSwitches)),
                words(of(Metric::ClientCpu)),
            ]);
        }
    }
    format!("\n{table}\n")
}

fn figures(report: &MessagesReport) -> String {
    let header = [
        "a batch",
        "side",
        "elapsed",
        "a second",
        "packets",
        "bytes",
        "received",
        "server CPU",
        "each",
        "server switches",
        "a packet",
        "client CPU",
        "client switches",
    ];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for cell in &report.cells {
        for side in &report.sides {
            let Some(found) = report.summary.totals(&cell.id, &side.id) else { continue };
            table.add_row(vec![
                of_cell(cell),
                side.label.clone(),
                duration(found.elapsed_ns),
                count(found.units_a_second),
                or_dash(counted(found.packets).map(count)),
                or_dash(counted(found.bytes).map(bytes)),
                or_dash(counted(found.wire_bytes).map(bytes)),
                or_dash(found.server_cpu_ns.map(duration)),
                or_dash(found.server_cpu_ns_a_unit.map(duration)),
                or_dash(found.server_switches.map(count)),
                or_dash(found.server_switches_a_packet.map(|each| format!("{each:.3}"))),
                or_dash(counted(found.client_cpu_ns).map(duration)),
                count(found.client_switches),
            ]);
        }
    }
    format!("\n{table}\n")
}

/// What is not counted on this side stands as 0.
fn counted(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

fn of_cell(cell: &MessagesCell) -> String {
    let units = format!("{} {}s", count(float(cell.units)), cell.unit);
    match cell.id.as_str() {
        "loop" | "stream" => units,
        _ => format!("{}: {units}", cell.label),
    }
}

fn over_direct(report: &MessagesReport, confidence: f64) -> String {
    let mut table = new_table(vec![
        "against SQLite called directly".to_owned(),
        format!("server CPU ({} %)", confidence * 100.0),
        "elapsed".to_owned(),
    ]);
    let ratio = |found: Option<&Comparison>| {
        found.map_or_else(
            || "-".to_owned(),
            |found| {
                let ends = found.low.zip(found.high).map_or_else(
                    || "no interval".to_owned(),
                    |(low, high)| format!("{} to {}", times(low), times(high)),
                );
                format!("{} ({ends})", times(found.ratio))
            },
        )
    };
    for cell in &report.cells {
        for side in report.sides.iter().filter(|side| side.mode != MessagesMode::Direct) {
            let of = |metric| report.summary.direct(&cell.id, &side.id, metric);
            let Some(cpu) = of(Metric::ServerCpu) else { continue };
            table.add_row(vec![
                format!("{}, {}", cell.label, side.label),
                ratio(Some(cpu)),
                ratio(of(Metric::Elapsed)),
            ]);
        }
    }
    format!("\n{table}\n")
}

fn idle(report: &MessagesReport) -> String {
    let header = [
        "idle connections",
        "side",
        "memory before",
        "memory then",
        "each",
        "peak",
        "threads",
        "opened in",
    ];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    for found in &report.idle {
        let grown = float(found.after_bytes.saturating_sub(found.before_bytes));
        table.add_row(vec![
            count(float(found.connections)),
            found.side.clone(),
            bytes(float(found.before_bytes)),
            bytes(float(found.after_bytes)),
            bytes(grown / float(found.connections.max(1))),
            bytes(float(found.peak_bytes)),
            count(float(found.threads)),
            duration(float(found.opened_ns)),
        ]);
    }
    format!("\n{table}\n")
}

fn published() -> String {
    let header =
        ["published", "elapsed", "a step", "CPU", "waited for encryption", "switches", "a packet"];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    let time = |ms: u64| duration(float(ms) * 1e6);
    for found in &PUBLISHED_MESSAGES {
        let connection = if found.encrypted { "encrypted" } else { "plain" };
        table.add_row(vec![
            format!("{}, {connection}", found.server),
            time(found.elapsed_ms),
            duration(float(found.elapsed_ms) * 1e6 / STEPS),
            time(found.cpu_ms),
            time(found.encrypt_wait_ms),
            count(float(found.switches)),
            format!("{:.3}", float(found.switches) / published_packets()),
        ]);
    }
    format!("\n{PUBLISHED_MESSAGES_SOURCE}.\n{table}\n{}\n", published_reckoning())
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{report, with_everything};
    use super::*;

    #[test]
    fn tables_show_overheads_figures_and_the_document() {
        let mut report = report();
        report.limits.push("the server is far away".to_owned());
        let text = tables(&report, 0.95);
        for wanted in [
            "tdekit 16.0.1 (own); server process tdekit",
            "on: TLSv1.2, TLS_ECDHE_AES, packets of 4096 bytes",
            "off: not encrypted",
            "message loop, on",
            "+10.0 %",
            "+25.0 %",
            "1,000 steps",
            "SQL Server 2014, encrypted",
            "1,273,235",
            "2.000 for each packet",
            "note: the server is far away",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }

    #[test]
    fn what_else_was_measured_has_tables_of_its_own() {
        assert!(!tables(&report(), 0.95).contains("idle connections"));
        let text = tables(&with_everything(), 0.95);
        for wanted in [
            "in-process: SQLite called by the bench itself",
            "point selects: 500 selects",
            "point selects, off",
            "x2.50 (x2.50 to x2.50)",
            "memory then",
            "30.0 kB",
            "621 ns",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }
}
