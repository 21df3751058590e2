//! Results from a script's output: the same report as of a run on the server.

use std::io::Read;
use std::path::Path;

use tdekit_bench_report::{Environment, Results, Run, summarize};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::super::home::{TEMPDB, scan_unseen};
use super::super::operations::{self, Planned};
use super::super::run::{describe, side, statements};
use super::super::server::{Counters, PAGE_BYTES, Server};
use super::super::sides::{Task, Work, as_runs, counted_by_text, tasks};
use super::begin::{command_line, databases};
use super::name;
use super::read::{Fault, records};
use super::transcript::{Found, Transcript, each_once};
use crate::error::{BenchError, Result};
use crate::plan::Config;
use crate::results::empty_results;
use crate::schedule::Place;

/// Maximum size of an output in bytes. That of the largest script is smaller.
const MOST_BYTES: u64 = 256 << 20;
/// 2020-01-01 in seconds since 1970, from which scripts count.
const EPOCH_S: i64 = 1_577_836_800;

/// Reads a script's output; `configure` makes a plan of the script's options.
pub(crate) fn import(
    path: &Path,
    configure: impl FnOnce(&[String]) -> Result<Config>,
) -> Result<Results> {
    let cannot = || BenchError::file("cannot read", path);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot())?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(cannot())?;
    if bytes.len() as u64 > MOST_BYTES {
        let reason = format!("the file has more than {} MiB", MOST_BYTES >> 20);
        return Err(BenchError::Output { path: path.to_owned(), line: None, reason });
    }
    imported((&bytes, path), configure)
}

/// The same for the contents of the file at `path`.
pub(crate) fn imported(
    (bytes, path): (&[u8], &Path),
    configure: impl FnOnce(&[String]) -> Result<Config>,
) -> Result<Results> {
    let faulty =
        |Fault { line, reason }| BenchError::Output { path: path.to_owned(), line, reason };
    let transcript = records(bytes).and_then(|found| Transcript::of(&found)).map_err(faulty)?;
    let words: Vec<String> = transcript
        .options
        .iter()
        .flat_map(|(name, value)| [name.clone(), value.clone()])
        .filter(|word| !word.is_empty())
        .collect();
    let config = configure(&words)?;
    if transcript.blocks.is_empty() {
        let reason = transcript.stopped.unwrap_or_else(|| "no block is in it".to_owned());
        return Err(BenchError::NothingScripted { path: path.to_owned(), reason });
    }
    results(&config, &transcript).map_err(faulty)
}

fn results(config: &Config, transcript: &Transcript) -> Result<Results, Fault> {
    each_once(&transcript.blocks)?;
    let server = server(config, transcript);
    let cold = is_cold(config, transcript);
    let tasks = tasks(config, cold);
    let sides = databases(config)
        .map(|database| side(database, config.given.basics.algorithm(), server.ours));
    let mut report = server.report(config, "a script that was run there", sides.into());
    report.set("script", true);
    report.set("data_bytes", transcript.pages.saturating_mul(PAGE_BYTES));
    report.cells = tasks.iter().map(|task| task.class.clone()).collect();
    report.statements = statements();
    for block in &transcript.blocks {
        report.runs.extend(runs(config, &tasks, block, server.counters)?);
    }
    let first = transcript.clock_us.map_or(0, |(first, _)| first);
    let mut results = empty_results(config, Environment::default(), moment(first));
    results.command = command_line(&transcript.options);
    let clock_us = transcript.clock_us.map_or(0, |(first, last)| last - first);
    results.duration_s = std::time::Duration::from_micros(clock_us).as_secs_f64();
    results.subject.label.clone_from(&server.version);
    results.server = Some(report);
    describe(&mut results, config);
    results.settings.processes = 1;
    results.incomplete.extend(transcript.stopped.clone());
    results.warnings.extend(transcript.left.iter().map(|(what, how)| {
        format!("The {what} remained on the server when the script ended; remove it: {how}.")
    }));
    summarize(&mut results);
    Ok(results)
}

fn is_cold(config: &Config, transcript: &Transcript) -> bool {
    !config.mssql.bounds.warm_only && transcript.rights.get(name::COLD) == Some(&0)
}

/// Returns the properties that the server reported.
fn server(config: &Config, transcript: &Transcript) -> Server {
    let fact = |name: &str| transcript.facts.get(name).map_or("", String::as_str);
    let right = |name: &str| match transcript.rights.get(name) {
        Some(0) => Ok(()),
        Some(number) => Err(format!("Msg {number}")),
        None => Err("not asked for".to_owned()),
    };
    let named = (fact(name::VERSION), fact(name::EDITION), fact(name::PRODUCT));
    let mut server = Server::named(named.0, named.1, named.2, fact(name::OURS) == "1");
    server.count_by(Ok(()), right(name::STATISTICS));
    if !config.mssql.bounds.warm_only
        && let Err(words) = right(name::COLD)
    {
        server.limits.push(format!("No cold classes: emptying the buffers is refused ({words})."));
    }
    server.limits.push(
        "A script of tdekit measured this on the server, run by another client. Elapsed at the \
         client is the server's clock between two readings, with that client's way there and back."
            .to_owned(),
    );
    if !config.given.basics.aa {
        if let Err(words) = right(name::SCAN) {
            server.limits.push(scan_unseen(&words));
        }
        server.limits.push(TEMPDB.to_owned());
    }
    server
}

/// A block's whole, and each of its statements.
fn runs(
    config: &Config,
    tasks: &[Task],
    block: &Found,
    counters: Counters,
) -> Result<Vec<Run>, Fault> {
    let fault = |what: &str| Fault::at(block.line, format!("the script has no such {what}"));
    let task = tasks.iter().find(|task| task.class.id == block.cell);
    let task = task.ok_or_else(|| fault("class"))?;
    let sides = databases(config);
    let side = sides.iter().position(|database| database.id() == block.side);
    let side = side.ok_or_else(|| fault("side"))?;
    let Found { restart, pair, position, .. } = *block;
    if restart >= config.restarts || pair >= config.pairs || position as usize >= sides.len() {
        return Err(fault("restart or pair"));
    }
    let place = Place { side, restart, pair, position, seed: 0 };
    let names = (block.cell.as_str(), block.side.as_str());
    match task.work {
        Work::Operation { operation, .. } => {
            let mine = |one: &&Planned| one.operation == operation;
            let count = operations::all().iter().filter(mine).count();
            let by_text = counters == Counters::QueryStats && counted_by_text(operation);
            Ok(as_runs(place, names, &block.costs(count, by_text)?))
        }
        Work::FullBackup { .. } => {
            let mut runs = as_runs(place, names, &block.costs(1, false)?);
            runs.truncate(1);
            Ok(runs)
        }
        Work::Mix { .. } => Err(fault("class")),
    }
}

/// A time of the script's clock, RFC 3339.
fn moment(clock_us: u64) -> String {
    let since = Duration::seconds(i64::try_from(clock_us / 1_000_000).unwrap_or(0));
    OffsetDateTime::from_unix_timestamp(EPOCH_S)
        .ok()
        .and_then(|epoch| epoch.checked_add(since))
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_default()
}
