//! A run from beginning to end: copies, sides, restarts, results.

mod block;
mod calibrate;
mod classes;
mod doubts;
mod prepare;
mod restart;
mod results;
mod script;
mod share;
pub(crate) mod sides;
mod steering;
mod warm;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_cost_report::{Probe, Results, Sample, WarmUp, note_first_pairs, summarize, too_wide};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::backup;
use crate::config::Config;
use crate::environment;
use crate::error::BenchError;
use crate::interrupt;
use crate::latency::Latencies;
use crate::messages;
use crate::noise::NoiseMeter;
use crate::oltp;
use crate::progress::Progress;
use crate::tools::Tools;
use block::{Block, Place};
use classes::{Task, Work};
use prepare::Prepared;
use restart::Restart;
use steering::Steering;
use warm::Settled;

pub(crate) use calibrate::{CalibrationPlan, calibrate};

/// Restarts that run whatever the time limit: an interval needs two.
const LEAST_RESTARTS: u32 = 2;
/// Restarts of a run whose length follows from its intervals, at most.
const MOST_RESTARTS: u32 = 5_000;

/// Runs what `config` says. A failure after the first measured block ends the run early: the
/// results then hold what was measured, and say why they are not complete.
pub(crate) fn run(config: &Config, tools: &Tools) -> Result<Results, BenchError> {
    interrupt::install();
    let start = Instant::now();
    let environment = environment::describe(&config.directory);
    let progress = Progress::new();
    let mut noise = NoiseMeter::start();
    let mut results = results::empty(config, environment, now());
    if config.experiments.backup && !tools.can_back_up() {
        return Err(BenchError::NoBackup { command: tools.tdekit.clone() });
    }
    if config.experiments.needs_sides() {
        run_sides(config, tools, (&progress, &mut noise), &mut results)?;
    }
    if config.experiments.backup && results.incomplete.is_empty() {
        run_backup(config, tools, &progress, &mut results)?;
    }
    if config.experiments.oltp && results.incomplete.is_empty() {
        run_oltp(config, tools, &progress, &mut results)?;
    }
    if config.experiments.messages && results.incomplete.is_empty() {
        run_messages(config, tools, &progress, &mut results)?;
    }
    progress.finish();
    results.noise = noise.finish();
    results.duration_s = start.elapsed().as_secs_f64();
    results.summary = summarize(&results);
    note_first_pairs(&mut results);
    let doubts = doubts::doubts(&results, config.block_time);
    results.warnings.extend(doubts);
    Ok(results)
}

/// The time, RFC 3339, in seconds.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}

/// Everything that compares sides.
fn run_sides(
    config: &Config,
    tools: &Tools,
    (progress, noise): (&Progress, &mut NoiseMeter),
    results: &mut Results,
) -> Result<(), BenchError> {
    let mut steering = Steering::start();
    "preparing".clone_into(&mut steering.place);
    let prepared = prepare::prepare(config, tools, progress)?;
    let mut measured = Measured::default();
    if let Err(error) = measure(config, &prepared, (progress, noise), &mut steering, &mut measured)
    {
        if measured.samples.is_empty() {
            return Err(error);
        }
        results.incomplete.push(error.to_string());
    }
    results.warnings.append(&mut steering.notes);
    results::add_sides(results, prepared, steering.brought(), measured);
    Ok(())
}

/// The backup matrix. Its failure keeps what the sides gave.
fn run_backup(
    config: &Config,
    tools: &Tools,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), BenchError> {
    let confidence = results.settings.confidence();
    let outcome = match backup::run(config, tools, confidence, progress) {
        Err(error) if !results.samples.is_empty() => {
            results.incomplete.push(error.to_string());
            return Ok(());
        }
        outcome => outcome?,
    };
    if results.sides.is_empty() {
        results.settings.page_size_bytes = outcome.subject.page_size_bytes;
        results.subject = outcome.subject;
    }
    results.backup = Some(outcome.matrix);
    results.warnings.extend(outcome.warnings);
    results.incomplete.extend(outcome.failure.map(|error| error.to_string()));
    Ok(())
}

/// The OLTP workloads. Their failure keeps what was measured before.
fn run_oltp(
    config: &Config,
    tools: &Tools,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), BenchError> {
    let outcome = match oltp::run(config, tools, results.settings.confidence(), progress) {
        Err(error) if !results.samples.is_empty() || results.backup.is_some() => {
            results.incomplete.push(error.to_string());
            return Ok(());
        }
        outcome => outcome?,
    };
    if results.subject.label.is_empty() {
        results.subject.label.clone_from(&outcome.report.engine);
        results.subject.bytes = outcome.report.data_bytes;
        results.subject.tables = outcome.report.tables.into();
    }
    results.oltp = Some(outcome.report);
    results.warnings.extend(outcome.warnings);
    results.incomplete.extend(outcome.failure.map(|error| error.to_string()));
    Ok(())
}

/// Messages over TDS. Their failure keeps what was measured before.
fn run_messages(
    config: &Config,
    tools: &Tools,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), BenchError> {
    let outcome = match messages::run(config, tools, results.settings.confidence(), progress) {
        Err(error)
            if !results.samples.is_empty()
                || results.backup.is_some()
                || results.oltp.is_some() =>
        {
            results.incomplete.push(error.to_string());
            return Ok(());
        }
        outcome => outcome?,
    };
    if results.subject.label.is_empty() {
        results.subject.label.clone_from(&outcome.report.server);
    }
    results.messages = Some(outcome.report);
    results.warnings.extend(outcome.warnings);
    results.incomplete.extend(outcome.failure.map(|error| error.to_string()));
    Ok(())
}

/// What was measured so far.
#[derive(Default)]
struct Measured {
    samples: Vec<Sample>,
    probes: Vec<Probe>,
    warm_up: Vec<WarmUp>,
    /// By class and side.
    latencies: BTreeMap<(String, String), Latencies>,
    warnings: Vec<String>,
    /// All intervals that were wanted are narrow enough.
    reached: bool,
}

impl Measured {
    fn add(&mut self, blocks: Vec<block::Measured>) {
        for block::Measured { sample, latencies } in blocks {
            if !latencies.is_empty() {
                let key = (sample.class.clone(), sample.side.clone());
                self.latencies.entry(key).or_insert_with(Latencies::new).add(&latencies);
            }
            self.samples.push(sample);
        }
    }
}

/// Runs restarts: those of the first stage with every class, and where the length follows from the
/// intervals, further ones with the classes that need them.
fn measure(
    config: &Config,
    prepared: &Prepared,
    (progress, noise): (&Progress, &mut NoiseMeter),
    steering: &mut Steering,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let start = Instant::now();
    let mut rng = Rng::with_seed(config.seed);
    let mut settled = Settled::default();
    progress
        .count(u64::from(config.restarts) * u64::from(config.pairs) * prepared.tasks.len() as u64);
    let mut pairs = config.pairs;
    let mut pace = Pace::default();
    let most = if config.stopping.is_some() { MOST_RESTARTS } else { config.restarts };
    for number in 0..most {
        let wanted = if number < config.restarts {
            prepared.tasks.clone()
        } else {
            let wanted = wanting(config, prepared, steering, measured);
            measured.reached = wanted.is_empty();
            if measured.reached {
                break;
            }
            wanted
        };
        let left = config.max_time.saturating_sub(start.elapsed());
        if number >= LEAST_RESTARTS && left < pace.expected(wanted.len()) {
            measured.warnings.push(time_is_up(config, number));
            break;
        }
        let tasks = steering.tasks(config, &wanted);
        let began = Instant::now();
        steering.place = format!("restart {}", number + 1);
        progress.say(format!("restart {}: copying", number + 1));
        noise.look();
        steering.begin_restart(prepared.sides.len());
        let mut restart = Restart::start(config, prepared, (number, &tasks), &mut rng)?;
        let warm_up = restart.warm_up(&tasks, &mut settled, &mut rng, steering)?;
        measured.warm_up.extend(warm_up);
        for pair in 0..config.pairs {
            if pair >= pairs {
                progress.step(tasks.len() as u64);
                continue;
            }
            let round_began = Instant::now();
            steering.place = format!("restart {}, pair {}", number + 1, pair + 1);
            let run = Run { config, prepared, progress };
            round(&run, &mut restart, (pair, &tasks), &mut rng, (steering, measured))?;
            if number == 0 && pair == 0 {
                pairs = affordable_pairs(config, left, began.elapsed(), round_began.elapsed());
                if pairs < config.pairs {
                    measured.warnings.push(format!(
                        "The time limit left {pairs} of {} pairs a restart.",
                        config.pairs
                    ));
                }
            }
        }
        if number < config.restarts {
            measured.probes.extend(restart.finish()?);
        }
        pace.note(began.elapsed(), wanted.len());
    }
    Ok(())
}

/// How long restarts take.
#[derive(Default)]
struct Pace {
    longest: Duration,
    tasks: usize,
}

impl Pace {
    /// What a restart of so many tasks will take, at most.
    fn expected(&self, tasks: usize) -> Duration {
        if tasks >= self.tasks {
            return self.longest;
        }
        let share = tasks as f64 / self.tasks.max(1) as f64;
        self.longest.mul_f64(share)
    }

    fn note(&mut self, took: Duration, tasks: usize) {
        if tasks == self.tasks {
            self.longest = self.longest.max(took);
        } else {
            (self.longest, self.tasks) = (took, tasks);
        }
    }
}

fn time_is_up(config: &Config, number: u32) -> String {
    if number < config.restarts {
        format!("The time limit ended the run after {number} of {} restarts.", config.restarts)
    } else {
        format!(
            "The time limit ended the run after {number} restarts, before all intervals were as \
             narrow as wanted: --max-time gives more, a quieter machine needs less."
        )
    }
}

/// Tasks whose intervals are not narrow enough yet.
fn wanting(
    config: &Config,
    prepared: &Prepared,
    steering: &Steering,
    measured: &Measured,
) -> Vec<Task> {
    let Some(stopping) = config.stopping else { return Vec::new() };
    let sides: Vec<_> = prepared.sides.iter().map(|side| side.side.clone()).collect();
    let classes = results::ordered_classes(prepared, steering.brought(), &measured.samples);
    let ids = too_wide((&sides, &classes, &measured.samples), &stopping, results::confidence());
    prepared
        .tasks
        .iter()
        .filter(|task| ids.iter().any(|id| results::task_gives(task, id)))
        .cloned()
        .collect()
}

/// Pairs a restart that let all restarts end in the time left, at least one. `first` is the time
/// of the first restart so far, `round` that of its first pair.
fn affordable_pairs(config: &Config, left: Duration, first: Duration, round: Duration) -> u32 {
    let restarts = f64::from(config.restarts.max(1));
    let fixed = first.saturating_sub(round).as_secs_f64();
    let each = round.as_secs_f64().max(1e-6);
    let most = (left.as_secs_f64() / restarts - fixed) / each;
    (1..=config.pairs).rev().find(|pairs| f64::from(*pairs) <= most).unwrap_or(1)
}

/// What all rounds share.
struct Run<'a> {
    config: &'a Config,
    prepared: &'a Prepared,
    progress: &'a Progress,
}

/// One block of every class on every side, both in random order. When an order changes the mixes,
/// those that are left give way to the one that was ordered.
fn round(
    run: &Run<'_>,
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
        run.progress.say(task.class.label.clone());
        let is_mix = matches!(task.work, Work::Crud { .. });
        // The slow cold classes run in every other pair.
        let runs =
            pair.is_multiple_of(2) || !matches!(task.work, Work::Operation { cold: true, .. });
        let mut order: Vec<usize> = (0..run.prepared.sides.len()).collect();
        order.retain(|side| runs && run.prepared.runs(&task, *side));
        let seed = rng.u64(..);
        rng.shuffle(&mut order);
        let mut blocks = Vec::new();
        let mut changed = false;
        for (position, side) in (0..).zip(order) {
            interrupt::check()?;
            changed |= steering.take_orders(run.config.experiments.crud);
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
            let mixes = steering.tasks(run.config, &run.prepared.tasks);
            queue.extend(mixes.into_iter().filter(|task| {
                matches!(task.work, Work::Crud { .. }) && !done.contains(&task.class.id)
            }));
        }
        run.progress.step(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_cut_to_the_time_left() {
        let mut config = crate::cli::tests::config();
        config.restarts = 5;
        config.pairs = 4;
        let seconds = Duration::from_secs;
        let cut = |left| affordable_pairs(&config, seconds(left), seconds(3), seconds(2));
        // A restart costs 1 s and each pair 2 s.
        assert_eq!(cut(1000), 4);
        assert_eq!(cut(5 * 9), 4);
        assert_eq!(cut(5 * 7), 3);
        assert_eq!(cut(1), 1);
    }

    #[test]
    fn fewer_tasks_take_less() {
        let mut pace = Pace::default();
        assert_eq!(pace.expected(9), Duration::ZERO);
        pace.note(Duration::from_secs(6), 12);
        pace.note(Duration::from_secs(4), 12);
        assert_eq!(pace.expected(12), Duration::from_secs(6));
        assert_eq!(pace.expected(3), Duration::from_millis(1500));
        pace.note(Duration::from_secs(2), 3);
        assert_eq!(pace.expected(3), Duration::from_secs(2));
    }
}
