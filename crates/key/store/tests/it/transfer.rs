//! Certificates and stores moved elsewhere: PEM, PKCS#12, OpenSSL, the backup of a whole store.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{cheap, key, new_certificate, password, secret, store_with};
use tdekit_key_store::{
    CertificateBackup, KeyStore, Restored, STORE_FILE_NAME, StoreError, Unlocked, restore,
};

const ORIGIN: &str = "backup";

fn origin() -> &'static Path {
    Path::new(ORIGIN)
}

#[test]
fn a_certificate_restored_from_pem_or_pkcs12_unwraps_elsewhere() {
    let here = tempfile::tempdir().unwrap();
    let mut store = store_with(here.path(), &["AppCert"]);
    let wrapped = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    let backup_password = secret("gr\u{fc}n".as_bytes());
    let pem = store.export_pem("AppCert", &backup_password).unwrap();
    let p12 = store.export_pkcs12("AppCert", &backup_password).unwrap();
    store.mark_backed_up(&wrapped.sha256).unwrap();
    assert!(!KeyStore::open(here.path()).unwrap().find("AppCert").unwrap().needs_backup());

    let from_pem = CertificateBackup::from_pem(
        (pem.certificate.as_bytes(), origin()),
        Some((pem.private_key.as_bytes(), origin())),
        Some(&backup_password),
    )
    .unwrap();
    let in_one_file = pem.private_key.clone() + &pem.certificate;
    let in_one_file = CertificateBackup::from_pem(
        (in_one_file.as_bytes(), origin()),
        None,
        Some(&backup_password),
    )
    .unwrap();
    let from_p12 = CertificateBackup::from_pkcs12(&p12, origin(), &backup_password).unwrap();
    assert_eq!(from_p12.friendly_name.as_deref(), Some("AppCert"));
    for backup in [from_pem, in_one_file, from_p12] {
        let there = tempfile::tempdir().unwrap();
        let mut store = store_with(there.path(), &[]);
        let info = store.import_certificate("Restored", &backup).unwrap();
        assert_eq!(info.sha256, wrapped.sha256);
        assert!(!info.needs_backup());
        let again = KeyStore::open(there.path()).unwrap().unlock(&key(1)).unwrap();
        let dek = again.unwrap_dek(std::slice::from_ref(&wrapped)).unwrap();
        assert_eq!(dek.expose(), [7; 32]);
        let twice = store.import_certificate("Second", &backup).unwrap_err();
        assert!(matches!(twice, StoreError::CertificateExists { .. }));
    }

    let wrong = CertificateBackup::from_pkcs12(&p12, origin(), &secret(b"x")).unwrap_err();
    assert!(matches!(wrong, StoreError::WrongBackupPassword { .. }));
    for password in [Some(secret(b"x")), None] {
        let wrong = CertificateBackup::from_pem(
            (pem.certificate.as_bytes(), origin()),
            Some((pem.private_key.as_bytes(), origin())),
            password.as_ref(),
        );
        assert!(matches!(
            wrong.unwrap_err(),
            StoreError::WrongBackupPassword { .. } | StoreError::BadSecret { .. }
        ));
    }
}

#[test]
fn a_certificate_without_its_key_wraps_and_gets_the_key_later() {
    let here = tempfile::tempdir().unwrap();
    let store = store_with(here.path(), &["AppCert"]);
    let pem = store.export_pem("AppCert", &secret(b"x")).unwrap();
    let public =
        CertificateBackup::from_pem((pem.certificate.as_bytes(), origin()), None, None).unwrap();
    let there = tempfile::tempdir().unwrap();
    let mut elsewhere = store_with(there.path(), &[]);
    let info = elsewhere.import_certificate("AppCert", &public).unwrap();
    assert!(!info.has_private_key && !info.needs_backup());
    let wrapped = elsewhere.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    let keyless = elsewhere.unwrap_dek(std::slice::from_ref(&wrapped)).unwrap_err();
    assert!(matches!(keyless, StoreError::PrivateKeyMissing { .. }));
    assert_eq!(store.unwrap_dek(std::slice::from_ref(&wrapped)).unwrap().expose(), [7; 32]);
    assert!(elsewhere.export_pem("AppCert", &secret(b"x")).is_err());
    elsewhere.rotate_master_key(&key(2), cheap()).unwrap();

    let p12 = store.export_pkcs12("AppCert", &secret(b"x")).unwrap();
    let whole = CertificateBackup::from_pkcs12(&p12, origin(), &secret(b"x")).unwrap();
    elsewhere.import_certificate("AppCert", &whole).unwrap();
    assert_eq!(elsewhere.unwrap_dek(&[wrapped]).unwrap().expose(), [7; 32]);
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A", "B"]);
    let [a, b] = ["A", "B"].map(|name| store.export_pem(name, &secret(b"x")).unwrap());
    let mixed = CertificateBackup::from_pem(
        (a.certificate.as_bytes(), origin()),
        Some((b.private_key.as_bytes(), origin())),
        Some(&secret(b"x")),
    );
    assert!(matches!(mixed.unwrap_err(), StoreError::KeyMismatch { .. }));
    // From a chain, the key's own certificate is taken, at any position.
    let chain = b.certificate.clone() + &a.certificate + &a.private_key;
    let backup =
        CertificateBackup::from_pem((chain.as_bytes(), origin()), None, Some(&secret(b"x")));
    let other = tempfile::tempdir().unwrap();
    let info = store_with(other.path(), &[]).import_certificate("A", &backup.unwrap()).unwrap();
    assert_eq!(info.sha256, store.store().find("A").unwrap().sha256);
}

/// Runs OpenSSL's command, which the test machine must have, in `dir`.
fn openssl(dir: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl").args(args).current_dir(dir).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "openssl {args:?}: {errors}");
    output.stdout
}

#[test]
fn openssl_opens_what_we_write() {
    let dir = tempfile::tempdir().unwrap();
    let openssl = |args: &[&str]| openssl(dir.path(), args);
    let store = store_with(&dir.path().join("home"), &["AppCert"]);
    let pem = store.export_pem("AppCert", &secret(b"secret")).unwrap();
    fs::write(dir.path().join("c.pem"), &pem.certificate).unwrap();
    fs::write(dir.path().join("k.pem"), &pem.private_key).unwrap();
    let p12 = store.export_pkcs12("AppCert", &secret(b"secret")).unwrap();
    fs::write(dir.path().join("b.p12"), p12).unwrap();

    let modulus = openssl(&["x509", "-in", "c.pem", "-noout", "-modulus"]);
    let of_key = openssl(&["rsa", "-in", "k.pem", "-passin", "pass:secret", "-noout", "-modulus"]);
    assert_eq!(modulus, of_key);
    let fingerprint = openssl(&["x509", "-in", "c.pem", "-noout", "-fingerprint", "-sha1"]);
    let shown = String::from_utf8(fingerprint).unwrap().trim().replace(':', "");
    let thumbprint = store.store().find("AppCert").unwrap().thumbprint();
    assert!(shown.ends_with(&thumbprint[2..]), "{shown} {thumbprint}");
    openssl(&["verify", "-CAfile", "c.pem", "c.pem"]);
    let text = openssl(&["pkcs12", "-in", "b.p12", "-passin", "pass:secret", "-nodes"]);
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("BEGIN PRIVATE KEY") && text.contains("BEGIN CERTIFICATE"));
    assert!(text.contains("friendlyName: AppCert"));

    // A wrapped key is plain RSA-OAEP: OpenSSL unwraps it.
    let wrapped = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    fs::write(dir.path().join("w.bin"), &wrapped.blob).unwrap();
    let oaep = ["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256"];
    let unwrap =
        ["pkeyutl", "-decrypt", "-inkey", "k.pem", "-passin", "pass:secret", "-in", "w.bin"];
    assert_eq!(openssl(&[&unwrap[..], &oaep].concat()), [7; 32]);
}

/// Imports a certificate into the store, uses it and drops it.
fn try_out(store: &mut Unlocked, backup: &CertificateBackup) {
    let info = store.import_certificate("Tried", backup).unwrap();
    assert_eq!((info.key_bits, info.common_name.as_deref()), (2048, Some("from openssl")));
    let wrapped = store.wrap_dek("Tried", &secret(&[9; 32])).unwrap();
    assert_eq!(store.unwrap_dek(&[wrapped]).unwrap().expose(), [9; 32]);
    store.drop_certificate("Tried", false).unwrap();
}

#[test]
fn we_open_what_openssl_writes_in_each_of_its_forms() {
    let dir = tempfile::tempdir().unwrap();
    let openssl = |args: &[&str]| openssl(dir.path(), args);
    let mut store = store_with(&dir.path().join("home"), &[]);
    let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"];
    let output = ["-keyout", "o.key", "-out", "o.pem", "-subj", "/O=Acme/CN=from openssl"];
    openssl(&[&request[..], &output].concat());
    let certificate = fs::read(dir.path().join("o.pem")).unwrap();
    let password = ["-in", "o.key", "-passout", "pass:secret"];
    for args in [
        vec!["pkcs8", "-topk8", "-nocrypt", "-in", "o.key"],
        vec!["rsa", "-in", "o.key", "-traditional"],
        [&["pkcs8", "-topk8"][..], &password].concat(),
        [&["pkcs8", "-topk8", "-v2", "des3"][..], &password].concat(),
        [&["pkcs8", "-topk8", "-scrypt"][..], &password].concat(),
    ] {
        let key = openssl(&args);
        let backup = CertificateBackup::from_pem(
            (&certificate, origin()),
            Some((&key, origin())),
            Some(&secret(b"secret")),
        );
        try_out(&mut store, &backup.unwrap_or_else(|error| panic!("{args:?}: {error}")));
    }
    let p12 = ["pkcs12", "-export", "-in", "o.pem", "-inkey", "o.key", "-passout", "pass:secret"];
    for options in [&[][..], &["-legacy"], &["-keypbe", "PBE-SHA1-3DES", "-certpbe", "NONE"]] {
        let bytes = openssl(&[&p12[..], options].concat());
        let backup = CertificateBackup::from_pkcs12(&bytes, origin(), &secret(b"secret"));
        try_out(&mut store, &backup.unwrap_or_else(|error| panic!("{options:?}: {error}")));
        let wrong = CertificateBackup::from_pkcs12(&bytes, origin(), &secret(b"x")).unwrap_err();
        assert!(matches!(wrong, StoreError::WrongBackupPassword { .. }), "{options:?}: {wrong}");
    }
}

#[test]
fn a_whole_store_is_restored_where_there_is_none() {
    let here = tempfile::tempdir().unwrap();
    let mut store = store_with(here.path(), &["AppCert"]);
    let wrapped = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    let backup = store.backup(&password("backup"), cheap()).unwrap();
    let read = KeyStore::from_backup(here.path(), backup.clone()).unwrap();
    assert!(!read.find("AppCert").unwrap().needs_backup());
    store.create_certificate(&new_certificate("Later")).unwrap();
    store.mark_all_backed_up(&read).unwrap();
    let needs = |name| store.store().find(name).unwrap().needs_backup();
    assert_eq!((needs("AppCert"), needs("Later")), (false, true));
    let there = tempfile::tempdir().unwrap();
    let home = there.path().join("home");

    let wrong = restore(&home, backup.clone(), &password("x"), None, cheap(), false).unwrap_err();
    assert!(matches!(wrong, StoreError::WrongPassword));
    assert!(!home.exists());
    let new = key(2);
    let outcome = restore(&home, backup, &password("backup"), Some(&new), cheap(), false).unwrap();
    assert_eq!((outcome.done, outcome.set_aside), (Restored::Installed, None));
    let store = KeyStore::open(&home).unwrap();
    assert!(store.unlock(&password("backup")).is_err());
    for opened in [store.unlock(&new).unwrap(), outcome.store] {
        let dek = opened.unwrap_dek(std::slice::from_ref(&wrapped)).unwrap();
        assert_eq!(dek.expose(), [7; 32]);
    }
}

#[test]
fn a_lost_password_is_replaced_and_newer_certificates_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["AppCert"]);
    let backup = store.backup(&password("backup"), cheap()).unwrap();
    store.create_certificate(&new_certificate("Later")).unwrap();
    let outcome =
        restore(dir.path(), backup, &password("backup"), Some(&key(2)), cheap(), false).unwrap();
    assert_eq!(outcome.done, Restored::SecretChanged);
    let store = KeyStore::open(dir.path()).unwrap();
    assert!(store.unlock(&key(1)).is_err());
    assert_eq!(store.unlock(&key(2)).unwrap().store().certificates().len(), 2);
}

#[test]
fn another_store_is_kept_unless_told_and_set_aside_then() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = store_with(here.path(), &["A"]).backup(&password("backup"), cheap()).unwrap();
    let mut other = store_with(there.path(), &["B"]);
    let restore_there = |replace| {
        restore(there.path(), backup.clone(), &password("backup"), None, cheap(), replace)
    };
    assert!(matches!(restore_there(false), Err(StoreError::DifferentStore { .. })));
    let before = fs::read(there.path().join(STORE_FILE_NAME)).unwrap();
    let outcome = restore_there(true).unwrap();
    assert_eq!(outcome.done, Restored::Replaced);
    assert_eq!(fs::read(outcome.set_aside.unwrap()).unwrap(), before);
    let store = KeyStore::open(there.path()).unwrap();
    assert!(store.find("A").is_ok() && store.unlock(&password("backup")).is_ok());
    let changed = other.create_certificate(&new_certificate("C")).unwrap_err();
    assert!(matches!(changed, StoreError::MasterKeyChanged));

    // A damaged store does not prevent the restore either.
    fs::write(there.path().join(STORE_FILE_NAME), b"rubbish").unwrap();
    assert!(restore_there(false).is_err());
    assert_eq!(restore_there(true).unwrap().done, Restored::Replaced);
}
