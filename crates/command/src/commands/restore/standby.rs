//! A standby: a database that is kept as an archive is.

use std::path::Path;
use std::sync::Arc;

use tdekit_backup_run::archive::{
    Archive, ArchiveError, ArchivePlace, At, Standby, StandbyEvent, StandbyRecord, StandbyWith,
};
use tdekit_backup_run::database::publish::{Over, destination};
use tdekit_backup_run::database::source::look;
use tdekit_backup_run::downgrade;
use tdekit_backup_run::labels::now_ms;
use tdekit_backup_run::signature::{refuse_wrong, require_signed};
use tdekit_backup_run::{Chain, Run, RunError, UnwrapSecret, date_of_ms};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_sqlite_convert::{FileKind, database_path};

use super::{RestoreArgs, from_archive};
use crate::backup::progress::run as steer;
use crate::commands::replicate::open_with;
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::stop_flag;

/// Restores the archive's last point, unless that was done, and keeps the database up from then on.
pub(super) fn follow(
    args: &RestoreArgs,
    global: &GlobalArgs,
    place: &ArchivePlace,
) -> Result<(), CommandError> {
    let path = match args.to.exists() {
        true => database_path(&args.to)?,
        false => destination(&args.to, Over::Nothing)?,
    };
    let mut record = StandbyRecord::open(&path, place)?;
    let archive = if record.existed && path.exists() {
        let mut tell = |event| tell(&path, place, &event);
        let archive = record.wait_for_archive((&path, place), stop_flag(), &mut tell)?;
        let Some(archive) = archive else { return Ok(()) };
        // An archive that is damaged is named, and read again, as ever.
        if is_other_layout(args, place).unwrap_or(false) {
            return Err(other_layout());
        }
        archive
    } else {
        let restored = refuse_other_layout(args, place)
            .and_then(|()| from_archive::restore(args, global, place));
        match restored {
            Ok(point) => record.made(&path, place, point.number)?,
            Err(error) => {
                if !record.existed {
                    record.remove();
                }
                return Err(error);
            }
        }
        Archive::open(place)?
    };
    keep_up(args, global, (place, archive.is_encrypted()?), (&path, record))
}

fn keep_up(
    args: &RestoreArgs,
    global: &GlobalArgs,
    (place, is_sealed): (&ArchivePlace, bool),
    (path, record): (&Path, StandbyRecord),
) -> Result<(), CommandError> {
    let keys = match is_sealed {
        true => Some(args.keys.open(global)?),
        false => None,
    };
    let own = args.keys.for_store(global);
    let policy = downgrade::policy(&own)?;
    let store = session::open_store(&own).ok();
    let signed_by = args.signed_by.as_ref().or(policy.signed_by.as_ref());
    let (path, area) = look(path)?;
    let is_encrypted = FileKind::of(&area) == FileKind::Encrypted;
    let accept = |chain: &mut Chain<'_>, run: &Run<'_>| -> Result<(), RunError> {
        let of_encrypted = chain.sets().any(|set| set.source_encrypted);
        // Pages of a plain database have no room for seals.
        if of_encrypted != is_encrypted && !(of_encrypted && args.plain) {
            return Err(ArchiveError::OtherStandby { path: path.clone(), is_encrypted }.into());
        }
        if args.allow_unauthenticated {
            return Ok(());
        }
        downgrade::refuse_plain(&policy, &chain.sets().collect::<Vec<_>>())?;
        match signed_by {
            Some(certificate) => require_signed(chain, certificate, store.as_ref(), run),
            None => refuse_wrong(chain, run),
        }
    };
    let unlocked = match is_encrypted {
        true => Some(open_store_for(&path, &own)?),
        false => None,
    };
    let opened = path.clone();
    let open = Box::new(move || open_with(&opened, unlocked.as_ref().map(Arc::clone).as_ref()));
    let run = steer(args.threads.unwrap_or_default(), args.throttle, &|_| {});
    let with = StandbyWith {
        place: place.clone(),
        open,
        keys: keys.as_ref().map(|keys| keys as &dyn UnwrapSecret),
        accept: &accept,
        every: args.every,
        run: &run,
    };
    let mut standby = Standby::begin(&path, record, with)?;
    Ok(standby.run(stop_flag(), &mut |event| tell(&path, place, &event))?)
}

/// Refuses a standby whose pages are not those of the archive: pages are taken as they are.
fn refuse_other_layout(args: &RestoreArgs, place: &ArchivePlace) -> Result<(), CommandError> {
    match is_other_layout(args, place)? {
        true => Err(other_layout()),
        false => Ok(()),
    }
}

fn is_other_layout(args: &RestoreArgs, place: &ArchivePlace) -> Result<bool, CommandError> {
    if args.certificate.is_empty() {
        return Ok(false);
    }
    let found = Archive::open(place)?.chain(At::Latest)?;
    Ok(!found.full()?.source_encrypted)
}

fn other_layout() -> CommandError {
    CommandError::usage(
        "the database of the archive is plain, and pages of an encrypted one have less room: \
         --follow makes a plain standby of it",
    )
}

fn tell(path: &Path, place: &ArchivePlace, event: &StandbyEvent) {
    let (at, archive, path) = (date_of_ms(now_ms()), place.shown(), path.display());
    match event {
        StandbyEvent::Synced { why, point, pages } => output::note(format_args!(
            "{at} {path}: compared with {archive}, as {why}: {pages} pages written, up to \
             transaction {point}"
        )),
        StandbyEvent::Goes(number) => {
            output::note(format_args!("{at} {path} goes on behind object {number} of {archive}"));
        }
        StandbyEvent::Applied(point) => {
            output::note(format_args!("{at} {path}: up to transaction {point}"));
        }
        StandbyEvent::Failed(error, wait) => output::warning(format_args!(
            "{at} {path} is not kept up: {error}; again in {:.1} s",
            wait.as_secs_f64()
        )),
    }
}
