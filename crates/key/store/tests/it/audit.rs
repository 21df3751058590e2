//! The audit log: every change has its entry, and every manipulation of the files is detected.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{cheap, key, new_certificate, password, secret, store_with};
use tdekit_key_store::{
    AuditAction, AuditCertificate, AuditDatabase, AuditFault, AuditKey, KeyStore, STORE_FILE_NAME,
    StoreError, StoreFile, Unlocked, restore,
};

const LOG: &str = "audit.log";

fn open(dir: &Path) -> Unlocked {
    KeyStore::open(dir).unwrap().unlock(&key(1)).unwrap()
}

fn log_of(dir: &Path) -> PathBuf {
    dir.join(LOG)
}

/// Action and kind of key of each entry, in the words of the file.
fn told(store: &Unlocked) -> Vec<String> {
    let report = store.verify_audit_log().unwrap();
    assert_eq!((report.faults, report.torn_bytes), (Vec::new(), 0));
    let word = |it: serde_json::Value| it.as_str().unwrap().to_owned();
    let one = |entry: tdekit_key_store::AuditRecord| {
        let action = word(serde_json::to_value(entry.action).unwrap());
        format!("{action} {} {}", word(serde_json::to_value(entry.subject).unwrap()), entry.name)
    };
    report.entries.into_iter().map(one).collect()
}

fn faults(dir: &Path) -> Vec<AuditFault> {
    open(dir).verify_audit_log().unwrap().faults
}

fn lines(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(log_of(dir)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn write_lines(dir: &Path, lines: &[String]) {
    fs::write(log_of(dir), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
}

#[test]
fn every_change_has_its_entry_and_no_secret_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    let pkcs12 = store.export_pkcs12("A", &secret(b"hidden-words")).unwrap();
    assert!(!pkcs12.is_empty());
    let sha256 = store.store().certificates()[0].sha256;
    store.mark_backed_up(&sha256).unwrap();
    store.rotate_certificate(&new_certificate("A")).unwrap();
    let added = store.add_protector(&password("hidden-words"), cheap()).unwrap();
    let mut store = open(dir.path());
    store.remove_protector(&hex::encode(added.id)).unwrap();
    store.rotate_master_key(&key(1), cheap()).unwrap();
    store.drop_certificate("A", true).unwrap();
    store.backup(&password("hidden-words"), cheap()).unwrap();
    assert_eq!(
        told(&store),
        [
            "created master-key ",
            "added protector a key file",
            "created certificate A",
            "exported certificate A",
            "backed-up certificate A",
            "rotated certificate A",
            "added protector a password",
            "removed protector a password",
            "rotated master-key ",
            "added protector a key file",
            "removed protector a key file",
            "removed certificate A",
            "removed certificate A",
            "exported master-key ",
        ]
    );
    let text = fs::read_to_string(log_of(dir.path())).unwrap();
    assert!(!text.contains("hidden-words") && !text.contains(&"01".repeat(32)));
    let mode = fs::metadata(log_of(dir.path())).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_server_key_has_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    store.create_server_key(1, "A", None).unwrap();
    store.rotate_server_key(1, "A", None).unwrap();
    store.rewrap_server_keys("A").unwrap();
    let ids: Vec<_> = store.verify_audit_log().unwrap().entries.into_iter().map(|e| e.id).collect();
    assert_eq!(ids[3..], ["1.1", "1.2", "1.1", "1.2"]);
}

#[test]
fn what_is_changed_moved_removed_or_cut_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A", "B"]);
    store.drop_certificate("B", true).unwrap();
    let whole = lines(dir.path());
    assert_eq!((whole.len(), faults(dir.path())), (5, Vec::new()));
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed = whole.clone();
        change(&mut changed);
        write_lines(dir.path(), &changed);
        faults(dir.path())
    };
    let path = log_of(dir.path());
    for at in 0..5 {
        // An entry whose content, either its MAC or its text, was changed.
        let forged = AuditFault::Forged { path: path.clone(), line: at + 1 };
        let found = with(&|lines| lines[at] = lines[at].replace("\"uid\":", "\"uid\":1"));
        assert!(found.contains(&forged), "{found:?}");
        let flip = |line: &str| if line.starts_with('0') { "1" } else { "0" };
        let found = with(&|lines| {
            let first = flip(&lines[at]);
            lines[at].replace_range(..1, first);
        });
        assert!(found.contains(&forged), "{found:?}");
        // Cut after it.
        let cut = with(&|lines| lines.truncate(at));
        let last = u64::try_from(at).unwrap();
        let expected = match at {
            0 => AuditFault::NoLog { head: 5 },
            _ => AuditFault::Cut { last, head: 5 },
        };
        assert_eq!(cut, [expected]);
        // Removed.
        if at < 4 {
            let missing = AuditFault::Missing { from: last + 1, to: last + 1 };
            assert_eq!(with(&|lines| drop(lines.remove(at))), [missing]);
            assert!(!with(&|lines| lines.swap(at, at + 1)).is_empty());
        }
        // Duplicated.
        let twice = with(&|lines| lines.insert(at, lines[at].clone()));
        assert_eq!(twice, [AuditFault::OutOfOrder { sequence: last + 1 }]);
        let found = with(&|lines| lines[at] = "nonsense".to_owned());
        assert!(matches!(found[0], AuditFault::Unreadable { .. }), "{found:?}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(faults(dir.path()), [AuditFault::NoLog { head: 5 }]);
    // The next change continues from the store's mark, and the gap is still reported.
    open(dir.path()).create_certificate(&new_certificate("C")).unwrap();
    assert_eq!(faults(dir.path()), [AuditFault::Missing { from: 1, to: 5 }]);
}

#[test]
fn the_log_of_another_store_and_an_older_state_are_told() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    store_with(one.path(), &["A"]);
    store_with(other.path(), &["A"]);
    fs::copy(log_of(other.path()), log_of(one.path())).unwrap();
    let found = faults(one.path());
    let forged = found.iter().filter(|fault| matches!(fault, AuditFault::Forged { .. }));
    assert_eq!(forged.count(), 3);
    assert!(found.contains(&AuditFault::OtherHead { sequence: 3 }));
}

#[test]
fn a_torn_end_that_was_never_answered_for_is_no_fault_and_the_next_entry_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    let mut bytes = fs::read(log_of(dir.path())).unwrap();
    bytes.extend_from_slice(b"0123 {\"v\":1");
    fs::write(log_of(dir.path()), bytes).unwrap();
    let report = store.verify_audit_log().unwrap();
    assert_eq!((report.faults, report.torn_bytes), (Vec::new(), 11));
    store.create_certificate(&new_certificate("B")).unwrap();
    assert_eq!(told(&store).len(), 4);
}

#[test]
fn a_change_that_cannot_be_told_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    let (log, kept) = (log_of(dir.path()), dir.path().join("kept"));
    let before = fs::read(dir.path().join(STORE_FILE_NAME)).unwrap();
    fs::rename(&log, &kept).unwrap();
    let refused = |store: &mut Unlocked| {
        let change = store.create_certificate(&new_certificate("B"));
        assert!(matches!(change, Err(StoreError::Io { path, .. }) if path == log));
        let export = store.export_pem("A", &secret(b"password"));
        assert!(matches!(export, Err(StoreError::Io { .. })));
        assert_eq!(fs::read(dir.path().join(STORE_FILE_NAME)).unwrap(), before);
    };
    fs::create_dir(&log).unwrap();
    refused(&mut store);
    fs::remove_dir(&log).unwrap();
    symlink(&kept, &log).unwrap();
    refused(&mut store);
    fs::remove_file(&log).unwrap();
    fs::hard_link(&kept, &log).unwrap();
    refused(&mut store);
    fs::remove_file(&kept).unwrap();
    store.create_certificate(&new_certificate("B")).unwrap();
    assert_eq!(told(&store).len(), 4);
}

#[test]
fn a_server_key_that_is_opened_is_told_once_and_only_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    drop(store_with(dir.path(), &[]));
    let store = open(dir.path());
    store.log_server_key_opening(1, 2).unwrap();
    assert_eq!(told(&store).len(), 2);
    let config = dir.path().join("config.toml");
    fs::write(&config, "[audit]\nopenings = true\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    // A process keeps the configuration that it read first.
    let store = open(dir.path());
    for (id, version) in [(1, 2), (1, 2), (2, 1), (1, 2), (0x0102, 0)] {
        store.log_server_key_opening(id, version).unwrap();
    }
    let entries = store.verify_audit_log().unwrap().entries;
    let ids: Vec<_> = entries.iter().skip(2).map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["1.2", "2.1", "258.0"]);
    assert!(told(&store)[2..].iter().all(|entry| entry == "opened server-key "));

    fs::remove_file(log_of(dir.path())).unwrap();
    fs::create_dir(log_of(dir.path())).unwrap();
    assert!(matches!(store.log_server_key_opening(3, 1), Err(StoreError::NotLogged { .. })));
    store.log_server_key_opening(1, 2).unwrap();
}

#[test]
fn a_full_file_gives_way_to_another_and_the_chain_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &[]);
    let event = || {
        let name = "n".repeat(12_000);
        tdekit_key_store::AuditEvent {
            action: tdekit_key_store::AuditAction::Opened,
            subject: tdekit_key_store::AuditSubject::DatabaseKey,
            id: "00".into(),
            name,
            key: None,
        }
    };
    for _ in 0..19 {
        store.log(&std::iter::repeat_with(event).take(10).collect::<Vec<_>>()).unwrap();
    }
    let report = store.verify_audit_log().unwrap();
    assert_eq!((report.faults.len(), report.entries.len()), (0, 192));
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("audit"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "audit-00000000000000000001.log");
    // After the store's own mark, nothing shows that entries of openings were cut; before it, every
    // missing entry shows.
    fs::remove_file(dir.path().join(&names[0])).unwrap();
    assert!(matches!(faults(dir.path())[..], [AuditFault::Missing { from: 1, .. }]));
}

#[test]
fn a_restored_store_goes_on_with_its_own_log_or_tells_where_it_begins() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut store = store_with(dir.path(), &["A"]);
    let backup = store.backup(&password("backup"), cheap()).unwrap();
    store.create_certificate(&new_certificate("B")).unwrap();
    fs::remove_file(dir.path().join(STORE_FILE_NAME)).unwrap();
    let bring = |dir: &Path, bytes: &[u8]| {
        restore(dir, bytes.to_vec(), &password("backup"), Some(&key(1)), cheap(), true).unwrap()
    };
    bring(dir.path(), &backup);
    let report = open(dir.path()).verify_audit_log().unwrap();
    assert_eq!((report.faults, report.begins_after, report.entries.len()), (Vec::new(), 0, 7));

    store_with(elsewhere.path(), &[]);
    bring(elsewhere.path(), &backup);
    let report = open(elsewhere.path()).verify_audit_log().unwrap();
    assert_eq!((report.faults, report.begins_after, report.entries.len()), (Vec::new(), 3, 2));
    let aside = fs::read_dir(elsewhere.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("audit.log.replaced-")
    });
    assert_eq!(aside.count(), 1);
}

#[test]
fn a_store_of_format_1_opens_and_keeps_a_log_from_its_next_change_on() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/1/keystore");
    let dir = tempfile::tempdir().unwrap();
    let stored = fs::read(fixture.join(STORE_FILE_NAME)).unwrap();
    assert_eq!(StoreFile::decode(&stored).unwrap().format_version(), 1);
    fs::write(dir.path().join(STORE_FILE_NAME), &stored).unwrap();
    let store = KeyStore::open(dir.path()).unwrap();
    assert!(!store.audit_log().unwrap().kept);
    let mut store = store.unlock(&password("fixture password")).unwrap();
    assert!(!store.verify_audit_log().unwrap().kept);
    store.create_certificate(&new_certificate("New")).unwrap();
    assert_eq!(told(&store), ["created certificate New"]);
    assert_eq!(KeyStore::open(dir.path()).unwrap().file().format_version(), 2);
}

/// The store is unchanged but for its mark, so processes that have it open continue.
#[test]
fn a_database_key_is_logged_before_the_stores_mark() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    let before = KeyStore::open(dir.path()).unwrap();
    let database = AuditDatabase {
        path: "/data/app.db".into(),
        file_id: Some([7; 16]),
        key: AuditKey {
            version: Some(1),
            algorithm: "AES_256".into(),
            certificates: vec![AuditCertificate::of(&store.store().certificates()[0])],
            ..AuditKey::default()
        },
    };
    assert!(store.log_database(AuditAction::Encrypted, &database).unwrap().is_none());
    store.log_opening(&[7; 16], || panic!("nobody asked for it")).unwrap();
    assert_eq!(told(&store).last().unwrap(), "encrypted database-key /data/app.db");
    let after = KeyStore::open(dir.path()).unwrap();
    let facts = |store: &KeyStore| (store.file().sequence, store.file().written_at);
    assert_eq!(facts(&before), facts(&after));
    let whole = lines(dir.path());
    write_lines(dir.path(), &whole[..whole.len() - 1]);
    assert!(matches!(faults(dir.path())[..], [AuditFault::Cut { .. }]));
}

/// The entry cannot be read, so none can be chained to it.
#[test]
fn nothing_is_added_behind_an_entry_of_a_newer_program() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    let mut newer = lines(dir.path());
    let last = newer.last_mut().unwrap();
    *last = last.replace("{\"v\":1", "{\"v\":9");
    write_lines(dir.path(), &newer);
    let refused = store.create_certificate(&new_certificate("B")).unwrap_err();
    assert!(matches!(refused, StoreError::FutureVersion { found: 9, supported: 2 }), "{refused}");
    assert_eq!(lines(dir.path()), newer);
}
