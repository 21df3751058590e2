//! Media that cannot be read whole, where a set would be written over them or stand on them, and a
//! history that cannot be read.

use std::fs;
use std::os::unix::fs::symlink;

use rusqlite::Connection;

use crate::common::Place;
use crate::databases::fill;

/// A store with a database `app.db`.
fn with_database() -> Place {
    let place = Place::with_store();
    fill(&place.path("app.db"), 50);
    place
}

fn change(place: &Place) {
    let db = Connection::open(place.path("app.db")).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS more(n); INSERT INTO more VALUES (1)").unwrap();
}

fn flip(place: &Place, name: &str, at: usize) {
    let path = place.path(name);
    let mut bytes = fs::read(&path).unwrap();
    let at = if at == 0 { bytes.len() / 2 } else { at };
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
}

fn history(place: &Place) -> Connection {
    Connection::open(place.home().join("history.db")).unwrap()
}

/// Returns the checks that found something, each with true if it is of an absent set.
fn marks(place: &Place) -> Vec<(String, bool)> {
    let db = history(place);
    let sql = "SELECT database_name || ' ' || type, facts IS NOT NULL FROM lastcheck
         JOIN backupset ON subject = backup_set_uuid WHERE finding_count > 0 ORDER BY 1, 2";
    let mut list = db.prepare(sql).unwrap();
    let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The only set has expired, but what is read of it does not say so.
#[test]
fn media_that_cannot_be_read_whole_are_not_taken_for_expired() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "m.bak", "--expire", "2020-01-01"]);
    let whole = fs::read(place.path("m.bak")).unwrap();
    let init = ["backup", "app.db", "--to", "m.bak", "--init"];
    let cut = whole[..whole.len() - 1].to_vec();
    let flipped = [20, 50, 100, 200, 300, 400].map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    for bytes in flipped.into_iter().chain([cut]) {
        fs::write(place.path("m.bak"), &bytes).unwrap();
        let told = place.fails(4, init);
        assert!(told.contains("nothing shows that its sets have expired"), "{told}");
        assert!(told.contains("--init --replace"), "{told}");
        assert_eq!(fs::read(place.path("m.bak")).unwrap(), bytes);
        place.ok([&init[..], &["--replace"]].concat());
    }
    // What is no media set is not written over at all.
    fs::write(place.path("m.bak"), "a letter").unwrap();
    for more in [&[][..], &["--replace"]] {
        place.fails(4, [&init[..], more].concat());
    }
    let told = place.fails(1, &init[..4]);
    assert!(told.contains("is no media set") && !told.contains("--append"), "{told}");
    assert_eq!(fs::read(place.path("m.bak")).unwrap(), b"a letter");
    fs::write(place.path("m.bak"), whole).unwrap();
    place.ok(init);
}

/// The history knows what is in media that cannot be read.
#[test]
fn media_that_others_need_are_known_when_they_cannot_be_read() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak", "--expire", "2020-01-01"]);
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let whole = fs::read(place.path("full.bak")).unwrap();
    let to = ["backup", "app.db", "--to", "full.bak"];
    for at in [50, 100, 400] {
        let damage = || {
            fs::write(place.path("full.bak"), &whole).unwrap();
            flip(&place, "full.bak", at);
        };
        damage();
        let told = place.fails(1, [&to[..], &["--init"]].concat());
        assert!(told.contains("own.bak, stands on it"), "{told}");
        for more in [&["--append"][..], &["--differential"], &["--init", "--replace"]] {
            damage();
            let told = place.run([&to[..], more].concat());
            assert!(told.err.contains("own.bak, stands on it"), "{more:?} {told:?}");
        }
    }
}

#[test]
fn every_append_warns_of_sets_of_other_media() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let to = ["backup", "app.db", "--to", "full.bak"];
    for more in
        [&["--log"][..], &["--differential"], &["--differential-after", "7d"], &["--append"]]
    {
        let told = place.ok([&to[..], more].concat());
        assert!(told.err.contains("own.bak, stands on it"), "{more:?} {told:?}");
    }
}

#[test]
fn an_emptied_file_is_not_a_new_media_set() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "m.bak"]);
    fs::write(place.path("m.bak"), "").unwrap();
    fs::write(place.path("new.bak"), "").unwrap();
    let to = ["backup", "app.db", "--to", "m.bak"];
    for more in ["--append", "--init"] {
        let told = place.fails(4, [&to[..], &[more]].concat());
        assert!(told.contains("knows 1 set(s) there") && told.contains("--replace"), "{told}");
    }
    assert_eq!(fs::read(place.path("m.bak")).unwrap(), b"");
    place.ok([&to[..], &["--init", "--replace"]].concat());
    place.ok(["backup", "app.db", "--to", "new.bak", "--append"]);
}

/// It is met by what stands on it, wherever that lies.
#[test]
fn damage_of_a_base_is_recorded_by_every_reading_and_ends_with_one() {
    let readings = [
        &["restore", "own.bak", "--replace", "--to", "r.db"][..],
        &["verify", "own.bak"],
        &["verify", "own.bak", "--restore-test"],
    ];
    for at in [0, 200, 50] {
        let place = with_database();
        place.ok(["backup", "app.db", "--to", "full.bak"]);
        change(&place);
        place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
        for reading in readings {
            flip(&place, "full.bak", at);
            assert_eq!(place.run(reading).code, 4);
            let base = ("app.db D".to_owned(), false);
            assert!(marks(&place).contains(&base), "{at} {reading:?} {:?}", marks(&place));
            let next = ["backup", "app.db", "--differential", "--to", "next.bak"];
            let told = place.fails(1, next);
            assert!(told.contains("it has no base"), "{told}");
            flip(&place, "full.bak", at);
            place.ok(reading);
            // What stands on it was read whole by a restore, too, which records no check.
            assert!(!marks(&place).contains(&base), "{at} {reading:?} {:?}", marks(&place));
        }
        place.ok(["backup", "app.db", "--differential", "--to", "next.bak"]);
    }
}

/// The restore of an older set succeeds.
#[test]
fn a_set_that_is_passed_over_is_known_as_damaged() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    let to = ["backup", "app.db", "--to", "own.bak"];
    place.ok([&to[..], &["--log"]].concat());
    let end = || usize::try_from(fs::metadata(place.path("own.bak")).unwrap().len()).unwrap();
    let begin = end();
    place.ok([&to[..], &["--append"]].concat());
    let middle = begin.midpoint(end());
    place.ok([&to[..], &["--differential"]].concat());
    flip(&place, "own.bak", middle);
    let told = place.ok(["restore", "own.bak", "--latest-readable", "--to", "r.db"]);
    assert!(told.err.contains("set 3 is passed over"), "{told:?}");
    assert_eq!(marks(&place), [("app.db D".to_owned(), false)]);
}

/// Wherever it is: where the set cannot be told, that of the history is taken.
#[test]
fn damage_of_an_object_of_an_archive_is_recorded() {
    let place = with_database();
    let db = Connection::open(place.path("app.db")).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    drop(db);
    place.ok(["replicate", "app.db", "--to", "archive", "--once"]);
    let object = "archive/0000000000000001.tdekit";
    for at in [3, 20, 200, 0] {
        flip(&place, object, at);
        assert_eq!(place.run(["verify", "archive"]).code, 4, "{at}");
        // What does not begin as media is something else in its place.
        assert_eq!(marks(&place), [("app.db D".to_owned(), at == 3)], "{at}");
        flip(&place, object, at);
        place.ok(["verify", "archive"]);
        assert_eq!(marks(&place), [], "{at}");
    }
}

#[test]
fn what_is_not_there_is_absent_and_not_damaged() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let (full, away) = (place.path("full.bak"), place.path("away"));
    fs::rename(&full, &away).unwrap();
    assert_eq!(place.run(["verify", "full.bak"]).code, 7);
    assert_eq!(marks(&place), [("app.db D".to_owned(), true)]);
    for reading in [
        &["verify", "own.bak"][..],
        &["verify", "own.bak", "--restore-test"],
        &["restore", "own.bak", "--to", "r.db"],
    ] {
        assert_eq!(place.run(reading).code, 4);
        let both = ["app.db D", "app.db I"].map(|set| (set.to_owned(), true));
        assert_eq!(marks(&place), both, "{reading:?}");
    }
    fs::rename(&away, &full).unwrap();
    place.ok(["backup", "app.db", "--log", "--to", "own.bak"]);
    place.ok(["verify", "own.bak"]);
    assert_eq!(marks(&place), []);
    // Damage is not forgotten when the file is away for a while.
    flip(&place, "full.bak", 0);
    assert_eq!(place.run(["verify", "full.bak"]).code, 4);
    fs::rename(&full, &away).unwrap();
    assert_eq!(place.run(["verify", "full.bak"]).code, 7);
    assert_eq!(marks(&place), [("app.db D".to_owned(), false)]);
    fs::rename(&away, &full).unwrap();
    place.fails(1, ["backup", "app.db", "--differential", "--to", "next.bak"]);
}

/// The set itself is whole: the fault is its base's.
#[test]
fn a_set_whose_base_is_gone_or_unreadable_is_not_called_damaged() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let whole = fs::read(place.path("full.bak")).unwrap();
    for (header, base, words) in
        [(true, "unreadable", "ITS BASE CANNOT BE READ"), (false, "missing", "ITS BASE IS MISSING")]
    {
        match header {
            true => {
                let mut bytes = whole.clone();
                bytes[300] ^= 1;
                fs::write(place.path("full.bak"), bytes).unwrap();
            }
            false => fs::remove_file(place.path("full.bak")).unwrap(),
        }
        let run = place.run(["verify", "own.bak"]);
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.out.contains(words) && !run.out.contains("DAMAGED"), "{run:?}");
        let run = place.run(["verify", "own.bak", "--json"]);
        let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let set = &found["sets"][0];
        assert_eq!((&set["base"], &set["ok"]), (&base.into(), &false.into()), "{found}");
        assert_eq!(found["verdict"], "damaged", "{found}");
    }
    fs::write(place.path("full.bak"), whole).unwrap();
    let found = place.json(["verify", "own.bak", "--json"]);
    assert!(found["sets"].as_array().unwrap().iter().all(|set| set["base"].is_null()), "{found}");
}

/// It says nothing of a base, neither that it is whole nor that it is damaged.
#[test]
fn a_base_is_read_where_the_history_does_not_know_of_it() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    flip(&place, "full.bak", 0);
    let told = place.run(["verify", "full.bak", "--checksums-only"]);
    assert!(told.out.contains("DAMAGED") && !told.out.contains("hold"), "{told:?}");
    let told = place.run(["verify", "full.bak"]);
    assert!(told.code == 4 && !told.out.contains("every block opened"), "{told:?}");
    change(&place);
    let next = ["backup", "app.db", "--differential", "--to", "full.bak"];
    place.fails(2, ["backup", "app.db", "--to", ""]);
    history(&place).execute_batch("DROP TABLE lastcheck").unwrap();
    assert!(place.fails(1, next).contains("set 1 of full.bak is damaged"));
    fs::write(place.home().join("history.db"), "no history").unwrap();
    assert!(place.fails(1, next).contains("set 1 of full.bak is damaged"));
    flip(&place, "full.bak", 0);
    place.ok(next);
}

#[test]
fn a_scan_mends_dates() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "m.bak", "--expire", "2099-01-01"]);
    let told = place.ok(["history", "--json"]).out;
    let dates = "backup_start_date = 'x', backup_finish_date = x'FFFE', expiration_date = 'now'";
    history(&place).execute_batch(&format!("UPDATE backupset SET {dates}")).unwrap();
    assert!(place.ok(["history"]).err.contains("is not a date"));
    place.ok(["history", "--scan", "."]);
    let now = place.ok(["history", "--json"]);
    assert_eq!((now.out, now.err), (told, String::new()));
}

/// Keys of a MariaDB server may lie elsewhere.
#[test]
fn a_link_to_keys_of_a_server_stays() {
    let place = Place::with_store();
    place.ok(["cert", "create", "Server"]);
    place.ok(["mariadb", "key", "create", "--key-id", "11", "--certificate", "Server"]);
    let (name, real) = (place.home().join("server-keys.json"), place.path("real.json"));
    fs::rename(&name, &real).unwrap();
    symlink(&real, &name).unwrap();
    let before = fs::read(&real).unwrap();
    place.ok(["mariadb", "key", "create", "--key-id", "12", "--certificate", "Server"]);
    assert!(name.is_symlink());
    assert_ne!(fs::read(&real).unwrap(), before);
}

/// Nothing was read of the set that the history knows there.
#[test]
fn something_else_in_the_place_of_a_base_is_its_absence() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
    let full = place.path("full.bak");
    let whole = fs::read(&full).unwrap();
    for other in ["", "a letter", "directory"] {
        fs::remove_file(&full).unwrap();
        match other {
            "directory" => fs::create_dir(&full).unwrap(),
            text => fs::write(&full, text).unwrap(),
        }
        let told = place.run(["verify", "own.bak"]);
        assert_eq!(told.code, 4, "{other:?} {told:?}");
        assert!(told.out.contains("full.bak"), "{other:?} {told:?}");
        let is_absent =
            |marks: Vec<(String, bool)>| marks.len() > 1 && marks.iter().all(|(_, absent)| *absent);
        assert!(is_absent(marks(&place)), "{other:?} {:?}", marks(&place));
        place.run(["verify", "full.bak"]);
        assert!(is_absent(marks(&place)), "{other:?} {:?}", marks(&place));
        if full.is_dir() {
            fs::remove_dir(&full).unwrap();
        }
        fs::write(&full, &whole).unwrap();
        place.ok(["backup", "app.db", "--differential", "--to", "own.bak"]);
        place.ok(["verify", "own.bak"]);
    }
}

#[test]
fn the_sets_before_an_unfinished_tail_are_whole() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "m.bak"]);
    let whole = fs::read(place.path("m.bak")).unwrap();
    fs::write(place.path("m.bak"), [&whole[..], &whole[200..900]].concat()).unwrap();
    change(&place);
    for reading in [&["verify", "m.bak"][..], &["verify", "m.bak", "--position", "1"]] {
        assert_eq!(place.run(reading).code, 4);
        assert_eq!(marks(&place), [], "{reading:?}");
    }
    place.ok(["backup", "app.db", "--log", "--to", "own.bak"]);
    place.ok(["backup", "app.db", "--differential", "--to", "m.bak"]);
    place.ok(["verify", "m.bak"]);
}

#[test]
fn an_older_state_is_not_appended_to() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "m.bak"]);
    let older = fs::read(place.path("m.bak")).unwrap();
    change(&place);
    place.ok(["backup", "app.db", "--to", "m.bak", "--append"]);
    fs::copy(place.path("m.bak"), place.path("newest.bak")).unwrap();
    fs::write(place.path("m.bak"), &older).unwrap();
    for how in ["--append", "--differential", "--log"] {
        let told = place.fails(4, ["backup", "app.db", "--to", "m.bak", how]);
        assert!(told.contains("knows set 2") && told.contains("hint: append to"), "{told}");
        assert_eq!(fs::read(place.path("m.bak")).unwrap(), older);
    }
    place.ok(["backup", "app.db", "--to", "newest.bak", "--append"]);
    fs::remove_file(place.path("m.bak")).unwrap();
    place.ok(["copy", "newest.bak", "m.bak"]);
    place.ok(["backup", "app.db", "--to", "m.bak", "--append"]);
    place.ok(["backup", "app.db", "--to", "m.bak", "--init", "--replace"]);
}

/// The stripe that is missing may hold what has not expired.
#[test]
fn striped_media_are_replaced_together() {
    let place = with_database();
    let both = ["--to", "a.bak", "--to", "b.bak", "--stripe"];
    let backup = ["backup", "app.db"];
    place.ok([&backup[..], &both, &["--expire", "2020-01-01"]].concat());
    let away = place.path("away");
    fs::rename(place.path("b.bak"), &away).unwrap();
    let told = place.fails(4, [&backup[..], &both, &["--init"]].concat());
    assert!(told.contains("file 2 of this striped media set is missing"), "{told}");
    place.fails(4, ["backup", "app.db", "--to", "a.bak", "--init"]);
    fs::rename(&away, place.path("b.bak")).unwrap();
    place.ok([&backup[..], &both, &["--init"]].concat());
}

/// The file is named, with the reason.
#[test]
fn a_base_that_cannot_be_read_is_named() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--log", "--to", "log.bak"]);
    let (full, next) = (place.path("full.bak"), ["backup", "app.db", "--to", "next.bak"]);
    let whole = fs::read(&full).unwrap();
    // A link to itself cannot be opened by anybody.
    fs::remove_file(&full).unwrap();
    symlink(&full, &full).unwrap();
    let told = place.fails(4, ["restore", "log.bak", "--to", "r.db"]);
    assert!(told.contains("the base of set 1 cannot be read: cannot open"), "{told}");
    assert!(place.run(["verify", "log.bak"]).out.contains("cannot be read: cannot open"));
    let told = place.fails(1, [&next[..], &["--log"]].concat());
    assert!(told.contains("cannot open") && told.contains("full.bak"), "{told}");
    fs::remove_file(&full).unwrap();
    fs::write(&full, whole).unwrap();
    flip(&place, "log.bak", 100);
    let told = place.fails(1, [&next[..], &["--log"]].concat());
    assert!(told.contains("log.bak: record 1") && told.contains("damaged"), "{told}");
}
