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
                     OBJECT_ID('##' + 'g'), \
                     (SELECT COUNT(*) FROM sys.tables), \
                     (SELECT name FROM tempdb.sys.tables WHERE name LIKE '##%')";
        assert_eq!(rows(&mut **session, known), "1 | NULL | 0 | '##g'");
    }
    let within = "USE tempdb; CREATE TABLE #own (a int); SELECT SIGN(OBJECT_ID('##g')), \
                  SIGN(OBJECT_ID('#own')), SIGN(OBJECT_ID('tempdb..#own')); USE app; SELECT \
                  OBJECT_ID('#own'), OBJECT_ID('app..#own'), OBJECT_ID('master..##g')";
    let found = rows(&mut *one, within);
    let values: Vec<&str> = found.lines().filter(|line| line.contains('|')).collect();
    assert_eq!(values, ["1 | 1 | 1", "NULL | NULL | NULL"]);
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
fn a_writer_waits_for_an_open_transaction() {
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
    let found = rows(&mut *three, again);
    assert!(found.starts_with("! 1222/"), "{found}");
    // the one with the lock may take the name at once; undone, it is free again
    assert_eq!(rows(&mut *two, "CREATE TABLE ##mine (c int); SELECT c FROM ##mine"), "");
    rows(&mut *two, "ROLLBACK");
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

#[test]
fn what_is_undone_changes_no_owner() {
    let server = Server::new();
    let replaced = "DROP TABLE ##o; CREATE TABLE ##o (z int)";
    for undone in [
        format!("BEGIN TRAN; {replaced}; ROLLBACK"),
        format!("BEGIN TRAN; SAVE TRAN s; {replaced}; ROLLBACK TRAN s; COMMIT"),
        "BEGIN TRAN; DROP TABLE ##o; SELECT 1 z INTO ##o; ROLLBACK".to_owned(),
        format!("CREATE TABLE #i (a int); INSERT #i EXEC('{replaced}; SELECT CAST(''x'' AS int)')"),
        // what is left open is undone at the end of the session
        format!("BEGIN TRAN; {replaced}"),
    ] {
        let mut owner = server.session();
        rows(&mut *owner, "CREATE TABLE ##o (y int); INSERT ##o VALUES (7)");
        let mut other = server.session();
        rows(&mut *other, &undone);
        drop(other);
        assert_eq!(rows(&mut *owner, "SELECT y FROM ##o"), "7", "{undone}");
        // the owner ends first
        let mut other = server.session();
        rows(&mut *other, &format!("BEGIN TRAN; {replaced}; INSERT ##o VALUES (8)"));
        drop(owner);
        assert_eq!(rows(&mut *other, "SELECT z FROM ##o"), "8");
        let mut third = server.session();
        assert!(rows(&mut *third, "SELECT * FROM ##o").starts_with("! 208/"));
        rows(&mut *other, "ROLLBACK");
        assert!(rows(&mut *other, "SELECT * FROM ##o").starts_with("! 208/"));
        rows(&mut *other, "CREATE TABLE ##o (w int); INSERT ##o VALUES (9)");
        assert_eq!(rows(&mut *third, "SELECT w FROM ##o"), "9");
    }
}

#[test]
fn who_comes_second_is_refused_behind_the_lock() {
    let server = Server::new();
    let (mut one, mut two) = (server.session(), server.session());
    for [made, dropped] in
        [["CREATE TABLE ##l (a int)", "DROP TABLE ##l"], ["CREATE TABLE l (a int)", "DROP TABLE l"]]
    {
        for (first, second, error) in [(made, made, "! 2714/"), (dropped, dropped, "! 3701/")] {
            rows(&mut *one, &format!("BEGIN TRAN; {first}"));
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| rows(&mut *two, second));
                std::thread::sleep(std::time::Duration::from_millis(100));
                rows(&mut *one, "COMMIT");
                let found = waits.join().unwrap();
                assert!(found.starts_with(error), "{second}: {found}");
            });
        }
    }
}
