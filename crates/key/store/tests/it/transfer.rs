//! Certificates and stores moved elsewhere: PEM, PKCS#12, OpenSSL, the backup of a whole store.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{cheap, key, new_certificate, password, secret, store_with};
use tdekit_key_store::{
    CertificateBackup, KeyStore, KeyType, NewCertificate, Restored, STORE_FILE_NAME, StoreError,
    Unlocked, restore,
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
    for key_type in [KeyType::EcP384, KeyType::Rsa3072] {
        let dir = tempfile::tempdir().unwrap();
        let openssl = |args: &[&str]| openssl(dir.path(), args);
        let mut store = store_with(&dir.path().join("home"), &[]);
        let new = NewCertificate { key_type: Some(key_type), ..new_certificate("AppCert") };
        store.create_certificate(&new).unwrap();
        let pem = store.export_pem("AppCert", &secret(b"secret")).unwrap();
        fs::write(dir.path().join("c.pem"), &pem.certificate).unwrap();
        fs::write(dir.path().join("k.pem"), &pem.private_key).unwrap();
        let p12 = store.export_pkcs12("AppCert", &secret(b"secret")).unwrap();
        fs::write(dir.path().join("b.p12"), p12).unwrap();

        let public = openssl(&["x509", "-in", "c.pem", "-noout", "-pubkey"]);
        let of_key = openssl(&["pkey", "-in", "k.pem", "-passin", "pass:secret", "-pubout"]);
        assert_eq!(public, of_key);
        let fingerprint = openssl(&["x509", "-in", "c.pem", "-noout", "-fingerprint", "-sha1"]);
        let shown = String::from_utf8(fingerprint).unwrap().trim().replace(':', "");
        let thumbprint = store.store().find("AppCert").unwrap().thumbprint();
        assert!(shown.ends_with(&thumbprint[2..]), "{shown} {thumbprint}");
        openssl(&["verify", "-CAfile", "c.pem", "c.pem"]);
        let text = openssl(&["pkcs12", "-in", "b.p12", "-passin", "pass:secret", "-nodes"]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("BEGIN PRIVATE KEY") && text.contains("BEGIN CERTIFICATE"));
        assert!(text.contains("friendlyName: AppCert"));

        let wrapped = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
        let unwrapped = match key_type {
            KeyType::EcP384 => unwrap_by_ecdh(dir.path(), &wrapped.blob),
            _ => unwrap_by_oaep(dir.path(), &wrapped.blob),
        };
        assert_eq!(unwrapped, [7; 32]);
        // A signature is plain RSA-PSS, or ECDSA in DER.
        fs::write(dir.path().join("p.pem"), &public).unwrap();
        fs::write(dir.path().join("m"), "message").unwrap();
        fs::write(dir.path().join("s"), store.sign("AppCert", b"message").unwrap()).unwrap();
        let pss = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"];
        let (digest, options): (_, &[&str]) = match key_type {
            KeyType::EcP384 => ("-sha384", &[]),
            _ => ("-sha256", &pss),
        };
        let verify = ["dgst", digest, "-verify", "p.pem", "-signature", "s", "m"];
        openssl(&[&verify[..1], options, &verify[1..]].concat());
    }
}

const KEY: [&str; 4] = ["-inkey", "k.pem", "-passin", "pass:secret"];

/// A key that an RSA certificate wraps is plain RSA-OAEP.
fn unwrap_by_oaep(dir: &Path, blob: &[u8]) -> Vec<u8> {
    fs::write(dir.join("w.bin"), blob).unwrap();
    let oaep = ["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256"];
    openssl(dir, &[&["pkeyutl", "-decrypt", "-in", "w.bin"][..], &KEY, &oaep].concat())
}

/// A key that an EC certificate wraps, step by step: ECDH, HKDF, AES key wrap with padding.
fn unwrap_by_ecdh(dir: &Path, blob: &[u8]) -> Vec<u8> {
    // The head of every SubjectPublicKeyInfo on P-384.
    let head = hex::decode("3076301006072a8648ce3d020106052b81040022036200").unwrap();
    let (ephemeral, wrapped) = blob.split_at(97);
    fs::write(dir.join("e.der"), [&head, ephemeral].concat()).unwrap();
    fs::write(dir.join("w.bin"), wrapped).unwrap();
    let peer = ["-peerkey", "e.der", "-peerform", "DER"];
    let shared = openssl(dir, &[&["pkeyutl", "-derive"][..], &KEY, &peer].concat());
    let own = openssl(
        dir,
        &["pkey", "-in", "k.pem", "-passin", "pass:secret", "-pubout", "-outform", "DER"],
    );
    let info = [b"tdekit wrap v1 ECDH P-384", ephemeral, &own[head.len()..]].concat();
    let (secret, info) =
        (format!("hexkey:{}", hex::encode(shared)), format!("hexinfo:{}", hex::encode(info)));
    let options = ["-keylen", "32", "-binary", "-kdfopt", "digest:SHA256"];
    let derive = [&["kdf"][..], &options, &["-kdfopt", &secret, "-kdfopt", &info, "HKDF"]].concat();
    let key = hex::encode(openssl(dir, &derive));
    let cipher = ["enc", "-d", "-id-aes256-wrap-pad", "-K", &key, "-iv", "A65959A6"];
    openssl(dir, &[&cipher[..], &["-in", "w.bin"]].concat())
}

/// Imports a certificate into the store, uses it and drops it.
fn try_out(store: &mut Unlocked, backup: &CertificateBackup, bits: u32) {
    let info = store.import_certificate("Tried", backup).unwrap();
    assert_eq!((info.key_bits, info.common_name.as_deref()), (bits, Some("from openssl")));
    let wrapped = store.wrap_dek("Tried", &secret(&[9; 32])).unwrap();
    assert_eq!(store.unwrap_dek(&[wrapped]).unwrap().expose(), [9; 32]);
    store.drop_certificate("Tried", false).unwrap();
}

#[test]
fn we_open_what_openssl_writes_in_each_of_its_forms() {
    for (made, traditional, bits) in [
        (&["-newkey", "rsa:2048"][..], "rsa", 2048),
        (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"], "ec", 384),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let openssl = |args: &[&str]| openssl(dir.path(), args);
        let mut store = store_with(&dir.path().join("home"), &[]);
        let request = ["req", "-x509", "-nodes", "-days", "30"];
        let output = ["-keyout", "o.key", "-out", "o.pem", "-subj", "/O=Acme/CN=from openssl"];
        openssl(&[&request[..], made, &output].concat());
        let certificate = fs::read(dir.path().join("o.pem")).unwrap();
        let password = ["-in", "o.key", "-passout", "pass:secret"];
        // The traditional form of an EC key is its only one.
        let old: &[&str] = if traditional == "rsa" { &["-traditional"] } else { &[] };
        for args in [
            vec!["pkcs8", "-topk8", "-nocrypt", "-in", "o.key"],
            [&[traditional, "-in", "o.key"], old].concat(),
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
            let backup = backup.unwrap_or_else(|error| panic!("{args:?}: {error}"));
            assert!(!backup.unchecked);
            try_out(&mut store, &backup, bits);
        }
        let p12 = ["pkcs12", "-export", "-in", "o.pem", "-inkey", "o.key"];
        let p12 = [&p12[..], &["-passout", "pass:secret"]].concat();
        for options in [&[][..], &["-legacy"], &["-keypbe", "PBE-SHA1-3DES", "-certpbe", "NONE"]] {
            let bytes = openssl(&[&p12[..], options].concat());
            let backup = CertificateBackup::from_pkcs12(&bytes, origin(), &secret(b"secret"));
            let backup = backup.unwrap_or_else(|error| panic!("{options:?}: {error}"));
            try_out(&mut store, &backup, bits);
            let wrong = CertificateBackup::from_pkcs12(&bytes, origin(), &secret(b"x"));
            let wrong = wrong.unwrap_err();
            let is_named = matches!(wrong, StoreError::WrongBackupPassword { .. });
            assert!(is_named, "{options:?}: {wrong}");
        }
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
