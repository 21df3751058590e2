//! `encrypt --online`: a plain database becomes an encrypted one while it is read and written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::Run;
use crate::databases::{
    Dir, MARKER, SmallDisk, create, dump, encrypt_args, fill, one, open, place,
};
use rusqlite::{Connection, ErrorCode};

const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];

/// Makes a plain database in a journal mode, which a connection keeps.
fn database(dir: &Dir, mode: &str, rows: u32) -> (PathBuf, Connection) {
    let path = dir.path("app.db");
    fill(&path, rows);
    let db = plain(&path, mode);
    (path, db)
}

fn plain(path: &Path, mode: &str) -> Connection {
    let db = open(path);
    db.busy_timeout(Duration::from_secs(30)).unwrap();
    // A mode that is not stored in the file belongs to the connection.
    let mode = format!("PRAGMA journal_mode = {mode}");
    db.query_row(&mode, [], |_| Ok(())).unwrap();
    db
}

fn add(db: &Connection) {
    db.execute_batch("INSERT INTO t(a) VALUES ('added')").unwrap();
}

/// Returns true if the file is a plain database. Another process reads it: closing a file drops the
/// locks that SQLite has on it in this one.
fn is_plain(path: &Path) -> bool {
    let head = Command::new("head").args(["-c", "16"]).arg(path).output().unwrap();
    assert_eq!(head.stdout.len(), 16);
    head.stdout == b"SQLite format 3\0"
}

fn online(path: &Path, more: &[&str]) -> Run {
    let run = place().run(encrypt_args(path, &[&["--online"], more].concat()));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!is_plain(path));
    run
}

fn in_background(path: &Path) -> Child {
    let mut command = place().command(encrypt_args(path, &["--online"]));
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn connections_that_are_open_follow_in_every_journal_mode() {
    for mode in MODES {
        let dir = Dir::new();
        let (path, first) = database(&dir, mode, 2000);
        let (second, idle) = (plain(&path, mode), plain(&path, mode));
        let content = dump(&first);
        assert_eq!(dump(&second), content);
        let run = online(&path, &["--verify"]);
        assert!(run.out.contains("Others were kept out for"), "{run:?}");
        assert_eq!(dump(&first), content, "{mode}");
        first.execute_batch("INSERT INTO t(a) VALUES ('first')").unwrap();
        second.execute_batch("UPDATE t SET a = 'second' WHERE a = 'first'").unwrap();
        let found = "SELECT count(*) FROM t WHERE a = 'second'";
        for db in [&first, &second, &idle, &open(&path)] {
            assert_eq!(one::<i64>(db, found), 1, "{mode}");
            assert_eq!(one::<String>(db, "PRAGMA integrity_check"), "ok", "{mode}");
            let kept = if mode == "wal" { "wal" } else { "delete" };
            let shown = one::<String>(db, "PRAGMA journal_mode");
            assert!(shown == mode || shown == kept, "{mode}: {shown}");
        }
        let files = Command::new("grep").args(["-rl", MARKER]).arg(dir.path("")).output().unwrap();
        assert_eq!(String::from_utf8(files.stdout).unwrap(), "", "{mode}");
        // Roll back, close, open again: the files beside it belong to the new file.
        second.execute_batch("BEGIN; DELETE FROM t; ROLLBACK; VACUUM").unwrap();
        drop((first, second, idle));
        let db = open(&path);
        assert_eq!(one::<i64>(&db, found), 1, "{mode}");
        assert_eq!(dump(&db).len(), content.len() + 1, "{mode}");
        drop(db);
        let told = place().fails(1, encrypt_args(&path, &["--online"]));
        assert!(told.contains("is encrypted already"), "{told}");
    }
}

/// Appends its own rows until it is stopped; returns the number of the last.
fn write_until(stop: &AtomicBool, path: &Path, mode: &str, writer: i64) -> i64 {
    let db = plain(path, mode);
    // The transactions of one of them are spilled.
    let pages = if writer == 0 { 5 } else { 2000 };
    db.execute_batch(&format!("PRAGMA synchronous = OFF; PRAGMA cache_size = {pages}")).unwrap();
    let mut n = 0;
    while n <= 40 || !stop.load(Ordering::Relaxed) {
        n += 1;
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE; INSERT INTO log VALUES ({writer}, {n}, randomblob(3000));
             UPDATE log SET body = randomblob(3000) WHERE writer = {writer} AND n = {n} - 20;
             DELETE FROM log WHERE writer = {writer} AND n = {n} - 40; COMMIT"
        ))
        .unwrap_or_else(|error| panic!("{mode}: writer {writer}, {n}: {error}"));
        let last: i64 = one(&db, &format!("SELECT max(n) FROM log WHERE writer = {writer}"));
        assert_eq!(last, n, "{mode}");
        thread::sleep(Duration::from_millis(2));
    }
    n
}

/// Makes threads write to the database while `act` runs, and compares with what they did.
fn under_writers(path: &Path, mode: &str, act: impl FnOnce()) {
    plain(path, mode).execute_batch("CREATE TABLE log(writer, n, body)").unwrap();
    let stop = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let stop = &stop;
                scope.spawn(move || write_until(stop, path, mode, writer))
            })
            .collect();
        thread::sleep(Duration::from_millis(100));
        act();
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    let db = open(path);
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{mode}");
    for (writer, n) in (0..).zip(written) {
        let rows = format!("SELECT count(*) FROM log WHERE writer = {writer}");
        assert_eq!(one::<i64>(&db, &rows), 40, "{mode}");
        let rows = format!("SELECT max(n) FROM log WHERE writer = {writer}");
        assert_eq!(one::<i64>(&db, &rows), n, "{mode}");
    }
}

#[test]
fn writers_lose_nothing() {
    for mode in ["delete", "persist", "wal"] {
        let dir = Dir::new();
        let (path, db) = database(&dir, mode, 20000);
        under_writers(&path, mode, || drop(online(&path, &[])));
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 20000);
    }
}

#[test]
fn a_run_that_is_killed_leaves_one_database_or_the_other() {
    for mode in ["delete", "wal"] {
        for step in [
            "created",
            "read",
            "copied",
            "caught-up",
            "recorded",
            "held",
            "renamed",
            "unlinked",
            "settled",
        ] {
            let dir = Dir::new();
            let (path, db) = database(&dir, mode, 300);
            let content = dump(&db);
            under_writers(&path, mode, || {
                let stop = format!("--stop-after={step}");
                let run = place().run(encrypt_args(&path, &["--online", &stop]));
                assert_eq!(run.code, -1, "{mode} {step}: {run:?}");
                let done = matches!(step, "renamed" | "unlinked" | "settled");
                assert_eq!(!is_plain(&path), done, "{mode} {step}");
                if !done {
                    online(&path, &[]);
                }
            });
            // It has not checked since before this table existed.
            assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 300);
            db.execute_batch("DROP TABLE log").unwrap();
            assert_eq!(dump(&db), content, "{mode} {step}");
            // A killed run's remains are removed by the next.
            if matches!(step, "created" | "read" | "copied" | "caught-up" | "recorded" | "held") {
                assert_eq!(dir.work(), None, "{mode} {step}");
            }
        }
    }
}

#[test]
fn a_reader_goes_on_with_what_it_sees_and_then_follows() {
    let dir = Dir::new();
    let (path, writer) = database(&dir, "wal", 500);
    let reader = plain(&path, "wal");
    // It reads the main file and not the log, which would have to be emptied.
    writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 500);
    online(&path, &[]);
    add(&writer);
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 500);
    assert_eq!(one::<i64>(&writer, "SELECT count(*) FROM t"), 501);
    let refused = reader.execute_batch("DELETE FROM t").unwrap_err();
    assert_eq!(refused.sqlite_error().unwrap().extended_code, 517, "SQLITE_BUSY_SNAPSHOT");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 501);
    reader.execute_batch("DELETE FROM t WHERE rowid > 100").unwrap();
    assert_eq!(one::<i64>(&writer, "SELECT count(*) FROM t"), 100);
}

#[test]
fn a_process_without_the_extension_is_refused_by_name() {
    let dir = Dir::new();
    let (path, db) = database(&dir, "wal", 10);
    add(&db);
    let mut stranger =
        Command::new("sleep").arg("60").stdin(fs::File::open(&path).unwrap()).spawn().unwrap();
    let told = place().fails(5, encrypt_args(&path, &["--online"]));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(told.contains("is open without this version of the extension by process"), "{told}");
    assert!(told.contains("(sleep)"), "{told}");
    assert_eq!(dir.names(), ["app.db", "app.db-shm", "app.db-wal"]);
    add(&db);
    online(&path, &[]);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 12);
}

/// A connection without the VFS, in a process that has it: nobody can see that from outside.
#[test]
fn a_connection_that_cannot_follow_fails_and_loses_nothing() {
    for mode in MODES {
        let dir = Dir::new();
        let (path, db) = database(&dir, mode, 10);
        let stock = Connection::open_with_flags_and_vfs(
            &path,
            rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE,
            "unix",
        )
        .unwrap();
        stock.execute_batch("INSERT INTO t(a) VALUES ('before')").unwrap();
        online(&path, &[]);
        for sql in ["INSERT INTO t(a) VALUES ('lost')", "SELECT count(*) FROM t"] {
            let told = stock.execute_batch(sql).unwrap_err();
            let code = told.sqlite_error_code().unwrap();
            assert!(matches!(code, ErrorCode::NotADatabase | ErrorCode::ReadOnly), "{mode} {told}");
        }
        drop(stock);
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 11, "{mode}");
        add(&db);
        assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t"), 12, "{mode}");
    }
}

const SCHEMA: &str = "
    CREATE TABLE t(a, u UNIQUE, big, v AS (length(big)), s TEXT AS (a || u) STORED,
        CHECK (a IS NOT NULL));
    CREATE INDEX i ON t(a, length(big) DESC) WHERE a > 3;
    CREATE TABLE auto(id INTEGER PRIMARY KEY AUTOINCREMENT, x REFERENCES w(k) ON DELETE CASCADE);
    CREATE TABLE w(k TEXT PRIMARY KEY COLLATE NOCASE, v, big) WITHOUT ROWID;
    CREATE TABLE hid(rowid, oid, z);
    CREATE VIRTUAL TABLE f USING fts5(body);
    CREATE TRIGGER ins AFTER INSERT ON t BEGIN INSERT INTO auto(x) VALUES (NULL); END;
    INSERT INTO w VALUES ('fixed', 1, NULL);
    PRAGMA foreign_keys = ON;
    WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000)
    INSERT INTO t(a, u, big) SELECT x % 9, x, randomblob(x % 3 * 2500) FROM n";

/// Returns statements of every kind, the same for the same `n`.
fn change(n: i64) -> String {
    let row = n * 7919 % 3000;
    match n % 11 {
        0 => format!("UPDATE t SET big = zeroblob(length(big)) WHERE rowid = {row}"),
        1 => format!("REPLACE INTO t(a, u, big) VALUES ({n}, {row}, 'replaced')"),
        2 => format!("DELETE FROM t WHERE rowid BETWEEN {row} AND {row} + 20"),
        3 => format!("INSERT INTO t(a, u, big) VALUES ({n}, -{n}, zeroblob({row} * 5))"),
        4 => format!(
            "UPDATE OR IGNORE t SET u = -u - 1000000 WHERE rowid > {row} AND rowid < {row} + 90"
        ),
        5 => format!("INSERT INTO w VALUES ('k{n}', {n}, zeroblob({row}))"),
        6 => format!("DELETE FROM w WHERE v < {n} - 60 AND k <> 'fixed'"),
        7 => format!("INSERT INTO f VALUES ('word{n} common text {row}')"),
        8 => format!("DELETE FROM f WHERE rowid = {n} / 3; INSERT INTO auto(x) VALUES ('fixed')"),
        9 => format!("UPDATE OR IGNORE t SET rowid = rowid + 100000 WHERE rowid = {row}"),
        _ => format!("PRAGMA user_version = {n}; INSERT INTO hid VALUES ({n}, {n}, 'z')"),
    }
}

#[test]
fn the_copy_becomes_what_the_original_became() {
    for (mode, vacuum) in [("delete", 0), ("wal", 0), ("wal", 1), ("delete", 2)] {
        let dir = Dir::new();
        let (path, reference) = (dir.path("app.db"), dir.path("reference.db"));
        let schema = format!("PRAGMA page_size = 1024; PRAGMA auto_vacuum = {vacuum}; {SCHEMA}");
        drop(create(&path, &schema));
        fs::copy(&path, &reference).unwrap();
        let mut child = None;
        let (db, other) = (plain(&path, mode), plain(&reference, "memory"));
        for db in [&db, &other] {
            db.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        }
        let mut after = 0;
        for n in 0..100_000 {
            for db in [&db, &other] {
                db.execute_batch(&change(n)).unwrap_or_else(|error| panic!("{mode} {n}: {error}"));
            }
            let running = child.get_or_insert_with(|| in_background(&path));
            after += u32::from(running.try_wait().unwrap().is_some());
            if after == 30 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let told = Run::of(&child.unwrap().wait_with_output().unwrap());
        assert_eq!(told.code, 0, "{mode} {vacuum}: {told:?}");
        assert!(!is_plain(&path));
        let lines = |db: &Connection| -> Vec<String> {
            let mut lines = dump(db);
            lines.retain(|line| !line.starts_with("journal_mode"));
            lines
        };
        assert_eq!(lines(&db), lines(&other), "{mode} {vacuum}");
        for check in ["integrity_check", "foreign_key_check"] {
            let ask = format!("SELECT count(*) FROM pragma_{check} WHERE 1 IS NOT 'x'");
            assert_eq!(one::<i64>(&db, &ask), one::<i64>(&other, &ask), "{check}");
        }
        db.execute_batch("INSERT INTO f(f) VALUES ('integrity-check')").unwrap();
    }
}

#[test]
fn a_schema_that_changes_meanwhile_is_the_new_one() {
    let dir = Dir::new();
    let (path, db) = database(&dir, "wal", 60000);
    let mut child = in_background(&path);
    let mut made = 0;
    while child.try_wait().unwrap().is_none() {
        if made < 2 {
            thread::sleep(Duration::from_millis(200));
            db.execute_batch(&format!(
                "CREATE TABLE later{made}(x); CREATE INDEX l{made} ON t(a, {made})"
            ))
            .unwrap();
            made += 1;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let told = Run::of(&child.wait_with_output().unwrap());
    assert_eq!(told.code, 0, "{told:?}");
    let made: i64 = made;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'l%' AND type = 'table'";
    assert_eq!(one::<i64>(&open(&path), tables), made);
    assert_eq!(one::<i64>(&db, tables), made);
}

#[test]
fn what_cannot_be_done_under_others_is_refused_and_leaves_the_database() {
    let dir = Dir::new();
    let (path, db) = database(&dir, "wal", 10);
    db.create_collation("ours", |a, b| a.cmp(b)).unwrap();
    db.execute_batch("CREATE TABLE own(a COLLATE ours PRIMARY KEY)").unwrap();
    let told = place().fails(1, encrypt_args(&path, &["--online"]));
    assert!(told.contains("names what only your application has (ours)"), "{told}");
    assert!(told.contains("without --online"), "{told}");
    db.execute_batch("DROP TABLE own").unwrap();
    let reader = plain(&path, "wal");
    add(&db);
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    add(&db);
    assert_eq!(dir.names(), ["app.db", "app.db-shm", "app.db-wal"]);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 12);
    reader.execute_batch("COMMIT").unwrap();
    let told = place().run(encrypt_args(&path, &["--online", "--keep-plain"]));
    assert_eq!(told.code, 2, "{told:?}");
}

#[test]
fn a_full_disk_leaves_the_database_to_its_users() {
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let Some(disk) = SmallDisk::mount(&dir, "12m") else { return };
        let path = disk.0.join("app.db");
        fill(&path, 20000);
        let db = plain(&path, mode);
        let told = place().fails(7, encrypt_args(&path, &["--online"]));
        assert!(told.contains("the copy needs about"), "{mode}: {told}");
        add(&db);
        assert!(is_plain(&path), "{mode}");
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 20001);
        let left = fs::read_dir(&disk.0).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_str().unwrap().contains("tdekit")).collect();
        assert!(left.is_empty(), "{mode}: {left:?}");
    }
}
