//! `replicate` in one process: pages that it shipped before are stored by what changed in them.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rusqlite::Connection;

use crate::bench::signal;
use crate::common::{Place, Run};
use crate::databases::{Dir, one, open, place};
use crate::replicate::{Pair, WaitBy, text, wait_for};

/// Rows, each nearly a page of noise, which no compression makes shorter.
const ROWS: u64 = 60;
const NOISE: u64 = ROWS * 3500;
/// The most that a set takes whose pages stand by their changes.
const FEW: u64 = NOISE / 6;
/// Everything that the rows hold.
const ROWS_SQL: &str = "SELECT coalesce(group_concat(id || ':' || n || ':' || hex(b)), 'none') \
                        FROM big ORDER BY id";

/// A follower, which ships one set for each change that is made behind it.
struct Shipped {
    pair: Pair,
    follower: Child,
    standby: Child,
    /// What the rows held behind each object.
    rows: Vec<String>,
}

impl Drop for Shipped {
    fn drop(&mut self) {
        for child in [&mut self.follower, &mut self.standby] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn follow(pair: &Pair) -> Child {
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let more = ["--certificate", "AppCert", "--no-sign"];
    place().command([&words[..], &more].concat()).stderr(Stdio::piped()).spawn().unwrap()
}

impl Shipped {
    fn new(encrypted: bool) -> Self {
        let pair = Pair::new(encrypted);
        pair.db()
            .execute_batch("CREATE TABLE big(id INTEGER PRIMARY KEY, n INTEGER, b BLOB)")
            .unwrap();
        let follower = follow(&pair);
        wait_for(|| pair.object(1).exists());
        let words = ["restore", text(&pair.archive), "--follow", "--to"];
        let path = pair.dir.path("standby.db");
        let standby = place().command([&words[..], &[text(&path)]].concat());
        let standby = { standby }.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut shipped = Self { pair, follower, standby, rows: Vec::new() };
        shipped.wait();
        shipped
    }

    fn wait(&mut self) {
        let next = u32::try_from(self.rows.len()).unwrap() + 1;
        wait_for(|| self.pair.object(next).exists());
        self.rows.push(one(&self.pair.db(), ROWS_SQL));
    }

    /// Commits a transaction, and returns the bytes of its object.
    fn commit(&mut self, sql: &str) -> u64 {
        self.pair.db().execute_batch(sql).unwrap();
        self.wait();
        let last = u32::try_from(self.rows.len()).unwrap();
        fs::metadata(self.pair.object(last)).unwrap().len()
    }

    /// Ends both, once the standby has everything.
    fn end(&mut self) {
        let path = self.pair.dir.path("standby.db");
        wait_for(|| self.rows.last() == Some(&one(&open(&path), ROWS_SQL)));
        for child in [&mut self.follower, &mut self.standby] {
            signal(child.id(), "TERM");
            let ended = Run::of(&child.wait_with_output_by(Duration::from_secs(20)));
            assert_eq!(ended.code, 0, "{ended:?}");
            assert!(!ended.err.contains("compared"), "{ended:?}");
        }
    }

    fn restores_each(&self) {
        for (rows, number) in self.rows.iter().zip(1..) {
            let (run, to) = self.pair.try_restore(&format!("{number}"));
            assert_eq!(run.code, 0, "{number}: {run:?}");
            assert!(one::<String>(&open(&to), ROWS_SQL) == *rows, "{number}");
        }
        place().ok(["verify", text(&self.pair.archive), "--restore-test"]);
    }
}

#[test]
fn a_page_stands_by_its_changes_only_on_what_this_process_shipped() {
    for encrypted in [false, true] {
        let mut shipped = Shipped::new(encrypted);
        let fill = format!(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS})
             INSERT OR REPLACE INTO big SELECT i, 0, randomblob(3500) FROM c"
        );
        let count = "UPDATE big SET n = n + 1";
        assert!(shipped.commit(&fill) > NOISE);
        for _ in 0..2 {
            let bytes = shipped.commit(count);
            assert!(bytes < FEW, "{bytes}");
        }
        // The database gets shorter and longer again.
        shipped.commit("DELETE FROM big WHERE id > 20");
        shipped.commit("VACUUM");
        shipped.commit(&fill);
        assert!(shipped.commit(count) < FEW);
        // Another process knows nothing of what was shipped.
        shipped.follower.kill().unwrap();
        shipped.follower.wait().unwrap();
        shipped.follower = follow(&shipped.pair);
        assert!(shipped.commit(count) > NOISE);
        assert!(shipped.commit(count) < FEW);
        shipped.end();
        shipped.restores_each();
    }
}

/// A standby that is not what the archive's pages stand on is compared with the archive, and made
/// equal.
#[test]
fn a_page_of_a_standby_that_differs_is_made_equal() {
    let mut shipped = Shipped::new(false);
    let path = shipped.pair.dir.path("standby.db");
    // More than SQLite keeps in memory, and written from the last page on: the page below is read
    // from the file.
    shipped.commit(
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
         INSERT INTO big SELECT i, 0, randomblob(3500) FROM c",
    );
    wait_for(|| one::<String>(&open(&path), ROWS_SQL) == *shipped.rows.last().unwrap());
    let db = open(&path);
    // Copies the log, so that the file's page counts. Both figures are -1 while the standby itself
    // is at a checkpoint.
    wait_for(|| {
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        let (log, copied): (i32, i32) =
            db.query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
        log >= 0 && log == copied
    });
    drop(db);
    // The standby's next transaction reads what was copied from the file.
    shipped.commit("UPDATE big SET n = n + 1 WHERE id = 1");
    wait_for(|| one::<String>(&open(&path), ROWS_SQL) == *shipped.rows.last().unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let blob: Vec<u8> = one(&shipped.pair.db(), "SELECT substr(b, 1, 32) FROM big WHERE id = 1990");
    let at = bytes.windows(32).position(|part| part == blob).unwrap();
    bytes[at] ^= 1;
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..=at], at as u64).unwrap();
    assert!(one::<String>(&open(&path), ROWS_SQL) != *shipped.rows.last().unwrap());
    assert!(shipped.commit("UPDATE big SET n = n + 1 WHERE id > 1980") < FEW);
    wait_for(|| one::<String>(&open(&path), ROWS_SQL) == *shipped.rows.last().unwrap());
    signal(shipped.standby.id(), "TERM");
    let ended = Run::of(&shipped.standby.wait_with_output_by(Duration::from_secs(20)));
    assert!(ended.code == 0 && ended.err.contains("is not that of the archive"), "{ended:?}");
}

/// The third object of the archive opens whole, and says that a page changed in nothing, which
/// changed: a fault of the program that shipped it.
#[test]
fn an_object_that_does_not_follow_its_state_before_is_found_by_a_restore() {
    let place = Place::with_store();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let archive = fixtures.join("4/media/wrong-state");
    let archive = text(&archive);
    let dir = Dir::new();
    let to = dir.path("r.db");
    let third = "0000000000000003.tdekit: page 2 of transaction 3.1 does not follow";
    let restore = |at: &str| {
        let _ = fs::remove_file(&to);
        place.run(["restore", archive, "--at", at, "--to", text(&to), "--json"])
    };
    let rows = || one::<String>(&open(&to), "SELECT group_concat(n) FROM t");
    // A restore writes each page once, and finds the later object wrong.
    for at in ["3", "4", "latest"] {
        let run = restore(at);
        assert!(run.code == 4 && run.err.contains(third) && !to.exists(), "{at}: {run:?}");
    }
    assert_eq!((restore("2").code, rows().as_str()), (0, "1,2"));
    let good = restore("latest-good");
    assert_eq!((good.code, rows().as_str()), (0, "1,2"), "{good:?}");
    let json: serde_json::Value = serde_json::from_str(&good.out).unwrap();
    assert_eq!(json["transaction"], "2.1", "{json}");
    assert!(json["passed_over"][0]["reason"].as_str().unwrap().contains(third), "{json}");
    assert_eq!(json["passed_over"][1]["number"], 4, "{json}");
    assert_eq!(good.err.matches("passed over: ").count(), 2, "{good:?}");
    // Each of its objects is whole by itself.
    place.ok(["verify", archive]);
    let tried = place.run(["verify", archive, "--restore-test", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&tried.out).unwrap();
    assert_eq!((tried.code, &json["verdict"]), (4, &"damaged".into()), "{tried:?}");
    // The mark stays when a reading finds nothing, and is on the set that the history knows.
    for _ in 0..2 {
        let history = Connection::open(place.home().join("history.db")).unwrap();
        let marked = "SELECT count(*) FROM lastcheck JOIN backupset ON subject = backup_set_uuid
                      WHERE finding_count = 1 AND facts = '{\"wrong_state\":true}'";
        assert!(one::<u32>(&history, marked) >= 1);
        place.ok(["verify", archive]);
    }
    let errors: Vec<_> = json["sets"].as_array().unwrap().iter().map(|set| &set["error"]).collect();
    let third = |error: &&&serde_json::Value| error.as_str().is_some_and(|it| it.contains(third));
    assert_eq!(errors.iter().filter(third).count(), 1, "{json}");
}

/// The mark is that of the restore test: nothing else read the archive.
#[test]
fn a_restore_test_marks_a_log_set_of_a_wrong_state() {
    let place = Place::with_store();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let archive = fixtures.join("4/media/wrong-state");
    let marked = || {
        let history = Connection::open(place.home().join("history.db")).unwrap();
        let marked = "SELECT count(*) FROM lastcheck JOIN backupset ON subject = backup_set_uuid
                      WHERE finding_count = 1 AND facts = '{\"wrong_state\":true}'";
        one::<u32>(&history, marked)
    };
    assert_eq!(place.run(["verify", text(&archive), "--restore-test"]).code, 4);
    assert_eq!(marked(), 1);
    place.ok(["verify", text(&archive)]);
    assert_eq!(marked(), 1);
}
