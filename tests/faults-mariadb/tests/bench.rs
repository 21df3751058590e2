//! `tdekit bench` on MariaDB: private servers of its own, and a server that was there before.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tdekit_faults_mariadb::rig::needed;
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::Server;

const PASSWORD: &str = "Wort-7f3a91-geheim";
const SHORT: [&str; 8] =
    ["--workload", "oltp_read_write", "--tables", "1", "--restarts", "1", "--block-time", "1"];

fn ready() -> Option<Rig> {
    needed("sysbench")?;
    Rig::new().filter(|rig| rig.keeper == Keeper::Tdekit)
}

/// Runs the bench; returns whether it succeeded, and its output.
fn bench(rig: &Rig, words: &[&str]) -> (bool, String) {
    let (json, html) = (rig.path("results.json"), rig.path("report.html"));
    let places = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    rig.try_tdekit(&[&["bench"], words, &places].concat())
}

/// Runs the bench, which must succeed.
fn results(rig: &Rig, words: &[&str]) -> Value {
    results_of(rig, bench(rig, words))
}

/// The OLTP results of a run that must have succeeded.
fn results_of(rig: &Rig, (ok, said): (bool, String)) -> Value {
    assert!(ok, "{said}");
    let text = std::fs::read_to_string(rig.path("results.json")).unwrap();
    assert!(!text.contains(PASSWORD) && !said.contains(PASSWORD), "the password is in a report");
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["incomplete"].as_array().map(Vec::len), Some(0), "{said}");
    results["oltp"].clone()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|each| each["id"].as_str().unwrap()).collect()
}

/// A side over the base in a cell.
fn ratio(oltp: &Value, cell: &str, side: &str, metric: &str) -> Option<f64> {
    let ratios = oltp["summary"]["comparisons"].as_array().unwrap();
    let fits = |found: &&Value| {
        found["class"] == cell && found["side"] == side && found["metric"] == metric
    };
    ratios.iter().find(fits)?["ratio"].as_f64()
}

#[test]
fn private_servers_are_priced_by_the_real_sysbench() {
    let Some(mut rig) = ready() else { return };
    let (work, temporary) = (rig.path("work"), rig.path("tmp"));
    for directory in [&work, &temporary] {
        std::fs::create_dir(directory).unwrap();
    }
    // A server that starts deletes what others hold as temporary tables in the same directory.
    rig.environment.push(("TMPDIR".into(), temporary.into()));
    let words = [
        "--target",
        "mariadb",
        "--workload",
        "oltp_read_write,full_scan",
        "--threads",
        "2",
        "--tables",
        "1",
        "--rows",
        "60000",
        "--buffer-pool",
        "8",
        "--restarts",
        "1",
        "--block-time",
        "1",
        "--peer",
        "file_key_management:ctr",
        "--dir",
        work.to_str().unwrap(),
    ];
    let oltp = results(&rig, &words);
    let driver = oltp["facts"]["driver"].as_str().unwrap();
    assert!(driver.starts_with("sysbench 1."), "{driver}");
    assert_eq!(names(&oltp["sides"]), ["base", "tdekit", "file_key_management:ctr"]);
    assert_eq!(names(&oltp["cells"]), ["oltp_read_write/2", "full_scan/1"]);
    for cell in ["oltp_read_write/2", "full_scan/1"] {
        for side in ["tdekit", "file_key_management:ctr"] {
            for metric in ["throughput", "cpu_each"] {
                let found = ratio(&oltp, cell, side, metric);
                assert!(found.is_some_and(|ratio| ratio > 0.0), "{cell} {side} {metric}");
            }
        }
    }
    for run in oltp["runs"].as_array().unwrap() {
        let number = |name: &str| run["values"][name].as_f64().unwrap_or(0.0);
        assert!(number("transactions") > 0.0 && number("cpu") > 0.0, "{run}");
        let scan = run["cell"] == "full_scan/1";
        // More pages than the pool holds: they came from the files.
        assert!(!scan || number("transactions") > 600.0, "{run}");
        assert!(scan || (number("client_cpu") > 0.0 && number("own_cpu") > 0.0), "{run}");
        assert!(number("own_cpu") < number("cpu"), "{run}");
    }
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "something was left behind");
}

/// A server with a database `app`, a user `admin` who may do anything and a user `small` who may
/// use `app` only.
fn server(rig: &Rig) -> (Server, u16) {
    let data = rig.fresh("data");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut config = rig.config(&data, &["innodb-encrypt-tables=ON"]);
    config.port = Some(port);
    let server = Server::start(&rig.programs, &config).unwrap();
    let sql = [
        "CREATE DATABASE app".to_owned(),
        "CREATE TABLE app.orders(n INT PRIMARY KEY, v TEXT)".to_owned(),
        "INSERT INTO app.orders SELECT seq, REPEAT(seq, 9) FROM app.seq_1_to_500".to_owned(),
        "CREATE TABLE app.sbtest1(n INT PRIMARY KEY, v TEXT)".to_owned(),
        "INSERT INTO app.sbtest1 VALUES(1, 'of the user')".to_owned(),
        format!("CREATE USER admin@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"),
        "GRANT ALL ON *.* TO admin@'127.0.0.1'".to_owned(),
        format!("CREATE USER small@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"),
        "GRANT ALL ON app.* TO small@'127.0.0.1'".to_owned(),
    ];
    server.sql(&sql.join(";")).unwrap();
    (server, port)
}

/// Everything that a user would miss, and everything that should not be there.
fn state(server: &Server) -> String {
    let sql = "SHOW DATABASES; SHOW TABLES IN app; CHECKSUM TABLE app.orders; \
               SELECT SUM(n), MD5(GROUP_CONCAT(v)) FROM app.orders";
    server.sql(sql).unwrap()
}

/// Whether any process's command line holds the password, until `done`.
fn seen_in_a_command_line(done: &AtomicBool) -> Option<String> {
    while !done.load(Ordering::SeqCst) {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains(PASSWORD) {
                return Some(line);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

#[test]
fn a_server_that_was_there_keeps_its_tables_and_its_password() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig);
    rig.environment.push(("TDEKIT_LOGIN_PASSWORD".into(), PASSWORD.into()));
    let before = state(&server);
    let own = server.sql("SELECT v FROM app.sbtest1").unwrap();
    let url = format!("mysql://admin@127.0.0.1:{port}/app");
    let words = ["--target", &url, "--threads", "1,2", "--rows", "300"];
    let done = AtomicBool::new(false);
    let (run, seen) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| seen_in_a_command_line(&done));
        let run = bench(&rig, &[&words[..], &SHORT].concat());
        done.store(true, Ordering::SeqCst);
        (run, looking.join().unwrap())
    });
    assert_eq!(seen, None, "the password is in a command line");
    let oltp = results_of(&rig, run);
    assert_eq!(oltp["facts"]["target"], "mysql");
    assert_eq!(names(&oltp["sides"]), ["base", "encrypted"]);
    for cell in ["oltp_read_write/1", "oltp_read_write/2"] {
        assert!(ratio(&oltp, cell, "encrypted", "throughput").is_some(), "{cell}");
        // The server's CPU cannot be told from outside, and is not made up.
        assert_eq!(ratio(&oltp, cell, "encrypted", "cpu_each"), None);
    }
    assert_eq!(state(&server), before);
    assert_eq!(server.sql("SELECT v FROM app.sbtest1").unwrap(), own);

    // A server that encrypts every table cannot be compared with itself.
    server.sql("SET GLOBAL innodb_encrypt_tables='FORCE'").unwrap();
    let words = ["--target", &url, "--threads", "1", "--rows", "300"];
    let oltp = results(&rig, &[&words[..], &SHORT].concat());
    assert_eq!(names(&oltp["sides"]), ["server"]);
    assert_eq!(oltp["summary"]["comparisons"].as_array().unwrap().len(), 0);
    assert_eq!(state(&server), before);
    server.stop().unwrap();
}

#[test]
fn a_user_who_may_make_no_database_gets_tables_beside_his_own() {
    let Some(mut rig) = ready() else { return };
    let (server, port) = server(&rig);
    rig.environment.push(("TDEKIT_LOGIN_PASSWORD".into(), PASSWORD.into()));
    let url = format!("mysql://small@127.0.0.1:{port}/app");
    let words = ["--target", &url, "--threads", "1", "--rows", "300"];
    let words = [&words[..], &SHORT].concat();
    let before = state(&server);
    let (ok, said) = bench(&rig, &words);
    assert!(!ok && said.contains("holds tables named sbtest*"), "{said}");
    assert_eq!(state(&server), before);

    server.sql("RENAME TABLE app.sbtest1 TO app.mine").unwrap();
    let before = state(&server);
    let oltp = results(&rig, &words);
    let limits = oltp["limits"].to_string();
    assert!(limits.contains("may not make a database"), "{limits}");
    assert!(ratio(&oltp, "oltp_read_write/1", "encrypted", "throughput").is_some());
    assert_eq!(state(&server), before);

    rig.environment.pop();
    rig.environment.push(("TDEKIT_LOGIN_PASSWORD".into(), "wrong".into()));
    let (ok, said) = bench(&rig, &words);
    assert!(!ok && said.contains("Access denied") && !said.contains("wrong"), "{said}");
    server.stop().unwrap();
}

/// MySQL's own encryption, on the server that `cargo xtask mysql -- cargo test` starts.
#[test]
fn tables_of_mysql_are_priced_and_gone_afterwards() {
    let Ok(url) = std::env::var("TDEKIT_MYSQL_URL") else {
        println!("not run: `cargo xtask mysql -- cargo test` starts a server and names it");
        return;
    };
    let Some(rig) = ready() else { return };
    let words = ["--target", &url, "--threads", "1,2", "--rows", "300"];
    let oltp = results(&rig, &[&words[..], &SHORT].concat());
    let sides: Vec<_> = oltp["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| side["label"].as_str().unwrap())
        .collect();
    assert_eq!(sides, ["ENCRYPTION='N'", "ENCRYPTION='Y'"]);
    assert!(ratio(&oltp, "oltp_read_write/1", "encrypted", "throughput").is_some());
    let (limits, settings) = (oltp["limits"].to_string(), oltp["settings"].to_string());
    assert!(limits.contains("the redo log in the clear"), "{limits}");
    assert!(settings.contains("component_keyring_file, Active"), "{settings}");
    let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap();
    let mut client = std::process::Command::new("mariadb");
    client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root"]);
    client.args([format!("--port={port}").as_str(), "--batch", "--skip-column-names", "--execute"]);
    let left = client.arg("SHOW DATABASES LIKE 'tdekit%'").output().unwrap();
    assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");
}
