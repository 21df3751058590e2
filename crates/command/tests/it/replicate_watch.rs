//! What others notice of an archive, and a follower of what happens to its own: objects that are
//! passed over, damaged, gone or replaced; `overview`, `cert drop` and `backup` know archives.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::bench::signal;
use crate::common::{Place, Run};
use crate::databases::{create, encrypt, place};
use crate::replicate::{Pair, WaitBy, five, text, wait_for};

fn name(number: u32) -> String {
    format!("{number:016}.tdekit")
}

#[test]
fn what_is_passed_over_is_named_in_json() {
    let pair = five();
    let json = |words: &[&str]| {
        let run = place().run([words, &["--json"]].concat());
        (run.code, serde_json::from_str::<serde_json::Value>(&run.out).unwrap())
    };
    let to = pair.dir.path("good.db");
    let good = ["restore", text(&pair.archive), "--at", "latest-good", "--to", text(&to)];
    let (code, whole) = json(&["verify", text(&pair.archive)]);
    assert!(code == 0 && whole["latest_good"] == 6, "{whole}");
    assert_eq!(whole["passed_over"].as_array().unwrap().len(), 0);
    let mut bytes = fs::read(pair.object(4)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(pair.object(4), bytes).unwrap();
    fs::remove_file(pair.object(6)).unwrap();
    fs::copy(pair.object(5), pair.object(7)).unwrap();
    let (code, found) = json(&["verify", text(&pair.archive)]);
    assert!(code == 4 && found["latest_good"] == 3, "{found}");
    let objects = |found: &serde_json::Value| -> Vec<(u64, bool)> {
        let all = found["passed_over"].as_array().unwrap();
        let one = |one: &serde_json::Value| {
            let number = one["number"].as_u64().unwrap();
            let object = one["object"].as_str().unwrap();
            assert!(!one["reason"].as_str().unwrap().is_empty(), "{found}");
            (number, object.ends_with(&name(u32::try_from(number).unwrap())))
        };
        all.iter().map(one).collect()
    };
    assert_eq!(objects(&found), [(4, true), (5, true), (6, true), (7, true)]);
    let (code, restored) = json(&good);
    assert!(code == 0 && restored["transaction"] == "3.1", "{restored}");
    assert_eq!(restored["passed_over"], found["passed_over"]);
}

/// The object is named, whether its blocks were damaged or its signature.
#[test]
fn a_damaged_signed_object_is_named() {
    let pair = Pair::new(true);
    let keep = pair.db();
    pair.ship();
    for _ in 0..3 {
        keep.execute_batch("INSERT INTO t SELECT 1, randomblob(60000)").unwrap();
        assert_eq!(pair.once(&["--sign", "AppCert"]).code, 0);
    }
    drop(keep);
    let whole = fs::read(pair.object(3)).unwrap();
    for at in [whole.len() / 2, whole.len() - 400, whole.len() - 300] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(pair.object(3), bytes).unwrap();
        let (run, to) = pair.try_restore("latest");
        assert!(run.code == 4 && run.err.contains(&name(3)) && !to.exists(), "{at}: {run:?}");
        let verified = place().run(["verify", text(&pair.archive)]);
        assert!(verified.code == 4 && verified.out.contains(&name(3)), "{at}: {verified:?}");
    }
    fs::write(pair.object(3), whole).unwrap();
    let to = pair.dir.path("signed.db");
    let words = ["restore", text(&pair.archive), "--at", "latest", "--to", text(&to)];
    place().ok([&words[..], &["--signed-by", "AppCert"]].concat());
    fs::remove_file(&to).unwrap();
    // The third one is not signed.
    let pair = Pair::new(true);
    let keep = pair.db();
    for sign in [&["--sign", "AppCert"][..], &["--sign", "AppCert"], &["--no-sign"]] {
        pair.add(1);
        assert_eq!(pair.once(sign).code, 0);
    }
    drop(keep);
    let words = ["restore", text(&pair.archive), "--at", "latest", "--to", text(&to)];
    let said = place().fails(3, [&words[..], &["--signed-by", "AppCert"]].concat());
    assert!(said.contains(&name(3)) && !to.exists(), "{said}");
}

pub(crate) fn follow(pair: &Pair) -> Child {
    follow_every(pair, "1s")
}

pub(crate) fn follow_every(pair: &Pair, every: &str) -> Child {
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", every];
    let words = [&words[..], &["--certificate", "AppCert"]].concat();
    place().command(words).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn end(mut follower: Child) -> String {
    signal(follower.id(), "TERM");
    let ended = Run::of(&follower.wait_with_output_by(Duration::from_secs(20)));
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.err
}

/// What follows an object that is gone could not be restored: a new chain begins, also where
/// nothing is committed meanwhile.
#[test]
fn a_follower_notices_that_its_last_object_is_gone_or_replaced() {
    let (pair, other) = (five(), five());
    let keep = pair.db();
    let follower = follow(&pair);
    pair.add(6);
    wait_for(|| pair.object(7).exists());
    fs::remove_file(pair.object(7)).unwrap();
    wait_for(|| pair.object(8).exists());
    pair.add(7);
    wait_for(|| pair.object(9).exists());
    fs::copy(other.object(2), pair.dir.path("other")).unwrap();
    fs::rename(pair.dir.path("other"), pair.object(9)).unwrap();
    wait_for(|| pair.object(10).exists());
    pair.add(8);
    wait_for(|| pair.object(11).exists());
    // A copy is the same object.
    fs::copy(pair.object(11), pair.dir.path("same")).unwrap();
    fs::rename(pair.dir.path("same"), pair.object(11)).unwrap();
    pair.add(9);
    wait_for(|| pair.object(12).exists());
    let said = end(follower);
    let told = "the last object of the archive is not the one that was shipped";
    assert_eq!(said.matches(told).count(), 2, "{said}");
    assert_eq!(said.matches("new chain").count(), 2, "{said}");
    assert_eq!(pair.restored("latest"), (1..=9).collect::<Vec<_>>());
    assert_eq!(pair.restored("8"), (1..=6).collect::<Vec<_>>());
    // The whole directory, which comes back: nothing is made anew, and nothing is lost.
    let follower = follow(&pair);
    let away = pair.dir.path("away");
    wait_for(|| place().run(["replicate", "status", text(&pair.db)]).out.contains("a process"));
    fs::rename(&pair.archive, &away).unwrap();
    pair.add(10);
    let failed = || place().run(["replicate", "status", text(&pair.db)]);
    wait_for(|| failed().out.contains("the last try failed"));
    fs::rename(&away, &pair.archive).unwrap();
    wait_for(|| pair.object(13).exists());
    let said = end(follower);
    assert!(!said.contains("new chain"), "{said}");
    assert_eq!(pair.restored("latest"), (1..=10).collect::<Vec<_>>());
    drop(keep);
}

#[test]
fn a_backup_is_not_written_into_an_archive() {
    let pair = five();
    for (number, more) in [
        (1, &["--append"][..]),
        (3, &["--append"]),
        (6, &["--differential"]),
        (7, &["--append"]),
        (7, &[]),
        (2, &["--init", "--replace"]),
    ] {
        let object = pair.object(number);
        let before = fs::read(&object).ok();
        let words = ["backup", text(&pair.db), "--to", text(&object), "--certificate", "AppCert"];
        let said = place().fails(1, [&words[..], more].concat());
        assert!(said.contains("is an object of an archive"), "{number}: {said}");
        assert_eq!(fs::read(&object).ok(), before);
    }
    let object = pair.object(4);
    let restore = ["restore", text(&pair.archive), "--at", "latest", "--replace", "--force"];
    let said = place().fails(1, [&restore[..], &["--to", text(&object)]].concat());
    assert!(said.contains("is an object of an archive"), "{said}");
    // Under another name, it is known by its content.
    let renamed = pair.dir.path("renamed.bak");
    fs::copy(pair.object(3), &renamed).unwrap();
    let words = ["backup", text(&pair.db), "--to", text(&renamed), "--append"];
    let said = place().fails(1, words);
    assert!(said.contains("is an object of an archive"), "{said}");
    place().ok(["verify", text(&pair.archive)]);
    let to = pair.dir.path("{host}.bak");
    let said = place().fails(2, ["backup", text(&pair.db), "--to", text(&to)]);
    assert!(said.contains("{host}") && said.contains("{name} and {date} are known"), "{said}");
}

/// A certificate that only an archive needs is not dropped, and what is shipped counts as a backup.
#[test]
fn overview_and_cert_drop_know_archives() {
    let mut here = Place::empty();
    here.set("TDEKIT_PASSWORD", "secret");
    here.ok(["key", "init"]);
    here.ok(["cert", "create", "Archive"]);
    here.set("TDEKIT_BACKUP_PASSWORD", "backup");
    here.ok(["cert", "backup", "Archive", "--pkcs12", text(&here.path("Archive.p12"))]);
    let (db, archive) = (here.path("app.db"), here.path("archive"));
    let keep = create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)");
    let ship = ["replicate", text(&db), "--to", text(&archive), "--once"];
    here.ok([&ship[..], &["--certificate", "Archive"]].concat());
    let said = here.fails(3, ["cert", "drop", "Archive"]);
    assert!(said.contains(&name(1)), "{said}");
    // The full set is in the history, and verifying the archive counts.

    let rows = |word: &str| {
        let run = here.run(["overview", text(&db), "--json"]);
        serde_json::from_str::<serde_json::Value>(&run.out).unwrap()["databases"][0][word].clone()
    };
    let first = rows("last_backup");
    assert!(first["encrypted"] == true && first["at"].as_i64() > Some(0), "{first}");
    here.ok(["verify", text(&archive)]);
    assert_eq!(rows("verify_ok"), true);
    std::thread::sleep(Duration::from_millis(1100));
    keep.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    here.ok([&ship[..], &["--certificate", "Archive"]].concat());
    let shipped = rows("last_backup");
    assert_eq!(shipped["shipped"], true, "{shipped}");
    assert!(shipped["at"].as_i64() > first["at"].as_i64(), "{shipped} {first}");
    let shown = here.run(["overview", text(&db)]);
    assert!(shown.out.contains("(shipped)"), "{shown:?}");
    // Where another database is under the path, it does not count.
    drop(keep);
    let copy = here.path("copy.db");
    fs::copy(&db, &copy).unwrap();
    fs::rename(&copy, &db).unwrap();
    assert_eq!(rows("last_backup")["shipped"], false);
    // What prune removed needs nothing.
    let _ = fs::remove_file(format!("{}-replica", text(&db)));
    here.ok(ship.iter().chain(&["--certificate", "Archive"]));
    here.ok(["verify", text(&archive)]);
    here.ok(["prune", text(&archive), "--keep-last", "1"]);
    let said = here.fails(3, ["cert", "drop", "Archive"]);
    assert!(said.contains(&name(3)) && !said.contains(&name(1)), "{said}");
    // An encrypted database is listed once, and its archive is no lost database.
    let sealed = Pair::new(false);
    encrypt(&sealed.db, &[]);
    sealed.ship();
    let audited = place().run(["audit", text(&sealed.archive), "--json"]);
    assert!(!audited.out.contains("lost"), "{audited:?}");
}

/// Each transaction has the time at which it was seen, those before the first shipment too.
#[test]
fn transactions_of_the_first_interval_have_their_own_times() {
    let pair = Pair::new(false);
    let keep = pair.db();
    let follower = follow_every(&pair, "1m");
    wait_for(|| pair.object(1).exists());
    pair.add(1);
    sleep(Duration::from_millis(1100));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = tdekit_key_store::iso8601(i64::try_from(now.as_secs()).unwrap());
    sleep(Duration::from_millis(1100));
    pair.add(2);
    end(follower);
    assert_eq!(pair.restored(&at), [1]);
    assert_eq!(pair.restored("latest"), [1, 2]);
    drop(keep);
}
