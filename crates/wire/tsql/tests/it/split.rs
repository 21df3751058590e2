//! STRING_SPLIT as a table, alone and after APPLY.

use crate::common::{Server, rows, run};

#[test]
fn pieces_are_rows() {
    let server = Server::new();
    let mut session = server.session();
    for (batch, expected) in [
        ("SELECT value FROM STRING_SPLIT('a,b,,c', ',')", "'a'\n'b'\n''\n'c'"),
        ("SELECT * FROM STRING_SPLIT('', ',')", "''"),
        ("SELECT * FROM STRING_SPLIT(CAST(NULL AS varchar(5)), ',')", ""),
        ("SELECT * FROM STRING_SPLIT('b;a', ';', 1) ORDER BY value", "'a' | 2\n'b' | 1"),
        ("SELECT * FROM STRING_SPLIT('b;a', ';', 0) ORDER BY value", "'a'\n'b'"),
        ("SELECT COUNT(*) FROM STRING_SPLIT(' a  b ', ' ')", "5"),
        ("SELECT string_split.value FROM String_Split('x', '-')", "'x'"),
        ("SELECT p FROM STRING_SPLIT('1-2', '-') AS s (p) WHERE p = '2'", "'2'"),
        (
            "DECLARE @s nvarchar(40) = N'ж|\"quoted\"|back\\slash', @c nchar(1) = N'|'; \
             SELECT value FROM STRING_SPLIT(@s, @c)",
            "'ж'\n'\"quoted\"'\n'back\\slash'",
        ),
        (
            "SELECT COUNT(*) FROM STRING_SPLIT('a' + CHAR(9) + 'b' + CHAR(10), CHAR(9)) WHERE \
             value IN ('A', 'b' + CHAR(10))",
            "2",
        ),
        ("SELECT SUM(CAST(value AS int)) FROM STRING_SPLIT('1,2,30', ',')", "33"),
        ("SELECT STRING_AGG(value, '+') FROM STRING_SPLIT('1,2,30', ',')", "'1+2+30'"),
        ("SELECT 1 WHERE 'B' IN (SELECT value FROM STRING_SPLIT('a,b', ','))", "1"),
        (
            "SELECT a.value, b.value FROM STRING_SPLIT('1,2', ',') AS a JOIN \
             STRING_SPLIT('2,3', ',') AS b ON a.value = b.value",
            "'2' | '2'",
        ),
        ("SELECT ordinal FROM STRING_SPLIT('a,b', ',', CAST(1 AS bit)) WHERE value = 'b'", "2"),
        ("SELECT value INTO #s FROM STRING_SPLIT('q,r', ','); SELECT * FROM #s", "'q'\n'r'"),
    ] {
        assert_eq!(rows(&mut *session, batch), expected, "{batch}");
    }
}

#[test]
fn apply_sees_the_tables_before_it() {
    let server = Server::new();
    let mut session = server.session();
    let tables = "CREATE TABLE t (i int, tags varchar(20) NULL, sep char(1)); \
        INSERT t VALUES (1, 'a,b', ','), (2, 'c', ','), (3, NULL, ','), (4, 'd-e', '-')";
    assert_eq!(rows(&mut *session, tables), "");
    for (batch, expected) in [
        (
            "SELECT i, value FROM t CROSS APPLY STRING_SPLIT(tags, sep) ORDER BY i, value",
            "1 | 'a'\n1 | 'b'\n2 | 'c'\n4 | 'd'\n4 | 'e'",
        ),
        (
            "SELECT t.i, s.v, s.n FROM t OUTER APPLY STRING_SPLIT(t.tags, t.sep, 1) AS s (v, n) \
             WHERE t.i > 1 ORDER BY t.i, s.n",
            "2 | 'c' | 1\n3 | NULL | NULL\n4 | 'd' | 1\n4 | 'e' | 2",
        ),
        (
            "SELECT x.i, COUNT(*) FROM t AS x CROSS APPLY STRING_SPLIT(x.tags, ',') AS s JOIN t \
             AS y ON y.i = x.i GROUP BY x.i ORDER BY 1",
            "1 | 2\n2 | 1\n4 | 1",
        ),
        (
            "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM STRING_SPLIT(t.tags, ',') AS s WHERE \
             s.value = 'B')",
            "1",
        ),
        (
            "UPDATE x SET i = i + 10 FROM t AS x CROSS APPLY STRING_SPLIT(x.tags, '-') AS s \
             WHERE s.value = 'e'; SELECT i FROM t ORDER BY i",
            "1\n2\n3\n14",
        ),
        (
            "DELETE x FROM t AS x CROSS APPLY STRING_SPLIT(x.tags, ',') AS s WHERE s.value = 'b'; \
             SELECT COUNT(*) FROM t",
            "3",
        ),
    ] {
        assert_eq!(rows(&mut *session, batch), expected, "{batch}");
    }
    rows(&mut *session, "CREATE VIEW v AS SELECT value FROM t CROSS APPLY STRING_SPLIT(tags, ',')");
    assert_eq!(rows(&mut *session, "SELECT * FROM v ORDER BY 1"), "'c'\n'd-e'");
}

#[test]
fn types_are_those_of_the_arguments() {
    let server = Server::new();
    let mut session = server.session();
    for (args, ty) in [
        ("'a,b', ','", "VarChar(Of(3))"),
        ("'a,b', N','", "NVarChar(Of(3))"),
        ("N'a,b', ','", "NVarChar(Of(3))"),
        ("CAST('a' AS char(9)), ','", "VarChar(Of(9))"),
        ("CAST('a' AS varchar(max)), ','", "VarChar(Max)"),
    ] {
        let found = run(&mut *session, &format!("SELECT value FROM STRING_SPLIT({args})"));
        assert_eq!(found[0], format!("# value:{ty}"), "{args}");
    }
    let both = run(&mut *session, "SELECT * FROM STRING_SPLIT('a', ',', 1)");
    assert_eq!(both[0], "# value:VarChar(Of(1)) | ordinal:BigInt");
}

#[test]
fn bad_arguments_are_errors() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (a varchar(9)); INSERT t VALUES ('1x2X3')");
    for (batch, code) in [
        ("SELECT * FROM STRING_SPLIT('a', ', ')", "214/16/11"),
        ("SELECT * FROM STRING_SPLIT('a', '')", "214/16/11"),
        ("SELECT * FROM STRING_SPLIT('a', CAST(NULL AS char(1)))", "214/16/11"),
        ("SELECT * FROM STRING_SPLIT('a')", "174/15/1"),
        ("SELECT * FROM STRING_SPLIT(1, ',')", "8116/16/1"),
        ("SELECT * FROM STRING_SPLIT('a', 1)", "8116/16/1"),
        ("SELECT * FROM STRING_SPLIT(NULL, ',')", "8116/16/1"),
        ("SELECT * FROM STRING_SPLIT('a', ',', 2)", "4199/16/1"),
        ("DECLARE @o int = 1; SELECT * FROM STRING_SPLIT('a', ',', @o)", "8748/16/1"),
        ("SELECT ordinal FROM STRING_SPLIT('a', ',')", "207/16/1"),
        ("SELECT * FROM STRING_SPLIT('a', ',') AS s (v, n)", "8159/16/1"),
        ("SELECT * FROM t CROSS APPLY STRING_SPLIT(t.a, 'x')", "40512/16/1"),
        // without APPLY the tables beside it are not visible
        ("SELECT * FROM t, STRING_SPLIT(t.a, ',')", "4104/16/1"),
        ("SELECT * FROM t CROSS JOIN STRING_SPLIT(t.a, ',')", "4104/16/1"),
        ("SELECT * FROM dbo.STRING_SPLIT('a', ',')", "208/16/1"),
        ("SELECT STRING_SPLIT('a', ',')", "195/15/10"),
    ] {
        let found = rows(&mut *session, batch);
        assert!(found.starts_with(&format!("! {code}")), "{batch}: {found}");
    }
}
