//! `encrypt` and `decrypt`: the database before and after.

use std::fs;
use std::process::Command;

use crate::databases::{
    Dir, MARKER, create, dump, encrypt, fill, insert, is_encrypted, is_plain, ok, one, open, place,
};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

#[test]
fn every_algorithm_there_and_back() {
    for algorithm in ["AES_128", "AES_192", "aes_256", "AEGIS_128X2", "AEGIS_256X2"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        fill(&path, 3000);
        let before = dump(&open(&path));
        assert_eq!(dir.files_with_marker(), ["app.db"]);
        let run = encrypt(&path, &["--algorithm", algorithm, "--verify"]);
        assert!(run.out.contains(&algorithm.to_uppercase()), "{run:?}");
        assert!(is_encrypted(&path));
        assert!(dir.files_with_marker().is_empty() && dir.names() == ["app.db"]);
        let db = open(&path);
        assert_eq!(dump(&db), before, "{algorithm}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        drop(db);
        ok("decrypt", &path);
        assert_eq!(fs::read(&path).unwrap()[20], 0, "reserved bytes");
        assert_eq!(dir.names(), ["app.db"]);
        assert_eq!(stock(&path, "SELECT count(*) FROM t; PRAGMA integrity_check"), "3000\nok\n");
        assert_eq!(dump(&open(&path)), before, "{algorithm}");
    }
}

#[test]
fn a_stock_shell_opens_a_decrypted_database_only() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 10);
    encrypt(&path, &[]);
    let shell = Command::new("sqlite3").arg(&path).arg("SELECT 1 FROM t").output().unwrap();
    assert!(String::from_utf8_lossy(&shell.stderr).contains("file is not a database"));
    ok("decrypt", &path);
    assert_eq!(stock(&path, "SELECT count(*) FROM t"), "10\n");
}

#[test]
fn every_page_size() {
    for log2 in 9..=16 {
        let dir = Dir::new();
        let path = dir.path("app.db");
        let size = 1u32 << log2;
        insert(&create(&path, &format!("PRAGMA page_size = {size}")), 1000);
        let before = dump(&open(&path));
        let run = encrypt(&path, &["--verify"]);
        let db = open(&path);
        assert_eq!(one::<u32>(&db, "PRAGMA page_size"), size.max(1024));
        assert_eq!(run.out.contains("1024 bytes now, 512 before"), size == 512, "{run:?}");
        assert_eq!(dump(&db), before);
        assert_eq!(header_page_size(&path), size.max(1024));
        drop(db);
        ok("decrypt", &path);
        assert_eq!(dump(&open(&path)), before);
    }
}

#[test]
fn another_page_size_on_request() {
    for mode in ["DELETE", "WAL"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        insert(&create(&path, &format!("PRAGMA journal_mode = {mode}")), 2000);
        let before = dump(&open(&path));
        encrypt(&path, &["--page-size", "16384"]);
        let db = open(&path);
        assert_eq!((one::<u32>(&db, "PRAGMA page_size"), dump(&db)), (16384, before));
        assert_eq!(header_page_size(&path), 16384);
    }
}

#[test]
fn settings_stay() {
    let settings = [
        ("UTF-8", 0, 1, 2, "DELETE"),
        ("UTF-16le", 1, -7, 0x1234_5678, "WAL"),
        ("UTF-16be", 2, i32::MAX, -1, "DELETE"),
    ];
    for (encoding, auto_vacuum, user_version, application_id, mode) in settings {
        let dir = Dir::new();
        let path = dir.path("app.db");
        let sql = format!(
            "PRAGMA encoding = '{encoding}'; PRAGMA auto_vacuum = {auto_vacuum};
             PRAGMA user_version = {user_version}; PRAGMA application_id = {application_id};
             PRAGMA journal_mode = {mode}"
        );
        insert(&create(&path, &sql), 2000);
        let before = dump(&open(&path));
        assert!(before.contains(&format!("journal_mode Text(\"{}\")", mode.to_lowercase())));
        encrypt(&path, &["--verify"]);
        assert!(dir.files_with_marker().is_empty());
        let db = open(&path);
        assert_eq!(dump(&db), before);
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        drop(db);
        ok("decrypt", &path);
        assert_eq!(dump(&open(&path)), before);
    }
}

/// Everything that a schema may contain, with gaps in the row numbers.
const SCHEMA: &str = "
    CREATE TABLE plain(a, b); CREATE TABLE wr(k TEXT, v, PRIMARY KEY(k DESC)) WITHOUT ROWID;
    CREATE TABLE auto(id INTEGER PRIMARY KEY AUTOINCREMENT, x TEXT UNIQUE COLLATE NOCASE);
    CREATE TABLE gen(a INT, v INT AS (a * 2) VIRTUAL, s INT AS (a * 3) STORED, CHECK(a < 1000000));
    CREATE TABLE child(p REFERENCES auto(id) ON DELETE CASCADE, rowid TEXT);
    CREATE TABLE strict(i INT, t TEXT, b BLOB) STRICT;
    CREATE TABLE \"odd \"\" name\"(\"a \"\" b\");
    WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)
    INSERT INTO plain SELECT x, zeroblob(x % 50) FROM n;
    DELETE FROM plain WHERE rowid % 3 = 0; INSERT INTO plain(rowid, a) VALUES(-5, 1), (1 << 60, 2);
    INSERT INTO wr SELECT 'k' || rowid, b FROM plain; INSERT INTO gen(a) SELECT a FROM plain;
    INSERT INTO auto(x) SELECT 'x' || rowid FROM plain; DELETE FROM auto WHERE id > 900;
    INSERT INTO child SELECT id, 'c' || id FROM auto; INSERT INTO strict VALUES(1, 't', x'00ff');
    INSERT INTO \"odd \"\" name\" VALUES(NULL), (1.5), ('O''Neill');
    CREATE INDEX part ON plain(a) WHERE a > 100; CREATE INDEX expr ON plain(a + 1, length(b) DESC);
    CREATE VIEW v AS SELECT a FROM plain; CREATE VIEW broken AS SELECT * FROM nowhere;
    CREATE TRIGGER tr AFTER INSERT ON plain BEGIN UPDATE auto SET x = x || '!'; END;
    CREATE TRIGGER tv INSTEAD OF INSERT ON v BEGIN INSERT INTO plain(a) VALUES(new.a); END;
    CREATE VIRTUAL TABLE fts USING fts5(body, tokenize = 'porter');
    INSERT INTO fts SELECT 'running words number ' || a FROM plain;
    CREATE VIRTUAL TABLE geo USING rtree(id, x0, x1, y0, y1);
    INSERT INTO geo SELECT a, a, a + 1, a, a + 2 FROM plain WHERE a > 2;
    ANALYZE";

#[test]
fn every_kind_of_object_stays() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    drop(create(&path, SCHEMA));
    let before = dump(&open(&path));
    encrypt(&path, &["--verify"]);
    let db = open(&path);
    assert_eq!(dump(&db), before);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM fts WHERE fts MATCH 'run'"), 1336);
    assert_eq!(one::<i64>(&db, "SELECT id FROM geo WHERE x0 <= 500.5 AND x1 >= 500.5"), 500);
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    db.execute_batch("INSERT INTO v VALUES(7); INSERT INTO auto(x) VALUES('new')").unwrap();
    assert!(one::<i64>(&db, "SELECT max(id) FROM auto") > 1000, "sqlite_sequence");
    db.execute_batch("DELETE FROM auto WHERE x = 'new'").unwrap();
    let before = dump(&db);
    drop(db);
    place().ok(["decrypt".as_ref(), path.as_os_str(), "--verify".as_ref()]);
    assert_eq!(dump(&open(&path)), before);
}

#[test]
fn empty_databases() {
    for mode in ["none", "DELETE", "WAL"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        if mode == "none" {
            fs::write(&path, "").unwrap();
        } else {
            let sql = format!("PRAGMA journal_mode = {mode}; CREATE TABLE x(y); DROP TABLE x");
            drop(create(&path, &sql));
        }
        encrypt(&path, &["--verify"]);
        assert!(is_encrypted(&path), "{mode}");
        let db = open(&path);
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM sqlite_schema"), 0);
        insert(&db, 100);
        drop(db);
        assert!(dir.files_with_marker().is_empty());
        ok("decrypt", &path);
        assert_eq!(stock(&path, "SELECT count(*) FROM t"), "100\n");
    }
}

fn backwards(a: &str, b: &str) -> std::cmp::Ordering {
    a.chars().rev().cmp(b.chars().rev())
}

fn with_own_names(db: Connection) -> Connection {
    db.create_collation("BACKWARDS", backwards).unwrap();
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    let shout = |text: Option<String>| text.map(|text| text.to_uppercase());
    db.create_scalar_function("shout", 1, flags, move |c| Ok(shout(c.get(0)?))).unwrap();
    db.create_scalar_function("is_fine", 1, flags, |_| Ok(true)).unwrap();
    db
}

/// Returns the index over `a`, in an order that only the application knows, as it is on disk.
fn in_order(db: &Connection) -> Vec<String> {
    crate::databases::strings(
        db,
        "SELECT coalesce(a, '') FROM t INDEXED BY i ORDER BY a COLLATE BACKWARDS",
    )
}

#[test]
fn functions_and_collations_that_only_the_application_has() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    let db = with_own_names(create(&path, ""));
    db.execute_batch(&format!(
        "CREATE TABLE t(a TEXT CHECK(is_fine(a)), loud TEXT AS (shout(a)),
             stored TEXT AS (shout(a)) STORED);
         CREATE INDEX i ON t(a COLLATE BACKWARDS); CREATE INDEX e ON t(shout(a));
         CREATE TABLE w(k TEXT COLLATE BACKWARDS PRIMARY KEY, n) WITHOUT ROWID;
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
         INSERT INTO t SELECT CASE WHEN x % 50 THEN (x * 7919 % 5003) || ' {MARKER}' END FROM n;
         INSERT INTO w SELECT a, 1 FROM t WHERE a IS NOT NULL;"
    ))
    .unwrap();
    let ordered = in_order(&db);
    assert_eq!(ordered.len(), 5000);
    drop(db);
    for command in ["encrypt", "decrypt"] {
        if command == "encrypt" {
            encrypt(&path, &["--verify"]);
        } else {
            place().ok([command.as_ref(), path.as_os_str(), "--verify".as_ref()]);
        }
        let db = with_own_names(open(&path));
        assert_eq!(in_order(&db), ordered, "{command}");
        assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{command}");
        let found: i64 = one(&db, "SELECT count(*) FROM t WHERE shout(a) LIKE '77 %'");
        assert_eq!(found, 1);
    }
}

#[test]
fn an_order_that_cannot_be_kept_is_refused() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    let db = with_own_names(create(&path, "CREATE TABLE t(a)"));
    db.execute_batch("CREATE INDEX i ON t(a COLLATE BACKWARDS DESC)").unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    let told = crate::databases::encrypt_fails(1, &path, &[]);
    assert!(told.contains("BACKWARDS") && told.contains("hint: "), "{told}");
    assert_eq!((fs::read(&path).unwrap(), dir.names()), (before, vec!["app.db".to_owned()]));
}

#[test]
fn names_that_mean_something_in_a_uri() {
    use std::os::unix::ffi::OsStringExt;
    let odd = ["a b?c#d%41&e=f.db", "--x.db", "ü'\"\n.db", "file:x"];
    let bytes = std::ffi::OsString::from_vec(b"latin-\xfc.db".to_vec());
    for name in odd.into_iter().map(Into::into).chain([bytes]) {
        let dir = Dir::new();
        let path = dir.path("").join(&name);
        let plain = dir.path("plain");
        fill(&plain, 100);
        fs::rename(&plain, &path).unwrap();
        encrypt(&path, &[]);
        assert!(is_encrypted(&path), "{name:?}");
        assert_eq!(dir.names().len(), 1);
        ok("decrypt", &path);
        assert!(is_plain(&path), "{name:?}");
    }
}

#[test]
fn two_certificates_and_each_alone_opens_it() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    let run = encrypt(&path, &["--certificate", "Second", "--certificate", "AppCert"]);
    assert!(run.out.contains("AppCert, Second"), "{run:?}");
    for lost in crate::databases::CERTIFICATES {
        let other = crate::common::Place::with_store();
        for name in crate::databases::CERTIFICATES.into_iter().filter(|name| *name != lost) {
            let file = dir.path(&format!("{name}.p12"));
            let to = [file.as_os_str()];
            let backup = ["cert", "backup", name, "--pkcs12"].map(AsRef::as_ref);
            place().ok(backup.into_iter().chain(to));
            other.ok(["cert", "restore", "--pkcs12"].map(AsRef::as_ref).into_iter().chain(to));
        }
        let copy = dir.path(&format!("without-{lost}.db"));
        fs::copy(&path, &copy).unwrap();
        other.ok(["decrypt".as_ref(), copy.as_os_str()]);
        assert!(is_plain(&copy));
    }
}

/// Returns the stock shell's output, without the extension.
fn stock(path: &std::path::Path, sql: &str) -> String {
    let output = Command::new("sqlite3").arg(path).arg(sql).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn header_page_size(path: &std::path::Path) -> u32 {
    1 << fs::read(path).unwrap()[19]
}
