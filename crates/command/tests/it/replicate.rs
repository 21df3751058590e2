//! `replicate` step by step, with `--once`: where a chain goes on, where a new one begins, what is
//! refused, and what a damaged archive gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::{
    Dir, MARKER, SmallDisk, create, encrypt, is_encrypted, is_plain, open, place,
};
use crate::s3_of_test::{self, variable};

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A database, and its archive.
pub(crate) struct Pair {
    pub(crate) dir: Dir,
    pub(crate) db: PathBuf,
    pub(crate) archive: PathBuf,
}

impl Pair {
    pub(crate) fn new(encrypted: bool) -> Self {
        let dir = Dir::new();
        let (db, archive) = (dir.path("app.db"), dir.path("archive"));
        drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n INTEGER, text TEXT)"));
        if encrypted {
            encrypt(&db, &[]);
        }
        Self { dir, db, archive }
    }

    pub(crate) fn once(&self, more: &[&str]) -> Run {
        let words = ["replicate", text(&self.db), "--to", text(&self.archive), "--once"];
        place().run([&words[..], &["--certificate", "AppCert"], more].concat())
    }

    /// Ships, and returns what was said.
    pub(crate) fn ship(&self) -> String {
        let run = self.once(&[]);
        assert_eq!(run.code, 0, "{run:?}");
        run.err
    }

    pub(crate) fn add(&self, n: u32) {
        let sql = format!("INSERT INTO t VALUES ({n}, '{MARKER} {n}')");
        self.db().execute_batch(&sql).unwrap();
    }

    pub(crate) fn db(&self) -> Connection {
        let db = open(&self.db);
        // So that the log stays when the connection ends.
        db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .unwrap();
        db
    }

    pub(crate) fn object(&self, number: u32) -> PathBuf {
        self.archive.join(format!("{number:016}.tdekit"))
    }

    pub(crate) fn objects(&self) -> usize {
        fs::read_dir(&self.archive).unwrap().count()
    }

    pub(crate) fn try_restore(&self, at: &str) -> (Run, PathBuf) {
        let to = self.dir.path("restored.db");
        let _ = fs::remove_file(&to);
        let run = place().run(["restore", text(&self.archive), "--at", at, "--to", text(&to)]);
        (run, to)
    }

    /// Restores, and returns the numbers in the table.
    pub(crate) fn restored(&self, at: &str) -> Vec<u32> {
        let (run, to) = self.try_restore(at);
        assert_eq!(run.code, 0, "{at}: {run:?}");
        let db = open(&to);
        let mut query = db.prepare("SELECT n FROM t ORDER BY n").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

#[test]
fn each_transaction_can_be_restored_and_an_encrypted_database_stays_encrypted() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        keep.execute_batch("INSERT INTO t VALUES (0, 'before')").unwrap();
        assert!(pair.ship().contains("the archive is empty"));
        for n in 1..=3 {
            pair.add(n);
        }
        pair.ship();
        let sql = "BEGIN; INSERT INTO t VALUES (4, 'x'); UPDATE t SET text = 'y'; COMMIT";
        keep.execute_batch(sql).unwrap();
        pair.add(5);
        let said = pair.ship();
        assert!(said.contains("goes on behind object 2"), "{said}");
        assert_eq!(pair.objects(), 3);
        for (at, last) in
            [("1", 0), ("2.1", 1), ("2.2", 2), ("2", 3), ("3.1", 4), ("3.2", 5), ("latest", 5)]
        {
            assert_eq!(pair.restored(at), (0..=last).collect::<Vec<_>>(), "{encrypted} {at}");
        }
        let restored = pair.dir.path("restored.db");
        assert!(if encrypted { is_encrypted(&restored) } else { is_plain(&restored) });
        let plain = |name: PathBuf| {
            let bytes = fs::read(name).unwrap();
            bytes.windows(MARKER.len()).any(|part| part == MARKER.as_bytes())
        };
        assert!(!(1..=3).any(|number| plain(pair.object(number))));
        let verified = place().json(["verify", text(&pair.archive), "--json"]);
        assert_eq!(verified["verdict"], "whole");
        assert_eq!(verified["chains"][0]["transactions"], 5);
        for (at, code) in [("2.4", 1), ("4", 1), ("1.1", 1), ("1999-01-01 00:00:00", 1)] {
            let (run, to) = pair.try_restore(at);
            assert_eq!(run.code, code, "{at}: {run:?}");
            assert!(!to.exists());
        }
        // A log set alone is no database.
        let to = pair.dir.path("alone.db");
        let said = place().fails(2, ["restore", text(&pair.object(2)), "--to", text(&to)]);
        assert!(said.contains("transactions of a log"), "{said}");
        // SQLite's check can be left out, which is said.
        let words = ["restore", text(&pair.archive), "--at", "latest", "--to", text(&to)];
        let unchecked = place().run([&words[..], &["--no-check"]].concat());
        assert!(unchecked.code == 0 && unchecked.out.contains("not checked"), "{unchecked:?}");
        for (more, checked) in [(&["--no-check"][..], false), (&[], true)] {
            fs::remove_file(&to).unwrap();
            let json = place().json([&words[..], &["--json"], more].concat());
            assert_eq!(json["checked"], checked);
        }
        place().fails(2, ["restore", text(&pair.object(1)), "--to", text(&to), "--no-check"]);
    }
}

#[test]
fn a_chain_goes_on_only_where_nothing_can_be_missing() {
    let pair = Pair::new(false);
    pair.ship();
    // Nobody had it open, and nothing happened.
    assert!(pair.ship().contains("goes on behind object 1"));
    // Written and checkpointed while nobody followed.
    create(&pair.db, "INSERT INTO t VALUES (1, 'away')");
    let absence = "the database changed while nobody followed it";
    assert!(pair.ship().contains(absence));
    assert_eq!(pair.restored("latest"), [1]);
    // In another mode, with another page size.
    create(&pair.db, "PRAGMA journal_mode = DELETE; INSERT INTO t VALUES (2, 'away')");
    create(&pair.db, "PRAGMA page_size = 8192; VACUUM; PRAGMA journal_mode = WAL");
    assert!(pair.ship().contains(absence));
    assert_eq!(pair.restored("latest"), [1, 2]);
    // The log is there, and is the one that was shipped.
    let keep = pair.db();
    keep.execute_batch("INSERT INTO t VALUES (3, 'log')").unwrap();
    let said = pair.ship();
    assert!(said.contains("goes on"), "{said}");
    pair.add(4);
    let said = pair.ship();
    assert!(said.contains("goes on"), "{said}");
    keep.execute_batch("VACUUM").unwrap();
    let said = pair.ship();
    assert!(said.contains("goes on"), "{said}");
    // It was started anew, and all of it was shipped and copied before.
    let empty = || keep.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    empty();
    pair.add(5);
    assert!(pair.ship().contains("goes on"));
    // Now it was not.
    pair.add(6);
    empty();
    pair.add(7);
    assert!(pair.ship().contains(absence));
    drop(keep);
    // An older copy of the file, and its log.
    let copy = pair.dir.path("copy.db");
    fs::copy(&pair.db, &copy).unwrap();
    pair.add(8);
    pair.ship();
    fs::copy(&copy, &pair.db).unwrap();
    for side in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{side}", text(&pair.db)));
    }
    assert!(pair.ship().contains(absence));
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4, 5, 6, 7]);
    // The record is gone, or damaged.
    let record = format!("{}-replica", text(&pair.db));
    fs::remove_file(&record).unwrap();
    assert!(pair.ship().contains("there is no record here"));
    let mut damaged = fs::read(&record).unwrap();
    damaged.truncate(damaged.len() / 2);
    fs::write(&record, damaged).unwrap();
    assert!(pair.ship().contains("there is no record here"));
    // A file of the user's own is not one.
    fs::write(&record, "mine").unwrap();
    assert!(pair.once(&[]).err.contains("is not one"));
    assert_eq!(fs::read(&record).unwrap(), b"mine");
    fs::remove_file(&record).unwrap();
    place().ok(["verify", text(&pair.archive)]);
}

/// A log that another generation of frames stands in must not be taken for the one that was
/// shipped, although it has the same salts: that of a copy of the files which went another way.
#[test]
fn a_log_that_went_another_way_from_the_same_beginning_is_noticed() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.add(1);
    let sides = ["", "-wal"].map(|side| format!("{}{side}", text(&pair.db)));
    let kept: Vec<_> = sides.iter().map(|path| fs::read(path).unwrap()).collect();
    pair.add(2);
    pair.ship();
    drop(keep);
    for (path, bytes) in sides.iter().zip(kept) {
        fs::write(path, bytes).unwrap();
    }
    let _ = fs::remove_file(format!("{}-shm", text(&pair.db)));
    let keep = pair.db();
    for n in 12..20 {
        pair.add(n);
    }
    let said = pair.ship();
    assert!(said.contains("the database changed while nobody followed it"), "{said}");
    let all: Vec<u32> = std::iter::once(1).chain(12..20).collect();
    assert_eq!(pair.restored("latest"), all);
    drop(keep);
}

/// Of an archive with a full set and five log sets.
pub(crate) fn five() -> Pair {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    for n in 1..=5 {
        pair.add(n);
        pair.ship();
    }
    drop(keep);
    assert_eq!(pair.objects(), 6);
    pair
}

/// Checks that an object is named as wrong, and what is whole.
fn expect(pair: &Pair, what: &str, wrong: u32, good: Option<&[u32]>) {
    let name = format!("{wrong:016}.tdekit");
    let (run, to) = pair.try_restore("latest");
    assert!(run.code == 4 && run.err.contains(&name), "{what} {wrong}: {run:?}");
    assert!(!to.exists(), "{what}");
    let verified = place().run(["verify", text(&pair.archive)]);
    let told = format!("{}{}", verified.out, verified.err);
    assert!(verified.code == 4 && told.contains(&name), "{what} {wrong}: {verified:?}");
    let json = place().run(["verify", text(&pair.archive), "--json"]);
    assert!(json.code == 4 && json.out.contains("\"damaged\""), "{what}: {json:?}");
    match good {
        None => assert_ne!(pair.try_restore("latest-good").0.code, 0, "{what}"),
        Some(good) => assert_eq!(pair.restored("latest-good"), good, "{what} {wrong}"),
    }
}

#[test]
fn a_damaged_archive_names_the_object_and_is_restored_up_to_it() {
    let (pair, other) = (five(), five());
    let objects: Vec<_> = (1..=6).map(|number| fs::read(pair.object(number)).unwrap()).collect();
    let whole = |number: u32| objects[number as usize - 1].clone();
    let restore = || {
        for number in 1..=6 {
            fs::write(pair.object(number), whole(number)).unwrap();
        }
    };
    let below = |number: u32| -> Vec<u32> { (1..=number.saturating_sub(2)).collect() };
    for number in 1..=6 {
        // At places of header, blocks, index and trailer.
        let len = whole(number).len();
        for at in [20, 110, 400, len / 2, len - 800, len - 100] {
            let mut bytes = whole(number);
            bytes[at] ^= 4;
            fs::write(pair.object(number), bytes).unwrap();
            let good = below(number);
            expect(&pair, "flip", number, (number > 1).then_some(&good[..]));
        }
        fs::write(pair.object(number), &whole(number)[..len - 1]).unwrap();
        expect(&pair, "cut", number, (number > 1).then_some(&below(number)[..]));
        if number > 1 && number < 6 {
            fs::remove_file(pair.object(number)).unwrap();
            expect(&pair, "missing", number, Some(&below(number)));
        }
        // The object of another archive at the same place.
        fs::copy(other.object(number), pair.object(number)).unwrap();
        let (run, to) = pair.try_restore("latest");
        let name = format!("{number:016}.tdekit");
        assert!(run.code == 4 && run.err.contains(&name) && !to.exists(), "{number}: {run:?}");
        restore();
    }
    // An older object of the same archive, a copy behind the end, two in each other's place.
    fs::write(pair.object(5), whole(3)).unwrap();
    expect(&pair, "older", 5, Some(&below(5)));
    restore();
    fs::write(pair.object(7), whole(6)).unwrap();
    expect(&pair, "twice", 7, Some(&below(7)));
    fs::remove_file(pair.object(7)).unwrap();
    fs::write(pair.object(3), whole(4)).unwrap();
    fs::write(pair.object(4), whole(3)).unwrap();
    expect(&pair, "swapped", 3, Some(&below(3)));
    restore();
    // A full set in another place.
    fs::write(pair.object(7), whole(1)).unwrap();
    expect(&pair, "full", 7, Some(&below(7)));
    fs::remove_file(pair.object(7)).unwrap();
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4, 5]);
    place().ok(["verify", text(&pair.archive)]);
}

/// Plain sets neither go on behind encrypted ones, nor are taken in their place.
#[test]
fn an_encrypted_archive_stays_encrypted() {
    let pair = Pair::new(false);
    let keep = pair.db();
    // It holds the log: the last connection that ends would empty it.
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    pair.add(1);
    pair.ship();
    pair.add(2);
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--once"];
    let said = place().fails(1, [&words[..], &["--encryption", "none"]].concat());
    assert!(said.contains("encrypted") && pair.objects() == 1, "{said}");
    assert!(pair.ship().contains("goes on behind object 1"));
    // The plain archive of another, under the next numbers.
    let plain = Pair::new(false);
    for (n, number) in [(7, 1), (8, 2), (9, 3)] {
        plain.add(n);
        let words = ["replicate", text(&plain.db), "--to", text(&plain.archive), "--once"];
        fs::create_dir_all(&plain.archive).unwrap();
        // So that the next full set has the next number.
        let _ = fs::remove_file(format!("{}-replica", text(&plain.db)));
        place().ok(words);
        assert!(plain.object(number).exists());
    }
    fs::copy(plain.object(3), pair.object(3)).unwrap();
    let (run, to) = pair.try_restore("latest");
    assert!(run.code == 4 && run.err.contains("is plain, and the archive"), "{run:?}");
    assert!(!to.exists());
    let verified = place().run(["verify", text(&pair.archive)]);
    assert!(verified.code == 4 && verified.out.contains("is plain, and the"), "{verified:?}");
    assert_eq!(pair.restored("latest-good"), [1, 2]);
    assert_eq!(pair.restored("2"), [1, 2]);
    drop(keep);
}

#[test]
fn an_archive_has_one_writer() {
    let (pair, other) = (Pair::new(false), Pair::new(false));
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let mut first = place().command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    let second = pair.once(&[]);
    assert!(second.code == 5 && second.err.contains("another process ships"), "{second:?}");
    let words = ["replicate", text(&other.db), "--to", text(&pair.archive), "--once"];
    let said = place().fails(1, words);
    assert!(said.contains("not shipped from here") && said.contains("--take-over"), "{said}");
    assert_eq!(pair.objects(), 1);
    // Taken over, the first ends.
    other.add(7);
    place().ok([&words[..], &["--take-over"]].concat());
    pair.add(1);
    let ended = Run::of(&first.wait_with_output_by(Duration::from_secs(20)));
    assert!(ended.code == 5 && ended.err.contains("written by another process"), "{ended:?}");
    assert_eq!(pair.restored("latest"), [7]);
    assert!(pair.restored("1").is_empty());
    place().ok(["verify", text(&pair.archive)]);
    let _ = first.kill();
}

pub(crate) trait WaitBy {
    fn wait_with_output_by(&mut self, limit: Duration) -> std::process::Output;
}

impl WaitBy for std::process::Child {
    fn wait_with_output_by(&mut self, limit: Duration) -> std::process::Output {
        let begun = Instant::now();
        while self.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < limit, "it goes on");
            sleep(Duration::from_millis(20));
        }
        let mut err = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut err).unwrap();
        }
        let status = self.wait().unwrap();
        std::process::Output { status, stdout: Vec::new(), stderr: err.into_bytes() }
    }
}

#[track_caller]
pub(crate) fn wait_for(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come");
        sleep(Duration::from_millis(20));
    }
}

/// The target is full for a while; nothing is lost, and the process goes on by itself.
#[test]
fn what_does_not_fit_is_shipped_later() {
    let pair = Pair::new(false);
    let Some(disk) = SmallDisk::mount(&pair.dir, "1m") else { return };
    let archive = disk.0.join("archive");
    let pair = Pair { archive, ..pair };
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let mut follower = place().command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    let keep = pair.db();
    let filler = disk.0.join("filler");
    while fs::write(&filler, vec![1; 900_000]).is_err() {}
    let add = "INSERT INTO t SELECT 1, hex(randomblob(200000))";
    keep.execute_batch(add).unwrap();
    wait_for(|| {
        let status = place().run(["replicate", "status", text(&pair.db)]);
        status.out.contains("the last try failed")
    });
    keep.execute_batch("INSERT INTO t VALUES (2, 'later')").unwrap();
    fs::remove_file(&filler).unwrap();
    wait_for(|| pair.object(2).exists());
    sleep(Duration::from_millis(1500));
    signal(follower.id(), "TERM");
    let ended = Run::of(&follower.wait_with_output_by(Duration::from_secs(20)));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("not shipped: no space left"), "{ended:?}");
    assert!(!ended.err.contains("goes on") && ended.err.matches("new chain").count() == 1);
    assert_eq!(pair.restored("latest"), [1, 2]);
}

/// Another file takes the place of the database under the follower.
#[test]
fn a_replaced_file_begins_a_new_chain() {
    let pair = Pair::new(false);
    pair.add(1);
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let mut follower = place().command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    let new = pair.dir.path("new.db");
    drop(create(
        &new,
        "PRAGMA journal_mode = WAL; CREATE TABLE t(n INTEGER, text TEXT);
         INSERT INTO t VALUES (9, 'new')",
    ));
    for side in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{side}", text(&pair.db)));
    }
    fs::rename(&new, &pair.db).unwrap();
    wait_for(|| pair.object(2).exists());
    pair.add(10);
    wait_for(|| pair.object(3).exists());
    signal(follower.id(), "TERM");
    let ended = Run::of(&follower.wait_with_output_by(Duration::from_secs(20)));
    assert!(ended.code == 0 && ended.err.contains("another file took the place"), "{ended:?}");
    assert_eq!(pair.restored("latest"), [9, 10]);
    assert_eq!(pair.restored("1"), [1]);
}

/// An archive that was written once opens for ever.
#[test]
fn the_archive_of_the_fixtures_is_restored_at_each_point() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let mut here = crate::common::Place::empty();
    here.set("TDEKIT_PASSWORD", "fixture password");
    fs::create_dir(here.home()).unwrap();
    for entry in fs::read_dir(fixtures.join("1/keystore")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            fs::copy(entry.path(), here.home().join(entry.file_name())).unwrap();
        }
    }
    // Whole pages, pages by what changed in them, and sets with lineages.
    let archives = [3, 4, 5].map(|version| fixtures.join(format!("{version}/media/archive")));
    for archive in &archives {
        here.ok(["verify", text(archive), "--signed-by", "AppCert"]);
    }
    let points = [
        ("1", "0"),
        ("2.1", "0,1"),
        ("2.2", "0,1,2"),
        ("3.1", "0,1,3"),
        ("3.2", "0,1,3"),
        ("3.3", "0,1,3,4"),
        ("latest", "0,1,3,4"),
    ];
    for ((at, rows), archive) in
        points.iter().flat_map(|point| archives.each_ref().map(|archive| (point, archive)))
    {
        let to = here.path("restored.db");
        let _ = fs::remove_file(&to);
        here.ok(["restore", text(archive), "--at", at, "--to", text(&to)]);
        let db = Connection::open(&to).unwrap();
        let found: String =
            db.query_row("SELECT group_concat(n) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(found, *rows, "{at} of {}", archive.display());
    }
}

/// A chain goes as a whole or stays, and the follower goes on behind what stays.
#[test]
fn prune_removes_chains_that_no_rule_keeps() {
    let pair = Pair::new(true);
    let keep = pair.db();
    pair.ship();
    pair.add(1);
    pair.ship();
    fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
    assert!(pair.ship().contains("there is no record here"));
    pair.add(2);
    pair.ship();
    assert_eq!(pair.objects(), 4);
    let prune = |rule: &[&str]| {
        let words = ["prune", text(&pair.archive), "--json"];
        place().json([&words[..], rule].concat())
    };
    let removed = |pruned: &serde_json::Value| {
        let media = pruned["media"].as_array().unwrap();
        media.iter().filter(|one| one["removed"] == true).count()
    };
    // All of today.
    assert_eq!(removed(&prune(&["--keep", "1h"])), 0);
    // The newest full set, and the newest of all with its chain.
    assert_eq!(removed(&prune(&["--keep-daily", "1"])), 2);
    let there = [1, 2, 3, 4].map(|number| pair.object(number).exists());
    assert_eq!(there, [false, false, true, true]);
    assert_eq!(pair.restored("latest"), [1, 2]);
    place().ok(["verify", text(&pair.archive)]);
    pair.add(3);
    assert!(pair.ship().contains("goes on behind object 4"));
    assert_eq!(pair.restored("latest"), [1, 2, 3]);
    drop(keep);
}

/// The sets of a copy, which the history knows by its restore test, need no part of a chain alone.
#[test]
fn prune_cuts_no_chain_for_a_copy_of_it() {
    let pair = Pair::new(false);
    let keep = pair.db();
    for n in 1..=3 {
        pair.add(n);
        pair.ship();
    }
    fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
    pair.add(4);
    pair.ship();
    let copy = pair.dir.path("copy");
    fs::create_dir(&copy).unwrap();
    for number in 1..=4 {
        let object = pair.object(number);
        fs::copy(&object, copy.join(object.file_name().unwrap())).unwrap();
    }
    place().ok(["verify", text(&copy), "--restore-test"]);
    place().ok(["prune", text(&pair.archive), "--keep-last", "1"]);
    let there = [1, 2, 3, 4].map(|number| pair.object(number).exists());
    assert!(there == [true; 4] || there == [false, false, false, true], "{there:?}");
    place().ok(["verify", text(&pair.archive)]);
    drop(keep);
}

/// What `verify` found damaged is not the newest set that `prune` keeps others for.
#[test]
fn prune_keeps_the_good_chain_behind_a_damaged_one() {
    let pair = Pair::new(true);
    let record = format!("{}-replica", text(&pair.db));
    pair.add(1);
    pair.ship();
    fs::remove_file(&record).unwrap();
    pair.add(2);
    pair.ship();
    let whole = fs::read(pair.object(2)).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(pair.object(2), damaged).unwrap();
    assert_eq!(place().run(["verify", text(&pair.archive)]).code, 4);
    let run = place().run(["prune", text(&pair.archive), "--keep-last", "1"]);
    assert!(pair.object(1).exists() && pair.object(2).exists(), "{run:?}");
    assert_eq!(pair.restored("latest-good"), [1]);
    // It was put back, and read whole since.
    fs::write(pair.object(2), whole).unwrap();
    place().ok(["verify", text(&pair.archive)]);
    place().ok(["prune", text(&pair.archive), "--keep-last", "1"]);
    assert!(!pair.object(1).exists() && pair.object(2).exists());
}

/// As a restore of a media set does.
#[test]
fn damage_that_a_restore_meets_is_in_the_history() {
    let pair = Pair::new(false);
    pair.add(1);
    pair.ship();
    let state = || {
        let run = place().run(["overview", text(&pair.db), "--json"]);
        let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        found["databases"][0]["verify_ok"].as_bool()
    };
    assert_eq!(state(), None);
    let whole = fs::read(pair.object(1)).unwrap();
    for at in [40, 300, whole.len() / 2] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(pair.object(1), bytes).unwrap();
        assert_eq!(pair.try_restore("latest").0.code, 4, "{at}");
        assert_eq!(state(), Some(false), "{at}");
        fs::write(pair.object(1), &whole).unwrap();
        pair.restored("latest");
        assert_eq!(state(), Some(true), "{at}");
    }
}

/// A state before the time that was asked for is not given for it.
#[test]
fn a_time_whose_objects_are_gone_is_refused() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    pair.add(1);
    pair.ship();
    sleep(Duration::from_millis(1100));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = tdekit_key_store::iso8601(i64::try_from(now.as_secs()).unwrap());
    sleep(Duration::from_millis(1100));
    fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
    pair.ship();
    assert_eq!(pair.restored(&at), [1]);
    fs::remove_file(pair.object(2)).unwrap();
    let (run, to) = pair.try_restore(&at);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("objects 2 to 2") && run.err.contains("--at 1"), "{run:?}");
    assert!(!to.exists());
    assert_eq!(pair.restored("latest"), [1]);
    drop(keep);
}

/// The same on an object store: a second writer is refused, a damaged object is named.
#[test]
fn an_archive_on_an_object_store_is_restored_and_has_one_writer() {
    let Some(endpoint) = s3_of_test::endpoint("replicate") else { return };
    let pair = Pair::new(true);
    let address = s3_of_test::prefix("archive");
    let run = |words: &[&str]| {
        let mut command = place().command(words);
        Run::of(&command.envs(s3_of_test::variables(&endpoint)).output().unwrap())
    };
    let ship = ["replicate", text(&pair.db), "--to", &address, "--once"];
    let keep = pair.db();
    for n in 1..=3 {
        pair.add(n);
        let shipped = run(&ship);
        // The last object is looked at each time, and is the one that was shipped.
        let begins = shipped.err.contains("new chain");
        assert!(shipped.code == 0 && begins == (n == 1), "{shipped:?}");
    }
    drop(keep);
    for (at, rows) in [("1", 1), ("2.1", 2), ("latest", 3)] {
        let to = pair.dir.path(&format!("{at}.db"));
        let restored = run(&["restore", &address, "--at", at, "--to", text(&to)]);
        assert_eq!(restored.code, 0, "{restored:?}");
        assert!(is_encrypted(&to));
        let count: u32 =
            open(&to).query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, rows, "{at}");
    }
    let verified = run(&["verify", &address]);
    assert!(verified.code == 0 && verified.out.contains("3 objects"), "{verified:?}");
    let other = Pair::new(false);
    let refused = run(&["replicate", text(&other.db), "--to", &address, "--once"]);
    assert!(refused.code == 1 && refused.err.contains("not shipped from here"), "{refused:?}");
    // Another object in the place of the third.
    let object = format!("{address}/0000000000000003.tdekit");
    let wrong = ["backup", text(&other.db), "--to", &object, "--init", "--replace", "--no-sign"];
    assert_eq!(run(&wrong).code, 1);
    let media = other.dir.path("other.bak");
    place().ok(["backup", text(&other.db), "--to", text(&media), "--no-sign"]);
    let user = format!("{}:{}", variable("KEY_ID"), variable("SECRET"));
    let to = format!("{endpoint}/{}", object.trim_start_matches("s3://"));
    let mut put = Command::new("curl");
    put.args(["--fail", "--silent", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user]);
    assert!(put.arg("--upload-file").arg(&media).arg(&to).status().unwrap().success());
    let to = pair.dir.path("wrong.db");
    let named = run(&["restore", &address, "--at", "latest", "--to", text(&to)]);
    assert!(named.code == 4 && named.err.contains("0000000000000003"), "{named:?}");
    let good = run(&["restore", &address, "--at", "latest-good", "--to", text(&to)]);
    assert!(good.code == 0 && good.err.contains("passed over"), "{good:?}");
}
