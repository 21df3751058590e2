//! Trials in random order: a fresh copy, a follower, writers, commits one by one, a restore.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_bench_report::{
    Experiment, Metric, Report, Results, Role, Run, Side, Subject, measured,
};
use tdekit_system_use::Moment;

use super::archives::{Archive, Archives};
use super::cells::{CHECKED, PACED, Plan, RESTORE, SAFE};
use super::followers::{Follower, LOOK, Running};
use super::writers::{Load, commit, content, nanoseconds, open, write};
use crate::environment::check_space;
use crate::error::{BenchError, Result};
use crate::experiment::Figures;
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
/// Copies of the database in a trial at most: the source, the one that is written to, the archive,
/// what Litestream keeps beside it, what is restored, and one more for what is being made.
const COPIES: u64 = 6;
/// Bytes of a transaction in logs and archives together.
const TRANSACTION_BYTES: u64 = 16 << 10;
/// Restarts with `--quick`, and by default.
const RESTARTS: (u32, u32) = (3, 8);
/// Pause before a commit that is watched, and a random part: followers look each second.
const PAUSE_MS: (u64, u64) = (1_100, 1_000);
/// Longest wait for an object.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs the experiment: a [`crate::experiment::RunExperiment`].
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    mut around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let archives = Archives::open(config.replicate.archive.as_ref())?;
    let plan = Plan::of(config);
    let directory = private::run_directory(&config.directory)?;
    let keys = key_store::make(&tools.tdekit, directory.path())?;
    let mut sides = vec![(Side::new("none", "no follower", Role::Base), Follower::Nobody)];
    let mut ours = Side::new("tdekit", "tdekit", Role::Encrypted).with_cipher(Some("AES_256"));
    ours.facts.insert("version".to_owned(), config.version.as_str().into());
    sides.push((ours, Follower::ours(tools, &keys)));
    around.progress.say("building Litestream");
    let mut limits = vec![archives.limit(), "Litestream's archive is not encrypted.".to_owned()];
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
    let subject = make(config, &plan, &source)?;
    let basics = &config.given.basics;
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
        archives,
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

fn make(config: &Config, plan: &Plan, path: &Path) -> Result<Subject> {
    let bytes = match &config.database {
        Some(source) => {
            std::fs::metadata(source).map_err(BenchError::file("cannot read", source))?.len()
        }
        None => config.backup.size_bytes,
    };
    let needed = bytes.saturating_mul(COPIES) + plan.transactions() * TRANSACTION_BYTES;
    check_space(path.parent().unwrap_or(path), needed)?;
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

/// The trials for the schedule: a restart is one of each side.
struct Trials {
    plan: Plan,
    source: PathBuf,
    directory: PathBuf,
    archives: Archives,
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
        let archive = self.archives.of(trial.path())?;
        let database = trial.path().join("app.db");
        std::fs::copy(&self.source, &database)
            .map_err(BenchError::file("cannot copy to", &database))?;
        drop(open(&database)?);
        write_out(&database)?;
        let mut running = follower.start(&database, &archive)?;
        let mut found = Vec::new();
        for (cell, load) in self.plan.loads() {
            let values =
                written(running.as_ref(), (&database, &archive), (cell, load), place.seed)?;
            found.push(place.run(cell, &side, values));
        }
        if let Some(running) = &mut running {
            let values = self.watch((&database, &archive), place)?;
            found.push(place.run(SAFE, &side, values));
            running.settle(&archive)?;
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
        (database, archive): (&Path, &Archive),
        place: Place,
    ) -> Result<BTreeMap<Metric, f64>> {
        let connection = open(database)?;
        let mut rng = Rng::with_seed(place.seed);
        let mut latencies = Latencies::new();
        for _ in 0..self.plan.probes {
            sleep(Duration::from_millis(PAUSE_MS.0 + rng.u64(..PAUSE_MS.1)));
            let known = archive.objects()?;
            commit(&connection, &mut rng)?;
            let begun = Instant::now();
            while !archive.has_new(&known)? {
                interrupt::check()?;
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

/// Has writers write, and waits until everything is shipped.
fn written(
    running: Option<&Running>,
    (database, archive): (&Path, &Archive),
    (cell, load): (&str, Load),
    seed: u64,
) -> Result<BTreeMap<Metric, f64>> {
    let settled = || running.map(|one| one.settle(archive)).transpose();
    let at_first = settled()?;
    let before = running.map(|one| Moment::of(one.pid()));
    let written = write(database, load, seed)?;
    let after = settled()?;
    let used = running.zip(before).and_then(|(one, before)| Moment::of(one.pid()).since(&before));
    let shipped = at_first.zip(after).map(|(at_first, after)| {
        let new = after.iter().filter(|(name, _)| !at_first.contains_key(*name));
        new.map(|(_, bytes)| bytes).sum::<u64>()
    });
    let all = u64::from(load.writers) * u64::from(load.transactions);
    let paced = cell == PACED;
    let latency = written.latency.as_ref();
    Ok(measured([
        (Metric::Elapsed, Some(if paced { written.busy_ns } else { written.elapsed_ns })),
        (Metric::Transactions, (!paced).then_some(all)),
        (Metric::MedianLatency, latency.map(|it| it.p50_ns)),
        (Metric::TailLatency, latency.map(|it| it.p99_ns)),
        (Metric::MaxLatency, latency.map(|it| it.max_ns)),
        (Metric::Cpu, used.map(|it| it.cpu_ns)),
        (Metric::Size, shipped),
    ]))
}

fn late() -> BenchError {
    BenchError::option("--experiment replicate", "a commit was not in the archive in a minute")
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
