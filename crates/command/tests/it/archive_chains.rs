//! Archives with whole chains of another database: what shows that they are foreign, who is refused
//! then, and which archives of several databases are whole all the same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::archive_damage::{json, name, record, time_of};
use crate::common::{Place, Run};
use crate::databases::{Dir, open, place};
use crate::replicate::{Pair, five, text};
use crate::replicate_exchange::begin_chain;

/// Which of a database and its archive are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Neither is encrypted.
    Plain,
    /// The archive is encrypted.
    Sealed,
    /// Both are encrypted.
    Encrypted,
}

pub(crate) fn ship(pair: &Pair, form: Form, more: &[&str]) -> Run {
    let run = match form {
        Form::Plain => {
            let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--once"];
            place().run([&words[..], &["--no-sign"], more].concat())
        }
        Form::Sealed | Form::Encrypted => pair.once(more),
    };
    assert_eq!(run.code, 0, "{run:?}");
    run
}

pub(crate) fn next_chain(pair: &Pair, form: Form) {
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let run = ship(pair, form, &["--snapshot-every", "1s"]);
    assert!(run.err.contains("the last full set is old"), "{run:?}");
}

pub(crate) fn add(pair: &Pair, form: Form, rows: &[u32]) {
    for n in rows {
        pair.add(*n);
        ship(pair, form, &[]);
    }
}

/// Three chains of three objects each, with rows 1 to 6 above `base`.
pub(crate) fn nine(form: Form, base: u32) -> Pair {
    let pair = Pair::new(form == Form::Encrypted);
    ship_chains(&pair, form, base, 3);
    pair
}

/// Ships chains of three objects each, with two rows each above `base`, into an archive that is
/// empty.
pub(crate) fn ship_chains(pair: &Pair, form: Form, base: u32, count: u32) {
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    ship(pair, form, &[]);
    add(pair, form, &[base + 1, base + 2]);
    for chain in 1..count {
        next_chain(pair, form);
        add(pair, form, &[base + 2 * chain + 1, base + 2 * chain + 2]);
    }
    assert_eq!(pair.objects(), 3 * count as usize);
}

pub(crate) fn contents(pair: &Pair) -> Vec<Vec<u8>> {
    (1..=9).map(|number| fs::read(pair.object(number)).unwrap()).collect()
}

pub(crate) fn mend(pair: &Pair, whole: &[Vec<u8>]) {
    for (number, bytes) in (1..).zip(whole) {
        fs::write(pair.object(number), bytes).unwrap();
    }
}

pub(crate) fn exchange(pair: &Pair, other: &Pair, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        fs::copy(other.object(number), pair.object(number)).unwrap();
    }
}

pub(crate) fn expect_refused(pair: &Pair, at: &str, number: u32) {
    let (run, to) = pair.try_restore(at);
    assert!(run.code == 4 && !to.exists(), "{at}: {run:?}");
    assert!(run.err.contains(&name(number)), "{at}, of {number}: {run:?}");
}

pub(crate) fn expect_whole(pair: &Pair) {
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["verdict"]), (0, &"whole".into()), "{run:?}");
}

pub(crate) const LATER: &str = "2199-01-01 00:00:00";

/// Checks what all readers say of a foreign chain in an archive of `nine`.
fn expect_foreign(pair: &Pair, other: &Pair, (first, last): (u32, u32), times: &[String; 3]) {
    let context = format!("{first} to {last}");
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["verdict"]), (4, &"damaged".into()), "{context}: {run:?}");
    let good = if last == 9 { 6 } else { 9 };
    assert_eq!(found["latest_good"], good, "{context}: {found}");
    let finding = found["findings"][0].as_str().unwrap();
    assert!(finding.contains(&name(first)), "{context}: {found}");
    if !record(pair).exists() || last < 9 {
        assert!(finding.contains(text(&other.db)) && finding.contains(text(&pair.db)), "{found}");
    }
    (first..=last).for_each(|number| expect_refused(pair, &number.to_string(), first));
    let rows = |count: u32| (1..=count).collect::<Vec<_>>();
    assert_eq!(pair.restored("latest-good"), rows(if last == 9 { 4 } else { 6 }), "{context}");
    // Those times are of objects 2, 5 and 8.
    for (time, (number, count)) in times.iter().zip([(2, 1), (5, 3), (8, 5)]) {
        match (first..=last).contains(&number) {
            true => expect_refused(pair, time, first),
            false => assert_eq!(pair.restored(time), rows(count), "{context}"),
        }
    }
    if last == 9 {
        expect_refused(pair, "latest", first);
        return expect_refused(pair, LATER, first);
    }
    assert_eq!(pair.restored("latest"), rows(6), "{context}");
    let (run, _) = pair.try_restore(LATER);
    assert!(run.code == 0 && !run.err.contains("is not in this state"), "{context}: {run:?}");
    assert_eq!(pair.restored(LATER), rows(6), "{context}");
}

/// With its own log sets, nothing in the chain itself shows that it is foreign.
#[test]
fn a_whole_chain_of_another_database_is_refused_at_each_place() {
    for form in [Form::Plain, Form::Encrypted] {
        let (early, pair) = (nine(form, 100), nine(form, 0));
        let late = nine(form, 200);
        let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
        let whole = contents(&pair);
        let is_short = form == Form::Encrypted;
        for is_recorded in [true, false] {
            if !is_recorded {
                fs::remove_file(record(&pair)).unwrap();
            }
            for other in [&early, &late].into_iter().skip(usize::from(is_short)) {
                for (first, last) in [(1, 3), (4, 6), (7, 9)] {
                    exchange(&pair, other, first..=last);
                    expect_foreign(&pair, other, (first, last), &times);
                    mend(&pair, &whole);
                }
            }
        }
        expect_whole(&pair);
    }
}

/// A foreign full set with none or some of its log sets, before log sets of the chain whose place
/// it took.
#[test]
fn a_part_of_a_foreign_chain_is_refused_by_its_full_set() {
    let (pair, other) = (nine(Form::Sealed, 0), nine(Form::Sealed, 100));
    let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
    let whole = contents(&pair);
    for is_recorded in [true, false] {
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        for (first, count) in [(1, 1), (4, 1), (7, 1), (1, 2), (4, 2), (7, 2)] {
            exchange(&pair, &other, first..first + count);
            let tried = place().run(["verify", text(&pair.archive), "--restore-test"]);
            assert!(tried.code == 4 && tried.out.contains(&name(first)), "{first}: {tried:?}");
            expect_foreign(&pair, &other, (first, first + 2), &times);
            mend(&pair, &whole);
        }
    }
}

/// No key at hand opens it: it is refused for what it is.
#[test]
fn a_foreign_chain_for_another_key_store_is_passed_over() {
    let (pair, other) = (nine(Form::Sealed, 0), Pair::new(false));
    let stranger = Place::with_store();
    stranger.ok(["cert", "create", "Theirs"]);
    let words = ["replicate", text(&other.db), "--to", text(&other.archive), "--once"];
    let ship = |more: &[&str]| {
        stranger.ok([&words[..], &["--certificate", "Theirs", "--no-sign"], more].concat())
    };
    let keep = other.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    for chain in 0..3 {
        if chain > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1100));
        }
        ship(if chain > 0 { &["--snapshot-every", "1s"] } else { &[] });
        for n in 1..=2 {
            other.add(100 + chain * 2 + n);
            ship(&[]);
        }
    }
    drop(keep);
    assert_eq!(other.objects(), 9);
    fs::remove_file(record(&pair)).unwrap();
    exchange(&pair, &other, 7..=9);
    ["latest", "7", "8", LATER].iter().for_each(|at| expect_refused(&pair, at, 7));
    assert_eq!(pair.restored("latest-good"), [1, 2, 3, 4]);
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["latest_good"]), (4, &6.into()), "{run:?}");
    assert!(found["findings"][0].as_str().unwrap().contains(&name(7)), "{found}");
}

/// Two chains, of which the newer is foreign, and the newest one that the record names.
#[test]
fn of_two_chains_the_newer_is_foreign_unless_the_record_names_it() {
    let (pair, other) = (nine(Form::Sealed, 0), nine(Form::Sealed, 100));
    (1..=3).for_each(|number| fs::remove_file(pair.object(number)).unwrap());
    let whole: Vec<_> = (4..=9).map(|number| fs::read(pair.object(number)).unwrap()).collect();
    for (is_recorded, first, good) in [(true, 4, 9), (true, 7, 6), (false, 7, 6)] {
        if !is_recorded {
            fs::remove_file(record(&pair)).unwrap();
        }
        exchange(&pair, &other, first..=first + 2);
        let (code, found, run) = json(&["verify", text(&pair.archive)]);
        assert_eq!((code, &found["latest_good"]), (4, &good.into()), "{first}: {run:?}");
        assert!(found["findings"][0].as_str().unwrap().contains(&name(first)), "{found}");
        expect_refused(&pair, &(first + 1).to_string(), first);
        for (number, bytes) in (4..).zip(&whole) {
            fs::write(pair.object(number), bytes).unwrap();
        }
    }
}

/// A foreign chain may have begun for the reason of a take-over, in its own archive.
#[test]
fn a_chain_that_looks_like_a_take_over_is_foreign_if_the_first_database_goes_on_behind_it() {
    let (pair, other) = (nine(Form::Sealed, 0), Pair::new(false));
    let keep = other.db();
    ship(&other, Form::Sealed, &[]);
    add(&other, Form::Sealed, &[101, 102]);
    fs::remove_file(record(&other)).unwrap();
    let run = ship(&other, Form::Sealed, &[]);
    assert!(run.err.contains("there is no record here"), "{run:?}");
    add(&other, Form::Sealed, &[103, 104]);
    drop(keep);
    fs::remove_file(record(&pair)).unwrap();
    let times = ["2", "5", "8"].map(|at| time_of(&pair, at));
    exchange(&pair, &other, 4..=6);
    expect_foreign(&pair, &other, (4, 6), &times);
}

/// Each of two databases takes the archive over from the other one, and chains go.
#[test]
fn an_archive_that_was_taken_over_twice_is_whole() {
    let form = Form::Sealed;
    let (pair, mut other) = (Pair::new(false), Pair::new(false));
    other.archive.clone_from(&pair.archive);
    let keep = [pair.db(), other.db()];
    keep.iter().for_each(|db| db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap());
    ship(&pair, form, &[]);
    add(&pair, form, &[1]);
    other.add(101);
    ship(&other, form, &["--take-over"]);
    add(&other, form, &[102]);
    next_chain(&other, form);
    add(&other, form, &[103]);
    expect_whole(&pair);
    ship(&pair, form, &["--take-over"]);
    next_chain(&pair, form);
    add(&pair, form, &[2]);
    assert_eq!(pair.objects(), 9);
    let between = time_of(&other, "6");
    for is_recorded in [true, false] {
        expect_whole(&pair);
        assert_eq!(pair.restored("4"), [101, 102]);
        assert_eq!(pair.restored(&between), [101, 102, 103]);
        assert_eq!(pair.restored("7"), [1]);
        assert_eq!(pair.restored("latest"), [1, 2]);
        if is_recorded {
            [record(&pair), record(&other)].iter().for_each(|it| fs::remove_file(it).unwrap());
        }
    }
    // Whatever began each of them may be gone.
    for gone in [&[3, 4][..], &[7], &[1, 2]] {
        gone.iter().for_each(|number| fs::remove_file(pair.object(*number)).unwrap());
        expect_whole(&pair);
        assert_eq!(pair.restored("6"), [101, 102, 103]);
        assert_eq!(pair.restored("latest"), [1, 2]);
    }
}

/// The database as another file under another path, with the record beside it.
fn moved(pair: Pair, is_copied: bool) -> Pair {
    let db = pair.dir.path("moved.db");
    if is_copied {
        // Empties the log.
        open(&pair.db).query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        let log = PathBuf::from(format!("{}-wal", text(&pair.db)));
        assert!(!log.exists());
        fs::copy(&pair.db, &db).unwrap();
        fs::remove_file(&pair.db).unwrap();
    }
    for side in ["", "-wal", "-shm", "-replica"] {
        let from = format!("{}{side}", text(&pair.db));
        if Path::new(&from).exists() {
            fs::rename(from, format!("{}{side}", text(&db))).unwrap();
        }
    }
    Pair { db, ..pair }
}

/// Its chain goes on, or begins anew because it is another file.
#[test]
fn the_archive_of_a_database_that_was_moved_is_whole() {
    for is_copied in [false, true] {
        let form = Form::Sealed;
        let pair = Pair::new(false);
        let keep = pair.db();
        ship(&pair, form, &[]);
        add(&pair, form, &[1]);
        drop(keep);
        let pair = moved(pair, is_copied);
        let keep = pair.db();
        pair.add(2);
        ship(&pair, form, &[]);
        next_chain(&pair, form);
        add(&pair, form, &[3]);
        next_chain(&pair, form);
        drop(keep);
        for is_recorded in [true, false] {
            expect_whole(&pair);
            assert_eq!(pair.restored("2"), [1]);
            assert_eq!(pair.restored("latest"), [1, 2, 3]);
            assert_eq!(pair.restored(&time_of(&pair, "5")), [1, 2, 3]);
            if is_recorded {
                fs::remove_file(record(&pair)).unwrap();
            }
        }
    }
}

/// Whatever a log set of another archive says, the chains behind its place are restored.
#[test]
fn a_foreign_log_set_decides_no_time_beyond_its_chain() {
    for foreign in [5, 6] {
        let early = nine(Form::Sealed, 100);
        let pair = nine(Form::Sealed, 0);
        let late = nine(Form::Sealed, 200);
        let longer = five();
        let times = ["2", "4", "7", "8"].map(|at| time_of(&pair, at));
        let own = time_of(&pair, &foreign.to_string());
        for other in [&early, &late, &longer] {
            fs::copy(other.object(foreign), pair.object(foreign)).unwrap();
            assert_eq!(pair.restored(&times[0]), [1]);
            assert_eq!(pair.restored(&times[2]), [1, 2, 3, 4]);
            assert_eq!(pair.restored(&times[3]), [1, 2, 3, 4, 5]);
            assert_eq!(pair.restored(LATER), [1, 2, 3, 4, 5, 6]);
            expect_refused(&pair, &own, foreign);
        }
    }
}
/// All objects that the record shows as missing are named.
#[test]
fn the_newest_objects_that_are_missing_are_named_from_the_first_to_the_last() {
    let pair = five();
    (4..=6).for_each(|number| fs::remove_file(pair.object(number)).unwrap());
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["latest_good"]), (4, &3.into()), "{run:?}");
    let finding = found["findings"][0].as_str().unwrap();
    assert!(finding.contains("objects 4 to 6") && finding.contains(&name(4)), "{finding}");
    assert_eq!(found["passed_over"][0]["number"], 4, "{found}");
    for at in ["latest", "4", "5.1", "6"] {
        let (run, to) = pair.try_restore(at);
        assert!(run.code == 4 && !to.exists(), "{at}: {run:?}");
        assert!(run.err.contains("objects 4 to 6 were shipped"), "{at}: {run:?}");
    }
    assert_eq!(pair.restored("latest-good"), [1, 2]);
}
/// A chain that begins without the record names the one before it, as the archive has that. A log
/// set that is none of it names nothing.
#[test]
fn a_chain_that_begins_without_a_record_shows_what_is_lost_before_it_later() {
    for is_foreign in [false, true] {
        let pair = five();
        let _keep = pair.db();
        fs::remove_file(record(&pair)).unwrap();
        if is_foreign {
            fs::copy(five().object(6), pair.object(6)).unwrap();
        }
        let run = pair.once(&["--take-over"]);
        assert!(run.code == 0 && run.err.contains("there is no record here"), "{run:?}");
        begin_chain(&pair);
        if is_foreign {
            fs::remove_file(pair.object(6)).unwrap();
            expect_whole(&pair);
            continue;
        }
        expect_whole(&pair);
        (5..=6).for_each(|number| fs::remove_file(pair.object(number)).unwrap());
        let (code, found, run) = json(&["verify", text(&pair.archive)]);
        assert_eq!((code, &found["verdict"]), (4, &"lost".into()), "{run:?}");
        assert!(run.out.contains("objects 5 to 6 were lost"), "{run:?}");
        // What `prune` removes was not lost.
        (1..=4).for_each(|number| fs::remove_file(pair.object(number)).unwrap());
        expect_whole(&pair);
    }
}
/// Fills a directory with the objects of an archive that `is_kept` accepts.
fn copied(pair: &Pair, dir: &Dir, is_kept: impl Fn(u32) -> bool) -> PathBuf {
    let to = dir.path("copy");
    fs::create_dir(&to).unwrap();
    for number in (1..=6).filter(|number| is_kept(*number)) {
        fs::copy(pair.object(number), to.join(name(number))).unwrap();
    }
    to
}

/// Replaces a database by a copy of it, which is another file.
fn replace(pair: &Pair) {
    fs::copy(&pair.db, pair.dir.path("copy.db")).unwrap();
    fs::rename(pair.dir.path("copy.db"), &pair.db).unwrap();
}

/// The record names the archive from which it was copied.
#[test]
fn a_copy_of_an_archive_is_compared_if_it_has_what_the_record_names() {
    let pair = five();
    for is_replaced in [false, true] {
        if is_replaced {
            replace(&pair);
        }
        let dir = Dir::new();
        let copy = copied(&pair, &dir, |_| true);
        let (code, found, run) = json(&["verify", text(&copy)]);
        assert_eq!((code, &found["verdict"]), (0, &"whole".into()), "{run:?}");
        assert_eq!(found["not_compared"], serde_json::Value::Null, "{found}");
        // A full set that is not the one in the record is noticed in the copy too.
        let other = five();
        fs::copy(other.object(1), copy.join(name(1))).unwrap();
        let to = dir.path("to.db");
        let run = place().run(["restore", text(&copy), "--at", "1", "--to", text(&to)]);
        assert!(run.code == 4 && run.err.contains("is of another archive"), "{run:?}");
        // One that is older lacks the newest, and that is no fault of it.
        let older = Dir::new();
        let copy = copied(&pair, &older, |number| number < 6);
        let (code, found, run) = json(&["verify", text(&copy)]);
        assert_eq!((code, &found["verdict"]), (0, &"whole".into()), "{run:?}");
        let said = found["not_compared"].as_str().unwrap();
        assert!(said.contains(text(&pair.archive)) && said.contains("-replica"), "{said}");
        let run = place().run(["verify", text(&copy)]);
        assert!(run.code == 0 && run.out.contains(said), "{run:?}");
        assert_eq!(place().run(["verify", text(&copy), "--restore-test"]).code, 0);
        // Its own faults count.
        fs::remove_file(copy.join(name(3))).unwrap();
        let (code, found, run) = json(&["verify", text(&copy)]);
        assert_eq!((code, &found["verdict"]), (4, &"damaged".into()), "{run:?}");
    }
    // An archive that was moved, and the database that was restored since.
    let to = pair.dir.path("elsewhere");
    fs::rename(&pair.archive, &to).unwrap();
    let pair = Pair { archive: to, ..pair };
    expect_whole(&pair);
    fs::remove_file(pair.object(6)).unwrap();
    let (code, found, run) = json(&["verify", text(&pair.archive)]);
    assert_eq!(code, 0, "{run:?}");
    assert!(found["not_compared"].as_str().unwrap().contains("names another archive"), "{found}");
}

/// `prune` leaves the full set of an older chain, whose log sets nobody lost.
#[test]
fn a_chain_of_which_prune_left_the_full_set_is_whole() {
    let pair = nine(Form::Plain, 0);
    let archive = text(&pair.archive).to_owned();
    let time = time_of(&pair, "2");
    place().ok(["prune", &archive, "--keep-last", "3"]);
    let left: Vec<u32> = (1..=9).filter(|number| pair.object(*number).exists()).collect();
    assert_eq!(left, [1, 4, 7, 8, 9]);
    expect_whole(&pair);
    let (run, _) = pair.try_restore(&time);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("objects 2 to 3"), "{run:?}");
}

/// A set in the place of another is whole in its own archive: neither is its database accused, nor
/// do its own sets count for less.
#[test]
fn a_foreign_chain_is_damage_of_the_archive_that_it_is_in() {
    let (pair, other) = (nine(Form::Plain, 0), nine(Form::Plain, 100));
    let verify = |of: &Pair| place().run(["verify", text(&of.archive)]).code;
    let is_whole = |of: &Pair| {
        let run = place().run(["overview", text(&of.db), "--json"]);
        let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        found["databases"][0]["verify_ok"].as_bool()
    };
    assert_eq!((verify(&pair), verify(&other)), (0, 0));
    let whole = contents(&pair);
    for numbers in [vec![4, 5, 6], vec![5], vec![4], vec![1, 2, 3]] {
        exchange(&pair, &other, numbers.iter().copied());
        assert_eq!(verify(&pair), 4, "{numbers:?}");
        assert_eq!((is_whole(&pair), is_whole(&other)), (Some(false), Some(true)), "{numbers:?}");
        let (run, _) = pair.try_restore(&numbers[0].to_string());
        assert_eq!(run.code, 4, "{numbers:?}: {run:?}");
        assert_eq!(is_whole(&other), Some(true), "{numbers:?}");
        mend(&pair, &whole);
        assert_eq!(verify(&pair), 0, "{numbers:?}");
        assert_eq!((is_whole(&pair), is_whole(&other)), (Some(true), Some(true)), "{numbers:?}");
    }
}
