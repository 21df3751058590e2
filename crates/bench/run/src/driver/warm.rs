//! Warm-up: as long as measurements show to be needed, rather than an assumed length.

use std::collections::HashMap;

use fastrand::Rng;
use tdekit_bench_report::WarmUp;
use tdekit_bench_report::stats::settled_after;

use super::classes::{Task, Work};
use super::restart::Restart;
use crate::error::Result;
use crate::job::Operation;
use crate::numbers::float;
use crate::schedule::{Place, Steering};

/// Divisor of a block's loops for a short block.
const SHARE: u64 = 8;
/// Maximum number of loops of a short block.
const MOST_LOOPS: u64 = 4_000;
/// Number of short blocks tried in the first restart.
const TRIED: u64 = 10;

/// Number of short blocks that each class needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Settled {
    needed: HashMap<String, u64>,
}

impl Restart<'_> {
    /// Runs a little of everything on every side, unmeasured: files into the system's cache,
    /// programs and statements into the processor's. The first restart determines how many short
    /// blocks each mix takes until its times are level, on the slower side; the others run as many.
    pub(super) fn warm_up(
        &mut self,
        tasks: &[Task],
        settled: &mut Settled,
        rng: &mut Rng,
        steering: &mut Steering,
    ) -> Result<Vec<WarmUp>> {
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        rng.shuffle(&mut order);
        let seed = rng.u64(..);
        let mut found: Vec<WarmUp> = Vec::new();
        for side in order {
            let Some(spec) = self.prepared.sides.get(side) else { continue };
            for task in self.prepared.tasks_of(tasks, spec) {
                let Some(work) = light(&task.work) else { continue };
                let known = settled.needed.get(&task.class.id).copied();
                let mix = matches!(work, Work::Crud { .. });
                let tries = if mix { known.map_or(TRIED, |needed| needed.max(1)) } else { 1 };
                let mut times = Vec::new();
                for number in 0..tries {
                    // A separate round: no measured one finds its pages in a cache.
                    let seed = seed.wrapping_add(number << 32);
                    let (restart, pair) = (self.number, self.config.pairs);
                    let place = Place { side, restart, pair, position: 0, seed };
                    let costs = self.costs(&work, place, steering)?.unwrap_or_default();
                    times.extend(costs.first().map(|(_, cost)| float(cost.elapsed_ns)));
                }
                if mix && known.is_none() {
                    note(&mut found, &task.class.id, settled_after(&times) as u64);
                }
            }
        }
        for warm_up in &found {
            settled.needed.insert(warm_up.class.clone(), warm_up.needed);
        }
        Ok(found)
    }
}

fn note(found: &mut Vec<WarmUp>, class: &str, needed: u64) {
    match found.iter_mut().find(|known| known.class == class) {
        Some(known) => known.needed = known.needed.max(needed),
        None => found.push(WarmUp {
            class: class.to_owned(),
            tried: TRIED,
            needed,
            first_pair: None,
            first_pair_interval: None,
        }),
    }
}

/// Returns a short block of a task, if it has one.
fn light(work: &Work) -> Option<Work> {
    match work {
        Work::Crud { control, loops, writes } => Some(Work::Crud {
            control: *control,
            loops: (loops / SHARE).clamp(1, MOST_LOOPS),
            writes: *writes,
        }),
        Work::Operation { operation, cold: false } => (*operation != Operation::Reindex)
            .then_some(Work::Operation { operation: *operation, cold: false }),
        Work::Script { .. } => Some(Work::Script { times: 1 }),
        Work::Operation { .. }
        | Work::Scan { .. }
        | Work::Backup
        | Work::Speedtest { .. }
        | Work::FullBackup { .. } => None,
    }
}
