//! Which files of a data directory there are to look at.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{MariadbError, failed};

/// The files that are checked as one.
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
    /// Files that are there and are not looked at: redo log, binary logs, Aria's log and such.
    pub(super) others: BTreeSet<PathBuf>,
}

/// Looks through a data directory, and one that undo tablespaces are in where it is another.
///
/// # Errors
/// Of a directory that cannot be read.
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
            if numbered(&path, "undo").is_some() {
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
            // Holds the path of a table that lies in another directory.
            Some("isl") => {
                let target = fs::read_to_string(path).unwrap_or_default();
                self.units.insert(of_space(Path::new(target.trim())));
            }
            Some("MAI") => _ = self.units.insert(Unit::Aria(path.to_owned())),
            Some("MAD" | "frm" | "opt" | "cfg" | "TRG" | "TRN") => {}
            _ if numbered(path, "undo").is_some() => _ = self.units.insert(of_space(path)),
            _ if path.is_file() => _ = self.others.insert(path.to_owned()),
            _ => {}
        }
    }
}

/// The number of a file that is named by a word and a number.
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
}
