//! The databases on which the schedule runs operations and mixes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_bench_report::{Class, Experiment, Metric, Run};

use super::home::Home;
use super::mixes::{self, Loops};
use super::names::{COLD, Database, PAGES, backup};
use super::operations::{self, Planned, undo, values};
use super::server::{Counters, PAGE_BYTES, Used, by_tag, of_session, timed};
use super::tds::Connection;
use crate::error::Result;
use crate::experiment::{Figures, class};
use crate::generate::Mix;
use crate::interrupt;
use crate::job::Operation;
use crate::numbers::{float, whole};
use crate::plan::Config;
use crate::schedule::{Block, Ground, Kind, Place, Steering, in_random_order};
use tdekit_bench_work::Latencies;

/// Number of loops to determine the length of a block.
const TRIAL_LOOPS: u64 = 30;
/// Maximum time of a side's warm-up, in blocks.
const WARM_UP_BLOCKS: u32 = 8;

/// The work of a class.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Operation {
        operation: Operation,
        cold: bool,
    },
    FullBackup {
        compressed: bool,
    },
    /// Under a row of the control table.
    Mix {
        mix: Mix,
        control: i64,
    },
}

/// A class with its work.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) class: Class,
    pub(super) work: Work,
}

/// Returns the classes of a run; `cold` is true if the server's buffers may be cleared.
pub(super) fn tasks(config: &Config, cold: bool) -> Vec<Task> {
    let mut tasks = Vec::new();
    if config.experiments.crud {
        tasks.extend((1..).zip(&config.mixes).map(|(control, mix)| {
            let what = format!(
                "{} connections; every loop is a call of a stored procedure that reads the \
                 control table first; each is a transaction.",
                config.mssql.connections
            );
            let names = (format!("crud/{}", mix.id()), format!("mix {}", mix.id()));
            let class = class(Experiment::Crud, names, what, (0, "loop"));
            Task { class, work: Work::Mix { mix: *mix, control } }
        }));
    }
    if !config.experiments.operations {
        return tasks;
    }
    let plan = operations::all();
    for cold in [false, true].into_iter().filter(|wanted| !wanted || cold) {
        let cache = if cold { "cold" } else { "warm" };
        for operation in Operation::ALL {
            let count = plan.iter().filter(|one| one.operation == operation).count();
            let name = operation.name();
            let (label, unit) = match operation {
                Operation::Reindex => ("rebuild of every index".to_owned(), "table"),
                _ => (format!("{count} {}", name.to_uppercase()), "statement"),
            };
            let before = if cold {
                ", CHECKPOINT and DBCC DROPCLEANBUFFERS before each"
            } else {
                ", the server's buffers as they are"
            };
            let what = format!("Each once{before}; changes are taken back off the clock.");
            let names = (format!("operations/{name}/{cache}"), format!("{label}, {cache}"));
            let class = class(Experiment::Operations, names, what, (count as u64, unit));
            tasks.push(Task { class, work: Work::Operation { operation, cold } });
        }
    }
    for (id, label, compressed) in [
        ("backup-compressed", "full backup, compressed", true),
        ("backup-plain", "full backup", false),
    ] {
        let what = "BACKUP DATABASE to a file of the server, with FORMAT.".to_owned();
        let names = (format!("operations/{id}/warm"), label);
        let class = class(Experiment::Operations, names, what, (1, "backup"));
        tasks.push(Task { class, work: Work::FullBackup { compressed } });
    }
    tasks
}

/// Returns true if the server counts an operation's statements by their text. DDL has no plan.
pub(super) fn counted_by_text(operation: Operation) -> bool {
    operation != Operation::Reindex
}

/// The connections of a side of a restart.
struct Seat {
    /// For single statements.
    one: Connection,
    /// For the mixes.
    all: Vec<Connection>,
    /// The next key of a row that a mix inserts.
    next: AtomicU64,
}

/// The databases, and the measurements on them.
pub(super) struct SidesGround<'a, 'h> {
    pub(super) config: &'a Config,
    pub(super) home: &'a mut Home<'h>,
    pub(super) counters: Counters,
    /// By side.
    pub(super) databases: Vec<Database>,
    pub(super) tasks: Vec<Task>,
    pub(super) plan: Vec<Planned>,
    /// Distinguishes this run's statements from others in the server's counters.
    pub(super) tag: String,
    pub(super) figures: Figures,
    /// By class and side.
    pub(super) latencies: BTreeMap<(String, String), Latencies>,
    /// Loops of each connection in a block, by mix.
    loops: BTreeMap<String, u64>,
    seats: Vec<Seat>,
}

impl<'a, 'h> SidesGround<'a, 'h> {
    pub(super) fn new(
        config: &'a Config,
        home: &'a mut Home<'h>,
        (counters, databases): (Counters, Vec<Database>),
        tasks: Vec<Task>,
        figures: Figures,
    ) -> Self {
        Self {
            config,
            home,
            counters,
            databases,
            tasks,
            plan: operations::all(),
            tag: format!("{:08x}", fastrand::u32(..)),
            figures,
            latencies: BTreeMap::new(),
            loops: BTreeMap::new(),
            seats: Vec::new(),
        }
    }

    fn seat(&self, database: Database) -> Result<Seat> {
        let count = if self.config.experiments.crud { self.config.mssql.connections } else { 0 };
        let open = |_| self.home.open(Some(database));
        Ok(Seat {
            one: self.home.open(Some(database))?,
            all: (0..count).map(open).collect::<Result<_>>()?,
            next: AtomicU64::new(self.config.rows + 1),
        })
    }

    /// Determines how many loops fill a block.
    fn choose_loops(&mut self) -> Result<()> {
        for at in 0..self.tasks.len() {
            let Work::Mix { mix, .. } = self.tasks[at].work else { continue };
            let loops = match self.config.given.loops {
                Some(loops) => loops,
                None => {
                    // On every side, which must have the same number of rows.
                    for side in 1..self.databases.len() {
                        self.mix(at, side, (TRIAL_LOOPS, 1))?;
                    }
                    let ran = self.mix(at, 0, (TRIAL_LOOPS, 1))?;
                    let each = float(ran.elapsed_ns).max(1.0) / float(TRIAL_LOOPS);
                    let block = self.config.block_time.as_secs_f64() * 1e9;
                    whole(block / each).clamp(TRIAL_LOOPS, 1_000_000)
                }
            };
            self.loops.insert(mix.id(), loops);
            let all = loops * u64::from(self.config.mssql.connections);
            self.tasks[at].class.operations = all;
            if let Some(cell) = self.figures.report.cells.get_mut(at) {
                cell.operations = all;
            }
        }
        Ok(())
    }

    fn mix(&mut self, at: usize, side: usize, (loops, seed): (u64, u64)) -> Result<mixes::Ran> {
        let config = self.config;
        let work = self.tasks.get(at).map(|task| task.work);
        let (Some(Work::Mix { mix, control }), Some(seat)) = (work, self.seats.get_mut(side))
        else {
            return Err(crate::error::BenchError::mismatch("schedule", "there is no such mix"));
        };
        let connections = u64::from(config.mssql.connections);
        let interval = config
            .given
            .rate
            .map(|rate| Duration::from_nanos((connections * 1_000_000_000 / rate.max(1)).max(1)));
        mixes::run(
            &mut seat.all,
            Loops {
                mix,
                control,
                loops,
                rows: config.rows,
                seed,
                interval,
                think: config.given.think_time.0,
                counters: self.counters,
                next: &seat.next,
            },
        )
    }

    fn mix_block(&mut self, at: usize, place: Place) -> Result<Vec<Run>> {
        let (cell, side) = self.names(at, place.side);
        let Some(Work::Mix { mix, .. }) = self.tasks.get(at).map(|task| task.work) else {
            return Ok(Vec::new());
        };
        let counted = self.loops.get(&mix.id()).copied().unwrap_or(TRIAL_LOOPS);
        let dearer = self.config.mssql.inject.filter(|_| place.side > 0).unwrap_or(0);
        let loops = counted + counted * dearer / 1000;
        let ran = self.mix(at, place.side, (loops, place.seed))?;
        let mut values = ran.used.unwrap_or_default().values();
        values.insert(Metric::Elapsed, float(ran.elapsed_ns));
        values.insert(Metric::ClientCpu, float(ran.client_cpu_ns));
        if let Some(found) = ran.latencies.percentiles() {
            values.insert(Metric::MedianLatency, float(found.p50_ns));
            values.insert(Metric::TailLatency, float(found.p99_ns));
        }
        let known = self.latencies.entry((cell.clone(), side.clone()));
        known.or_default().add(&ran.latencies.counts());
        Ok(vec![place.run(&cell, &side, values)])
    }

    fn names(&self, at: usize, side: usize) -> (String, String) {
        let cell = self.tasks.get(at).map(|task| task.class.id.clone()).unwrap_or_default();
        let side = self.databases.get(side).map_or("", |database| database.id());
        (cell, side.to_owned())
    }

    /// Runs every statement of an operation, each alone; returns the whole, and each.
    fn operation_block(
        &mut self,
        at: usize,
        place: Place,
        (operation, cold): (Operation, bool),
    ) -> Result<Vec<Run>> {
        let (cell, side) = self.names(at, place.side);
        let (rows, counters) = (self.config.rows, self.counters);
        let plan: Vec<&Planned> =
            self.plan.iter().filter(|one| one.operation == operation).collect();
        let Some(seat) = self.seats.get_mut(place.side) else { return Ok(Vec::new()) };
        let connection = &mut seat.one;
        let mut rng = Rng::with_seed(place.seed);
        let of_texts = counters == Counters::QueryStats && counted_by_text(operation);
        let prefix = format!("{} {side} {}", self.tag, operation.name());
        let before = if of_texts { by_tag(connection, &prefix)? } else { BTreeMap::new() };
        let mut costs = Vec::new();
        for one in &plan {
            let batch = one.batch(&one.tag(&self.tag, &side), values(&mut rng, rows));
            if cold {
                COLD.iter().try_for_each(|sql| connection.query(sql).map(drop))?;
            }
            costs.push(cost(connection, &batch, of_texts, counters)?);
        }
        if of_texts {
            let after = by_tag(connection, &prefix)?;
            for (one, (used, _)) in plan.iter().zip(&mut costs) {
                let tag = one.tag(&self.tag, &side);
                // A plan that the server has since discarded has no counters.
                let known = |all: &BTreeMap<String, Used>| all.get(&tag).copied();
                *used = known(&after).map(|now| now.since(&known(&before).unwrap_or_default()));
            }
        }
        for sql in undo(operation) {
            connection.query(&sql)?;
        }
        Ok(as_runs(place, (&cell, &side), &costs))
    }

    fn backup_block(&mut self, at: usize, place: Place, compressed: bool) -> Result<Vec<Run>> {
        let (cell, side) = self.names(at, place.side);
        let Some(database) = self.databases.get(place.side).copied() else { return Ok(Vec::new()) };
        let files = self.config.mssql.bounds.backup_files(database.name());
        let Some(path) = files.first() else { return Ok(Vec::new()) };
        let counters = self.counters;
        let Some(seat) = self.seats.get_mut(place.side) else { return Ok(Vec::new()) };
        let batch = backup(database, path, compressed, None);
        let ended = cost(&mut seat.one, &batch, false, counters);
        let (used, client_ns) = self.home.backed_up(path, ended)?;
        let mut runs = as_runs(place, (&cell, &side), &[(used, client_ns)]);
        runs.truncate(1);
        Ok(runs)
    }
}

/// A statement's cost by the session, if that counts it, and at the client.
fn cost(
    connection: &mut Connection,
    batch: &str,
    of_texts: bool,
    counters: Counters,
) -> Result<(Option<Used>, u64)> {
    if of_texts || counters == Counters::Clock {
        return Ok((None, timed(connection, batch)?));
    }
    let before = of_session(connection)?;
    let client_ns = timed(connection, batch)?;
    Ok((Some(of_session(connection)?.since(&before)), client_ns))
}

/// Returns the whole class, and each of its statements. If the server does not report one of them,
/// the class has the client's clock alone.
pub(super) fn as_runs(
    place: Place,
    (cell, side): (&str, &str),
    costs: &[(Option<Used>, u64)],
) -> Vec<Run> {
    let of = |used: Option<Used>, client_ns: u64| {
        let mut values = used.map(|used| used.values()).unwrap_or_default();
        values.insert(Metric::ClientElapsed, float(client_ns));
        values.entry(Metric::Elapsed).or_insert_with(|| float(client_ns));
        place.run(cell, side, values)
    };
    let mut whole = Some(Used::default());
    for (used, _) in costs {
        whole = whole.zip(*used).map(|(mut whole, used)| {
            whole.add(&used);
            whole
        });
    }
    let client_ns = costs.iter().fold(0_u64, |sum, (_, client_ns)| sum.saturating_add(*client_ns));
    let mut runs = vec![of(whole, client_ns)];
    runs.extend(
        (0..).zip(costs).map(|(index, (used, client_ns))| Run {
            statement: Some(index),
            ..of(*used, *client_ns)
        }),
    );
    runs
}

impl Ground for SidesGround<'_, '_> {
    /// Index of the task.
    type Cell = usize;
    type Found = Run;

    fn cells(&mut self, kind: Kind) -> Vec<usize> {
        self.figures.wanted(kind, 0..self.tasks.len(), |at| vec![self.names(*at, 0).0])
    }

    fn name(&self, at: &usize) -> String {
        self.names(*at, 0).0
    }

    fn sides(&self, _: &usize, _pair: u32) -> Vec<usize> {
        (0..self.databases.len()).collect()
    }

    /// Recreates every database, in random order.
    fn prepare(&mut self, number: u32, _: &[usize], rng: &mut Rng, _: &mut Steering) -> Result<()> {
        self.seats.clear();
        let seed = rng.u64(..);
        let databases = self.databases.clone();
        in_random_order(databases, rng, |database| self.home.make(database, seed))?;
        let seats = self.databases.iter().map(|database| self.seat(*database));
        self.seats = seats.collect::<Result<_>>()?;
        if number == 0 {
            if let Some(seat) = self.seats.first_mut() {
                let mut ask = |sql: &str| seat.one.query(sql).ok().and_then(|found| found.int());
                let pages = PAGES.into_iter().find_map(&mut ask);
                let bytes = pages.and_then(|pages| u64::try_from(pages).ok());
                if let Some(pages) = bytes {
                    self.figures.report.set("data_bytes", pages.saturating_mul(PAGE_BYTES));
                }
            }
            self.choose_loops()?;
        }
        // The first of everything compiles plans and fills buffers.
        let place = Place { side: 0, restart: number, pair: u32::MAX, position: 0, seed };
        for side in 0..self.databases.len() {
            let began = Instant::now();
            for at in 0..self.tasks.len() {
                interrupt::check()?;
                if began.elapsed() < WARM_UP_BLOCKS * self.config.block_time {
                    self.measure(at, Place { side, ..place }, true)?;
                }
            }
        }
        Ok(())
    }

    fn block(&mut self, at: &usize, place: Place, _: &mut Steering) -> Result<Block<Run>> {
        self.measure(*at, place, false).map(Block::Done)
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.figures.keep(found);
    }

    fn clean_up(&mut self, _kind: Kind) -> Result<()> {
        self.seats.clear();
        Ok(())
    }
}

impl SidesGround<'_, '_> {
    /// Runs a block of a class; only a light one for the warm-up.
    fn measure(&mut self, at: usize, place: Place, warm_up: bool) -> Result<Vec<Run>> {
        match self.tasks.get(at).map(|task| task.work) {
            Some(Work::Operation { cold: true, .. } | Work::FullBackup { .. }) if warm_up => {
                Ok(Vec::new())
            }
            Some(Work::Operation { operation, cold }) => {
                self.operation_block(at, place, (operation, cold))
            }
            Some(Work::FullBackup { compressed }) => self.backup_block(at, place, compressed),
            Some(Work::Mix { .. }) if warm_up => {
                self.mix(at, place.side, (TRIAL_LOOPS, place.seed)).map(|_| Vec::new())
            }
            Some(Work::Mix { .. }) => self.mix_block(at, place),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_counted_only_where_every_statement_is() {
        let place = Place { side: 0, restart: 0, pair: 0, position: 0, seed: 1 };
        let used = Used { cpu_ns: 5_000, elapsed_ns: 7_000, reads: 3, ..Used::default() };
        let runs = as_runs(place, ("c", "s"), &[(Some(used), 10), (Some(used), 20)]);
        assert_eq!(runs.len(), 3);
        assert!((runs[0].value(Metric::Elapsed).unwrap() - 14_000.0).abs() < 1e-9);
        assert!((runs[0].value(Metric::ClientElapsed).unwrap() - 30.0).abs() < 1e-9);
        assert_eq!((runs[0].statement, runs[2].statement), (None, Some(1)));
        let runs = as_runs(place, ("c", "s"), &[(Some(used), 10), (None, 20)]);
        assert_eq!(runs[0].value(Metric::Cpu), None);
        assert!((runs[0].value(Metric::Elapsed).unwrap() - 30.0).abs() < 1e-9);
    }
}
