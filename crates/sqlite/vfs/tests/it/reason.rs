//! The reason of a failed opening is in SQLite's own message, which each driver has in its
//! exception.
#![allow(unsafe_code)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{alone, create, home, one, open, register, setup};
use rusqlite::ffi::{SQLITE_AUTH, SQLITE_CANTOPEN};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

const WRITE: &str = "CREATE TABLE t(x); INSERT INTO t VALUES(1)";

/// Opens `name`, which fails with `code` and the words; a new connection reports the same.
fn refused(name: &str, code: i32, words: &[&str]) {
    let error = Connection::open(name).expect_err("the database opened");
    assert_eq!(error.sqlite_error().unwrap().extended_code, code, "{error}");
    let said = error.to_string();
    let why: String = one(&Connection::open_in_memory().unwrap(), "SELECT tdekit_last_error()");
    for word in words {
        assert!(said.contains(word) && why.contains(word), "{word}: {said}; {why}");
    }
    assert!(said.contains(&why), "{said}; {why}");
}

/// Variable with a database for a process that opens it with its environment and prints the
/// message.
const OPENED: &str = "TDEKIT_TEST_OPENED";

#[test]
fn what_opens_by_the_environment() {
    let Some(path) = std::env::var_os(OPENED) else { return };
    register();
    drop(Connection::open_in_memory().unwrap());
    match Connection::open(path) {
        Ok(db) => println!("rows: {}", one::<i64>(&db, "SELECT count(*) FROM t")),
        Err(error) => {
            assert_eq!(error.sqlite_error().unwrap().extended_code, SQLITE_AUTH, "{error}");
            println!("said: {error}");
            let db = Connection::open_in_memory().unwrap();
            println!("asked: {}", one::<String>(&db, "SELECT tdekit_last_error()"));
        }
    }
}

/// Returns the message that a process with these variables gets for the database.
fn told(path: &Path, variables: &[(&str, &Path)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "reason::what_opens_by_the_environment", "--nocapture"]);
    command.env(OPENED, path).envs(variables.iter().copied());
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn the_message_has_the_reason() {
    let (_, key) = home();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    create(&path).execute_batch(WRITE).unwrap();
    assert!(told(&path, &[]).contains("rows: 1"));
    let [none, other, open] = ["none", "other", "open"].map(|name| dir.path().join(name));
    tdekit_key_store::generate_key_file(&other).unwrap();
    fs::copy(&key, &open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o444)).unwrap();
    for (variable, value, reason) in [
        ("TDEKIT_HOME", &none, "there is no key store at"),
        ("TDEKIT_KEY_FILE", &open, "has mode 0444: others could read it"),
        ("TDEKIT_KEY_FILE", &other, "does not open the key store"),
    ] {
        let told = told(&path, &[(variable, value)]);
        let line = |start: &str| told.lines().find_map(|line| line.split_once(start)).unwrap().1;
        let (said, asked) = (line("said: "), line("asked: "));
        assert!(asked.contains(reason), "{told}");
        assert_eq!(said, format!("authorization denied: {asked}"));
        for secret in [&key, &other].map(|file| fs::read(file).unwrap()) {
            let secret = String::from_utf8_lossy(&secret).trim().to_owned();
            assert!(!secret.is_empty() && !told.contains(&secret), "{told}");
        }
    }
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
    refused(&uri("tdekit_home=/nowhere"), SQLITE_AUTH, &["cannot find /nowhere"]);
    assert!(!dir.path().join("new.db").exists());
    // An existing empty file stays, and connections that it does not concern may read it.
    fs::write(dir.path().join("new.db"), "").unwrap();
    refused(&missing, SQLITE_AUTH, &["the key store has no certificate Nobody"]);
    assert_eq!(fs::metadata(dir.path().join("new.db")).unwrap().len(), 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(&missing, flags).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM sqlite_schema"), 0);
}

/// SQLite has its own text for a file that is attached; the connection stays and has the reason.
#[test]
fn an_attached_database_is_refused_and_the_connection_stays() {
    setup();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    create(&path).execute_batch(WRITE).unwrap();
    let [journal, log] = ["a.db-journal", "a.db-wal"].map(|name| dir.path().join(name));
    let db = open(&dir.path().join("main.db")).unwrap();
    for more in ["", "&nolock=1", "&immutable=1", "&mode=ro"] {
        let home = dir.path().join("none");
        let uri = format!("file:{}?tdekit_home={}{more}", path.display(), home.display());
        for file in [&journal, &log] {
            fs::write(file, "not there to be deleted").unwrap();
        }
        let error = db.execute("ATTACH ?1 AS a", [&uri]).unwrap_err();
        assert_eq!(error.sqlite_error().unwrap().extended_code, SQLITE_AUTH, "{uri}: {error}");
        let why: String = one(&db, "SELECT tdekit_last_error()");
        assert!(why.contains("cannot find"), "{uri}: {why}");
        assert!(db.execute_batch("SELECT * FROM a.t").is_err());
        refused(&uri, SQLITE_AUTH, &["cannot find"]);
        for file in [&journal, &log] {
            assert!(file.exists(), "{uri}");
            fs::remove_file(file).unwrap();
        }
    }
    db.execute_batch("CREATE TABLE stays(x)").unwrap();
    db.execute("ATTACH ?1 AS a", [path.to_str().unwrap()]).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT x FROM a.t"), 1);
}

/// A program may remove the automatic extensions: then the first statement fails instead.
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
        for (sql, more) in [
            ("SELECT * FROM t", ""),
            ("SELECT * FROM t", "&immutable=1"),
            ("SELECT * FROM t", "&nolock=1"),
            ("CREATE TABLE u(x)", ""),
            ("CREATE TABLE u(x)", "&nolock=1"),
            ("VACUUM", ""),
            ("BEGIN EXCLUSIVE", ""),
        ] {
            let uri = format!("file:{}?{parameters}{more}", path.display());
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
