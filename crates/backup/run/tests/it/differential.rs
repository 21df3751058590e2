//! Differential sets: the changes since a full set, and chains of both.

use std::fs;
use std::path::Path;

use crate::common::*;
use rusqlite::Connection;
use tdekit_backup_run::{BackupJob, Compression, Mode, Run, RunError, SetKind};

fn differential(path: &Path) -> BackupJob<'static> {
    BackupJob { differential: true, ..job(path) }
}

fn restored_equals(dir: &Dir, bak: &Path, position: u32, expected: &Path) {
    let to = dir.path("to.db");
    restore(&open(&[bak]).unwrap(), Some(position), &to).unwrap();
    assert_eq!(state(&to), state(expected));
    fs::remove_file(&to).unwrap();
}

fn log(path: &Path) -> BackupJob<'static> {
    BackupJob { log: true, ..job(path) }
}

#[test]
fn each_log_backup_restores_its_own_state() {
    for (page_size, journal) in [(512, "delete"), (4096, "wal"), (65536, "wal")] {
        let dir = Dir::new();
        let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
        let open_db = database(&db, page_size, journal, 3000);
        let mut before = back_up(job(&db), &[&bak]).unwrap();
        let changes = [
            ("UPDATE a SET n=n+1 WHERE id=1500; UPDATE b SET n=n+1 WHERE id=1500", true),
            ("INSERT INTO a(n,pad) SELECT 1,randomblob(600) FROM a", true),
            // Shorter than those around it.
            ("DELETE FROM a WHERE id>100; DELETE FROM b WHERE id>100; VACUUM", true),
            ("UPDATE a SET n=n+5 WHERE id=7", false),
            // The page is again as it was two sets before.
            ("UPDATE a SET n=n-5 WHERE id=7", true),
            ("INSERT INTO a(n,pad) SELECT 1,randomblob(900) FROM a,b LIMIT 3000", true),
        ];
        let mut copies = Vec::new();
        for (n, (sql, is_log)) in changes.iter().enumerate() {
            open_db.execute_batch(sql).unwrap();
            let made = if *is_log { log(&db) } else { differential(&db) };
            let outcome = back_up(made, &[&bak]).unwrap();
            if *is_log {
                assert_eq!((outcome.kind, outcome.base), (SetKind::Log, Some(before.set_id)));
                assert_eq!(outcome.base_position, Some(before.position));
                before = outcome;
            }
            let copy = dir.path(&format!("copy{n}.db"));
            open_db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
            copies.push(copy);
        }
        for (position, copy) in (2..).zip(&copies) {
            restored_equals(&dir, &bak, position, copy);
            let report = open(&[&bak]).unwrap();
            let report = report.verify(Some(position), Some(&KEY), &Run::default()).unwrap();
            assert_eq!(report.damages, Vec::<String>::new());
        }
        let media = open(&[&bak]).unwrap();
        let last = media.set(Some(7)).unwrap();
        let chain: Vec<u32> = media.with_base(last).map(|set| set.position).collect();
        assert_eq!(chain, [1, 2, 3, 4, 6, 7]);
    }
}

#[test]
fn a_log_backup_without_its_chain_is_refused() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    let open_db = database(&db, 4096, "wal", 100);
    assert!(matches!(back_up(log(&db), &[&bak]), Err(RunError::NoBase { .. })));
    assert_eq!(dir.names().iter().filter(|name| name.ends_with("bak")).count(), 0);
    let copy_only = BackupJob { copy_only: true, ..job(&db) };
    back_up(copy_only, &[&bak]).unwrap();
    assert!(matches!(back_up(log(&db), &[&bak]), Err(RunError::NoBase { .. })));
    back_up(BackupJob { mode: Mode::Append, ..job(&db) }, &[&bak]).unwrap();
    for n in 0..2 {
        open_db.execute("UPDATE a SET n=n+?1 WHERE id=5", [n + 1]).unwrap();
        back_up(log(&db), &[&bak]).unwrap();
    }
    let keyless = BackupJob { base_keys: None, ..log(&db) };
    assert!(back_up(keyless, &[&bak]).is_err());
    // A flipped bit in the middle of the chain: the last set is not restored, the one before is.
    let mut bytes = fs::read(&bak).unwrap();
    let sets: Vec<usize> =
        bytes.windows(8).enumerate().filter(|it| it.1 == b"tdekset\n").map(|it| it.0).collect();
    let block = bytes[sets[2]..].windows(4).position(|it| it == b"tblk").unwrap();
    bytes[sets[2] + block + 100] ^= 1;
    fs::write(&bak, &bytes).unwrap();
    let media = open(&[&bak]).unwrap();
    let to = dir.path("to.db");
    assert!(restore(&media, Some(4), &to).is_err());
    assert!(!to.exists());
    restore(&media, Some(2), &to).unwrap();
}

#[test]
fn each_differential_set_restores_its_own_state() {
    for (page_size, journal) in [(512, "delete"), (4096, "wal"), (65536, "wal")] {
        let dir = Dir::new();
        let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
        let open_db = database(&db, page_size, journal, 3000);
        let full = back_up(job(&db), &[&bak]).unwrap();
        let changes = [
            "UPDATE a SET n=n+1 WHERE id=1500; UPDATE b SET n=n+1 WHERE id=1500",
            "DELETE FROM a WHERE id>1000; DELETE FROM b WHERE id>1000; VACUUM",
            "INSERT INTO a(n,pad) SELECT 1,randomblob(600) FROM a;
             INSERT INTO b(n,pad) SELECT 1,randomblob(600) FROM b;
             INSERT INTO a(n,pad) SELECT 1,randomblob(600) FROM a;
             INSERT INTO b(n,pad) SELECT 1,randomblob(600) FROM b;
             INSERT INTO a(n,pad) SELECT 1,randomblob(600) FROM a;
             INSERT INTO b(n,pad) SELECT 1,randomblob(600) FROM b",
        ];
        let mut copies = vec![dir.path("copy1.db")];
        open_db.execute("VACUUM INTO ?1", [copies[0].to_str().unwrap()]).unwrap();
        for (n, sql) in changes.iter().enumerate() {
            open_db.execute_batch(sql).unwrap();
            let outcome = back_up(differential(&db), &[&bak]).unwrap();
            assert_eq!((outcome.kind, outcome.base), (SetKind::Differential, Some(full.set_id)));
            assert_eq!(outcome.base_position, Some(1));
            if n == 0 {
                assert!(outcome.pages_stored <= 3, "{}", outcome.pages_stored);
            }
            let copy = dir.path(&format!("copy{}.db", n + 2));
            open_db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
            copies.push(copy);
        }
        for (position, copy) in (1..).zip(&copies) {
            restored_equals(&dir, &bak, position, copy);
            let report = open(&[&bak]).unwrap();
            let report = report.verify(Some(position), Some(&KEY), &Run::default()).unwrap();
            assert_eq!(report.damages, Vec::<String>::new());
        }
    }
}

#[test]
fn a_chain_of_full_and_differential_sets_in_stripes() {
    let dir = Dir::new();
    let db = dir.path("a.db");
    let paths = [dir.path("s1"), dir.path("s2")];
    let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
    let open_db = database(&db, 4096, "wal", 8000);
    let mut states = Vec::new();
    for n in 0..6 {
        let job = BackupJob { differential: n % 3 != 0, ..striped(job(&db)) };
        let outcome = back_up(job, &paths).unwrap();
        assert_eq!(outcome.base_position, if n % 3 == 0 { None } else { Some(n / 3 * 3 + 1) });
        states.push(state(&db));
        add_rows(&open_db, 1500);
    }
    let media = open(&paths).unwrap();
    for (position, expected) in (1..).zip(&states) {
        let to = dir.path(&format!("{position}.db"));
        let outcome = restore(&media, Some(position), &to).unwrap();
        assert_eq!(outcome.positions.last(), Some(&position));
        assert_eq!(state(&to), *expected);
    }
}

#[test]
fn an_unchanged_database_gives_an_empty_set() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    drop(database(&db, 4096, "delete", 5000));
    let packed = |job| BackupJob { compression: Compression::None, ..job };
    let full = back_up(packed(job(&db)), &[&bak]).unwrap();
    let outcome = back_up(packed(differential(&db)), &[&bak]).unwrap();
    assert_eq!((outcome.pages_stored, outcome.payload_bytes), (0, 0));
    assert_eq!(outcome.source_bytes, full.source_bytes);
    assert!(outcome.stored_bytes < full.stored_bytes / 100);
    restored_equals(&dir, &bak, 2, &db);
}

#[test]
fn a_base_must_be_there_and_fit() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    let open_db = database(&db, 4096, "delete", 500);
    let no_base = |job| {
        let error = back_up(job, &[&bak]).unwrap_err();
        assert!(matches!(error, RunError::NoBase { .. }), "{error}");
    };
    no_base(differential(&db));
    back_up(BackupJob { copy_only: true, ..job(&db) }, &[&bak]).unwrap();
    no_base(differential(&db));
    back_up(BackupJob { page_map: false, ..job(&db) }, &[&bak]).unwrap();
    no_base(differential(&db));
    back_up(job(&db), &[&bak]).unwrap();
    let mut other = differential(&db);
    other.labels.database_name = "other".to_owned();
    no_base(other);
    let keyless = BackupJob { base_keys: None, ..differential(&db) };
    let refused = back_up(keyless, &[&bak]);
    assert!(matches!(refused, Err(RunError::KeyNeeded { position: 3 })));
    let wrong = BackupJob { base_keys: Some(&Key(1)), ..differential(&db) };
    assert!(matches!(back_up(wrong, &[&bak]), Err(RunError::Store(_))));
    let created = BackupJob { mode: Mode::Create, ..differential(&db) };
    let refused = back_up(created, &[&dir.path("new")]);
    assert!(matches!(refused, Err(RunError::Option { .. })));
    back_up(differential(&db), &[&bak]).unwrap();
    open_db.execute_batch("PRAGMA page_size=8192; VACUUM").unwrap();
    no_base(differential(&db));
    assert_eq!(open(&[&bak]).unwrap().sets().len(), 4);
}

#[test]
fn a_base_that_was_exchanged_is_refused() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    let plain = |job| BackupJob { encryption: None, ..job };
    let open_db = database(&db, 4096, "delete", 500);
    back_up(plain(job(&db)), &[&bak]).unwrap();
    let base = fs::read(&bak).unwrap();
    add_rows(&open_db, 10);
    back_up(plain(differential(&db)), &[&bak]).unwrap();
    let mut both = fs::read(&bak).unwrap();
    // The time of completion in the base's trailer, with a matching checksum.
    let trailer = base.len() - 256;
    both[trailer + 64] ^= 1;
    let checksum = tdekit_key_crypto::sha256(&[&both[trailer..trailer + 184]]);
    both[trailer + 184..trailer + 216].copy_from_slice(&checksum);
    fs::write(&bak, &both).unwrap();
    let media = open(&[&bak]).unwrap();
    assert_eq!(media.findings().len(), 1);
    restore(&media, Some(1), &dir.path("1.db")).unwrap();
    let refused = restore(&media, Some(2), &dir.path("2.db"));
    assert!(matches!(refused, Err(RunError::Damaged { .. })), "{refused:?}");
    let report = media.verify(Some(2), None, &Run::default()).unwrap();
    assert_eq!(report.damages.len(), 1);
}

#[test]
#[ignore = "full: large maps"]
fn all_pages_changed_and_a_growing_map() {
    let dir = Dir::new();
    let (db, bak) = (dir.path("a.db"), dir.path("a.bak"));
    // More pages than fit into one map block, before and after.
    let open_db = Connection::open(&db).unwrap();
    open_db.execute_batch("PRAGMA page_size=512; PRAGMA synchronous=OFF").unwrap();
    open_db.execute_batch(SCHEMA).unwrap();
    let fill = |rows: u32| {
        let sql = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM s WHERE n<?1)
                   INSERT INTO a(n,pad) SELECT 0, randomblob(400) FROM s";
        open_db.execute(sql, [rows]).unwrap();
    };
    fill(66_000);
    let full = back_up(job(&db), &[&bak]).unwrap();
    assert!(full.pages > 65_536);
    open_db.execute_batch("UPDATE a SET pad=randomblob(400)").unwrap();
    fill(70_000);
    let outcome = back_up(differential(&db), &[&bak]).unwrap();
    assert!(outcome.pages > 131_072 && outcome.pages_stored > outcome.pages * 9 / 10);
    let to = dir.path("to.db");
    restore(&open(&[&bak]).unwrap(), None, &to).unwrap();
    assert!(fs::read(&to).unwrap() == fs::read(&db).unwrap());
}
