//! Trials in random order: a fresh copy, a follower, writers, commits one by one, a restore.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_bench_report::{
    Class, Experiment, Metric, Report, Results, Role, Run, Side, Subject, measured,
};
use tdekit_system_use::Moment;

use super::followers::{Follower, LOOK};
use super::writers::{commit, content, nanoseconds, open, write};
use crate::error::{BenchError, Result};
use crate::experiment::{Figures, class};
use crate::generate::generate;
use crate::interrupt;
use crate::key_store;
use crate::plan::Config;
use crate::private;
use crate::schedule::{self, Block, Ended, Ground, Kind, Place, Steering, Surroundings};
use crate::subject::{self, copy_database, write_out};
use crate::tools::Tools;
use tdekit_bench_work::Latencies;

/// Bytes of a row of each generated table with its indexes, together.
const ROW_BYTES: u64 = 340;
const WRITERS: u32 = 2;
/// Transactions of each writer, and commits that are watched one by one: with `--quick`, and by
/// default.
const TRANSACTIONS: (u32, u32) = (2_000, 20_000);
const PROBES: (u32, u32) = (5, 20);
/// Restarts with `--quick`, and by default.
const RESTARTS: (u32, u32) = (3, 8);
/// Pause before a commit that is watched, and a random part: followers look each second.
const PAUSE_MS: (u64, u64) = (1_100, 1_000);
/// An archive that has no new object so long has everything.
const QUIET: Duration = Duration::from_millis(2_500);
/// Longest wait for an object.
const LONGEST: Duration = Duration::from_secs(60);

const WRITE: &str = "replicate/write";
const SAFE: &str = "replicate/safe";
const RESTORE: &str = "replicate/restore";
const CHECKED: &str = "replicate/checked";

/// Runs the experiment: a [`crate::experiment::RunExperiment`].
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    mut around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let directory = private::run_directory(&config.directory)?;
    let keys = key_store::make(&tools.tdekit, directory.path())?;
    let mut sides = vec![(Side::new("none", "no follower", Role::Base), Follower::Nobody)];
    let mut ours = Side::new("tdekit", "tdekit", Role::Encrypted).with_cipher(Some("AES_256"));
    ours.facts.insert("version".to_owned(), config.version.as_str().into());
    sides.push((ours, Follower::ours(tools, &keys)));
    around.progress.say("building Litestream");
    let mut limits = vec![
        "Writers, followers and archive share the machine: its processors, and the file system of \
         --dir. Archives are directories; no network is between."
            .to_owned(),
        "Litestream's archive is not encrypted.".to_owned(),
    ];
    match Follower::litestream() {
        Ok((follower, version)) => {
            let mut side = Side::new("litestream", "Litestream", Role::Reference);
            side.facts.insert("version".to_owned(), version.into());
            sides.push((side, follower));
        }
        Err(reason) => limits.push(format!("Without Litestream: {reason}")),
    }
    around.progress.say("making the database");
    let source = directory.path().join("source.db");
    let subject = make(config, &source)?;
    let basics = &config.given.basics;
    let plan =
        Plan { transactions: basics.by_quick(TRANSACTIONS), probes: basics.by_quick(PROBES) };
    let (sides, followers): (Vec<_>, Vec<_>) = sides.into_iter().unzip();
    let mut report = Report::new(Experiment::Replicate, sides);
    report.cells = plan.cells();
    report.limits = limits;
    let restarts = basics.restarts.unwrap_or(basics.by_quick(RESTARTS));
    report.set("label", subject.label.as_str());
    report.set("source_bytes", subject.bytes);
    report.set("restarts", restarts);
    let mut ground = Trials {
        plan,
        source,
        directory: directory.path().to_owned(),
        followers,
        names: report.sides.iter().map(|side| side.id.clone()).collect(),
        figures: Figures::new(report, config, &results.settings),
    };
    let length = ground.figures.length("followers", (restarts, 1), config.max_time);
    let ended = schedule::run(&mut ground, &length, basics.seed, around.inner());
    let ended = ground.figures.finish(ended, &mut results.replicate)?;
    if results.embedded.is_none() && results.subject.label.is_empty() {
        results.settings.page_size_bytes = subject.page_size_bytes;
        results.subject = subject;
    }
    Ok(ended)
}

fn make(config: &Config, path: &Path) -> Result<Subject> {
    match &config.database {
        Some(source) => drop(copy_database(source, path, config.given.page_size)?),
        None => {
            let rows = (config.backup.size_bytes / ROW_BYTES).max(1);
            let seed = config.given.basics.seed;
            generate(path, rows, config.page_size_bytes(), (&[], None), seed)
                .map_err(BenchError::sqlite("cannot generate a database"))?;
        }
    }
    write_out(path)?;
    let generated = "generated Vendor/Card/Purchase".to_owned();
    let page_size = config.page_size_bytes();
    subject::describe(config.database.as_deref(), generated, (path, page_size))
}

/// How much is done in a trial.
struct Plan {
    transactions: u32,
    probes: u32,
}

impl Plan {
    fn cells(&self) -> Vec<Class> {
        let all = u64::from(self.transactions) * u64::from(WRITERS);
        let cell =
            |id, label, what: String, sized| class(Experiment::Replicate, (id, label), what, sized);
        vec![
            cell(
                WRITE,
                "writers",
                format!("{WRITERS} writers, {} transactions each", self.transactions),
                (all, "transaction"),
            ),
            cell(
                SAFE,
                "commit to archive",
                format!("{} commits, each until its object is in the archive", self.probes),
                (self.probes.into(), "commit"),
            ),
            cell(RESTORE, "restore", "the last state, to a new file".to_owned(), (1, "restore")),
            cell(
                CHECKED,
                "restore, checked",
                "the same, and SQLite's integrity_check of it".to_owned(),
                (1, "restore"),
            ),
        ]
    }
}

/// The trials for the schedule: a restart is one of each side.
struct Trials {
    plan: Plan,
    source: PathBuf,
    directory: PathBuf,
    /// One for each of the report's sides.
    followers: Vec<Follower>,
    names: Vec<String>,
    figures: Figures,
}

impl Trials {
    fn trial(&mut self, place: Place) -> Result<()> {
        let Some(follower) = self.followers.get(place.side).cloned() else { return Ok(()) };
        let side = self.names.get(place.side).cloned().unwrap_or_default();
        let trial = private::directory(&self.directory, "trial-")?;
        let (database, archive) = (trial.path().join("app.db"), trial.path().join("archive"));
        std::fs::copy(&self.source, &database)
            .map_err(BenchError::file("cannot copy to", &database))?;
        drop(open(&database)?);
        write_out(&database)?;
        let mut running = follower.start(&database, &archive)?;
        let at_first = settled(&follower, &archive)?;
        let before = running.as_ref().map(|one| Moment::of(one.pid()));
        let per_writer = (WRITERS, self.plan.transactions);
        let written = write(&database, per_writer, place.seed)?;
        let after = settled(&follower, &archive)?;
        let used = running
            .as_ref()
            .zip(before)
            .and_then(|(one, before)| Moment::of(one.pid()).since(&before));
        let new = after.iter().filter(|(path, _)| !at_first.contains_key(*path));
        let shipped: u64 = new.map(|(_, bytes)| bytes).sum();
        let latency = written.latency.as_ref();
        let values = measured([
            (Metric::Elapsed, Some(written.elapsed_ns)),
            (Metric::Transactions, Some(u64::from(WRITERS) * u64::from(per_writer.1))),
            (Metric::MedianLatency, latency.map(|it| it.p50_ns)),
            (Metric::TailLatency, latency.map(|it| it.p99_ns)),
            (Metric::MaxLatency, latency.map(|it| it.max_ns)),
            (Metric::Cpu, used.map(|it| it.cpu_ns)),
            (Metric::Size, follower.ships().then_some(shipped)),
        ]);
        let mut found = vec![place.run(WRITE, &side, values)];
        if let Some(running) = &mut running {
            found.push(place.run(
                SAFE,
                &side,
                self.watch(&follower, (&database, &archive), place)?,
            ));
            settled(&follower, &archive)?;
            running.stop();
            for (cell, checked) in [(RESTORE, false), (CHECKED, true)] {
                let restored = trial.path().join("restored.db");
                let begun = Instant::now();
                follower.restore(&archive, &restored, checked)?;
                let took = nanoseconds(begun.elapsed());
                found.push(place.run(cell, &side, measured([(Metric::Elapsed, Some(took))])));
                // A follower that lost something is not quicker.
                if content(&restored)? != content(&database)? {
                    let reason = format!("what {side} restored is not what was committed");
                    return Err(BenchError::option("--experiment replicate", reason));
                }
                std::fs::remove_file(&restored)
                    .map_err(BenchError::file("cannot remove", &restored))?;
            }
        }
        self.figures.keep(found);
        Ok(())
    }

    /// Commits one by one, and takes the time until each is in the archive.
    fn watch(
        &self,
        follower: &Follower,
        (database, archive): (&Path, &Path),
        place: Place,
    ) -> Result<std::collections::BTreeMap<Metric, f64>> {
        let connection = open(database)?;
        let mut rng = Rng::with_seed(place.seed);
        let mut latencies = Latencies::new();
        for _ in 0..self.plan.probes {
            sleep(Duration::from_millis(PAUSE_MS.0 + rng.u64(..PAUSE_MS.1)));
            let known = follower.objects(archive)?;
            commit(&connection, &mut rng)?;
            let begun = Instant::now();
            loop {
                interrupt::check()?;
                let now = follower.objects(archive)?;
                let is_new = |path: &PathBuf| !known.contains_key(path) && follower.is_new(path);
                if now.keys().any(is_new) {
                    break;
                }
                if begun.elapsed() > LONGEST {
                    return Err(late());
                }
                sleep(LOOK);
            }
            latencies.record(nanoseconds(begun.elapsed()));
        }
        let found = latencies.percentiles();
        let found = found.as_ref();
        Ok(measured([
            (Metric::Elapsed, found.map(|it| it.avg_ns)),
            (Metric::MedianLatency, found.map(|it| it.p50_ns)),
            (Metric::TailLatency, found.map(|it| it.p99_ns)),
            (Metric::MaxLatency, found.map(|it| it.max_ns)),
        ]))
    }
}

fn late() -> BenchError {
    BenchError::option("--experiment replicate", "a commit was not in the archive in a minute")
}

/// Waits until an archive has no new object for a while, and returns what is there.
fn settled(
    follower: &Follower,
    archive: &Path,
) -> Result<std::collections::BTreeMap<PathBuf, u64>> {
    let mut found = follower.objects(archive)?;
    if !follower.ships() {
        return Ok(found);
    }
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        interrupt::check()?;
        sleep(QUIET / 50);
        let now = follower.objects(archive)?;
        if now.keys().any(|path| !found.contains_key(path)) {
            since = Instant::now();
        }
        // An object that was removed meanwhile was shipped all the same.
        found.extend(now);
    }
    Ok(found)
}

impl Ground for Trials {
    type Cell = ();
    type Found = Run;

    fn cells(&mut self, _: Kind) -> Vec<()> {
        vec![()]
    }

    fn name(&self, (): &()) -> String {
        "followers".to_owned()
    }

    fn sides(&self, (): &(), _pair: u32) -> Vec<usize> {
        (0..self.followers.len()).collect()
    }

    fn prepare(&mut self, _: u32, _: &[()], _: &mut Rng, _: &mut Steering) -> Result<()> {
        Ok(())
    }

    fn block(&mut self, (): &(), place: Place, _: &mut Steering) -> Result<Block<Run>> {
        self.trial(place)?;
        Ok(Block::Done(Vec::new()))
    }

    fn keep(&mut self, found: Vec<Run>) {
        self.figures.keep(found);
    }
}
