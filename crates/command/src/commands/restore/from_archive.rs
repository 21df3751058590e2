//! A database from an archive, as it was at a point.

use tdekit_backup_run::UnwrapSecret;
use tdekit_backup_run::archive::{Archive, ArchivePlace, At, PassedObject, Point};
use tdekit_backup_run::place::{Place, open};
use tdekit_console::{GlobalArgs, output};

use super::{Passed, RestoreArgs, Work, warn_expired};
use crate::backup::progress::{Reporter, run as steer};
use crate::error::CommandError;

/// Restores from an archive, and returns the point. Of what is asked for, everything must be whole.
pub(super) fn restore(
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
