//! A command that is recorded while a program commits to the database, and the commits that must
//! have survived a crash of both.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use tdekit_faults_sqlite::record::Log;
use tdekit_faults_sqlite::trace::record;

use crate::databases::{Dir, open, place};
use crate::powercut::Image;

/// Commits and reports it, runs the command meanwhile, and continues for a while.
const DRIVER: &str = r#"
import itertools, os, sqlite3, subprocess, sys, time
extension, path, told, mode, synchronous, pause_s, *command = sys.argv[1:]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(extension)
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute(f'PRAGMA journal_mode = {mode}')
db.execute(f'PRAGMA synchronous = {synchronous}')
told = os.open(told, os.O_WRONLY | os.O_CREAT)

# SQLite's own waiting leaves the lock to whoever takes it again at once.
def begin():
    while True:
        try:
            db.execute('PRAGMA busy_timeout = 0')
            return db.execute('BEGIN IMMEDIATE')
        except sqlite3.OperationalError as error:
            if 'locked' not in str(error):
                raise
        time.sleep(0.0002)

run, after = None, 0
for n in itertools.count(1):
    begin()
    db.execute('PRAGMA busy_timeout = 60000')
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
    time.sleep(0.02 if not run or after else float(pause_s))
"#;

/// Returns the extension of this build: cargo puts it beside the tests of its dependents.
pub fn extension() -> PathBuf {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    std::env::current_exe().unwrap().with_file_name(name)
}

/// Returns the system's Python; `None`, with a note, if it cannot load the extension.
pub fn python_with_extensions() -> Option<&'static str> {
    let can = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    let python = "/usr/bin/python3";
    let able = Command::new(python).args(["-c", can]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no Python that loads extensions of SQLite");
        return None;
    }
    Some(python)
}

/// The database, alone in its directory, and the program's way of committing to it.
#[derive(Clone, Copy)]
pub struct Under<'a> {
    pub path: &'a Path,
    pub mode: &'a str,
    pub synchronous: &'a str,
    /// Pause between two commits, while the command runs.
    pub pause_s: f64,
}

impl Under<'_> {
    /// Runs the command under the program; `None`, with a note, if this machine cannot.
    pub fn record<S: AsRef<OsStr>>(
        &self,
        command: impl IntoIterator<Item = S>,
    ) -> Option<(Log, [PathBuf; 1])> {
        let python = python_with_extensions()?;
        open(self.path).execute_batch("CREATE TABLE log(n, body)").unwrap();
        let (run, told) = (place().command(command), Dir::new());
        let told = told.path("told");
        let mut driver = Command::new(python);
        driver.args(["-c", DRIVER]).arg(extension()).args([self.path, &told]);
        driver.args([self.mode, self.synchronous, &self.pause_s.to_string()]);
        driver.arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            driver.env(name, value.unwrap());
        }
        let roots = [self.path.parent().unwrap().to_owned()];
        let traced = record(&driver, &roots, Some(&told)).unwrap();
        assert!(traced.output.status.success(), "{:?}", traced.output);
        Some((traced.log, roots))
    }

    /// Returns the transactions of which one must be the last in an image.
    fn legal(&self, image: &Image) -> RangeInclusive<u32> {
        let least = match (self.synchronous, self.mode) {
            ("EXTRA", _) => image.acked,
            _ if !image.power => image.acked,
            (_, "wal") => image.synced,
            // The end of a journal is not synced: it may come back once.
            (_, "delete" | "truncate") => image.acked.saturating_sub(1),
            _ => image.acked,
        };
        // The one that was being committed may be there.
        least..=image.acked + 1
    }
}

/// Returns the directory in which the files of an image that does not open are kept for inspection.
fn keeps() -> Option<PathBuf> {
    std::env::var_os("TDEKIT_FAULTS_KEEP").map(PathBuf::from)
}

fn files_beside(path: &Path) -> Vec<(OsString, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap())
        .map(|e| (e.file_name(), fs::read(e.path()).unwrap()))
        .collect()
}

/// Opens the result of a crash, recovers it, and compares it with the acknowledged transactions,
/// and with the rows that the database had.
pub fn check(under: &Under<'_>, image: &Image, rows: u32, what: &str) {
    let db = Connection::open(under.path).unwrap();
    let looked = || -> rusqlite::Result<(String, u32, u32, u32)> {
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, u32>(0));
        let told = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let (count, last) =
            (number("SELECT count(*) FROM log")?, number("SELECT ifnull(max(n), 0) FROM log")?);
        Ok((told, count, last, number("SELECT count(*) FROM t WHERE length(a) > 3")?))
    };
    let before: Option<Vec<_>> = keeps().map(|_| files_beside(under.path));
    let (told, count, last, found) = looked().unwrap_or_else(|error| {
        let why: Option<String> =
            db.query_row("SELECT tdekit_last_error()", [], |row| row.get(0)).unwrap_or(None);
        if let (Some(keep), Some(files)) = (keeps(), before) {
            fs::create_dir_all(&keep).unwrap();
            for (name, bytes) in files {
                fs::write(keep.join(name), bytes).unwrap();
            }
        }
        panic!("{what}: {error}: {why:?}")
    });
    assert_eq!(told, "ok", "{what}");
    assert_eq!((count, found), (last, rows), "{what}: a transaction is missing");
    let legal = under.legal(image);
    assert!(legal.contains(&last), "{what}: {last} of {legal:?}");
}
