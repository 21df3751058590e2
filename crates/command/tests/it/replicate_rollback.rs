//! `replicate` of a database in a rollback mode: looks from time to time, each of which ships what
//! differs as one transaction.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::Connection;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::{
    Dir, MARKER, SmallDisk, create, dump, encrypt, is_encrypted, one, open, place, strings,
};
use crate::replicate::{Pair, WaitBy, text, wait_for};
use crate::s3_of_test;

const ADVICE: &str = "after `PRAGMA journal_mode = WAL`, each transaction is";
const ABSENCE: &str = "the database changed while nobody followed it";
const MODE: &str = "the journal mode of the database changed";

/// Makes a database that is not in WAL mode.
fn pair(encrypted: bool) -> Pair {
    let dir = Dir::new();
    let (db, archive) = (dir.path("app.db"), dir.path("archive"));
    let sql = format!("CREATE TABLE t(n INTEGER, text); INSERT INTO t VALUES (0, '{MARKER}')");
    drop(create(&db, &sql));
    if encrypted {
        encrypt(&db, &[]);
    }
    Pair { dir, db, archive }
}

fn connect(path: &Path, mode: &str) -> Connection {
    let db = open(path);
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    let now: String =
        db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0)).unwrap();
    assert_eq!(now, mode);
    db
}

/// A process that follows a database.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Follower {
    fn of(pair: &Pair, every: &str) -> Self {
        Self::with(pair, every, &[])
    }

    fn with(pair: &Pair, every: &str, more: &[&str]) -> Self {
        let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
        let own = ["--certificate", "AppCert", "--no-sign", "--differential-every", every];
        let mut command = place().command([&words[..], &own, more].concat());
        Self(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    fn end(mut self) -> String {
        signal(self.0.id(), "TERM");
        let ended = Run::of(&self.0.wait_with_output_by(Duration::from_secs(20)));
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.err
    }
}

/// Restores a point, and returns what is in it.
fn restored(pair: &Pair, at: &str) -> Vec<String> {
    let (run, to) = pair.try_restore(at);
    assert_eq!(run.code, 0, "{at}: {run:?}");
    dump(&open(&to))
}

fn states(db: &Connection) -> Vec<String> {
    let mut lines = dump(db);
    // That of a new connection.
    let mode = lines.iter_mut().find(|line| line.starts_with("journal_mode")).unwrap();
    *mode = "journal_mode Text(\"delete\")".to_owned();
    lines
}

fn verified(pair: &Pair) -> serde_json::Value {
    let verified = place().json(["verify", text(&pair.archive), "--json"]);
    assert_eq!(verified["verdict"], "whole", "{verified}");
    verified
}

#[test]
fn each_look_can_be_restored() {
    for (encrypted, mode) in [(false, "delete"), (false, "persist"), (true, "truncate")] {
        let pair = pair(encrypted);
        let db = connect(&pair.db, mode);
        db.execute_batch("CREATE TABLE big(b); CREATE INDEX i ON t(text)").unwrap();
        let mut known = vec![states(&db)];
        let follower = Follower::of(&pair, "1s");
        wait_for(|| pair.object(1).exists());
        let standby = pair.dir.path("standby.db");
        let words = ["restore", text(&pair.archive), "--follow", "--to", text(&standby)];
        let mut command = place().command(words);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let keeping_up = Follower(command.spawn().unwrap());
        for (number, sql) in (2..).zip([
            &format!(
                "BEGIN; INSERT INTO t VALUES (1, '{MARKER} 1'); UPDATE t SET n = n + 1; COMMIT"
            ),
            "INSERT INTO big WITH RECURSIVE k(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM k
             LIMIT 400) SELECT randomblob(3000) FROM k",
            "DELETE FROM big WHERE rowid > 9",
            "VACUUM",
            "BEGIN; CREATE TABLE u(a, b); PRAGMA user_version = 9; COMMIT",
            "UPDATE t SET n = 77",
        ]) {
            db.execute_batch(sql).unwrap();
            wait_for(|| pair.object(number).exists());
            known.push(states(&db));
        }
        // Nothing is shipped where nothing changed.
        sleep(Duration::from_millis(2500));
        assert_eq!(pair.objects(), 7);
        let status = place().json(["replicate", "status", text(&pair.db), "--json"]);
        assert_eq!((&status["has_log"], &status["running"]), (&false.into(), &true.into()));
        db.execute_batch("INSERT INTO t VALUES (8, 'just before the end')").unwrap();
        known.push(states(&db));
        let said = follower.end();
        assert_eq!(said.matches(ADVICE).count(), 1, "{said}");
        assert!(said.contains(&format!("{} is in journal mode", text(&pair.db))), "{said}");
        assert!(said.contains("shipped every 1s"), "{said}");
        assert_eq!(pair.objects(), 8, "{said}");
        for (number, known) in (1..).zip(&known) {
            assert_eq!(&restored(&pair, &format!("{number}")), known, "{mode} {number}");
        }
        let last = pair.dir.path("restored.db");
        assert_eq!(is_encrypted(&last), encrypted);
        // Page by page.
        assert!(encrypted || fs::read(&last).unwrap() == fs::read(&pair.db).unwrap());
        let verified = verified(&pair);
        assert_eq!(verified["chains"][0]["transactions"], 7);
        place().ok(["verify", text(&pair.archive), "--restore-test"]);
        assert!(!pair.dir.files_with_marker().iter().any(|name| name.ends_with(".tdekit")));
        // The standby is in WAL mode, whatever the original is, so that it can be read meanwhile.
        let rows = "SELECT n || text FROM t ORDER BY 1";
        wait_for(|| strings(&open(&standby), rows) == strings(&db, rows));
        assert_eq!(one::<String>(&open(&standby), "PRAGMA journal_mode"), "wal");
        assert_eq!(one::<String>(&open(&standby), "PRAGMA integrity_check"), "ok");
        let said = keeping_up.end();
        assert!(!said.contains("compared"), "{said}");
        let status = place().json(["replicate", "status", text(&standby), "--json"]);
        assert_eq!(status["object"], 8);
        assert_eq!(one::<String>(&open(&standby), "PRAGMA journal_mode"), "wal");
    }
}

#[test]
fn a_time_means_the_last_look_before_it() {
    let pair = pair(false);
    let db = connect(&pair.db, "delete");
    let follower = Follower::of(&pair, "1s");
    wait_for(|| pair.object(1).exists());
    db.execute_batch("INSERT INTO t VALUES (1, 'one')").unwrap();
    wait_for(|| pair.object(2).exists());
    sleep(Duration::from_millis(1100));
    let between: String = one(&db, "SELECT strftime('%Y-%m-%d %H:%M:%f')");
    sleep(Duration::from_millis(100));
    db.execute_batch("INSERT INTO t VALUES (2, 'two')").unwrap();
    wait_for(|| pair.object(3).exists());
    follower.end();
    assert_eq!(pair.restored(&between), [0, 1]);
    assert_eq!(pair.restored("latest"), [0, 1, 2]);
}

#[test]
fn a_look_waits_for_its_time_unless_the_process_ends() {
    let pair = pair(false);
    let follower = Follower::of(&pair, "1h");
    wait_for(|| pair.object(1).exists());
    sleep(Duration::from_millis(300));
    connect(&pair.db, "delete").execute_batch("INSERT INTO t VALUES (1, 'one')").unwrap();
    sleep(Duration::from_millis(2500));
    assert!(!pair.object(2).exists());
    let said = follower.end();
    assert!(said.contains("shipped every 1h"), "{said}");
    assert_eq!(pair.restored("2.1"), [0, 1]);
}

#[test]
fn a_chain_goes_on_where_the_file_is_as_it_was_shipped() {
    for encrypted in [false, true] {
        let pair = pair(encrypted);
        let said = pair.ship();
        assert!(said.contains(ADVICE) && said.contains("the archive is empty"), "{said}");
        let said = pair.ship();
        assert!(said.contains("goes on behind object 1"), "{said}");
        assert_eq!(pair.objects(), 1);
        let db = connect(&pair.db, "delete");
        // Killed behind a look, or ended in order: the next process reads the file again.
        for (number, kill) in [(2, true), (4, false)] {
            let mut follower = Follower::of(&pair, "1s");
            sleep(Duration::from_millis(500));
            for number in number..number + 2 {
                db.execute("INSERT INTO t VALUES (?1, 'x')", [number]).unwrap();
                wait_for(|| pair.object(number).exists());
            }
            let said = if kill {
                // The record follows the object.
                sleep(Duration::from_millis(500));
                follower.0.kill().unwrap();
                Run::of(&follower.0.wait_with_output_by(Duration::from_secs(20))).err
            } else {
                follower.end()
            };
            assert!(said.contains("goes on behind object"), "{said}");
            assert!(!said.contains("a new chain"), "{said}");
        }
        assert!(pair.ship().contains("goes on behind object 5"));
        assert_eq!(pair.restored("4"), [0, 2, 3, 4]);
        // Nobody knows which pages these are.
        db.execute_batch("INSERT INTO t VALUES (6, 'away')").unwrap();
        let said = pair.ship();
        assert!(said.contains(ABSENCE), "{said}");
        assert_eq!(pair.restored("latest"), [0, 2, 3, 4, 5, 6]);
        assert_eq!(verified(&pair)["chains"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_change_of_the_mode_begins_a_new_chain() {
    for encrypted in [false, true] {
        let pair = pair(encrypted);
        let follower = Follower::of(&pair, "1h");
        wait_for(|| pair.object(1).exists());
        let db = connect(&pair.db, "wal");
        db.execute_batch("INSERT INTO t VALUES (1, 'one'); INSERT INTO t VALUES (2, 'two')")
            .unwrap();
        wait_for(|| pair.object(2).exists());
        db.execute_batch("INSERT INTO t VALUES (3, 'x'); INSERT INTO t VALUES (4, 'x')").unwrap();
        wait_for(|| pair.object(3).exists());
        // The way back is closed while a process follows the log.
        let back = db.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
        assert!(back.as_ref().map_or(true, |mode| mode == "wal"), "{back:?}");
        let said = follower.end();
        assert!(said.contains(MODE), "{said}");
        let status = place().json(["replicate", "status", text(&pair.db), "--json"]);
        assert_eq!(status["has_log"], true);
        drop(db);
        drop(connect(&pair.db, "delete"));
        let said = pair.ship();
        assert!(said.contains(MODE) && said.contains(ADVICE), "{said}");
        drop(connect(&pair.db, "wal"));
        let said = pair.ship();
        assert!(said.contains(MODE) && !said.contains(ADVICE), "{said}");
        for (at, last) in [("1", 0), ("3.1", 3), ("3", 4), ("4", 4), ("5", 4)] {
            assert_eq!(pair.restored(at), (0..=last).collect::<Vec<_>>(), "{at}");
        }
        verified(&pair);
    }
}

#[test]
fn another_file_or_page_size_begins_a_new_chain() {
    let pair = pair(false);
    let (other, copy) = (pair.dir.path("other.db"), pair.dir.path("copy.db"));
    create(&other, "CREATE TABLE t(n INTEGER); INSERT INTO t VALUES (40)");
    let follower = Follower::of(&pair, "1s");
    wait_for(|| pair.object(1).exists());
    let db = connect(&pair.db, "delete");
    for n in 1..9 {
        db.execute("INSERT INTO t VALUES (?1, 'x')", [n]).unwrap();
    }
    sleep(Duration::from_millis(1500));
    db.execute_batch("PRAGMA page_size = 8192; VACUUM").unwrap();
    let chains = || {
        let status = place().json(["replicate", "status", text(&pair.archive), "--json"]);
        status["chains"].as_array().unwrap().len()
    };
    wait_for(|| chains() == 2);
    drop(db);
    // Its counter of changes is lower.
    fs::write(&pair.db, fs::read(&other).unwrap()).unwrap();
    wait_for(|| chains() == 3);
    fs::copy(&other, &copy).unwrap();
    create(&copy, "INSERT INTO t VALUES (41)");
    fs::rename(&copy, &pair.db).unwrap();
    wait_for(|| chains() == 4);
    // Half a file is no state of the database.
    let whole = fs::read(&other).unwrap();
    fs::write(&pair.db, &whole[..5000]).unwrap();
    sleep(Duration::from_millis(500));
    fs::write(&pair.db, &whole).unwrap();
    wait_for(|| chains() == 5);
    let said = follower.end();
    for why in [
        "the page size of the database changed",
        "the file of the database was overwritten in place",
        "another file took the place of the database",
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    assert_eq!(pair.restored("latest"), [40]);
    verified(&pair);
}

/// A database with a log gives way to one without, and the other way round.
#[test]
fn a_file_in_another_mode_takes_the_place_of_one() {
    let pair = Pair::new(false);
    pair.add(1);
    let (rolls, logs) = (pair.dir.path("rolls.db"), pair.dir.path("logs.db"));
    create(&rolls, "CREATE TABLE t(n INTEGER, text); INSERT INTO t VALUES (2, 'x')");
    create(&logs, "PRAGMA journal_mode = WAL; CREATE TABLE t(n INTEGER, text)");
    let follower = Follower::of(&pair, "1s");
    wait_for(|| pair.object(1).exists());
    fs::rename(&rolls, &pair.db).unwrap();
    wait_for(|| pair.object(2).exists());
    connect(&pair.db, "delete").execute_batch("INSERT INTO t VALUES (3, 'x')").unwrap();
    wait_for(|| pair.object(3).exists());
    fs::rename(&logs, &pair.db).unwrap();
    wait_for(|| pair.object(4).exists());
    pair.db()
        .execute_batch("INSERT INTO t VALUES (4, 'x'); INSERT INTO t VALUES (5, 'x')")
        .unwrap();
    wait_for(|| pair.object(5).exists());
    let said = follower.end();
    assert_eq!(said.matches("another file took the place").count(), 2, "{said}");
    assert_eq!(said.matches(ADVICE).count(), 1, "{said}");
    for (at, rows) in
        [("1", &[1][..]), ("2", &[2]), ("3.1", &[2, 3]), ("5.1", &[4]), ("5", &[4, 5])]
    {
        assert_eq!(pair.restored(at), rows, "{at}");
    }
    verified(&pair);
}

/// What was read and not shipped is not taken for shipped.
#[test]
fn what_does_not_fit_is_shipped_later() {
    let pair = pair(false);
    let Some(disk) = SmallDisk::mount(&pair.dir, "1m") else { return };
    let pair = Pair { archive: disk.0.join("archive"), ..pair };
    let events = pair.dir.path("events");
    let note = format!("echo $TDEKIT_EVENT >> '{}'", text(&events));
    let follower = Follower::with(&pair, "2s", &["--exec", &note]);
    wait_for(|| pair.object(1).exists());
    let filler = disk.0.join("filler");
    while fs::write(&filler, vec![1; 900_000]).is_err() {}
    let db = connect(&pair.db, "delete");
    db.execute_batch("INSERT INTO t SELECT 1, hex(randomblob(200000))").unwrap();
    let happened = || fs::read_to_string(&events).unwrap_or_default();
    wait_for(|| happened() == "failure\n");
    sleep(Duration::from_millis(3500));
    assert_eq!(happened(), "failure\n");
    fs::remove_file(&filler).unwrap();
    wait_for(|| pair.object(2).exists());
    wait_for(|| happened() == "failure\nrecovery\n");
    follower.end();
    assert_eq!(pair.restored("2.1"), [0, 1]);
}

#[test]
fn looks_are_shipped_to_an_object_store() {
    let Some(endpoint) = s3_of_test::endpoint("replicate_rollback") else { return };
    let pair = pair(true);
    let address = s3_of_test::prefix("looks");
    let variables = s3_of_test::variables(&endpoint);
    let run = |words: &[&str]| {
        let run = place().command(words).envs(variables.clone()).output().unwrap();
        let run = Run::of(&run);
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    };
    let words = ["replicate", text(&pair.db), "--to", &address, "--differential-every", "1s"];
    let mut command = place().command(words);
    command.envs(variables.clone()).stderr(Stdio::piped());
    let follower = Follower(command.spawn().unwrap());
    let status = || place().run(["replicate", "status", text(&pair.db), "--json"]).out;
    wait_for(|| status().contains("\"number\": 1"));
    let db = connect(&pair.db, "delete");
    for n in 2..4 {
        db.execute("INSERT INTO t VALUES (?1, 'x')", [n]).unwrap();
        wait_for(|| status().contains(&format!("\"number\": {n}")));
    }
    follower.end();
    for (at, rows) in [("1", 1), ("2.1", 2), ("latest", 3)] {
        let to = pair.dir.path(&format!("{at}.db"));
        run(&["restore", &address, "--at", at, "--to", text(&to)]);
        assert_eq!(one::<u32>(&open(&to), "SELECT count(*) FROM t"), rows, "{at}");
    }
    assert!(run(&["verify", &address]).contains("3 objects"));
}

/// The first half of what differs waits in memory, the rest in the file.
#[test]
fn more_than_memory_holds_is_shipped() {
    let pair = pair(false);
    let follower = Follower::of(&pair, "1s");
    wait_for(|| pair.object(1).exists());
    let db = connect(&pair.db, "delete");
    db.execute_batch(
        "CREATE TABLE big(n, b); INSERT INTO big WITH RECURSIVE k(x) AS (SELECT 1 UNION ALL
         SELECT x + 1 FROM k LIMIT 24000) SELECT x, zeroblob(3900) FROM k",
    )
    .unwrap();
    wait_for(|| pair.object(2).exists());
    follower.end();
    let (run, to) = pair.try_restore("latest");
    assert_eq!(run.code, 0, "{run:?}");
    let sql = "SELECT count(*) || ' ' || sum(n) FROM big WHERE length(b) = 3900";
    assert_eq!(one::<String>(&open(&to), sql), one::<String>(&db, sql));
    assert!(fs::metadata(&to).unwrap().len() > 90 << 20);
}

#[test]
fn the_configuration_has_the_interval() {
    let pair = pair(false);
    let config: PathBuf = pair.dir.path("replicate.toml");
    let head = "to = 'archive'\ncertificates = ['AppCert']\nno_sign = true\n";
    let list = "[[database]]\npath = 'app.db'\n";
    fs::write(&config, format!("{head}differential_every = '1s'\n{list}")).unwrap();
    let words = ["replicate", "--config", text(&config)];
    let follower = Follower(place().command(words).stderr(Stdio::piped()).spawn().unwrap());
    wait_for(|| pair.object(1).exists());
    connect(&pair.db, "delete").execute_batch("INSERT INTO t VALUES (1, 'one')").unwrap();
    wait_for(|| pair.object(2).exists());
    let said = follower.end();
    assert!(said.contains(ADVICE) && said.contains("shipped every 1s"), "{said}");
    assert_eq!(pair.restored("2.1"), [0, 1]);
    let words = ["replicate", "--config", text(&config), "--differential-every", "1s"];
    place().fails(2, words);
}
