//! Cursors.

use crate::common::{Server, check, rows};
use crate::permissions::{all, server, story};

const TABLE: &str = "CREATE TABLE #t (i int PRIMARY KEY, s varchar(10) NULL); INSERT #t VALUES (1, \
    'a'), (2, NULL), (3, 'c');";

/// Batches behind the table of three rows, and their results.
fn over_rows(cases: &[(&str, &str)]) {
    let cases: Vec<(String, &str)> =
        cases.iter().map(|(text, expected)| (format!("{TABLE} {text}"), *expected)).collect();
    let cases: Vec<(&str, &str)> =
        cases.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    check(&cases);
}

#[test]
fn the_usual_loop_gives_each_row_in_the_order_of_the_query() {
    over_rows(&[
        (
            "DECLARE @i int, @s varchar(10), @all varchar(100) = ''; DECLARE c CURSOR LOCAL \
             FAST_FORWARD FOR SELECT i, s FROM #t ORDER BY i DESC; OPEN c; FETCH NEXT FROM c INTO \
             @i, @s; WHILE @@FETCH_STATUS = 0 BEGIN SET @all += CONCAT(@i, ISNULL(@s, '-'), ' '); \
             FETCH NEXT FROM c INTO @i, @s; END; CLOSE c; DEALLOCATE c; SELECT @all, @i",
            "'3c 2- 1a ' | 1",
        ),
        // rows of OPEN stay, whatever changes behind it
        (
            "DECLARE @n int = 0; DECLARE c CURSOR STATIC FOR SELECT i FROM #t; OPEN c; DELETE #t; \
             FETCH c; WHILE @@FETCH_STATUS = 0 BEGIN SET @n += 1; FETCH c; END; SELECT @n, \
             @@CURSOR_ROWS; DEALLOCATE c; SELECT @@CURSOR_ROWS",
            "1\n2\n3\n3 | 3\n0",
        ),
        // variables have the values of DECLARE
        (
            "DECLARE @v int = 2; DECLARE c CURSOR LOCAL FOR SELECT i + @v FROM #t WHERE i >= @v \
             AND EXISTS (SELECT @v WHERE @v = 2); SET @v = 100; OPEN c; FETCH c; FETCH c; FETCH c; \
             CLOSE c; UPDATE #t SET i += 10 WHERE i = 3; OPEN c; FETCH c; FETCH c",
            "4\n5\n4\n15",
        ),
        ("DECLARE c INSENSITIVE CURSOR FOR SELECT i FROM #t FOR READ ONLY; OPEN c; FETCH c", "1"),
        (
            "SET ROWCOUNT 2; DECLARE c CURSOR LOCAL FOR SELECT i FROM #t; OPEN c; SELECT \
             @@CURSOR_ROWS",
            "2",
        ),
    ]);
}

#[test]
fn fetch_goes_where_it_is_sent() {
    let go = "DECLARE c SCROLL CURSOR FOR SELECT i FROM #t ORDER BY i; OPEN c;";
    let step = |fetch: &str| format!("{fetch}; SELECT @@FETCH_STATUS, @@ROWCOUNT;");
    for (fetches, expected) in [
        (vec!["FETCH LAST FROM c", "FETCH NEXT FROM c", "FETCH PRIOR FROM c"], "3 . 3"),
        (vec!["FETCH PRIOR FROM c", "FETCH NEXT FROM c"], ". 1"),
        (
            vec!["FETCH ABSOLUTE 2 FROM c", "FETCH RELATIVE -1 FROM c", "FETCH FIRST FROM c"],
            "2 1 1",
        ),
        (vec!["FETCH ABSOLUTE -1 FROM c", "FETCH ABSOLUTE -3 FROM c"], "3 1"),
        (vec!["FETCH ABSOLUTE 0 FROM c", "FETCH RELATIVE 0 FROM c", "FETCH FROM c"], ". . 1"),
        (vec!["FETCH ABSOLUTE 9223372036854775807 FROM c", "FETCH PRIOR FROM c"], ". 3"),
        (vec!["FETCH ABSOLUTE -9 FROM c", "FETCH RELATIVE 3 FROM c"], ". 3"),
        (
            vec!["DECLARE @n bigint = 2; FETCH RELATIVE @n FROM c", "FETCH RELATIVE @n FROM c"],
            "2 .",
        ),
        (vec!["DECLARE @x int; FETCH ABSOLUTE @x FROM c", "FETCH c"], ". 1"),
    ] {
        let text: String = fetches.iter().map(|fetch| step(fetch)).collect();
        let rows_of = expected.split(' ').map(|row| match row {
            "." => "-1 | 0".to_owned(),
            row => format!("{row}\n0 | 1"),
        });
        let rows_of: Vec<String> = rows_of.collect();
        over_rows(&[(&format!("{go} {text}"), &rows_of.join("\n"))]);
    }
}

#[test]
fn fetch_without_into_has_a_result_and_with_it_keeps_variables_behind_the_last_row() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, TABLE);
    let found = crate::common::run(
        &mut *session,
        "DECLARE c CURSOR LOCAL FOR SELECT i, s AS t FROM #t WHERE i = 1; OPEN c; FETCH c; FETCH c",
    );
    let columns = "# i:Int | t:VarChar(Of(10))";
    assert_eq!(found, [columns, "1 | 'a'", "(1)", columns, "(0)"]);
    over_rows(&[
        (
            "DECLARE @a int = 5, @b nvarchar(1); DECLARE c CURSOR LOCAL FOR SELECT i, 'xyz' FROM \
             #t WHERE i = 2; OPEN c; FETCH c INTO @a, @b; SELECT @a, @b; SET @a = 7; FETCH c INTO \
             @a, @b; SELECT @a, @b, @@FETCH_STATUS",
            "2 | 'x'\n7 | 'x' | -1",
        ),
        (
            "DECLARE @d decimal(5,1), @b bit, @t datetime; DECLARE c CURSOR LOCAL FOR SELECT 1.26, \
             CAST(1 AS bit), CAST('2024-01-02' AS date); OPEN c; FETCH c INTO @d, @b, @t; SELECT \
             @d, @b, CONVERT(varchar, @t, 120)",
            "1.3 | 1 | '2024-01-02 00:00:00'",
        ),
    ]);
}

#[test]
fn wrong_uses_have_the_errors_of_sql_server() {
    let c = "DECLARE c CURSOR LOCAL FOR SELECT i FROM #t;";
    over_rows(&[
        ("OPEN c", "! 16916/16/1 line 1: A cursor with the name 'c' does not exist."),
        (
            &format!("{c} DECLARE C CURSOR LOCAL FOR SELECT 1"),
            "! 16915/16/1 line 1: A cursor with \
          the name 'C' already exists.",
        ),
        (&format!("{c} OPEN c; OPEN c"), "! 16905/16/1 line 1: The cursor is already open."),
        (&format!("{c} FETCH c"), "! 16917/16/1 line 1: Cursor is not open."),
        (&format!("{c} CLOSE c"), "! 16917/16/1"),
        (&format!("{c} OPEN c; DEALLOCATE c; FETCH c"), "! 16916/16/1"),
        (&format!("{c} OPEN GLOBAL c"), "! 16916/16/1"),
        (
            &format!("{c} OPEN c; FETCH PRIOR FROM c"),
            "! 16911/16/1 line 1: fetch: The fetch type \
          prior cannot be used with forward only cursors.",
        ),
        (&format!("DECLARE @a int, @b int; {c} OPEN c; FETCH c INTO @a, @b"), "! 16924/16/1"),
        (
            &format!("DECLARE @a uniqueidentifier; {c} OPEN c; FETCH c INTO @a"),
            "! 16922/16/1 line \
          1: Cursor Fetch: Implicit conversion from data type int to uniqueidentifier is not \
          allowed.",
        ),
        // each ends its statement only
        (
            "FETCH nosuch; SELECT @@ERROR",
            "! 16916/16/1 line 1: A cursor with the name 'nosuch' \
          does not exist.\n16916",
        ),
        ("DECLARE c CURSOR FOR SELECT nosuch FROM #t", "! 207/16/1"),
        ("DECLARE c CURSOR FOR SELECT 1 FROM nosuch", "! 208/16/1"),
        (
            "DECLARE c CURSOR LOCAL GLOBAL FOR SELECT 1",
            "! 1048/15/1 line 1: Conflicting cursor \
          options LOCAL and GLOBAL.",
        ),
        ("DECLARE c CURSOR FAST_FORWARD SCROLL FOR SELECT 1", "! 1048/15/1"),
        ("DECLARE c SCROLL CURSOR STATIC FOR SELECT 1", "! 1049/15/1"),
        ("DECLARE @i int; DECLARE c CURSOR FOR SELECT @i = i FROM #t", "! 40512/16/1"),
        ("DECLARE c CURSOR FOR SELECT i INTO #u FROM #t", "! 40512/16/1"),
        ("DECLARE c CURSOR FOR SELECT i FROM #t FOR UPDATE OF i", "! 40517/16/1"),
        ("DECLARE c CURSOR OPTIMISTIC FOR SELECT i FROM #t", "! 40517/16/1"),
        (&format!("{c} UPDATE #t SET i = 5 WHERE CURRENT OF c"), "! 40517/16/1"),
        (&format!("{c} OPEN c; FETCH c; DELETE #t WHERE CURRENT OF c"), "! 40517/16/1"),
        ("SELECT 1 FOR UPDATE", "! 156/15/1"),
    ]);
}

#[test]
fn local_cursors_end_with_their_batch_or_procedure_and_global_ones_stay() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (TABLE, ""),
            ("DECLARE a CURSOR LOCAL FOR SELECT 1; DECLARE b CURSOR FOR SELECT 2; OPEN b", ""),
            ("OPEN a", "! 16916/16/1"),
            ("FETCH b", "2"),
            (
                "EXEC ('FETCH b; DECLARE a CURSOR LOCAL FOR SELECT 3; OPEN a; FETCH a'); OPEN a",
                "3\n! 16916/16/1 line 1: A cursor with the name 'a' does not exist.",
            ),
            ("DEALLOCATE b; DEALLOCATE b", "! 16916/16/1"),
            (
                "CREATE PROCEDURE p @d int AS DECLARE c CURSOR LOCAL FOR SELECT @d; OPEN c; IF @d \
                 > 1 BEGIN DECLARE @e int = @d - 1; EXEC p @e END FETCH c",
                "",
            ),
            ("EXEC p 3", "1\n2\n3"),
            // a procedure does not see the local cursors of its caller
            ("CREATE PROCEDURE q AS FETCH c", ""),
            ("DECLARE c CURSOR LOCAL FOR SELECT 1; OPEN c; EXEC q", "! 16916/16/1"),
            ("DECLARE c CURSOR GLOBAL FOR SELECT 7; OPEN c; EXEC q", "7"),
            (
                "DECLARE c CURSOR LOCAL FOR SELECT 8; OPEN c; FETCH c; FETCH GLOBAL c; CLOSE \
                 GLOBAL c; OPEN GLOBAL c; EXEC q",
                "8\n7",
            ),
            (
                "SELECT CURSOR_STATUS('global', 'c'), CURSOR_STATUS('local', 'c'), \
                 CURSOR_STATUS('x', 'c')",
                "1 | -3 | NULL",
            ),
            ("CLOSE c; SELECT CURSOR_STATUS('global', 'C')", "-1"),
            (
                "DECLARE e CURSOR LOCAL FOR SELECT 1 WHERE 1 = 2; OPEN e; SELECT \
                 CURSOR_STATUS('local', 'e')",
                "0",
            ),
            // a rollback changes nothing that OPEN has read
            (
                "CREATE TABLE r (i int); BEGIN TRAN; INSERT r VALUES (5), (6); DECLARE k CURSOR \
                 LOCAL FOR SELECT i FROM r; OPEN k; ROLLBACK; FETCH k; FETCH k; SELECT COUNT(*) \
                 FROM r",
                "5\n6\n0",
            ),
        ],
    );
}

#[test]
fn variables_hold_cursors_of_their_batch() {
    over_rows(&[
        (
            "DECLARE @c CURSOR, @i int; SET @c = CURSOR SCROLL FOR SELECT i FROM #t; OPEN @c; \
             FETCH LAST FROM @c INTO @i; SELECT @i, CURSOR_STATUS('variable', '@c'); SET @c = \
             CURSOR FOR SELECT 9; OPEN @c; FETCH @c; CLOSE @c; DEALLOCATE @c; SELECT \
             CURSOR_STATUS('variable', '@c')",
            "3 | 1\n9\n-2",
        ),
        (
            "DECLARE @c CURSOR; OPEN @c",
            "! 16950/16/2 line 1: The variable '@c' does not currently \
          have a cursor allocated to it.",
        ),
        ("OPEN @c", "! 137/15/2"),
        ("DECLARE @c int; OPEN @c", "! 137/15/2"),
        ("DECLARE @c CURSOR, @c int", "! 134/15/1"),
        ("DECLARE @c int, @c CURSOR", "! 134/15/1"),
        ("DECLARE @c CURSOR; DECLARE @c TABLE (a int)", "! 134/15/1"),
        ("DECLARE c CURSOR FOR SELECT 1; DECLARE @c CURSOR; SET @c = c", "! 137/15/2"),
    ]);
}

#[test]
fn a_cursor_reads_what_may_be_read_where_it_was_declared() {
    let server = server();
    story(
        &server,
        &[
            ("sa", "CREATE TABLE secret (a int); INSERT secret VALUES (1)", ""),
            (
                "sa",
                "CREATE PROCEDURE opens AS BEGIN OPEN own; FETCH own; CLOSE own; DEALLOCATE own \
                 END",
                "",
            ),
            (
                "sa",
                "CREATE PROCEDURE declares AS DECLARE theirs CURSOR GLOBAL FOR SELECT a FROM \
                 secret",
                "",
            ),
            (
                "sa",
                "CREATE PROCEDURE reads AS DECLARE theirs CURSOR GLOBAL FOR SELECT a FROM \
                 secret; OPEN theirs",
                "",
            ),
            ("sa", "CREATE LOGIN cy WITH PASSWORD = 'Long-enough-1'", ""),
            ("sa", "CREATE USER cy; GRANT EXECUTE TO cy; CREATE TABLE open_to (a int)", ""),
            ("sa", "INSERT open_to VALUES (2); GRANT SELECT ON open_to TO cy", ""),
        ],
    );
    let mut session = server.session_of("cy", "app").unwrap();
    all(
        &mut *session,
        &[
            ("DECLARE own CURSOR FOR SELECT a FROM secret", "! 229/14/5"),
            // the procedure that opens it lends it no rights
            ("DECLARE own CURSOR FOR SELECT a FROM open_to; EXEC opens", "2"),
            // its rights end with the procedure: they may be revoked before the next OPEN
            ("EXEC declares; OPEN theirs; DEALLOCATE theirs", "! 229/14/5"),
            ("EXEC reads; FETCH theirs; DEALLOCATE theirs", "1"),
            ("DECLARE own CURSOR FOR SELECT a FROM open_to", ""),
        ],
    );
    let mut sa = server.session();
    assert_eq!(rows(&mut *sa, "REVOKE SELECT ON open_to FROM cy"), "");
    assert!(rows(&mut *session, "EXEC opens").starts_with("! 229/14/5"));
}

#[test]
fn statements_about_cursors_set_rowcount_and_fetch_status() {
    let go = "DECLARE c CURSOR LOCAL FOR SELECT i FROM #t ORDER BY i;";
    let all_rows = "SELECT i FROM #t WHERE i < 3 ORDER BY i;";
    over_rows(&[
        (&format!("{all_rows} {go} SELECT @@ROWCOUNT"), "1\n2\n1"),
        (&format!("{go} {all_rows} OPEN c; SELECT @@ROWCOUNT"), "1\n2\n0"),
        (&format!("{go} OPEN c; {all_rows} CLOSE c; SELECT @@ROWCOUNT"), "1\n2\n0"),
        (&format!("{go} {all_rows} DEALLOCATE c; SELECT @@ROWCOUNT"), "1\n2\n0"),
        (
            &format!("{go} OPEN c; FETCH c; CLOSE c; FETCH c; SELECT @@FETCH_STATUS"),
            "1\n! 16917/16/1 line 1: Cursor is not open.\n-1",
        ),
        (
            &format!(
                "{go} OPEN c; DECLARE @a int, @b int; FETCH c INTO @a; SELECT @@FETCH_STATUS; \
                 BEGIN TRY FETCH c INTO @a, @b END TRY BEGIN CATCH SELECT \
                 @@FETCH_STATUS, @a END CATCH"
            ),
            "0\n-1 | 1",
        ),
    ]);
}
