//! The workloads on a target, as the schedule runs them.

use fastrand::Rng;
use tdekit_bench_report::{
    OltpCell, OltpLatency, OltpRun, OltpSide, OltpUnit, Stopping, oltp_grid,
};
use tdekit_private_mariadb::ProcessUse;

use super::options::{OltpPlan, Workload};
use crate::error::BenchError;
use crate::schedule::{Block, Ground, Kind, Length, Place, Steering};

/// Restarts that run whatever the time limit: an interval needs two.
const LEAST_RESTARTS: u32 = 2;

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
    pub(super) latency: OltpLatency,
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
fn cells(plan: &OltpPlan) -> Vec<(OltpCell, Workload)> {
    let mut cells = Vec::new();
    for workload in &plan.workloads {
        let scan = *workload == Workload::FullScan;
        let threads = if scan { &[1][..] } else { &plan.threads };
        for threads in threads {
            let cell = OltpCell {
                id: format!("{}/{threads}", workload.name()),
                workload: workload.name().to_owned(),
                threads: *threads,
                unit: if scan { OltpUnit::Page } else { OltpUnit::Transaction },
            };
            cells.push((cell, *workload));
        }
    }
    cells
}

/// A target as the schedule runs it.
pub(super) struct OltpGround<'a> {
    plan: &'a OltpPlan,
    target: &'a dyn Target,
    /// Base first.
    sides: &'a [OltpSide],
    stopping: Option<Stopping>,
    confidence: f64,
    cells: Vec<(OltpCell, Workload)>,
    pub(super) block_s: f64,
    bed: Option<Box<dyn Bed + 'a>>,
    runs: Vec<OltpRun>,
}

impl<'a> OltpGround<'a> {
    pub(super) fn new(
        plan: &'a OltpPlan,
        target: &'a dyn Target,
        sides: &'a [OltpSide],
        (stopping, confidence): (Option<Stopping>, f64),
    ) -> Self {
        let cells = cells(plan);
        let block_s = plan.block_s(cells.len(), sides.len());
        let (bed, runs) = (None, Vec::new());
        Self { plan, target, sides, stopping, confidence, cells, block_s, bed, runs }
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

    /// What was run, and on which cells.
    pub(super) fn finish(self) -> (Vec<OltpCell>, Vec<OltpRun>) {
        (self.cells.into_iter().map(|(cell, _)| cell).collect(), self.runs)
    }
}

impl Ground for OltpGround<'_> {
    type Cell = (OltpCell, Workload);
    type Found = OltpRun;

    fn cells(&mut self, kind: Kind) -> Vec<Self::Cell> {
        let Some(stopping) = self.stopping.filter(|_| kind == Kind::Wanting) else {
            return self.cells.clone();
        };
        let cells: Vec<OltpCell> = self.cells.iter().map(|(cell, _)| cell.clone()).collect();
        let ids = oltp_grid((self.sides, &cells, &self.runs)).too_wide(&stopping, self.confidence);
        self.cells.iter().filter(|(cell, _)| ids.contains(&cell.id)).cloned().collect()
    }

    fn name(&self, (cell, _): &Self::Cell) -> String {
        cell.id.clone()
    }

    fn sides(&self, _cell: &Self::Cell, _pair: u32) -> Vec<usize> {
        (0..self.sides.len()).collect()
    }

    /// Deleting leaves fewer rows.
    fn spoils(&self, (_, workload): &Self::Cell) -> bool {
        *workload == Workload::Delete
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
        (cell, workload): &Self::Cell,
        place: Place,
        _steering: &mut Steering,
    ) -> Result<Block<OltpRun>, BenchError> {
        let (Some(bed), Some(side)) = (&mut self.bed, self.sides.get(place.side)) else {
            return Ok(Block::Done(Vec::new()));
        };
        let load = Load {
            workload: *workload,
            threads: cell.threads,
            seconds: self.block_s,
            // Sysbench takes a positive number of 31 bits.
            seed: 1 + (place.seed >> 34),
        };
        let measured = bed.block(place.side, load)?;
        Ok(Block::Done(vec![run(cell, side.id.clone(), place, &measured)]))
    }

    fn keep(&mut self, found: Vec<OltpRun>) {
        self.runs.extend(found);
    }

    fn clean_up(&mut self, _kind: Kind) -> Result<(), BenchError> {
        self.bed.take().map_or(Ok(()), Bed::finish)
    }
}

fn run(cell: &OltpCell, side: String, place: Place, measured: &Measured) -> OltpRun {
    OltpRun {
        cell: cell.id.clone(),
        side,
        restart: place.restart,
        pair: place.pair,
        position: place.position,
        transactions: measured.transactions,
        queries: measured.queries,
        errors: measured.errors,
        elapsed_ns: measured.elapsed_ns,
        engine_cpu_ns: measured.engine.cpu_ns,
        engine_user_ns: measured.engine.user_ns,
        engine_system_ns: measured.engine.system_ns,
        client_cpu_ns: measured.client_cpu_ns,
        own_cpu_ns: measured.own_cpu_ns,
        device_read_bytes: measured.engine.device_read_bytes,
        device_write_bytes: measured.engine.device_write_bytes,
        context_switches: measured.engine.context_switches,
        latency: measured.latency,
    }
}
