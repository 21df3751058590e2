//! A database from an archive, as it was at a point.

use std::collections::BTreeMap;
use std::path::Path;

use tdekit_backup_run::archive::{
    Archive, ArchiveError, ArchivePlace, At, HeldChain, OpenChain, PassedObject, Point,
    explain_removed,
};
use tdekit_backup_run::history::record_wrong_state;
use tdekit_backup_run::place::open;
use tdekit_backup_run::readings::record_objects;
use tdekit_backup_run::trial::restore_chain_on_trial;
use tdekit_backup_run::{FindingReport, Keys, RunError, SetInfo, UnwrapSecret, date_of_ms};
use tdekit_console::{ConsoleError, GlobalArgs, output};

use super::readings::record_archive;
use super::report::Passed;
use super::{RestoreArgs, Work, warn_expired};
use crate::backup::progress::{Reporter, run as steer};
use crate::error::CommandError;

/// Restores from an archive, and returns the point. Of what is asked for, everything must be whole.
/// Damage is recorded.
pub(super) fn restore(
    args: &RestoreArgs,
    global: &GlobalArgs,
    place: &ArchivePlace,
) -> Result<Point, CommandError> {
    let archive = Archive::open(place)?;
    let ended = restore_point(args, global, (place, &archive));
    record_archive(global, &archive, ended.map_err(|error| removed(global, &archive, error)))
        .map_err(in_archive)
}

/// Names the objects that `prune` removed.
fn removed(global: &GlobalArgs, archive: &Archive, error: CommandError) -> CommandError {
    match error {
        CommandError::Console(ConsoleError::Run(error)) => {
            explain_removed(global, archive, error).into()
        }
        error => error,
    }
}

fn in_archive(error: CommandError) -> CommandError {
    match error {
        CommandError::Console(ConsoleError::Run(error)) => error.in_archive().into(),
        error => error,
    }
}

/// Refuses an archive of another database than the one that is asked for.
fn refuse_other_database(args: &RestoreArgs, set: &SetInfo) -> Result<(), CommandError> {
    match &args.database {
        Some(name) if *name != set.database_name && *name != set.path => {
            Err(CommandError::usage(format!(
                "--database {name}: the archive is of database {}, {}",
                set.database_name, set.path
            )))
        }
        _ => Ok(()),
    }
}

fn restore_point(
    args: &RestoreArgs,
    global: &GlobalArgs,
    (place, archive): (&ArchivePlace, &Archive),
) -> Result<Point, CommandError> {
    let at = args.at.unwrap_or(At::Latest);
    let sealed = archive.is_encrypted()?;
    let keys = match sealed {
        true => Some(args.keys.open(global)?),
        false => {
            args.keys.refuse_unused("the archive is not encrypted")?;
            None
        }
    };
    let from = From { args, global, place, archive, sealed, keys: keys.as_ref() };
    // Objects that open, and that turned out wrong when pages were made of them.
    let mut known = BTreeMap::new();
    loop {
        let error = match from.restore(at, &known) {
            Err(CommandError::Console(ConsoleError::Run(error))) => from.first_wrong(at, error)?,
            ended => return ended,
        };
        match &error {
            RunError::Archive(wrong @ ArchiveError::WrongState { number, .. })
                if at == At::LatestGood && !known.contains_key(number) =>
            {
                known.insert(*number, wrong.clone());
            }
            _ => return Err(error.into()),
        }
    }
}

/// A restore from an archive that is open.
struct From<'a> {
    args: &'a RestoreArgs,
    global: &'a GlobalArgs,
    place: &'a ArchivePlace,
    archive: &'a Archive,
    /// True if the archive is encrypted.
    sealed: bool,
    keys: Option<&'a Keys>,
}

impl From<'_> {
    /// Restores a point. The newest good one is before the objects in `known`.
    fn restore(&self, at: At, known: &BTreeMap<u64, ArchiveError>) -> Result<Point, CommandError> {
        let Self { args, global, place, archive, sealed, keys } = *self;
        let unwrap = keys.map(|keys| keys as &dyn UnwrapSecret);
        let (found, passed_over) = match at {
            At::LatestGood => self.latest_good(known)?,
            at => (archive.chain(at)?, Vec::new()),
        };
        if sealed {
            found.refuse_plain()?;
        }
        refuse_other_database(args, found.full()?)?;
        let (chain, point) = found.open(unwrap)?;
        if let Some(doubt) = archive.doubt() {
            output::warning(doubt);
        }
        if let Some(unsure) = archive.unsure(point.number) {
            output::warning(unsure);
        }
        let known_to = match at {
            At::Time(asked_ms) => warn_of_end(archive, (point, asked_ms))?,
            _ => None,
        };
        let unread = self.unread_record(point);
        self.warn_of_other_archive(point);
        let full = archive.place_of(found.first());
        let opened = open(std::slice::from_ref(&full))?;
        if let Some(keys) = keys {
            warn_expired(keys, &chain, global);
        }
        let mut work = Work {
            args,
            global,
            opened: &opened,
            set: found.full()?,
            keys,
            chain,
            signed: false,
            findings: unread.into_iter().collect(),
            passed_over: passed_over.iter().cloned().map(Passed::Object).collect(),
            point: Some((place.shown(), point)),
            known_to,
        };
        work.check_policy()?;
        let ended = work.database(&[full]);
        if let Err(CommandError::Console(ConsoleError::Run(RunError::Archive(
            ArchiveError::WrongState { .. },
        )))) = &ended
        {
            record_wrong_state(global, archive, point.number);
        }
        ended?;
        let passed = passed_over.iter().map(|passed| passed.number);
        let passed: Vec<_> = passed.filter(|number| !known.contains_key(number)).collect();
        record_objects(global, archive, &passed);
        for PassedObject { object, reason, .. } in &passed_over {
            let reason = reason.strip_prefix(object.as_str()).unwrap_or(reason);
            let reason = reason.trim_start_matches([':', ' ']);
            output::warning(format_args!("passed over: {object}: {reason}"));
        }
        Ok(point)
    }

    /// Says that newer objects may be missing, if the point is in the last one and the record
    /// beside the database names another archive, from which this one was copied or moved.
    fn warn_of_other_archive(&self, point: Point) {
        let last = self.archive.objects().keys().next_back();
        if let Some(other) = self.archive.other_archive().filter(|_| last == Some(&point.number)) {
            output::warning(other);
        }
    }

    /// Says that newer objects may be missing, if the point is in the last one and the record
    /// beside the database, which would show that, cannot be read.
    fn unread_record(&self, point: Point) -> Option<FindingReport> {
        let last = self.archive.objects().keys().next_back();
        let error = self.archive.unread_record().filter(|_| last == Some(&point.number))?;
        let finding = FindingReport::record_not_read(error.to_string());
        output::warning(&finding.message);
        Some(finding)
    }

    /// Returns the error of a restore: where an object is wrong, that of the first one. The error
    /// may name one that became wrong by it. For a state of pages that is wrong, the chain is
    /// restored object by object beside the destination.
    fn first_wrong(&self, at: At, error: RunError) -> Result<RunError, CommandError> {
        let keys = self.keys.map(|keys| keys as &dyn UnwrapSecret);
        let reporter = Reporter::new("verify", None);
        let report = |progress| reporter.at(progress);
        let steered = steer(self.args.threads.unwrap_or_default(), self.args.throttle, &report);
        let directory = match self.args.to.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let found = match error {
            RunError::Archive(ArchiveError::WrongState { number, .. }) => {
                let with = (directory, &steered);
                match restore_chain_on_trial(self.archive, number, keys, with) {
                    Err(first @ RunError::Archive(ArchiveError::WrongState { .. })) => Ok(first),
                    Err(RunError::Cancelled) => Err(RunError::Cancelled),
                    _ => Ok(error),
                }
            }
            error if at == At::LatestGood => Ok(error),
            error => self.archive.first_fault((at, error), self.sealed, (keys, &steered)),
        };
        reporter.end();
        Ok(found?)
    }

    /// Finds the last point up to which the archive is whole, and all that is behind it.
    fn latest_good(
        &self,
        known: &BTreeMap<u64, ArchiveError>,
    ) -> Result<(OpenChain, Vec<PassedObject>), CommandError> {
        let unwrap = self.keys.map(|keys| keys as &dyn UnwrapSecret);
        let reporter = Reporter::new("verify", None);
        let report = |progress| reporter.at(progress);
        let steered = steer(self.args.threads.unwrap_or_default(), self.args.throttle, &report);
        let good = self.archive.latest_good(self.sealed, known, (unwrap, &steered));
        reporter.end();
        Ok(good?)
    }
}

/// Says what is not known of a time that lies behind the end of a chain. Returns the time up to
/// which the archive is known to have everything, if no other chain goes on behind it.
///
/// # Errors
/// Those of a place that cannot be read.
fn warn_of_end(
    archive: &Archive,
    (point, asked_ms): (Point, i64),
) -> Result<Option<i64>, CommandError> {
    if asked_ms <= point.time_ms || !archive.is_last_of_object(point) {
        return Ok(None);
    }
    let chains = archive.chains()?;
    let ends = |pair: &&[HeldChain]| pair.first().is_some_and(|chain| chain.last == point.number);
    if let Some([_, next]) = chains.windows(2).find(ends) {
        output::warning(format_args!(
            "whatever was committed after {} and before {}, when the next chain began ({}), is not \
             in this state: no log set has it",
            date_of_ms(point.time_ms),
            date_of_ms(next.begun_ms),
            next.why
        ));
        return Ok(None);
    }
    let known_to = archive.known_to(point, asked_ms);
    if let Some(known_ms) = known_to {
        output::warning(format_args!(
            "{} is known to have everything up to {}: whatever was committed after that, and up to \
             {}, may be missing in this state, and be in one that is restored later",
            archive.shown(),
            date_of_ms(known_ms),
            date_of_ms(asked_ms)
        ));
    }
    Ok(known_to)
}
