//! Backup, inspect, verify and restore against a real S3 server on loopback.

use std::sync::Arc;

use crate::common::{Dir, KEY, Key, add_rows, database, job, restore, state};
use crate::object_common::{Cut, Proxy, server};
use tdekit_backup_run::{
    BackupJob, BackupOutcome, Compression, Media, ObjectMedia, ObjectOptions, ObjectTarget, Run,
    RunError, SetKind, Target, add_recipients, backup,
};

/// Enough for several pieces of 5 MiB without compression.
const ROWS: u32 = 12_000;

fn target(address: &str, options: &ObjectOptions) -> Vec<Box<dyn Target>> {
    vec![Box::new(ObjectTarget::new(address, options).unwrap())]
}

fn back_up(
    job: BackupJob<'_>,
    address: &str,
    options: &ObjectOptions,
) -> Result<BackupOutcome, RunError> {
    let job = BackupJob { compression: Compression::None, ..job };
    backup(job, target(address, options), &Run::default())
}

fn open(address: &str, options: &ObjectOptions) -> Result<Media, RunError> {
    Media::open(vec![Arc::new(ObjectMedia::open(address, options)?)])
}

#[test]
fn sets_are_appended_inspected_verified_and_restored() {
    let Some(server) = server("backup") else { return };
    let dir = Dir::new();
    let (db, address) = (dir.path("a.db"), server.address("a.bak"));
    // Each command meets a dropped connection.
    let proxy = Proxy::new(&server, Vec::new());
    let options = server.options_by(&proxy.endpoint);
    let open_db = database(&db, 4096, "wal", ROWS);
    let first = state(&db);
    proxy.cut(vec![Cut::Up(3 << 20), Cut::Up(8 << 20), Cut::Down(1)]);
    back_up(job(&db), &address, &options).unwrap();
    assert_eq!(proxy.left(), 0);
    add_rows(&open_db, 10);
    let second = state(&db);
    back_up(BackupJob { differential: true, ..job(&db) }, &address, &options).unwrap();
    back_up(BackupJob { encryption: None, allow_mixed: true, ..job(&db) }, &address, &options)
        .unwrap();
    add_recipients(target(&address, &options), Some(1), &KEY, &Key(9)).unwrap();
    for part in ["a.bak", "a.bak.0001", "a.bak.0002", "a.bak.0003"] {
        assert!(server.get(part).is_some(), "{part}");
    }

    proxy.cut(vec![Cut::Down(2 << 20), Cut::Down(1), Cut::Down(7 << 20)]);
    let media = open(&address, &options).unwrap();
    let kinds: Vec<_> = media.sets().iter().map(|set| set.kind).collect();
    assert_eq!(kinds, [SetKind::Full, SetKind::Differential, SetKind::Full]);
    assert_eq!(media.sets()[0].recipients.len(), 2);
    assert_eq!(media.findings(), []);
    for (position, state_then) in [(1, first), (2, second), (3, second)] {
        let report = media.verify(Some(position), Some(&KEY), &Run::default()).unwrap();
        assert!(report.opened && report.damages.is_empty(), "{report:?}");
        let to = dir.path(&format!("{position}.db"));
        restore(&media, Some(position), &to).unwrap();
        assert_eq!(state(&to), state_then, "{position}");
    }
    assert_eq!(proxy.left(), 0);
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
fn a_changed_byte_is_never_restored() {
    let Some(server) = server("flipped") else { return };
    let dir = Dir::new();
    let (db, address, options) = (dir.path("a.db"), server.address("a.bak"), server.options());
    let open_db = database(&db, 4096, "wal", 2000);
    let first = state(&db);
    back_up(job(&db), &address, &options).unwrap();
    add_rows(&open_db, 10);
    back_up(job(&db), &address, &options).unwrap();
    let mut bytes = server.get("a.bak.0001").unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    server.put("a.bak.0001", bytes);
    let media = open(&address, &options).unwrap();
    let report = media.verify(Some(2), Some(&KEY), &Run::default()).unwrap();
    assert_eq!(report.damages.len(), 1, "{report:?}");
    let to = dir.path("b.db");
    let damaged = restore(&media, Some(2), &to);
    assert!(
        matches!(damaged, Err(RunError::Damaged { .. } | RunError::Tampered { .. })),
        "{damaged:?}"
    );
    assert!(!to.exists());
    restore(&media, Some(1), &to).unwrap();
    assert_eq!(state(&to), first);
}

#[test]
fn a_missing_part_is_named() {
    let Some(server) = server("missing") else { return };
    let dir = Dir::new();
    let (db, address, options) = (dir.path("a.db"), server.address("a.bak"), server.options());
    drop(database(&db, 4096, "delete", 100));
    for _ in 0..3 {
        back_up(job(&db), &address, &options).unwrap();
    }
    server.delete("a.bak.0001");
    let missing = open(&address, &options).unwrap_err();
    assert!(matches!(missing, RunError::NoPart { part: 1, .. }), "{missing}");
    let refused = back_up(job(&db), &address, &options).unwrap_err();
    assert!(matches!(refused, RunError::NoPart { part: 1, .. }), "{refused}");
}

#[test]
fn of_two_backups_at_once_one_is_made() {
    let Some(server) = server("at-once") else { return };
    let dir = Dir::new();
    let (db, address, options) = (dir.path("a.db"), server.address("a.bak"), server.options());
    drop(database(&db, 4096, "delete", 2000));
    back_up(job(&db), &address, &options).unwrap();
    let results = std::thread::scope(|scope| {
        let backups = [(); 2].map(|()| scope.spawn(|| back_up(job(&db), &address, &options)));
        backups.map(|backup| backup.join().unwrap())
    });
    // One may start after the other has ended: then both are made, one after the other.
    let made = results.iter().filter(|result| result.is_ok()).count();
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        assert!(matches!(error, RunError::Exists { .. } | RunError::NoPart { .. }), "{error}");
    }
    let media = open(&address, &options).unwrap();
    assert_eq!(media.sets().len(), 1 + made, "{results:?}");
    for set in media.sets() {
        let report = media.verify(Some(set.position), Some(&KEY), &Run::default()).unwrap();
        assert!(report.damages.is_empty(), "{report:?}");
    }
    assert_eq!(server.unfinished_uploads(), 0);
}
