//! The tables shown in a terminal.

use crate::fact::{DIRECTORY, float};
use crate::format::{bytes, duration};
use crate::metric::Metric;
use crate::model::{Experiment, Role};
use crate::oltp::own_share;
use crate::piece::Piece;
use crate::published::{PUBLISHED, published_reckoning, published_table};
use crate::report::Report;
use crate::results::{Results, is_of_classes};
use crate::shown::{Shown, known};
use crate::verdict::verdict;

/// Returns the report as plain text, ending in a newline.
#[must_use]
pub fn terminal(results: &Results) -> String {
    let mut text = heading(results);
    text.extend(verdict(results).into_iter().map(|line| line + "\n"));
    if let Some((name, report)) = results.classes() {
        text.push_str(&classes(results, (name, report)));
    }
    text.push_str(&circumstances(results));
    if let Some(report) = &results.server {
        let shown = Shown::of("server", report);
        text.push_str(&format!("{}{}\n", shown.figures().words(), shown.layout.figures_note));
        text.extend(report.limits.iter().map(|limit| format!("\nnote: {limit}\n")));
    }
    for (name, report) in results.reports().filter(|(name, _)| !is_of_classes(name)) {
        text.push_str(&own(name, report));
    }
    text.extend(results.warnings.iter().map(|warning| format!("\nwarning: {warning}\n")));
    text.extend(results.incomplete.iter().map(|reason| format!("\nincomplete: {reason}\n")));
    text
}

/// Mixes and operations: the cost of our side and of peers, latencies and probes.
fn classes(results: &Results, (name, report): (&str, &Report)) -> String {
    let shown = Shown::of(name, report);
    let metrics = [Metric::Elapsed, Metric::Cpu];
    let confidence = f64::from(results.settings.confidence_permille) / 10.0;
    let mut text = String::new();
    for side in report.others() {
        let Some(plain) = report.plain(side) else { continue };
        let mut cells = shown.cells("");
        let mut title = format!("{} against {}", side.label, plain.label);
        if side.role == Role::Peer || report.is_further(&side.id) {
            let pair = (side.id.as_str(), plain.id.as_str());
            cells.retain(|cell| shown.comparison(&cell.item.id, metrics[0], pair).is_some());
        } else {
            title = format!("{title}, {confidence} % intervals");
        }
        text.push_str(&shown.overheads(&title, &cells, (side, plain), &metrics).words());
        if side.facts.contains_key(DIRECTORY) {
            let facts = Piece::parted(known(&side.facts, ""), ", ").words();
            text.push_str(&format!("{}: {facts}\n", side.label));
        }
    }
    if let Some(table) = shown.latencies() {
        let meaning = match results.settings.rate_per_s {
            Some(rate) => format!("from when it was due, at {rate} a second"),
            None => "from when it began".to_owned(),
        };
        text.push_str(&format!("\nLatency {meaning}:{}", table.words()));
    }
    let probes = shown.probes(&[Role::Encrypted, Role::Peer]);
    text.extend(probes.map(|table| table.words()));
    text
}

/// An experiment with its own sides: its circumstances and its tables.
fn own(name: &str, report: &Report) -> String {
    let shown = Shown::of(name, report);
    let facts = Piece::parted(shown.facts(), "; ").words();
    let mut text = format!("\n{}: {facts}\n", report.experiment.label());
    text.extend(shown.told().map(|side| side.words() + "\n"));
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
        Experiment::Messages => text.push_str(&format!(
            "\n{}.{}{}\n",
            PUBLISHED.documents["messages"].citation,
            published_table().words(),
            published_reckoning()
        )),
        _ => {}
    }
    text.extend(report.limits.iter().map(|limit| format!("\nnote: {limit}\n")));
    text
}

fn heading(results: &Results) -> String {
    let subject = &results.subject;
    let Some(side) = results.embedded.as_ref().and_then(|report| report.sides.first()) else {
        // A server's size may be unknown.
        let size = match subject.bytes {
            0 => String::new(),
            size => format!(", {}", bytes(float(size))),
        };
        let page = match subject.page_size_bytes {
            0 => String::new(),
            bytes => format!(", page size {bytes}"),
        };
        return format!("{}{size}{page}\n", subject.label);
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

/// Reliability of the run: its noise, its warm-up, the driver's own share.
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
    let warm_ups = results.reports().flat_map(|(_, report)| &report.warm_up);
    let drivers = results.reports().flat_map(|(_, report)| &report.driver);
    let driver = drivers.max_by(|one, other| one.share.total_cmp(&other.share));
    if let Some(most) = driver {
        lines.push(format!(
            "The driver's own share: {:.1} % at most ({} of {} of CPU an operation in {}).",
            most.share * 100.0,
            duration(most.driver_ns),
            duration(most.base_ns),
            most.class
        ));
    }
    let warm_up = warm_ups.max_by_key(|found| found.needed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, holds, whole};

    #[test]
    fn tables_show_overheads_peers_and_probes() {
        let mut results = example();
        results.incomplete.push("a worker was killed".to_owned());
        results.warnings.push("load average is 7".to_owned());
        let text = terminal(&results);
        holds(
            &text,
            [
                "+10.0 % (+10.0 to +10.0)",
                "+20.0 %",
                "+150 % (+150 to +150)",
                "peer against peer-plain",
                "+1.00 MB",
                "incomplete: a worker was killed",
                "warning: load average is 7",
            ],
        );
    }

    #[test]
    fn experiments_with_sides_of_their_own_are_a_report() {
        let mut results = Results { embedded: None, ..whole() };
        results.oltp.as_mut().unwrap().limits.push("CPU is unknown".to_owned());
        crate::summarize(&mut results);
        let text = terminal(&results);
        assert!(!text.contains("journal_mode"), "{text}");
        results.subject.bytes = 0;
        assert!(!terminal(&results).contains(", 0 B"));
        holds(
            &text,
            [
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
            ],
        );
    }

    #[test]
    fn nothing_measured_is_still_a_report() {
        let mut results = example();
        let report = results.embedded.as_mut().unwrap();
        report.runs.clear();
        report.probes.clear();
        crate::summarize(&mut results);
        let text = terminal(&results);
        assert!(text.contains("mix 4/3/3"), "{text}");
    }
}
