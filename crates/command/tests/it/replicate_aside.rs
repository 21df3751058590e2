//! The log beside a database whose file is touched, moved, or replaced while `replicate` follows it
//! or does not: a log that may hold the only copy of what was committed is kept, and one of another
//! file is put aside before anything of it is copied.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::databases::{open, place};
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_ground::{Followed, other, rows};

/// Logs that were put aside.
pub(crate) fn aside(pair: &Pair) -> Vec<PathBuf> {
    let all = fs::read_dir(pair.db.parent().unwrap()).unwrap();
    let paths = all.map(|entry| entry.unwrap().path());
    paths.filter(|path| text(path).contains("-wal.")).collect()
}

fn touch(db: &Path) {
    File::options().write(true).open(db).unwrap().set_modified(SystemTime::now()).unwrap();
}

fn write_page_1(db: &Path) {
    let page = fs::read(db).unwrap();
    File::options().write(true).open(db).unwrap().write_all_at(&page[..4096], 0).unwrap();
}

/// Nobody else has it open, and the log has what was not copied. A log that SQLite has recovered is
/// as one of which some frames may have been copied.
#[test]
fn a_file_that_is_touched_keeps_its_log() {
    let all = [
        (false, false, touch as fn(&Path)),
        (false, true, touch),
        (true, true, touch),
        (false, true, write_page_1),
    ];
    for (encrypted, copied, write) in all {
        let mut followed = Followed::new(encrypted);
        let pair = &followed.pair;
        if copied {
            pair.db().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        }
        pair.add(5);
        wait_for(|| pair.object(3).exists());
        sleep(Duration::from_millis(300));
        write(&pair.db);
        if copied {
            followed.says("the file of the database was written to by other ways than its log");
        } else {
            sleep(Duration::from_millis(2500));
        }
        assert_eq!(rows(&open(&pair.db)), [1, 2, 3, 4, 5], "{}", followed.said());
        pair.add(6);
        wait_for(|| pair.restored("latest") == [1, 2, 3, 4, 5, 6]);
        followed.end();
        assert!(aside(&followed.pair).is_empty());
        assert_eq!(rows(&open(&followed.pair.db)), [1, 2, 3, 4, 5, 6]);
        place().ok(["verify", text(&followed.pair.archive)]);
    }
}

#[test]
fn a_file_that_is_moved_away_and_back_keeps_its_log() {
    for away in [Duration::from_millis(100), Duration::from_millis(2500)] {
        let mut followed = Followed::new(false);
        let place = followed.pair.dir.path("z");
        fs::rename(&followed.pair.db, &place).unwrap();
        sleep(away);
        fs::rename(&place, &followed.pair.db).unwrap();
        wait_for(|| followed.pair.object(3).exists());
        assert_eq!(rows(&open(&followed.pair.db)), [1, 2, 3, 4], "{}", followed.said());
        followed.pair.add(5);
        wait_for(|| followed.pair.object(4).exists());
        followed.end();
        assert!(aside(&followed.pair).is_empty());
        assert_eq!(followed.pair.restored("latest"), [1, 2, 3, 4, 5]);
    }
}

/// The file is exchanged for a copy of itself, is touched before it is moved, or is written anew.
#[test]
fn a_file_that_is_its_own_copy_keeps_its_log() {
    let scripts = [
        "cp -a app.db x; mv x app.db",
        "mv app.db x; cp -a x app.db",
        "touch app.db; mv app.db x; sleep 0.1; mv x app.db",
        "mv app.db x; touch x; sleep 1.5; mv x app.db",
        "cp app.db x; cp x app.db",
        "cp app.db x; : > app.db; sleep 0.1; cat x > app.db",
        "cp app.db x; : > app.db; sleep 1.5; cat x > app.db",
        "cp app.db x; : > app.db; sleep 2.5; cat x > app.db",
        "for i in 1 2 3 4 5 6 7 8; do cp app.db x; cp x app.db; sleep 0.3; done",
        "for i in 1 2 3 4 5 6 7 8; do cp app.db x; cp x app.db; sleep 0.3; done",
    ];
    for (number, script) in scripts.iter().enumerate() {
        let encrypted = number % 2 == 1;
        let mut followed = Followed::new(encrypted);
        let pair = &followed.pair;
        pair.db().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        pair.add(5);
        wait_for(|| pair.object(3).exists());
        sleep(Duration::from_millis(300));
        let mut shell = Command::new("sh");
        let done = shell.args(["-c", script]).current_dir(pair.db.parent().unwrap()).status();
        assert!(done.unwrap().success());
        wait_for(|| pair.object(4).exists());
        assert_eq!(rows(&open(&pair.db)), [1, 2, 3, 4, 5], "{script}: {}", followed.said());
        pair.add(6);
        wait_for(|| pair.restored("latest") == [1, 2, 3, 4, 5, 6]);
        followed.end();
        assert!(aside(&followed.pair).is_empty(), "{script}: {}", followed.said());
    }
}

/// The log is that of the old file: nothing of it is copied, and it is put aside in the end.
#[test]
fn nothing_is_copied_while_and_after_a_program_has_a_new_file_open() {
    let mut followed = Followed::new(false);
    let pair = &followed.pair;
    let script = "import sqlite3, sys, time\n\
                  db = sqlite3.connect(sys.argv[1])\n\
                  db.execute('SELECT count(*) FROM t').fetchone()\n\
                  print('open', flush=True); time.sleep(60)";
    let mut program = Command::new("python3");
    let program = program.args(["-c", script, text(&pair.db)]).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(&mut program.stdout.take().unwrap(), &mut line).unwrap();
    let other = other(&pair.dir, false, &[101, 102]);
    let bytes = fs::read(&other).unwrap();
    fs::copy(&other, &pair.db).unwrap();
    followed.says("a program has the database open");
    sleep(Duration::from_millis(2500));
    assert!(!pair.object(3).exists(), "{}", followed.said());
    program.kill().unwrap();
    program.wait().unwrap();
    wait_for(|| pair.object(3).exists());
    followed.end();
    assert_eq!(aside(&followed.pair).len(), 1);
    assert!(fs::read(&followed.pair.db).unwrap() == bytes, "it was written to");
    assert_eq!(followed.pair.restored("latest"), [101, 102]);
}

/// Moved away for some time before another one takes its place.
#[test]
fn a_log_is_put_aside_once_another_file_is_there_and_is_named() {
    let mut followed = Followed::new(false);
    let away = followed.pair.dir.path("z");
    fs::rename(&followed.pair.db, &away).unwrap();
    sleep(Duration::from_millis(1500));
    assert!(aside(&followed.pair).is_empty());
    let other = other(&followed.pair.dir, false, &[101]);
    fs::copy(&other, &followed.pair.db).unwrap();
    wait_for(|| followed.pair.object(3).exists());
    followed.end();
    let logs = aside(&followed.pair);
    assert_eq!(logs.len(), 1);
    assert!(followed.said().contains(text(&logs[0])), "{}", followed.said());
    assert_eq!(rows(&open(&followed.pair.db)), [101]);
    fs::rename(&logs[0], format!("{}-wal", text(&away))).unwrap();
    assert_eq!(rows(&open(&away)), [1, 2, 3, 4]);
}

/// By another database, and by an older copy of the same one, to which stock SQLite would lay the
/// log.
#[test]
fn a_log_of_another_file_is_put_aside_when_following_begins() {
    let all = [
        (false, false, false),
        (false, false, true),
        (true, true, true),
        (true, true, false),
        (true, false, false),
        (false, true, false),
    ];
    for (was_encrypted, is_encrypted, older) in all {
        let mut followed = Followed::new(was_encrypted);
        let pair = &followed.pair;
        pair.db().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        let kept = pair.dir.path("kept.db");
        fs::copy(&pair.db, &kept).unwrap();
        let grow = "INSERT INTO t VALUES (5, hex(randomblob(200000)))";
        pair.db().execute_batch(grow).unwrap();
        wait_for(|| pair.object(3).exists());
        pair.db().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        pair.add(6);
        wait_for(|| pair.object(4).exists());
        followed.process.kill().unwrap();
        followed.process.wait().unwrap();
        let (new, wanted) = match older {
            true => (kept, vec![1, 2, 3, 4]),
            false => (other(&pair.dir, is_encrypted, &[101, 102]), vec![101, 102]),
        };
        fs::copy(&new, &pair.db).unwrap();
        let before = fs::read(&pair.db).unwrap();
        let run = pair.once(&["--no-sign"]);
        assert_eq!(run.code, 0, "{run:?}");
        let logs = aside(pair);
        assert!(logs.len() == 1 && run.err.contains(text(&logs[0])), "{logs:?} {run:?}");
        assert!(fs::read(&pair.db).unwrap() == before, "it was written to");
        assert_eq!(rows(&open(&pair.db)), wanted);
        assert_eq!(pair.restored("4"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(pair.restored("latest"), wanted);
    }
}

/// Programs cannot open the database as long as somebody has the index of the log open.
#[test]
fn a_log_that_is_cut_to_nothing_is_let_go() {
    let mut followed = Followed::new(false);
    let log = format!("{}-wal", text(&followed.pair.db));
    File::options().write(true).open(log).unwrap().set_len(0).unwrap();
    followed.says("the log of the database was removed or replaced");
    wait_for(|| followed.pair.object(3).exists());
    let db = open(&followed.pair.db);
    db.execute_batch("INSERT INTO t VALUES (9, '')").unwrap();
    wait_for(|| followed.pair.object(4).exists());
    followed.end();
    assert_eq!(followed.pair.restored("latest"), rows(&db));
    assert_eq!(followed.pair.restored("2"), [1, 2, 3, 4]);
    place().ok(["verify", text(&followed.pair.archive)]);
}
