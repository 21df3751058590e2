//! New databases that would become plain although they should be encrypted. In a separate process:
//! the library is shut down, which no other connection may see.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;

use crate::support::{CERTIFICATE, alone, create, one, open, register, setup};
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

const WRITE: &str = "CREATE TABLE made(x)";

fn write(name: &str) -> Option<ErrorCode> {
    let made = Connection::open(name).and_then(|db| db.execute_batch(WRITE));
    made.err().and_then(|error| error.sqlite_error_code())
}

fn is_encrypted(path: &Path) -> bool {
    fs::read(path).unwrap().starts_with(b"tdekit database\0")
}

#[test]
fn nothing_becomes_plain_that_was_to_be_encrypted() {
    if !alone("shutdown::nothing_becomes_plain_that_was_to_be_encrypted") {
        return;
    }
    setup();
    let dir = TempDir::new().unwrap();
    let name = |file: &str, parameters: &str| {
        format!("file:{}{parameters}", dir.path().join(file).display())
    };
    let plain = dir.path().join("plain.db");
    open(&plain).unwrap().execute_batch(WRITE).unwrap();
    drop(create(&dir.path().join("sealed.db")));
    // SAFETY: this process runs one test, so no other thread reads the environment now.
    unsafe { std::env::set_var("TDEKIT_ENCRYPT_NEW", CERTIFICATE) };
    let past_us = |when: &str| {
        for vfs in ["unix", "unix-excl", "unix-dotfile", "unix-none"] {
            let file = format!("{when}-{vfs}.db");
            assert_eq!(write(&name(&file, &format!("?vfs={vfs}"))), Some(ErrorCode::CannotOpen));
            assert!(!dir.path().join(&file).exists(), "{file}");
            fs::write(dir.path().join(&file), "").unwrap();
            assert_eq!(write(&name(&file, &format!("?vfs={vfs}"))), Some(ErrorCode::CannotOpen));
            assert_eq!(fs::metadata(dir.path().join(&file)).unwrap().len(), 0);
        }
        let meant = format!("{when}-meant.db");
        assert_eq!(write(&name(&meant, "?vfs=unix-excl&tdekit=plain")), None);
        assert_eq!(
            one::<i64>(
                &Connection::open(name("plain.db", "?vfs=unix")).unwrap(),
                "SELECT count(*) FROM sqlite_schema"
            ),
            1
        );
        assert_eq!(write(&format!("file:/{when}?vfs=memdb")), None);
        assert_eq!(write(":memory:"), None);
        assert_eq!(write(""), None);
    };
    past_us("loaded");
    assert_eq!(write(&name("new.db", "")), None);
    assert!(is_encrypted(&dir.path().join("new.db")));

    // SAFETY: no connection is open, and no other thread uses SQLite.
    unsafe {
        assert_eq!(rusqlite::ffi::sqlite3_shutdown(), 0);
        assert_eq!(rusqlite::ffi::sqlite3_initialize(), 0);
    }
    assert_eq!(write(&name("later.db", "")), Some(ErrorCode::CannotOpen));
    assert!(!dir.path().join("later.db").exists());
    past_us("shut-down");

    // Loaded again.
    register();
    drop(Connection::open_in_memory().unwrap());
    assert_eq!(write(&name("later.db", "")), None);
    assert!(is_encrypted(&dir.path().join("later.db")));
    past_us("again");
}
