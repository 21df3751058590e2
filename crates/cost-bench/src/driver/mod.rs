//! A run from beginning to end: copies, sides, restarts, results.

mod classes;
mod prepare;
mod restart;
pub(crate) mod sides;

use std::time::Instant;

use fastrand::Rng;
use tdekit_cost_report::{
    Class, Environment, Probe, ProbeKind, Results, SCHEMA, Sample, Settings, Subject, Summary,
    Tool, summarize,
};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::backup;
use crate::config::Config;
use crate::environment;
use crate::error::BenchError;
use crate::interrupt;
use crate::oltp;
use crate::progress::Progress;
use crate::sqlite::BUSY_WAIT;
use crate::tools::Tools;
use classes::{Task, Work};
use prepare::Prepared;
use restart::Restart;

/// Confidence of every interval, in thousandths.
const CONFIDENCE_PERMILLE: u32 = 950;
/// Restarts that run whatever the time limit: an interval needs two.
const LEAST_RESTARTS: u32 = 2;
/// Load (one minute) over processors from which a reader is warned.
const BUSY_LOAD: f64 = 0.5;

/// Runs what `config` says. A failure after the first measured block ends the run early: the
/// results then hold what was measured, and say why they are not complete.
pub(crate) fn run(config: &Config, tools: &Tools) -> Result<Results, BenchError> {
    interrupt::install();
    let start = Instant::now();
    let now = OffsetDateTime::now_utc();
    let started = now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default();
    let environment = environment::describe(&config.directory);
    let progress = Progress::new();
    let mut results = empty(config, environment, started);
    if config.experiments.backup && !tools.can_back_up() {
        return Err(BenchError::NoBackup { command: tools.tdekit.clone() });
    }
    if config.experiments.needs_sides() {
        run_sides(config, tools, &progress, &mut results)?;
    }
    if config.experiments.backup && results.incomplete.is_empty() {
        run_backup(config, tools, &progress, &mut results)?;
    }
    if config.experiments.oltp && results.incomplete.is_empty() {
        run_oltp(config, tools, &progress, &mut results)?;
    }
    progress.finish();
    results.warnings.extend(doubts(&results.environment, &results.samples));
    results.duration_s = start.elapsed().as_secs_f64();
    results.summary = summarize(&results);
    Ok(results)
}

/// Everything that compares sides.
fn run_sides(
    config: &Config,
    tools: &Tools,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), BenchError> {
    let prepared = prepare::prepare(config, tools, progress)?;
    let mut measured = Measured::default();
    if let Err(error) = measure(config, &prepared, progress, &mut measured) {
        if measured.samples.is_empty() {
            return Err(error);
        }
        results.incomplete.push(error.to_string());
    }
    add_sides(results, prepared, measured);
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

/// What was measured so far.
#[derive(Default)]
struct Measured {
    samples: Vec<Sample>,
    probes: Vec<Probe>,
    warnings: Vec<String>,
}

fn measure(
    config: &Config,
    prepared: &Prepared,
    progress: &Progress,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let start = Instant::now();
    let mut rng = Rng::with_seed(config.seed);
    let rounds = prepared.tasks.len() as u64;
    progress.count(u64::from(config.restarts) * u64::from(config.pairs) * rounds);
    let mut pairs = config.pairs;
    let mut longest = std::time::Duration::ZERO;
    for number in 0..config.restarts {
        let left = config.max_time.saturating_sub(start.elapsed());
        if number >= LEAST_RESTARTS && left < longest {
            measured.warnings.push(format!(
                "The time limit ended the run after {number} of {} restarts.",
                config.restarts
            ));
            break;
        }
        let began = Instant::now();
        progress.say(format!("restart {}: copying", number + 1));
        let mut restart = Restart::start(config, prepared, number, &mut rng)?;
        restart.warm_up(&mut rng)?;
        for pair in 0..config.pairs {
            if pair >= pairs {
                progress.step(rounds);
                continue;
            }
            let round_began = Instant::now();
            round(&mut restart, prepared, progress, pair, &mut rng, measured)?;
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
        measured.probes.extend(restart.finish()?);
        longest = longest.max(began.elapsed());
    }
    Ok(())
}

/// Pairs a restart that let all restarts end in the time left, at least one. `first` is the time
/// of the first restart so far, `round` that of its first pair.
fn affordable_pairs(
    config: &Config,
    left: std::time::Duration,
    first: std::time::Duration,
    round: std::time::Duration,
) -> u32 {
    let restarts = f64::from(config.restarts.max(1));
    let fixed = first.saturating_sub(round).as_secs_f64();
    let each = round.as_secs_f64().max(1e-6);
    let most = (left.as_secs_f64() / restarts - fixed) / each;
    (1..=config.pairs).rev().find(|pairs| f64::from(*pairs) <= most).unwrap_or(1)
}

/// One block of every class on every side, both in random order.
fn round(
    restart: &mut Restart<'_>,
    prepared: &Prepared,
    progress: &Progress,
    pair: u32,
    rng: &mut Rng,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let mut tasks: Vec<&Task> = prepared.tasks.iter().collect();
    rng.shuffle(&mut tasks);
    for task in tasks {
        progress.say(task.class.label.clone());
        // The slow cold classes run in every other pair.
        if pair.is_multiple_of(2) || !matches!(task.work, Work::Operation { cold: true, .. }) {
            let seed = rng.u64(..);
            let mut order: Vec<usize> = (0..prepared.sides.len()).collect();
            order.retain(|side| prepared.runs(task, *side));
            rng.shuffle(&mut order);
            for (position, side) in (0..).zip(order) {
                interrupt::check()?;
                measured.samples.extend(restart.block(task, side, pair, position, seed)?);
            }
        }
        progress.step(1);
    }
    Ok(())
}

/// Results without anything measured.
fn empty(config: &Config, environment: Environment, started: String) -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "tdekit".to_owned(), version: config.version.clone() },
        started,
        duration_s: 0.0,
        incomplete: Vec::new(),
        warnings: Vec::new(),
        control: config.control,
        command: config.command.clone(),
        environment,
        settings: Settings {
            journal_mode: config.journal_mode.clone(),
            synchronous: config.synchronous.clone(),
            cache_size: config.cache_size,
            page_size_bytes: 0,
            processes: config.processes,
            rows: None,
            restarts: config.restarts,
            pairs: config.pairs,
            busy_wait_us: u64::try_from(BUSY_WAIT.as_micros()).unwrap_or(u64::MAX),
            algorithm: if config.control { "none".to_owned() } else { config.algorithm.clone() },
            confidence_permille: CONFIDENCE_PERMILLE,
            seed: config.seed,
            stopping: None,
            rate_per_s: None,
            think_time: None,
            drop_caches: false,
        },
        subject: Subject {
            label: String::new(),
            generated: config.database.is_none(),
            bytes: 0,
            page_size_bytes: 0,
            tables: 0,
            indexes: 0,
            notes: Vec::new(),
        },
        sides: Vec::new(),
        statements: Vec::new(),
        classes: Vec::new(),
        samples: Vec::new(),
        probes: Vec::new(),
        summary: Summary::default(),
        backup: None,
        oltp: None,
        latencies: Vec::new(),
        noise: None,
        warm_up: Vec::new(),
        driver: Vec::new(),
    }
}

fn add_sides(results: &mut Results, prepared: Prepared, measured: Measured) {
    results.warnings.extend(measured.warnings);
    results.probes = measured.probes;
    for (side, bytes) in &prepared.file_bytes {
        results.probes.push(Probe {
            kind: ProbeKind::FileBytes,
            side: side.clone(),
            restart: 0,
            value: *bytes,
        });
    }
    results.classes = ordered_classes(&prepared, &measured.samples);
    results.samples = measured.samples;
    results.settings.page_size_bytes = prepared.page_size_bytes;
    results.settings.rows = prepared.generated_rows;
    results.subject = Subject {
        label: prepared.label,
        bytes: prepared.bytes,
        page_size_bytes: prepared.page_size_bytes,
        tables: prepared.tables,
        indexes: prepared.indexes,
        notes: prepared.notes,
        ..results.subject.clone()
    };
    results.sides = prepared.sides.into_iter().map(|side| side.side).collect();
    results.statements = prepared.statements;
}

/// Classes in the order of the report; a checkpoint's only when it was measured.
fn ordered_classes(prepared: &Prepared, samples: &[Sample]) -> Vec<Class> {
    let mut classes = Vec::new();
    for task in &prepared.tasks {
        classes.push(task.class.clone());
        if let Work::Operation { operation: crate::job::Operation::Reindex, cold } = task.work {
            let checkpoint = classes::checkpoint(&prepared.tasks, cold);
            classes.extend(
                checkpoint.filter(|class| samples.iter().any(|sample| sample.class == class.id)),
            );
        }
    }
    classes
}

/// What makes figures doubtful.
fn doubts(environment: &Environment, samples: &[Sample]) -> Vec<String> {
    let mut doubts = Vec::new();
    let load = environment.load_average.parse().unwrap_or(0.0);
    let processors = environment::processors();
    if load > BUSY_LOAD * f64::from(u32::try_from(processors).unwrap_or(u32::MAX)) {
        doubts.push(format!(
            "The machine was busy at the start: load average {load} on {processors} processors."
        ));
    }
    let mut cold = samples.iter().filter(|sample| sample.class.ends_with("select/cold")).peekable();
    if cold.peek().is_some() && cold.all(|sample| sample.device_read_bytes == 0) {
        doubts.push(
            "The file system kept its cache: the cold classes read nothing from a device."
                .to_owned(),
        );
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
}
