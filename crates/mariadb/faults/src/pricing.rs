//! Runs of `tdekit bench` on MariaDB and MySQL, and servers for them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tdekit_private_mariadb::Server;

use crate::rig::{Keeper, Rig, Run, needed};

/// Password of every user of [`server`].
pub const PASSWORD: &str = "Wort-7f3a91-geheim";
/// Options for a minimal run.
pub const SHORT: [&str; 8] =
    ["--workload", "oltp_read_write", "--tables", "1", "--restarts", "1", "--block-time", "1"];

/// Returns a rig with sysbench.
pub fn ready() -> Option<Rig> {
    needed("sysbench")?;
    Rig::new().filter(|rig| rig.keeper == Keeper::Tdekit)
}

/// Runs the bench, with its documents in the rig's directory.
pub fn bench(rig: &Rig, words: &[&str]) -> Run {
    let (json, html) = (rig.path("results.json"), rig.path("report.html"));
    let places = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    rig.run_tdekit(&[&["bench"], words, &places].concat())
}

/// Runs the bench, which must succeed.
pub fn results(rig: &Rig, words: &[&str]) -> Value {
    results_of(rig, bench(rig, words))
}

/// Returns the OLTP results of a run that must have succeeded.
pub fn results_of(rig: &Rig, run: Run) -> Value {
    let said = run.out + &run.err;
    assert_eq!(run.code, 0, "{said}");
    let read = |name: &str| std::fs::read_to_string(rig.path(name)).unwrap();
    let text = read("results.json");
    for words in [&text, &read("report.html"), &said] {
        assert!(!words.contains(PASSWORD), "the password is in a report");
    }
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["incomplete"].as_array().map(Vec::len), Some(0), "{said}");
    results["oltp"].clone()
}

/// Returns the identifiers of a list's items.
pub fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|each| each["id"].as_str().unwrap()).collect()
}

/// Returns the ratio of a side to the base in a cell.
pub fn ratio(oltp: &Value, cell: &str, side: &str, metric: &str) -> Option<f64> {
    let ratios = oltp["summary"]["comparisons"].as_array().unwrap();
    let fits = |found: &&Value| {
        found["class"] == cell && found["side"] == side && found["metric"] == metric
    };
    ratios.iter().find(fits)?["ratio"].as_f64()
}

/// Starts a server with a database `app`, a user `admin` with all privileges and a user `small` who
/// may use only `app`.
pub fn server(rig: &Rig, options: &[&str]) -> (Server, u16) {
    let data = rig.fresh("data");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut config = rig.config(&data, &[&["innodb-encrypt-tables=ON"], options].concat());
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

/// Returns everything that a user would miss, and everything that should not be there.
pub fn state(server: &Server) -> String {
    let sql = "SHOW DATABASES; SHOW TABLES IN app; CHECKSUM TABLE app.orders; \
               SELECT SUM(n), MD5(GROUP_CONCAT(v)) FROM app.orders";
    server.sql(sql).unwrap()
}

/// Watches all processes' command lines for the password, until `done`.
pub fn seen_in_a_command_line(done: &AtomicBool) -> Option<String> {
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
