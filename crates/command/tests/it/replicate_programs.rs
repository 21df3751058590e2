//! `replicate` of a database whose file is exchanged while a program has it open, which sees the
//! log of the file that was there before: the follower waits for its end, also when it begins.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::databases::{open, place};
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_aside::aside;
use crate::replicate_ground::{Followed, other, rows};

const OPEN: &str = "a program has the database open, and sees its log over the new file";

/// Begins a lasting follower anew.
fn begin(pair: &Pair) -> Child {
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let said = File::create(pair.dir.path("said")).unwrap();
    let words = [&words[..], &["--certificate", "AppCert", "--no-sign"]].concat();
    place().command(words).stderr(said).spawn().unwrap()
}

/// A program that writes a table of its own, and stays.
fn program(pair: &Pair) -> Child {
    let script = "import sqlite3, sys, time\n\
                  db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                  db.execute('CREATE TABLE u(n)')\n\
                  print('open', flush=True); time.sleep(120)";
    let mut program = Command::new("python3");
    let program = program.args(["-c", script, text(&pair.db)]).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut line = [0; 5];
    program.stdout.take().unwrap().read_exact(&mut line).unwrap();
    program
}

/// Removes the database, and makes another one with row 201 under its name, by another process.
fn make_anew(db: &Path) {
    fs::remove_file(db).unwrap();
    let script = "import sqlite3, sys\n\
                  db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                  db.execute('CREATE TABLE t(n INTEGER, text TEXT)')\n\
                  db.execute('INSERT INTO t VALUES (201, hex(randomblob(90000)))')\n\
                  db.execute('PRAGMA journal_mode = WAL')";
    let mut made = Command::new("python3");
    assert!(made.args(["-c", script, text(db)]).status().unwrap().success());
}

/// The follower was killed; the program was not.
#[test]
fn a_follower_that_begins_waits_for_a_program() {
    let mut followed = Followed::new(true);
    followed.process.kill().unwrap();
    followed.process.wait().unwrap();
    let program = open(&followed.pair.db);
    assert_eq!(rows(&program), [1, 2, 3, 4]);
    let pair = &followed.pair;
    let new = other(&pair.dir, false, &[101, 102]);
    fs::copy(&new, &pair.db).unwrap();
    let bytes = fs::read(&pair.db).unwrap();
    let once = pair.once(&["--no-sign"]);
    assert_eq!(once.code, 5, "{once:?}");
    followed.process = begin(pair);
    followed.says(OPEN);
    sleep(Duration::from_secs(3));
    assert_eq!(followed.process.try_wait().unwrap(), None, "{}", followed.said());
    assert_eq!(followed.said().matches(OPEN).count(), 1, "{}", followed.said());
    assert!(fs::read(&pair.db).unwrap() == bytes, "it was written to");
    // Its end copies nothing of the log.
    let kept = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    program.set_db_config(kept, true).unwrap();
    drop(program);
    wait_for(|| pair.object(3).exists());
    let logs = aside(pair);
    assert!(logs.len() == 1 && followed.said().contains(text(&logs[0])), "{}", followed.said());
    followed.end();
    assert_eq!(rows(&open(&followed.pair.db)), [101, 102]);
    assert_eq!(followed.pair.restored("latest"), [101, 102]);
}

/// By the index of the old log, which the program keeps, SQLite looks for frames that the new log
/// lacks: nobody can read the database.
#[test]
fn a_database_that_is_made_anew_is_followed_once_a_program_has_ended() {
    for killed in [false, true] {
        let mut followed = Followed::new(false);
        let mut program = program(&followed.pair);
        wait_for(|| followed.pair.object(3).exists());
        if killed {
            followed.process.kill().unwrap();
            followed.process.wait().unwrap();
        }
        make_anew(&followed.pair.db);
        if killed {
            followed.process = begin(&followed.pair);
            followed.says(OPEN);
            followed.says("disk I/O error");
            sleep(Duration::from_secs(3));
            assert_eq!(followed.process.try_wait().unwrap(), None, "{}", followed.said());
        }
        // The waits between two tries become long.
        let failures = || followed.said().matches("disk I/O error; again").count();
        wait_for(|| killed || failures() > 4);
        let (tried, begun) = (failures(), Instant::now());
        program.kill().unwrap();
        program.wait().unwrap();
        wait_for(|| followed.pair.object(4).exists());
        let said = followed.said();
        assert!(failures() == tried && begun.elapsed().as_secs() < 5, "{said}");
        followed.end();
        assert_eq!(followed.pair.restored("3"), [1, 2, 3, 4]);
        assert_eq!(followed.pair.restored("latest"), [201]);
        assert_eq!(rows(&open(&followed.pair.db)), [201]);
    }
}
