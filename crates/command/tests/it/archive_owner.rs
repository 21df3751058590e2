//! Archives with chains of another database, or of an older archive of the same one: which of them
//! are taken for foreign where records beside databases are of other archives, or none is there.

use std::fs;

use serde_json::Value;

use crate::archive_chains::{
    Form, LATER, add, contents, exchange, expect_refused, expect_whole, mend, next_chain, nine,
    ship, ship_chains,
};
use crate::archive_damage::{json, name, record, time_of};
use crate::databases::place;
use crate::replicate::{Pair, text};

/// A copy of an archive, in a place that the record beside the database does not name.
fn copied(pair: Pair) -> Pair {
    let to = pair.dir.path("copy");
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(&pair.archive).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    Pair { archive: to, ..pair }
}

fn rows(range: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    range.collect()
}

/// Checks the last good object, and that the first findings are about these objects.
fn expect_findings(pair: &Pair, good: u32, named: &[u32]) -> Value {
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["verdict"]), (4, &"damaged".into()), "{run:?}");
    assert_eq!(found["latest_good"], good, "{found}");
    let findings = found["findings"].to_string();
    named.iter().for_each(|number| assert!(findings.contains(&name(*number)), "{found}"));
    assert!(found["findings"][0].as_str().unwrap().contains(&name(named[0])), "{found}");
    found
}

/// The record names an object that is here: what is before it is of its database, or foreign.
#[test]
fn the_record_of_a_copys_newest_object_shows_whose_archive_it_is() {
    let (pair, other) = (copied(nine(Form::Sealed, 0)), nine(Form::Sealed, 100));
    let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
    exchange(&pair, &other, 1..=6);
    expect_findings(&pair, 9, &[1, 4]);
    for at in ["1", "2", "3"] {
        expect_refused(&pair, at, 1);
    }
    for at in ["4", "5", "6"] {
        expect_refused(&pair, at, 4);
    }
    for at in &times[..2] {
        let (run, to) = pair.try_restore(at);
        assert!(run.code == 4 && !to.exists(), "{at}: {run:?}");
    }
    // It has been shipped by then.
    assert_eq!(pair.restored(&time_of(&other, "2")), rows(1..=6));
    for (at, last) in [("7", 4), ("8", 5), ("latest", 6), ("latest-good", 6), (&times[2], 5)] {
        assert_eq!(pair.restored(at), rows(1..=last), "{at}");
    }
    // Headers alone would show the opposite: the user hears that.
    for at in ["latest", "7"] {
        let (run, _) = pair.try_restore(at);
        assert!(run.err.contains("is not known") && run.err.contains(text(&pair.db)), "{run:?}");
    }
}

/// An archive that was moved is no copy: nothing is in the place that the record names.
#[test]
fn the_record_of_an_archive_that_was_moved_shows_whose_it_is() {
    let (pair, other) = (nine(Form::Plain, 0), nine(Form::Plain, 100));
    let to = pair.dir.path("moved");
    fs::rename(&pair.archive, &to).unwrap();
    let pair = Pair { archive: to, ..pair };
    exchange(&pair, &other, 1..=6);
    fs::remove_file(record(&other)).unwrap();
    expect_findings(&pair, 9, &[1, 4]);
    assert_eq!(pair.restored("latest-good"), rows(1..=6));
    let (run, _) = pair.try_restore("latest");
    assert!(run.code == 0 && !run.err.contains("not known"), "{run:?}");
}

/// Its first database is not foreign: the second one says why it follows.
#[test]
fn an_archive_that_was_taken_over_is_whole_in_a_copy_too() {
    let form = Form::Sealed;
    let (other, mut pair) = (Pair::new(false), Pair::new(false));
    ship_chains(&other, form, 100, 2);
    pair.archive.clone_from(&other.archive);
    let keep = pair.db();
    pair.add(1);
    ship(&pair, form, &["--take-over"]);
    add(&pair, form, &[2, 3]);
    drop(keep);
    for is_copied in [false, true] {
        if is_copied {
            pair = copied(pair);
        }
        expect_whole(&pair);
        for (at, last) in [("2", 101), ("3", 102), ("5", 103), ("6", 104)] {
            let (run, _) = pair.try_restore(at);
            assert!(run.code == 0 && !run.err.contains("not known"), "{at}: {run:?}");
            assert_eq!(pair.restored(at), rows(101..=last), "{at}");
        }
        assert_eq!(pair.restored("latest"), rows(1..=3));
    }
}

/// The record of the archive from which it was copied does not count, nor its database's reason.
#[test]
fn a_copied_chain_is_foreign_between_those_of_another_database() {
    let form = Form::Plain;
    let (mut pair, other) = (copied(nine(form, 0)), Pair::new(false));
    ship_chains(&other, form, 100, 2);
    // The copy lacks the object that the record of its own database names.
    let copy = std::mem::replace(&mut pair.archive, pair.dir.path("archive"));
    add(&pair, form, &[7]);
    pair.archive = copy;
    exchange(&pair, &other, 4..=6);
    expect_findings(&pair, 9, &[4]);
    for (at, last) in [("3", 2), ("7", 4), ("latest", 6), ("latest-good", 6)] {
        assert_eq!(pair.restored(at), rows(1..=last), "{at}");
    }
    expect_refused(&pair, "6", 4);
}

/// Its record names the archive, whatever stands in the place of what was shipped last.
#[test]
fn the_record_shows_whose_archive_it_is_where_its_newest_chain_was_replaced() {
    for is_longer in [true, false] {
        let (pair, other) = (Pair::new(false), nine(Form::Sealed, 100));
        ship_chains(&pair, Form::Sealed, 0, if is_longer { 3 } else { 2 });
        let time = time_of(&pair, "5");
        exchange(&pair, &other, (1..=3).chain(7..=9));
        expect_findings(&pair, 6, &[1, 7]);
        for (at, by) in [("1", 1), ("3", 1), ("7", 7), ("9", 7), ("latest", 7), (LATER, 7)] {
            expect_refused(&pair, at, by);
        }
        for (at, last) in [("4", 2), ("6", 4), ("latest-good", 4), (&time, 3)] {
            assert_eq!(pair.restored(at), rows(1..=last), "{is_longer} {at}");
        }
    }
}

/// A single object of another database, whose record names it, condemns none before it.
#[test]
fn a_foreign_newest_object_shows_nothing_of_the_full_set_before_it() {
    for is_copied in [true, false] {
        let (mut pair, other) = (nine(Form::Plain, 0), nine(Form::Plain, 100));
        match is_copied {
            true => pair = copied(pair),
            false => fs::remove_file(record(&pair)).unwrap(),
        }
        for foreign in [9..=9, 8..=9] {
            exchange(&pair, &other, foreign.clone());
            let (first, good) = (*foreign.start(), *foreign.start() - 1);
            expect_findings(&pair, good, &foreign.collect::<Vec<_>>());
            for (at, last) in [("6", 4), ("7", 4), (&good.to_string(), good - 3)] {
                assert_eq!(pair.restored(at), rows(1..=last), "{is_copied} {first} {at}");
            }
            assert_eq!(pair.restored("latest-good"), rows(1..=good - 3), "{is_copied} {first}");
            for at in ["9", "latest"] {
                expect_refused(&pair, at, first);
            }
        }
    }
}

/// Log sets name the full set that is not here, and their database.
#[test]
fn lone_foreign_full_sets_are_named_by_the_log_sets_behind_them() {
    for form in [Form::Plain, Form::Encrypted] {
        let (pair, other) = (nine(form, 0), nine(form, 100));
        let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
        for is_recorded in [true, false] {
            if !is_recorded {
                fs::remove_file(record(&pair)).unwrap();
            }
            exchange(&pair, &other, [4, 7]);
            let found = expect_findings(&pair, 3, &[4, 7]);
            let first = found["findings"][0].as_str().unwrap();
            assert!(first.contains(text(&other.db)) && first.contains(text(&pair.db)), "{found}");
            for (at, last) in [("1", 0), ("3", 2), ("latest-good", 2), (&times[0], 1)] {
                assert_eq!(pair.restored(at), rows(1..=last), "{is_recorded} {at}");
            }
            for (at, by) in [("4", 4), ("6", 4), (&times[1], 4), ("7", 7), ("9", 7)] {
                expect_refused(&pair, at, by);
            }
            expect_refused(&pair, "latest", 7);
            expect_refused(&pair, &times[2], 4);
        }
    }
}

/// Two chains, of which the newer one has a full set and three log sets.
fn of_four(base: u32) -> Pair {
    let (pair, form) = (Pair::new(false), Form::Sealed);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    ship(&pair, form, &[]);
    add(&pair, form, &[base + 1, base + 2, base + 3, base + 4]);
    next_chain(&pair, form);
    add(&pair, form, &[base + 5, base + 6, base + 7]);
    drop(keep);
    assert_eq!(pair.objects(), 9);
    pair
}

/// As many foreign log sets as objects of the chain that they are in, and more.
#[test]
fn foreign_log_sets_do_not_outvote_a_chain_of_the_archives_database() {
    let (pair, other) = (of_four(0), of_four(100));
    let whole = contents(&pair);
    for is_recorded in [true, false] {
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        for first in [8, 7] {
            exchange(&pair, &other, first..=9);
            expect_findings(&pair, first - 1, &[first, 9]);
            for (at, last) in [("5", 4), ("6", 4), (&(first - 1).to_string(), first - 3)] {
                assert_eq!(pair.restored(at), rows(1..=last), "{is_recorded} {first} {at}");
            }
            expect_refused(&pair, "9", first);
            mend(&pair, &whole);
        }
    }
    // Of one chain, a full set and its log set count as much as two that are foreign.
    (1..=5).for_each(|number| fs::remove_file(pair.object(number)).unwrap());
    exchange(&pair, &other, 8..=9);
    assert_eq!(pair.restored("6"), rows(1..=4));
    assert_eq!(pair.restored("7"), rows(1..=5));
}

/// An archive that was begun anew, and a chain of the one before.
#[test]
fn a_chain_of_an_older_archive_of_the_same_database_is_refused_by_its_dates() {
    for form in [Form::Plain, Form::Encrypted] {
        let pair = nine(form, 0);
        let older = pair.dir.path("older");
        fs::rename(&pair.archive, &older).unwrap();
        fs::remove_file(record(&pair)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
        ship_chains(&pair, form, 10, 3);
        let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
        let early = Pair { archive: older, db: pair.db.clone(), dir: crate::databases::Dir::new() };
        let old_time = time_of(&early, "5");
        let whole = contents(&pair);
        let of = |count: u32| [rows(1..=6), rows(11..=10 + count)].concat();
        for is_recorded in [true, false] {
            if !is_recorded {
                fs::remove_file(record(&pair)).unwrap();
            }
            exchange(&pair, &early, 4..=6);
            expect_findings(&pair, 9, &[4]);
            (4..=6).for_each(|number| expect_refused(&pair, &number.to_string(), 4));
            expect_refused(&pair, &times[1], 4);
            let (run, to) = pair.try_restore(&old_time);
            assert!(run.code != 0 && !to.exists(), "{run:?}");
            for (at, count) in [
                ("1", 0),
                ("3", 2),
                ("7", 4),
                ("latest", 6),
                ("latest-good", 6),
                (LATER, 6),
                (&times[0], 1),
                (&times[2], 5),
            ] {
                assert_eq!(pair.restored(at), of(count), "{form:?} {is_recorded} {at}");
            }
            mend(&pair, &whole);
            exchange(&pair, &early, 7..=9);
            expect_findings(&pair, 6, &[7]);
            assert_eq!(pair.restored("latest-good"), of(4), "{form:?} {is_recorded}");
            for at in ["7", "latest", LATER] {
                expect_refused(&pair, at, 7);
            }
            mend(&pair, &whole);
            expect_whole(&pair);
        }
    }
}

/// Without an earlier `verify`: the archive's database has the fault, and not the other one.
#[test]
fn a_restore_test_alone_shows_a_foreign_chain_as_damage_of_its_archive() {
    let cases: [(Form, bool, &[u32]); 7] = [
        (Form::Plain, true, &[4, 5, 6]),
        (Form::Plain, true, &[1, 2, 3, 7, 8, 9]),
        (Form::Plain, true, &[8, 9]),
        (Form::Plain, false, &[7, 8, 9]),
        (Form::Plain, false, &[5]),
        (Form::Sealed, false, &[1, 2, 3]),
        (Form::Sealed, false, &[9]),
    ];
    for (form, is_recorded, foreign) in cases {
        let (pair, other) = (nine(form, 0), nine(form, 100));
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        exchange(&pair, &other, foreign.iter().copied());
        let run = place().run(["verify", text(&pair.archive), "--restore-test"]);
        assert_eq!(run.code, 4, "{foreign:?}: {run:?}");
        let of = |pair: &Pair| {
            let run = place().run(["overview", text(&pair.db), "--json"]);
            let found: Value = serde_json::from_str(&run.out).unwrap();
            found["databases"][0].clone()
        };
        let (own, others) = (of(&pair), of(&other));
        assert_eq!(own["verify_ok"], false, "{form:?} {foreign:?}: {own}");
        assert!(own["findings"].to_string().contains("verify-failed"), "{own}");
        assert_ne!(others["verify_ok"], false, "{form:?} {foreign:?}: {others}");
    }
}
