//! The workloads on a target, as the schedule runs them.

use std::collections::BTreeMap;

use fastrand::Rng;
use tdekit_bench_report::{Class, Experiment, Metric, Report, Run, Stopping, measured};
use tdekit_private_mariadb::ProcessUse;

use super::options::{OltpPlan, Workload};
use crate::error::BenchError;
use crate::latency::Percentiles;
use crate::schedule::{Block, Ground, Kind, Length, Place, Steering};

/// Restarts that run whatever the time limit: an interval needs two.
const LEAST_RESTARTS: u32 = 2;

/// What every side was given alike, by name.
pub(super) type Settings = BTreeMap<String, String>;

/// What a block came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) transactions: u64,
    pub(super) queries: u64,
    pub(super) errors: u64,
    pub(super) elapsed_ns: u64,
    pub(super) engine: ProcessUse,
    pub(super) client_cpu_ns: u64,
    pub(super) own_cpu_ns: u64,
    pub(super) latency: Percentiles,
}

/// What a block is to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) workload: Workload,
    pub(super) threads: u32,
    pub(super) seconds: f64,
    pub(super) seed: u64,
}

/// The engines of one restart, all sides. They run one at a time.
pub(super) trait Bed {
    /// Runs a block on a side.
    fn block(&mut self, side: usize, load: Load) -> Result<Measured, BenchError>;

    /// Ends the restart.
    fn finish(self: Box<Self>) -> Result<(), BenchError>;
}

/// Something that workloads run on.
pub(super) trait Target {
    /// Makes every side anew from its untouched data, and warms it up.
    fn restart(&self, number: u32, rng: &mut Rng) -> Result<Box<dyn Bed + '_>, BenchError>;
}

/// The cells of a plan: workloads that destroy rows come last within a restart.
fn cells(plan: &OltpPlan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in &plan.workloads {
        let scan = *workload == Workload::FullScan;
        let threads = if scan { &[1][..] } else { &plan.threads };
        for threads in threads {
            let name = workload.name();
            let axes = [("workload", name.to_owned()), ("threads", threads.to_string())];
            let class = Class {
                id: format!("{name}/{threads}"),
                experiment: Experiment::Oltp,
                label: format!("{name}, {threads} thread{}", if *threads == 1 { "" } else { "s" }),
                what: String::new(),
                operations: 0,
                unit: if scan { "page" } else { "transaction" }.to_owned(),
                axes: axes.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
            };
            cells.push(Cell { class, workload: *workload, threads: *threads });
        }
    }
    cells
}

/// A workload at a number of threads.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    class: Class,
    workload: Workload,
    threads: u32,
}

/// A target as the schedule runs it.
pub(super) struct OltpGround<'a> {
    plan: &'a OltpPlan,
    target: &'a dyn Target,
    stopping: Option<Stopping>,
    confidence: f64,
    cells: Vec<Cell>,
    block_s: f64,
    bed: Option<Box<dyn Bed + 'a>>,
    /// Of its sides, base first; gets the cells and what is measured.
    report: Report,
}

impl<'a> OltpGround<'a> {
    pub(super) fn new(
        plan: &'a OltpPlan,
        target: &'a dyn Target,
        mut report: Report,
        (stopping, confidence): (Option<Stopping>, f64),
    ) -> Self {
        let cells = cells(plan);
        let block_s = plan.block_s(cells.len(), report.sides.len());
        report.cells = cells.iter().map(|cell| cell.class.clone()).collect();
        report.set("block_s", block_s);
        Self { plan, target, stopping, confidence, cells, block_s, bed: None, report }
    }

    /// How long the workloads may be measured.
    pub(super) fn length(&self) -> Length {
        Length {
            what: "the OLTP workloads",
            restarts: self.plan.restarts,
            pairs: self.plan.pairs,
            max_time: self.plan.max_time,
            least: LEAST_RESTARTS,
            by_cell: false,
            stopping: self.stopping,
        }
    }

    /// What was measured.
    pub(super) fn finish(self) -> Report {
        self.report
    }
}

impl Ground for OltpGround<'_> {
    type Cell = Cell;
    type Found = Run;

    fn cells(&mut self, kind: Kind) -> Vec<Cell> {
        let Some(stopping) = self.stopping.filter(|_| kind == Kind::Wanting) else {
            return self.cells.clone();
        };
        let ids = self.report.too_wide(&stopping, self.confidence);
        self.cells.iter().filter(|cell| ids.contains(&cell.class.id)).cloned().collect()
    }

    fn name(&self, cell: &Cell) -> String {
        cell.class.id.clone()
    }

    fn sides(&self, _cell: &Self::Cell, _pair: u32) -> Vec<usize> {
        (0..self.report.sides.len()).collect()
    }

    /// Deleting leaves fewer rows.
    fn spoils(&self, cell: &Cell) -> bool {
        cell.workload == Workload::Delete
    }

    fn prepare(
        &mut self,
        restart: u32,
        _cells: &[Self::Cell],
        rng: &mut Rng,
        _steering: &mut Steering,
    ) -> Result<(), BenchError> {
        self.bed = None;
        self.bed = Some(self.target.restart(restart, rng)?);
        Ok(())
    }

    fn block(
        &mut self,
        cell: &Cell,
        place: Place,
        _steering: &mut Steering,
    ) -> Result<Block<Run>, BenchError> {
        let (Some(bed), Some(side)) = (&mut self.bed, self.report.sides.get(place.side)) else {
            return Ok(Block::Done(Vec::new()));
        };
        let load = Load {
            workload: cell.workload,
            threads: cell.threads,
            seconds: self.block_s,
            // Sysbench takes a positive number of 31 bits.
            seed: 1 + (place.seed >> 34),
        };
        let measured = bed.block(place.side, load)?;
        Ok(Block::Done(vec![place.run(&cell.class.id, &side.id, values(&measured))]))
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.report.runs.extend(found);
    }

    fn clean_up(&mut self, _kind: Kind) -> Result<(), BenchError> {
        self.bed.take().map_or(Ok(()), Bed::finish)
    }
}

/// By metric; what cannot be told, which is 0 then, is left out.
fn values(found: &Measured) -> BTreeMap<Metric, f64> {
    let (engine, latency) = (&found.engine, &found.latency);
    let some = |value: u64| (value > 0).then_some(value);
    measured([
        (Metric::Elapsed, Some(found.elapsed_ns)),
        (Metric::Transactions, Some(found.transactions)),
        (Metric::Queries, Some(found.queries)),
        (Metric::Errors, Some(found.errors)),
        (Metric::Cpu, some(engine.cpu_ns)),
        (Metric::User, Some(engine.user_ns)),
        (Metric::System, Some(engine.system_ns)),
        (Metric::DeviceRead, Some(engine.device_read_bytes)),
        (Metric::DeviceWrite, Some(engine.device_write_bytes)),
        (Metric::ServerSwitches, Some(engine.context_switches)),
        (Metric::ClientCpu, some(found.client_cpu_ns)),
        (Metric::OwnCpu, some(found.own_cpu_ns)),
        (Metric::MinLatency, some(latency.min_ns)),
        (Metric::MeanLatency, some(latency.avg_ns)),
        (Metric::MedianLatency, some(latency.p50_ns)),
        (Metric::P95Latency, some(latency.p95_ns)),
        (Metric::TailLatency, some(latency.p99_ns)),
        (Metric::MaxLatency, some(latency.max_ns)),
    ])
}
