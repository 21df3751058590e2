//! Times of transactions that are committed while `replicate` ships slowly, or makes a full set.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bench::signal;
use crate::common::Run;
use crate::databases::place;
use crate::replicate::{Pair, WaitBy, text, wait_for};

/// A row of three blocks, which no compression makes shorter: ten seconds at [`SLOW`].
pub(crate) const LARGE_ROW: &str = "INSERT INTO t VALUES (0, randomblob(2500000))";
const SLOW: &str = "200kB";

/// Follows slowly.
pub(crate) fn follow_slowly(pair: &Pair, more: &[&str]) -> Child {
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--throttle", SLOW];
    let words = [&words[..], &["--certificate", "AppCert", "--every", "1s"], more].concat();
    place().command(words).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn end(mut follower: Child) -> Run {
    signal(follower.id(), "TERM");
    Run::of(&follower.wait_with_output_by(Duration::from_secs(30)))
}

/// Returns a time between what was committed before the call and what is committed behind it.
pub(crate) fn between() -> String {
    sleep(Duration::from_millis(1100));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    sleep(Duration::from_millis(1100));
    tdekit_key_store::iso8601(i64::try_from(now.as_secs()).unwrap())
}

/// Returns true while a set with so many transactions is made; a full set has none.
pub(crate) fn makes(pair: &Pair, transactions: u32) -> bool {
    record(pair).contains(&format!("\"transactions\":{transactions},"))
}

/// Returns the record of what is shipped, and of the set that is being made.
pub(crate) fn record(pair: &Pair) -> String {
    fs::read_to_string(format!("{}-replica", text(&pair.db))).unwrap_or_default()
}

#[test]
fn commits_behind_a_slow_set_have_their_own_times() {
    let pair = Pair::new(false);
    let keep = pair.db();
    let follower = follow_slowly(&pair, &[]);
    wait_for(|| pair.object(1).exists());
    keep.execute_batch(LARGE_ROW).unwrap();
    wait_for(|| makes(&pair, 1));
    let before = between();
    pair.add(1);
    let at = between();
    pair.add(2);
    assert!(!pair.object(2).exists(), "the set was not slow");
    wait_for(|| pair.object(3).exists());
    let ended = end(follower);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(pair.restored(&before), [0]);
    assert_eq!(pair.restored(&at), [0, 1]);
    assert_eq!(pair.restored("latest"), [0, 1, 2]);
    drop(keep);
}

#[test]
fn commits_behind_a_full_set_have_their_own_times() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        keep.execute_batch(LARGE_ROW).unwrap();
        let follower = follow_slowly(&pair, &[]);
        wait_for(|| makes(&pair, 0));
        pair.add(1);
        let at = between();
        pair.add(2);
        assert!(!pair.object(1).exists(), "the full set was not slow");
        wait_for(|| pair.object(2).exists());
        let ended = end(follower);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(pair.restored("1"), [0], "{encrypted}");
        assert_eq!(pair.restored(&at), [0, 1], "{encrypted}");
        assert_eq!(pair.restored("latest"), [0, 1, 2], "{encrypted}");
        place().ok(["verify", text(&pair.archive), "--restore-test"]);
        drop(keep);
    }
}
