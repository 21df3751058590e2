//! One block: the work of a class on one side, measured.

use std::path::Path;

use tdekit_bench_report::{Metric, Run, measured};

use super::classes::{SCRIPT, Seat, Task, Work, checkpoint_id, script_id};
use super::prepare::Backups;
use super::restart::Restart;
use super::toll::Debt;
use crate::error::{BenchError, Result};
use crate::job::{OperationCosts, Request};
use crate::process::WorkerProcess;
use crate::schedule::{Block, Place, Steering};
use crate::sides::SideSpec;
use crate::speedtest::{self, Row};
use crate::subject::{remove, remove_database};
use tdekit_bench_work::Cost;
use tdekit_bench_work::CrudRequest;
use tdekit_bench_work::Latencies;

/// A block's figures, those of its statements, and the latencies of its operations if those are
/// timed.
pub(super) struct Measured {
    pub(super) run: Run,
    pub(super) statements: Vec<Run>,
    pub(super) latencies: Vec<(u64, u64)>,
}

/// Costs by their class; `None` for the task's own.
type Costs = Vec<(Option<String>, Cost)>;

impl Restart<'_> {
    /// Runs one block of a class on a side: first its own figures, then those of secondary classes.
    /// An index rebuild also gives its checkpoint, a script each of its statements.
    pub(super) fn block(
        &mut self,
        task: &Task,
        place: Place,
        steering: &mut Steering,
    ) -> Result<Block<Measured>> {
        let Some(costs) = self.costs(&task.work, place, steering)? else {
            return Ok(Block::Disturbed);
        };
        let side = self
            .prepared
            .sides
            .get(place.side)
            .map_or_else(String::new, |side| side.side.id.clone());
        Ok(Block::Done(
            costs
                .into_iter()
                .map(|(class, cost)| {
                    let class = class.unwrap_or_else(|| task.class.id.clone());
                    self.measured(class, side.clone(), place, cost)
                })
                .collect(),
        ))
    }

    fn measured(&self, class: String, side: String, place: Place, cost: Cost) -> Measured {
        let mut latencies = Latencies::new();
        latencies.add(&cost.latencies);
        let run = Run {
            cell: class,
            statement: None,
            side,
            restart: self.number,
            pair: place.pair,
            position: place.position,
            values: cost.values(latencies.percentiles()),
        };
        let statement = |(index, (elapsed, cpu)): (u32, &(u64, u64))| Run {
            statement: Some(index),
            values: measured([(Metric::Elapsed, Some(*elapsed)), (Metric::Cpu, Some(*cpu))]),
            ..run.clone()
        };
        let statements = (0..).zip(&cost.statements).map(statement).collect();
        Measured { run, statements, latencies: cost.latencies }
    }

    /// Returns the cost of a block, `None` if an order disturbed it.
    pub(super) fn costs(
        &mut self,
        work: &Work,
        place: Place,
        steering: &mut Steering,
    ) -> Result<Option<Costs>> {
        let one = |cost| Ok(Some(vec![(None, cost)]));
        match work {
            Work::Crud { .. } => return self.crud(work, place, steering),
            Work::FullBackup { compression } => {
                return self.full_backup(compression, place.side).and_then(one);
            }
            Work::Speedtest { row } => return self.speedtest(*row, place.side).and_then(one),
            _ => {}
        }
        let side = self.prepared.sides.get(place.side).zip(self.workers.get_mut(place.side));
        let Some((spec, workers)) = side else { return Ok(None) };
        let to = workers.directory.join("backup.db");
        let Some(worker) = workers.at(work.seat()).first_mut() else { return Ok(None) };
        match work {
            Work::Crud { .. } | Work::Speedtest { .. } | Work::FullBackup { .. } => Ok(None),
            Work::Operation { operation, cold } => {
                let round = self.number.wrapping_mul(self.config.pairs + 1);
                let request = Request::Operation {
                    operation: *operation,
                    cold: *cold,
                    drop_all: self.config.given.drop_caches,
                    round: round.wrapping_add(place.pair),
                };
                let (work, checkpoint): OperationCosts = worker.ask(&request)?;
                let checkpoint = checkpoint.filter(|_| self.config.given.journal_mode == "wal");
                let more = checkpoint.map(|cost| (Some(checkpoint_id(*cold)), cost));
                Ok(Some(std::iter::once((None, work)).chain(more).collect()))
            }
            Work::Script { times } => {
                Ok(Some(script_costs(worker.ask(&Request::Script { times: *times })?)))
            }
            Work::Scan { sql } => worker.ask(&Request::Scan { sql: sql.clone() }).and_then(one),
            Work::Backup => {
                let settings = [format!("PRAGMA synchronous = {}", self.config.given.synchronous)];
                let on_open = spec.on_open(&settings);
                worker.ask(&Request::Backup { to, on_open }).and_then(one)
            }
        }
    }

    /// Runs a block of a mix by all processes at once, and the checkpoint after it. Processes in
    /// their loops notice an order at once, others before they begin.
    fn crud(
        &mut self,
        work: &Work,
        place: Place,
        steering: &mut Steering,
    ) -> Result<Option<Costs>> {
        let Work::Crud { control, loops, writes } = work else { return Ok(None) };
        let config = self.config;
        let spec = self.prepared.sides.get(place.side);
        let Some((workers, spec)) = self.workers.get_mut(place.side).zip(spec) else {
            return Ok(None);
        };
        let path = workers.directory.join("crud.db");
        let sql = steering.statements(place.side);
        if let (false, Some(worker)) = (sql.is_empty(), workers.at(Seat::Mixes).first_mut()) {
            worker.do_it(&Request::Execute { sql })?;
        }
        let request = config.loops(*control, *loops, place.seed);
        let mut disturbed = false;
        let cost = crud_loops(workers.at(Seat::Mixes), request, &mut || {
            if steering.take_orders() {
                disturbed = true;
                tell(spec, &path, config, steering.statements(place.side))?;
            }
            Ok(())
        })?;
        if disturbed || steering.is_stopped() {
            return Ok(None);
        }
        let wanted = loops * u64::from(config.processes);
        if cost.operations != wanted {
            return Err(BenchError::WorkerFailed {
                side: spec.side.id.clone(),
                message: format!("{} of {wanted} loops were run", cost.operations),
            });
        }
        let mut sum = cost;
        let checkpoint = *writes && config.given.journal_mode == "wal";
        if let (true, Some(worker)) = (checkpoint, workers.at(Seat::Mixes).first_mut()) {
            sum.add(&worker.ask(&Request::Checkpoint)?);
        }
        if let Some(per_mille) = spec.toll_per_mille {
            let mut debt = workers.debts.remove(control).unwrap_or_else(|| Debt::new(per_mille));
            sum.add(&debt.pay(workers.at(Seat::Mixes), &sum)?);
            workers.debts.insert(*control, debt);
        }
        Ok(Some(vec![(None, sum)]))
    }

    /// SQLite's `speedtest1` on a new database.
    fn speedtest(&mut self, row: Row, side: usize) -> Result<Cost> {
        let Some((spec, workers)) = self.prepared.sides.get(side).zip(self.workers.get(side))
        else {
            return Ok(Cost::default());
        };
        let (Some(runner), Some(program)) = (&mut self.runner, &self.prepared.speedtest) else {
            return Ok(Cost::default());
        };
        let database = workers.directory.join(Seat::Apart.file());
        let quiet = workers.directory.join("quiet");
        crate::private::make(&quiet)?;
        let page_size = self.prepared.plain.described.page_size_bytes;
        let sizes = (self.config.given.speedtest_size, page_size);
        let job = speedtest::spec(program, &spec.stack()?, row, sizes, (&database, &quiet));
        let ran = runner.run(&job)?;
        let encrypts = spec.side.encrypts() && !self.config.given.basics.aa;
        speedtest::check(&database, encrypts && spec.side.cipher.is_some())?;
        remove_database(&database)?;
        Ok(Cost { elapsed_ns: ran.elapsed_ns, used: ran.used, operations: 1, ..Cost::default() })
    }

    /// Runs a full backup of a side's database, which its worker has open, by the command.
    fn full_backup(&mut self, compression: &str, side: usize) -> Result<Cost> {
        let spec = self.prepared.sides.get(side);
        let cipher = spec.and_then(|side| side.backup_cipher());
        let Some(workers) = self.workers.get(side) else { return Ok(Cost::default()) };
        let (Some(runner), Some(backups)) = (&mut self.runner, &self.prepared.backups) else {
            return Ok(Cost::default());
        };
        let Backups { tools, keys } = backups;
        let target = workers.directory.join("full.bak");
        let paths = (workers.directory.join("subject.db"), target.clone());
        let spec = crate::backup::back_up(tools, keys, (&paths.0, &paths.1), compression, cipher);
        let ran = runner.run(&spec)?;
        remove(&target)?;
        Ok(Cost { elapsed_ns: ran.elapsed_ns, used: ran.used, operations: 1, ..Cost::default() })
    }
}

/// Runs loops by all processes at once, from the first one's start to the last one's end.
pub(super) fn crud_loops(
    workers: &mut [WorkerProcess],
    request: CrudRequest,
    meanwhile: &mut dyn FnMut() -> Result<()>,
) -> Result<Cost> {
    let own = |number| CrudRequest { seed: request.seed.wrapping_add(number), ..request };
    at_once(workers, |number| Request::Crud(own(number)), meanwhile)
}

/// Sends a request to all processes at once, from the first one's start to the last one's end;
/// `request` is called with the number of a process, from 1.
pub(super) fn at_once(
    workers: &mut [WorkerProcess],
    request: impl Fn(u64) -> Request,
    meanwhile: &mut dyn FnMut() -> Result<()>,
) -> Result<Cost> {
    for (number, worker) in (1_u64..).zip(workers.iter_mut()) {
        worker.send(&request(number))?;
    }
    let mut sum = Cost { start_ns: u64::MAX, ..Cost::default() };
    for worker in workers.iter_mut() {
        let cost: Cost = worker.receive_while(meanwhile)?;
        sum.add(&cost);
        sum.start_ns = sum.start_ns.min(cost.start_ns);
        sum.end_ns = sum.end_ns.max(cost.end_ns);
    }
    sum.elapsed_ns = sum.end_ns.saturating_sub(sum.start_ns);
    Ok(sum)
}

/// Changes a control table that other processes are reading, through a separate process.
fn tell(
    spec: &SideSpec,
    path: &Path,
    config: &crate::plan::Config,
    sql: Vec<String>,
) -> Result<()> {
    let (mut worker, _) = spec.start()?;
    worker.open(path, spec.on_open(&super::restart::crud_settings(config)))?;
    worker.do_it(&Request::Execute { sql })
}

/// The whole script, then each statement.
fn script_costs(costs: Vec<Cost>) -> Costs {
    let mut all = Cost::default();
    for cost in &costs {
        all.add(cost);
        all.statements.push((cost.elapsed_ns, cost.used.cpu_ns));
    }
    let each = (1..).zip(costs).map(|(number, cost)| (Some(script_id(number)), cost));
    std::iter::once((Some(SCRIPT.to_owned()), all)).chain(each).collect()
}
