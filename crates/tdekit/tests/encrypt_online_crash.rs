//! `encrypt --online`, cut short: by a power cut under a writer, by failing calls, by signals.
//! The database is whole, plain or encrypted, and has all that was acknowledged.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
mod databases;
mod powercut;

use std::path::{Path, PathBuf};
use std::process::Command;

use databases::{Dir, dump, encrypt_args, fill, is_plain, one, open, place};
use powercut::each_image;
use rusqlite::Connection;
use tdekit_faults_sqlite::crash::exhaustive;
use tdekit_faults_sqlite::trace::{inject, is_possible, record};

/// Commits durably and tells of it, runs the command meanwhile, and goes on for a while.
const DRIVER: &str = r#"
import itertools, os, sqlite3, subprocess, sys, time
extension, path, told, mode, *command = sys.argv[1:]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(extension)
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute(f'PRAGMA journal_mode = {mode}')
db.execute('PRAGMA synchronous = EXTRA')
told = os.open(told, os.O_WRONLY | os.O_CREAT)
run, after = None, 0
for n in itertools.count(1):
    db.execute('BEGIN IMMEDIATE')
    db.execute('INSERT INTO log VALUES (?, randomblob(900))', (n,))
    db.execute('UPDATE t SET a = ? WHERE id = ?', (f'at {n}', 1 + n % 30))
    db.execute('COMMIT')
    os.write(told, f'{n}\n'.encode())
    if n == 3:
        run = subprocess.Popen(command)
    elif run and run.poll() is not None:
        after += 1
    if after == 4:
        sys.exit(run.returncode)
    time.sleep(0.02)
"#;
const ROWS: u32 = 120;

/// The extension of this build: cargo puts it beside the tests of what depends on it.
fn extension() -> PathBuf {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    std::env::current_exe().unwrap().with_file_name(name)
}

/// The driver, around the command that encrypts `path`.
fn driver(path: &Path, told: &Path, mode: &str) -> Option<Command> {
    let can = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    let python = "/usr/bin/python3";
    let able = Command::new(python).args(["-c", can]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no Python that loads extensions of SQLite");
        return None;
    }
    let run = place().command(encrypt_args(path, &["--online"]));
    let mut command = Command::new(python);
    command.args(["-c", DRIVER]).arg(extension()).args([path, told]).arg(mode);
    command.arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        command.env(name, value.unwrap());
    }
    Some(command)
}

/// Opens what a crash left, recovers it, and compares it with what was acknowledged.
fn check(path: &Path, acked: u32, what: &str) {
    let looked = || -> rusqlite::Result<(String, i64, i64, i64)> {
        let db = Connection::open(path)?;
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        let told = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let (count, last) =
            (number("SELECT count(*) FROM log")?, number("SELECT ifnull(max(n), 0) FROM log")?);
        Ok((told, count, last, number("SELECT count(*) FROM t")?))
    };
    let (told, count, last, rows) = looked().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(told, "ok", "{what}");
    assert_eq!((count, rows), (last, i64::from(ROWS)), "{what}: a transaction is missing");
    // The one that was being committed may be there.
    let legal = i64::from(acked)..=i64::from(acked) + 1;
    assert!(legal.contains(&last), "{what}: {last} of {legal:?}");
}

fn power_cuts(mode: &str) {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, ROWS);
    open(&path).execute_batch("CREATE TABLE log(n, body)").unwrap();
    let told = Dir::new();
    let told_at = told.path("told");
    let Some(command) = driver(&path, &told_at, mode) else { return };
    let roots = [dir.path("").components().collect::<PathBuf>()];
    let traced = record(&command, &roots, Some(&told_at)).unwrap();
    assert!(traced.output.status.success(), "{:?}", traced.output);
    let (mut plain, mut encrypted) = (0, 0);
    let images = each_image(&traced.log, &roots, 60, |image| {
        let was_plain = is_plain(&path);
        let what = format!("{mode}, plain {was_plain}: {}", image.what);
        check(&path, image.acked, &what);
        *(if was_plain { &mut plain } else { &mut encrypted }) += 1;
        if was_plain && plain % 40 == 7 {
            let run = place().run(encrypt_args(&path, &["--online"]));
            assert_eq!(run.code, 0, "{what}: {run:?}");
            assert!(!is_plain(&path));
            // Names that a power cut took are what tells whose work it is.
            assert!(dir.work().is_none() || image.what.starts_with("Power"), "{what}");
            check(&path, image.acked, &format!("{what}, and again"));
        }
    });
    eprintln!("{mode}: {images} images, {plain} of them plain, {encrypted} encrypted");
    assert!(plain > 20 && encrypted > 10, "{mode}: {plain} plain, {encrypted} encrypted");
}

#[test]
fn a_power_cut_leaves_one_database_or_the_other_with_a_rollback_journal() {
    if is_possible() {
        power_cuts("delete");
    }
}

#[test]
fn a_power_cut_leaves_one_database_or_the_other_with_a_log() {
    if is_possible() {
        power_cuts("wal");
    }
}

/// Calls that fail, once or from then on, and signals as they are made.
const FAULTS: [&str; 4] =
    ["error=EIO:when={}", "error=ENOSPC:when={}+", "signal=INT:when={}", "signal=KILL:when={}"];
const CALLS: [&str; 6] = ["pwrite64", "fsync", "fdatasync", "ftruncate", "renameat", "unlink"];

/// Runs the command with a fault, while a connection has the database open.
fn fault(mode: &str, call: &str, fault: &str) -> bool {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, ROWS);
    let db = open(&path);
    db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("UPDATE t SET a = 'before'").unwrap();
    let whole = dump(&db);
    let what = format!("{mode} {call}:{fault}");
    let command = place().command(encrypt_args(&path, &["--online"]));
    let output = inject(&command, &format!("{call}:{fault}")).unwrap();
    // Another process looks: to close a file here drops the locks that SQLite has on it.
    let head = Command::new("head").args(["-c", "15"]).arg(&path).output().unwrap().stdout;
    let plain = head == b"SQLite format 3";
    if output.status.success() {
        assert!(!plain, "{what}: {output:?}");
    }
    // Who has it open goes on, and so does who comes; who stopped too late is told so.
    assert_eq!(dump(&db), whole, "{what}: {output:?}");
    db.execute_batch("INSERT INTO t(a) VALUES ('after')").unwrap();
    let now = dump(&db);
    assert_eq!(dump(&open(&path)), now, "{what}: {output:?}");
    let again = place().run(encrypt_args(&path, &["--online"]));
    assert_eq!(again.code, i32::from(!plain), "{what}: {output:?} {again:?}");
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{what}");
    assert_eq!(dump(&db), now, "{what}");
    if plain {
        assert_eq!(dir.work(), None, "{what}");
    }
    !output.status.success()
}

fn faults(mode: &str) {
    let mut failed = 0;
    for (row, call) in CALLS.iter().enumerate() {
        for (column, text) in FAULTS.iter().enumerate() {
            // The short form takes half of the faults of each call, and few of the calls.
            if !exhaustive() && (row + column + usize::from(mode == "wal")) % 2 == 1 {
                continue;
            }
            let mut nth = if exhaustive() { 1 } else { 1 + (row + column) % 3 };
            let mut step = 1;
            while nth < 400 {
                if fault(mode, call, &text.replace("{}", &nth.to_string())) {
                    failed += 1;
                } else {
                    break;
                }
                step *= if exhaustive() { 1 } else { 6 };
                nth += step;
            }
        }
    }
    assert!(failed >= 3, "{mode}: {failed} failed");
}

#[test]
fn calls_that_fail_and_signals_leave_the_database_whole_with_a_rollback_journal() {
    if is_possible() {
        faults("delete");
    }
}

#[test]
fn calls_that_fail_and_signals_leave_the_database_whole_with_a_log() {
    if is_possible() {
        faults("wal");
    }
}
