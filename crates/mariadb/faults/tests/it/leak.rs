//! A planted marker in every kind of file, searched for in the raw bytes.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tdekit_faults_mariadb::raw::{holding, nameless};
use tdekit_faults_mariadb::{Keeper, Rig};
use tdekit_private_mariadb::Server;

const MARKER: &str = "PLANTED-7f3a91";
/// A sort of all rows leaves a larger file than this.
const SPILLED: u64 = 60_000;
/// Time limit for that, and for writing all pages.
const PATIENCE: Duration = Duration::from_secs(120);
const BINLOG: [&str; 3] = ["log-bin=binlog", "server-id=1", "binlog-format=ROW"];

/// Writes rows in InnoDB (inserted, updated, deleted: data, redo, undo, binary log) and in Aria.
fn plant(server: &Server) {
    let text = format!("CONCAT('{MARKER}', seq, REPEAT('x', 200))");
    let sql = [
        "CREATE DATABASE test".to_owned(),
        "CREATE TABLE test.a(n INT PRIMARY KEY, v VARCHAR(300), b LONGBLOB, KEY(v))".to_owned(),
        "CREATE TABLE test.f(n INT PRIMARY KEY, v TEXT, FULLTEXT(v))".to_owned(),
        "CREATE TABLE test.m(n INT PRIMARY KEY, v VARCHAR(300), KEY(v)) ENGINE=Aria".to_owned(),
        format!("INSERT INTO test.a SELECT seq, {text}, REPEAT({text}, 90) FROM test.seq_1_to_300"),
        format!("INSERT INTO test.f SELECT seq, {text} FROM test.seq_1_to_300"),
        format!("INSERT INTO test.m SELECT seq, {text} FROM test.seq_1_to_300"),
        "UPDATE test.a SET v = REVERSE(v) WHERE n % 2 = 0".to_owned(),
        "DELETE FROM test.a WHERE n % 3 = 0".to_owned(),
        // Filling an empty table is not logged row by row; changing one is.
        "UPDATE test.m SET v = CONCAT(v, '!') WHERE n % 2 = 0".to_owned(),
    ];
    server.sql(&sql.join(";")).unwrap();
}

/// Starts a client with a sort that was spilled to files, and a temporary table on disk.
fn spill(server: &Server) -> (std::process::Child, std::process::ChildStdin) {
    let mut client = server
        .client()
        .arg("--quick")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    // Rows up to max_length_for_sort_data are sorted themselves and not through pointers, so they
    // are in the result's file too. Unread rows keep the statement and the file alive.
    let sql = format!(
        "SET SESSION sort_buffer_size = 32768, max_heap_table_size = 16384, \
         tmp_memory_table_size = 16384, big_tables = 1, max_length_for_sort_data = 65536;\n\
         CREATE TEMPORARY TABLE test.t ENGINE=InnoDB AS \
         SELECT seq, CAST(CONCAT('{MARKER}', seq, REPEAT('y', 150)) AS CHAR(200)) AS v \
         FROM test.seq_1_to_6000;\n\
         CREATE TEMPORARY TABLE test.u ENGINE=Aria AS SELECT * FROM test.t;\n\
         SELECT v, SHA2(v, 512), REPEAT(v, 20) FROM test.t ORDER BY SUBSTR(v, 20), v;\n"
    );
    input.write_all(sql.as_bytes()).unwrap();
    input.flush().unwrap();
    (client, input)
}

/// Results of the suite: files by name, and files without a name.
struct Found {
    named: Vec<String>,
    nameless_with_marker: usize,
}

fn run(rig: &Rig) -> Found {
    let data = rig.fresh("data");
    let server = rig.start(&data, &BINLOG);
    plant(&server);
    let (mut client, input) = spill(&server);
    let begun = Instant::now();
    let mut temporary = nameless(server.pid(), MARKER);
    // Until the sort has spilled: a nameless file that an idle server does not have.
    while temporary.iter().all(|(bytes, _)| *bytes < SPILLED) {
        assert!(begun.elapsed() < PATIENCE, "nothing was spilled: {temporary:?}");
        assert_eq!(client.try_wait().unwrap(), None, "the client has left");
        std::thread::sleep(Duration::from_millis(50));
        temporary = nameless(server.pid(), MARKER);
    }
    eprintln!("nameless files (bytes, holds the marker): {temporary:?}");
    // Writes all pages to their files, as a checkpoint does.
    server
        .sql("SET GLOBAL innodb_max_dirty_pages_pct_lwm=0, innodb_max_dirty_pages_pct=0")
        .unwrap();
    wait_for_clean_pages(&server);
    let named = holding(&data, MARKER);
    drop(input);
    client.kill().unwrap();
    client.wait().unwrap();
    server.kill().unwrap();
    Found { named, nameless_with_marker: temporary.iter().filter(|(_, has)| *has).count() }
}

fn wait_for_clean_pages(server: &Server) {
    let begun = Instant::now();
    let dirty = || {
        let row = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").unwrap();
        row.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    while dirty() > 20 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn no_marker_is_in_any_file_but_arias_log_which_is_not_covered() {
    let Some(rig) = Rig::new() else { return };
    let found = run(&rig);
    let (aria_log, others): (Vec<String>, Vec<String>) =
        found.named.into_iter().partition(|name| name.starts_with("aria_log."));
    assert_eq!(others, Vec::<String>::new());
    // Not covered: the server itself writes changed rows of Aria tables to their log in clear text
    // and does not call the plugin (docs/threat-model.md). If that changes, this line fails.
    assert_eq!(aria_log, ["aria_log.00000001"]);
    assert_eq!(found.nameless_with_marker, 0);
}

/// Without encryption the same run leaves the marker everywhere: the search works.
#[test]
fn a_plain_server_shows_the_marker_in_every_kind_of_file() {
    let Some(rig) = Rig::with(Keeper::Nobody) else { return };
    let found = run(&rig);
    for kind in [
        "test/a.ibd",
        "ib_logfile0",
        "ibdata1",
        "binlog.0",
        "test/m.MAD",
        "test/m.MAI",
        "aria_log.0",
    ] {
        assert!(found.named.iter().any(|name| name.starts_with(kind)), "{kind}: {:?}", found.named);
    }
    assert!(found.nameless_with_marker > 0);
}
