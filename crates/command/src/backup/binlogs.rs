//! Archives of binary logs of MariaDB, which `mariadb archive` makes: one media set a log.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use tdekit_backup_run::archive::{Archive, ArchivePlace};
use tdekit_backup_run::place::{Opened, Place, is_missing};
use tdekit_backup_run::retention::BINARY_LOG;
use tdekit_backup_run::{MediaSets, Root, RunError, SetInfo};

use crate::error::CommandError;
use crate::progress::Shown;

/// The end of the names of the archive's files and objects.
pub(crate) const SUFFIX: &str = ".binlog";

/// Between the length and the beginning of a log.
const BEGINS: &str = ", first event: ";

/// Returns the description of the set of a log.
#[cfg(feature = "mariadb")]
pub(crate) fn description_of(bytes: u64, begins: &str) -> String {
    format!("{BINARY_LOG}{bytes}{BEGINS}{begins}")
}

/// Returns true if a media set holds the log of this name, and nothing else.
#[cfg(feature = "mariadb")]
pub(crate) fn is_log_named(media: &tdekit_backup_run::Media, name: &str) -> bool {
    let whole = media.findings().is_empty();
    matches!(media.sets(), [set] if whole && set.is_binary_log() && set.name == name)
}

/// A binary log in an archive.
pub(crate) struct HeldLog {
    pub(crate) places: Vec<Place>,
    pub(crate) opened: Opened,
    /// The log's name.
    pub(crate) name: String,
    /// Length of the server's file in bytes.
    #[cfg_attr(not(feature = "mariadb"), allow(dead_code))]
    pub(crate) bytes: u64,
    /// The beginning of the server's file.
    #[cfg_attr(not(feature = "mariadb"), allow(dead_code))]
    pub(crate) begins: Option<String>,
}

/// The binary logs of an archive, by their numbers, and what could not be read.
pub(crate) struct Held {
    pub(crate) logs: BTreeMap<u64, HeldLog>,
    pub(crate) unreadable: Vec<String>,
}

/// Returns the archive of binary logs that arguments name, if they do.
pub(crate) fn found(arguments: &[OsString]) -> Result<Option<Root>, CommandError> {
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
        .any(|(_, opened)| opened.media.sets().iter().any(SetInfo::is_binary_log));
    Ok(any.then_some(root))
}

/// Lists an archive.
///
/// # Errors
/// Errors of reading its place; `Usage` for two logs with the same number.
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
        let Some(number) = number.filter(|_| set.is_binary_log()) else { continue };
        let described = set.description.strip_prefix(BINARY_LOG).unwrap_or_default();
        let (length, begins) = match described.split_once(BEGINS) {
            Some((length, begins)) => (length, Some(begins.to_owned())),
            None => (described, None),
        };
        let (name, bytes) = (set.name.clone(), length.parse().unwrap_or(set.payload_bytes));
        if let Some(HeldLog { name: other, .. }) =
            logs.insert(number, HeldLog { places, opened, name: name.clone(), bytes, begins })
        {
            let message =
                format!("{} has two logs with number {number}: {other}, {name}", root.shown());
            return Err(CommandError::usage(message));
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

impl HeldLog {
    pub(crate) fn set(&self) -> Option<&SetInfo> {
        self.opened.media.sets().first()
    }
}

/// Returns the ranges of numbers that lie between logs and are not there.
pub(crate) fn gaps(numbers: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let numbers: Vec<u64> = numbers.collect();
    let pairs = numbers.windows(2).filter_map(|pair| match pair {
        [a, b] if a + 1 < *b => Some((a + 1, b - 1)),
        _ => None,
    });
    pairs.collect()
}

/// Describes such a range.
pub(crate) fn gap_text((first, last): (u64, u64)) -> String {
    format!("logs {first} to {last} are not in it: nothing is replayed across that")
}

/// Returns the error about an archive with a fault.
pub(crate) fn damaged(root: &Root, reason: String) -> RunError {
    RunError::Damaged { media: root.shown(), what: "the archive".to_owned(), reason }
}
