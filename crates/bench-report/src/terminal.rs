//! The tables that a terminal shows.

use crate::format::{bytes, count, duration, interval, percent};
use crate::layout::{FACTS, FactInfo, fact_words};
use crate::model::{
    Class, Comparison, Difference, Experiment, Metric, ProbeKind, Results, Role, Side,
};
use crate::oltp::own_share;
use crate::published_messages::{
    PUBLISHED_MESSAGES, PUBLISHED_MESSAGES_SOURCE, STEPS, published_packets, published_reckoning,
};
use crate::report::{Facts, Report, float};
use crate::table::{Shown, new_table};
use crate::verdict::verdict;

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
    for (name, report) in results.reports() {
        text.push_str(&own(name, report));
    }
    for warning in &results.warnings {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    for reason in &results.incomplete {
        text.push_str(&format!("\nincomplete: {reason}\n"));
    }
    text
}

/// An experiment with sides of its own: its circumstances and its tables.
fn own(name: &str, report: &Report) -> String {
    let known = |facts: &Facts| -> Vec<String> {
        let words = |info: &FactInfo| Some(format!("{} {}", info.words, fact_words(facts, info)?));
        FACTS.iter().filter_map(words).collect()
    };
    let mut facts = known(&report.facts);
    facts.extend(report.settings.iter().map(|(name, value)| format!("{name}={value}")));
    let mut text = format!("\n{}: {}\n", report.experiment.label(), facts.join("; "));
    for side in &report.sides {
        let mut own: Vec<String> = side.cipher.iter().cloned().collect();
        own.extend(known(&side.facts));
        if !own.is_empty() {
            text.push_str(&format!("{}: {}\n", side.label, own.join(", ")));
        }
    }
    let shown = Shown::of(name, report);
    text.extend(shown.pooled().map(|table| table.words()));
    for (table, reference) in shown.costs() {
        if reference || shown.layout.costs_in_terminal {
            text.push_str(&table.words());
        }
    }
    text.push_str(&format!("{}{}\n", shown.figures().words(), shown.layout.figures_note));
    text.extend(shown.idle().map(|table| table.words()));
    match report.experiment {
        Experiment::Oltp => text.extend(own_share(report).map(|(cell, own, share)| {
            format!(
                "The bench's own share: {:.2} % of the base's CPU at most ({} a transaction in \
                 {cell}).\n",
                share * 100.0,
                duration(own),
            )
        })),
        Experiment::Messages => text.push_str(&published_table()),
        _ => {}
    }
    for limit in &report.limits {
        text.push_str(&format!("\nnote: {limit}\n"));
    }
    text
}

/// Noveljic's figures.
fn published_table() -> String {
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
            let each = totals.values.get(&Metric::Elapsed).and_then(|found| found.each);
            format!("{}/{}", duration(each.unwrap_or(0.0)), class.unit)
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
    fn experiments_with_sides_of_their_own_are_a_report() {
        let mut results = example();
        results.sides.clear();
        results.samples.clear();
        results.classes.clear();
        results.backup = Some(crate::examples::backup());
        results.oltp = Some(crate::examples::oltp());
        results.messages = Some(crate::examples::messages_with_everything());
        results.oltp.as_mut().unwrap().limits.push("CPU is unknown".to_owned());
        crate::summarize(&mut results);
        let text = terminal(&results);
        assert!(!text.contains("journal_mode"), "{text}");
        for wanted in [
            "disk=ext4, source and target",
            "What the cipher costs",
            "engine MariaDB 10.11.19; driver sysbench 1.0.20; tables 4; rows a table 150,000; \
             data 150 MB; innodb_buffer_pool_size=67108864",
            "tdekit against base",
            "The bench's own share: 0.19 % of the base's CPU at most (191 ns a transaction",
            "note: CPU is unknown",
            "server tdekit 16.0.1; server process tdekit",
            "on: TLS_ECDHE_AES, protocol TLSv1.2",
            "SQL Server 2014, encrypted",
            "1,273,235",
            "2.000 for each packet",
            "621 ns",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }

    #[test]
    fn nothing_measured_is_still_a_report() {
        let mut results = example();
        results.samples.clear();
        results.probes.clear();
        crate::summarize(&mut results);
        let text = terminal(&results);
        assert!(text.contains("mix 4/3/3"), "{text}");
    }
}
