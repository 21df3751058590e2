//! The plain twin of a database that tdekit encrypted: a run's plain sides need one. It is made
//! where the run's copies lie, in a directory that only the user can read and that is removed in
//! the end, and by default in memory.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tdekit_sqlite_client::file_uri;
use tdekit_system_use::file_system;

use crate::command::run;
use crate::environment::free_bytes;
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::job::{CopiedOut, Ready, Request};
use crate::key_store::{KeyEnvironment, OTHER_KEYS};
use crate::plan::Config;
use crate::process::WorkerProcess;
use crate::removal::begins_plain;
use crate::subject::{self, has_log, settle};
use crate::tools::Tools;

/// A file system in memory.
pub(crate) const MEMORY: &str = "/dev/shm";

/// Returns the plan of a run on a database that may be encrypted. Without an algorithm it is priced
/// under its own; unless a directory is `named`, its copies are in memory where they fit, by
/// `needed_bytes`.
///
/// # Errors
/// For the backup matrix of an encrypted one.
pub(crate) fn settled(
    mut config: Config,
    tools: &Tools,
    named: bool,
    needed_bytes: fn(&Config) -> Result<u64>,
) -> Result<Config> {
    if let Some(path) = config.database.as_deref() {
        subject::check(path)?;
    }
    let Some(path) = config.database.as_deref().filter(|path| !is_plain(path)) else {
        return Ok(config);
    };
    let Some(algorithm) = algorithm(path, tools)? else { return Ok(config) };
    if config.experiments.backup {
        let reason = "the backup matrix leaves plaintext on its devices: it runs on a generated \
                      database";
        return Err(BenchError::option("--experiment", reason));
    }
    config.encrypted = true;
    let algorithms = &mut config.given.basics.algorithms;
    if algorithms.is_empty() {
        config.further.algorithms.retain(|further| *further != algorithm);
        algorithms.push(algorithm);
    }
    let memory = Path::new(MEMORY);
    if !named && file_system(memory).as_deref() == Some("tmpfs") {
        // As much again stays free for others.
        let fits = free_bytes(memory)? / 2 >= needed_bytes(&config)?;
        if fits && tempfile::tempfile_in(memory).is_ok() {
            config.directory = memory.to_owned();
        }
    }
    Ok(config)
}

/// Returns true for a file that begins as a plain database, or that cannot be read.
fn is_plain(path: &Path) -> bool {
    begins_plain(path).unwrap_or(true)
}

/// Returns the algorithm of a database that tdekit encrypted; none if it did not.
fn algorithm(path: &Path, tools: &Tools) -> Result<Option<String>> {
    let asked = Command::new(&tools.tdekit).args(["status", "--json"]).arg(path).output();
    // Where there is no command, nothing that it encrypted can be opened either.
    let Ok(asked) = asked else { return Ok(None) };
    interrupt::check()?;
    let told: Option<Value> = serde_json::from_slice(&asked.stdout).ok();
    let told = told.as_ref().and_then(|told| told.pointer("/0/encryption/algorithm")?.as_str());
    Ok(told.map(str::to_owned))
}

/// Tells where plaintext will be.
pub(crate) fn tell(path: &Path, directory: &Path) {
    eprintln!(
        "note: {} is encrypted: until the run ends, plain copies of it are in {}, which only you \
         can read",
        path.display(),
        directory.display()
    );
}

/// Makes the plain twin of `source` at `target`, compact, with the configured page size: by a copy
/// that stays encrypted, which the command then decrypts. The key store is opened as by any other
/// program.
pub(crate) fn make(config: &Config, tools: &Tools, source: &Path, target: &Path) -> Result<()> {
    let secrets: KeyEnvironment = OTHER_KEYS
        .into_iter()
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect();
    let mut worker = WorkerProcess::start(&tools.worker, "copy", &secrets)?;
    let (library, extension) = (config.library.clone(), Some(tools.extension.clone()));
    let _: Ready = worker.ask(&Request::Setup { library, extension })?;
    let mut uri = file_uri(source) + "?mode=ro";
    if !has_log(source) {
        // Nobody writes, and nothing is made beside it.
        uri.push_str("&immutable=1");
    }
    let copied = worker.ask::<CopiedOut>(&Request::CopyOut { uri, to: target.to_owned() });
    drop(worker);
    let copied = copied.map_err(|error| match error {
        BenchError::WorkerFailed { message, .. } => {
            BenchError::Damaged { path: source.to_owned(), message }
        }
        error => error,
    })?;
    if let Some(message) = copied.locked {
        return Err(BenchError::Sealed { path: source.to_owned(), message });
    }
    run(Command::new(&tools.tdekit).arg("decrypt").arg(target))?;
    settle(target, config.given.page_size)
}
