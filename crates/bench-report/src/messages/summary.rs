//! From batches to ratios. The restart is the unit of every interval, as for the other experiments.

use super::model::{
    MessagesCell, MessagesPoint, MessagesReport, MessagesRun, MessagesSeries, MessagesSide,
    MessagesSummary, MessagesTotals,
};
use super::published::{PUBLISHED_MESSAGES, STEPS, published_packets};
use crate::format::{bytes, count, duration, interval, percent, times};
use crate::grid::{Grid, GridCell, Index, Run, Stage, Versus};
use crate::model::{Experiment, Metric};
use crate::stats::median;
use crate::summary::{float, measured};

/// The cell that the document has.
const LOOP: &str = "loop";

/// Computes everything that a report shows from `report.runs`.
#[must_use]
pub fn summarize_messages(report: &MessagesReport, stage: Stage) -> MessagesSummary {
    let found = Index::of(&grid(report)).comparisons(stage);
    let calls = report.direct().map(|side| side.id.as_str());
    let (direct, ratios) =
        found.into_iter().partition(|found| Some(found.against.as_str()) == calls);
    let mut summary = MessagesSummary { ratios, direct, ..MessagesSummary::default() };
    for cell in &report.cells {
        let runs: Vec<&MessagesRun> =
            report.runs.iter().filter(|run| run.cell == cell.id).collect();
        summary.totals.extend(report.sides.iter().filter_map(|side| totals(&runs, cell, &side.id)));
    }
    if report.cells.iter().any(|cell| cell.id == LOOP) {
        summary.series = vec![
            switches_a_packet(report, &summary),
            ratio_series(report, &summary, &ELAPSED),
            ratio_series(report, &summary, &CPU),
            step_series(report, &summary),
        ];
    }
    summary
}

/// Metrics whose ratios are computed.
pub(crate) const RATIOS: &[Metric] = &[
    Metric::Elapsed,
    Metric::ServerCpu,
    Metric::ServerSwitches,
    Metric::ClientCpu,
    Metric::ClientSwitches,
];

/// The batches as every experiment is seen. What is held against the calls in the bench's process
/// is no cost of encryption.
#[must_use]
pub fn grid(report: &MessagesReport) -> Grid {
    let versus = |side: &MessagesSide, against: &MessagesSide, shown| Versus {
        cell: None,
        side: side.id.clone(),
        against: against.id.clone(),
        against_cell: None,
        shown,
    };
    let costs = report.base().into_iter().flat_map(|base| {
        let others = report.others();
        others.map(move |side| versus(side, base, true))
    });
    let calls = report.direct().into_iter().flat_map(|direct| {
        let sides = report.sides.iter().filter(|side| side.id != direct.id);
        sides.map(move |side| versus(side, direct, false))
    });
    let cells = report.cells.iter().map(|cell| GridCell {
        experiment: Experiment::Messages,
        id: cell.id.clone(),
        label: cell.label.clone(),
        what: format!("{} {}s: {}", cell.units, cell.unit, cell.statement),
    });
    Grid {
        sides: report.sides.iter().map(|side| (side.id.clone(), side.label.clone())).collect(),
        cells: cells.collect(),
        versus: costs.chain(calls).collect(),
        ratios: RATIOS,
        wanted: [Metric::Elapsed, Metric::ServerCpu],
        heads: (String::new(), Vec::new()),
        runs: report.runs.iter().map(seen).collect(),
    }
}

fn seen(run: &MessagesRun) -> Run {
    Run {
        cell: run.cell.clone(),
        statement: None,
        side: run.side.clone(),
        restart: run.restart,
        pair: run.pair,
        position: run.position,
        values: measured([
            (Metric::Elapsed, Some(run.elapsed_ns)),
            (Metric::ServerCpu, run.server.map(|used| used.cpu_ns)),
            (Metric::ServerSwitches, run.server.map(|used| used.switches())),
            (Metric::ClientCpu, Some(run.client.cpu_ns)),
            (Metric::ClientSwitches, Some(run.client.switches())),
            (Metric::Packets, Some(run.packets)),
            (Metric::Bytes, Some(run.bytes)),
            (Metric::WireBytes, Some(run.wire_bytes)),
        ]),
    }
}

fn totals(runs: &[&MessagesRun], cell: &MessagesCell, side: &str) -> Option<MessagesTotals> {
    let own: Vec<&&MessagesRun> = runs.iter().filter(|run| run.side == side).collect();
    let middle = |pick: &dyn Fn(&MessagesRun) -> Option<f64>| {
        median(&own.iter().filter_map(|run| pick(run)).collect::<Vec<_>>())
    };
    let a_packet = |run: &MessagesRun| {
        let switches = float(run.server?.switches());
        (run.packets > 0).then(|| switches / float(run.packets))
    };
    let units = float(cell.units.max(1));
    let elapsed_ns = middle(&|run| Some(float(run.elapsed_ns)))?;
    let server_cpu_ns = middle(&|run| Some(float(run.server?.cpu_ns)));
    Some(MessagesTotals {
        cell: cell.id.clone(),
        side: side.to_owned(),
        batches: own.len() as u64,
        elapsed_ns,
        elapsed_ns_a_unit: elapsed_ns / units,
        units_a_second: units * 1e9 / elapsed_ns.max(1.0),
        packets: middle(&|run| Some(float(run.packets)))?,
        bytes: middle(&|run| Some(float(run.bytes)))?,
        wire_bytes: middle(&|run| Some(float(run.wire_bytes)))?,
        server_cpu_ns,
        server_cpu_ns_a_unit: server_cpu_ns.map(|used| used / units),
        server_switches: middle(&|run| Some(float(run.server?.switches()))),
        server_switches_a_packet: middle(&a_packet),
        client_cpu_ns: middle(&|run| Some(float(run.client.cpu_ns)))?,
        client_switches: middle(&|run| Some(float(run.client.switches())))?,
    })
}

fn connection(encrypted: bool) -> &'static str {
    if encrypted { "encrypted" } else { "plain" }
}

fn switches_a_packet(report: &MessagesReport, summary: &MessagesSummary) -> MessagesSeries {
    let published = PUBLISHED_MESSAGES.iter().map(|found| MessagesPoint {
        label: format!("{}, {}", found.server, connection(found.encrypted)),
        published: true,
        encrypted: found.encrypted,
        value: float(found.switches) / published_packets(),
        low: None,
        high: None,
    });
    let ours = report.sides.iter().filter_map(|side| {
        Some(MessagesPoint {
            label: side.label.clone(),
            published: false,
            encrypted: side.suite.is_some(),
            value: summary.totals(LOOP, &side.id)?.server_switches_a_packet?,
            low: None,
            high: None,
        })
    });
    MessagesSeries {
        id: "switches_a_packet".to_owned(),
        title: "Context switches of the server a packet, message loop".to_owned(),
        unit: "switches".to_owned(),
        points: published.chain(ours).collect(),
    }
}

/// What a step of the loop takes, which does not depend on their number.
fn step_series(report: &MessagesReport, summary: &MessagesSummary) -> MessagesSeries {
    let published = PUBLISHED_MESSAGES.iter().map(|found| MessagesPoint {
        label: format!("{}, {}", found.server, connection(found.encrypted)),
        published: true,
        encrypted: found.encrypted,
        value: float(found.elapsed_ms) * 1e6 / STEPS,
        low: None,
        high: None,
    });
    let ours = report.sides.iter().filter_map(|side| {
        Some(MessagesPoint {
            label: side.label.clone(),
            published: false,
            encrypted: side.suite.is_some(),
            value: summary.totals(LOOP, &side.id)?.elapsed_ns_a_unit,
            low: None,
            high: None,
        })
    });
    MessagesSeries {
        id: "step_ns".to_owned(),
        title: "Elapsed time a step, message loop, ns".to_owned(),
        unit: "ns".to_owned(),
        points: published.chain(ours).collect(),
    }
}

/// What a series of ratios is of.
struct Ratios {
    id: &'static str,
    title: &'static str,
    metric: Metric,
    published: fn(&super::PublishedMessages) -> u64,
}

const ELAPSED: Ratios = Ratios {
    id: "elapsed_ratio",
    title: "Elapsed time, encrypted over plain, message loop",
    metric: Metric::Elapsed,
    published: |found| found.elapsed_ms,
};
const CPU: Ratios = Ratios {
    id: "cpu_ratio",
    title: "CPU of the server, encrypted over plain, message loop",
    metric: Metric::ServerCpu,
    published: |found| found.cpu_ms,
};

fn ratio_series(
    report: &MessagesReport,
    summary: &MessagesSummary,
    what: &Ratios,
) -> MessagesSeries {
    let published = PUBLISHED_MESSAGES.iter().filter(|found| found.encrypted).filter_map(|above| {
        let below = PUBLISHED_MESSAGES
            .iter()
            .find(|found| !found.encrypted && found.server == above.server)?;
        Some(MessagesPoint {
            label: above.server.to_owned(),
            published: true,
            encrypted: true,
            value: float((what.published)(above)) / float((what.published)(below)),
            low: None,
            high: None,
        })
    });
    let ours = report.others().filter_map(|side| {
        let found = summary.ratio(LOOP, &side.id, what.metric)?;
        Some(MessagesPoint {
            label: side.label.clone(),
            published: false,
            encrypted: true,
            value: found.ratio,
            low: found.low,
            high: found.high,
        })
    });
    MessagesSeries {
        id: what.id.to_owned(),
        title: what.title.to_owned(),
        unit: "ratio".to_owned(),
        points: published.chain(ours).collect(),
    }
}

/// A sentence for each encrypted side and cell, for each connection against SQLite called directly,
/// and for connections that wait.
pub(crate) fn verdict(report: &MessagesReport) -> Vec<String> {
    let mut sentences = Vec::new();
    for cell in &report.cells {
        sentences.extend(report.others().filter_map(|side| cost(report, cell, side)));
        sentences.extend(report.sides.iter().filter_map(|side| over_direct(report, cell, side)));
    }
    sentences.extend(report.idle.iter().map(|found| {
        let grown = float(found.after_bytes.saturating_sub(found.before_bytes));
        format!(
            "{} idle connections, {}: {} of memory in the server's process, {} each.",
            count(float(found.connections)),
            found.side,
            bytes(float(found.after_bytes)),
            bytes(grown / float(found.connections.max(1)))
        )
    }));
    sentences
}

fn cost(report: &MessagesReport, cell: &MessagesCell, side: &MessagesSide) -> Option<String> {
    let of = |metric| report.summary.ratio(&cell.id, &side.id, metric);
    let elapsed = of(Metric::Elapsed)?;
    let mut sentence = format!(
        "{}, {} against plain: elapsed {} ({})",
        cell.label,
        side.label,
        percent(elapsed.ratio),
        interval(elapsed.low, elapsed.high)
    );
    if let Some(cpu) = of(Metric::ServerCpu) {
        sentence.push_str(&format!(", server CPU {}", percent(cpu.ratio)));
    }
    if let Some(switches) = of(Metric::ServerSwitches) {
        sentence.push_str(&format!(", context switches {}", times(switches.ratio)));
    }
    if let Some(found) = report.summary.totals(&cell.id, &side.id) {
        let each = count(found.units_a_second);
        sentence.push_str(&format!("; {each} {}s a second", cell.unit));
    }
    sentence.push('.');
    Some(sentence)
}

fn over_direct(
    report: &MessagesReport,
    cell: &MessagesCell,
    side: &MessagesSide,
) -> Option<String> {
    let cpu = report.summary.direct(&cell.id, &side.id, Metric::ServerCpu)?;
    let used = |side: &str| report.summary.totals(&cell.id, side)?.server_cpu_ns_a_unit;
    Some(format!(
        "{}, {} against SQLite called directly: server CPU {} ({} against {} a {}).",
        cell.label,
        side.label,
        times(cpu.ratio),
        duration(used(&side.id)?),
        duration(used(&cpu.against)?),
        cell.unit
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::model::{MessagesIdle, MessagesMode, ProcessorUse};
    use super::*;
    use crate::model::Role;

    fn run(cell: &str, side: &str, place: (u32, u32), scale: (u64, u64, u64)) -> MessagesRun {
        let level = 1_000_000 + u64::from(place.0) * 30_000 + u64::from(place.1) * 7000;
        MessagesRun {
            cell: cell.to_owned(),
            side: side.to_owned(),
            restart: place.0,
            pair: place.1,
            position: 0,
            elapsed_ns: level * scale.0 / 100,
            packets: 1000,
            bytes: 4_096_000,
            wire_bytes: 4_120_000,
            server: Some(ProcessorUse {
                cpu_ns: level * scale.1 / 100,
                voluntary_switches: scale.2,
                involuntary_switches: 10,
            }),
            client: ProcessorUse {
                cpu_ns: level / 2,
                voluntary_switches: 100,
                involuntary_switches: 0,
            },
        }
    }

    /// Three restarts of two pairs; encrypted takes 1.10 times as long with 1.25 times the CPU of
    /// the server, and 2 context switches a packet.
    pub(crate) fn report() -> MessagesReport {
        let side = |id: &str, role, mode, suite: Option<&str>| MessagesSide {
            id: id.to_owned(),
            label: id.to_owned(),
            role,
            mode,
            protocol: suite.map(|_| "TLSv1.2".to_owned()),
            suite: suite.map(str::to_owned),
            packet_bytes: 4096,
        };
        let mut runs = Vec::new();
        for restart in 0..3 {
            for pair in 0..2 {
                runs.push(run("loop", "off", (restart, pair), (100, 100, 90)));
                runs.push(run("loop", "on", (restart, pair), (110, 125, 1990)));
            }
        }
        let mut report = MessagesReport {
            target: "own".to_owned(),
            server: "tdekit 16.0.1".to_owned(),
            server_process: Some("tdekit".to_owned()),
            loops: 1000,
            stream_rows: 0,
            packet_bytes: 4096,
            restarts: 3,
            sides: vec![
                side("off", Role::Base, MessagesMode::Off, None),
                side("on", Role::Encrypted, MessagesMode::On, Some("TLS_ECDHE_AES")),
            ],
            cells: vec![MessagesCell {
                id: "loop".to_owned(),
                label: "message loop".to_owned(),
                statement: "WHILE".to_owned(),
                units: 1000,
                unit: "step".to_owned(),
            }],
            runs,
            idle: Vec::new(),
            limits: Vec::new(),
            summary: MessagesSummary::default(),
        };
        report.summary = summarize_messages(&report, crate::Stage::fixed(0.95));
        report
    }

    #[test]
    fn ratios_come_from_pairs() {
        let report = report();
        let ratio = |metric| report.summary.ratio("loop", "on", metric).unwrap();
        let elapsed = ratio(Metric::Elapsed);
        assert!((elapsed.ratio - 1.1).abs() < 1e-4, "{}", elapsed.ratio);
        assert_eq!((elapsed.restarts, elapsed.pairs, elapsed.against.as_str()), (3, 6, "off"));
        assert!((ratio(Metric::ServerSwitches).ratio - 20.0).abs() < 1e-6);
        let sentence = verdict(&report).concat();
        assert!(sentence.contains("server CPU +25.0 %, context switches x20.00"), "{sentence}");
    }

    #[test]
    fn a_chart_has_the_document_beside_ours() {
        let report = report();
        let series = &report.summary.series[0];
        assert_eq!((series.id.as_str(), series.points.len()), ("switches_a_packet", 6));
        let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
        assert!((values[0] - 2.002).abs() < 1e-3 && (values[5] - 2.0).abs() < 1e-9, "{values:?}");
        let elapsed = &report.summary.series[1];
        assert_eq!(elapsed.points.iter().filter(|point| point.published).count(), 2);
        assert!((elapsed.points[0].value - 1.605).abs() < 1e-3);
        assert!((elapsed.points[2].value - 1.1).abs() < 1e-4 && elapsed.points[2].low.is_some());
    }

    #[test]
    fn a_server_that_cannot_be_seen_has_no_cpu() {
        let mut report = report();
        for run in &mut report.runs {
            run.server = None;
        }
        let summary = summarize_messages(&report, crate::Stage::fixed(0.95));
        assert!(summary.ratio("loop", "on", Metric::ServerCpu).is_none());
        assert!(summary.ratio("loop", "on", Metric::Elapsed).is_some());
        assert_eq!(summary.totals("loop", "off").unwrap().server_switches, None);
        assert_eq!(summary.series[0].points.len(), 4);
    }

    /// A cell that SQLite does directly in half the CPU, and connections that wait.
    pub(crate) fn with_everything() -> MessagesReport {
        let mut report = report();
        report.sides.push(MessagesSide {
            id: "direct".to_owned(),
            label: "in-process".to_owned(),
            role: Role::Peer,
            mode: MessagesMode::Direct,
            protocol: None,
            suite: None,
            packet_bytes: 0,
        });
        report.cells.push(MessagesCell {
            id: "points".to_owned(),
            label: "point selects".to_owned(),
            statement: "SELECT".to_owned(),
            units: 500,
            unit: "select".to_owned(),
        });
        for restart in 0..3 {
            report.runs.push(run("points", "off", (restart, 0), (100, 100, 90)));
            report.runs.push(run("points", "on", (restart, 0), (110, 125, 90)));
            let mut direct = run("points", "direct", (restart, 0), (50, 50, 0));
            (direct.packets, direct.bytes, direct.wire_bytes) = (0, 0, 0);
            direct.client = ProcessorUse::default();
            report.runs.push(direct);
        }
        report.idle.push(MessagesIdle {
            side: "on".to_owned(),
            connections: 1000,
            before_bytes: 20_000_000,
            after_bytes: 50_000_000,
            peak_bytes: 60_000_000,
            threads: 5,
            opened_ns: 2_000_000_000,
        });
        report.summary = summarize_messages(&report, crate::Stage::fixed(0.95));
        report
    }

    #[test]
    fn sqlite_called_directly_is_a_base_of_its_own() {
        let report = with_everything();
        let direct = |side, metric| report.summary.direct("points", side, metric).unwrap();
        assert!((direct("off", Metric::ServerCpu).ratio - 2.0).abs() < 1e-4);
        assert!((direct("on", Metric::ServerCpu).ratio - 2.5).abs() < 1e-4);
        assert_eq!(direct("on", Metric::Elapsed).against, "direct");
        // It is no connection that could cost more than the plain one.
        assert!(report.summary.ratios.iter().all(|found| found.side != "direct"));
        assert!(report.summary.direct.iter().all(|found| found.class == "points"));
        let totals = report.summary.totals("points", "direct").unwrap();
        assert_eq!(totals.server_switches_a_packet, None);
        assert!(
            (totals.server_cpu_ns_a_unit.unwrap() - totals.server_cpu_ns.unwrap() / 500.0).abs()
                < 1e-9
        );
        let said = verdict(&report).join("\n");
        for wanted in [
            "point selects, off against SQLite called directly: server CPU x2.00 (2.06 us against",
            "selects a second.",
            "1,000 idle connections, on: 50.0 MB of memory in the server's process, 30.0 kB each.",
        ] {
            assert!(said.contains(wanted), "{wanted} is missing in\n{said}");
        }
    }

    #[test]
    fn a_step_takes_what_it_takes_whatever_their_number() {
        let report = report();
        let steps = &report.summary.series[3];
        let values: Vec<f64> = steps.points.iter().map(|point| point.value).collect();
        assert_eq!(steps.id, "step_ns");
        assert!((values[1] - 621.27).abs() < 1e-6, "{values:?}");
        let median = report.summary.totals("loop", "off").unwrap().elapsed_ns;
        assert!((values[4] - median / 1000.0).abs() < 1e-9, "{values:?}");
    }
}
