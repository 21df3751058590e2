//! Tests: attached databases, and the files that their names lead to.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tdekit_wire_endpoint::Sessions;
use tdekit_wire_tsql::Error;

use crate::databases::{Databases, fill};
use crate::files::Drives;

struct Place {
    dir: tempfile::TempDir,
    databases: Databases,
}

impl Place {
    /// An empty served directory, and another that is D:.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data", "d"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let drives = Drives::new(BTreeMap::from([('D', dir.path().join("d"))])).unwrap();
        let databases =
            Databases::new(&dir.path().join("data"), Sessions::default(), drives).unwrap();
        Self { dir, databases }
    }

    /// Makes an empty database in D:.
    fn file(&self, name: &str) -> PathBuf {
        let path = std::fs::canonicalize(self.dir.path()).unwrap().join("d").join(name);
        std::fs::write(&path, "").unwrap();
        fill(&path).unwrap();
        path
    }

    fn uri(&self, name: &str) -> Result<String, i32> {
        self.databases.opening(name).map(|(_, uri)| uri).map_err(|error| number(&error))
    }
}

fn number(error: &Error) -> i32 {
    error.code().0
}

fn uri_of(path: &Path) -> String {
    format!("file:{}?mode=rw", path.display())
}

#[test]
fn a_name_leads_to_the_file_that_it_has_behind_the_gate() {
    let place = Place::new();
    let (one, two) = (place.file("one.mdf"), place.file("two.mdf"));
    let databases = &place.databases;
    assert_eq!(place.uri("at"), Err(911));
    databases.register("at", &one).unwrap();
    assert_eq!(place.uri("at"), Ok(uri_of(&one)));
    let found = databases.find("AT").unwrap();
    let taken = databases.take(&found).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| place.uri("at"));
        // It has looked at the names by now, if it does that before the gate.
        thread::sleep(Duration::from_millis(200));
        databases.forget("at").unwrap();
        databases.register("at", &two).unwrap();
        drop(taken);
        assert_eq!(waiting.join().unwrap(), Ok(uri_of(&two)));
    });
    assert!(databases.take(&found).is_none(), "the name has another file by now");
    assert!(databases.take(&databases.find("at").unwrap()).is_some());
    std::fs::remove_file(&two).unwrap();
    assert_eq!(place.uri("at"), Err(945));
}

#[test]
fn a_single_database_that_was_dropped_is_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one.db");
    std::fs::write(&path, "").unwrap();
    fill(&path).unwrap();
    let databases = Databases::new(&path, Sessions::default(), Drives::default()).unwrap();
    assert_eq!(databases.find("one").unwrap().name, "one");
    databases.remove("one").unwrap();
    assert!(!path.exists());
    assert_eq!(databases.found(), Ok(Vec::new()));
    assert_eq!(databases.find("one").err().map(|error| number(&error)), Some(911));
}
