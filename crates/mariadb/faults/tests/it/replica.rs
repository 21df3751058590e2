//! Replication between two encrypted servers, each with its own keys, and binary logs that are read
//! offline.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tdekit_faults_mariadb::ledger::{Writers, check};
use tdekit_faults_mariadb::raw::holding;
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::Server;

const MARKER: &str = "PLANTED-replica";

/// Returns a port that is currently unused.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn primary(rig: &Rig) -> (Server, u16, PathBuf) {
    let data = rig.fresh("primary");
    let port = free_port();
    let mut config = rig.config(&data, &["log-bin=binlog", "server-id=1", "binlog-format=ROW"]);
    config.port = Some(port);
    let server = Server::start(&rig.programs, &config).unwrap();
    (server, port, data)
}

#[test]
#[ignore = "full: two servers"]
fn an_encrypted_replica_follows_an_encrypted_primary() {
    let (Some(rig), Some(other)) = (Rig::new(), Rig::new()) else { return };
    let (primary, port, data) = primary(&rig);
    primary.sql("CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'x'").unwrap();
    primary.sql("GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'").unwrap();
    let copy = other.fresh("replica");
    let replica =
        other.start(&copy, &["server-id=2", "relay-log=relay", "log-bin=own", "log-slave-updates"]);
    replica
        .sql(&format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl', \
             MASTER_PASSWORD='x', MASTER_USE_GTID=slave_pos; START SLAVE"
        ))
        .unwrap();
    let writers = Writers::start(&primary, 2);
    writers.wait_for(200);
    primary.sql("CREATE TABLE test.s(n INT PRIMARY KEY, v TEXT)").unwrap();
    let insert = format!("INSERT INTO test.s SELECT seq, '{MARKER}' FROM test.seq_1_to_300");
    primary.sql(&insert).unwrap();
    writers.wait_for(200);
    let told = writers.stop();
    let position = primary.sql("SELECT @@gtid_binlog_pos").unwrap();
    let caught_up =
        replica.sql(&format!("SELECT MASTER_GTID_WAIT('{}', 60)", position.trim())).unwrap();
    let state = replica.sql("SHOW SLAVE STATUS").unwrap();
    assert_eq!(caught_up.trim(), "0", "{state}");
    check(&replica, &told);
    assert_eq!(replica.sql("SELECT COUNT(*) FROM test.s").unwrap().trim(), "300");
    primary.stop().unwrap();
    replica.stop().unwrap();
    assert_eq!(holding(&data, MARKER), Vec::<String>::new());
    assert_eq!(holding(&copy, MARKER), Vec::<String>::new());
}

/// MDEV-8813: mysqlbinlog cannot read an encrypted log. The command converts it to a plain one.
#[test]
#[ignore = "full: two servers"]
fn an_encrypted_binary_log_is_read_offline() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        return;
    }
    let Some(reader) = tdekit_faults_mariadb::rig::needed("mariadb-binlog") else { return };
    let (primary, _, data) = primary(&rig);
    primary.sql("SET GLOBAL binlog_format='STATEMENT'").unwrap();
    primary.sql("CREATE DATABASE test; CREATE TABLE test.s(n INT PRIMARY KEY, v TEXT)").unwrap();
    for n in 0..50 {
        primary.sql(&format!("INSERT INTO test.s VALUES({n}, '{MARKER} {n}')")).unwrap();
    }
    primary.stop().unwrap();
    let (log, plain) = (data.join("binlog.000001"), rig.path("plain"));
    assert_eq!(holding(&data, MARKER), Vec::<String>::new());
    rig.tdekit(&["mariadb", "binlog", log.to_str().unwrap(), "--output", plain.to_str().unwrap()]);
    let output = std::process::Command::new(reader).arg(&plain).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for n in [0, 25, 49] {
        assert!(text.contains(&format!("'{MARKER} {n}'")), "row {n} is not in the log");
    }
    // One flipped byte is an error or is reported; it never silently becomes another statement.
    let begun = Instant::now();
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let broken = rig.path("broken");
    std::fs::write(&broken, bytes).unwrap();
    let again = rig.path("again");
    let (ok, said) = rig.try_tdekit(&[
        "mariadb",
        "binlog",
        broken.to_str().unwrap(),
        "--output",
        again.to_str().unwrap(),
    ]);
    assert!(!ok, "a flipped byte was not noticed: {said}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
