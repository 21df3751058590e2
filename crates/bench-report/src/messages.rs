//! The answers that messages over TDS give.

use crate::figures::Ratio;
use crate::format::{bytes, count, duration, percent, times};
use crate::model::{Class, Metric, Role, Side};
use crate::report::{Report, float};

/// A sentence for each encrypted side and cell, for each connection against SQLite called directly,
/// and for connections that wait.
pub(crate) fn verdict(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    for cell in &report.cells {
        sentences.extend(report.others().filter_map(|side| cost(report, cell, side)));
        sentences.extend(report.sides.iter().filter_map(|side| over_direct(report, cell, side)));
    }
    sentences.extend(report.idle.iter().map(|found| {
        format!(
            "{} idle connections, {}: {} of memory in the server's process, {} each.",
            count(float(found.connections)),
            found.side,
            bytes(float(found.after_bytes)),
            bytes(found.each_bytes())
        )
    }));
    sentences
}

fn cost(report: &Report, cell: &Class, side: &Side) -> Option<String> {
    let base = report.base()?;
    let of = |metric| report.summary.comparison(&cell.id, metric, &side.id, &base.id);
    let elapsed = of(Metric::Elapsed)?;
    let mut sentence =
        format!("{}, {} against plain: elapsed {}", cell.label, side.label, elapsed.words());
    if let Some(cpu) = of(Metric::ServerCpu) {
        sentence.push_str(&format!(", server CPU {}", percent(cpu.ratio)));
    }
    if let Some(switches) = of(Metric::ServerSwitches) {
        sentence.push_str(&format!(", context switches {}", times(switches.ratio)));
    }
    if let Some(found) = report.median(&cell.id, &side.id, Metric::Throughput) {
        sentence.push_str(&format!("; {} {}s a second", count(found), cell.unit));
    }
    sentence.push('.');
    Some(sentence)
}

fn over_direct(report: &Report, cell: &Class, side: &Side) -> Option<String> {
    let direct = report.sides.iter().find(|side| side.role == Role::Reference)?;
    let cpu = report.summary.comparison(&cell.id, Metric::ServerCpu, &side.id, &direct.id)?;
    let used =
        |side: &str| report.summary.totals(&cell.id, side)?.values.get(&Metric::ServerCpu)?.each;
    Some(format!(
        "{}, {} against SQLite called directly: server CPU {} ({} against {} a {}).",
        cell.label,
        side.label,
        times(cpu.ratio),
        duration(used(&side.id)?),
        duration(used(&direct.id)?),
        cell.unit
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{self, holds};

    #[test]
    fn a_cost_is_told_in_a_sentence() {
        let sentence = verdict(&examples::messages()).concat();
        assert!(sentence.contains("server CPU +25.0 %, context switches x20.00"), "{sentence}");
    }

    #[test]
    fn sqlite_called_directly_is_a_base_of_its_own() {
        let report = examples::messages_with_everything();
        let direct =
            |side, metric| report.summary.comparison("points", metric, side, "direct").unwrap();
        assert!((direct("off", Metric::ServerCpu).ratio - 2.0).abs() < 1e-4);
        assert!((direct("on", Metric::ServerCpu).ratio - 2.5).abs() < 1e-4);
        // It is no connection that could cost more than the plain one.
        assert!(report.summary.comparisons.iter().all(|found| found.side != "direct"));
        assert_eq!(report.median("points", "direct", Metric::SwitchesEach), None);
        let said = verdict(&report).join("\n");
        holds(
            &said,
            [
                "point selects, off against SQLite called directly: server CPU x2.00 (2.06 us",
                "selects a second.",
                "1,000 idle connections, on: 50.0 MB of memory in the server's process, 30.0 kB",
            ],
        );
    }
}
