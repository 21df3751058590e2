//! From the command line to the plan of a run, with every default filled in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tdekit_bench_report::Stopping;
use tdekit_sqlite_client::Library;

use super::args::{BenchArgs, ExperimentName};
use crate::command::own_line;
use crate::directory::DirectoryPeer;
use crate::environment::processors;
use crate::error::{BenchError, Result};
use crate::generate::Mix;
use crate::job::LibraryChoice;
use crate::plan::{AnyPeer, Config, Experiments, Further, MAX_TIME_S, Part, each_once};
use crate::private;
use crate::script;

/// Name by which the dynamic loader finds the system's SQLite.
const SYSTEM_LIBRARY: &str = "libsqlite3.so.0";
/// Target half-width of the headline in the default run, in millionths.
const HEADLINE_PPM: u32 = 20_000;
/// Restarts of the headline's first stage in the default run. More than those of the other classes:
/// they are short, and Student's quantile decreases with them.
const FIRST_RESTARTS: u32 = 12;

pub(super) fn configure(args: &BenchArgs) -> Result<Config> {
    let (library, library_origin) = choose_library(args.sqlite_library.as_deref());
    let directory = match (&args.dir, &args.database) {
        (Some(directory), _) => directory.clone(),
        (None, Some(database)) => private::parent_of(database).to_owned(),
        (None, None) => default_directory(),
    };
    let given = &args.given;
    let restarts = given.basics.restarts();
    if given.drop_caches {
        check_drop_caches()?;
    }
    let script = args.script.as_deref().map(script::read).transpose()?.unwrap_or_default();
    let experiments = experiments(args)?;
    if given.rate.is_some() && experiments.oltp && !experiments.crud && !args.oltp.on_server() {
        let reason = "on SQLite it is for the mixes of crud; sysbench has one, on a server";
        return Err(BenchError::option("--rate", reason));
    }
    let oltp = args.oltp.filled(given, &args.peer, &args.server)?.injected(args.mssql.inject)?;
    let on_sql_server = experiments.server;
    let usual_processes = match args.calibrate && !args.default_length {
        true => 2,
        false => {
            given.basics.by_quick((2, u32::try_from(2 * processors()).unwrap_or(10).clamp(2, 10)))
        }
    };
    let processes = args.processes.unwrap_or(usual_processes);
    let usual_rows = if on_sql_server { (2_000, 20_000) } else { (10_000, 100_000) };
    let rows = given.basics.rows.unwrap_or(given.basics.by_quick(usual_rows));
    // A dry run needs no password.
    let server = args.oltp.sql_server().filter(|_| !args.server.dry_run);
    let messages = args.messages.filled(given, server, &args.server)?;
    let login = messages.login().filter(|_| on_sql_server);
    let block_ms = if on_sql_server { (300, 1_000) } else { (100, 250) };
    Ok(Config {
        given: given.clone(),
        experiments,
        database: args.database.clone(),
        encrypted: false,
        mixes: chosen_mixes(args),
        script,
        processes,
        rows,
        peers: args.peer.iter().filter_map(AnyPeer::library).collect(),
        directories: directories(&args.peer)?,
        library,
        library_origin,
        directory,
        restarts,
        further: further(args, experiments)?,
        // A run of speedtest1 takes seconds: a restart has one pair of them.
        pairs: if experiments.speedtest_alone() { 1 } else { given.basics.pairs() },
        block_time: Duration::from_millis(given.basics.by_quick(block_ms)),
        // Without sides there is no headline to wait for.
        stopping: stopping(args, restarts)
            .filter(|plan| experiments.needs_sides() || plan.all_ppm.is_some()),
        max_time: given.max_time(MAX_TIME_S),
        toll_per_mille: None,
        backup: args.backup.filled(given)?,
        replicate: args.replicate.filled(given)?,
        oltp,
        mssql: args.mssql.filled(login, &args.server, (processes, rows))?,
        messages,
        command: own_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

pub(super) fn chosen_mixes(args: &BenchArgs) -> Vec<Mix> {
    let usual = |names: &[&str]| names.iter().filter_map(|mix| mix.parse().ok()).collect();
    match args.mix.as_slice() {
        [] if args.calibrate && !args.default_length => usual(&["10/0/0", "0/5/5"]),
        [] => usual(&["10/0/0", "4/3/3", "0/5/5", "load"]),
        given => each_once(given.iter().flatten().copied()),
    }
}

/// Algorithm of the further side that a run has without being asked.
const FURTHER: &str = "AEGIS_256X2";

/// Returns the algorithms after the first one. A run that names neither algorithm nor experiment
/// has one more, for the classes of its headline.
fn further(args: &BenchArgs, experiments: Experiments) -> Result<Further> {
    let named = each_once(args.given.basics.algorithms.iter().cloned());
    let sides = experiments.needs_sides() || (experiments.oltp && !args.oltp.on_server());
    if named.len() > 1 && !sides {
        let reason = "several are sides of one run on a database in the process, and of no other";
        return Err(BenchError::option("--algorithm", reason));
    }
    if args.given.basics.aa || !sides {
        return Ok(Further::default());
    }
    let usual = named.is_empty() && args.experiment.is_empty();
    Ok(match usual {
        true => Further { algorithms: vec![FURTHER.to_owned()], part: Part::Heads },
        false => Further { algorithms: named.into_iter().skip(1).collect(), part: Part::All },
    })
}

/// Returns the stopping rule: the default run ends when the headline is narrow; a run with a given
/// number of restarts ends with them.
fn stopping(args: &BenchArgs, restarts: u32) -> Option<Stopping> {
    let fixed = args.given.basics.quick || args.given.basics.restarts.is_some();
    let stop = |first_restarts, headline_ppm, all_ppm| Stopping {
        first_restarts,
        headline_ppm,
        all_ppm,
        reached: false,
    };
    match args.given.precision {
        Some(ppm) => Some(stop(restarts, ppm, Some(ppm))),
        None if fixed => None,
        None => Some(stop(FIRST_RESTARTS.max(restarts), HEADLINE_PPM, None)),
    }
}

/// Fails if the system's cache cannot be dropped.
fn check_drop_caches() -> Result<()> {
    let switch = "/proc/sys/vm/drop_caches";
    std::fs::OpenOptions::new().write(true).open(switch).map(drop).map_err(|error| {
        let reason = format!("cannot open {switch}: {error}; only root may");
        BenchError::option("--drop-caches", reason)
    })
}

fn experiments(args: &BenchArgs) -> Result<Experiments> {
    use ExperimentName::{
        All, Backup, Crud, Messages, Oltp, Operations, Replicate, Scans, Speedtest1,
    };
    let names = &args.experiment;
    let alone =
        |fits: &[ExperimentName], found: Experiments, reason: &str| match args.database.is_none()
            && names.iter().all(|name| fits.contains(name))
        {
            true => Ok(found),
            false => Err(BenchError::option("--target", reason)),
        };
    let none = Experiments::default();
    if args.mssql.inject.is_some() && !args.given.basics.aa {
        return Err(BenchError::option("--inject", "it needs --aa"));
    }
    if args.oltp.sql_server().is_some() {
        args.server.check_encrypted()?;
        let has = |name| names.contains(&name);
        let own = Experiments {
            operations: has(Operations) || has(All),
            crud: has(Crud) || has(All),
            backup: has(Backup) || has(All),
            ..none
        };
        let found =
            Experiments { server: own != none, messages: own == none || has(Messages), ..own };
        let reason = "on a SQL Server only --experiment operations, crud, backup and messages run, \
                      and on databases of their own";
        return alone(&[Operations, Crud, Backup, Messages, All], found, reason);
    }
    if args.server.dry_run && !args.oltp.is_there() {
        let reason = "it needs --target mysql://USER@HOST/DATABASE or mssql://USER@HOST";
        return Err(BenchError::option("--dry-run", reason));
    }
    if args.oltp.on_server() {
        let found = Experiments { oltp: true, ..none };
        let reason = "on a server only --experiment oltp runs, and on its own tables";
        return alone(&[Oltp, All], found, reason);
    }
    let script = args.script.is_some();
    if names.is_empty() {
        let crud = args.database.is_none() && !script;
        return Ok(Experiments { crud, operations: !script, scans: !script, script, ..none });
    }
    let named = |name| names.contains(&name) || names.contains(&All);
    Ok(Experiments {
        crud: named(Crud),
        operations: named(Operations),
        scans: named(Scans),
        speedtest: names.contains(&Speedtest1),
        backup: named(Backup),
        oltp: named(Oltp),
        messages: names.contains(&Messages),
        replicate: names.contains(&Replicate),
        server: false,
        script,
    })
}

/// Returns the directories that are peers.
fn directories(peers: &[AnyPeer]) -> Result<Vec<DirectoryPeer>> {
    let found: Vec<DirectoryPeer> = peers.iter().filter_map(AnyPeer::directory).collect();
    for (index, peer) in found.iter().enumerate() {
        if found[..index].iter().any(|other| other.label == peer.label) {
            let reason = format!("two directories are {}: directory:PATH=LABEL", peer.label);
            return Err(BenchError::option("--peer", reason));
        }
        // Before any work.
        peer.open()?;
    }
    Ok(found)
}

fn choose_library(name: Option<&str>) -> (LibraryChoice, String) {
    let there = || Library::shared(Path::new(SYSTEM_LIBRARY)).is_ok();
    let name = name.unwrap_or_else(|| if there() { "system" } else { "bundled" });
    let choice = match name {
        "bundled" => LibraryChoice::Bundled,
        "system" => LibraryChoice::Shared(PathBuf::from(SYSTEM_LIBRARY)),
        path => LibraryChoice::Shared(PathBuf::from(path)),
    };
    (choice, name.to_owned())
}

/// `/var/tmp` is on a disk where `/tmp` may be in memory.
fn default_directory() -> PathBuf {
    let lasting = PathBuf::from("/var/tmp");
    if tempfile::tempfile_in(&lasting).is_ok() { lasting } else { std::env::temp_dir() }
}
