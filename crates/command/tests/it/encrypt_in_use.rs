//! `encrypt` of databases that others use or have left behind: locks, logs, journals.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Run;
use crate::databases::{
    Dir, MARKER, create, dump, encrypt, encrypt_args, encrypt_fails, fails, fill, insert,
    is_encrypted, is_plain, ok, one, open, place,
};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_database_that_others_have_open_is_refused() {
    for mode in ["DELETE", "WAL"] {
        for busy in ["SELECT 1", "BEGIN; SELECT * FROM t", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
            let dir = Dir::new();
            let path = dir.path("app.db");
            insert(&create(&path, &format!("PRAGMA journal_mode = {mode}")), 100);
            let before = fs::read(&path).unwrap();
            let db = open(&path);
            // A connection that has read keeps its locks in WAL mode, and its descriptor in every
            // mode.
            db.execute_batch("SELECT count(*) FROM t").unwrap();
            db.execute_batch(busy).unwrap();
            let told = encrypt_fails(5, &path, &[]);
            assert!(told.contains("is in use by process"), "{mode} {busy}: {told}");
            assert!(told.contains(&std::process::id().to_string()), "{told}");
            assert!(told.contains("hint: stop what uses it"), "{told}");
            let _ = db.execute_batch("ROLLBACK");
            db.execute_batch("INSERT INTO t(a) VALUES('still mine')").unwrap();
            drop(db);
            assert_eq!(dir.names(), ["app.db"]);
            assert_ne!(fs::read(&path).unwrap(), before);
            encrypt(&path, &[]);
            assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t"), 101);
            let db = open(&path);
            db.execute_batch("SELECT count(*) FROM t").unwrap();
            assert!(fails(5, "decrypt", &path).contains("is in use"), "{mode} {busy}");
            drop(db);
            ok("decrypt", &path);
        }
    }
}

/// Copies a database with the files beside it, as a crash leaves it.
fn crashed(dir: &Dir, from: &str, to: &str) {
    for suffix in ["", "-wal", "-journal"] {
        let from = dir.path(&format!("{from}{suffix}"));
        if from.exists() {
            fs::copy(&from, dir.path(&format!("{to}{suffix}"))).unwrap();
        }
    }
}

#[test]
fn a_log_that_a_crash_left_is_recovered_first() {
    let dir = Dir::new();
    let db =
        create(&dir.path("live.db"), "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
    insert(&db, 500);
    db.execute_batch("BEGIN; PRAGMA cache_size = 5; UPDATE t SET a = 'not committed'").unwrap();
    crashed(&dir, "live.db", "app.db");
    db.execute_batch("ROLLBACK").unwrap();
    let before = dump(&db);
    drop(db);
    fs::remove_file(dir.path("live.db")).unwrap();
    let path = dir.path("app.db");
    assert_eq!(dir.names(), ["app.db", "app.db-wal"]);
    assert_eq!(dir.files_with_marker(), ["app.db-wal"]);
    encrypt(&path, &["--verify"]);
    assert_eq!((dir.names(), dir.files_with_marker()), (vec!["app.db".to_owned()], vec![]));
    let db = open(&path);
    assert_eq!(dump(&db), before);
    // The same, sealed.
    db.execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO t(a) VALUES('sealed')").unwrap();
    crashed(&dir, "app.db", "sealed.db");
    let before = dump(&db);
    let sealed = dir.path("sealed.db");
    assert!(dir.path("sealed.db-wal").exists());
    place().ok(["decrypt".as_ref(), sealed.as_os_str(), "--verify".as_ref()]);
    assert_eq!(dump(&open(&sealed)), before);
}

#[test]
fn a_hot_journal_is_rolled_back_first() {
    let dir = Dir::new();
    let db = create(&dir.path("live.db"), "");
    insert(&db, 2000);
    let before = dump(&db);
    db.execute_batch("PRAGMA cache_size = 5; BEGIN; UPDATE t SET a = a || ' not committed'")
        .unwrap();
    crashed(&dir, "live.db", "app.db");
    let path = dir.path("app.db");
    assert!(fs::metadata(dir.path("app.db-journal")).unwrap().len() > 4096);
    encrypt(&path, &[]);
    assert!(!dir.path("app.db-journal").exists());
    assert_eq!(dump(&open(&path)), before);
    drop(db);
}

#[test]
fn a_journal_that_stays_behind_goes() {
    for mode in ["PERSIST", "TRUNCATE"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        let db = create(&path, "");
        insert(&db, 500);
        db.execute_batch(&format!("PRAGMA journal_mode = {mode}; UPDATE t SET a = a || '!'"))
            .unwrap();
        drop(db);
        assert!(dir.path("app.db-journal").exists());
        assert_eq!(dir.files_with_marker().len(), if mode == "PERSIST" { 2 } else { 1 });
        encrypt(&path, &[]);
        assert_eq!((dir.names(), dir.files_with_marker()), (vec!["app.db".to_owned()], vec![]));
        let db = open(&path);
        db.execute_batch(&format!("PRAGMA journal_mode = {mode}; UPDATE t SET a = a || '?'"))
            .unwrap();
        drop(db);
        assert!(dir.files_with_marker().is_empty());
        ok("decrypt", &path);
        assert_eq!(dir.names(), ["app.db"]);
        let found: i64 = one(&open(&path), "SELECT count(*) FROM t WHERE a LIKE '%!?'");
        assert_eq!(found, 500);
    }
}

#[test]
fn readers_that_the_system_hides_fail_or_follow_and_do_not_go_on() {
    // In another container, for example. Here the command gets a /proc that shows nobody.
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    let follows = open(&path);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = rusqlite::Connection::open_with_flags_and_vfs(&path, flags, "unix").unwrap();
    for db in [&db, &follows] {
        db.execute_batch("PRAGMA cache_size = 0; SELECT count(*) FROM t").unwrap();
    }
    let mut run = place().command(encrypt_args(&path, &[]));
    let hidden = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"])
        .arg(run.get_program())
        .args(run.get_args())
        .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output();
    match hidden {
        Ok(output) if output.status.success() => {}
        other => {
            assert_eq!(run.output().unwrap().status.code(), Some(5));
            return eprintln!("skipped: cannot hide /proc: {other:?}");
        }
    }
    assert!(is_encrypted(&path));
    let read = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    assert!(read.is_err(), "stale content: {read:?}");
    let written = db.execute_batch("INSERT INTO t(a) VALUES('lost')");
    assert!(written.is_err());
    // Connections that use the extension find the new file.
    follows.execute_batch("INSERT INTO t(a) VALUES('kept')").unwrap();
    drop((db, follows));
    assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t"), 101);
}

#[track_caller]
fn wait_for(what: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < end, "waited too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A run of `encrypt` on a larger database that is in the middle of its copy.
fn running(dir: &Dir) -> Child {
    let path = dir.path("app.db");
    fill(&path, 150_000);
    let child = place()
        .command(encrypt_args(&path, &[]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let copy = || fs::metadata(dir.work()?.join("app.db")).ok();
    wait_for(|| copy().is_some_and(|copy| copy.len() > 1 << 20));
    child
}

#[test]
fn of_two_runs_the_second_is_refused() {
    let dir = Dir::new();
    let first = running(&dir);
    signal(&first, Signal::STOP);
    let path = dir.path("app.db");
    let told = encrypt_fails(5, &path, &[]);
    assert!(told.contains("another tdekit is converting"), "{told}");
    assert!(fails(1, "decrypt", &path).contains("is not encrypted"));
    // Nobody else reads or writes in the meantime.
    let shell = Command::new("sqlite3").arg(&path).arg("SELECT count(*) FROM t").output().unwrap();
    assert!(String::from_utf8_lossy(&shell.stderr).contains("database is locked"));
    signal(&first, Signal::CONT);
    let run = Run::of(&first.wait_with_output().unwrap());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(is_encrypted(&path) && dir.names() == ["app.db"]);
    assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t"), 150_000);
}

#[test]
fn a_signal_ends_it_in_order() {
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        let dir = Dir::new();
        let child = running(&dir);
        signal(&child, number);
        let run = Run::of(&child.wait_with_output().unwrap());
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("stopped; nothing was changed"), "{run:?}");
        assert!(is_plain(&dir.path("app.db")) && dir.names() == ["app.db"]);
    }
}

#[test]
fn who_opens_it_during_the_copy_is_noticed() {
    let dir = Dir::new();
    let first = running(&dir);
    signal(&first, Signal::STOP);
    let path = dir.path("app.db");
    // It waits for the lock, and would continue with the old file.
    let mut shell = Command::new("sqlite3")
        .args(["-cmd", ".timeout 60000"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    writeln!(stdin, "INSERT INTO t(a) VALUES('{MARKER} not lost'); SELECT count(*) FROM t;")
        .unwrap();
    let fds = format!("/proc/{}/fd", shell.id());
    wait_for(|| {
        let opened = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == path);
        fs::read_dir(&fds).unwrap().flatten().any(opened)
    });
    signal(&first, Signal::CONT);
    let run = Run::of(&first.wait_with_output().unwrap());
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.err.contains("is in use by process") && run.err.contains("sqlite3"), "{run:?}");
    drop(stdin);
    let output = shell.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "150001\n");
    assert!(is_plain(&path) && dir.names() == ["app.db"]);
}
