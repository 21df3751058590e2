//! Named keys: added, removed, rewrapped, tampered with, changed by two at once.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{cheap, key, new_certificate, secret, store_with};
use tdekit_key_store::{
    AuditAction, AuditSubject, KeyName, KeyStore, MAX_KEY_NAME_LEN, MAX_NAMED_KEY_LEN, NamedKeys,
    StoreError, Unlock, Unlocked, generate_key_file, is_key_listing, namespace_of,
};

const SPACE: &str = "main";

fn name(id: &str, owner: &str) -> KeyName {
    KeyName { id: id.to_owned(), owner: owner.to_owned() }
}

fn add(store: &Unlocked, id: &str, owner: &str, bytes: &[u8]) -> NamedKeys {
    store.add_named_key(SPACE, "A", &name(id, owner), "AES", &secret(bytes)).unwrap()
}

fn read(store: &Unlocked) -> NamedKeys {
    store.store().named_keys(SPACE).unwrap().unwrap()
}

fn opened(store: &Unlocked, keys: &NamedKeys, id: &str, owner: &str) -> Option<Vec<u8>> {
    let file_key = store.open_named_keys(keys).unwrap();
    let found = keys.open(&file_key, &name(id, owner)).unwrap();
    found.map(|(_, secret)| secret.expose().to_vec())
}

#[test]
fn keys_of_any_length_are_kept_by_name_and_owner() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    assert!(store.store().named_keys(SPACE).unwrap().is_none());
    add(&store, "k", "", &[1; 32]);
    add(&store, "k", "ann@localhost", &[2; MAX_NAMED_KEY_LEN]);
    let keys = add(&store, "leer", "", b"");
    assert_eq!(keys, read(&store));
    assert_eq!((keys.count(), keys.sequence(), keys.namespace()), (3, 3, SPACE));
    let (_, first) = keys.iter().next().unwrap();
    assert_eq!((first.kind.as_str(), first.key_len()), ("AES", 32));
    assert_eq!(opened(&store, &keys, "k", ""), Some(vec![1; 32]));
    assert_eq!(opened(&store, &keys, "k", "ann@localhost"), Some(vec![2; MAX_NAMED_KEY_LEN]));
    assert_eq!(opened(&store, &keys, "leer", ""), Some(Vec::new()));
    assert_eq!(opened(&store, &keys, "other", ""), None);

    let (keys, was_there) = store.remove_named_key(SPACE, "A", &name("k", "")).unwrap();
    assert!(was_there && keys.unwrap() == read(&store) && read(&store).count() == 2);
    let bytes = fs::read(store.store().named_keys_path(SPACE).unwrap()).unwrap();
    let (keys, was_there) = store.remove_named_key(SPACE, "A", &name("k", "")).unwrap();
    assert!(!was_there && keys.unwrap().sequence() == 4);
    assert_eq!(fs::read(store.store().named_keys_path(SPACE).unwrap()).unwrap(), bytes);

    // Another process, with the same key.
    let again = KeyStore::open(dir.path()).unwrap().unlock(&key(1)).unwrap();
    let keys = read(&again);
    assert_eq!(opened(&again, &keys, "k", "ann@localhost"), Some(vec![2; MAX_NAMED_KEY_LEN]));
}

#[test]
fn names_that_are_taken_or_not_allowed_are_refused_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    let before = add(&store, "k", "", &[1; 32]);
    let long = "x".repeat(MAX_KEY_NAME_LEN + 1);
    for (id, owner, kind) in
        [("k", "", "AES"), ("", "", "AES"), (&long, "", "AES"), ("l", &long, ""), ("l", "", &long)]
    {
        let refused = store.add_named_key(SPACE, "A", &name(id, owner), kind, &secret(&[2; 32]));
        assert!(matches!(refused, Err(StoreError::InvalidValue { .. })), "{refused:?}");
    }
    let long = secret(&[1; MAX_NAMED_KEY_LEN + 1]);
    assert!(store.add_named_key(SPACE, "A", &name("l", ""), "AES", &long).is_err());
    assert!(store.add_named_key(SPACE, "B", &name("l", ""), "AES", &secret(b"x")).is_err());
    for space in ["", "a/b", "..", "a.b", "ä", &"n".repeat(65)] {
        let refused = store.add_named_key(space, "A", &name("l", ""), "AES", &secret(b"x"));
        assert!(matches!(refused, Err(StoreError::InvalidValue { .. })), "{space}");
    }
    assert_eq!(read(&store), before);
}

#[test]
fn namespaces_have_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    add(&store, "k", "", &[1; 32]);
    store.add_named_key("other", "A", &name("k", ""), "AES", &secret(&[2; 32])).unwrap();
    assert_eq!(store.store().namespaces().unwrap(), [SPACE, "other"]);
    assert_eq!(opened(&store, &read(&store), "k", ""), Some(vec![1; 32]));
    let (one, other) = (
        store.store().named_keys_path(SPACE).unwrap(),
        store.store().named_keys_path("other").unwrap(),
    );
    assert_eq!((namespace_of(&one), namespace_of(&other)), (Some(SPACE), Some("other")));
    assert!(is_key_listing(&one) && is_key_listing(Path::new("/x/server-keys.json")));
    assert!(!is_key_listing(Path::new("/x/named-keys-.json")));
    fs::copy(&other, &one).unwrap();
    let refused = store.store().named_keys(SPACE).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    let refused = store.add_named_key(SPACE, "A", &name("l", ""), "AES", &secret(b"x"));
    assert!(matches!(refused, Err(StoreError::Corrupt { .. })));
}

#[test]
fn every_changed_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with(dir.path(), &["A"]);
    add(&store, "k", "ann", &[1; 32]);
    let path = store.store().named_keys_path(SPACE).unwrap();
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7).chain(good.len() - 3..good.len()) {
        for changed in [good[at] ^ 1, b'\n'] {
            let mut bad = good.clone();
            bad[at] = changed;
            fs::write(&path, &bad).unwrap();
            let outcome = store.store().named_keys(SPACE);
            assert!(outcome.is_err() || bad == good, "byte {at}: {outcome:?}");
        }
        fs::write(&path, &good[..at]).unwrap();
        assert!(store.store().named_keys(SPACE).is_err(), "cut at {at}");
        // What cannot be read is not replaced.
        let refused = store.add_named_key(SPACE, "A", &name("l", ""), "AES", &secret(b"x"));
        assert!(refused.is_err() && fs::read(&path).unwrap() == good[..at]);
    }
    fs::write(&path, good).unwrap();
    read(&store);
}

#[test]
fn keys_that_another_store_signed_are_refused() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, other) = (store_with(ours.path(), &["A"]), store_with(theirs.path(), &["A"]));
    add(&store, "k", "", &[1; 32]);
    add(&other, "k", "", &[2; 32]);
    let path = |store: &Unlocked| store.store().named_keys_path(SPACE).unwrap();
    fs::copy(path(&other), path(&store)).unwrap();
    let outcome = store.store().named_keys(SPACE);
    assert!(matches!(outcome, Err(StoreError::CertificateMissing { .. })), "{outcome:?}");
}

#[test]
fn a_rotated_certificate_takes_the_keys_over_under_a_new_key_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    add(&store, "k", "", &[1; 32]);
    let before = add(&store, "l", "ann", &[2; 48]);
    let old_key = store.open_named_keys(&before).unwrap();
    let refused = store.drop_certificate("A", false).unwrap_err();
    assert!(matches!(refused, StoreError::CertificateInUse { .. }), "{refused}");

    let rotation = store.rotate_certificate(&new_certificate("A")).unwrap();
    assert_eq!(rotation.files.len(), 1);
    let keys = store.rewrap_named_keys(SPACE, "A").unwrap();
    assert_eq!(keys.signer(), &rotation.new.sha256);
    assert_eq!(keys.file_id(), before.file_id());
    assert_eq!(opened(&store, &keys, "k", ""), Some(vec![1; 32]));
    assert_eq!(opened(&store, &keys, "l", "ann"), Some(vec![2; 48]));
    let times = |keys: &NamedKeys| keys.iter().map(|(_, key)| key.created_at).collect::<Vec<_>>();
    assert_eq!(times(&keys), times(&before));
    assert!(keys.open(&old_key, &name("k", "")).is_err(), "the old key opens nothing");
    assert!(store.store().uses_of(&rotation.old.sha256).unwrap().is_empty());
    assert_eq!(store.store().uses_of(&rotation.new.sha256).unwrap().len(), 1);
}

#[test]
fn two_writers_lose_nothing_and_a_new_master_key_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store_with(dir.path(), &["A"]);
    let other = KeyStore::open(dir.path()).unwrap().unlock(&key(1)).unwrap();
    std::thread::scope(|scope| {
        for (store, half) in [(&store, "a"), (&other, "b")] {
            scope.spawn(move || {
                for number in 0..8 {
                    add(store, &format!("{half}{number}"), "", &[number; 32]);
                }
            });
        }
    });
    assert_eq!(read(&store).count(), 16);
    store.rotate_master_key(&key(2), cheap()).unwrap();
    let refused = other.add_named_key(SPACE, "A", &name("late", ""), "AES", &secret(b"x"));
    assert!(matches!(refused, Err(StoreError::MasterKeyChanged)), "{refused:?}");
    let again = KeyStore::open(dir.path()).unwrap().unlock(&key(2)).unwrap();
    assert_eq!(opened(&again, &read(&again), "b7", ""), Some(vec![7; 32]));
}

#[test]
fn the_audit_log_has_each_change_and_each_first_opening() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "[audit]\nopenings = true\n").unwrap();
    let store = store_with(dir.path(), &["A"]);
    let keys = add(&store, "k", "ann", &[1; 32]);
    store.log_named_key_opening(&keys, &name("k", "ann")).unwrap();
    store.log_named_key_opening(&keys, &name("k", "ann")).unwrap();
    store.remove_named_key(SPACE, "A", &name("k", "ann")).unwrap();
    let report = store.verify_audit_log().unwrap();
    assert!(report.faults.is_empty(), "{report:?}");
    let ours: Vec<_> = report
        .entries
        .iter()
        .filter(|record| record.subject == AuditSubject::ServerKey)
        .map(|record| (record.action, record.id.as_str(), record.name.as_str()))
        .collect();
    let each = |action| (action, "main/k", "ann");
    let wanted = [AuditAction::Created, AuditAction::Opened, AuditAction::Removed].map(each);
    assert_eq!(ours, wanted);
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/1/mysql")
}

/// Files of format version 1 open for ever.
#[test]
fn the_fixture_opens() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["keystore.tdk", "named-keys-main.json"];
    for name in files {
        fs::copy(fixture().join("store").join(name), dir.path().join(name)).unwrap();
    }
    let material = fs::read(fixture().join("key")).unwrap();
    let unlock = Unlock::Key { key: secret(&material), origin: "fixture".into() };
    let store = KeyStore::open(dir.path()).unwrap().unlock(&unlock).unwrap();
    let keys = read(&store);
    assert_eq!((keys.count(), keys.sequence()), (2, 2));
    let kinds: Vec<_> = keys.iter().map(|(_, key)| key.kind.as_str()).collect();
    assert_eq!(kinds, ["AES", "SECRET"]);
    assert_eq!(opened(&store, &keys, "INNODBKey-fixture-1", ""), Some((0..32).collect()));
    assert_eq!(opened(&store, &keys, "a word", "ann@localhost"), Some(b"open sesame".to_vec()));
    store.add_named_key(SPACE, "Fixture", &name("new", ""), "AES", &secret(&[1; 32])).unwrap();
}

/// Makes the fixture anew, for a new format version. Run it with `TDEKIT_MAKE_FIXTURE=1`.
#[test]
fn make() {
    if std::env::var_os("TDEKIT_MAKE_FIXTURE").is_none() {
        return;
    }
    let (place, key_file) = (fixture().join("store"), fixture().join("key"));
    assert!(!place.exists(), "the fixture of this version is there");
    fs::create_dir_all(&place).unwrap();
    generate_key_file(&key_file).unwrap();
    let mut store = KeyStore::create(&place, &Unlock::KeyFile(key_file), cheap()).unwrap();
    store.create_certificate(&new_certificate("Fixture")).unwrap();
    let add = |id, owner, kind, bytes: &[u8]| {
        store.add_named_key(SPACE, "Fixture", &name(id, owner), kind, &secret(bytes)).unwrap()
    };
    add("INNODBKey-fixture-1", "", "AES", &(0..32).collect::<Vec<u8>>());
    add("a word", "ann@localhost", "SECRET", b"open sesame");
    for name in ["keystore.lock", "uses.json", "audit.log"] {
        fs::remove_file(place.join(name)).unwrap();
    }
}
