//! The OLTP workloads as the terminal shows it.

use super::model::{OltpReport, OltpSide, OltpTotals};
use super::summary::{float, own_share};
use crate::format::{bytes, count, duration, interval, percent};
use crate::model::{Comparison, Metric};
use crate::terminal::new_table;

/// Overheads by workload and threads, a table for each side, and the figures of all sides.
pub(crate) fn tables(report: &OltpReport, confidence: f64) -> String {
    let mut text = format!(
        "\n{}; {}; {} tables of {} rows",
        report.engine,
        report.driver,
        report.tables,
        count(float(report.rows)),
    );
    if report.data_bytes > 0 {
        text.push_str(&format!(", {}", bytes(float(report.data_bytes))));
    }
    text.push('\n');
    let settings: Vec<String> = report
        .settings
        .iter()
        .map(|setting| format!("{}={}", setting.name, setting.value))
        .collect();
    if !settings.is_empty() {
        text.push_str(&format!("{}\n", settings.join(", ")));
    }
    for side in report.others() {
        text.push_str(&overheads(report, side, confidence));
    }
    text.push_str(&figures(report));
    for limit in &report.limits {
        text.push_str(&format!("\nnote: {limit}\n"));
    }
    text
}

fn words(found: Option<&Comparison>) -> String {
    found.map_or_else(
        || "-".to_owned(),
        |found| format!("{} ({})", percent(found.ratio), interval(found.low, found.high)),
    )
}

fn overheads(report: &OltpReport, side: &OltpSide, confidence: f64) -> String {
    let mut table = new_table(vec![
        format!("{} against base", side.label),
        format!("throughput ({} %)", confidence * 100.0),
        "CPU each".to_owned(),
        "latency p95".to_owned(),
    ]);
    for cell in &report.cells {
        let of = |metric| report.summary.ratio(&cell.id, &side.id, metric);
        let Some(throughput) = of(Metric::Throughput) else { continue };
        table.add_row(vec![
            cell.words(),
            words(Some(throughput)),
            words(of(Metric::CpuEach)),
            of(Metric::P95Latency).map_or_else(|| "-".to_owned(), |found| percent(found.ratio)),
        ]);
    }
    let of = |metric| report.summary.overall(&side.id, metric);
    if let Some(throughput) = of(Metric::Throughput) {
        let cpu = of(Metric::CpuEach);
        let worst = cpu.map_or_else(|| "-".to_owned(), |cpu| percent(cpu.most));
        table.add_row(vec![
            format!("median of {} cells", throughput.cells),
            percent(throughput.median),
            cpu.map_or_else(|| "-".to_owned(), |cpu| percent(cpu.median)),
            of(Metric::P95Latency).map_or_else(|| "-".to_owned(), |found| percent(found.median)),
        ]);
        table.add_row(vec![
            "worst cell".to_owned(),
            percent(throughput.least),
            worst,
            of(Metric::P95Latency).map_or_else(|| "-".to_owned(), |found| percent(found.most)),
        ]);
    }
    format!("\n{table}\n")
}

fn figures(report: &OltpReport) -> String {
    let header =
        ["each second", "side", "TPS", "p50", "p95", "p99", "CPU", "client CPU", "read", "written"];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    for cell in &report.cells {
        for side in &report.sides {
            let Some(found) = report.summary.totals(&cell.id, &side.id) else { continue };
            table.add_row(row(cell.words(), side, found));
        }
    }
    let mut text = format!(
        "\nCPU, reads and writes are of one transaction (of a scan: of one page).\n{table}\n"
    );
    if let Some((found, share)) = own_share(report) {
        text.push_str(&format!(
            "The bench's own share: {:.2} % of the base's CPU at most ({} a transaction in {}).\n",
            share * 100.0,
            duration(found.own_cpu_each_ns),
            found.cell
        ));
    }
    text
}

fn row(name: String, side: &OltpSide, found: &OltpTotals) -> Vec<String> {
    let time = |ns: u64| if ns == 0 { "-".to_owned() } else { duration(float(ns)) };
    vec![
        name,
        side.label.clone(),
        count(found.per_second),
        time(found.latency.p50_ns),
        time(found.latency.p95_ns),
        time(found.latency.p99_ns),
        found.cpu_each_ns.map_or_else(|| "-".to_owned(), duration),
        duration(found.client_cpu_each_ns),
        bytes(found.device_read_each_bytes),
        bytes(found.device_write_each_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::report;
    use super::*;

    #[test]
    fn tables_show_overheads_and_figures_of_every_side() {
        let text = tables(&report(), 0.95);
        for wanted in [
            "MariaDB 10.11.19; sysbench 1.0.20; 4 tables of 150,000 rows, 150 MB",
            "innodb_buffer_pool_size=67108864",
            "tdekit against base",
            "oltp_read_write, 1 thread",
            "oltp_read_write, 8 threads",
            "median of 2 cells",
            "peer against base",
            "The bench's own share: 0.19 % of the base's CPU at most (191 ns a transaction",
            "-20.0 %",
            "2.00 ms",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }

    #[test]
    fn limits_are_told() {
        let mut report = report();
        report.limits.push("CPU is unknown".to_owned());
        assert!(tables(&report, 0.95).contains("note: CPU is unknown"));
    }
}
