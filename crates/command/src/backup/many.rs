//! Targets with `{name}` and `{date}`, and the choice between a full and a differential set.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tdekit_backup_run::date_of_ms;
use tdekit_backup_run::labels::now_ms;
use tdekit_backup_run::place::{Place, is_missing, open};
use tdekit_console::output;
use tdekit_key_crypto::Kind;

use crate::error::CommandError;

const NAME: &str = "{name}";
const DATE: &str = "{date}";
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Length of `2026-11-28`.
const DATE_CHARS: usize = 10;

/// Returns true if each target has a place for a database's name.
pub(crate) fn have_names(to: &[OsString]) -> bool {
    to.iter().all(|to| to.to_str().is_some_and(|text| text.contains(NAME)))
}

/// Returns the worst of several kinds of failures: damage first.
pub(crate) fn worst(kinds: &[Kind]) -> Option<Kind> {
    let order = [Kind::Damaged, Kind::Io, Kind::Key, Kind::NotVerified, Kind::Busy, Kind::Refused];
    let rank = |kind: &&Kind| order.iter().position(|it| it == *kind).unwrap_or(order.len());
    kinds.iter().min_by_key(rank).copied()
}

/// Returns the name of a database in a target: that of its file, without what follows the last dot.
pub(crate) fn name_of(database: &Path) -> OsString {
    database.file_stem().unwrap_or(database.as_os_str()).to_owned()
}

/// Returns the databases of which another one has the same name.
pub(crate) fn namesake(databases: &[PathBuf]) -> Option<(&PathBuf, &PathBuf)> {
    databases.iter().enumerate().find_map(|(at, one)| {
        let mut others = databases.iter().take(at);
        others.find(|other| name_of(other) == name_of(one)).map(|other| (other, one))
    })
}

/// Refuses a placeholder that nothing stands for: it would become part of a file's name.
fn refuse_unknown(text: &str) -> Result<(), CommandError> {
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('{') {
        rest = behind;
        let Some((word, _)) = behind.split_once('}') else { break };
        let is_word = word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if is_word && ![NAME, DATE].contains(&format!("{{{word}}}").as_str()) {
            return Err(CommandError::usage(format!(
                "--to has {{{word}}}, and nothing stands for that: {NAME} and {DATE} are known"
            )));
        }
    }
    Ok(())
}

/// Puts a database's name and the date of a time, in UTC, into the targets.
///
/// # Errors
/// `Usage` for a name that is not a name of a file, and for another placeholder.
pub(crate) fn expanded(
    to: &[OsString],
    name: &OsStr,
    at_ms: i64,
) -> Result<Vec<OsString>, CommandError> {
    let date: String = date_of_ms(at_ms).chars().take(DATE_CHARS).collect();
    to.iter()
        .map(|to| {
            // A path that is not text is taken as it is.
            let Some(text) = to.to_str() else { return Ok(to.clone()) };
            refuse_unknown(text)?;
            let text = text.replace(DATE, &date);
            if !text.contains(NAME) {
                return Ok(text.into());
            }
            match name.to_str().filter(|name| !name.is_empty() && !name.contains('/')) {
                Some(name) => Ok(text.replace(NAME, name).into()),
                None => Err(CommandError::usage(format!(
                    "{} has no name for {NAME} in --to",
                    name.to_string_lossy()
                ))),
            }
        })
        .collect()
}

/// The database of a backup, as its sets name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    /// Zeros if it is not encrypted.
    pub(crate) file_id: [u8; 16],
}

/// Returns the targets for a differential set: the newest media set of these targets, if the full
/// set in it that would be the base is younger than `age`. Otherwise a full set is due.
///
/// # Errors
/// As [`expanded`].
pub(crate) fn differential(
    to: &[OsString],
    (name, subject): (&OsStr, Subject<'_>),
    age: Duration,
) -> Result<Option<Vec<OsString>>, CommandError> {
    let now_ms = now_ms();
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let dated = to.iter().any(|to| to.to_str().is_some_and(|text| text.contains(DATE)));
    // A media set has the date of its first set, which is the full one.
    let days = if dated { age_ms / DAY_MS + 1 } else { 0 };
    for day in 0..=days {
        let targets = expanded(to, name, now_ms.saturating_sub(day.saturating_mul(DAY_MS)))?;
        let opened = match open(&Place::all(&targets)?) {
            Ok(opened) => opened,
            Err(error) if is_missing(&error) => continue,
            Err(error) => {
                output::warning(format_args!("a full set is made: {error}"));
                return Ok(None);
            }
        };
        let base = opened.media.base_for(subject.name, &subject.file_id);
        let young = base.is_some_and(|base| base.begun_ms > now_ms.saturating_sub(age_ms));
        return Ok(young.then_some(targets));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(to: &[&str]) -> Vec<OsString> {
        to.iter().map(OsString::from).collect()
    }

    #[test]
    fn names_and_dates_are_put_into_targets() {
        let to = texts(&["/b/{name}-{date}.bak", "s3://b/{name}/{date}", "{ x}.bak"]);
        assert!(!have_names(&to) && have_names(&to[..2]));
        let name = name_of(Path::new("/srv/app.v2.db"));
        let targets = expanded(&to, &name, 1_795_867_200_000).unwrap();
        assert_eq!(
            targets,
            texts(&["/b/app.v2-2026-11-28.bak", "s3://b/app.v2/2026-11-28", "{ x}.bak"])
        );
        for wrong in ["{nam}.bak", "{name}-{host}.bak", "{{name}}-{}.bak"] {
            assert!(expanded(&texts(&[wrong]), &name, 0).is_err(), "{wrong}");
        }
        assert!(expanded(&to, OsStr::new("a/b"), 0).is_err());
        assert!(expanded(&to, OsStr::new(""), 0).is_err());
    }

    #[test]
    fn two_databases_of_one_name_are_found() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(namesake(&paths(&["a/x.db", "a/y.db"])), None);
        let same = paths(&["a/x.db", "b/y.db", "b/x.sqlite"]);
        assert_eq!(namesake(&same), Some((&same[0], &same[2])));
    }
}
