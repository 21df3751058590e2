//! The files of a data directory that are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tdekit_mariadb::MARK_FILE;

use crate::error::{MariadbError, failed};

/// Files that are checked together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    /// A tablespace of InnoDB, of one file or, for the system tablespace, several in this order.
    Tablespace(Vec<PathBuf>),
    /// A table of Aria, by its index file.
    Aria(PathBuf),
}

/// The files of a data directory.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) units: BTreeSet<Unit>,
    /// The `.isl` files, by the path in each of them.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Existing files that are not checked: redo log, binary logs, Aria's log and others.
    pub(super) others: BTreeSet<PathBuf>,
}

/// Searches a data directory, and the directory of undo tablespaces if it differs.
///
/// # Errors
/// Those of a directory that cannot be read.
pub(super) fn find(data: &Path, undo: Option<&Path>) -> Result<Found, MariadbError> {
    let mut found = Found::default();
    let mut system = Vec::new();
    for path in entries(data)? {
        if path.is_dir() {
            for inner in entries(&path)? {
                found.take(&inner);
            }
            continue;
        }
        match numbered(&path, "ibdata") {
            Some(number) => system.push((number, path)),
            None => found.take(&path),
        }
    }
    system.sort();
    if !system.is_empty() {
        let files = system.into_iter().map(|(_, path)| path).collect();
        found.units.insert(Unit::Tablespace(files));
    }
    if let Some(undo) = undo.filter(|undo| *undo != data) {
        for path in entries(undo)? {
            if is_undo(&path) {
                found.take(&path);
            }
        }
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, path: &Path) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let of_space = |path: &Path| Unit::Tablespace(vec![path.to_owned()]);
        match extension {
            Some("ibd") => _ = self.units.insert(of_space(path)),
            // Contains the path of a table in another directory.
            Some("isl") => {
                let target = target_of(path);
                self.units.insert(of_space(&target));
                self.links.insert(target, path.to_owned());
            }
            Some("MAI") => _ = self.units.insert(Unit::Aria(path.to_owned())),
            Some("MAD" | "frm" | "opt" | "cfg" | "TRG" | "TRN") => {}
            _ if path.ends_with(MARK_FILE) => {}
            _ if is_undo(path) => _ = self.units.insert(of_space(path)),
            _ if path.is_file() => _ = self.others.insert(path.to_owned()),
            _ => {}
        }
    }
}

/// The rest of a unit with a missing file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// One of its existing files.
    pub(super) path: PathBuf,
    pub(super) engine: &'static str,
    /// The fault.
    pub(super) told: String,
}

impl Found {
    /// Returns the rest of a unit with a missing file. A dropped unit leaves nothing.
    pub(super) fn left_of(&self, unit: &Unit) -> Option<Left> {
        let stands = |path: &Path| fs::symlink_metadata(path).is_ok();
        match unit {
            Unit::Aria(index) => stands(index).then(|| Left {
                path: index.clone(),
                engine: "Aria",
                told: "its data file, or the file that it links to, is not there".to_owned(),
            }),
            Unit::Tablespace(paths) => {
                let target = paths.first()?;
                let (path, told) = match self.links.get(target) {
                    Some(link) if stands(link) && target_of(link) == *target => {
                        (link, format!("it names {}, which is not there", target.display()))
                    }
                    _ => {
                        let is_left = |path: &&PathBuf| stands(path) && !path.exists();
                        let told = "it links to a file that is not there";
                        (paths.iter().find(is_left)?, told.to_owned())
                    }
                };
                Some(Left { path: path.clone(), engine: "InnoDB", told })
            }
        }
    }
}

/// Returns the file that an `.isl` file names; empty if it cannot be read.
fn target_of(link: &Path) -> PathBuf {
    PathBuf::from(fs::read_to_string(link).unwrap_or_default().trim())
}

/// Returns true if a file has the name of an undo tablespace.
pub(super) fn is_undo(path: &Path) -> bool {
    numbered(path, "undo").is_some()
}

/// Returns the number of a file whose name is a word and a number.
fn numbered(path: &Path, word: &str) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(word)?.parse().ok()
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, MariadbError> {
    let failed = failed("read", dir);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(&failed)? {
        paths.push(entry.map_err(&failed)?.path());
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_file_is_found_once() {
        let dir = tempfile::tempdir().unwrap();
        let (data, undo) = (dir.path().join("data"), dir.path().join("undo"));
        for made in [&data, &undo, &data.join("test")] {
            fs::create_dir_all(made).unwrap();
        }
        let files = ["ibdata10", "ibdata2", "ibdata1", "ib_logfile0", "undo001", "test/t.ibd"];
        for name in files.iter().chain(&["test/t.frm", "test/a.MAI", "test/a.MAD"]) {
            fs::write(data.join(name), "x").unwrap();
        }
        fs::write(data.join("test/far.isl"), "/elsewhere/test/far.ibd\n").unwrap();
        fs::write(undo.join("undo002"), "x").unwrap();
        let found = find(&data, Some(&undo)).unwrap();
        let one = |path: PathBuf| Unit::Tablespace(vec![path]);
        let system = ["ibdata1", "ibdata2", "ibdata10"].map(|name| data.join(name)).to_vec();
        let expected = [
            Unit::Tablespace(system),
            one(data.join("undo001")),
            one(undo.join("undo002")),
            one(data.join("test/t.ibd")),
            one("/elsewhere/test/far.ibd".into()),
            Unit::Aria(data.join("test/a.MAI")),
        ];
        assert_eq!(found.units, expected.into());
        assert_eq!(found.others, [data.join("ib_logfile0")].into());
        assert!(find(&dir.path().join("none"), None).is_err());
    }

    #[test]
    fn what_a_missing_file_leaves_is_told_and_what_was_dropped_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        let (link, far) = (data.join("t.isl"), data.join("far").join("t.ibd"));
        fs::write(&link, format!("{}\n", far.display())).unwrap();
        std::os::unix::fs::symlink("nowhere", data.join("s.ibd")).unwrap();
        fs::write(data.join("a.MAI"), "x").unwrap();
        fs::write(data.join("empty.isl"), "").unwrap();
        let found = find(data, None).unwrap();
        let left: Vec<_> = found.units.iter().map(|unit| found.left_of(unit)).collect();
        let mut names: Vec<_> = left.iter().flatten().map(|left| left.path.clone()).collect();
        names.sort();
        let all = ["a.MAI", "empty.isl", "s.ibd", "t.isl"].map(|name| data.join(name));
        assert_eq!(names, all);
        let told = |path: &Path| {
            let mut left = left.iter().flatten();
            left.find(|left| left.path == path).map(|left| left.told.clone()).unwrap()
        };
        assert!(told(&link).contains("far/t.ibd"), "{}", told(&link));
        // Dropped: the link is gone as well, or names another file now.
        fs::remove_file(data.join("a.MAI")).unwrap();
        fs::remove_file(data.join("s.ibd")).unwrap();
        fs::remove_file(data.join("empty.isl")).unwrap();
        fs::write(&link, "/elsewhere/t.ibd").unwrap();
        assert!(found.units.iter().all(|unit| found.left_of(unit).is_none()));
    }
}
