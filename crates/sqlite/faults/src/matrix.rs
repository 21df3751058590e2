//! The configurations that the crash suite runs.

use crate::crash::{Effort, Model, Recording, Report};
use crate::error::{Error, Result};
use crate::form::by_form;
use crate::ledger::{Config, Journal, Synchronous};
use crate::top::Top;

const SEEDS: [u64; 1] = [7];
const MORE_SEEDS: [u64; 3] = [7, 8, 9];

/// Returns the configurations with `journal` for the form of the run: all in the exhaustive one.
#[must_use]
pub fn configs(top: Top, journal: Journal) -> Vec<Config> {
    let mut configs = Vec::new();
    let wanted: fn(&Config) -> bool = by_form(in_short, in_full, |_| true);
    // Six have a reopening and a checkpoint before the last one.
    let transactions = by_form(6, 8, 8);
    let levels = [Synchronous::Off, Synchronous::Normal, Synchronous::Full, Synchronous::Extra];
    for synchronous in levels {
        for page_size in [1024, 4096, 65536] {
            for (spill, databases) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
                let config =
                    Config { top, journal, synchronous, page_size, spill, databases, transactions };
                if wanted(&config) {
                    configs.push(config);
                }
            }
        }
    }
    configs
}

/// One of each kind: with and without spills, one and two databases, small pages.
fn in_short(config: &Config) -> bool {
    let full = config.synchronous == Synchronous::Full;
    match (config.page_size, config.databases) {
        (4096, 1) if config.spill => full,
        (4096, 1) => config.synchronous == Synchronous::Normal,
        (4096, _) | (1024, 1) => full && config.spill,
        _ => false,
    }
}

/// Spills and sync levels are crossed at 4 KiB; page sizes and several databases are sampled.
fn in_full(config: &Config) -> bool {
    let full = config.synchronous == Synchronous::Full;
    match (config.page_size, config.databases) {
        (4096, 1) => {
            // EXTRA differs from FULL only for a journal that is deleted.
            config.synchronous != Synchronous::Extra || config.journal == Journal::Delete
        }
        (4096, _) => {
            let normal = config.synchronous == Synchronous::Normal;
            (full && config.spill) || (normal && !config.spill)
        }
        (1024, 1) => full && config.spill,
        (_, 1) => full && !config.spill,
        _ => false,
    }
}

/// Records each configuration and crashes it at every operation, by a kill and by a power cut.
///
/// # Errors
/// Those of the harness; broken promises are in the report.
pub fn run(configs: &[Config], effort: Effort) -> Result<Report> {
    let mut total = Report::default();
    let seeds: &[u64] = by_form(&SEEDS, &SEEDS, &MORE_SEEDS);
    for config in configs {
        for seed in seeds {
            run_one(*config, *seed, effort, &mut total)?;
        }
    }
    Ok(total)
}

/// Runs one configuration with one seed.
///
/// # Errors
/// Those of the harness; broken promises are in the report.
pub fn run_one(config: Config, seed: u64, effort: Effort, report: &mut Report) -> Result<()> {
    let directory = scratch()?;
    let recording = Recording::make(config, seed, directory.path())?;
    recording.crash_everywhere(Model::Kill, effort, report)?;
    if config.synchronous != Synchronous::Off {
        recording.crash_everywhere(Model::Power, effort, report)?;
    }
    Ok(())
}

/// Makes a directory for one case, in memory if the system supports it.
///
/// # Errors
/// The file system's.
pub fn scratch() -> Result<tempfile::TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("tdekit-faults-");
    let made = if memory.is_dir() && std::env::var_os("TMPDIR").is_none() {
        builder.tempdir_in(memory)
    } else {
        builder.tempdir()
    };
    made.map_err(Error::io(memory))
}
