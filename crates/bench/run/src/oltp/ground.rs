//! The workloads on a target, from beginning to end.

use std::collections::BTreeMap;

use fastrand::Rng;
use tdekit_bench_report::{Class, Experiment, Metric, RATE, Report, Results, Run, Side, measured};
use tdekit_system_use::Use;

use super::mariadb::MariaDb;
use super::remote::Remote;
use super::sqlite::Sqlite;
use crate::error::{BenchError, Result};
use crate::experiment::{Figures, axes, class};
use crate::numbers::whole;
use crate::plan::Config;
use crate::plan::{OltpPlan, OltpTarget};
use crate::schedule::{self, Block, Ended, Ground, Kind, Place, Steering, Surroundings};
use crate::tools::Tools;
use tdekit_bench_work::Percentiles;
use tdekit_bench_work::Workload;
use tdekit_bench_work::of_use;

/// The figures of a block.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) transactions: u64,
    pub(super) queries: u64,
    pub(super) errors: u64,
    pub(super) elapsed_ns: u64,
    pub(super) engine: Use,
    pub(super) client_cpu_ns: u64,
    pub(super) own_cpu_ns: u64,
    pub(super) latency: Percentiles,
}

/// The work of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) workload: Workload,
    pub(super) threads: u32,
    pub(super) seconds: f64,
    pub(super) seed: u64,
    /// For a transaction made of this many point selects.
    pub(super) selects: Option<u64>,
}

/// An engine that runs workloads, with several sides.
pub(super) trait Target {
    /// Returns the report of its sides, base first, without any runs.
    fn report(&self) -> Report;

    /// Recreates every side from its untouched data, and warms it up. `report` receives the
    /// properties that only a running engine reports.
    fn restart(&mut self, number: u32, rng: &mut Rng, report: &mut Report) -> Result<()>;

    /// Runs a block on a side of the restart; no other side works at the same time.
    fn block(&mut self, side: usize, load: Load) -> Result<Measured>;

    /// Ends the restart.
    fn clean_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends the run. Returns what could not be removed.
    fn leave(&mut self) -> Option<String> {
        None
    }
}

/// Returns a target's report without any runs.
pub(super) fn report(sides: Vec<Side>, target: &str, engine: &str, driver: &str) -> Report {
    let mut report = Report::new(Experiment::Oltp, sides);
    for (name, fact) in [("target", target), ("engine", engine), ("driver", driver)] {
        report.set(name, fact);
    }
    report
}

/// Returns the error for a side that a target does not have.
pub(super) fn no_side(side: usize) -> BenchError {
    BenchError::mismatch("schedule", format!("there is no side {side}"))
}

/// Runs the workloads: a [`crate::experiment::RunExperiment`].
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    mut around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let (plan, progress) = (&config.oltp, around.progress);
    let target: Box<dyn Target + '_> = match &plan.target {
        OltpTarget::MariaDb => Box::new(MariaDb::prepare(config, tools, progress)?),
        OltpTarget::Server(url) => Box::new(Remote::prepare(plan, url, progress)?),
        OltpTarget::Sqlite => Box::new(Sqlite::prepare(config, tools, progress)?),
        OltpTarget::SqlServer(_) => {
            let reason = "on a server of SQL Server's protocol only --experiment messages runs";
            return Err(BenchError::option("--target", reason));
        }
    };
    let cells = cells(plan);
    let mut report = target.report();
    let block_s = plan.block_s(cells.len(), report.sides.len());
    report.cells = cells.iter().map(|cell| cell.class.clone()).collect();
    report.set("tables", plan.tables);
    report.set("rows", plan.rows);
    report.set("restarts", plan.restarts);
    report.set("block_s", block_s);
    if let Some(more) = plan.inject {
        report.limits.push(format!("The second side does {more} thousandths more on purpose."));
    }
    if let Some(rate) = plan.rate.filter(|_| plan.on_server()) {
        report.set(RATE, rate);
        report.limits.push(format!(
            "--rate: every side is given {rate} transactions a second, so throughput is the same \
             and tells nothing, as long as the server keeps up. Latency, which counts from when a \
             transaction is due, and CPU a transaction are what encryption can change here."
        ));
    }
    let figures = Figures::new(report, config, &results.settings);
    let length = figures.length("the OLTP workloads", (plan.restarts, plan.pairs), plan.max_time);
    let inject = plan.inject;
    let mut ground = OltpGround { target, figures, cells, block_s, inject };
    let ended = schedule::run(&mut ground, &length, config.given.basics.seed, around.inner());
    let left = ground.target.leave();
    let ended = ground.figures.finish(ended, &mut results.oltp);
    match (left, &ended) {
        (Some(left), Ok(_)) => around.warnings.push(left),
        // Without results there is no other place for it.
        (Some(left), Err(_)) => progress.tell(&format!("warning: {left}")),
        (None, _) => {}
    }
    let ended = ended?;
    if let (Some(report), true) = (&results.oltp, results.subject.label.is_empty()) {
        report.text("engine").clone_into(&mut results.subject.label);
        results.subject.bytes = whole(report.number("data_bytes"));
        results.subject.tables = plan.tables.into();
    }
    Ok(ended)
}

/// Returns the cells of a plan: workloads that destroy rows come last within a restart.
fn cells(plan: &OltpPlan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in &plan.workloads {
        let scan = *workload == Workload::FullScan;
        let threads = if scan { &[1][..] } else { &plan.threads };
        for threads in threads {
            let name = workload.name();
            let label = format!("{name}, {threads} thread{}", if *threads == 1 { "" } else { "s" });
            let unit = if scan { "page" } else { "transaction" };
            let names = (format!("{name}/{threads}"), label);
            let mut class = class(Experiment::Oltp, names, String::new(), (0, unit));
            class.axes = axes([("workload", name), ("threads", &threads.to_string())]);
            cells.push(Cell { class, workload: *workload, threads: *threads });
        }
    }
    cells
}

/// A workload at a number of threads.
#[derive(Debug, Clone)]
struct Cell {
    class: Class,
    workload: Workload,
    threads: u32,
}

/// Number of point selects of a transaction that an injected cost lengthens by whole hundredths.
const SELECTS: u64 = 100;

/// A target for the schedule.
struct OltpGround<'a> {
    target: Box<dyn Target + 'a>,
    figures: Figures,
    cells: Vec<Cell>,
    block_s: f64,
    /// The plan's value.
    inject: Option<u64>,
}

impl Ground for OltpGround<'_> {
    type Cell = Cell;
    type Found = Run;

    fn cells(&mut self, kind: Kind) -> Vec<Cell> {
        let cells = self.cells.iter().cloned();
        self.figures.wanted(kind, cells, |cell| vec![cell.class.id.clone()])
    }

    fn name(&self, cell: &Cell) -> String {
        cell.class.id.clone()
    }

    fn sides(&self, _cell: &Self::Cell, _pair: u32) -> Vec<usize> {
        (0..self.figures.report.sides.len()).collect()
    }

    /// Deleting leaves fewer rows.
    fn spoils(&self, cell: &Cell) -> bool {
        cell.workload == Workload::Delete
    }

    fn prepare(&mut self, restart: u32, _: &[Cell], rng: &mut Rng, _: &mut Steering) -> Result<()> {
        self.target.restart(restart, rng, &mut self.figures.report)
    }

    fn block(&mut self, cell: &Cell, place: Place, _steering: &mut Steering) -> Result<Block<Run>> {
        let load = Load {
            workload: cell.workload,
            threads: cell.threads,
            seconds: self.block_s,
            // Sysbench takes a positive number of 31 bits.
            seed: 1 + (place.seed >> 34),
            selects: self.inject.map(|more| SELECTS + if place.side > 0 { more / 10 } else { 0 }),
        };
        let measured = self.target.block(place.side, load)?;
        let side = self.figures.report.sides.get(place.side).ok_or_else(|| no_side(place.side))?;
        Ok(Block::Done(vec![place.run(&cell.class.id, &side.id, values(&measured))]))
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.figures.keep(found);
    }

    fn clean_up(&mut self, _kind: Kind) -> Result<()> {
        self.target.clean_up()
    }
}

/// Returns the values by metric; unknown ones, which are 0 then, are left out.
fn values(found: &Measured) -> BTreeMap<Metric, f64> {
    let latency = &found.latency;
    let some = |value: u64| (value > 0).then_some(value);
    let counts = [
        (Metric::Elapsed, Some(found.elapsed_ns)),
        (Metric::Transactions, Some(found.transactions)),
        (Metric::Queries, Some(found.queries)),
        (Metric::Errors, Some(found.errors)),
        (Metric::ServerSwitches, Some(found.engine.switches())),
        (Metric::ClientCpu, some(found.client_cpu_ns)),
        (Metric::OwnCpu, some(found.own_cpu_ns)),
        (Metric::MinLatency, some(latency.min_ns)),
        (Metric::MeanLatency, some(latency.avg_ns)),
        (Metric::MedianLatency, some(latency.p50_ns)),
        (Metric::P95Latency, some(latency.p95_ns)),
        (Metric::TailLatency, some(latency.p99_ns)),
        (Metric::MaxLatency, some(latency.max_ns)),
    ];
    let mut values = measured(counts.into_iter().chain(of_use(&found.engine)));
    if found.engine.cpu_ns == 0 {
        values.remove(&Metric::Cpu);
    }
    values
}
