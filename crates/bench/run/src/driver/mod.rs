//! A run from beginning to end: copies, sides, restarts, results.

mod block;
mod calibrate;
mod classes;
mod doubts;
mod ground;
mod prepare;
mod restart;
mod results;
mod script;
mod share;
mod toll;
mod warm;

use std::path::Path;
use std::time::Instant;

use tdekit_bench_report::{Experiment, Results, note_first_pairs, summarize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::backup;
use crate::environment;
use crate::error::{BenchError, Result};
use crate::experiment::RunExperiment;
use crate::interrupt;
use crate::messages;
use crate::mssql;
use crate::noise::NoiseMeter;
use crate::oltp;
use crate::plan::Config;
use crate::private;
use crate::progress::Progress;
use crate::replicate;
use crate::results::empty_results;
use crate::schedule::{self, Ended, Steering, Surroundings};
use crate::tools::Tools;
use crate::twin;
use ground::SidesGround;

pub(crate) use calibrate::{CalibrationPlan, calibrate};
pub(crate) use prepare::needed_bytes;

/// Runs the plan `config`. A failure after the first measured block ends the run early: the results
/// then hold the measurements so far, and the reason why they are incomplete.
pub(crate) fn run(config: &Config, tools: &Tools) -> Result<Results> {
    interrupt::install();
    private::remove_left(Path::new(twin::MEMORY));
    let start = Instant::now();
    let environment = environment::describe(&config.directory);
    let progress = Progress::new();
    let mut noise = NoiseMeter::start();
    let mut steering = Steering::start();
    let mut results = empty_results(config, environment, now());
    if config.experiments.backup && !config.experiments.server && !tools.can_back_up() {
        return Err(BenchError::NoBackup { command: tools.tdekit.clone() });
    }
    let sides = config.experiments.needs_sides().then_some(run_sides as RunExperiment);
    let own = own_experiments(config).into_iter().map(|(_, run)| run);
    let (mut begun, mut reached) = (false, true);
    for run in sides.into_iter().chain(own) {
        let mut warnings = Vec::new();
        "preparing".clone_into(&mut steering.place);
        let around = Surroundings {
            progress: &progress,
            noise: &mut noise,
            steering: &mut steering,
            warnings: &mut warnings,
        };
        let ended = match run(config, tools, around, &mut results) {
            // Earlier figures are kept.
            Err(error) if begun => Ended { failure: Some(error), reached: false },
            outcome => outcome?,
        };
        begun = true;
        reached &= ended.reached;
        results.warnings.append(&mut warnings);
        if let Some(error) = ended.failure {
            results.incomplete.push(error.to_string());
            break;
        }
    }
    progress.finish();
    if let Some(stopping) = &mut results.settings.stopping {
        stopping.reached = reached;
    }
    results.warnings.splice(0..0, std::mem::take(&mut steering.notes));
    results.noise = noise.finish();
    results.duration_s = start.elapsed().as_secs_f64();
    summarize(&mut results);
    results.embedded.iter_mut().for_each(note_first_pairs);
    let doubts = doubts::doubts(&results, config.block_time);
    results.warnings.extend(doubts);
    Ok(results)
}

/// Returns the experiments of a run with separate sides, in their order.
fn own_experiments(config: &Config) -> Vec<(Experiment, RunExperiment)> {
    let experiments = config.experiments;
    let all = [
        (experiments.server, Experiment::Server, mssql::run as RunExperiment),
        (experiments.backup && !experiments.server, Experiment::Backup, backup::run),
        (experiments.oltp, Experiment::Oltp, oltp::run),
        (experiments.messages, Experiment::Messages, messages::run),
        (experiments.replicate, Experiment::Replicate, replicate::run),
    ];
    all.into_iter().filter(|(wanted, ..)| *wanted).map(|(_, name, run)| (name, run)).collect()
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
    around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let mut prepared = prepare::prepare(config, tools, around.progress)?;
    prepared.heads = results::heads(&prepared);
    around.warnings.extend(config.doubts_of_directories());
    let mut ground = SidesGround::new(config, &prepared);
    around.steering.has_mixes = config.experiments.crud;
    let ended =
        schedule::run(&mut ground, &ground::length(config), config.given.basics.seed, around);
    let (brought, measured) = ground.finish();
    let ended = ended.unless_empty(measured.runs.is_empty())?;
    results::add_sides(results, prepared, &brought, measured);
    Ok(ended)
}
