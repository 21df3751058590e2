//! Binary logs of MariaDB from an archive that `mariadb archive` made: one media set a log.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tdekit_backup_run::archive::{Archive, ArchivePlace, At};
use tdekit_backup_run::place::{Opened, Place, is_missing};
use tdekit_backup_run::retention::BINARY_LOG;
use tdekit_backup_run::signature::{refuse_wrong, require_signed};
use tdekit_backup_run::stream::StreamFile;
use tdekit_backup_run::{
    CatalogUse, FindingReport, Keys, MediaSets, Root, RunError, SetInfo, SourceKind, UnwrapSecret,
    date_of_ms, downgrade, history,
};
use tdekit_console::{GlobalArgs, output, session};

use super::{RestoreArgs, Shown};
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::warn_reports;
use crate::error::CommandError;

/// The end of the names of the archive's files and objects.
pub(crate) const SUFFIX: &str = ".binlog";
/// Returns the description of the set of a log.
#[cfg(feature = "mariadb")]
pub(crate) fn description_of(bytes: u64) -> String {
    format!("{BINARY_LOG}{bytes}")
}

/// A binary log in an archive.
pub(crate) struct HeldLog {
    opened: Opened,
    /// The log's name.
    pub(crate) name: String,
    /// Length of the server's file in bytes.
    #[cfg_attr(not(feature = "mariadb"), allow(dead_code))]
    pub(crate) bytes: u64,
}

/// The binary logs of an archive, by their numbers, and what could not be read.
pub(crate) struct Held {
    pub(crate) logs: BTreeMap<u64, HeldLog>,
    pub(crate) unreadable: Vec<String>,
}

/// Returns the archive of binary logs that arguments name, if they do.
pub(super) fn found(arguments: &[OsString]) -> Result<Option<Root>, CommandError> {
    let [only] = arguments else { return Ok(None) };
    let path = Path::new(only);
    if path.is_dir() {
        let named = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with(SUFFIX);
        let mut entries =
            fs::read_dir(path).map_err(|error| CommandError::io("read", path, error))?;
        let any = entries.any(|entry| entry.is_ok_and(named));
        return Ok(if any { Some(Root::of(only).map_err(CommandError::from)?) } else { None });
    }
    let place = Place::of(only);
    let missing = matches!(place, Place::Object(_))
        && place.source().err().is_some_and(|error| is_missing(&error));
    if !missing || Archive::open(&ArchivePlace::of(only)).is_ok() {
        return Ok(None);
    }
    let root = Root::of(only)?;
    let any = MediaSets::find(&root, &Shown::default())?
        .any(|(_, opened)| opened.media.sets().iter().any(is_log));
    Ok(any.then_some(root))
}

fn is_log(set: &SetInfo) -> bool {
    set.source == SourceKind::Stream && set.description.starts_with(BINARY_LOG)
}

/// Lists an archive.
///
/// # Errors
/// Those of its place; `Usage` for two logs of one number.
pub(crate) fn held(root: &Root) -> Result<Held, CommandError> {
    let mut sets = MediaSets::find(root, &Shown::default())?;
    let (mut logs, mut wrong) = (BTreeMap::new(), Vec::new());
    for (places, opened) in sets.by_ref() {
        let [set] = opened.media.sets() else {
            wrong.extend(places.iter().map(Place::shown).filter(|it| is_named_as_log(it)));
            continue;
        };
        let own = format!("{}{SUFFIX}", set.name);
        let is_own = |name: &String| name.rsplit('/').next() == Some(own.as_str());
        wrong.extend(
            places.iter().map(Place::shown).filter(|it| is_named_as_log(it) && !is_own(it)),
        );
        let number = set.name.rsplit_once('.').and_then(|(_, digits)| digits.parse::<u64>().ok());
        let Some(number) = number.filter(|_| is_log(set)) else { continue };
        let length = set.description.strip_prefix(BINARY_LOG).and_then(|it| it.parse().ok());
        let (name, bytes) = (set.name.clone(), length.unwrap_or(set.payload_bytes));
        if let Some(HeldLog { name: other, .. }) =
            logs.insert(number, HeldLog { opened, name: name.clone(), bytes })
        {
            let told = format!("{} holds two logs {number}: {other} and {name}", root.shown());
            return Err(CommandError::usage(told));
        }
    }
    let unreadable = sets.unreadable().iter();
    let unreadable = unreadable.map(|it| format!("{}: {}", it.path.display(), it.error));
    wrong.extend(sets.others().iter().filter(|it| is_named_as_log(it)).cloned());
    let wrong = wrong.into_iter().map(|name| format!("{name} does not hold the log of its name"));
    Ok(Held { logs, unreadable: unreadable.chain(wrong).collect() })
}

fn is_named_as_log(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// Writes the logs to a new directory, and shows how they are replayed.
pub(super) fn restore(
    args: &RestoreArgs,
    global: &GlobalArgs,
    root: Root,
) -> Result<(), CommandError> {
    refuse_options(args)?;
    let stop = match args.at {
        None | Some(At::Latest) => None,
        Some(At::Time(time_ms)) => Some(time_ms),
        Some(_) => return Err(CommandError::usage("--at takes a time, of binary logs")),
    };
    let Held { logs, unreadable } = held(&root)?;
    if let Some(first) = unreadable.into_iter().next() {
        return Err(RunError::Damaged {
            media: root.shown(),
            what: "the archive".to_owned(),
            reason: first,
        }
        .into());
    }
    let sealed = logs.values().any(|log| log.set().is_some_and(|set| set.algorithm.is_some()));
    let keys: Option<Keys> = if sealed { Some(args.keys.open(global)?) } else { None };
    DirBuilder::new()
        .mode(0o700)
        .create(&args.to)
        .map_err(|error| CommandError::io("make", &args.to, error))?;
    let mut written = Vec::new();
    for log in logs.values() {
        match log.write(args, global, (keys.as_ref(), &args.to)) {
            Ok(path) => written.push(path),
            Err(error) => {
                // What is whole alone is not what was asked for.
                written.iter().for_each(|path| drop(fs::remove_file(path)));
                let _ = fs::remove_dir(&args.to);
                return Err(error);
            }
        }
    }
    let numbers: Vec<u64> = logs.keys().copied().collect();
    tell(&args.to, &numbers.iter().copied().zip(written).collect::<Vec<_>>(), stop)?;
    let gap = numbers.windows(2).find_map(|pair| match pair {
        [a, b] if a + 1 != *b => Some((a + 1, b - 1)),
        _ => None,
    });
    match gap {
        None => Ok(()),
        Some((first, last)) => Err(RunError::Damaged {
            media: root.shown(),
            what: "the archive".to_owned(),
            reason: format!(
                "logs {first} to {last} are not in it: nothing is replayed across that"
            ),
        }
        .into()),
    }
}

/// Refuses options that mean nothing for a directory of logs.
fn refuse_options(args: &RestoreArgs) -> Result<(), CommandError> {
    let given = [
        (args.json, "--json"),
        (args.follow, "--follow"),
        (args.position.is_some(), "--position"),
        (args.latest_readable, "--latest-readable"),
        (args.database.is_some(), "--database"),
        (args.replace, "--replace"),
        (args.plain, "--plain"),
        (!args.certificate.is_empty(), "--certificate"),
        (args.check, "--check"),
        (args.to == Path::new("-"), "--to -"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => {
            let told = format!("{option} is not for an archive of binary logs");
            Err(CommandError::usage(told))
        }
        None => Ok(()),
    }
}

impl HeldLog {
    fn set(&self) -> Option<&SetInfo> {
        self.opened.media.sets().first()
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
        let steered = steer(args.threads, args.throttle, &report);
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

/// Shows the lines that replay the logs: one for each run without a gap.
fn tell(to: &Path, logs: &[(u64, PathBuf)], stop: Option<i64>) -> Result<(), CommandError> {
    output::line(format_args!("Wrote {} binary logs to {}.", logs.len(), to.display()))?;
    let stop = match stop {
        // Without the fraction: an event has a time in seconds, and the first one of this second
        // is not replayed.
        Some(time_ms) => date_of_ms(time_ms).chars().take(19).collect::<String>().replace('T', " "),
        None => "YYYY-MM-DD HH:MM:SS".to_owned(),
    };
    output::line(
        "To replay them on a restored backup, give its file and position (xtrabackup_binlog_info), \
         and leave out the files before that one:",
    )?;
    let follows = |a: &(u64, PathBuf), b: &(u64, PathBuf)| a.0.checked_add(1) == Some(b.0);
    for run in logs.chunk_by(follows) {
        let files: Vec<_> = run.iter().map(|(_, path)| output::shell_path(path)).collect();
        output::line(format_args!(
            "  TZ=UTC mariadb-binlog --start-position=POSITION --stop-datetime='{stop}' {} \
             | mariadb",
            files.join(" ")
        ))?;
    }
    Ok(())
}
