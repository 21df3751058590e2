//! The flow of control in functions of a database: GOTO, and the places of errors.

use crate::common::{Server, rows};
use crate::constraints::{bad, good};

#[test]
fn goto_leads_anywhere_in_a_function() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE FUNCTION up_to (@n int) RETURNS int AS BEGIN DECLARE @s int = 0, @i int = \
                 0; again: IF @i >= @n GOTO done; SET @i += 1; IF @i % 2 = 0 GOTO again; SET @s += \
                 @i; GOTO AGAIN; done: RETURN @s END",
                "",
            ),
            ("SELECT dbo.up_to(n) FROM (VALUES (0), (1), (5), (6)) AS t (n)", "0\n1\n9\n9"),
            // out of loops, and into them and into branches
            (
                "CREATE FUNCTION found (@n int) RETURNS int AS BEGIN DECLARE @i int = 0, @j int; \
                 WHILE 1 = 1 BEGIN SET @j = 0; WHILE 1 = 1 BEGIN IF @i * @j >= @n GOTO out; SET @j \
                 += 1; IF @j > 3 BREAK END SET @i += 1 END out: RETURN @i * 10 + @j END",
                "",
            ),
            ("SELECT dbo.found(7)", "33"),
            (
                "CREATE FUNCTION into_it (@n int) RETURNS int AS BEGIN DECLARE @s int = 100; GOTO \
                 inner_; WHILE @n > 0 BEGIN SET @s += 10; inner_: SET @s += 1; SET @n -= 1 END IF \
                 @n = 99 RETURN -1 ELSE BEGIN IF @s > 1000 RETURN -2; GOTO other END IF 1 = 0 \
                 BEGIN SET @s = 0; other: SET @s = -@s END RETURN @s END",
                "",
            ),
            ("SELECT dbo.into_it(1), dbo.into_it(3)", "-101 | -123"),
            (
                "CREATE FUNCTION fill (@n int) RETURNS @t TABLE (a int) AS BEGIN next_one: IF @n = \
                 0 RETURN; INSERT @t VALUES (@n); SET @n -= 1; GOTO next_one; RETURN END",
                "",
            ),
            ("SELECT COUNT(*), SUM(a) FROM fill(4)", "4 | 10"),
        ],
    );
    let with =
        |body: &str| format!("CREATE FUNCTION f () RETURNS int AS BEGIN {body} RETURN 1 END");
    bad(
        &mut *session,
        &[
            (&with("GOTO nowhere;"), "133/15/1"),
            (&with("a: SET @x = 1; a: SET @x = 2;"), "132/15/1"),
        ],
    );
}

#[test]
fn an_error_in_a_function_has_its_name_and_its_line() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (i int); INSERT t VALUES (0)");
    let made = "CREATE FUNCTION dbo.share (@a int, @b int) RETURNS int AS
        BEGIN
            DECLARE @n int = 1
            IF @b < 0
                SET @n = CAST('many' AS int)
            WHILE @n < 3
                SET @n += 1
            RETURN @a / @b
        END";
    let outer = "CREATE FUNCTION dbo.outer_share (@b int) RETURNS int AS
        BEGIN

            IF dbo.share(1, @b) > 5 RETURN 2147483647 + @b
            RETURN 1
        END";
    let reads = "CREATE FUNCTION dbo.reads () RETURNS int AS
        BEGIN
            DECLARE @n int

            SELECT @n = 1 / i FROM t
            RETURN @n
        END";
    let fills = "CREATE FUNCTION dbo.fills (@b int) RETURNS @t TABLE (a int CHECK (a > 0)) AS
        BEGIN
            INSERT @t VALUES (1)
            INSERT @t VALUES (@b)
            RETURN
        END";
    for text in [made, outer, reads, fills] {
        assert_eq!(rows(&mut *session, text), "", "{text}");
    }
    let facts = "SELECT ERROR_NUMBER(), ERROR_PROCEDURE(), ERROR_LINE()";
    for (query, expected) in [
        ("SELECT dbo.share(6, 0)", "8134 | 'share' | 8"),
        ("SELECT dbo.share(6, b) FROM (VALUES (1), (0)) AS v (b) ORDER BY b", "8134 | 'share' | 8"),
        ("DECLARE @x int; SET @x = dbo.share(6, -1)", "245 | 'share' | 5"),
        ("SELECT dbo.outer_share(0)", "8134 | 'share' | 8"),
        ("SELECT 1 / dbo.share(0, 1)", "8134 | NULL | 2"),
        ("SELECT dbo.reads()", "8134 | 'reads' | 5"),
        ("SELECT * FROM dbo.fills(0)", "547 | 'fills' | 4"),
    ] {
        let batch = format!("BEGIN TRY\n{query}\nEND TRY BEGIN CATCH {facts} END CATCH");
        let found = rows(&mut *session, &batch);
        assert_eq!(found.lines().last(), Some(expected), "{query}: {found}");
    }
    rows(&mut *session, "CREATE PROCEDURE p AS SELECT dbo.share(1, 0)");
    let found = rows(&mut *session, "EXEC p");
    assert!(found.starts_with("! 8134/16/1 line 8"), "{found}");
    let again = "CREATE FUNCTION g (@a int) RETURNS int AS BEGIN\nRETURN dbo.g(@a) END";
    assert_eq!(rows(&mut *session, again), "");
    let found = rows(&mut *session, "SELECT dbo.g(1)");
    assert!(found.starts_with("! 217/16/1 line 2"), "{found}");
}

#[test]
fn a_function_has_local_cursors() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (i int PRIMARY KEY, s varchar(5)); INSERT t VALUES (1, 'a')", ""),
            ("INSERT t VALUES (2, 'b'), (3, NULL), (4, 'd')", ""),
            (
                "CREATE FUNCTION listed (@from int) RETURNS varchar(100) AS BEGIN DECLARE @all \
                 varchar(100) = '', @i smallint, @s nvarchar(5); DECLARE c CURSOR LOCAL \
                 FAST_FORWARD FOR SELECT i, s FROM t WHERE i >= @from ORDER BY i; SET @from = 99; \
                 OPEN c; FETCH NEXT FROM c INTO @i, @s; WHILE @@FETCH_STATUS = 0 BEGIN SET @all += \
                 CONCAT(@i, ISNULL(@s, '-'), ' '); FETCH NEXT FROM C INTO @i, @s END CLOSE c; \
                 DEALLOCATE c; RETURN @all END",
                "",
            ),
            (
                "SELECT dbo.listed(n) FROM (VALUES (3), (9), (1)) AS v (n)",
                "'3- 4d '\n''\n'1a 2b 3- 4d '",
            ),
            (
                "CREATE FUNCTION spring (@n bigint) RETURNS @r TABLE (at int, status int, rows_ \
                 int) AS BEGIN DECLARE @i int; DECLARE c SCROLL CURSOR FOR SELECT i FROM t ORDER \
                 BY i; OPEN c; FETCH LAST FROM c INTO @i; INSERT @r SELECT @i, @@FETCH_STATUS, \
                 @@ROWCOUNT; FETCH RELATIVE -2 FROM c INTO @i; INSERT @r VALUES (@i, \
                 @@FETCH_STATUS, 0); FETCH ABSOLUTE @n FROM c INTO @i; INSERT @r VALUES (@i, \
                 @@FETCH_STATUS, 1); CLOSE c; OPEN c; FETCH c INTO @i; INSERT @r VALUES (@i, \
                 @@FETCH_STATUS, 2); RETURN END",
                "",
            ),
            ("SELECT * FROM spring(9)", "4 | 0 | 1\n2 | 0 | 0\n2 | -1 | 1\n1 | 0 | 2"),
            // each call has its own, and those of the session are others
            (
                "DECLARE c CURSOR FOR SELECT 7; OPEN c; FETCH c; SELECT dbo.listed(4), \
                 @@FETCH_STATUS; CLOSE c; DEALLOCATE c",
                "7\n'4d ' | 0",
            ),
            // it is open at the end
            (
                "CREATE FUNCTION first_of () RETURNS int AS BEGIN DECLARE @i int; DECLARE c CURSOR \
                 FOR SELECT i FROM t ORDER BY i DESC; OPEN c; FETCH c INTO @i; RETURN @i END",
                "",
            ),
            ("SELECT dbo.first_of(), dbo.first_of()", "4 | 4"),
            (
                "CREATE FUNCTION wrong (@n int) RETURNS int AS BEGIN\nDECLARE @i int; IF @n > 1 \
                 DECLARE c CURSOR FOR SELECT i FROM t;\nIF @n > 2 OPEN c;\nIF @n > 3 OPEN c;\nIF \
                 @n = 3 FETCH PRIOR FROM c INTO @i;\nFETCH c INTO @i;\nRETURN @i END",
                "",
            ),
        ],
    );
    for (n, expected) in [
        (1, "! 16916/16/1 line 6: A cursor with the name 'c' does not exist."),
        (2, "! 16917/16/1 line 6: Cursor is not open."),
        (3, "! 16911/16/1 line 5"),
        (4, "! 16905/16/1 line 4: The cursor is already open."),
    ] {
        let found = rows(&mut *session, &format!("SELECT dbo.wrong({n})"));
        assert!(found.starts_with(expected), "{n}: {found}");
    }
    let with = |body: &str| {
        format!("CREATE FUNCTION f () RETURNS int AS BEGIN DECLARE @i int; {body} RETURN 1 END")
    };
    let c = "DECLARE c CURSOR FOR SELECT i FROM t;";
    bad(
        &mut *session,
        &[
            (&with("OPEN c;"), "16916/16/1"),
            (&with(&format!("{c} FETCH c;")), "444/16/2"),
            (&with(&format!("{c} FETCH c INTO @i, @i;")), "16924/16/1"),
            (&with("DECLARE c CURSOR FOR SELECT NEWID();"), "443/16/1"),
            (&with("DECLARE c CURSOR FOR SELECT i FROM none;"), "208/16/1"),
            (&with(&format!("{c} OPEN GLOBAL c;")), "16916/16/1"),
            (&with(&format!("{c} DECLARE c CURSOR FOR SELECT 'x';")), "40512/16/1"),
            (&with("DECLARE @c CURSOR;"), "40512/16/1"),
        ],
    );
}
