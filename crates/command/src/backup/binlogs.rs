//! Archives of binary logs of MariaDB, which `mariadb archive` makes: one media set a log.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::Serialize;
use tdekit_backup_run::archive::{Archive, ArchivePlace};
use tdekit_backup_run::place::{Opened, Place, is_missing, open};
use tdekit_backup_run::retention::BINARY_LOG;
use tdekit_backup_run::{Media, MediaSets, Root, SetInfo, date_of_ms};

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
pub(crate) fn is_log_named(media: &Media, name: &str) -> bool {
    let whole = media.findings().is_empty();
    matches!(media.sets(), [set] if whole && set.is_binary_log() && set.name == name)
}

/// The binary log of a set, as far as its header describes it. Only the header's MAC proves it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DescribedLog {
    /// The log's name.
    pub(crate) name: String,
    /// Length of the server's file in bytes.
    pub(crate) bytes: u64,
    /// Time of its first event, at which the server began it; `None` in sets of older versions.
    pub(crate) begun: Option<String>,
    /// The header of that event, hexadecimal.
    #[serde(skip)]
    pub(crate) begins: Option<String>,
}

impl DescribedLog {
    /// Returns what the header of a set has; `None` if it holds no binary log.
    pub(crate) fn of(set: &SetInfo) -> Option<Self> {
        let described = set.description.strip_prefix(BINARY_LOG).filter(|_| set.is_binary_log())?;
        let (length, begins) = match described.split_once(BEGINS) {
            Some((length, begins)) => (length, Some(begins)),
            None => (described, None),
        };
        Some(Self {
            name: set.name.clone(),
            bytes: length.parse().unwrap_or(set.payload_bytes),
            begun: begins.and_then(time_of),
            begins: begins.map(str::to_owned),
        })
    }
}

/// Returns the time in the header of an event: its first four bytes, in seconds since 1970.
fn time_of(header: &str) -> Option<String> {
    seconds_of(header).map(|seconds| date_of_ms(i64::from(seconds) * 1000))
}

fn seconds_of(header: &str) -> Option<u32> {
    let bytes = hex::decode(header).ok()?;
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
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
    pub(crate) begins: Option<String>,
}

/// The binary logs of an archive, by their numbers, and what could not be read.
pub(crate) struct Held {
    pub(crate) logs: BTreeMap<u64, HeldLog>,
    pub(crate) unreadable: Vec<String>,
}

/// Returns the archive of binary logs that arguments name, or several objects of one, if they do.
pub(crate) fn found(arguments: &[OsString]) -> Result<Option<Root>, CommandError> {
    let [only] = arguments else { return found_several(arguments) };
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

/// Several logs. One that cannot be opened is named later; copies of one log are its mirrors.
fn found_several(arguments: &[OsString]) -> Result<Option<Root>, CommandError> {
    let places = Place::all(arguments)?;
    let mut ids = BTreeSet::new();
    for place in &places {
        match open(std::slice::from_ref(place)) {
            Ok(Opened { media, .. }) if media.sets().iter().any(SetInfo::is_binary_log) => {
                ids.insert(media.id());
            }
            Ok(_) => return Ok(None),
            Err(error) if is_missing(&error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok((ids.len() > 1).then_some(Root::Several(places)))
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
        let numbered = numbered(set).map(|(_, number)| number).zip(DescribedLog::of(set));
        let Some((number, DescribedLog { name, bytes, begins, .. })) = numbered else { continue };
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

/// Returns the name that all logs of a server have, and the number, of the set of a binary log.
fn numbered(set: &SetInfo) -> Option<(&str, u64)> {
    let (stem, digits) = set.name.rsplit_once('.').filter(|_| set.is_binary_log())?;
    Some((stem, digits.parse().ok()?))
}

/// Returns a text for each range of logs that are not among media sets, between two that are there:
/// of the same server, in the same directory.
pub(crate) fn lacking<'a>(media: impl Iterator<Item = (&'a Place, &'a Media)>) -> Vec<String> {
    let mut archives: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
    for (place, media) in media {
        let shown = place.shown();
        let directory = shown.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
        for (stem, number) in media.sets().iter().filter_map(numbered) {
            archives.entry((directory.clone(), stem.to_owned())).or_default().insert(number);
        }
    }
    let gaps_of = |((directory, stem), numbers): ((String, String), BTreeSet<u64>)| {
        let told = move |gap| format!("{directory}, {stem}: {}", gap_text(gap));
        gaps(numbers.into_iter()).into_iter().map(told)
    };
    archives.into_iter().flat_map(gaps_of).collect()
}

fn is_named_as_log(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

impl HeldLog {
    pub(crate) fn set(&self) -> Option<&SetInfo> {
        self.opened.media.sets().first()
    }

    /// Returns the time at which the server began the log, in seconds since 1970; `None` in sets of
    /// older versions.
    pub(crate) fn begun_s(&self) -> Option<u32> {
        seconds_of(self.begins.as_deref()?)
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

/// Returns the error about an archive with faults.
pub(crate) fn unsound(root: &Root, first: String, findings: usize) -> CommandError {
    CommandError::UnsoundLogs { archive: root.shown(), first, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_event_is_read_and_nothing_else_is_a_time() {
        let header = format!(
            "{}0f01000000fc000000000100000000",
            hex::encode(1_764_457_445_u32.to_le_bytes())
        );
        assert_eq!(time_of(&header).unwrap(), date_of_ms(1_764_457_445_000));
        for wrong in ["", "e5", "no", "\u{e4}\u{e4}\u{e4}\u{e4}"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }
}
