//! From the words to what a run is to do, with every default filled in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tdekit_bench_report::Stopping;

use super::args::{BenchArgs, ExperimentName, Mixes, name_of};
use crate::command::own_line;
use crate::config::{Config, Experiments};
use crate::environment::processors;
use crate::error::BenchError;
use crate::generate::Mix;
use crate::job::LibraryChoice;
use crate::messages::Shared;
use crate::oltp::{AnyPeer, Given, OltpPlan};
use crate::script;
use crate::sqlite::Library;

/// Name by which the dynamic loader finds the system's SQLite.
const SYSTEM_LIBRARY: &str = "libsqlite3.so.0";
/// Half-width that the default run wants of its headline, in millionths.
const HEADLINE_PPM: u32 = 20_000;
/// Seconds that a run with a wanted precision measures at most.
const PRECISE_S: u64 = 3600;
/// Restarts of the headline's first stage in the default run. More than those of the other classes:
/// they are short, and Student's quantile falls with them.
const FIRST_RESTARTS: u32 = 12;

pub(super) fn configure(args: &BenchArgs) -> Result<Config, BenchError> {
    let (library, library_origin) = choose_library(args.sqlite_library.as_deref());
    let directory = match (&args.dir, &args.database) {
        (Some(directory), _) => directory.clone(),
        (None, Some(database)) => match database.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        },
        (None, None) => default_directory(),
    };
    let by_quick = |quick: u32, usual: u32| if args.quick { quick } else { usual };
    let by_quick_u64 = |quick: u32, usual: u32| u64::from(by_quick(quick, usual));
    let restarts = args.restarts.unwrap_or(by_quick(3, 8));
    if args.drop_caches {
        check_drop_caches()?;
    }
    let script = args.script.as_deref().map(script::read).transpose()?.unwrap_or_default();
    let experiments = experiments(args)?;
    let usual_processes = u32::try_from(2 * processors()).unwrap_or(10).clamp(2, 10);
    Ok(Config {
        experiments,
        database: args.database.clone(),
        mixes: chosen_mixes(args),
        think_time: args.think_time.0,
        rate_per_s: args.rate,
        script,
        processes: args.processes.unwrap_or(if args.calibrate && !args.default_length {
            2
        } else {
            by_quick(2, usual_processes)
        }),
        loops: args.loops,
        rows: args.rows.unwrap_or(by_quick_u64(10_000, 100_000)),
        algorithm: args.algorithm.clone(),
        peers: args.peer.iter().filter_map(AnyPeer::library).collect(),
        library,
        library_origin,
        journal_mode: name_of(args.journal_mode),
        synchronous: name_of(args.synchronous),
        cache_size: args.cache_size,
        page_size_bytes: args.page_size,
        directory,
        restarts,
        pairs: args.pairs.unwrap_or(by_quick(1, 3)),
        block_time: Duration::from_millis(by_quick_u64(100, 250)),
        // Without sides there is no headline to wait for.
        stopping: stopping(args, restarts)
            .filter(|plan| experiments.needs_sides() || plan.all_ppm.is_some()),
        max_time: Duration::from_secs(max_time_s(args)),
        control: args.aa,
        toll_per_mille: None,
        drop_caches: args.drop_caches,
        seed: args.seed,
        backup: args.backup.plan(args.quick, first_stage(args, restarts))?,
        oltp: oltp_plan(args, restarts)?,
        messages: args.messages.plan(shared(args), args.oltp.sql_server())?,
        command: own_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

pub(super) fn chosen_mixes(args: &BenchArgs) -> Vec<Mix> {
    let usual = |names: &[&str]| names.iter().filter_map(|mix| mix.parse().ok()).collect();
    match args.mix.as_slice() {
        [] if args.calibrate && !args.default_length => usual(&["10/0/0", "0/5/5"]),
        [] => usual(&["10/0/0", "4/3/3", "0/5/5", "load"]),
        given => {
            let mut mixes: Vec<Mix> = Vec::new();
            for named in given {
                let named = match named {
                    Mixes::One(mix) => vec![*mix],
                    Mixes::All => {
                        Mix::sixteen().into_iter().chain(std::iter::once(Mix::LOAD)).collect()
                    }
                };
                for mix in named {
                    if !mixes.contains(&mix) {
                        mixes.push(mix);
                    }
                }
            }
            mixes
        }
    }
}

/// The default run ends when the headline is narrow; a run whose restarts are given ends with them.
fn stopping(args: &BenchArgs, restarts: u32) -> Option<Stopping> {
    let fixed = args.quick || args.restarts.is_some();
    let stop = |first_restarts, headline_ppm, all_ppm| Stopping {
        first_restarts,
        headline_ppm,
        all_ppm,
        reached: false,
    };
    match args.precision {
        Some(ppm) => Some(stop(restarts, ppm, Some(ppm))),
        None if fixed => None,
        None => Some(stop(FIRST_RESTARTS.max(restarts), HEADLINE_PPM, None)),
    }
}

/// Seconds of measuring.
fn max_time_s(args: &BenchArgs) -> u64 {
    args.max_time.unwrap_or(match (args.quick, args.precision) {
        (true, _) => 30,
        (false, Some(_)) => PRECISE_S,
        (false, None) => 150,
    })
}

/// Fails where the system's cache cannot be emptied.
fn check_drop_caches() -> Result<(), BenchError> {
    let switch = "/proc/sys/vm/drop_caches";
    std::fs::OpenOptions::new().write(true).open(switch).map(drop).map_err(|error| {
        BenchError::Option {
            option: "--drop-caches",
            reason: format!("cannot open {switch}: {error}; only root may"),
        }
    })
}

/// Restarts as given. A run that goes on until its intervals are narrow has a first stage of as
/// many in every experiment.
fn first_stage(args: &BenchArgs, restarts: u32) -> Option<u32> {
    args.restarts.or(args.precision.map(|_| restarts))
}

fn oltp_plan(args: &BenchArgs, restarts: u32) -> Result<OltpPlan, BenchError> {
    let given = Given { restarts: first_stage(args, restarts), ..given(args) };
    let mut plan = args.oltp.plan(given, &args.peer)?;
    plan.take_password(|own| args.messages.password_beside(own))?;
    Ok(plan)
}

/// Options that the OLTP workloads share with other experiments, as given.
fn given(args: &BenchArgs) -> Given {
    Given {
        quick: args.quick,
        rows: args.rows,
        restarts: args.restarts,
        pairs: args.pairs,
        max_time_s: args.max_time.or(args.precision.filter(|_| !args.quick).map(|_| PRECISE_S)),
    }
}

/// Options that the message experiment shares with other experiments.
fn shared(args: &BenchArgs) -> Shared {
    Shared {
        quick: args.quick,
        loops: args.loops,
        restarts: args.restarts.unwrap_or(if args.quick { 3 } else { 8 }),
        pairs: args.pairs.unwrap_or(if args.quick { 1 } else { 3 }),
        max_time: Duration::from_secs(max_time_s(args)),
    }
}

fn experiments(args: &BenchArgs) -> Result<Experiments, BenchError> {
    let names = &args.experiment;
    if args.oltp.sql_server().is_some() {
        let fits = names.iter().all(|name| *name == ExperimentName::Messages);
        return if args.database.is_none() && fits {
            Ok(Experiments { messages: true, ..Experiments::default() })
        } else {
            Err(BenchError::Option {
                option: "--target",
                reason: "on a SQL Server only --experiment messages runs".to_owned(),
            })
        };
    }
    let named = |name| names.contains(&name) || names.contains(&ExperimentName::All);
    let none = Experiments { oltp: true, ..Experiments::default() };
    if args.oltp.on_server() {
        let fits = [ExperimentName::Oltp, ExperimentName::All];
        return if args.database.is_none() && names.iter().all(|name| fits.contains(name)) {
            Ok(none)
        } else {
            Err(BenchError::Option {
                option: "--target",
                reason: "on a server only --experiment oltp runs, and on its own tables".to_owned(),
            })
        };
    }
    let script = args.script.is_some();
    if names.is_empty() {
        let crud = args.database.is_none() && !script;
        let (operations, scans) = (!script, !script);
        return Ok(Experiments { crud, operations, scans, script, ..Experiments::default() });
    }
    Ok(Experiments {
        crud: named(ExperimentName::Crud),
        operations: named(ExperimentName::Operations),
        scans: named(ExperimentName::Scans),
        backup: named(ExperimentName::Backup),
        oltp: named(ExperimentName::Oltp),
        messages: names.contains(&ExperimentName::Messages),
        script,
    })
}

fn choose_library(name: Option<&str>) -> (LibraryChoice, String) {
    let system = || LibraryChoice::Shared(PathBuf::from(SYSTEM_LIBRARY));
    match name {
        Some("bundled") => (LibraryChoice::Bundled, "bundled".to_owned()),
        Some("system") => (system(), "system".to_owned()),
        Some(path) => (LibraryChoice::Shared(PathBuf::from(path)), path.to_owned()),
        None if Library::shared(Path::new(SYSTEM_LIBRARY)).is_ok() => {
            (system(), "system".to_owned())
        }
        None => (LibraryChoice::Bundled, "bundled".to_owned()),
    }
}

/// `/var/tmp` lies on a disk where `/tmp` may lie in memory.
fn default_directory() -> PathBuf {
    let lasting = PathBuf::from("/var/tmp");
    if tempfile::tempfile_in(&lasting).is_ok() { lasting } else { std::env::temp_dir() }
}
