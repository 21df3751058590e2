//! Numbered keys: made, rotated, rewrapped, tampered with.

use std::fs;

use crate::common::{key, new_certificate, store_with};
use tdekit_key_store::{KeyStore, PageCipher, SERVER_KEY_LEN, ServerKeys, StoreError, Unlocked};

fn opened(store: &Unlocked, keys: &ServerKeys, id: u32, version: u32) -> Vec<u8> {
    store.server_key(keys, id, version).unwrap().unwrap().expose().to_vec()
}

fn read(store: &Unlocked) -> ServerKeys {
    store.store().server_keys().unwrap().unwrap()
}

#[test]
fn the_cipher_of_pages_stays_until_another_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    let ciphers = |id| -> Vec<PageCipher> {
        let keys = read(&store);
        let versions = keys.versions(id).iter();
        versions.map(|version| PageCipher::of_derivation(version.derivation)).collect()
    };
    store.create_server_key(1, "A", None).unwrap();
    store.rotate_server_key(1, "A", Some(PageCipher::Hctr2)).unwrap();
    store.rotate_server_key(1, "A", None).unwrap();
    assert_eq!(ciphers(1), [PageCipher::Gmac, PageCipher::Hctr2, PageCipher::Hctr2]);
    // A new key is like key 1.
    store.create_server_key(17, "A", None).unwrap();
    store.rotate_server_key(17, "A", Some(PageCipher::Gmac)).unwrap();
    store.rotate_server_key(17, "A", None).unwrap();
    assert_eq!(ciphers(17), [PageCipher::Hctr2, PageCipher::Gmac, PageCipher::Gmac]);
}

#[test]
fn versions_are_added_and_none_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    assert!(store.store().server_keys().unwrap().is_none());
    store.create_server_key(1, "A", None).unwrap();
    let first = store.create_server_key(17, "A", None).unwrap();
    let old = opened(&store, &first, 17, 1);
    assert_eq!(old.len(), SERVER_KEY_LEN);
    let keys = store.rotate_server_key(17, "A", None).unwrap();
    assert_eq!(keys, read(&store));
    assert_eq!(keys.ids().collect::<Vec<_>>(), [1, 17]);
    assert_eq!((keys.latest(1), keys.latest(17), keys.latest(2)), (Some(1), Some(2), None));
    assert_eq!(opened(&store, &keys, 17, 1), old);
    assert_ne!(opened(&store, &keys, 17, 2), old);
    assert_ne!(opened(&store, &keys, 1, 1), old);
    for (id, version) in [(17, 0), (17, 3), (2, 1), (17, u32::MAX)] {
        assert!(store.server_key(&keys, id, version).unwrap().is_none());
    }
    let refused = |result: Result<ServerKeys, StoreError>| {
        assert!(matches!(result, Err(StoreError::InvalidValue { .. })), "{result:?}");
    };
    refused(store.create_server_key(17, "A", None));
    refused(store.create_server_key(0, "A", None));
    refused(store.create_server_key(u32::MAX, "A", None));
    refused(store.rotate_server_key(2, "A", None));
    assert!(store.create_server_key(3, "B", None).is_err());
    assert_eq!(read(&store), keys);

    // Another process, with the same key.
    let again = KeyStore::open(dir.path()).unwrap().unlock(&key(1)).unwrap();
    assert_eq!(opened(&again, &read(&again), 17, 1), old);
}

#[test]
fn every_changed_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    store.create_server_key(1, "A", None).unwrap();
    let path = store.store().server_keys_path();
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7).chain(good.len() - 3..good.len()) {
        for changed in [good[at] ^ 1, b'\n'] {
            let mut bad = good.clone();
            bad[at] = changed;
            fs::write(&path, &bad).unwrap();
            let outcome = store.store().server_keys();
            assert!(outcome.is_err() || bad == good, "byte {at}: {outcome:?}");
        }
        fs::write(&path, &good[..at]).unwrap();
        assert!(store.store().server_keys().is_err(), "cut at {at}");
    }
    fs::write(&path, [good.as_slice(), b"x"].concat()).unwrap();
    assert!(store.store().server_keys().is_err());
    fs::write(&path, good).unwrap();
    read(&store);
}

#[test]
fn keys_of_somebody_elses_certificate_are_refused() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = store_with(ours.path(), &["A"]);
    store.create_server_key(1, "A", None).unwrap();
    let other = store_with(theirs.path(), &["A"]);
    other.create_server_key(1, "A", None).unwrap();
    fs::copy(other.store().server_keys_path(), store.store().server_keys_path()).unwrap();
    let outcome = store.store().server_keys();
    assert!(matches!(outcome, Err(StoreError::CertificateMissing { .. })), "{outcome:?}");
}

#[test]
fn a_rotated_certificate_takes_the_keys_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    store.create_server_key(1, "A", None).unwrap();
    let keys = store.rotate_server_key(1, "A", None).unwrap();
    let before = [1, 2].map(|version| opened(&store, &keys, 1, version));
    let refused = store.drop_certificate("A", false).unwrap_err();
    assert!(matches!(refused, StoreError::CertificateInUse { .. }), "{refused}");

    let rotation = store.rotate_certificate(&new_certificate("A")).unwrap();
    assert_eq!(rotation.files.len(), 1);
    let keys = store.rewrap_server_keys("A").unwrap();
    assert_eq!(keys.signer(), &rotation.new.sha256);
    assert!(keys.versions(1).iter().all(|one| one.wrapped[0].sha256 == rotation.new.sha256));
    assert_eq!([1, 2].map(|version| opened(&store, &keys, 1, version)), before);
    assert!(store.store().uses_of(&rotation.old.sha256).unwrap().is_empty());
    assert_eq!(store.store().uses_of(&rotation.new.sha256).unwrap().len(), 1);
}

#[test]
fn a_new_master_key_leaves_them_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    let keys = store.create_server_key(1, "A", None).unwrap();
    let before = opened(&store, &keys, 1, 1);
    store.rotate_master_key(&key(2), crate::common::cheap()).unwrap();
    let again = KeyStore::open(dir.path()).unwrap().unlock(&key(2)).unwrap();
    assert_eq!(opened(&again, &read(&again), 1, 1), before);
    again.rotate_server_key(1, "A", None).unwrap();
}
