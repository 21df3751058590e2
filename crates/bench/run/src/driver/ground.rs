//! The sides of the crud, operations, scans and script experiments, for the schedule.

use std::collections::BTreeMap;

use fastrand::Rng;
use tdekit_bench_report::{Class, Probe, Run, WarmUp};

use super::block::Measured as Blocks;
use super::classes::{self, Task, Work};
use super::prepare::Prepared;
use super::restart::Restart;
use super::results;
use super::toll::Added;
use super::warm::Settled;
use crate::error::Result;
use crate::plan::{Config, Part};
use crate::results::confidence;
use crate::schedule::{Block, Ground, Kind, Length, Place, Steering};
use crate::sides::SideSpec;
use tdekit_bench_work::Latencies;

/// Restarts that run regardless of the time limit: an interval needs two.
const LEAST_RESTARTS: u32 = 2;

/// Returns the limits on the measuring of the sides.
pub(super) fn length(config: &Config) -> Length {
    Length {
        what: "the run",
        restarts: config.restarts,
        pairs: config.pairs,
        max_time: config.max_time,
        least: LEAST_RESTARTS,
        by_cell: false,
        stopping: config.stopping,
    }
}

/// The measurements so far.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) runs: Vec<Run>,
    pub(super) probes: Vec<Probe>,
    pub(super) warm_up: Vec<WarmUp>,
    /// By class and side.
    pub(super) latencies: BTreeMap<(String, String), Latencies>,
    /// The work added to slowed sides.
    pub(super) added: Added,
}

/// The sides, and the measurements on them.
pub(super) struct SidesGround<'a> {
    config: &'a Config,
    prepared: &'a Prepared,
    settled: Settled,
    restart: Option<Restart<'a>>,
    /// Classes created by an order.
    brought: Vec<Class>,
    measured: Measured,
}

impl<'a> SidesGround<'a> {
    pub(super) fn new(config: &'a Config, prepared: &'a Prepared) -> Self {
        Self {
            config,
            prepared,
            settled: Settled::default(),
            restart: None,
            brought: Vec::new(),
            measured: Measured::default(),
        }
    }

    /// Returns the classes created by orders, and the measurements.
    pub(super) fn finish(self) -> (Vec<Class>, Measured) {
        (self.brought, self.measured)
    }

    /// Tasks whose intervals are not narrow enough yet.
    fn wanting(&self) -> Vec<Task> {
        let Some(stopping) = self.config.stopping else { return Vec::new() };
        let report = results::report(self.prepared, &self.brought, self.measured.runs.clone());
        let ids = report.too_wide(&stopping, confidence());
        let tasks = self.prepared.tasks.iter();
        tasks.filter(|task| ids.iter().any(|id| results::task_gives(task, id))).cloned().collect()
    }
}

impl Ground for SidesGround<'_> {
    type Cell = Task;
    type Found = Blocks;

    fn cells(&mut self, kind: Kind) -> Vec<Task> {
        match kind {
            Kind::All => self.prepared.tasks.clone(),
            Kind::Heads => {
                let head = |task: &&Task| self.prepared.heads.contains(&task.class.id);
                self.prepared.tasks.iter().filter(head).cloned().collect()
            }
            Kind::Wanting => self.wanting(),
        }
    }

    fn ordered(&mut self, cells: &[Task], steering: &Steering) -> Vec<Task> {
        ordered(self.config, cells, steering, &mut self.brought)
    }

    fn name(&self, task: &Task) -> String {
        task.class.id.clone()
    }

    /// The slow cold classes run in every other pair, speedtest1 and sides beside the question in
    /// one of each restart.
    fn sides(&self, task: &Task, pair: u32) -> Vec<usize> {
        let rare = match task.work {
            Work::Operation { cold: true, .. } => !pair.is_multiple_of(2),
            // A run takes seconds.
            Work::Speedtest { .. } => pair > 0,
            _ => false,
        };
        if rare {
            return Vec::new();
        }
        let runs = |side: &SideSpec| {
            (pair == 0 || side.part == Part::All) && self.prepared.runs(task, side)
        };
        let sides = self.prepared.sides.iter().enumerate();
        sides.filter(|(_, side)| runs(side)).map(|(number, _)| number).collect()
    }

    fn obeys(&self, task: &Task) -> bool {
        matches!(task.work, Work::Crud { .. })
    }

    fn prepare(
        &mut self,
        number: u32,
        tasks: &[Task],
        rng: &mut Rng,
        steering: &mut Steering,
    ) -> Result<()> {
        self.restart = None;
        steering.begin_restart(self.prepared.sides.len());
        let mut restart = Restart::start(self.config, self.prepared, (number, tasks), rng)?;
        let warm_up = restart.warm_up(tasks, &mut self.settled, rng, steering)?;
        self.measured.warm_up.extend(warm_up);
        self.restart = Some(restart);
        Ok(())
    }

    fn block(
        &mut self,
        task: &Task,
        place: Place,
        steering: &mut Steering,
    ) -> Result<Block<Blocks>> {
        match &mut self.restart {
            Some(restart) => restart.block(task, place, steering),
            None => Ok(Block::Done(Vec::new())),
        }
    }

    fn keep(&mut self, found: Vec<Blocks>) {
        for Blocks { run, statements, latencies } in found {
            if !latencies.is_empty() {
                let key = (run.cell.clone(), run.side.clone());
                let known = self.measured.latencies.entry(key).or_default();
                known.add(&latencies);
            }
            self.measured.runs.push(run);
            self.measured.runs.extend(statements);
        }
    }

    fn clean_up(&mut self, kind: Kind) -> Result<()> {
        let Some(restart) = self.restart.take() else { return Ok(()) };
        self.measured.added.add(restart.added());
        if kind == Kind::All {
            self.measured.probes.extend(restart.finish()?);
        }
        Ok(())
    }
}

/// Returns the tasks after orders: another mix replaces all mixes. Its class is `brought` unless it
/// is one of theirs.
fn ordered(
    config: &Config,
    tasks: &[Task],
    steering: &Steering,
    brought: &mut Vec<Class>,
) -> Vec<Task> {
    let Some(mix) = steering.mix() else { return tasks.to_vec() };
    let (mixes, mut now): (Vec<Task>, Vec<Task>) =
        tasks.iter().cloned().partition(|task| matches!(task.work, Work::Crud { .. }));
    let id = classes::crud_id(&mix);
    let own = mixes.iter().find(|task| task.class.id == id).cloned();
    let least = mixes.iter().filter_map(|task| match task.work {
        Work::Crud { loops, .. } => Some(loops),
        _ => None,
    });
    let new = || least.min().map(|loops| classes::crud_task(config, &mix, (1, loops)));
    if let Some(task) = own.clone().or_else(new) {
        if own.is_none() && !brought.contains(&task.class) {
            brought.push(task.class.clone());
        }
        now.push(task);
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mix_takes_the_place_of_all() {
        let config = crate::cli::tests::config();
        let tasks = classes::crud(&config, &[10, 20, 30, 40]);
        let mut steering = Steering::deaf();
        let mut brought = Vec::new();
        assert_eq!(ordered(&config, &tasks, &steering, &mut brought).len(), 4);
        steering.order_mix("0/5/5".parse().unwrap());
        let [own] = ordered(&config, &tasks, &steering, &mut brought)
            .try_into()
            .unwrap_or_else(|_| panic!());
        assert_eq!(own.class.operations, tasks[2].class.operations);
        assert!(brought.is_empty());
        steering.order_mix("2/4/4".parse().unwrap());
        for _ in 0..2 {
            let [new] = ordered(&config, &tasks, &steering, &mut brought)
                .try_into()
                .unwrap_or_else(|_| panic!());
            assert_eq!(new.class.id, "crud/2-4-4");
            assert_eq!(brought.len(), 1);
        }
    }
}
