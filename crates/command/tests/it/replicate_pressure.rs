//! Writers that commit faster than `replicate` ships: they wait for moments, and the log stays
//! bounded; or it is given up, where the archive takes too little even so.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::bench::signal;
use crate::replicate_ledger::{Kind, Ledger, check, end};

/// Commits transactions of a given number of bytes a second until it is killed, as those of the
/// ledger.
const WRITER: &str = r#"
import sqlite3, sys, time
path, extension, log, rate = sys.argv[1:5]
db = sqlite3.connect(path, timeout=20, isolation_level=None)
db.execute('PRAGMA synchronous = OFF')
log = open(log, 'a')
begun, written = time.monotonic(), 0
while True:
    db.execute('BEGIN IMMEDIATE')
    n = db.execute('SELECT coalesce(max(n), 0) + 1 FROM ledger').fetchone()[0]
    db.execute('INSERT INTO ledger VALUES (?)', (n,))
    db.execute('INSERT OR REPLACE INTO data VALUES (?, randomblob(240000))', (n * 7919 % 10,))
    db.execute('UPDATE total SET s = s + ?', (n,))
    before = time.time_ns() // 1000000
    db.execute('COMMIT')
    log.write(f'{n} {before} {time.time_ns() // 1000000}\n')
    log.flush()
    # Pages that become free are in the log too.
    written += 490000
    # Not faster, however long it waited.
    ahead = written / float(rate) - (time.monotonic() - begun)
    if ahead > 0:
        time.sleep(ahead)
    else:
        begun -= ahead
"#;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn log_bytes(ledger: &Ledger) -> u64 {
    fs::metadata(format!("{}-wal", text(&ledger.db))).map_or(0, |it| it.len())
}

/// Has the follower stand still until the log is so long.
fn stop_until(ledger: &Ledger, bytes: u64) {
    let follower = ledger.running[0].id();
    signal(follower, "STOP");
    let begun = Instant::now();
    while log_bytes(ledger) < bytes {
        assert!(begun.elapsed() < Duration::from_secs(60), "the writers are slow");
        sleep(Duration::from_millis(20));
    }
    signal(follower, "CONT");
}

/// Begins to follow, and to write at this rate.
fn begin(options: &[&str], rate: u64) -> Ledger {
    let mut ledger = Ledger::new(Kind::default());
    // Large pages: the writers are fast with little work.
    let db = Connection::open(&ledger.db).unwrap();
    let large = "PRAGMA journal_mode = DELETE; PRAGMA page_size = 8192; VACUUM;
                 PRAGMA journal_mode = WAL";
    db.execute_batch(large).unwrap();
    drop(db);
    let follower = ledger.follower_with(options);
    ledger.running.push(follower);
    let script = ledger.dir.path("fast.py");
    fs::write(&script, WRITER).unwrap();
    let begun = Instant::now();
    while !ledger.said().contains("new chain") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", ledger.said());
        sleep(Duration::from_millis(50));
    }
    sleep(Duration::from_secs(1));
    for number in 0..2 {
        let log = ledger.dir.path(&format!("log{number}"));
        let writer = ledger.python(&script, &log, &[&(rate / 2).to_string()]);
        ledger.running.push(writer);
    }
    ledger
}

/// The log is started anew although more is committed while a set ships than fits into memory.
#[test]
fn the_log_is_bounded_under_writers_that_are_faster_than_the_archive() {
    let options = ["--log-limit", "320MB", "--throttle", "30MB"];
    let mut ledger = begin(&options, 42_000_000);
    stop_until(&ledger, 95_000_000);
    let (begun, mut longest) = (Instant::now(), 0);
    let rows = |ledger: &Ledger| -> i64 {
        let db = Connection::open(&ledger.db).unwrap();
        db.busy_timeout(Duration::from_secs(20)).unwrap();
        db.query_row("SELECT max(n) FROM ledger", [], |row| row.get(0)).unwrap()
    };
    while begun.elapsed() < Duration::from_secs(12) {
        sleep(Duration::from_millis(50));
        longest = longest.max(log_bytes(&ledger));
    }
    let committed = rows(&ledger) * 490_000;
    eprintln!("{committed} bytes committed, the log had up to {longest}");
    end(&mut ledger, Duration::from_secs(1));
    let said = ledger.said();
    assert!(longest < 400_000_000, "{longest} of {committed}; {said}");
    let seed = fastrand::u64(..);
    check(&ledger, 4, &mut fastrand::Rng::with_seed(seed), seed);
    // Full sets are due by the size of the log sets: no chain ended before.
    let count = |text: &str| said.matches(text).count();
    let due = count("larger than the full set") + count("the archive is empty");
    assert_eq!(count("begins a new chain"), due, "{said}");
}

/// Writers do not wait for an archive for ever, and the log does not grow for ever.
#[test]
fn a_log_that_grows_although_it_is_shipped_is_given_up() {
    let mut ledger = begin(&["--log-limit", "20MB", "--throttle", "2MB"], 20_000_000);
    let begun = Instant::now();
    let is_anew = |said: &str| {
        let new = said.split_once("less was shipped than was committed");
        new.is_some_and(|(_, later)| later.contains("a full set of"))
    };
    let mut longest = 0;
    while !is_anew(&ledger.said()) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", ledger.said());
        sleep(Duration::from_millis(20));
        if !ledger.said().contains("less was shipped than was committed") {
            longest = longest.max(log_bytes(&ledger));
        }
    }
    eprintln!("given up after {:?}, with up to {longest} bytes", begun.elapsed());
    // While a set of 64 MiB ships, 600 MB are committed.
    assert!(longest < 160_000_000, "{longest}; {}", ledger.said());
    end(&mut ledger, Duration::ZERO);
    let seed = fastrand::u64(..);
    let chains = check(&ledger, 4, &mut fastrand::Rng::with_seed(seed), seed);
    assert_eq!(chains, 2, "{}", ledger.said());
}
