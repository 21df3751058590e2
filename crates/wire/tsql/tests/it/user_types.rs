//! CREATE TYPE: alias types, table types, and what uses them.

use crate::common::{Server, check, rows, run};
use crate::permissions::{DENIED, all, heard, server, story};

#[test]
fn alias_types_stand_for_their_base() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (
                "CREATE TYPE phone FROM varchar(5) NOT NULL; CREATE TYPE dbo.amount FROM \
            decimal(5, 1)",
                "",
            ),
            ("CREATE TYPE Phone FROM int", "! 219/16/1"),
            ("CREATE TYPE x FROM phone", "! 243/16/1"),
            ("CREATE TYPE x FROM xml", "! 40512/"),
            ("CREATE TYPE nosuch.x FROM int", "! 2760/16/1"),
            (
                "CREATE TABLE t (a phone, b amount, c phone NULL); INSERT t VALUES ('12', 1.25, \
            NULL)",
                "",
            ),
            ("SELECT * FROM t", "'12' | 1.3 | NULL"),
            ("INSERT t VALUES (NULL, 1, NULL)", "! 515/16/2"),
            ("INSERT t VALUES ('123456', 1, NULL)", "! 2628/16/1"),
            (
                "DECLARE @a phone = '1234567', @b int = 2, @c dbo.amount = 2.55; SELECT @a, @b, \
            @c",
                "'12345' | 2 | 2.6",
            ),
            ("SELECT CAST('1' AS phone)", "! 243/16/1"),
            ("DECLARE @a nosuch", "! 2715/16/3"),
            (
                "DECLARE @a int, @b dbo.nosuch",
                "! 2715/16/3 line 1: Column, parameter, or \
            variable #2: Cannot find data type dbo.nosuch.",
            ),
            ("CREATE TABLE u (a nosuch)", "! 2715/16/3"),
            ("CREATE TABLE #t (a phone)", "! 2715/16/3"),
            (
                "DECLARE @t TABLE (a phone, b amount); INSERT @t VALUES ('x', 3); SELECT * FROM \
            @t",
                "'x' | 3.0",
            ),
            ("CREATE PROCEDURE p @a phone, @b dbo.amount = 7 AS SELECT @a, @b", ""),
            ("EXEC p 'abcdefg'", "'abcde' | 7.0"),
            ("EXEC sp_executesql N'SELECT @x', N'@x phone', '1234567'", "'12345'"),
            ("CREATE PROCEDURE q @a nosuch AS SELECT 1", "! 2715/16/3"),
            ("CREATE PROCEDURE q @a phone READONLY AS SELECT 1", "! 346/15/1"),
            (
                "ALTER TABLE t ADD d amount; ALTER TABLE t ALTER COLUMN c amount; SELECT d FROM \
            t",
                "NULL",
            ),
            ("DROP TYPE phone", "! 3732/16/1"),
            (
                "ALTER TABLE t ALTER COLUMN a varchar(20) NULL; DROP PROCEDURE p; DROP TYPE \
            phone",
                "",
            ),
            ("DROP TYPE phone", "! 218/16/1"),
            ("DROP TYPE IF EXISTS phone; DROP TYPE IF EXISTS nosuch", ""),
            ("DROP TYPE amount", "! 3732/16/1"),
            ("DROP TABLE t; DROP TYPE amount", ""),
            // a table in the same batch
            (
                "CREATE TYPE late FROM int; CREATE TABLE l (a late); INSERT l VALUES (1); SELECT * \
            FROM l",
                "1",
            ),
        ],
    );
}

#[test]
fn table_types_make_variables() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (
                "CREATE TYPE item AS TABLE (id int IDENTITY(10, 5) PRIMARY KEY, name \
                varchar(10) NOT NULL \
                 UNIQUE, n int DEFAULT 3 CHECK (n < 100), twice AS n * 2)",
                "",
            ),
            ("CREATE TYPE dbo.item AS TABLE (a int)", "! 219/16/1"),
            ("CREATE TYPE i2 AS TABLE (a int REFERENCES t (a))", "! 156/15/1"),
            ("CREATE TYPE i2 AS TABLE (a int CONSTRAINT k PRIMARY KEY)", "! 156/15/1"),
            ("CREATE TYPE i2 AS TABLE (a int, a int)", "! 2705/16/"),
            ("CREATE TYPE i2 AS TABLE (a nosuch)", "! 2715/16/3"),
            ("SELECT name FROM sys.types WHERE is_user_defined = 1", "'item'"),
            (
                "DECLARE @t item; INSERT @t (name) VALUES ('a'), ('b'); SELECT * FROM @t",
                "10 | 'a' | 3 | 6\n15 | 'b' | 3 | 6",
            ),
            ("DECLARE @t dbo.item; INSERT @t (name) VALUES ('a'), ('A')", "! 2627/14/1"),
            ("DECLARE @t dbo.item; INSERT @t (name, n) VALUES ('a', 100)", "! 547/16/0"),
            (
                "DECLARE @t item, @n int = 4, @u item; INSERT @u (name, n) VALUES ('x', @n); \
            SELECT n FROM @u",
                "4",
            ),
            ("DECLARE @t item, @t int", "! 134/15/"),
            (
                "DECLARE @i int = 0; WHILE @i < 2 BEGIN DECLARE @t item; INSERT @t (name) VALUES \
            (@i); SET @i += 1 END; SELECT COUNT(*) FROM @t",
                "2",
            ),
            ("DECLARE @t item = 1", "! 102/15/1"),
            ("CREATE TABLE t (a item)", "! 2715/16/3"),
            ("SELECT CAST(1 AS item)", "! 243/16/1"),
            ("DROP TYPE item", ""),
            ("DECLARE @t item", "! 2715/16/3"),
        ],
    );
}

#[test]
fn arguments_of_calls_are_described() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE TYPE ids AS TABLE (id int); CREATE TYPE code FROM varchar(9)";
    assert_eq!(rows(&mut *session, made), "");
    let made = "CREATE PROCEDURE s @k int OUTPUT, @t dbo.ids READONLY, @c code AS SET @k = 1";
    assert_eq!(rows(&mut *session, made), "");
    let described = "sp_describe_undeclared_parameters N'DECLARE @r int; \
        EXEC @r = s @P1 OUTPUT, @c = @P3, @t = @P2; SELECT @r'";
    let described = rows(&mut *session, described);
    let lines = described.lines().filter(|line| line.contains(" | "));
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(" | ").collect()).collect();
    let shown: Vec<String> = lines
        .iter()
        .map(|row| [1, 2, 3, 8, 9, 10, 20, 21, 22].map(|at| row[at]).join(" "))
        .collect();
    assert_eq!(
        shown,
        [
            "'@P1' 56 'int' NULL NULL NULL 1 '@k' 38",
            "'@P3' 167 'varchar(9)' 'app' 'dbo' 'code' 0 '@c' 167",
            "'@P2' 243 NULL 'app' 'dbo' 'ids' 0 '@t' 243",
        ]
    );
    let unknown = "sp_describe_undeclared_parameters N'EXEC s @x = @P1'";
    assert!(rows(&mut *session, unknown).starts_with("! 11503/"));
}

#[test]
fn tables_are_passed_to_procedures() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            ("CREATE TYPE ids AS TABLE (id int NOT NULL, name nvarchar(5))", ""),
            ("CREATE TYPE other AS TABLE (id int NOT NULL, name nvarchar(5))", ""),
            ("CREATE PROCEDURE p @t ids AS SELECT 1", "! 352/15/1"),
            ("CREATE PROCEDURE p @t ids READONLY AS DELETE @t", "! 10700/16/1"),
            ("CREATE PROCEDURE p @t ids READONLY AS INSERT @t VALUES (1, 'a')", "! 10700/16/1"),
            ("CREATE PROCEDURE p @t ids READONLY AS UPDATE @t SET id = 1", "! 10700/16/1"),
            (
                "CREATE PROCEDURE s @k int, @t dbo.ids READONLY, @n int = 1 AS SELECT SUM(id) * @k \
            * @n FROM @t",
                "",
            ),
            (
                "DECLARE @a ids, @b ids; INSERT @a VALUES (1, 'x'), (2, 'y'); INSERT @b VALUES \
            (10, 'z'); \
              EXEC s 1, @a; EXEC s 1, @b; EXEC s @t = @a, @k = 2, @n = 5",
                "3\n10\n30",
            ),
            ("EXEC s 1", "NULL"),
            ("EXEC s 1, DEFAULT, 2", "NULL"),
            ("EXEC s 1, 2", "! 206/16/2"),
            ("EXEC s 1, NULL", "! 206/16/2"),
            ("DECLARE @o other; EXEC s 1, @o", "! 206/16/2"),
            ("DECLARE @o TABLE (id int NOT NULL, name nvarchar(5)); EXEC s 1, @o", "! 206/16/2"),
            ("DECLARE @a ids; EXEC s @a, @a", "! 206/16/2"),
            ("DECLARE @a ids; EXEC s 1, @a OUTPUT", "! 8162/16/2"),
            (
                "DECLARE @a ids; INSERT @a VALUES (4, 'q'); EXEC sp_executesql N'SELECT x.name \
                FROM @t AS x \
                 WHERE x.id = @i', N'@t ids READONLY, @i int', @a, 4",
                "'q'",
            ),
            (
                "DECLARE @a ids; EXEC sp_executesql N'DELETE x FROM @t AS x', N'@t ids \
                READONLY', @a",
                "! 10700/16/1",
            ),
            // passed on, and called again with another variable
            (
                "CREATE PROCEDURE o @t ids READONLY AS BEGIN DECLARE @u ids; INSERT @u SELECT id + \
            1, name FROM @t; \
              EXEC s 1, @t; EXEC s 1, @u END",
                "",
            ),
            (
                "DECLARE @a ids; INSERT @a VALUES (7, NULL); EXEC o @a; EXEC o @a; SELECT id FROM \
            @a",
                "7\n8\n7\n8\n7",
            ),
            // a rollback leaves the caller's variable
            (
                "CREATE PROCEDURE r @t ids READONLY AS BEGIN TRAN; ROLLBACK; SELECT COUNT(*) FROM \
            @t",
                "",
            ),
            (
                "DECLARE @a ids; INSERT @a VALUES (7, NULL); EXEC r @a; SELECT COUNT(*) FROM \
            @a",
                "1\n1",
            ),
            (
                "CREATE TABLE log (id int); DECLARE @a ids; INSERT @a VALUES (5, ''); INSERT log \
            EXEC s 1, @a; \
              SELECT * FROM log",
                "5",
            ),
            ("DROP TYPE ids", "! 3732/16/1"),
        ],
    );
}

/// Types are looked up anew when they changed, in texts that are kept compiled.
#[test]
fn a_type_that_was_made_again_is_another() {
    let server = Server::new();
    let (mut one, mut two) = (server.session(), server.session());
    assert_eq!(
        rows(
            &mut *one,
            "CREATE TYPE n AS TABLE (a int); CREATE TYPE al FROM \
    varchar(2)"
        ),
        ""
    );
    let text = "DECLARE @t n, @a al = 'abcd'; INSERT @t VALUES (1); SELECT *, @a FROM @t";
    assert_eq!(rows(&mut *one, text), "1 | 'ab'");
    let again = "DROP TYPE n; DROP TYPE al; CREATE TYPE n AS TABLE (b varchar(5), c int DEFAULT \
    9); \
        CREATE TYPE al FROM varchar(3)";
    assert_eq!(rows(&mut *two, again), "");
    assert!(rows(&mut *one, text).starts_with("! 213/16/1"), "{}", rows(&mut *one, text));
    let text = "DECLARE @t n, @a al = 'abcd'; INSERT @t (b) VALUES (1); SELECT *, @a FROM @t";
    assert_eq!(rows(&mut *one, text), "'1' | 9 | 'abc'");
    assert_eq!(rows(&mut *two, "DROP TYPE n"), "");
    assert!(rows(&mut *one, text).starts_with("! 2715/16/3"));
}

#[test]
fn the_catalog_has_types() {
    check(&[(
        "CREATE TYPE phone FROM nvarchar(20) NOT NULL; CREATE TYPE list AS TABLE (a int PRIMARY \
        KEY, p \
         phone, s AS a + 1); CREATE TABLE t (p phone, q int); SELECT t.name, b.name, \
         t.max_length, \
         t.is_nullable, t.is_table_type FROM sys.types AS t LEFT JOIN sys.types AS b ON \
         b.user_type_id = \
         t.system_type_id WHERE t.is_user_defined = 1 ORDER BY t.name; SELECT c.name, \
         TYPE_NAME(c.user_type_id), \
         c.is_nullable FROM sys.columns AS c WHERE c.object_id = OBJECT_ID('t'); SELECT c.name, \
         TYPE_NAME(c.user_type_id), c.is_nullable FROM sys.table_types AS t JOIN sys.columns AS \
         c ON \
         c.object_id = t.type_table_object_id WHERE t.name = 'list'; SELECT o.type, o.type_desc \
         FROM \
         sys.objects AS o JOIN sys.table_types AS t ON t.type_table_object_id = o.object_id; \
         SELECT \
         CASE WHEN TYPE_ID('dbo.phone') = TYPE_ID('phone') THEN 1 END, \
         TYPE_NAME(TYPE_ID('list')), \
         TYPE_ID('dbo.int'), TYPE_ID('sys.int'); SELECT DOMAIN_NAME, DATA_TYPE, \
         CHARACTER_MAXIMUM_LENGTH \
         FROM INFORMATION_SCHEMA.DOMAINS ORDER BY 1",
        "'list' | NULL | -1 | 0 | 1\n'phone' | 'nvarchar' | 40 | 0 | 0\n'p' | 'phone' | 0\n'q' \
        | 'int' | 1\n\
         'a' | 'int' | 0\n'p' | 'phone' | 0\n's' | 'int' | 1\n'TT' | 'TYPE_TABLE'\n1 | 'list' | \
         NULL | 56\n\
         'list' | 'table type' | NULL\n'phone' | 'nvarchar' | 20",
    )]);
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TYPE list AS TABLE (a int); CREATE TYPE al FROM varchar(3)");
    rows(&mut *session, "CREATE PROCEDURE p @t list READONLY, @a al, @n int AS SELECT 1");
    let found = rows(
        &mut *session,
        "SELECT name, TYPE_NAME(user_type_id), system_type_id, max_length, is_readonly FROM \
        sys.parameters \
         ORDER BY parameter_id",
    );
    assert_eq!(
        found,
        "'@t' | 'list' | 243 | -1 | 1\n'@a' | 'al' | 167 | 3 | 0\n'@n' | 'int' | \
    56 | 4 | 0"
    );
}

/// They lie in the database's file.
#[test]
fn types_stay() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE SCHEMA s");
    let made = "CREATE TYPE s.n AS TABLE (a int); CREATE TYPE s.m FROM int; CREATE TABLE s.t (a \
    s.m)";
    assert_eq!(rows(&mut *session, made), "");
    assert!(rows(&mut *session, "DROP SCHEMA s").starts_with("! 3729/16/1"));
    drop(session);
    let again = tdekit_wire_tsql::TsqlEngine::new(server.host.clone());
    let server = Server { engine: again, ..server };
    let mut session = server.session();
    assert_eq!(
        rows(
            &mut *session,
            "DECLARE @t s.n; INSERT @t VALUES (3); SELECT * FROM \
    @t"
        ),
        "3"
    );
    assert!(rows(&mut *session, "DROP TYPE s.m").starts_with("! 3732/16/1"));
    assert_eq!(
        heard(
            &mut *session,
            "EXEC sp_rename 's.t', 'u'; DROP TABLE s.u; DROP TYPE \
    s.m"
        ),
        ""
    );
    let lines = run(&mut *session, "DECLARE @t n");
    assert!(lines[0].starts_with("! 2715/16/3"), "{lines:?}");
}

#[test]
fn a_type_needs_its_permission() {
    story(
        &server(),
        &[
            ("sa", "CREATE TYPE n AS TABLE (a int); CREATE TYPE m FROM int", ""),
            ("sa", "CREATE PROCEDURE p @t n READONLY AS SELECT COUNT(*) FROM @t", ""),
            ("sa", "CREATE PROCEDURE q AS DECLARE @t n; SELECT COUNT(*) FROM @t", ""),
            ("sa", "GRANT EXECUTE ON p TO ann; GRANT EXECUTE ON q TO ann", ""),
            ("ann", "SELECT name FROM sys.types WHERE is_user_defined = 1", ""),
            ("ann", "SELECT COUNT(*) FROM sys.objects WHERE type = 'TT'", "0"),
            ("ann", "DECLARE @t n", DENIED),
            ("ann", "EXEC q", "0"),
            ("ann", "CREATE TYPE x FROM int", "! 262/14/1"),
            ("ann", "DROP TYPE n", "! 218/16/1"),
            ("ann", "DROP TYPE IF EXISTS n", ""),
            ("sa", "GRANT EXECUTE ON TYPE::n TO ann", ""),
            ("ann", "DECLARE @t n; INSERT @t VALUES (1), (2); EXEC p @t", "2"),
            ("ann", "SELECT name FROM sys.types WHERE is_user_defined = 1", "'n'"),
            (
                "ann",
                "SELECT name FROM sys.columns WHERE name = 'a' AND object_id IN (SELECT \
              type_table_object_id FROM sys.table_types)",
                "'a'",
            ),
            (
                "sa",
                "SELECT class, class_desc, permission_name FROM sys.database_permissions \
            WHERE major_id = \
              TYPE_ID('n')",
                "6 | 'TYPE' | 'EXECUTE'",
            ),
            ("sa", "GRANT CREATE TABLE TO ann; GRANT ALTER ON SCHEMA::dbo TO ann", ""),
            ("ann", "CREATE TABLE mine (a m)", DENIED),
            ("sa", "GRANT REFERENCES ON TYPE::dbo.m TO ann", ""),
            ("ann", "CREATE TABLE mine (a m)", ""),
            ("sa", "DENY EXECUTE ON TYPE::n TO ann", ""),
            ("ann", "DECLARE @t n", DENIED),
            ("sa", "GRANT SELECT ON TYPE::n TO ann", "! 4606/16/1"),
            ("sa", "GRANT EXECUTE ON TYPE::nosuch TO ann", "! 15151/16/1"),
            ("sa", "DROP PROCEDURE p; DROP TYPE n; CREATE TYPE n AS TABLE (a int)", ""),
            // a permission goes with its type
            ("sa", "SELECT COUNT(*) FROM sys.database_permissions WHERE class = 6", "1"),
        ],
    );
}
