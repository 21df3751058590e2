//! Data that the plugin wrote under keys from before the online cipher is read as it was.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Crypt, DECRYPT, ENCRYPT, NOPAD, Plugin, copy_fixture};
use tdekit_key_crypto::sha256;
use tdekit_mariadb::Keyring;
use tdekit_mariadb::binlog::decrypt;

#[test]
fn logs_of_the_first_derivation_are_what_they_were() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/1/mariadb");
    let dir = tempfile::tempdir().unwrap();
    let store = copy_fixture(dir.path());
    let (home, key_file) = (dir.path().join("store"), dir.path().join("key"));
    let plugin = Plugin::load();
    assert_eq!(plugin.init(&[("key_store", &home), ("key_file", &key_file)]), 0);
    let functions = plugin.functions();

    let plain: Vec<u8> = (0..600_u32).map(|at| (at % 251) as u8).collect();
    let answers = fs::read(fixture.join("answers.json")).unwrap();
    let answers: Vec<Value> = serde_json::from_slice(&answers).unwrap();
    assert!(answers.len() > 6);
    for answer in &answers {
        let bytes = |name: &str| hex::decode(answer[name].as_str().unwrap()).unwrap();
        let id = answer["key_id"].as_u64().unwrap() as u32;
        let iv = std::array::from_fn(|at| at as u8);
        let padding = if id == 2 { 0 } else { NOPAD };
        let flags = ENCRYPT | padding;
        let encrypt = Crypt { key: bytes("passed"), iv, flags, id, version: 1 };
        let sealed = bytes("ct");
        let plain = &plain[..answer["len"].as_u64().unwrap() as usize];
        assert_eq!(hex::encode(functions.crypt(&encrypt, plain).unwrap()), hex::encode(&sealed));
        let decrypt = Crypt { flags: DECRYPT | padding, ..encrypt };
        assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain);
    }

    let keyring = Keyring::of(store).unwrap();
    let log = fs::read(fixture.join("binlog.000002")).unwrap();
    let mut out = Vec::new();
    let summary = decrypt(&mut log.as_slice(), &mut out, &keyring).unwrap();
    assert_eq!(summary.key_version, Some(1));
    let expected = fs::read_to_string(fixture.join("binlog.sha256")).unwrap();
    assert_eq!(hex::encode(sha256(&[&out])), expected.trim());
}
