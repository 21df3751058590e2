//! From batches to ratios. The restart is the unit of every interval, as for the other experiments.

use super::model::{
    MessagesCell, MessagesMetric, MessagesPoint, MessagesRatio, MessagesReport, MessagesRun,
    MessagesSeries, MessagesSide, MessagesSummary, MessagesTotals,
};
use super::published::{PUBLISHED_MESSAGES, published_packets};
use crate::format::{interval, percent};
use crate::pairs::{Paired, Pairs};
use crate::stats::median;
use crate::summary::float;

/// The cell that the document has.
const LOOP: &str = "loop";

/// Computes everything that a report shows from `report.runs`.
#[must_use]
pub fn summarize_messages(report: &MessagesReport, confidence: f64) -> MessagesSummary {
    let mut summary = MessagesSummary::default();
    for cell in &report.cells {
        let runs: Vec<&MessagesRun> =
            report.runs.iter().filter(|run| run.cell == cell.id).collect();
        summary
            .totals
            .extend(report.sides.iter().filter_map(|side| totals(&runs, &cell.id, &side.id)));
        let Some(base) = report.base() else { continue };
        for side in report.others() {
            summary.ratios.extend(ratios(&runs, cell, side, base, confidence));
        }
    }
    if report.cells.iter().any(|cell| cell.id == LOOP) {
        summary.series = vec![
            switches_a_packet(report, &summary),
            ratio_series(report, &summary, &ELAPSED),
            ratio_series(report, &summary, &CPU),
        ];
    }
    summary
}

fn value(run: &MessagesRun, metric: MessagesMetric) -> Option<f64> {
    let some = |count: u64| (count > 0).then(|| float(count));
    match metric {
        MessagesMetric::Elapsed => some(run.elapsed_ns),
        MessagesMetric::ServerCpu => some(run.server?.cpu_ns),
        MessagesMetric::ServerSwitches => some(run.server?.switches()),
        MessagesMetric::ClientCpu => some(run.client.cpu_ns),
        MessagesMetric::ClientSwitches => some(run.client.switches()),
    }
}

impl Paired for MessagesRun {
    fn place(&self) -> (u32, u32) {
        (self.restart, self.pair)
    }

    fn side(&self) -> &str {
        &self.side
    }
}

fn ratios(
    runs: &[&MessagesRun],
    cell: &MessagesCell,
    side: &MessagesSide,
    base: &MessagesSide,
    confidence: f64,
) -> Vec<MessagesRatio> {
    let pairs = Pairs::of(runs, &side.id, &base.id);
    let of_metric = |metric| {
        pairs.ratio(|run| value(run, metric), confidence).map(|estimate| MessagesRatio {
            cell: cell.id.clone(),
            side: side.id.clone(),
            against: base.id.clone(),
            metric,
            ratio: estimate.center,
            low: estimate.interval.map(|(low, _)| low),
            high: estimate.interval.map(|(_, high)| high),
            restarts: estimate.groups as u64,
            pairs: estimate.values as u64,
        })
    };
    MessagesMetric::ALL.into_iter().filter_map(of_metric).collect()
}

fn totals(runs: &[&MessagesRun], cell: &str, side: &str) -> Option<MessagesTotals> {
    let own: Vec<&&MessagesRun> = runs.iter().filter(|run| run.side == side).collect();
    let middle = |pick: &dyn Fn(&MessagesRun) -> Option<f64>| {
        median(&own.iter().filter_map(|run| pick(run)).collect::<Vec<_>>())
    };
    let a_packet =
        |run: &MessagesRun| Some(float(run.server?.switches()) / float(run.packets.max(1)));
    Some(MessagesTotals {
        cell: cell.to_owned(),
        side: side.to_owned(),
        batches: own.len() as u64,
        elapsed_ns: middle(&|run| Some(float(run.elapsed_ns)))?,
        packets: middle(&|run| Some(float(run.packets)))?,
        bytes: middle(&|run| Some(float(run.bytes)))?,
        wire_bytes: middle(&|run| Some(float(run.wire_bytes)))?,
        server_cpu_ns: middle(&|run| Some(float(run.server?.cpu_ns))),
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

/// What a series of ratios is of.
struct Ratios {
    id: &'static str,
    title: &'static str,
    metric: MessagesMetric,
    published: fn(&super::PublishedMessages) -> u64,
}

const ELAPSED: Ratios = Ratios {
    id: "elapsed_ratio",
    title: "Elapsed time, encrypted over plain, message loop",
    metric: MessagesMetric::Elapsed,
    published: |found| found.elapsed_ms,
};
const CPU: Ratios = Ratios {
    id: "cpu_ratio",
    title: "CPU of the server, encrypted over plain, message loop",
    metric: MessagesMetric::ServerCpu,
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

/// A sentence for each encrypted side and cell.
pub(crate) fn verdict(report: &MessagesReport) -> Vec<String> {
    let mut sentences = Vec::new();
    for cell in &report.cells {
        for side in report.others() {
            let of = |metric| report.summary.ratio(&cell.id, &side.id, metric);
            let Some(elapsed) = of(MessagesMetric::Elapsed) else { continue };
            let mut sentence = format!(
                "{}, {} against plain: elapsed {} ({})",
                cell.label,
                side.label,
                percent(elapsed.ratio),
                interval(elapsed.low, elapsed.high)
            );
            if let Some(cpu) = of(MessagesMetric::ServerCpu) {
                sentence.push_str(&format!(", server CPU {}", percent(cpu.ratio)));
            }
            if let Some(switches) = of(MessagesMetric::ServerSwitches) {
                let times = switches.ratio;
                sentence.push_str(&format!(", context switches x{times:.2}"));
            }
            sentence.push('.');
            sentences.push(sentence);
        }
    }
    sentences
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::model::{MessagesMode, ProcessorUse};
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
            limits: Vec::new(),
            summary: MessagesSummary::default(),
        };
        report.summary = summarize_messages(&report, 0.95);
        report
    }

    #[test]
    fn ratios_come_from_pairs() {
        let report = report();
        let ratio = |metric| report.summary.ratio("loop", "on", metric).unwrap();
        let elapsed = ratio(MessagesMetric::Elapsed);
        assert!((elapsed.ratio - 1.1).abs() < 1e-4, "{}", elapsed.ratio);
        assert_eq!((elapsed.restarts, elapsed.pairs, elapsed.against.as_str()), (3, 6, "off"));
        assert!((ratio(MessagesMetric::ServerSwitches).ratio - 20.0).abs() < 1e-6);
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
        let summary = summarize_messages(&report, 0.95);
        assert!(summary.ratio("loop", "on", MessagesMetric::ServerCpu).is_none());
        assert!(summary.ratio("loop", "on", MessagesMetric::Elapsed).is_some());
        assert_eq!(summary.totals("loop", "off").unwrap().server_switches, None);
        assert_eq!(summary.series[0].points.len(), 4);
    }
}
