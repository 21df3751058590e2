//! A run from beginning to end: copies, sides, restarts, results.

mod block;
mod calibrate;
mod classes;
mod doubts;
mod pace;
mod prepare;
mod restart;
mod results;
mod round;
mod script;
mod share;
pub(crate) mod sides;
mod steering;
mod toll;
mod warm;

use std::collections::BTreeMap;
use std::time::Instant;

use fastrand::Rng;
use tdekit_cost_report::{
    Probe, Results, Sample, WarmUp, headline_classes, note_first_pairs, summarize, too_wide,
};
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
use classes::Task;
use pace::{Kind, LEAST_RESTARTS, Pace, Plan, affordable_pairs, time_is_up};
use prepare::Prepared;
use restart::Restart;
use round::Rounds;
use steering::Steering;
use toll::Added;
use warm::Settled;

pub(crate) use calibrate::{CalibrationPlan, calibrate};

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
    /// What was added to sides that were made dearer.
    added: Added,
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

/// Runs restarts: those of the first stage, and where the length follows from the intervals,
/// further ones with the classes that need them.
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
    let heads = head_tasks(prepared);
    let mut plan = Plan::of(config, prepared.tasks.len(), heads.len());
    progress.count(plan.steps(config.pairs));
    let mut pairs = config.pairs;
    let mut pace = Pace::default();
    for number in 0..plan.most() {
        let kind = plan.kind(number);
        let wanted = match kind {
            Kind::All => prepared.tasks.clone(),
            Kind::Heads => heads.clone(),
            Kind::Wanting => wanting(config, prepared, steering, measured),
        };
        if kind == Kind::Wanting {
            measured.reached = wanted.is_empty();
            if measured.reached {
                break;
            }
        }
        let left = config.max_time.saturating_sub(start.elapsed());
        if number >= LEAST_RESTARTS && left < pace.expected(wanted.len()) {
            measured.warnings.push(time_is_up(&plan, number));
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
        let mut rounds = Rounds::new(config, prepared, progress);
        for pair in 0..config.pairs {
            if pair >= pairs {
                progress.step(tasks.len() as u64);
                continue;
            }
            let round_began = Instant::now();
            steering.place = format!("restart {}, pair {}", number + 1, pair + 1);
            rounds.run(&mut restart, (pair, &tasks), &mut rng, (steering, measured))?;
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
        measured.added.add(restart.added());
        if kind == Kind::All {
            measured.probes.extend(restart.finish()?);
        }
        pace.note(began.elapsed(), wanted.len());
        let left = config.max_time.saturating_sub(start.elapsed());
        if let Some(warning) = plan.fit(number, left, &pace) {
            measured.warnings.push(warning);
        }
    }
    Ok(())
}

/// The tasks that give the classes of the headline.
fn head_tasks(prepared: &Prepared) -> Vec<Task> {
    let classes = results::ordered_classes(prepared, &[], &[]);
    let (_, heads) = headline_classes(&classes);
    let gives = |task: &&Task| heads.iter().any(|head| results::task_gives(task, &head.id));
    prepared.tasks.iter().filter(gives).cloned().collect()
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
