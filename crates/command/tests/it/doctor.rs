//! `tdekit doctor`: every fault is found, named, and changes the exit code.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::common::Run;
use crate::databases::{Dir, encrypt, fill, one, open, place, unreadable_below};
use serde_json::Value;

const HEADER_AREA: usize = 16384;
const PAGE: usize = 4096;

fn doctor(args: &[&Path]) -> Run {
    place().run([Path::new("doctor")].iter().chain(args))
}

/// Returns the findings by name and kind, and the exit code, for one database.
fn findings(path: &Path) -> (i32, Vec<(String, String)>, Value) {
    let run = doctor(&[path, Path::new("--json")]);
    let told: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
    let text = |found: &Value, name: &str| found[name].as_str().unwrap().to_owned();
    let all = told[0]["findings"].as_array().unwrap();
    let named = all.iter().map(|found| (text(found, "what"), text(found, "kind"))).collect();
    (run.code, named, told[0].clone())
}

fn named(what: &str, kind: &str) -> (String, String) {
    (what.to_owned(), kind.to_owned())
}

#[test]
fn a_sound_database_has_no_findings_while_others_write() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 3000);
    encrypt(&path, &[]);
    let db = open(&path);
    assert_eq!(one::<String>(&db, "PRAGMA journal_mode = WAL"), "wal");
    db.execute_batch("BEGIN IMMEDIATE; UPDATE t SET a = a || '!' WHERE id < 900").unwrap();
    let (code, found, told) = findings(&path);
    assert_eq!((code, found), (0, Vec::new()), "{told}");
    db.execute_batch("COMMIT").unwrap();
    let (code, found, told) = findings(&path);
    assert_eq!((code, found), (0, Vec::new()), "{told}");
    let pages = one::<i64>(&db, "PRAGMA page_count");
    assert_eq!((told["pages"].as_i64(), told["damaged_pages"].as_i64()), (Some(pages), Some(0)));
    assert!(told["pages_by_key_version"]["1"].as_u64().unwrap() > 50, "{told}");
}

#[test]
fn a_transaction_that_was_cut_short_is_named_and_left_alone() {
    let dir = Dir::new();
    let live = dir.path("live.db");
    fill(&live, 3000);
    encrypt(&live, &[]);
    let db = open(&live);
    db.execute_batch("PRAGMA cache_size = 5; BEGIN; UPDATE t SET a = a || '!'").unwrap();
    let (path, journal) = (dir.path("app.db"), dir.path("app.db-journal"));
    fs::copy(&live, &path).unwrap();
    fs::copy(dir.path("live.db-journal"), &journal).unwrap();
    let before = (fs::read(&path).unwrap(), fs::read(&journal).unwrap());
    let (code, found, told) = findings(&path);
    assert_eq!((code, found), (1, vec![named("unreadable", "risk")]), "{told}");
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("cut short, in ") && error.ends_with("app.db-journal"), "{error}");
    assert_eq!((fs::read(&path).unwrap(), fs::read(&journal).unwrap()), before);
    assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t WHERE a LIKE '%!'"), 0);
    let (code, found, told) = findings(&path);
    assert_eq!((code, found), (0, Vec::new()), "{told}");
    drop(db);
}

#[test]
fn bytes_behind_the_last_page_are_a_fault_and_room_is_not() {
    let dir = Dir::new();
    for (name, is_encrypted) in [("sealed.db", true), ("plain.db", false)] {
        let path = dir.path(name);
        fill(&path, 300);
        if is_encrypted {
            encrypt(&path, &[]);
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &[0; 2 * PAGE]].concat()).unwrap();
        let (code, found, told) = findings(&path);
        assert_eq!((code, found), (0, Vec::new()), "{told}");
        for extra in [&b"x"[..], &[7; 2 * PAGE]] {
            fs::write(&path, [&whole[..], extra].concat()).unwrap();
            let (code, found, told) = findings(&path);
            assert_eq!((code, found), (4, vec![named("length", "damaged")]), "{told}");
        }
    }
}

#[test]
fn each_fault_is_named_and_weighed() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 3000);
    encrypt(&path, &[]);
    let whole = fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        findings(&path)
    };
    let (code, found, told) = flipped(HEADER_AREA + 4 * PAGE + 100);
    assert_eq!((code, found), (4, vec![named("page", "damaged")]), "{told}");
    assert!(told["findings"][0]["message"].as_str().unwrap().starts_with("page 5 "), "{told}");
    assert_eq!(told["damaged_pages"], 1);
    for at in [100, 8192 + 100] {
        let (code, found, told) = flipped(at);
        assert_eq!((code, found), (4, vec![named("header", "damaged")]), "{told}");
    }
    let (code, found, _) = flipped(HEADER_AREA + 50);
    assert_eq!(code, 4, "page 1: {found:?}");
    // Two pages of one file, exchanged.
    let mut bytes = whole.clone();
    let (one, other) = (HEADER_AREA + 6 * PAGE, HEADER_AREA + 9 * PAGE);
    let kept = bytes[one..one + PAGE].to_vec();
    bytes.copy_within(other..other + PAGE, one);
    bytes[other..other + PAGE].copy_from_slice(&kept);
    fs::write(&path, bytes).unwrap();
    let (code, found, told) = findings(&path);
    assert_eq!((code, found.len()), (4, 2), "{told}");
    // Truncated, and not a database at all.
    fs::write(&path, &whole[..whole.len() - 3 * PAGE]).unwrap();
    assert_eq!(findings(&path).0, 4);
    fs::write(&path, b"some text that is no database").unwrap();
    let (code, found, _) = findings(&path);
    assert_eq!((code, found), (4, vec![named("lost", "damaged")]));
    fs::write(&path, &whole).unwrap();
    assert_eq!(findings(&path).0, 0);
}

#[test]
fn a_key_that_does_not_open_is_said() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    encrypt(&path, &[]);
    let mut command = place().command([Path::new("doctor"), &path, Path::new("--json")]);
    let run = Run::of(&command.env("TDEKIT_PASSWORD", "a wrong one").output().unwrap());
    let told: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, told[0]["pages"].as_u64()), (3, Some(0)), "{run:?}");
    let found = told[0]["findings"].as_array().unwrap();
    assert!(found.iter().any(|one| one["what"] == "key"), "{told}");
}

#[test]
fn a_certificate_without_a_backup_is_a_risk() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    place().ok(["cert", "create", "NeverBackedUp", "--expires", "20d"]);
    let args = [Path::new("encrypt"), &path, "--certificate".as_ref(), "NeverBackedUp".as_ref()];
    place().ok(args);
    let (code, found, told) = findings(&path);
    assert_eq!((code, found), (1, vec![named("certificate", "risk"); 2]), "{told}");
}

#[test]
fn a_directory_is_searched_and_one_fault_hides_no_other() {
    let dir = Dir::new();
    fs::create_dir(dir.path("below")).unwrap();
    let (sound, bad) = (dir.path("sound.db"), dir.path("below/bad.db"));
    let (plain, text) = (dir.path("plain.db"), dir.path("notes.txt"));
    for path in [&sound, &bad, &plain] {
        fill(path, 500);
    }
    encrypt(&sound, &[]);
    encrypt(&bad, &[]);
    fs::write(&text, "no database").unwrap();
    std::os::unix::fs::symlink(&bad, dir.path("link.db")).unwrap();
    let mut bytes = fs::read(&bad).unwrap();
    for page in [2, 3] {
        bytes[HEADER_AREA + page * PAGE] ^= 1;
    }
    fs::write(&bad, bytes).unwrap();
    let run = doctor(&[&dir.path("")]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.err.contains("error: 2 finding(s) in 1 database(s)"), "{run:?}");
    for wanted in ["sound.db", "bad.db", "page 3 does not open", "page 4 does not open"] {
        assert!(run.out.contains(wanted), "{wanted} is missing in {run:?}");
    }
    assert!(run.out.contains("Nothing is wrong.") && run.out.contains("1 plain database(s)"));
    assert!(!run.out.contains("notes.txt") && !run.out.contains("link.db"), "{run:?}");
    // A plain database by name: only its structure can be checked.
    assert_eq!(findings(&plain).0, 0);
    let mut bytes = fs::read(&plain).unwrap();
    bytes[PAGE..PAGE + 12].fill(0xee);
    fs::write(&plain, bytes).unwrap();
    let (code, found, told) = findings(&plain);
    assert!(code == 4 && found.contains(&named("structure", "damaged")), "{told}");
}

#[test]
fn a_directory_that_cannot_be_read_is_a_finding_beside_the_others() {
    let dir = Dir::new();
    fs::create_dir(dir.path("aside")).unwrap();
    unreadable_below(&dir.path("aside"));
    fill(&dir.path("app.db"), 50);
    encrypt(&dir.path("app.db"), &[]);
    let run = doctor(&[&dir.path(""), Path::new("--json")]);
    let told: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
    assert_ne!(run.code, 0, "{run:?}");
    assert_eq!(told.as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told[0]["findings"].as_array().unwrap().len(), 0, "{told}");
    assert_eq!(told[1]["findings"][0]["what"], "unreadable", "{told}");
    let run = doctor(&[&dir.path("")]);
    assert!(run.out.contains("Nothing is wrong.") && run.out.contains("unreadable:"), "{run:?}");
}

/// Whole, but useless as the only one.
#[test]
fn a_header_slot_of_another_database_is_found() {
    const SLOT: usize = HEADER_AREA / 2;
    let dir = Dir::new();
    let [path, other] = ["app.db", "other.db"].map(|name| dir.path(name));
    for path in [&path, &other] {
        fill(path, 20);
        encrypt(path, &[]);
    }
    let (mut bytes, foreign) = (fs::read(&path).unwrap(), fs::read(&other).unwrap());
    bytes[..SLOT].copy_from_slice(&foreign[..SLOT]);
    fs::write(&path, &bytes).unwrap();
    let (code, found, told) = findings(&path);
    assert_eq!((code, found), (4, vec![named("header", "damaged")]), "{told}");
    assert_eq!(told["encryption"]["intact_header_slots"], 1);
}

/// SQLite would wait for a writer of it, and no signal ends that.
#[test]
fn a_pipe_in_the_place_of_a_journal_is_an_error() {
    const ODD: &str = "it is not an ordinary file";
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 20);
    encrypt(&path, &[]);
    for suffix in ["-journal", "-wal"] {
        let pipe = dir.path(&format!("app.db{suffix}"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for command in ["doctor", "rotate", "decrypt"] {
            let run = place().run([Path::new(command), &path]);
            assert!(
                run.code == 7 && [&run.out, &run.err].iter().any(|it| it.contains(ODD)),
                "{command}: {run:?}"
            );
        }
        let media = dir.path("app.bak");
        let told = place()
            .fails(7, ["backup".as_ref(), path.as_os_str(), "--to".as_ref(), media.as_ref()]);
        assert!(told.contains(ODD), "{told}");
        fs::remove_file(&pipe).unwrap();
    }
}

#[test]
fn names_that_are_no_utf8_are_in_the_json() {
    let dir = Dir::new();
    let path = dir.path("").join(std::ffi::OsStr::from_bytes(b"x\xff.db"));
    fill(&path, 20);
    encrypt(&path, &[]);
    let inside = dir.path("");
    for command in ["status", "doctor", "audit", "rotate --status", "freshness status"] {
        let words = command.split(' ').map(OsStr::new);
        let named = if command == "audit" { &inside } else { &path };
        let run = place().run(words.chain([named.as_os_str(), OsStr::new("--json")]));
        let told: Value =
            serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{command}: {run:?}"));
        assert!(told.to_string().contains("x\u{fffd}.db"), "{command}: {told}");
    }
}

/// A verdict on a whole directory includes the databases known to belong to it.
#[test]
fn what_the_key_store_knows_and_is_not_there_is_a_finding() {
    let dir = Dir::new();
    let names = ["emptied.db", "cut.db", "overwritten.db", "gone.db", "whole.db"];
    for name in names {
        fill(&dir.path(name), 200);
        encrypt(&dir.path(name), &[]);
    }
    // The key store also knows media sets.
    let (whole, set) = (dir.path("whole.db"), dir.path("whole.bak"));
    place().ok([Path::new("backup"), &whole, Path::new("--to"), &set]);
    assert_eq!(doctor(&[&dir.path("")]).code, 0);
    fs::write(dir.path("emptied.db"), "").unwrap();
    let cut = fs::OpenOptions::new().write(true).open(dir.path("cut.db")).unwrap();
    cut.set_len(HEADER_AREA as u64).unwrap();
    let mut bytes = fs::read(dir.path("overwritten.db")).unwrap();
    bytes[..HEADER_AREA].fill(7);
    fs::write(dir.path("overwritten.db"), bytes).unwrap();
    fs::remove_file(dir.path("gone.db")).unwrap();
    let problems = [
        ("emptied.db", "is empty, and the key store knows"),
        ("cut.db", "ends behind its header"),
        ("overwritten.db", "is not a database, and the key store knows"),
        ("gone.db", "is gone, and the key store knows"),
    ];
    // By the directory.
    for command in ["doctor", "audit"] {
        let run = place().run([Path::new(command), &dir.path("")]);
        assert_eq!(run.code, if command == "doctor" { 4 } else { 1 }, "{run:?}");
        for (name, problem) in problems.iter().filter(|(name, _)| *name != "gone.db") {
            assert!(run.out.contains(name) && run.out.contains(problem), "{name}: {run:?}");
        }
        assert!(!run.out.contains("whole.bak"), "{run:?}");
    }
    // By name; and no backup is made of the remains.
    for (name, problem) in problems {
        let path = dir.path(name);
        let run = doctor(&[&path]);
        assert!(run.code == 4 && run.out.contains(problem), "{run:?}");
        let run = place().run([Path::new("audit"), &path]);
        assert!(run.code == 1 && run.out.contains(problem), "{run:?}");
        let media = dir.path("x.bak");
        let run = place().run([Path::new("backup"), &path, Path::new("--to"), &media]);
        assert_eq!(run.code, if name == "gone.db" { 7 } else { 4 }, "{run:?}");
        assert!(!media.exists(), "{name}");
    }
    assert_eq!(doctor(&[&dir.path("whole.db")]).code, 0);
}
