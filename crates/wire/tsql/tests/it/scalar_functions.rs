//! Scalar functions of a database: their statements, where they are called, the catalog.

use crate::common::{Log, Server, check, rows};
use crate::constraints::{bad, good, healthy};
use tdekit_wire_tds::{Parameter, Session, SqlType, Value};

const MADE: &[(&str, &str)] = &[
    ("CREATE FUNCTION dbo.twice (@a int) RETURNS int AS BEGIN RETURN @a * 2 END", ""),
    (
        "CREATE FUNCTION dbo.words (@text nvarchar(100), @by nchar(1) = N' ') RETURNS int WITH \
         SCHEMABINDING AS
         BEGIN
         DECLARE @at int = 1, @n int
         SET @n = 0;
         IF @text IS NULL RETURN NULL
         WHILE 1 = 1
         BEGIN
         SET @at = CHARINDEX(@by, @text);
         IF @at = 0 BREAK
         IF @at = 1 BEGIN SET @text = STUFF(@text, 1, 1, ''); CONTINUE END
         SELECT @n += 1, @text = STUFF(@text, 1, @at, N'')
         END
         IF LEN(@text) > 0 SET @n = @n + 1 ELSE SET @n = @n;
         RETURN @n
         END;",
        "",
    ),
    (
        "CREATE FUNCTION dbo.fact (@n bigint) RETURNS bigint BEGIN IF @n < 2 RETURN 1; RETURN @n * \
         dbo.fact(@n - 1) END",
        "",
    ),
    (
        "CREATE FUNCTION odd (@n int) RETURNS bit AS BEGIN RETURN CASE WHEN @n = 0 THEN 0 ELSE 1 \
         END END",
        "",
    ),
    (
        "CREATE FUNCTION even (@n int) RETURNS bit AS BEGIN RETURN CASE WHEN @n = 0 THEN 1 ELSE \
         dbo.odd(@n - 1) END END",
        "",
    ),
    (
        "ALTER FUNCTION odd (@n int) RETURNS bit AS BEGIN RETURN CASE WHEN @n = 0 THEN 0 ELSE \
         dbo.even(@n - 1) END END",
        "",
    ),
    ("CREATE SCHEMA s", ""),
    (
        "CREATE FUNCTION s.price (@p decimal(10, 2), @d date) RETURNS varchar(40) WITH RETURNS \
         NULL \
         ON NULL INPUT AS BEGIN DECLARE @t varchar(10) = CONVERT(varchar(10), @d, 120); RETURN \
         CONCAT(@t, ': ', @p) END",
        "",
    ),
    ("CREATE FUNCTION today () RETURNS date AS BEGIN RETURN CAST(GETDATE() AS date) END", ""),
    (
        "CREATE FUNCTION who (@a int) RETURNS nvarchar(200) AS BEGIN RETURN CONCAT(SUSER_SNAME(), \
         ' ', DB_NAME(), ' ', DATEDIFF(day, dbo.today(), GETDATE()), ' ', @a) END",
        "",
    ),
    ("CREATE TABLE t (i int, s nvarchar(50), d decimal(10, 2))", ""),
    ("INSERT t VALUES (1, N'a b', 1.5), (2, N' c  d e ', 2.25), (3, NULL, NULL)", ""),
];

fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    good(&mut *session, MADE);
    session
}

const CALLS: &[(&str, &str)] = &[
    (
        "SELECT dbo.twice(4), dbo.twice(NULL), app.dbo.twice('5'), [dbo].[TWICE](6.9)",
        "8 | NULL | 10 | 12",
    ),
    ("DECLARE @a int = 3, @b int; SET @b = dbo.twice(@a) + 1; SELECT @b, dbo.twice(@b)", "7 | 14"),
    ("IF dbo.twice(2) = 4 PRINT dbo.twice(2) ELSE PRINT 'no'", "! 0/0/1 line 1: 4"),
    ("DECLARE @i int = 0; WHILE dbo.twice(@i) < 6 SET @i += 1; SELECT @i", "3"),
    ("SELECT i, dbo.words(s, DEFAULT) FROM t ORDER BY i", "1 | 2\n2 | 3\n3 | NULL"),
    ("SELECT dbo.words(N'a,b,,c', ','), dbo.words('', ','), dbo.words(',', ',')", "3 | 0 | 0"),
    ("SELECT i FROM t WHERE dbo.words(s, N' ') = 3", "2"),
    ("SELECT SUM(dbo.twice(i)), MAX(dbo.fact(i)) FROM t", "12 | 6"),
    ("SELECT dbo.twice(SUM(i)), dbo.twice((SELECT MAX(i) FROM t)) FROM t", "12 | 6"),
    (
        "SELECT dbo.twice(i) AS a, COUNT(*) FROM t GROUP BY dbo.twice(i) ORDER BY \
         dbo.twice(i) DESC",
        "6 | 1\n4 | 1\n2 | 1",
    ),
    ("SELECT a.i FROM t AS a JOIN t AS b ON b.i = dbo.twice(a.i)", "1"),
    ("SELECT x.n FROM t CROSS APPLY (SELECT dbo.twice(t.i) AS n) AS x WHERE t.i = 3", "6"),
    ("SELECT TOP (dbo.twice(1)) i FROM t ORDER BY dbo.twice(-i)", "3\n2"),
    ("SELECT dbo.fact(0), dbo.fact(5), dbo.fact(20)", "1 | 120 | 2432902008176640000"),
    ("SELECT dbo.even(10), dbo.odd(10), dbo.even(7), dbo.odd(7)", "1 | 0 | 0 | 1"),
    ("SELECT dbo.twice(dbo.twice(dbo.twice(1)))", "8"),
    (
        "SELECT s.price(d, '20240229') FROM t ORDER BY i",
        "'2024-02-29: 1.50'\n'2024-02-29: 2.25'\nNULL",
    ),
    ("SELECT s.price(1, NULL)", "NULL"),
    ("SELECT dbo.who(5), DATEDIFF(day, dbo.today(), GETDATE())", "'sa app 0 5' | 0"),
    ("SELECT dbo.who(i) FROM t WHERE i < 3 ORDER BY i", "'sa app 0 1'\n'sa app 0 2'"),
    ("UPDATE t SET d = dbo.twice(d) OUTPUT inserted.d WHERE dbo.twice(i) = 4", "4.00"),
    ("DECLARE @v int; UPDATE t SET @v = i = dbo.twice(i) - i; SELECT @v", "3"),
    (
        "INSERT t VALUES (dbo.fact(4), N'x', dbo.twice(1)); DELETE t OUTPUT deleted.d WHERE \
         i = dbo.fact(4)",
        "2.00",
    ),
    (
        "MERGE t USING (VALUES (2)) AS v (i) ON t.i = dbo.twice(v.i) / 2 WHEN MATCHED THEN \
         UPDATE SET d = dbo.twice(v.i) OUTPUT inserted.d;",
        "4.00",
    ),
    ("SELECT CASE WHEN i > 1 THEN dbo.twice(i) END FROM t ORDER BY i", "NULL\n4\n6"),
    ("CREATE VIEW v AS SELECT i, dbo.twice(i) AS n FROM t", ""),
    (
        "CREATE FUNCTION many (@n int) RETURNS TABLE AS RETURN SELECT i, dbo.twice(i * @n) \
         AS n FROM t",
        "",
    ),
    ("CREATE PROCEDURE p @a int AS RETURN dbo.twice(@a)", ""),
    ("SELECT n FROM v WHERE i = 3; SELECT n FROM many(dbo.twice(5)) WHERE i = 1", "6\n20"),
    ("DECLARE @r int; EXEC @r = p 21; SELECT @r", "status 42\n42"),
    (
        "CREATE VIEW w AS SELECT other.dbo.there() AS n",
        "! 4121/16/1 line 1: Cannot find \
         either column \"other\" or the user-defined function or aggregate \
         \"other.dbo.there\", or the name is ambiguous.",
    ),
    // RETURN takes what begins an expression
    ("CREATE FUNCTION r1 () RETURNS varchar(9) AS BEGIN RETURN LEFT('abc', 2) END", ""),
    ("CREATE FUNCTION r2 () RETURNS varchar(9) AS BEGIN RETURN CONVERT(varchar, 0xFF, 1) END", ""),
    ("CREATE FUNCTION r3 () RETURNS varbinary(9) AS BEGIN RETURN 0xFF END", ""),
    ("CREATE FUNCTION r4 () RETURNS datetime AS BEGIN RETURN CURRENT_TIMESTAMP END", ""),
    ("CREATE FUNCTION r5 () RETURNS money AS BEGIN RETURN $1.5 END", ""),
    ("CREATE FUNCTION r6 () RETURNS float AS BEGIN RETURN 1e1 END", ""),
    ("CREATE FUNCTION r7 () RETURNS int AS BEGIN RETURN [dbo].[twice](4) END", ""),
    (
        "SELECT dbo.r1(), dbo.r2(), CONVERT(varchar, dbo.r3(), 1), DATEDIFF(day, dbo.r4(), \
         GETDATE()), dbo.r5(), dbo.r6(), dbo.r7()",
        "'ab' | '0xFF' | '0xFF' | 0 | $15000 | 10.0 | 8",
    ),
    // what is not reached is not computed
    ("CREATE FUNCTION inverse (@n int) RETURNS int AS BEGIN RETURN 10 / @n END", ""),
    ("DECLARE @n int = 0; SELECT CASE WHEN @n <> 0 THEN dbo.inverse(@n) END", "NULL"),
    ("SELECT CASE WHEN i > 1 THEN dbo.inverse(i - 1) END FROM t ORDER BY i", "NULL\n10\n5"),
];

#[test]
fn a_function_computes_wherever_an_expression_may_be() {
    let server = Server::new();
    let mut session = made(&server);
    good(&mut *session, CALLS);
    bad(
        &mut *session,
        &[
            ("SELECT dbo.inverse(0)", "8134/16/1"),
            ("SELECT dbo.inverse(i - 1) FROM t", "8134/16/1"),
            ("SELECT dbo.twice('x')", "245/16/1"),
            ("SELECT dbo.twice(2000000000)", "8115/16/2"),
            ("SELECT dbo.twice()", "313/16/2"),
            ("SELECT dbo.twice(1, 2)", "8144/16/2"),
            ("SELECT dbo.twice(DEFAULT)", "313/16/2"),
            ("SELECT dbo.none(1)", "4121/16/1"),
            ("SELECT other.dbo.twice(1)", "4121/16/1"),
            ("SELECT dbo.t(1)", "4121/16/1"),
            ("SELECT twice(1)", "195/15/10"),
            ("SELECT * FROM dbo.twice(1)", "208/16/1"),
            ("EXEC dbo.twice 1", "2812/16/62"),
            ("SELECT dbo.fact(33)", "217/16/1"),
            ("SELECT dbo.even(32)", "217/16/1"),
            ("SELECT dbo.twice(i) OVER (ORDER BY i) FROM t", "102/15/1"),
        ],
    );
    let found = rows(&mut *session, "SELECT dbo.none(1)");
    assert_eq!(
        found,
        "! 4121/16/1 line 1: Cannot find either column \"dbo\" or the user-defined function or \
         aggregate \"dbo.none\", or the name is ambiguous."
    );
    // the sum of bigint goes beyond it at 21, so 32 levels take another function
    assert_eq!(rows(&mut *session, "SELECT dbo.even(31)"), "0");
    healthy(&server);
}

const REFUSED: &[(&str, &str)] = &[
    (
        "CREATE FUNCTION f () RETURNS int AS BEGIN INSERT t VALUES (1); RETURN 1 END",
        "! 443/16/1 line 1: Invalid use of a side-effecting operator 'INSERT' within a function.",
    ),
    (
        "CREATE FUNCTION f () RETURNS int AS BEGIN IF 1 = 1 UPDATE t SET a = 1; RETURN 1 END",
        "! 443/16/1",
    ),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN DELETE t RETURN 1 END", "! 443/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN PRINT 'x'; RETURN 1 END", "! 443/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN EXEC p; RETURN 1 END", "! 443/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN BEGIN TRAN; RETURN 1 END", "! 443/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN WAITFOR DELAY '0:0:1'; RETURN 1 END", "! 443/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN RAISERROR('x', 16, 1); RETURN 1 END", "! 443/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN SET NOCOUNT ON; RETURN 1 END", "! 443/16/1"),
    (
        "CREATE FUNCTION f () RETURNS int AS BEGIN BEGIN TRY RETURN 1 END TRY BEGIN CATCH RETURN \
         2 END CATCH; RETURN 3 END",
        "! 443/16/1",
    ),
    ("CREATE FUNCTION f () RETURNS uniqueidentifier AS BEGIN RETURN NEWID() END", "! 443/16/1"),
    (
        "CREATE FUNCTION f () RETURNS float AS BEGIN DECLARE @r float = RAND(); RETURN @r END",
        "! 443/16/1",
    ),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN SELECT 1; RETURN 1 END", "! 444/16/2"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN DECLARE @a int; SET @a = 1 END", "! 455/16/2"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN IF 1 = 1 RETURN 1 END", "! 455/16/2"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN RETURN END", "! 1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN RETURN @a END", "! 137/15/2"),
    ("CREATE FUNCTION f (@a int) RETURNS int AS BEGIN DECLARE @a int; RETURN 1 END", "! 134/15/1"),
    ("CREATE FUNCTION f (@a int, @A int) RETURNS int AS BEGIN RETURN 1 END", "! 134/15/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN BREAK; RETURN 1 END", "! 135/15/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN RETURN dbo.none(1) END", "! 4121/16/1"),
    ("CREATE FUNCTION f () RETURNS int AS BEGIN RETURN GETDATE() END", "! 257/16/3"),
    ("CREATE FUNCTION f (@a int OUTPUT) RETURNS int AS BEGIN RETURN 1 END", "! 102/15/1"),
    ("CREATE FUNCTION #f () RETURNS int AS BEGIN RETURN 1 END", "! 40512/16/1"),
    (
        "CREATE FUNCTION f (@a sysname) RETURNS int AS BEGIN RETURN OBJECT_ID(@a) END",
        "! 40512/16/1",
    ),
    ("CREATE FUNCTION f () RETURNS xml AS BEGIN RETURN NULL END", "! 40512/16/1"),
    (
        "CREATE TYPE z FROM int; EXEC ('CREATE FUNCTION f (@a z) RETURNS int AS BEGIN RETURN @a \
         END')",
        "! 40512/16/1",
    ),
    (
        "CREATE TYPE y FROM int; EXEC ('CREATE FUNCTION f () RETURNS y AS BEGIN RETURN 1 END')",
        "! 40512/16/1",
    ),
    (
        "CREATE TYPE x FROM int; EXEC ('CREATE FUNCTION f () RETURNS int AS BEGIN DECLARE @a x; \
         RETURN 1 END')",
        "! 40512/16/1",
    ),
    ("CREATE FUNCTION f () RETURNS int WITH ENCRYPTION AS BEGIN RETURN 1 END", "! 40517/16/1"),
];

#[test]
fn a_function_has_no_side_effects() {
    check(REFUSED);
}

#[test]
fn tables_keep_functions() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            ("CREATE TABLE u (a int DEFAULT dbo.twice(1), b AS dbo.twice(a))", ""),
            ("INSERT u VALUES (5), (DEFAULT); SELECT a, b FROM u", "5 | 10\n2 | 4"),
            ("ALTER TABLE t ADD b AS dbo.twice(i)", ""),
            ("ALTER TABLE t ADD CONSTRAINT df DEFAULT dbo.twice(4) FOR i", ""),
            ("ALTER TABLE t ADD e int NOT NULL DEFAULT dbo.twice(3)", ""),
            (
                "INSERT t (s) VALUES ('x'); SELECT i, b, e FROM t WHERE b > 4",
                "3 | 6 | 6\n8 | 16 | \
              6",
            ),
        ],
    );
    healthy(&server);
}

const LISTED: &[(&str, &str)] = &[
    (
        "SELECT name, SCHEMA_NAME(schema_id), type_desc FROM sys.objects WHERE type = 'FN' \
         AND name LIKE '%[tp][wr]i%' ORDER BY name",
        "'price' | 's' | 'SQL_SCALAR_FUNCTION'\n'twice' | 'dbo' | 'SQL_SCALAR_FUNCTION'",
    ),
    (
        "SELECT parameter_id, name, TYPE_NAME(system_type_id), max_length, is_output FROM \
         sys.parameters WHERE object_id = OBJECT_ID('s.price') ORDER BY parameter_id",
        "0 | '' | 'varchar' | 40 | 1\n1 | '@p' | 'decimal' | 9 | 0\n2 | '@d' | 'date' | 3 | 0",
    ),
    (
        "SELECT OBJECT_DEFINITION(OBJECT_ID('dbo.twice', 'FN')), OBJECT_ID('twice', 'IF')",
        "'CREATE FUNCTION dbo.twice (@a int) RETURNS int AS BEGIN RETURN @a * 2 END' | NULL",
    ),
    (
        "SELECT COUNT(*), MAX(CAST(is_schema_bound AS int)) FROM sys.sql_modules WHERE \
         object_id IN (OBJECT_ID('twice'), OBJECT_ID('words'))",
        "2 | 1",
    ),
    (
        "EXEC sp_helptext 'dbo.twice'",
        "'CREATE FUNCTION dbo.twice (@a int) RETURNS int AS BEGIN RETURN @a * 2 END'\nstatus 0",
    ),
    (
        "SELECT OBJECTPROPERTY(OBJECT_ID('twice'), 'IsScalarFunction'), \
         OBJECTPROPERTY(OBJECT_ID('twice'), 'IsTableFunction'), \
         OBJECTPROPERTY(OBJECT_ID('t'), 'IsScalarFunction')",
        "1 | 0 | 0",
    ),
    (
        "SELECT ROUTINE_TYPE, DATA_TYPE FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_NAME \
         = 'price'",
        "'FUNCTION' | 'varchar'",
    ),
    (
        "SELECT ORDINAL_POSITION, PARAMETER_MODE, IS_RESULT, PARAMETER_NAME, DATA_TYPE FROM \
         INFORMATION_SCHEMA.PARAMETERS WHERE SPECIFIC_NAME = 'twice' ORDER BY 1",
        "0 | 'OUT' | 'YES' | '' | 'int'\n1 | 'IN' | 'NO' | '@a' | 'int'",
    ),
    ("SELECT xtype FROM sysobjects WHERE name = 'twice'", "'FN'"),
];

#[test]
fn the_catalog_knows_scalar_functions() {
    let server = Server::new();
    let mut session = made(&server);
    good(&mut *session, LISTED);
    bad(
        &mut *session,
        &[
            ("CREATE FUNCTION twice (@a int) RETURNS int AS BEGIN RETURN 1 END", "2714/16/6"),
            ("CREATE TABLE twice (a int)", "2714/16/6"),
            ("ALTER FUNCTION twice () RETURNS TABLE AS RETURN SELECT 1 AS a", "2010/16/1"),
            ("CREATE OR ALTER FUNCTION t () RETURNS int AS BEGIN RETURN 1 END", "2010/16/1"),
            ("ALTER FUNCTION none () RETURNS int AS BEGIN RETURN 1 END", "208/16/1"),
            ("DROP FUNCTION none", "3701/11/5"),
            ("DROP PROCEDURE twice", "3701/11/5"),
        ],
    );
    // another text is in force at once, in this session's plans and in another's
    let mut other = server.session();
    let call = "SELECT dbo.twice(5)";
    assert_eq!((rows(&mut *session, call), rows(&mut *other, call)), ("10".into(), "10".into()));
    good(
        &mut *session,
        &[
            (
                "CREATE OR ALTER FUNCTION twice (@a int) RETURNS varchar(9) AS BEGIN RETURN @a END",
                "",
            ),
            (call, "'5'"),
        ],
    );
    assert_eq!(rows(&mut *other, call), "'5'");
    good(&mut *session, &[("DROP FUNCTION IF EXISTS none, twice", "")]);
    assert!(rows(&mut *other, call).starts_with("! 4121/16/1"));
    good(
        &mut *session,
        &[
            ("ALTER SCHEMA s TRANSFER dbo.today", ""),
            ("SELECT DATEDIFF(day, s.today(), GETDATE())", "0"),
        ],
    );
    healthy(&server);
}

#[test]
fn the_right_to_execute_counts() {
    let server = Server::new();
    let mut owner = made(&server);
    good(
        &mut *owner,
        &[
            ("CREATE USER ann FOR LOGIN ann; GRANT SELECT ON t TO ann", ""),
            (
                "CREATE FUNCTION inner_one (@a int) RETURNS int AS BEGIN RETURN dbo.twice(@a) END",
                "",
            ),
            ("CREATE VIEW v AS SELECT i, dbo.twice(i) AS n FROM t; ", ""),
            ("GRANT SELECT ON v TO ann", ""),
        ],
    );
    let mut ann = server.session_of("ann", "app").unwrap();
    for batch in
        ["SELECT dbo.twice(1)", "SELECT i FROM t WHERE dbo.twice(i) = 2", "SELECT dbo.inner_one(1)"]
    {
        assert!(rows(&mut *ann, batch).starts_with("! 229/14/5"), "{batch}");
    }
    // by what dbo owns
    assert_eq!(rows(&mut *ann, "SELECT n FROM v WHERE i = 2"), "4");
    good(&mut *owner, &[("GRANT EXECUTE ON inner_one TO ann", "")]);
    assert_eq!(rows(&mut *ann, "SELECT dbo.inner_one(4)"), "8");
    assert!(rows(&mut *ann, "SELECT dbo.twice(1)").starts_with("! 229/14/5"));
    let made = "CREATE FUNCTION mine () RETURNS int AS BEGIN RETURN 1 END";
    assert!(rows(&mut *ann, made).starts_with("! 262/14/1"), "{}", rows(&mut *ann, made));
    for batch in
        ["DROP FUNCTION twice", "ALTER FUNCTION twice () RETURNS int AS BEGIN RETURN 1 END"]
    {
        assert!(rows(&mut *ann, batch).starts_with("! "), "{batch}");
    }
    assert_eq!(rows(&mut *owner, "SELECT dbo.twice(1)"), "2");
}

#[test]
fn a_function_is_called_with_parameters_and_cancelled() {
    let server = Server::new();
    let mut session = made(&server);
    let mut log = Log { quiet: true, ..Log::default() };
    let five = Parameter {
        name: "@a".to_owned(),
        ty: SqlType::Int,
        value: Value::Int(5),
        output: false,
        default: false,
        table: None,
    };
    session.execute(
        "SELECT dbo.fact(@a), i FROM t WHERE dbo.twice(i) = @a - 1",
        "@a int",
        &[five],
        &mut log,
    );
    assert!(log.lines.contains(&"120 | 2".to_owned()), "{:?}", log.lines);
    good(
        &mut *session,
        &[
            (
                "CREATE FUNCTION ever (@a int) RETURNS int AS BEGIN WHILE 1 = 1 SET @a = 1; \
                 RETURN 1 END",
                "",
            ),
            (
                "CREATE FUNCTION round_and_round () RETURNS int AS BEGIN again: GOTO again; RETURN \
                 1 END",
                "",
            ),
            (
                "CREATE FUNCTION fib (@n int) RETURNS int AS BEGIN IF @n < 2 RETURN @n; RETURN \
                 dbo.fib(@n - 1) + dbo.fib(@n - 2) END",
                "",
            ),
            ("SELECT dbo.fib(10)", "55"),
        ],
    );
    for batch in [
        "SELECT dbo.ever(1)",
        "SELECT dbo.ever(i) FROM t",
        "SELECT OBJECT_NAME(dbo.ever(1))",
        "SELECT dbo.fib(31)",
        "SELECT dbo.round_and_round()",
    ] {
        let mut log = Log::default();
        let cancel = log.cancel.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            cancel.store(true, std::sync::atomic::Ordering::Release);
        });
        session.batch(batch, &mut log);
        stopper.join().unwrap();
        let told = log.lines.iter().any(|line| line.starts_with('!') || line == "1346269");
        assert!(!told, "{batch}: {:?}", log.lines);
    }
    assert_eq!(rows(&mut *session, "SELECT dbo.twice(1)"), "2");
}

/// Deep expressions in functions that call themselves end with an error, not with the stack.
#[test]
fn the_stack_is_bounded() {
    let server = Server::new();
    let mut session = server.session();
    let deep = format!("{}dbo.f(@n - 1){}", "ABS(".repeat(20), ")".repeat(20));
    let long = format!("dbo.g(@n - 1){}", " + @n * 0".repeat(180));
    for (name, value) in [("f", &deep), ("g", &long)] {
        let made = format!(
            "CREATE FUNCTION {name} (@n int) RETURNS int AS BEGIN IF @n = 0 RETURN 0; RETURN 1 + \
             {value} END"
        );
        good(&mut *session, &[(&made, "")]);
    }
    good(&mut *session, &[("SELECT dbo.f(5), dbo.g(1)", "5 | 1")]);
    bad(&mut *session, &[("SELECT dbo.f(31)", "217/16/1"), ("SELECT dbo.g(31)", "217/16/1")]);
    let around = format!("SELECT {}dbo.g(31){}", "ABS(".repeat(25), ")".repeat(25));
    bad(&mut *session, &[(&around, "217/16/1")]);
    // each of these binds the next one within
    for at in 1..=30 {
        let next = if at == 1 { "1".to_owned() } else { format!("dbo.h{}(@n)", at - 1) };
        let text = format!(
            "CREATE FUNCTION h{at} (@n int) RETURNS int AS BEGIN RETURN {next}{} END",
            " + @n".repeat(150)
        );
        let found = rows(&mut *session, &text);
        assert!(found.is_empty() || found.starts_with("! 217/16/1"), "{at}: {found}");
        if !found.is_empty() {
            assert!(at > 2, "{at}");
            break;
        }
        assert!(at < 30);
    }
    let among = format!("SELECT dbo.g(a){} FROM (VALUES (31)) AS t (a)", " + a * 0".repeat(150));
    bad(&mut *session, &[(&among, "217/16/1")]);
}

#[test]
fn nestlevel_counts_functions() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE FUNCTION n (@d int) RETURNS int AS BEGIN IF @d > 1 RETURN dbo.n(@d - 1); \
                 RETURN @@NESTLEVEL END",
                "",
            ),
            ("CREATE PROCEDURE p AS SELECT dbo.n(1), dbo.n(3), @@NESTLEVEL", ""),
            ("SELECT dbo.n(1), dbo.n(3), @@NESTLEVEL", "1 | 3 | 0"),
            ("SELECT dbo.n(d) FROM (VALUES (1), (2)) AS v (d)", "1\n2"),
            ("EXEC p", "2 | 4 | 1\nstatus 0"),
        ],
    );
}
