//! Experiment D as the terminal shows it.

use super::model::{MessagesMetric, MessagesRatio, MessagesReport, MessagesSide};
use super::published::{
    PUBLISHED_MESSAGES, PUBLISHED_MESSAGES_SOURCE, published_packets, published_reckoning,
};
use crate::format::{bytes, count, duration, interval, percent};
use crate::summary::float;
use crate::terminal::new_table;

/// Overheads, the figures of all sides, and the document's beside them.
pub(crate) fn tables(report: &MessagesReport, confidence: f64) -> String {
    let mut text = format!("\n{} ({})", report.server, report.target);
    match &report.server_process {
        Some(name) => text.push_str(&format!("; server process {name}\n")),
        None => text.push('\n'),
    }
    for side in &report.sides {
        text.push_str(&format!("{}\n", describe(side)));
    }
    text.push_str(&overheads(report, confidence));
    text.push_str(&figures(report));
    text.push_str(&published());
    for limit in &report.limits {
        text.push_str(&format!("\nnote: {limit}\n"));
    }
    text
}

fn describe(side: &MessagesSide) -> String {
    let tls = match (&side.protocol, &side.suite) {
        (Some(protocol), Some(suite)) => format!("{protocol}, {suite}"),
        _ => "not encrypted".to_owned(),
    };
    format!("{}: {tls}, packets of {} bytes", side.label, side.packet_bytes)
}

fn words(found: Option<&MessagesRatio>) -> String {
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
            table.add_row(vec![
                format!("{}, {}", cell.label, side.label),
                words(of(MessagesMetric::Elapsed)),
                words(of(MessagesMetric::ServerCpu)),
                words(of(MessagesMetric::ServerSwitches)),
                words(of(MessagesMetric::ClientCpu)),
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
        "packets",
        "bytes",
        "received",
        "server CPU",
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
                format!("{} {}s", count(float(cell.units)), cell.unit),
                side.label.clone(),
                duration(found.elapsed_ns),
                count(found.packets),
                bytes(found.bytes),
                bytes(found.wire_bytes),
                or_dash(found.server_cpu_ns.map(duration)),
                or_dash(found.server_switches.map(count)),
                or_dash(found.server_switches_a_packet.map(|each| format!("{each:.3}"))),
                duration(found.client_cpu_ns),
                count(found.client_switches),
            ]);
        }
    }
    format!("\n{table}\n")
}

fn published() -> String {
    let header = ["published", "elapsed", "CPU", "waited for encryption", "switches", "a packet"];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    let time = |ms: u64| duration(float(ms) * 1e6);
    for found in &PUBLISHED_MESSAGES {
        let connection = if found.encrypted { "encrypted" } else { "plain" };
        table.add_row(vec![
            format!("{}, {connection}", found.server),
            time(found.elapsed_ms),
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
    use super::super::summary::tests::report;
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
}
