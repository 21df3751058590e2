//! Master key, certificates and wrapped keys, through the public interface.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{cheap, key, new_certificate, password, secret, store_with};
use tdekit_key_crypto::PrivateKey;
use tdekit_key_crypto::pem::{encode_certificate, encode_encrypted_key};
use tdekit_key_crypto::x509::self_signed;
use tdekit_key_store::{
    CertificateBackup, KeyStore, KeyType, ProtectorKind, STORE_FILE_NAME, StoreError, Unlock,
    Unlocked, WrapMechanism, generate_key_file, now_seconds,
};

const DAY_S: i64 = 86_400;

#[test]
fn a_wrapped_key_comes_back_through_password_key_and_key_file() {
    let dir = tempfile::tempdir().unwrap();
    let key_file = dir.path().join("key");
    generate_key_file(&key_file).unwrap();
    assert!(generate_key_file(&key_file).is_err());
    let password_file = dir.path().join("password");
    fs::write(&password_file, "correct horse\n").unwrap();
    fs::set_permissions(&password_file, fs::Permissions::from_mode(0o600)).unwrap();
    for (index, (made_by, opened_by)) in [
        (password("correct horse"), password("correct horse")),
        (password("correct horse"), Unlock::PasswordFile(password_file.clone())),
        (key(1), key(1)),
        (Unlock::KeyFile(key_file.clone()), Unlock::KeyFile(key_file)),
    ]
    .into_iter()
    .enumerate()
    {
        let home = dir.path().join(format!("deep/home{index}"));
        let mut made = KeyStore::create(&home, &made_by, cheap()).unwrap();
        let info = made.create_certificate(&new_certificate("AppCert")).unwrap();
        assert!(info.needs_backup() && info.active && info.has_private_key);
        assert_eq!((info.generation, info.key_bits), (1, 384));
        assert_eq!(info.subject, "CN=AppCert");

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&home), mode(&home.join(STORE_FILE_NAME))), (0o700, 0o600));

        let store = KeyStore::open(&home).unwrap();
        let wrapped = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
        assert_eq!(wrapped.encode().unwrap().len(), 225);
        let opened = store.unlock(&opened_by).unwrap();
        assert_eq!(opened.unwrap_dek(&[wrapped]).unwrap().expose(), [7; 32]);
        assert_eq!(store.certificates(), opened.store().certificates());
    }
}

#[test]
fn the_first_secret_of_a_kind_that_the_store_accepts_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &[]).store().clone();
    assert!(store.choose(Vec::new()).is_none());
    let fits = store.choose(vec![password("a"), key(1), key(2)]).unwrap();
    assert!(store.unlock(&fits).is_ok());
    let mismatch = store.choose(vec![password("a"), password("b")]).unwrap();
    assert!(matches!(
        store.unlock(&mismatch),
        Err(StoreError::ProviderMismatch { offered: ProtectorKind::Password, .. })
    ));
}

#[test]
fn wrong_secrets_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let missing = KeyStore::open(dir.path()).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }));
    KeyStore::create(dir.path(), &password("right"), cheap()).unwrap();
    let again = KeyStore::create(dir.path(), &password("right"), cheap()).unwrap_err();
    assert!(matches!(again, StoreError::AlreadyExists { .. }));
    let store = KeyStore::open(dir.path()).unwrap();
    assert_eq!(store.accepts(), [ProtectorKind::Password]);
    assert!(matches!(store.unlock(&password("Right")), Err(StoreError::WrongPassword)));
    assert!(matches!(store.unlock(&password("")), Err(StoreError::BadSecret { .. })));
    let mismatch = store.unlock(&key(1)).unwrap_err();
    assert_eq!(
        mismatch.to_string(),
        "the key store is opened with a password, not with a key file"
    );

    let other = dir.path().join("other");
    let short = Unlock::Key { key: secret(&[1; 31]), origin: "x".to_owned() };
    let refused = KeyStore::create(&other, &short, cheap()).unwrap_err();
    assert!(matches!(refused, StoreError::BadSecret { .. }));
    store_with(&other, &[]);
    let store = KeyStore::open(&other).unwrap();
    assert!(matches!(store.unlock(&key(2)), Err(StoreError::WrongKey { .. })));
}

#[test]
fn secret_and_master_key_are_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["AppCert"]);
    let wrapped = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    let first = store.store().file().clone();

    store.change_secret(&password("new"), cheap()).unwrap();
    let second = KeyStore::open(dir.path()).unwrap().file().clone();
    assert_eq!(second.master_key.id, first.master_key.id);
    assert_eq!(second.certificates, first.certificates);
    assert!(KeyStore::open(dir.path()).unwrap().unlock(&key(1)).is_err());

    let mut store = KeyStore::open(dir.path()).unwrap().unlock(&password("new")).unwrap();
    store.rotate_master_key(&key(3), cheap()).unwrap();
    let third = KeyStore::open(dir.path()).unwrap();
    assert_ne!(third.file().master_key.id, first.master_key.id);
    let sealed = |file: &tdekit_key_store::StoreFile| {
        file.certificates[0].sealed_private_key.clone().unwrap()
    };
    assert_ne!(sealed(third.file()), sealed(&first));
    assert!(third.unlock(&password("new")).is_err());
    for opened in [store, third.unlock(&key(3)).unwrap()] {
        let dek = opened.unwrap_dek(std::slice::from_ref(&wrapped)).unwrap();
        assert_eq!(dek.expose(), [7; 32]);
    }
}

#[test]
fn a_rotated_certificate_unwraps_old_keys_and_wraps_with_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["AppCert"]);
    let old = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    store.store().record_use(&old.sha256, [1; 16], Path::new("/data/app.db")).unwrap();
    let rotation = store.rotate_certificate(&new_certificate("AppCert")).unwrap();
    assert_eq!(rotation.old.sha256, old.sha256);
    assert_eq!((rotation.old.generation, rotation.new.generation), (1, 2));
    assert_eq!(rotation.files[0].path, Path::new("/data/app.db"));
    let new = store.wrap_dek("AppCert", &secret(&[7; 32])).unwrap();
    assert_eq!(new.sha256, rotation.new.sha256);
    assert_ne!(new.public_key_sha256, old.public_key_sha256);
    for wrapped in [old, new] {
        assert_eq!(store.unwrap_dek(&[wrapped]).unwrap().expose(), [7; 32]);
    }
    let found = store.store().find(&rotation.old.thumbprint()).unwrap();
    assert_eq!((found.generation, found.active), (1, false));
    assert_eq!(store.store().find_all("AppCert").unwrap().len(), 2);
    assert!(store.rotate_certificate(&new_certificate("Other")).is_err());
}

#[test]
fn dropping_spares_what_is_in_use_and_what_is_active() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["AppCert", "Spare"]);
    let rotation = store.rotate_certificate(&new_certificate("AppCert")).unwrap();
    let (old, new) = (rotation.old, rotation.new);
    let path = Path::new("/data/app.db");
    store.mark_backed_up(&new.sha256).unwrap();
    store.store().record_use(&old.sha256, [1; 16], path).unwrap();
    store.store().record_use(&old.sha256, [1; 16], path).unwrap();
    assert_eq!(store.store().uses().unwrap().len(), 1);

    for selector in ["AppCert", &old.thumbprint()] {
        match store.drop_certificate(selector, false).unwrap_err() {
            StoreError::CertificateInUse { name, files, .. } => {
                assert_eq!((name.as_str(), files[0].as_path()), ("AppCert", path));
            }
            other => panic!("{other}"),
        }
    }
    let active = store.drop_certificate(&new.thumbprint(), false).unwrap_err();
    assert!(matches!(active, StoreError::InvalidValue { .. }));
    store.store().forget_use(&old.sha256, [1; 16], path).unwrap();
    let only_copy = store.drop_certificate(&old.thumbprint(), false).unwrap_err();
    assert!(matches!(only_copy, StoreError::NotBackedUp { .. }));
    let spare = store.store().find("Spare").unwrap().sha256;
    for sha256 in [old.sha256, spare] {
        store.mark_backed_up(&sha256).unwrap();
    }
    assert_eq!(store.drop_certificate(&old.thumbprint(), false).unwrap().len(), 1);
    assert_eq!(store.drop_certificate("Spare", false).unwrap()[0].name, "Spare");
    let missing = store.drop_certificate("Spare", false).unwrap_err();
    assert!(matches!(missing, StoreError::CertificateMissing { .. }));

    store.store().record_use(&new.sha256, [1; 16], path).unwrap();
    assert_eq!(store.drop_certificate("AppCert", true).unwrap().len(), 1);
    assert!(KeyStore::open(dir.path()).unwrap().certificates().is_empty());
}

#[test]
fn several_recipients_any_of_which_serves() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [here, there] = [0, 1].map(|i| store_with(dirs[i].path(), &["AppCert"]));
    let dek = secret(&[7; 32]);
    let both = [there.wrap_dek("AppCert", &dek).unwrap(), here.wrap_dek("AppCert", &dek).unwrap()];
    assert_eq!(here.unwrap_dek(&both).unwrap().expose(), [7; 32]);
    assert_eq!(there.unwrap_dek(&both).unwrap().expose(), [7; 32]);

    let mut newer = both.clone();
    newer[1].mechanism = WrapMechanism::Other(9);
    let error = here.unwrap_dek(&newer).unwrap_err();
    assert!(matches!(error, StoreError::UnknownMechanism { mechanism: 9 }));
    let mut damaged = both.clone();
    damaged[1].blob[5] ^= 1;
    let error = here.unwrap_dek(&damaged).unwrap_err();
    assert!(matches!(error, StoreError::WrappedKeyDamaged { .. }));
    let error = here.unwrap_dek(&both[..1]).unwrap_err();
    assert!(error.to_string().contains(&both[0].thumbprint()));
    assert!(matches!(here.unwrap_dek(&[]), Err(StoreError::Corrupt { .. })));
}

#[test]
fn names_subjects_and_expiry_have_rules() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["AppCert"]);
    for name in ["", " x", "x\n", "0xAB", &"n".repeat(129)] {
        let error = store.create_certificate(&new_certificate(name)).unwrap_err();
        assert!(matches!(error, StoreError::InvalidValue { .. }), "{name:?}: {error}");
    }
    let taken = store.create_certificate(&new_certificate("AppCert")).unwrap_err();
    assert!(matches!(taken, StoreError::CertificateExists { .. }));
    let long = "s".repeat(65);
    for (subject, expires_at) in [(Some(long.as_str()), i64::MAX / 2), (None, now_seconds() - 1)] {
        let mut new = new_certificate("Other");
        (new.subject, new.expires_at) = (subject, expires_at);
        assert!(store.create_certificate(&new).is_err());
    }
    let mut new = new_certificate("Ünïcode name");
    (new.subject, new.key_type) = (Some("Acme payroll"), Some(KeyType::Rsa4096));
    let info = store.create_certificate(&new).unwrap();
    assert_eq!((info.subject.as_str(), info.key_bits), ("CN=Acme payroll", 4096));
    let rotated = store.rotate_certificate(&new_certificate("Ünïcode name")).unwrap();
    assert_eq!((rotated.new.subject.as_str(), rotated.new.key_bits), ("CN=Acme payroll", 4096));
}

/// A store with a certificate of `key` that was valid from two days ago until `not_after`.
fn store_of(dir: &Path, key: &PrivateKey, not_after: i64) -> Unlocked {
    let der = self_signed(key, "Brief", now_seconds() - 2 * DAY_S, not_after).unwrap();
    let pem = encode_certificate(&der) + &encode_encrypted_key(key, b"backup").unwrap();
    let origin = Path::new("backup");
    let backup =
        CertificateBackup::from_pem((pem.as_bytes(), origin), None, Some(&secret(b"backup")));
    let mut store = store_with(dir, &[]);
    store.import_certificate("Brief", &backup.unwrap()).unwrap();
    store
}

#[test]
fn an_expired_certificate_unwraps_and_does_not_wrap() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = PrivateKey::generate(KeyType::EcP384).unwrap();
    let valid = store_of(other.path(), &key, now_seconds() + DAY_S);
    let mut wrapped = valid.wrap_dek("Brief", &secret(&[7; 32])).unwrap();
    let store = store_of(dir.path(), &key, now_seconds() - DAY_S);
    let error = store.wrap_dek("Brief", &secret(&[7; 32])).unwrap_err();
    assert!(matches!(error, StoreError::CertificateExpired { .. }), "{error}");
    let error = store.sign("Brief", b"message").unwrap_err();
    assert!(matches!(error, StoreError::CertificateExpired { .. }), "{error}");
    // As if wrapped while it was valid.
    wrapped.sha256 = store.store().find("Brief").unwrap().sha256;
    assert_eq!(store.unwrap_dek(&[wrapped]).unwrap().expose(), [7; 32]);
}
