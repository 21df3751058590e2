//! Faults of an archive in `overview`: of any kind, from `verify` and from a restore, until the
//! archive was verified whole.

use std::fs;

use serde_json::Value;

use crate::archive_damage::{harm, mend, record};
use crate::databases::place;
use crate::replicate::{Pair, five, text};
use crate::replicate_exchange::shipped;

/// Faults of an object: in its blocks, in its header, in its place.
const KINDS: [&str; 8] =
    ["flip", "header", "cut", "missing", "foreign", "dangling", "empty", "directory"];

fn verify_ok(pair: &Pair) -> Value {
    let run = place().run(["overview", text(&pair.db), "--json"]);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    found["databases"][0]["verify_ok"].clone()
}

fn is_shown(pair: &Pair) -> bool {
    let shown = place().run(["overview", text(&pair.db)]);
    let (is_wrong, is_damaged) = (verify_ok(pair) == false, shown.out.contains("DAMAGED"));
    assert!(shown.code == 1 || !is_damaged, "{shown:?}");
    assert_eq!(is_wrong, is_damaged, "{shown:?}");
    is_damaged
}

fn restore(pair: &Pair, at: &str, code: i32) {
    let (run, _) = pair.try_restore(at);
    assert_eq!(run.code, code, "{at}: {run:?}");
}

/// The last object, of which the history knows nothing, and one between others.
#[test]
fn each_fault_that_verify_finds_is_shown_until_the_archive_is_whole() {
    let pair = five();
    let archive = text(&pair.archive);
    for (kind, number) in KINDS.iter().flat_map(|kind| [(kind, 6), (kind, 3)]) {
        let whole = fs::read(pair.object(number)).unwrap();
        harm(&pair, kind, number);
        let run = place().run(["verify", archive]);
        assert_eq!(run.code, 4, "{kind} {number}: {run:?}");
        assert!(is_shown(&pair), "{kind} {number}");
        // The set beside it is whole, and so is what can be restored: that ends nothing.
        place().ok(["verify", text(&pair.object(number - 1))]);
        restore(&pair, "latest-good", 0);
        let run = place().run(["verify", archive, "--restore-test"]);
        assert_eq!(run.code, 4, "{kind} {number}: {run:?}");
        assert!(is_shown(&pair), "{kind} {number}");
        mend(&pair, number, &whole);
        place().ok(["verify", archive]);
        assert!(!is_shown(&pair), "{kind} {number}");
    }
}

/// Only the full set is left in front of what is missing.
#[test]
fn a_restore_of_the_set_before_a_missing_object_does_not_end_it() {
    let pair = five();
    for number in 2..=6 {
        fs::remove_file(pair.object(number)).unwrap();
    }
    assert_eq!(place().run(["verify", text(&pair.archive)]).code, 4);
    assert!(is_shown(&pair));
    restore(&pair, "1", 0);
    assert!(is_shown(&pair));
    // Where nobody knows of newer objects, it is whole.
    fs::remove_file(record(&pair)).unwrap();
    place().ok(["verify", text(&pair.archive)]);
    assert!(!is_shown(&pair));
}

#[test]
fn what_a_restore_meets_is_shown_as_what_verify_finds() {
    let pair = five();
    place().ok(["verify", text(&pair.archive)]);
    for (kind, number) in KINDS.iter().flat_map(|kind| [(kind, 6), (kind, 3)]) {
        for (at, code) in [("latest", 4), ("latest-good", 0)] {
            let whole = fs::read(pair.object(number)).unwrap();
            harm(&pair, kind, number);
            restore(&pair, at, code);
            assert!(is_shown(&pair), "{kind} {number} {at}");
            mend(&pair, number, &whole);
            place().ok(["verify", text(&pair.archive)]);
            assert!(!is_shown(&pair), "{kind} {number} {at}");
        }
    }
    // Nothing is left to restore.
    let whole = fs::read(pair.object(1)).unwrap();
    harm(&pair, "flip", 1);
    restore(&pair, "latest-good", 4);
    assert!(is_shown(&pair));
    mend(&pair, 1, &whole);
    place().ok(["verify", text(&pair.archive)]);
    assert!(!is_shown(&pair));
}

fn findings(pair: &Pair) -> (i32, String) {
    let run = place().run(["overview", text(&pair.db), "--json"]);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    (run.code, found["databases"][0]["findings"].to_string())
}

/// Nothing was verified since: the record says what the archive should have.
#[test]
fn an_archive_that_is_not_what_was_shipped_is_no_backup() {
    let (pair, other) = (five(), shipped(&[101, 102, 103, 104, 105]));
    place().ok(["verify", text(&pair.archive)]);
    let shows = |wrong: &str| {
        let (code, found) = findings(&pair);
        let is_shown = found.contains("archive-wrong");
        assert_eq!(is_shown && code == 1 && found.contains(wrong), !wrong.is_empty(), "{found}");
        assert_eq!(is_shown, !wrong.is_empty(), "{found}");
    };
    shows("");
    let whole = fs::read(pair.object(6)).unwrap();
    fs::copy(other.object(6), pair.object(6)).unwrap();
    shows("0006.tdekit");
    fs::copy(pair.object(5), pair.object(6)).unwrap();
    shows("0006.tdekit");
    fs::remove_file(pair.object(6)).unwrap();
    shows("0006.tdekit");
    fs::write(pair.object(6), whole).unwrap();
    shows("");
    let away = pair.dir.path("away");
    fs::rename(&pair.archive, &away).unwrap();
    shows(text(&pair.archive));
    fs::create_dir(&pair.archive).unwrap();
    shows(text(&pair.archive));
    fs::remove_dir(&pair.archive).unwrap();
    fs::rename(&away, &pair.archive).unwrap();
    shows("");
}
