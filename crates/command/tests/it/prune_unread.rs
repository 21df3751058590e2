//! `prune` and sets that cannot be read at the moment: what they stand on stays.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rusqlite::Connection;

use crate::common::Place;
use crate::databases::{fill, place};
use crate::replicate::{Pair, text};

const PRUNE: [&str; 4] = ["prune", "m", "--keep-last", "1"];

/// A store, a database `app.db`, and the directories `m` and `o`.
fn with_database() -> Place {
    let place = Place::with_store();
    fill(&place.path("app.db"), 20);
    for directory in ["m", "o"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    place
}

/// Changes the database and backs it up.
fn backup(place: &Place, to: &str, more: &[&str]) {
    let db = Connection::open(place.path("app.db")).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS more(n); INSERT INTO more VALUES (1)").unwrap();
    drop(db);
    place.ok([&["backup", "app.db", "--to", to], more].concat());
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_base_is_kept_for_a_set_that_cannot_be_read() {
    let place = with_database();
    backup(&place, "m/full.bak", &[]);
    backup(&place, "m/diff.bak", &["--differential"]);
    backup(&place, "m/new.bak", &[]);
    let diff = place.path("m/diff.bak");
    let whole = fs::read(&diff).unwrap();
    let full = place.path("m/full.bak");
    for at in [3, 20, 100] {
        flip(&diff, at);
        let told = place.run(PRUNE);
        assert_eq!(told.code, 4, "{at} {told:?}");
        assert!(told.out.contains("needed by a set that cannot be read"), "{at} {told:?}");
        assert!(full.exists(), "{at}");
        fs::write(&diff, &whole).unwrap();
    }
    for bytes in ["", "a letter"] {
        fs::write(&diff, bytes).unwrap();
        place.run(PRUNE);
        assert!(full.exists(), "{bytes:?}");
    }
    fs::remove_file(&diff).unwrap();
    fs::write(place.path("o/real"), &whole).unwrap();
    symlink(place.path("o/real"), &diff).unwrap();
    place.run(PRUNE);
    assert!(full.exists());
    fs::remove_file(&diff).unwrap();
    fs::write(&diff, &whole).unwrap();
    place.ok(["restore", "m/diff.bak", "--to", "r.db"]);
    // Read, it goes together with its base.
    place.ok(["verify", "m/new.bak"]);
    place.ok(PRUNE);
    assert!(!full.exists() && !diff.exists());
}

/// An object of an archive stands on the one before it, and on nothing else.
#[test]
fn an_unknown_object_of_an_archive_keeps_the_chain_before_it() {
    for at in [3, 40, 300] {
        let pair = Pair::new(false);
        let _keep = pair.db();
        let full = |name: &str| {
            let to = pair.dir.path(name);
            place().ok(["backup", text(&pair.db), "--to", text(&to)]);
            to
        };
        let older = full("w1.bak");
        for chain in 0..3 {
            let _ = fs::remove_file(format!("{}-replica", text(&pair.db)));
            for n in 0..3 {
                pair.add(3 * chain + n);
                pair.ship();
            }
        }
        let newer = full("w2.bak");
        let whole = fs::read(pair.object(5)).unwrap();
        flip(&pair.object(5), at);
        let root = pair.dir.path("");
        let run = place().run(["prune", text(&root), "--keep-last", "1"]);
        assert_eq!(run.code, 4, "{at}: {run:?}");
        assert!(run.err.contains("0000000000000005.tdekit"), "{at}: {run:?}");
        assert!(run.out.contains("may be needed by"), "{at}: {run:?}");
        let there: Vec<u32> = (1..=9).filter(|number| pair.object(*number).exists()).collect();
        // Sets that stand on the unknown one are not restorable; the newest chain always stays.
        assert_eq!(there, (4..=9).collect::<Vec<_>>(), "{at}: {run:?}");
        assert!(!older.exists() && newer.exists(), "{at}: {run:?}");
        fs::write(pair.object(5), whole).unwrap();
        assert_eq!(pair.restored("6"), (0..6).collect::<Vec<_>>(), "{at}");
    }
}

/// The same holds for a set of a media set of which others are read, and outside of the place.
#[test]
fn a_base_is_kept_for_a_damaged_set_elsewhere() {
    let place = with_database();
    backup(&place, "m/full.bak", &[]);
    backup(&place, "o/diff.bak", &["--differential"]);
    backup(&place, "m/new.bak", &[]);
    flip(&place.path("o/diff.bak"), 100);
    place.ok(PRUNE);
    assert!(place.path("m/full.bak").exists());
}

/// The set in the middle of a chain is missing, or cannot be read: the history knows it.
#[test]
fn a_chain_is_kept_through_a_set_that_is_not_there() {
    for middle in ["m/log1.bak", "o/log1.bak"] {
        let place = with_database();
        backup(&place, "m/full.bak", &[]);
        backup(&place, middle, &["--log"]);
        backup(&place, "m/log2.bak", &["--log"]);
        backup(&place, "m/new.bak", &[]);
        fs::write(place.path("o/other"), "").unwrap();
        let (path, away) = (place.path(middle), place.path("away"));
        fs::rename(&path, &away).unwrap();
        place.run(PRUNE);
        fs::copy(&away, &path).unwrap();
        flip(&path, 100);
        place.run(PRUNE);
        fs::rename(&away, &path).unwrap();
        place.ok(["restore", "m/log2.bak", "--to", "r.db"]);
    }
}

/// A log backup whose chain nothing knows may stand on any older set.
#[test]
fn older_sets_stay_where_nothing_is_known_of_a_chain() {
    let place = with_database();
    backup(&place, "m/full.bak", &[]);
    backup(&place, "m/log1.bak", &["--log"]);
    backup(&place, "m/log2.bak", &["--log"]);
    backup(&place, "m/new.bak", &[]);
    fs::remove_file(place.home().join("history.db")).unwrap();
    let (log, away) = (place.path("m/log1.bak"), place.path("away"));
    fs::rename(&log, &away).unwrap();
    let told = place.run(PRUNE);
    assert!(told.out.contains("whose chain is not known"), "{told:?}");
    // A file that cannot be read, and is not known either, may be one of them.
    fs::remove_file(place.path("m/log2.bak")).unwrap();
    for at in [20, 100] {
        fs::copy(&away, &log).unwrap();
        flip(&log, at);
        let told = place.run(PRUNE);
        assert_eq!(told.code, 4, "{told:?}");
        assert!(told.out.contains("log1.bak, which cannot be read"), "{told:?}");
        assert!(place.path("m/full.bak").exists());
    }
    fs::remove_file(&log).unwrap();
    place.ok(PRUNE);
    assert!(!place.path("m/full.bak").exists());
}

/// They are points in time as other sets are, and the next one stands on the newest.
#[test]
fn log_backups_count_and_the_newest_chain_stays() {
    let place = with_database();
    backup(&place, "m/full.bak", &[]);
    for log in ["m/log1.bak", "o/log2.bak", "m/log3.bak"] {
        backup(&place, log, &["--log"]);
    }
    let there = |name: &str| place.path(name).exists();
    place.ok(["prune", "m", "--keep-last", "2"]);
    assert!(there("m/full.bak") && there("m/log1.bak") && there("m/log3.bak"));
    backup(&place, "m/diff.bak", &["--differential"]);
    let told = place.ok(PRUNE);
    assert!(told.out.contains("the newest log backup"), "{told:?}");
    backup(&place, "m/log4.bak", &["--log"]);
    place.ok(["restore", "m/log4.bak", "--to", "r.db"]);
    assert!(!there("m/diff.bak") || there("m/full.bak"));
    // A full set that is no base begins no chain.
    backup(&place, "m/copy.bak", &["--copy-only"]);
    place.ok(PRUNE);
    assert!(there("m/log4.bak"));
    backup(&place, "m/new.bak", &[]);
    place.ok(["prune", "m", "--keep-last", "3"]);
    assert!(there("m/log4.bak") && there("m/full.bak"));
    fs::remove_file(place.path("o/log2.bak")).unwrap();
    fs::write(place.path("o/other"), "").unwrap();
    place.run(PRUNE);
}
