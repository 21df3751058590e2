//! Servers that are killed while they make and store keys.

use std::ffi::OsString;
use std::time::Duration;

use tdekit_private_mariadb::{Server, find_on_path};

use crate::life::{count, make_rows};
use tdekit_faults_mysql::{Keys, NAMESPACE, Rig, text};

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
        let stored = readable(&keys);
        assert!(stored >= known);
        known = stored;
    }
    assert!(known > 2, "rotations were under way");
    let server = rig.start(&programs, &data);
    assert_eq!(count(&server), (2 + ROUNDS).to_string());
    server.stop().unwrap();
}

/// Returns the number of stored keys, each of which opens.
fn readable(keys: &Keys) -> usize {
    let store = keys.unlock();
    let Some(stored) = store.store().named_keys(NAMESPACE).unwrap() else { return 0 };
    let file_key = store.open_named_keys(&stored).unwrap();
    for (name, _) in stored.iter() {
        assert!(stored.open(&file_key, name).unwrap().is_some());
    }
    stored.count()
}

/// Calls that make a change of the store durable, or visible.
const CALLS: [&str; 2] = ["rename,renameat,renameat2", "fsync,fdatasync"];

/// The server is killed within its call `at` of these, which each thread counts for itself. With
/// `--seccomp-bpf`, strace 6.1 sends no signal.
fn killer(calls: &str, at: u32) -> Vec<OsString> {
    let inject = format!("inject={calls}:signal=KILL:when={at}");
    let trace = format!("trace={calls}");
    let words = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e"];
    let words = words.iter().copied().chain([trace.as_str(), "-e", &inject, "--"]);
    words.map(OsString::from).collect()
}

/// Makes tables and keys in one connection, and so in one thread, until the server ends. Returns
/// the number of acknowledged rows, and of all.
fn work(server: &Server) -> (usize, usize) {
    let round = |round: u32| {
        [
            "ALTER INSTANCE ROTATE INNODB MASTER KEY".to_owned(),
            format!("CREATE TABLE app.t{round} (i INT) ENCRYPTION='Y'"),
            "ALTER INSTANCE ROTATE BINLOG MASTER KEY".to_owned(),
            "DO keyring_key_generate(UUID(), 'AES', 32)".to_owned(),
        ]
    };
    let row = "INSERT INTO app.t (text) VALUES ('kept'); SELECT 'acknowledged'";
    let all: Vec<String> = (0..3).flat_map(round).map(|sql| format!("{sql}; {row};")).collect();
    let mut client = server.client();
    client.args(["--unbuffered", "--skip-column-names", "--execute", &all.join(" ")]);
    let output = client.stdin(std::process::Stdio::null()).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).lines().count(), all.len())
}

/// Kills a server within some of these calls in turn, until it ends by itself. From one to the next
/// the number grows by one and a `part` of itself; without a part it is each of them.
fn kill_at_each(calls: &str, part: Option<u32>) {
    let Some(rig) = Rig::new() else { return };
    if find_on_path("strace").is_none() {
        assert!(std::env::var_os("CI").is_none(), "`cargo xtask setup` installs strace");
        eprintln!("skipped: no strace");
        return;
    }
    let keys = rig.keys("home");
    let programs = rig.with("server", &text(&keys.config()));
    rig.link_plugin("server", "keyring_udf");
    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    server
        .sql(
            "INSTALL PLUGIN keyring_udf SONAME 'keyring_udf.so';
             CREATE FUNCTION keyring_key_generate RETURNS INTEGER SONAME 'keyring_udf.so'",
        )
        .unwrap();
    server.stop().unwrap();
    let (mut rows, mut stored, mut killed) = (2, readable(&keys), 0);
    let next = |at: &u32| Some(at + 1 + part.map_or(0, |part| at / part));
    for at in std::iter::successors(Some(1), next) {
        let mut config = rig.config(&data);
        config.under = killer(calls, at);
        let ended = match Server::start(&programs, &config) {
            Ok(server) => {
                let (done, all) = work(&server);
                rows += done;
                // A killed process may not be gone yet.
                done < all
            }
            Err(_) => true,
        };
        // The row that was not acknowledged may be there.
        let now = readable(&keys);
        assert!(now >= stored, "{calls} {at}: {stored} keys, now {now}");
        let server = rig.start(&programs, &data);
        let found: usize = count(&server).parse().unwrap();
        assert!((rows..=rows + 1).contains(&found), "{calls} {at}: {rows} rows, now {found}");
        server.sql("DROP TABLE IF EXISTS app.t0, app.t1, app.t2").unwrap();
        server.stop().unwrap();
        (rows, stored, killed) = (found, readable(&keys), killed + usize::from(ended));
        if !ended {
            break;
        }
    }
    eprintln!("{calls}: killed {killed} times");
    assert!(killed > 0);
}

#[test]
fn a_server_that_is_killed_where_it_renames_loses_no_key() {
    kill_at_each(CALLS[0], Some(2));
}

#[test]
#[ignore = "full: minutes: a server for each call that it is killed in"]
fn a_server_that_is_killed_in_calls_that_change_the_store_loses_no_key() {
    // Each call takes more than half an hour.
    let part = std::env::var_os("TDEKIT_EXHAUSTIVE").is_none().then_some(8);
    for calls in CALLS {
        kill_at_each(calls, part);
    }
}
