//! Signals that end `replicate`: a full set that is due is put off, the first one is given up, and
//! a second signal leaves the log to the next process.

use std::thread::sleep;
use std::time::Duration;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::place;
use crate::replicate::{Pair, WaitBy, text, wait_for};
use crate::replicate_times::{LARGE_ROW, between, end, follow_slowly, makes, record};

const SOON: [&str; 2] = ["--snapshot-every", "1s"];

/// Returns the number of whole chains.
fn chains(pair: &Pair) -> usize {
    let verified = place().json(["verify", text(&pair.archive), "--json"]);
    assert_eq!(verified["verdict"], "whole", "{verified}");
    verified["chains"].as_array().unwrap().len()
}

#[test]
fn a_full_set_that_is_due_is_left_to_the_next_process() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        keep.execute_batch(LARGE_ROW).unwrap();
        pair.ship();
        pair.add(1);
        let follower = follow_slowly(&pair, &SOON);
        wait_for(|| pair.object(2).exists() && makes(&pair, 0));
        pair.add(2);
        let at = between();
        pair.add(3);
        assert!(makes(&pair, 0), "the full set was not slow");
        let ended = end(follower);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.err.contains("the last full set is old"), "{ended:?}");
        assert_eq!(ended.err.matches("is left to the next process").count(), 1, "{ended:?}");
        assert_eq!((pair.objects(), chains(&pair)), (3, 1));
        assert_eq!(pair.restored(&at), [0, 1, 2]);
        assert_eq!(pair.restored("latest"), [0, 1, 2, 3]);
        // The next one goes on with the chain, and makes the full set.
        pair.add(4);
        let next = pair.once(&SOON);
        assert!(next.code == 0 && next.err.contains("goes on behind object 3"), "{next:?}");
        assert!(next.err.contains("the last full set is old"), "{next:?}");
        assert_eq!((pair.objects(), chains(&pair)), (5, 2));
        assert_eq!(pair.restored("4"), [0, 1, 2, 3, 4]);
        assert_eq!(pair.restored("latest"), [0, 1, 2, 3, 4]);
        drop(keep);
    }
}

/// No chain can do without it: what was committed is left to the next process.
#[test]
fn the_first_full_set_is_given_up() {
    let pair = Pair::new(false);
    let keep = pair.db();
    keep.execute_batch(LARGE_ROW).unwrap();
    let follower = follow_slowly(&pair, &SOON);
    wait_for(|| makes(&pair, 0));
    pair.add(1);
    let ended = end(follower);
    assert!(ended.code == 1 && ended.err.contains("cancelled"), "{ended:?}");
    assert!(!ended.err.contains("next process"), "{ended:?}");
    assert_eq!(pair.objects(), 0);
    assert!(pair.ship().contains("the archive is empty"));
    assert_eq!(pair.restored("latest"), [0, 1]);
    drop(keep);
}

/// It ends a process that waits, here for a writer before a full set. The log has everything.
#[test]
fn a_second_signal_ends_at_once_and_the_chain_goes_on() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    pair.add(1);
    let writer = pair.db();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut follower = follow_slowly(&pair, &SOON);
    wait_for(|| pair.object(2).exists());
    sleep(Duration::from_millis(300));
    signal(follower.id(), "TERM");
    sleep(Duration::from_millis(300));
    assert_eq!(follower.try_wait().unwrap(), None, "it did not wait");
    signal(follower.id(), "TERM");
    let ended = Run::of(&follower.wait_with_output_by(Duration::from_secs(3)));
    assert_eq!(ended.code, 130, "{ended:?}");
    writer.execute_batch("INSERT INTO t VALUES (2, 'two'); COMMIT").unwrap();
    assert!(pair.ship().contains("goes on behind object 2"));
    assert_eq!((pair.objects(), chains(&pair)), (3, 1));
    assert_eq!(pair.restored("latest"), [1, 2]);
    drop(keep);
}

/// A set of 45 seconds, which had begun.
#[test]
fn the_throttle_is_lifted_when_the_process_ends() {
    let pair = Pair::new(false);
    let keep = pair.db();
    let follower = follow_slowly(&pair, &[]);
    wait_for(|| pair.object(1).exists());
    keep.execute_batch("INSERT INTO t VALUES (0, randomblob(9000000))").unwrap();
    wait_for(|| record(&pair).contains("\"intent\":{"));
    pair.add(1);
    sleep(Duration::from_millis(500));
    assert!(!pair.object(2).exists(), "the set was not slow");
    let ended = end(follower);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(pair.objects(), 3);
    assert_eq!(pair.restored("latest"), [0, 1]);
    drop(keep);
}
