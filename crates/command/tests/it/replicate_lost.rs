//! `replicate` to an object store that takes an object and is away before it answers, and to one
//! that is busy.

use std::fs::{self, File};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::Run;
use crate::databases::place;
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_times::end;
use crate::store_double::StoreDouble;

/// Longer than requests are made again.
const AWAY: Duration = Duration::from_secs(25);
const ARCHIVE: &str = "s3://bucket/archive";

fn key(number: u32) -> String {
    format!("archive/{number:016}.tdekit")
}

fn follow(pair: &Pair, store: &StoreDouble, more: &[&str]) -> Child {
    let words = ["replicate", text(&pair.db), "--to", ARCHIVE, "--certificate", "AppCert"];
    let mut follower = place().command([&words[..], &["--every", "1s"], more].concat());
    let said = File::create(pair.dir.path("said")).unwrap();
    follower.envs(store.variables()).stderr(said).spawn().unwrap()
}

fn run(store: &StoreDouble, words: &[&str]) -> Run {
    Run::of(&place().command(words).envs(store.variables()).output().unwrap())
}

/// Returns the rows at a point.
fn restored(pair: &Pair, store: &StoreDouble, at: &str) -> Vec<u32> {
    let to = pair.dir.path("restored.db");
    let _ = fs::remove_file(&to);
    let run = run(store, &["restore", ARCHIVE, "--at", at, "--to", text(&to)]);
    assert_eq!(run.code, 0, "{at}: {run:?}");
    crate::replicate_ground::rows(&crate::databases::open(&to))
}

/// More is committed before the next try, and the object has none of that.
#[test]
fn a_log_set_whose_answer_was_lost_is_known_by_a_later_try() {
    let (pair, store) = (Pair::new(false), StoreDouble::start());
    let follower = follow(&pair, &store, &[]);
    wait_for(|| store.state().objects.contains_key(&key(1)));
    store.state().loses = Some((key(2), AWAY));
    pair.add(1);
    wait_for(|| store.state().objects.contains_key(&key(2)));
    pair.add(2);
    let said = || fs::read_to_string(pair.dir.path("said")).unwrap();
    let begun = Instant::now();
    while !store.state().objects.contains_key(&key(3)) && !said().contains("error:") {
        assert!(begun.elapsed() < Duration::from_secs(150), "{}", said());
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = end(follower);
    assert_eq!(ended.code, 0, "{}", said());
    assert!(said().contains("not shipped"), "{}", said());
    assert_eq!(restored(&pair, &store, "2"), [1]);
    assert_eq!(restored(&pair, &store, "2.1"), [1]);
    assert_eq!(restored(&pair, &store, "3.1"), [1, 2]);
    let verified = run(&store, &["verify", ARCHIVE, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&verified.out).unwrap();
    assert!(json["verdict"] == "whole" && json["objects"] == 3, "{json}");
    assert_eq!(json["chains"].as_array().unwrap().len(), 1, "{json}");
}

/// A try before made a full set, or shipped the look at a database without a log: what was
/// committed since is in a new chain.
#[test]
fn a_set_that_no_other_can_follow_has_a_chain_behind_it() {
    for (mode, lost) in [("WAL", 1), ("DELETE", 2)] {
        let (pair, store) = (Pair::new(false), StoreDouble::start());
        pair.db().query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
        store.state().loses = Some((key(lost), AWAY));
        let follower = follow(&pair, &store, &["--differential-every", "1s"]);
        wait_for(|| store.state().objects.contains_key(&key(1)));
        pair.add(1);
        wait_for(|| store.state().objects.contains_key(&key(lost)));
        pair.add(2);
        let said = || fs::read_to_string(pair.dir.path("said")).unwrap();
        let begun = Instant::now();
        while !store.state().objects.contains_key(&key(lost + 1)) && !said().contains("error:") {
            assert!(begun.elapsed() < Duration::from_secs(150), "{}", said());
            std::thread::sleep(Duration::from_millis(100));
        }
        let ended = end(follower);
        assert_eq!(ended.code, 0, "{mode}: {}", said());
        assert_eq!(restored(&pair, &store, "latest"), [1, 2], "{mode}");
        let verified = run(&store, &["verify", ARCHIVE, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&verified.out).unwrap();
        assert_eq!(json["verdict"], "whole", "{mode}: {json}");
        assert_eq!(json["chains"].as_array().unwrap().len(), 2, "{mode}: {json}");
    }
}

/// The look at the last object is tried again no longer than a set is.
#[test]
fn a_store_that_is_busy_fails_a_try_before_the_log_grows_for_minutes() {
    let (pair, store) = (Pair::new(false), StoreDouble::start());
    let keep = pair.db();
    let mut first = follow(&pair, &store, &["--once"]);
    assert!(first.wait().unwrap().success());
    pair.add(1);
    store.state().is_busy = true;
    let begun = Instant::now();
    let mut second = follow(&pair, &store, &["--once"]);
    while second.try_wait().unwrap().is_none() {
        let took = begun.elapsed();
        if took > Duration::from_secs(60) {
            second.kill().unwrap();
            panic!("it is still trying");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = fs::read_to_string(pair.dir.path("said")).unwrap();
    assert!(said.contains("error: "), "{said}");
    store.state().is_busy = false;
    assert!(follow(&pair, &store, &["--once"]).wait().unwrap().success());
    assert_eq!(restored(&pair, &store, "2"), [1]);
    drop(keep);
}
