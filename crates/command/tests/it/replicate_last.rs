//! What is in the log when `replicate` ends: it is shipped, or the exit code is not 0.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use rusqlite::Connection;

use crate::databases::{open, place};
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_online::AtWork;
use crate::replicate_times::end;

/// Bytes of a copy of the header of the log's index.
const COPY: usize = 48;

/// A program is killed between the two copies that it writes: the first one is that of the commit
/// before.
#[test]
fn what_is_behind_an_index_that_is_half_written_is_shipped_at_the_end() {
    let pair = Pair::new(false);
    pair.add(0);
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1h"];
    let mut follower = place().command([&words[..], &["--certificate", "AppCert"]].concat());
    let follower = follower.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    pair.add(1);
    let index = format!("{}-shm", text(&pair.db));
    let mut before = [0; COPY];
    File::open(&index).unwrap().read_exact_at(&mut before, 0).unwrap();
    pair.add(2);
    File::options().write(true).open(&index).unwrap().write_all_at(&before, 0).unwrap();
    let ended = end(follower);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(pair.restored("latest"), [0, 1, 2], "{ended:?}");
    assert_eq!(pair.restored("2.1"), [0, 1], "{ended:?}");
}

/// Has readers use all locks of the log.
fn readers(pair: &Pair) -> Vec<Connection> {
    let begun = (1..=5).map(|n| {
        pair.add(n);
        let reader = open(&pair.db);
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        reader
    });
    begun.collect()
}

/// Nothing keeps the log from being started anew then, and it does not fit into memory.
#[test]
fn a_process_that_ships_nothing_for_want_of_a_lock_says_so() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    let reading = readers(&pair);
    keep.execute_batch("INSERT INTO t VALUES (6, zeroblob(80000000))").unwrap();
    let refused = pair.once(&[]);
    let said = "is not shipped: readers use all locks of its log";
    assert!(refused.code == 5 && refused.err.contains(said), "{refused:?}");
    assert_eq!(pair.objects(), 1);
    // Nor a full set, which needs the lock too.
    let away = pair.dir.path("away");
    fs::rename(&pair.archive, &away).unwrap();
    let refused = pair.once(&[]);
    assert!(refused.code == 5 && refused.err.contains(said), "{refused:?}");
    fs::remove_dir_all(&pair.archive).unwrap();
    drop(reading);
    pair.ship();
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4, 5, 6]);
    drop(keep);
}

/// No log set can follow, and the full set would hold up the change of the key.
#[test]
fn a_process_that_ends_while_the_key_is_changed_and_the_log_was_given_up_says_so() {
    let pair = Pair::new(true);
    pair.add(1);
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--log-limit", "2MB"];
    let mut follower = place().command([&words[..], &["--certificate", "AppCert"]].concat());
    let follower = follower.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    let change = AtWork::begin(&pair.db);
    // It looks each second.
    sleep(Duration::from_millis(1500));
    let db = pair.db();
    db.execute_batch("BEGIN; INSERT INTO t VALUES (2, hex(randomblob(3000000))); COMMIT").unwrap();
    sleep(Duration::from_millis(1500));
    let ended = end(follower);
    assert!(ended.code == 1 && ended.err.contains("error: cancelled"), "{ended:?}");
    assert_eq!(pair.objects(), 1);
    drop(change);
    pair.ship();
    assert_eq!(pair.restored("latest"), [1, 2]);
    drop(db);
}
