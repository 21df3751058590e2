//! Known answers of `docs/format/freshness.md`, from an implementation in Python that shares no
//! code with ours, and its reading of the fixture.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tdekit_sqlite_page::fresh::{
    ANCHOR_LEN, ListAnchor, ListMark, LogAnchor, LogMark, Tag, apply_record, decode_snapshot,
    encode_record, encode_snapshot, frame_digest, journal_mark, log_id, record_digest,
    snapshot_digest,
};

#[derive(Deserialize)]
struct File {
    fixture: Fixture,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Fixture {
    anchor: String,
    sequence: u64,
    len: u64,
    digest: String,
    tags: String,
}

#[derive(Deserialize)]
struct Vector {
    file_id: String,
    snapshot: String,
    records: String,
    digest: String,
    tags: String,
    journal_mark: String,
    wal_header: String,
    prefixes: String,
    seals: String,
    log: String,
    prepared: String,
    file: u8,
    switching: bool,
    sequence: u64,
    list_slot: String,
    log_slot: String,
}

fn tests_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests").join(name)
}

fn file() -> File {
    let text = fs::read_to_string(tests_dir("vectors/tdekit-freshness.json")).unwrap();
    let file: File = serde_json::from_str(&text).unwrap();
    assert_eq!(file.vectors.len(), 3);
    file
}

fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

fn array<const N: usize>(hex: &str) -> [u8; N] {
    bytes(hex).try_into().unwrap()
}

/// Returns the state after the records: digest and tags. Encodes each record again on the way.
fn follow(snapshot: &[u8], mut records: &[u8], file_id: &[u8; 16]) -> ([u8; 32], Vec<Tag>) {
    let mut tags = decode_snapshot(file_id, snapshot).unwrap();
    assert_eq!(encode_snapshot(file_id, &tags).unwrap(), snapshot);
    let mut digest = snapshot_digest(snapshot);
    while !records.is_empty() {
        let used = apply_record(records, &mut tags).unwrap();
        digest = record_digest(&digest, &records[..used]);
        let entries: Vec<(u32, Tag)> = records[8..used]
            .chunks(20)
            .map(|e| (u32::from_le_bytes(e[..4].try_into().unwrap()), e[4..].try_into().unwrap()))
            .collect();
        let pages = u32::try_from(tags.len()).unwrap();
        assert_eq!(encode_record(pages, entries.into_iter()).unwrap(), records[..used]);
        records = &records[used..];
    }
    (digest, tags)
}

#[test]
fn lists_logs_and_anchors_are_those_of_the_second_implementation() {
    for vector in file().vectors {
        let file_id = array(&vector.file_id);
        let (snapshot, records) = (bytes(&vector.snapshot), bytes(&vector.records));
        let (digest, tags) = follow(&snapshot, &records, &file_id);
        assert_eq!((digest, tags.concat()), (array(&vector.digest), bytes(&vector.tags)));
        assert_eq!(journal_mark(&digest), array(&vector.journal_mark));
        let frames = bytes(&vector.prefixes).len() / 72;
        let (prefixes, seals) = (bytes(&vector.prefixes), bytes(&vector.seals));
        let of_log = prefixes
            .chunks(72)
            .zip(seals.chunks(48))
            .fold([0; 32], |before, (p, s)| frame_digest(&before, p, s.try_into().unwrap()));
        let mark = LogMark {
            id: log_id(&bytes(&vector.wal_header)),
            frames: u32::try_from(frames).unwrap(),
            digest: of_log,
        };
        let shown = [&mark.id[..], &mark.frames.to_le_bytes(), &mark.digest].concat();
        assert_eq!(shown, bytes(&vector.log));
        let prepared = bytes(&vector.prepared);
        let list = ListAnchor {
            sequence: vector.sequence,
            file: vector.file,
            switching: vector.switching,
            snapshot_len: snapshot.len() as u64,
            base: ListMark { len: (snapshot.len() + records.len()) as u64, digest },
            prepared: (!prepared.is_empty()).then(|| ListMark {
                len: u64::from_le_bytes(prepared[..8].try_into().unwrap()),
                digest: prepared[8..].try_into().unwrap(),
            }),
            copied: mark,
        };
        let log = LogAnchor { sequence: vector.sequence, mark };
        let mut anchor = vec![0; ANCHOR_LEN];
        let expected = [bytes(&vector.list_slot), bytes(&vector.log_slot)];
        for ((at, slot), expected) in
            [list.encode(&file_id), log.encode(&file_id)].into_iter().zip(expected)
        {
            assert_eq!(slot[..], expected);
            let at = usize::try_from(at).unwrap();
            anchor[at..at + slot.len()].copy_from_slice(&slot);
        }
        assert_eq!(ListAnchor::decode(&anchor, &file_id), Some(list));
        assert_eq!(LogAnchor::decode(&anchor, &file_id), Some(log));
    }
}

#[test]
fn the_fixture_is_read_as_the_second_implementation_reads_it() {
    let expected = file().fixture;
    let dir = tests_dir("fixtures/2/sqlite");
    let file_id = array(expected.anchor.strip_suffix(".anchor").unwrap());
    let anchor = fs::read(dir.join("store/anchors").join(&expected.anchor)).unwrap();
    let list = ListAnchor::decode(&anchor, &file_id).unwrap();
    let digest = array(&expected.digest);
    assert_eq!((list.sequence, list.base.len), (expected.sequence, expected.len));
    assert_eq!(list.base, ListMark { len: expected.len, digest });
    assert!(!list.switching && list.prepared.is_none());
    let seals = fs::read(dir.join("fresh.db-seals")).unwrap();
    let (snapshot, rest) = seals.split_at(usize::try_from(list.snapshot_len).unwrap());
    let records = &rest[..usize::try_from(list.base.len - list.snapshot_len).unwrap()];
    let (found, tags) = follow(snapshot, records, &file_id);
    assert_eq!((found, tags.concat()), (digest, bytes(&expected.tags)));
}

#[test]
fn the_vectors_are_what_the_second_implementation_computes() {
    let made = Command::new("python3")
        .args(["-B".as_ref(), tests_dir("vectors/freshness.py").as_os_str(), "--check".as_ref()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
