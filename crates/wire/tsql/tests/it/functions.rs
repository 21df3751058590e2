//! Inline table-valued functions.

use crate::common::{Log, Server, rows};
use crate::permissions::{DENIED, all, server, story};
use tdekit_wire_tds::{Parameter, SqlType, Value};

const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, k int NULL, s varchar(10) NULL, f \
float NULL, d \
    decimal(25, 2) NULL, g varbinary(4) NULL, m datetime2(3) NULL); INSERT t VALUES (1, 10, \
    'a', 1.5, 1.25, 0x00FF, \
    '2024-01-02T03:04:05.678'), (2, 20, 'B\"\\', -0.0, -99999999999999999999999.99, 0x, NULL), \
    (3, 10, 'a ', NULL, NULL, NULL, \
    '0001-01-01'), (4, NULL, NULL, 1e300, 0, NULL, NULL); CREATE TABLE u (tid int, n int); \
    INSERT u VALUES (1, 100), \
    (1, 101), (2, 200), (4, 400)";

#[test]
fn calls_with_constants_variables_and_defaults() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (TABLES, ""),
            (
                "CREATE FUNCTION f (@p int = 10) RETURNS TABLE AS RETURN (SELECT id, k + @p AS kp \
            FROM t WHERE k >= @p)",
                "",
            ),
            ("CREATE FUNCTION dbo.f () RETURNS TABLE AS RETURN SELECT 1 AS a", "! 2714/16/6"),
            ("SELECT * FROM f(20)", "2 | 40"),
            ("SELECT x.kp FROM dbo.f(DEFAULT) AS x ORDER BY x.id", "20\n30\n20"),
            ("DECLARE @v int = 11; SELECT id FROM f(@v - 1) WHERE id > 1 ORDER BY id", "2\n3"),
            ("SELECT id FROM f('20')", "2"),
            ("SELECT COUNT(*) FROM f(NULL)", "0"),
            ("SELECT f.id FROM f((SELECT MAX(k) FROM t))", "2"),
            ("SELECT a.q FROM f(20) AS a (i, q)", "40"),
            ("SELECT a.q FROM f(20) AS a (i)", "! 8158/16/1"),
            ("SELECT * FROM f()", "! 313/16/2"),
            ("SELECT * FROM f(1, 2)", "! 8144/16/2"),
            ("SELECT * FROM f", "! 216/16/1"),
            ("SELECT * FROM t(1)", "! 215/16/1"),
            ("SELECT * FROM nosuch(1)", "! 208/16/1"),
            ("SELECT * FROM f(t.k), t", "! 4104/16/1"),
            ("SELECT a.id, b.id FROM f(10) AS a JOIN f(20) AS b ON a.id > b.id", "3 | 2"),
            ("SELECT 1 WHERE 2 IN (SELECT id FROM f(20))", "1"),
            (
                "SELECT t.id, (SELECT COUNT(*) FROM f(t.k)) FROM t ORDER BY t.id",
                "1 | 3\n2 | \
            1\n3 | 3\n4 | 0",
            ),
            ("WITH c AS (SELECT id FROM f(10)) SELECT COUNT(*) FROM c", "3"),
            ("SELECT id INTO #x FROM f(20); SELECT * FROM #x", "2"),
            ("DECLARE @i int; SELECT @i = kp FROM f(20); SELECT @i", "40"),
            (
                "UPDATE t SET s = 'z' FROM t JOIN f(20) AS x ON x.id = t.id; SELECT id FROM t \
            WHERE s = 'z'",
                "2",
            ),
            ("DELETE u FROM u JOIN f(20) AS x ON x.id = u.tid; SELECT COUNT(*) FROM u", "3"),
            ("INSERT u SELECT id, kp FROM f(20); SELECT n FROM u WHERE tid = 2", "40"),
            ("UPDATE f(1) SET id = 2", "! 102/"),
            (
                "ALTER FUNCTION f (@p varchar(2)) RETURNS TABLE AS RETURN SELECT @p AS a, LEN(@p) \
            AS n",
                "",
            ),
            ("SELECT * FROM f('abcd')", "'ab' | 2"),
            ("SELECT * FROM f(DEFAULT)", "! 313/16/2"),
            (
                "CREATE OR ALTER FUNCTION g (@a int) RETURNS TABLE WITH SCHEMABINDING AS RETURN \
            (WITH c AS (SELECT @a AS x \
              UNION ALL SELECT x + 1 FROM c WHERE x < @a + 2) SELECT TOP (@a) x FROM c ORDER BY \
              x DESC)",
                "",
            ),
            ("SELECT * FROM g(2)", "4\n3"),
            ("ALTER FUNCTION nosuch () RETURNS TABLE AS RETURN SELECT 1 AS a", "! 208/16/"),
            ("DROP FUNCTION f, g; DROP FUNCTION IF EXISTS f", ""),
            ("DROP FUNCTION f", "! 3701/"),
            ("SELECT * FROM f(1)", "! 208/16/1"),
        ],
    );
}

#[test]
fn what_a_function_may_not_do_is_refused() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            ("CREATE TABLE t (a int); CREATE SEQUENCE q", ""),
            ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT NEWID() AS a", "! 443/16/1"),
            (
                "CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a WHERE EXISTS (SELECT \
            RAND())",
                "! 443/16/1",
            ),
            ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT * FROM #t", "! 2772/16/1"),
            (
                "CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT NEXT VALUE FOR q AS a",
                "! \
            11719/15/1",
            ),
            ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1", "! 4511/16/1"),
            ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT * FROM nosuch", "! 208/16/1"),
            ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT @a AS a", "! 137/15/2"),
            (
                "CREATE FUNCTION f (@a int) RETURNS TABLE AS RETURN SELECT a FROM t ORDER BY \
            a",
                "! 1033/15/1",
            ),
            (
                "CREATE FUNCTION f (@a int OUTPUT) RETURNS TABLE AS RETURN SELECT 1 AS a",
                "! \
            102/15/1",
            ),
            (
                "SELECT 1; CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a",
                "! \
            111/15/1",
            ),
            ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a SELECT 2", "! 156/15/1"),
            // a variable of the caller is not one of the function
            ("CREATE FUNCTION f (@a int) RETURNS TABLE AS RETURN SELECT @a AS a", ""),
            ("DECLARE @b int = 3, @a int = 5; SELECT * FROM f(@b)", "3"),
            (
                "CREATE FUNCTION r (@a int) RETURNS TABLE AS RETURN SELECT a FROM r(@a)",
                "! \
            208/16/1",
            ),
            ("CREATE PROCEDURE f AS SELECT 1", "! 2714/16/6"),
            ("CREATE TABLE f (a int)", "! 2714/16/6"),
            ("CREATE VIEW f AS SELECT 1 AS a", "! 2714/16/6"),
            ("DROP VIEW f", "! 3701/"),
            ("INSERT f VALUES (1)", "! 40512/"),
        ],
    );
}

const ARGUMENTS: &[(&str, &str)] = &[
    (TABLES, ""),
    (
        "CREATE FUNCTION f (@id int, @add int = 1) RETURNS TABLE AS RETURN SELECT n, n + \
            @add AS more FROM u WHERE \
              tid = @id",
        "",
    ),
    (
        "SELECT t.id, x.n, x.more FROM t CROSS APPLY f(t.id, DEFAULT) AS x ORDER BY \
            x.n",
        "1 | 100 | 101\n1 | 101 | \
              102\n2 | 200 | 201\n4 | 400 | 401",
    ),
    (
        "SELECT t.id, x.n FROM t OUTER APPLY f(t.id, 0) AS x WHERE t.id > 2 ORDER BY \
            t.id",
        "3 | NULL\n4 | 400",
    ),
    (
        "SELECT t.id, x.n, y.n FROM t CROSS APPLY f(id, k) AS x CROSS APPLY f(id, x.more) \
            AS y WHERE id = 1 ORDER BY 2, 3",
        "1 | 100 | 100\n1 | 100 | 101\n1 | 101 | 100\n1 | 101 | 101",
    ),
    (
        "SELECT COUNT(*) FROM t CROSS APPLY dbo.f((SELECT MIN(v.tid) FROM u AS v WHERE \
            v.tid >= t.id), 1) AS x",
        "5",
    ),
    // nested, with the same names of parameters and aliases
    (
        "CREATE FUNCTION g (@id int) RETURNS TABLE AS RETURN SELECT x.n, t.s FROM t CROSS \
            APPLY f(t.id, @id) AS x \
              WHERE t.id = @id",
        "",
    ),
    ("SELECT * FROM g(2)", "200 | 'B\"\\'"),
    (
        "SELECT t.id, x.n, x.s FROM t CROSS APPLY g(t.id) AS x ORDER BY 1, 2",
        "1 | 100 | \
            'a'\n1 | 101 | 'a'\n2 | 200 | \
              'B\"\\'\n4 | 400 | NULL",
    ),
    (
        "CREATE FUNCTION h (@n int) RETURNS TABLE AS RETURN SELECT TOP (@n) n FROM u ORDER \
            BY n DESC",
        "",
    ),
    (
        "SELECT t.id, x.n FROM t CROSS APPLY h(t.id - 1) AS x WHERE t.id < 4 ORDER BY 1, \
            2",
        "2 | 400\n3 | 200\n3 | 400",
    ),
    (
        "CREATE FUNCTION o (@n int) RETURNS TABLE AS RETURN SELECT n FROM u ORDER BY n \
            OFFSET @n ROWS",
        "",
    ),
    ("SELECT * FROM o(3)", "400"),
    ("SELECT * FROM t CROSS APPLY o(t.id) AS x", "! 40512/"),
    (
        "CREATE FUNCTION a (@n int) RETURNS TABLE AS RETURN SELECT SUM(@n) AS n, COUNT(*) \
            AS c FROM u",
        "",
    ),
    ("SELECT * FROM a(2)", "8 | 4"),
    ("SELECT * FROM t CROSS APPLY a(t.id) AS x", "! 40512/"),
    (
        "CREATE FUNCTION b (@n int) RETURNS TABLE AS RETURN SELECT SUM(n * @n) AS n, @n AS \
            m FROM u WHERE tid = @n \
              GROUP BY tid",
        "",
    ),
    (
        "SELECT t.id, x.n, x.m FROM t CROSS APPLY b(t.id) AS x ORDER BY 1",
        "1 | 201 | \
            1\n2 | 400 | 2\n4 | 1600 | 4",
    ),
    (
        "CREATE FUNCTION c (@n int) RETURNS TABLE AS RETURN WITH w (i) AS (SELECT 1 UNION \
            ALL SELECT i + 1 FROM w WHERE i < \
              @n), z AS (SELECT i FROM w) SELECT a.i FROM z AS a JOIN z AS b ON a.i = b.i",
        "",
    ),
    (
        "SELECT t.id, x.i FROM t CROSS APPLY c(t.id) AS x WHERE t.id < 4 ORDER BY 1, \
            2",
        "1 | 1\n2 | 1\n2 | 2\n3 | 1\n3 | 2\n3 | 3",
    ),
    (
        "SELECT * FROM (SELECT MAX(id) AS m FROM t) AS q CROSS APPLY f(q.m, 1) AS x",
        "4 | \
            400 | 401",
    ),
    (
        "SELECT id, (SELECT MAX(x.n) FROM f(t.id, 1) AS x) FROM t WHERE id < 3",
        "1 | \
            101\n2 | 200",
    ),
    (
        "SELECT 1 FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM f(MAX(t.id), 1) AS \
            x)",
        "! 40512/",
    ),
    ("SELECT * FROM t, f(t.id, 1) AS x", "! 4104/16/1"),
    ("SELECT COUNT(*) FROM t JOIN u ON u.tid = t.id CROSS APPLY f(u.tid, u.n) AS x", "6"),
    (
        "DELETE t FROM t CROSS APPLY f(t.id, 1) AS x WHERE x.n = 200; SELECT id FROM t \
            ORDER BY id",
        "1\n3\n4",
    ),
];

#[test]
fn arguments_from_tables_to_the_left() {
    let server = Server::new();
    let mut session = server.session();
    all(&mut *session, ARGUMENTS);
}

/// Each type passes through APPLY as it is stored.
#[test]
fn values_keep_their_types() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, TABLES);
    let made = "CREATE FUNCTION f (@id int) RETURNS TABLE AS RETURN SELECT id, k, s, f, d, g, \
    m, CAST(id AS \
        bit) AS b, CAST(NULL AS money) AS w, NULL AS z, N'\u{1F600}' AS e FROM t WHERE id = @id";
    assert_eq!(rows(&mut *session, made), "");
    let direct = "SELECT id, k, s, f, d, g, m, CAST(id AS bit), CAST(NULL AS money), NULL, \
    N'\u{1F600}' \
        FROM t ORDER BY id";
    let through = "SELECT x.* FROM t CROSS APPLY f(t.id) AS x ORDER BY t.id";
    let found = rows(&mut *session, through);
    assert_eq!(found, rows(&mut *session, direct));
    assert_eq!(found.lines().count(), 4);
    // text compares without case, whatever way it came
    let text = "SELECT COUNT(*) FROM t CROSS APPLY f(t.id) AS x WHERE x.s = 'A'";
    assert_eq!(rows(&mut *session, text), "2");
    let text = "SELECT MIN(LEN(x.s)), COUNT(*) FROM t CROSS APPLY f(t.id) AS x GROUP BY x.s HAVING \
        COUNT(*) > 1 AND MIN(x.s) IS NOT NULL";
    assert_eq!(rows(&mut *session, text), "1 | 2");
    let text = "SELECT COUNT(DISTINCT x.s) FROM t CROSS APPLY f(t.id) AS x WHERE x.s LIKE 'a%'";
    assert_eq!(rows(&mut *session, text), "1");
    rows(&mut *session, "INSERT t (id, s) VALUES (9, 'x' + CHAR(0))");
    assert!(rows(&mut *session, through).contains("! 40512/"));
}

#[test]
fn tables_are_arguments() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            ("CREATE TYPE n AS TABLE (a int); CREATE TYPE m AS TABLE (a int)", ""),
            (
                "CREATE FUNCTION f (@t n READONLY, @k int) RETURNS TABLE AS RETURN SELECT a * @k \
            AS b FROM @t",
                "",
            ),
            ("DECLARE @x n; INSERT @x VALUES (1), (2); SELECT SUM(b) FROM f(@x, 10)", "30"),
            ("DECLARE @x m; SELECT * FROM f(@x, 10)", "! 206/16/2"),
            ("SELECT * FROM f(1, 10)", "! 206/16/2"),
            ("CREATE TYPE al FROM varchar(2)", ""),
            ("CREATE FUNCTION g (@a al) RETURNS TABLE AS RETURN SELECT @a AS a", ""),
            ("SELECT a FROM g('xyz')", "'xy'"),
            ("CREATE PROCEDURE p @t n READONLY AS SELECT b FROM f(@t, 2)", ""),
            ("DECLARE @x n; INSERT @x VALUES (4); EXEC p @x", "8"),
            ("DROP TYPE n", "! 3732/16/1"),
        ],
    );
}

#[test]
fn the_catalog_has_functions() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE FUNCTION f (@a int, @b varchar(5) = 'x') RETURNS TABLE WITH \
    SCHEMABINDING AS RETURN \
        SELECT @a AS a, CAST(@b AS nvarchar(7)) AS c";
    assert_eq!(rows(&mut *session, made), "");
    let quoted = format!("'{}'", made);
    all(
        &mut *session,
        &[
            (
                "SELECT name, type, type_desc FROM sys.objects",
                "'f' | 'IF' | \
            'SQL_INLINE_TABLE_VALUED_FUNCTION'",
            ),
            (
                "SELECT name, column_id, TYPE_NAME(user_type_id), max_length FROM \
            sys.columns",
                "'a' | 1 | 'int' | 4\n'c' | 2 | \
              'nvarchar' | 14",
            ),
            (
                "SELECT name, parameter_id, max_length FROM sys.parameters",
                "'@a' | 1 | 4\n'@b' | \
            2 | 5",
            ),
            ("SELECT OBJECT_DEFINITION(OBJECT_ID('f'))", &quoted),
            ("EXEC sp_helptext 'f'", &quoted),
            ("SELECT is_schema_bound FROM sys.sql_modules", "1"),
            (
                "SELECT ROUTINE_NAME, ROUTINE_TYPE, DATA_TYPE FROM \
            INFORMATION_SCHEMA.ROUTINES",
                "'f' | 'FUNCTION' | 'TABLE'",
            ),
            (
                "SELECT OBJECTPROPERTY(OBJECT_ID('f'), 'IsInlineFunction'), \
            OBJECTPROPERTY(OBJECT_ID('f'), 'IsTable')",
                "1 | 0",
            ),
            (
                "SELECT CASE WHEN OBJECT_ID('f', 'IF') = OBJECT_ID('dbo.f') THEN 1 END, \
            OBJECT_ID('f', 'P')",
                "1 | NULL",
            ),
            ("SELECT COUNT(*) FROM sys.procedures", "0"),
        ],
    );
    // renamed into another schema, and in the file
    rows(&mut *session, "CREATE SCHEMA s");
    assert_eq!(
        rows(
            &mut *session,
            "ALTER SCHEMA s TRANSFER f; SELECT a FROM s.f(3, \
    DEFAULT)"
        ),
        "3"
    );
    drop(session);
    let again = tdekit_wire_tsql::TsqlEngine::new(server.host.clone());
    let server = Server { engine: again, ..server };
    assert_eq!(rows(&mut *server.session(), "SELECT c FROM s.f(3, 'zz')"), "'zz'");
}

#[test]
fn a_function_that_changes_is_bound_anew() {
    let server = Server::new();
    let (mut one, mut two) = (server.session(), server.session());
    rows(&mut *one, "CREATE FUNCTION f (@a int) RETURNS TABLE AS RETURN SELECT @a AS a");
    let given = [Parameter {
        name: "@x".to_owned(),
        ty: SqlType::Int,
        value: Value::Int(5),
        output: false,
        default: false,
        table: None,
    }];
    let mut executed = |expected: &[&str]| {
        let mut log = Log { quiet: true, ..Log::default() };
        one.execute("SELECT * FROM f(@x)", "@x int", &given, &mut log);
        let kept: Vec<_> = log.lines.iter().filter(|line| *line != "status 0").collect();
        assert_eq!(kept, expected);
    };
    executed(&["# a:Int", "5"]);
    let text = "ALTER FUNCTION f (@a varchar(3)) RETURNS TABLE AS RETURN SELECT 'x' + @a AS b, \
    1 AS c";
    assert_eq!(rows(&mut *two, text), "");
    executed(&["# b:VarChar(Of(4)) | c:Int", "'x5' | 1"]);
}

#[test]
fn a_function_needs_select_and_reaches_its_database() {
    story(
        &server(),
        &[
            (
                "sa",
                "CREATE FUNCTION f (@a int) RETURNS TABLE AS RETURN SELECT b FROM t WHERE a \
            = @a",
                "",
            ),
            (
                "sa",
                "CREATE FUNCTION away () RETURNS TABLE AS RETURN SELECT a FROM \
            other.dbo.secret",
                "",
            ),
            ("ann", "SELECT * FROM f(1)", DENIED),
            ("ann", "SELECT name FROM sys.objects", ""),
            ("sa", "GRANT SELECT ON f TO ann; GRANT SELECT ON away TO ann", ""),
            ("ann", "SELECT * FROM f(1)", "10"),
            ("ann", "SELECT * FROM t", DENIED),
            ("ann", "SELECT * FROM away()", "! 916/14/2"),
            // an argument is the caller's
            ("ann", "SELECT * FROM f((SELECT MAX(a) FROM t))", DENIED),
            ("ann", "CREATE FUNCTION g () RETURNS TABLE AS RETURN SELECT 1 AS a", "! 262/14/1"),
            (
                "ann",
                "ALTER FUNCTION f (@a int) RETURNS TABLE AS RETURN SELECT 1 AS a",
                "! \
            15151/16/1",
            ),
            ("ann", "DROP FUNCTION f", "! 3701/14/20"),
            ("sa", "GRANT CREATE FUNCTION TO ann; GRANT ALTER ON SCHEMA::dbo TO ann", ""),
            ("ann", "CREATE FUNCTION g () RETURNS TABLE AS RETURN SELECT a FROM t", DENIED),
            ("ann", "CREATE FUNCTION g () RETURNS TABLE AS RETURN SELECT b FROM f(1)", ""),
            ("ann", "DROP FUNCTION g", ""),
        ],
    );
}

/// Arguments that consist of arguments grow with each function; a statement has a limit.
#[test]
fn nesting_is_bounded() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (id int)");
    rows(&mut *session, "CREATE FUNCTION f0 (@a int) RETURNS TABLE AS RETURN SELECT @a AS a");
    for at in 1..40 {
        let before = at - 1;
        let made = format!(
            "CREATE FUNCTION f{at} (@a int) RETURNS TABLE AS RETURN SELECT x.a FROM \
             f{before}(@a + @a) AS x"
        );
        let expected = if at < 18 { "" } else { "! " };
        assert!(rows(&mut *session, &made).starts_with(expected), "{at}");
        let made = format!(
            "CREATE FUNCTION g{at} (@a int) RETURNS TABLE AS RETURN SELECT y.a FROM t CROSS APPLY \
             {}(@a) AS x CROSS APPLY f0(x.a + t.id) AS y",
            if at == 1 { "f0".to_owned() } else { format!("g{before}") }
        );
        rows(&mut *session, &made);
    }
    assert_eq!(rows(&mut *session, "SELECT a FROM f10(1)"), "1024");
    assert_eq!(rows(&mut *session, "SELECT x.a FROM t CROSS APPLY f10(t.id) AS x"), "");
    rows(&mut *session, "INSERT t VALUES (1)");
    for at in [3, 10, 25] {
        let found = rows(&mut *session, &format!("SELECT a FROM g{at}(0)"));
        assert!(found == at.to_string() || found.starts_with("! "), "{at}: {found}");
    }
    let twice: Vec<String> = (0..300).map(|at| format!("f0({at}) AS x{at}")).collect();
    let found = rows(&mut *session, &format!("SELECT 1 FROM {}", twice.join(", ")));
    assert!(found.starts_with("! 4414/"), "{found}");
}
