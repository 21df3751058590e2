//! Ordinary use through the bundled library.

use std::fs;

use crate::support::{create, create_with, one, open, setup};
use rusqlite::Connection;
use tempfile::TempDir;

const MARKER: &str = "Zanzibar-Marker-4711";

fn fill(db: &Connection, rows: u32) {
    db.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB); CREATE INDEX i ON t(a)",
    )
    .unwrap();
    let sql = format!(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < {rows})
         INSERT INTO t SELECT x, '{MARKER} ' || x, randomblob(100) FROM n"
    );
    db.execute_batch(&sql).unwrap();
}

fn assert_sealed(dir: &TempDir) {
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let found = bytes.windows(MARKER.len()).any(|w| w == MARKER.as_bytes());
        assert!(!found, "plaintext in {}", path.display());
    }
}

#[test]
fn every_algorithm_and_journal_mode_round_trips() {
    for algorithm in ["AES_128", "AES_192", "AES_256", "AEGIS_128X2", "AEGIS_256X2"] {
        for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"] {
            let dir = TempDir::new().unwrap();
            let path = dir.path().join("a.db");
            let db = create_with(&path, algorithm);
            let set: String = one(&db, &format!("PRAGMA journal_mode={mode}"));
            assert_eq!(set, mode.to_lowercase());
            fill(&db, 3000);
            db.execute_batch("DELETE FROM t WHERE id % 3 = 0; UPDATE t SET a = a || '!'").unwrap();
            assert_sealed(&dir);
            drop(db);
            assert_sealed(&dir);
            let db = open(&path).unwrap();
            assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 2000, "{algorithm} {mode}");
            assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
            assert_eq!(one::<String>(&db, "SELECT a FROM t WHERE id=1"), format!("{MARKER} 1!"));
        }
    }
}

#[test]
fn every_page_size_round_trips() {
    for log2 in 10..=16 {
        for mode in ["DELETE", "WAL"] {
            let dir = TempDir::new().unwrap();
            let path = dir.path().join("a.db");
            let db = create(&path);
            db.execute_batch(&format!("PRAGMA page_size={}", 1 << log2)).unwrap();
            let _: String = one(&db, &format!("PRAGMA journal_mode={mode}"));
            fill(&db, 2000);
            drop(db);
            let db = open(&path).unwrap();
            assert_eq!(one::<i64>(&db, "PRAGMA page_size"), 1 << log2);
            assert_eq!(one::<i64>(&db, "SELECT sum(id) FROM t"), 2_001_000);
            assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        }
    }
}

#[test]
fn plain_databases_pass_through() {
    setup();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("plain.db");
    let db = open(&path).unwrap();
    fill(&db, 100);
    drop(db);
    assert!(fs::read(&path).unwrap().starts_with(b"SQLite format 3\0"));
    let db = open(&path).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 100);
}

#[test]
fn vacuum_keeps_content_and_refuses_another_page_size() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    let db = create(&path);
    fill(&db, 5000);
    let other = open(&path).unwrap();
    assert_eq!(one::<i64>(&other, "SELECT count(*) FROM t"), 5000);
    db.execute_batch("DELETE FROM t WHERE id % 7 = 1; VACUUM").unwrap();
    let rows: i64 = one(&db, "SELECT count(*) FROM t");
    for size in [1024, 65536, 8192] {
        let changed = db.execute_batch(&format!("PRAGMA page_size={size}; VACUUM"));
        assert!(changed.is_err(), "{size}");
        let why: String = one(&db, "SELECT tdekit_last_error()");
        assert!(why.contains("VACUUM INTO") || why.contains("reserved"), "{why}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        assert_eq!(one::<i64>(&other, "SELECT count(*) FROM t"), rows, "{size}");
        let copy = dir.path().join(format!("{size}.db"));
        db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        let copy = open(&copy).unwrap();
        assert_eq!(one::<i64>(&copy, "PRAGMA page_size"), size);
        assert_eq!(one::<i64>(&copy, "SELECT count(*) FROM t"), rows);
    }
    assert_sealed(&dir);
}

/// After a transaction that was undone SQLite keeps the page size of an empty database.
#[test]
fn an_empty_database_takes_another_page_size_by_vacuum() {
    for from in (10..=16).map(|log2| 1 << log2) {
        for to in (10..=16).map(|log2| 1 << log2) {
            let dir = TempDir::new().unwrap();
            let path = dir.path().join("a.db");
            let db = create(&path);
            db.execute_batch(&format!(
                "PRAGMA page_size={from}; BEGIN; CREATE TABLE undone(x); ROLLBACK;"
            ))
            .unwrap();
            assert_eq!(one::<i64>(&db, "PRAGMA page_count"), 0);
            let other = open(&path).unwrap();
            db.execute_batch(&format!("PRAGMA page_size={to}; VACUUM")).unwrap();
            assert_eq!(one::<i64>(&db, "PRAGMA page_size"), to, "from {from}");
            fill(&db, 300);
            assert_eq!(one::<i64>(&other, "SELECT count(*) FROM t"), 300, "{from} to {to}");
            drop((db, other));
            assert_sealed(&dir);
            let db = open(&path).unwrap();
            assert_eq!(one::<i64>(&db, "PRAGMA page_size"), to, "from {from}");
            assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        }
    }
}

#[test]
fn pages_without_room_for_a_seal_become_larger_ones() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    let db = create(&path);
    // SQLite's own rule if more than 32 bytes are reserved.
    db.execute_batch("PRAGMA page_size=512; CREATE TABLE t(x); INSERT INTO t VALUES(1)").unwrap();
    drop(db);
    assert_sealed(&dir);
    let db = open(&path).unwrap();
    assert_eq!(one::<i64>(&db, "PRAGMA page_size"), 1024);
    assert_eq!(one::<i64>(&db, "SELECT x FROM t"), 1);
}

#[test]
fn vacuum_into_stays_encrypted_unless_told_otherwise() {
    let dir = TempDir::new().unwrap();
    let db = create(&dir.path().join("a.db"));
    fill(&db, 2000);
    let copy = dir.path().join("copy.db");
    db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    assert_sealed(&dir);
    assert_eq!(one::<i64>(&open(&copy).unwrap(), "SELECT count(*) FROM t"), 2000);
    let plain = dir.path().join("plain.db");
    // The reserve is copied, but the policy was satisfied.
    db.execute("VACUUM INTO ?1", [format!("file:{}?tdekit=plain", plain.display())]).unwrap();
    assert!(fs::read(&plain).unwrap().starts_with(b"SQLite format 3\0"));
}

#[test]
fn vacuum_into_encrypts_a_plain_database() {
    setup();
    let dir = TempDir::new().unwrap();
    let db = open(&dir.path().join("plain.db")).unwrap();
    fill(&db, 2000);
    let sealed = TempDir::new().unwrap();
    let path = sealed.path().join("sealed.db");
    let target =
        format!("file:{}?tdekit_certificate={}", path.display(), crate::support::CERTIFICATE);
    db.execute("VACUUM INTO ?1", [target]).unwrap();
    assert_sealed(&sealed);
    let copy = open(&path).unwrap();
    assert_eq!(one::<i64>(&copy, "SELECT sum(id) FROM t"), 2_001_000);
    assert_eq!(one::<String>(&copy, "PRAGMA integrity_check"), "ok");
}

#[test]
fn backup_from_encrypted_to_plain_is_refused() {
    let dir = TempDir::new().unwrap();
    let db = create(&dir.path().join("a.db"));
    fill(&db, 20_000);
    let plain = TempDir::new().unwrap();
    for (file, mode) in [("p.db", "DELETE"), ("w.db", "WAL")] {
        let mut target = open(&plain.path().join(file)).unwrap();
        let _: String = one(&target, &format!("PRAGMA journal_mode={mode}"));
        target.execute_batch("CREATE TABLE x(y)").unwrap();
        let copied = rusqlite::backup::Backup::new(&db, &mut target)
            .and_then(|b| b.run_to_completion(10_000, std::time::Duration::ZERO, None));
        assert!(copied.is_err(), "{file}");
    }
}

#[test]
fn backup_between_encrypted_databases_and_inbound_refusal() {
    let dir = TempDir::new().unwrap();
    let db = create(&dir.path().join("a.db"));
    fill(&db, 20_000);
    let mut target = create(&dir.path().join("b.db"));
    {
        let backup = rusqlite::backup::Backup::new(&db, &mut target).unwrap();
        backup.run_to_completion(1000, std::time::Duration::ZERO, None).unwrap();
    }
    assert_eq!(one::<i64>(&target, "SELECT count(*) FROM t"), 20_000);
    assert_sealed(&dir);
    let other = TempDir::new().unwrap();
    let plain = open(&other.path().join("p.db")).unwrap();
    fill(&plain, 20_000);
    let backup = rusqlite::backup::Backup::new(&plain, &mut target).unwrap();
    assert!(backup.run_to_completion(1000, std::time::Duration::ZERO, None).is_err());
    drop(backup);
    assert_eq!(one::<i64>(&target, "SELECT count(*) FROM t"), 20_000);
}

#[test]
fn attach_plain_and_encrypted_together() {
    let dir = TempDir::new().unwrap();
    let db = create(&dir.path().join("a.db"));
    fill(&db, 100);
    let plain = dir.path().join("plain.db");
    db.execute("ATTACH ?1 AS p", [plain.to_str().unwrap()]).unwrap();
    let uri = format!(
        "file:{}?tdekit_certificate={}",
        dir.path().join("b.db").display(),
        crate::support::CERTIFICATE
    );
    db.execute("ATTACH ?1 AS b", [uri]).unwrap();
    db.execute_batch(
        "BEGIN; CREATE TABLE p.x(y); CREATE TABLE b.x(y);
         INSERT INTO p.x SELECT id FROM t; INSERT INTO b.x SELECT a FROM t; DELETE FROM t; COMMIT",
    )
    .unwrap();
    drop(db);
    assert!(fs::read(&plain).unwrap().starts_with(b"SQLite format 3\0"));
    let b = open(&dir.path().join("b.db")).unwrap();
    assert_eq!(one::<i64>(&b, "SELECT count(*) FROM x"), 100);
    let found = fs::read(dir.path().join("b.db")).unwrap();
    assert!(!found.windows(MARKER.len()).any(|w| w == MARKER.as_bytes()));
}

#[test]
fn savepoints_spills_and_auto_vacuum() {
    for mode in ["DELETE", "WAL"] {
        for vacuum in ["NONE", "FULL", "INCREMENTAL"] {
            let dir = TempDir::new().unwrap();
            let db = create(&dir.path().join("a.db"));
            db.execute_batch(&format!("PRAGMA auto_vacuum={vacuum}; PRAGMA cache_size=5")).unwrap();
            let _: String = one(&db, &format!("PRAGMA journal_mode={mode}"));
            fill(&db, 3000);
            db.execute_batch(
                "BEGIN; SAVEPOINT a; DELETE FROM t WHERE id > 100; UPDATE t SET a = 'x';
                 SAVEPOINT b; INSERT INTO t(a) SELECT a FROM t; ROLLBACK TO b;
                 ROLLBACK TO a; UPDATE t SET a = a || '?' WHERE id % 2; COMMIT;
                 PRAGMA incremental_vacuum",
            )
            .unwrap();
            assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 3000, "{mode} {vacuum}");
            assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t WHERE a LIKE '%?'"), 1500);
            db.execute_batch(
                "BEGIN; DELETE FROM t WHERE id > 10; ROLLBACK; DELETE FROM t WHERE id > 2000",
            )
            .unwrap();
            let sorted: String =
                one(&db, "SELECT group_concat(a) FROM (SELECT a FROM t ORDER BY b)");
            assert!(sorted.len() > 1000);
            assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
            assert_sealed(&dir);
        }
    }
}

#[test]
fn a_database_whose_header_alone_was_written_goes_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    fill(&create(&path), 10);
    let header = fs::read(&path).unwrap()[..16384].to_vec();
    fs::write(&path, &header).unwrap();
    let db = open(&path).unwrap();
    fill(&db, 100);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 100);
    drop(db);
    assert_sealed(&dir);
    assert_eq!(fs::read(&path).unwrap()[..16384], header);
    assert_eq!(one::<i64>(&open(&path).unwrap(), "SELECT count(*) FROM t"), 100);
}

#[test]
fn damaged_headers_are_errors_and_one_good_slot_serves() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    fill(&create(&path), 10);
    let whole = fs::read(&path).unwrap();
    for slot in [0, 8192] {
        let mut torn = whole.clone();
        torn[slot..slot + 8192].fill(0);
        fs::write(&path, &torn).unwrap();
        assert_eq!(one::<i64>(&open(&path).unwrap(), "SELECT count(*) FROM t"), 10);
    }
    for length in [1, 16, 100, 4096, 8192, 16383] {
        fs::write(&path, &whole[..length]).unwrap();
        let read = open(&path)
            .and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
        assert!(read.is_err(), "{length}");
    }
    let mut future = whole.clone();
    for slot in [0, 8192] {
        future[slot + 16] = 9;
    }
    fs::write(&path, &future).unwrap();
    assert!(open(&path).and_then(|db| db.execute_batch("SELECT * FROM t")).is_err());
}
