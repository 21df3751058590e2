//! JSON functions, OPENJSON and FOR JSON: values and errors as SQL Server gives them.

use crate::common::{Server, rows, run};

/// One value of a SELECT without FROM.
fn value(session: &mut dyn tdekit_wire_tds::Session, expression: &str) -> String {
    rows(session, &format!("SELECT {expression}"))
}

#[test]
fn scalars_come_as_they_are_written() {
    let server = Server::new();
    let mut session = server.session();
    for (expression, expected) in [
        ("JSON_VALUE('{\"a\":1.10}', '$.a')", "'1.10'"),
        ("JSON_VALUE('{\"a\":12345678901234567890.50}', '$.a')", "'12345678901234567890.50'"),
        ("JSON_VALUE('{\"a\":1e5}', '$.a')", "'1e5'"),
        ("JSON_VALUE('{\"a\":{\"b\":[1,\"x\\u0041\\n\"]}}', '$.a.b[1]')", "'xA\n'"),
        ("JSON_VALUE('{\"a\":true}', '$.a')", "'true'"),
        ("JSON_VALUE('{\"a\":null}', 'strict $.a')", "NULL"),
        ("JSON_VALUE('{\"a\":[1]}', '$.a')", "NULL"),
        ("JSON_VALUE('{\"a\":1}', '$.A')", "NULL"),
        ("JSON_VALUE(NULL, '$.a')", "NULL"),
        ("JSON_VALUE('{\"a\":1}', NULL)", "NULL"),
        ("JSON_VALUE('{\"\":\"x\"}', '$.\"\"')", "'x'"),
        (
            "LEN(JSON_VALUE('[\"' + REPLICATE(CAST('x' AS varchar(max)), 4000) + '\"]', '$[0]'))",
            "4000",
        ),
        ("JSON_VALUE('[\"' + REPLICATE(CAST('x' AS varchar(max)), 4001) + '\"]', '$[0]')", "NULL"),
        ("JSON_QUERY(' {\"a\" : [1, 2.50]} ')", "'{\"a\" : [1, 2.50]}'"),
        ("JSON_QUERY('{\"a\" : [1, 2.50]}', '$.a')", "'[1, 2.50]'"),
        ("JSON_QUERY('{\"a\":1}', '$.a')", "NULL"),
        ("ISJSON('{\"a\":1} ')", "1"),
        ("ISJSON('[1')", "0"),
        ("ISJSON('1')", "0"),
        ("ISJSON(NULL)", "NULL"),
        ("JSON_MODIFY('{\"a\":1.10}', '$.b', 'x/y\"')", "'{\"a\":1.10,\"b\":\"x\\/y\\\"\"}'"),
        ("JSON_MODIFY('{\"a\":1}', '$.a', CAST(1 AS bit))", "'{\"a\":true}'"),
        ("JSON_MODIFY('{\"a\":1}', '$.a', 1.50)", "'{\"a\":1.50}'"),
        ("JSON_MODIFY('{\"a\":1}', '$.a', '[1]')", "'{\"a\":\"[1]\"}'"),
        ("JSON_MODIFY('{\"a\":1}', '$.a', JSON_QUERY('[1]'))", "'{\"a\":[1]}'"),
        ("JSON_MODIFY('{\"a\":1,\"b\":2}', '$.a', NULL)", "'{\"b\":2}'"),
        ("JSON_MODIFY('{\"t\":[\"x\"]}', 'append $.t', 'y')", "'{\"t\":[\"x\",\"y\"]}'"),
        ("JSON_MODIFY('{\"a\":1}', '$.a', (SELECT 2 AS b FOR JSON PATH))", "'{\"a\":[{\"b\":2}]}'"),
    ] {
        assert_eq!(value(&mut *session, expression), expected, "{expression}");
    }
    let batch = "DECLARE @p nvarchar(20) = N'$.b'; CREATE TABLE #j (j nvarchar(max)); \
                 INSERT #j VALUES (N'{\"b\":\"1\"}'), (N'{\"b\":\"2\"}'), (N'{}'); \
                 UPDATE #j SET j = JSON_MODIFY(j, @p, JSON_VALUE(j, @p) + 'x') \
                 WHERE JSON_VALUE(j, @p) > '1'; SELECT j FROM #j ORDER BY JSON_VALUE(j, '$.b')";
    assert_eq!(rows(&mut *session, batch), "'{}'\n'{\"b\":\"1\"}'\n'{\"b\":\"2x\"}'");
}

#[test]
fn errors_have_their_numbers_and_places() {
    let server = Server::new();
    let mut session = server.session();
    for (batch, number, part) in [
        ("SELECT JSON_VALUE('{\"a\":1}', 'strict $.b')", 13608, "Property cannot be found"),
        ("SELECT JSON_VALUE('{x}', '$.b')", 13609, "character 'x' is found at position 1."),
        ("SELECT JSON_VALUE('{}', '$.a b')", 13607, "character 'b' is found at position 4."),
        ("SELECT JSON_VALUE('{\"a\":[1]}', 'strict $.a')", 13623, "Scalar value"),
        ("SELECT JSON_QUERY('{\"a\":1}', 'strict $.a')", 13624, "Object or array"),
        ("SELECT JSON_MODIFY('{}', '$', 1)", 13619, "Unsupported JSON path"),
        ("SELECT JSON_MODIFY('{\"a\":1}', 'append strict $.a', 1)", 13621, "Array cannot"),
        ("SELECT JSON_MODIFY('{}', '$.a', 0x01)", 8116, "json_modify"),
        ("SELECT JSON_VALUE('{}')", 174, "json_value"),
        ("SELECT * FROM OPENJSON('{\"a\":1}', 'strict $.a')", 13611, "cannot be opened"),
        ("SELECT * FROM OPENJSON('{\"a\":1}', 'strict $.b')", 13608, "Property"),
        ("SELECT * FROM OPENJSON('not json')", 13609, "character 'n' is found at position 0."),
        ("SELECT * FROM OPENJSON('[{}]') WITH (a int 'strict $.a')", 13608, "Property"),
        ("SELECT * FROM OPENJSON('[{\"a\":1}]') WITH (a int AS JSON)", 13618, "AS JSON"),
        ("SELECT * FROM OPENJSON('[{\"a\":1}]') WITH (a text)", 13614, "TEXT"),
        ("SELECT * FROM OPENJSON('[{\"a\":\"x\"}]') WITH (a int)", 245, "'x' to data type int"),
        ("SELECT * FROM OPENJSON('[\"*\"]') WITH (a varbinary(9) '$')", 13612, "Base64"),
        ("SELECT * FROM OPENJSON('[\"AQID\"]') WITH (a varbinary(2) '$')", 13613, "truncated"),
        ("SELECT 1 AS a FOR JSON AUTO", 13600, "at least one table"),
        ("SELECT 1 AS a, 2 AS a FOR JSON PATH", 13601, "Property 'a'"),
        ("SELECT 1 AS a, 2 AS [a.b] FOR JSON PATH", 13601, "Property 'a.b'"),
        ("SELECT 1 AS [a.b], 2 AS a FOR JSON PATH", 13601, "Property 'a'"),
        ("SELECT 1 AS [x.a], 2 AS y, 3 AS [x.b] FOR JSON PATH", 13601, "Property 'x.b'"),
        ("SELECT 1 AS [x..a] FOR JSON PATH", 13603, "Property 'x..a'"),
        ("SELECT 1 FOR JSON PATH", 13605, "without names"),
        ("SELECT 1 AS a FOR JSON PATH, ROOT, WITHOUT_ARRAY_WRAPPER", 13620, "ROOT option"),
        ("SELECT 1 AS a INTO #x FOR JSON PATH", 13602, "SELECT INTO"),
        ("SELECT 1 FOR JSON RAW", 102, "RAW"),
    ] {
        let found = rows(&mut *session, batch);
        assert!(found.starts_with(&format!("! {number}/")), "{batch}: {found}");
        assert!(found.contains(part), "{batch}: {found}");
    }
}

#[test]
fn members_are_rows() {
    let server = Server::new();
    let mut session = server.session();
    for (batch, expected) in [
        (
            "SELECT * FROM OPENJSON('{\"a\":1.10,\"b\":\"x\",\"c\":null,\"d\":true,\"e\":[1, 2],\
             \"f\":{\"g\":1}}')",
            "'a' | '1.10' | 2\n'b' | 'x' | 1\n'c' | NULL | 0\n'd' | 'true' | 3\n\
             'e' | '[1, 2]' | 4\n'f' | '{\"g\":1}' | 5",
        ),
        (
            "SELECT [key], value FROM OPENJSON('[\"x\", 7]') ORDER BY [key] DESC",
            "'1' | '7'\n'0' | 'x'",
        ),
        ("SELECT value FROM OPENJSON('{\"a\":{\"b\":[5,6]}}', '$.a.b')", "'5'\n'6'"),
        ("SELECT * FROM OPENJSON('{\"a\":1}', '$.b')", ""),
        ("SELECT COUNT(*) FROM OPENJSON(NULL)", "0"),
        ("SELECT [key] FROM OPENJSON('{\"a\":1}extra')", "'a'"),
        (
            "SELECT * FROM OPENJSON('[{\"id\":1,\"n\":{\"x\":\"p\"}},{\"id\":2,\"t\":[1]}]') WITH \
             (id int, x nvarchar(10) '$.n.x', t nvarchar(max) AS JSON) AS j ORDER BY j.id DESC",
            "2 | NULL | '[1]'\n1 | 'p' | NULL",
        ),
        (
            "SELECT i, f, d, w, CAST(b AS int), CONVERT(varchar(20), v, 1), CONVERT(varchar(30), \
             t, 126), s, CAST(g AS varchar(36)) FROM OPENJSON('{\"i\":1,\"f\":1.5,\"d\":2.50,\
             \"w\":1.2,\"b\":true,\"v\":\"AQI=\",\"t\":\"2020-01-02T03:04:05\",\
             \"s\":\"abcdef\",\"g\":\"12345678-1234-1234-1234-1234567890AB\"}') WITH (i bigint, \
             f float, d decimal(10,2), w decimal(38,4), b bit, v varbinary(8), t datetime2(0), \
             s varchar(3), g uniqueidentifier)",
            "1 | 1.5 | 2.50 | 1.2000 | 1 | '0x0102' | '2020-01-02T03:04:05' | NULL | \
             '12345678-1234-1234-1234-1234567890AB'",
        ),
        ("SELECT v FROM OPENJSON('[1, null, 3]') WITH (v int '$')", "1\nNULL\n3"),
        ("SELECT c FROM OPENJSON('{\"c\":{\"x\":1}}') WITH (c nvarchar(max))", "NULL"),
        (
            "CREATE TABLE t (id int, j nvarchar(max)); INSERT t VALUES (1, '[10,20]'), (2, '[]'), \
             (3, '{\"k\":[{\"q\":1},{\"q\":2}]}'); SELECT t.id, x.value FROM t CROSS APPLY \
             OPENJSON(t.j) AS x WHERE t.id < 3",
            "1 | '10'\n1 | '20'",
        ),
        (
            "SELECT t.id, y.q FROM t OUTER APPLY OPENJSON(t.j) AS x OUTER APPLY \
             OPENJSON(CASE WHEN t.id = 3 THEN x.value END) WITH (q int) AS y ORDER BY t.id, y.q",
            "1 | NULL\n1 | NULL\n2 | NULL\n3 | 1\n3 | 2",
        ),
        (
            "SELECT id, (SELECT SUM(v) FROM OPENJSON(t.j) WITH (v int '$')) FROM t WHERE id < 3",
            "1 | 30\n2 | NULL",
        ),
        (
            "SELECT id FROM t WHERE 20 IN (SELECT v FROM OPENJSON(t.j) WITH (v int '$')) AND id<3",
            "1",
        ),
        ("SELECT v INTO #v FROM OPENJSON('[1]') WITH (v int '$'); SELECT * FROM #v", "1"),
    ] {
        assert_eq!(rows(&mut *session, batch), expected, "{batch}");
    }
}

/// A document of FOR JSON, put together from its rows.
fn document(session: &mut dyn tdekit_wire_tds::Session, batch: &str) -> String {
    let found = rows(session, batch);
    found.lines().map(|line| line.trim_matches('\'')).collect()
}

/// Three tables, of which `c` and `g` name rows of `p`.
fn family(session: &mut dyn tdekit_wire_tds::Session) {
    run(
        session,
        "CREATE TABLE p (id int, nm nvarchar(20)); CREATE TABLE c (id int, pid int, cnm \
         nvarchar(20)); CREATE TABLE g (id int, pid int, gnm nvarchar(20)); INSERT p VALUES \
         (1,'alpha'),(2,'beta'),(3,'gamma'),(4,'alpha'); INSERT c VALUES \
         (10,1,'a1'),(11,1,'a2'),(12,2,'b1'),(13,4,'d1'); INSERT g VALUES \
         (100,1,'g1'),(101,1,'g2')",
    );
}

#[test]
fn rows_are_objects() {
    let server = Server::new();
    let mut session = server.session();
    family(&mut *session);
    for (batch, expected) in [
        (
            "SELECT id, nm FROM p WHERE id < 3 ORDER BY id DESC FOR JSON PATH",
            r#"[{"id":2,"nm":"beta"},{"id":1,"nm":"alpha"}]"#,
        ),
        (
            "SELECT id AS [x.id], nm AS [x.y.n], 1 AS z FROM p WHERE id = 1 FOR JSON PATH",
            r#"[{"x":{"id":1,"y":{"n":"alpha"}},"z":1}]"#,
        ),
        ("SELECT id FROM p WHERE id = 1 FOR JSON PATH, ROOT", r#"{"root":[{"id":1}]}"#),
        ("SELECT id FROM p WHERE id = 1 FOR JSON PATH, ROOT('')", r#"{"":[{"id":1}]}"#),
        ("SELECT id FROM p WHERE id > 3 FOR JSON PATH, WITHOUT_ARRAY_WRAPPER", r#"{"id":4}"#),
        ("SELECT NULL AS a, NULL AS b FOR JSON PATH", "[{}]"),
        (
            "SELECT 1 AS a, NULL AS [b.c] FOR JSON PATH, INCLUDE_NULL_VALUES",
            r#"[{"a":1,"b":{"c":null}}]"#,
        ),
        ("SELECT 1 AS a, NULL AS [b.c] FOR JSON PATH", r#"[{"a":1}]"#),
        ("SELECT id FROM p WHERE id = 9 FOR JSON PATH", ""),
        ("SELECT id AS [x.y] FROM p WHERE id = 1 FOR JSON AUTO", r#"[{"x.y":1}]"#),
        (
            "SELECT CAST(5 AS bigint) AS bi, CAST(1.5 AS decimal(10,2)) AS d, CAST(12.34 AS money) \
             AS m, CAST(1.5 AS float) AS f, CAST(1.5 AS real) AS r, CAST(0 AS float) AS z, \
             CAST(1 AS bit) AS b FOR JSON PATH",
            concat!(
                r#"[{"bi":5,"d":1.50,"m":12.3400,"f":1.500000000000000e+000,"#,
                r#""r":1.5000000e+000,"z":0.000000000000000e+000,"b":true}]"#,
            ),
        ),
        (
            "SELECT CAST('2020-01-02' AS date) AS d, CAST('2020-01-02 03:04:05.1234567' AS \
             datetime2(7)) AS e, CAST('2020-01-02 03:04:05' AS datetime2(7)) AS z, \
             CAST('03:04:05.1234567' AS time) AS t, CAST('2020-01-02 03:04:05.1234567 +05:30' AS \
             datetimeoffset) AS o, CAST('2020-01-02 03:04:05.100' AS datetime) AS dt, \
             CAST('2020-01-02 03:04:00' AS smalldatetime) AS s FOR JSON PATH",
            concat!(
                r#"[{"d":"2020-01-02","e":"2020-01-02T03:04:05.1234567","#,
                r#""z":"2020-01-02T03:04:05","t":"03:04:05.1234567","#,
                r#""o":"2020-01-02T03:04:05.1234567+05:30","#,
                r#""dt":"2020-01-02T03:04:05.100","s":"2020-01-02T03:04:00"}]"#,
            ),
        ),
        (
            "SELECT CAST('12345678-1234-1234-1234-1234567890AB' AS uniqueidentifier) AS g, \
             0x0102FF AS b, N'a/b\"c\\é' + NCHAR(9) + NCHAR(1) AS s FOR JSON PATH",
            concat!(
                r#"[{"g":"12345678-1234-1234-1234-1234567890AB","b":"AQL\/","#,
                r#""s":"a\/b\"c\\é\t\u0001"}]"#,
            ),
        ),
        (
            "SELECT id, JSON_QUERY('[1,2]') AS a, (SELECT cnm FROM c WHERE pid = p.id ORDER BY id \
             FOR JSON PATH) AS k, (SELECT 1 AS x FOR JSON PATH, WITHOUT_ARRAY_WRAPPER) AS w FROM p \
             WHERE id IN (1, 3) ORDER BY id FOR JSON PATH",
            concat!(
                r#"[{"id":1,"a":[1,2],"k":[{"cnm":"a1"},{"cnm":"a2"}],"w":"{\"x\":1}"},"#,
                r#"{"id":3,"a":[1,2],"w":"{\"x\":1}"}]"#,
            ),
        ),
        ("DECLARE @j nvarchar(max) = (SELECT 1 AS a FOR JSON PATH); SELECT @j", r#"[{"a":1}]"#),
        ("SELECT j FROM (SELECT 1 AS a FOR JSON PATH) AS t (j)", r#"[{"a":1}]"#),
        ("SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a DESC FOR JSON PATH", r#"[{"a":2},{"a":1}]"#),
        ("WITH x AS (SELECT 3 AS a) SELECT * FROM x FOR JSON PATH", r#"[{"a":3}]"#),
        ("SELECT COUNT(*) AS n, MAX(id) AS m FROM p FOR JSON PATH", r#"[{"n":4,"m":4}]"#),
    ] {
        assert_eq!(document(&mut *session, batch), expected, "{batch}");
    }
}

#[test]
fn auto_nests_by_table() {
    let server = Server::new();
    let mut session = server.session();
    family(&mut *session);
    for (batch, expected) in [
        (
            "SELECT p.id, p.nm, c.id, c.cnm FROM p JOIN c ON c.pid = p.id ORDER BY p.id, c.id FOR \
             JSON AUTO",
            concat!(
                r#"[{"id":1,"nm":"alpha","c":[{"id":10,"cnm":"a1"},{"id":11,"#,
                r#""cnm":"a2"}]},{"id":2,"nm":"beta","c":[{"id":12,"cnm":"b1"}]},{"id":4,"#,
                r#""nm":"alpha","c":[{"id":13,"cnm":"d1"}]}]"#,
            ),
        ),
        (
            "SELECT q.id, x.cnm, q.nm + 'X' AS calc FROM p AS q JOIN c AS x ON x.pid = q.id WHERE \
             q.id < 3 ORDER BY q.id, x.id FOR JSON AUTO",
            concat!(
                r#"[{"id":1,"x":[{"cnm":"a1","calc":"alphaX"},{"cnm":"a2","#,
                r#""calc":"alphaX"}]},{"id":2,"x":[{"cnm":"b1","calc":"betaX"}]}]"#,
            ),
        ),
        (
            "SELECT p.id, c.cnm, g.gnm FROM p JOIN c ON c.pid = p.id JOIN g ON g.pid = p.id ORDER \
             BY p.id, c.id, g.id FOR JSON AUTO",
            concat!(
                r#"[{"id":1,"c":[{"cnm":"a1","g":[{"gnm":"g1"},{"gnm":"g2"}]},"#,
                r#"{"cnm":"a2","g":[{"gnm":"g1"},{"gnm":"g2"}]}]}]"#,
            ),
        ),
        (
            "SELECT p.id, c.cnm FROM p LEFT JOIN c ON c.pid = p.id WHERE p.id > 2 ORDER BY p.id \
             FOR JSON AUTO",
            r#"[{"id":3,"c":[{}]},{"id":4,"c":[{"cnm":"d1"}]}]"#,
        ),
        (
            "SELECT p.id, c.cnm FROM p JOIN c ON c.pid = p.id WHERE p.id = 2 FOR JSON AUTO, \
             ROOT('r'), INCLUDE_NULL_VALUES",
            r#"{"r":[{"id":2,"c":[{"cnm":"b1"}]}]}"#,
        ),
    ] {
        assert_eq!(document(&mut *session, batch), expected, "{batch}");
    }
}

/// Clients put the rows together; SQL Server sends 2,033 characters in each.
#[test]
fn a_long_document_is_sent_in_rows() {
    let server = Server::new();
    let mut session = server.session();
    let batch = "SELECT REPLICATE('ä', 3000) AS a FOR JSON PATH";
    let lengths: Vec<usize> =
        rows(&mut *session, batch).lines().map(|line| line.chars().count() - 2).collect();
    assert_eq!(lengths, [2033, 3000 + "[{\"a\":\"\"}]".len() - 2033]);
    let batch = "SELECT LEN((SELECT REPLICATE('a', 3000) AS a FOR JSON PATH))";
    assert_eq!(rows(&mut *session, batch), "3010");
}

#[test]
fn a_check_takes_isjson() {
    let server = Server::new();
    let mut session = server.session();
    run(
        &mut *session,
        "CREATE TABLE d (id int PRIMARY KEY, doc nvarchar(max) CHECK (ISJSON(doc) = 1)); \
         INSERT d VALUES (1, '{\"a\":1}'), (2, NULL)",
    );
    for bad in ["not json", "1", "[1", "{a:1}"] {
        let batch = format!("INSERT d VALUES (3, '{bad}')");
        let found = rows(&mut *session, &batch);
        assert!(found.starts_with("! 547/"), "{bad}: {found}");
    }
    assert_eq!(rows(&mut *session, "SELECT COUNT(*) FROM d"), "2");
}
