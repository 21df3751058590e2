//! A ledger: writers commit numbered transactions through stock SQLite in processes of their own,
//! while they and the follower are killed and started again. Whatever point is restored then holds
//! exactly what was committed by then.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::Value;

use crate::bench::signal;
use crate::common::{Run, tdekit};
use crate::databases::{Dir, create, encrypt, one, place};
use crate::s3_of_test::{OwnServer, variables};

/// Commits transactions until it is killed; says of each when it was begun and committed.
const WRITER: &str = r#"
import sqlite3, sys, time
path, extension, log = sys.argv[1:4]
if extension != '-':
    loader = sqlite3.connect(':memory:')
    loader.enable_load_extension(True)
    loader.load_extension(extension)
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute('PRAGMA synchronous = NORMAL')
log = open(log, 'a')
while True:
    db.execute('BEGIN IMMEDIATE')
    n = db.execute('SELECT coalesce(max(n), 0) + 1 FROM ledger').fetchone()[0]
    db.execute('INSERT INTO ledger VALUES (?)', (n,))
    db.execute('INSERT OR REPLACE INTO data VALUES (?, randomblob(?))', (n * 7919 % 300, n % 2500))
    db.execute('UPDATE total SET s = s + ?', (n,))
    before = time.time_ns() // 1000000
    db.execute('COMMIT')
    log.write(f'{n} {before} {time.time_ns() // 1000000}\n')
    log.flush()
    time.sleep(0.002 if n % 1000 < 700 else 0)
"#;

/// Time by which the follower may see a commit later, on a busy machine; and where it waits for a
/// store, which it does not look meanwhile.
const SLACK_MS: i64 = 4000;
const STORE_SLACK_MS: i64 = 40_000;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// What a ledger is, and where.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kind {
    pub(crate) encrypted: bool,
    pub(crate) on_store: bool,
    /// True if the database is in a rollback mode.
    pub(crate) has_no_log: bool,
}

pub(crate) struct Ledger {
    pub(crate) dir: Dir,
    pub(crate) db: PathBuf,
    /// A directory or a prefix.
    archive: String,
    server: Option<OwnServer>,
    script: PathBuf,
    /// Writers have the extension, and what is restored is plain.
    pub(crate) encrypted: bool,
    pub(crate) running: Vec<Child>,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ledger {
    pub(crate) fn new(Kind { encrypted, on_store, has_no_log }: Kind) -> Self {
        let dir = Dir::new();
        let server = on_store.then(|| OwnServer::start(&dir).unwrap());
        let (db, script) = (dir.path("app.db"), dir.path("writer.py"));
        let archive = match on_store {
            true => format!("s3://{}/ledger", std::env::var("TDEKIT_TEST_S3_BUCKET").unwrap()),
            false => text(&dir.path("archive")).to_owned(),
        };
        let mode = if has_no_log { "DELETE" } else { "WAL" };
        let tables = "CREATE TABLE ledger(n INTEGER PRIMARY KEY);
             CREATE TABLE data(id INTEGER PRIMARY KEY, b BLOB);
             CREATE TABLE total(s); INSERT INTO total VALUES (0)";
        let sql = format!("PRAGMA page_size = 1024; PRAGMA journal_mode = {mode}; {tables}");
        drop(create(&db, &sql));
        if encrypted {
            encrypt(&db, &[]);
        }
        fs::write(&script, WRITER).unwrap();
        Self { dir, db, archive, server, script, encrypted, running: Vec::new() }
    }

    /// The command, which finds the store.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = place().command(words);
        if let Some(server) = &self.server {
            command.envs(variables(&server.endpoint()));
        }
        command
    }

    fn run(&self, words: &[&str]) -> Run {
        Run::of(&self.command(words).output().unwrap())
    }

    fn json(&self, words: &[&str]) -> Value {
        let run = self.run(words);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
        serde_json::from_str(&run.out).unwrap()
    }

    pub(crate) fn follower(&self) -> Child {
        self.follower_with(&[])
    }

    pub(crate) fn follower_with(&self, options: &[&str]) -> Child {
        let words = ["replicate", text(&self.db), "--to", &self.archive, "--every", "1s"];
        let said = File::options().append(true).create(true).open(self.dir.path("said")).unwrap();
        let more = ["--certificate", "AppCert", "--no-sign", "--differential-every", "1s"];
        self.command(&[&words[..], &more, options].concat()).stderr(said).spawn().unwrap()
    }

    pub(crate) fn writer(&self, number: usize) -> Child {
        self.python(&self.script, &self.dir.path(&format!("log{number}")), &[])
    }

    /// Starts a script with the database, the extension or `-`, a log, and more arguments.
    pub(crate) fn python(&self, script: &Path, log: &Path, more: &[&str]) -> Child {
        let extension = tdekit().parent().unwrap().join("libtdekit_sqlite.so");
        let extension = if self.encrypted { text(&extension) } else { "-" };
        Command::new("/usr/bin/python3")
            .args([text(script), text(&self.db), extension, text(log)])
            .args(more)
            .env("TDEKIT_HOME", place().home())
            .env("TDEKIT_PASSWORD", "secret")
            .stdout(Stdio::null())
            .stderr(File::options().append(true).create(true).open(self.dir.path("cries")).unwrap())
            .spawn()
            .unwrap()
    }

    /// Returns the number, and the times before and after, of each commit that was answered.
    fn commits(&self) -> Vec<[i64; 3]> {
        let mut commits = Vec::new();
        for number in 0..2 {
            let log = self.dir.path(&format!("log{number}"));
            let lines = fs::read_to_string(log).unwrap();
            for line in lines.lines() {
                let numbers: Vec<i64> = line.split(' ').map_while(|it| it.parse().ok()).collect();
                // The last line of a process that was killed may be cut.
                commits.extend(<[i64; 3]>::try_from(numbers).ok().filter(|it| it[2] > it[1] - 1));
            }
        }
        commits.sort_unstable();
        commits
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.dir.path("said")).unwrap_or_default()
    }

    /// Restores a point, and returns the last number, and the time of the point.
    fn restored(&self, at: &str) -> (i64, Value) {
        let to = self.dir.path("restored.db");
        let _ = fs::remove_file(&to);
        let words = ["restore", &self.archive, "--at", at, "--to", text(&to), "--json"];
        let plain = if self.encrypted { &["--plain"][..] } else { &[] };
        let told = self.json(&[&words[..], plain].concat());
        let db = Connection::open(&to).unwrap();
        let (rows, last): (i64, i64) = db
            .query_row("SELECT count(*), coalesce(max(n), 0) FROM ledger", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(rows, last, "{at}: numbers are missing");
        assert_eq!(one::<i64>(&db, "SELECT s FROM total"), last * (last + 1) / 2, "{at}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        (last, told)
    }
}

/// Runs for some seconds, then restores so many points.
fn ledger(kind: Kind, seconds: u64, points: u32) {
    let Kind { encrypted, on_store, .. } = kind;
    let mut ledger = Ledger::new(kind);
    let seed = u64::try_from(now_ms()).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let first = ledger.follower();
    ledger.running.push(first);
    for number in 0..2 {
        let writer = ledger.writer(number);
        ledger.running.push(writer);
    }
    let begun = Instant::now();
    let mut vacuumed = false;
    while begun.elapsed() < Duration::from_secs(seconds) {
        sleep(Duration::from_millis(random.u64(500..1500)));
        let victim = random.usize(0..3);
        match random.u32(0..10) {
            0..5 => {
                ledger.running[victim].kill().unwrap();
                ledger.running[victim].wait().unwrap();
                ledger.running[victim] =
                    if victim == 0 { ledger.follower() } else { ledger.writer(victim - 1) };
            }
            5 => {
                signal(ledger.running[0].id(), "TERM");
                ledger.running[0].wait().unwrap();
                ledger.running[0] = ledger.follower();
            }
            6 if !vacuumed => {
                vacuumed = true;
                let db = crate::databases::open(&ledger.db);
                db.busy_timeout(Duration::from_secs(60)).unwrap();
                db.execute_batch("VACUUM").unwrap();
            }
            7 if encrypted => drop(place().ok(["rotate", text(&ledger.db)])),
            8 => {
                if let Some(server) = &mut ledger.server {
                    server.kill();
                    sleep(Duration::from_millis(random.u64(0..5000)));
                    server.again();
                }
            }
            _ => {}
        }
    }
    end(&mut ledger, Duration::from_secs(if on_store { 20 } else { 5 }));
    check(&ledger, points, &mut random, seed);
}

/// Kills all but the follower, and ends that some time later.
pub(crate) fn end(ledger: &mut Ledger, later: Duration) {
    for writer in &mut ledger.running[1..] {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    sleep(later);
    signal(ledger.running[0].id(), "TERM");
    let ended = ledger.running[0].wait().unwrap();
    assert!(ended.success(), "{}", ledger.said());
}

/// Restores so many points, and returns the number of chains.
pub(crate) fn check(ledger: &Ledger, points: u32, random: &mut fastrand::Rng, seed: u64) -> usize {
    let commits = ledger.commits();
    let said = ledger.said();
    assert!(commits.len() > 100, "{} commits; {said}", commits.len());
    let cries = fs::read_to_string(ledger.dir.path("cries")).unwrap_or_default();
    assert_eq!(cries, "", "the writers were disturbed");
    let verified = ledger.run(&["verify", &ledger.archive]);
    assert_eq!(verified.code, 0, "seed {seed}: {verified:?}");
    let status = ledger.json(&["replicate", "status", &ledger.archive, "--json"]);
    let chains = status["chains"].as_array().unwrap();
    let (last, _) = ledger.restored("latest");
    let newest = commits.last().unwrap()[0];
    // A writer that was killed may have committed without an answer.
    assert!(last >= newest, "seed {seed}: {last} of {newest}; {said}");
    let span = (commits[0][2], commits.last().unwrap()[2]);
    let slack_ms = if ledger.server.is_some() { STORE_SLACK_MS } else { SLACK_MS };
    let mut compared = 0;
    for _ in 0..points {
        let at_ms = random.i64(span.0..=span.1);
        let (seconds, millis) = (at_ms.div_euclid(1000), at_ms.rem_euclid(1000));
        let at = tdekit_key_store::iso8601(seconds);
        let at = format!("{}.{millis:03}Z", at.trim_end_matches('Z'));
        let to = ledger.dir.path("restored.db");
        let words = ["restore", &ledger.archive, "--at", &at, "--to", text(&to), "--json"];
        let _ = fs::remove_file(&to);
        let early = ledger.run(&[&words[..], &["--plain"]].concat());
        if early.err.contains("begins later") {
            continue;
        }
        let (last, told) = ledger.restored(&at);
        // Nothing is in it that was committed later.
        if let Some(commit) = commits.iter().find(|commit| commit[0] == last) {
            assert!(commit[1] <= at_ms, "seed {seed}: {commit:?} in {at}");
        }
        // Everything is in it that was committed before, unless the follower was away: then the
        // point is the last one before that.
        let due = commits.iter().filter(|commit| commit[2] + slack_ms < at_ms);
        let due = due.map(|commit| commit[0]).max().unwrap_or(0);
        let number: u64 =
            told["transaction"].as_str().unwrap().split('.').next().unwrap().parse().unwrap();
        let ends_chain = chains.iter().any(|chain| chain["last"].as_u64() == Some(number));
        if !ends_chain {
            assert!(last >= due, "seed {seed}: {last} of {due} at {at}; {said}");
            compared += 1;
        }
    }
    assert!(compared > 0 || points < 20, "seed {seed}: no point was compared");
    eprintln!("{} commits, {} chains, {compared} points", commits.len(), chains.len());
    chains.len()
}

#[test]
fn a_plain_ledger_is_restored_to_any_point() {
    ledger(Kind::default(), 8, 8);
}

#[test]
fn an_encrypted_ledger_is_restored_to_any_point() {
    ledger(Kind { encrypted: true, ..Kind::default() }, 8, 8);
}

#[test]
fn a_plain_ledger_without_a_log_is_restored_to_any_look() {
    ledger(Kind { has_no_log: true, ..Kind::default() }, 12, 8);
}

#[test]
fn an_encrypted_ledger_without_a_log_is_restored_to_any_look() {
    ledger(Kind { encrypted: true, has_no_log: true, ..Kind::default() }, 12, 8);
}

#[test]
#[ignore = "full: ten minutes of kills, of the S3 server too, and a hundred restores"]
fn a_long_plain_ledger_on_a_store_is_restored_to_any_point() {
    ledger(Kind { on_store: true, ..Kind::default() }, 600, 100);
}

#[test]
#[ignore = "full: ten minutes of kills, of the S3 server too, and a hundred restores"]
fn a_long_encrypted_ledger_on_a_store_is_restored_to_any_point() {
    ledger(Kind { encrypted: true, on_store: true, ..Kind::default() }, 600, 100);
}
