//! The list of seals and the anchor, damaged in every byte, truncated anywhere, replaced by older
//! ones: an error or the right data, never other data, and no command reports that all is well.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::databases::{Dir, dump, fill, one, open, place};
use rusqlite::Connection;
use serde_json::Value;
use tdekit_faults_sqlite::form::exhaustive;

/// The files of a database with freshness, as a crash would leave them: the last state is in
/// `files`, earlier ones are in `older`.
struct Subject {
    dir: Dir,
    /// Main file, list, anchor, and the log if there is one.
    files: Vec<(PathBuf, Vec<u8>)>,
    older: Vec<Vec<(PathBuf, Vec<u8>)>>,
    /// Content of the database in each of the states, the last one last.
    contents: Vec<Vec<String>>,
}

const LIST: usize = 1;
const ANCHOR: usize = 2;
/// Length of the log index's headers. The number of copied frames comes next.
const INDEX_HEADERS_LEN: usize = 96;

impl Subject {
    fn new(mode: &str) -> Self {
        let dir = Dir::new();
        let (path, anchor) = encrypted(&dir);
        let db = open(&path);
        let set = format!("PRAGMA journal_mode = {mode}");
        db.query_row(&set, [], |_| Ok(())).unwrap();
        db.execute_batch("PRAGMA synchronous = FULL").unwrap();
        let mut names = vec![path.clone(), dir.path("app.db-seals"), anchor];
        if mode == "wal" {
            names.push(dir.path("app.db-wal"));
        }
        let take = || -> Vec<_> {
            names.iter().map(|name| (name.clone(), fs::read(name).unwrap_or_default())).collect()
        };
        let (mut states, mut contents) = (Vec::new(), Vec::new());
        for n in 0..3 {
            db.execute("UPDATE t SET a = 'state ' || ?1 WHERE id > ?1", [n]).unwrap();
            if mode == "wal" && n == 1 {
                // Frames that the main file has and frames that it does not have.
                db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
            }
            states.push(take());
            contents.push(dump(&db));
        }
        drop(db);
        let files = states.pop().unwrap();
        Self { dir, files, older: states, contents }
    }

    fn path(&self) -> &Path {
        &self.files[0].0
    }

    /// Writes the files, some of them replaced by others.
    fn put(&self, others: &[(usize, &[u8])]) {
        for suffix in ["-shm", "-wal", "-journal", "-seals2"] {
            let _ = fs::remove_file(self.dir.path(&format!("app.db{suffix}")));
        }
        for (index, (name, bytes)) in self.files.iter().enumerate() {
            let other = others.iter().find(|(which, _)| *which == index);
            fs::write(name, other.map_or(bytes.as_slice(), |(_, bytes)| bytes)).unwrap();
        }
    }

    /// Returns true if an application can read the whole database; the data read must be the last
    /// state.
    fn reads(&self, what: &str) -> bool {
        self.reads_one_of(what, &self.contents[self.contents.len() - 1..])
    }

    fn reads_one_of(&self, what: &str, legal: &[Vec<String>]) -> bool {
        let whole = Connection::open(self.path()).and_then(|db| {
            let told = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
            Ok((told == "ok").then_some(db))
        });
        let Ok(Some(db)) = whole else { return false };
        let found = dump(&db);
        assert!(legal.contains(&found), "{what}: {found:#?}");
        true
    }

    /// Every command that judges a database must report the current files.
    fn is_told(&self, what: &str) {
        let name = self.path().to_str().unwrap();
        assert!(!self.reads(what), "{what} was read");
        let before: Vec<_> = self.files.iter().map(|(name, _)| fs::read(name).unwrap()).collect();
        let run = place().run(["freshness", "status", name, "--json"]);
        assert_eq!(run.code, 4, "{what}: {run:?}");
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(told["last_state"], false, "{what}: {told}");
        let run = place().run(["doctor", name, "--json"]);
        assert_eq!(run.code, 4, "{what}: {run:?}");
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert!(!told[0]["findings"].as_array().unwrap().is_empty(), "{what}: {told}");
        // Header and key are sound, and `status` covers only those.
        let told: serde_json::Value =
            serde_json::from_str(&place().run(["status", name, "--json"]).out).unwrap();
        assert_eq!(told[0]["encryption"]["key_opens"], true, "{what}: {told}");
        let after: Vec<_> = self.files.iter().map(|(name, _)| fs::read(name).unwrap()).collect();
        assert!(before == after, "{what}: a look has changed the files");
    }
}

/// Makes a database of 30 rows with freshness, and returns its anchor.
fn encrypted(dir: &Dir) -> (PathBuf, PathBuf) {
    let path = dir.path("app.db");
    fill(&path, 30);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert", "--freshness"]);
    let told = place().json(["freshness", "status", path.to_str().unwrap(), "--json"]);
    (path, PathBuf::from(told["anchor"].as_str().unwrap()))
}

/// A connection that uses a log, pins each commit, and copies nothing by itself.
fn with_log(path: &Path) -> Connection {
    let db = open(path);
    db.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())).unwrap();
    db.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0").unwrap();
    db
}

/// Writes to the index of the log, as a dying process leaves it.
fn write_index(dir: &Dir, bytes: &[u8], at: usize) {
    let index = fs::OpenOptions::new().write(true).open(dir.path("app.db-shm")).unwrap();
    index.write_all_at(bytes, at as u64).unwrap();
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << (at % 8);
    bytes
}

fn every_byte(mode: &str) {
    let subject = Subject::new(mode);
    subject.put(&[]);
    assert!(subject.reads("as it was left"), "{mode}");
    let mut refused = [0, 0];
    for (index, refused) in [LIST, ANCHOR].into_iter().zip(&mut refused) {
        let bytes = subject.files[index].1.clone();
        // With a log each check is a recovery, with its syncs: the short form takes every fifth.
        let step = if mode == "wal" && !exhaustive() { 5 } else { 1 };
        for at in (0..bytes.len()).step_by(step) {
            subject.put(&[(index, &flipped(&bytes, at))]);
            *refused += usize::from(!subject.reads(&format!("{mode}: byte {at} of {index}")));
        }
        for len in (0..bytes.len()).step_by(7 * step) {
            subject.put(&[(index, &bytes[..len])]);
            *refused += usize::from(!subject.reads(&format!("{mode}: {index} cut to {len}")));
        }
    }
    let (list, anchor) = (subject.files[LIST].1.len(), subject.files[ANCHOR].1.len());
    // Every byte of the list matters. Of the anchor, those of the slot in force do; with a log, an
    // earlier one may name frames that exist as well.
    let (least_list, least_anchor) =
        if mode == "wal" { (list / 5, 24) } else { (list + list / 7, 480) };
    assert!(refused[0] >= least_list, "{mode}: {refused:?} of {list}");
    assert!(refused[1] >= least_anchor && refused[1] < anchor + anchor / 7, "{mode}: {refused:?}");
    subject.put(&[]);
    assert!(subject.reads("as it was left"), "{mode}");
}

#[test]
fn no_flipped_byte_and_no_cut_gives_other_data_with_a_rollback_journal() {
    every_byte("delete");
}

#[test]
fn no_flipped_byte_and_no_cut_gives_other_data_with_a_log() {
    every_byte("wal");
}

/// Each mix of current and earlier files. With the current anchor, the result is an error or the
/// last state; with an older one, which the threat model permits, an earlier state, and no mixture.
#[test]
fn each_mix_with_older_files_is_told_by_every_command() {
    for mode in ["delete", "wal"] {
        let subject = Subject::new(mode);
        let count = subject.files.len();
        let mut told = 0;
        for older in &subject.older {
            for mix in 1..1_u32 << count {
                let mixed = |index: &usize| {
                    mix >> index & 1 == 1 && subject.files[*index].1 != older[*index].1
                };
                let others: Vec<_> =
                    (0..count).filter(mixed).map(|at| (at, older[at].1.as_slice())).collect();
                let what = format!("{mode}: {:?}", others.iter().map(|o| o.0).collect::<Vec<_>>());
                subject.put(&others);
                if mixed(&ANCHOR) {
                    subject.reads_one_of(&what, &subject.contents);
                } else if !subject.reads(&what) {
                    told += 1;
                    if told % 3 == 1 {
                        subject.put(&others);
                        subject.is_told(&what);
                    }
                }
            }
        }
        assert!(told >= 4, "{mode}: {told}");
    }
}

/// SQLite takes a file without pages for a new database, and does not read a page that is in its
/// log.
#[test]
fn a_main_file_that_was_cut_to_its_header_or_has_an_older_page_is_told() {
    const HEADER_LEN: usize = 16384;
    for mode in ["delete", "wal"] {
        let mut subject = Subject::new(mode);
        // Without the log, whose frames would be missing.
        subject.put(&[]);
        let db = open(subject.path());
        db.query_row("PRAGMA journal_mode = delete", [], |_| Ok(())).unwrap();
        db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
        drop(db);
        subject.files.truncate(ANCHOR + 1);
        for (name, bytes) in &mut subject.files {
            *bytes = fs::read(name).unwrap();
        }
        let file = subject.files[0].1.clone();
        subject.put(&[]);
        assert!(subject.reads("as it was left"), "{mode}");

        subject.put(&[(0, &file[..HEADER_LEN])]);
        subject.is_told(&format!("{mode}: a main file cut to its header"));
        let name = subject.path().to_str().unwrap();
        let made = open(subject.path()).execute_batch("CREATE TABLE new(x)");
        assert!(made.is_err(), "{mode}: a database was begun where one was cut off");
        let set = subject.dir.path("cut.bak");
        let run = place().run(["backup", name, "--to", set.to_str().unwrap()]);
        assert_eq!((run.code, set.exists()), (4, false), "{mode}: {run:?}");
        subject.put(&[]);
        assert!(subject.reads("put back"), "{mode}");

        let older = &subject.older[0][0].1;
        let pages = (HEADER_LEN..file.len().min(older.len())).step_by(4096);
        let mut told = 0;
        for at in pages.filter(|&at| older[at..at + 4096] != file[at..at + 4096]) {
            let mut mixed = file.clone();
            mixed[at..at + 4096].copy_from_slice(&older[at..at + 4096]);
            subject.put(&[(0, &mixed)]);
            subject.is_told(&format!("{mode}: an older page at {at}"));
            told += 1;
        }
        assert!(told > 0, "{mode}");
    }
}

#[test]
fn a_damaged_list_or_anchor_is_told_by_every_command_and_accepted_by_word_alone() {
    let subject = Subject::new("delete");
    let name = subject.path().to_str().unwrap().to_owned();
    let (list, anchor) = (subject.files[LIST].1.clone(), subject.files[ANCHOR].1.clone());
    for (what, index, bytes) in [
        ("a flipped list", LIST, flipped(&list, list.len() / 2)),
        ("a cut list", LIST, list[..list.len() - 1].to_vec()),
        ("an empty list", LIST, Vec::new()),
        ("an empty anchor", ANCHOR, Vec::new()),
        ("an anchor of zeros", ANCHOR, vec![0; anchor.len()]),
        ("an anchor of noise", ANCHOR, anchor.iter().map(|byte| byte ^ 0x5a).collect()),
    ] {
        subject.put(&[(index, &bytes)]);
        subject.is_told(what);
        // Nor is it overwritten.
        let written = Connection::open(subject.path())
            .and_then(|db| db.execute_batch("UPDATE t SET a = 'lost'"));
        assert!(written.is_err(), "{what}");
        place().ok(["freshness", "accept", &name]);
        assert!(subject.reads(what), "{what}");
        let told = place().json(["freshness", "status", &name, "--json"]);
        assert_eq!(told["last_state"], true, "{what}");
        let db = open(subject.path());
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 30);
    }
}

/// A reader keeps a checkpoint from the latest frame of a new page, so the checkpoint leaves a gap,
/// which it fills. If it is killed before it has listed anything, the next one does so.
#[test]
fn a_checkpoint_after_one_that_was_killed_leaves_a_list_that_can_be_read() {
    let dir = Dir::new();
    let (path, anchor) = encrypted(&dir);
    let name = path.to_str().unwrap();
    let (db, reader) = (with_log(&path), open(&path));
    db.execute_batch(
        "BEGIN; CREATE TABLE first(x); CREATE TABLE second(x);
         INSERT INTO first VALUES (1); INSERT INTO second VALUES (zeroblob(40000)); COMMIT",
    )
    .unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(one::<i64>(&reader, "SELECT x FROM first"), 1);
    // Of the pages that the transaction above wrote, page 1 and a new one get later frames.
    db.execute_batch("BEGIN; UPDATE first SET x = 2; PRAGMA user_version = 7; COMMIT").unwrap();

    let before = [dir.path("app.db-seals"), anchor].map(|name| {
        let bytes = fs::read(&name).unwrap();
        (name, bytes)
    });
    let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
    assert_eq!(one::<i64>(&db, checkpoint), 0);
    for (name, bytes) in before {
        assert!(fs::read(&name).unwrap() != bytes, "the checkpoint has listed nothing");
        fs::write(name, bytes).unwrap();
    }
    write_index(&dir, &[0; 4], INDEX_HEADERS_LEN);
    let next = open(&path);
    assert_eq!(one::<i64>(&next, checkpoint), 0);

    let check = || {
        let db = open(&path);
        assert_eq!(one::<i64>(&db, "SELECT x FROM first"), 2);
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
    };
    check();
    drop((reader, db, next));
    check();
    let told = place().json(["freshness", "status", name, "--json"]);
    assert_eq!(told["last_state"], true, "{told}");
    place().ok(["doctor", name]);
}

/// A writer that dies after its frames are pinned, and before the index has them, leaves their
/// place to the next writer. A connection that has listed them must not take that for an older log.
#[test]
fn frames_of_a_writer_that_died_may_be_written_over() {
    let dir = Dir::new();
    let (path, _) = encrypted(&dir);
    let connect = || with_log(&path);
    let (dying, next, reader) = (connect(), connect(), connect());
    let set = |db: &Connection, to: &str| {
        db.execute("UPDATE t SET a = ?1", [to]).unwrap();
    };
    set(&dying, "first");
    let index = fs::read(dir.path("app.db-shm")).unwrap();
    set(&dying, "never told");
    let count = |what: &str| {
        let rows = format!("SELECT count(*) FROM t WHERE a = '{what}'");
        one::<i64>(&reader, &rows)
    };
    assert_eq!(count("never told"), 30);

    write_index(&dir, &index[..INDEX_HEADERS_LEN], 0);
    std::mem::forget(dying);
    set(&next, "second");
    assert_eq!(count("second"), 30);
    assert_eq!(one::<i64>(&connect(), "SELECT count(*) FROM t WHERE a = 'second'"), 30);
    assert_eq!(one::<i64>(&next, "PRAGMA wal_checkpoint(PASSIVE)"), 0);
    assert_eq!(count("second"), 30);
}

/// A connection that was open before a rotation encounters a log that begins under the new key,
/// before it has encountered that key in the main file.
#[test]
fn a_log_under_a_new_key_is_no_older_one() {
    let dir = Dir::new();
    let (path, _) = encrypted(&dir);
    let before = with_log(&path);
    let count = |db: &Connection, what: &str| {
        one::<i64>(db, &format!("SELECT count(*) FROM t WHERE a = '{what}'"))
    };
    before.execute("UPDATE t SET a = 'first'", []).unwrap();
    assert_eq!(count(&before, "first"), 30);
    assert_eq!(one::<i64>(&before, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    let name = path.to_str().unwrap();
    assert_ne!(place().run(["rotate", "--stop-after=second-slot", name]).code, 0);
    let after = with_log(&path);
    after
        .execute_batch("BEGIN; PRAGMA user_version = 7; UPDATE t SET a = 'second'; COMMIT")
        .unwrap();
    assert_eq!(count(&before, "second"), 30);
    before.execute("UPDATE t SET a = 'third'", []).unwrap();
    assert_eq!(count(&after, "third"), 30);
}

/// The header of a time without freshness, and no page.
#[test]
fn an_older_header_alone_is_told() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 30);
    let name = path.to_str().unwrap();
    place().ok(["encrypt", name, "--certificate", "AppCert"]);
    let older = fs::read(&path).unwrap()[..16384].to_vec();
    place().ok(["freshness", "on", name]);
    fs::write(&path, older).unwrap();
    let read = open(&path).query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    assert!(read.is_err());
    let run = place().run(["doctor", name]);
    assert_eq!(run.code, 4, "{run:?}");
}
