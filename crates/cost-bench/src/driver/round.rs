//! A round: one block of every class on every side.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use super::Measured;
use super::block::{Block, Place};
use super::classes::{Task, Work};
use super::prepare::Prepared;
use super::restart::Restart;
use super::steering::Steering;
use crate::config::Config;
use crate::error::BenchError;
use crate::interrupt;
use crate::progress::Progress;

/// The rounds of a restart.
pub(super) struct Rounds<'a> {
    config: &'a Config,
    prepared: &'a Prepared,
    progress: &'a Progress,
    /// Orders of sides that have not been reversed yet, by class.
    orders: BTreeMap<String, Vec<usize>>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(config: &'a Config, prepared: &'a Prepared, progress: &'a Progress) -> Self {
        Self { config, prepared, progress, orders: BTreeMap::new() }
    }

    /// One block of every class on every side, both in random order. When an order changes the
    /// mixes, those that are left give way to the one that was ordered.
    pub(super) fn run(
        &mut self,
        restart: &mut Restart<'_>,
        (pair, tasks): (u32, &[Task]),
        rng: &mut Rng,
        (steering, measured): (&mut Steering, &mut Measured),
    ) -> Result<(), BenchError> {
        let mut tasks = tasks.to_vec();
        rng.shuffle(&mut tasks);
        let mut queue = VecDeque::from(tasks);
        let mut done: Vec<String> = Vec::new();
        while let Some(task) = queue.pop_front() {
            self.progress.say(task.class.label.clone());
            let is_mix = matches!(task.work, Work::Crud { .. });
            // The slow cold classes run in every other pair.
            let runs =
                pair.is_multiple_of(2) || !matches!(task.work, Work::Operation { cold: true, .. });
            let order = if runs { self.order(&task, rng) } else { Vec::new() };
            let seed = rng.u64(..);
            let mut blocks = Vec::new();
            let mut changed = false;
            for (position, side) in (0..).zip(order) {
                interrupt::check()?;
                changed |= steering.take_orders(self.config.experiments.crud);
                if steering.is_stopped() || (changed && is_mix) {
                    break;
                }
                match restart.block(&task, Place { side, pair, position, seed }, steering)? {
                    Block::Done(found) => blocks.extend(found),
                    Block::Disturbed => {
                        changed = true;
                        break;
                    }
                }
            }
            if steering.is_stopped() {
                return Err(BenchError::Stopped);
            }
            if !(changed && is_mix) {
                measured.add(blocks);
                done.push(task.class.id.clone());
            }
            if changed {
                queue.retain(|task| !matches!(task.work, Work::Crud { .. }));
                let mixes = steering.tasks(self.config, &self.prepared.tasks);
                queue.extend(mixes.into_iter().filter(|task| {
                    matches!(task.work, Work::Crud { .. }) && !done.contains(&task.class.id)
                }));
            }
            self.progress.step(1);
        }
        Ok(())
    }

    /// Sides in random order; every second time the reverse of the last one, so that what comes of
    /// being first cancels out.
    fn order(&mut self, task: &Task, rng: &mut Rng) -> Vec<usize> {
        if let Some(mut last) = self.orders.remove(&task.class.id) {
            last.reverse();
            return last;
        }
        let mut order: Vec<usize> = (0..self.prepared.sides.len()).collect();
        order.retain(|side| self.prepared.runs(task, *side));
        rng.shuffle(&mut order);
        self.orders.insert(task.class.id.clone(), order.clone());
        order
    }
}
