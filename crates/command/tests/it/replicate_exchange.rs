//! An archive of which objects were exchanged or removed so that what is left looks whole.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::archive_chains::{Form, nine};
use crate::archive_damage::name;
use crate::common::{Place, Run};
use crate::databases::place;
use crate::replicate::{Pair, text};
use crate::s3_of_test::{self, variable};

/// A plain database's archive of a full set, and log sets with these rows, all sealed.
pub(crate) fn shipped(rows: &[u32]) -> Pair {
    let pair = Pair::new(false);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    pair.ship();
    for n in rows {
        pair.add(*n);
        pair.ship();
    }
    drop(keep);
    pair
}

/// Begins a new chain because the last one is old.
pub(crate) fn begin_chain(pair: &Pair) {
    sleep(Duration::from_millis(1100));
    let run = pair.once(&["--snapshot-every", "1s"]);
    assert!(run.code == 0 && run.err.contains("the last full set is old"), "{run:?}");
}

/// The full set of another database in the place of one: log sets behind it name that one.
#[test]
fn a_full_set_of_another_database_is_not_restored_in_the_place_of_one() {
    let (pair, other) = (shipped(&[1, 2]), shipped(&[101, 102]));
    let keep = [pair.db(), other.db()];
    keep.iter().for_each(|db| db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap());
    begin_chain(&pair);
    begin_chain(&other);
    pair.add(3);
    pair.ship();
    assert_eq!(pair.restored("latest"), [1, 2, 3]);
    let whole = fs::read(pair.object(4)).unwrap();
    fs::copy(other.object(4), pair.object(4)).unwrap();
    let name = "0000000000000004.tdekit";
    for at in ["4", "latest", "5"] {
        let (run, to) = pair.try_restore(at);
        assert!(run.code == 4 && run.err.contains("tdekit") && !to.exists(), "{at}: {run:?}");
    }
    assert!(pair.try_restore("4").0.err.contains(name));
    // The chain before it is the last good one, for all who say so.
    assert_eq!(pair.restored("latest-good"), [1, 2]);
    let verified = place().run(["verify", text(&pair.archive), "--json"]);
    assert_eq!(verified.code, 4, "{verified:?}");
    let json: serde_json::Value = serde_json::from_str(&verified.out).unwrap();
    assert_eq!(json["latest_good"], 3, "{json}");
    assert!(json["findings"][0].as_str().unwrap().contains(name), "{json}");
    fs::write(pair.object(4), whole).unwrap();
    place().ok(["verify", text(&pair.archive)]);
    assert_eq!(pair.restored("4"), [1, 2]);
    // Of the only chain: then nothing is left.
    fs::copy(other.object(1), pair.object(1)).unwrap();
    assert_eq!(pair.try_restore("1").0.code, 4);
    for number in 4..=5 {
        fs::remove_file(pair.object(number)).unwrap();
    }
    let (run, to) = pair.try_restore("latest-good");
    assert!(run.code != 0 && !to.exists(), "{run:?}");
}

/// The newest object, by the record beside the database; the last one of an older chain, by what
/// the next full set was shipped behind.
#[test]
fn objects_that_are_missing_at_the_end_of_a_chain_are_named() {
    let pair = shipped(&[1, 2]);
    let keep = pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    begin_chain(&pair);
    pair.add(3);
    pair.ship();
    place().ok(["verify", text(&pair.archive)]);
    let hidden = |number: u32| {
        let away = pair.dir.path("away");
        fs::rename(pair.object(number), &away).unwrap();
        let tried = place().run(["verify", text(&pair.archive), "--restore-test"]);
        assert_eq!(tried.code, 4, "{tried:?}");
        let verified = place().run(["verify", text(&pair.archive)]);
        let json = place().run(["verify", text(&pair.archive), "--json"]);
        fs::rename(&away, pair.object(number)).unwrap();
        let name = format!("{number:016}.tdekit is missing");
        assert!(verified.code == 4 && verified.out.contains(&name), "{number}: {verified:?}");
        assert!(json.code == 4 && json.out.contains(&name), "{json:?}");
    };
    (2..=5).for_each(hidden);
    // Without a record here nobody knows of the newest one.
    let record = format!("{}-replica", text(&pair.db));
    let kept = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    fs::rename(pair.object(5), pair.dir.path("away")).unwrap();
    place().ok(["verify", text(&pair.archive)]);
    fs::rename(pair.dir.path("away"), pair.object(5)).unwrap();
    fs::write(&record, kept).unwrap();
    // A chain that is gone as a whole was removed by `prune`, for all that is known.
    (1..=3).for_each(|number| fs::remove_file(pair.object(number)).unwrap());
    place().ok(["verify", text(&pair.archive)]);
    drop(keep);
}

/// A key store that lacks the certificate is no key: structure and checksums are checked.
#[test]
fn a_store_without_the_certificate_checks_structure() {
    let pair = shipped(&[1]);
    let stranger = Place::with_store();
    let run = stranger.run(["verify", text(&pair.archive)]);
    assert!(run.code == 6 && run.err.contains("structure and checksums"), "{run:?}");
    let json = stranger.run(["verify", text(&pair.archive), "--json"]);
    assert!(json.code == 6 && json.out.contains("not_verified"), "{json:?}");
    let mut bytes = fs::read(pair.object(2)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(pair.object(2), bytes).unwrap();
    assert_eq!(stranger.run(["verify", text(&pair.archive)]).code, 4);
}

#[test]
fn nothing_is_copied_to_the_name_of_an_object() {
    let pair = shipped(&[1]);
    let media = pair.dir.path("a.bak");
    place().ok(["backup", text(&pair.db), "--to", text(&media), "--no-sign"]);
    let told = place().fails(1, ["copy", text(&media), text(&pair.object(3))]);
    assert!(told.contains("is an object of an archive"), "{told}");
    assert!(!pair.object(3).exists());
    place().ok(["verify", text(&pair.archive)]);
}

/// On an object store too, a whole chain of another database is refused, and no other.
#[test]
fn a_whole_chain_of_another_database_on_an_object_store_is_refused() {
    let Some(endpoint) = s3_of_test::endpoint("foreign chain") else { return };
    let (pair, other) = (nine(Form::Plain, 0), nine(Form::Plain, 100));
    let address = s3_of_test::prefix("foreign-chain");
    let user = format!("{}:{}", variable("KEY_ID"), variable("SECRET"));
    for number in 1..=9 {
        let of = if (4..=6).contains(&number) { &other } else { &pair };
        let to = format!("{endpoint}/{}/{}", address.trim_start_matches("s3://"), name(number));
        let mut put = Command::new("curl");
        put.args(["--fail", "--silent", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user]);
        put.arg("--upload-file").arg(of.object(number)).arg(&to);
        assert!(put.status().unwrap().success());
    }
    let to = pair.dir.path("to.db");
    let run = |words: &[&str]| {
        let mut command = place().command(words);
        Run::of(&command.envs(s3_of_test::variables(&endpoint)).output().unwrap())
    };
    let verified = run(&["verify", &address]);
    assert!(verified.code == 4 && verified.out.contains(&name(4)), "{verified:?}");
    for (at, code) in [("5", 4), ("3", 0), ("latest", 0), ("2199-01-01 00:00:00", 0)] {
        let restored = run(&["restore", &address, "--at", at, "--to", text(&to)]);
        assert_eq!(restored.code, code, "{at}: {restored:?}");
        assert_eq!(to.exists(), code == 0, "{at}");
        let _ = fs::remove_file(&to);
    }
}
