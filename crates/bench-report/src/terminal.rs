//! The tables that a terminal shows.

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use crate::format::{bytes, duration, interval, percent};
use crate::model::{Class, Comparison, Difference, Metric, ProbeKind, Results, Role, Side};
use crate::verdict::verdict;
use crate::{backup, messages, oltp};

/// The report as plain text, ending in a newline.
#[must_use]
pub fn terminal(results: &Results) -> String {
    let mut text = heading(results);
    for line in verdict(results) {
        text.push_str(&line);
        text.push('\n');
    }
    if let Some(base) = results.sides.iter().find(|side| side.role == Role::Base) {
        if let Some(side) = results.sides.iter().find(|side| side.role == Role::Encrypted) {
            text.push_str(&main_table(results, side, base));
        }
        let peers: Vec<&Side> =
            results.sides.iter().filter(|side| side.role == Role::Peer).collect();
        if !peers.is_empty() {
            text.push_str(&peer_table(results, &peers, base));
        }
    }
    text.push_str(&latency_table(results));
    text.push_str(&probe_table(results));
    text.push_str(&circumstances(results));
    if let Some(matrix) = &results.backup {
        text.push_str(&backup::tables(matrix, results.settings.confidence()));
    }
    if let Some(report) = &results.oltp {
        text.push_str(&oltp::tables(report, results.settings.confidence()));
    }
    if let Some(report) = &results.messages {
        text.push_str(&messages::tables(report, results.settings.confidence()));
    }
    for warning in &results.warnings {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    for reason in &results.incomplete {
        text.push_str(&format!("\nincomplete: {reason}\n"));
    }
    text
}

fn heading(results: &Results) -> String {
    let subject = &results.subject;
    let Some(side) = results.sides.first() else {
        let size = bytes(float(subject.bytes));
        let page = match subject.page_size_bytes {
            0 => String::new(),
            bytes => format!(", page size {bytes}"),
        };
        return format!("{}, {size}{page}\n", subject.label);
    };
    let library = format!("SQLite {} ({})", side.library.version, side.library.origin);
    let settings = &results.settings;
    format!(
        "{}, {}, page size {}; {library}; journal_mode {}, synchronous {}, cache_size {}\n",
        subject.label,
        bytes(float(subject.bytes)),
        subject.page_size_bytes,
        settings.journal_mode,
        settings.synchronous,
        settings.cache_size,
    )
}

pub(crate) fn new_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
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

fn cell(comparison: Option<&Comparison>) -> String {
    comparison.map_or_else(
        || "-".to_owned(),
        |comparison| {
            format!("{} ({})", percent(comparison.ratio), interval(comparison.low, comparison.high))
        },
    )
}

fn main_table(results: &Results, side: &Side, base: &Side) -> String {
    let confidence = f64::from(results.settings.confidence_permille) / 10.0;
    let mut table = new_table(vec![
        "overhead".to_owned(),
        format!("elapsed ({confidence} %)"),
        format!("CPU ({confidence} %)"),
        "each, base".to_owned(),
        format!("each, {}", side.label),
    ]);
    for class in &results.classes {
        let of = |metric| results.summary.comparison(&class.id, metric, &side.id, &base.id);
        table.add_row(vec![
            format!("{}: {}", class.experiment.label(), class.label),
            cell(of(Metric::Elapsed)),
            cell(of(Metric::Cpu)),
            each(results, class, &base.id),
            each(results, class, &side.id),
        ]);
    }
    format!("\n{table}\n")
}

/// Elapsed time of one operation of a class.
fn each(results: &Results, class: &Class, side: &str) -> String {
    results.summary.totals(&class.id, side).map_or_else(
        || "-".to_owned(),
        |totals| {
            let operations = float(class.operations.max(1));
            format!("{}/{}", duration(totals.elapsed_ns / operations), class.unit)
        },
    )
}

/// Latencies of single operations, where they were timed.
fn latency_table(results: &Results) -> String {
    if results.latencies.is_empty() {
        return String::new();
    }
    let mut table = new_table(
        ["latency of an operation", "side", "50 %", "95 %", "99 %", "99.9 %", "slowest"]
            .map(str::to_owned)
            .to_vec(),
    );
    for found in &results.latencies {
        let class = results.classes.iter().find(|class| class.id == found.class);
        let side = results.sides.iter().find(|side| side.id == found.side);
        let mut row = vec![
            class.map_or_else(|| found.class.clone(), |class| class.label.clone()),
            side.map_or_else(|| found.side.clone(), |side| side.label.clone()),
        ];
        let points = [found.p50_ns, found.p95_ns, found.p99_ns, found.p999_ns, found.max_ns];
        row.extend(points.map(|point| duration(float(point))));
        table.add_row(row);
    }
    let meaning = match results.settings.rate_per_s {
        Some(rate) => format!("from when it was due, at {rate} a second"),
        None => "from when it began".to_owned(),
    };
    format!("\nLatency {meaning}:\n{table}\n")
}

/// What a reader should know of the run: its noise, its warm-up, the driver's own share.
fn circumstances(results: &Results) -> String {
    let mut lines = Vec::new();
    if let Some(noise) = &results.noise {
        let share = |part: f64| format!("{:.1} %", part * 100.0);
        lines.push(format!(
            "Other programs took {} of the processors, the host {}; load average {} to {}.",
            share(noise.others),
            share(noise.steal),
            noise.load_start,
            noise.load_end
        ));
    }
    let driver = results.driver.iter().max_by(|one, other| one.share.total_cmp(&other.share));
    if let Some(most) = driver {
        lines.push(format!(
            "The driver's own share: {:.1} % at most ({} of {} of CPU an operation in {}).",
            most.share * 100.0,
            duration(most.driver_ns),
            duration(most.base_ns),
            most.class
        ));
    }
    let warm_up = results.warm_up.iter().max_by_key(|found| found.needed);
    if let Some(most) = warm_up.filter(|most| most.tried > 0) {
        lines.push(format!(
            "Warm-up: {} of {} short blocks at most until a class settled ({}).",
            most.needed, most.tried, most.class
        ));
    }
    if let Some(stopping) = &results.settings.stopping {
        let percent = |ppm: u32| f64::from(ppm) / 1e4;
        lines.push(format!(
            "Wanted: +-{} % on the headline{}: {}.",
            percent(stopping.headline_ppm),
            stopping
                .all_ppm
                .map_or_else(String::new, |all| format!(", +-{} % on all", percent(all))),
            if stopping.reached { "reached" } else { "not reached in the time given" }
        ));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

fn peer_table(results: &Results, peers: &[&Side], base: &Side) -> String {
    let shown: Vec<&Side> = results
        .sides
        .iter()
        .filter(|side| side.role == Role::Encrypted)
        .chain(peers.iter().copied())
        .collect();
    let mut header = vec!["elapsed, CPU".to_owned()];
    header.extend(shown.iter().map(|side| side.label.clone()));
    let mut table = new_table(header);
    for class in &results.classes {
        let mut row = vec![format!("{}: {}", class.experiment.label(), class.label)];
        for side in &shown {
            let against = side.plain.as_ref().unwrap_or(&base.id);
            let of = |metric| {
                results
                    .summary
                    .comparison(&class.id, metric, &side.id, against)
                    .map_or_else(|| "-".to_owned(), |found| percent(found.ratio))
            };
            row.push(format!("{}, {}", of(Metric::Elapsed), of(Metric::Cpu)));
        }
        table.add_row(row);
    }
    format!("\nEach encrypting library against its own plain database:\n{table}\n")
}

fn probe_table(results: &Results) -> String {
    if results.summary.differences.is_empty() {
        return String::new();
    }
    let label = |id: &str| {
        results
            .sides
            .iter()
            .find(|side| side.id == id)
            .map_or_else(|| id.to_owned(), |side| side.label.clone())
    };
    let mut table =
        new_table(["", "side", "plain", "encrypted", "more"].map(str::to_owned).to_vec());
    for difference in &results.summary.differences {
        table.add_row(vec![
            difference.kind.label().to_owned(),
            format!("{} vs {}", label(&difference.side), label(&difference.against)),
            probe_value(difference.kind, difference.against_value),
            probe_value(difference.kind, difference.value),
            more(difference),
        ]);
    }
    format!("\n{table}\n")
}

/// A probe's value in its unit.
pub(crate) fn probe_value(kind: ProbeKind, value: f64) -> String {
    match kind {
        ProbeKind::OpenOther | ProbeKind::OpenAgain => duration(value),
        ProbeKind::ProcessMemory | ProbeKind::FileBytes => bytes(value),
    }
}

/// The difference with its interval; growth of a file as a percentage.
pub(crate) fn more(difference: &Difference) -> String {
    let plus = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", probe_value(difference.kind, value))
    };
    match difference.kind {
        ProbeKind::FileBytes if difference.against_value > 0.0 => {
            let growth = difference.difference / difference.against_value * 100.0;
            format!("{growth:+.2} %")
        }
        _ => match (difference.low, difference.high) {
            (Some(low), Some(high)) => {
                format!("{} ({} to {})", plus(difference.difference), plus(low), plus(high))
            }
            _ => plus(difference.difference),
        },
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;

    #[test]
    fn tables_show_overheads_peers_and_probes() {
        let mut results = example();
        results.incomplete.push("a worker was killed".to_owned());
        results.warnings.push("load average is 7".to_owned());
        let text = terminal(&results);
        for wanted in [
            "+10.0 % (+10.0 to +10.0)",
            "+20.0 %",
            "+150 %, +150 %",
            "own plain database",
            "+1.00 MB",
            "incomplete: a worker was killed",
            "warning: load average is 7",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }

    #[test]
    fn backups_alone_are_a_report() {
        let mut results = example();
        results.sides.clear();
        results.samples.clear();
        results.classes.clear();
        results.summary = crate::summary::summarize(&results);
        results.backup = Some(crate::backup::tests::matrix());
        let text = terminal(&results);
        assert!(!text.contains("journal_mode") && text.contains("cost of the cipher"), "{text}");
    }

    #[test]
    fn nothing_measured_is_still_a_report() {
        let mut results = example();
        results.samples.clear();
        results.probes.clear();
        results.summary = crate::summary::summarize(&results);
        let text = terminal(&results);
        assert!(text.contains("mix 4/3/3"), "{text}");
    }
}
