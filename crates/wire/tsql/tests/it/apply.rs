//! CROSS APPLY and OUTER APPLY of queries and VALUES.

use crate::common::Server;
use crate::permissions::all;

const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, a int NULL, b int NULL, s varchar(5) \
NULL); \
    INSERT t VALUES (1, 5, 7, 'x'), (2, NULL, 8, 'Y'), (3, 1, 1, NULL); CREATE TABLE u (tid \
    int, n int, d date); \
    INSERT u VALUES (1, 10, '2024-01-03'), (1, 30, '2024-01-01'), (1, 20, '2024-01-02'), (3, 5, \
    NULL)";

const QUERIES: &[(&str, &str)] = &[
    (TABLES, ""),
    (
        "SELECT t.id, x.n, CONVERT(varchar(10), x.d, 23) FROM t CROSS APPLY (SELECT TOP (2) \
        u.n, u.d FROM u WHERE \
            u.tid = t.id ORDER BY u.n DESC) AS x \
              ORDER BY t.id, x.n",
        "1 | 20 | '2024-01-02'\n1 | 30 | '2024-01-01'\n3 | 5 | NULL",
    ),
    (
        "SELECT t.id, x.n FROM t OUTER APPLY (SELECT TOP 1 n FROM u WHERE tid = id ORDER \
            BY n) AS x ORDER BY 1",
        "1 | 10\n2 | \
              NULL\n3 | 5",
    ),
    (
        "SELECT id, x.c, x.m FROM t CROSS APPLY (SELECT COUNT(*) AS c, MAX(n) AS m FROM u \
            WHERE tid = t.id) AS x ORDER BY id",
        "1 | 3 | 30\n2 | 0 | NULL\n3 | 1 | 5",
    ),
    (
        "SELECT id, x.both FROM t CROSS APPLY (SELECT t.a + t.b AS both) AS x ORDER BY \
            id",
        "1 | 12\n2 | NULL\n3 | 2",
    ),
    (
        "SELECT y.z FROM t CROSS APPLY (SELECT a * 2 AS y) AS x CROSS APPLY (SELECT x.y + \
            id AS z) AS y ORDER BY 1",
        "NULL\n5\n11",
    ),
    (
        "SELECT id, x.v FROM t CROSS APPLY (SELECT a AS v WHERE a > 1 UNION ALL SELECT b) \
            AS x ORDER BY 1, 2",
        "1 | 5\n1 | 7\n2 | \
              8\n3 | 1",
    ),
    (
        "SELECT id, x.n FROM t CROSS APPLY (SELECT DISTINCT tid AS n FROM u WHERE tid = \
            id) AS x ORDER BY 1",
        "1 | 1\n3 | 3",
    ),
    (
        "SELECT id, x.r FROM t CROSS APPLY (SELECT n, ROW_NUMBER() OVER (ORDER BY n DESC) \
            AS r FROM u WHERE tid = t.id) AS x WHERE \
              x.n = 10",
        "1 | 3",
    ),
    (
        "SELECT id, q FROM t CROSS APPLY (SELECT x.n FROM (SELECT n FROM u WHERE tid = \
            t.id) AS x WHERE x.n > t.a) AS y (q) ORDER BY \
              q",
        "3 | 5\n1 | 10\n1 | 20\n1 | 30",
    ),
    (
        "SELECT id, x.s FROM t CROSS APPLY (SELECT UPPER(t.s) AS s) AS x WHERE x.s = \
            'y'",
        "2 | 'Y'",
    ),
    (
        "SELECT id, (SELECT SUM(x.n) FROM (SELECT 1 AS k) AS k CROSS APPLY (SELECT n FROM \
            u WHERE tid = t.id) AS x) FROM t ORDER BY id",
        "1 | 60\n2 | NULL\n3 | 5",
    ),
    // nothing of the left side: a join
    ("SELECT COUNT(*) FROM t CROSS APPLY (SELECT n FROM u) AS x", "12"),
    ("SELECT COUNT(*) FROM t OUTER APPLY (SELECT n FROM u WHERE n > 99) AS x", "3"),
    ("SELECT COUNT(*) FROM t CROSS APPLY u", "12"),
    (
        "SELECT COUNT(*) FROM t CROSS APPLY (SELECT n FROM u WHERE tid = t.id) AS x JOIN u \
            ON u.n = x.n",
        "4",
    ),
    (
        "SELECT COUNT(*) FROM t LEFT JOIN u ON u.tid = t.id OUTER APPLY (SELECT u.n AS m \
            WHERE u.n > 10) AS x WHERE x.m IS NULL",
        "3",
    ),
    (
        "SELECT t.id, x.m FROM u RIGHT JOIN t ON u.tid = t.id AND u.n = 10 CROSS APPLY \
            (SELECT u.n AS m) AS x ORDER BY 1",
        "1 | 10\n2 \
              | NULL\n3 | NULL",
    ),
    (
        "SELECT j.[key], x.v FROM t CROSS APPLY OPENJSON('[1,2]') AS j CROSS APPLY (SELECT \
            t.a + j.value AS v) AS x WHERE t.id = 1",
        "'0' \
              | 6\n'1' | 7",
    ),
    (
        "UPDATE t SET b = x.m FROM t CROSS APPLY (SELECT MAX(n) AS m FROM u WHERE tid = \
            t.id) AS x WHERE x.m > 0; SELECT id, b FROM t \
              ORDER BY id",
        "1 | 30\n2 | 8\n3 | 5",
    ),
    // an error of a row is the statement's
    (
        "SELECT x.v FROM t CROSS APPLY (SELECT 1 / (id - 2) AS v) AS x",
        "-1\n! 8134/16/1 line 1: Divide by zero error encountered.",
    ),
];

#[test]
fn queries_see_the_tables_before_them() {
    let server = Server::new();
    let mut session = server.session();
    all(&mut *session, QUERIES);
}

#[test]
fn values_see_the_tables_before_them() {
    let server = Server::new();
    let mut session = server.session();
    all(
        &mut *session,
        &[
            (TABLES, ""),
            (
                "SELECT id, v.n, v.x FROM t CROSS APPLY (VALUES ('a', a), ('b', b)) AS v (n, x) \
            ORDER BY 1, 2",
                "1 | 'a' | 5\n1 | 'b' | \
              7\n2 | 'a' | NULL\n2 | 'b' | 8\n3 | 'a' | 1\n3 | 'b' | 1",
            ),
            (
                "SELECT id, m.x FROM t CROSS APPLY (SELECT MAX(v.x) AS x FROM (VALUES (t.a), \
            (t.b)) AS v (x)) AS m ORDER BY 1",
                "1 | 7\n2 | \
              8\n3 | 1",
            ),
            ("SELECT COUNT(*) FROM t CROSS APPLY (VALUES (1), (2)) AS v (x)", "6"),
            (
                "SELECT (SELECT MAX(v.x) FROM (VALUES (t.a), (t.b)) AS v (x)) FROM t ORDER BY id",
                "7\n8\n1",
            ),
            (
                "SELECT id, v.x FROM t OUTER APPLY (VALUES (s)) AS v (x) WHERE v.x = 'X'",
                "1 | \
            'x'",
            ),
        ],
    );
}

/// A query that names no column of the tables before it has no limit of columns.
#[test]
fn a_view_and_a_computed_column_see_no_other_table() {
    let server = Server::new();
    let mut session = server.session();
    let wide: Vec<String> = (0..101).map(|at| format!("n + {at} AS c{at}")).collect();
    let view = format!("CREATE VIEW wide AS SELECT {} FROM u", wide.join(", "));
    let columns: Vec<String> = (0..101).map(|at| format!("c{at} AS n + {at}")).collect();
    let table = format!("CREATE TABLE w (n int, {}); INSERT w VALUES (4)", columns.join(", "));
    all(
        &mut *session,
        &[
            (TABLES, ""),
            (&view, ""),
            (&table, ""),
            ("SELECT SUM(x.c100) FROM t CROSS APPLY (SELECT * FROM wide) AS x", "1395"),
            ("SELECT SUM(x.c100) FROM t CROSS APPLY (SELECT * FROM w) AS x", "312"),
        ][..],
    );
}

#[test]
fn what_cannot_be_told_is_refused() {
    let server = Server::new();
    let mut session = server.session();
    let wide: Vec<String> = (0..101).map(|at| format!("t.a AS c{at}")).collect();
    let wide = format!("SELECT * FROM t CROSS APPLY (SELECT {}) AS x", wide.join(", "));
    all(
        &mut *session,
        &[
            (TABLES, ""),
            ("SELECT COUNT(*) FROM t CROSS APPLY (SELECT t.a) AS x", "3"),
            ("SELECT * FROM t CROSS APPLY (SELECT t.a + 1) AS x", "! 8155/16/2"),
            ("SELECT * FROM t CROSS APPLY (SELECT SUM(t.a) AS s FROM u) AS x", "! 40512/"),
            ("SELECT * FROM t CROSS APPLY (SELECT n FROM u ORDER BY n) AS x", "! 1033/15/1"),
            ("SELECT * FROM t CROSS APPLY (SELECT x.a) AS x", "! 4104/16/1"),
            ("SELECT * FROM t JOIN (SELECT t.a) AS x ON 1 = 1", "! 4104/16/1"),
            ("SELECT * FROM t, u CROSS APPLY (SELECT t.a AS y) AS x", "! 4104/16/1"),
            (
                "SELECT * FROM t LEFT JOIN (u CROSS APPLY (SELECT t.a AS y) AS x) ON 1 = 1",
                "! \
            4104/16/1",
            ),
            ("SELECT * FROM t CROSS APPLY (t AS a JOIN u AS b ON 1 = 1)", "! 40517/"),
            (&wide, "! 40512/"),
        ][..],
    );
}
