//! The reason of an opening that fails is in SQLite's own message, which each driver has in its
//! exception.
#![allow(unsafe_code)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{alone, create, home, one, open, setup};
use rusqlite::ffi::{SQLITE_AUTH, SQLITE_CANTOPEN};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

const WRITE: &str = "CREATE TABLE t(x); INSERT INTO t VALUES(1)";

/// Opens `name`, which fails with `code` and the words; a new connection says the same.
fn refused(name: &str, code: i32, words: &[&str]) {
    let error = Connection::open(name).expect_err("the database opened");
    assert_eq!(error.sqlite_error().unwrap().extended_code, code, "{error}");
    let said = error.to_string();
    let why: String =
        one(&Connection::open_in_memory().unwrap(), "SELECT tdekit_last_error()");
    for word in words {
        assert!(said.contains(word) && why.contains(word), "{word}: {said}; {why}");
    }
    assert!(said.contains(&why), "{said}; {why}");
}

/// Sets variables of a process that runs one test.
fn set(name: &str, value: &Path) {
    // SAFETY: this process has no other thread that reads the environment.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn the_message_has_the_reason() {
    if !alone("reason::the_message_has_the_reason") {
        return;
    }
    let (store, key) = home();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    create(&path).execute_batch(WRITE).unwrap();
    let name = path.to_str().unwrap();

    let denied = "authorization denied: tdekit: the database's key did not open: ";
    set("TDEKIT_HOME", &dir.path().join("none"));
    let missing = format!("there is no key store at {}", dir.path().join("none").display());
    refused(name, SQLITE_AUTH, &[&missing]);
    // A store at another place is opened anew.
    let copy = dir.path().join("store");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&store).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    fs::set_permissions(&copy, Permissions::from_mode(0o700)).unwrap();
    set("TDEKIT_HOME", &copy);

    fs::set_permissions(&key, Permissions::from_mode(0o444)).unwrap();
    refused(name, SQLITE_AUTH, &["has mode 0444: others could read it"]);
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let other = dir.path().join("other");
    tdekit_key_store::generate_key_file(&other).unwrap();
    set("TDEKIT_KEY_FILE", &other);
    refused(name, SQLITE_AUTH, &["does not open the key store"]);
    let secret = fs::read_to_string(&other).unwrap();
    let error = Connection::open(name).unwrap_err().to_string();
    assert!(error.starts_with(denied), "{error}");
    assert!(!error.contains(secret.trim()), "{error}");
    set("TDEKIT_KEY_FILE", &key);
    assert_eq!(one::<i64>(&open(&path).unwrap(), "SELECT x FROM t"), 1);
}

#[test]
fn a_new_database_that_cannot_be_encrypted_does_not_open() {
    setup();
    let dir = TempDir::new().unwrap();
    let uri = |more: &str| format!("file:{}?{more}", dir.path().join("new.db").display());
    let missing = uri("tdekit_certificate=Nobody");
    refused(&missing, SQLITE_AUTH, &["the key store has no certificate Nobody"]);
    refused(&uri("tdekit_cert=x"), SQLITE_CANTOPEN, &["tdekit_certificate is the nearest"]);
    refused(&uri("tdekit=plane"), SQLITE_CANTOPEN, &["URI tdekit is not usable: plane"]);
    assert!(!dir.path().join("new.db").exists());
    // One that is there and empty stays, and may be read by whom it does not concern.
    fs::write(dir.path().join("new.db"), "").unwrap();
    refused(&missing, SQLITE_AUTH, &["the key store has no certificate Nobody"]);
    assert_eq!(fs::metadata(dir.path().join("new.db")).unwrap().len(), 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(&missing, flags).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM sqlite_schema"), 0);
}

/// SQLite has a text of its own for a file that is attached; the connection stays and is asked.
#[test]
fn an_attached_database_is_refused_and_the_connection_stays() {
    setup();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    create(&path).execute_batch(WRITE).unwrap();
    let journal = dir.path().join("a.db-journal");
    let db = open(&dir.path().join("main.db")).unwrap();
    for more in ["", "&nolock=1", "&immutable=1", "&mode=ro"] {
        let home = dir.path().join("none");
        let uri = format!("file:{}?tdekit_home={}{more}", path.display(), home.display());
        fs::write(&journal, "a journal that is not there to be deleted").unwrap();
        let error = db.execute("ATTACH ?1 AS a", [&uri]).unwrap_err();
        assert_eq!(error.sqlite_error().unwrap().extended_code, SQLITE_AUTH, "{uri}: {error}");
        let why: String = one(&db, "SELECT tdekit_last_error()");
        assert!(why.contains("there is no key store at"), "{uri}: {why}");
        assert!(db.execute_batch("SELECT * FROM a.t").is_err());
        refused(&uri, SQLITE_AUTH, &["there is no key store at"]);
        assert!(journal.exists(), "{uri}");
        fs::remove_file(&journal).unwrap();
    }
    db.execute_batch("CREATE TABLE stays(x)").unwrap();
    db.execute("ATTACH ?1 AS a", [path.to_str().unwrap()]).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT x FROM a.t"), 1);
}

/// A program may take the automatic extensions away: then the first statement fails instead.
#[test]
fn without_the_automatic_extensions_the_first_statement_fails() {
    if !alone("reason::without_the_automatic_extensions_the_first_statement_fails") {
        return;
    }
    setup();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    create(&path).execute_batch(WRITE).unwrap();
    let whole = fs::read(&path).unwrap();
    // SAFETY: nobody else opens a connection in this process.
    unsafe { rusqlite::ffi::sqlite3_reset_auto_extension() };
    for (parameters, code) in
        [("tdekit_home=/nowhere", SQLITE_AUTH), ("tdekit_cert=x", SQLITE_CANTOPEN)]
    {
        for sql in ["SELECT * FROM t", "CREATE TABLE u(x)", "VACUUM", "BEGIN EXCLUSIVE"] {
            let uri = format!("file:{}?{parameters}", path.display());
            let error = Connection::open(uri).and_then(|db| db.execute_batch(sql)).unwrap_err();
            let found = error.sqlite_error().unwrap().extended_code;
            assert_eq!(found, code, "{parameters} {sql}: {error}");
        }
        let uri = format!("file:{}?{parameters}", path.display());
        let said = Connection::open(uri).and_then(|db| db.execute_batch("PRAGMA user_version"));
        assert!(said.unwrap_err().to_string().contains("tdekit: "));
    }
    assert_eq!(fs::read(&path).unwrap(), whole);
}
