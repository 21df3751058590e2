//! Archives with objects of another archive, or of another place: who is blamed for it, and what is
//! restored all the same.

use std::fs;

use serde_json::Value;

use crate::archive_damage::{harm, json, name, record, time_of};
use crate::databases::place;
use crate::replicate::{Pair, five, text};
use crate::replicate_exchange::{begin_chain, shipped};

/// A chain of three objects and one of a single full set, of two databases.
fn two_pairs() -> (Pair, Pair) {
    let (pair, other) = (shipped(&[1, 2]), shipped(&[101, 102]));
    for each in [&pair, &other] {
        let keep = each.db();
        keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        begin_chain(each);
        assert_eq!(each.objects(), 4);
    }
    (pair, other)
}

/// The full set that begins the newest chain decides what a time means: another database's in its
/// place is named, with and without the record, and does not hinder what is before it.
#[test]
fn a_foreign_full_set_decides_no_time() {
    for is_recorded in [true, false] {
        let (pair, other) = two_pairs();
        let early = time_of(&pair, "2");
        let words = ["verify", text(&pair.archive), "--json"];
        place().ok(words);
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        fs::copy(other.object(4), pair.object(4)).unwrap();
        for at in ["2199-01-01 00:00:00", "4", "latest"] {
            let (run, to) = pair.try_restore(at);
            assert!(run.code == 4 && !to.exists(), "{is_recorded} {at}: {run:?}");
            assert!(run.err.contains(&name(4)), "{is_recorded} {at}: {run:?}");
        }
        assert_eq!(pair.restored(&early), [1], "{is_recorded}");
        assert_eq!(pair.restored("3"), [1, 2], "{is_recorded}");
        assert_eq!(pair.restored("latest-good"), [1, 2], "{is_recorded}");
        let (code, found, run) = json(&words[..2]);
        assert_eq!((code, &found["latest_good"]), (4, &3.into()), "{is_recorded}: {run:?}");
        assert!(found["findings"][0].as_str().unwrap().contains(&name(4)), "{found}");
    }
}

/// It may begin at any time: what is before it in its own archive's time stays what it is.
#[test]
fn a_foreign_full_set_that_is_older_hides_no_transaction() {
    let other = shipped(&[101, 102]);
    let keep = other.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    begin_chain(&other);
    let pair = shipped(&[1, 2]);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    begin_chain(&pair);
    let (early, last) = (time_of(&pair, "2"), time_of(&pair, "3"));
    fs::copy(other.object(4), pair.object(4)).unwrap();
    assert_eq!(pair.restored(&early), [1]);
    // The set in whose place it stands may have had more by then.
    for at in [last.as_str(), "2199-01-01 00:00:00"] {
        let (run, to) = pair.try_restore(at);
        assert!(run.code == 4 && !to.exists() && run.err.contains(&name(4)), "{at}: {run:?}");
    }
}

fn passed(found: &Value) -> Vec<u64> {
    let passed = found["passed_over"].as_array().unwrap().iter();
    passed.map(|it| it["number"].as_u64().unwrap()).collect()
}

/// Log sets of another archive behind a full set: they are named, not the full set that the others
/// and the record name.
#[test]
fn several_foreign_objects_are_named_and_not_their_base() {
    for (is_recorded, foreign) in
        [(true, &[2, 3, 4, 5][..]), (true, &[2, 3]), (false, &[2, 3]), (false, &[2])]
    {
        let (pair, other) = (five(), five());
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        for number in foreign {
            fs::copy(other.object(*number), pair.object(*number)).unwrap();
        }
        let (code, found, run) = json(&["verify", text(&pair.archive)]);
        let good = (code, &found["latest_good"]);
        assert_eq!(good, (4, &1.into()), "{is_recorded} {foreign:?}: {run:?}");
        assert_eq!(passed(&found), [2, 3, 4, 5, 6], "{is_recorded} {foreign:?}");
        for at in ["latest", "6", "3"] {
            let (run, _) = pair.try_restore(at);
            assert!(run.code == 4 && run.err.contains(&name(2)), "{foreign:?} {at}: {run:?}");
        }
        assert_eq!(pair.restored("1"), Vec::<u32>::new(), "{is_recorded} {foreign:?}");
        assert_eq!(pair.restored("latest-good"), Vec::<u32>::new(), "{is_recorded}");
    }
}

/// If the newest object is gone too, the error names the first wrong object.
#[test]
fn the_first_wrong_object_is_named_where_the_newest_is_gone() {
    for kind in ["flip", "missing"] {
        let pair = five();
        let last = time_of(&pair, "5");
        harm(&pair, kind, 3);
        fs::remove_file(pair.object(6)).unwrap();
        for at in ["latest", "6", "6.1", "5", &last, "2199-01-01 00:00:00"] {
            let (run, to) = pair.try_restore(at);
            assert!(run.code == 4 && !to.exists(), "{kind} {at}: {run:?}");
            assert!(run.err.contains(&name(3)), "{kind} {at}: {run:?}");
        }
    }
}
