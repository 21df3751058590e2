//! `tdekit replicate status`: how far databases are shipped, and what archives hold.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::archive::{
    Archive, ArchivePlace, Shipped, State, is_followed, standby_of, state_of,
};
use tdekit_backup_run::date_of_ms;
use tdekit_backup_run::labels::now_ms;
use tdekit_console::{ConsoleError, Failure, output};
use tdekit_key_store::led_to;
use tdekit_sqlite_convert::database_path;

use super::config;
use super::follow::Wanted;
use super::prometheus::{self, BEGIN};
use crate::backup::many::worst;
use crate::backup::report::size;
use crate::error::CommandError;
use crate::overview::metrics;

/// The failure of a database whose file is gone.
const GONE: &str = "the database is not there";

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
    /// True if there is no such file now.
    gone: bool,
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
    let looked = match &args.config {
        Some(file) => config::read(file)?.iter().map(Looked::at_wanted).collect::<Vec<_>>(),
        None => args.place.iter().map(Looked::at).collect(),
    };
    let (mut all, mut errors, mut unknown) = (Vec::new(), Vec::new(), false);
    for Looked { found, error } in looked {
        unknown |= found.is_none();
        all.extend(found);
        errors.extend(error);
    }
    // Metrics without one of the databases would hide that it is not known.
    let hides = args.prometheus && unknown;
    if !all.is_empty() && !hides {
        show(args, &all)?;
    }
    let kinds: Vec<_> = errors.iter().map(CommandError::kind).collect();
    let Some(at) = worst(&kinds).and_then(|kind| kinds.iter().position(|it| *it == kind)) else {
        return Ok(());
    };
    let error = errors.swap_remove(at);
    for other in &errors {
        output::note(format_args!("error: {}", output::single(&other.to_string())));
    }
    Err(error)
}

/// Prints what was found.
fn show(args: &StatusArgs, all: &[Found]) -> Result<(), CommandError> {
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
    match (all, args.json) {
        ([only], true) if args.place.len() == 1 => Ok(output::json(only)?),
        (all, true) => Ok(output::json(&all)?),
        (all, false) => all.iter().try_for_each(|found| match found {
            Found::Followed(followed) => followed.print(),
            Found::Kept(kept) => kept.print(),
            Found::Held(held) => held.print(),
        }),
    }
}

/// A look at one of them: what is known, and the error for which that is not all.
struct Looked {
    found: Option<Found>,
    error: Option<CommandError>,
}

impl From<Result<Self, CommandError>> for Looked {
    fn from(looked: Result<Self, CommandError>) -> Self {
        looked.unwrap_or_else(|error| Self { found: None, error: Some(error) })
    }
}

impl Looked {
    /// Reads what is known of a database, or what an archive holds.
    fn at(name: &OsString) -> Self {
        let place = ArchivePlace::of(name);
        match &place {
            ArchivePlace::Directory(path) if !path.is_dir() => Self::beside(path),
            _ => Held::of(&place).map(|held| Self { found: Some(Found::Held(held)), error: None }),
        }
        .into()
    }

    /// Reads what is recorded beside a standby or a database, which may be gone.
    fn beside(path: &Path) -> Result<Self, CommandError> {
        let (path, gone) = located(path)?;
        if let Some(kept) = Kept::of(&path, gone.is_some())? {
            return Ok(Self { found: Some(Found::Kept(kept)), error: gone });
        }
        match Followed::of(&path, gone.is_some())? {
            Some(known) => Ok(Self { found: Some(Found::Followed(Box::new(known))), error: gone }),
            None => Err(gone.unwrap_or(CommandError::NothingShipped { path })),
        }
    }

    /// As [`Self::at`], of a database that is to be followed: it is shown in any case.
    fn at_wanted(wanted: &Wanted) -> Self {
        let database = led_to(&wanted.database).unwrap_or_else(|_| wanted.database.clone());
        let known = located(&database).and_then(|(path, gone)| {
            let known = Followed::of(&path, gone.is_some())?;
            Ok((known, gone))
        });
        let (known, error) = match known {
            Ok((Some(known), gone)) => (known, gone),
            Ok((None, None)) => {
                let error = CommandError::NothingShipped { path: database.clone() };
                (Followed::unknown(wanted, database, "nothing was shipped yet"), Some(error))
            }
            Ok((None, gone)) => (Followed::unknown(wanted, database, GONE), gone),
            Err(error) => (Followed::unknown(wanted, database, &error.to_string()), Some(error)),
        };
        Self { found: Some(Found::Followed(Box::new(known))), error }
    }
}

/// Returns the path of a database or standby; where no file is there, with the error: what is
/// recorded beside it may be read all the same.
fn located(name: &Path) -> Result<(PathBuf, Option<CommandError>), CommandError> {
    match (database_path(name), led_to(name)) {
        (Ok(path), _) => Ok((path, None)),
        (Err(error), Ok(path)) if matches!(path.try_exists(), Ok(false)) => {
            Ok((path, Some(error.into())))
        }
        (Err(error), _) => Err(error.into()),
    }
}

impl Followed {
    /// Reads what is recorded beside a database, which may be `gone`; `None` if nothing is.
    fn of(database: &Path, gone: bool) -> Result<Option<Self>, CommandError> {
        let Some(mut state) = state_of(database)? else { return Ok(None) };
        let running = is_followed(database)?;
        if gone {
            state.error = Some(GONE.to_owned());
        }
        let (shipped, database) = (state.shipped.as_ref(), database.to_owned());
        Ok(Some(Self {
            gone,
            running,
            current: state.current_ms.map(date_of_ms),
            last_shipped: shipped.map(|shipped| date_of_ms(shipped.shipped_ms)),
            last_transaction: shipped.map(|shipped| date_of_ms(shipped.time_ms)),
            has_log: shipped.map(Shipped::has_log),
            database,
            state,
        }))
    }

    /// A database of which no record can be read, for this reason.
    fn unknown(wanted: &Wanted, database: PathBuf, reason: &str) -> Self {
        let mut state = State::of(ArchivePlace::of(&wanted.to).recorded());
        state.error = Some(reason.to_owned());
        let (current, last_shipped, last_transaction, has_log) = (None, None, None, None);
        let running = is_followed(&database).unwrap_or(false);
        let gone = reason == GONE;
        Self { database, gone, running, current, last_shipped, last_transaction, has_log, state }
    }

    fn print(&self) -> Result<(), CommandError> {
        let Self { database, state, running, .. } = self;
        let process = if *running { "a process follows it" } else { "NO PROCESS FOLLOWS IT" };
        row(format_args!("{} to {}: {process}", database.display(), state.archive))?;
        if let Some(current_ms) = state.current_ms {
            let behind_s = now_ms().saturating_sub(current_ms).max(0) / 1000;
            row(format_args!(
                "  all that was committed by {} is shipped: {behind_s} s ago",
                date_of_ms(current_ms)
            ))?;
        }
        if let Some(shipped) = &state.shipped {
            row(format_args!(
                "  object {} shipped at {}, its last transaction of {}",
                shipped.number,
                date_of_ms(shipped.shipped_ms),
                date_of_ms(shipped.time_ms)
            ))?;
            row(format_args!(
                "  the chain begins with object {} of {}: {}, and {} of log sets",
                shipped.first,
                date_of_ms(shipped.snapshot_ms),
                size(shipped.full_bytes),
                size(shipped.log_bytes)
            ))?;
        }
        if self.has_log == Some(false) {
            row(format_args!(
                "  it is not in WAL mode: what differs is shipped from time to time"
            ))?;
        }
        match &state.error {
            Some(error) if state.shipped.is_some() && !self.gone => {
                Ok(row(format_args!("  the last try failed: {error}"))?)
            }
            Some(error) => Ok(row(format_args!("  {error}"))?),
            None => Ok(()),
        }
    }
}

impl Kept {
    /// Reads what is recorded beside a standby, which may be `gone`; `None` if nothing is.
    fn of(standby: &Path, gone: bool) -> Result<Option<Self>, CommandError> {
        let Some((state, running)) = standby_of(standby)? else { return Ok(None) };
        let shipped = state.shipped.as_ref();
        Ok(Some(Self {
            running,
            current: state.current_ms.map(date_of_ms),
            object: shipped.map(|shipped| shipped.number),
            last_transaction: shipped.map(|it| it.time_ms).filter(|ms| *ms > 0).map(date_of_ms),
            error: if gone { Some("the standby is not there".to_owned()) } else { state.error },
            archive: state.archive,
            standby: standby.to_owned(),
        }))
    }

    fn print(&self) -> Result<(), CommandError> {
        let process = if self.running { "a process keeps it up" } else { "NO PROCESS KEEPS IT UP" };
        let path = self.standby.display();
        row(format_args!("{path}, a standby of {}: {process}", self.archive))?;
        if let Some(current) = &self.current {
            row(format_args!("  it has all that the archive had at {current}"))?;
        }
        if let Some(object) = self.object {
            let of =
                self.last_transaction.as_ref().map(|at| format!(", its last transaction of {at}"));
            row(format_args!("  up to object {object}{}", of.unwrap_or_default()))?;
        }
        match &self.error {
            Some(error) => Ok(row(format_args!("  the last try failed: {error}"))?),
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
            row(format_args!(
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
        Ok(row(format_args!("{}: {} objects, {}", self.archive, self.objects, size(self.bytes)))?)
    }
}

/// Prints one line, whatever names and errors are in it: none of them looks like another one.
fn row(text: fmt::Arguments<'_>) -> Result<(), ConsoleError> {
    let text = text.to_string();
    output::line(output::single(&text))
}
