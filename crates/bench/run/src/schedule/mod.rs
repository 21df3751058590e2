//! The order of measurements, the same for everything: restarts, within them pairs of every cell,
//! within these the sides. A [`Ground`] defines what a cell is, and how a block of it runs.

mod pace;
mod steering;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_bench_report::{Metric, Run};

use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::noise::NoiseMeter;
use crate::progress::Progress;
use pace::{Pace, Plan};

pub(crate) use pace::{Kind, Length};
pub(crate) use steering::Steering;

#[cfg(test)]
mod tests;

/// Position of a block in the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) side: usize,
    pub(crate) restart: u32,
    pub(crate) pair: u32,
    /// Index in the random order of the pair.
    pub(crate) position: u32,
    /// The same for every side of the pair.
    pub(crate) seed: u64,
}

impl Place {
    /// Returns the block of a cell on a side.
    pub(crate) fn run(&self, cell: &str, side: &str, values: BTreeMap<Metric, f64>) -> Run {
        Run {
            cell: cell.to_owned(),
            statement: None,
            side: side.to_owned(),
            restart: self.restart,
            pair: self.pair,
            position: self.position,
            values,
        }
    }
}

/// Outcome of a block.
pub(crate) enum Block<F> {
    /// Measured.
    Done(Vec<F>),
    /// An order changed the test during it.
    Disturbed,
}

/// The objects on which experiments run. Dropping one ends its processes and removes its files.
pub(crate) trait Ground {
    /// A unit of measurement, run on several sides.
    type Cell: Clone;
    /// A block's figures.
    type Found;

    /// Returns the cells of a restart of this kind. Before the first restart is prepared there may
    /// be none.
    fn cells(&mut self, kind: Kind) -> Vec<Self::Cell>;

    /// Returns these cells as changed by orders to the run.
    fn ordered(&mut self, cells: &[Self::Cell], _steering: &Steering) -> Vec<Self::Cell> {
        cells.to_vec()
    }

    /// Returns the unique name, for display.
    fn name(&self, cell: &Self::Cell) -> String;

    /// Returns the sides on which a cell runs in a pair.
    fn sides(&self, cell: &Self::Cell, pair: u32) -> Vec<usize>;

    /// Returns true if a cell spoils the data for others, and so runs after them.
    fn spoils(&self, _cell: &Self::Cell) -> bool {
        false
    }

    /// Returns true if orders change the work of a cell's blocks.
    fn obeys(&self, _cell: &Self::Cell) -> bool {
        false
    }

    /// Recreates every side for a restart, and warms it up.
    fn prepare(
        &mut self,
        restart: u32,
        cells: &[Self::Cell],
        rng: &mut Rng,
        steering: &mut Steering,
    ) -> Result<()>;

    /// Runs a block.
    fn block(
        &mut self,
        cell: &Self::Cell,
        place: Place,
        steering: &mut Steering,
    ) -> Result<Block<Self::Found>>;

    /// Receives the figures of a cell's blocks of a pair.
    fn keep(&mut self, found: Vec<Self::Found>);

    /// Ends a restart.
    fn clean_up(&mut self, _kind: Kind) -> Result<()> {
        Ok(())
    }
}

/// Creates an object for each side in random order. The result is in the order of the sides.
pub(crate) fn in_random_order<S, M>(
    sides: impl IntoIterator<Item = S>,
    rng: &mut Rng,
    mut make: impl FnMut(S) -> Result<M>,
) -> Result<Vec<M>> {
    let mut order: Vec<(usize, S)> = sides.into_iter().enumerate().collect();
    rng.shuffle(&mut order);
    let made = order.into_iter().map(|(at, side)| Ok((at, make(side)?)));
    let mut made = made.collect::<Result<Vec<(usize, M)>>>()?;
    made.sort_by_key(|(at, _)| *at);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}

/// The surroundings of a run.
pub(crate) struct Surroundings<'a> {
    pub(crate) progress: &'a Progress,
    pub(crate) noise: &'a mut NoiseMeter,
    pub(crate) steering: &'a mut Steering,
    /// Warnings for the reader of the report.
    pub(crate) warnings: &'a mut Vec<String>,
}

/// Outcome of a run. After a failure the ground has the measurements so far.
pub(crate) struct Ended {
    pub(crate) failure: Option<BenchError>,
    /// All requested intervals are narrow enough.
    pub(crate) reached: bool,
}

impl Surroundings<'_> {
    /// Returns the same for a part of the work.
    pub(crate) fn inner(&mut self) -> Surroundings<'_> {
        Surroundings {
            progress: self.progress,
            noise: self.noise,
            steering: self.steering,
            warnings: self.warnings,
        }
    }
}

impl Ended {
    /// If nothing was measured, returns the failure as an error.
    pub(crate) fn unless_empty(self, empty: bool) -> Result<Self> {
        match self.failure {
            Some(error) if empty => Err(error),
            failure => Ok(Self { failure, ..self }),
        }
    }
}

/// Runs restarts: those of the first stage, and if the length follows from the intervals, further
/// ones with the cells that need them.
pub(crate) fn run<G: Ground>(
    ground: &mut G,
    length: &Length,
    seed: u64,
    surroundings: Surroundings<'_>,
) -> Ended {
    let outcome = Running {
        length,
        start: Instant::now(),
        rng: Rng::with_seed(seed),
        plan: Plan::of(length, 0, 0),
        pairs: length.pairs,
        pace: Pace::default(),
        longest_cell: Duration::ZERO,
        around: surroundings,
    }
    .restarts(ground);
    match outcome {
        Ok(reached) => Ended { failure: None, reached: reached || length.stopping.is_none() },
        Err(error) => Ended { failure: Some(error), reached: false },
    }
}

struct Running<'a> {
    length: &'a Length,
    start: Instant,
    rng: Rng,
    plan: Plan,
    /// Pairs in each restart that the time limit permits.
    pairs: u32,
    pace: Pace,
    longest_cell: Duration,
    around: Surroundings<'a>,
}

/// How a round or a restart ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The time limit ended it.
    Cut,
}

impl Running<'_> {
    fn left(&self) -> Duration {
        self.length.max_time.saturating_sub(self.start.elapsed())
    }

    fn restarts<G: Ground>(&mut self, ground: &mut G) -> Result<bool> {
        for number in 0.. {
            if number >= self.plan.most() {
                break;
            }
            let kind = self.plan.kind(number);
            let cells = ground.cells(kind);
            if kind == Kind::Wanting && cells.is_empty() {
                return Ok(true);
            }
            let expected = self.pace.expected(cells.len());
            if !self.length.by_cell && number >= self.length.least && self.left() < expected {
                self.around.warnings.push(pace::time_is_up(self.length, &self.plan, number));
                break;
            }
            if self.restart(ground, (number, kind), cells)? == End::Cut {
                self.around.warnings.push(pace::cut_short(self.length, number));
                break;
            }
            self.around.warnings.extend(self.plan.fit(number, self.left(), &self.pace));
            self.expect(self.plan.rest(number, &self.pace));
        }
        Ok(false)
    }

    /// Tells how much longer it takes: `rest`, and if the intervals decide, up to the limit.
    fn expect(&self, rest: Duration) {
        let left = self.left();
        let least = rest.min(left);
        let most = if self.length.stopping.is_some() { left } else { least };
        self.around.progress.expect([least, most]);
    }

    fn restart<G: Ground>(
        &mut self,
        ground: &mut G,
        (number, kind): (u32, Kind),
        mut cells: Vec<G::Cell>,
    ) -> Result<End> {
        let began = Instant::now();
        let left = self.left();
        self.around.steering.place = format!("restart {}", number + 1);
        self.around.progress.say(format!("restart {}: preparing", number + 1));
        self.around.noise.look();
        interrupt::check()?;
        let ordered = ground.ordered(&cells, self.around.steering);
        ground.prepare(number, &ordered, &mut self.rng, self.around.steering)?;
        if number == 0 {
            cells = ground.cells(kind);
            self.plan = Plan::of(self.length, cells.len(), ground.cells(Kind::Heads).len());
            self.around.progress.count(self.plan.steps(self.length.pairs));
        }
        let mut orders = BTreeMap::new();
        for pair in 0..self.length.pairs {
            if pair >= self.pairs {
                self.around.progress.step(cells.len() as u64);
                continue;
            }
            let round_began = Instant::now();
            self.around.steering.place = format!("restart {}, pair {}", number + 1, pair + 1);
            if self.round(ground, (number, pair), &cells, &mut orders)? == End::Cut {
                return Ok(End::Cut);
            }
            if number == 0 && pair == 0 {
                let first = (began.elapsed(), round_began.elapsed());
                self.pairs = pace::affordable_pairs(self.length, left, first);
                self.around.warnings.extend(pace::fewer_pairs(self.length, self.pairs));
                let rest = first.1 * (self.pairs - 1);
                let mut pace = Pace::default();
                pace.note(first.0 + rest, cells.len());
                self.expect(rest + self.plan.rest(number, &pace));
            }
        }
        ground.clean_up(kind)?;
        self.pace.note(began.elapsed(), cells.len());
        Ok(End::Whole)
    }

    /// Runs one block of every cell on every side, both in random order. If an order changes the
    /// work of cells, the remaining ones are replaced by the ordered ones.
    fn round<G: Ground>(
        &mut self,
        ground: &mut G,
        (number, pair): (u32, u32),
        cells: &[G::Cell],
        orders: &mut Orders,
    ) -> Result<End> {
        let mut cells = ground.ordered(cells, self.around.steering);
        self.rng.shuffle(&mut cells);
        cells.sort_by_key(|cell| ground.spoils(cell));
        let mut queue = VecDeque::from(cells);
        let mut done: Vec<String> = Vec::new();
        while let Some(cell) = queue.pop_front() {
            if self.length.by_cell && number >= self.length.least && self.left() < self.longest_cell
            {
                return Ok(End::Cut);
            }
            let began = Instant::now();
            let name = ground.name(&cell);
            self.around.progress.say(name.clone());
            let obeys = ground.obeys(&cell);
            let sides = ground.sides(&cell, pair);
            let order = order(orders, &name, sides, &mut self.rng);
            let seed = self.rng.u64(..);
            let places = (0..).zip(order).map(|(position, side)| Place {
                side,
                restart: number,
                pair,
                position,
                seed,
            });
            let changed = self.cell(ground, &cell, places)?;
            if !(changed && obeys) {
                done.push(name);
            }
            if changed {
                queue.retain(|cell| !ground.obeys(cell));
                let all = ground.cells(Kind::All);
                let now = ground.ordered(&all, self.around.steering);
                queue.extend(
                    now.into_iter()
                        .filter(|cell| ground.obeys(cell) && !done.contains(&ground.name(cell))),
                );
            }
            self.longest_cell = self.longest_cell.max(began.elapsed());
            self.around.progress.step(1);
        }
        Ok(End::Whole)
    }

    /// Runs a block on each side. Returns true if an order came in the meantime; the blocks of a
    /// cell that obeys it are then discarded.
    fn cell<G: Ground>(
        &mut self,
        ground: &mut G,
        cell: &G::Cell,
        places: impl Iterator<Item = Place>,
    ) -> Result<bool> {
        let obeys = ground.obeys(cell);
        let mut found = Vec::new();
        let mut changed = false;
        let mut failure = None;
        for place in places {
            let steering = &mut *self.around.steering;
            changed |= steering.take_orders();
            if steering.is_stopped() || (changed && obeys) {
                break;
            }
            match interrupt::check().and_then(|()| ground.block(cell, place, steering)) {
                Ok(Block::Done(blocks)) => found.extend(blocks),
                Ok(Block::Disturbed) => {
                    changed = true;
                    break;
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if self.around.steering.is_stopped() {
            failure = failure.or(Some(BenchError::Stopped));
        }
        if !(changed && obeys) {
            ground.keep(found);
        }
        failure.map_or(Ok(changed), Err)
    }
}

/// Orders of sides that have not been reversed yet, by cell.
type Orders = BTreeMap<String, Vec<usize>>;

/// Returns sides in random order; every second time the reverse of the last one, so that effects of
/// the position cancel out.
fn order(orders: &mut Orders, name: &str, mut sides: Vec<usize>, rng: &mut Rng) -> Vec<usize> {
    if sides.is_empty() {
        return sides;
    }
    if let Some(mut last) = orders.remove(name) {
        // A side may have left out this pair.
        last.retain(|side| sides.contains(side));
        if last.len() == sides.len() {
            last.reverse();
            return last;
        }
    }
    rng.shuffle(&mut sides);
    orders.insert(name.to_owned(), sides.clone());
    sides
}
