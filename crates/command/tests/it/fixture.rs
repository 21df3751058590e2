//! Databases of each format version, made by the release that introduced it, still open.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::Place;
use crate::databases::{Dir, create, dump, is_plain, open_plain};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/1/sqlite")
}

/// Copies the fixture, and returns a place whose store is the fixture's.
fn copy(dir: &Dir) -> Place {
    for entry in fs::read_dir(fixture()).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), dir.path("").join(entry.file_name())).unwrap();
        }
    }
    // A checkout does not preserve that others may not read it.
    fs::set_permissions(dir.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut place = Place::empty();
    place.set("TDEKIT_KEY_FILE", dir.path("key").to_str().unwrap());
    fs::create_dir(place.home()).unwrap();
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(fixture().join("store/keystore.tdk"), place.store_file()).unwrap();
    place
}

#[test]
fn every_database_holds_what_it_held() {
    let dir = Dir::new();
    let place = copy(&dir);
    let sql = |name: &str| fs::read_to_string(dir.path(name)).unwrap();
    let content = sql("content.sql");
    let changed = format!("PRAGMA journal_mode = WAL; {content} {}", sql("changes.sql"));
    for (name, before, content) in [
        ("aes_256.db", "", &content),
        ("aegis_256x2.db", "PRAGMA auto_vacuum = 1;", &content),
        ("live.db", "", &changed),
        ("hot.db", "", &content),
    ] {
        let expected = dump(&create(&dir.path("expected.db"), &format!("{before} {content}")));
        let path = dir.path(name);
        let database = path.to_str().unwrap();
        let told = place.json(["status", database, "--json"]);
        assert_eq!(told[0]["encryption"]["format_version"], 1);
        assert_eq!(told[0]["encryption"]["key_opens"], true, "{told}");
        assert_eq!(told[0]["encryption"]["certificates"][0]["name"], "Fixture");
        assert_eq!(told[0]["wal_bytes"].is_u64(), name == "live.db");
        assert_eq!(told[0]["journal_bytes"].is_u64(), name == "hot.db");
        place.ok(["decrypt", database, "--verify"]);
        assert!(is_plain(&path));
        assert_eq!(dump(&open_plain(&path)), expected, "{name}");
        fs::remove_file(dir.path("expected.db")).unwrap();
    }
}

#[test]
fn the_log_and_the_journal_matter() {
    for (name, side) in [("live.db", "-wal"), ("hot.db", "-journal")] {
        let dir = Dir::new();
        let place = copy(&dir);
        let path = dir.path(name);
        fs::remove_file(dir.path(&format!("{name}{side}"))).unwrap();
        // Without its journal the database is half changed, which may even be noticed.
        let run = place.run(["decrypt", path.to_str().unwrap()]);
        assert!(run.code == 0 || name == "hot.db", "{run:?}");
        if run.code == 0 {
            let expected = fs::read_to_string(dir.path("content.sql")).unwrap();
            let whole = dump(&create(&dir.path("expected.db"), &expected));
            let rest = dump(&open_plain(&path));
            let content = |lines: &[String]| -> Vec<String> {
                let mut lines = lines.to_vec();
                lines.retain(|line| !line.starts_with("journal_mode"));
                lines
            };
            match name {
                "live.db" => assert_eq!(content(&rest), content(&whole)),
                _ => assert_ne!(content(&rest), content(&whole)),
            }
        }
    }
}

/// A key store of format version 2 with its audit log, and a database whose seals are listed.
#[test]
fn a_database_of_format_version_2_is_in_its_last_state() {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/2/sqlite");
    let dir = Dir::new();
    let mut place = Place::empty();
    let private = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for name in ["key", "fresh.db", "fresh.db-seals", "content.sql"] {
        fs::copy(made.join(name), dir.path(name)).unwrap();
    }
    private(&dir.path("key"), 0o600);
    place.set("TDEKIT_KEY_FILE", dir.path("key").to_str().unwrap());
    for below in [place.home(), place.home().join("anchors")] {
        fs::create_dir(&below).unwrap();
        private(&below, 0o700);
        let name = below.strip_prefix(place.home()).unwrap();
        for entry in fs::read_dir(made.join("store").join(name)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), below.join(entry.file_name())).unwrap();
                private(&below.join(entry.file_name()), 0o600);
            }
        }
    }
    let path = dir.path("fresh.db");
    let database = path.to_str().unwrap();
    assert!(place.ok(["audit", "log", "--verify"]).out.contains("whole and untampered"));
    let told = place.json(["status", database, "--json"]);
    assert_eq!(told[0]["encryption"]["format_version"], 2, "{told}");
    let said = place.ok(["freshness", "status", database]).out;
    assert!(said.contains("freshness on, in its last state"), "{said}");
    place.ok(["decrypt", database, "--verify"]);
    let content = fs::read_to_string(dir.path("content.sql")).unwrap();
    let expected = dump(&create(&dir.path("expected.db"), &content));
    assert_eq!(dump(&open_plain(&path)), expected);
}

/// Databases during a key change to another algorithm: pages of both, in the main file and in a
/// log.
#[test]
fn a_database_of_format_version_3_has_pages_of_two_algorithms() {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/3/sqlite");
    let dir = Dir::new();
    for name in ["key", "file.db", "log.db", "log.db-wal", "content.sql"] {
        fs::copy(made.join(name), dir.path(name)).unwrap();
    }
    fs::set_permissions(dir.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut place = Place::empty();
    place.set("TDEKIT_KEY_FILE", dir.path("key").to_str().unwrap());
    fs::create_dir(place.home()).unwrap();
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(made.join("store/keystore.tdk"), place.store_file()).unwrap();
    let content = fs::read_to_string(dir.path("content.sql")).unwrap();
    let later = "UPDATE w SET v = v + 1; INSERT INTO t VALUES(2000, 'later', NULL, 0);";
    for (name, before) in [("file.db", ""), ("log.db", "PRAGMA journal_mode = WAL;")] {
        let path = dir.path(name);
        let database = path.to_str().unwrap();
        let told = place.json(["status", database, "--json"]);
        let encryption = &told[0]["encryption"];
        assert_eq!(encryption["format_version"], 3, "{told}");
        assert_eq!(encryption["algorithms"], serde_json::json!(["AEGIS_256X2", "AES_256"]));
        let examined = place.run(["doctor", database, "--json"]).out;
        let examined: serde_json::Value = serde_json::from_str(&examined).unwrap();
        assert!(examined[0]["pages_by_key_version"]["1"].as_u64() > Some(0), "{examined}");
        assert_eq!(examined[0]["damaged_pages"], 0, "{examined}");
        place.ok(["rotate", database]);
        let told = place.json(["status", database, "--json"]);
        assert_eq!(told[0]["encryption"]["format_version"], 1, "{told}");
        place.ok(["decrypt", database, "--verify"]);
        let expected = create(&dir.path("expected.db"), &format!("{before} {content} {later}"));
        assert_eq!(dump(&open_plain(&path)), dump(&expected), "{name}");
        drop(expected);
        fs::remove_file(dir.path("expected.db")).unwrap();
    }
}

/// A database whose key an EC certificate wraps (mechanism 2).
#[test]
fn a_key_wrapped_by_an_ec_certificate_opens() {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/2/wrap");
    let dir = Dir::new();
    for name in ["key", "app.db", "content.sql"] {
        fs::copy(made.join(name), dir.path(name)).unwrap();
    }
    fs::set_permissions(dir.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut place = Place::empty();
    place.set("TDEKIT_KEY_FILE", dir.path("key").to_str().unwrap());
    fs::create_dir(place.home()).unwrap();
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(made.join("store/keystore.tdk"), place.store_file()).unwrap();
    let content = fs::read_to_string(dir.path("content.sql")).unwrap();
    let expected = dump(&create(&dir.path("expected.db"), &content));
    let path = dir.path("app.db");
    place.ok(["decrypt", path.to_str().unwrap(), "--verify"]);
    assert_eq!(dump(&open_plain(&path)), expected);
}
