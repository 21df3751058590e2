//! `backup` of several databases, targets with names and dates, full or differential sets by age.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::common::Place;
use crate::databases::create;

fn with_databases(names: &[&str]) -> Place {
    let place = Place::with_store();
    for name in names {
        drop(create(&place.path(name), "CREATE TABLE t(a); INSERT INTO t VALUES(1)"));
    }
    place
}

/// Returns the date, in UTC, this many days ago.
fn date(days: u64) -> String {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    let seconds = then.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    tdekit_key_store::iso8601(seconds.try_into().unwrap())[..10].to_owned()
}

fn kinds(place: &Place, media: &str) -> Vec<String> {
    let sets = place.json(["inspect", media, "--json"])["sets"].clone();
    let kind = |set: &Value| set["type"].as_str().unwrap().to_owned();
    sets.as_array().unwrap().iter().map(kind).collect()
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let place = with_databases(&["a.db", "c.db"]);
    fs::write(place.path("b.db"), "no database, and long enough to be looked at".repeat(20))
        .unwrap();
    let args = ["backup", "a.db", "b.db", "c.db", "--to", "{name}-{date}.bak"];
    let run = place.run([&args[..], &["--json"]].concat());
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.err.contains("error: b.db: "), "{run:?}");
    assert!(run.err.contains("error: 1 of 3 database(s) were not backed up"), "{run:?}");
    let ends: Value = serde_json::from_str(&run.out).unwrap();
    let names = ["database_name", "database", "database_name"];
    for (at, (key, name)) in names.into_iter().zip(["a.db", "b.db", "c.db"]).enumerate() {
        assert_eq!(ends[at][key], name, "{ends}");
    }
    assert!(ends[1]["error"].as_str().unwrap().contains("b.db"), "{ends}");
    for name in ["a", "c"] {
        place.ok(["verify", &format!("{name}-{}.bak", date(0))]);
    }
    assert!(!place.path(&format!("b-{}.bak", date(0))).exists());
    // The worst counts: an existing file is less than damage, and alone it is 1.
    place.fails(4, args);
    place.fails(1, ["backup", "a.db", "c.db", "--to", "{name}-{date}.bak"]);
    // One database has the JSON that it always had.
    let one = place.json(["backup", "a.db", "--to", "{name}.bak", "--json"]);
    assert_eq!(one["database_name"], "a.db");
    assert!(place.path("a.bak").exists());
}

#[test]
fn targets_that_databases_would_share_are_refused() {
    let place = with_databases(&["a.db", "b.db", "a.sqlite"]);
    let told = place.fails(2, ["backup", "a.db", "b.db", "--to", "all.bak"]);
    assert!(told.contains("{name}"), "{told}");
    place.fails(2, ["backup", "a.db", "b.db", "--to", "{name}.bak", "--to", "all.bak"]);
    let told = place.fails(2, ["backup", "a.db", "a.sqlite", "--to", "{name}.bak"]);
    assert!(told.contains("a.sqlite"), "{told}");
    assert!(!place.path("a.bak").exists() && !place.path("all.bak").exists());
    place.ok(["backup", "a.db", "b.db", "--to", "all.bak", "--append"]);
    assert_eq!(kinds(&place, "all.bak"), ["D", "D"]);
}

#[test]
fn a_full_set_is_due_when_the_newest_is_too_old() {
    let place = with_databases(&["a.db"]);
    let run = |age| {
        place.ok(["backup", "a.db", "--to", "{name}-{date}.bak", "--differential-after", age])
    };
    let (today, five, nine) =
        (format!("a-{}.bak", date(0)), format!("a-{}.bak", date(5)), format!("a-{}.bak", date(9)));
    run("7d");
    run("7d");
    assert_eq!(kinds(&place, &today), ["D", "I"]);
    std::thread::sleep(Duration::from_millis(1100));
    run("1s");
    assert_eq!(kinds(&place, &today), ["D", "I", "D"]);
    // A differential set goes to the media set of its base, whatever the day.
    fs::rename(place.path(&today), place.path(&five)).unwrap();
    run("7d");
    assert_eq!(kinds(&place, &five), ["D", "I", "D", "I"]);
    assert!(!place.path(&today).exists());
    fs::rename(place.path(&five), place.path(&nine)).unwrap();
    run("7d");
    assert_eq!(kinds(&place, &today), ["D"]);
    // A database in the place of another one has no base.
    fs::remove_file(place.path("a.db")).unwrap();
    drop(create(&place.path("a.db"), "PRAGMA page_size = 8192; CREATE TABLE t(a)"));
    let made = run("7d");
    assert!(made.err.contains("a full set is made"), "{made:?}");
    assert_eq!(kinds(&place, &today), ["D", "D"]);
    // Without a date there is one media set.
    for _ in 0..2 {
        place.ok(["backup", "a.db", "--to", "b.bak", "--differential-after", "7d"]);
    }
    assert_eq!(kinds(&place, "b.bak"), ["D", "I"]);
    place.fails(2, ["backup", "a.db", "--to", "c.bak", "--differential-after", "7d", "--append"]);
}
