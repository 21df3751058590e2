//! Servers under the component: made, restarted, rotated, reloaded, killed, two in one store.

use std::fs;
use std::path::Path;

use component_keyring_tdekit::Config;
use tdekit_private_mariadb::Server;

use tdekit_faults_mysql::{CERTIFICATE, NAMESPACE, Rig, text};

pub(crate) const MARKER: &str = "a-plain-marker-in-a-row";

/// All files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

pub(crate) fn make_rows(server: &Server) {
    server
        .sql(&format!(
            "CREATE DATABASE app; USE app;
             CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(80)) ENCRYPTION='Y';
             INSERT INTO t (text) VALUES ('{MARKER}-1'), ('{MARKER}-2');
             ALTER TABLESPACE mysql ENCRYPTION='Y'"
        ))
        .unwrap();
}

pub(crate) fn count(server: &Server) -> String {
    server.sql("SELECT COUNT(*) FROM app.t").unwrap().trim().to_owned()
}

fn key_count(server: &Server) -> usize {
    let sql = "SELECT KEY_ID, KEY_OWNER FROM performance_schema.keyring_keys";
    server.sql(sql).unwrap().lines().count()
}

#[test]
fn tables_logs_and_restarts_work_under_rotated_keys() {
    let Some(rig) = Rig::new() else { return };
    let keys = rig.keys("home");
    let programs = rig.with("server", &text(&keys.config()));
    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    let status = server.sql("SELECT * FROM performance_schema.keyring_component_status").unwrap();
    for fact in [
        "Component_name\tcomponent_keyring_tdekit",
        "Component_status\tActive",
        &format!("Namespace\t{NAMESPACE}"),
        &format!("Certificate\t{CERTIFICATE}"),
        &format!("Key_store\t{}", keys.home.display()),
    ] {
        assert!(status.contains(fact), "{fact}: {status}");
    }
    let before = key_count(&server);
    assert!(before > 0);
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    assert_eq!(key_count(&server), before + 1);
    server.sql("ALTER INSTANCE ROTATE BINLOG MASTER KEY").unwrap();
    server.sql("ALTER INSTANCE RELOAD KEYRING").unwrap();
    let known = key_count(&server);
    assert_eq!(known, keys.unlock().store().named_keys(NAMESPACE).unwrap().unwrap().count());
    server.stop().unwrap();
    assert!(data.join("tdekit-keys").is_file(), "the data is marked");

    let server = rig.start(&programs, &data);
    assert_eq!((count(&server), key_count(&server)), ("2".to_owned(), known));
    server.sql("INSERT INTO app.t (text) VALUES ('kept')").unwrap();
    server.kill().unwrap();
    let server = rig.start(&programs, &data);
    assert_eq!(count(&server), "3");
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    server.stop().unwrap();

    let stored = keys.unlock();
    let named = stored.store().named_keys(NAMESPACE).unwrap().unwrap();
    let file_key = stored.open_named_keys(&named).unwrap();
    // Binary logs also keep the number of their newest key, which is no secret.
    let secrets: Vec<_> = named
        .iter()
        .filter(|(_, key)| key.key_len() >= 32)
        .map(|(name, _)| {
            let (key, secret) = named.open(&file_key, name).unwrap().unwrap();
            (format!("{} ({})", name.id, key.kind), secret.expose().to_vec())
        })
        .collect();
    assert!(secrets.len() >= 3);
    for path in files(&rig.path("")) {
        let bytes = fs::read(&path).unwrap();
        for (name, secret) in &secrets {
            let found = contains(&bytes, secret) || contains(&bytes, hex(secret).as_bytes());
            assert!(!found, "{} has {name}, {} bytes", path.display(), secret.len());
        }
        assert!(!contains(&bytes, MARKER.as_bytes()), "{} has a row", path.display());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn two_servers_have_namespaces_of_their_own_and_functions_their_keys() {
    let Some(rig) = Rig::new() else { return };
    let keys = rig.keys("home");
    let other = Config { namespace: "other".to_owned(), ..keys.config() };
    let (one, two) = (rig.with("one", &text(&keys.config())), rig.with("two", &text(&other)));
    let first = rig.start(&one, &rig.fresh("first"));
    let second = rig.start(&two, &rig.fresh("second"));
    for server in [&first, &second] {
        make_rows(server);
        server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    }
    let store = keys.unlock();
    assert_eq!(store.store().namespaces().unwrap(), [NAMESPACE, "other"]);
    let names = |space| -> Vec<String> {
        let keys = store.store().named_keys(space).unwrap().unwrap();
        keys.iter().map(|(name, _)| name.id.clone()).collect()
    };
    let (ours, theirs) = (names(NAMESPACE), names("other"));
    assert!(!ours.is_empty() && ours.iter().all(|name| !theirs.contains(name)));
    second.stop().unwrap();

    // The first server's data with the second's keys.
    first.stop().unwrap();
    let refused = rig.try_start(&two, &rig.path("first")).unwrap_err().to_string();
    assert!(refused.contains("the data was encrypted with the keys"), "{refused}");
    let server = rig.start(&one, &rig.path("first"));
    assert_eq!(count(&server), "2");
}

/// A running server needs the key store only for new keys.
#[test]
fn a_store_that_is_away_stops_no_reader_and_refuses_new_keys() {
    let Some(rig) = Rig::new() else { return };
    let keys = rig.keys("home");
    let programs = rig.with("server", &text(&keys.config()));
    let data = rig.fresh("data");
    let server = rig.start(&programs, &data);
    make_rows(&server);
    let away = rig.path("away");
    fs::rename(&keys.home, &away).unwrap();
    assert_eq!(count(&server), "2");
    server.sql("INSERT INTO app.t (text) VALUES ('x'); CREATE TABLE app.u (i INT)").unwrap();
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap_err();
    server.sql("ALTER INSTANCE RELOAD KEYRING").unwrap_err();
    assert_eq!(count(&server), "3");
    fs::rename(&away, &keys.home).unwrap();
    server.sql("ALTER INSTANCE RELOAD KEYRING").unwrap();
    server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    server.stop().unwrap();
    assert_eq!(count(&rig.start(&programs, &data)), "3");
}

#[test]
fn a_keyring_is_reloaded_and_rotated_under_load() {
    let Some(rig) = Rig::new() else { return };
    let keys = rig.keys("home");
    let server = rig.start(&rig.with("server", &text(&keys.config())), &rig.fresh("data"));
    make_rows(&server);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..40 {
                        server.sql("INSERT INTO app.t (text) VALUES ('one more')").unwrap();
                    }
                })
            })
            .collect();
        let mut reloads = 0;
        while reloads < 10 || !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            server.sql("ALTER INSTANCE RELOAD KEYRING").unwrap();
            reloads += 1;
            if reloads % 5 == 0 {
                server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
            }
        }
    });
    assert_eq!(count(&server), "82");
}

/// InnoDB makes its first master key in each life of the server, and does not ask whether it is
/// there.
#[test]
fn a_master_key_that_is_there_is_not_an_error() {
    let Some(rig) = Rig::new() else { return };
    let keys = rig.keys("home");
    let (programs, data) = (rig.with("server", &text(&keys.config())), rig.fresh("data"));
    let mut log = String::new();
    for _ in 0..2 {
        let server = rig.start_plain(&programs, &data);
        server
            .sql(
                "CREATE DATABASE IF NOT EXISTS app; CREATE TABLE app.e (i INT) ENCRYPTION='Y';
                 DROP TABLE app.e",
            )
            .unwrap();
        log = server.log();
        assert!(!log.contains("[ERROR] [tdekit]"), "{log}");
        server.stop().unwrap();
    }
    assert!(log.contains("already, which stays"), "{log}");
}
