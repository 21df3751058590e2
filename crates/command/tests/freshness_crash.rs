//! `freshness on|off|accept`, interrupted anywhere: every image opens as the state before or after,
//! and an older state that is restored later is still detected. A program by itself: it takes the
//! directory of the anchors back to earlier states.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/common/mod.rs"]
mod common;
#[path = "it/databases/mod.rs"]
mod databases;
#[path = "it/powercut/mod.rs"]
mod powercut;

use std::fs;
use std::path::{Path, PathBuf};

use crate::databases::{Dir, dump, encrypt, fill, open, place};
use crate::powercut::{Choice, each_image};
use rusqlite::Connection;
use tdekit_faults_sqlite::trace::{is_possible, record};

const HEADER_LEN: usize = 16384;
const PAGE_LEN: usize = 4096;
/// Offset in a header slot of the format version (docs/format/page.md): 2 is freshness.
const VERSION_AT: usize = 16;

fn set_mode(db: &Connection, mode: &str) {
    db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("PRAGMA synchronous = FULL").unwrap();
}

/// Returns the content, if the database opens as an application opens it.
fn content(path: &Path) -> Result<Vec<String>, String> {
    let db = Connection::open(path).map_err(|error| error.to_string())?;
    let told: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if told == "ok" { Ok(dump(&db)) } else { Err(told) }
}

fn status(path: &Path) -> serde_json::Value {
    let run = place().run(["freshness", "status", path.to_str().unwrap(), "--json"]);
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"))
}

fn versions(path: &Path) -> [u8; 2] {
    let bytes = fs::read(path).unwrap();
    [bytes[VERSION_AT], bytes[8192 + VERSION_AT]]
}

/// Restores an old page under a database that has changed since; also restores the old header.
fn older_is_told(path: &Path, old: &[u8], what: &str) {
    let db = open(path);
    db.execute("UPDATE t SET a = 'later ' || id", []).unwrap();
    drop(db);
    let now = fs::read(path).unwrap();
    let told = (HEADER_LEN..now.len().min(old.len())).step_by(PAGE_LEN).any(|at| {
        let page = at..at + PAGE_LEN;
        let mut mixed = now.clone();
        mixed[page.clone()].copy_from_slice(&old[page.clone()]);
        mixed != now && {
            fs::write(path, mixed).unwrap();
            content(path).is_err()
        }
    });
    assert!(told, "{what}: no older page is told");
    if old[VERSION_AT] == 1 {
        let mut mixed = now.clone();
        mixed[..HEADER_LEN].copy_from_slice(&old[..HEADER_LEN]);
        fs::write(path, mixed).unwrap();
        assert!(content(path).is_err(), "{what}: an older header is not told");
    }
    fs::write(path, now).unwrap();
}

/// Crashes one recorded change, starting from this state.
fn crash(mode: &str, action: &str, most: usize) -> usize {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 60);
    let name = path.to_str().unwrap().to_owned();
    encrypt(&path, &[]);
    let old = fs::read(&path).unwrap();
    if action != "on" {
        place().ok(["freshness", "on", &name]);
    }
    let db = open(&path);
    set_mode(&db, mode);
    db.execute("UPDATE t SET a = 'before ' || id", []).unwrap();
    let whole = dump(&db);
    // As a crash leaves it, with a log if there is one.
    let kept: Vec<_> = ["app.db", "app.db-wal", "app.db-seals", "app.db-seals2"]
        .into_iter()
        .filter_map(|name| fs::read(dir.path(name)).ok().map(|bytes| (name, bytes)))
        .collect();
    let anchor = PathBuf::from(status(&path)["anchor"].as_str().unwrap());
    let kept_anchor = fs::read(&anchor).ok();
    drop(db);
    for (name, bytes) in kept {
        fs::write(dir.path(name), bytes).unwrap();
    }
    if let Some(bytes) = kept_anchor {
        fs::write(&anchor, bytes).unwrap();
    }
    let roots = [dir.path(""), anchor.parent().unwrap().to_owned()];
    let command = place().command(["freshness", action, &name]);
    let traced = record(&command, &roots, None).unwrap();
    assert!(traced.output.status.success(), "{traced:?}");
    let mut at = 0;
    let images = each_image(&traced.log, &roots, Choice::of(most), |image| {
        let what = format!("{mode} {action}: {}", image.what);
        let found = content(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found, whole, "{what}");
        at += 1;
        let [first, second] = versions(&path);
        let is_on = first == 2 && second == 2;
        if is_on && at % 3 == 0 {
            older_is_told(&path, &old, &what);
            assert_eq!(content(&path).unwrap().len(), whole.len(), "{what}");
        } else if at % 9 == 1 {
            // The next run succeeds.
            place().ok(["freshness", action, &name]);
            assert_eq!(content(&path).as_ref(), Ok(&whole), "{what}");
            let on = action != "off";
            assert_eq!(status(&path)["freshness"], on, "{what}");
            assert_eq!(status(&path)["last_state"], on, "{what}");
            assert_eq!(anchor.exists(), on, "{what}");
            if on {
                older_is_told(&path, &old, &what);
            }
        }
    });
    drop(dir);
    images
}

/// In one test, and the first in its own store: the directory of the anchors is made, too.
#[test]
fn a_change_of_freshness_that_is_cut_short_leaves_before_or_afterwards() {
    if !is_possible() {
        return;
    }
    for action in ["on", "off", "accept"] {
        for mode in ["delete", "wal"] {
            let images = crash(mode, action, 20);
            eprintln!("{action} in {mode}: {images} images");
            assert!(images >= 5, "{action} in {mode}: {images} images");
        }
    }
}
