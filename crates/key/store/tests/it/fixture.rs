//! Files of format version 1 that were written once and must open for ever.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{new_certificate, password, secret};
use tdekit_key_store::{
    CertificateBackup, FIRST_DERIVATION, KeyStore, NEWEST_DERIVATION, PasswordParams,
    STORE_FILE_NAME, Unlock, Unlocked, WrappedDek, generate_key_file,
};

const PASSWORD: &str = "fixture password";
const BACKUP_PASSWORD: &str = "backup password";

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/1/keystore")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(dir().join(name)).unwrap()
}

fn dek() -> Vec<u8> {
    (0..32).collect()
}

fn wrapped(name: &str) -> WrappedDek {
    let bytes = read(name);
    let (wrapped, len) = WrappedDek::decode(&bytes).unwrap();
    assert_eq!((len, wrapped.encode().unwrap()), (bytes.len(), bytes));
    wrapped
}

#[test]
fn the_store_opens_with_its_password_and_unwraps() {
    let store = KeyStore::open(&dir()).unwrap();
    let names: Vec<_> = store
        .certificates()
        .iter()
        .map(|info| (info.name.as_str(), info.generation, info.active))
        .collect();
    assert_eq!(names, [("AppCert", 1, false), ("AppCert", 2, true), ("Public", 1, true)]);
    let digests: serde_json::Value = serde_json::from_slice(&read("expected.json")).unwrap();
    for (info, expected) in store.certificates().iter().zip(digests.as_array().unwrap()) {
        assert_eq!(info.thumbprint(), expected["thumbprint"]);
        assert_eq!(info.subject, expected["subject"]);
    }
    assert_eq!(store.uses().unwrap()[0].path, Path::new("/data/app.db"));
    let opened = store.unlock(&password(PASSWORD)).unwrap();
    opened.check_private_keys().unwrap();
    for name in ["generation1.dek", "generation2.dek"] {
        assert_eq!(opened.unwrap_dek(&[wrapped(name)]).unwrap().expose(), dek(), "{name}");
    }
    assert!(store.unlock(&password("Fixture password")).is_err());
}

#[test]
fn the_store_encodes_to_its_own_bytes() {
    let bytes = read(STORE_FILE_NAME);
    let mut mac = [0; 32];
    mac.copy_from_slice(&bytes[bytes.len() - 32..]);
    let file = KeyStore::open(&dir()).unwrap().file().clone();
    assert_eq!(file.encode(|_| Ok(mac)).unwrap(), bytes);
}

#[test]
fn the_store_under_a_key_and_the_backups_open() {
    let key = Unlock::Key { key: secret(&read("key")), origin: "key".to_owned() };
    let store = KeyStore::open(&dir().join("under-key")).unwrap().unlock(&key).unwrap();
    assert_eq!(store.store().certificates().len(), 0);

    let backup = KeyStore::from_backup(&dir(), read("backup.tdk")).unwrap();
    let opened = backup.unlock(&password(BACKUP_PASSWORD)).unwrap();
    assert_eq!(opened.unwrap_dek(&[wrapped("generation2.dek")]).unwrap().expose(), dek());

    let password = secret(BACKUP_PASSWORD.as_bytes());
    let (pem, p12) = (read("certificate.pem"), read("certificate.p12"));
    let key = read("private-key.pem");
    let origin = Path::new("fixture");
    let key = Some((key.as_slice(), origin));
    for backup in [
        CertificateBackup::from_pem((&pem, origin), key, Some(&password)),
        CertificateBackup::from_pkcs12(&p12, origin, &password),
    ] {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut store = crate::common::store_with(elsewhere.path(), &[]);
        store.import_certificate("AppCert", &backup.unwrap()).unwrap();
        assert_eq!(store.unwrap_dek(&[wrapped("generation2.dek")]).unwrap().expose(), dek());
    }
}

/// Makes the files anew, for a new format version. The files of a released version stay. Run it
/// with `TDEKIT_MAKE_FIXTURE=1`.
#[test]
fn make() {
    if std::env::var_os("TDEKIT_MAKE_FIXTURE").is_none() {
        return;
    }
    assert!(!dir().exists(), "the fixture of this version is there");
    let cost = PasswordParams::default();
    let mut store = KeyStore::create(&dir(), &password(PASSWORD), cost).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir().join(name), bytes).unwrap();
    store.create_certificate(&new_certificate("AppCert")).unwrap();
    let first = store.wrap_dek("AppCert", &secret(&dek())).unwrap();
    write("generation1.dek", &first.encode().unwrap());
    let rotation = store.rotate_certificate(&new_certificate("AppCert")).unwrap();
    let second = store.wrap_dek("AppCert", &secret(&dek())).unwrap();
    write("generation2.dek", &second.encode().unwrap());
    store.store().record_use(&second.sha256, [1; 16], Path::new("/data/app.db")).unwrap();

    let backup_password = secret(BACKUP_PASSWORD.as_bytes());
    let pem = store.export_pem("AppCert", &backup_password).unwrap();
    write("certificate.pem", pem.certificate.as_bytes());
    write("private-key.pem", pem.private_key.as_bytes());
    write("certificate.p12", &store.export_pkcs12("AppCert", &backup_password).unwrap());
    store.mark_backed_up(&rotation.new.sha256).unwrap();

    let elsewhere = tempfile::tempdir().unwrap();
    let other = crate::common::store_with(elsewhere.path(), &["Public"]);
    let public = other.export_pem("Public", &backup_password).unwrap().certificate;
    let public = CertificateBackup::from_pem((public.as_bytes(), Path::new("")), None, None);
    store.import_certificate("Public", &public.unwrap()).unwrap();
    write("backup.tdk", &store.backup(&password(BACKUP_PASSWORD), cost).unwrap());

    let expected: Vec<_> = store
        .store()
        .certificates()
        .iter()
        .map(|info| serde_json::json!({ "thumbprint": info.thumbprint(), "subject": info.subject }))
        .collect();
    write("expected.json", &serde_json::to_vec_pretty(&expected).unwrap());
    let key_file = dir().join("key");
    generate_key_file(&key_file).unwrap();
    KeyStore::create(&dir().join("under-key"), &Unlock::KeyFile(key_file), cost).unwrap();
    for lock in ["keystore.lock", "under-key/keystore.lock"] {
        fs::remove_file(dir().join(lock)).unwrap();
    }
}

/// Server keys from when there was only one derivation: they keep it, and new versions beside them
/// get the newest.
#[test]
fn server_keys_of_version_1_open_and_keep_their_derivation() {
    let dir = tempfile::tempdir().unwrap();
    let store = server_store(1, "server-keys.json", dir.path());
    let before = store.store().server_keys().unwrap().unwrap();
    assert_eq!(before.ids().collect::<Vec<_>>(), [1, 2, 17]);
    for id in before.ids() {
        assert_eq!(before.version(id, 1).unwrap().derivation, FIRST_DERIVATION);
        assert!(store.server_key(&before, id, 1).unwrap().is_some());
    }
    // Without new versions it stays a file that older programs read.
    store.rewrap_server_keys("Fixture").unwrap();
    let path = store.store().server_keys_path();
    assert!(fs::read_to_string(&path).unwrap().contains("\"version\":1,\"file_id\""));
    let old = store.server_key(&before, 1, 1).unwrap().unwrap();
    let after = store.rotate_server_key(1, "Fixture", None).unwrap();
    let newest = format!("\"version\":{NEWEST_DERIVATION},\"file_id\"");
    assert!(fs::read_to_string(&path).unwrap().contains(&newest));
    let derivations: Vec<u8> = after.versions(1).iter().map(|one| one.derivation).collect();
    assert_eq!(derivations, [FIRST_DERIVATION, NEWEST_DERIVATION]);
    assert_eq!(store.server_key(&after, 1, 1).unwrap().unwrap().expose(), old.expose());
}

/// Server keys of the second derivation, then of the third beside them: the file has the version of
/// its newest derivation.
#[test]
fn server_keys_of_version_2_open_and_keep_their_derivation() {
    let dir = tempfile::tempdir().unwrap();
    let store = server_store(2, "../server-keys-2.json", dir.path());
    let before = store.store().server_keys().unwrap().unwrap();
    assert_eq!(before.version(1, 1).unwrap().derivation, 2);
    store.rewrap_server_keys("Server").unwrap();
    let path = store.store().server_keys_path();
    assert!(fs::read_to_string(&path).unwrap().contains("\"version\":2,\"file_id\""));
    let later = tempfile::tempdir().unwrap();
    let store = server_store(2, "server-keys.json", later.path());
    let both = store.store().server_keys().unwrap().unwrap();
    let derivations: Vec<u8> = both.versions(1).iter().map(|one| one.derivation).collect();
    assert_eq!(derivations, [2, 3]);
    assert!((1..=2).all(|version| store.server_key(&both, 1, version).unwrap().is_some()));
    let old = store.server_key(&both, 1, 1).unwrap().unwrap();
    assert_ne!(store.server_key(&both, 1, 2).unwrap().unwrap().expose(), old.expose());
}

/// A copy of a MariaDB fixture's store with one of its files of server keys.
fn server_store(number: u32, keys: &str, dir: &Path) -> Unlocked {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures");
    let fixture = root.join(number.to_string()).join("mariadb");
    for (from, to) in [("keystore.tdk", "keystore.tdk"), (keys, "server-keys.json")] {
        fs::copy(fixture.join("store").join(from), dir.join(to)).unwrap();
    }
    let key = fs::read(fixture.join("key")).unwrap();
    let unlock = Unlock::Key { key: secret(&key), origin: "fixture".into() };
    KeyStore::open(dir).unwrap().unlock(&unlock).unwrap()
}
