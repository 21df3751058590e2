//! `tdekit replicate status`: how far databases are shipped, and what archives hold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::archive::{
    Archive, ArchivePlace, Shipped, State, is_followed, standby_of, state_of,
};
use tdekit_backup_run::date_of_ms;
use tdekit_backup_run::labels::now_ms;
use tdekit_console::output;
use tdekit_sqlite_convert::database_path;

use super::config;
use super::follow::Wanted;
use super::prometheus::{self, BEGIN};
use crate::backup::report::size;
use crate::error::CommandError;
use crate::overview::metrics;

/// Arguments of `replicate status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Databases that are followed, or archives
    #[arg(required_unless_present = "config")]
    place: Vec<OsString>,
    /// The databases of this file, as of `replicate --config`
    #[arg(long, value_name = "FILE", conflicts_with = "place")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print metrics, for node_exporter's textfile collector
    #[arg(long)]
    prometheus: bool,
    /// Write the metrics into this file, at once or not at all
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    output: Option<PathBuf>,
}

/// The state of a database that is followed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Followed {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    pub(super) database: PathBuf,
    /// True if a process follows it.
    pub(super) running: bool,
    /// The archive has everything that was committed by then.
    current: Option<String>,
    last_shipped: Option<String>,
    last_transaction: Option<String>,
    /// True if the last object is of a log, false if the database had none.
    has_log: Option<bool>,
    #[serde(flatten)]
    pub(super) state: State,
}

/// An archive, as JSON.
#[derive(Serialize)]
struct Held {
    archive: String,
    objects: usize,
    bytes: u64,
    chains: Vec<HeldChain>,
}

#[derive(Serialize)]
struct HeldChain {
    first: u64,
    last: u64,
    bytes: u64,
    begun: String,
    finished: String,
    encrypted: bool,
    host: String,
    database: String,
    /// Why it was begun.
    why: String,
}

/// A standby, as JSON.
#[derive(Serialize)]
struct Kept {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    standby: PathBuf,
    archive: String,
    /// True if a process keeps it up.
    running: bool,
    /// It has everything that the archive had then.
    current: Option<String>,
    /// The last object in it, and the time of its last transaction.
    object: Option<u64>,
    last_transaction: Option<String>,
    error: Option<String>,
}

/// A database, a standby or an archive.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Followed(Box<Followed>),
    Kept(Kept),
    Held(Held),
}

/// Runs the command. It needs no key.
pub(super) fn run(args: &StatusArgs) -> Result<(), CommandError> {
    let all = match &args.config {
        Some(file) => {
            let all = config::read(file)?;
            all.iter().map(Followed::known_or_not).collect::<Vec<_>>()
        }
        None => args.place.iter().map(found).collect::<Result<Vec<_>, _>>()?,
    };
    if args.prometheus {
        let followed = |found: &Found| match found {
            Found::Followed(followed) => Ok((**followed).clone()),
            Found::Kept(kept) => Err(CommandError::usage(format!(
                "{} is a standby: metrics are of databases that are followed",
                kept.standby.display()
            ))),
            Found::Held(held) => Err(CommandError::usage(format!(
                "{} is an archive: metrics are of databases that are followed",
                held.archive
            ))),
        };
        let all = all.iter().map(followed).collect::<Result<Vec<_>, _>>()?;
        return metrics::publish(args.output.as_deref(), BEGIN, &prometheus::of(&all));
    }
    match (&all[..], args.json) {
        ([only], true) if args.config.is_none() => Ok(output::json(only)?),
        (all, true) => Ok(output::json(&all)?),
        (all, false) => all.iter().try_for_each(|found| match found {
            Found::Followed(followed) => followed.print(),
            Found::Kept(kept) => kept.print(),
            Found::Held(held) => held.print(),
        }),
    }
}

/// Reads what is known of a database, or what an archive holds.
fn found(name: &OsString) -> Result<Found, CommandError> {
    let place = ArchivePlace::of(name);
    let path = match &place {
        ArchivePlace::Directory(path) if !path.is_dir() => path,
        _ => return Ok(Found::Held(Held::of(&place)?)),
    };
    if let Some(kept) = Kept::of(path)? {
        return Ok(Found::Kept(kept));
    }
    let known = Followed::of(path)?.ok_or_else(|| {
        let path = path.display();
        CommandError::usage(format!(
            "nothing was shipped from {path}: tdekit replicate {path} --to ARCHIVE"
        ))
    })?;
    Ok(Found::Followed(Box::new(known)))
}

impl Followed {
    /// Reads what is recorded beside a database; `None` if nothing is.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn of(path: &Path) -> Result<Option<Self>, CommandError> {
        let database = database_path(path)?;
        let Some(state) = state_of(&database)? else { return Ok(None) };
        let running = is_followed(&database)?;
        let shipped = state.shipped.as_ref();
        Ok(Some(Self {
            running,
            current: state.current_ms.map(date_of_ms),
            last_shipped: shipped.map(|shipped| date_of_ms(shipped.shipped_ms)),
            last_transaction: shipped.map(|shipped| date_of_ms(shipped.time_ms)),
            has_log: shipped.map(Shipped::has_log),
            database,
            state,
        }))
    }

    /// As [`Self::of`], of a database that is to be followed: what is not there is not running.
    fn known_or_not(wanted: &Wanted) -> Found {
        let (known, error) = match Self::of(&wanted.database) {
            Ok(known) => (known, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let unknown = || {
            let error = match (wanted.database.exists(), error) {
                (false, _) => "the database is not there".to_owned(),
                (true, None) => "nothing was shipped yet".to_owned(),
                (true, Some(error)) => error,
            };
            let archive = ArchivePlace::of(&wanted.to).recorded();
            let mut state = State::of(archive);
            state.error = Some(error);
            let (current, last_shipped, last_transaction, has_log) = (None, None, None, None);
            let (database, running) = (wanted.database.clone(), false);
            Self { database, running, current, last_shipped, last_transaction, has_log, state }
        };
        Found::Followed(Box::new(known.unwrap_or_else(unknown)))
    }

    fn print(&self) -> Result<(), CommandError> {
        let Self { database, state, running, .. } = self;
        let process = if *running { "a process follows it" } else { "NO PROCESS FOLLOWS IT" };
        output::line(format_args!("{} to {}: {process}", database.display(), state.archive))?;
        if let Some(current_ms) = state.current_ms {
            let behind_s = now_ms().saturating_sub(current_ms).max(0) / 1000;
            output::line(format_args!(
                "  all that was committed by {} is shipped: {behind_s} s ago",
                date_of_ms(current_ms)
            ))?;
        }
        if let Some(shipped) = &state.shipped {
            output::line(format_args!(
                "  object {} shipped at {}, its last transaction of {}",
                shipped.number,
                date_of_ms(shipped.shipped_ms),
                date_of_ms(shipped.time_ms)
            ))?;
            output::line(format_args!(
                "  the chain begins with object {} of {}: {}, and {} of log sets",
                shipped.first,
                date_of_ms(shipped.snapshot_ms),
                size(shipped.full_bytes),
                size(shipped.log_bytes)
            ))?;
        }
        if self.has_log == Some(false) {
            output::line(format_args!(
                "  it is not in WAL mode: what differs is shipped from time to time"
            ))?;
        }
        match &state.error {
            Some(error) if state.shipped.is_some() => {
                Ok(output::line(format_args!("  the last try failed: {error}"))?)
            }
            Some(error) => Ok(output::line(format_args!("  {error}"))?),
            None => Ok(()),
        }
    }
}

impl Kept {
    fn of(path: &Path) -> Result<Option<Self>, CommandError> {
        let standby = database_path(path)?;
        let Some((state, running)) = standby_of(&standby)? else { return Ok(None) };
        let shipped = state.shipped.as_ref();
        Ok(Some(Self {
            running,
            current: state.current_ms.map(date_of_ms),
            object: shipped.map(|shipped| shipped.number),
            last_transaction: shipped.map(|it| it.time_ms).filter(|ms| *ms > 0).map(date_of_ms),
            error: state.error,
            archive: state.archive,
            standby,
        }))
    }

    fn print(&self) -> Result<(), CommandError> {
        let process = if self.running { "a process keeps it up" } else { "NO PROCESS KEEPS IT UP" };
        let path = self.standby.display();
        output::line(format_args!("{path}, a standby of {}: {process}", self.archive))?;
        if let Some(current) = &self.current {
            output::line(format_args!("  it has all that the archive had at {current}"))?;
        }
        if let Some(object) = self.object {
            let of =
                self.last_transaction.as_ref().map(|at| format!(", its last transaction of {at}"));
            output::line(format_args!("  up to object {object}{}", of.unwrap_or_default()))?;
        }
        match &self.error {
            Some(error) => Ok(output::line(format_args!("  the last try failed: {error}"))?),
            None => Ok(()),
        }
    }
}

impl Held {
    fn of(place: &ArchivePlace) -> Result<Self, CommandError> {
        let archive = Archive::open(place)?;
        let held = |chain: tdekit_backup_run::archive::HeldChain| HeldChain {
            first: chain.first,
            last: chain.last,
            bytes: chain.bytes,
            begun: date_of_ms(chain.begun_ms),
            finished: date_of_ms(chain.finished_ms),
            encrypted: chain.encrypted,
            host: chain.host,
            database: chain.database,
            why: chain.why,
        };
        let chains = archive.chains()?.into_iter().map(held).collect();
        let (objects, bytes) = (archive.objects().len(), archive.objects().values().sum());
        Ok(Self { archive: archive.shown(), objects, bytes, chains })
    }

    fn print(&self) -> Result<(), CommandError> {
        for chain in &self.chains {
            output::line(format_args!(
                "Objects {} to {}: {} from {} to {}, {}, {}{}{}",
                chain.first,
                chain.last,
                chain.database,
                chain.begun,
                chain.finished,
                size(chain.bytes),
                if chain.encrypted { "encrypted" } else { "plain" },
                if chain.why.is_empty() { "" } else { ": " },
                chain.why
            ))?;
        }
        Ok(output::line(format_args!(
            "{}: {} objects, {}",
            self.archive,
            self.objects,
            size(self.bytes)
        ))?)
    }
}
