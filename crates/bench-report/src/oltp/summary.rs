//! From blocks to ratios. The restart is the unit of every interval, as for the other experiments.

use super::model::{
    OltpCell, OltpLatency, OltpOverall, OltpReport, OltpRun, OltpSide, OltpSummary, OltpTotals,
    OltpUnit,
};
use crate::format::percent;
use crate::grid::{Grid, GridCell, Index, Run, Stage, Versus};
use crate::model::{Comparison, Experiment, Metric, Role};
use crate::stats::median;
use crate::summary::measured;

/// Computes everything that a report shows from `report.runs`.
#[must_use]
pub fn summarize_oltp(report: &OltpReport, stage: Stage) -> OltpSummary {
    let ratios = Index::of(&grid(report)).comparisons(stage);
    let mut summary = OltpSummary { ratios, ..OltpSummary::default() };
    for cell in &report.cells {
        let runs: Vec<&OltpRun> = report.runs.iter().filter(|run| run.cell == cell.id).collect();
        summary
            .totals
            .extend(report.sides.iter().filter_map(|side| totals(&runs, &cell.id, &side.id)));
    }
    for side in report.others() {
        for metric in RATIOS.iter().copied() {
            summary.overall.extend(overall(report, &summary.ratios, &side.id, metric));
        }
    }
    summary
}

/// Metrics whose ratios are computed.
pub(crate) const RATIOS: &[Metric] = &[
    Metric::Throughput,
    Metric::CpuEach,
    Metric::MedianLatency,
    Metric::P95Latency,
    Metric::TailLatency,
];

/// The workloads as every experiment is seen.
pub(crate) fn grid(report: &OltpReport) -> Grid {
    grid_of((&report.sides, &report.cells, &report.runs))
}

/// The view of workloads of which no report is made yet.
#[must_use]
pub fn grid_of((sides, cells, runs): (&[OltpSide], &[OltpCell], &[OltpRun])) -> Grid {
    let base = sides.iter().find(|side| side.role == Role::Base);
    let versus = sides.iter().filter(|side| side.role != Role::Base).filter_map(|side| {
        Some(Versus {
            cell: None,
            side: side.id.clone(),
            against: base?.id.clone(),
            against_cell: None,
            shown: true,
        })
    });
    let cells = cells.iter().map(|cell| GridCell {
        experiment: Experiment::Oltp,
        id: cell.id.clone(),
        label: cell.words(),
        what: String::new(),
    });
    Grid {
        sides: sides.iter().map(|side| (side.id.clone(), side.label.clone())).collect(),
        cells: cells.collect(),
        versus: versus.collect(),
        ratios: RATIOS,
        wanted: [Metric::Throughput, Metric::CpuEach],
        heads: (String::new(), Vec::new()),
        runs: runs.iter().map(seen).collect(),
    }
}

fn seen(run: &OltpRun) -> Run {
    let mut values = measured(
        [
            (Metric::Elapsed, run.elapsed_ns),
            (Metric::Cpu, run.engine_cpu_ns),
            (Metric::User, run.engine_user_ns),
            (Metric::System, run.engine_system_ns),
            (Metric::ClientCpu, run.client_cpu_ns),
            (Metric::OwnCpu, run.own_cpu_ns),
            (Metric::DeviceRead, run.device_read_bytes),
            (Metric::DeviceWrite, run.device_write_bytes),
            (Metric::ServerSwitches, run.context_switches),
            (Metric::Transactions, run.transactions),
            (Metric::Queries, run.queries),
            (Metric::Errors, run.errors),
            (Metric::MedianLatency, run.latency.p50_ns),
            (Metric::P95Latency, run.latency.p95_ns),
            (Metric::TailLatency, run.latency.p99_ns),
            (Metric::MaxLatency, run.latency.max_ns),
        ]
        .map(|(metric, value)| (metric, Some(value))),
    );
    values.extend(run.per_second().map(|value| (Metric::Throughput, value)));
    values.extend(run.cpu_each_ns().map(|value| (Metric::CpuEach, value)));
    Run {
        cell: run.cell.clone(),
        statement: None,
        side: run.side.clone(),
        restart: run.restart,
        pair: run.pair,
        position: run.position,
        values,
    }
}

fn totals(runs: &[&OltpRun], cell: &str, side: &str) -> Option<OltpTotals> {
    let own: Vec<&&OltpRun> = runs.iter().filter(|run| run.side == side).collect();
    let middle = |pick: &dyn Fn(&OltpRun) -> Option<f64>| {
        median(&own.iter().filter_map(|run| pick(run)).collect::<Vec<_>>())
    };
    let each = |pick: fn(&OltpRun) -> u64| {
        middle(&|run| Some(float(pick(run)) / float(run.transactions.max(1)))).unwrap_or(0.0)
    };
    let whole = |pick: fn(&OltpLatency) -> u64| {
        let found = middle(&|run| Some(float(pick(&run.latency)))).unwrap_or(0.0);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a median of nanoseconds that fit 64 bits"
        )]
        let ns = found.round() as u64;
        ns
    };
    Some(OltpTotals {
        cell: cell.to_owned(),
        side: side.to_owned(),
        blocks: own.len() as u64,
        per_second: middle(&OltpRun::per_second)?,
        latency: OltpLatency {
            min_ns: whole(|latency| latency.min_ns),
            avg_ns: whole(|latency| latency.avg_ns),
            p50_ns: whole(|latency| latency.p50_ns),
            p95_ns: whole(|latency| latency.p95_ns),
            p99_ns: whole(|latency| latency.p99_ns),
            max_ns: whole(|latency| latency.max_ns),
        },
        cpu_each_ns: middle(&OltpRun::cpu_each_ns),
        client_cpu_each_ns: each(|run| run.client_cpu_ns),
        own_cpu_each_ns: each(|run| run.own_cpu_ns),
        device_read_each_bytes: each(|run| run.device_read_bytes),
        device_write_each_bytes: each(|run| run.device_write_bytes),
        context_switches_each: each(|run| run.context_switches),
        errors_each: each(|run| run.errors),
    })
}

/// Over the cells of transactions: a scan of pages is a question of its own.
fn overall(
    report: &OltpReport,
    ratios: &[Comparison],
    side: &str,
    metric: Metric,
) -> Option<OltpOverall> {
    let counts = |cell: &str| {
        report.cells.iter().any(|found| found.id == cell && found.unit == OltpUnit::Transaction)
    };
    let found: Vec<&Comparison> = ratios
        .iter()
        .filter(|ratio| ratio.side == side && ratio.metric == metric && counts(&ratio.class))
        .collect();
    let least = found.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let most = found.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    Some(OltpOverall {
        side: side.to_owned(),
        against: least.against.clone(),
        metric,
        median: median(&found.iter().map(|ratio| ratio.ratio).collect::<Vec<_>>())?,
        least: least.ratio,
        least_cell: least.class.clone(),
        most: most.ratio,
        most_cell: most.class.clone(),
        cells: found.len() as u64,
    })
}

/// Where the bench's own code takes the largest part of the base's CPU, and that part. A scan
/// drives one statement only, so it tells nothing.
pub(crate) fn own_share(report: &OltpReport) -> Option<(&OltpTotals, f64)> {
    let base = report.base()?;
    let of_transactions = report.cells.iter().filter(|cell| cell.unit == OltpUnit::Transaction);
    let shares = of_transactions.filter_map(|cell| {
        let found = report.summary.totals(&cell.id, &base.id)?;
        let share = found.own_cpu_each_ns / found.cpu_each_ns.filter(|cpu| *cpu > 0.0)?;
        (share > 0.0).then_some((found, share))
    });
    shares.max_by(|one, other| one.1.total_cmp(&other.1))
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds and counts stay far below 2^53")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

/// A sentence for each side: what it does to throughput and to CPU a transaction.
pub(crate) fn verdict(report: &OltpReport) -> Vec<String> {
    let sentence = |side: &OltpSide| {
        let of = |metric| report.summary.overall(&side.id, metric);
        let throughput = of(Metric::Throughput)?;
        let span = |found: &OltpOverall| {
            if found.cells == 1 {
                return percent(found.median);
            }
            format!(
                "{} (cells from {} to {})",
                percent(found.median),
                percent(found.least),
                percent(found.most)
            )
        };
        let cpu = of(Metric::CpuEach)
            .map_or_else(String::new, |cpu| format!(", CPU a transaction {}", span(cpu)));
        let who = match side.role {
            Role::Encrypted => "OLTP workloads".to_owned(),
            _ => format!("OLTP workloads, {}", side.label),
        };
        Some(format!("{who}: throughput {}{cpu}.", span(throughput)))
    };
    report.others().filter_map(sentence).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::model::OltpSetting;
    use super::*;

    fn run(side: &str, cell: &str, place: (u32, u32), transactions: u64, cpu_ns: u64) -> OltpRun {
        OltpRun {
            cell: cell.to_owned(),
            side: side.to_owned(),
            restart: place.0,
            pair: place.1,
            position: 0,
            transactions,
            queries: transactions * 20,
            errors: 0,
            elapsed_ns: 2_000_000_000,
            engine_cpu_ns: cpu_ns,
            engine_user_ns: cpu_ns / 2,
            engine_system_ns: cpu_ns / 2,
            client_cpu_ns: 100_000_000,
            own_cpu_ns: 2_000_000,
            device_read_bytes: 16_384 * transactions,
            device_write_bytes: 4096 * transactions,
            context_switches: 30 * transactions,
            latency: OltpLatency {
                min_ns: 900_000,
                avg_ns: 1_100_000,
                p50_ns: 1_000_000,
                p95_ns: 2_000_000,
                p99_ns: 3_000_000,
                max_ns: 9_000_000,
            },
        }
    }

    /// Three restarts of two pairs. At 1 thread the encrypted side does 0.96 of the transactions
    /// with 1.05 times the CPU each, at 8 threads 0.99 and 1.10; the peer 0.80 and 1.25 in both.
    pub(crate) fn report() -> OltpReport {
        let cell = |threads: u32| OltpCell {
            id: format!("oltp_read_write/{threads}"),
            workload: "oltp_read_write".to_owned(),
            threads,
            unit: OltpUnit::Transaction,
        };
        let side = |id: &str, role: Role| OltpSide {
            id: id.to_owned(),
            label: id.to_owned(),
            role,
            cipher: (role != Role::Base).then(|| "AES".to_owned()),
            options: Vec::new(),
        };
        let mut runs = Vec::new();
        for restart in 0..3_u32 {
            for pair in 0..2_u32 {
                let level = 10_000 + u64::from(restart) * 400 + u64::from(pair) * 100;
                let sides: [(&str, &str, u64, u64); 6] = [
                    ("base", "oltp_read_write/1", 100, 100),
                    ("tdekit", "oltp_read_write/1", 96, 105),
                    ("peer", "oltp_read_write/1", 80, 125),
                    ("base", "oltp_read_write/8", 100, 100),
                    ("tdekit", "oltp_read_write/8", 99, 110),
                    ("peer", "oltp_read_write/8", 80, 125),
                ];
                for (id, cell, speed, cpu) in sides {
                    let done = level * speed / 100;
                    runs.push(run(id, cell, (restart, pair), done, done * 1_000 * cpu));
                }
            }
        }
        let mut report = OltpReport {
            target: "mariadb".to_owned(),
            engine: "MariaDB 10.11.19".to_owned(),
            driver: "sysbench 1.0.20".to_owned(),
            tables: 4,
            rows: 150_000,
            data_bytes: 150_000_000,
            block_s: 2.0,
            restarts: 3,
            settings: vec![OltpSetting {
                name: "innodb_buffer_pool_size".to_owned(),
                value: "67108864".to_owned(),
            }],
            sides: vec![
                side("base", Role::Base),
                side("tdekit", Role::Encrypted),
                side("peer", Role::Peer),
            ],
            cells: vec![cell(1), cell(8)],
            runs,
            limits: Vec::new(),
            summary: OltpSummary::default(),
        };
        report.summary = summarize_oltp(&report, crate::Stage::fixed(0.95));
        report
    }

    #[test]
    fn ratios_come_from_pairs() {
        let report = report();
        let ratio = |cell: &str, metric| report.summary.ratio(cell, "tdekit", metric).unwrap();
        let tps = ratio("oltp_read_write/1", Metric::Throughput);
        assert!((tps.ratio - 0.96).abs() < 1e-3, "{}", tps.ratio);
        assert_eq!((tps.restarts, tps.pairs, tps.against.as_str()), (3, 6, "base"));
        let cpu = ratio("oltp_read_write/8", Metric::CpuEach);
        assert!((cpu.ratio - 1.10).abs() < 1e-9, "{}", cpu.ratio);
        let median = ratio("oltp_read_write/8", Metric::MedianLatency);
        assert!((median.ratio - 1.0).abs() < 1e-9);
    }

    #[test]
    fn overall_names_the_worst_cell() {
        let report = report();
        let cpu = report.summary.overall("tdekit", Metric::CpuEach).unwrap();
        assert_eq!((cpu.most_cell.as_str(), cpu.cells), ("oltp_read_write/8", 2));
        assert!((cpu.median - 1.075).abs() < 1e-9 && (cpu.most - 1.10).abs() < 1e-9);
        let sentences = verdict(&report);
        assert_eq!(sentences.len(), 2);
        assert!(sentences[0].contains("CPU a transaction +7.5 %"), "{sentences:?}");
        assert!(sentences[1].contains("peer: throughput -20.0 %"), "{sentences:?}");
    }

    #[test]
    fn the_benchs_own_share_is_the_largest_one_of_the_base() {
        let mut report = report();
        // 200 ns of 100,000 each; less where more was done.
        let (found, share) = own_share(&report).unwrap();
        assert_eq!(found.side, "base");
        assert!((share - 2_000_000.0 / 10_450.0 / 100_000.0).abs() < 2e-4, "{share}");
        for run in &mut report.runs {
            run.own_cpu_ns = 0;
        }
        report.summary = summarize_oltp(&report, crate::Stage::fixed(0.95));
        assert!(own_share(&report).is_none());
    }

    #[test]
    fn pages_are_no_part_of_the_overall() {
        let mut report = report();
        report.cells[1].unit = OltpUnit::Page;
        let summary = summarize_oltp(&report, crate::Stage::fixed(0.95));
        assert_eq!(summary.overall("tdekit", Metric::CpuEach).unwrap().cells, 1);
        assert!(summary.ratio("oltp_read_write/8", "tdekit", Metric::CpuEach).is_some());
    }

    #[test]
    fn an_engine_whose_cpu_is_unknown_has_no_cpu_ratio() {
        let mut report = report();
        for run in &mut report.runs {
            run.engine_cpu_ns = 0;
        }
        let summary = summarize_oltp(&report, crate::Stage::fixed(0.95));
        assert!(summary.overall("tdekit", Metric::CpuEach).is_none());
        assert!(summary.overall("tdekit", Metric::Throughput).is_some());
        assert_eq!(summary.totals("oltp_read_write/1", "base").unwrap().cpu_each_ns, None);
    }
}
