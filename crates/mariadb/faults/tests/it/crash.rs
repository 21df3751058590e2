//! Killed under load, and keys rotated under load: acknowledged rows are there.

use std::time::{Duration, Instant};

use tdekit_faults_mariadb::ledger::{Writers, check};
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::Server;

#[test]
fn a_server_that_is_killed_under_load_recovers_all_that_it_acknowledged() {
    let Some(rig) = Rig::new() else { return };
    let data = rig.fresh("data");
    for round in 0..3 {
        let server = rig.start(&data, &["log-bin=binlog", "server-id=1", "sync-binlog=1"]);
        let writers = Writers::start(&server, 3);
        writers.wait_for(400 + 300 * round);
        server.kill().unwrap();
        let acknowledged = writers.stop();
        let server = rig.start(&data, &["log-bin=binlog", "server-id=1", "sync-binlog=1"]);
        check(&server, &acknowledged);
        server.stop().unwrap();
    }
}

/// Returns the smallest key version of the ledger's pages, and the newest existing one.
fn versions(server: &Server) -> (u32, u32) {
    let row = server
        .sql(
            "SELECT MIN_KEY_VERSION, CURRENT_KEY_VERSION \
             FROM information_schema.innodb_tablespaces_encryption WHERE NAME = 'test/ledger'",
        )
        .unwrap();
    let mut words = row.split_whitespace().map(|word| word.parse().unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

/// Waits until there is a newer version than `before` and every page is within the server's
/// `innodb_encryption_rotate_key_age` (1) of it; returns it.
fn wait_for_rotation(server: &Server, before: u32) -> u32 {
    let begun = Instant::now();
    loop {
        let (least, newest) = versions(server);
        if newest > before && least + 1 >= newest {
            return newest;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "the pages do not follow: {least} of {newest}, before {before}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn keys_are_rotated_under_load_and_a_kill_in_between_loses_nothing() {
    let Some(rig) = Rig::new() else { return };
    if rig.keeper != Keeper::Tdekit {
        // file_key_management has a single version of each key.
        return;
    }
    let data = rig.fresh("data");
    let server = rig.start(&data, &[]);
    let writers = Writers::start(&server, 2);
    writers.wait_for(300);
    let before = versions(&server).1;
    rig.rotate(&server);
    writers.wait_for(300);
    let between = wait_for_rotation(&server, before);
    // The next one is killed while pages of both versions are on disk.
    rig.rotate(&server);
    writers.wait_for(50);
    server.kill().unwrap();
    let acknowledged = writers.stop();
    let server = rig.start(&data, &[]);
    check(&server, &acknowledged);
    wait_for_rotation(&server, between);
    check(&server, &acknowledged);
    server.stop().unwrap();
    let server = rig.start(&data, &[]);
    check(&server, &acknowledged);
    server.stop().unwrap();
}
