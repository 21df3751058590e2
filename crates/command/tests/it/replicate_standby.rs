//! `restore --follow`: a standby that keeps up with an archive, read by others meanwhile.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use rusqlite::Connection;
use tdekit_faults_sqlite::form::by_form;

use crate::bench::signal;
use crate::databases::{create, encrypt, is_encrypted, one, open, place};
use crate::replicate::{Pair, WaitBy, text, wait_for};
use crate::s3_of_test;

/// A standby that a process keeps up.
struct Standby {
    path: PathBuf,
    said: PathBuf,
    process: Child,
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(said: &Path, words: &[&str]) -> Child {
    let said = File::options().append(true).create(true).open(said).unwrap();
    place().command(words).stdout(File::create("/dev/null").unwrap()).stderr(said).spawn().unwrap()
}

impl Standby {
    fn of(pair: &Pair) -> Self {
        let (path, said) = (pair.dir.path("standby.db"), pair.dir.path("said-standby"));
        let process = start(&said, &Self::words(text(&pair.archive), &path));
        let standby = Self { path, said, process };
        wait_for(|| standby.path.exists());
        standby
    }

    fn words<'a>(archive: &'a str, path: &'a Path) -> [&'a str; 5] {
        ["restore", archive, "--follow", "--to", text(path)]
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn again(&mut self, pair: &Pair) {
        self.process = start(&self.said, &Self::words(text(&pair.archive), &self.path));
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    fn says(&self, told: &str) {
        wait_for(|| self.said().contains(told));
    }

    fn end(&mut self) {
        signal(self.process.id(), "TERM");
        let ended = self.process.wait_with_output_by(Duration::from_secs(20));
        assert!(ended.status.success(), "{}", self.said());
    }

    fn rows(&self) -> Vec<u32> {
        let db = open(&self.path);
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{}", self.said());
        let mut query = db.prepare("SELECT n FROM t ORDER BY n").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn has(&self, rows: &[u32]) {
        wait_for(|| self.rows() == rows);
    }
}

#[test]
fn a_standby_keeps_up_and_refuses_writers() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        pair.add(1);
        pair.ship();
        let mut standby = Standby::of(&pair);
        standby.has(&[1]);
        assert_eq!(is_encrypted(&standby.path), encrypted);
        for n in 2..=4 {
            pair.add(n);
            pair.ship();
        }
        standby.has(&[1, 2, 3, 4]);
        keep.execute_batch(
            "DELETE FROM t WHERE n < 3; CREATE TABLE u(a); CREATE INDEX i ON t(text)",
        )
        .unwrap();
        pair.ship();
        standby.has(&[3, 4]);
        let db = open(&standby.path);
        assert_eq!(one::<u32>(&db, "SELECT count(*) FROM u"), 0);
        // Larger, then smaller than it was.
        keep.execute_batch(
            "INSERT INTO u WITH RECURSIVE k(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM k LIMIT 500)
             SELECT randomblob(3000) FROM k",
        )
        .unwrap();
        pair.ship();
        wait_for(|| one::<u32>(&db, "SELECT count(*) FROM u") == 500);
        keep.execute_batch("DELETE FROM u WHERE rowid > 10; VACUUM").unwrap();
        pair.ship();
        wait_for(|| one::<u32>(&db, "SELECT count(*) FROM u") == 10);
        let pages = |db: &Connection| one::<u32>(db, "PRAGMA page_count");
        assert_eq!(pages(&db), pages(&keep), "{}", standby.said());
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        // Others read, and do not write; a second process is refused.
        let refused = db.execute_batch("PRAGMA busy_timeout = 50; INSERT INTO t VALUES (9, 'x')");
        assert!(refused.unwrap_err().to_string().contains("locked"));
        let second = place().run(Standby::words(text(&pair.archive), &standby.path));
        assert!(second.code == 5 && second.err.contains("keeps"), "{second:?}");
        let status = place().ok(["replicate", "status", text(&standby.path)]);
        assert!(status.out.contains("a process keeps it up"), "{status:?}");
        drop(db);
        standby.end();
        let status = place().json(["replicate", "status", text(&standby.path), "--json"]);
        assert_eq!((&status["running"], &status["error"]), (&false.into(), &().into()), "{status}");
        // After an end in order it goes on; what others wrote meanwhile is undone.
        pair.add(5);
        pair.ship();
        standby.again(&pair);
        standby.has(&[3, 4, 5]);
        assert!(standby.said().contains("goes on behind object"), "{}", standby.said());
        standby.end();
        open(&standby.path).execute_batch("INSERT INTO t VALUES (99, 'mine')").unwrap();
        standby.again(&pair);
        standby.has(&[3, 4, 5]);
        standby.says("another program wrote to it");
        // A reader keeps the log from being emptied at the end.
        let reader = open(&standby.path);
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        pair.add(6);
        pair.ship();
        standby.has(&[3, 4, 5, 6]);
        standby.end();
        drop(reader);
        standby.again(&pair);
        standby.says("nothing shows that it is as the last process left it");
        standby.has(&[3, 4, 5, 6]);
        standby.end();
        // Its chain was removed, and a new one is there.
        let before = fs::read_dir(&pair.archive).unwrap().map(|entry| entry.unwrap().path());
        let before: Vec<_> = before.collect();
        fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
        pair.ship();
        before.iter().for_each(|object| fs::remove_file(object).unwrap());
        standby.again(&pair);
        standby.says("the archive has not the object up to which it was kept");
        standby.has(&[3, 4, 5, 6]);
        drop(keep);
    }
}

/// Readers and kills at any point: each state is that behind a transaction.
#[test]
fn a_standby_that_is_killed_is_whole_and_goes_on() {
    let rounds = by_form(80, 200, 200);
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let db = pair.db();
        db.execute_batch("CREATE TABLE total(n, b); INSERT INTO total VALUES (0, '')").unwrap();
        let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--no-sign"];
        let words = [&words[..], &["--certificate", "AppCert", "--quiet"]].concat();
        let mut follower = start(&pair.dir.path("said"), &words);
        wait_for(|| pair.object(1).exists());
        let mut standby = Standby::of(&pair);
        let mut random = fastrand::Rng::with_seed(u64::from(encrypted) + 7);
        let (mut last, mut states) = (0, 0);
        for round in 1..=rounds {
            db.execute_batch(&format!(
                "BEGIN; INSERT INTO t VALUES ({round}, hex(randomblob({})));
                 UPDATE total SET n = n + 1, b = hex(randomblob({})); COMMIT",
                random.u32(10..9000),
                random.u32(10..9000),
            ))
            .unwrap();
            if round == rounds / 2 {
                db.execute_batch("VACUUM").unwrap();
            }
            if round % 12 == 0 {
                sleep(Duration::from_millis(random.u64(0..700)));
                standby.kill();
            }
            let copy = open(&standby.path);
            copy.busy_timeout(Duration::from_secs(10)).unwrap();
            let sql = "SELECT (SELECT count(*) FROM t), (SELECT n FROM total)";
            let (rows, total): (u32, u32) =
                copy.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(rows, total, "{round}: {}", standby.said());
            assert!(rows >= last, "{round}: {rows} behind {last}");
            states += u32::from(rows > last);
            last = rows;
            if round % 12 == 0 {
                assert_eq!(one::<String>(&copy, "PRAGMA integrity_check"), "ok");
                drop(copy);
                standby.again(&pair);
            }
            sleep(Duration::from_millis(30));
        }
        standby.has(&(1..=rounds).collect::<Vec<_>>());
        assert!(states > 3, "{states} states were seen");
        standby.end();
        signal(follower.id(), "TERM");
        assert!(follower.wait().unwrap().success());
    }
}

/// Begins a new chain: there is no record.
fn new_chain(pair: &Pair) {
    fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
    assert!(pair.ship().contains("there is no record here"));
}

#[test]
fn new_chains_and_objects_that_are_wrong_or_gone() {
    let pair = Pair::new(true);
    let keep = pair.db();
    (1..=3).for_each(|n| pair.add(n));
    pair.ship();
    let mut standby = Standby::of(&pair);
    standby.has(&[1, 2, 3]);
    pair.add(4);
    new_chain(&pair);
    standby.has(&[1, 2, 3, 4]);
    standby.says("as a new chain begins");
    // Of the whole chain, only what differs was written.
    let pages: u32 = one(&keep, "PRAGMA page_count");
    let said = standby.said();
    let written = said.split("a new chain begins: ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(written.parse::<u32>().unwrap() < pages.max(3), "{said}");
    // It was away, and its chain is gone.
    standby.end();
    pair.add(5);
    new_chain(&pair);
    pair.add(6);
    pair.ship();
    place().ok(["prune", text(&pair.archive), "--keep-last", "1"]);
    assert!(!pair.object(2).exists());
    standby.again(&pair);
    standby.has(&[1, 2, 3, 4, 5, 6]);
    // An object that is damaged is named and tried again; nothing of it is taken.
    standby.end();
    pair.add(7);
    pair.ship();
    let number = u32::try_from(pair.objects()).unwrap() + 2;
    let number = (2..=number).rev().find(|number| pair.object(*number).exists()).unwrap();
    let whole = fs::read(pair.object(number)).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(pair.object(number), damaged).unwrap();
    standby.again(&pair);
    standby.says("is not kept up");
    assert!(standby.said().contains(&format!("{number:016}.tdekit")), "{}", standby.said());
    assert_eq!(standby.rows(), [1, 2, 3, 4, 5, 6]);
    let status = place().ok(["replicate", "status", text(&standby.path)]);
    assert!(status.out.contains("the last try failed"), "{status:?}");
    fs::write(pair.object(number), whole).unwrap();
    standby.has(&[1, 2, 3, 4, 5, 6, 7]);
    // One that is missing in the middle, until a new chain begins.
    standby.end();
    for n in 8..=9 {
        pair.add(n);
        pair.ship();
    }
    fs::remove_file(pair.object(number + 1)).unwrap();
    standby.again(&pair);
    standby.says(&format!("{:016}.tdekit is missing", number + 1));
    assert_eq!(standby.rows(), [1, 2, 3, 4, 5, 6, 7]);
    new_chain(&pair);
    standby.has(&(1..=9).collect::<Vec<_>>());
    standby.end();
    drop(keep);
}

/// The standby may be the last copy of what these objects held.
#[test]
fn a_standby_stays_as_it_is_where_the_newest_objects_are_gone() {
    for ends_in_order in [true, false] {
        let pair = Pair::new(false);
        let _keep = pair.db();
        for n in 1..=4 {
            pair.add(n);
            pair.ship();
        }
        let mut standby = Standby::of(&pair);
        standby.has(&[1, 2, 3, 4]);
        if ends_in_order {
            standby.end();
        } else {
            standby.kill();
        }
        let newest = u32::try_from(pair.objects()).unwrap();
        for number in [newest, newest - 1] {
            fs::remove_file(pair.object(number)).unwrap();
        }
        standby.again(&pair);
        standby.says(&format!("objects {} to {newest} were shipped", newest - 1));
        assert_eq!(standby.rows(), [1, 2, 3, 4]);
    }
}

#[test]
fn what_a_standby_cannot_be_is_refused() {
    let pair = Pair::new(false);
    pair.add(1);
    pair.ship();
    let to = pair.dir.path("there.db");
    drop(create(&to, "CREATE TABLE mine(x)"));
    let words = Standby::words(text(&pair.archive), &to);
    // What is there stays, and no record is left.
    assert!(place().fails(1, words).contains("exists"));
    assert!(!pair.dir.path("there.db-standby").exists());
    let more = |more: &[&str]| place().run([&words[..], more].concat());
    assert_eq!(more(&["--at", "latest"]).code, 2);
    assert_eq!(more(&["--certificate", "AppCert"]).code, 2);
    assert_eq!(more(&["--json"]).code, 2);
    let missing = pair.dir.path("none");
    let none = place().run(Standby::words(text(&missing), &pair.dir.path("s.db")));
    assert_eq!(none.code, 7, "{none:?}");
    // Of another archive.
    let (other, mut standby) = (Pair::new(false), Standby::of(&pair));
    encrypt(&other.dir.path("app.db"), &[]);
    other.ship();
    standby.has(&[1]);
    standby.end();
    let told = place().fails(1, Standby::words(text(&other.archive), &standby.path));
    assert!(told.contains("is a standby of"), "{told}");
}

/// The same from an object store, which is not there for a while.
#[test]
fn a_standby_of_an_archive_on_an_object_store() {
    let Some(endpoint) = s3_of_test::endpoint("standby") else { return };
    let pair = Pair::new(true);
    let address = s3_of_test::prefix("standby");
    let command = |words: &[&str]| {
        let mut command = place().command(words);
        command.envs(s3_of_test::variables(&endpoint));
        command
    };
    let ship = || {
        let words = ["replicate", text(&pair.db), "--to", &address, "--once"];
        assert!(command(&words).output().unwrap().status.success());
    };
    let keep = pair.db();
    pair.add(1);
    ship();
    let (path, said) = (pair.dir.path("standby.db"), pair.dir.path("said-standby"));
    let words = ["restore", &address, "--follow", "--to", text(&path)];
    let process = command(&words).stderr(File::create(&said).unwrap()).spawn().unwrap();
    let mut standby = Standby { path, said, process };
    wait_for(|| standby.path.exists());
    for n in 2..=4 {
        pair.add(n);
        ship();
    }
    standby.has(&[1, 2, 3, 4]);
    standby.end();
    drop(keep);
}
