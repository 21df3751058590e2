//! `replicate` of a database whose file is overwritten, cut or replaced by other means than SQLite
//! while it is followed: nothing of the new file is shipped behind the old one, and nothing of the
//! old log is copied into the new file.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::bench::signal;
use crate::databases::{Dir, create, encrypt, one, open, place};
use crate::replicate::{Pair, WaitBy, text, wait_for};

/// A database that a process follows.
pub(crate) struct Followed {
    pub(crate) pair: Pair,
    pub(crate) process: Child,
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Followed {
    /// Rows 1 to 3, of which the log has some that were not copied; then row 4 is shipped.
    pub(crate) fn new(encrypted: bool) -> Self {
        let pair = Pair::new(encrypted);
        (1..=3).for_each(|n| pair.add(n));
        let followed = Self::of(pair, "1s");
        followed.pair.add(4);
        wait_for(|| followed.pair.object(2).exists());
        followed
    }

    /// The full set is shipped.
    pub(crate) fn of(pair: Pair, every: &str) -> Self {
        let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", every];
        let said = File::create(pair.dir.path("said")).unwrap();
        let words = [&words[..], &["--certificate", "AppCert", "--no-sign"]].concat();
        let process = place().command(words).stderr(said).spawn().unwrap();
        wait_for(|| pair.object(1).exists());
        Self { pair, process }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.pair.dir.path("said")).unwrap()
    }

    pub(crate) fn says(&self, told: &str) {
        let begun = std::time::Instant::now();
        while !self.said().contains(told) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{told}: {}", self.said());
            sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn end(&mut self) {
        signal(self.process.id(), "TERM");
        let ended = self.process.wait_with_output_by(Duration::from_secs(20));
        assert!(ended.status.success(), "{}", self.said());
    }
}

/// Another database, whose rows are `rows`, without a log.
pub(crate) fn other(dir: &Dir, encrypted: bool, rows: &[u32]) -> PathBuf {
    let path = dir.path("other.db");
    let db = create(&path, "PRAGMA journal_mode = WAL; CREATE TABLE t(n INTEGER, text TEXT)");
    for n in rows {
        db.execute("INSERT INTO t VALUES (?1, hex(randomblob(3000)))", [n]).unwrap();
    }
    drop(db);
    if encrypted {
        encrypt(&path, &[]);
    }
    path
}

/// Overwrites the file at `to` in steps, with pauses that are longer than the follower's.
fn copy_slowly(bytes: &[u8], to: &Path) {
    let mut file = File::options().write(true).truncate(true).open(to).unwrap();
    for part in bytes.chunks(4096) {
        sleep(Duration::from_millis(25));
        file.write_all(part).unwrap();
    }
}

pub(crate) fn rows(db: &Connection) -> Vec<u32> {
    assert_eq!(one::<String>(db, "PRAGMA integrity_check"), "ok");
    let mut query = db.prepare("SELECT n FROM t ORDER BY n").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The old chain ends before the new file, and the new one is that file.
fn is_told(followed: &Followed, why: &str, new: &[u32]) {
    let pair = &followed.pair;
    assert_eq!(pair.restored("1"), [1, 2, 3]);
    assert_eq!(pair.restored("2"), [1, 2, 3, 4]);
    assert_eq!(pair.restored("3"), new);
    let status = place().ok(["replicate", "status", text(&pair.archive)]);
    assert!(status.out.contains(why), "{status:?}");
    let verified = place().ok(["verify", text(&pair.archive)]);
    assert!(verified.out.contains(why), "{verified:?}");
    let json = place().json(["verify", text(&pair.archive), "--json"]);
    assert_eq!(json["chains"][1]["why"], why);
    assert_eq!(json["chains"][1]["first"], 3);
}

/// Overwrites the database by `copy`; the new chain is the new file, which stays as it is.
fn is_noticed(encrypted: bool, other: impl Fn(&Dir) -> PathBuf, copy: impl Fn(&Path, &Path)) {
    let mut followed = Followed::new(encrypted);
    let other = other(&followed.pair.dir);
    let bytes = fs::read(&other).unwrap();
    copy(&other, &followed.pair.db);
    let why = "the file of the database was overwritten in place";
    followed.says(why);
    wait_for(|| followed.pair.object(3).exists());
    assert!(fs::read(&followed.pair.db).unwrap() == bytes, "it was written to");
    let db = open(&followed.pair.db);
    assert_eq!(rows(&db), [101, 102]);
    followed.pair.add(103);
    wait_for(|| followed.pair.object(4).exists());
    drop(db);
    followed.end();
    is_told(&followed, why, &[101, 102]);
    assert_eq!(followed.pair.restored("latest"), [101, 102, 103]);
    assert_eq!(rows(&open(&followed.pair.db)), [101, 102, 103]);
}

#[test]
fn a_file_that_is_overwritten_in_place_begins_a_new_chain_and_stays_as_it_is() {
    for encrypted in [false, true] {
        let made = |dir: &Dir| other(dir, encrypted, &[101, 102]);
        // Into the same file, as `cp` does it.
        let copy = |from: &Path, to: &Path| assert!(fs::copy(from, to).unwrap() > 0);
        is_noticed(encrypted, made, copy);
    }
}

/// While the file is written, it is shorter than the follower's mapping of it.
#[test]
fn a_file_that_is_overwritten_slowly_by_one_of_another_kind_is_noticed() {
    let slowly = |from: &Path, to: &Path| copy_slowly(&fs::read(from).unwrap(), to);
    is_noticed(true, |dir| other(dir, true, &[101, 102]), slowly);
    is_noticed(true, |dir| other(dir, false, &[101, 102]), slowly);
    // Its header has been written more often.
    let rotated = |dir: &Dir| {
        let path = other(dir, true, &[101, 102]);
        place().ok(["rotate", text(&path)]);
        path
    };
    is_noticed(true, rotated, slowly);
}

/// An older copy of the same database, whose page 1 may be the same.
#[test]
fn an_older_copy_of_the_database_itself_is_noticed() {
    let followed = Followed::new(false);
    let db = followed.pair.db();
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let old = followed.pair.dir.path("old.db");
    fs::copy(&followed.pair.db, &old).unwrap();
    db.execute_batch("UPDATE t SET text = 'new' WHERE n = 4").unwrap();
    wait_for(|| followed.pair.object(3).exists());
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    drop(db);
    sleep(Duration::from_millis(300));
    fs::copy(&old, &followed.pair.db).unwrap();
    followed.says("the file of the database was overwritten in place");
    wait_for(|| followed.pair.object(4).exists());
    followed.pair.restored("latest");
    let restored = open(&followed.pair.dir.path("restored.db"));
    assert_ne!(one::<String>(&restored, "SELECT text FROM t WHERE n = 4"), "new");
    let archive = text(&followed.pair.archive);
    let at = followed.pair.dir.path("3.db");
    place().ok(["restore", archive, "--at", "3", "--to", text(&at)]);
    assert_eq!(one::<String>(&open(&at), "SELECT text FROM t WHERE n = 4"), "new");
}

#[test]
fn a_file_that_is_cut_to_nothing_is_named_and_what_takes_its_place_is_followed() {
    let mut followed = Followed::new(false);
    File::options().write(true).open(&followed.pair.db).unwrap().set_len(0).unwrap();
    followed.says("there is nothing to ship");
    assert_eq!(followed.pair.objects(), 2);
    let status = place().ok(["replicate", "status", text(&followed.pair.db)]);
    assert!(status.out.contains("a process follows it"), "{status:?}");
    assert!(status.out.contains("is empty"), "{status:?}");
    let other = other(&followed.pair.dir, false, &[7]);
    fs::copy(&other, &followed.pair.db).unwrap();
    wait_for(|| followed.pair.object(3).exists());
    followed.end();
    is_told(&followed, "the file of the database was overwritten in place", &[7]);
}

/// With a program that has it open: stock SQLite shows that one the old log over the new file.
#[test]
fn a_program_that_has_the_database_open_is_told_of() {
    let followed = Followed::new(false);
    let keep = followed.pair.db();
    keep.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    let other = other(&followed.pair.dir, false, &[101, 102]);
    let bytes = fs::read(&other).unwrap();
    fs::copy(&other, &followed.pair.db).unwrap();
    followed.says("a program has the database open");
    sleep(Duration::from_millis(1500));
    assert!(fs::read(&followed.pair.db).unwrap() == bytes, "it was written to");
    assert_eq!(followed.pair.restored("2"), [1, 2, 3, 4]);
    let third = place().run(["inspect", text(&followed.pair.object(3))]);
    assert!(!third.out.contains("log"), "{third:?}");
}

/// Moved over the name, with the old log left beside it.
#[test]
fn the_log_of_a_file_that_was_replaced_is_not_laid_over_the_new_one() {
    let mut followed = Followed::new(false);
    let other = other(&followed.pair.dir, false, &[101]);
    fs::rename(&other, &followed.pair.db).unwrap();
    let why = "another file took the place of the database";
    followed.says(why);
    wait_for(|| followed.pair.object(3).exists());
    followed.end();
    assert_eq!(rows(&open(&followed.pair.db)), [101]);
    is_told(&followed, why, &[101]);
}

/// The log and its index are deleted: other processes then make new ones.
#[test]
fn a_log_that_is_deleted_is_noticed() {
    let mut followed = Followed::new(false);
    let pair = &followed.pair;
    pair.db().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    for side in ["-wal", "-shm"] {
        fs::remove_file(format!("{}{side}", text(&pair.db))).unwrap();
    }
    let why = "the log of the database was removed or replaced";
    pair.add(5);
    followed.says(why);
    wait_for(|| followed.pair.object(3).exists());
    followed.end();
    is_told(&followed, why, &[1, 2, 3, 4, 5]);
    assert_eq!(rows(&open(&followed.pair.db)), [1, 2, 3, 4, 5]);
}

/// While nobody follows: the log is that which was shipped, and the file below it is another.
#[test]
fn a_file_that_is_overwritten_while_nobody_follows_is_noticed() {
    let mut followed = Followed::new(false);
    followed.process.kill().unwrap();
    followed.process.wait().unwrap();
    let pair = &followed.pair;
    // Checkpointed by others: the file changed, and is still that below the log.
    let keep = pair.db();
    let old = pair.dir.path("old.db");
    fs::copy(&pair.db, &old).unwrap();
    pair.add(5);
    keep.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let said = pair.ship();
    assert!(said.contains("goes on"), "{said}");
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4, 5]);
    let other = other(&pair.dir, false, &[101]);
    fs::copy(&other, &pair.db).unwrap();
    // To all who have it open it is both files, until they end.
    let run = pair.once(&[]);
    assert!(run.code == 4 && run.err.contains("malformed"), "{run:?}");
    assert_eq!((pair.objects(), pair.restored("latest")), (3, vec![1, 2, 3, 4, 5]));
    // An older copy of the file, with nothing in the log that is not in it.
    fs::copy(&old, &pair.db).unwrap();
    let run = pair.once(&[]);
    assert!(run.err.contains("the database changed while nobody followed it"), "{run:?}");
    assert_eq!(pair.restored("3"), [1, 2, 3, 4, 5]);
    drop(keep);
}

/// Many checkpoints of others, and of the follower, are not taken for another file.
#[test]
fn checkpoints_and_vacuum_are_not_taken_for_another_file() {
    for encrypted in [false, true] {
        let mut followed = Followed::new(encrypted);
        let db = followed.pair.db();
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).unwrap();
        for round in 0..60 {
            let sql = "INSERT INTO t SELECT 9, hex(randomblob(20000)) FROM generate_series(1, 10)";
            let sql = sql.replace("generate_series(1, 10)", "(VALUES (1), (2), (3), (4), (5))");
            db.execute_batch(&sql).unwrap();
            match round % 10 {
                3 => db.execute_batch("DELETE FROM t WHERE n = 9; VACUUM").unwrap(),
                5 | 8 => {
                    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
                }
                _ => {}
            }
            sleep(Duration::from_millis(40));
        }
        if encrypted {
            place().ok(["rotate", text(&followed.pair.db)]);
        }
        let count: u32 = one(&db, "SELECT count(*) FROM t");
        drop(db);
        sleep(Duration::from_secs(2));
        followed.end();
        let said = followed.said();
        let expected = if encrypted { said.matches("new chain").count() } else { 1 };
        assert_eq!(said.matches("new chain").count(), expected, "{said}");
        assert!(!said.contains("overwritten") && !said.contains("removed"), "{said}");
        assert_eq!(followed.pair.restored("latest").len(), count as usize);
    }
}

/// A checkpoint that is cut off is not taken for another file: the log holds what was not copied.
#[test]
fn a_program_that_is_killed_while_it_copies_the_log_loses_nothing() {
    let mut met = 0;
    for _ in 0..3 {
        let mut followed = Followed::new(false);
        let db = text(&followed.pair.db).to_owned();
        let before = fs::metadata(&db).unwrap().len();
        let script = "import sqlite3, sys\n\
                      db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)\n\
                      db.execute('PRAGMA wal_autocheckpoint = 0')\n\
                      db.execute('BEGIN')\n\
                      db.executemany('INSERT INTO t VALUES (?, hex(randomblob(50000)))',\n\
                      \x20   [(n,) for n in range(100, 500)])\n\
                      db.execute('COMMIT')\n\
                      for _ in range(1000): db.execute('PRAGMA wal_checkpoint(PASSIVE)')\n";
        let mut program = Command::new("python3").args(["-c", script, &db]).spawn().unwrap();
        wait_for(|| fs::metadata(&db).unwrap().len() > before + 1_000_000);
        program.kill().unwrap();
        program.wait().unwrap();
        met += usize::from(fs::metadata(&db).unwrap().len() < 40_000_000);
        sleep(Duration::from_secs(3));
        let keep = followed.pair.db();
        assert_eq!(one::<String>(&keep, "PRAGMA integrity_check"), "ok", "{}", followed.said());
        assert_eq!(one::<u32>(&keep, "SELECT count(*) FROM t WHERE n >= 100"), 400);
        drop(keep);
        followed.end();
        let said = followed.said();
        assert!(!said.contains("overwritten") && !said.contains("cannot read"), "{said}");
        assert_eq!(followed.pair.restored("latest").len(), 404, "{said}");
    }
    assert!(met > 0, "no copy was cut off");
}

/// The record is removed under the follower: it makes it anew, and a second one is refused.
#[test]
fn a_record_that_is_removed_does_not_let_a_second_process_in() {
    let mut followed = Followed::new(false);
    let record = format!("{}-replica", text(&followed.pair.db));
    fs::remove_file(&record).unwrap();
    wait_for(|| Path::new(&record).exists());
    let second = followed.pair.once(&["--no-sign"]);
    assert!(second.code == 5 && second.err.contains("another process ships"), "{second:?}");
    followed.pair.add(5);
    wait_for(|| followed.pair.object(3).exists());
    // Another process was there first: this one ends.
    fs::remove_file(&record).unwrap();
    fs::write(&record, "").unwrap();
    let ended = followed.process.wait_with_output_by(Duration::from_secs(20));
    assert_eq!(ended.status.code(), Some(5), "{}", followed.said());
    assert!(followed.said().contains("another process ships"), "{}", followed.said());
}
