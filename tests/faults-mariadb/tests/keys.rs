//! The key store is gone, or it is another one: a clear error, and the tables stay closed.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use tdekit_faults_mariadb::Rig;
use tdekit_private_mariadb::{Server, ServerError};

fn filled(rig: &Rig, name: &str) -> std::path::PathBuf {
    let data = rig.fresh(name);
    let server = rig.start(&data, &[]);
    server.sql("CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v TEXT)").unwrap();
    server.sql("INSERT INTO test.t SELECT seq, REPEAT(seq, 20) FROM test.seq_1_to_300").unwrap();
    server.stop().unwrap();
    data
}

/// A server that starts all the same must not read a row; its log must name the cause.
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
