//! Calibration: many short runs of three sides, base, base again, and base made dearer by a known
//! cost. The true overheads are known; what share of the intervals holds them?

use std::time::{Duration, Instant};

use tdekit_bench_report::{
    CALIBRATION_SCHEMA, CalibratedInterval, Calibration, Metric, Results, Tool, Truth, summarize,
};

use super::ground::{self, SidesGround};
use super::now;
use super::prepare::{self, Prepared};
use super::results;
use super::toll::Added;
use crate::config::{Config, Experiments};
use crate::environment;
use crate::error::BenchError;
use crate::interrupt;
use crate::noise::NoiseMeter;
use crate::progress::Progress;
use crate::schedule::{self, Steering, Surroundings};
use crate::tools::Tools;

/// The known cost.
const TOLL_PER_MILLE: u64 = 30;
/// Part of a short run that its blocks take; the rest is copying, starting and warming up.
const BLOCKS_SHARE: f64 = 0.6;
/// Pairs a restart of a short run.
const SHORT_PAIRS: u32 = 2;
/// Rows a table in short runs.
const SHORT_ROWS: u64 = 10_000;
/// The least that a block of a short run lasts.
const SHORTEST_BLOCK: Duration = Duration::from_millis(20);

/// How to calibrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CalibrationPlan {
    pub(crate) runs: u32,
    /// Length of each run; none for the default length of the bench.
    pub(crate) seconds: Option<u64>,
}

/// Runs the plan. `each` gets the figures after every run, so that they are kept whatever comes.
/// A failure after the first run ends the calibration early: it then holds what was measured, and
/// says why it is not complete.
pub(crate) fn calibrate(
    config: &Config,
    plan: CalibrationPlan,
    tools: &Tools,
    each: &mut dyn FnMut(&Calibration) -> Result<(), BenchError>,
) -> Result<Calibration, BenchError> {
    interrupt::install();
    let start = Instant::now();
    let config = design(config, plan);
    let progress = Progress::new();
    let mut calibration = Calibration {
        schema: CALIBRATION_SCHEMA.to_owned(),
        tool: Tool { name: "tdekit".to_owned(), version: config.version.clone() },
        started: now(),
        duration_s: 0.0,
        command: config.command.clone(),
        environment: environment::describe(&config.directory),
        design: words(&config, plan),
        runs_wanted: plan.runs,
        injected: TOLL_PER_MILLE as f64 / 1000.0,
        confidence: results::confidence(),
        incomplete: Vec::new(),
        noise: None,
        added_elapsed: 0.0,
        added_cpu: 0.0,
        intervals: Vec::new(),
        rows: Vec::new(),
    };
    let prepared = prepare::prepare(&config, tools, &progress)?;
    let mut noise = NoiseMeter::start();
    let mut added = Added::default();
    calibration.environment.instructions.clone_from(&prepared.instructions);
    for run in 0..plan.runs {
        let own = Config { seed: config.seed.wrapping_add(u64::from(run)), ..config.clone() };
        match one(&own, &prepared, (&progress, &mut noise)) {
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

/// The settings of each run.
fn design(config: &Config, plan: CalibrationPlan) -> Config {
    let mut config = Config {
        experiments: Experiments { crud: true, ..Experiments::default() },
        database: None,
        control: true,
        toll_per_mille: Some(TOLL_PER_MILLE),
        peers: Vec::new(),
        ..config.clone()
    };
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
    }
    config
}

fn words(config: &Config, plan: CalibrationPlan) -> String {
    let mixes: Vec<String> = config.mixes.iter().map(|mix| mix.id().replace('-', "/")).collect();
    let length = match plan.seconds {
        Some(seconds) => format!("some {seconds} s each"),
        None => "of the default length".to_owned(),
    };
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

/// One run, from its blocks to its intervals, and what the dearer base really paid.
fn one(
    config: &Config,
    prepared: &Prepared,
    (progress, noise): (&Progress, &mut NoiseMeter),
) -> Result<(Results, Added), BenchError> {
    let mut ground = SidesGround::new(config, prepared);
    let around = Surroundings {
        progress,
        noise,
        steering: &mut Steering::deaf(),
        warnings: &mut Vec::new(),
    };
    if let Some(error) =
        schedule::run(&mut ground, &ground::length(config), config.seed, around).failure
    {
        return Err(error);
    }
    let (_, measured) = ground.finish();
    let environment = environment::describe(&config.directory);
    let mut found = results::empty(config, environment, now());
    found.classes = results::ordered_classes(prepared, &[], &measured.samples);
    found.sides = prepared.sides.iter().map(|side| side.side.clone()).collect();
    found.samples = measured.samples;
    found.summary = summarize(&found);
    Ok((found, measured.added))
}

/// Takes the intervals of a run.
fn add(calibration: &mut Calibration, run: u32, found: &Results) {
    let truth = |side: &str| match side {
        "control" => Some(Truth::Nothing),
        "injected" => Some(Truth::Injected),
        _ => None,
    };
    let wanted = |metric| matches!(metric, Metric::Elapsed | Metric::Cpu);
    for head in found.summary.headlines.iter().filter(|head| wanted(head.metric)) {
        let Some(((low, high), truth)) = head.low.zip(head.high).zip(truth(&head.side)) else {
            continue;
        };
        calibration.intervals.push(CalibratedInterval {
            run,
            class: "headline".to_owned(),
            metric: head.metric,
            truth,
            ratio: head.ratio,
            low,
            high,
            restarts: head.restarts,
        });
    }
    for one in found.summary.comparisons.iter().filter(|one| wanted(one.metric)) {
        let Some(((low, high), truth)) = one.low.zip(one.high).zip(truth(&one.side)) else {
            continue;
        };
        calibration.intervals.push(CalibratedInterval {
            run,
            class: one.class.clone(),
            metric: one.metric,
            truth,
            ratio: one.ratio,
            low,
            high,
            restarts: one.restarts,
        });
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
        assert!(short.control && short.experiments.crud && !short.experiments.operations);
        assert_eq!((short.restarts, short.pairs, short.rows), (8, 2, 10_000));
        assert!(short.stopping.is_none() && short.mixes.iter().all(|mix| !mix.load));
        let blocks = 8 * 2 * 3 * u32::try_from(short.mixes.len()).unwrap();
        assert!(short.block_time * blocks <= Duration::from_secs(12));
        let long = design(&usual, CalibrationPlan { runs: 10, seconds: None });
        assert_eq!((long.rows, long.pairs, long.stopping), (usual.rows, 3, usual.stopping));
        assert!(words(&long, CalibrationPlan { runs: 10, seconds: None }).contains("default"));
    }
}
