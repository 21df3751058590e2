//! Sets that stand on sets of other media, which the history finds.

use std::fs;

use crate::common::Place;
use crate::databases::fill;

/// A store with a database `app.db`.
fn with_database() -> Place {
    let place = Place::with_store();
    fill(&place.path("app.db"), 50);
    place
}

fn change(place: &Place) {
    let db = rusqlite::Connection::open(place.path("app.db")).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS more(n); INSERT INTO more VALUES (1)").unwrap();
}

/// It is not the same as a history without a base.
#[test]
fn a_history_that_cannot_be_read_is_the_error_of_what_needs_it() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--log", "--to", "log.bak"]);
    let history = place.home().join("history.db");
    fs::rename(&history, place.path("kept")).unwrap();
    fs::write(&history, "no history").unwrap();
    for kind in ["--differential", "--log"] {
        let told = place.fails(6, ["backup", "app.db", kind, "--to", "new.bak"]);
        assert!(told.contains("history.db") && !told.contains("no base"), "{kind} {told}");
        assert!(told.contains("history --scan"), "{told}");
    }
    // Its base is not on the same media.
    let told = place.fails(6, ["backup", "app.db", "--log", "--to", "log.bak"]);
    assert!(told.contains("history.db") && !told.contains("no base"), "{told}");
    // The set may be whole: nothing is damaged.
    for more in [&["--position", "1", "--to", "r.db"][..], &[], &["--restore-test"]] {
        let verb = if more.len() > 1 { "restore" } else { "verify" };
        let told = place.run([&[verb, "log.bak"], more].concat());
        assert!(told.code == 6 && told.err.contains("history.db"), "{told:?}");
        let all = told.out + &told.err;
        assert!(all.contains("cannot be read") && !all.contains("DAMAGED"), "{all}");
    }
    place.fails(6, ["restore", "log.bak", "--latest-readable", "--to", "r.db"]);
    let told = place.run(["verify", "log.bak", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&found["verdict"], told.code), (&"not_verified".into(), 6), "{found}");
    let told = place.ok(["copy", "log.bak", "copy.bak"]);
    assert!(told.err.contains("cannot be read") && told.out.contains("base is not known"));
    fs::remove_file(place.path("copy.bak")).unwrap();
    assert!(!place.path("new.bak").exists() && !place.path("r.db").exists());
    // What needs no other media needs no history.
    for kind in ["--differential", "--log"] {
        place.ok(["backup", "app.db", kind, "--to", "full.bak"]);
    }
    place.ok(["restore", "full.bak", "log.bak", "--position", "1", "--to", "r.db"]);
    fs::rename(place.path("kept"), history).unwrap();
    place.ok(["verify", "log.bak"]);
    place.ok(["backup", "app.db", "--differential", "--to", "new.bak"]);
}

/// One exit code for one cause, whichever command needs the history.
#[test]
fn the_exit_code_of_an_unreadable_history_is_the_same_everywhere() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--log", "--to", "log.bak"]);
    let history = place.home().join("history.db");
    let whole = fs::read(&history).unwrap();
    let needing: [&[&str]; 9] = [
        &["history"],
        &["history", "--scan", "."],
        &["prune", ".", "--keep-last", "1"],
        &["prune", ".", "--keep-last", "1", "--dry-run"],
        &["backup", "app.db", "--log", "--to", "new.bak"],
        &["verify", "full.bak"],
        &["verify", "full.bak", "--restore-test"],
        &["verify", "log.bak"],
        &["restore", "log.bak", "--to", "r.db", "--position", "1"],
    ];
    let all = |code: i32, cause: &str| {
        for words in needing {
            let run = place.run(words);
            assert_eq!(run.code, code, "{cause}: {words:?}: {run:?}");
        }
    };
    let garbled = |from: usize| {
        let mut bytes = whole.clone();
        bytes.iter_mut().skip(from).for_each(|byte| *byte ^= 0x55);
        bytes
    };
    for (cause, bytes) in
        [("text", b"no history".to_vec()), ("head", garbled(0)), ("pages", garbled(4096))]
    {
        fs::write(&history, bytes).unwrap();
        all(6, cause);
    }
    fs::write(&history, &whole).unwrap();
    let db = rusqlite::Connection::open(&history).unwrap();
    let version: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    all(6, "newer");
    assert!(place.fails(6, ["history"]).contains("newer tdekit"));
    db.pragma_update(None, "user_version", version).unwrap();
    drop(db);
    fs::remove_file(&history).unwrap();
    fs::create_dir(&history).unwrap();
    all(6, "directory");
    fs::remove_dir(&history).unwrap();
    fs::write(&history, &whole).unwrap();
    // Each waits 5 s for the other program.
    let db = rusqlite::Connection::open(&history).unwrap();
    db.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for words in [needing[0], needing[2], needing[5]] {
        assert_eq!(place.run(words).code, 5, "{words:?}");
    }
    drop(db);
    place.ok(["verify", "log.bak"]);
}

#[test]
fn media_that_other_media_need_are_not_replaced_unseen() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak", "--expire", "2020-01-01"]);
    fs::copy(place.path("full.bak"), place.path("copy.bak")).unwrap();
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let whole = fs::read(place.path("full.bak")).unwrap();
    let init = ["backup", "app.db", "--init", "--to", "full.bak"];
    let told = place.fails(1, init);
    assert!(told.contains("own.bak, stands on it") && told.contains("--init --replace"), "{told}");
    assert_eq!(fs::read(place.path("full.bak")).unwrap(), whole);
    // An append takes nothing away, but the newest set is there from then on.
    let append = ["backup", "app.db", "--append", "--to", "full.bak", "--expire", "2020-01-01"];
    assert!(place.ok(append).err.contains("own.bak, stands on it"));
    place.ok(["restore", "own.bak", "--position", "1", "--to", "r.db"]);
    let told = place.ok([&init[..], &["--replace"]].concat());
    assert!(told.err.contains("own.bak, stands on it"), "{told:?}");
    place.fails(4, ["restore", "own.bak", "--to", "s.db"]);
    // Nothing stands on the new one; and what stood on the old one is gone.
    place.ok(["backup", "app.db", "--init", "--replace", "--to", "full.bak", "--expire", "1d"]);
    // A copy of the same media set holds the base itself.
    place.ok(["backup", "app.db", "--to", "both.bak", "--expire", "2020-01-01"]);
    let more = ["--differential", "--expire", "2020-01-01"];
    place.ok([&["backup", "app.db", "--to", "both.bak"], &more[..]].concat());
    place.ok(["copy", "both.bak", "again.bak"]);
    place.ok(["backup", "app.db", "--init", "--to", "both.bak"]);
}

/// A verification found the base damaged; its headers are whole.
#[test]
fn no_set_is_begun_behind_one_that_is_known_to_be_damaged() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    let path = place.path("full.bak");
    let whole = fs::read(&path).unwrap();
    let flip = || {
        let mut bytes = fs::read(&path).unwrap();
        bytes[whole.len() / 2] ^= 1;
        fs::write(&path, bytes).unwrap();
    };
    change(&place);
    place.ok(["backup", "app.db", "--log", "--to", "log.bak"]);
    place.ok(["verify", "log.bak"]);
    change(&place);
    flip();
    // First nobody has seen it but those who read it for the new set.
    let backup = ["backup", "app.db", "--to"];
    let refused = |damage: &str| {
        for (to, kind) in [
            ("own.bak", "--log"),
            ("log.bak", "--log"),
            ("full.bak", "--log"),
            ("own.bak", "--differential"),
        ] {
            let told = place.fails(1, [&backup[..], &[to, kind]].concat());
            assert!(told.contains("set 1 of") && told.contains(damage), "{told}");
            assert!(told.contains("make a full set first"), "{told}");
        }
    };
    refused("full.bak is damaged");
    assert_eq!(place.run(["verify", "full.bak"]).code, 4);
    refused("full.bak was damaged");
    let told = place.ok([&backup[..], &["full.bak", "--differential-after", "7d"]].concat());
    assert!(told.err.contains("a full set is made") && told.err.contains("damaged"), "{told:?}");
    place.ok([&backup[..], &["own.bak", "--log"]].concat());
    // Whole again, when that was seen.
    flip();
    place.ok(["verify", "full.bak"]);
    place.ok([&backup[..], &["log.bak", "--log"]].concat());
}

/// It has no page map.
#[test]
fn no_set_stands_on_the_full_set_of_an_archive() {
    let place = with_database();
    change(&place);
    let sql = "PRAGMA journal_mode = WAL";
    rusqlite::Connection::open(place.path("app.db")).unwrap().execute_batch(sql).unwrap();
    let replicate = ["replicate", "app.db", "--to", "archive", "--once"];
    place.ok(replicate);
    for kind in ["--differential", "--log"] {
        let told = place.fails(1, ["backup", "app.db", kind, "--to", "new.bak"]);
        assert!(told.contains("archive/0000000000000001.tdekit belongs to an archive"), "{told}");
        assert!(told.contains("make a full set first"), "{told}");
    }
    let by_age = ["backup", "app.db", "--differential-after", "7d", "--to"];
    place.ok([&by_age[..], &["full-{date}.bak"]].concat());
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    // A newer one, which the log backup passes over.
    fs::remove_dir_all(place.path("archive")).unwrap();
    place.ok(replicate);
    change(&place);
    let expected = |to: &str| {
        let sets = place.json(["history", "--json"]);
        let sets = sets.as_array().unwrap();
        let at = |set: &&serde_json::Value| {
            set["devices"][0]["physical_device_name"].as_str().unwrap().ends_with(to)
        };
        sets.iter().find(at).unwrap().clone()
    };
    let full = &expected("full.bak")["backup_set_uuid"];
    for (kind, to) in [("--log", "log.bak"), ("--differential", "own.bak")] {
        place.ok(["backup", "app.db", kind, "--to", to]);
        assert_eq!(&expected(to)["differential_base_guid"], full, "{kind}");
        place.ok(["verify", to]);
        place.ok(["restore", to, "--to", &format!("{to}.db")]);
    }
    // Not under another name either.
    let object = fs::read_dir(place.path("archive")).unwrap().next().unwrap().unwrap().path();
    place.ok(["copy", object.to_str().unwrap(), "object.bak"]);
    fs::remove_file(object).unwrap();
    place.ok(["backup", "app.db", "--log", "--to", "next.bak"]);
    assert_eq!(
        expected("next.bak")["differential_base_guid"],
        expected("log.bak")["backup_set_uuid"]
    );
}

/// The damaged one is not named: it is the base of the set that is verified.
#[test]
fn damage_of_a_base_on_other_media_is_remembered() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "older.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let path = place.path("full.bak");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(place.run(["verify", "own.bak"]).code, 4);
    let told = place.fails(1, ["backup", "app.db", "--differential", "--to", "next.bak"]);
    assert!(told.contains("full.bak was damaged"), "{told}");
    place.run(["prune", ".", "--keep-last", "1"]);
    assert!(place.path("older.bak").exists(), "the last whole backup was removed");
    place.ok(["verify", "older.bak"]);
}

/// Those that are named are of one chain: that they are of several media sets is not what is wrong.
#[test]
fn a_link_that_is_missing_between_media_that_are_named_is_the_fault() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    for name in ["l1.bak", "l2.bak", "l3.bak"] {
        change(&place);
        place.ok(["backup", "app.db", "--log", "--to", name]);
    }
    fs::remove_file(place.path("l2.bak")).unwrap();
    let named = ["full.bak", "l1.bak", "l3.bak"];
    let told = place.fails(4, [&["restore"], &named[..], &["--to", "r.db"]].concat());
    assert!(told.contains("l2.bak") && !place.path("r.db").exists(), "{told}");
    let told = place.run([&["verify"], &named[..]].concat());
    assert!(told.code == 4 && told.out.contains("ITS BASE IS MISSING"), "{told:?}");
    // Without the history nobody knows where it was.
    fs::remove_file(place.home().join("history.db")).unwrap();
    place.fails(4, [&["restore"], &named[..], &["--to", "r.db"]].concat());
    place.ok(["restore", "full.bak", "l1.bak", "--to", "r.db"]);
    // Media of another database are no part of it.
    fill(&place.path("other.db"), 5);
    place.ok(["backup", "other.db", "--to", "other.bak"]);
    place.fails(2, ["restore", "other.bak", "l3.bak", "--to", "none.db"]);
}
