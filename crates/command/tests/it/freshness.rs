//! `freshness`: a restored older state of a database is detected.

use std::fs;
use std::path::{Path, PathBuf};

use crate::databases::{Dir, dump, fill, one, open, place, try_open};
use rusqlite::Connection;

const PAGE_LEN: usize = 4096;
const HEADER_LEN: usize = 16384;
/// Offset in a header slot of the format version (docs/format/page.md).
const VERSION_AT: usize = 16;

fn database(dir: &Dir, mode: &str) -> PathBuf {
    let path = dir.path("app.db");
    fill(&path, 2000);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert", "--freshness"]);
    one_mode(&open(&path), mode);
    path
}

fn one_mode(db: &Connection, mode: &str) {
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn change(path: &Path, text: &str) {
    open(path).execute("UPDATE t SET a = ?1", [text]).unwrap();
}

/// Returns true if an application can read the whole database.
fn reads(path: &Path) -> bool {
    let checked = try_open(path)
        .and_then(|db| db.query_row("PRAGMA quick_check", [], |row| row.get::<_, String>(0)));
    checked.is_ok_and(|told| told == "ok")
}

fn status(path: &Path) -> serde_json::Value {
    place().json(["freshness", "status", path.to_str().unwrap(), "--json"])
}

fn is_told(path: &Path) -> String {
    assert!(!reads(path));
    place().fails(4, ["freshness", "status", path.to_str().unwrap()])
}

/// Freshness is kept by file id, which a copy shares: its anchor would report the original as
/// older.
#[test]
fn a_copy_is_not_given_freshness_beside_its_original() {
    let dir = Dir::new();
    let (path, copy) = (dir.path("app.db"), dir.path("copy.db"));
    fill(&path, 100);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert"]);
    fs::copy(&path, &copy).unwrap();
    let told = place().fails(1, ["freshness", "on", copy.to_str().unwrap()]);
    assert!(told.contains("is a copy of") && told.contains("VACUUM INTO"), "{told}");
    assert!(reads(&path) && reads(&copy));
    // A file of somebody else's that has the name of the list.
    fs::write(beside(&path, "-seals"), "mine").unwrap();
    place().fails(1, ["freshness", "on", path.to_str().unwrap()]);
    assert_eq!(fs::read(beside(&path, "-seals")).unwrap(), b"mine");
    fs::remove_file(beside(&path, "-seals")).unwrap();
    place().ok(["freshness", "on", path.to_str().unwrap()]);
    assert!(reads(&path));
    // A copy with freshness shares the anchor of its original.
    let fresh = dir.path("fresh.db");
    fs::copy(&path, &fresh).unwrap();
    for verb in ["on", "off", "accept"] {
        let told = place().fails(1, ["freshness", verb, fresh.to_str().unwrap()]);
        assert!(told.contains("is a copy of"), "{verb}: {told}");
    }
    fs::copy(beside(&path, "-seals"), beside(&fresh, "-seals")).unwrap();
    assert!(place().fails(1, ["rotate", fresh.to_str().unwrap()]).contains("is a copy of"));
    place().ok(["decrypt", fresh.to_str().unwrap()]);
    place().ok(["freshness", "accept", path.to_str().unwrap()]);
    assert!(reads(&path) && status(&path)["last_state"] == true);
    // The original is gone, and the copy is now the database.
    place().ok(["freshness", "off", path.to_str().unwrap()]);
    fs::remove_file(&path).unwrap();
    place().ok(["freshness", "on", copy.to_str().unwrap()]);
    assert!(reads(&copy));
}

#[test]
fn an_older_page_is_told_and_a_newer_state_is_not() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        let old = fs::read(&path).unwrap();
        change(&path, "new");
        let new = fs::read(&path).unwrap();
        let content = dump(&open(&path));
        assert_eq!(status(&path)["last_state"], true, "{mode}");
        let mut told = 0;
        for at in (HEADER_LEN..old.len()).step_by(PAGE_LEN) {
            let page = at..at + PAGE_LEN;
            if old[page.clone()] == new[page.clone()] {
                continue;
            }
            let mut mixed = new.clone();
            mixed[page.clone()].copy_from_slice(&old[page]);
            fs::write(&path, mixed).unwrap();
            // A free page has no content that could be older.
            if reads(&path) {
                assert_eq!(dump(&open(&path)), content, "{mode}: page at {at}");
            } else {
                told += 1;
                if told == 1 {
                    let set = dir.path("set.bak");
                    let name = path.to_str().unwrap();
                    place().fails(4, ["backup", name, "--to", set.to_str().unwrap()]);
                    assert!(!set.exists(), "{mode}");
                }
            }
        }
        assert!(told > 10, "{mode}");
        fs::write(&path, new).unwrap();
        assert!(reads(&path), "{mode}");
    }
}

#[test]
fn a_whole_older_state_is_told_until_it_is_accepted() {
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        let names = [path.clone(), beside(&path, "-seals")];
        let old = names.each_ref().map(|name| fs::read(name).unwrap());
        let content = dump(&open(&path));
        change(&path, "new");
        fs::write(&path, &old[0]).unwrap();
        assert!(is_told(&path).contains("older one was put back"), "{mode}");
        // With the list of that time.
        fs::write(&names[1], &old[1]).unwrap();
        assert!(is_told(&path).contains("list of seals"), "{mode}");
        place().ok(["freshness", "accept", path.to_str().unwrap()]);
        assert_eq!(dump(&open(&path)), content, "{mode}");
        change(&path, "later");
        assert_eq!(status(&path)["last_state"], true, "{mode}");
    }
}

#[test]
fn a_log_that_is_cut_removed_or_older_is_told() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let (log, copy) = (beside(&path, "-wal"), dir.path("copy.db"));
    let db = open(&path);
    db.execute_batch("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=FULL").unwrap();
    let mut logs = Vec::new();
    for n in 0..4 {
        db.execute("UPDATE t SET a = ?1 WHERE rowid % 7 = ?2", (format!("{n}"), n)).unwrap();
        logs.push(fs::read(&log).unwrap());
    }
    // As a crash leaves them; the copy has the name of the original's anchor.
    let main = fs::read(&path).unwrap();
    let list = fs::read(beside(&path, "-seals")).unwrap();
    let put = |bytes: Option<&[u8]>| {
        fs::write(&copy, &main).unwrap();
        fs::write(beside(&copy, "-seals"), &list).unwrap();
        let _ = fs::remove_file(beside(&copy, "-shm"));
        match bytes {
            Some(bytes) => fs::write(beside(&copy, "-wal"), bytes).unwrap(),
            None => drop(fs::remove_file(beside(&copy, "-wal"))),
        }
    };
    for older in &logs[..3] {
        put(Some(older));
        assert!(is_told(&copy).contains("write-ahead log"));
    }
    put(Some(&[]));
    assert!(is_told(&copy).contains("write-ahead log"));
    put(None);
    assert!(is_told(&copy).contains("write-ahead log"));
    put(Some(&logs[3]));
    assert!(reads(&copy));
}

#[test]
fn switching_off_leaves_a_database_of_the_first_format() {
    let dir = Dir::new();
    let path = database(&dir, "delete");
    let name = path.to_str().unwrap();
    assert_eq!(fs::read(&path).unwrap()[VERSION_AT], 2);
    let anchor = PathBuf::from(status(&path)["anchor"].as_str().unwrap());
    assert!(anchor.is_file());
    let listed = place().json(["status", name, "--json"]);
    assert_eq!(listed[0]["encryption"]["freshness"], true);
    assert!(place().ok(["freshness", "on", name]).out.contains("was on"));
    place().ok(["freshness", "off", name]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes[VERSION_AT], bytes[8192 + VERSION_AT]), (1, 1));
    assert!(!anchor.exists() && !beside(&path, "-seals").exists());
    assert_eq!(status(&path)["freshness"], false);
    assert!(place().fails(1, ["freshness", "accept", name]).contains("no freshness"));
    place().ok(["freshness", "on", name]);
    assert!(reads(&path));
    place().ok(["decrypt", name]);
    assert!(!anchor.exists() && !beside(&path, "-seals").exists());
}

#[test]
fn a_header_from_before_is_told() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 2000);
    let name = path.to_str().unwrap();
    place().ok(["encrypt", name, "--certificate", "AppCert"]);
    let before = fs::read(&path).unwrap();
    place().ok(["freshness", "on", name]);
    let mut now = fs::read(&path).unwrap();
    now[..HEADER_LEN].copy_from_slice(&before[..HEADER_LEN]);
    fs::write(&path, &now).unwrap();
    assert!(is_told(&path).contains("older header"));
    place().ok(["freshness", "accept", name]);
    assert!(reads(&path));
    assert_eq!(fs::read(&path).unwrap()[VERSION_AT], 2);
    fs::write(&path, &now).unwrap();
    place().ok(["freshness", "off", name]);
    assert!(reads(&path));
}

#[test]
fn a_missing_anchor_or_list_is_told() {
    let dir = Dir::new();
    let path = database(&dir, "delete");
    let anchor = PathBuf::from(status(&path)["anchor"].as_str().unwrap());
    for name in [anchor, beside(&path, "-seals")] {
        let bytes = fs::read(&name).unwrap();
        fs::remove_file(&name).unwrap();
        assert!(!reads(&path));
        fs::write(&name, bytes).unwrap();
        assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t"), 2000);
    }
}

#[test]
fn a_database_with_freshness_is_rotated_vacuumed_rewrapped_and_copied() {
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        let name = path.to_str().unwrap();
        let other = open(&path);
        let content = dump(&other);
        place().ok(["rotate", name]);
        assert_eq!(dump(&other), content, "{mode}");
        other.execute_batch("DELETE FROM t WHERE rowid % 2 = 0; VACUUM").unwrap();
        place().ok(["rewrap", name]);
        let into = dir.path("into.db");
        other.execute("VACUUM INTO ?1", [into.to_str().unwrap()]).unwrap();
        drop(other);
        assert!(reads(&path) && reads(&into), "{mode}");
        assert_eq!(status(&path)["last_state"], true, "{mode}");
        assert_eq!(status(&into)["freshness"], false, "{mode}");
        place().ok(["backup", name, "--to", dir.path("set.bak").to_str().unwrap()]);
    }
}

/// Only the anchor reveals it: anchoring the existing file would make it the last state.
#[test]
fn a_file_from_before_it_was_on_is_not_anchored_unasked() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 200);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert"]);
    let old = fs::read(&path).unwrap();
    place().ok(["freshness", "on", path.to_str().unwrap()]);
    change(&path, "new");
    fs::write(&path, &old).unwrap();
    is_told(&path);
    let refused = place().fails(4, ["freshness", "on", path.to_str().unwrap()]);
    assert!(refused.contains("an older header was put back"), "{refused}");
    is_told(&path);
    assert_eq!(fs::read(&path).unwrap(), old);
    place().ok(["freshness", "accept", path.to_str().unwrap()]);
    assert!(reads(&path) && status(&path)["freshness"] == true, "{}", status(&path));
}
