//! The key store is gone, or it is another one: a clear error, and the tables stay closed.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::{Server, ServerError};

fn filled(rig: &Rig, name: &str) -> std::path::PathBuf {
    let data = rig.fresh(name);
    let server = rig.start(&data, &[]);
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v TEXT)").unwrap();
    server.sql("INSERT INTO test.t SELECT seq, REPEAT(seq, 20) FROM test.seq_1_to_300").unwrap();
    server.stop().unwrap();
    data
}

/// A server that starts anyway must not read a row; its log must name the cause.
fn refuses(rig: &Rig, data: &std::path::Path, causes: &[&str]) {
    let before = std::fs::read(Server::log_path(data)).unwrap_or_default().len();
    match rig.try_start(data, &[]) {
        Ok(server) => {
            let error = server.sql("SELECT COUNT(*), SUM(v = REPEAT(n, 20)) FROM test.t");
            assert!(matches!(error, Err(ServerError::Sql { .. })), "{error:?}");
            server.kill().unwrap();
        }
        Err(ServerError::Ended { status, log }) => {
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(status.signal(), None, "the server crashed: {log}");
        }
        Err(error) => panic!("{error}"),
    }
    let log = std::fs::read(Server::log_path(data)).unwrap();
    let log = String::from_utf8_lossy(&log[before..]).into_owned();
    assert!(causes.iter().any(|cause| log.to_lowercase().contains(cause)), "{log}");
    assert!(!log.contains("mysqld got signal"), "{log}");
}

#[test]
fn without_the_key_store_nothing_opens_and_with_it_all_is_there_again() {
    let Some(rig) = Rig::new() else { return };
    let data = filled(&rig, "data");
    let away = rig.path("away");
    std::fs::rename(rig.keys(), &away).unwrap();
    refuses(&rig, &data, &["tdekit", "key"]);
    std::fs::rename(&away, rig.keys()).unwrap();
    let server = rig.start(&data, &[]);
    let found = server.sql("SELECT COUNT(*), SUM(v = REPEAT(n, 20)) FROM test.t").unwrap();
    assert_eq!(found.trim(), "300\t300");
    server.stop().unwrap();
}

/// Returns the versions of the keys that were opened according to the log, in its order.
fn opened(rig: &Rig) -> Vec<String> {
    let log = rig.tdekit(&["audit", "log", "--verify", "--json"]);
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    let entries = log["entries"].as_array().unwrap();
    let of_server = |entry: &&serde_json::Value| {
        entry["action"] == "opened" && entry["subject"] == "server-key"
    };
    entries.iter().filter(of_server).map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "full: several restarts"]
fn what_a_server_opens_is_in_the_log_where_that_is_asked_for() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let data = filled(&rig, "data");
    assert_eq!(opened(&rig), [] as [&str; 0]);
    let config = rig.keys().join("config.toml");
    let mut config =
        std::fs::File::options().append(true).create(true).mode(0o600).open(config).unwrap();
    config.write_all(b"[audit]\nopenings = true\n").unwrap();
    let server = rig.start(&data, &[]);
    server.sql("SELECT COUNT(*) FROM test.t").unwrap();
    let before = opened(&rig);
    assert!(before.contains(&"1.1".to_owned()), "{before:?}");
    server.stop().unwrap();
    // Each once per start of the server.
    let server = rig.start(&data, &[]);
    rig.rotate_and_wait(&server, &[]);
    server.sql("SELECT COUNT(*) FROM test.t").unwrap();
    let after = opened(&rig);
    let versions: Vec<_> = after.iter().filter(|opened| opened.starts_with("1.")).collect();
    assert_eq!(versions[..2], ["1.1", "1.1"], "{after:?}");
    assert!(versions.len() == 3 && versions[2] != "1.1", "{after:?}");
    server.stop().unwrap();
}

#[test]
fn another_key_store_opens_nothing() {
    let (Some(rig), Some(other)) = (Rig::new(), Rig::new()) else { return };
    let data = filled(&rig, "data");
    if rig.keys().is_dir() {
        let taken = rig.path("taken");
        std::fs::rename(rig.keys(), &taken).unwrap();
        tdekit_private_mariadb::copy_tree(&other.keys(), &rig.keys()).unwrap();
    } else {
        std::fs::write(rig.keys(), format!("1;{}\n", "11".repeat(32))).unwrap();
    }
    refuses(&rig, &data, &["key", "decrypt", "corrupt"]);
}

/// Returns the ciphers of pages under the newest version of each key, each once.
fn page_ciphers(rig: &Rig) -> Vec<String> {
    let status = rig.tdekit(&["mariadb", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let keys = status["keys"].as_array().unwrap().iter();
    let mut ciphers: Vec<_> =
        keys.map(|key| key["page_cipher"].as_str().unwrap().to_owned()).collect();
    ciphers.dedup();
    ciphers
}

#[test]
fn pages_go_to_the_cipher_that_is_asked_for_and_back() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let data = filled(&rig, "data");
    assert_eq!(page_ciphers(&rig), ["gmac"]);
    let server = rig.start(&data, &[]);
    rig.rotate_and_wait(&server, &["--page-cipher", "hctr2"]);
    assert_eq!(page_ciphers(&rig), ["hctr2"]);
    // A version without the option keeps the cipher, as does a key that is made.
    rig.rotate_and_wait(&server, &[]);
    rig.tdekit(&["mariadb", "key", "create", "--key-id", "33"]);
    assert_eq!(page_ciphers(&rig), ["hctr2"]);
    server.sql("UPDATE test.t SET v = REPEAT(n, 20) WHERE n > 100").unwrap();
    server.kill().unwrap();
    let server = rig.start(&data, &[]);
    let found = server.sql("SELECT COUNT(*), SUM(v = REPEAT(n, 20)) FROM test.t").unwrap();
    assert_eq!(found.trim(), "300\t300");
    rig.rotate_and_wait(&server, &["--page-cipher", "gmac"]);
    assert_eq!(page_ciphers(&rig), ["gmac"]);
    server.stop().unwrap();
    let server = rig.start(&data, &[]);
    let found = server.sql("SELECT COUNT(*), SUM(v = REPEAT(n, 20)) FROM test.t").unwrap();
    assert_eq!(found.trim(), "300\t300");
    server.stop().unwrap();
}
