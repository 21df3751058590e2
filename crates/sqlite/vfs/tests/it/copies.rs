//! Every way to make a file in a process that has an encrypted database open: the fate of its rows,
//! and whether they are in the clear.
#![allow(unsafe_code)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;
use rusqlite::ffi as sys;
use tempfile::TempDir;

use crate::support::{CERTIFICATE, create, one, open};

const MARKER: &str = "Zanzibar-Marker-4711";

fn fill(db: &Connection, rows: u32) {
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO t SELECT i, ?2 FROM n";
    db.execute_batch("CREATE TABLE t(id, v)").unwrap();
    db.execute(fill, (rows, MARKER)).unwrap();
}

fn copy(from: &Connection, to: &mut Connection, pages: i32) -> rusqlite::Result<()> {
    Backup::new(from, to)?.run_to_completion(pages, Duration::ZERO, None)
}

fn is_in_the_clear(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}

/// Copies into memory, by `sqlite3_serialize` and `sqlite3_deserialize`.
fn deserialized(from: &Connection) -> Connection {
    let memory = Connection::open_in_memory().unwrap();
    let flags = sys::SQLITE_DESERIALIZE_FREEONCLOSE | sys::SQLITE_DESERIALIZE_RESIZEABLE;
    let mut len = 0;
    // SAFETY: both connections are open; the bytes are SQLite's own, and become the second's.
    unsafe {
        let main = c"main".as_ptr();
        let bytes = sys::sqlite3_serialize(from.handle(), main, &raw mut len, 0);
        let seen = std::slice::from_raw_parts(bytes, usize::try_from(len).unwrap());
        assert!(seen.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()));
        let code = sys::sqlite3_deserialize(memory.handle(), main, bytes, len, len, flags);
        assert_eq!(code, sys::SQLITE_OK);
    }
    memory
}

fn is_encrypted(path: &Path) -> bool {
    fs::read(path).unwrap().starts_with(b"tdekit database")
}

fn why(db: &Connection) -> String {
    one::<Option<String>>(db, "SELECT tdekit_last_error()").unwrap_or_default()
}

#[test]
fn a_backup_into_a_new_file_is_encrypted_as_its_source() {
    for (page_size, mode) in [(4096, "DELETE"), (8192, "WAL"), (1024, "WAL"), (65536, "DELETE")] {
        // One that fits into the target's cache, and one that does not; in one step, and in many.
        for (rows, pages) in [(10, -1), (60_000, -1), (60_000, 100)] {
            let dir = TempDir::new().unwrap();
            let from = create(&dir.path().join("from.db"));
            from.execute_batch(&format!("PRAGMA page_size={page_size}")).unwrap();
            let _: String = one(&from, &format!("PRAGMA journal_mode={mode}"));
            fill(&from, rows);
            let path = dir.path().join("to.db");
            let mut to = open(&path).unwrap();
            let all = if pages < 0 { i32::MAX } else { pages };
            copy(&from, &mut to, all).unwrap();
            assert_eq!(one::<u32>(&to, "SELECT count(*) FROM t"), rows);
            drop((from, to));
            assert!(is_encrypted(&path) && !is_in_the_clear(&path), "{page_size} {mode} {rows}");
            let to = open(&path).unwrap();
            assert_eq!(one::<String>(&to, "PRAGMA integrity_check"), "ok");
            assert_eq!(one::<u32>(&to, "PRAGMA page_size"), page_size);
        }
    }
}

#[test]
fn where_the_source_is_not_known_nothing_is_left_and_the_reason_is_told() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("to.db");
    for rows in [10, 60_000] {
        let from = create(&dir.path().join(format!("{rows}.db")));
        fill(&from, rows);
        // A statement of its own reads it, so a backup does not start reading.
        from.execute_batch("BEGIN").unwrap();
        assert_eq!(one::<u32>(&from, "SELECT count(*) FROM t"), rows);
        let mut to = open(&path).unwrap();
        assert!(copy(&from, &mut to, i32::MAX).is_err());
        assert!(why(&to).contains("VACUUM INTO"), "{}", why(&to));
        assert!(!is_in_the_clear(&path));
        drop(to);
        assert!(!path.exists(), "an empty file would pass for a copy");
        // A program that never had the target's connection can read it, too.
        assert!(why(&from).contains("VACUUM INTO"), "{}", why(&from));
        // A file that existed before stays.
        fs::write(&path, b"").unwrap();
        assert!(copy(&from, &mut open(&path).unwrap(), i32::MAX).is_err());
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        from.execute_batch("COMMIT").unwrap();
        copy(&from, &mut open(&path).unwrap(), i32::MAX).unwrap();
        assert!(is_encrypted(&path));
        fs::remove_file(&path).unwrap();
    }
}

/// An existing plain file is not written to at all, so no part of the pages reaches the disk.
#[test]
fn a_backup_into_a_plain_file_is_refused_before_its_first_page() {
    let dir = TempDir::new().unwrap();
    let from = create(&dir.path().join("from.db"));
    fill(&from, 60_000);
    let path = dir.path().join("to.db");
    let mut to = open(&path).unwrap();
    to.execute_batch("CREATE TABLE kept(x); INSERT INTO kept VALUES(7)").unwrap();
    let before = fs::read(&path).unwrap();
    for begun in ["", "BEGIN"] {
        from.execute_batch(begun).unwrap();
        let _: u32 = one(&from, "SELECT count(*) FROM t");
        let backup = Backup::new(&from, &mut to).unwrap();
        // Far more than the target's cache, so that pages would be written.
        let steps: Vec<_> = (0..10).map(|_| backup.step(200)).collect();
        assert!(steps.iter().any(Result::is_err), "{steps:?}");
        assert!(!is_in_the_clear(&path), "after {begun:?}");
        drop(backup);
        assert!(why(&to).contains("tdekit_certificate"), "{}", why(&to));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    assert_eq!(one::<u32>(&to, "SELECT x FROM kept"), 7);
    // The connection that was refused made the file, which is small, and has rows in it.
    drop(to);
    assert_eq!(fs::read(&path).unwrap(), before);
    // With `tdekit=plain` the copy is made.
    let allowed = format!("file:{}?tdekit=plain", path.display());
    copy(&from, &mut Connection::open(allowed).unwrap(), i32::MAX).unwrap();
    assert!(is_in_the_clear(&path));
}

/// The file of a refused connection is deleted only if it is empty and has no log or journal.
#[test]
fn no_file_with_rows_is_deleted() {
    let dir = TempDir::new().unwrap();
    let from = create(&dir.path().join("from.db"));
    fill(&from, 10);
    for encrypted in [false, true] {
        let path = dir.path().join(format!("{encrypted}.db"));
        let mut to = if encrypted { create(&path) } else { open(&path).unwrap() };
        // The rows are in the log, and stay there while somebody else has the file open.
        let _: String = one(&to, "PRAGMA journal_mode=WAL");
        to.execute_batch("CREATE TABLE kept(x); INSERT INTO kept VALUES(7)").unwrap();
        let other = open(&path).unwrap();
        assert_eq!(one::<u32>(&other, "SELECT x FROM kept"), 7);
        // A plain file refuses them; in an encrypted one, pages without space for seals are
        // refused.
        let plain = open(&dir.path().join("plain.db")).unwrap();
        plain.execute_batch("CREATE TABLE IF NOT EXISTS p(x)").unwrap();
        let source = if encrypted { &plain } else { &from };
        assert!(copy(source, &mut to, i32::MAX).is_err(), "{encrypted}");
        drop(to);
        assert!(path.exists());
        drop(other);
        assert_eq!(one::<u32>(&open(&path).unwrap(), "SELECT x FROM kept"), 7);
    }
}

/// Copies of other databases keep their kind, whatever else is open and being read.
#[test]
fn copies_of_plain_databases_stay_plain() {
    let dir = TempDir::new().unwrap();
    let sealed = create(&dir.path().join("sealed.db"));
    fill(&sealed, 10);
    let plain = open(&dir.path().join("plain.db")).unwrap();
    let memory = Connection::open_in_memory().unwrap();
    for source in [&plain, &memory] {
        fill(source, 10);
    }
    let at_rest = "SELECT 1";
    for reads in [at_rest, "SELECT id FROM t"] {
        let mut statement = sealed.prepare(reads).unwrap();
        let mut rows = statement.query([]).unwrap();
        rows.next().unwrap();
        for (name, source) in [("plain", &plain), ("memory", &memory)] {
            let path = dir.path().join(format!("of-{name}.db"));
            copy(source, &mut open(&path).unwrap(), i32::MAX).unwrap();
            assert!(is_in_the_clear(&path), "{name} {reads}");
            fs::remove_file(&path).unwrap();
        }
        // So do new files.
        let path = dir.path().join("new.db");
        open(&path).unwrap().execute_batch("CREATE TABLE n(x)").unwrap();
        assert!(!is_encrypted(&path), "{reads}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn other_ways_to_a_file() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let from = create(&path("from.db"));
    fill(&from, 100);
    // VACUUM INTO follows its source.
    from.execute("VACUUM INTO ?1", [path("vacuum.db").to_str().unwrap()]).unwrap();
    assert!(is_encrypted(&path("vacuum.db")));
    // Rows that SQL writes to an attached file are as plain as that file. `.clone`, `.recover` and
    // sqlite3_rsync write by SQL, too.
    from.execute("ATTACH ?1 AS other", [path("attached.db").to_str().unwrap()]).unwrap();
    from.execute_batch("CREATE TABLE other.t AS SELECT * FROM main.t").unwrap();
    assert!(is_in_the_clear(&path("attached.db")));
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path("sealed.db").display());
    from.execute("ATTACH ?1 AS sealed", [uri]).unwrap();
    from.execute_batch("CREATE TABLE sealed.t AS SELECT * FROM main.t").unwrap();
    assert!(is_encrypted(&path("sealed.db")) && !is_in_the_clear(&path("sealed.db")));
    // The bytes of sqlite3_serialize are plaintext in memory, and so is a database made from them.
    let memory = deserialized(&from);
    assert_eq!(one::<u32>(&memory, "SELECT count(*) FROM t"), 100);
    // From there its pages do not reach a plain file, but reach an encrypted one by a backup.
    let mut plain = open(&path("plain.db")).unwrap();
    assert!(copy(&memory, &mut plain, i32::MAX).is_err());
    assert!(why(&plain).contains("tdekit_certificate"), "{}", why(&plain));
    drop(plain);
    assert!(!path("plain.db").exists());
    copy(&memory, &mut create(&path("again.db")), i32::MAX).unwrap();
    assert!(is_encrypted(&path("again.db")));
}

#[test]
fn the_shells_ways_to_a_file() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fill(&create(&path("from.db")), 100);
    let name = format!("libtdekit_sqlite{}", std::env::consts::DLL_SUFFIX);
    let extension = std::env::current_exe().unwrap().with_file_name(name);
    let shell = |commands: &[String]| {
        let mut shell = Command::new("sqlite3");
        shell.arg(":memory:").args(["-cmd", &format!(".load {}", extension.display())]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The shell continues after an error in its input, but not in its arguments.
        writeln!(shell.stdin.take().unwrap(), "{}", commands.join("\n")).unwrap();
        String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap()
    };
    let open_from = format!(".open {}", path("from.db").display());
    for (command, encrypted) in [("backup", true), ("clone", false)] {
        let to = path(command);
        shell(&[open_from.clone(), format!(".{command} {}", to.display())]);
        assert_eq!((is_encrypted(&to), is_in_the_clear(&to)), (encrypted, !encrypted), "{command}");
        let count = "SELECT count(*) FROM t;".to_owned();
        assert_eq!(shell(&[format!(".open {}", to.display()), count]), "100\n", "{command}");
    }
    let to = path("refused");
    let output = shell(&[
        open_from,
        "BEGIN;".to_owned(),
        "SELECT 1 FROM t LIMIT 1;".to_owned(),
        format!(".backup {}", to.display()),
        "SELECT tdekit_last_error();".to_owned(),
    ]);
    assert!(output.contains("VACUUM INTO") && !to.exists(), "{output}");
}
