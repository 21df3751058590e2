//! The order of things: restarts, within them pairs of every cell, within these the sides.

use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_cost_report::{OltpCell, OltpLatency, OltpRun, OltpUnit};
use tdekit_private_mariadb::ProcessUse;

use super::options::{OltpPlan, Workload};
use crate::error::BenchError;
use crate::interrupt;
use crate::progress::Progress;

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

/// A block to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) workload: Workload,
    pub(super) threads: u32,
    pub(super) seconds: f64,
    pub(super) seed: u64,
}

/// The engines of one restart, all sides. They run one at a time.
pub(super) trait Bed {
    /// Runs a block on a side.
    fn block(&mut self, side: usize, block: Block) -> Result<Measured, BenchError>;

    /// Ends the restart.
    fn finish(self: Box<Self>) -> Result<(), BenchError>;
}

/// Something that workloads run on.
pub(super) trait Ground {
    /// Makes every side anew from its untouched data, and warms it up.
    fn restart(&self, number: u32, rng: &mut Rng) -> Result<Box<dyn Bed + '_>, BenchError>;
}

/// The cells of a plan: workloads that destroy rows come last within a restart.
pub(super) fn cells(plan: &OltpPlan) -> Vec<(OltpCell, Workload)> {
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

/// What decides the order.
pub(super) struct Schedule<'a> {
    pub(super) plan: &'a OltpPlan,
    /// Names of the sides, base first.
    pub(super) sides: &'a [String],
    pub(super) seed: u64,
    pub(super) block_s: f64,
}

impl Schedule<'_> {
    /// Runs everything; on a failure `runs` holds what was measured until then.
    pub(super) fn run(
        &self,
        ground: &dyn Ground,
        progress: &Progress,
        runs: &mut Vec<OltpRun>,
        warnings: &mut Vec<String>,
    ) -> Result<(), BenchError> {
        let begun = Instant::now();
        let mut rng = Rng::with_seed(self.seed);
        let cells = cells(self.plan);
        let rounds = u64::from(self.plan.restarts) * u64::from(self.plan.pairs);
        progress.count(rounds * (cells.len() as u64));
        let mut longest = Duration::ZERO;
        for number in 0..self.plan.restarts {
            let left = self.plan.max_time.saturating_sub(begun.elapsed());
            if number >= LEAST_RESTARTS && left < longest {
                warnings.push(format!(
                    "The time limit ended the OLTP workloads after {number} of {} restarts.",
                    self.plan.restarts
                ));
                break;
            }
            let began = Instant::now();
            progress.say(format!("restart {}: copying, starting", number + 1));
            let mut bed = ground.restart(number, &mut rng)?;
            for pair in 0..self.plan.pairs {
                self.round(bed.as_mut(), &cells, (number, pair), &mut rng, progress, runs)?;
            }
            bed.finish()?;
            longest = longest.max(began.elapsed());
        }
        Ok(())
    }

    fn round(
        &self,
        bed: &mut dyn Bed,
        cells: &[(OltpCell, Workload)],
        (restart, pair): (u32, u32),
        rng: &mut Rng,
        progress: &Progress,
        runs: &mut Vec<OltpRun>,
    ) -> Result<(), BenchError> {
        let mut order: Vec<&(OltpCell, Workload)> = cells.iter().collect();
        rng.shuffle(&mut order);
        order.sort_by_key(|(_, workload)| *workload == Workload::Delete);
        for (cell, workload) in order {
            progress.say(cell.id.clone());
            let seed = rng.u64(1..=u64::from(u32::MAX >> 1));
            let mut sides: Vec<usize> = (0..self.sides.len()).collect();
            rng.shuffle(&mut sides);
            for (position, side) in (0..).zip(sides) {
                interrupt::check()?;
                let block = Block {
                    workload: *workload,
                    threads: cell.threads,
                    seconds: self.block_s,
                    seed,
                };
                let measured = bed.block(side, block)?;
                let name = self.sides.get(side).cloned().unwrap_or_default();
                runs.push(run(cell, name, (restart, pair, position), &measured));
            }
            progress.step(1);
        }
        Ok(())
    }
}

fn run(cell: &OltpCell, side: String, place: (u32, u32, u32), measured: &Measured) -> OltpRun {
    OltpRun {
        cell: cell.id.clone(),
        side,
        restart: place.0,
        pair: place.1,
        position: place.2,
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
