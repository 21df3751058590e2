//! `encrypt --online` under Python processes that have loaded the extension and know nothing of it,
//! some of them killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::databases::{Dir, encrypt_args, fill, one, open, place};

/// Writes until it is stopped, and reports each committed transaction.
const WRITER: &str = r#"
import os, sqlite3, sys, time
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
path, writer, told = sys.argv[2], int(sys.argv[3]), open(sys.argv[4], 'w', buffering=1)
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute('PRAGMA synchronous = OFF')
n = 0
while not os.path.exists(sys.argv[4] + '.stop'):
    n += 1
    db.execute('BEGIN IMMEDIATE')
    db.execute('INSERT INTO log VALUES (?, ?, randomblob(2000))', (writer, n))
    db.execute('UPDATE t SET b = zeroblob(5000) WHERE id = ?', (1 + n * 37 % 20000,))
    db.execute('COMMIT')
    told.write(f'{n}\n')
    time.sleep(0.004)
"#;

/// Returns the extension of this build: cargo puts it beside the tests of its dependents.
fn extension() -> PathBuf {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = std::env::current_exe().unwrap().with_file_name(name);
    assert!(path.is_file(), "the extension was not built: {} is missing", path.display());
    path
}

/// Returns a Python that can load extensions, or `None`, with a note.
fn python() -> Option<&'static str> {
    let can = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    let found = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let output = Command::new(python).args(["-c", can]).output();
        output.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: no Python that loads extensions of SQLite");
    }
    found
}

fn writer(python: &str, path: &Path, number: usize, told: &Path) -> Child {
    Command::new(python)
        .args(["-c", WRITER])
        .arg(extension())
        .arg(path)
        .arg(number.to_string())
        .arg(told)
        .env("TDEKIT_HOME", place().home())
        .env("TDEKIT_PASSWORD", "secret")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the last transaction that a writer reported.
fn last_told(told: &Path) -> i64 {
    let text = fs::read_to_string(told).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().last().map_or(0, |line| line.parse().unwrap())
}

fn wait_until_all(told: &[PathBuf], least: &[i64]) {
    let end = Instant::now() + Duration::from_secs(60);
    while told.iter().zip(least).any(|(told, least)| last_told(told) < *least) {
        assert!(Instant::now() < end, "a writer stands still");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn processes_lose_nothing_even_when_some_and_the_command_are_killed() {
    let Some(python) = python() else { return };
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        fill(&path, 20000);
        let db = open(&path);
        db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch("CREATE TABLE log(writer, n, body)").unwrap();
        drop(db);
        let told: Vec<_> = (0..4).map(|number| dir.path(&format!("told{number}"))).collect();
        let mut writers: Vec<_> =
            (0..).zip(&told).map(|(number, told)| writer(python, &path, number, told)).collect();
        wait_until_all(&told, &[10; 4]);
        // The command is killed, then a writer, then both run to the end.
        for millis in [40, 90] {
            let mut run = place().command(encrypt_args(&path, &["--online"]));
            let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            sleep(Duration::from_millis(millis));
            let _ = run.kill();
            run.wait().unwrap();
        }
        let run = place().command(encrypt_args(&path, &["--online"])).spawn().unwrap();
        sleep(Duration::from_millis(100));
        writers[0].kill().unwrap();
        let done = run.wait_with_output().unwrap();
        // One of the killed ones may have completed.
        assert!(matches!(done.status.code(), Some(0 | 1)), "{mode}: {done:?}");
        writers[1].kill().unwrap();
        let now: Vec<_> = told[2..].iter().map(|told| last_told(told) + 10).collect();
        wait_until_all(&told[2..], &now);
        for (writer, told) in writers.into_iter().zip(&told) {
            fs::write(format!("{}.stop", told.display()), "").unwrap();
            let output = writer.wait_with_output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(error, "", "{mode}");
        }
        assert!(crate::databases::is_encrypted(&path), "{mode}");
        let db = open(&path);
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{mode}");
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 20000, "{mode}");
        for (writer, told) in told.iter().enumerate() {
            let ask = |what: &str| {
                one::<i64>(&db, &format!("SELECT {what} FROM log WHERE writer = {writer}"))
            };
            let (count, last) = (ask("count(*)"), ask("max(n)"));
            assert_eq!(count, last, "{mode}: writer {writer} has gaps");
            let told = last_told(told);
            // A killed one may have committed without reporting it.
            assert!((told..=told + 1).contains(&last), "{mode}: {writer} told {told}, has {last}");
        }
    }
}
