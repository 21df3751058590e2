//! Restoring binary logs of MariaDB from an archive, for a replay.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tdekit_backup_run::archive::At;
use tdekit_backup_run::signature::{refuse_wrong, require_signed};
use tdekit_backup_run::stream::StreamFile;
use tdekit_backup_run::{
    CatalogUse, FindingReport, Keys, Root, UnwrapSecret, date_of_ms, downgrade, history,
};
use tdekit_console::{GlobalArgs, output, session};

use super::RestoreArgs;
use super::options::Source;
use crate::backup::binlog_end::ended_at;
use crate::backup::binlogs::{Held, HeldLog, gap_text, gaps, held, unsound};
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::warn_reports;
use crate::error::CommandError;

/// Writes the logs to a new directory, and shows how they are replayed.
pub(super) fn restore(
    args: &RestoreArgs,
    global: &GlobalArgs,
    root: Root,
) -> Result<(), CommandError> {
    args.refuse_unheeded(Source::Binlogs)?;
    let stop = match args.at {
        None | Some(At::Latest) => None,
        Some(At::Time(time_ms)) => Some(time_ms),
        Some(_) => return Err(CommandError::usage("--at takes a time, of binary logs")),
    };
    let Held { logs, unreadable } = held(&root)?;
    let faults = unreadable.len();
    if let Some(first) = unreadable.into_iter().next() {
        return Err(unsound(&root, first, faults));
    }
    logs.values().try_for_each(|log| log.refuse_findings(global, &root))?;
    let sealed = logs.values().any(|log| log.set().is_some_and(|set| set.algorithm.is_some()));
    let keys: Option<Keys> = match sealed {
        true => Some(args.keys.open(global)?),
        false => {
            args.keys.refuse_unused("the logs are not encrypted")?;
            None
        }
    };
    DirBuilder::new()
        .mode(0o700)
        .create(&args.to)
        .map_err(|error| CommandError::io("make", &args.to, error))?;
    let mut written = Vec::new();
    for log in logs.values() {
        match log.write(args, global, (keys.as_ref(), &args.to)) {
            Ok(path) => written.push(path),
            Err(error) => {
                // The whole archive was asked for, not the part that is whole.
                written.iter().for_each(|path| drop(fs::remove_file(path)));
                let _ = fs::remove_dir(&args.to);
                return Err(error);
            }
        }
    }
    if let (Some(stop_ms), Some(last), Some(path)) = (stop, logs.values().last(), written.last()) {
        warn_of_end(last, path, stop_ms)?;
    }
    tell(&args.to, &logs.keys().copied().zip(written).collect::<Vec<_>>(), stop)?;
    let missing = gaps(logs.keys().copied());
    match missing.first() {
        None => Ok(()),
        Some(gap) => Err(unsound(&root, gap_text(*gap), missing.len())),
    }
}

impl HeldLog {
    /// Refuses an object with a finding, as `verify` does: its one set is the whole object.
    fn refuse_findings(&self, global: &GlobalArgs, root: &Root) -> Result<(), CommandError> {
        let mut findings = FindingReport::all(global, &self.opened.media);
        findings.retain(|finding| !finding.is_not_compared());
        match findings.first() {
            Some(first) => Err(unsound(root, first.message.clone(), findings.len())),
            None => Ok(()),
        }
    }

    fn write(
        &self,
        args: &RestoreArgs,
        global: &GlobalArgs,
        (keys, directory): (Option<&Keys>, &Path),
    ) -> Result<PathBuf, CommandError> {
        let media = &self.opened.media;
        warn_reports(&FindingReport::all(global, media));
        let unwrap = keys.map(|keys| keys as &dyn UnwrapSecret);
        let mut chain = media.chain(Some(1), unwrap)?;
        let store = args.keys.for_store(global);
        let policy = downgrade::policy(&store)?;
        let reporter = Reporter::new("restore", args.stats);
        let report = |progress| reporter.at(progress);
        let steered = steer(args.threads.unwrap_or_default(), args.throttle, &report);
        if !args.allow_unauthenticated {
            downgrade::refuse_plain(&policy, &chain.sets().collect::<Vec<_>>())?;
            match args.signed_by.as_ref().or(policy.signed_by.as_ref()) {
                Some(certificate) => {
                    let store = session::open_store(&store).ok();
                    require_signed(&mut chain, certificate, store.as_ref(), &steered)?;
                }
                None => refuse_wrong(&mut chain, &steered)?,
            }
        }
        let path = directory.join(&self.name);
        let mut file = StreamFile::create(&path, false)?;
        file.own(args.ownership())?;
        let restored = chain.restore_stream(&mut file, &steered);
        reporter.end();
        restored?;
        if let Some(error) = file.publish()? {
            return Err(error.into());
        }
        history::record_use(global, media, 1, CatalogUse::Stream, Some(&path));
        Ok(path)
    }
}

/// Says what is not known of a time that is later than the end of the last log.
fn warn_of_end(last: &HeldLog, path: &Path, stop_ms: i64) -> Result<(), CommandError> {
    let ended = ended_at(path).map_err(|error| CommandError::io("read", path, error))?;
    let stop_s = stop_ms.div_euclid(1000);
    let is_earlier = |known_s: u32| i64::from(known_s) < stop_s;
    let date = |seconds: i64| date_of_ms(seconds.saturating_mul(1000));
    let (name, stop) = (&last.name, date(stop_s));
    match (ended, last.begun_s()) {
        (Some(ended), _) if is_earlier(ended) => output::warning(format_args!(
            "the last log, {name}, was ended at {}: whatever was committed after that, and before \
             {stop}, is in none of these logs",
            date(ended.into())
        )),
        (None, Some(begun)) if is_earlier(begun) => output::warning(format_args!(
            "the last log, {name}, was begun at {}, and nothing shows when it was ended: whatever \
             was committed after that, and before {stop}, may be in none of these logs",
            date(begun.into())
        )),
        (None, None) => output::warning(format_args!(
            "nothing shows when the last log, {name}, was ended: whatever was committed before \
             {stop} may be in none of these logs"
        )),
        (Some(_), _) | (None, Some(_)) => {}
    }
    Ok(())
}

/// Shows the lines that replay the logs: one for each run without a gap.
fn tell(to: &Path, logs: &[(u64, PathBuf)], stop: Option<i64>) -> Result<(), CommandError> {
    output::row(format_args!("Wrote {} binary logs to {}.", logs.len(), to.display()))?;
    let stop = match stop {
        // Without the fraction: an event has a time in seconds, and the first one of this second
        // is not replayed.
        Some(time_ms) => date_of_ms(time_ms).chars().take(19).collect::<String>().replace('T', " "),
        None => "YYYY-MM-DD HH:MM:SS".to_owned(),
    };
    output::row(
        "To replay them on a restored backup, give its file and position (xtrabackup_binlog_info), \
         and leave out the files before that one:",
    )?;
    let follows = |a: &(u64, PathBuf), b: &(u64, PathBuf)| a.0.checked_add(1) == Some(b.0);
    for run in logs.chunk_by(follows) {
        let files: Vec<_> = run.iter().map(|(_, path)| output::shell_path(path)).collect();
        output::row(format_args!(
            "  TZ=UTC mariadb-binlog --start-position=POSITION --stop-datetime='{stop}' {} \
             | mariadb",
            files.join(" ")
        ))?;
    }
    Ok(())
}
