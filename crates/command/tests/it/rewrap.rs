//! `rewrap`, and `cert rotate` for the databases that the store knows.

use std::fs;
use std::path::Path;

use crate::common::{Place, Run};
use crate::databases::{Dir, MARKER, create, encrypt, fill, insert, is_plain, one, open, place};
use serde_json::Value;

/// A separate store, which no connection of this process uses.
fn own_place() -> Place {
    let place = Place::with_store();
    for name in ["First", "Second"] {
        place.ok(["cert", "create", name]);
        place.ok(["cert", "backup", name, "--pkcs12", &format!("{name}.p12")]);
    }
    place
}

fn database(place: &Place, dir: &Dir, name: &str) -> std::path::PathBuf {
    let path = dir.path(name);
    fill(&path, 200);
    place.ok(["encrypt", path.to_str().unwrap(), "--certificate", "First"]);
    path
}

/// Returns name and generation of each certificate that opens it.
fn openers(place: &Place, path: &Path) -> Vec<(String, u64)> {
    let told = place.json(["status", path.to_str().unwrap(), "--json"]);
    assert_eq!(told[0]["encryption"]["key_opens"], true, "{told}");
    assert_eq!(told[0]["encryption"]["intact_header_slots"], 2, "{told}");
    let certificates = told[0]["encryption"]["certificates"].as_array().unwrap();
    let name = |c: &Value| c["name"].as_str().unwrap_or("unknown").to_owned();
    certificates.iter().map(|c| (name(c), c["generation"].as_u64().unwrap_or(0))).collect()
}

fn pages(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()[16384..].to_vec()
}

#[test]
fn a_rotated_certificate_wraps_anew_what_the_store_knows() {
    let (place, dir) = (own_place(), Dir::new());
    let path = database(&place, &dir, "app.db");
    let moved = database(&place, &dir, "moved.db");
    fs::rename(&moved, dir.path("elsewhere.db")).unwrap();
    let replaced = database(&place, &dir, "replaced.db");
    fs::copy(&path, &replaced).unwrap();
    let sealed = pages(&path);
    let run = place.json(["cert", "rotate", "First", "--json"]);
    assert_eq!(run["wrapped_anew"], serde_json::json!([path]));
    let left: Vec<_> = run["to_wrap_anew"].as_array().unwrap().iter().collect();
    assert_eq!(left.len(), 2, "{run}");
    assert_eq!(openers(&place, &path), [("First".to_owned(), 2)]);
    assert_eq!(pages(&path), sealed, "only the header is written");
    // A database that was not found opens with the old generation until its path is given.
    let elsewhere = dir.path("elsewhere.db");
    assert_eq!(openers(&place, &elsewhere), [("First".to_owned(), 1)]);
    let run = place.ok(["rewrap", elsewhere.to_str().unwrap(), replaced.to_str().unwrap()]);
    assert_eq!(run.out.matches("Wrapped anew").count(), 2, "{run:?}");
    assert_eq!(openers(&place, &elsewhere), [("First".to_owned(), 2)]);
    let again = place.ok(["rewrap", elsewhere.to_str().unwrap()]);
    assert!(again.out.contains("Left as it was"), "{again:?}");
    // The old generation may still be needed for the replaced file, which may exist elsewhere.
    let old = &place.json(["cert", "list", "--json"])[0];
    assert_eq!(
        (&old["generation"], &old["used_by"][0]["path"]),
        (&1.into(), &replaced.to_str().into())
    );
    assert_eq!(old["used_by"].as_array().unwrap().len(), 1);
    let thumbprint = old["thumbprint"].as_str().unwrap();
    place.fails(3, ["cert", "drop", thumbprint]);
    place.ok(["cert", "drop", thumbprint, "--force"]);
    for path in [&path, &elsewhere, &replaced] {
        place.ok(["decrypt", path.to_str().unwrap()]);
        assert!(is_plain(path));
    }
}

#[test]
fn certificates_come_and_go() {
    let (place, dir) = (own_place(), Dir::new());
    let path = database(&place, &dir, "app.db");
    let name = path.to_str().unwrap();
    place.ok(["rewrap", name, "--certificate", "Second", "--certificate", "First"]);
    assert_eq!(openers(&place, &path), [("Second".to_owned(), 1), ("First".to_owned(), 1)]);
    place.ok(["cert", "rotate", "Second"]);
    assert_eq!(openers(&place, &path), [("Second".to_owned(), 2), ("First".to_owned(), 1)]);
    place.ok(["rewrap", name, "--certificate", "Second"]);
    assert_eq!(openers(&place, &path), [("Second".to_owned(), 2)]);
    let list = place.json(["cert", "list", "--json"]);
    let used = |index: usize| list[index]["used_by"].as_array().unwrap().len();
    assert_eq!((used(0), used(1), used(2)), (0, 0, 1));
    place.ok(["cert", "drop", "First"]);
    place.ok(["decrypt", name]);
}

#[test]
fn recipients_of_other_stores_stay() {
    let (place, dir) = (own_place(), Dir::new());
    let other = Place::with_store();
    for (name, file) in [("First", "First.p12"), ("Second", "Second.p12")] {
        other.ok(["cert", "restore", name, "--pkcs12", place.path(file).to_str().unwrap()]);
    }
    let path = database(&place, &dir, "app.db");
    let name = path.to_str().unwrap();
    place.ok(["rewrap", name, "--certificate", "First", "--certificate", "Second"]);
    other.ok(["cert", "drop", "Second"]);
    other.ok(["cert", "rotate", "First"]);
    other.ok(["rewrap", name]);
    // The other store's new generation is unknown here, but the generation that only this store had
    // is there.
    let told = place.json(["status", name, "--json"]);
    let certificates = told[0]["encryption"]["certificates"].as_array().unwrap();
    assert_eq!(certificates[0]["name"], Value::Null);
    assert_eq!(certificates[1]["name"], "Second");
    place.ok(["decrypt", name]);
}

#[test]
fn others_go_on_reading_and_writing() {
    for mode in ["DELETE", "WAL"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        insert(&create(&path, &format!("PRAGMA journal_mode = {mode}")), 500);
        encrypt(&path, &[]);
        let reader = open(&path);
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 500);
        let name = path.to_str().unwrap();
        let both = ["--certificate", "Second", "--certificate", "AppCert"];
        place().ok(["rewrap", name].into_iter().chain(both));
        assert_eq!(one::<i64>(&reader, "SELECT count(a) FROM t"), 500);
        reader.execute_batch("COMMIT; UPDATE t SET a = a || '!'").unwrap();
        let writer = open(&path);
        writer.execute_batch("BEGIN IMMEDIATE; DELETE FROM t WHERE id > 300").unwrap();
        let told = place().fails(5, ["rewrap", name, "--certificate", "Second"]);
        assert!(told.contains("is in use by process"), "{told}");
        writer.execute_batch("COMMIT").unwrap();
        place().ok(["rewrap", name, "--certificate", "Second"]);
        assert_eq!(openers(place(), &path), [("Second".to_owned(), 1)]);
        assert_eq!(one::<String>(&reader, "PRAGMA integrity_check"), "ok");
        drop((reader, writer));
        let db = open(&path);
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t WHERE a LIKE '%!'"), 300);
        drop(db);
        assert!(dir.files_with_marker().is_empty(), "{MARKER}");
    }
}

#[test]
fn a_torn_slot_is_no_harm_and_is_mended() {
    let (place, dir) = (own_place(), Dir::new());
    for torn in [0, 8192] {
        let path = database(&place, &dir, &format!("{torn}.db"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[torn..torn + 512].fill(0);
        fs::write(&path, &bytes).unwrap();
        place.ok(["rewrap", path.to_str().unwrap(), "--certificate", "Second"]);
        assert_eq!(openers(&place, &path), [("Second".to_owned(), 1)]);
        place.ok(["decrypt", path.to_str().unwrap()]);
    }
}

#[cfg(debug_assertions)]
#[test]
fn it_can_be_killed() {
    let (place, dir) = (own_place(), Dir::new());
    for (step, names) in [("first-slot", "Second"), ("second-slot", "Second")] {
        let path = database(&place, &dir, &format!("{step}.db"));
        let name = path.to_str().unwrap();
        let stop = format!("--stop-after={step}");
        let killed = place.run(["rewrap", name, "--certificate", "Second", &stop]);
        assert_eq!(killed.code, -1, "{killed:?}");
        assert_eq!(openers(&place, &path), [(names.to_owned(), 1)], "{step}");
        // Each slot alone opens it, too.
        for lost in [0, 8192] {
            let copy = dir.path("copy.db");
            let mut bytes = fs::read(&path).unwrap();
            bytes[lost + 60] ^= 1;
            fs::write(&copy, &bytes).unwrap();
            place.ok(["decrypt", copy.to_str().unwrap()]);
        }
        place.ok(["rewrap", name, "--certificate", "Second"]);
        place.ok(["decrypt", name]);
    }
}

#[test]
fn what_is_refused() {
    let (place, dir) = (own_place(), Dir::new());
    let path = database(&place, &dir, "app.db");
    let name = path.to_str().unwrap();
    let before = fs::read(&path).unwrap();
    place.fails(3, ["rewrap", name, "--certificate", "Nobody"]);
    let guess = place
        .command(["rewrap", name, "--certificate", "Second"])
        .env("TDEKIT_PASSWORD", "guess")
        .output()
        .unwrap();
    assert_eq!(Run::of(&guess).code, 3);
    let stranger = Place::with_store();
    stranger.ok(["cert", "create", "Second"]);
    assert!(stranger.fails(3, ["rewrap", name, "--certificate", "Second"]).contains("0x"));
    assert_eq!(fs::read(&path).unwrap(), before);
    let plain = dir.path("plain.db");
    fill(&plain, 10);
    assert!(place.fails(1, ["rewrap", plain.to_str().unwrap()]).contains("is not encrypted"));
    fs::write(dir.path("text"), "just some words, not a database").unwrap();
    place.fails(4, ["rewrap", dir.path("text").to_str().unwrap()]);
}
