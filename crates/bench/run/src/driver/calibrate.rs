//! Calibration: many short runs of three sides, base, base again, and a base slowed down by a known
//! cost. The true overheads are known, so the share of intervals that hold them can be counted.

use std::time::{Duration, Instant};

use tdekit_bench_report::{
    CALIBRATION_SCHEMA, CalibratedInterval, Calibration, Metric, Results, Role, Tool, Truth,
    summarize,
};

use super::ground::{self, SidesGround};
use super::prepare::{self, Prepared};
use super::results;
use super::toll::Added;
use super::{now, own_experiments};
use crate::environment;
use crate::error::{BenchError, Result};
use crate::experiment::RunExperiment;
use crate::interrupt;
use crate::noise::NoiseMeter;
use crate::plan::{Config, Experiments, OltpTarget};
use crate::progress::Progress;
use crate::results::{confidence, empty_results};
use crate::schedule::{self, Steering, Surroundings};
use crate::tools::Tools;

/// The known cost.
const TOLL_PER_MILLE: u64 = 30;
/// Share of a short run for its blocks; the rest is copying, starting and warming up.
const BLOCKS_SHARE: f64 = 0.6;
/// Pairs in each restart of a short run.
const SHORT_PAIRS: u32 = 2;
/// Rows in each table in short runs.
const SHORT_ROWS: u64 = 10_000;
/// Minimum duration of a block of a short run.
const SHORTEST_BLOCK: Duration = Duration::from_millis(20);

/// Plan of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CalibrationPlan {
    pub(crate) runs: u32,
    /// Duration of each run; none for the default of the bench.
    pub(crate) seconds: Option<u64>,
}

/// Runs the plan. `each` receives the figures after every run, so that they are never lost. A
/// failure after the first run ends the calibration early: it then holds the measurements so far,
/// and the reason why it is incomplete.
pub(crate) fn calibrate(
    config: &Config,
    plan: CalibrationPlan,
    tools: &Tools,
    each: &mut dyn FnMut(&Calibration) -> Result<()>,
) -> Result<Calibration> {
    interrupt::install();
    let start = Instant::now();
    let (own, sides) = (own_experiments(config), config.experiments.needs_sides());
    if own.len() > 1 || (sides && !own.is_empty()) {
        let reason = "it calibrates one experiment at a time: name it with --experiment";
        return Err(BenchError::option("--calibrate", reason));
    }
    if config.experiments.oltp && matches!(config.oltp.target, OltpTarget::Server(_)) {
        let reason = "a server that is there has no base again";
        return Err(BenchError::option("--calibrate", reason));
    }
    let config = design(config, plan);
    let progress = Progress::new();
    let mut calibration = Calibration {
        schema: CALIBRATION_SCHEMA.to_owned(),
        tool: Tool { name: "tdekit".to_owned(), version: config.version.clone() },
        started: now(),
        command: config.command.clone(),
        environment: environment::describe(&config.directory),
        design: words(&config, plan),
        runs_wanted: plan.runs,
        injected: TOLL_PER_MILLE as f64 / 1000.0,
        confidence: confidence(),
        ..Calibration::default()
    };
    let way = match own_experiments(&config).as_slice() {
        [(_, run), ..] => Way::Own(*run),
        [] => {
            let mut prepared = prepare::prepare(&config, tools, &progress)?;
            prepared.heads = results::heads(&prepared);
            calibration.environment.instructions.clone_from(&prepared.instructions);
            Way::Mixes(Box::new(prepared))
        }
    };
    let mut noise = NoiseMeter::start();
    let mut added = Added::default();
    for run in 0..plan.runs {
        let mut own = config.clone();
        own.given.basics.seed = own.given.basics.seed.wrapping_add(u64::from(run));
        let around = Surroundings {
            progress: &progress,
            noise: &mut noise,
            steering: &mut Steering::deaf(),
            warnings: &mut Vec::new(),
        };
        let done = match &way {
            Way::Mixes(prepared) => one(&own, prepared, around),
            Way::Own(run) => own_run(&own, tools, *run, around),
        };
        match done {
            Ok((found, paid)) => {
                add(&mut calibration, run, &found);
                added.add(paid);
                (calibration.added_elapsed, calibration.added_cpu) = added.shares();
            }
            Err(error) if calibration.intervals.is_empty() => return Err(error),
            Err(error) => {
                calibration.incomplete.push(error.to_string());
                break;
            }
        }
        calibration.duration_s = start.elapsed().as_secs_f64();
        calibration.summarize();
        each(&calibration)?;
    }
    progress.finish();
    calibration.noise = noise.finish();
    calibration.duration_s = start.elapsed().as_secs_f64();
    Ok(calibration)
}

/// The kind of a calibration's runs.
enum Way {
    /// The mixes on sides that are created once.
    Mixes(Box<Prepared>),
    /// An experiment with separate sides.
    Own(RunExperiment),
}

/// Runs an experiment with separate sides, base against base: none can be slowed down.
fn own_run(
    config: &Config,
    tools: &Tools,
    run: RunExperiment,
    around: Surroundings<'_>,
) -> Result<(Results, Added)> {
    let environment = environment::describe(&config.directory);
    let mut found = empty_results(config, environment, now());
    if let Some(error) = run(config, tools, around, &mut found)?.failure {
        return Err(error);
    }
    summarize(&mut found);
    Ok((found, Added::default()))
}

/// Returns the settings of each run.
fn design(config: &Config, plan: CalibrationPlan) -> Config {
    let own = !own_experiments(config).is_empty();
    let crud = Experiments { crud: true, ..Experiments::default() };
    let mut config = Config {
        experiments: if own { config.experiments } else { crud },
        database: None,
        toll_per_mille: (!own).then_some(TOLL_PER_MILLE),
        peers: Vec::new(),
        directories: Vec::new(),
        ..config.clone()
    };
    config.given.basics.aa = true;
    config.mixes.retain(|mix| !mix.load);
    if let Some(seconds) = plan.seconds {
        config.stopping = None;
        config.pairs = config.pairs.min(SHORT_PAIRS);
        config.rows = config.rows.min(SHORT_ROWS);
        let blocks = config.restarts * config.pairs * 3;
        let blocks = blocks * u32::try_from(config.mixes.len()).unwrap_or(1).max(1);
        let measured = Duration::from_secs(seconds).mul_f64(BLOCKS_SHARE);
        config.block_time = (measured / blocks.max(1)).max(SHORTEST_BLOCK);
        config.max_time = Duration::from_secs(seconds).mul_f64(1.5);
        let measured = Duration::from_secs(seconds);
        (config.oltp.max_time, config.messages.max_time) = (measured, measured);
    }
    config
}

fn words(config: &Config, plan: CalibrationPlan) -> String {
    let mixes: Vec<String> = config.mixes.iter().map(|mix| mix.id().replace('-', "/")).collect();
    let length = match plan.seconds {
        Some(seconds) => format!("some {seconds} s each"),
        None => "of the default length".to_owned(),
    };
    if let [(experiment, _), ..] = own_experiments(config).as_slice() {
        let what = experiment.label();
        return format!("{length}: {what}, base and base again; none is made dearer");
    }
    format!(
        "{length}: mixes {}, {} processes, {} rows, {} restarts{} of {} pairs, blocks of {} ms; \
         base, base again, and base dearer by {} %",
        mixes.join(" "),
        config.processes,
        config.rows,
        config.restarts,
        if config.stopping.is_some() { " or more" } else { "" },
        config.pairs,
        config.block_time.as_millis(),
        TOLL_PER_MILLE as f64 / 10.0
    )
}

/// Runs once, from blocks to intervals, and returns the actual cost of the slowed base.
fn one(config: &Config, prepared: &Prepared, around: Surroundings<'_>) -> Result<(Results, Added)> {
    let mut ground = SidesGround::new(config, prepared);
    if let Some(error) =
        schedule::run(&mut ground, &ground::length(config), config.given.basics.seed, around)
            .failure
    {
        return Err(error);
    }
    let (_, measured) = ground.finish();
    let environment = environment::describe(&config.directory);
    let mut found = empty_results(config, environment, now());
    found.embedded = Some(results::report(prepared, &[], measured.runs));
    summarize(&mut found);
    Ok((found, measured.added))
}

/// Adds the intervals of a run: of the second base, and of the slowed one.
fn add(calibration: &mut Calibration, run: u32, found: &Results) {
    let wanted = |metric| {
        use Metric::{Cpu, CpuEach, Elapsed, ServerCpu, Throughput};
        matches!(metric, Elapsed | Cpu | Throughput | CpuEach | ServerCpu)
    };
    for (_, report) in found.reports() {
        let summary = &report.summary;
        let has =
            |id: &str, role| report.sides.iter().any(|side| side.id == id && side.role == role);
        let heads = summary.pooled.iter().map(|one| {
            let found = (one.ratio, one.low.zip(one.high), one.restarts);
            (one.id.as_str(), one.metric, (&one.side, &one.against), found)
        });
        let cells = summary.comparisons.iter().map(|one| {
            let found = (one.ratio, one.low.zip(one.high), one.restarts);
            (one.class.as_str(), one.metric, (&one.side, &one.against), found)
        });
        for (class, metric, (side, against), (ratio, ends, restarts)) in heads.chain(cells) {
            let again = has(side, Role::Encrypted) && has(against, Role::Base);
            let Some((low, high)) = ends.filter(|_| again && wanted(metric)) else { continue };
            let injected = side == "injected";
            calibration.intervals.push(CalibratedInterval {
                run,
                class: class.to_owned(),
                metric,
                truth: if injected { Truth::Injected } else { Truth::Nothing },
                ratio,
                low,
                high,
                restarts,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_the_usual_one_made_small() {
        let usual = crate::cli::tests::config();
        let plan = CalibrationPlan { runs: 100, seconds: Some(20) };
        let short = design(&usual, plan);
        assert!(short.given.basics.aa && short.experiments.crud && !short.experiments.operations);
        assert_eq!((short.restarts, short.pairs, short.rows), (8, 2, 10_000));
        assert!(short.stopping.is_none() && short.mixes.iter().all(|mix| !mix.load));
        let mut own = usual.clone();
        own.experiments = Experiments { oltp: true, ..Experiments::default() };
        let own = design(&own, plan);
        assert!(own.given.basics.aa && own.experiments.oltp && !own.experiments.crud);
        assert_eq!((own.toll_per_mille, own.oltp.max_time), (None, Duration::from_secs(20)));
        assert!(words(&own, plan).contains("OLTP workloads"));
        let blocks = 8 * 2 * 3 * u32::try_from(short.mixes.len()).unwrap();
        assert!(short.block_time * blocks <= Duration::from_secs(12));
        let long = design(&usual, CalibrationPlan { runs: 10, seconds: None });
        assert_eq!((long.rows, long.pairs, long.stopping), (usual.rows, 3, usual.stopping));
        assert!(words(&long, CalibrationPlan { runs: 10, seconds: None }).contains("default"));
    }
}
