//! An audit log of line version 2 that was written once, with its store: it must verify for ever.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{new_certificate, secret};
use tdekit_key_store::{
    AuditAction, AuditCertificate, AuditDatabase, AuditKey, AuditRecord, KeyStore, PasswordParams,
    Unlock, Unlocked, generate_key_file,
};

const ACTIONS: [AuditAction; 8] = [
    AuditAction::Created,
    AuditAction::Encrypted,
    AuditAction::RotationBegun,
    AuditAction::Rotated,
    AuditAction::Rewrapped,
    AuditAction::BackedUp,
    AuditAction::Restored,
    AuditAction::Decrypted,
];

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/2/keystore")
}

fn open(dir: &Path) -> Unlocked {
    let key = fs::read(self::dir().join("key")).unwrap();
    let key = Unlock::Key { key: secret(&key), origin: "key".to_owned() };
    KeyStore::open(dir).unwrap().unlock(&key).unwrap()
}

fn database(action: AuditAction, certificate: AuditCertificate) -> AuditDatabase {
    let is_of_media = matches!(action, AuditAction::BackedUp | AuditAction::Restored);
    let key = AuditKey {
        version: (action != AuditAction::Decrypted).then_some(2),
        algorithm: "AES_256".to_owned(),
        certificates: vec![certificate],
        media: if is_of_media { "/backups/app.tdb".to_owned() } else { String::new() },
        ..AuditKey::default()
    };
    AuditDatabase { path: PathBuf::from("/data/app.db"), file_id: Some([7; 16]), key }
}

/// Returns a copy: opening a store leaves a lock file beside it.
fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["keystore.tdk", "audit.log"] {
        fs::copy(dir().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn a_log_of_version_2_verifies_and_tells_what_it_told() {
    let copy = copy();
    let store = open(copy.path());
    let report = store.verify_audit_log().unwrap();
    assert_eq!((report.faults, report.torn_bytes), (Vec::new(), 0));
    let certificate = AuditCertificate::of(&store.store().certificates()[0]);
    let of_database: Vec<_> = report.entries.iter().filter(|entry| entry.key.is_some()).collect();
    assert_eq!(of_database.len(), ACTIONS.len());
    for (entry, action) in of_database.iter().zip(ACTIONS) {
        let expected = database(action, certificate.clone());
        assert_eq!((entry.v, entry.action, entry.key.as_ref()), (2, action, Some(&expected.key)));
        assert_eq!((entry.id.as_str(), entry.name.as_str()), (&*"07".repeat(16), "/data/app.db"));
    }
    // Entries that version 1 can express are written in version 1.
    assert!(report.entries.iter().all(|entry| entry.v == 1 + u16::from(entry.key.is_some())));
    let text = fs::read_to_string(dir().join("audit.log")).unwrap();
    for line in text.lines() {
        let (record, mac) = AuditRecord::decode(line.as_bytes()).unwrap();
        assert_eq!(record.encode(&mac).unwrap(), format!("{line}\n").as_bytes());
    }
}

#[test]
fn a_store_goes_on_with_its_log_of_version_2() {
    let copy = copy();
    let before = open(copy.path()).verify_audit_log().unwrap().entries.len();
    open(copy.path()).create_certificate(&new_certificate("Later")).unwrap();
    let report = open(copy.path()).verify_audit_log().unwrap();
    assert_eq!((report.faults, report.entries.len()), (Vec::new(), before + 1));
}

/// Makes the files, for a new version of the log's lines. The files of a released version stay. Run
/// it with `TDEKIT_MAKE_FIXTURE=1`.
#[test]
fn make() {
    if std::env::var_os("TDEKIT_MAKE_FIXTURE").is_none() {
        return;
    }
    assert!(!dir().exists(), "the fixture of this version is there");
    fs::create_dir_all(dir()).unwrap();
    let key = dir().join("key");
    generate_key_file(&key).unwrap();
    let secret = Unlock::KeyFile(key);
    let mut store = KeyStore::create(&dir(), &secret, PasswordParams::default()).unwrap();
    let info = store.create_certificate(&new_certificate("AppCert")).unwrap();
    for action in ACTIONS {
        let told = database(action, AuditCertificate::of(&info));
        assert!(store.log_database(action, &told).unwrap().is_none());
    }
    fs::remove_file(dir().join("keystore.lock")).unwrap();
}
