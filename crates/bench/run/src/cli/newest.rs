//! Names of results and pages: each run has its own, and a short name links to the newest.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::write::Files;
use crate::error::{BenchError, Result};
use crate::private::parent_of;

/// Sorts by time, and needs no quotes in a shell.
const MOMENT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]-[hour][minute][second]");
const RESULTS: &str = "results.json";
const REPORT: &str = "report.html";

/// Returns the files of a run: as given, else named after the time, in UTC.
pub(super) fn files_of_run(json: Option<&Path>, html: Option<&Path>, at: OffsetDateTime) -> Files {
    files_of([json, html], [RESULTS, REPORT], at)
}

/// The same of a comparison.
pub(super) fn files_of_comparison(given: [Option<&Path>; 2], at: OffsetDateTime) -> Files {
    files_of(given, ["comparison.json", "comparison.html"], at)
}

fn files_of([json, html]: [Option<&Path>; 2], usual: [&str; 2], at: OffsetDateTime) -> Files {
    let mut short = Vec::new();
    let mut named = |given: Option<&Path>, usual: &str| match given {
        Some(path) => path.to_owned(),
        None => {
            let own = own_name(Path::new(usual), at);
            short.push((usual.into(), own.clone()));
            own
        }
    };
    Files { json: named(json, usual[0]), html: named(html, usual[1]), short }
}

/// Makes the short name link to a run's own file. An older run's file under the short name is
/// renamed to its own name.
///
/// # Errors
/// That of a directory without support for links, and those of the file system.
pub(super) fn lead(short: &Path, own: &Path) -> io::Result<()> {
    match fs::symlink_metadata(short) {
        Ok(found) if found.is_file() => {
            fs::rename(short, own_name(short, found.modified()?.into()))?;
        }
        Ok(found) if !found.is_symlink() => return Err(io::ErrorKind::AlreadyExists.into()),
        _ => {}
    }
    let made = own.with_extension("link");
    symlink(own.file_name().unwrap_or(own.as_os_str()), &made)?;
    fs::rename(&made, short).inspect_err(|_| {
        let _not_left = fs::remove_file(&made);
    })
}

/// Returns true if a link was created by [`lead`].
pub(super) fn leads(link: &Path) -> bool {
    let Ok(to) = fs::read_link(link) else { return false };
    let begin = link.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    to.components().count() == 1
        && to.extension() == link.extension()
        && to.to_str().and_then(|to| to.strip_prefix(begin)).is_some_and(|at| at.starts_with('-'))
}

/// Returns the results of the last two runs in this directory, by their names: the older, the
/// newer.
///
/// # Errors
/// `Option` if there are fewer; `File`.
pub(super) fn last_two() -> Result<(PathBuf, PathBuf)> {
    let begin = format!("{}-2", stem(Path::new(RESULTS)));
    let here = Path::new(".");
    let mut found = Vec::new();
    for entry in fs::read_dir(here).map_err(BenchError::file("cannot read", here))? {
        let entry = entry.map_err(BenchError::file("cannot read", here))?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let name = entry.file_name();
        let is_one = name.to_str().is_some_and(|it| it.starts_with(&begin) && it.ends_with("json"));
        let is_one = is_one && is_file;
        found.extend(is_one.then(|| PathBuf::from(name)));
    }
    found.sort();
    match (found.pop(), found.pop()) {
        (Some(newer), Some(older)) => Ok((older, newer)),
        _ => {
            let reason = "there are no two documents results-TIME.json here: name two";
            Err(BenchError::option("compare", reason))
        }
    }
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// Returns an unused name.
fn own_name(short: &Path, at: OffsetDateTime) -> PathBuf {
    let moment = at.to_offset(time::UtcOffset::UTC).format(MOMENT).unwrap_or_default();
    let extension = short.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let named = |number: &str| {
        let name = format!("{}-{moment}{number}.{extension}", stem(short));
        match short.parent() {
            Some(parent) if parent != Path::new("") => parent_of(short).join(name),
            _ => name.into(),
        }
    };
    let mut own = named("");
    let mut number = 1;
    while fs::symlink_metadata(&own).is_ok() {
        number += 1;
        own = named(&format!("-{number}"));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_leads_to_the_newest_and_nothing_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let short = directory.path().join("results.json");
        // A file with the short name from an older run.
        fs::write(&short, "first").unwrap();
        let mut texts = vec!["first".to_owned()];
        for text in ["second", "third"] {
            let own = own_name(&short, OffsetDateTime::UNIX_EPOCH);
            fs::write(&own, text).unwrap();
            lead(&short, &own).unwrap();
            assert_eq!(fs::read_to_string(&short).unwrap(), text);
            assert!(leads(&short) && !leads(&own));
            texts.push(text.to_owned());
        }
        let mut found: Vec<String> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| !path.is_symlink())
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        found.sort();
        texts.sort();
        assert_eq!(found, texts);
        let named = directory.path().join("results-1970-01-01-000000-2.json");
        assert_eq!(fs::read_to_string(named).unwrap(), "third");

        let other = directory.path().join("other.json");
        symlink("elsewhere.json", &other).unwrap();
        assert!(!leads(&other));
        fs::create_dir(directory.path().join("report.html")).unwrap();
        lead(&directory.path().join("report.html"), &other).unwrap_err();
    }
}
