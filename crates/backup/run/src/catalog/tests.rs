use std::os::unix::fs::PermissionsExt;
use std::thread;

use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{WrapMechanism, WrappedDek};

use super::*;
use crate::{Compression, Recipient, SetInfo, SetKind, SourceKind};

fn info(position: u32) -> SetInfo {
    let recipient = Recipient {
        name: "BackupCert".to_owned(),
        wrapped: WrappedDek {
            mechanism: WrapMechanism::RsaOaepSha256,
            sha256: [0xAB; 32],
            sha1: [0xCD; 20],
            public_key_sha256: [3; 32],
            blob: vec![0; 8],
        },
    };
    let mut set_id = [7; 16];
    set_id[..4].copy_from_slice(&position.to_le_bytes());
    SetInfo {
        position,
        ordinal: position,
        set_id,
        kind: if position == 1 { SetKind::Full } else { SetKind::Differential },
        source: SourceKind::Database,
        compression: Compression::Zstd { level: 1 },
        algorithm: Some(Algorithm::Aes256),
        copy_only: false,
        source_encrypted: true,
        page_map: true,
        block_size: 1 << 20,
        page_size: 4096,
        pages: 25,
        begun_ms: 1_700_000_000_123 + i64::from(position),
        finished_ms: 1_700_000_005_000,
        expires_ms: if position == 1 { 0 } else { 1_800_000_000_000 },
        database_id: [9; 16],
        archive: None,
        base: (position != 1).then_some([7; 16]),
        log: None,
        name: "nightly".to_owned(),
        database_name: "app.db".to_owned(),
        path: "/data/app.db".to_owned(),
        host: "host".to_owned(),
        user: "me".to_owned(),
        description: "d".to_owned(),
        program: "tdekit 0.1.0".to_owned(),
        recipients: vec![recipient],
        signatures: Vec::new(),
        blocks: 3,
        payload_bytes: 102_400,
        stored_bytes: 50_000,
        record_bytes: 52_000,
        families: 1,
        damage: None,
    }
}

fn device(name: &str) -> CatalogDevice {
    CatalogDevice { family_sequence_number: 1, physical_device_name: name.to_owned() }
}

fn row(position: u32, place: &str) -> CatalogSet {
    CatalogSet::of(&info(position), &[5; 16], &[device(place)])
}

fn all(catalog: &Catalog) -> Vec<CatalogSet> {
    catalog.sets(&CatalogFilter::default()).unwrap()
}

/// Root may maintain a store of another user, who must be able to write the history afterwards.
#[test]
fn what_root_makes_belongs_to_the_owner_of_the_directory() {
    use std::os::unix::fs::{MetadataExt, chown};
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("skipped: only root can make files for somebody else");
    }
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    drop(Catalog::open(dir.path()).unwrap());
    let made = fs::metadata(dir.path().join(CATALOG_FILE_NAME)).unwrap();
    assert_eq!((made.uid(), made.gid()), (NOBODY, NOBODY));
}

#[test]
fn what_is_recorded_comes_back_once() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("a/home ?#%");
    assert!(Catalog::open_existing(&home).unwrap().is_none());
    let mut catalog = Catalog::open(&home).unwrap();
    assert!(catalog.record(&row(2, "/b/app.bak")).unwrap());
    assert!(catalog.record(&row(1, "/b/app.bak")).unwrap());
    assert!(!catalog.record(&row(1, "/b/app.bak")).unwrap());
    drop(catalog);
    let mode = std::fs::metadata(home.join(CATALOG_FILE_NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let catalog = Catalog::open_existing(&home).unwrap().unwrap();
    assert_eq!(all(&catalog), [row(1, "/b/app.bak"), row(2, "/b/app.bak")]);
    let first = &all(&catalog)[0];
    assert_eq!(first.backup_start_date, "2023-11-14T22:13:20.124Z");
    assert_eq!((first.kind.as_str(), first.position), ("D", 1));
    assert_eq!(first.encryptor_thumbprint.as_deref(), Some(&*format!("0x{}", "CD".repeat(20))));
    for (database, count) in [("app.db", 2), ("/data/app.db", 2), ("other.db", 0)] {
        let filter = CatalogFilter { database: Some(database.to_owned()) };
        assert_eq!(catalog.sets(&filter).unwrap().len(), count, "{database}");
    }
}

#[test]
fn a_known_set_gets_what_was_added_since() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    catalog.record(&row(1, "/old")).unwrap();
    let mut newer = row(1, "/new");
    newer.is_signed = true;
    newer.encryptors.push(CatalogEncryptor {
        certificate_name: "Second".to_owned(),
        thumbprint: "0x00".to_owned(),
        thumbprint_sha256: "0x01".to_owned(),
    });
    assert!(!catalog.record(&newer).unwrap());
    catalog.record(&row(1, "/new")).unwrap();
    let found = all(&catalog).remove(0);
    assert!(found.is_signed);
    assert_eq!(found.encryptors, newer.encryptors);
    assert_eq!(found.devices, [device("/new"), device("/old")]);
    catalog
        .record_use(&found.backup_set_uuid, CatalogUse::Database, Some("/r.db"), "me", 1000)
        .unwrap();
    let uses: (String, String) = catalog
        .db
        .query_row("SELECT restore_date, restore_type FROM restorehistory", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(uses, ("1970-01-01T00:00:01.000Z".to_owned(), "D".to_owned()));
}

#[test]
fn several_processes_may_begin_and_write_at_once() {
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for writer in 0..8u32 {
            let dir = dir.path();
            scope.spawn(move || {
                for set in 0..5 {
                    let position = 1 + writer * 100 + set;
                    Catalog::open(dir).unwrap().record(&row(position, "/m")).unwrap();
                }
            });
        }
    });
    assert_eq!(all(&Catalog::open(dir.path()).unwrap()).len(), 40);
}

#[test]
fn what_is_no_history_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(CATALOG_FILE_NAME);
    std::fs::write(&path, vec![7; 5000]).unwrap();
    assert!(matches!(Catalog::open(dir.path()), Err(RunError::History(_))));
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 5000]);
    std::fs::remove_file(&path).unwrap();
    let foreign = Connection::open(&path).unwrap();
    foreign.execute_batch("PRAGMA application_id = 7; CREATE TABLE t(a)").unwrap();
    assert!(matches!(Catalog::open(dir.path()), Err(RunError::History(_))));
    foreign.pragma_update(None, "application_id", 0).unwrap();
    assert!(matches!(Catalog::open(dir.path()), Err(RunError::History(_))));
    assert!(matches!(Catalog::open_existing(dir.path()), Err(RunError::History(_))));
    foreign.execute_batch("DROP TABLE t").unwrap();
    foreign.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    assert!(matches!(Catalog::open(dir.path()), Err(RunError::History(_))));
    let next = schema::VERSION + 1;
    foreign.pragma_update(None, "user_version", next).unwrap();
    let newer = Catalog::open(dir.path());
    assert!(matches!(newer, Err(RunError::History(error))
        if matches!(*error, RunError::FutureVersion { version, .. } if version == next)));
}

/// Copies the fixture of a version.
fn fixture(version: u16, dir: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures");
    let from = fixtures.join(version.to_string()).join("history").join(CATALOG_FILE_NAME);
    fs::copy(from, dir.join(CATALOG_FILE_NAME)).unwrap();
}

#[test]
fn the_history_of_each_version_is_read_and_written() {
    for version in 1..=schema::VERSION {
        for reads in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            fixture(version, dir.path());
            let mut catalog = match reads {
                true => Catalog::open_existing(dir.path()).unwrap().unwrap(),
                false => Catalog::open(dir.path()).unwrap(),
            };
            assert_eq!(all(&catalog), [row(1, "/backups/app.bak"), row(2, "/backups/app.bak")]);
            assert_eq!(catalog.marks().unwrap().1, schema::VERSION);
            if !reads {
                assert!(catalog.record(&row(3, "/backups/app.bak")).unwrap());
            }
        }
    }
}

/// As a later version will do it: its step runs once, whichever process comes first.
#[test]
fn a_step_is_taken_once_and_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    catalog.record(&row(1, "/backups/app.bak")).unwrap();
    let next = "ALTER TABLE backupset ADD COLUMN is_damaged INTEGER";
    let broken = "ALTER TABLE backupset ADD COLUMN other INTEGER; SELECT no_such_function()";
    let steps = [&schema::STEPS[..], &[next]].concat();
    schema::migrate(&mut catalog.db, &[&steps[..], &[broken]].concat()).unwrap_err();
    assert_eq!(catalog.marks().unwrap().1, schema::VERSION);
    for _ in 0..2 {
        schema::migrate(&mut catalog.db, &steps).unwrap();
        assert_eq!(catalog.marks().unwrap(), (APPLICATION_ID, schema::VERSION + 1));
    }
    catalog.db.query_row("SELECT is_damaged FROM backupset", [], |_| Ok(())).unwrap();
    catalog.db.query_row("SELECT other FROM backupset", [], |_| Ok(())).unwrap_err();
    // The older program reports that it is too new, and leaves it alone.
    let path = catalog.path().to_owned();
    drop(catalog);
    let before = fs::read(&path).unwrap();
    assert!(matches!(Catalog::open(dir.path()), Err(RunError::History(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// A row whose date cannot be read counts as nothing but damage, and hides no other.
#[test]
fn a_date_that_is_not_one_hides_its_row_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    for position in 1..=3 {
        catalog.record(&row(position, "/backups/app.bak")).unwrap();
    }
    let [first, bad] = [1, 3].map(|position| row(position, "").backup_set_uuid);
    catalog.record_use(&first, CatalogUse::Verified, None, "me", 1_700_000_100_000).unwrap();
    let (kind, user) = (CheckedKind::Backup, "me");
    let check = Check { kind, subject: &first, findings: 1, facts: None, user, at_ms: 0 };
    for (kind, subject) in [(CheckedKind::Backup, &*first), (CheckedKind::Database, "/data/app.db")]
    {
        catalog.record_check(&Check { kind, subject, at_ms: 1_700_000_200_000, ..check }).unwrap();
    }
    let newest = catalog.newest_backups().unwrap();
    assert_eq!(newest["/data/app.db"].verify_ok, Some(false));
    let doctor = catalog.last_checks(CheckedKind::Database).unwrap();
    for date in ["'soon'", "'now'", "''", "x'FFFE'", "'2460000.5'", "'2023-11-14T25:00:00Z'"] {
        let sql = format!(
            "UPDATE backupset SET backup_start_date = {date}, backup_finish_date = {date}
                 WHERE backup_set_uuid = '{bad}';
             DELETE FROM restorehistory WHERE user_name = 'other';
             INSERT INTO restorehistory VALUES(NULL, {date}, 'V', '{first}', '/s', 'other');
             INSERT OR REPLACE INTO lastcheck VALUES('D', '/other.db', {date}, 0, NULL, 'me');"
        );
        catalog.db.execute_batch(&sql).unwrap();
        assert_eq!(catalog.newest_backups().unwrap(), newest, "{date}");
        assert_eq!(catalog.last_checks(CheckedKind::Database).unwrap(), doctor, "{date}");
        assert!(!catalog.last_readings().unwrap()[&first], "{date}");
        // The last of the sets is still the newest one with a date.
        let sets: Vec<_> = all(&catalog).iter().map(|set| set.position).collect();
        assert_eq!(sets, [3, 1, 2], "{date}");
        let named: Vec<_> = catalog.undated().unwrap();
        let columns: Vec<_> = named.iter().map(|row| (row.column, row.subject.as_str())).collect();
        let starts = [("backup_start_date", &*bad), ("backup_finish_date", &*bad)];
        let others = [("restore_date", &*first), ("check_date", "/other.db")];
        assert_eq!(columns, [starts, others].concat(), "{date}");
    }
    // Damage without a date is not taken for mended.
    catalog.db.execute_batch("UPDATE lastcheck SET check_date = ''").unwrap();
    assert!(!catalog.last_readings().unwrap()[&first]);
    assert_eq!(catalog.newest_backups().unwrap()["/data/app.db"].verify_ok, Some(false));
}

#[test]
fn the_newest_backup_of_a_database_has_its_last_good_and_bad_reading() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    for position in 1..=2 {
        catalog.record(&row(position, "/backups/app.bak")).unwrap();
    }
    let newest = catalog.newest_backups().unwrap();
    let (path, one) = newest.iter().next().unwrap();
    assert_eq!((newest.len(), path.as_str()), (1, "/data/app.db"));
    assert_eq!((one.finished_at, one.encrypted), (1_700_000_005, true));
    assert_eq!((one.verified_at, one.verify_ok), (None, None));
    let set = row(1, "").backup_set_uuid;
    catalog.record_use(&set, CatalogUse::Verified, None, "me", 1_700_000_100_000).unwrap();
    let check = |kind, subject, findings, at_ms| Check {
        kind,
        subject,
        findings,
        facts: None,
        user: "me",
        at_ms,
    };
    let bad = check(CheckedKind::Backup, &set, 2, 1_700_000_200_000);
    catalog.record_check(&bad).unwrap();
    let one = catalog.newest_backups().unwrap().remove("/data/app.db").unwrap();
    assert_eq!((one.verified_at, one.verify_ok), (Some(1_700_000_100), Some(false)));
    // The next one replaces it.
    catalog.record_check(&Check { findings: 0, at_ms: 1_700_000_300_000, ..bad }).unwrap();
    let one = catalog.newest_backups().unwrap().remove("/data/app.db").unwrap();
    assert_eq!((one.verified_at, one.verify_ok), (Some(1_700_000_300), Some(true)));
    let doctor = check(CheckedKind::Database, "/data/app.db", 3, 1_700_000_400_000);
    catalog.record_check(&doctor).unwrap();
    let last = catalog.last_checks(CheckedKind::Database).unwrap();
    assert_eq!(last["/data/app.db"].findings, 3);
    assert!(catalog.last_checks(CheckedKind::Mariadb).unwrap().is_empty());
    assert_eq!(catalog.media_places().unwrap(), ["/backups/app.bak".to_owned()].into());
}

/// It says nothing of the set's bytes.
#[test]
fn absence_hides_no_damage_and_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    catalog.record(&row(1, "/backups/app.bak")).unwrap();
    let set = row(1, "").backup_set_uuid;
    let state = |catalog: &Catalog| {
        let one = catalog.newest_backups().unwrap().remove("/data/app.db").unwrap();
        (one.verify_ok, one.absent, catalog.last_readings().unwrap().get(&set).copied())
    };
    let check = |findings, at_ms| Check {
        kind: CheckedKind::Backup,
        subject: &set,
        findings,
        facts: None,
        user: "me",
        at_ms,
    };
    catalog.record_absent(&set, "me", 1_700_000_100_000).unwrap();
    assert_eq!(state(&catalog), (Some(false), true, None));
    catalog.record_check(&check(0, 1_700_000_200_000)).unwrap();
    assert_eq!(state(&catalog), (Some(true), false, Some(true)));
    catalog.record_absent(&set, "me", 1_700_000_300_000).unwrap();
    assert_eq!(state(&catalog), (Some(false), true, None));
    catalog.record_check(&check(1, 1_700_000_400_000)).unwrap();
    catalog.record_absent(&set, "me", 1_700_000_500_000).unwrap();
    assert_eq!(state(&catalog), (Some(false), false, Some(false)));
}

/// A fault beside a set is shown, says nothing of the set, and ends with a newer set or by name.
#[test]
fn a_fault_beside_a_set_is_not_ended_by_that_set() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    catalog.record(&row(1, "/backups/app.bak")).unwrap();
    let set = row(1, "").backup_set_uuid;
    let state = |catalog: &Catalog| {
        let one = catalog.newest_backups().unwrap().remove("/data/app.db").unwrap();
        (one.verify_ok, one.absent, catalog.last_readings().unwrap().get(&set).copied())
    };
    let check = |findings, at_ms| Check {
        kind: CheckedKind::Backup,
        subject: &set,
        findings,
        facts: None,
        user: "me",
        at_ms,
    };
    catalog.record_check(&check(0, 1_700_000_100_000)).unwrap();
    catalog.record_beside_fault(&set, "me", 1_700_000_200_000).unwrap();
    assert_eq!(state(&catalog), (Some(false), false, None));
    // The set is read whole: by a check, and by a restore.
    catalog.record_check(&check(0, 1_700_000_300_000)).unwrap();
    let done = CatalogUse::Database;
    catalog.record_use(&set, done, Some("/r.db"), "me", 1_700_000_300_000).unwrap();
    assert_eq!(state(&catalog), (Some(false), false, Some(true)));
    // Neither is it absent, nor does its damage get lost.
    catalog.record_absent(&set, "me", 1_700_000_400_000).unwrap();
    assert_eq!(state(&catalog), (Some(false), false, Some(true)));
    catalog.end_beside_fault(&set).unwrap();
    assert_eq!(state(&catalog), (Some(true), false, Some(true)));
    catalog.record_check(&check(1, 1_700_000_500_000)).unwrap();
    catalog.record_beside_fault(&set, "me", 1_700_000_600_000).unwrap();
    catalog.end_beside_fault(&set).unwrap();
    assert_eq!(state(&catalog), (Some(false), false, Some(false)));
    catalog.record_check(&check(0, 1_700_000_700_000)).unwrap();
    assert_eq!(state(&catalog), (Some(true), false, Some(true)));
    // A newer set that is whole ends it.
    catalog.record_beside_fault(&set, "me", 1_700_000_800_000).unwrap();
    let newer = CatalogSet {
        backup_set_uuid: "77".repeat(16),
        backup_finish_date: date_of_ms(1_800_000_000_000),
        ..row(2, "/backups/app.bak")
    };
    catalog.record(&newer).unwrap();
    assert_eq!(state(&catalog).0, Some(false));
    let whole = Check { subject: &newer.backup_set_uuid, ..check(0, 1_700_000_900_000) };
    catalog.record_check(&whole).unwrap();
    assert_eq!(state(&catalog).0, Some(true));
}

#[test]
fn recording_a_set_again_mends_its_dates() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(dir.path()).unwrap();
    let mut set = row(1, "/backups/app.bak");
    set.expiration_date = Some(date_of_ms(1_800_000_000_000));
    catalog.record(&set).unwrap();
    let before = all(&catalog);
    let dates = "backup_start_date = 'x', backup_finish_date = x'FF', expiration_date = 'now'";
    catalog.db.execute_batch(&format!("UPDATE backupset SET {dates}")).unwrap();
    assert!(!catalog.record(&set).unwrap());
    assert_eq!(all(&catalog), before);
    // A date that is one stays.
    let other = CatalogSet { backup_start_date: date_of_ms(0), ..set };
    catalog.record(&other).unwrap();
    assert_eq!(all(&catalog), before);
}
