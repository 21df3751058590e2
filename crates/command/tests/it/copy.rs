//! `copy`: of files and objects, with and without a key, of damaged and of existing ones.

use std::fs;
use std::path::Path;

use crate::common::Place;
use crate::databases::{fill, open_plain};
use crate::s3_of_test;

fn with_media(place: &Place, media: &str) {
    let _ = fs::remove_file(place.path("app.db"));
    fill(&place.path("app.db"), 3000);
    let args = ["backup", "app.db", "--to", media, "--certificate", "C", "--compression", "none"];
    place.ok(args);
    open_plain(&place.path("app.db")).execute_batch("DELETE FROM t WHERE id > 2900").unwrap();
    place.ok([&args[..], &["--differential"]].concat());
}

fn with_store() -> Place {
    let place = Place::with_store();
    place.ok(["cert", "create", "C"]);
    place.ok(["cert", "backup", "C", "--pkcs12", "C.p12"]);
    place
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_copy_is_equal_verified_and_known() {
    let mut place = with_store();
    with_media(&place, "a.bak");
    let made = place.json(["copy", "a.bak", "b.bak", "--json"]);
    assert_eq!((&made["sets"], &made["opened_sets"]), (&2.into(), &2.into()), "{made}");
    let bytes = fs::read(place.path("a.bak")).unwrap();
    assert!(fs::read(place.path("b.bak")).unwrap() == bytes);
    let history = place.json(["history", "--json"]);
    assert_eq!(history[0]["devices"].as_array().unwrap().len(), 2, "{history}");
    let uses = place.json(["cert", "list", "--json"])[0]["used_by"].clone();
    assert_eq!(uses.as_array().unwrap().len(), 2, "{uses}");
    // What is there stays.
    fs::write(place.path("notes"), "mine").unwrap();
    for there in ["b.bak", "notes"] {
        assert!(place.fails(1, ["copy", "a.bak", there]).contains("exists already"));
    }
    assert_eq!(fs::read(place.path("notes")).unwrap(), b"mine");
    place.fails(2, ["copy", "a.bak"]);
    place.fails(2, ["copy", "a.bak", "-"]);
    place.fails(7, ["copy", "none.bak", "c.bak"]);
    // Without a key it is copied as well, and says what was not looked at.
    place.set("TDEKIT_PASSWORD", "");
    let run = place.ok(["copy", "a.bak", "--to", "m1.bak", "--to", "m2.bak"]);
    assert!(run.out.contains("2 not opened"), "{run:?}");
    assert!(fs::read(place.path("m2.bak")).unwrap() == bytes);
    place.set("TDEKIT_PASSWORD", "secret");
    place.ok(["verify", "m1.bak", "m2.bak"]);
    place.ok(["backup", "app.db", "--to", "b.bak", "--append", "--certificate", "C"]);
    place.ok(["restore", "b.bak", "--position", "2", "--to", "r.db", "--check"]);
    // An older copy, as the history knows it, is not copied on.
    assert!(place.fails(4, ["copy", "a.bak", "d.bak"]).contains("lacks its newest set"));
    assert!(!place.path("d.bak").exists());
}

#[test]
fn damage_is_not_copied() {
    let place = with_store();
    with_media(&place, "a.bak");
    let whole = fs::read(place.path("a.bak")).unwrap();
    for password in ["secret", ""] {
        for at in [40, 3000, whole.len() / 3, whole.len() / 2, whole.len() - 100] {
            let mut there = Place::empty();
            there.set("TDEKIT_PASSWORD", password);
            let damaged = there.path("a.bak");
            fs::write(&damaged, &whole).unwrap();
            flip(&damaged, at);
            let run = there.run(["copy", "a.bak", "b.bak"]);
            assert_eq!(run.code, 4, "{at}: {run:?}");
            assert!(!there.path("b.bak").exists(), "{at}");
        }
    }
    fs::write(place.path("cut.bak"), &whole[..whole.len() - 10]).unwrap();
    place.fails(4, ["copy", "cut.bak", "b.bak"]);
    assert!(!place.path("b.bak").exists());
}

#[test]
fn stripes_are_copied_one_by_one() {
    let place = with_store();
    fill(&place.path("app.db"), 3000);
    place.ok(["backup", "app.db", "--to", "1.bak", "--to", "2.bak", "--stripe"]);
    place.fails(2, ["copy", "1.bak", "2.bak", "--to", "3.bak"]);
    let told = place.fails(4, ["copy", "1.bak", "3.bak"]);
    assert!(told.contains("missing"), "{told}");
    place.ok(["copy", "2.bak", "1.bak", "--to", "3.bak", "--to", "4.bak"]);
    for (from, to) in [("1.bak", "3.bak"), ("2.bak", "4.bak")] {
        assert!(fs::read(place.path(from)).unwrap() == fs::read(place.path(to)).unwrap());
    }
    place.ok(["verify", "3.bak", "4.bak"]);
}

#[test]
fn copies_go_to_object_stores_and_back() {
    let Some(endpoint) = s3_of_test::endpoint("copy") else { return };
    let mut place = with_store();
    for (name, value) in s3_of_test::variables(&endpoint) {
        place.set(name, &value);
    }
    let address = |name: &str| format!("{}/{name}", s3_of_test::prefix("copy"));
    let (parts, whole, other) = (address("parts.bak"), address("whole.bak"), address("other.bak"));
    with_media(&place, &parts);
    with_media(&place, "a.bak");
    // Several parts become one file, a file becomes one object, and both go on.
    place.ok(["copy", &parts, "b.bak"]);
    place.ok(["copy", "a.bak", &whole]);
    place.ok(["copy", &parts, &other]);
    assert!(place.fails(1, ["copy", "a.bak", &whole]).contains("exists already"));
    for media in ["b.bak", &whole, &other] {
        place.ok(["verify", media]);
    }
    // `other` is the same media set as `b.bak`: one of the two is continued.
    for media in ["b.bak", &whole] {
        place.ok(["backup", "app.db", "--to", media, "--append", "--certificate", "C"]);
        let report = place.json(["verify", media, "--json"]);
        assert_eq!(report["sets"].as_array().unwrap().len(), 3);
        place.ok(["restore", media, "--position", "2", "--to", "r.db", "--check"]);
        fs::remove_file(place.path("r.db")).unwrap();
    }
    // And back: what was appended is a part.
    place.ok(["copy", &whole, "c.bak"]);
    place.ok(["verify", "c.bak"]);
}

/// The copies of one media set went on from the same state.
#[test]
fn a_copy_of_another_state_is_told() {
    let place = with_store();
    with_media(&place, "a.bak");
    place.ok(["copy", "a.bak", "b.bak"]);
    assert_eq!(place.ok(["copy", "a.bak", "c.bak"]).err, "");
    place.ok(["cert", "create", "D"]);
    place.ok(["cert", "backup", "D", "--pkcs12", "D.p12"]);
    place.ok(["backup-key", "add", "b.bak", "--certificate", "D"]);
    // Of three copies, two lack records.
    assert_eq!(place.run(["history", "--scan", "."]).code, 4);
    let told = place.ok(["copy", "a.bak", "d.bak"]).err;
    assert!(told.contains("opens with certificate D too"), "{told}");
    let append = ["backup", "app.db", "--append", "--to"];
    place.ok([&append[..], &["b.bak"]].concat());
    assert!(place.fails(4, ["copy", "a.bak", "e.bak"]).contains("lacks its newest set"));
    let told = place.fails(4, [&append[..], &["a.bak"]].concat());
    assert!(told.contains("older state") && told.contains("knows set 3"), "{told}");
    place.fails(4, ["backup", "app.db", "--log", "--to", "a.bak"]);
    // Another machine does not know that.
    let (history, away) = (place.home().join("history.db"), place.path("away"));
    fs::rename(&history, &away).unwrap();
    place.ok([&append[..], &["a.bak"]].concat());
    fs::rename(&away, &history).unwrap();
    place.run(["history", "--scan", "."]);
    let told = place.ok(["copy", "a.bak", "f.bak"]).err;
    assert!(told.contains("another copy of a.bak has another set 3"), "{told}");
}
