//! Documented behaviour of SQL Server that a naive translation to SQLite gets wrong: scopes of
//! identity values, table variables and temporary tables, and the binding of names and joins.

use crate::common::{Log, Server, check, rows};
use tdekit_wire_tds::{Length, Parameter, SqlType, Value};

#[test]
fn identity_values_of_identity_insert() {
    check(&[
        (
            "CREATE TABLE a1 (id int IDENTITY PRIMARY KEY, x int); INSERT a1 VALUES (1), (2), (3); \
             SET IDENTITY_INSERT a1 ON; INSERT a1 (id, x) VALUES (-7, 4); \
             SELECT SCOPE_IDENTITY(), @@IDENTITY, IDENT_CURRENT('a1'); \
             INSERT a1 (id, x) VALUES (20, 4), (10, 5); SET IDENTITY_INSERT a1 OFF; \
             SELECT SCOPE_IDENTITY(), IDENT_CURRENT('a1'); INSERT a1 VALUES (6); \
             SELECT SCOPE_IDENTITY()",
            "-7 | -7 | 3\n10 | 20\n21",
        ),
        (
            "CREATE TABLE a2 (id int IDENTITY(-1, -1), x int); INSERT a2 VALUES (1); \
             SET IDENTITY_INSERT a2 ON; INSERT a2 (id, x) VALUES (5, 1); \
             INSERT a2 (id, x) VALUES (-9, 1); SET IDENTITY_INSERT a2 OFF; INSERT a2 VALUES (1); \
             SELECT SCOPE_IDENTITY()",
            "-10",
        ),
    ]);
}

#[test]
fn identity_values_stay_in_their_scope() {
    check(&[
        (
            "CREATE TABLE b1 (id int IDENTITY(100, 1), x int); CREATE TABLE b2 (id int IDENTITY, x \
             int); INSERT b2 VALUES (1); EXEC ('INSERT b1 VALUES (1); SELECT SCOPE_IDENTITY()'); \
             SELECT SCOPE_IDENTITY(), @@IDENTITY",
            "100\n1 | 100",
        ),
        (
            "CREATE TABLE b3 (id int IDENTITY(7, 1), x int); EXEC sp_executesql N'INSERT b3 VALUES \
             (1)'; SELECT SCOPE_IDENTITY(), @@IDENTITY",
            "status 0\nNULL | 7",
        ),
    ]);
}

#[test]
fn table_variables_outlive_a_rollback() {
    check(&[
        (
            "DECLARE @t TABLE (a int, b varchar(9)); INSERT @t VALUES (1, 'before'); BEGIN TRAN; \
             INSERT @t VALUES (2, 'in'); UPDATE @t SET b = 'changed' WHERE a = 1; ROLLBACK; SELECT \
             * FROM @t",
            "~ begin\n~ rollback\n1 | 'changed'\n2 | 'in'",
        ),
        // one that the transaction created, with its keys and identity values
        (
            "BEGIN TRAN; DECLARE @t TABLE (id int IDENTITY, a int UNIQUE, b int DEFAULT 7); INSERT \
             @t (a) VALUES (1), (NULL); ROLLBACK; INSERT @t (a) VALUES (5); SELECT * FROM @t; \
             BEGIN TRY; INSERT @t (a) VALUES (NULL); END TRY BEGIN CATCH; SELECT ERROR_NUMBER(); \
             END \
             CATCH",
            "~ begin\n~ rollback\n1 | 1 | 7\n2 | NULL | 7\n3 | 5 | 7\n2627",
        ),
        (
            "DECLARE @t TABLE (a int); BEGIN TRAN; INSERT @t VALUES (1); SAVE TRAN s; INSERT @t \
             VALUES (2); ROLLBACK TRAN s; SELECT COUNT(*) FROM @t; COMMIT",
            "~ begin\n2\n~ commit",
        ),
        // an error that undoes the transaction, as logs are kept in one
        (
            "DECLARE @t TABLE (a int); SET XACT_ABORT ON; BEGIN TRY; BEGIN TRAN; INSERT @t VALUES \
             (1); SELECT 1 / 0; END TRY BEGIN CATCH; ROLLBACK; END CATCH; SELECT * FROM @t",
            "~ begin\n~ rollback\n1",
        ),
        // but a statement is undone as a whole
        (
            "DECLARE @t TABLE (a int PRIMARY KEY); INSERT @t VALUES (1); BEGIN TRY; INSERT @t \
             VALUES (2), (1); END TRY BEGIN CATCH; END CATCH; SELECT * FROM @t",
            "1",
        ),
        // a loop reaches its DECLARE again
        (
            "DECLARE @i int = 0; WHILE @i < 3 BEGIN DECLARE @t TABLE (a int); INSERT @t VALUES \
             (@i); SET @i += 1 END; SELECT COUNT(*) FROM @t",
            "3",
        ),
        // a temporary table does not
        (
            "CREATE TABLE #t (a int); BEGIN TRAN; INSERT #t VALUES (1); ROLLBACK; SELECT COUNT(*) \
             FROM #t",
            "~ begin\n~ rollback\n0",
        ),
    ]);
}

#[test]
fn temporary_tables_are_of_their_scope() {
    let server = Server::new();
    let mut session = server.session();
    let inner = "CREATE PROCEDURE inner_p AS CREATE TABLE #t (b varchar(9)); INSERT #t VALUES \
        ('inner'); SELECT b FROM #t";
    let outer = "CREATE PROCEDURE outer_p AS CREATE TABLE #t (a int); INSERT #t VALUES (1); EXEC \
        inner_p; SELECT a FROM #t; DECLARE @v TABLE (a int); INSERT @v VALUES (3); SELECT a FROM \
        @v";
    let deep = "CREATE PROCEDURE deep @n int AS DECLARE @v TABLE (a int); CREATE TABLE #d (a int); \
        INSERT @v VALUES (@n); INSERT #d VALUES (@n); IF @n > 0 BEGIN DECLARE @m int = @n - 1; \
        EXEC \
        deep @m END; SELECT (SELECT COUNT(*) FROM @v), a FROM #d";
    for text in [inner, outer, deep] {
        assert_eq!(rows(&mut *session, text), "");
    }
    let both = "'inner'\nstatus 0\n1\n3\nstatus 0";
    assert_eq!(rows(&mut *session, "EXEC outer_p"), both.replacen("status 0\n", "", 1));
    let under = "CREATE TABLE #t (c int); INSERT #t VALUES (9); EXEC outer_p; SELECT c FROM #t";
    assert!(rows(&mut *session, under).ends_with("status 0\n9"));
    assert_eq!(rows(&mut *session, "SELECT c FROM #t"), "9");
    assert!(rows(&mut *session, "CREATE TABLE #T (x int)").starts_with("! 2714/"));
    assert_eq!(rows(&mut *session, "EXEC deep 2"), "1 | 0\n1 | 1\n1 | 2\nstatus 0");
    // whatever a text creates ends with it, by CREATE TABLE or by SELECT INTO
    for made in ["CREATE TABLE #e (a int)", "SELECT 1 AS a INTO #e"] {
        let batch = format!("EXEC ('{made}'); SELECT * FROM #e");
        assert!(rows(&mut *session, &batch).starts_with("! 208/16/1"), "{made}");
    }
    let back = "CREATE TABLE #r (a int); INSERT #r VALUES (4); BEGIN TRAN; DROP TABLE #r; CREATE \
        TABLE #r (b int, c int); ROLLBACK; SELECT * FROM #r; DROP TABLE #r; SELECT * FROM #r";
    let back = rows(&mut *session, back);
    assert!(back.starts_with("~ begin\n~ rollback\n4\n! 208/16/1"), "{back}");
}

#[test]
fn select_into_of_a_set() {
    check(&[
        ("SELECT 1 AS a INTO #s UNION SELECT 2 UNION ALL SELECT 2; SELECT * FROM #s", "1\n2\n2"),
        (
            "SELECT 1 AS a INTO #s UNION ALL SELECT 2 INTERSECT SELECT 2; SELECT COUNT(*) FROM #s",
            "2",
        ),
        ("SELECT 1 AS a UNION SELECT 2 INTO #s", "! 196/15/1"),
        ("SELECT * FROM (SELECT 1 AS a INTO #s) AS x", "! 196/15/1"),
        ("CREATE TABLE #r (a int); INSERT #r SELECT 1 AS a INTO #s", "! 196/15/1"),
        // an error leaves no table and no transaction
        (
            "BEGIN TRY; SELECT 1 / (a - 2) AS x INTO s3 FROM (VALUES (1), (2)) AS v (a); END TRY \
             BEGIN CATCH; SELECT ERROR_NUMBER(), @@TRANCOUNT, OBJECT_ID('s3'); END CATCH",
            "8134 | 0 | NULL",
        ),
    ]);
}

#[test]
fn text_functions_take_any_length() {
    check(&[
        ("SELECT REPLICATE(CAST('x' AS varchar(max)), 5)", "'xxxxx'"),
        ("SELECT LEN(REPLICATE(CAST(N'ab' AS nvarchar(max)), 10000))", "20000"),
        ("SELECT LEN(REPLICATE('ab', 10000)), LEN(REPLICATE('', 3))", "8000 | 0"),
        ("SELECT STUFF('abcdef', 2, 2147483647, 'X'), LEFT('abc', 2147483647)", "'aX' | 'abc'"),
        ("SELECT SUBSTRING('abc', -2147483648, 2147483647)", "''"),
        ("SELECT SUBSTRING('abc', 2, 2147483647), RIGHT('abc', 2147483647)", "'bc' | 'abc'"),
        ("SELECT STUFF(N'äbc', 2147483647, 1, 'X'), CHARINDEX('b', 'abc', 2147483647)", "NULL | 0"),
        ("SELECT DATALENGTH(SPACE(2147483647))", "8000"),
    ]);
}

#[test]
fn a_comma_binds_less_than_join() {
    let tables = "CREATE TABLE #a (x int); CREATE TABLE #b (x int); CREATE TABLE #c (x int); \
        INSERT #a VALUES (1), (2); INSERT #b VALUES (1); INSERT #c VALUES (1), (7); ";
    let batch = |query: &str| format!("{tables}{query}");
    let right = batch(
        "SELECT a.x, b.x, c.x FROM #a AS a, #b AS b RIGHT JOIN #c AS c ON c.x = b.x ORDER BY 1, 3",
    );
    let full = batch(
        "SELECT a.x, b.x, c.x FROM #a AS a, #b AS b FULL JOIN #c AS c ON c.x = b.x ORDER BY 1, 3",
    );
    let unseen = batch("SELECT 1 FROM #a AS a, #b AS b JOIN #c AS c ON c.x = a.x");
    let inner = batch("SELECT 1 FROM #a AS a JOIN (#b AS b JOIN #c AS c ON c.x = a.x) ON 1 = 1");
    let seen = batch(
        "SELECT COUNT(*) FROM #a AS a, #b AS b JOIN #c AS c ON c.x = b.x AND EXISTS (SELECT 1 FROM \
         #a AS a WHERE a.x = c.x) WHERE a.x = c.x",
    );
    let four = "1 | 1 | 1\n1 | NULL | 7\n2 | 1 | 1\n2 | NULL | 7";
    check(&[
        (&right, four),
        (&full, four),
        (&unseen, "! 4104/"),
        (&inner, "! 4104/"),
        (&seen, "1"),
    ]);
}

#[test]
fn datetime_becomes_a_finer_type_by_its_thirds() {
    check(&[
        (
            "DECLARE @d datetime = '2024-02-29 12:34:56.123'; SELECT CONVERT(varchar(30), \
            CAST(@d AS \
             datetime2)), CONVERT(varchar(30), CAST(@d AS time)), CONVERT(varchar(40), CAST(@d AS \
             datetimeoffset)), CONVERT(varchar(30), CAST(@d AS datetime2(3))), \
             CONVERT(varchar(30), \
             @d, 121)",
            "'2024-02-29 12:34:56.1233333' | '12:34:56.1233333' | '2024-02-29 12:34:56.1233333 \
             +00:00' | '2024-02-29 12:34:56.123' | '2024-02-29 12:34:56.123'",
        ),
        (
            "DECLARE @d datetime = '2024-02-29 00:00:00.997', @e datetime = '2024-02-29 \
             00:00:00.007'; SELECT CONVERT(varchar(30), CAST(@d AS datetime2)), \
             CONVERT(varchar(30), \
             CAST(@e AS datetime2)), CAST(CAST(@e AS datetime2) AS datetime)",
            "'2024-02-29 00:00:00.9966667' | '2024-02-29 00:00:00.0066667' | DateTime { days: \
             45349, ticks: 2 }",
        ),
    ]);
}

#[test]
fn defaults_that_cannot_work_are_refused_where_they_are_made() {
    check(&[
        ("CREATE TABLE d1 (a int DEFAULT nosuch())", "! 195/15/10"),
        ("CREATE TABLE d1 (a int, b int DEFAULT a)", "! 128/15/1"),
        ("CREATE TABLE d1 (a int DEFAULT @v)", "! 137/15/2"),
        ("CREATE TABLE d1 (a int DEFAULT CHARINDEX('a'))", "! 174/15/1"),
        ("CREATE TABLE d1 (a int DEFAULT NEWSEQUENTIALID())", "! 302/16/0"),
        ("CREATE TABLE d1 (a varchar(99) DEFAULT 'x' + NEWSEQUENTIALID())", "! 302/16/0"),
        ("SELECT NEWSEQUENTIALID()", "! 302/16/0"),
        ("CREATE TABLE d1 (a int); ALTER TABLE d1 ADD b int DEFAULT nosuch()", "! 195/15/10"),
        ("ALTER TABLE d1 ADD CONSTRAINT df DEFAULT nosuch() FOR a", "! 195/15/10"),
        ("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('d1')", "'a'"),
        // a value that does not convert is reported to the session that inserts a row
        ("CREATE TABLE d2 (a int, b int DEFAULT 'x'); INSERT d2 (a) VALUES (1)", "! 245/16/1"),
        (
            "CREATE TABLE d3 (g uniqueidentifier DEFAULT NEWSEQUENTIALID(), a int IDENTITY); \
            DECLARE \
             @i int = 0; WHILE @i < 300 BEGIN INSERT d3 DEFAULT VALUES; SET @i += 1 END; SELECT \
             COUNT(*), COUNT(DISTINCT g) FROM d3; SELECT COUNT(*) FROM d3 AS x JOIN d3 AS y ON \
             y.a = \
             x.a + 1 WHERE y.g > x.g",
            "300 | 300\n299",
        ),
    ]);
}

#[test]
fn a_primary_key_takes_no_nullable_column() {
    check(&[
        ("CREATE TABLE k1 (a int NULL PRIMARY KEY)", "! 8111/16/1"),
        ("CREATE TABLE k1 (a int, b int NULL, PRIMARY KEY (a, b))", "! 8111/16/1"),
        ("CREATE TABLE k1 (a int NULL); ALTER TABLE k1 ADD PRIMARY KEY (a)", "! 8111/16/1"),
        ("CREATE TABLE k2 (a int PRIMARY KEY); INSERT k2 VALUES (NULL)", "! 515/16/2"),
    ]);
}

#[test]
fn names_match_however_they_are_written() {
    let table = "CREATE TABLE #g (d date, Name varchar(9)); INSERT #g VALUES ('2023-01-01', 'a'), \
        ('2024-01-01', 'b'), ('2024-05-05', 'B'); ";
    for (query, expected) in [
        (
            "SELECT year(D), COUNT(*) FROM #g GROUP BY YEAR(d) ORDER BY Year(d)",
            "2023 | 1\n2024 | 2",
        ),
        (
            "SELECT YEAR(x.d), COUNT(*) FROM #g AS x GROUP BY YEAR(d) ORDER BY 1",
            "2023 | 1\n2024 | 2",
        ),
        ("SELECT Datepart(YEAR, d) FROM #g GROUP BY DATEPART(year, D) ORDER BY 1", "2023\n2024"),
        (
            "SELECT CASE WHEN NAME = 'b' THEN 1 END FROM #g GROUP BY CASE WHEN name = 'b' THEN 1 \
             END HAVING case when Name = 'b' then 1 end = 1",
            "1",
        ),
        ("SELECT DISTINCT YEAR(d) FROM #g ORDER BY year(D)", "2023\n2024"),
        ("SELECT DISTINCT g.Name FROM #g AS g ORDER BY G.NAME", "'a'\n'b'"),
        // letters within quotes count
        ("SELECT Name + 'x' FROM #g GROUP BY Name + 'X'", "! 8120/"),
        ("SELECT YEAR(d) FROM #g GROUP BY MONTH(d)", "! 8120/"),
        // a column is not its conversion, even if both are stored alike
        ("SELECT Name FROM #g GROUP BY CAST(Name AS varchar(20))", "! 8120/"),
    ] {
        check(&[(&format!("{table}{query}"), expected)]);
    }
}

#[test]
fn what_a_statement_uses_twice_has_one_value() {
    check(&[
        (
            "CREATE TABLE #r (n int, r float DEFAULT RAND()); INSERT #r (n) VALUES (1), (2), (3); \
             SELECT COUNT(DISTINCT r) FROM #r",
            "1",
        ),
        ("SELECT COUNT(*) FROM (SELECT NULLIF((SELECT RAND()), 2) AS r) AS x WHERE r < 1", "1"),
        (
            "SELECT AVG(n * 1.5), AVG(n + 0.5) OVER (ORDER BY (SELECT 1)) FROM (VALUES (1)) v(n) \
             GROUP BY n",
            "1.500000 | 1.500000",
        ),
        (
            "SELECT n + 1, COUNT(*) FROM (VALUES (1), (1), (2)) v(n) GROUP BY n + 1 HAVING n + 1 \
             > 2",
            "3 | 1",
        ),
    ]);
}

#[test]
fn outputs_come_in_the_types_of_the_client() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE PROCEDURE o @a bigint OUTPUT, @s nvarchar(50) OUTPUT AS SET @a = 7; SET \
        @s = \
        N'longer than it'";
    assert_eq!(rows(&mut *session, made), "");
    let given = |name: &str, ty: SqlType, value: Value<'static>| Parameter {
        name: name.to_owned(),
        ty,
        value,
        output: true,
        default: false,
        table: None,
    };
    let parameters = [
        given("@s", SqlType::VarChar(Length::Of(6)), Value::Null),
        given("@a", SqlType::Int, Value::Int(1)),
    ];
    let mut log = Log::default();
    session.procedure("o", &parameters, &mut log);
    let out = ["status 0", "out 0 @s VarChar(Of(6)) = 'longer'", "out 1 @a Int = 7"];
    assert_eq!(log.lines, out);
}

/// Cases that one search of a text found and another missed: each statement here was bound
/// differently from SQL Server.
#[test]
fn searches_see_every_part_of_a_statement() {
    check(&[
        // an aggregate within OVER, and in ORDER BY
        (
            "CREATE TABLE w1 (a int); INSERT w1 VALUES (1), (2); SELECT a, ROW_NUMBER() OVER \
             (ORDER BY COUNT(*)) FROM w1",
            "! 8120/16/1",
        ),
        ("SELECT ROW_NUMBER() OVER (ORDER BY COUNT(*)) FROM w1", "1"),
        ("SELECT a FROM w1 ORDER BY COUNT(*)", "! 8120/16/1"),
        ("SELECT a FROM w1 GROUP BY a ORDER BY COUNT(*), a", "1\n2"),
        // in the style of CONVERT, and in ESCAPE
        ("SELECT a, CONVERT(varchar(9), GETDATE(), MAX(112)) FROM w1", "! 8120/16/1"),
        (
            "SELECT a, CASE WHEN 'x' LIKE 'x' ESCAPE MAX('!') THEN 1 ELSE 0 END FROM w1",
            "! 8120/16/1",
        ),
        // a recursive reference in a subquery
        (
            "WITH c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < (SELECT MAX(n) FROM \
             c)) SELECT n FROM c",
            "! 465/16/1",
        ),
        (
            "WITH c AS (SELECT 1 AS n UNION ALL SELECT a FROM w1 WHERE EXISTS (SELECT 1 FROM c)) \
             SELECT n FROM c",
            "! 465/16/1",
        ),
        // a window function outside of a SELECT, with a subquery in it
        ("DECLARE @x int = ROW_NUMBER() OVER (ORDER BY (SELECT 1))", "! 4108/15/1"),
    ]);
}

#[test]
fn a_transactions_name_ends_with_it() {
    check(&[(
        "BEGIN TRAN outermost; COMMIT; BEGIN TRAN; ROLLBACK TRAN outermost; SELECT @@TRANCOUNT; \
         ROLLBACK",
        "~ begin\n~ commit\n~ begin\n! 6401/16/1 line 1: Cannot roll back outermost. No \
         transaction or savepoint of that name was found.\n1\n~ rollback",
    )]);
}

#[test]
fn characters_are_trimmed() {
    check(&[
        ("SELECT TRIM('xy' FROM 'yxabxcyx'), TRIM(BOTH 'x' FROM 'xax')", "'abxc' | 'a'"),
        ("SELECT TRIM(LEADING '.' FROM '..a.'), TRIM(trailing '.' FROM '.a..')", "'a.' | '.a'"),
        (
            "SELECT LTRIM('00100', '0'), RTRIM(N'a!?', N'?!'), LTRIM(' a ', ''), TRIM('  a ')",
            "'100' | 'a' | ' a ' | 'a'",
        ),
        // as the collation of the text compares
        (
            "SELECT TRIM('A' FROM 'aBa'), TRIM('A' FROM 'aBA' COLLATE Latin1_General_BIN2)",
            "'B' | 'aB'",
        ),
        (
            "SELECT TRIM(NULL FROM 'a'), LTRIM(CAST(NULL AS varchar(3)), 'a'), RTRIM(12, 2)",
            "NULL | NULL | '1'",
        ),
        (
            "SELECT TRIM(x FROM s), TRIM(leading) FROM (VALUES ('-', '-a-', ' b ')) t (x, s, \
             leading)",
            "'a' | 'b'",
        ),
        ("SELECT TRIM((SELECT 'x') FROM 'xa') + TRIM(LEADING (SELECT 'y') FROM 'ya')", "'aa'"),
        ("SELECT TRIM('a', 'b')", "! 102/15/1"),
        ("SELECT TRIM(LEADING 'a')", "! 102/15/1"),
        ("SELECT TRIM()", "! 174/15/1"),
        ("SELECT LTRIM('a', 'b', 'c')", "! 174/15/1"),
        ("SELECT LTRIM('a', CAST('b' AS varchar(max)))", "! 8116/16/1"),
    ]);
}
