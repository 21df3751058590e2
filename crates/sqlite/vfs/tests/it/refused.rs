//! Refusals, and how the connection gets the reason.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::time::Duration;

use crate::support::{CERTIFICATE, create, one, open, setup};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use rusqlite::ffi as sys;
use tempfile::TempDir;

fn why(db: &Connection) -> Option<String> {
    one(db, "SELECT tdekit_last_error()")
}

/// A complete sentence, with the alternative.
fn says(db: &Connection, words: &[&str]) {
    let said = why(db).expect("a reason");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn the_reason_belongs_to_the_connection() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (create(&dir.path().join("a.db")), create(&dir.path().join("b.db")));
    assert!(first.execute_batch("CREATE TABLE t(x); PRAGMA page_size=16384; VACUUM").is_err());
    says(&first, &["16384", "VACUUM INTO"]);
    assert_eq!(why(&second), None);
    assert!(second.execute_batch("CREATE TABLE t(x); PRAGMA page_size=8192; VACUUM").is_err());
    says(&second, &["8192"]);
    says(&first, &["16384"]);
    // Wherever it is requested.
    let first = std::thread::spawn(move || {
        says(&first, &["16384"]);
        first
    });
    drop(first.join().unwrap());
    drop(second);
    assert_eq!(why(&create(&dir.path().join("c.db"))), None);
}

#[test]
fn a_new_database_without_locks() {
    setup();
    let dir = TempDir::new().unwrap();
    let uri = |more: &str| {
        let path = dir.path().join("a.db");
        format!("file:{}?tdekit_certificate={CERTIFICATE}{more}", path.display())
    };
    let db = Connection::open(uri("&nolock=1")).unwrap();
    assert!(db.execute_batch("CREATE TABLE t(x)").is_err());
    says(&db, &["nolock=1"]);
    drop(db);
    Connection::open(uri("")).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    let db = Connection::open(uri("&nolock=1")).unwrap();
    db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    assert_eq!(one::<i64>(&db, "SELECT x FROM t"), 1);
}

/// What another program put in the place of a new database is not removed with it.
#[test]
fn a_file_that_replaced_a_new_database_stays() {
    let dir = TempDir::new().unwrap();
    let (path, other) = (dir.path().join("new.db"), dir.path().join("other.db"));
    open(&other).unwrap().execute_batch("CREATE TABLE kept(x)").unwrap();
    let db = create(&path);
    db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1)").unwrap();
    std::fs::copy(&other, &path).unwrap();
    for sql in ["SELECT * FROM t", "INSERT INTO t VALUES(2)"] {
        assert!(db.execute_batch(sql).is_err(), "{sql}");
    }
    drop(db);
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap());
}

/// A database of one page: its only page is the first one that a log takes.
#[test]
fn a_backup_of_a_plain_page_is_refused_in_every_journal_mode() {
    for mode in ["DELETE", "WAL"] {
        let dir = TempDir::new().unwrap();
        let plain = open(&dir.path().join("plain.db")).unwrap();
        plain.execute_batch("PRAGMA user_version=7").unwrap();
        assert_eq!(one::<i64>(&plain, "PRAGMA page_count"), 1);
        let path = dir.path().join("sealed.db");
        let mut sealed = create(&path);
        let _: String = one(&sealed, &format!("PRAGMA journal_mode={mode}"));
        sealed.execute_batch("CREATE TABLE kept(x); INSERT INTO kept VALUES(1)").unwrap();
        let copied = Backup::new(&plain, &mut sealed)
            .and_then(|backup| backup.run_to_completion(10, Duration::ZERO, None));
        assert!(copied.is_err(), "{mode}");
        says(&sealed, &["reserves 0 bytes", "VACUUM INTO"]);
        sealed.execute_batch("INSERT INTO kept VALUES(2)").unwrap();
        drop(sealed);
        let sealed = open(&path).unwrap();
        assert_eq!(one::<i64>(&sealed, "SELECT sum(x) FROM kept"), 3, "{mode}");
        assert_eq!(one::<String>(&sealed, "PRAGMA integrity_check"), "ok");
    }
}

#[test]
fn an_attached_database_is_copied_by_name() {
    setup();
    let dir = TempDir::new().unwrap();
    let (aux, copy) = (dir.path().join("aux.db"), dir.path().join("copy.db"));
    create(&aux).execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(5)").unwrap();
    let db = open(&dir.path().join("main.db")).unwrap();
    db.execute("ATTACH ?1 AS aux", [aux.to_str().unwrap()]).unwrap();
    assert!(db.execute("VACUUM aux INTO ?1", [copy.to_str().unwrap()]).is_err());
    says(&db, &["plain", "tdekit_certificate"]);
    let _ = std::fs::remove_file(&copy);
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", copy.display());
    db.execute("VACUUM aux INTO ?1", [uri]).unwrap();
    assert_eq!(one::<i64>(&open(&copy).unwrap(), "SELECT x FROM t"), 5);
}

/// Opens journals and logs under copies of their names, as SQLite's multiplex shim does.
unsafe extern "C" fn open_by_copy(
    _: *mut sys::sqlite3_vfs,
    name: *const c_char,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the VFS is registered for good.
    let below = unsafe { sys::sqlite3_vfs_find(c"tdekit".as_ptr()) };
    let copied = flags & (sys::SQLITE_OPEN_MAIN_JOURNAL | sys::SQLITE_OPEN_WAL) != 0;
    let name = match copied {
        // SAFETY: SQLite passes a NUL-terminated name; the copy is leaked.
        true => unsafe { CStr::from_ptr(name) }.to_owned().into_raw().cast_const(),
        false => name,
    };
    // SAFETY: the memory is that of a file of the VFS below.
    unsafe { (*below).xOpen.unwrap()(below, name, file, flags, out) }
}

fn register_shim() {
    setup();
    let name = CString::new("copies").unwrap().into_raw();
    // SAFETY: the copy of a registered VFS serves as one, and lives for ever.
    unsafe {
        let mut shim = std::ptr::read(sys::sqlite3_vfs_find(c"tdekit".as_ptr()));
        shim.zName = name;
        shim.pNext = std::ptr::null_mut();
        shim.xOpen = Some(open_by_copy);
        assert_eq!(sys::sqlite3_vfs_register(Box::leak(Box::new(shim)), 0), sys::SQLITE_OK);
    }
}

#[test]
fn journals_under_names_of_a_shims_making() {
    register_shim();
    let dir = TempDir::new().unwrap();
    let uri = |path: &Path| {
        format!("file:{}?vfs=copies&tdekit_certificate={CERTIFICATE}", path.display())
    };
    for mode in ["DELETE", "PERSIST", "WAL"] {
        let path = dir.path().join(format!("{mode}.db"));
        let db = Connection::open(uri(&path)).unwrap();
        let _: String = one(&db, &format!("PRAGMA journal_mode={mode}"));
        db.execute_batch(
            "PRAGMA cache_size=3; CREATE TABLE t(x, y);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 500)
             INSERT INTO t SELECT x, 'Zanzibar' || hex(randomblob(100)) FROM n;
             BEGIN; UPDATE t SET x = 0; ROLLBACK",
        )
        .unwrap();
        assert_eq!(one::<i64>(&db, "SELECT sum(x) FROM t"), 125_250, "{mode}");
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(8).any(|part| part == b"Zanzibar"), "{mode}");
        }
        drop(db);
        // With two connections, the owner of the journal cannot be determined.
        let db = Connection::open(uri(&path)).unwrap();
        let other = Connection::open(uri(&path)).unwrap();
        let used = db.execute_batch("UPDATE t SET x = -x").and_then(|()| {
            other.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
        });
        assert!(used.is_err(), "{mode}");
        drop(other);
        drop(db);
        let db = open(&path).unwrap();
        assert_eq!(one::<i64>(&db, "SELECT sum(x) FROM t"), 125_250, "{mode}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
    }
}
