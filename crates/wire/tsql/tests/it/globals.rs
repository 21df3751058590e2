//! Global temporary tables: what sessions see of each other's, and when they end.

use crate::common::{Server, rows};

#[test]
fn all_sessions_share_a_table() {
    let server = Server::new();
    let (mut one, mut two) = (server.session(), server.session());
    rows(&mut *one, "CREATE TABLE ##g (id int IDENTITY PRIMARY KEY, t varchar(9) DEFAULT 'none')");
    rows(&mut *one, "INSERT ##g (t) VALUES ('one'); CREATE INDEX ix ON ##g (t)");
    rows(&mut *two, "INSERT ##g DEFAULT VALUES; UPDATE tempdb..##g SET t = 'two' WHERE id = 2");
    for session in [&mut one, &mut two] {
        assert_eq!(rows(&mut **session, "SELECT * FROM ##G ORDER BY id"), "1 | 'one'\n2 | 'two'");
        let known = "SELECT CASE WHEN OBJECT_ID('tempdb..##g') > 0 THEN 1 END, \
                     CASE WHEN OBJECT_ID('##' + 'g') > 0 THEN 1 END, \
                     (SELECT COUNT(*) FROM sys.tables), \
                     (SELECT name FROM tempdb.sys.tables WHERE name LIKE '##%')";
        assert_eq!(rows(&mut **session, known), "1 | 1 | 0 | '##g'");
    }
    assert!(rows(&mut *two, "CREATE TABLE ##g (a int)").starts_with("! 2714/"));
    rows(&mut *two, "SELECT t INTO ##copy FROM ##g; ALTER TABLE ##copy ADD more int");
    assert_eq!(rows(&mut *one, "SELECT COUNT(*), MAX(more) FROM ##copy"), "2 | NULL");
    rows(&mut *one, "DROP TABLE ##copy");
    assert!(rows(&mut *two, "SELECT * FROM ##copy").starts_with("! 208/"));
    // as one statement with tables of a database
    rows(
        &mut *one,
        "CREATE TABLE t (a int); BEGIN TRAN; INSERT t VALUES (1); DELETE ##g; ROLLBACK",
    );
    assert_eq!(rows(&mut *two, "SELECT COUNT(*) FROM ##g, (SELECT COUNT(*) c FROM t) x"), "2");
}

#[test]
fn a_table_ends_with_the_session_that_created_it() {
    let server = Server::new();
    let mut two = server.session();
    let gone = |session: &mut Box<dyn tdekit_wire_tds::Session>, name: &str| {
        rows(&mut **session, &format!("SELECT COUNT(*) FROM {name}")).starts_with("! 208/")
    };
    {
        let mut one = server.session();
        rows(&mut *one, "CREATE TABLE ##a (id int IDENTITY(7, 1)); INSERT ##a DEFAULT VALUES");
        one.rest();
        rows(&mut *two, "CREATE TABLE ##b (a int); DROP TABLE ##b");
        rows(&mut *one, "CREATE TABLE ##b (a int)");
        rows(&mut *one, "CREATE TABLE ##c (a int); DROP TABLE ##c");
        rows(&mut *two, "CREATE TABLE ##c (a int); INSERT ##c VALUES (3)");
        assert_eq!(rows(&mut *two, "SELECT (SELECT id FROM ##a), COUNT(*) FROM ##b"), "7 | 0");
        // what is left open is undone first
        rows(&mut *one, "BEGIN TRAN; INSERT ##a DEFAULT VALUES; DELETE ##c");
    }
    assert!(gone(&mut two, "##a") && gone(&mut two, "##b"));
    assert_eq!(rows(&mut *two, "SELECT a FROM ##c"), "3");
    // nothing of the first is left: its numbers begin anew
    rows(&mut *two, "CREATE TABLE ##a (id int IDENTITY); INSERT ##a DEFAULT VALUES");
    assert_eq!(rows(&mut *two, "SELECT id FROM ##a"), "1");
    let mut three = server.session();
    assert_eq!(rows(&mut *three, "SELECT id FROM ##a"), "1");
    two.reset(false, &mut crate::common::Log::default());
    assert!(gone(&mut three, "##a") && gone(&mut three, "##c"));
}

#[test]
fn a_table_belongs_to_every_login() {
    let server = Server::new();
    let mut admin = server.session();
    rows(&mut *admin, "CREATE LOGIN reader WITH PASSWORD = 'Long enough 1'; CREATE USER reader");
    rows(&mut *admin, "CREATE TABLE tempdb.dbo.kept (a int); CREATE TABLE ##g (a int)");
    let mut reader = server.session_of("reader", "app").unwrap();
    rows(
        &mut *reader,
        "INSERT ##g VALUES (1); ALTER TABLE ##g ADD b int; CREATE TABLE ##h (c int)",
    );
    assert_eq!(rows(&mut *admin, "SELECT a, b FROM ##g; SELECT COUNT(*) FROM ##h"), "1 | NULL\n0");
    rows(&mut *reader, "TRUNCATE TABLE ##g; DROP TABLE ##g");
    assert!(rows(&mut *admin, "SELECT * FROM ##g").starts_with("! 208/"));
    // but no other table of tempdb
    for refused in ["SELECT * FROM tempdb.dbo.kept", "CREATE TABLE tempdb.dbo.mine (a int)"] {
        assert!(rows(&mut *reader, refused).starts_with("! "), "{refused}");
    }
    for refused in
        ["CREATE PROCEDURE ##p AS SELECT 1", "CREATE SEQUENCE ##s", "CREATE VIEW ##v AS SELECT 1 a"]
    {
        assert!(rows(&mut *admin, refused).starts_with("! "), "{refused}");
    }
}

#[test]
fn who_waits_for_an_open_transaction_is_told() {
    let server = Server::new();
    let (mut one, mut two) = (server.session(), server.session());
    rows(&mut *one, "CREATE TABLE ##g (a int); CREATE TABLE t (a int)");
    rows(&mut *two, "SELECT * FROM ##g");
    rows(&mut *one, "BEGIN TRAN; INSERT ##g VALUES (1)");
    let waits = "SET LOCK_TIMEOUT 0; INSERT ##g VALUES (2)";
    assert!(rows(&mut *two, waits).starts_with("! 1222/"));
    rows(&mut *one, "COMMIT");
    assert_eq!(rows(&mut *two, "INSERT ##g VALUES (2); SELECT COUNT(*) FROM ##g"), "2");
    // a transaction that leaves the tables alone holds nobody up
    rows(&mut *one, "BEGIN TRAN; INSERT t VALUES (1)");
    assert_eq!(rows(&mut *two, "INSERT ##g VALUES (3); SELECT COUNT(*) FROM ##g"), "3");
}

#[test]
fn readers_wait_for_nobody_and_a_blocked_drop_is_done_later() {
    let server = Server::new();
    let mut two = server.session();
    // a transaction has the write lock of its current database, too
    let mut three = server.session_of("sa", "other").unwrap();
    {
        let mut one = server.session();
        rows(&mut *one, "CREATE TABLE ##mine (a int); INSERT ##mine VALUES (1)");
        rows(&mut *two, "CREATE TABLE ##g (a int); BEGIN TRAN; INSERT ##g VALUES (1)");
        // an open change: others read what was there before, and the catalog
        assert_eq!(rows(&mut *three, "SELECT COUNT(*) FROM ##g"), "0");
        let known = "SELECT COUNT(*) FROM tempdb.sys.tables WHERE name LIKE '##%'; \
                     SELECT SIGN(OBJECT_ID('tempdb..##g'))";
        assert_eq!(rows(&mut *three, known), "2\n1");
        rows(&mut *three, "CREATE TABLE t (a int); BEGIN TRAN; INSERT t VALUES (1); COMMIT");
    }
    // the first session is gone, and its table, though the second holds the file's lock
    assert!(rows(&mut *three, "SELECT * FROM ##mine").starts_with("! 208/"));
    let none = "SELECT COUNT(*) FROM tempdb.sys.tables WHERE name = '##mine'; \
                SELECT OBJECT_ID('tempdb..##mine')";
    assert_eq!(rows(&mut *three, none), "0\nNULL");
    let again = "SET LOCK_TIMEOUT 0; CREATE TABLE ##mine (b int)";
    assert!(rows(&mut *three, again).starts_with("! 1222/"));
    assert!(rows(&mut *two, "CREATE TABLE ##mine (b int)").starts_with("! 1222/"));
    rows(&mut *two, "IF @@TRANCOUNT > 0 ROLLBACK");
    rows(&mut *three, "CREATE TABLE ##mine (b int IDENTITY); INSERT ##mine DEFAULT VALUES");
    assert_eq!(rows(&mut *two, "SELECT b FROM ##mine"), "1");
}

#[test]
fn no_foreign_key_has_a_part_in_a_global_table() {
    let server = Server::new();
    let mut one = server.session();
    rows(&mut *one, "CREATE TABLE ##p (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY)");
    for refused in [
        "CREATE TABLE ##c (id int REFERENCES ##p (id))",
        "CREATE TABLE c (id int REFERENCES ##p (id))",
        "CREATE TABLE ##c (id int REFERENCES t (id))",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES ##p (id)",
    ] {
        assert!(rows(&mut *one, refused).starts_with("! "), "{refused}");
    }
}
