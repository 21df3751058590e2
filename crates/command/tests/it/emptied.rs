//! A database whose file was emptied while its log was not. SQLite removes the log of an empty file
//! when it opens that: each command that would open it refuses before, and the log stays.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::databases::{open, place};
use crate::replicate::{Pair, text};
use crate::replicate_ground::{Followed, rows};

const EMPTY: &str = "is empty, and its log has what was committed last: ";

/// The log and the bytes of the file, which is empty now.
fn emptied(pair: &Pair) -> (PathBuf, Vec<u8>, Vec<u8>) {
    let log = PathBuf::from(format!("{}-wal", text(&pair.db)));
    let whole = fs::read(&pair.db).unwrap();
    let bytes = fs::read(&log).unwrap();
    assert!(bytes.len() > 4096);
    File::create(&pair.db).unwrap();
    (log, bytes, whole)
}

/// A plain database, which nothing in the key store knows.
#[test]
fn no_command_has_the_log_of_an_empty_file_removed() {
    let pair = Pair::new(false);
    (1..=3).for_each(|n| pair.add(n));
    let set = pair.dir.path("set.bak");
    place().ok(["backup", text(&pair.db), "--to", text(&set), "--no-sign"]);
    pair.add(4);
    let (log, bytes, whole) = emptied(&pair);
    let (db, to) = (text(&pair.db), pair.dir.path("new.bak"));
    let archive = text(&pair.archive);
    let all: [(&[&str], i32); 12] = [
        (&["replicate", db, "--to", archive, "--certificate", "AppCert", "--once"], 1),
        (&["replicate", db, "--to", archive, "--certificate", "AppCert"], 1),
        (&["backup", db, "--to", text(&to)], 1),
        (&["backup", db, "--to", text(&set), "--log"], 1),
        (&["backup", db, "--to", text(&set), "--differential"], 1),
        (&["restore", text(&set), "--to", db, "--replace"], 1),
        (&["encrypt", db, "--certificate", "AppCert"], 1),
        (&["doctor", db], 1),
        (&["encrypt", db, "--certificate", "AppCert", "--online"], 1),
        (&["replicate", "status", db], 0),
        (&["status", db], 0),
        (&["overview", db], 1),
    ];
    for (number, (words, code)) in all.iter().enumerate() {
        let run = place().run(*words);
        assert!(fs::read(&log).is_ok_and(|now| now == bytes), "{words:?}: {run:?}");
        assert_eq!(fs::metadata(&pair.db).unwrap().len(), 0, "{words:?}: {run:?}");
        assert_eq!(run.code, *code, "{words:?}: {run:?}");
        if number < 8 {
            let said = format!("{}{}", run.out, run.err);
            assert!(said.contains(EMPTY) && said.contains(text(&log)), "{run:?}");
        }
        if number < 7 {
            assert!(run.err.contains("hint: SQLite removes "), "{run:?}");
        }
    }
    assert!(!to.exists());
    fs::write(&pair.db, whole).unwrap();
    assert_eq!(rows(&open(&pair.db)), [1, 2, 3, 4]);
}

/// Only the header area is left of an encrypted file: that is no page either.
#[test]
fn an_encrypted_file_that_is_cut_behind_its_header_keeps_its_log() {
    let pair = Pair::new(true);
    (1..=3).for_each(|n| pair.add(n));
    let (log, bytes, whole) = emptied(&pair);
    for len in [0, 4096] {
        fs::write(&pair.db, &whole[..len]).unwrap();
        let to = pair.dir.path("new.bak");
        let mut runs =
            vec![pair.once(&[]), place().run(["backup", text(&pair.db), "--to", text(&to)])];
        runs.push(place().run(["doctor", text(&pair.db)]));
        runs.push(place().run(["decrypt", text(&pair.db)]));
        for run in runs {
            assert!(fs::read(&log).is_ok_and(|now| now == bytes), "{len}: {run:?}");
            assert!([1, 4].contains(&run.code), "{len}: {run:?}");
        }
    }
    fs::write(&pair.db, whole).unwrap();
    assert_eq!(rows(&open(&pair.db)), [1, 2, 3]);
}

/// A follower and its database's writers are killed; the next one begins while the file is empty,
/// whether or not something of the log was shipped.
#[test]
fn a_follower_that_begins_on_an_empty_file_leaves_its_log() {
    for (encrypted, more) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut followed = Followed::new(encrypted);
        followed.process.kill().unwrap();
        followed.process.wait().unwrap();
        let pair = &followed.pair;
        if more {
            // Nothing of the new log was shipped.
            let db = pair.db();
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
        pair.add(5);
        let (log, bytes, whole) = emptied(pair);
        for run in [pair.once(&["--no-sign"]), pair.once(&["--no-sign", "--every", "1s"])] {
            assert!(run.code == 1 && run.err.contains(EMPTY), "{run:?}");
            assert!(fs::read(&log).is_ok_and(|now| now == bytes), "{encrypted} {more}: {run:?}");
        }
        fs::write(&pair.db, whole).unwrap();
        let run = pair.once(&["--no-sign"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(rows(&open(&pair.db)), [1, 2, 3, 4, 5], "{encrypted} {more}");
        assert_eq!(pair.restored("latest"), [1, 2, 3, 4, 5], "{encrypted} {more}");
        place().ok(["verify", text(&pair.archive)]);
    }
}
