//! One restart: freshly copied files and fresh processes for every side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use tdekit_bench_report::{Probe, ProbeKind};

use super::classes::{Seat, Task, Work};
use super::prepare::{Backups, OPEN_OTHERS, Prepared, open_name};
use super::toll::{Added, Debt};
use crate::error::{BenchError, Result};
use crate::job::{DatabaseState, Request, Undo};
use crate::numbers::float;
use crate::plan::{Config, Part};
use crate::private;
use crate::process::WorkerProcess;
use crate::schedule::in_random_order;
use crate::sides::{SideSpec, copy_file};

/// Returns the settings that every connection of the mixes runs first.
pub(super) fn crud_settings(config: &Config) -> Vec<String> {
    settings(config, false, 1000)
}

/// Returns the settings of the derived statements and scans: no automatic checkpoints.
pub(super) fn operation_settings(config: &Config, foreign_keys: bool) -> Vec<String> {
    settings(config, foreign_keys, 0)
}

fn settings(config: &Config, foreign_keys: bool, checkpoint_pages: u32) -> Vec<String> {
    vec![
        format!("PRAGMA journal_mode = {}", config.given.journal_mode),
        format!("PRAGMA synchronous = {}", config.given.synchronous),
        format!("PRAGMA cache_size = {}", config.given.cache_size),
        format!("PRAGMA wal_autocheckpoint = {checkpoint_pages}"),
        format!("PRAGMA foreign_keys = {}", if foreign_keys { "ON" } else { "OFF" }),
        // A peer built to keep temporary data in memory would otherwise avoid work that others do.
        "PRAGMA temp_store = FILE".to_owned(),
    ]
}

/// The running workers of one side.
pub(super) struct SideWorkers {
    seats: BTreeMap<Seat, Vec<WorkerProcess>>,
    pub(super) directory: PathBuf,
    /// The debts of the mixes' blocks if their side is slowed down, by control row.
    pub(super) debts: BTreeMap<i64, Debt>,
}

impl SideWorkers {
    /// Returns the workers of a seat.
    pub(super) fn at(&mut self, seat: Seat) -> &mut [WorkerProcess] {
        self.seats.get_mut(&seat).map_or(&mut [], Vec::as_mut_slice)
    }
}

/// One restart. Dropping it ends the workers and removes the working copies.
pub(super) struct Restart<'a> {
    pub(super) config: &'a Config,
    pub(super) prepared: &'a Prepared,
    pub(super) number: u32,
    /// In the order of `prepared.sides`.
    pub(super) workers: Vec<SideWorkers>,
    /// Runs full backups.
    pub(super) runner: Option<WorkerProcess>,
}

impl Drop for Restart<'_> {
    fn drop(&mut self) {
        self.workers.clear();
        self.runner = None;
        for side in &self.prepared.sides {
            let directory = side.root(self.prepared.directory.path()).join(self.name());
            // The run's directories are removed as a whole in the end; this only saves space.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

impl<'a> Restart<'a> {
    /// Copies the files and starts the workers that `tasks` need, sides in random order.
    pub(super) fn start(
        config: &'a Config,
        prepared: &'a Prepared,
        (number, tasks): (u32, &[Task]),
        rng: &mut Rng,
    ) -> Result<Self> {
        let mut restart = Self { config, prepared, number, workers: Vec::new(), runner: None };
        let has = |wanted: fn(&Work) -> bool| tasks.iter().any(|task| wanted(&task.work));
        let backs_up = has(|work| matches!(work, Work::FullBackup { .. }));
        if let Some(Backups { tools, keys }) = prepared.backups.as_ref().filter(|_| backs_up) {
            restart.runner = Some(WorkerProcess::start(&tools.worker, "backup", keys)?);
        } else if has(|work| matches!(work, Work::Speedtest { .. }))
            && let Some(base) = prepared.sides.first()
        {
            restart.runner = Some(base.start_runner()?);
        }
        let started =
            in_random_order(&prepared.sides, rng, |side| restart.start_side(side, tasks))?;
        let (workers, states): (_, Vec<States>) = started.into_iter().unzip();
        restart.workers = workers;
        if let [first, rest @ ..] = states.as_slice()
            && rest.iter().any(|states| differ(first, states))
        {
            return Err(BenchError::WorkerFailed {
                side: "all".to_owned(),
                message: format!("the sides do not run with equal settings: {states:?}"),
            });
        }
        Ok(restart)
    }

    /// Returns the name of its directories.
    fn name(&self) -> String {
        format!("restart-{}", self.number)
    }

    /// Starts a side's workers, with the settings of each of its databases.
    fn start_side(&self, side: &SideSpec, tasks: &[Task]) -> Result<(SideWorkers, States)> {
        let run = self.prepared.directory.path();
        let directory = side.root(run).join(self.name()).join(&side.side.id);
        private::make(&directory)?;
        let (mut seats, mut states) = (BTreeMap::new(), States::new());
        let tasks = self.prepared.tasks_of(tasks, side);
        for seat in tasks.map(|task| task.work.seat()).collect::<BTreeSet<_>>() {
            if seat == Seat::Apart {
                continue;
            }
            let mixes = seat == Seat::Mixes;
            let prepared = self.prepared;
            let name = if mixes { prepared.plain.crud } else { prepared.plain.subject };
            let Some(name) = name else { continue };
            let (pristine, path) = (prepared.pristine(side, name), directory.join(seat.file()));
            copy_file(&pristine, &path)?;
            let settings = match mixes {
                true => crud_settings(self.config),
                false => operation_settings(self.config, prepared.foreign_keys),
            };
            let mut workers = Vec::new();
            for number in 0..if mixes { self.config.processes } else { 1 } {
                let (mut worker, _) = side.start()?;
                let state = worker.open(&path, side.on_open(&settings))?;
                if number == 0 {
                    states.insert(seat, state);
                }
                match seat {
                    Seat::Mixes | Seat::Apart => {}
                    Seat::Warm | Seat::Cold => {
                        worker.do_it(&Request::Plan { statements: prepared.plan.clone() })?;
                    }
                    Seat::Script => {
                        plan_script(&mut worker, self.config, &pristine)?;
                    }
                }
                workers.push(worker);
            }
            seats.insert(seat, workers);
        }
        Ok((SideWorkers { seats, directory, debts: BTreeMap::new() }, states))
    }
}

/// The settings of a side's databases.
type States = BTreeMap<Seat, DatabaseState>;

/// Returns true if two sides have other settings for the same work.
fn differ(one: &States, other: &States) -> bool {
    other.iter().any(|(seat, state)| one.get(seat).is_some_and(|known| known != state))
}

/// Gives a worker the user's statements; returns which of them change the database. `pristine` is
/// the source of its database's copy.
pub(super) fn plan_script(
    worker: &mut WorkerProcess,
    config: &Config,
    pristine: &Path,
) -> Result<Vec<bool>> {
    let undo = if config.given.journal_mode == "wal" {
        Undo::Log
    } else {
        Undo::Copy(pristine.to_owned())
    };
    worker.ask(&Request::PlanScript { statements: config.script.clone(), undo })
}

impl Restart<'_> {
    /// Returns the work added to slowed sides.
    pub(super) fn added(&self) -> Added {
        let mut sum = Added::default();
        for debt in self.workers.iter().flat_map(|workers| workers.debts.values()) {
            sum.add(debt.added());
        }
        sum
    }

    /// Ends the restart with its single values: memory of a worker after its work, and the time for
    /// opening.
    pub(super) fn finish(mut self) -> Result<Vec<Probe>> {
        let mut probes = Vec::new();
        // After the same work on every side.
        let whole = |side: &&SideSpec| side.part == Part::All;
        for (index, workers) in self.workers.iter_mut().enumerate() {
            let order = [Seat::Warm, Seat::Mixes, Seat::Script];
            let seat = order.into_iter().find(|seat| !workers.at(*seat).is_empty());
            let worker = seat.and_then(|seat| workers.at(seat).first_mut());
            let Some((worker, side)) = worker.zip(self.prepared.sides.get(index).filter(whole))
            else {
                continue;
            };
            let bytes = worker.ask(&Request::Memory)?;
            probes.push(number_probe(self.number, ProbeKind::ProcessMemory, side, bytes));
        }
        for side in &self.prepared.sides {
            let (mut worker, _) = side.start()?;
            let path = |number: usize| self.prepared.pristine(side, &open_name(number));
            let request = Request::OpenProbe {
                first: path(0),
                others: (1..=OPEN_OTHERS).map(path).collect(),
                on_open: side.on_open(&[]),
            };
            let (other_ns, again_ns): (Vec<u64>, Vec<u64>) = worker.ask(&request)?;
            for (kind, times) in
                [(ProbeKind::OpenOther, other_ns), (ProbeKind::OpenAgain, again_ns)]
            {
                let probe = |time| number_probe(self.number, kind, side, time);
                probes.extend(times.into_iter().map(probe));
            }
        }
        Ok(probes)
    }
}

fn number_probe(restart: u32, kind: ProbeKind, side: &SideSpec, value: u64) -> Probe {
    Probe { kind, side: side.side.id.clone(), restart, value: float(value) }
}
