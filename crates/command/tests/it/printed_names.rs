//! Names that others give, of databases and of files: each stays in its line, and none of their
//! characters changes the terminal. A header has no control characters, which readers refuse, and
//! may have those that turn the direction of writing; the name of a file has all of them.

use std::fs;

use crate::common::Run;
use crate::databases::{Dir, create, place};
use crate::replicate::text;

const DATABASE: &str = "a\u{202e}b.db";
const DATABASE_SHOWN: &str = "a\\u{202e}b.db";
/// Begins a line of its own, and colours it.
const MEDIA: &str = "m\nSet 7 (full of b, now): whole\u{1b}[31m";
const MEDIA_SHOWN: &str = "m\\u{a}Set 7 (full of b, now): whole\\u{1b}[31m";

/// The name is in the output as it has to be, and no name is there in another way.
#[track_caller]
fn shows(run: &Run, name: &str) {
    assert!(format!("{}{}", run.out, run.err).contains(name), "{run:?}");
    hides(run);
}

#[track_caller]
fn hides(run: &Run) {
    let said = format!("{}{}", run.out, run.err);
    assert!(!said.lines().any(|line| line.starts_with("Set 7")), "{run:?}");
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{run:?}");
}

#[test]
fn what_a_set_names_is_printed_as_one_line() {
    let dir = Dir::new();
    fs::create_dir(dir.path("sets")).unwrap();
    let (db, media) = (dir.path(DATABASE), dir.path("sets").join(MEDIA));
    drop(create(&db, "CREATE TABLE t(n); INSERT INTO t VALUES (1)"));
    let words = ["backup", text(&db), "--to", text(&media), "--no-sign"];
    place().ok([&words[..], &["--description", DATABASE, "--encryption", "none"]].concat());
    shows(&place().ok(["verify", text(&media)]), DATABASE_SHOWN);
    let tried = place().ok(["verify", text(&dir.path("sets")), "--restore-test"]);
    shows(&tried, DATABASE_SHOWN);
    shows(&tried, MEDIA_SHOWN);
    let inspected = place().ok(["inspect", text(&media)]);
    shows(&inspected, &format!("Set 1: {DATABASE_SHOWN}"));
    let history = place().ok(["history", "--wide"]);
    shows(&history, DATABASE_SHOWN);
    shows(&history, MEDIA_SHOWN);
    let to = dir.path("to.db");
    shows(&place().ok(["restore", text(&media), "--to", text(&to)]), DATABASE_SHOWN);
    let words = ["restore", text(&media), "--to", text(&to), "--database", "c.db"];
    let refused = place().run(words);
    assert_ne!(refused.code, 0, "{refused:?}");
    hides(&refused);
    // What is wrong names the file.
    let mut bytes = fs::read(&media).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&media, bytes).unwrap();
    let verified = place().run(["verify", text(&media)]);
    assert!(verified.code == 4 && verified.out.contains("DAMAGED"), "{verified:?}");
    hides(&verified);
    hides(&place().run(["verify", text(&dir.path("sets")), "--restore-test"]));
}

#[test]
fn what_an_archive_names_is_printed_as_one_line() {
    let dir = Dir::new();
    let archive = dir.path(MEDIA);
    for (name, more) in [("app.db", None), (DATABASE, Some("--take-over"))] {
        let db = dir.path(name);
        drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
        let words = ["replicate", text(&db), "--to", text(&archive), "--once", "--no-sign"];
        let words = words.into_iter().chain(["--encryption", "none"]).chain(more);
        hides(&place().ok(words.collect::<Vec<_>>()));
    }
    let verified = place().ok(["verify", text(&archive)]);
    shows(&verified, DATABASE_SHOWN);
    shows(&verified, MEDIA_SHOWN);
    shows(&place().ok(["verify", text(&archive), "--restore-test"]), MEDIA_SHOWN);
    let to = dir.path("to.db");
    let restored = place().ok(["restore", text(&archive), "--at", "latest", "--to", text(&to)]);
    shows(&restored, DATABASE_SHOWN);
    shows(&restored, MEDIA_SHOWN);
    fs::write(archive.join("0000000000000002.tdekit"), "no set").unwrap();
    let verified = place().run(["verify", text(&archive)]);
    assert_eq!(verified.code, 4, "{verified:?}");
    shows(&verified, MEDIA_SHOWN);
}
