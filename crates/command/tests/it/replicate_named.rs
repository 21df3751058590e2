//! A log that `replicate` puts aside is named, whatever fails behind that.

use std::fs;
use std::path::Path;

use crate::common::{Place, Run};
use crate::databases::{create, encrypt, one, open, place};
use crate::replicate::{Pair, text};
use crate::replicate_aside::aside;
use crate::replicate_ground::{Followed, other, rows};

/// An encrypted database whose process was killed, and its log; another file is in its place.
fn exchanged(mode: &str, encrypted: bool) -> Followed {
    let mut followed = Followed::new(true);
    followed.process.kill().unwrap();
    followed.process.wait().unwrap();
    let pair = &followed.pair;
    assert!(Path::new(&format!("{}-wal", text(&pair.db))).exists());
    let new = other(&pair.dir, false, &[101, 102]);
    drop(create(&new, &format!("PRAGMA journal_mode = {mode}")));
    if encrypted {
        encrypt(&new, &[]);
    }
    fs::copy(&new, &pair.db).unwrap();
    followed
}

/// The log was put aside, and `run` says once where it is.
fn is_named(pair: &Pair, run: &Run) {
    let logs = aside(pair);
    assert_eq!(logs.len(), 1, "{run:?}");
    assert_eq!(run.err.matches(text(&logs[0])).count(), 1, "{run:?}");
    assert_eq!(rows(&open(&pair.db)), [101, 102]);
}

/// The file that is there now has no log.
#[test]
fn a_log_is_named_where_the_new_file_is_in_a_rollback_mode() {
    let followed = exchanged("DELETE", false);
    let pair = &followed.pair;
    let run = pair.once(&["--no-sign"]);
    assert!(run.code == 0 && run.err.contains("is in journal mode delete"), "{run:?}");
    is_named(pair, &run);
    assert_eq!(one::<String>(&open(&pair.db), "PRAGMA journal_mode"), "delete");
    assert_eq!(pair.restored("2"), [1, 2, 3, 4]);
    assert_eq!(pair.restored("latest"), [101, 102]);
}

/// The directory in which the archive is to be made is not there.
#[test]
fn a_log_is_named_where_the_archive_fails() {
    for mode in ["WAL", "DELETE"] {
        let followed = exchanged(mode, false);
        let pair = &followed.pair;
        let missing = pair.dir.path("missing/archive");
        let run = place().run(["replicate", text(&pair.db), "--to", text(&missing), "--once"]);
        assert_eq!(run.code, 7, "{run:?}");
        is_named(pair, &run);
    }
}

/// Nothing is put aside before the key of the new file is at hand.
#[test]
fn a_log_stays_where_the_key_of_the_new_file_is_missing() {
    let followed = exchanged("WAL", true);
    let pair = &followed.pair;
    let stranger = Place::with_store();
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--once"];
    let run = stranger.run(words);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(aside(pair).is_empty(), "{run:?}");
    let run = pair.once(&["--no-sign"]);
    assert_eq!(run.code, 0, "{run:?}");
    is_named(pair, &run);
}
