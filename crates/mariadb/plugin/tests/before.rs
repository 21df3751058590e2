//! Data that the plugin wrote under keys of every derivation is still read correctly.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use support::{
    Crypt, DECRYPT, ENCRYPT, Functions, NOPAD, Plugin, copy_fixture, fixture, make_store_for,
    open_store,
};
use tdekit_key_crypto::sha256;
use tdekit_mariadb::Keyring;
use tdekit_mariadb::binlog::decrypt;

/// Derivation 1 has a separate store. In the second, key 1 is of derivation 2 in version 1, and of
/// derivation 3 in version 2. The plugin uses one store for the life of a process, so a separate
/// process tests the first.
#[test]
fn messages_of_every_derivation_are_what_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let number = match std::env::var("TDEKIT_TEST_FIXTURE") {
        Ok(number) => number.parse().unwrap(),
        Err(_) => {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.arg("messages_of_every_derivation_are_what_they_were");
            let status = again.env("TDEKIT_TEST_FIXTURE", "1").status().unwrap();
            assert!(status.success());
            2
        }
    };
    copy_fixture(number, dir.path());
    let functions = load(dir.path());
    let answers = read_answers(&fixture(number));
    assert!(answers.len() > 6);
    for answer in &answers {
        let sealed = hex::decode(answer["ct"].as_str().unwrap()).unwrap();
        let plain = plain(answer["len"].as_u64().unwrap() as usize);
        let encrypt = call(answer);
        assert_eq!(hex::encode(functions.crypt(&encrypt, &plain).unwrap()), hex::encode(&sealed));
        let decrypt = Crypt { flags: DECRYPT | (encrypt.flags & NOPAD), ..encrypt };
        assert_eq!(functions.crypt(&decrypt, &sealed).unwrap(), plain);
    }
}

#[test]
fn a_log_of_the_first_derivation_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (fixture, store) = (fixture(1), copy_fixture(1, dir.path()));
    let keyring = Keyring::of(store).unwrap();
    let log = fs::read(fixture.join("binlog.000002")).unwrap();
    let mut out = Vec::new();
    let summary = decrypt(&mut log.as_slice(), &mut out, &keyring).unwrap();
    assert_eq!(summary.key_version, Some(1));
    let expected = fs::read_to_string(fixture.join("binlog.sha256")).unwrap();
    assert_eq!(hex::encode(sha256(&[&out])), expected.trim());
}

/// Adds a version of keys 1 and 2 to the second fixture, of the derivation that this program gives
/// to new versions, and the plugin's answers with it. Run it alone, once for a new derivation, with
/// `TDEKIT_MAKE_FIXTURE=1`.
#[test]
fn make_the_fixture() {
    if std::env::var_os("TDEKIT_MAKE_FIXTURE").is_none() {
        return;
    }
    let home = fixture(2);
    let mut answers = Vec::new();
    if home.join("store").is_dir() {
        let store = open_store(&home);
        for id in [1, 2] {
            store.rotate_server_key(id, "Server", None).unwrap();
        }
        answers = read_answers(&home);
    } else {
        fs::create_dir_all(&home).unwrap();
        make_store_for(&home, 36_500);
    }
    let functions = load(&home);
    let version = functions.latest_version(1);
    let handle = hex::encode(functions.get_key(1, version).unwrap());
    let derived = "51".repeat(16);
    let messages = [9, 16, 64, 144, 100, 600, 4066].map(|len| (1, derived.as_str(), len));
    for (id, passed, len) in
        messages.into_iter().chain([(1, handle.as_str(), 100), (2, &derived, 40)])
    {
        let mut answer = json!({
            "key_id": id, "version": version, "passed": passed, "len": len,
        });
        let sealed = functions.crypt(&call(&answer), &plain(len)).unwrap();
        answer["ct"] = hex::encode(sealed).into();
        answers.push(answer);
    }
    let lines: Vec<String> = answers.iter().map(|answer| format!("  {answer}")).collect();
    fs::write(home.join("answers.json"), format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    for left in ["keystore.lock", "audit.log", "uses.json"] {
        let _ = fs::remove_file(home.join("store").join(left));
    }
}

fn load(dir: &Path) -> &'static Functions {
    let plugin = Plugin::load();
    let (home, key_file) = (dir.join("store"), dir.join("key"));
    assert_eq!(plugin.init(&[("key_store", &home), ("key_file", &key_file)]), 0);
    plugin.functions()
}

fn read_answers(fixture: &Path) -> Vec<Value> {
    serde_json::from_slice(&fs::read(fixture.join("answers.json")).unwrap()).unwrap()
}

/// The bytes 0, 1 ... 250, 0 ...
fn plain(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Returns the call that encrypts for an answer.
fn call(answer: &Value) -> Crypt {
    let id = answer["key_id"].as_u64().unwrap() as u32;
    let version = answer["version"].as_u64().unwrap_or(1) as u32;
    let key = hex::decode(answer["passed"].as_str().unwrap()).unwrap();
    let padding = if id == 2 { 0 } else { NOPAD };
    Crypt { key, iv: std::array::from_fn(|at| at as u8), flags: ENCRYPT | padding, id, version }
}
