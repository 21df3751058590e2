//! Servers that are killed while they make and store keys.

use std::time::Duration;

use crate::life::{count, make_rows};
use tdekit_faults_mysql::{NAMESPACE, Rig, text};

/// Rounds, each of which kills the server a little later after a rotation began.
const ROUNDS: u32 = 3;

#[test]
fn a_server_that_is_killed_while_it_rotates_starts_again() {
    let Some(rig) = Rig::new() else { return };
    let keys = rig.keys("home");
    let programs = rig.with("server", &text(&keys.config()));
    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    server.stop().unwrap();
    let mut known = 0;
    for round in 0..ROUNDS {
        let server = rig.start(&programs, &data);
        assert_eq!(count(&server), (2 + round).to_string());
        server.sql("INSERT INTO app.t (text) VALUES ('kept')").unwrap();
        let mut client = server.client();
        let rotate = "ALTER INSTANCE ROTATE INNODB MASTER KEY;".repeat(20);
        let mut client = client
            .args(["--force", "--execute", &rotate])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(u64::from(30 + round * 61)));
        server.kill().unwrap();
        client.wait().unwrap();
        // Nothing that was acknowledged is lost, and what is stored can be read.
        let store = keys.unlock();
        let stored = store.store().named_keys(NAMESPACE).unwrap().unwrap();
        let file_key = store.open_named_keys(&stored).unwrap();
        for (name, _) in stored.iter() {
            assert!(stored.open(&file_key, name).unwrap().is_some());
        }
        assert!(stored.count() >= known);
        known = stored.count();
    }
    assert!(known > 2, "rotations were under way");
    let server = rig.start(&programs, &data);
    assert_eq!(count(&server), (2 + ROUNDS).to_string());
    server.stop().unwrap();
}
