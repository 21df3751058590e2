//! The crash suite: record a workload, crash at every point, recover, compare.

use std::collections::HashMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::disk::{Cut, Disk, Loss, State, WORD_BYTES};
use crate::error::{Error, Result};
use crate::form::by_form;
use crate::ledger::{self, Config, Journal, Synchronous};
use crate::record::{Log, Op, Recorder};
use crate::rng::Rng;

/// A recorded workload and its legal states.
pub struct Recording {
    /// The configuration.
    pub config: Config,
    /// Seed of the workload.
    pub seed: u64,
    /// The log.
    pub log: Log,
    /// Digests by transaction number, then by database; entry 0 is the empty database.
    pub legal: Vec<Vec<u64>>,
    directory: PathBuf,
    recorder: Arc<Recorder>,
}

/// Statistics of a run of the suite.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// Operations in the recorded logs.
    pub operations: u64,
    /// Crash states considered.
    pub crashes: u64,
    /// Distinct states that were opened and compared.
    pub opened: u64,
    /// Number of these that had a journal or a log to recover from.
    pub recovered: u64,
    /// Crashes within a recovery.
    pub second_crashes: u64,
    /// Broken promises, each with the data to reproduce it.
    pub failures: Vec<String>,
}

/// Thoroughness of a run.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Power cuts tried at each operation.
    pub power_seeds: u64,
    /// Random tears within each write.
    pub tears: u64,
    /// Interval of recoveries that are themselves crashed at every operation.
    pub second_crash_every: u64,
    /// Interval of recovered databases that are written to afterwards.
    pub write_after_every: u64,
}

impl Effort {
    /// About half a minute for the short matrix.
    pub const SHORT: Self =
        Self { power_seeds: 2, tears: 1, second_crash_every: 197, write_after_every: 23 };
    /// Minutes for the whole matrix.
    pub const FULL: Self =
        Self { power_seeds: 3, tears: 1, second_crash_every: 97, write_after_every: 11 };
    /// A whole night.
    pub const EXHAUSTIVE: Self =
        Self { power_seeds: 24, tears: 6, second_crash_every: 13, write_after_every: 3 };

    /// Returns the effort that the environment asks for.
    #[must_use]
    pub fn from_environment() -> Self {
        by_form(Self::SHORT, Self::FULL, Self::EXHAUSTIVE)
    }
}

/// The crash models that a configuration must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// The process is killed.
    Kill,
    /// The power fails.
    Power,
}

impl Recording {
    /// Runs the workload of `config` under `directory`, which must be empty.
    ///
    /// # Errors
    /// SQLite's own: without a fault, nothing may fail.
    pub fn make(config: Config, seed: u64, directory: &Path) -> Result<Self> {
        let recorder = Recorder::attach(directory);
        recorder.begin()?;
        let mut rng = Rng::new(seed);
        let mut db = config.open_for_work(directory)?;
        let mut legal = vec![ledger::digests(&db, &config)?];
        for n in 1..=config.transactions {
            if n % 5 == 4 {
                db.close()?;
                db = config.open_for_work(directory)?;
            }
            if n % 6 == 5 && config.journal == Journal::Wal {
                db.run("PRAGMA wal_checkpoint(RESTART)")?;
            }
            if rng.percent(15) && n > 1 {
                ledger::change(&db, &config, n, &mut rng.clone())?;
                db.run("ROLLBACK")?;
            }
            let commit = || {
                recorder.mark(Op::Begin(n));
                db.run("COMMIT")?;
                recorder.mark(Op::Acked(n));
                Ok(())
            };
            if n == 1 {
                ledger::create(&db, &config, commit)?;
            } else {
                ledger::change(&db, &config, n, &mut rng)?;
                commit()?;
            }
            legal.push(ledger::digests(&db, &config)?);
        }
        db.close()?;
        let log = recorder.take();
        Ok(Self { config, seed, log, legal, directory: directory.to_owned(), recorder })
    }

    /// Crashes the recording at every operation under `model`.
    ///
    /// # Errors
    /// Those of the harness; broken promises go into the report.
    pub fn crash_everywhere(
        &self,
        model: Model,
        effort: Effort,
        report: &mut Report,
    ) -> Result<()> {
        let mut run = Run { recording: self, effort, report, seen: HashMap::new(), opened: 0 };
        run.report.operations += self.log.ops.len() as u64;
        let mut disk = Disk::new(&self.log);
        let mut progress = Progress::default();
        for index in 0..=self.log.ops.len() {
            let next = self.log.ops.get(index);
            for cut in cuts(model, effort, index, next, self.config, self.seed) {
                run.crash(&disk, cut, index, &progress)?;
            }
            if let Some(op) = next {
                disk.apply(op);
                progress.apply(op, &self.log);
            }
        }
        Ok(())
    }
}

fn cuts(
    model: Model,
    effort: Effort,
    index: usize,
    next: Option<&Op>,
    config: Config,
    seed: u64,
) -> Vec<Cut> {
    let mut rng = Rng::new(seed ^ (index as u64) << 20);
    match model {
        Model::Kill => {
            let mut cuts = vec![Cut::Kill { torn_bytes: 0 }];
            if let Some(Op::Write { data, .. }) = next {
                for _ in 0..effort.tears {
                    let words = data.len().saturating_sub(1) / WORD_BYTES;
                    let torn = (1 + rng.below(words)) * WORD_BYTES;
                    cuts.push(Cut::Kill { torn_bytes: torn as u64 });
                }
            }
            cuts
        }
        // In NORMAL, a rollback journal's header and records share one sync: SQLite's manual says
        // that a power cut may then, rarely, corrupt the database. That requires a disk that
        // reorders writes.
        Model::Power => {
            let rollback = config.journal != Journal::Wal;
            let ordered = rollback && config.synchronous == Synchronous::Normal;
            let loss = if ordered { Loss::Tail } else { Loss::Sectors };
            let fixed = [0, 1];
            let random = (2..effort.power_seeds).map(|_| rng.word() | 2);
            let seeds = fixed.into_iter().chain(random);
            seeds.map(|seed| Cut::Power { seed, loss }).collect()
        }
    }
}

/// Progress of the workload at a point of the log.
#[derive(Debug, Default, Clone)]
struct Progress {
    begun: u32,
    acked: u32,
    /// For each database: transactions acknowledged before the last sync of its log or of itself.
    synced: [u32; 2],
}

impl Progress {
    fn apply(&mut self, op: &Op, log: &Log) {
        match op {
            Op::Begin(n) => self.begun = *n,
            Op::Acked(n) => self.acked = *n,
            Op::Sync { file, .. } => {
                let path = log.names.get(file).and_then(Option::as_ref);
                let name = path.and_then(|path| path.file_name());
                let name = name.unwrap_or_default().to_string_lossy().into_owned();
                for (synced, database) in self.synced.iter_mut().zip(["main.db", "side.db"]) {
                    if name.starts_with(database) {
                        *synced = self.acked;
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the transactions of which one must be the last in database `index` after recovery.
    fn legal(&self, cut: Cut, config: &Config, lost: bool, index: usize) -> RangeInclusive<u32> {
        let power = matches!(cut, Cut::Power { .. });
        let promised = match (config.synchronous, config.journal) {
            _ if !power => self.acked,
            (Synchronous::Off, _) => 0,
            (Synchronous::Normal, Journal::Wal) => self.synced[index],
            // The journal's truncation is not synced: it may come back once.
            (Synchronous::Normal, Journal::Truncate) => self.acked.saturating_sub(1),
            // Below EXTRA the directory is not synced after the journal's deletion.
            (Synchronous::Full | Synchronous::Normal, Journal::Delete) if lost => {
                self.acked.saturating_sub(1)
            }
            _ => self.acked,
        };
        promised..=self.begun
    }
}

/// Numbers of the last transaction in each database; `Err` describes the state's fault.
type Recovered = std::result::Result<Vec<u32>, String>;

struct Run<'a> {
    recording: &'a Recording,
    effort: Effort,
    report: &'a mut Report,
    seen: HashMap<u64, Recovered>,
    opened: u64,
}

impl Run<'_> {
    fn crash(&mut self, disk: &Disk, cut: Cut, index: usize, progress: &Progress) -> Result<()> {
        let next = self.recording.log.ops.get(index);
        let state = disk.crash(cut, next);
        self.report.crashes += 1;
        let key = fingerprint(&state);
        let recovered = match self.seen.get(&key) {
            Some(known) => known.clone(),
            None => {
                let recovered = self.recover(&state, index, cut)?;
                self.seen.insert(key, recovered.clone());
                recovered
            }
        };
        let lost = state.deletion_lost;
        if let Some(reason) = self.objection(&recovered, progress, cut, lost) {
            self.fail(index, cut, &reason, &state)?;
        }
        Ok(())
    }

    fn objection(
        &self,
        recovered: &Recovered,
        progress: &Progress,
        cut: Cut,
        lost: bool,
    ) -> Option<String> {
        let config = &self.recording.config;
        let numbers = match recovered {
            Err(reason) => return Some(reason.clone()),
            Ok(numbers) => numbers,
        };
        // SQLite uses a super-journal only in these two modes, and never with OFF; otherwise a
        // transaction over several databases is atomic only within each of them.
        let together = matches!(config.journal, Journal::Delete | Journal::Persist)
            && config.synchronous != Synchronous::Off;
        if together && numbers.iter().any(|n| Some(n) != numbers.first()) {
            return Some(format!("the databases are at different transactions: {numbers:?}"));
        }
        for (index, n) in numbers.iter().enumerate() {
            let legal = progress.legal(cut, config, lost, index);
            if !legal.contains(n) {
                return Some(format!(
                    "database {index} recovered to transaction {n}, legal is {legal:?}"
                ));
            }
        }
        None
    }

    /// Opens a crash state and determines its last transaction.
    fn recover(&mut self, state: &State, index: usize, cut: Cut) -> Result<Recovered> {
        self.opened += 1;
        self.report.opened += 1;
        let hot = state.files.keys().any(|path| {
            let name = path.to_string_lossy();
            name.ends_with("-journal") || name.ends_with("-wal")
        });
        self.report.recovered += u64::from(hot);
        let crash_again = hot && self.opened.is_multiple_of(self.effort.second_crash_every);
        let write_after = self.opened.is_multiple_of(self.effort.write_after_every);
        self.restore(state)?;
        if crash_again {
            self.recording.recorder.begin()?;
        }
        let recovered = self.inspect(write_after && !crash_again);
        if crash_again {
            let log = self.recording.recorder.take();
            self.crash_recovery(&log, &recovered, index, cut)?;
        }
        Ok(recovered)
    }

    fn inspect(&self, write_after: bool) -> Recovered {
        let recording = self.recording;
        let look = || -> Result<Vec<u32>> {
            let db = recording.config.open(&recording.directory)?;
            ledger::check_integrity(&db, &recording.config)?;
            let digests = ledger::digests(&db, &recording.config)?;
            let numbers = recording.numbers_of(&digests)?;
            if write_after {
                recording.write_after(&db, &numbers)?;
            }
            db.close()?;
            Ok(numbers)
        };
        look().map_err(|error| error.to_string())
    }

    /// Crashes a recovery at each of its operations; each time it must reach the same state.
    fn crash_recovery(
        &mut self,
        log: &Log,
        first: &Recovered,
        index: usize,
        cut: Cut,
    ) -> Result<()> {
        let mut disk = Disk::new(log);
        for (step, op) in log.ops.iter().enumerate() {
            let seed = (index as u64) << 16 | step as u64 | 2;
            let half = if let Op::Write { data, .. } = op {
                (data.len() / 2 / WORD_BYTES * WORD_BYTES) as u64
            } else {
                0
            };
            let power = Cut::Power { seed, loss: Loss::Sectors };
            for again in [Cut::Kill { torn_bytes: half }, power] {
                let state = disk.crash(again, Some(op));
                self.report.second_crashes += 1;
                self.restore(&state)?;
                let second = self.inspect(false);
                if &second != first {
                    let reason = format!(
                        "a crash in the recovery at its operation {step} ({again:?}) leads to \
                         {second:?}, the undisturbed recovery to {first:?}"
                    );
                    self.fail(index, cut, &reason, &state)?;
                }
            }
            disk.apply(op);
        }
        Ok(())
    }

    /// Makes the directory look like `state`. The directory is the same each time: a journal names
    /// its super-journal by its full path.
    fn restore(&self, state: &State) -> Result<()> {
        let directory = &self.recording.directory;
        restore(directory, state)?;
        self.recording.recorder.forget_names();
        Ok(())
    }

    fn fail(&mut self, index: usize, cut: Cut, reason: &str, state: &State) -> Result<()> {
        let recording = self.recording;
        let next = recording.log.ops.get(index).map(|op| describe(op, &recording.log));
        let mut text = format!(
            "[{}; seed {}] {cut:?} before operation {index} of {} ({}): {reason}; files:",
            recording.config,
            recording.seed,
            recording.log.ops.len(),
            next.unwrap_or_else(|| "end".into()),
        );
        for (path, content) in &state.files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            text.push_str(&format!(" {name} {} bytes,", content.len()));
        }
        if let Some(keep) = std::env::var_os("TDEKIT_FAULTS_KEEP") {
            let keep = PathBuf::from(keep).join(format!("failure-{}", self.report.failures.len()));
            fs::create_dir_all(&keep).map_err(Error::io(&keep))?;
            for (path, content) in &state.files {
                let copy = keep.join(path.file_name().unwrap_or_default());
                fs::write(&copy, content).map_err(Error::io(&copy))?;
            }
        }
        self.report.failures.push(text);
        Ok(())
    }
}

impl Recording {
    fn numbers_of(&self, digests: &[u64]) -> Result<Vec<u32>> {
        let number = |(index, digest): (usize, &u64)| {
            let found = self.legal.iter().rposition(|state| state.get(index) == Some(digest));
            found
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| Error::Broken(format!("database {index} is in no legal state")))
        };
        digests.iter().enumerate().map(number).collect()
    }

    /// Writes another transaction to a recovered database, which must still have it after a reopen.
    fn write_after(&self, db: &crate::ffi::db::Db, numbers: &[u32]) -> Result<()> {
        for (schema, n) in self.config.schemas().iter().zip(numbers) {
            if *n == 0 {
                continue;
            }
            db.run(&format!(
                "INSERT INTO {schema}.ledger VALUES(1000000, {n}, zeroblob(9000));
                 UPDATE {schema}.items SET tag = 'after';"
            ))?;
            let other = self.config.open(&self.directory)?;
            ledger::check_integrity(&other, &self.config)?;
            let seen =
                other.int(&format!("SELECT items FROM {schema}.ledger WHERE n = 1000000"))?;
            if seen != i64::from(*n) {
                return Err(Error::Broken("a write after the recovery was lost".into()));
            }
        }
        Ok(())
    }
}

/// Empties `directory` and writes the files of `state` into it.
///
/// # Errors
/// The file system's.
pub fn restore(directory: &Path, state: &State) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        let path = entry.map_err(Error::io(directory))?.path();
        fs::remove_file(&path).map_err(Error::io(&path))?;
    }
    for (path, content) in &state.files {
        fs::write(path, content).map_err(Error::io(path))?;
    }
    Ok(())
}

/// Distinguishes states.
#[must_use]
pub fn fingerprint(state: &State) -> u64 {
    let mut hasher = XxHash3_64::new();
    state.files.hash(&mut hasher);
    hasher.finish()
}

/// Describes an operation in words.
#[must_use]
pub fn describe(op: &Op, log: &Log) -> String {
    let name = |file: &u32| match log.names.get(file) {
        Some(Some(path)) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        _ => format!("temporary file {file}"),
    };
    match op {
        Op::Write { file, offset, data } => {
            format!("write {} bytes at {offset} of {}", data.len(), name(file))
        }
        Op::Truncate { file, size } => format!("truncate {} to {size}", name(file)),
        Op::Sync { file, directory } => format!("sync {} directory {directory}", name(file)),
        Op::Create { file, .. } => format!("create {}", name(file)),
        Op::Delete { file, directory, .. } => {
            format!("delete {} directory {directory}", name(file))
        }
        Op::Rename { from, to, .. } => format!("rename {} to {}", from.display(), to.display()),
        Op::MakeDirectory { path } => format!("make directory {}", path.display()),
        Op::SyncDirectory { path } => format!("sync directory {}", path.display()),
        Op::Begin(n) => format!("begin commit {n}"),
        Op::Acked(n) => format!("acknowledged {n}"),
    }
}
