//! Every kind of table survives restarts, encrypted.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use tdekit_faults_mariadb::Rig;
use tdekit_private_mariadb::Server;

/// Name, column and options of each kind of table, and an expression for the row `n`.
const KINDS: [(&str, &str, &str, &str); 9] = [
    ("ordinary", "v VARCHAR(200), KEY(v)", "", "CONCAT('text ', n)"),
    ("chosen_key", "v VARCHAR(200)", "ENCRYPTED=YES ENCRYPTION_KEY_ID=17", "REPEAT('k', n % 90)"),
    ("compressed_pages", "v TEXT", "PAGE_COMPRESSED=1", "REPEAT(CONCAT('abc', n), 40)"),
    (
        "compressed_rows",
        "v TEXT",
        "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
        "REPEAT('xyz', n % 99)",
    ),
    ("blobs", "v LONGBLOB", "", "REPEAT(MD5(n), 1 + n % 7 * 900)"),
    ("words", "v TEXT, FULLTEXT(v)", "", "CONCAT('common word', n)"),
    (
        "places",
        "v POINT NOT NULL, SPATIAL INDEX(v)",
        "",
        "ST_PointFromText(CONCAT('POINT(', n, ' 3)'))",
    ),
    ("parted", "v INT", "PARTITION BY HASH(n) PARTITIONS 3", "n * 7"),
    ("aria", "v VARCHAR(200), KEY(v)", "ENGINE=Aria TRANSACTIONAL=1", "CONCAT('aria ', n)"),
];
const ROWS: u32 = 400;

fn fill(server: &Server) {
    server.sql("CREATE DATABASE test").unwrap();
    for (name, column, options, value) in KINDS {
        server
            .sql(&format!("CREATE TABLE test.{name}(n INT PRIMARY KEY, {column}) {options}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        server
            .sql(&format!(
                "INSERT INTO test.{name} SELECT seq AS n, {value} FROM \
                 (SELECT seq, seq AS n FROM test.seq_1_to_{ROWS}) AS numbers"
            ))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

fn check(server: &Server) {
    for (name, _, _, value) in KINDS {
        let column = if name == "places" { "ST_AsText(v)" } else { "v" };
        let value = if name == "places" { format!("ST_AsText({value})") } else { value.to_owned() };
        let found = server
            .sql(&format!("SELECT COUNT(*), SUM({column} <> {value}) FROM test.{name}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.trim(), format!("{ROWS}\t0"), "{name}");
        let checked = server.sql(&format!("CHECK TABLE test.{name} EXTENDED")).unwrap();
        assert!(checked.trim().ends_with("OK"), "{name}: {checked}");
    }
    let found = server.sql("SELECT n FROM test.words WHERE MATCH(v) AGAINST('word123')").unwrap();
    assert_eq!(found.trim(), "123");
    let near = "ST_Within(v, ST_GeomFromText('POLYGON((4.5 2, 5.5 2, 5.5 4, 4.5 4, 4.5 2))'))";
    let found = server.sql(&format!("SELECT n FROM test.places WHERE {near}")).unwrap();
    assert_eq!(found.trim(), "5");
}

#[test]
#[ignore = "full: several restarts"]
fn every_kind_of_table_lives_through_restarts() {
    let Some(rig) = Rig::new() else { return };
    let data = rig.fresh("data");
    let server = rig.start(&data, &[]);
    fill(&server);
    check(&server);
    let plain = server
        .sql(
            "SELECT NAME FROM information_schema.innodb_tablespaces_encryption \
             WHERE NAME LIKE 'test/%' AND (ENCRYPTION_SCHEME = 0 OR MIN_KEY_VERSION = 0)",
        )
        .unwrap();
    assert_eq!(plain, "", "tables that are not encrypted");
    server.stop().unwrap();
    let server = rig.start(&data, &[]);
    check(&server);
    // A rebuild reads and writes every page of a table.
    for (name, ..) in KINDS {
        server.sql(&format!("ALTER TABLE test.{name} FORCE")).unwrap();
    }
    server.kill().unwrap();
    let server = rig.start(&data, &[]);
    check(&server);
    server.stop().unwrap();
}

/// Pages of temporary tables that leave the buffer pool are encrypted with the redo log's key and
/// another kind of IV. If the log is not encrypted, nothing else uses that key.
#[test]
#[ignore = "full: a temporary table beyond memory"]
fn a_temporary_table_larger_than_the_buffer_pool() {
    let Some(rig) = Rig::new() else { return };
    let options = ["innodb-buffer-pool-size=8M", "innodb-encrypt-log=OFF"];
    let server = rig.start(&rig.fresh("data"), &options);
    let found = server
        .sql(
            "CREATE DATABASE test; USE test; \
             CREATE TEMPORARY TABLE t(n INT PRIMARY KEY, a CHAR(200), b CHAR(200)) ENGINE=InnoDB; \
             INSERT INTO t SELECT seq, seq, 'b' FROM seq_1_to_40000; \
             UPDATE t SET b = a WHERE n % 3 = 0; \
             SELECT COUNT(*), SUM(a = n), SUM(a = b) FROM t",
        )
        .unwrap();
    assert_eq!(found.trim(), "40000\t40000\t13333");
    server.stop().unwrap();
}

/// At its start, a server removes remains of temporary tables of dead servers, but cannot know
/// which are dead: it gets a directory without other servers' tables.
#[test]
#[ignore = "full: two servers"]
fn a_server_that_starts_leaves_the_temporary_tables_of_others() {
    let Some(rig) = Rig::new() else { return };
    let name = format!("#sql-temptable-tdekit-{}.MAI", std::process::id());
    let of_another = std::env::temp_dir().join(name);
    std::fs::write(&of_another, "of another server").unwrap();
    let server = rig.start(&rig.fresh("data"), &[]);
    let left = std::fs::read_to_string(&of_another);
    std::fs::remove_file(&of_another).ok();
    server.stop().unwrap();
    assert_eq!(left.unwrap(), "of another server");
}

/// Imported tablespaces are re-keyed page by page during the import.
#[test]
#[ignore = "full: two servers"]
fn a_tablespace_goes_to_another_server_with_the_same_keys() {
    let Some(rig) = Rig::new() else { return };
    let (one, two) = (rig.fresh("one"), rig.fresh("two"));
    let from = rig.start(&one, &[]);
    let create = "CREATE DATABASE test; CREATE TABLE test.t(n INT PRIMARY KEY, v TEXT)";
    from.sql(create).unwrap();
    from.sql("INSERT INTO test.t SELECT seq, REPEAT(seq, 30) FROM test.seq_1_to_500").unwrap();
    let to = rig.start(&two, &[]);
    to.sql(create).unwrap();
    to.sql("ALTER TABLE test.t DISCARD TABLESPACE").unwrap();
    // The server refuses pages with an LSN ahead of its own: it must have written as much.
    to.sql("CREATE TABLE test.more AS SELECT seq, REPEAT(seq, 30) FROM test.seq_1_to_9000")
        .unwrap();
    let mut holder = from
        .client()
        .arg("--unbuffered")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = holder.stdin.take().unwrap();
    input.write_all(b"FLUSH TABLES test.t FOR EXPORT;\nSELECT 'ready';\n").unwrap();
    input.flush().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    for file in ["t.ibd", "t.cfg"] {
        std::fs::copy(one.join("test").join(file), two.join("test").join(file)).unwrap();
    }
    drop(input);
    holder.wait().unwrap();
    let imported = to.sql("ALTER TABLE test.t IMPORT TABLESPACE");
    assert!(imported.is_ok(), "{imported:?}\n{}", to.log());
    let sums = "SELECT COUNT(*), SUM(v = REPEAT(n, 30)) FROM test.t";
    assert_eq!(to.sql(sums).unwrap().trim(), "500\t500");
    from.stop().unwrap();
    to.stop().unwrap();
}
