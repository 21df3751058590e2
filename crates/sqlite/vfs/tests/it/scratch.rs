//! A plain database that is sealed on disk while it is copied from.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::support::{one, setup};
use rusqlite::{Connection, OpenFlags};
use tdekit_sqlite::scratch::Scratch;
use tempfile::TempDir;

const MARKER: &str = "Zanzibar-Marker-4711";

/// Returns a plain database's pages, in one of SQLite's journal modes.
fn plain_database(dir: &Path, page_size: u32, mode: &str) -> Vec<u8> {
    let path = dir.join("plain.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!(
        "PRAGMA page_size = {page_size}; PRAGMA journal_mode = {mode};
         CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE INDEX i ON t(a);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < 3000)
         INSERT INTO t SELECT x, '{MARKER} ' || x FROM n"
    ))
    .unwrap();
    drop(db);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    bytes
}

fn scratch(path: &Path, page_size: u32) -> Scratch {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    Scratch::new(file, page_size).unwrap()
}

fn open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?{parameters}", path.display()), flags)
}

fn holds_marker(path: &Path) -> bool {
    fs::read(path).unwrap().windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}

#[test]
fn pages_come_back_in_any_order_and_are_copied_to_an_encrypted_database() {
    setup();
    for (page_size, mode) in [(512, "DELETE"), (1024, "WAL"), (4096, "WAL"), (65536, "DELETE")] {
        let dir = TempDir::new().unwrap();
        let bytes = plain_database(dir.path(), page_size, mode);
        let path = dir.path().join("staged");
        let scratch = scratch(&path, page_size);
        let pages = bytes.chunks(page_size as usize);
        let count = u32::try_from(pages.len()).unwrap();
        for (page, plain) in (1..=count).zip(pages).collect::<Vec<_>>().into_iter().rev() {
            scratch.write(page, plain).unwrap();
        }
        scratch.write(1, &bytes[..2 * page_size as usize]).unwrap();
        let mut read = vec![1];
        for page in [2, count] {
            scratch.read(page, &mut read).unwrap();
            let at = page as usize * page_size as usize;
            assert!(read == bytes[at - page_size as usize..at], "{page_size} {page}");
        }
        scratch.read(count + 1, &mut read).unwrap();
        assert!(read.is_empty());
        scratch.set_pages(count);
        assert!(!holds_marker(&path));
        let db = open(&path, &scratch.parameters()).unwrap();
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 3000);
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        let copy = dir.path().join("copy.db");
        db.execute_batch("PRAGMA page_size = 4096").unwrap();
        let target = format!("file:{}?tdekit_certificate=TestCert&reserve=48", copy.display());
        db.execute("VACUUM INTO ?1", [target]).unwrap();
        assert!(fs::read(&copy).unwrap().starts_with(b"tdekit database\0") && !holds_marker(&copy));
        let copied = Connection::open(&copy).unwrap();
        assert_eq!(one::<i64>(&copied, "SELECT count(*) FROM t"), 3000);
    }
}

#[test]
fn it_opens_only_while_its_writer_lives_and_only_unchanged() {
    setup();
    let dir = TempDir::new().unwrap();
    let bytes = plain_database(dir.path(), 4096, "DELETE");
    let path = dir.path().join("staged");
    let scratch = scratch(&path, 4096);
    scratch.write(1, &bytes).unwrap();
    scratch.set_pages(u32::try_from(bytes.len() / 4096).unwrap());
    let parameters = scratch.parameters();
    let content = "SELECT count(a) FROM t NOT INDEXED";
    assert_eq!(one::<i64>(&open(&path, &parameters).unwrap(), content), 3000);
    assert!(scratch.write(0, &bytes).is_err() && scratch.write(1, &bytes[..100]).is_err());
    assert!(open(&path, "mode=ro&immutable=1&tdekit_scratch=00").is_err());
    let sealed = fs::read(&path).unwrap();
    let stride = 4096 + 40;
    let mut flipped = sealed.clone();
    flipped[4096 + 7] ^= 1;
    let mut swapped = sealed.clone();
    swapped[4096..4096 + stride].copy_from_slice(&sealed[4096 + stride..4096 + 2 * stride]);
    for wrong in [flipped, swapped] {
        fs::write(&path, wrong).unwrap();
        let read = open(&path, &parameters)
            .and_then(|db| db.query_row(content, [], |row| row.get::<_, i64>(0)));
        assert!(read.is_err());
    }
    fs::write(&path, sealed).unwrap();
    drop(scratch);
    assert!(open(&path, &parameters).is_err());
}
