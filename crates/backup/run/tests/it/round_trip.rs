//! Restores equal the originals: page sizes, journal modes, compressions, algorithms, layouts.

use std::fs;
use std::path::Path;

use crate::common::*;
use rusqlite::Connection;
use tdekit_backup_run::{
    BackupJob, Compression, DatabaseSource, Encryption, FileSink, Media, Mode, Run, RunError,
    SetKind, Source, SourceKind,
};
use tdekit_key_crypto::Algorithm;

#[test]
fn databases_of_every_page_size_and_journal_mode() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        for journal in ["wal", "delete", "truncate", "persist"] {
            let dir = Dir::new();
            let (db, bak, to) = (dir.path("a.db"), dir.path("a.bak"), dir.path("b.db"));
            let open_db = database(&db, page_size, journal, 300);
            let outcome = back_up(job(&db), &[&bak]).unwrap();
            assert_eq!(outcome.page_size, page_size);
            assert_eq!(outcome.pages, outcome.pages_stored);
            let media = open(&[&bak]).unwrap();
            let restored = restore(&media, None, &to).unwrap();
            assert_eq!((restored.pages, restored.page_size), (outcome.pages, page_size));
            assert_eq!(state(&to), state(&db), "{page_size} {journal}");
            open_db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
            drop(open_db);
            let same = fs::read(&db).unwrap() == fs::read(&to).unwrap();
            assert!(same || journal == "wal", "{page_size} {journal}");
        }
    }
}

#[test]
fn every_compression_and_algorithm() {
    let dir = Dir::new();
    let db = dir.path("a.db");
    drop(database(&db, 4096, "delete", 3000));
    let expected = fs::read(&db).unwrap();
    let compressions = [
        Compression::None,
        Compression::Lz4,
        Compression::Zstd { level: 1 },
        Compression::Zstd { level: -3 },
        Compression::Zstd { level: 19 },
    ];
    let algorithms = Algorithm::all().iter().copied().map(Some).chain([None]);
    for (n, algorithm) in algorithms.enumerate() {
        for (m, compression) in compressions.into_iter().enumerate() {
            let (bak, to) = (dir.path(&format!("{n}-{m}.bak")), dir.path(&format!("{n}-{m}.db")));
            let encryption = algorithm.map(|algorithm| Encryption { algorithm, recipients: &KEY });
            let job = BackupJob { compression, encryption, ..job(&db) };
            back_up(job, &[&bak]).unwrap();
            let media = open(&[&bak]).unwrap();
            let info = media.set(None).unwrap();
            assert_eq!((info.compression, info.algorithm), (compression, algorithm));
            restore(&media, None, &to).unwrap();
            assert!(fs::read(&to).unwrap() == expected, "{algorithm:?} {compression:?}");
            let report = media.verify(None, Some(&KEY), &Run::default()).unwrap();
            assert!(report.opened && report.damages.is_empty());
            let without = media.verify(None, None, &Run::default()).unwrap();
            assert_eq!((without.opened, without.damages.len()), (algorithm.is_none(), 0));
            assert_eq!(without.blocks, report.blocks);
        }
    }
}

#[test]
fn streams_of_any_length() {
    let dir = Dir::new();
    let bak = dir.path("s.bak");
    let mib = 1 << 20;
    let text: Vec<u8> =
        (0..7 * mib + 5).map(|n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let lens = [0, 1, 4095, mib - 1, mib, mib + 1, 3 * mib, 7 * mib + 5];
    for len in lens {
        let bytes = &text[..len as usize];
        let job = BackupJob {
            encryption: encryption(),
            mode: Mode::Append,
            ..BackupJob::new(stream(bytes))
        };
        let outcome = back_up(job, &[&bak]).unwrap();
        assert_eq!((outcome.source_bytes, outcome.payload_bytes), (len.into(), len.into()));
    }
    let media = open(&[&bak]).unwrap();
    for (position, len) in (1..).zip(lens) {
        assert!(restore_bytes(&media, Some(position)).unwrap() == text[..len as usize]);
    }
    assert_eq!(media.sets().len(), lens.len());
    assert_eq!(media.set(None).unwrap().source, SourceKind::Stream);
    let mut sink = FileSink::new(dir.path("x"), false).unwrap();
    let refused = media.restore_database(None, Some(&KEY), &mut sink, &Run::default());
    assert!(matches!(refused, Err(RunError::WrongSource { .. })));
}

#[test]
fn an_empty_database_and_one_with_auto_vacuum() {
    let dir = Dir::new();
    let db = dir.path("empty.db");
    fs::write(&db, "").unwrap();
    let bak = dir.path("empty.bak");
    let outcome = back_up(job(&db), &[&bak]).unwrap();
    assert_eq!((outcome.pages, outcome.source_bytes), (0, 0));
    let to = dir.path("empty2.db");
    restore(&open(&[&bak]).unwrap(), None, &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"");
    let db = dir.path("vacuum.db");
    let open_db = Connection::open(&db).unwrap();
    open_db.execute_batch("PRAGMA auto_vacuum=INCREMENTAL").unwrap();
    open_db.execute_batch(SCHEMA).unwrap();
    add_rows(&open_db, 2000);
    open_db.execute_batch("DELETE FROM a WHERE id%3=0; DELETE FROM b WHERE id%3=0").unwrap();
    open_db.execute_batch("PRAGMA incremental_vacuum(10)").unwrap();
    back_up(job(&db), &[&dir.path("vacuum.bak")]).unwrap();
    let to = dir.path("vacuum2.db");
    restore(&open(&[&dir.path("vacuum.bak")]).unwrap(), None, &to).unwrap();
    assert_eq!(state(&to), state(&db));
    assert!(fs::read(&to).unwrap() == fs::read(&db).unwrap());
}

/// Makes a database of pages with 48 reserved bytes, as SQLite sees an encrypted one.
fn reserved_database(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("PRAGMA page_size=1024; PRAGMA user_version=1").unwrap();
    drop(db);
    let mut bytes = fs::read(path).unwrap();
    bytes[20] = 48;
    // Offset of the cells of page 1, which has none yet.
    bytes[105..107].copy_from_slice(&(1024_u16 - 48).to_be_bytes());
    fs::write(path, bytes).unwrap();
    let db = Connection::open(path).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    add_rows(&db, 500);
    drop(db);
    let mut bytes = fs::read(path).unwrap();
    bytes.chunks_exact_mut(1024).for_each(|page| page[976..].fill(0xAA));
    fs::write(path, bytes).unwrap();
}

#[test]
fn reserved_bytes_are_zeros_of_an_encrypted_database_and_kept_of_others() {
    let dir = Dir::new();
    let db = dir.path("a.db");
    reserved_database(&db);
    let source = |encrypted_file_id| {
        let connection = Connection::open(&db).unwrap();
        Source::Database(DatabaseSource { connection, path: db.clone(), encrypted_file_id })
    };
    let bak = dir.path("a.bak");
    for differential in [false, true] {
        let of_encrypted =
            BackupJob { source: Some(source(Some([3; 16]))), differential, ..job(&db) };
        back_up(of_encrypted, &[&bak]).unwrap();
    }
    back_up(BackupJob { source: Some(source(None)), ..job(&db) }, &[&bak]).unwrap();
    let media = open(&[&bak]).unwrap();
    let mut expected = fs::read(&db).unwrap();
    for position in [3, 2, 1] {
        let to = dir.path(&format!("{position}.db"));
        let outcome = restore(&media, Some(position), &to).unwrap();
        assert_eq!(outcome.reserved_bytes, 48);
        assert!(fs::read(&to).unwrap() == expected, "{position}");
        assert_eq!(state(&to), state(&db));
        expected.chunks_exact_mut(1024).for_each(|page| page[976..].fill(0));
    }
    let info = media.set(Some(1)).unwrap();
    assert_eq!((info.source_encrypted, info.database_id), (true, [3; 16]));
    assert_eq!(media.set(Some(2)).unwrap().base, Some(info.set_id));
}

#[test]
fn sets_are_appended_and_tell_what_they_are_without_a_key() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    let open_db = database(&db, 4096, "wal", 200);
    let mut states = Vec::new();
    for n in 1..=4 {
        let outcome = back_up(job(&db), &[&bak]).unwrap();
        assert_eq!(outcome.position, n);
        states.push(state(&db));
        add_rows(&open_db, 50);
    }
    let plain = BackupJob { encryption: None, ..job(&db) };
    let refused = back_up(plain, &[&bak]);
    assert!(matches!(refused, Err(RunError::MixedEncryption { has: "encrypted", .. })));
    let plain = BackupJob { encryption: None, allow_mixed: true, ..job(&db) };
    back_up(plain, &[&bak]).unwrap();
    states.push(state(&db));
    let refused = back_up(BackupJob { mode: Mode::Create, ..job(&db) }, &[&bak]);
    assert!(matches!(refused, Err(RunError::Exists { .. })));
    let media = open(&[&bak]).unwrap();
    assert!(media.findings().is_empty());
    for (n, set) in media.sets().iter().enumerate() {
        assert_eq!((set.position as usize, set.kind), (n + 1, SetKind::Full));
        assert_eq!(set.database_name, "main");
        assert_eq!(set.recipients.len(), usize::from(n < 4));
        let to = dir.path(&format!("{n}.db"));
        restore(&media, Some(set.position), &to).unwrap();
        assert_eq!(state(&to), states[n]);
    }
    let sum: u64 = media.sets().iter().map(|set| set.record_bytes).sum();
    assert_eq!(sum + 96, fs::metadata(&bak).unwrap().len());
    back_up(BackupJob { mode: Mode::Replace, ..job(&db) }, &[&bak]).unwrap();
    assert_eq!(open(&[&bak]).unwrap().sets().len(), 1);
    assert_ne!(open(&[&bak]).unwrap().id(), media.id());
}

#[test]
fn mirrors_are_equal_and_stripes_share() {
    let dir = Dir::new();
    let db = dir.path("a.db");
    let open_db = database(&db, 4096, "wal", 20_000);
    let mirrors = [dir.path("m1"), dir.path("m2"), dir.path("m3")];
    let mirrors: Vec<_> = mirrors.iter().map(|path| path.as_path()).collect();
    let stripes = [dir.path("s1"), dir.path("s2"), dir.path("s3")];
    let stripes: Vec<_> = stripes.iter().map(|path| path.as_path()).collect();
    for _ in 0..2 {
        back_up(job(&db), &mirrors).unwrap();
        back_up(striped(job(&db)), &stripes).unwrap();
        add_rows(&open_db, 100);
    }
    let first = fs::read(mirrors[0]).unwrap();
    assert!(mirrors.iter().all(|path| fs::read(path).unwrap() == first));
    back_up(job(&db), &mirrors).unwrap();
    // Stripes in another order.
    back_up(job(&db), &[stripes[2], stripes[0], stripes[1]]).unwrap();
    for paths in [&mirrors[..1], &mirrors, &stripes, &[stripes[1], stripes[2], stripes[0]]] {
        let media = open(paths).unwrap();
        assert_eq!((media.sets().len(), media.findings().len()), (3, 0));
        let to = dir.path("to");
        restore(&media, Some(3), &to).unwrap();
        assert_eq!(state(&to), state(&db));
        fs::remove_file(&to).unwrap();
        for position in 1..=3 {
            let report = media.verify(Some(position), Some(&KEY), &Run::default()).unwrap();
            assert!(report.damages.is_empty());
        }
    }
    let some = open(&stripes[..2]).unwrap();
    assert_eq!(some.sets().len(), 3);
    let refused = restore(&some, None, &dir.path("to"));
    assert!(matches!(refused, Err(RunError::MissingFamily { family: 2, families: 3 })));
    let told = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(told.starts_with("file 3 of the 3 "), "{told}");
    let refused = back_up(job(&db), &stripes[..2]);
    assert!(matches!(refused, Err(RunError::MissingFamily { .. })));
    let refused = open(&[mirrors[0], stripes[0]]);
    assert!(matches!(refused, Err(RunError::OtherMedia { .. })));
    let refused = back_up(job(&db), &[mirrors[0], &dir.path("new")]);
    assert!(matches!(refused, Err(RunError::TargetsDiffer { .. })));
    let _: Media = some;
}
