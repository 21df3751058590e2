//! The conditions under which new databases become encrypted.

use std::fs;
use std::path::Path;

use crate::support::{CERTIFICATE, create, one, open, setup};
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

const MARK: [u8; 16] = *b"\xf7tdekit creating";
const WRITE: &str = "CREATE TABLE made(x); INSERT INTO made VALUES(1)";

/// Opens a file with stock SQLite, beside ours.
fn stock(path: &Path) -> Connection {
    setup();
    Connection::open(format!("file:{}?vfs=unix", path.display())).unwrap()
}

fn foreign() -> Vec<(&'static str, Vec<u8>)> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("plain.db");
    stock(&path).execute_batch("CREATE TABLE kept(x); INSERT INTO kept VALUES(7)").unwrap();
    let mut damaged = fs::read(&path).unwrap();
    damaged[..16].fill(b'?');
    let noise = |len: u32| {
        (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect::<Vec<_>>()
    };
    let mut second = vec![0; 16384];
    second[8192..8208].copy_from_slice(&MARK);
    vec![
        ("a text", b"Dear diary, this is no database.\n".to_vec()),
        ("a short text", b"tde".to_vec()),
        ("12 KiB of noise", noise(12 * 1024)),
        ("16 KiB of noise", noise(16 * 1024)),
        ("20 KiB of noise", noise(20 * 1024)),
        ("zeros of a sector", vec![0; 512]),
        ("zeros of a header", vec![0; 16384]),
        ("a damaged plain database", damaged),
        ("the mark in the second slot", second),
        ("a part of the mark", MARK[..7].to_vec()),
    ]
}

/// The result equals stock SQLite's: "file is not a database", and the file is unchanged.
#[test]
fn a_foreign_file_is_never_written_over() {
    for (what, bytes) in foreign() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        for (top, connect) in [("stock", stock as fn(&Path) -> Connection), ("ours", create)] {
            fs::write(&path, &bytes).unwrap();
            let db = connect(&path);
            for sql in ["SELECT count(*) FROM sqlite_schema", WRITE, "PRAGMA journal_mode=WAL"] {
                let refused = db.execute_batch(sql).map_err(|e| e.sqlite_error_code());
                assert_eq!(refused, Err(Some(ErrorCode::NotADatabase)), "{what}, {top}: {sql}");
            }
            drop(db);
            assert_eq!(fs::read(&path).unwrap(), bytes, "{what}, {top}");
        }
    }
}

/// The states in which a creation may stop: the mark alone or a part of it, the second slot, the
/// first slot up to any sector.
fn unfinished() -> Vec<Vec<u8>> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("whole.db");
    create(&path).execute_batch(WRITE).unwrap();
    let area = fs::read(&path).unwrap()[..16384].to_vec();
    let mut states = vec![MARK[..8].to_vec(), MARK.to_vec()];
    for end in [8192 + 512, 8192 + 4096, 16384] {
        let mut state = vec![0; end];
        state[..16].copy_from_slice(&MARK);
        state[8192..].copy_from_slice(&area[8192..end]);
        states.push(state.clone());
        state[8192..].fill(0xa5);
        states.push(state);
    }
    states
}

#[test]
fn a_creation_that_was_cut_short_is_done_again() {
    for state in unfinished() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        fs::write(&path, &state).unwrap();
        let db = create(&path);
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM sqlite_schema"), 0);
        db.execute_batch(WRITE).unwrap();
        drop(db);
        assert!(fs::read(&path).unwrap().starts_with(b"tdekit database\0"));
        assert_eq!(one::<i64>(&open(&path).unwrap(), "SELECT x FROM made"), 1);
    }
}

/// It should be encrypted: it does not become a plain one by accident.
#[test]
fn a_creation_that_was_cut_short_becomes_plain_by_request_only() {
    for state in unfinished() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        fs::write(&path, &state).unwrap();
        let db = open(&path).unwrap();
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM sqlite_schema"), 0);
        let refused = db.execute_batch(WRITE).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::NotADatabase), "{refused}");
        let why: String = one(&db, "SELECT tdekit_last_error()");
        assert!(why.contains("cut short"), "{why}");
        drop(db);
        assert_eq!(fs::read(&path).unwrap(), state);
        let db = open(Path::new(&format!("file:{}?tdekit=plain", path.display()))).unwrap();
        db.execute_batch(WRITE).unwrap();
        drop(db);
        assert!(fs::read(&path).unwrap().starts_with(b"SQLite format 3\0"));
        assert_eq!(one::<i64>(&stock(&path), "SELECT x FROM made"), 1);
    }
}

#[test]
fn an_attached_foreign_file_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let db = create(&dir.path().join("a.db"));
    let path = dir.path().join("note.txt");
    fs::write(&path, "a note").unwrap();
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path.display());
    let attached = db
        .execute("ATTACH ?1 AS n", [&uri])
        .and_then(|_| db.execute_batch("CREATE TABLE n.made(x)"));
    assert_eq!(attached.unwrap_err().sqlite_error_code(), Some(ErrorCode::NotADatabase));
    let vacuumed = db.execute("VACUUM INTO ?1", [&uri]);
    assert!(vacuumed.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "a note");
}
