//! A clock that jumped ahead, and was set back: nothing is claimed for a time that is yet to come.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tdekit_key_crypto::sha256;

use crate::archive_damage::record;
use crate::databases::place;
use crate::replicate::{Pair, text};

pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Returns the time in the record by which everything is shipped.
pub(crate) fn current(pair: &Pair) -> Option<i64> {
    let text = fs::read_to_string(record(pair)).unwrap();
    let json: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    json["current_ms"].as_i64()
}

/// Has the record be that of an hour ahead.
fn jump(pair: &Pair) {
    set_current(pair, now_ms() + 3_600_000);
    assert!(current(pair).unwrap() > now_ms());
}

pub(crate) fn set_current(pair: &Pair, at_ms: i64) {
    let text = fs::read_to_string(record(pair)).unwrap();
    let json = text.lines().next().unwrap();
    let known = format!("\"current_ms\":{}", current(pair).unwrap());
    assert!(json.contains(&known), "{json}");
    let json = json.replace(&known, &format!("\"current_ms\":{at_ms}"));
    let digest = hex::encode(sha256(&[json.as_bytes()]));
    fs::write(record(pair), format!("{json}\n{digest}\n")).unwrap();
}

/// Nobody follows a database that was written to: `overview` says so after a quarter of an hour.
#[test]
fn a_database_that_nobody_ships_any_more_is_found() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    let is_found = || {
        let shown = place().run(["overview", text(&pair.db), "--json"]).out;
        shown.contains("replicate-stopped")
    };
    set_current(&pair, now_ms() - 3_600_000);
    assert!(!is_found(), "nothing was written since");
    pair.add(1);
    assert!(is_found());
    set_current(&pair, now_ms() - 60_000);
    assert!(!is_found(), "it may be about to be shipped");
    set_current(&pair, now_ms() - 3_600_000);
    pair.ship();
    assert!(!is_found());
    drop(keep);
}

#[test]
fn nothing_is_shipped_by_a_time_that_is_later_than_now() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    let before = now_ms();
    jump(&pair);
    // By those who read the record alone.
    pair.add(1);
    let status = |more: &str| place().run(["replicate", "status", text(&pair.db), more]);
    let shown: Value = serde_json::from_str(&status("--json").out).unwrap();
    assert!(shown["current"].is_null() && shown["current_ms"].is_null(), "{shown}");
    let metrics = status("--prometheus").out;
    assert!(metrics.contains("tdekit_replicate_last_object{"), "{metrics}");
    assert!(!metrics.contains("tdekit_replicate_current_timestamp_seconds{"), "{metrics}");
    let shown = place().run(["replicate", "status", text(&pair.db)]).out;
    assert!(!shown.contains("is shipped"), "{shown}");
    let shown = place().run(["overview", text(&pair.db), "--json"]).out;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let at = shown["databases"][0]["last_backup"]["at"].as_i64().unwrap();
    assert!(at * 1000 <= now_ms(), "{shown}");
    // By one that cannot ship.
    fs::rename(&pair.archive, pair.dir.path("away")).unwrap();
    fs::write(&pair.archive, "no directory").unwrap();
    assert_ne!(pair.once(&[]).code, 0);
    assert_eq!(current(&pair), None);
    fs::remove_file(&pair.archive).unwrap();
    fs::rename(pair.dir.path("away"), &pair.archive).unwrap();
    // By one that ships, and by one that has nothing to ship.
    for objects in [2, 2] {
        pair.ship();
        assert_eq!(pair.objects(), objects);
        let at = current(&pair).unwrap();
        assert!((before..=now_ms()).contains(&at), "{at} is not in {before} to now");
        jump(&pair);
    }
    drop(keep);
}
