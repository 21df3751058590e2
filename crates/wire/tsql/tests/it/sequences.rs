//! CREATE SEQUENCE, NEXT VALUE FOR, `sp_sequence_get_range`.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};
use tdekit_wire_tsql::TsqlEngine;

#[test]
fn values_follow_each_other_wherever_they_are_taken() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SEQUENCE dbo.s AS int START WITH 10 INCREMENT BY 5", ""),
            ("SELECT NEXT VALUE FOR s", "10"),
            (
                "SELECT NEXT VALUE FOR dbo.s AS a, NEXT VALUE FOR s AS b, NEXT VALUE FOR s + 1",
                "15 \
             | 15 | 16",
            ),
            (
                "DECLARE @v bigint = NEXT VALUE FOR s; SET @v = @v * 100 + NEXT VALUE FOR s; SELECT
             @v",
                "2025",
            ),
            ("DECLARE @v int; SELECT @v = NEXT VALUE FOR s; SELECT @v", "30"),
            (
                "CREATE TABLE t (id int CONSTRAINT d DEFAULT (NEXT VALUE FOR s), a int, b
                 varchar(20)
                 DEFAULT ('x' + CAST(NEXT VALUE FOR dbo.s AS varchar(10))));
                 INSERT t (a) VALUES (NEXT VALUE FOR s), (NEXT VALUE FOR s);
                 SELECT id, a, b FROM t ORDER BY a",
                "35 | 35 | 'x35'\n40 | 40 | 'x40'",
            ),
            (
                "INSERT t (a) SELECT a FROM t; SELECT id, a, b FROM t WHERE id > 40 ORDER BY id",
                "45 | 35 | 'x45'\n50 | 40 | 'x50'",
            ),
            (
                "UPDATE t SET a = NEXT VALUE FOR s, b = NEXT VALUE FOR s; SELECT a, b FROM t ORDER
             BY a",
                "55 | '55'\n60 | '60'\n65 | '65'\n70 | '70'",
            ),
            ("INSERT t DEFAULT VALUES; SELECT MAX(id) FROM t", "75"),
            // rows that the interpreter inserts
            (
                "INSERT t (a) EXEC ('SELECT 1 UNION ALL SELECT 2'); SELECT id, b FROM t WHERE a IN
             (1, 2) ORDER BY id",
                "80 | 'x80'\n85 | 'x85'",
            ),
            (
                "SELECT NEXT VALUE FOR s, name FROM (VALUES ('a'), ('b')) AS v (name)",
                "90 | 'a'\n95 | 'b'",
            ),
            (
                "SELECT definition FROM sys.default_constraints WHERE name = 'd'",
                "'(NEXT VALUE FOR [dbo].[s])'",
            ),
        ],
    );
    rows(&mut *session, "SELECT NEXT VALUE FOR s");
    catalog(&server);
}

/// The sequence of the test above, in the catalog.
fn catalog(server: &Server) {
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "SELECT name, type, start_value, increment, minimum_value, maximum_value,
                 is_cycling,
                 is_cached, cache_size, TYPE_NAME(system_type_id), precision, scale, current_value,
                 is_exhausted FROM sys.sequences",
                "'s' | 'SO' | 10 | 5 | -2147483648 | 2147483647 | 0 | 1 | NULL | 'int' | 10 | 0 | \
                 100 | 0",
            ),
            (
                "SELECT SEQUENCE_SCHEMA, SEQUENCE_NAME, DATA_TYPE, START_VALUE, MAXIMUM_VALUE,
                 INCREMENT, CYCLE_OPTION FROM INFORMATION_SCHEMA.SEQUENCES",
                "'dbo' | 's' | 'int' | 10 | 2147483647 | 5 | 0",
            ),
            (
                "SELECT type_desc FROM sys.objects WHERE object_id = OBJECT_ID('dbo.s', 'SO')",
                "'SEQUENCE_OBJECT'",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("DROP SEQUENCE s", "3729/16/1"),
            ("CREATE VIEW s AS SELECT 1 AS a", "2714/16/6"),
            ("DROP SEQUENCE nix", "3701/11/5"),
            ("CREATE SEQUENCE s", "2714/16/6"),
            ("CREATE SEQUENCE t", "2714/16/6"),
            ("CREATE TABLE s (a int)", "2714/16/6"),
            ("SELECT NEXT VALUE FOR nix", "208/16/1"),
            ("SELECT NEXT VALUE FOR t", "11726/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            (
                "DROP TABLE t; DROP SEQUENCE IF EXISTS s, nix; SELECT COUNT(*) FROM sys.sequences",
                "0",
            ),
            ("SELECT COUNT(*) FROM sys.objects WHERE type = 'SO'", "0"),
        ],
    );
    healthy(server);
    of_a_schema(server);
}

fn of_a_schema(server: &Server) {
    let mut session = server.session();
    rows(&mut *session, "CREATE SCHEMA x");
    rows(&mut *session, "CREATE SEQUENCE x.s START WITH 3");
    bad(&mut *session, &[("DROP SCHEMA x", "3729/16/1"), ("SELECT NEXT VALUE FOR s", "208/16/1")]);
    good(
        &mut *session,
        &[
            ("SELECT NEXT VALUE FOR X.S, NEXT VALUE FOR app.x.s", "3 | 3"),
            (
                "SELECT s.name FROM sys.sequences AS q
                 JOIN sys.schemas AS s ON s.schema_id = q.schema_id",
                "'x'",
            ),
            ("DROP SEQUENCE x.s; DROP SCHEMA x", ""),
        ],
    );
    healthy(server);
}

#[test]
fn a_sequence_ends_begins_anew_and_is_restarted() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SEQUENCE s AS tinyint MAXVALUE 2 CACHE 10; SELECT NEXT VALUE FOR s", "0"),
            ("SELECT NEXT VALUE FOR s; SELECT NEXT VALUE FOR s", "1\n2"),
            ("SELECT is_exhausted, current_value, cache_size FROM sys.sequences", "1 | 2 | 10"),
        ],
    );
    bad(&mut *session, &[("SELECT NEXT VALUE FOR s", "11728/16/1")]);
    good(
        &mut *session,
        &[
            ("ALTER SEQUENCE s CYCLE NO CACHE; SELECT NEXT VALUE FOR s", "0"),
            ("ALTER SEQUENCE s RESTART WITH 2; SELECT NEXT VALUE FOR s", "2"),
            ("SELECT is_cycling, is_cached FROM sys.sequences", "1 | 0"),
            ("ALTER SEQUENCE s MAXVALUE 200 INCREMENT BY 20; SELECT NEXT VALUE FOR s", "22"),
            ("ALTER SEQUENCE s RESTART; SELECT NEXT VALUE FOR s", "0"),
            (
                "CREATE SEQUENCE down AS decimal(3) INCREMENT BY -400 CYCLE; SELECT NEXT VALUE
                 FOR down",
                "999",
            ),
            (
                "SELECT NEXT VALUE FOR down FROM (VALUES (1), (2), (3), (4), (5)) AS v (a)",
                "599\n199\n-201\n-601\n999",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("CREATE SEQUENCE x INCREMENT BY 0", "11700/16/1"),
            ("CREATE SEQUENCE x MINVALUE 1 MAXVALUE 5 INCREMENT BY 5", "11701/16/1"),
            ("CREATE SEQUENCE x AS varchar(10)", "11702/16/2"),
            ("CREATE SEQUENCE x AS decimal(9, 2)", "11702/16/2"),
            ("CREATE SEQUENCE x START WITH 0 MINVALUE 1", "11703/16/1"),
            ("CREATE SEQUENCE x MINVALUE 5 MAXVALUE 5", "11705/16/2"),
            ("CREATE SEQUENCE x CACHE 0", "11706/16/1"),
            ("CREATE SEQUENCE x AS tinyint MAXVALUE 256", "11708/16/7"),
            ("CREATE SEQUENCE x RESTART WITH 1", "11709/15/1"),
            ("CREATE SEQUENCE x CYCLE NO CYCLE", "11712/15/1"),
            ("CREATE SEQUENCE nix.x", "2760/16/1"),
            ("ALTER SEQUENCE s START WITH 1", "11710/15/1"),
            ("ALTER SEQUENCE s AS int", "11711/15/1"),
            ("ALTER SEQUENCE s", "11715/15/1"),
            ("ALTER SEQUENCE nix RESTART", "208/16/1"),
        ],
    );
}

#[test]
fn next_value_stands_where_rows_are_counted() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE SEQUENCE s; CREATE TABLE t (a int)");
    bad(
        &mut *session,
        &[
            ("SELECT DISTINCT NEXT VALUE FOR s", "11721/15/1"),
            ("SELECT NEXT VALUE FOR s UNION SELECT 1", "11721/15/1"),
            ("SELECT NEXT VALUE FOR s FROM t ORDER BY a", "11723/15/1"),
            ("SELECT TOP (1) NEXT VALUE FOR s FROM t", "11739/16/1"),
            ("SELECT a FROM t WHERE a = NEXT VALUE FOR s", "11720/15/1"),
            ("SELECT (SELECT NEXT VALUE FOR s)", "11719/15/1"),
            ("SELECT * FROM (SELECT NEXT VALUE FOR s AS a) AS x", "11719/15/1"),
            ("CREATE VIEW v AS SELECT NEXT VALUE FOR s AS a", "11719/15/1"),
            ("CREATE TABLE c (a int CHECK (a > NEXT VALUE FOR s))", "11719/15/1"),
            ("SELECT CASE WHEN 1 = 1 THEN NEXT VALUE FOR s END", "11741/16/1"),
            ("SELECT ISNULL(NEXT VALUE FOR s, 1)", "11741/16/1"),
            ("SELECT SUM(NEXT VALUE FOR s) FROM t", "11725/15/1"),
            ("IF NEXT VALUE FOR s > 1 PRINT 'x'", "11738/16/1"),
            ("DELETE t WHERE a = NEXT VALUE FOR s", "11720/15/1"),
            ("SET ROWCOUNT 1; SELECT NEXT VALUE FOR s", "11739/16/1"),
            (
                "DECLARE @a int, @b int; SELECT @a = NEXT VALUE FOR s, @b = NEXT VALUE FOR s",
                "11736/16/1",
            ),
        ],
    );
    assert_eq!(
        rows(&mut *session, "SET ROWCOUNT 0; SELECT NEXT VALUE FOR s"),
        "-9223372036854775808"
    );
}

#[test]
fn no_value_is_given_twice() {
    let server = Server::new();
    let (mut session, mut other) = (server.session(), server.session());
    rows(&mut *session, "CREATE SEQUENCE s START WITH 1; CREATE TABLE t (a int PRIMARY KEY)");
    good(
        &mut *session,
        &[
            (
                "BEGIN TRAN; SELECT NEXT VALUE FOR s; SAVE TRAN x; SELECT NEXT VALUE FOR s",
                "~ begin\n1\n2",
            ),
            ("ROLLBACK TRAN x; SELECT NEXT VALUE FOR s", "3"),
            (
                "INSERT t VALUES (NEXT VALUE FOR s); ROLLBACK; SELECT COUNT(*) FROM t",
                "~ rollback\n0",
            ),
        ],
    );
    assert_eq!(rows(&mut *other, "SELECT NEXT VALUE FOR s"), "5");
    // a statement that fails, with and without a transaction
    rows(&mut *session, "INSERT t VALUES (7)");
    bad(
        &mut *session,
        &[("INSERT t SELECT NEXT VALUE FOR s FROM (VALUES (1), (2), (3)) AS v (a)", "2627/14/1")],
    );
    assert_eq!(rows(&mut *other, "SELECT NEXT VALUE FOR s"), "8");
    let failing = "SET XACT_ABORT ON; BEGIN TRAN; SELECT NEXT VALUE FOR s; SELECT 1 / 0";
    assert!(rows(&mut *session, failing).contains("8134/16/1"));
    assert_eq!(rows(&mut *other, "SELECT @@TRANCOUNT; SELECT NEXT VALUE FOR s"), "0\n10");
    // rows of another source that are undone leave no older value behind
    rows(&mut *session, "CREATE TABLE w (a int CHECK (a < 2), b int DEFAULT (NEXT VALUE FOR s))");
    let undone = rows(&mut *session, "INSERT w (a) EXEC ('SELECT 1 UNION ALL SELECT 2')");
    assert!(undone.contains("547/16/0"), "{undone}");
    assert_eq!(rows(&mut *other, "SELECT NEXT VALUE FOR s"), "11");
    // RESTART is undone with its transaction
    good(
        &mut *session,
        &[(
            "BEGIN TRAN; ALTER SEQUENCE s RESTART; SELECT NEXT VALUE FOR s; ROLLBACK;
                 SELECT NEXT VALUE FOR s",
            "~ begin\n1\n~ rollback\n12",
        )],
    );
    drop((session, other));
    // another server reads it from the file
    let again = Server { engine: TsqlEngine::new(server.host.clone()), ..server };
    assert_eq!(rows(&mut *again.session(), "SELECT NEXT VALUE FOR s"), "13");
}

#[test]
fn ranges_of_values_are_taken() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE SEQUENCE s AS int START WITH 3 MINVALUE 1 MAXVALUE 10 CYCLE");
    good(
        &mut *session,
        &[
            (
                "DECLARE @f bigint, @l int, @c int, @i int, @n int, @x int;
                 EXEC sp_sequence_get_range 's', 5, @f OUTPUT, @l OUTPUT, @c OUTPUT, @i OUTPUT,
                 @n OUTPUT, @x OUTPUT; SELECT @f, @l, @c, @i, @n, @x",
                "status 0\n3 | 7 | 0 | 1 | 1 | 10",
            ),
            (
                "DECLARE @f bigint, @l bigint, @c int;
                 EXEC sys.sp_sequence_get_range @sequence_name = N'dbo.s', @range_size = 14,
                 @range_first_value = @f OUTPUT, @range_last_value = @l OUTPUT,
                 @range_cycle_count = @c OUTPUT; SELECT @f, @l, @c; SELECT NEXT VALUE FOR s",
                "status 0\n8 | 1 | 2\n2",
            ),
            ("ALTER SEQUENCE s NO CYCLE", ""),
        ],
    );
    bad(
        &mut *session,
        &[
            ("DECLARE @f bigint; EXEC sp_sequence_get_range 's', 9, @f OUTPUT", "11732/16/1"),
            ("DECLARE @f bigint; EXEC sp_sequence_get_range 's', 0, @f OUTPUT", "11733/16/1"),
            ("DECLARE @f bigint; EXEC sp_sequence_get_range 'nix', 1, @f OUTPUT", "208/16/1"),
            ("EXEC sp_sequence_get_range 's', 1", "201/16/4"),
        ],
    );
    assert_eq!(rows(&mut *session, "SELECT NEXT VALUE FOR s"), "3");
}

#[test]
fn a_column_that_is_added_takes_values_of_a_sequence() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE SEQUENCE s START WITH 1; CREATE TABLE t (a int); INSERT t VALUES (7), (8)",
                "",
            ),
            ("ALTER TABLE t ADD b int DEFAULT (NEXT VALUE FOR s); SELECT b FROM t", "NULL\nNULL"),
            ("INSERT t (a) VALUES (9); SELECT b FROM t WHERE a = 9", "1"),
            (
                "ALTER TABLE t ADD c int CONSTRAINT dc DEFAULT NEXT VALUE FOR s WITH VALUES;
                 ALTER TABLE t ADD d varchar(9) NOT NULL DEFAULT 'n' + STR(NEXT VALUE FOR s, 2);
                 SELECT a, c, d FROM t ORDER BY a",
                "7 | 2 | 'n 5'\n8 | 3 | 'n 6'\n9 | 4 | 'n 7'",
            ),
            ("INSERT t (a) VALUES (10); SELECT c, d FROM t WHERE a = 10", "8 | 'n 8'"),
            (
                "ALTER TABLE t ADD e uniqueidentifier NOT NULL DEFAULT NEWID();
                 SELECT COUNT(DISTINCT e) FROM t",
                "4",
            ),
            (
                "SELECT name, is_nullable FROM sys.columns WHERE object_id = OBJECT_ID('t')
                 AND column_id > 2 ORDER BY column_id",
                "'c' | 1\n'd' | 0\n'e' | 0",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t (a, d) VALUES (1, NULL)", "515/16/2"),
            ("DROP SEQUENCE s", "3729/16/1"),
            (
                "CREATE SEQUENCE z AS tinyint MINVALUE 1 MAXVALUE 2;
                 ALTER TABLE t ADD f int NOT NULL DEFAULT NEXT VALUE FOR z",
                "11728/16/1",
            ),
            ("SELECT f FROM t", "207/16/1"),
        ],
    );
    healthy(&server);
}

#[test]
fn a_sequence_gets_another_name_unless_a_default_uses_it() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SCHEMA x", ""),
            ("CREATE SEQUENCE x.s START WITH 4; CREATE SEQUENCE used START WITH 1", ""),
            ("CREATE TABLE t (a int DEFAULT NEXT VALUE FOR used)", ""),
            ("CREATE ROLE r; GRANT UPDATE ON x.s TO r", ""),
            ("SELECT NEXT VALUE FOR x.s", "4"),
        ],
    );
    rows(&mut *session, "EXEC sp_rename 'x.s', 's2'");
    good(&mut *session, &[("SELECT NEXT VALUE FOR x.s2", "5")]);
    rows(&mut *session, "BEGIN TRAN; EXEC sp_rename 'x.s2', 's3'");
    good(&mut *session, &[("SELECT NEXT VALUE FOR x.s3; ROLLBACK", "6\n~ rollback")]);
    good(&mut *session, &[("SELECT NEXT VALUE FOR x.s2", "7")]);
    rows(&mut *session, "EXEC sp_rename 'x.s2', 'S2', 'OBJECT'");
    good(
        &mut *session,
        &[
            (
                "SELECT name, SCHEMA_NAME(schema_id), current_value FROM sys.sequences
                 WHERE name = 's2'",
                "'S2' | 'x' | 7",
            ),
            ("SELECT OBJECT_NAME(major_id) FROM sys.database_permissions WHERE class = 1", "'S2'"),
        ],
    );
    bad(
        &mut *session,
        &[
            ("SELECT NEXT VALUE FOR x.s", "208/16/1"),
            ("EXEC sp_rename 'used', 'u'", "15336/16/1"),
            ("CREATE SEQUENCE x.other; EXEC sp_rename 'x.s2', 'other'", "15335/11/1"),
            ("EXEC sp_rename 'x.nix', 'u'", "15225/11/1"),
        ],
    );
    good(&mut *session, &[("INSERT t DEFAULT VALUES; SELECT a FROM t", "1")]);
    healthy(&server);
}

/// A statement, its triggers, and the table of its OUTPUT take values of one sequence.
#[test]
fn no_value_is_given_twice_within_a_statement() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SEQUENCE n START WITH 1", ""),
            ("CREATE TABLE log (what varchar(9), n int DEFAULT NEXT VALUE FOR n)", ""),
            ("CREATE TABLE t (n int DEFAULT NEXT VALUE FOR n, a int)", ""),
            ("CREATE TABLE u (n int DEFAULT NEXT VALUE FOR n, a int)", ""),
            (
                "CREATE TRIGGER g ON t AFTER INSERT, UPDATE AS INSERT log (what) SELECT 'trigger' \
                 FROM inserted",
                "",
            ),
            ("INSERT t (a) VALUES (1), (2)", ""),
            ("SELECT n FROM t ORDER BY n; SELECT n FROM log ORDER BY n", "1\n2\n3\n4"),
            ("TRUNCATE TABLE log; INSERT t (n) VALUES (NEXT VALUE FOR n)", ""),
            ("SELECT MAX(n) FROM t; SELECT n FROM log", "5\n6"),
            ("TRUNCATE TABLE log; INSERT u (a) OUTPUT 'out' INTO log (what) VALUES (1), (2)", ""),
            ("SELECT n FROM u ORDER BY n; SELECT n FROM log ORDER BY n", "7\n8\n9\n10"),
            (
                "TRUNCATE TABLE log; MERGE u USING (VALUES (8), (9)) AS v (i) ON u.a = v.i WHEN \
                 NOT \
                 MATCHED THEN INSERT (a) VALUES (v.i) OUTPUT 'out' INTO log (what);",
                "",
            ),
            (
                "SELECT COUNT(DISTINCT n), COUNT(*), MIN(n), MAX(n) FROM (SELECT n FROM u WHERE a \
                 > \
                 2 UNION ALL SELECT n FROM log) AS x",
                "4 | 4 | 11 | 14",
            ),
            ("TRUNCATE TABLE log; INSERT t (a) EXEC ('SELECT 5 UNION ALL SELECT 6')", ""),
            (
                "SELECT COUNT(DISTINCT n), COUNT(*) FROM (SELECT n FROM t WHERE a > 2 UNION ALL \
                 SELECT n FROM log) AS x",
                "4 | 4",
            ),
        ],
    );
    healthy(&server);
}

/// The key in the message takes a second run, which gives no value of its own.
#[test]
fn a_refused_change_takes_values_once() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SEQUENCE n START WITH 1", ""),
            ("CREATE TABLE t (k int NOT NULL UNIQUE, n int DEFAULT NEXT VALUE FOR n)", ""),
            ("CREATE TABLE u (i int); INSERT u VALUES (1), (2), (3)", ""),
            ("INSERT t VALUES (100, 0), (50, 0)", ""),
        ],
    );
    let mut last = 0;
    for (batch, taken) in [
        ("INSERT t (k) VALUES (100)", 1),
        ("INSERT t (k) VALUES (101), (100), (102)", 2),
        ("INSERT t (k) SELECT 100 FROM u", 1),
        ("INSERT t (k) SELECT i + 98 FROM u", 2),
        ("INSERT t (k, n) SELECT 100, NEXT VALUE FOR n FROM u", 1),
        ("INSERT t (k) OUTPUT inserted.n VALUES (100)", 1),
        ("UPDATE t SET n = NEXT VALUE FOR n, k = 100", 2),
        ("DECLARE @v int; UPDATE t SET n = NEXT VALUE FOR n, @v = k = 100", 2),
        (
            "MERGE t USING (VALUES (100), (7)) AS v (i) ON t.k = v.i + 1 WHEN NOT MATCHED THEN \
             INSERT (k) VALUES (v.i);",
            1,
        ),
    ] {
        let found = rows(&mut *session, batch);
        assert!(found.contains("key value is (100)."), "{batch}: {found}");
        last += taken;
        let current = rows(&mut *session, "SELECT current_value FROM sys.sequences");
        assert_eq!(current, last.to_string(), "{batch}");
    }
}
