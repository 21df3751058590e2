//! Parameters and variables that ask for encryption but are misspelt or empty: an error, never a
//! plain database.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;

use crate::support::{CERTIFICATE, alone, create, one, setup};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;

fn why() -> String {
    one(&Connection::open_in_memory().unwrap(), "SELECT tdekit_last_error()")
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn uri(path: &Path, parameters: &str) -> String {
    format!("file:{}?{parameters}", path.display())
}

#[test]
fn what_is_misspelt_or_empty_makes_no_file() {
    setup();
    let right = format!("tdekit_certificate={CERTIFICATE}");
    for (parameters, named) in [
        (format!("tdekit_cert={CERTIFICATE}"), "tdekit_certificate"),
        (format!("tdekit_certificates={CERTIFICATE}"), "tdekit_certificate"),
        (format!("TDEKIT_CERTIFICATE={CERTIFICATE}"), "tdekit_certificate"),
        (format!("mode=rwc&tdekit_certificat={CERTIFICATE}"), "tdekit_certificate"),
        (format!("{right}&tdekit_freshnes=on"), "tdekit_freshness"),
        (format!("{right}&tdekit_algoritm=AEGIS_256X2"), "tdekit_algorithm"),
        ("tdekit_certificate=".to_owned(), "tdekit_certificate has no value"),
        (format!("{right}&tdekit_freshness"), "tdekit_freshness has no value"),
        (format!("{right}&tdekit_home="), "tdekit_home has no value"),
        ("tdekit=".to_owned(), "tdekit has no value"),
        (format!("tdkit_certificate={CERTIFICATE}"), "tdekit_certificate"),
        (format!("{right}&tdekit_certificate=Other"), "more than once"),
        ("tdekit_freshness=on".to_owned(), "tdekit_freshness goes with"),
        ("tdekit_algorithm=AES_128".to_owned(), "tdekit_algorithm goes with"),
        // Without our VFS as well.
        (format!("vfs=unix&tdekit_cert={CERTIFICATE}"), ""),
    ] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("x.db");
        let refused = Connection::open(uri(&path, &parameters)).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{parameters}");
        assert!(why().contains(named), "{parameters}: {}", why());
        let db = Connection::open_in_memory().unwrap();
        let attach = format!("ATTACH '{}' AS x", uri(&path, &parameters));
        let refused = db.execute_batch(&attach).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{attach}");
        assert_eq!(names(&dir), [""; 0], "{parameters}");
        // An existing one is not opened with an unknown parameter either.
        drop(create(&path));
        assert!(Connection::open(uri(&path, "tdekit_cert=x")).is_err());
    }
}

/// As a driver does that parses no URIs.
#[test]
fn a_uri_that_is_taken_for_a_name_makes_no_file() {
    setup();
    let dir = TempDir::new().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let open = |name: &str| Connection::open_with_flags(dir.path().join(name), flags);
    let literal = format!("file:x.db?tdekit_certificate={CERTIFICATE}");
    assert_eq!(open(&literal).unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen));
    assert!(why().contains("takes it for a name"), "{}", why());
    assert_eq!(names(&dir), [""; 0]);
    // Other such names are the application's own business, and so is a file that has one already.
    open("file:x.db?mode=rwc").unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    fs::rename(dir.path().join("file:x.db?mode=rwc"), dir.path().join(&literal)).unwrap();
    assert_eq!(one::<i64>(&open(&literal).unwrap(), "SELECT count(*) FROM t"), 0);
}

/// A variable that is misspelt, or has a value that it does not take, keeps new databases from
/// being made, and no other.
#[test]
fn a_variable_that_cannot_be_meant_makes_no_new_database() {
    if !alone("uri::a_variable_that_cannot_be_meant_makes_no_new_database") {
        return;
    }
    setup();
    let dir = TempDir::new().unwrap();
    let there = dir.path().join("there.db");
    create(&there).execute_batch("CREATE TABLE t(x)").unwrap();
    let new = dir.path().join("new.db");
    for (set, said) in [
        (vec![("TDEKIT_ENCRYPT_NWE", CERTIFICATE)], "TDEKIT_ENCRYPT_NEW is the nearest"),
        (vec![("tdekit_encrypt_new", CERTIFICATE)], "TDEKIT_ENCRYPT_NEW is the nearest"),
        (vec![("TDEKIT_ENCRYPT", CERTIFICATE)], "TDEKIT_ENCRYPT_NEW is the nearest"),
        (vec![("TDEKIT_ENCRYPT_NEW_ALGORITHM", "AES_128")], "goes with tdekit_certificate"),
        (
            vec![("TDEKIT_ENCRYPT_NEW", CERTIFICATE), ("TDEKIT_ENCRYPT_NEW_ALGORITM", "AES_128")],
            "TDEKIT_ENCRYPT_NEW_ALGORITHM is the nearest",
        ),
        (
            vec![("TDEKIT_ENCRYPT_NEW", CERTIFICATE), ("TDEKIT_ENCRYPT_NEW_ALGORITHM", "AES_129")],
            "TDEKIT_ENCRYPT_NEW_ALGORITHM is not usable: AES_129",
        ),
    ] {
        // SAFETY: this process has no other thread that reads the environment.
        unsafe { set.iter().for_each(|(name, value)| std::env::set_var(name, value)) };
        let made = Connection::open(&new).and_then(|db| db.execute_batch("CREATE TABLE t(x)"));
        assert_eq!(made.unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen), "{set:?}");
        assert!(why().contains(said), "{set:?}: {}", why());
        assert!(!new.exists(), "{set:?}");
        assert_eq!(one::<i64>(&Connection::open(&there).unwrap(), "SELECT count(*) FROM t"), 0);
        // SAFETY: as above.
        unsafe { set.iter().for_each(|(name, _)| std::env::remove_var(name)) };
    }
}

/// A compose file whose variable is not set gives the process an empty one.
#[test]
fn an_empty_variable_makes_no_new_database() {
    if !alone("uri::an_empty_variable_makes_no_new_database") {
        return;
    }
    setup();
    let dir = TempDir::new().unwrap();
    let there = dir.path().join("there.db");
    create(&there).execute_batch("CREATE TABLE t(x)").unwrap();
    for (name, other) in [
        ("TDEKIT_ENCRYPT_NEW", None),
        ("TDEKIT_ENCRYPT_NEW_ALGORITHM", Some(("TDEKIT_ENCRYPT_NEW", CERTIFICATE))),
    ] {
        // SAFETY: this process has no other thread that reads the environment.
        unsafe {
            std::env::set_var(name, " ");
            if let Some((other, value)) = other {
                std::env::set_var(other, value);
            }
        }
        let new = dir.path().join("new.db");
        let made = Connection::open(&new).and_then(|db| db.execute_batch("CREATE TABLE t(x)"));
        assert_eq!(made.unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen), "{name}");
        assert!(why().contains(&format!("{name} has no value")), "{}", why());
        assert!(!new.exists(), "{name}");
        // An existing database opens, and a URI takes precedence over the variable.
        assert_eq!(one::<i64>(&Connection::open(&there).unwrap(), "SELECT count(*) FROM t"), 0);
        let named = dir.path().join(format!("{name}.db"));
        let all = format!("tdekit_certificate={CERTIFICATE}&tdekit_algorithm=AES_256");
        let db = Connection::open(uri(&named, &all)).unwrap();
        db.execute_batch("CREATE TABLE t(x)").unwrap();
        assert!(!fs::read(&named).unwrap().starts_with(b"SQLite format 3"));
    }
}
