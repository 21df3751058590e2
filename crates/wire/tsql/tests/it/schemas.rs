//! Schemas: objects are created in existing ones, and nowhere else.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};

#[test]
fn nothing_is_made_in_a_schema_that_is_not_there() {
    let server = Server::new();
    let mut session = server.session();
    for batch in [
        "CREATE TABLE nix.t (a int)",
        "CREATE TABLE app.nix.t (a int)",
        "CREATE TABLE other.nix.t (a int)",
        "SELECT 1 AS a INTO nix.t",
        "CREATE VIEW nix.v AS SELECT 1 AS a",
        "CREATE OR ALTER VIEW nix.v AS SELECT 1 AS a",
        "CREATE PROCEDURE nix.p AS SELECT 1",
        "CREATE OR ALTER PROCEDURE nix.p AS SELECT 1",
    ] {
        let found = rows(&mut *session, batch);
        let expected = "! 2760/16/1 line 1: The specified schema name \"nix\" either does not \
            exist or you do not have permission to use it.";
        assert_eq!(found, expected, "{batch}");
    }
    for batch in [
        "CREATE TABLE sys.t (a int)",
        "CREATE TABLE information_schema.t (a int)",
        "CREATE VIEW sys.v AS SELECT 1 AS a",
    ] {
        assert!(rows(&mut *session, batch).starts_with("! 2760/16/1"), "{batch}");
    }
    assert!(rows(&mut *session, "ALTER PROCEDURE nix.p AS SELECT 1").starts_with("! 208/16/"));
    assert!(rows(&mut *session, "SELECT * FROM nix.t").starts_with("! 208/16/1"));
    assert_eq!(rows(&mut *session, "SELECT COUNT(*) FROM sys.objects"), "0");
}

#[test]
fn the_usual_schemas_take_objects() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(rows(&mut *session, "CREATE TABLE DBO.t (a int); CREATE TABLE guest.t (a int)"), "");
    let other = "CREATE TABLE other..u (a int); INSERT other.dbo.u DEFAULT VALUES";
    assert_eq!(rows(&mut *session, other), "");
    assert_eq!(rows(&mut *session, "INSERT t VALUES (1); INSERT Guest.t VALUES (2)"), "");
    let found = "SELECT (SELECT a FROM dbo.t), (SELECT a FROM guest.t)";
    assert_eq!(rows(&mut *session, found), "1 | 2");
    let twice = rows(&mut *session, "CREATE TABLE GUEST.T (a int)");
    assert!(twice.starts_with("! 2714/16/6"), "{twice}");
    assert_eq!(rows(&mut *session, "CREATE TABLE #t (a int); SELECT * FROM #t"), "");
}

#[test]
fn schemas_are_made_listed_and_dropped() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(rows(&mut *session, "CREATE SCHEMA Sales AUTHORIZATION dbo"), "");
    let twice = rows(&mut *session, "CREATE SCHEMA SALES");
    assert!(twice.starts_with("! 2714/16/6"), "{twice}");
    assert!(rows(&mut *session, "CREATE SCHEMA dbo").starts_with("! 2714/16/6"));
    for batch in [
        "CREATE TABLE sales.t (a int PRIMARY KEY)",
        "CREATE VIEW SALES.v AS SELECT a FROM sales.t",
        "CREATE PROCEDURE sales.p AS SELECT a FROM Sales.v",
        "INSERT sales.t VALUES (7)",
    ] {
        assert_eq!(rows(&mut *session, batch), "", "{batch}");
    }
    assert_eq!(rows(&mut *session, "EXEC sales.p"), "7\nstatus 0");
    for (batch, expected) in [
        ("SELECT name FROM sys.schemas WHERE principal_id = 1 ORDER BY name", "'dbo'\n'Sales'"),
        (
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM INFORMATION_SCHEMA.TABLES ORDER BY 2",
            "'Sales' | 't'\n'Sales' | 'v'",
        ),
        (
            "SELECT SCHEMA_NAME(schema_id), name FROM sys.tables; SELECT SCHEMA_NAME(1)",
            "'Sales' | 't'\n'dbo'",
        ),
        (
            "SELECT IIF(SCHEMA_ID('sales') = (SELECT schema_id FROM sys.schemas WHERE name = \
             'Sales'), 1, 0), SCHEMA_ID('nix'), SCHEMA_ID('sys'), SCHEMA_ID()",
            "1 | NULL | 4 | 1",
        ),
        ("SELECT IIF(OBJECT_ID('sales.t') > 0, 1, 0), OBJECT_ID('t')", "1 | NULL"),
        ("SELECT uid FROM sys.sysobjects WHERE name = 't'", "NULL"),
    ] {
        assert_eq!(rows(&mut *session, batch), expected, "{batch}");
    }
    let used = rows(&mut *session, "DROP SCHEMA sales");
    assert!(used.starts_with("! 3729/16/1") && used.contains("object 't'"), "{used}");
    let all = "DROP TABLE sales.t; DROP VIEW sales.v; DROP PROCEDURE sales.p; DROP SCHEMA sales";
    assert_eq!(rows(&mut *session, all), "");
    assert!(rows(&mut *session, "DROP SCHEMA sales").starts_with("! 15151/16/1"));
    assert_eq!(rows(&mut *session, "DROP SCHEMA IF EXISTS sales"), "");
    assert!(rows(&mut *session, "DROP SCHEMA dbo").starts_with("! 15150/16/1"));
    assert!(rows(&mut *session, "CREATE TABLE sales.t (a int)").starts_with("! 2760/16/1"));
    for refused in ["CREATE SCHEMA x AUTHORIZATION somebody", "CREATE SCHEMA [a.b]"] {
        assert!(rows(&mut *session, refused).starts_with("! 40512/16/1"), "{refused}");
    }
    let later = rows(&mut *session, "SELECT 1; CREATE SCHEMA x");
    assert!(later.starts_with("! 111/15/1"), "{later}");
}

#[test]
fn a_schema_goes_with_its_transaction() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "BEGIN TRAN");
    assert_eq!(rows(&mut *session, "CREATE SCHEMA s"), "");
    rows(&mut *session, "CREATE TABLE s.t (a int); ROLLBACK");
    assert!(rows(&mut *session, "CREATE TABLE s.t (a int)").starts_with("! 2760/16/1"));
}

#[test]
fn a_foreign_key_refers_to_the_table_of_its_schema() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE SCHEMA s");
    let tables = "CREATE TABLE u (i int PRIMARY KEY); CREATE TABLE s.u (i int PRIMARY KEY); \
        CREATE TABLE t (a int REFERENCES s.u (i)); INSERT u VALUES (1); INSERT s.u VALUES (2)";
    assert_eq!(rows(&mut *session, tables), "");
    assert_eq!(rows(&mut *session, "INSERT t VALUES (2); SELECT a FROM t"), "2");
    assert!(rows(&mut *session, "INSERT t VALUES (1)").starts_with("! 547/16/0"));
    let key = "SELECT OBJECT_SCHEMA_NAME(referenced_object_id) FROM sys.foreign_keys; \
        SELECT CONSTRAINT_SCHEMA, UNIQUE_CONSTRAINT_SCHEMA \
        FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS";
    assert_eq!(rows(&mut *session, key), "'s'\n'dbo' | 's'");
}

#[test]
fn names_of_sqlite_tell_of_schemas() {
    let server = Server::new();
    let path = server.directory.path().join("app.db");
    let made = rusqlite::Connection::open(path).unwrap();
    made.execute_batch("CREATE TABLE \"old.t\" (a int); INSERT INTO \"old.t\" VALUES (3)").unwrap();
    drop(made);
    let mut session = server.session();
    let found = rows(&mut *session, "SELECT a FROM old.t; CREATE TABLE OLD.u (a int)");
    assert_eq!(found, "3");
    let listed = "SELECT OBJECT_SCHEMA_NAME(object_id) FROM sys.tables";
    assert_eq!(rows(&mut *session, listed), "'old'\n'old'");
}

#[test]
fn objects_are_transferred_with_all_that_is_theirs_but_permissions() {
    let server = Server::new();
    let mut session = server.session();
    let set_up = [
        "CREATE SCHEMA a",
        "CREATE SCHEMA b",
        "CREATE TABLE b.t (id int IDENTITY CONSTRAINT pk PRIMARY KEY, c int NULL UNIQUE, d AS c + 1,
         e int DEFAULT 5, v rowversion, CONSTRAINT ck CHECK (c > 0)); CREATE INDEX ix ON b.t (e)",
        "CREATE TABLE child (p int REFERENCES b.t (id)); INSERT b.t (c) VALUES (1); INSERT child
         VALUES (1)",
        "CREATE VIEW Seen AS SELECT id FROM b.t",
        "CREATE PROCEDURE b.get AS SELECT 7 AS x",
        "CREATE SEQUENCE b.s START WITH 3; CREATE SEQUENCE used; CREATE TABLE u (a bigint DEFAULT
         NEXT VALUE FOR used)",
        "CREATE TABLE a.taken (x int); CREATE TABLE taken (x int)",
        "CREATE ROLE r; GRANT SELECT ON b.t TO r; GRANT SELECT ON seen TO r; GRANT SELECT ON child
         TO r",
        "EXEC sp_addextendedproperty 'note', 'kept', 'SCHEMA', 'b', 'TABLE', 't'",
    ];
    for batch in set_up {
        let found = rows(&mut *session, batch);
        assert!(!found.contains('!'), "{batch}: {found}");
    }
    bad(
        &mut *session,
        &[
            ("ALTER SCHEMA nix TRANSFER b.t", "15151/16/1"),
            ("ALTER SCHEMA sys TRANSFER b.t", "15151/16/1"),
            ("ALTER SCHEMA a TRANSFER nix", "15151/16/1"),
            ("ALTER SCHEMA a TRANSFER taken", "15530/16/1"),
            ("ALTER SCHEMA b TRANSFER b.t", "15530/16/1"),
            ("ALTER SCHEMA a TRANSFER used", "15348/16/1"),
            ("ALTER SCHEMA a TRANSFER b.pk", "15347/16/1"),
            ("ALTER SCHEMA a TRANSFER TYPE::b.t", "40517/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            ("ALTER SCHEMA a TRANSFER b.t; ALTER SCHEMA a TRANSFER OBJECT::dbo.SEEN", ""),
            ("ALTER SCHEMA dbo TRANSFER b.GET; ALTER SCHEMA a TRANSFER b.s", ""),
            (
                "INSERT a.T (c) VALUES (2); SELECT id, c, d, e FROM a.t",
                "1 | 1 | 2 | 5\n2 | 2 | 3 | 5",
            ),
            (
                "SELECT SCHEMA_NAME(schema_id) + '.' + name FROM sys.objects
                 WHERE type IN ('U', 'V', 'P', 'SO') AND name NOT IN ('taken', 'u', 'used')
                 ORDER BY name",
                "'dbo.child'\n'dbo.get'\n'a.s'\n'a.Seen'\n'a.t'",
            ),
            (
                "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('a.t') AND name = 'ix'",
                "'ix'",
            ),
            (
                "SELECT OBJECT_NAME(major_id) FROM sys.database_permissions WHERE class = 1",
                "'child'",
            ),
            (
                "SELECT value FROM sys.extended_properties WHERE major_id = OBJECT_ID('a.t')",
                "'kept'",
            ),
            ("SELECT NEXT VALUE FOR a.s; DROP SCHEMA b", "3"),
        ],
    );
    assert_eq!(rows(&mut *session, "EXEC get"), "7\nstatus 0");
    bad(
        &mut *session,
        &[
            ("SELECT * FROM a.seen", "208/16/1"),
            ("INSERT child VALUES (9)", "547/16/0"),
            ("INSERT a.t (c) VALUES (2)", "2627/14/1"),
        ],
    );
    let back = "BEGIN TRAN; ALTER SCHEMA dbo TRANSFER a.t; ROLLBACK; SELECT COUNT(*) FROM a.t";
    assert_eq!(rows(&mut *session, back), "~ begin\n~ rollback\n2");
    healthy(&server);
}
