//! The parts of the key store that are kept for a process's further databases: in a separate
//! process, because the test takes the key away.

use std::fs;
use std::path::Path;

use crate::support::{CERTIFICATE, alone, create, home, one};
use rusqlite::Connection;
use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, Unlock, now_seconds};
use tempfile::TempDir;

/// Makes an encrypted database with a table.
fn make(path: &Path, certificate: &str) -> rusqlite::Result<()> {
    let db = Connection::open(format!("file:{}?tdekit_certificate={certificate}", path.display()))?;
    db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1)")
}

#[test]
fn a_new_database_takes_the_store_that_is_open_as_it_is_on_disk() {
    if !alone("keyring::a_new_database_takes_the_store_that_is_open_as_it_is_on_disk") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (store_dir, key_file) = home();
    let secret = Unlock::KeyFile(key_file.clone());
    let mut store = KeyStore::open(&store_dir).unwrap().unlock(&secret).unwrap();
    create(&dir.path().join("first.db")).execute_batch("CREATE TABLE t(x)").unwrap();
    // From here the environment opens nothing, and the certificate was made in the meantime.
    fs::rename(&key_file, key_file.with_extension("away")).unwrap();
    let new = NewCertificate {
        name: "Later",
        subject: None,
        key_type: None,
        expires_at: now_seconds() + 86_400,
    };
    store.create_certificate(&new).unwrap();
    let path = dir.path().join("second.db");
    make(&path, "Later").unwrap();
    assert_eq!(one::<i64>(&Connection::open(&path).unwrap(), "SELECT count(*) FROM t"), 1);
    // A store under another master key is not the one that was opened.
    let other = Unlock::KeyFile(key_file.with_extension("other"));
    tdekit_key_store::generate_key_file(&key_file.with_extension("other")).unwrap();
    store.rotate_master_key(&other, PasswordParams::default()).unwrap();
    assert!(make(&dir.path().join("third.db"), CERTIFICATE).is_err());
}
