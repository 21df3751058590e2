//! Snapshots of databases in use, and of files that change without SQLite.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::*;
use rusqlite::Connection;
use tdekit_backup_run::{
    BackupJob, Compression, Mode, Progress, Run, RunError, Source, StreamSource, backup,
};

/// Moves rows between the tables in single transactions, until `stop` is set.
fn write_on(path: &Path, stop: &AtomicBool, commits: &AtomicU64, checkpoint: u32) {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.pragma_update(None, "synchronous", "OFF").unwrap();
    db.pragma_update(None, "wal_autocheckpoint", checkpoint).unwrap();
    let mut n = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (id, pad) = (n % 5000, n % 1500);
        let sql = format!(
            "BEGIN IMMEDIATE;
             UPDATE a SET n=n+{id}, pad=randomblob({pad}) WHERE id={id};
             UPDATE b SET n=n+{id}, pad=randomblob({pad}) WHERE id={id};
             INSERT INTO a(n,pad) VALUES({pad},randomblob(200));
             INSERT INTO b(n,pad) VALUES({pad},randomblob(200));
             COMMIT"
        );
        db.execute_batch(&sql).unwrap();
        commits.fetch_add(1, Ordering::Relaxed);
    }
}

fn assert_state_of_a_commit(path: &Path) {
    let (count_a, sum_a, count_b, sum_b) = state(path);
    assert_eq!((count_a, sum_a), (count_b, sum_b));
}

#[test]
fn a_live_wal_database_is_backed_up_at_one_commit_while_writers_go_on() {
    for checkpoint in [10, 1000] {
        let dir = Dir::new();
        let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
        drop(database(&db, 4096, "wal", 12_000));
        let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
        let (during, moves) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| write_on(&db, &stop, &commits, checkpoint));
            }
            for n in 0..8 {
                let progress = |_: Progress| {
                    let before = moves.swap(commits.load(Ordering::Relaxed), Ordering::Relaxed);
                    let now = moves.load(Ordering::Relaxed);
                    during.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
                };
                moves.store(commits.load(Ordering::Relaxed), Ordering::Relaxed);
                let run = Run { progress: Some(&progress), ..Run::default() };
                let job = BackupJob { differential: n % 2 == 1, ..job(&db) };
                backup(job, targets(&[&bak]), &run).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(during.load(Ordering::Relaxed) > 0, "no commit while blocks were written");
        let media = open(&[&bak]).unwrap();
        let mut pages = Vec::new();
        for position in 1..=8 {
            let to = dir.path("to.db");
            pages.push(restore(&media, Some(position), &to).unwrap().pages);
            assert_state_of_a_commit(&to);
            fs::remove_file(&to).unwrap();
        }
        assert!(pages.is_sorted() && pages[0] < pages[7], "{pages:?}");
    }
}

#[test]
fn outside_wal_mode_a_writer_waits_and_then_goes_on() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    drop(database(&db, 4096, "delete", 5000));
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| write_on(&db, &stop, &commits, 1000));
        for _ in 0..4 {
            back_up(job(&db), &[&bak]).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let media = open(&[&bak]).unwrap();
    for position in 1..=4 {
        let to = dir.path(&format!("{position}.db"));
        restore(&media, Some(position), &to).unwrap();
        assert_state_of_a_commit(&to);
    }
}

/// Backs up slowly, and calls `act` once in the middle.
fn disturbed(db: &Path, bak: &Path, act: impl Fn() + Sync) -> Result<(), RunError> {
    let done = AtomicBool::new(false);
    let progress = |_: Progress| {
        if !done.swap(true, Ordering::SeqCst) {
            act();
        }
    };
    let run = Run { threads: 1, progress: Some(&progress), ..Run::default() };
    let job = BackupJob { compression: Compression::None, ..job(db) };
    let result = backup(job, targets(&[bak]), &run).map(drop);
    assert!(done.load(Ordering::SeqCst));
    result
}

#[test]
fn a_file_that_changes_past_sqlite_is_noticed() {
    for journal in ["delete", "wal"] {
        let dir = Dir::new();
        let db = dir.path("a.db");
        drop(database(&db, 4096, journal, 9000));
        let other = dir.path("other.db");
        fs::copy(&db, &other).unwrap();
        let bak = dir.path("a.bak");
        disturbed(&db, &bak, || {}).unwrap();
        let good = fs::read(&bak).unwrap();
        type Act = (&'static str, fn(&Path, &Path));
        let mut acts: Vec<Act> = vec![
            ("replaced", |db, other| {
                fs::copy(other, db.with_extension("new")).unwrap();
                fs::rename(db.with_extension("new"), db).unwrap();
            }),
            ("removed", |db, _| fs::remove_file(db).unwrap()),
            ("cut", |db, _| {
                let file = fs::OpenOptions::new().write(true).open(db).unwrap();
                file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            }),
        ];
        if journal == "delete" {
            acts.push(("written", |db, other| {
                thread::sleep(Duration::from_millis(20));
                fs::copy(other, db).unwrap();
            }));
        }
        for (name, act) in acts {
            fs::copy(&other, &db).unwrap();
            let error = disturbed(&db, &bak, || act(&db, &other)).unwrap_err();
            assert!(matches!(error, RunError::SourceChanged { .. }), "{journal} {name}: {error}");
            assert!(fs::read(&bak).unwrap() == good, "{journal} {name}");
        }
    }
}

#[test]
fn a_locked_database_and_a_broken_one_are_errors() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    fs::write(&db, vec![7; 8192]).unwrap();
    let error = back_up(job(&db), &[&bak]).unwrap_err();
    assert!(matches!(error, RunError::DatabaseFile(_)), "{error}");
    assert_eq!(dir.names(), ["a.db"]);
}

#[test]
fn a_run_is_cancelled_and_leaves_nothing() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    drop(database(&db, 4096, "delete", 9000));
    let cancel = AtomicBool::new(false);
    let progress = |_: Progress| cancel.store(true, Ordering::Relaxed);
    let run = Run { progress: Some(&progress), cancel: Some(&cancel), ..Run::default() };
    let error = backup(job(&db), targets(&[&bak]), &run).unwrap_err();
    assert!(matches!(error, RunError::Cancelled));
    assert_eq!(dir.names(), ["a.db"]);
}

#[test]
fn progress_ends_at_the_total() {
    let dir = Dir::new();
    let (db, bak): (PathBuf, PathBuf) = (dir.path("a.db"), dir.path("a.bak"));
    drop(database(&db, 4096, "delete", 3000));
    for differential in [false, true] {
        let last = std::sync::Mutex::new(Progress::default());
        let progress = |now: Progress| {
            let mut last = last.lock().unwrap();
            if now.done_bytes >= last.done_bytes {
                *last = now;
            }
        };
        let run = Run { progress: Some(&progress), ..Run::default() };
        backup(BackupJob { differential, ..job(&db) }, targets(&[&bak]), &run).unwrap();
        let last = *last.lock().unwrap();
        assert_eq!(Some(last.done_bytes), last.total_bytes);
        assert_eq!(last.done_bytes, fs::metadata(&db).unwrap().len());
    }
}

/// A stream that fails after some bytes.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = out.len().min(self.0).min(777);
        self.0 -= len;
        out[..len].fill(1);
        if len == 0 { Err(io::Error::other("torn")) } else { Ok(len) }
    }
}

#[test]
fn a_stream_that_fails_leaves_earlier_sets() {
    let dir = Dir::new();
    let bak = dir.path("s.bak");
    let job = |source| BackupJob {
        encryption: encryption(),
        mode: Mode::Append,
        ..BackupJob::new(source)
    };
    back_up(job(stream(b"first")), &[&bak]).unwrap();
    let before = fs::read(&bak).unwrap();
    let broken = Source::Stream(StreamSource { reader: Box::new(Broken(3_000_000)) });
    let error = back_up(job(broken), &[&bak]).unwrap_err();
    assert!(matches!(error, RunError::Stream { .. }), "{error}");
    assert!(fs::read(&bak).unwrap() == before);
}
