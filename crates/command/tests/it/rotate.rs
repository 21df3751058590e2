//! `rotate`: a new key for a database that others use at the same time.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::databases::{Dir, SmallDisk, dump, encrypt, fill, one, open, place};
use rusqlite::Connection;

const PAGE_LEN: usize = 4096;
const HEADER_LEN: usize = 16384;

fn database(dir: &Dir, mode: &str) -> PathBuf {
    database_at(dir.path("app.db"), mode)
}

fn database_at(path: PathBuf, mode: &str) -> PathBuf {
    fill(&path, 3000);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert"]);
    let db = open(&path);
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    // Some pages are on the freelist.
    db.execute_batch("CREATE TABLE gone(x); INSERT INTO gone VALUES (zeroblob(200000))").unwrap();
    db.execute_batch("DROP TABLE gone").unwrap();
    path
}

/// Returns the key version that each page of the main file names (docs/format/page.md).
fn versions_in(path: &Path) -> Vec<u32> {
    let bytes = fs::read(path).unwrap();
    let version = |page: &[u8]| u32::from_le_bytes(page[4088..4092].try_into().unwrap());
    bytes[HEADER_LEN..].chunks_exact(PAGE_LEN).map(version).collect()
}

fn state(path: &Path) -> (u64, Vec<u64>) {
    state_with(path, 2)
}

fn state_with(path: &Path, slots: u64) -> (u64, Vec<u64>) {
    let told = place().json(["status", path.to_str().unwrap(), "--json"]);
    let encryption = &told[0]["encryption"];
    assert_eq!(encryption["key_opens"], true, "{told}");
    assert_eq!(encryption["intact_header_slots"], slots, "{told}");
    let versions = encryption["key_versions"].as_array().unwrap();
    let state = told[0]["encryption_state"].as_u64().unwrap();
    (state, versions.iter().map(|v| v.as_u64().unwrap()).collect())
}

fn rotate(path: &Path) -> String {
    place().ok(["rotate", path.to_str().unwrap()]).out
}

#[test]
fn every_page_is_sealed_under_the_new_key_and_the_old_one_is_gone() {
    for mode in ["delete", "persist", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        let before = open(&path);
        let content = dump(&before);
        assert!(rotate(&path).contains("key version 2"), "{mode}");
        assert_eq!(state(&path), (3, vec![2]), "{mode}");
        assert!(rotate(&path).contains("key version 3"), "{mode}");
        assert_eq!(state(&path), (3, vec![3]), "{mode}");
        assert_eq!(dump(&before), content, "{mode}: the connection that was open");
        before.execute_batch("INSERT INTO t(a) VALUES ('later')").unwrap();
        drop(before);
        assert!(versions_in(&path).iter().all(|&version| version == 3), "{mode}");
        let after = open(&path);
        assert_eq!(one::<String>(&after, "PRAGMA integrity_check"), "ok");
        assert_eq!(one::<i64>(&after, "SELECT count(*) FROM t WHERE a = 'later'"), 1);
    }
}

/// The checksum of a slot needs no key and so is not protected by the MAC: a holder of the key must
/// not rely on it for the whole slot.
#[test]
fn a_page_that_claims_the_new_version_keeps_the_old_key() {
    let dir = Dir::new();
    let path = database(&dir, "delete");
    let before = dump(&open(&path));
    let bytes = fs::read(&path).unwrap();
    // The last page: its version is 8 bytes before its end.
    let at = bytes.len() - 8;
    let version = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut changed = bytes.clone();
    changed[at..at + 4].copy_from_slice(&(version + 1).to_le_bytes());
    fs::write(&path, &changed).unwrap();
    let told = place().fails(4, [Path::new("rotate"), &path]);
    assert!(!told.contains("Rotated"), "{told}");
    let mut mended = fs::read(&path).unwrap();
    mended[at..at + 4].copy_from_slice(&version.to_le_bytes());
    fs::write(&path, &mended).unwrap();
    rotate(&path);
    assert_eq!(dump(&open(&path)), before);
}

#[test]
fn a_slot_that_was_torn_before_its_mac_is_not_in_force() {
    const SLOT_LEN: usize = HEADER_LEN / 2;
    let dir = Dir::new();
    let path = database(&dir, "truncate");
    let content = dump(&open(&path));
    let run = place().run(["rotate", path.to_str().unwrap(), "--stop-after=proved"]);
    assert_eq!(run.code, -1, "{run:?}");
    let before = fs::read(&path).unwrap();
    rotate(&path);
    let after = fs::read(&path).unwrap();
    for slot in [0, SLOT_LEN] {
        let body = usize::from(u16::from_le_bytes(after[slot + 20..][..2].try_into().unwrap()));
        let mut torn = before.clone();
        torn[slot..][..body + 32].copy_from_slice(&after[slot..][..body + 32]);
        fs::write(&path, &torn).unwrap();
        assert_eq!(state_with(&path, 1), (4, vec![1, 2]), "{slot}");
        assert_eq!(dump(&open(&path)), content, "{slot}");
        assert!(rotate(&path).contains("from where it was"), "{slot}");
        assert_eq!(state(&path), (3, vec![2]), "{slot}");
        assert_eq!(dump(&open(&path)), content, "{slot}");
    }
}

#[test]
fn a_rotation_that_was_killed_leaves_a_database_that_opens_and_goes_on() {
    for mode in ["delete", "wal"] {
        for step in ["first-slot", "second-slot", "swept", "proved"] {
            let dir = Dir::new();
            let path = database(&dir, mode);
            let content = dump(&open(&path));
            let stop = format!("--stop-after={step}");
            let run = place().run(["rotate", path.to_str().unwrap(), &stop]);
            assert_eq!(run.code, -1, "{mode} {step}: {run:?}");
            let (shown, versions) = state(&path);
            assert_eq!((shown, versions), (4, vec![1, 2]), "{mode} {step}");
            let db = open(&path);
            assert_eq!(dump(&db), content, "{mode} {step}");
            db.execute_batch("INSERT INTO t(a) VALUES ('between')").unwrap();
            drop(db);
            assert!(rotate(&path).contains("from where it was"), "{mode} {step}");
            assert_eq!(state(&path), (3, vec![2]), "{mode} {step}");
            assert!(versions_in(&path).iter().all(|&version| version == 2), "{mode} {step}");
            let db = open(&path);
            assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t WHERE a = 'between'"), 1);
            assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        }
    }
}

/// Returns the algorithms that `status` names, and the format version.
fn algorithms(path: &Path) -> (String, u64) {
    let told = place().json(["status", path.to_str().unwrap(), "--json"]);
    let encryption = &told[0]["encryption"];
    let names = encryption["algorithms"].as_array().unwrap();
    assert_eq!(encryption["algorithm"], names[0]);
    let names: Vec<_> = names.iter().map(|name| name.as_str().unwrap()).collect();
    (names.join(" "), encryption["format_version"].as_u64().unwrap())
}

#[test]
fn a_key_changes_to_another_algorithm_and_what_is_open_follows() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        let name = path.to_str().unwrap();
        let before = open(&path);
        let content = dump(&before);
        assert_eq!(algorithms(&path), ("AES_256".to_owned(), 1));
        let to = ["rotate", name, "--algorithm", "aegis_256x2"];
        place().run([to.as_slice(), &["--stop-after=second-slot"]].concat());
        assert_eq!(algorithms(&path), ("AEGIS_256X2 AES_256".to_owned(), 3), "{mode}");
        // Pages of both, written by a process that was there before.
        before.execute_batch("INSERT INTO t(a) VALUES ('later')").unwrap();
        assert_eq!(one::<i64>(&open(&path), "SELECT count(*) FROM t WHERE a = 'later'"), 1);
        let shown = place().ok(["status", name]).out;
        assert!(shown.contains("AEGIS_256X2; pages under older keys: AES_256"), "{shown}");
        let told = place().json(["rotate", "--status", "--json", name]);
        assert_eq!(told[0]["algorithms"], serde_json::json!(["AEGIS_256X2", "AES_256"]));
        assert!(place().run(["doctor", name]).out.contains("AEGIS_256X2, AES_256: "));
        let other = place().fails(1, ["rotate", name, "--algorithm", "AES_128"]);
        assert!(other.contains("to AEGIS_256X2 has begun and is not done"), "{other}");
        assert!(other.contains("without --algorithm"), "{other}");
        assert_eq!(algorithms(&path).1, 3, "{mode}");
        let told = rotate(&path);
        assert!(told.contains("from where it was") && told.contains("AEGIS_256X2"), "{told}");
        assert_eq!(algorithms(&path), ("AEGIS_256X2".to_owned(), 1), "{mode}");
        before.execute_batch("DELETE FROM t WHERE a = 'later'").unwrap();
        assert_eq!(dump(&before), content, "{mode}: the connection that was open");
        drop(before);
        // Each algorithm in turn, finally back to the first.
        for algorithm in ["AES_128", "AES_192", "AEGIS_128X2", "AES_256"] {
            place().ok(["rotate", name, "--algorithm", algorithm]);
            assert_eq!(algorithms(&path), (algorithm.to_owned(), 1), "{mode}");
        }
        assert_eq!(dump(&open(&path)), content, "{mode}");
        assert_eq!(state(&path), (3, vec![6]), "{mode}");
    }
}

#[test]
fn a_database_with_freshness_changes_to_another_algorithm() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let name = path.to_str().unwrap();
    place().ok(["freshness", "on", name]);
    let content = dump(&open(&path));
    place().run(["rotate", name, "--algorithm=AES_128", "--stop-after=swept"]);
    assert_eq!(algorithms(&path), ("AES_128 AES_256".to_owned(), 3));
    assert_eq!(dump(&open(&path)), content);
    place().ok(["rotate", name, "--algorithm=AES_128"]);
    assert_eq!(algorithms(&path), ("AES_128".to_owned(), 2));
    let said = place().ok(["freshness", "status", name]).out;
    assert!(said.contains("in its last state"), "{said}");
    assert_eq!(dump(&open(&path)), content);
}

/// Leaves `free` bytes of space on the disk of `ballast`.
fn fill_disk(ballast: &Path, free: u64) {
    let mut file = fs::File::create(ballast).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let full = file.metadata().unwrap().len();
    file.set_len(full - free).unwrap();
}

#[test]
fn a_full_disk_cuts_the_key_change_short_and_the_next_run_goes_on() {
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let Some(disk) = SmallDisk::mount(&dir, "8m") else { return };
        let path = database_at(disk.0.join("app.db"), mode);
        let content = dump(&open(&path));
        let ballast = disk.0.join("ballast");
        fill_disk(&ballast, 200 << 10);
        let told = place().fails(7, ["rotate", path.to_str().unwrap()]);
        let begun = format!(
            "the disk is full; the key change of {} has begun, its content is as it was",
            path.display()
        );
        assert!(told.contains(&begun), "{mode}: {told}");
        assert!(told.contains("`tdekit rotate` then goes on"), "{mode}: {told}");
        assert_eq!(state(&path), (4, vec![1, 2]), "{mode}");
        fs::remove_file(ballast).unwrap();
        assert_eq!(dump(&open(&path)), content, "{mode}");
        assert!(rotate(&path).contains("from where it was"), "{mode}");
        assert_eq!(state(&path), (3, vec![2]), "{mode}");
        assert_eq!(dump(&open(&path)), content, "{mode}");
    }
}

#[test]
fn a_rotation_that_is_stopped_says_that_it_has_begun() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let db = open(&path);
    // The rotation waits for it, at its end.
    db.execute_batch("INSERT INTO t(a) VALUES ('later'); BEGIN; SELECT count(*) FROM t").unwrap();
    let mut command = place().command(["rotate", path.to_str().unwrap()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while state(&path).0 != 4 {
        thread::sleep(Duration::from_millis(20));
    }
    let stop = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stop.success());
    let done = child.wait_with_output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("stopped; the key change of"), "{told}");
    assert!(!told.contains("nothing was changed"), "{told}");
    drop(db);
    assert!(rotate(&path).contains("from where it was"));
}

fn write_until(stop: &AtomicBool, path: &Path, writer: i64) -> i64 {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(30)).unwrap();
    db.execute_batch("PRAGMA cache_size=10; PRAGMA wal_autocheckpoint=30").unwrap();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE; INSERT INTO log VALUES ({writer}, {n}, randomblob(3000));
             DELETE FROM log WHERE writer = {writer} AND n = {n} - 40; COMMIT"
        ))
        .unwrap_or_else(|error| panic!("writer {writer}, {n}: {error}"));
        let last: i64 = one(&db, &format!("SELECT max(n) FROM log WHERE writer = {writer}"));
        assert_eq!(last, n);
        thread::sleep(Duration::from_millis(2));
    }
    n
}

/// Connections that were open before continue through rotations that are killed at any time.
#[test]
fn writers_lose_nothing_while_rotations_are_killed() {
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        open(&path).execute_batch("CREATE TABLE log(writer, n, body)").unwrap();
        let stop = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (stop, path) = (&stop, &path);
                    scope.spawn(move || write_until(stop, path, writer))
                })
                .collect();
            for millis in [60, 150, 300, 450, 600] {
                let mut command = place().command(["rotate", path.to_str().unwrap()]);
                let mut child =
                    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                thread::sleep(Duration::from_millis(millis));
                let _ = child.kill();
                child.wait().unwrap();
            }
            for _ in 0..2 {
                rotate(&path);
            }
            stop.store(true, Ordering::Relaxed);
            writers.into_iter().map(|w| w.join().unwrap()).collect::<Vec<_>>()
        });
        let db = open(&path);
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{mode}");
        // SQLite does not share a journal's lock fairly.
        assert!(written.iter().sum::<i64>() > 60, "{mode}: {written:?}");
        for (writer, n) in (0..).zip(written) {
            let sql = format!("SELECT count(*) FROM log WHERE writer = {writer}");
            assert_eq!(one::<i64>(&db, &sql), n.min(40), "{mode}");
            let sql = format!("SELECT max(n) FROM log WHERE writer = {writer}");
            assert_eq!(one::<i64>(&db, &sql), n, "{mode}");
        }
        drop(db);
        let (shown, versions) = state(&path);
        assert_eq!((shown, versions.len()), (3, 1), "{mode}");
        let current = u32::try_from(versions[0]).unwrap();
        assert!(versions_in(&path).iter().all(|&version| version == current), "{mode}");
    }
}

/// A connection reads the header when it takes a lock; the header may be gone by then.
#[test]
fn a_file_that_somebody_cut_short_is_an_error_and_no_crash() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let db = open(&path);
    db.execute_batch("INSERT INTO t(a) VALUES ('later')").unwrap();
    assert!(one::<i64>(&db, "SELECT sum(length(b)) FROM t") > 0);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(2048).unwrap();
    let copied = db.query_row("PRAGMA wal_checkpoint", [], |row| row.get::<_, i64>(0));
    assert!(copied.is_err(), "{copied:?}");
}

#[test]
fn a_paused_rotation_stays_paused_until_it_is_resumed() {
    for mode in ["delete", "wal"] {
        let dir = Dir::new();
        let path = database(&dir, mode);
        let name = path.to_str().unwrap();
        let told = |path: &str| place().json(["rotate", "--status", "--json", path])[0].clone();
        assert_eq!((&told(name)["state"], &told(name)["key_version"]), (&"none".into(), &1.into()));
        for word in ["--pause", "--resume"] {
            let said = place().fails(1, ["rotate", word, name]);
            assert!(said.contains("no change of the key of"), "{word}: {said}");
        }
        assert_eq!(state(&path), (3, vec![1]), "{mode}: --resume begins nothing");

        // Started, and killed.
        let killed = place().run(["rotate", "--stop-after=second-slot", name]);
        assert_ne!(killed.code, 0, "{killed:?}");
        assert_eq!(state(&path), (4, vec![1, 2]), "{mode}");
        assert_eq!(told(name)["state"], "waiting", "{mode}");
        place().ok(["rotate", "--pause", name]);
        place().ok(["rotate", "--pause", name]);
        let paused = told(name);
        assert_eq!((&paused["state"], &paused["pages_left"]), (&"paused".into(), &paused["pages"]));
        let said = place().fails(1, ["rotate", name]);
        assert!(said.contains("paused") && said.contains("--resume"), "{said}");
        assert_eq!(state(&path), (4, vec![1, 2]), "{mode}");
        // In the meantime it is like any other database.
        let db = open(&path);
        db.execute_batch("INSERT INTO t(a) VALUES ('meanwhile'); VACUUM").unwrap();
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        drop(db);
        assert!(place().ok(["rotate", "--resume", name]).out.contains("key version 2"));
        assert_eq!(state(&path), (3, vec![2]), "{mode}");
        assert_eq!(told(name)["percent_complete"], 100.0);
        assert!(!dir.names().iter().any(|name| name.ends_with("-tdekit-paused")));

        // A note of an earlier change, as in a restored copy: the next change ignores it.
        fs::write(format!("{name}-tdekit-paused"), "2\n").unwrap();
        assert!(rotate(&path).contains("key version 3"), "{mode}");
        assert_eq!(state(&path), (3, vec![3]), "{mode}");
        assert!(!dir.names().iter().any(|name| name.ends_with("-tdekit-paused")));
        // An unknown note halts, until it is removed.
        fs::write(format!("{name}-tdekit-paused"), "?\n").unwrap();
        let said = place().fails(1, ["rotate", name]);
        assert!(said.contains("paused") && said.contains("--resume"), "{said}");
        assert!(place().ok(["rotate", "--resume", name]).out.contains("key version 4"));
    }
}

/// A change that is killed while it ends leaves the note of its end, which halts nothing.
#[test]
fn no_halt_comes_into_the_end_of_a_change() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let name = path.to_str().unwrap();
    let note = dir.path("app.db-tdekit-paused");
    assert_ne!(place().run(["rotate", "--stop-after=proved", name]).code, 0);
    assert_eq!(fs::read_to_string(&note).unwrap(), "finishing\n");
    assert_eq!(state(&path), (4, vec![1, 2]));
    let told = place().json(["rotate", "--status", "--json", name])[0].clone();
    assert_eq!(told["state"], "waiting");
    // To --pause, the change looks as if it were about to end.
    let said = place().fails(5, ["rotate", "--pause", name]);
    assert!(said.contains("in use"), "{said}");
    // One of the two comes first, and the other reports that.
    let waiting = {
        let mut command = place().command(["rotate", "--pause", name]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    thread::sleep(Duration::from_millis(300));
    let rotated = place().run(["rotate", name]);
    let paused = waiting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&paused.stderr).into_owned();
    if paused.status.success() {
        assert!(rotated.code == 1 && rotated.err.contains("paused"), "{rotated:?}");
        assert_eq!(state(&path), (4, vec![1, 2]));
        place().ok(["rotate", "--resume", name]);
    } else {
        assert!(said.contains("no change of the key of"), "{said}");
        assert_eq!(rotated.code, 0, "{rotated:?}");
    }
    assert_eq!(state(&path), (3, vec![2]));
    assert!(!note.exists());
}

/// Nobody was told of a halt with an incomplete note: a kill or a power cut left it.
#[test]
fn a_note_that_was_never_whole_halts_nothing() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let name = path.to_str().unwrap();
    let note = dir.path("app.db-tdekit-paused");
    for (version, text) in (2..).zip(["", "finishin", "2"]) {
        assert_ne!(place().run(["rotate", "--stop-after=second-slot", name]).code, 0);
        fs::write(&note, text).unwrap();
        let told = place().json(["rotate", "--status", "--json", name])[0].clone();
        assert_eq!(told["state"], "waiting", "{text:?}");
        assert!(rotate(&path).contains("from where it was"), "{text:?}");
        assert_eq!(state(&path), (3, vec![version]), "{text:?}");
        assert!(!note.exists(), "{text:?}");
    }
    // A halt at this time takes effect.
    assert_ne!(place().run(["rotate", "--stop-after=second-slot", name]).code, 0);
    fs::write(&note, "").unwrap();
    place().ok(["rotate", "--pause", name]);
    assert_eq!(fs::read_to_string(&note).unwrap(), "5\n");
    assert!(place().fails(1, ["rotate", name]).contains("paused"));
}

/// The header has the page size that was planned when the file was made.
#[test]
fn the_progress_of_a_database_whose_page_size_was_set_later_is_told_right() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    drop(open(&path));
    let db = Connection::open(format!("file:{}?tdekit_certificate=AppCert", path.display()));
    let db = db.unwrap();
    db.execute_batch("PRAGMA page_size=1024; CREATE TABLE t(a)").unwrap();
    db.execute_batch("INSERT INTO t VALUES (zeroblob(300000))").unwrap();
    let pages: u32 = one(&db, "PRAGMA page_count");
    drop(db);
    let name = path.to_str().unwrap();
    assert_ne!(place().run(["rotate", "--stop-after=second-slot", name]).code, 0);
    let told = place().json(["rotate", "--status", "--json", name])[0].clone();
    assert_eq!((&told["pages"], &told["pages_left"]), (&pages.into(), &pages.into()));
    assert!(rotate(&path).contains("key version 2"));
    let told = place().json(["rotate", "--status", "--json", name])[0].clone();
    assert_eq!((&told["pages"], &told["pages_left"]), (&pages.into(), &0.into()));
}

/// A header with two versions is not an emergency: nobody has to complete the change.
#[test]
fn a_rotation_that_is_never_finished_is_like_any_other_database() {
    let dir = Dir::new();
    let path = database(&dir, "wal");
    let name = path.to_str().unwrap();
    assert_ne!(place().run(["rotate", "--stop-after=second-slot", name]).code, 0);
    let mut rows = one::<u32>(&open(&path), "SELECT count(*) FROM t");
    for round in 0..24 {
        let db = open(&path);
        let mode = ["wal", "delete", "persist", "truncate"][round % 4];
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch(
            "BEGIN; INSERT INTO t(a) VALUES ('more'), ('and more');
             UPDATE t SET a = a || '.' WHERE id % 7 = 0; DELETE FROM t WHERE id = 11; COMMIT;
             BEGIN; DELETE FROM t; ROLLBACK",
        )
        .unwrap();
        if round % 5 == 4 {
            db.execute_batch("VACUUM").unwrap();
        }
        rows += 2 - u32::from(round == 0);
        assert_eq!(one::<u32>(&db, "SELECT count(*) FROM t"), rows, "round {round}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "round {round}");
        drop(db);
        if round % 8 == 7 {
            let (set, copy) = (dir.path("set.bak"), dir.path("copy.db"));
            place().ok(["backup", name, "--to", set.to_str().unwrap(), "--init", "--replace"]);
            place().ok(["restore", set.to_str().unwrap(), "--to", copy.to_str().unwrap()]);
            assert_eq!(dump(&open(&copy)), dump(&open(&path)), "round {round}");
            fs::remove_file(copy).unwrap();
        }
    }
    assert_eq!(state(&path), (4, vec![1, 2]));
    assert!(rotate(&path).contains("from where it was"));
    assert_eq!(state(&path), (3, vec![2]));
    assert_eq!(one::<u32>(&open(&path), "SELECT count(*) FROM t"), rows);
}

/// A rotation running while others write sees the note, stops in an orderly way, and continues
/// later.
#[test]
fn a_rotation_that_runs_is_paused_by_another_process() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 120_000);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert"]);
    let db = open(&path);
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    let name = path.to_str().unwrap();
    let stop = AtomicBool::new(false);
    let running = thread::scope(|scope| {
        // Other writers make it yield, so that it takes its time.
        scope.spawn(|| {
            let db = open(&path);
            db.busy_timeout(Duration::from_secs(30)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                db.execute_batch("UPDATE t SET a = a || '!' WHERE id % 9973 = 0").unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut running = place().command(["rotate", name]);
        let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut tries = 0;
        while tries < 2000 && place().run(["rotate", "--pause", name]).code != 0 {
            tries += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(tries < 2000, "it never begins");
        running
    });
    let ended = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("paused; the key change of"), "{said}");
    assert_eq!(state(&path), (4, vec![1, 2]));
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
    assert!(place().ok(["rotate", "--resume", name]).out.contains("from where it was"));
    assert_eq!(state(&path), (3, vec![2]));
}

/// With a journal it releases the lock only for moments, which a rotation must catch.
#[test]
fn a_writer_without_a_break_keeps_no_rotation_out() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 200);
    place().ok(["encrypt", path.to_str().unwrap(), "--certificate", "AppCert"]);
    let stop = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let db = open(&path);
            db.busy_timeout(Duration::from_secs(30)).unwrap();
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let sql = format!("BEGIN IMMEDIATE; UPDATE t SET a = {n} WHERE id = 1; COMMIT");
                db.execute_batch(&sql).unwrap();
            }
            n
        });
        let runs = [(); 3].map(|()| place().run(["rotate", path.to_str().unwrap()]));
        stop.store(true, Ordering::Relaxed);
        for run in runs {
            assert_eq!(run.code, 0, "{run:?}");
        }
        writer.join().unwrap()
    });
    assert_eq!(state(&path), (3, vec![4]));
    assert_eq!(one::<i64>(&open(&path), "SELECT CAST(a AS INTEGER) FROM t WHERE id = 1"), written);
}

/// There is no moment at which nobody reads the log, and it grows all the time.
#[test]
fn readers_of_whom_one_always_reads_keep_no_rotation_out() {
    let dir = Dir::new();
    let path = database(&dir, "WAL");
    open(&path).execute_batch("CREATE TABLE log(writer, n, body)").unwrap();
    let stop = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        for start_ms in [0, 80] {
            let (path, stop) = (&path, &stop);
            scope.spawn(move || {
                let db = open(path);
                thread::sleep(Duration::from_millis(start_ms));
                while !stop.load(Ordering::Relaxed) {
                    db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
                    thread::sleep(Duration::from_millis(160));
                    db.execute_batch("COMMIT").unwrap();
                }
            });
        }
        scope.spawn(|| write_until(&stop, &path, 1));
        let mut rotating = place().command(["rotate", path.to_str().unwrap()]).spawn().unwrap();
        let begun = Instant::now();
        while rotating.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(20));
        }
        let ended = rotating.try_wait().unwrap();
        stop.store(true, Ordering::Relaxed);
        rotating.kill().unwrap();
        ended
    });
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

/// A database that has no status hides that of no other one.
#[test]
fn status_names_a_database_that_cannot_be_shown() {
    let dir = Dir::new();
    let (plain, sealed) = (dir.path("plain.db"), dir.path("sealed.db"));
    fill(&plain, 10);
    fill(&sealed, 10);
    encrypt(&sealed, &[]);
    let names = [&plain, &sealed].map(|path| path.to_str().unwrap());
    let status = ["rotate", "--status", names[0], names[1], "/nowhere.db"];
    let run = place().run([&status[..], &["--json"]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    let told: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(told[0]["error"].as_str().unwrap().contains("is not encrypted"), "{told}");
    assert_eq!((&told[0]["path"], &told[1]["state"]), (&names[0].into(), &"none".into()));
    assert_eq!((&told[2]["path"], told.as_array().unwrap().len()), (&"/nowhere.db".into(), 3));
    let run = place().run(status);
    assert!(run.code == 1 && run.out.contains("no key changes"), "{run:?}");
    assert!(run.err.contains("is not encrypted") && run.err.contains("/nowhere.db"), "{run:?}");
}
