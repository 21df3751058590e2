//! PIVOT and UNPIVOT.

use crate::common::check;

/// Batches behind a table of sales and a table of quarters, and their results.
fn over_tables(cases: &[(&str, &str)]) {
    const TABLES: &str = "CREATE TABLE #s (y int, q varchar(2), n int NULL); INSERT #s VALUES \
        (2023, 'q1', 5), (2023, 'Q1', 2), (2023, 'q2', 7), (2024, 'q2', NULL), (2024, 'q3', 1); \
        CREATE TABLE #u (id int, a int NULL, b int NULL, c bigint NULL); INSERT #u VALUES (1, 10, \
        NULL, 3), (2, 20, 21, NULL);";
    let cases: Vec<(String, &str)> =
        cases.iter().map(|(text, expected)| (format!("{TABLES} {text}"), *expected)).collect();
    let cases: Vec<(&str, &str)> =
        cases.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    check(&cases);
}

#[test]
fn values_become_columns() {
    over_tables(&[
        (
            "SELECT * FROM #s PIVOT (SUM(n) FOR q IN ([q1], [q2], [q4])) AS p ORDER BY y",
            "2023 | 7 | 7 | NULL\n2024 | NULL | NULL | NULL",
        ),
        (
            "SELECT p.y, [q2] + 1 AS m FROM (SELECT y, q, n FROM #s WHERE y = 2023) AS s PIVOT \
             (MAX(s.n) FOR s.q IN ([q2])) p WHERE p.[q2] > 0",
            "2023 | 8",
        ),
        (
            "SELECT [2023], [2024] FROM (SELECT y, n FROM #s) AS s PIVOT (COUNT(n) FOR y IN \
             ([2023], [2024])) AS p",
            "3 | 1",
        ),
        (
            "SELECT p.y, p.q1, r.b FROM #s PIVOT (AVG(n) FOR q IN (q1)) AS p JOIN #u AS r ON r.id \
             = p.y - 2022 ORDER BY p.y",
            "2023 | 3 | NULL\n2024 | NULL | 21",
        ),
        (
            "SELECT * FROM (SELECT s.q, s.n, u.id FROM #s AS s JOIN #u AS u ON u.id = s.y - 2022) \
             AS j PIVOT (MIN(n) FOR q IN (q1, q3)) AS p ORDER BY id",
            "1 | 2 | NULL\n2 | NULL | 1",
        ),
        (
            "WITH c AS (SELECT * FROM #s PIVOT (SUM(n) FOR q IN (q1)) AS p) SELECT SUM(q1) FROM c",
            "7",
        ),
        // the table of both is pivoted
        (
            "SELECT * FROM (SELECT id, a FROM #u) AS u CROSS JOIN (SELECT q, n FROM #s WHERE y = \
             2023) AS s PIVOT (SUM(n) FOR q IN (q2)) AS p ORDER BY id",
            "1 | 10 | 7\n2 | 20 | 7",
        ),
    ]);
}

#[test]
fn columns_become_rows() {
    over_tables(&[
        (
            "SELECT id, k, v FROM #u UNPIVOT (v FOR k IN (a, B)) AS p ORDER BY id, k",
            "1 | 'a' | 10\n2 | 'a' | 20\n2 | 'b' | 21",
        ),
        (
            "SELECT * FROM (SELECT id, a, b FROM #u) AS t UNPIVOT (v FOR k IN (a, b)) AS p ORDER \
             BY v",
            "1 | 10 | 'a'\n2 | 20 | 'a'\n2 | 21 | 'b'",
        ),
        (
            "SELECT k, a FROM (SELECT a, b FROM #u) AS t UNPIVOT (v FOR k IN (a, b)) AS p PIVOT \
             (SUM(v) FOR k IN (a)) AS r",
            "! 207/16/1",
        ),
        (
            "SELECT a, b FROM (SELECT a, b FROM #u) AS t UNPIVOT (v FOR k IN (a, b)) AS p PIVOT \
             (SUM(v) FOR k IN (a, b)) AS r",
            "30 | 21",
        ),
    ]);
}

#[test]
fn names_and_types_are_checked() {
    over_tables(&[
        ("SELECT * FROM #s PIVOT (SUM(m) FOR q IN (q1)) AS p", "! 207/16/1"),
        ("SELECT * FROM #s PIVOT (SUM(n) FOR r IN (q1)) AS p", "! 207/16/1"),
        ("SELECT * FROM #s PIVOT (SUM(n) FOR q IN (q1, q1)) AS p", "! 8156/16/1"),
        ("SELECT n FROM #s PIVOT (SUM(n) FOR q IN (q1)) AS p", "! 207/16/1"),
        (
            "SELECT * FROM #s PIVOT (SUM(n) FOR q IN (y)) AS p",
            "! 265/16/1 line 1: The column name \
          \"y\" specified in the PIVOT operator conflicts with the existing column name in the \
          PIVOT argument.",
        ),
        ("SELECT * FROM #s PIVOT (COUNT(*) FOR q IN (q1)) AS p", "! 102/15/1"),
        ("SELECT * FROM #s PIVOT (LEN(n) FOR q IN (q1)) AS p", "! 102/15/1"),
        ("SELECT * FROM #s PIVOT (STRING_AGG(n) FOR q IN (q1)) AS p", "! 102/15/1"),
        ("SELECT * FROM #s PIVOT (SUM(n) FOR q IN (q1))", "! 102/15/1"),
        (
            "SELECT * FROM #s AS a JOIN #s AS b ON 1 = 1 PIVOT (SUM(n) FOR q IN (q1)) AS p",
            "! 8156/16/1 line 1: The column 'y' was specified multiple times for 'p'.",
        ),
        (
            "SELECT * FROM #u UNPIVOT (v FOR k IN (a, c)) AS p",
            "! 8167/16/1 line 1: The type of \
          column \"c\" conflicts with the type of other columns specified in the UNPIVOT list.",
        ),
        ("SELECT * FROM #u UNPIVOT (id FOR k IN (a)) AS p", "! 265/16/1"),
        ("SELECT * FROM #u UNPIVOT (v FOR k IN (z)) AS p", "! 207/16/1"),
    ]);
}

#[test]
fn many_operators_end_with_the_bound_of_tables() {
    let round = " UNPIVOT (v FOR k IN (a, b)) AS u PIVOT (SUM(v) FOR k IN (a, b)) AS p";
    for (rounds, expected) in [(3, "1 | 2"), (20, "! 4414/16/1"), (40, "! 191/15/1")] {
        let text = format!("SELECT a, b FROM (SELECT 1 AS a, 2 AS b) AS t{}", round.repeat(rounds));
        check(&[(&text, expected)]);
    }
}
