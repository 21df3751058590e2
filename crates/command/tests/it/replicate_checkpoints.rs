//! Programs that empty the log themselves, by `PRAGMA wal_checkpoint(TRUNCATE)` and `RESTART`,
//! under a follower: their checkpoints succeed, and no transaction is missing from the archive.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::databases::place;
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_ledger::{Kind, Ledger, check, end};
use crate::replicate_watch::{end as end_follower, follow, follow_every};

/// Empties the log again and again, and notes each result: whether it was given up, and how long
/// it took in milliseconds. With writers, threads of the process commit transactions meanwhile.
const CHECKPOINTS: &str = r#"
import itertools, sqlite3, sys, threading, time
path, extension, log, writers = sys.argv[1:5]
if extension != '-':
    loader = sqlite3.connect(':memory:')
    loader.enable_load_extension(True)
    loader.load_extension(extension)

def connect(timeout):
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    db.execute('PRAGMA synchronous = NORMAL')
    return db

def write(log):
    db = connect(60)
    log = open(log, 'a')
    while True:
        db.execute('BEGIN IMMEDIATE')
        n = db.execute('SELECT coalesce(max(n), 0) + 1 FROM ledger').fetchone()[0]
        db.execute('INSERT INTO ledger VALUES (?)', (n,))
        db.execute('INSERT OR REPLACE INTO data VALUES (?, randomblob(?))', (n * 7919 % 300, 900))
        db.execute('UPDATE total SET s = s + ?', (n,))
        before = time.time_ns() // 1000000
        db.execute('COMMIT')
        log.write(f'{n} {before} {time.time_ns() // 1000000}\n')
        log.flush()
        # Writers without a pause copy the log nearly always: then no checkpoint begins.
        time.sleep(0.002 if n % 2000 < 300 else 0)

for each in writers.split():
    threading.Thread(target=write, args=(each,), daemon=True).start()
db, log = connect(5), open(log, 'a')
for mode in itertools.cycle(['TRUNCATE', 'RESTART']):
    begun = time.monotonic()
    busy = db.execute(f'PRAGMA wal_checkpoint({mode})').fetchone()[0]
    log.write(f'{busy} {(time.monotonic() - begun) * 1000:.0f}\n')
    log.flush()
    time.sleep(0.1)
"#;

/// The timeout of the checkpoints in milliseconds.
const TIMEOUT_MS: u64 = 5000;

/// Starts the checkpoints, with such writers, and returns their log.
fn checkpoints(ledger: &mut Ledger, writers: &str) -> PathBuf {
    let (script, log) = (ledger.dir.path("checkpoints.py"), ledger.dir.path("checkpoints"));
    fs::write(&script, CHECKPOINTS).unwrap();
    let running = ledger.python(&script, &log, &[writers]);
    ledger.running.push(running);
    log
}

/// Checks that none was waited for in vain.
fn check_checkpoints(log: &PathBuf, least: usize, said: &str) {
    let text = fs::read_to_string(log).unwrap();
    let line = |line: &str| -> Option<(bool, u64)> {
        let (busy, ms) = line.split_once(' ')?;
        Some((busy == "1", ms.parse().ok()?))
    };
    let results: Vec<_> = text.lines().filter_map(line).collect();
    let done = results.iter().filter(|(busy, _)| !busy).count();
    // One that meets another one fails at once, in stock SQLite too.
    let in_vain = results.iter().filter(|(busy, ms)| *busy && *ms >= TIMEOUT_MS).count();
    let longest = results.iter().map(|(_, ms)| *ms).max();
    eprintln!("{done} of {} checkpoints, the longest took {longest:?} ms", results.len());
    assert!(in_vain == 0 && done >= least, "{done}, {in_vain} in vain: {text}; {said}");
}

/// Writers and checkpoints for some seconds; with `kills`, the follower is killed meanwhile.
fn under_checkpoints(encrypted: bool, kills: bool) {
    let mut ledger = Ledger::new(Kind { encrypted, ..Kind::default() });
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let follower = ledger.follower();
    ledger.running.push(follower);
    // A checkpoint waits for a full set.
    wait_for(|| ledger.said().contains(": object 1, "));
    for number in 0..2 {
        let writer = ledger.writer(number);
        ledger.running.push(writer);
    }
    let log = checkpoints(&mut ledger, "");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        sleep(Duration::from_millis(random.u64(500..1500)));
        if kills {
            ledger.running[0].kill().unwrap();
            ledger.running[0].wait().unwrap();
            ledger.running[0] = ledger.follower();
        }
    }
    end(&mut ledger, Duration::from_secs(3));
    check_checkpoints(&log, 10, &ledger.said());
    let chains = check(&ledger, 6, &mut random, seed);
    assert!(kills || chains == 1, "{chains} chains: {}", ledger.said());
}

#[test]
fn checkpoints_of_programs_succeed_and_a_plain_chain_goes_on() {
    under_checkpoints(false, false);
}

#[test]
fn checkpoints_of_programs_succeed_and_an_encrypted_chain_goes_on() {
    under_checkpoints(true, false);
}

/// What was read for a checkpoint, and not shipped before the process was killed, is noticed as
/// missing by the next one.
#[test]
fn a_follower_that_is_killed_under_checkpoints_loses_nothing() {
    under_checkpoints(false, true);
}

#[test]
fn a_follower_of_an_encrypted_database_that_is_killed_under_checkpoints_loses_nothing() {
    under_checkpoints(true, true);
}

/// Threads of one process have its locks in common: a writer and a checkpoint beside it look like
/// one that waits.
#[test]
fn writers_and_checkpoints_in_one_process_are_followed() {
    let mut ledger = Ledger::new(Kind::default());
    let seed = fastrand::u64(..);
    let follower = ledger.follower();
    ledger.running.push(follower);
    sleep(Duration::from_secs(1));
    let logs = ["log0", "log1"].map(|name| ledger.dir.path(name));
    let writers = logs.map(|log| log.to_str().unwrap().to_owned()).join(" ");
    let log = checkpoints(&mut ledger, &writers);
    sleep(Duration::from_secs(6));
    end(&mut ledger, Duration::from_secs(3));
    check_checkpoints(&log, 5, &ledger.said());
    check(&ledger, 4, &mut fastrand::Rng::with_seed(seed), seed);
}

/// What could not be shipped is kept in memory for a checkpoint.
#[test]
fn checkpoints_succeed_while_the_archive_cannot_be_reached() {
    let pair = Pair::new(true);
    let keep = pair.db();
    let follower = follow(&pair);
    wait_for(|| pair.object(1).exists());
    fs::rename(&pair.archive, pair.dir.path("away")).unwrap();
    pair.add(1);
    let status = || place().run(["replicate", "status", text(&pair.db)]);
    wait_for(|| status().out.contains("the last try failed"));
    for n in 2..5 {
        wait_for(|| empties(&keep, "TRUNCATE"));
        assert_eq!(fs::metadata(format!("{}-wal", text(&pair.db))).unwrap().len(), 0);
        pair.add(n);
    }
    fs::rename(pair.dir.path("away"), &pair.archive).unwrap();
    wait_for(|| pair.object(2).exists());
    let said = end_follower(follower);
    assert_eq!(said.matches("new chain").count(), 1, "{said}");
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4]);
    assert_eq!(pair.restored("2.2"), [1, 2]);
    drop(keep);
}

/// What is no longer in the log does not wait for a long interval.
#[test]
fn what_was_read_for_a_checkpoint_is_shipped_soon() {
    let pair = Pair::new(false);
    let keep = pair.db();
    let follower = follow_every(&pair, "10m");
    wait_for(|| pair.object(1).exists());
    pair.add(1);
    wait_for(|| empties(&keep, "TRUNCATE"));
    wait_for(|| pair.object(2).exists());
    pair.add(2);
    end_follower(follower);
    assert_eq!(pair.restored("2"), [1]);
    assert_eq!(pair.restored("latest"), [1, 2]);
    drop(keep);
}

/// A chain goes on behind an empty log as long as the next one has everything since.
#[test]
fn a_follower_that_is_killed_behind_an_empty_log_goes_on() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        let is_noted = || {
            let record = fs::read_to_string(format!("{}-replica", text(&pair.db))).unwrap();
            !record.contains("\"clean\":null")
        };
        let killed = |follower: std::process::Child, n: u32, object: u32| {
            pair.add(n);
            wait_for(|| pair.object(object).exists() && !is_noted());
            wait_for(|| empties(&keep, "TRUNCATE"));
            wait_for(is_noted);
            let mut follower = follower;
            follower.kill().unwrap();
            follower.wait().unwrap();
        };
        let follower = follow(&pair);
        wait_for(|| pair.object(1).exists());
        killed(follower, 1, 2);
        pair.add(2);
        let follower = follow(&pair);
        wait_for(|| pair.object(3).exists());
        // Killed where nothing is committed until the next one.
        killed(follower, 3, 4);
        let said = pair.ship();
        assert!(said.contains("goes on behind object 4"), "{said}");
        assert_eq!(pair.objects(), 4);
        // Something is committed and copied meanwhile.
        killed(follow(&pair), 4, 5);
        pair.add(5);
        assert!(empties(&keep, "TRUNCATE"));
        pair.add(6);
        let said = pair.ship();
        assert!(said.contains("the database changed while nobody followed it"), "{said}");
        for (at, last) in [("2", 1), ("3", 2), ("4", 3), ("5", 4), ("latest", 6)] {
            assert_eq!(pair.restored(at), (1..=last).collect::<Vec<_>>(), "{encrypted} {at}");
        }
        drop(keep);
    }
}

/// An empty log is started anew too, and each time.
#[test]
fn an_empty_log_is_let_go() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.add(1);
    let follower = follow(&pair);
    wait_for(|| pair.object(1).exists());
    for n in 2..6 {
        for mode in ["TRUNCATE", "TRUNCATE", "RESTART"] {
            wait_for(|| empties(&keep, mode));
        }
        pair.add(n);
    }
    wait_for(|| pair.object(2).exists());
    let said = end_follower(follower);
    assert_eq!(said.matches("new chain").count(), 1, "{said}");
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4, 5]);
    drop(keep);
}

/// Waits for a checkpoint, and returns true if it succeeded: one that meets another one fails at
/// once.
fn empties(db: &Connection, mode: &str) -> bool {
    db.busy_timeout(Duration::from_millis(TIMEOUT_MS)).unwrap();
    let (begun, sql) = (Instant::now(), format!("PRAGMA wal_checkpoint({mode})"));
    let busy: i64 = db.query_row(&sql, [], |row| row.get(0)).unwrap();
    assert!(busy == 0 || begun.elapsed() < Duration::from_millis(TIMEOUT_MS), "in vain");
    busy == 0
}
