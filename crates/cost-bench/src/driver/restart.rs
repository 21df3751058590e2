//! One restart: freshly copied files and fresh processes for every side.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use tdekit_cost_report::{Probe, ProbeKind, Sample, StatementSample};

use super::classes::{Task, Work, checkpoint_id};
use super::prepare::{Backups, OPEN_OTHERS, Prepared, open_name};
use super::sides::{SideSpec, copy_file};
use crate::config::Config;
use crate::error::BenchError;
use crate::job::{DatabaseState, Operation, Reply, Request};
use crate::measure::Cost;
use crate::process::WorkerProcess;
use crate::subject::remove;

/// The part of a mix's loops that warms a side up.
const WARM_UP_SHARE: u64 = 8;

/// Settings that every connection of the mixes runs first.
pub(super) fn crud_settings(config: &Config) -> Vec<String> {
    settings(config, false, 1000)
}

/// Settings of the derived statements and scans: no checkpoint but the asked ones.
pub(super) fn operation_settings(config: &Config, foreign_keys: bool) -> Vec<String> {
    settings(config, foreign_keys, 0)
}

fn settings(config: &Config, foreign_keys: bool, checkpoint_pages: u32) -> Vec<String> {
    vec![
        format!("PRAGMA journal_mode = {}", config.journal_mode),
        format!("PRAGMA synchronous = {}", config.synchronous),
        format!("PRAGMA cache_size = {}", config.cache_size),
        format!("PRAGMA wal_autocheckpoint = {checkpoint_pages}"),
        format!("PRAGMA foreign_keys = {}", if foreign_keys { "ON" } else { "OFF" }),
        // A peer built to keep temporary data in memory would be spared work that others do.
        "PRAGMA temp_store = FILE".to_owned(),
    ]
}

/// The running workers of one side.
struct SideWorkers {
    crud: Vec<WorkerProcess>,
    subject: Option<WorkerProcess>,
    /// On a copy of its own: dropping its pages from the system's cache must not cool the others.
    cold: Option<WorkerProcess>,
    directory: PathBuf,
}

/// One restart. Dropping it ends the workers and removes the working copies.
pub(super) struct Restart<'a> {
    config: &'a Config,
    prepared: &'a Prepared,
    number: u32,
    /// In the order of `prepared.sides`.
    workers: Vec<SideWorkers>,
    /// Runs full backups.
    runner: Option<WorkerProcess>,
    directory: PathBuf,
}

impl Drop for Restart<'_> {
    fn drop(&mut self) {
        self.workers.clear();
        self.runner = None;
        // The run's directory goes as a whole in the end; here only room is saved.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl<'a> Restart<'a> {
    /// Copies the files and starts the workers, sides in random order.
    pub(super) fn start(
        config: &'a Config,
        prepared: &'a Prepared,
        number: u32,
        rng: &mut Rng,
    ) -> Result<Self, BenchError> {
        let directory = prepared.directory.path().join(format!("restart-{number}"));
        let mut order: Vec<usize> = (0..prepared.sides.len()).collect();
        rng.shuffle(&mut order);
        let mut restart =
            Self { config, prepared, number, workers: Vec::new(), runner: None, directory };
        if let Some(Backups { tools, keys }) = &prepared.backups {
            restart.runner = Some(WorkerProcess::start(&tools.worker, "backup", keys)?);
        }
        let mut started: Vec<(usize, SideWorkers)> = Vec::new();
        let mut states: Vec<(DatabaseState, Option<DatabaseState>)> = Vec::new();
        for index in order {
            let Some(side) = prepared.sides.get(index) else { continue };
            let (workers, state) = restart.start_side(side)?;
            started.push((index, workers));
            states.extend(state);
        }
        started.sort_by_key(|(index, _)| *index);
        restart.workers = started.into_iter().map(|(_, workers)| workers).collect();
        if let [first, rest @ ..] = states.as_slice()
            && rest.iter().any(|state| state != first)
        {
            return Err(BenchError::WorkerFailed {
                side: "all".to_owned(),
                message: format!("the sides do not run with equal settings: {states:?}"),
            });
        }
        Ok(restart)
    }

    #[allow(clippy::type_complexity, reason = "settings of both databases, where there are two")]
    fn start_side(
        &self,
        side: &SideSpec,
    ) -> Result<(SideWorkers, Option<(DatabaseState, Option<DatabaseState>)>), BenchError> {
        let directory = self.directory.join(&side.side.id);
        std::fs::create_dir_all(&directory)
            .map_err(BenchError::file("cannot create", &directory))?;
        let mut workers = SideWorkers {
            crud: Vec::new(),
            subject: None,
            cold: None,
            directory: directory.clone(),
        };
        let mut states = Vec::new();
        if let Some(name) = self.prepared.crud.filter(|_| self.config.experiments.crud) {
            let path = directory.join("crud.db");
            copy_file(&self.prepared.pristine(side, name), &path)?;
            let on_open = side.on_open(&crud_settings(self.config));
            for number in 0..self.config.processes {
                let (mut worker, _) = side.start()?;
                let state = worker.open(&path, on_open.clone())?;
                if number == 0 {
                    states.push(state);
                }
                workers.crud.push(worker);
            }
        }
        if let Some(name) = self.prepared.subject {
            let (worker, state) = self.start_subject(side, name, &directory.join("subject.db"))?;
            states.push(state);
            workers.subject = Some(worker);
            if !self.prepared.plan.is_empty() {
                let (worker, _) = self.start_subject(side, name, &directory.join("cold.db"))?;
                workers.cold = Some(worker);
            }
        }
        let mut states = states.into_iter();
        Ok((workers, states.next().map(|first| (first, states.next()))))
    }

    /// A worker with the derived statements on a fresh copy at `path`.
    fn start_subject(
        &self,
        side: &SideSpec,
        name: &str,
        path: &Path,
    ) -> Result<(WorkerProcess, DatabaseState), BenchError> {
        copy_file(&self.prepared.pristine(side, name), path)?;
        let (mut worker, _) = side.start()?;
        let settings = operation_settings(self.config, self.prepared.foreign_keys);
        let state = worker.open(path, side.on_open(&settings))?;
        worker.do_it(&Request::Plan { statements: self.prepared.plan.clone() })?;
        Ok((worker, state))
    }

    /// A little of everything on every side, not measured: files into the system's cache, programs
    /// and statements into the processor's.
    pub(super) fn warm_up(&mut self, rng: &mut Rng) -> Result<(), BenchError> {
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        rng.shuffle(&mut order);
        let seed = rng.u64(..);
        for index in order {
            for task in &self.prepared.tasks {
                let light = match task.work {
                    Work::Crud { control, loops, writes } => {
                        Some(Work::Crud { control, loops: (loops / WARM_UP_SHARE).max(1), writes })
                    }
                    Work::Operation { operation, cold: false } => (operation != Operation::Reindex)
                        .then_some(Work::Operation { operation, cold: false }),
                    _ => None,
                };
                if let Some(work) = light {
                    // A round of its own: no measured one finds its pages in a cache.
                    self.cost_of(&work, index, self.config.pairs, seed)?;
                }
            }
        }
        Ok(())
    }

    /// Runs one block of a class on a side; an index rebuild gives its checkpoint as a second
    /// sample.
    pub(super) fn block(
        &mut self,
        task: &Task,
        side: usize,
        pair: u32,
        position: u32,
        seed: u64,
    ) -> Result<Vec<Sample>, BenchError> {
        let (cost, checkpoint) = self.cost_of(&task.work, side, pair, seed)?;
        let place = Place { side: self.side_id(side), restart: self.number, pair, position };
        let mut samples = vec![place.sample(task.class.id.clone(), &cost)];
        if let (Some(cost), Work::Operation { cold, .. }) = (checkpoint, &task.work)
            && self.config.journal_mode == "wal"
        {
            samples.push(place.sample(checkpoint_id(*cold), &cost));
        }
        Ok(samples)
    }

    fn side_id(&self, side: usize) -> String {
        self.prepared.sides.get(side).map_or_else(String::new, |side| side.side.id.clone())
    }

    fn cost_of(
        &mut self,
        work: &Work,
        side: usize,
        pair: u32,
        seed: u64,
    ) -> Result<(Cost, Option<Cost>), BenchError> {
        let Some(workers) = self.workers.get_mut(side) else {
            return Ok((Cost::default(), None));
        };
        if let Work::FullBackup { compression } = work {
            let spec = self.prepared.sides.get(side);
            let cipher = spec.and_then(|side| side.backup_cipher(self.config));
            let (Some(runner), Some(backups)) = (&mut self.runner, &self.prepared.backups) else {
                return Ok((Cost::default(), None));
            };
            return full_backup(runner, backups, &workers.directory, compression, cipher)
                .map(|cost| (cost, None));
        }
        if let Work::Crud { control, loops, writes } = work {
            let checkpoint = *writes && self.config.journal_mode == "wal";
            let rows = self.config.rows;
            return crud_block(&mut workers.crud, (*control, *loops), rows, seed, checkpoint)
                .map(|cost| (cost, None));
        }
        let worker = match work {
            Work::Operation { cold: true, .. } => &mut workers.cold,
            _ => &mut workers.subject,
        };
        let Some(worker) = worker else {
            return Ok((Cost::default(), None));
        };
        match work {
            Work::Crud { .. } | Work::FullBackup { .. } => Ok((Cost::default(), None)),
            Work::Operation { operation, cold } => {
                let round = self.number.wrapping_mul(self.config.pairs + 1).wrapping_add(pair);
                let request = Request::Operation { operation: *operation, cold: *cold, round };
                match worker.ask(&request)? {
                    Reply::Operation { work, checkpoint } => Ok((work, checkpoint)),
                    other => Err(worker.unexpected(&other)),
                }
            }
            Work::Scan { sql } => {
                worker.cost(&Request::Scan { sql: sql.clone() }).map(|cost| (cost, None))
            }
            Work::Backup => {
                let spec = self.prepared.sides.get(side);
                let settings = vec![format!("PRAGMA synchronous = {}", self.config.synchronous)];
                let on_open = spec.map(|spec| spec.on_open(&settings)).unwrap_or_default();
                let to = workers.directory.join("backup.db");
                worker.cost(&Request::Backup { to, on_open }).map(|cost| (cost, None))
            }
        }
    }

    /// Ends the restart with its single values: memory of a worker that did its work, and the time
    /// that opening takes.
    pub(super) fn finish(mut self) -> Result<Vec<Probe>, BenchError> {
        let mut probes = Vec::new();
        for (index, workers) in self.workers.iter_mut().enumerate() {
            let worker = workers.subject.as_mut().or(workers.crud.first_mut());
            let Some((worker, side)) = worker.zip(self.prepared.sides.get(index)) else {
                continue;
            };
            let bytes = match worker.ask(&Request::Memory)? {
                Reply::Memory { bytes } => bytes,
                other => return Err(worker.unexpected(&other)),
            };
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
            match worker.ask(&request)? {
                Reply::OpenTimes { other_ns, again_ns } => {
                    let kinds =
                        [(ProbeKind::OpenOther, other_ns), (ProbeKind::OpenAgain, again_ns)];
                    for (kind, times) in kinds {
                        probes.extend(
                            times
                                .into_iter()
                                .map(|time| number_probe(self.number, kind, side, time)),
                        );
                    }
                }
                other => return Err(worker.unexpected(&other)),
            }
        }
        Ok(probes)
    }
}

fn number_probe(restart: u32, kind: ProbeKind, side: &SideSpec, value: u64) -> Probe {
    #[allow(clippy::cast_precision_loss, reason = "nanoseconds and bytes stay below 2^53")]
    let value = value as f64;
    Probe { kind, side: side.side.id.clone(), restart, value }
}

/// A full backup of a side's database, which its worker has open, by the command.
fn full_backup(
    runner: &mut WorkerProcess,
    backups: &Backups,
    directory: &Path,
    compression: &str,
    cipher: Option<&str>,
) -> Result<Cost, BenchError> {
    let target = directory.join("full.bak");
    let paths = (directory.join("subject.db"), target.clone());
    let spec = crate::backup::back_up(
        &backups.tools,
        &backups.keys,
        (&paths.0, &paths.1),
        compression,
        cipher,
    );
    let ran = runner.run(&spec)?;
    remove(&target)?;
    Ok(Cost {
        elapsed_ns: ran.elapsed_ns,
        cpu_ns: ran.user_ns.saturating_add(ran.system_ns),
        user_ns: ran.user_ns,
        system_ns: ran.system_ns,
        device_read_bytes: ran.device_read_bytes,
        device_write_bytes: ran.device_write_bytes,
        operations: 1,
        ..Cost::default()
    })
}

/// A block of a mix by all processes at once, and the checkpoint after it.
fn crud_block(
    workers: &mut [WorkerProcess],
    (control, loops): (i64, u64),
    rows: u64,
    seed: u64,
    checkpoint: bool,
) -> Result<Cost, BenchError> {
    for (number, worker) in (1_u64..).zip(workers.iter_mut()) {
        let seed = seed.wrapping_add(number);
        worker.send(&Request::Crud { control, loops, rows, seed })?;
    }
    let mut sum = Cost { start_ns: u64::MAX, ..Cost::default() };
    for worker in workers.iter_mut() {
        match worker.receive()? {
            Reply::Cost(cost) => {
                sum.add(&cost);
                sum.start_ns = sum.start_ns.min(cost.start_ns);
                sum.end_ns = sum.end_ns.max(cost.end_ns);
            }
            other => return Err(worker.unexpected(&other)),
        }
    }
    // The processes ran beside one another: from the first start to the last end.
    sum.elapsed_ns = sum.end_ns.saturating_sub(sum.start_ns);
    if let (true, Some(worker)) = (checkpoint, workers.first_mut()) {
        sum.add(&worker.cost(&Request::Checkpoint)?);
    }
    Ok(sum)
}

/// Where a block stands in the run.
struct Place {
    side: String,
    restart: u32,
    pair: u32,
    position: u32,
}

impl Place {
    fn sample(&self, class: String, cost: &Cost) -> Sample {
        Sample {
            class,
            side: self.side.clone(),
            restart: self.restart,
            pair: self.pair,
            position: self.position,
            elapsed_ns: cost.elapsed_ns,
            cpu_ns: cost.cpu_ns,
            user_ns: cost.user_ns,
            system_ns: cost.system_ns,
            logical_reads: cost.logical_reads,
            logical_writes: cost.logical_writes,
            device_read_bytes: cost.device_read_bytes,
            device_write_bytes: cost.device_write_bytes,
            retries: cost.retries,
            voluntary_switches: 0,
            involuntary_switches: 0,
            instructions: None,
            latency: None,
            statements: cost
                .statements
                .iter()
                .map(|(elapsed_ns, cpu_ns)| StatementSample {
                    elapsed_ns: *elapsed_ns,
                    cpu_ns: *cpu_ns,
                })
                .collect(),
        }
    }
}
