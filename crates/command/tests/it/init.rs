//! `init`, and what a newcomer types next: several databases at once, a directory's status.

use std::fs;

use crate::common::{Place, Run};
use crate::databases::fill;

fn place() -> Place {
    let mut place = Place::empty();
    place.set("TDEKIT_PASSWORD", "a password of some length");
    for name in ["a.db", "b.db", "c.db"] {
        fill(&place.path(name), 20);
    }
    place
}

#[test]
fn one_command_makes_the_keys_their_backup_and_encrypted_databases() {
    let place = place();
    let run = place.ok(["init", "a.db", "b.db"]);
    for part in ["Made the key store", "AppCert.p12", "Encrypted ", "tdekit shell-init bash"] {
        assert!(run.out.contains(part), "{part}: {run:?}");
    }
    // The certificate is saved, so nothing warns of it.
    assert!(!run.err.contains("has not been backed up"), "{run:?}");
    let run = place.ok(["doctor", "."]);
    assert!(run.out.contains("1 plain database"), "{run:?}");

    // The backup opens elsewhere, under the same password.
    let elsewhere = Place::with_store();
    fs::copy(place.path("AppCert.p12"), elsewhere.path("AppCert.p12")).unwrap();
    let mut restore = elsewhere.command(["cert", "restore", "--pkcs12", "AppCert.p12"]);
    let run = Run::of(
        &restore.env("TDEKIT_BACKUP_PASSWORD", "a password of some length").output().unwrap(),
    );
    assert_eq!(run.code, 0, "{run:?}");
    fs::copy(place.path("a.db"), elsewhere.path("a.db")).unwrap();
    elsewhere.ok(["decrypt", "a.db"]);

    // Once is enough.
    let told = place.fails(1, ["init", "c.db"]);
    assert!(told.contains("already"), "{told}");
}

#[test]
fn what_would_fail_later_is_refused_before_anything_is_made() {
    let place = place();
    fs::write(place.path("AppCert.p12"), "mine").unwrap();
    place.fails(1, ["init", "a.db"]);
    place.fails(7, ["init", "a.db", "none.db", "--pkcs12", "new.p12"]);
    assert!(!place.home().join("keystore.tdk").exists() && !place.path("new.p12").exists());
    assert_eq!(fs::read(place.path("AppCert.p12")).unwrap(), b"mine");
    assert!(fs::read(place.path("a.db")).unwrap().starts_with(b"SQLite format 3"));
    place.ok(["init", "a.db", "--certificate", "Own", "--pkcs12", "new.p12"]);
    assert!(place.ok(["status", "a.db"]).out.contains("Own"));
}

#[test]
fn several_databases_are_encrypted_and_a_directory_is_shown() {
    let place = place();
    place.ok(["init"]);
    // One that fails keeps none of the others back.
    fs::write(place.path("b.db"), "some text that is not a database").unwrap();
    place.run(["encrypt", "a.db", "b.db", "c.db", "--certificate", "AppCert"]);
    for name in ["a.db", "c.db"] {
        assert!(!fs::read(place.path(name)).unwrap().starts_with(b"SQLite format 3"), "{name}");
    }
    let words = ["encrypt", "a.db", "c.db", "--certificate", "AppCert"];
    let run = place.run(words);
    assert!(run.code == 1 && run.err.matches("encrypted already").count() == 2, "{run:?}");
    place.fails(2, ["encrypt", "a.db", "c.db", "--certificate", "AppCert", "--keep-plain=x"]);
    let told = place.json(["status", ".", "--json"]);
    let paths: Vec<_> = told.as_array().unwrap().iter().map(|one| one["path"].as_str()).collect();
    assert_eq!(paths.len(), 2, "{told}");
    fs::create_dir(place.path("none")).unwrap();
    place.fails(1, ["status", "none"]);
}
