//! `verify --restore-test`: what it finds, what it leaves, and what it records.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::databases::{Dir, MARKER, encrypt, fill, open, place};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two databases, one of them encrypted, with full and differential sets in two media sets of a
/// directory.
fn with_media() -> Dir {
    let dir = Dir::new();
    fs::create_dir(dir.path("media")).unwrap();
    for (name, sealed) in [("plain", false), ("sealed", true)] {
        let database = dir.path(&format!("{name}.db"));
        fill(&database, 3000);
        if sealed {
            encrypt(&database, &[]);
        }
        let media = dir.path(&format!("media/{name}.bak"));
        place().ok(["backup", text(&database), "--to", text(&media), "--certificate", "AppCert"]);
        open(&database).execute_batch("UPDATE t SET a = a || '!' WHERE id < 50").unwrap();
        let more = ["--certificate", "AppCert", "--differential"];
        place().ok([&["backup", text(&database), "--to", text(&media)][..], &more].concat());
    }
    dir
}

fn tried(dir: &Dir, what: &str, more: &[&str], code: i32) -> Value {
    let scratch = dir.path("scratch");
    let _ = fs::create_dir(&scratch);
    let what = dir.path(what);
    let args = ["verify", text(&what), "--restore-test", "--json", "--scratch", text(&scratch)];
    let run = place().run([&args[..], more].concat());
    assert_eq!(run.code, code, "{run:?}");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "something is left");
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn all_sets_of_a_directory_are_restored_and_compared() {
    let dir = with_media();
    let report = tried(&dir, "media", &[], 0);
    assert_eq!(report["verdict"], "whole");
    let sets = report["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 4);
    for set in sets {
        assert_eq!((&set["ok"], &set["quick_check"]), (&true.into(), &true.into()), "{set}");
        assert_eq!(set["compared_pages"], set["pages"], "{set}");
        assert!(set["pages"].as_u64().unwrap() > 100, "{set}");
    }
    // The newest of each database, and by chance one of the other two.
    assert_eq!(tried(&dir, "media", &["--sample", "1%"], 0)["sets"].as_array().unwrap().len(), 3);
    let one = tried(&dir, "media/sealed.bak", &["--position", "1"], 0);
    assert_eq!(one["sets"][0]["database_name"], "sealed.db");
    let estate = place().run(["overview", text(&dir.path("sealed.db")), "--json"]);
    let estate: Value = serde_json::from_str(&estate.out).unwrap();
    assert!(estate["databases"][0]["last_restore_test_at"].is_i64(), "{estate}");
    let estate = place().run(["overview", text(&dir.path("sealed.db")), "--wide"]);
    assert!(estate.out.contains("now, restored"), "{estate:?}");
    place().fails(2, ["verify", "x", "--restore-test", "--checksums-only"]);
    place().fails(2, ["verify", "x", "--sample", "5%"]);
    let empty = dir.path("empty");
    fs::create_dir(&empty).unwrap();
    let run = place().run(["verify", text(&empty), "--restore-test"]);
    assert!(run.code == 7 && run.err.contains("there is nothing at"), "{run:?}");
}

#[test]
fn damage_anywhere_is_found_and_recorded() {
    for at in [2, 3, 5] {
        let dir = with_media();
        let media = dir.path("media/sealed.bak");
        let mut bytes = fs::read(&media).unwrap();
        let middle = bytes.len() / at;
        bytes[middle] ^= 1;
        fs::write(&media, bytes).unwrap();
        let report = tried(&dir, "media", &[], 4);
        assert_eq!(report["verdict"], "damaged");
        let sets = report["sets"].as_array().unwrap();
        let whole = sets.iter().filter(|set| set["database_name"] == "plain.db");
        assert!(whole.clone().count() == 2 && whole.clone().all(|set| set["ok"] == true));
        let estate = place().run(["overview", text(&dir.path("sealed.db")), "--json"]);
        let estate: Value = serde_json::from_str(&estate.out).unwrap();
        assert_eq!(estate["databases"][0]["verify_ok"], false, "{estate}");
    }
}

/// A database whose index disagrees with its table is a faithful copy of what was backed up, and
/// quick_check does not look there; one whose pages are broken is found.
#[test]
fn a_database_that_was_corrupt_when_it_was_backed_up_is_found() {
    let dir = Dir::new();
    let database = dir.path("a.db");
    fill(&database, 3000);
    let mut bytes = fs::read(&database).unwrap();
    let place_of = bytes.windows(MARKER.len()).position(|it| it == MARKER.as_bytes()).unwrap();
    let page = place_of / 4096 * 4096;
    bytes[page..page + 200].fill(0xEE);
    fs::write(&database, bytes).unwrap();
    let media = dir.path("a.bak");
    place().ok(["backup", text(&database), "--to", text(&media), "--no-check"]);
    place().ok(["verify", text(&media)]);
    let report = tried(&dir, "a.bak", &[], 4);
    assert_eq!(report["sets"][0]["ok"], false, "{report}");
}

#[test]
fn nothing_readable_is_left_by_a_killed_run() {
    let dir = Dir::new();
    let database = dir.path("a.db");
    fill(&database, 200_000);
    let media = dir.path("a.bak");
    place().ok(["backup", text(&database), "--to", text(&media), "--certificate", "AppCert"]);
    let scratch = dir.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let args = ["verify", text(&media), "--restore-test", "--scratch", text(&scratch)];
    let mut child = place().command(args).spawn().unwrap();
    let work = loop {
        let found = fs::read_dir(&scratch).unwrap().next().map(|entry| entry.unwrap().path());
        let file = found.iter().flat_map(|work| fs::read_dir(work).into_iter().flatten().flatten());
        let large = file.filter_map(|it| it.metadata().ok()).any(|facts| facts.len() > 1 << 20);
        match found {
            Some(work) if large => break work,
            _ => assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed"),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(&work).unwrap().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&work).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(MARKER.len()).any(|it| it == MARKER.as_bytes()));
    }
    // The next run removes it.
    place().ok(args);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

/// A copy of a media set in the same directory heals nothing, and an archive hides nothing.
#[test]
fn each_copy_is_tried_alone_and_an_archive_is_no_obstacle() {
    let dir = with_media();
    let copy = dir.path("media/copy.bak");
    fs::copy(dir.path("media/sealed.bak"), &copy).unwrap();
    let database = dir.path("sealed.db");
    open(&database).execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let archive = dir.path("media/archive");
    for _ in 0..2 {
        let words = ["replicate", text(&database), "--to", text(&archive), "--once"];
        place().ok([&words[..], &["--certificate", "AppCert"]].concat());
        open(&database).execute_batch("UPDATE t SET a = a || '?' WHERE id < 50").unwrap();
    }
    let report = tried(&dir, "media", &[], 0);
    assert!(report["sets"].as_array().unwrap().len() > 6, "{report}");
    let mut bytes = fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let report = tried(&dir, "media", &[], 4);
    assert_eq!(report["verdict"], "damaged");
    let failed: Vec<_> =
        report["sets"].as_array().unwrap().iter().filter(|set| set["ok"] == false).collect();
    assert!(!failed.is_empty(), "{report}");
    assert!(failed.iter().all(|set| set["places"][0].as_str().unwrap().ends_with("copy.bak")));
}

/// Striped sets are tried whole, also with files of another directory; one that lacks a file is
/// named, and the others are tried all the same.
#[test]
fn striped_sets_are_tried_whole() {
    let dir = with_media();
    fs::create_dir(dir.path("other")).unwrap();
    let stripes = ["media/a.str", "media/b.str", "other/c.str"].map(|name| dir.path(name));
    let database = dir.path("plain.db");
    let to = stripes.iter().flat_map(|stripe| ["--to", text(stripe)]);
    let words = ["backup", text(&database), "--stripe", "--certificate", "AppCert"];
    place().ok(words.into_iter().chain(to));
    let report = tried(&dir, "media", &[], 0);
    let sets = report["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 5, "{report}");
    let of = |set: &Value| set["places"].as_array().unwrap().len();
    let striped: Vec<_> = sets.iter().filter(|set| of(set) == 3).collect();
    assert!(striped.len() == 1 && striped[0]["ok"] == true, "{report}");
    fs::remove_file(&stripes[2]).unwrap();
    let report = tried(&dir, "media", &[], 4);
    let sets = report["sets"].as_array().unwrap();
    assert_eq!((sets.len(), &report["verdict"]), (5, &"damaged".into()), "{report}");
    let failed: Vec<_> = sets.iter().filter(|set| set["ok"] == false).collect();
    assert_eq!(failed.len(), 1, "{report}");
    assert!(failed[0]["error"].as_str().unwrap().contains("is missing"), "{report}");
}

/// A set whose key is not here stops no other one.
#[test]
fn sets_without_a_key_are_named() {
    let dir = with_media();
    let there = crate::common::Place::with_store();
    there.ok(["cert", "create", "Elsewhere"]);
    let foreign = dir.path("media/0.bak");
    let database = dir.path("plain.db");
    there.ok(["backup", text(&database), "--to", text(&foreign), "--certificate", "Elsewhere"]);
    let report = tried(&dir, "media", &[], 3);
    let sets = report["sets"].as_array().unwrap();
    assert_eq!((sets.len(), &report["verdict"]), (5, &"not_verified".into()), "{report}");
    let untried: Vec<_> = sets.iter().filter(|set| set["tried"] == false).collect();
    assert!(untried.len() == 1 && untried[0]["ok"] == false, "{report}");
}
