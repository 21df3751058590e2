//! The file of a database that is followed comes back, and what it becomes between two sets.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::databases::open;
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_aside::aside;
use crate::replicate_ground::{Followed, other, rows};

fn run(dir: &Path, script: &str) {
    let done = Command::new("sh").args(["-c", script]).current_dir(dir).status();
    assert!(done.unwrap().success(), "{script}");
}

/// Expects the other file as it is, and the log of the old one, whose copy is `kept`, aside.
fn expect_put_aside(followed: &mut Followed, kept: &Path, before: &[u32]) {
    let pair = &followed.pair;
    wait_for(|| !aside(pair).is_empty());
    wait_for(|| {
        followed.said().contains("another file took the place") || is_overwritten(followed)
    });
    sleep(Duration::from_millis(500));
    followed.end();
    let pair = &followed.pair;
    let logs = aside(pair);
    assert!(logs.len() == 1 && followed.said().contains(text(&logs[0])), "{}", followed.said());
    assert!(fs::read(&pair.db).unwrap() == fs::read(pair.dir.path("other.db")).unwrap());
    assert_eq!(rows(&open(&pair.db)), [101, 102]);
    assert_eq!(pair.restored("latest"), [101, 102]);
    fs::rename(&logs[0], format!("{}-wal", text(kept))).unwrap();
    assert_eq!(rows(&open(kept)), before);
}

fn is_overwritten(followed: &Followed) -> bool {
    followed.said().contains("was overwritten in place")
}

/// Nothing was shipped since it came back.
#[test]
fn a_file_that_came_back_is_exchanged_before_it_is_shipped() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        (1..=3).for_each(|n| pair.add(n));
        let mut followed = Followed::of(pair, "5s");
        let pair = &followed.pair;
        other(&pair.dir, encrypted, &[101, 102]);
        pair.add(4);
        let kept = pair.dir.path("kept.db");
        fs::copy(&pair.db, &kept).unwrap();
        let script = "mv app.db x; sleep 0.3; mv x app.db; sleep 0.2; cp other.db app.db";
        run(pair.db.parent().unwrap(), script);
        expect_put_aside(&mut followed, &kept, &[1, 2, 3, 4]);
    }
}

/// The log is begun, and the file overwritten, between two looks.
#[test]
fn a_file_is_overwritten_behind_the_first_commit_of_a_log() {
    for itself_before in [false, true] {
        let pair = Pair::new(false);
        (1..=3).for_each(|n| pair.add(n));
        pair.db().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let mut followed = Followed::of(pair, "5s");
        let pair = &followed.pair;
        let other = other(&pair.dir, false, &[101, 102]);
        let kept = pair.dir.path("kept.db");
        fs::copy(&pair.db, &kept).unwrap();
        sleep(Duration::from_millis(300));
        pair.add(4);
        if itself_before {
            fs::copy(&kept, &pair.db).unwrap();
            sleep(Duration::from_millis(200));
        }
        fs::copy(&other, &pair.db).unwrap();
        expect_put_aside(&mut followed, &kept, &[1, 2, 3, 4]);
    }
}

/// Frames were copied into the file since it was looked at.
#[test]
fn a_file_that_is_moved_away_behind_a_checkpoint_keeps_its_log() {
    let mut followed = Followed::of(Pair::new(false), "5s");
    let pair = &followed.pair;
    for n in 1..=10 {
        let db = pair.db();
        db.execute("INSERT INTO t VALUES (?1, hex(randomblob(3000)))", [n]).unwrap();
        if n == 5 {
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        }
    }
    run(pair.db.parent().unwrap(), "mv app.db x; sleep 2.5; mv x app.db");
    followed.says("the file of the database was away for a while");
    wait_for(|| pair.restored("latest").len() == 10);
    assert_eq!(rows(&open(&pair.db)).len(), 10);
    followed.end();
    assert!(aside(&followed.pair).is_empty(), "{}", followed.said());
}

/// Length and page 1 are the same, and nothing of the log was copied.
#[test]
fn an_older_copy_of_the_same_length_is_not_the_same_file() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        (1..=3).for_each(|n| pair.add(n));
        pair.db().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let (older, kept) = (pair.dir.path("other.db"), pair.dir.path("kept.db"));
        fs::copy(&pair.db, &older).unwrap();
        pair.db().execute_batch("UPDATE t SET n = n + 100").unwrap();
        pair.db().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let mut followed = Followed::of(pair, "1s");
        let pair = &followed.pair;
        fs::copy(&pair.db, &kept).unwrap();
        pair.db().execute_batch("UPDATE t SET n = n + 100").unwrap();
        wait_for(|| pair.object(2).exists());
        sleep(Duration::from_millis(300));
        fs::copy(&older, &pair.db).unwrap();
        wait_for(|| pair.object(3).exists());
        followed.end();
        let pair = &followed.pair;
        let logs = aside(pair);
        assert!(logs.len() == 1 && followed.said().contains(text(&logs[0])), "{}", followed.said());
        assert!(fs::read(&pair.db).unwrap() == fs::read(&older).unwrap());
        assert_eq!(pair.restored("2"), [201, 202, 203]);
        assert_eq!(pair.restored("3"), [1, 2, 3]);
        fs::rename(&logs[0], format!("{}-wal", text(&kept))).unwrap();
        assert_eq!(rows(&open(&kept)), [201, 202, 203]);
    }
}
