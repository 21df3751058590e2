//! A plugin whose key store does not open: the server must get an error, and no key.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::{Crypt, ENCRYPT, INVALID, NOPAD, Plugin, make_store, open_store};
use tdekit_key_store::AuditAction;

#[test]
fn without_its_key_store_the_plugin_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::load();
    let functions = plugin.functions();
    // Before `init`, as after one that failed.
    let refuses = || {
        assert_eq!(functions.latest_version(1), INVALID);
        assert_eq!(functions.get_key(1, 1), Err(INVALID));
        let flags = ENCRYPT | NOPAD;
        let call = Crypt { key: vec![1; 16], iv: [0; 16], flags, id: 1, version: 1 };
        assert_eq!(functions.crypt(&call, &[0; 32]), Err(-1));
    };
    refuses();
    assert_eq!(plugin.init(&[]), 1);
    let (home, key) = (dir.path().join("store"), dir.path().join("key"));
    assert_eq!(plugin.init(&[("key_store", &home), ("key_file", &key)]), 1);
    refuses();

    let store = make_store(dir.path());
    let wrong = dir.path().join("wrong");
    fs::write(&wrong, [8; 32]).unwrap();
    assert_eq!(plugin.init(&[("key_file", &wrong)]), 1);
    let path = store.store().server_keys_path();
    let keys = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(plugin.init(&[("key_file", &key)]), 1);
    let mut changed = keys.clone();
    let at = changed.iter().position(|byte| *byte == b'1').unwrap();
    changed[at] = b'2';
    fs::write(&path, &changed).unwrap();
    assert_eq!(plugin.init(&[("key_file", &key)]), 1);
    fs::write(&path, &keys).unwrap();
    let other = std::path::Path::new("Other");
    assert_eq!(plugin.init(&[("certificate", other)]), 1);
    refuses();

    let size = std::path::Path::new("5k");
    assert_eq!(plugin.init(&[("page_size", size)]), 1);
    refuses();

    // Openings must be logged, and cannot be.
    let (config, log) = (home.join("config.toml"), home.join("audit.log"));
    fs::write(&config, "[audit]\nopenings = true\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let kept = dir.path().join("kept.log");
    fs::rename(&log, &kept).unwrap();
    fs::create_dir(&log).unwrap();
    let size = std::path::Path::new("16k");
    assert_eq!(plugin.init(&[("page_size", size)]), 1);
    refuses();
    fs::remove_dir(&log).unwrap();
    fs::rename(&kept, &log).unwrap();

    let signer = std::path::Path::new("Server");
    assert_eq!(plugin.init(&[("certificate", signer), ("page_size", size)]), 0);
    assert_eq!(functions.latest_version(17), 1);
    let told = open_store(dir.path()).verify_audit_log().unwrap();
    assert!(told.faults.is_empty(), "{:?}", told.faults);
    let opened = told.entries.iter().filter(|entry| entry.action == AuditAction::Opened);
    assert_eq!(opened.map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["1.1", "2.1", "17.1"]);
}
