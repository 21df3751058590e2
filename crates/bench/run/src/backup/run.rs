//! The matrix from beginning to end: database, places, blocks, results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use tdekit_bench_report::{Experiment, Metric, Report, Results, Run, Subject, measured};

use super::check::{check_cipher, check_restored};
use super::matrix::{self, Action, Method, Task};
use super::own;
use super::places::{self, Place, check_space};
use crate::backup_tools::ReadyTool;
use crate::error::{BenchError, Result};
use crate::experiment::Figures;
use crate::generate::generate;
use crate::interrupt;
use crate::job::{Ran, RunSpec};
use crate::key_store::{self, KeyEnvironment};
use crate::plan::Config;
use crate::plan::backup::BackupPlan;
use crate::private;
use crate::process::WorkerProcess;
use crate::progress::Progress;
use crate::schedule::{
    self, Block, Ended, Ground, Kind, Length, Place as At, Steering, Surroundings,
};
use crate::subject::{self, copy_database, page_size, write_out};
use crate::tools::Tools;
use tdekit_bench_work::of_use;

/// The database's name on each source; restored databases have the same, in a directory.
const DATABASE: &str = "source.db";
const RESTORED: &str = "restored";
const BACKUP: &str = "backup";
/// Bytes of a row of each generated table with its indexes, together.
const ROW_BYTES: u64 = 340;

/// Runs the matrix: a [`crate::experiment::RunExperiment`].
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    mut around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let plan = &config.backup;
    let prepared = Prepared::new(config, tools, around.progress, around.warnings)?;
    let mut ground = BackupGround {
        prepared: &prepared,
        runner: WorkerProcess::start(&prepared.tools.worker, "backup", &prepared.keys)?,
        groups: matrix::groups(&prepared.tasks),
        position: 0,
        checked: Vec::new(),
        figures: Figures::new(prepared.report(config), config, &results.settings),
    };
    let length = ground.figures.length("the backup matrix", (plan.blocks, 1), config.max_time);
    // Every cell runs once, regardless of the time limit.
    let length = Length { least: 1, by_cell: true, ..length };
    let ended = schedule::run(&mut ground, &length, config.given.basics.seed, around.inner());
    let ended = ground.figures.finish(ended, &mut results.backup)?;
    around.warnings.extend(results.backup.as_ref().and_then(|report| doubts(&prepared, report)));
    if results.embedded.is_none() {
        results.settings.page_size_bytes = prepared.subject.page_size_bytes;
        results.subject = prepared.subject.clone();
    }
    Ok(ended)
}

/// Everything that the runs need. Dropping it removes every file.
struct Prepared<'a> {
    plan: &'a BackupPlan,
    tools: &'a Tools,
    keys: KeyEnvironment,
    tasks: Vec<Task>,
    ready: Vec<ReadyTool>,
    subject: Subject,
    places: Vec<Place>,
    /// Holds the key store.
    _directory: private::Directory,
}

impl<'a> Prepared<'a> {
    fn new(
        config: &'a Config,
        tools: &'a Tools,
        progress: &Progress,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let plan = &config.backup;
        let size = database_bytes(config)?;
        let places = places::set_up(plan, &config.directory, size, warnings)?;
        let directory = private::run_directory(&config.directory)?;
        let ready = plan
            .peers
            .iter()
            .map(|tool| ReadyTool::new(tool, directory.path()))
            .collect::<Result<_, _>>()?;
        let keys = key_store::make(&tools.tdekit, directory.path())?;
        interrupt::check()?;
        progress.say("making the database");
        let subject = make_sources(config, &places)?;
        let sources = places::named(&places, |place| place.source);
        let targets = places::named(&places, |place| place.target);
        let tasks = matrix::tasks(plan, &sources, &targets, config.given.basics.aa);
        Ok(Self { plan, tools, keys, tasks, ready, subject, places, _directory: directory })
    }

    /// Returns the report without any runs.
    fn report(&self, config: &Config) -> Report {
        let mut sides = matrix::sides(&self.tasks);
        for side in &mut sides {
            let ready = self.ready.iter().find(|ready| ready.tool.name == side.id);
            let version = ready
                .map_or_else(|| format!("tdekit {}", config.version), |ready| ready.tool.version());
            side.facts.insert("version".to_owned(), version.into());
        }
        let mut report = Report::new(Experiment::Backup, sides);
        report.cells = matrix::classes(&self.tasks, self.plan.restore);
        report.set("label", self.subject.label.as_str());
        report.set("source_bytes", self.subject.bytes);
        report.set("cold", self.plan.cold);
        report.set("restored", self.plan.restore);
        report.set("restarts", self.plan.blocks);
        let places = self.places.iter();
        report.settings = places.map(|place| (place.name.clone(), place.words())).collect();
        report
    }

    fn place(&self, number: usize) -> Result<&Place> {
        let none = || BenchError::option("--device", "no device is there");
        self.places.get(number).ok_or_else(none)
    }

    /// Returns the command of an action, which reads one path and creates the other.
    fn spec(&self, task: &Task, action: Action, (from, to): (&Path, &Path)) -> Result<RunSpec> {
        let spec = match (&task.method, action) {
            (Method::Tdekit { cipher, compression }, Action::Backup) => {
                own::back_up(self.tools, &self.keys, (from, to), compression, cipher.as_deref())
            }
            (Method::Tdekit { .. }, Action::Restore) => {
                own::command(self.tools, &self.keys, "restore", (from, to))
            }
            (Method::Peer(tool), action) => {
                let ready = self.ready.iter().find(|ready| ready.tool == *tool);
                let ready = ready.ok_or_else(|| {
                    BenchError::option("--backup-peer", format!("{} is not set up", tool.name))
                })?;
                match action {
                    Action::Backup => ready.backup(from, to)?,
                    Action::Restore => ready.restore(from, to),
                }
            }
        };
        let drop_cached = if self.plan.cold { vec![from.to_owned()] } else { Vec::new() };
        Ok(RunSpec { drop_cached, ..spec })
    }
}

/// Returns the size of the database to be generated, or of the given one with its log.
fn database_bytes(config: &Config) -> Result<u64> {
    let Some(path) = &config.database else { return Ok(config.backup.size_bytes) };
    subject::database_bytes(path)
}

/// Copies the same database to every source.
fn make_sources(config: &Config, places: &[Place]) -> Result<Subject> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for place in places.iter().filter(|place| place.source) {
        let path = place.directory.path().join(DATABASE);
        match paths.first() {
            None => make_database(config, &path)?,
            Some(first) => std::fs::copy(first, &path)
                .map(drop)
                .map_err(BenchError::file("cannot copy to", &path))?,
        }
        write_out(&path)?;
        interrupt::check()?;
        paths.push(path);
    }
    let path = paths.first().cloned().unwrap_or_default();
    describe(config, &path)
}

fn make_database(config: &Config, path: &Path) -> Result<()> {
    match &config.database {
        Some(source) => copy_database(source, path, config.given.page_size).map(drop),
        None => {
            let rows = (config.backup.size_bytes / ROW_BYTES).max(1);
            generate(path, rows, config.page_size_bytes(), (&[], None), config.given.basics.seed)
                .map_err(BenchError::sqlite("cannot generate a database"))
        }
    }
}

fn describe(config: &Config, path: &Path) -> Result<Subject> {
    let connection =
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(BenchError::sqlite("cannot open the copy"))?;
    let sql = "SELECT count(*) FILTER (WHERE type = 'table'), \
               count(*) FILTER (WHERE type = 'index') FROM sqlite_schema";
    let (tables, indexes): (u32, u32) = connection
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(BenchError::sqlite("cannot read the copy's schema"))?;
    let generated = "generated Vendor/Card/Purchase".to_owned();
    let sized = (path, page_size(&connection)?);
    Ok(Subject {
        tables: tables.into(),
        indexes: indexes.into(),
        ..subject::describe(config.database.as_deref(), generated, sized)?
    })
}

/// The matrix for the schedule: a restart is a block of all cells, and a cell is a group of tasks
/// that are compared with one another.
struct BackupGround<'a> {
    prepared: &'a Prepared<'a>,
    runner: WorkerProcess,
    /// Tasks that are compared with one another.
    groups: Vec<Vec<usize>>,
    /// Number of runs of the block so far.
    position: u32,
    /// Kinds of backup that have been checked.
    checked: Vec<Method>,
    figures: Figures,
}

impl BackupGround<'_> {
    /// Backs up and restores once. Measurements made before a failure are kept.
    fn task(&mut self, task: &Task, at: At) -> Result<()> {
        let prepared = self.prepared;
        let (read, written) = (prepared.place(task.source)?, prepared.place(task.target)?);
        let source = read.directory.path().join(DATABASE);
        let backup = written.directory.path().join(BACKUP);
        let check = !self.checked.contains(&task.method);
        check_space(written.directory.path(), prepared.subject.bytes)?;
        self.measure(task, Action::Backup, (&source, &backup), at)?;
        if let (true, Method::Tdekit { cipher, .. }) = (check, &task.method) {
            check_cipher(prepared.tools, &backup, &task.name(), cipher.as_deref())?;
        }
        if prepared.plan.restore {
            let directory = read.directory.path().join(RESTORED);
            let restored = directory.join(DATABASE);
            check_space(read.directory.path(), prepared.subject.bytes)?;
            private::make(&directory)?;
            self.measure(task, Action::Restore, (&backup, &restored), at)?;
            if check {
                check_restored(&source, &restored, &task.name())?;
            }
            remove(&directory)?;
        }
        if check {
            self.checked.push(task.method.clone());
        }
        remove(&backup)
    }

    fn measure(
        &mut self,
        task: &Task,
        action: Action,
        paths: (&Path, &Path),
        at: At,
    ) -> Result<()> {
        let ran = self.runner.run(&self.prepared.spec(task, action, paths)?)?;
        self.figures.keep(vec![at.run(&task.cell(action), &task.side, values(&ran))]);
        Ok(())
    }
}

impl Ground for BackupGround<'_> {
    /// Index in `groups`.
    type Cell = usize;
    type Found = Run;

    fn cells(&mut self, kind: Kind) -> Vec<usize> {
        self.figures.wanted(kind, 0..self.groups.len(), |at| {
            let tasks = self.groups.get(*at).into_iter().flatten();
            let tasks = tasks.filter_map(|task| self.prepared.tasks.get(*task));
            tasks.flat_map(|task| Action::ALL.map(|action| task.cell(action))).collect()
        })
    }

    fn name(&self, at: &usize) -> String {
        let first = self.groups.get(*at).and_then(|group| self.prepared.tasks.get(*group.first()?));
        first.map_or_else(String::new, Task::name)
    }

    fn sides(&self, at: &usize, _pair: u32) -> Vec<usize> {
        self.groups.get(*at).cloned().unwrap_or_default()
    }

    fn prepare(&mut self, _: u32, _: &[usize], _: &mut Rng, _: &mut Steering) -> Result<()> {
        self.position = 0;
        Ok(())
    }

    fn block(&mut self, _cell: &usize, at: At, _steering: &mut Steering) -> Result<Block<Run>> {
        if let Some(task) = self.prepared.tasks.get(at.side) {
            self.task(task, At { position: self.position, ..at })?;
            self.position += 1;
        }
        Ok(Block::Done(Vec::new()))
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.figures.keep(found);
    }
}

fn values(ran: &Ran) -> BTreeMap<Metric, f64> {
    let counts = [
        (Metric::Elapsed, Some(ran.elapsed_ns)),
        (Metric::PeakMemory, Some(ran.peak_memory_bytes)),
        (Metric::Size, Some(ran.output_bytes)),
    ];
    measured(counts.into_iter().chain(of_use(&ran.used)))
}

fn remove(path: &Path) -> Result<()> {
    let removed =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.map_err(BenchError::file("cannot remove", path))
}

/// Returns a reason to doubt the figures, if any.
fn doubts(prepared: &Prepared<'_>, report: &Report) -> Option<String> {
    let lasting = |cell: &str| {
        let task = prepared.tasks.iter().find(|task| task.cell(Action::Backup) == cell);
        let place = task.and_then(|task| prepared.places.get(task.source));
        place.is_some_and(|place| place.file_system != "tmpfs")
    };
    let mut reads = report
        .runs
        .iter()
        .filter(|run| lasting(&run.cell))
        .filter_map(|run| run.value(Metric::DeviceRead))
        .peekable();
    let cached = prepared.plan.cold && reads.peek().is_some() && reads.all(|bytes| bytes <= 0.0);
    cached.then(|| {
        "The file system kept its cache: the backups read nothing from a device.".to_owned()
    })
}
