//! Archives with chains of an older archive of the same database, or of another one's, where others
//! beside them are refused or missing: lineages show them, whatever their dates are.

use std::fs;

use serde_json::Value;

use crate::archive_chains::{
    Form, LATER, add, contents, exchange, expect_refused, expect_whole, mend, next_chain, nine,
    ship, ship_chains,
};
use crate::archive_damage::{json, name, record, time_of};
use crate::databases::{Dir, place};
use crate::replicate::{Pair, text};

fn rows(range: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    range.collect()
}

/// An archive of nine objects that was begun anew, and the one before it, with rows of 1 to 6 and
/// of 11 to 16 behind them.
fn begun_anew(form: Form) -> (Pair, Pair) {
    let pair = nine(form, 0);
    let older = pair.dir.path("older");
    fs::rename(&pair.archive, &older).unwrap();
    fs::remove_file(record(&pair)).unwrap();
    ship_chains(&pair, form, 10, 3);
    let older = Pair { archive: older, db: pair.db.clone(), dir: Dir::new() };
    (pair, older)
}

fn remove(pair: &Pair, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| fs::remove_file(pair.object(number)).unwrap());
}

/// Checks that all is damaged, by the first of these objects, and the last good object.
fn expect_damaged(pair: &Pair, good: u32, named: &[u32]) {
    for more in [None, Some("--restore-test")] {
        let words = ["verify", text(&pair.archive)].into_iter().chain(more).collect::<Vec<_>>();
        let run = place().run(&words);
        assert_eq!(run.code, 4, "{words:?}: {run:?}");
    }
    let (_, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!(found["latest_good"], good, "{run:?}");
    let findings = found["findings"].to_string();
    named.iter().for_each(|number| assert!(findings.contains(&name(*number)), "{found}"));
}

/// Returns true if `overview` has a finding about the archive, before anybody verifies it.
fn is_found(pair: &Pair) -> bool {
    let run = place().run(["overview", text(&pair.db), "--json"]);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let shown = found["databases"][0]["findings"].to_string();
    shown.contains("archive")
}

#[test]
fn an_older_archives_chain_is_refused_behind_one_that_is_refused_or_missing() {
    for form in [Form::Plain, Form::Encrypted] {
        let (pair, older) = begun_anew(form);
        let other = nine(form, 100);
        let whole = contents(&pair);
        let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
        let of = |count: u32| [rows(1..=6), rows(11..=10 + count)].concat();
        for (is_recorded, is_there) in [(true, true), (true, false), (false, true), (false, false)]
        {
            if !is_recorded && record(&pair).exists() {
                fs::remove_file(record(&pair)).unwrap();
            }
            // Without a record, it is the archive of most objects.
            let own = if is_recorded { 1..=3 } else { 1..=6 };
            if is_recorded {
                match is_there {
                    true => exchange(&pair, &other, 4..=6),
                    false => remove(&pair, 4..=6),
                }
            }
            exchange(&pair, &older, 7..=9);
            let (good, count) = (*own.end(), *own.end() - own.end() / 3);
            expect_damaged(&pair, good, &[7]);
            for at in ["7", "9", "latest", LATER] {
                let (run, to) = pair.try_restore(at);
                // What is missing in front of it may have been committed by then.
                let is_refused = run.code == 4 || (at == LATER && run.code == 1);
                assert!(is_refused && !to.exists(), "{form:?} {is_recorded} {at}: {run:?}");
            }
            for at in ["latest-good", &good.to_string()] {
                assert_eq!(pair.restored(at), of(count), "{form:?} {is_recorded} {is_there} {at}");
            }
            assert_eq!(pair.restored(&times[0]), of(1));
            let (run, to) = pair.try_restore(&times[2]);
            assert!(run.code != 0 && !to.exists(), "{form:?} {is_recorded}: {run:?}");
            mend(&pair, &whole);
        }
        expect_whole(&pair);
    }
}

/// The newest set shows which of two archives of one database this is, and not the number of
/// objects; who restores hears that no record says so.
#[test]
fn an_older_archive_with_more_objects_is_foreign_all_the_same() {
    let (pair, older) = begun_anew(Form::Plain);
    fs::remove_file(record(&pair)).unwrap();
    exchange(&pair, &older, 4..=9);
    expect_damaged(&pair, 3, &[4, 7]);
    for (at, by) in [("4", 4), ("6", 4), ("7", 7), ("latest", 7)] {
        expect_refused(&pair, at, by);
    }
    let of = [rows(1..=6), rows(11..=12)].concat();
    assert_eq!((pair.restored("latest-good"), pair.restored("3")), (of.clone(), of));
    let (run, _) = pair.try_restore("2");
    assert!(run.code == 0 && run.err.contains("no record on this machine"), "{run:?}");
}

/// Two of its objects over the ends of two chains: their numbers are right, and nothing else.
#[test]
fn single_objects_of_an_older_archive_are_named() {
    let (pair, older) = begun_anew(Form::Sealed);
    let whole = contents(&pair);
    for numbers in [&[3, 4][..], &[4], &[3], &[6, 7, 8]] {
        exchange(&pair, &older, numbers.iter().copied());
        let first = numbers[0];
        for number in numbers {
            expect_refused(&pair, &number.to_string(), if *number > 6 { 7 } else { *number });
        }
        let (_, found, run) = json(&["verify", text(&pair.archive)]);
        assert!(found["findings"][0].as_str().unwrap().contains(&name(first)), "{run:?}");
        mend(&pair, &whole);
        expect_whole(&pair);
    }
}

#[test]
fn a_foreign_chain_in_the_place_of_the_newest_object_or_behind_it_hides_no_loss() {
    let form = Form::Sealed;
    let (pair, older) = begun_anew(form);
    let other = nine(form, 100);
    for each in [&other, &older] {
        // The older archive has the record of the newer one.
        if each.db == other.db {
            let keep = each.db();
            keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
            next_chain(each, form);
            add(each, form, &[107, 108]);
        }
    }
    let whole = contents(&pair);
    let of = |count: u32| [rows(1..=6), rows(11..=10 + count)].concat();
    assert!(!is_found(&pair));
    // Behind the newest object, behind its place, and in it.
    for good in [9, 8, 6] {
        exchange(&pair, &other, 10..=12);
        remove(&pair, good + 1..=9);
        assert!(is_found(&pair), "{good}");
        expect_damaged(&pair, good, &[10]);
        for at in ["10", "12", "latest", LATER] {
            let (run, to) = pair.try_restore(at);
            let is_refused = run.code == 4 || (at == LATER && run.code == 1);
            assert!(is_refused && !to.exists(), "{good} {at}: {run:?}");
        }
        assert_eq!(pair.restored("latest-good"), of(good - u32::div_ceil(good, 3)), "{good}");
        remove(&pair, 10..=12);
        mend(&pair, &whole);
        expect_whole(&pair);
        assert!(!is_found(&pair));
    }
    exchange(&pair, &older, 7..=9);
    assert!(is_found(&pair));
    expect_damaged(&pair, 6, &[7]);
    exchange(&pair, &other, 1..=9);
    assert!(is_found(&pair), "nothing is left of it");
}

/// Objects of another archive at the end are not what the next chain goes on behind.
#[test]
fn the_follower_goes_on_behind_its_own_last_object() {
    let form = Form::Sealed;
    let (pair, older) = begun_anew(form);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    let last = fs::read(pair.object(9)).unwrap();
    exchange(&pair, &older, 9..=9);
    pair.add(17);
    let run = ship(&pair, form, &[]);
    assert!(run.err.contains("is not the one that was shipped"), "{run:?}");
    pair.add(18);
    ship(&pair, form, &[]);
    assert_eq!(pair.restored("latest"), [rows(1..=6), rows(11..=18)].concat());
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["latest_good"]), (4, &11.into()), "{run:?}");
    assert!(found["findings"][0].as_str().unwrap().contains(&name(9)), "{run:?}");
    fs::write(pair.object(9), last).unwrap();
    expect_whole(&pair);
    assert_eq!(pair.restored("9"), [rows(1..=6), rows(11..=16)].concat());
    // Without a record, what is in the archive stays a part of it.
    fs::remove_file(record(&pair)).unwrap();
    pair.add(19);
    ship(&pair, form, &[]);
    expect_whole(&pair);
    exchange(&pair, &older, 7..=9);
    assert_eq!(pair.restored("latest"), [rows(1..=6), rows(11..=19)].concat());
    expect_refused(&pair, "8", 7);
    assert_eq!(pair.restored("6"), [rows(1..=6), rows(11..=14)].concat());
}

/// An archive that was restored from an older copy and has gone on without its record: what was
/// shipped behind that copy before is not its own any more.
#[test]
fn what_was_shipped_before_an_older_copy_was_restored_is_foreign() {
    let form = Form::Plain;
    let pair = Pair::new(false);
    ship_chains(&pair, form, 0, 2);
    let early = pair.dir.path("early");
    copy(&pair.archive, &early);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    for base in [100, 200, 300] {
        next_chain(&pair, form);
        add(&pair, form, &[base + 1, base + 2]);
    }
    let old = Pair { archive: pair.dir.path("old"), db: pair.db.clone(), dir: Dir::new() };
    fs::rename(&pair.archive, &old.archive).unwrap();
    fs::rename(&early, &pair.archive).unwrap();
    fs::remove_file(record(&pair)).unwrap();
    keep.execute_batch("DELETE FROM t WHERE n > 100").unwrap();
    ship(&pair, form, &[]);
    add(&pair, form, &[5, 6]);
    expect_whole(&pair);
    let own = rows(1..=6);
    for is_recorded in [true, false] {
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        for numbers in [10..=12, 13..=15, 10..=15] {
            let first = *numbers.start();
            exchange(&pair, &old, numbers.clone());
            expect_damaged(&pair, 9, &[first]);
            for at in [&first.to_string(), "latest"] {
                let (run, to) = pair.try_restore(at);
                assert!(run.code == 4 && !to.exists(), "{is_recorded} {at}: {run:?}");
            }
            assert_eq!(pair.restored("latest-good"), own, "{is_recorded} {first}");
            assert_eq!(pair.restored("9"), own, "{is_recorded} {first}");
            remove(&pair, numbers);
        }
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Database, record and archive were copied, and both go on: of one lineage, they differ by links.
#[test]
fn a_chain_of_a_copy_that_went_on_is_named_and_not_what_is_beside_it() {
    let form = Form::Plain;
    let pair = Pair::new(false);
    ship_chains(&pair, form, 0, 1);
    let other = pair.dir.path("other");
    copy(&pair.archive, &other);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    let before = fs::read(record(&pair)).unwrap();
    // Own chains of 4 to 7, 8 to 10 and 11 to 12; the other's of 4 to 8 and 9 to 11.
    next_chain(&pair, form);
    add(&pair, form, &[3, 4, 5]);
    next_chain(&pair, form);
    add(&pair, form, &[6, 7]);
    next_chain(&pair, form);
    add(&pair, form, &[8]);
    let (own, after) = (pair.dir.path("own"), fs::read(record(&pair)).unwrap());
    fs::rename(&pair.archive, &own).unwrap();
    fs::rename(&other, &pair.archive).unwrap();
    fs::write(record(&pair), before).unwrap();
    keep.execute_batch("DELETE FROM t WHERE n > 2").unwrap();
    ship(&pair, form, &[]);
    add(&pair, form, &[103, 104, 105, 106]);
    next_chain(&pair, form);
    add(&pair, form, &[107, 108]);
    fs::rename(&pair.archive, &other).unwrap();
    fs::rename(&own, &pair.archive).unwrap();
    fs::write(record(&pair), after).unwrap();
    let other = Pair { archive: other, db: pair.db.clone(), dir: Dir::new() };
    let whole: Vec<_> = (1..=12).map(|number| fs::read(pair.object(number)).unwrap()).collect();
    expect_whole(&pair);
    for (numbers, good, kept, last) in [(9..=11, 8, 8, 5), (4..=8, 12, 3, 2)] {
        exchange(&pair, &other, numbers.clone());
        let (first, context) = (*numbers.start(), format!("{numbers:?}"));
        let (code, found, run) = json(&["verify", text(&pair.archive)]);
        assert_eq!(code, 4, "{context}: {run:?}");
        assert!(found["findings"].to_string().contains(&name(first)), "{context}: {found}");
        for number in numbers {
            let (run, to) = pair.try_restore(&number.to_string());
            assert!(run.code == 4 && !to.exists(), "{context} {number}: {run:?}");
        }
        assert_eq!(pair.restored(&kept.to_string()), rows(1..=last), "{context}");
        if good < 12 {
            assert_eq!(pair.restored("latest-good"), rows(1..=last), "{context}");
        } else {
            assert_eq!(pair.restored("latest"), rows(1..=8), "{context}");
        }
        mend(&pair, &whole);
        expect_whole(&pair);
    }
}
