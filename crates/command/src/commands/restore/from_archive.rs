//! A database from an archive, as it was at a point.

use tdekit_backup_run::archive::{Archive, ArchivePlace, At, HeldChain, PassedObject, Point};
use tdekit_backup_run::place::{Place, open};
use tdekit_backup_run::{UnwrapSecret, date_of_ms};
use tdekit_console::{GlobalArgs, output};

use super::readings::record_archive;
use super::{Passed, RestoreArgs, Work, warn_expired};
use crate::backup::progress::{Reporter, run as steer};
use crate::error::CommandError;

/// Restores from an archive, and returns the point. Of what is asked for, everything must be whole.
/// Damage is recorded.
pub(super) fn restore(
    args: &RestoreArgs,
    global: &GlobalArgs,
    place: &ArchivePlace,
) -> Result<Point, CommandError> {
    record_archive(global, restore_point(args, global, place))
}

fn restore_point(
    args: &RestoreArgs,
    global: &GlobalArgs,
    place: &ArchivePlace,
) -> Result<Point, CommandError> {
    let archive = Archive::open(place)?;
    let at = args.at.unwrap_or(At::Latest);
    let sealed = archive.is_encrypted()?;
    let keys = match sealed {
        true => Some(args.keys.open(global)?),
        false => {
            args.keys.refuse_unused("the archive is not encrypted")?;
            None
        }
    };
    let unwrap = keys.as_ref().map(|keys| keys as &dyn UnwrapSecret);
    let mut passed_over = Vec::new();
    let found = match at {
        At::LatestGood => {
            let reporter = Reporter::new("verify", None);
            let report = |progress| reporter.at(progress);
            let steered = steer(args.threads, args.throttle, &report);
            let good = archive.latest_good(sealed, unwrap, &steered);
            reporter.end();
            let (found, passed) = good?;
            for PassedObject { object, reason, .. } in &passed {
                let reason = reason.strip_prefix(object.as_str()).unwrap_or(reason);
                let reason = reason.trim_start_matches([':', ' ']);
                output::warning(format_args!("passed over: {object}: {reason}"));
            }
            passed_over = passed.into_iter().map(Passed::Object).collect();
            found
        }
        at => archive.chain(at)?,
    };
    if sealed {
        found.refuse_plain()?;
    }
    let (chain, point) = found.open(unwrap)?;
    if let At::Time(asked_ms) = at {
        warn_of_seam(&archive, unwrap, (point, asked_ms))?;
    }
    let full = Place::of(archive.object(found.first()).as_ref());
    let opened = open(std::slice::from_ref(&full))?;
    if let Some(keys) = &keys {
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
        findings: Vec::new(),
        passed_over,
        point: Some((place.shown(), point)),
    };
    work.check_policy()?;
    work.database(&[full])?;
    Ok(point)
}

/// Says that transactions may be missing: the time lies between the end of a chain and the full set
/// of the next one.
fn warn_of_seam(
    archive: &Archive,
    unwrap: Option<&dyn UnwrapSecret>,
    (point, asked_ms): (Point, i64),
) -> Result<(), CommandError> {
    let chains = archive.chains()?;
    let ends = |pair: &&[HeldChain]| pair.first().is_some_and(|chain| chain.last == point.number);
    let Some([_, next]) = chains.windows(2).find(ends) else { return Ok(()) };
    let (_, last) = archive.chain(At::Transaction(point.number, None))?.open(unwrap)?;
    if asked_ms > point.time_ms && last.transaction == point.transaction {
        output::warning(format_args!(
            "whatever was committed after {} and before {}, when the next chain began ({}), is not \
             in this state: no log set has it",
            date_of_ms(point.time_ms),
            date_of_ms(next.begun_ms),
            next.why
        ));
    }
    Ok(())
}
