//! Archives into which objects of a copy of the database got, which went on by itself: record,
//! lineage and numbers are the same, and the record beside the database contradicts them.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::archive_chains::{Form, add, exchange, expect_refused, expect_whole, next_chain, ship};
use crate::archive_damage::{json, name, record, time_of};
use crate::databases::{Dir, create, place};
use crate::replicate::{Pair, text};

const FORM: Form = Form::Plain;

/// Writes a row while nobody follows the database, so that the next object is a full set.
fn ship_full(pair: &Pair, row: u32) {
    create(&pair.db, &format!("INSERT INTO t VALUES ({row}, 'away')"));
    ship(pair, FORM, &[]);
}

/// Opens a database, so that its log stays.
fn opened(pair: &Pair) -> rusqlite::Connection {
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    keep
}

fn copy_of(pair: &Pair) -> Pair {
    Pair { archive: pair.dir.path("other"), db: pair.db.clone(), dir: Dir::new() }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A database of which each set is a full one, with rows of `own` behind row 1, and the archive of
/// its copy, with rows of `copy` there.
fn full_sets(own: &[u32], copy: &[u32]) -> (Pair, Pair) {
    let pair = Pair::new(false);
    ship_full(&pair, 1);
    let (db, shipped) = (fs::read(&pair.db).unwrap(), fs::read(record(&pair)).unwrap());
    let other = copy_of(&pair);
    copy_all(&pair.archive, &other.archive);
    copy.iter().for_each(|row| ship_full(&pair, *row));
    let swapped = pair.dir.path("swapped");
    fs::rename(&pair.archive, &swapped).unwrap();
    fs::rename(&other.archive, &pair.archive).unwrap();
    fs::rename(&swapped, &other.archive).unwrap();
    fs::write(&pair.db, db).unwrap();
    fs::write(record(&pair), shipped).unwrap();
    own.iter().for_each(|row| ship_full(&pair, *row));
    assert_eq!((pair.objects(), other.objects()), (1 + own.len(), 1 + copy.len()));
    expect_whole(&pair);
    (pair, other)
}

/// Lets a database go on by `own`, then, with the archive and the record from before, by `copy`.
/// Returns the archive of the copy; the other one and its record are back then.
fn fork(pair: &Pair, own: impl FnOnce(), copy: impl FnOnce()) -> Pair {
    let early = pair.dir.path("early");
    copy_all(&pair.archive, &early);
    let before = fs::read(record(pair)).unwrap();
    own();
    let (other, shipped) = (copy_of(pair), fs::read(record(pair)).unwrap());
    let kept = pair.dir.path("kept");
    fs::rename(&pair.archive, &kept).unwrap();
    fs::rename(&early, &pair.archive).unwrap();
    fs::write(record(pair), before).unwrap();
    copy();
    fs::rename(&pair.archive, &other.archive).unwrap();
    fs::rename(&kept, &pair.archive).unwrap();
    fs::write(record(pair), shipped).unwrap();
    expect_whole(pair);
    other
}

fn warns(pair: &Pair, at: &str) -> bool {
    let (run, _) = pair.try_restore(at);
    assert_eq!(run.code, 0, "{at}: {run:?}");
    run.err.contains("what is before it may not be either")
}

/// Checks what `verify` names, and the last good object.
fn expect_named(pair: &Pair, good: u32, named: RangeInclusive<u32>, whole: RangeInclusive<u32>) {
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["latest_good"]), (4, &good.into()), "{run:?}");
    let findings = found["findings"].to_string();
    named.for_each(|number| assert!(findings.contains(&name(number)), "{number}: {found}"));
    whole.for_each(|number| assert!(!findings.contains(&name(number)), "{number}: {found}"));
}

fn overview(pair: &Pair) -> String {
    place().run(["overview", text(&pair.db), "--json"]).out
}

#[test]
fn chains_of_a_copy_over_the_newest_ones_are_neither_restored_nor_gone_behind() {
    let (pair, copy) = full_sets(&[2, 3, 4], &[102, 103, 104, 105]);
    let own = fs::read(pair.object(4)).unwrap();
    exchange(&pair, &copy, 2..=5);
    expect_named(&pair, 3, 4..=5, 1..=3);
    for (at, by) in [("latest", 5), ("4", 4), ("5", 5)] {
        expect_refused(&pair, at, by);
    }
    // Nothing shows whose objects 2 and 3 are.
    for at in ["latest-good", "3", "2"] {
        assert!(warns(&pair, at), "{at}");
    }
    assert_eq!(pair.restored("latest-good"), [1, 102, 103]);
    assert!(overview(&pair).contains("archive-wrong"));
    ship_full(&pair, 7);
    expect_named(&pair, 6, 4..=5, 6..=6);
    let (_, found, _) = json(&["verify", text(&pair.archive)]);
    assert!(found["findings"].to_string().contains("object 4, which is lost"), "{found}");
    assert!(overview(&pair).contains("archive-wrong"));
    for at in ["latest", "latest-good", "6"] {
        assert_eq!(pair.restored(at), [1, 2, 3, 4, 7], "{at}");
        assert!(!warns(&pair, at), "{at}");
    }
    assert!(warns(&pair, "3"));
    ["4", "5"].iter().for_each(|at| expect_refused(&pair, at, at.parse().unwrap()));
    ship_full(&pair, 8);
    expect_named(&pair, 7, 4..=5, 6..=7);
    // The own object comes back: the one before it is another one's.
    fs::write(pair.object(4), own).unwrap();
    expect_named(&pair, 7, 5..=5, 6..=7);
    expect_refused(&pair, "3", 3);
    assert_eq!(pair.restored("4"), [1, 2, 3, 4]);
}

#[test]
fn log_sets_of_a_copy_over_the_newest_ones_are_neither_restored_nor_gone_behind() {
    let pair = Pair::new(false);
    let keep = opened(&pair);
    ship(&pair, FORM, &[]);
    add(&pair, FORM, &[1]);
    drop(keep);
    // The log goes on in two ways from the same place.
    let log = format!("{}-wal", text(&pair.db));
    let files = [text(&pair.db), &log].map(|path| (path, fs::read(path).unwrap()));
    let written = fs::metadata(&pair.db).unwrap().modified().unwrap();
    let go_on = |rows: &[u32]| {
        for (path, bytes) in &files {
            fs::write(path, bytes).unwrap();
        }
        fs::File::options().write(true).open(&pair.db).unwrap().set_modified(written).unwrap();
        let _ = fs::remove_file(format!("{}-shm", text(&pair.db)));
        let keep = opened(&pair);
        add(&pair, FORM, rows);
        drop(keep);
    };
    let copy = fork(&pair, || go_on(&[2, 3]), || go_on(&[102, 103, 104]));
    let (_, found, _) = json(&["verify", text(&copy.archive)]);
    assert_eq!(found["chains"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!((pair.objects(), copy.objects()), (4, 5));
    let late = time_of(&copy, "5");
    exchange(&pair, &copy, 3..=5);
    expect_named(&pair, 3, 4..=5, 1..=3);
    for at in ["latest", "4", "5", "5.1", &late] {
        expect_refused(&pair, at, 4);
    }
    assert!(warns(&pair, "latest-good") && warns(&pair, "3") && !warns(&pair, "1"));
    assert_eq!(pair.restored("latest-good"), [1, 102]);
    pair.add(7);
    let run = ship(&pair, FORM, &[]);
    assert!(run.err.contains("is not the one that was shipped"), "{run:?}");
    expect_named(&pair, 6, 1..=5, 6..=6);
    let (_, found, _) = json(&["verify", text(&pair.archive)]);
    assert!(found["findings"].to_string().contains("object 4, which is lost"), "{found}");
    assert_eq!(pair.restored("latest"), [1, 7, 102, 103, 104]);
    ["3", "4", "5"].iter().for_each(|at| expect_refused(&pair, at, 1));
}

/// The copy began a chain where the record has log sets.
#[test]
fn chains_of_a_copy_in_the_place_of_log_sets_are_foreign() {
    let pair = Pair::new(false);
    let keep = opened(&pair);
    ship(&pair, FORM, &[]);
    add(&pair, FORM, &[1]);
    let own = || add(&pair, FORM, &[2, 3]);
    let copy = fork(&pair, own, || {
        keep.execute_batch("DELETE FROM t WHERE n > 1").unwrap();
        ship(&pair, FORM, &[]);
        add(&pair, FORM, &[103, 104]);
    });
    exchange(&pair, &copy, 3..=5);
    for good in [2, 6] {
        expect_named(&pair, good, 3..=5, 1..=2);
        ["3", "4", "5"].iter().for_each(|at| expect_refused(&pair, at, 3));
        assert_eq!(pair.restored("2"), [1]);
        // The record names its full set, as long as the newest chain is that one.
        assert_eq!(warns(&pair, "2"), good == 6);
        if good == 2 {
            assert_eq!(pair.restored("latest-good"), [1]);
            pair.add(7);
            ship(&pair, FORM, &[]);
        }
    }
    assert_eq!(pair.restored("latest"), [1, 7, 103, 104]);
}

#[test]
fn a_chain_that_the_record_contradicts_is_foreign_and_not_the_one_before_it() {
    // Chains of 1 to 3, 4 to 7 and 8 to 10; those of the copy, behind 5: 4 to 6, 7 to 10, and 11.
    let pair = Pair::new(false);
    let keep = opened(&pair);
    ship(&pair, FORM, &[]);
    add(&pair, FORM, &[1, 2]);
    next_chain(&pair, FORM);
    add(&pair, FORM, &[3]);
    let own = || {
        add(&pair, FORM, &[4, 5]);
        next_chain(&pair, FORM);
        add(&pair, FORM, &[6, 7]);
    };
    let copy = fork(&pair, own, || {
        keep.execute_batch("DELETE FROM t WHERE n > 3").unwrap();
        ship(&pair, FORM, &[]);
        next_chain(&pair, FORM);
        add(&pair, FORM, &[104, 105, 106]);
        next_chain(&pair, FORM);
    });
    assert_eq!((pair.objects(), copy.objects()), (10, 11));
    let late = time_of(&copy, "9");
    for last in [10, 11] {
        exchange(&pair, &copy, 7..=last);
        expect_named(&pair, 6, 7..=last, 1..=6);
        for at in ["7", "8", "9", "10", &late] {
            expect_refused(&pair, at, 7);
        }
        for (at, rows) in [("5", 1..=3), ("6", 1..=4), ("latest-good", 1..=4)] {
            assert_eq!(pair.restored(at), rows.collect::<Vec<_>>(), "{last} {at}");
            assert!(!warns(&pair, at), "{last} {at}");
        }
    }
    expect_refused(&pair, "11", 11);
    pair.add(200);
    ship(&pair, FORM, &[]);
    expect_named(&pair, 12, 7..=11, 1..=6);
    assert_eq!(pair.restored("latest"), [1, 2, 3, 104, 105, 106, 200]);
    assert_eq!(pair.restored("6"), [1, 2, 3, 4]);
    for (at, by) in [("7", 7), ("10", 7), ("11", 11)] {
        expect_refused(&pair, at, by);
    }
}

/// An older record, no record, and a record of a copy that went on in the same archive: each names
/// an object that is there as it says.
#[test]
fn records_that_are_outdated_contradict_nothing() {
    let pair = Pair::new(false);
    (1..=2).for_each(|row| ship_full(&pair, row));
    let older = fs::read(record(&pair)).unwrap();
    (3..=4).for_each(|row| ship_full(&pair, row));
    let expect_own = |last: u32| {
        expect_whole(&pair);
        for (at, last) in [("2", 2), ("3", 3), ("latest", last), ("latest-good", last)] {
            assert_eq!(pair.restored(at), (1..=last).collect::<Vec<_>>(), "{at}");
            assert!(!warns(&pair, at), "{at}");
        }
    };
    fs::write(record(&pair), &older).unwrap();
    expect_own(4);
    ship_full(&pair, 5);
    expect_own(5);
    fs::remove_file(record(&pair)).unwrap();
    expect_own(5);
    ship_full(&pair, 6);
    expect_own(6);
    let before = fs::read(record(&pair)).unwrap();
    ship_full(&pair, 7);
    fs::write(record(&pair), &before).unwrap();
    expect_own(7);
    ship_full(&pair, 8);
    expect_own(8);
    // The archive is restored from an older copy, and its own object gets the number of none.
    fs::remove_file(pair.object(8)).unwrap();
    ship_full(&pair, 9);
    assert_eq!(pair.restored("latest"), (1..=9).collect::<Vec<_>>());
    assert!(!warns(&pair, "7") && pair.object(9).exists() && !pair.object(8).exists());
}

/// Who takes the archive over goes on behind the copy's objects.
#[test]
fn an_archive_with_the_objects_of_a_copy_can_be_taken_over() {
    let (pair, copy) = full_sets(&[2, 3], &[102, 103, 104]);
    exchange(&pair, &copy, 2..=4);
    expect_named(&pair, 2, 3..=4, 1..=2);
    ship(&pair, FORM, &["--take-over"]);
    expect_whole(&pair);
    assert_eq!((pair.restored("4"), pair.restored("5")), (vec![1, 102, 103, 104], vec![1, 2, 3]));
    assert!(["2", "4", "latest"].iter().all(|at| !warns(&pair, at)));
}
