//! Collations that are asked for: order, conflicts, columns, and the catalog.

use crate::common::{Server, check};
use crate::permissions::all;

const TABLE: &str = "CREATE TABLE t (i int, a nvarchar(10) COLLATE Latin1_General_CS_AS, b \
    nvarchar(10) COLLATE Latin1_General_BIN2, c nvarchar(10) COLLATE Latin1_General_CI_AI, d \
    nvarchar(10)); INSERT t VALUES (1, 'b', 'b', 'é', 'b'), (2, 'B', 'B', 'E', 'B'), (3, 'a', \
    'a', 'f', 'a')";

#[test]
fn columns_compare_by_their_collation() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (TABLE, ""),
            ("SELECT i FROM t WHERE a = 'B'", "2"),
            ("SELECT i FROM t WHERE b = N'b  '", "1"),
            ("SELECT i FROM t WHERE c = 'e' ORDER BY i", "1\n2"),
            ("SELECT i FROM t WHERE d = 'b' ORDER BY i", "1\n2"),
            ("SELECT i FROM t WHERE d COLLATE Latin1_General_CS_AS = 'b'", "1"),
            ("SELECT i FROM t ORDER BY a", "3\n1\n2"),
            ("SELECT i FROM t ORDER BY b", "2\n3\n1"),
            ("SELECT a FROM t ORDER BY 1 DESC", "'B'\n'b'\n'a'"),
            ("SELECT i FROM t ORDER BY d COLLATE Latin1_General_BIN2, i", "2\n3\n1"),
            ("SELECT TOP (2) WITH TIES i FROM t ORDER BY b", "2\n3"),
            ("SELECT COUNT(*) FROM t GROUP BY c ORDER BY c", "2\n1"),
            ("SELECT COUNT(*) FROM t GROUP BY a ORDER BY a", "1\n1\n1"),
            ("SELECT COUNT(DISTINCT a), COUNT(DISTINCT c), COUNT(DISTINCT d) FROM t", "3 | 2 | 2"),
            ("SELECT MIN(b), MAX(a), MIN(d COLLATE Latin1_General_BIN) FROM t", "'B' | 'B' | 'B'"),
            ("SELECT COUNT(*) FROM (SELECT DISTINCT b FROM t) AS x", "3"),
            ("SELECT COUNT(*) FROM (SELECT DISTINCT c FROM t) AS x WHERE c = 'É'", "1"),
            ("SELECT COUNT(*) FROM (SELECT a FROM t UNION SELECT 'A') AS x", "4"),
            ("SELECT COUNT(*) FROM (SELECT 'A' AS a UNION SELECT a FROM t) AS x", "4"),
            ("SELECT COUNT(*) FROM (SELECT d FROM t UNION SELECT 'A') AS x", "2"),
            ("SELECT b FROM t EXCEPT SELECT 'b'", "'B'\n'a'"),
            ("SELECT i FROM t WHERE b LIKE 'B%'", "2"),
            ("SELECT i FROM t WHERE c LIKE '%E' ORDER BY i", "1\n2"),
            ("SELECT i FROM t WHERE b LIKE '[a-z]' ORDER BY i", "1\n3"),
            ("SELECT i FROM t WHERE a IN ('B', 'x')", "2"),
            ("SELECT i FROM t WHERE 'B' IN (a)", "2"),
            ("SELECT i FROM t WHERE a IN (SELECT 'B' UNION ALL SELECT 'z')", "2"),
            ("SELECT i FROM t WHERE a NOT IN ('B')  ORDER BY i", "1\n3"),
            ("SELECT i FROM t WHERE b BETWEEN 'A' AND 'Z'", "2"),
            ("SELECT i FROM t WHERE a = ANY (SELECT 'b')", "1"),
            ("SELECT STRING_AGG(a, ',') WITHIN GROUP (ORDER BY b) FROM t", "'B,a,b'"),
            ("SELECT ROW_NUMBER() OVER (ORDER BY b), i FROM t ORDER BY i", "3 | 1\n1 | 2\n2 | 3"),
            ("SELECT COUNT(*) OVER (PARTITION BY c) FROM t ORDER BY i", "2\n2\n1"),
            (
                "SELECT x.i, y.i FROM t AS x JOIN t AS y ON x.a = y.a ORDER BY x.i",
                "1 | 1\n2 | 2\n3 | 3",
            ),
            ("SELECT COUNT(*) FROM t AS x JOIN t AS y ON x.c = y.c", "5"),
            (
                "SELECT i, CASE a WHEN 'b' THEN 1 ELSE 0 END FROM t ORDER BY i",
                "1 | 1\n2 | 0\n3 | 0",
            ),
            ("SELECT i FROM (SELECT i, a AS z FROM t) AS x WHERE z = 'B'", "2"),
            ("WITH x AS (SELECT i, UPPER(b) AS z FROM t) SELECT i FROM x WHERE z = 'b'", ""),
            ("SELECT i FROM t WHERE LEFT(a + 'x', 2) = 'Bx'", "2"),
            ("SELECT i FROM t WHERE CAST(a AS varchar(5)) = 'B'", "2"),
            ("SELECT i FROM t WHERE ISNULL(NULLIF(b, 'b'), 'q') = 'q'", "1"),
            ("DECLARE @v nvarchar(5) = 'B'; SELECT i FROM t WHERE a = @v", "2"),
            ("DECLARE @v nvarchar(5); SELECT @v = d FROM t WHERE b = 'B'; SELECT @v", "'B'"),
            ("UPDATE t SET d = 'q' WHERE a = 'B'; SELECT i FROM t WHERE d = 'Q'", "2"),
            ("DELETE t WHERE b = 'A'; SELECT COUNT(*) FROM t", "3"),
            (
                "MERGE t AS x USING (VALUES (N'B')) AS u (k) ON x.a = u.k WHEN MATCHED THEN UPDATE \
                SET d = 'm'; SELECT i FROM t WHERE d = 'M'",
                "2",
            ),
        ],
    );
}

#[test]
fn functions_compare_by_the_collation() {
    check(&[
        ("SELECT CHARINDEX('B', 'abB'), CHARINDEX('B', 'abB' COLLATE Latin1_General_BIN)", "2 | 3"),
        ("SELECT REPLACE('aAa' COLLATE Latin1_General_CS_AS, 'A', 'x')", "'axa'"),
        ("SELECT REPLACE('aAa', 'A', 'x')", "'xxx'"),
        ("SELECT PATINDEX('%[A-Z]%', 'abC' COLLATE Latin1_General_BIN2)", "3"),
        ("SELECT TRANSLATE('aA', 'A', 'x' COLLATE Latin1_General_BIN2)", "'ax'"),
        ("SELECT CASE WHEN 'a' = 'A' COLLATE Latin1_General_CS_AS THEN 1 ELSE 0 END", "0"),
        ("SELECT CASE WHEN 'cote' < 'coté' COLLATE French_CI_AS THEN 1 ELSE 0 END", "1"),
        ("SELECT CASE WHEN 'e' = 'É' COLLATE Latin1_General_CI_AI THEN 1 ELSE 0 END", "1"),
        ("SELECT CASE WHEN 'a ' = 'a' COLLATE Latin1_General_BIN2 THEN 1 ELSE 0 END", "1"),
        ("SELECT CASE WHEN N'a ' LIKE N'a' COLLATE Latin1_General_BIN2 THEN 1 ELSE 0 END", "0"),
        ("SELECT UPPER('i' COLLATE Turkish_CI_AS), LOWER('I' COLLATE Turkish_CI_AS)", "'İ' | 'ı'"),
        ("SELECT UPPER('i'), LOWER('I')", "'I' | 'i'"),
        ("SELECT GREATEST('a', 'B' COLLATE Latin1_General_BIN2)", "'a'"),
        ("SELECT value FROM STRING_SPLIT('axbXc' COLLATE Latin1_General_BIN2, 'x')", "'a'\n'bXc'"),
        ("IF 'a' COLLATE Latin1_General_CS_AS = 'A' SELECT 1 ELSE SELECT 2", "2"),
    ]);
}

#[test]
fn labels_and_conflicts_are_sql_servers() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (TABLE, ""),
            (
                "SELECT 1 FROM t WHERE a = d",
                "! 468/16/9 line 1: Cannot resolve the collation conflict between \
                \"SQL_Latin1_General_CP1_CI_AS\" and \"Latin1_General_CS_AS\" in the equal to \
                operation.",
            ),
            ("SELECT 1 FROM t WHERE a <> d", "! 468/16/9 line 1: Cannot resolve the collation"),
            ("SELECT 1 FROM t WHERE a LIKE b", "! 468/16/9"),
            ("SELECT 1 FROM t WHERE a IN (b)", "! 468/16/9"),
            ("SELECT 1 FROM t WHERE a IN (SELECT b FROM t)", "! 468/16/9"),
            ("SELECT a FROM t UNION SELECT b FROM t", "! 468/16/9"),
            ("SELECT REPLACE(a, b, c) FROM t", "! 468/16/9"),
            ("SELECT CHARINDEX(a, b) FROM t", "! 468/16/9"),
            (
                "SELECT i, a + b FROM t",
                "! 451/16/1 line 1: Cannot resolve collation conflict between \
                \"Latin1_General_BIN2\" and \"Latin1_General_CS_AS\" in add operator occurring in \
                SELECT statement column 2.",
            ),
            ("SELECT a FROM t UNION ALL SELECT b FROM t", "! 451/16/1"),
            ("SELECT i FROM t ORDER BY i, a + b", "! 451/16/1 line 1: Cannot resolve"),
            ("SELECT CASE i WHEN 1 THEN a ELSE b END FROM t", "! 451/16/1"),
            ("SELECT CAST(a AS varchar(9)) + CAST(b AS varchar(9)) FROM t", "! 457/16/1"),
            ("UPDATE t SET d = a + b", "! 457/16/1"),
            ("SELECT MAX(a + b) FROM t", "! 446/16/9"),
            ("SELECT i FROM t WHERE LEN(a + b) = 2 AND i = 1", "1"),
            ("SELECT i FROM t WHERE a = d COLLATE Latin1_General_CS_AS ORDER BY i", "1\n2\n3"),
            ("SELECT i FROM t WHERE a COLLATE DATABASE_DEFAULT = d ORDER BY i", "1\n2\n3"),
            ("SELECT i FROM t WHERE a = b COLLATE catalog_default AND i < 3 ORDER BY i", "1\n2"),
            ("SELECT a + b COLLATE Latin1_General_BIN FROM t WHERE i = 1", "'bb'"),
            (
                "SELECT 'a' COLLATE Polish_CI_AS + 'b' COLLATE Greek_CI_AS",
                "! 449/16/1 line 1: Collation conflict caused by collate clauses with different \
                collation 'Greek_CI_AS' and 'Polish_CI_AS'.",
            ),
            ("SELECT 1 WHERE 'a' COLLATE Polish_CI_AS = 'b' COLLATE Greek_CI_AS", "! 449/16/1"),
            ("SELECT 'a' COLLATE Latin1", "! 448/16/1 line 1: Invalid collation 'Latin1'."),
            ("SELECT 'a' COLLATE Polish_CI_AS COLLATE Greek_CI_AS", "! 156/15/1"),
            (
                "SELECT 1 COLLATE Polish_CI_AS",
                "! 447/16/1 line 1: Expression type int is invalid for COLLATE clause.",
            ),
            ("CREATE TABLE w (a int COLLATE Polish_CI_AS)", "! 447/16/1"),
            ("CREATE TABLE w (a varchar(5) COLLATE Nosuch)", "! 448/16/1"),
            ("CREATE TYPE z FROM varchar(5)", ""),
            ("CREATE TABLE w (a z COLLATE Polish_CI_AS)", "! 452/16/1"),
            ("CREATE TYPE y FROM varchar(5) COLLATE Polish_CI_AS", "! 156/15/1"),
            ("DECLARE @v varchar(5) COLLATE Polish_CI_AS", "! 156/15/1"),
            ("CREATE DATABASE d COLLATE Polish_CI_AS", "! 40512/"),
        ],
    );
}

#[test]
fn definitions_keep_the_collation() {
    let server = Server::new();
    let mut session = server.session();
    let of = "SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID('u') ORDER BY \
        column_id";
    all(
        &mut *session,
        &[
            (
                "CREATE TABLE u (i int, a varchar(9) COLLATE latin1_general_cs_as NOT NULL UNIQUE, \
                b nchar(4) COLLATE Latin1_General_BIN2, c AS a + 'x')",
                "",
            ),
            (of, "NULL\n'Latin1_General_CS_AS'\n'Latin1_General_BIN2'\n'Latin1_General_CS_AS'"),
            ("INSERT u VALUES (1, 'k', 'k'), (2, 'K', 'K')", ""),
            ("INSERT u VALUES (3, 'k', 'k')", "! 2627/14/1"),
            ("SELECT i FROM u WHERE c = 'KX'", ""),
            ("SELECT i FROM u WHERE c = 'Kx'", "2"),
            ("CREATE UNIQUE INDEX n ON u (b)", ""),
            ("INSERT u VALUES (3, 'm', 'k')", "! 2601/14/1"),
            ("INSERT u VALUES (3, 'm', NULL)", ""),
            ("INSERT u VALUES (4, 'n', NULL)", "! 2601/14/1"),
            ("ALTER TABLE u ALTER COLUMN b nchar(4) COLLATE Latin1_General_CI_AS", "! 5074/16/1"),
            ("DROP INDEX n ON u", ""),
            ("ALTER TABLE u ALTER COLUMN b nchar(4) COLLATE Latin1_General_CI_AS", ""),
            ("SELECT COUNT(*) FROM u WHERE b = 'k'", "2"),
            ("ALTER TABLE u ADD UNIQUE (b)", "! 1505/16/1"),
            // without COLLATE it gets the database's
            ("ALTER TABLE u ALTER COLUMN b nchar(4)", ""),
            ("ALTER TABLE u ADD e varchar(5) COLLATE Polish_CS_AI NULL", ""),
            ("EXEC sp_rename 'u.e', 'f', 'COLUMN'", ""),
            (
                "SELECT name, collation_name FROM sys.columns WHERE object_id = OBJECT_ID('u') AND \
                column_id > 2",
                "'b' | 'SQL_Latin1_General_CP1_CI_AS'\n'c' | 'Latin1_General_CS_AS'\n'f' | \
                'Polish_CS_AI'",
            ),
            ("SELECT a, b + 'x' COLLATE Greek_BIN2 AS b INTO v FROM u", ""),
            (
                "SELECT COLUMN_NAME, COLLATION_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE \
                TABLE_NAME = 'v'",
                "'a' | 'Latin1_General_CS_AS'\n'b' | 'Greek_BIN2'",
            ),
            ("SELECT COUNT(*) FROM v WHERE a = 'K'", "1"),
            ("CREATE VIEW w AS SELECT a AS z FROM u", ""),
            ("SELECT COUNT(*) FROM w WHERE z = 'K'", "1"),
            (
                "SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID('w')",
                "'Latin1_General_CS_AS'",
            ),
            ("SELECT a INTO #t FROM u; SELECT COUNT(*) FROM #t WHERE a = 'K'; DROP TABLE #t", "1"),
            (
                "DECLARE @t TABLE (a varchar(5) COLLATE Latin1_General_BIN2 PRIMARY KEY); INSERT \
                @t VALUES ('a'), ('A'); SELECT * FROM @t ORDER BY a",
                "'A'\n'a'",
            ),
            ("CREATE TYPE tt AS TABLE (a varchar(5) COLLATE Latin1_General_BIN2 PRIMARY KEY)", ""),
            ("DECLARE @t tt; INSERT @t VALUES ('a'), ('A'); SELECT COUNT(*) FROM @t", "2"),
            (
                "CREATE FUNCTION f (@a varchar(5)) RETURNS TABLE AS RETURN SELECT a FROM u \
                WHERE a = @a",
                "",
            ),
            ("SELECT COUNT(*) FROM f('K') WHERE a <> 'k'", "1"),
            (
                "CREATE TRIGGER g ON u AFTER INSERT AS SELECT COUNT(*) FROM inserted WHERE a = 'Q'",
                "",
            ),
            ("INSERT u (i, a) VALUES (7, 'q'), (8, 'Q')", "1"),
            ("CREATE TABLE p (k varchar(5) COLLATE Latin1_General_BIN2 PRIMARY KEY)", ""),
            ("CREATE TABLE q (k varchar(5) REFERENCES p (k))", "! 1757/16/0"),
            ("CREATE TABLE q (k varchar(5) COLLATE Latin1_General_BIN2 REFERENCES p (k))", ""),
            ("INSERT p VALUES ('a'); INSERT q VALUES ('A')", "! 547/16/0"),
            ("ALTER TABLE p ADD CHECK (k <> 'B'); INSERT p VALUES ('b')", ""),
            ("INSERT p VALUES ('B')", "! 547/16/0"),
        ],
    );
}

/// An index in the column's own collation is searched: it reads a few pages of many.
#[test]
fn an_index_in_the_collation_is_searched() {
    let server = Server::new();
    let mut session = server.session();
    let digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS";
    let fill = format!(
        "CREATE TABLE t (a varchar(30) COLLATE Polish_CI_AI NOT NULL); INSERT t SELECT \
        CONCAT(REPLICATE('x', 20), d.i, e.i, f.i, g.i) FROM {digits} d (i) CROSS JOIN {digits} e \
        (i) CROSS JOIN {digits} f (i) CROSS JOIN {digits} g (i)"
    );
    let reads = |session: &mut dyn tdekit_wire_tds::Session| -> i64 {
        let own = "SELECT logical_reads FROM sys.dm_exec_sessions WHERE session_id = @@SPID";
        crate::common::rows(session, own).parse().unwrap()
    };
    all(&mut *session, &[(&fill, "")]);
    let find = "SELECT COUNT(*) FROM t WHERE a = 'XXXXXXXXXXXXXXXXXXXX5432'";
    let mut figures = Vec::new();
    for before in ["SELECT 1", "CREATE INDEX i ON t (a)"] {
        crate::common::rows(&mut *session, before);
        all(&mut *session, &[(find, "1")]);
        let start = reads(&mut *session);
        all(&mut *session, &[(find, "1")]);
        figures.push(reads(&mut *session) - start);
    }
    assert!(figures[1] * 5 < figures[0], "{figures:?}");
}

/// The stored text names the collation; one of a later version is an error.
#[test]
fn the_stored_schema_names_the_collation() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[("CREATE TABLE t (a varchar(9) COLLATE Polish_CI_AS, b varchar(9), c int)", "")],
    );
    let file = server.directory.path().join("app.db");
    let stock = rusqlite::Connection::open(file).unwrap();
    let sql: String = stock
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 't'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        sql,
        "CREATE TABLE \"t\" (\"a\" \"tsql varchar(9) collate Polish_CI_AS\" COLLATE \
        TSQL_Polish_CI_AS, \"b\" \"tsql varchar(9)\" COLLATE TSQL, \"c\" \"tsql int\")"
    );
    // one of a later version
    stock.execute_batch("CREATE TABLE l (a \"tsql varchar(9) collate Latin9_CI_AS\")").unwrap();
    let found = crate::common::rows(&mut *session, "SELECT a FROM l");
    assert!(
        found.starts_with('!') && found.contains("Invalid collation 'Latin9_CI_AS'"),
        "{found}"
    );
}

#[test]
fn the_catalog_knows_collations() {
    check(&[
        (
            "SELECT COLLATIONPROPERTY('Cyrillic_General_CI_AS', 'CodePage'), \
            COLLATIONPROPERTY('Polish_100_CS_AI', 'LCID'), \
            COLLATIONPROPERTY('Latin1_General_CI_AS', 'ComparisonStyle'), \
            COLLATIONPROPERTY('Japanese_XJIS_140_BIN2', 'Version'), \
            COLLATIONPROPERTY('nosuch', 'LCID')",
            "'1251' | '1045' | '196609' | '3' | NULL",
        ),
        (
            "SELECT name, description FROM fn_helpcollations() WHERE name LIKE 'Greek_BIN%'",
            "'Greek_BIN' | 'Greek, binary sort'\n'Greek_BIN2' | 'Greek, binary code point \
            comparison sort'",
        ),
        (
            "SELECT COUNT(*) FROM sys.fn_helpcollations() WHERE name = \
            CAST(SERVERPROPERTY('Collation') AS sysname)",
            "1",
        ),
        (
            "CREATE TABLE x (a varchar(5) COLLATE Greek_BIN2, b int); EXEC \
            sp_tablecollations_100 'x'",
            "1 | 'a' | Binary([8, 4, 0, 2, 0]) | 'Greek_BIN2'\n2 | 'b' | NULL | NULL\nstatus 0",
        ),
        (
            "SELECT CAST(DATABASEPROPERTYEX('app', 'Collation') AS varchar(40))",
            "'SQL_Latin1_General_CP1_CI_AS'",
        ),
    ]);
}

#[test]
fn varchar_has_the_code_page_of_its_collation() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (
                "CREATE TABLE c (r varchar(4) COLLATE Cyrillic_General_CI_AS, j varchar(4) COLLATE \
                Japanese_CI_AS, u varchar(4) COLLATE Latin1_General_100_CI_AS_SC_UTF8, d \
                varchar(4), f char(4) COLLATE Japanese_CI_AS)",
                "",
            ),
            ("INSERT c VALUES (N'жéщ', N'あé', N'жщ', N'жé', N'あa')", ""),
            ("SELECT r, j, u, d, f FROM c", "'ж?щ' | 'あ?' | 'жщ' | '?é' | 'あa '"),
            (
                "SELECT DATALENGTH(r), DATALENGTH(j), DATALENGTH(u), DATALENGTH(d), DATALENGTH(f) \
                FROM c",
                "3 | 3 | 4 | 2 | 4",
            ),
            (
                "SELECT LEN(j), LEN(u), SUBSTRING(j, 1, 1), CHARINDEX(N'щ', u) FROM c",
                "2 | 2 | 'あ' | 2",
            ),
            (
                "SELECT CAST(r AS varbinary(9)), CAST(j AS varbinary(9)) FROM c",
                "Binary([230, 63, 249]) | Binary([130, 160, 63])",
            ),
            // the bytes count
            ("INSERT c (j) VALUES (N'あいう')", "! 2628/16/1"),
            ("INSERT c (u) VALUES (N'жщж')", "! 2628/16/1"),
            ("INSERT c (r) VALUES (N'жщжщ'); DELETE c WHERE j IS NULL", ""),
            // a literal without N has the database's page, whatever becomes of it
            (
                "INSERT c (r) VALUES ('ж'); SELECT r FROM c WHERE j IS NULL; DELETE c WHERE j IS \
                NULL",
                "'?'",
            ),
            ("UPDATE c SET r = d, d = r; SELECT r, d FROM c", "'??' | '???'"),
            ("UPDATE c SET r = u; SELECT r FROM c", "'жщ'"),
            (
                "INSERT c (r, u) SELECT r, r FROM c; SELECT r, u FROM c WHERE j IS NULL",
                "'жщ' | 'жщ'",
            ),
            ("UPDATE c SET r += N'я' WHERE j IS NULL; SELECT r FROM c WHERE j IS NULL", "'жщя'"),
            (
                "SELECT CAST(N'жé' COLLATE Cyrillic_General_CI_AS AS varchar(5)), CAST(N'жé' AS \
                varchar(5)), CAST(N'жé' COLLATE Cyrillic_General_CI_AS AS varchar(1))",
                "'ж?' | '?é' | 'ж'",
            ),
            (
                "SELECT 'é' COLLATE Cyrillic_General_CI_AS, r + 'é' FROM c WHERE j IS NULL",
                "'?' | 'жщя?'",
            ),
            ("SELECT r FROM c WHERE r = N'ЖЩ'", "'жщ'"),
            ("ALTER TABLE c ALTER COLUMN r varchar(4)", ""),
            ("SELECT r FROM c WHERE j IS NOT NULL", "'??'"),
        ],
    );
}

#[test]
fn ascii_is_a_byte_of_the_code_page() {
    check(&[
        ("SELECT ASCII(CAST(N'П' COLLATE Cyrillic_General_CI_AS AS varchar(9)))", "207"),
        ("SELECT ASCII(N'é'), ASCII('é'), ASCII(N'П')", "233 | 233 | 63"),
    ]);
}

#[test]
fn a_key_of_group_by_under_collate_is_not_its_column() {
    let server = Server::new();
    let mut session = server.session();
    let by = "FROM t GROUP BY d COLLATE Latin1_General_CS_AS";
    all(
        &mut *session,
        &[
            (TABLE, ""),
            (
                &format!("SELECT d COLLATE latin1_general_cs_as AS k, COUNT(*) {by} ORDER BY k"),
                "'a' | 1\n'b' | 1\n'B' | 1",
            ),
            (
                &format!(
                    "SELECT UPPER(d COLLATE Latin1_General_CS_AS), MAX(d) {by} ORDER BY d COLLATE \
             Latin1_General_CS_AS"
                ),
                "'A' | 'a'\n'B' | 'b'\n'B' | 'B'",
            ),
            (&format!("SELECT COUNT(*) {by} HAVING d COLLATE Latin1_General_CS_AS = 'B'"), "1"),
            (&format!("SELECT d {by}"), "! 8120/16/1"),
            (&format!("SELECT * {by}"), "! 8120/16/1"),
            (&format!("SELECT d COLLATE Latin1_General_CI_AS {by}"), "! 8120/16/1"),
            (&format!("SELECT COUNT(*) {by} HAVING d = 'b'"), "! 8120/16/1"),
            (
                "SELECT UPPER(d COLLATE Latin1_General_CS_AS) FROM t GROUP BY d ORDER BY 1",
                "'A'\n'B'",
            ),
            (&format!("SELECT d {by}, d ORDER BY MIN(i)"), "'b'\n'B'\n'a'"),
        ],
    );
}
