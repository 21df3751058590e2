//! Checks a server's files, page by page, whether or not the server runs.

mod files;
mod lists;
mod pages;
mod report;
mod scan;
mod tree;
mod trees;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tdekit_mariadb::Keyring;
use tdekit_mariadb::binlog::FindKey;

use self::files::{Found, Unit};
pub use self::report::{Finding, Pages as VersionPages, Report, Tablespace, TreesLeft};
use self::scan::Look;
use crate::client::Client;
use crate::error::MariadbError;
use crate::{Progress, Untold, redo};

/// Data directory of Debian's servers.
const DEFAULT_DATA: &str = "/var/lib/mysql";

/// Time for which a missing file may belong to a table that a server is dropping.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Directories of a server's data.
#[derive(Debug)]
pub struct Places {
    /// The data directory.
    pub data: PathBuf,
    /// The directory of undo tablespaces, if it differs.
    pub undo: Option<PathBuf>,
    /// The directory of the redo log, if it differs.
    pub log: Option<PathBuf>,
}

/// Options of a check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verify {
    /// Check this many random pages of each file, in addition to its first one.
    pub sample: Option<u32>,
    /// Accept tablespaces and tables that are not encrypted at all.
    pub allow_plain: bool,
    /// Accept pages in the clear that are free according to the allocation map.
    pub allow_unused: bool,
}

/// Checks a server's files, with the keys if they are given. `client` is the server itself, if it
/// runs.
///
/// # Errors
/// `NoData`, `Io`, those of `client`. Faults of the files are in the report.
pub fn verify(
    places: &Places,
    how: &Verify,
    keyring: Option<&Keyring>,
    client: Option<&Client<'_>>,
    progress: &dyn Progress,
) -> Result<Report, MariadbError> {
    let found = files::find(&places.data, places.undo.as_deref())?;
    if found.units.is_empty() {
        return Err(MariadbError::NoData { path: places.data.clone() });
    }
    let find = keyring.map(|keyring| |id, version| keyring.key(id, version));
    progress.expects(guessed_pages(&found));
    let log = places.log.as_ref().unwrap_or(&places.data).join(redo::FILE_NAME);
    let look = Look {
        find_key: find.as_ref().map(|find| find as FindKey<'_>),
        sample: how.sample,
        allow_plain: how.allow_plain,
        allow_unused: how.allow_unused,
        log: Some(&log),
        progress,
    };
    let mut report = look_at(&look, &found)?;
    report.data_directory = places.data.display().to_string();
    report.not_checked.extend(left_out(&report, how, &found));
    if let Some(client) = client {
        report.not_checked.extend(without_file(client, &report)?);
    }
    progress.ends();
    Ok(report)
}

/// Finds pages under versions below those in `wanted` for a key. `None` if the server's files
/// cannot be read from here.
pub(crate) fn behind(
    client: &Client<'_>,
    wanted: &dyn Fn(u32) -> Option<u32>,
) -> Result<Option<Behind>, MariadbError> {
    let Some(found) = Places::of(client)
        .ok()
        .and_then(|places| files::find(&places.data, places.undo.as_deref()).ok())
        .filter(|found| !found.units.is_empty())
    else {
        return Ok(None);
    };
    let look = Look {
        find_key: None,
        sample: None,
        allow_plain: true,
        allow_unused: true,
        log: None,
        progress: &Untold,
    };
    let mut behind = Behind::default();
    for unit in &found.units {
        let Unit::Tablespace(paths) = unit else { continue };
        let report = match scan::tablespace(&look, paths) {
            Ok(Some(report)) => report,
            Ok(None) => continue,
            Err(MariadbError::Io { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(oldest) = report.key_id.and_then(wanted) else { continue };
        behind.clear += report.findings.iter().filter(|one| one.kind == "clear").count() as u64;
        behind.clear += report.unused_clear;
        let mut used = 0;
        for (version, pages) in report.versions.range(..oldest) {
            used += pages.used;
            behind.unused += pages.unused;
            behind.oldest = Some(behind.oldest.map_or(*version, |oldest| oldest.min(*version)));
        }
        if used > 0 {
            behind.used.push((report.file, used));
        }
    }
    Ok(Some(behind))
}

/// Pages that a rotation has not reached.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// Files with such pages in use, and their number.
    pub(crate) used: Vec<(String, u64)>,
    /// Number of such pages that are free according to the allocation maps: nothing re-encrypts
    /// them.
    pub(crate) unused: u64,
    /// Number of pages in the clear, which no rotation reaches.
    pub(crate) clear: u64,
    /// The oldest remaining version.
    pub(crate) oldest: Option<u32>,
}

impl Default for Places {
    fn default() -> Self {
        Self { data: DEFAULT_DATA.into(), undo: None, log: None }
    }
}

impl Places {
    /// Asks a server on this machine.
    ///
    /// # Errors
    /// `OtherHost`, `Answer`, `Server`.
    pub fn of(client: &Client<'_>) -> Result<Self, MariadbError> {
        let rows = client.rows(
            "SELECT @@hostname, @@datadir, @@innodb_undo_directory, @@innodb_log_group_home_dir",
        )?;
        let mut fields = rows.into_iter().flatten();
        let host = fields.next().unwrap_or_default();
        // A server on another machine names directories that may belong to another server here.
        if host.as_bytes() != rustix::system::uname().nodename().to_bytes() {
            return Err(MariadbError::OtherHost { host });
        }
        let what = "its data directory";
        let data = fields.next().map(PathBuf::from).ok_or(MariadbError::Answer { what })?;
        let same = |a: &Path, b: &Path| a.canonicalize().ok() == b.canonicalize().ok();
        let mut other = || {
            let directory = fields.next().filter(|directory| directory != "NULL");
            directory.map(|one| data.join(one)).filter(|one| !same(one, &data))
        };
        let (undo, log) = (other(), other());
        Ok(Self { data, undo, log })
    }
}

/// Returns the index files of encrypted Aria tables.
pub(crate) fn encrypted_aria(places: &Places) -> Result<Vec<PathBuf>, MariadbError> {
    let mut encrypted = Vec::new();
    for unit in files::find(&places.data, None)?.units {
        let Unit::Aria(index) = unit else { continue };
        if scan::aria_table(&index)?.is_some_and(|table| table.crypt.is_some()) {
            encrypted.push(index);
        }
    }
    Ok(encrypted)
}

fn look_at(look: &Look<'_>, found: &Found) -> Result<Report, MariadbError> {
    let mut report = Report { opened_with_keys: look.find_key.is_some(), ..Report::default() };
    let mut gone = 0_u64;
    for unit in &found.units {
        let Some(one) = look_at_one(look, found, unit)? else {
            gone += 1;
            continue;
        };
        report.findings += one.finding_count;
        report.pages += one.pages;
        report.pages_checked += one.pages_checked;
        report.trees_checked += one.trees_checked;
        let left = one.trees_not_checked.iter().filter_map(|left| left.trees);
        report.trees_not_checked += left.sum::<u64>();
        report.tablespaces.push(one);
    }
    if gone > 0 {
        report.not_checked.push(format!("{gone} files that went away meanwhile"));
    }
    report.clean = report.findings == 0;
    Ok(report)
}

/// Returns `None` if the unit was dropped in the meantime, without remains.
fn look_at_one(
    look: &Look<'_>,
    found: &Found,
    unit: &Unit,
) -> Result<Option<Tablespace>, MariadbError> {
    let at = || match unit {
        Unit::Tablespace(paths) => scan::tablespace(look, paths),
        Unit::Aria(index) => scan::aria(look, index),
    };
    let one = at()?;
    if one.is_some() || found.left_of(unit).is_none() {
        return Ok(one);
    }
    // A server drops or moves a table file by file.
    thread::sleep(LOOK_AGAIN);
    match at()? {
        None => Ok(found.left_of(unit).map(scan::incomplete)),
        one => Ok(one),
    }
}

/// Returns the parts that were not checked, in sentences.
fn left_out(report: &Report, how: &Verify, found: &Found) -> Vec<String> {
    let mut told = Vec::new();
    if !report.opened_with_keys {
        told.push("whether pages open under their keys (--checksums-only)".to_owned());
    }
    if how.sample.is_some() {
        let left = report.pages.saturating_sub(report.pages_checked);
        told.push(format!("{left} of {} pages, which the sample left out", report.pages));
    }
    let sum = |count: fn(&report::Tablespace) -> u64| -> u64 {
        report.tablespaces.iter().map(count).sum()
    };
    let unopened = sum(|one| one.unopened);
    if report.opened_with_keys && unopened > 0 {
        told.push(format!(
            "whether {unopened} encrypted pages open: nothing in them tells (PAGE_COMPRESSED, and \
             index pages of Aria that are nearly empty)"
        ));
    }
    let doublewrite = sum(|one| one.doublewrite);
    if doublewrite > 0 {
        told.push(format!("{doublewrite} pages of the doublewrite buffer, which are copies"));
    }
    let unused = sum(|one| one.unused_clear);
    if unused > 0 {
        told.push(format!(
            "{unused} pages in the clear that the allocation maps do not give out (--allow-unused)"
        ));
    }
    told.extend(trees_left(report));
    let own = sum(|one| u64::from(one.not_checked == Some(scan::OWN_TABLE)));
    if own > 0 {
        told.push(format!(
            "{own} tables of Aria in {}, which the server itself made and are not encrypted",
            scan::OWN_DATABASES.join(" and ")
        ));
    }
    for one in &report.tablespaces {
        if let Some(why) = one.not_checked.filter(|why| *why != scan::OWN_TABLE) {
            told.push(format!("{}: {why}", one.file));
        }
    }
    if !found.units.iter().any(|unit| matches!(unit, Unit::Tablespace(paths) if paths.len() > 1))
        && !report.tablespaces.iter().any(|one| one.space == Some(0))
    {
        told.push("the system tablespace: its files are not there".to_owned());
    }
    if !found.others.is_empty() {
        let names = found.others.iter().filter_map(|path| path.file_name()?.to_str());
        told.push(format!("files of other kinds: {}", names.collect::<Vec<_>>().join(", ")));
    }
    told
}

/// Describes the trees whose pages were not compared, in one sentence per reason.
fn trees_left(report: &Report) -> Vec<String> {
    let mut all = BTreeMap::<&str, (u64, u64)>::new();
    for left in report.tablespaces.iter().flat_map(|one| &one.trees_not_checked) {
        let (trees, spaces) = all.entry(left.why).or_default();
        match left.trees {
            Some(known) => *trees += known,
            None => *spaces += 1,
        }
    }
    let told = all.into_iter().map(|(why, counts)| {
        let of = match counts {
            (trees, 0) => format!("{trees} index trees"),
            (0, spaces) => format!("index trees of {spaces} tablespaces"),
            (trees, spaces) => format!("{trees} index trees, and those of {spaces} tablespaces"),
        };
        format!("whether the pages of {of} fit together: {why}")
    });
    told.collect()
}

/// Returns tablespaces that the server has but for which no file was found.
fn without_file(client: &Client<'_>, report: &Report) -> Result<Vec<String>, MariadbError> {
    let rows = client.rows(
        "SELECT SPACE, NAME FROM information_schema.INNODB_TABLESPACES_ENCRYPTION \
         WHERE NAME IS NOT NULL",
    )?;
    let seen = |number: &str| {
        report.tablespaces.iter().any(|one| one.space.is_some_and(|one| one.to_string() == *number))
    };
    let missing = rows.into_iter().filter_map(|row| {
        let (number, name) = (row.first()?, row.get(1)?);
        (!seen(number) && name != "innodb_temporary")
            .then(|| format!("tablespace {number} ({name}): its file is elsewhere, or new"))
    });
    Ok(missing.collect())
}

/// Assumes that all pages have the usual length: a guess is enough to show progress.
fn guessed_pages(found: &Found) -> u64 {
    let len = |path: &Path| std::fs::metadata(path).map_or(0, |state| state.len());
    let pages = found.units.iter().map(|unit| match unit {
        Unit::Tablespace(paths) => paths.iter().map(|path| len(path)).sum::<u64>() / 16384,
        Unit::Aria(index) => (len(index) + len(&index.with_extension("MAD"))) / 8192,
    });
    pages.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_file_that_is_missing_is_a_finding() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t.isl"), "/nowhere/at/all/t.ibd\n").unwrap();
        let look = Look {
            find_key: None,
            sample: None,
            allow_plain: true,
            allow_unused: true,
            log: None,
            progress: &Untold,
        };
        let found = files::find(dir.path(), None).unwrap();
        let report = look_at(&look, &found).unwrap();
        assert!(!report.clean && report.not_checked.is_empty(), "{report:?}");
        assert_eq!((report.findings, report.tablespaces[0].findings[0].kind), (1, "missing"));
        assert!(report.tablespaces[0].file.ends_with("t.isl"));
    }
}
