//! Deep and wide statements end with a result or an error: no stack overflows, and nothing grows
//! without bounds.

use crate::common::{Server, rows};

/// Returns a core inside of this many pairs of text.
fn nested(times: usize, open: &str, core: &str, close: &str) -> String {
    format!("{}{core}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn depth_is_answered() {
    let server = Server::new();
    let mut session = server.session();
    let shapes: [(&str, &str, &str, &str); 16] = [
        ("SELECT ", "(", "1", ")"),
        ("SELECT ", "-", "(1)", ""),
        ("SELECT ", "CASE WHEN 1 = 1 THEN ", "1", " END"),
        ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 WHEN 2 THEN 2 END"),
        ("SELECT ", "(SELECT ", "1", ")"),
        ("SELECT ", "ISNULL(", "1", ", 2)"),
        ("SELECT ", "CAST(", "1", " AS int)"),
        ("SELECT 1 WHERE ", "NOT ", "1 = 1", ""),
        ("SELECT 1 WHERE ", "(", "1 = 1", ")"),
        ("SELECT 1 WHERE ", "CASE WHEN ", "1 BETWEEN 0 AND 1", " THEN 1 END BETWEEN 0 AND 1"),
        ("SELECT 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "1 = 1", ")"),
        ("SELECT * FROM ", "(SELECT * FROM ", "(SELECT 1 AS a) AS t", ") AS t"),
        ("SELECT * FROM ", "(", "sys.schemas", " CROSS JOIN sys.schemas)"),
        ("", "BEGIN ", "SELECT 1", " END"),
        ("", "IF 1 = 1 ", "SELECT 1", ""),
        ("", "BEGIN TRY ", "SELECT 1", " END TRY BEGIN CATCH SELECT 2 END CATCH"),
    ];
    for (before, open, core, close) in shapes {
        for times in [1, 5, 15, 40, 100, 3000] {
            let text = format!("{before}{}", nested(times, open, core, close));
            let found = rows(&mut *session, &text);
            if times <= 5 {
                assert!(!found.contains("! 191/"), "{times} of {open}: {found}");
            }
            if times >= 100 {
                let bounded = ["! 191/", "! 102/", "! 156/", "! 8631/", "! 1011/", "! 4145/"];
                assert!(
                    bounded.iter().any(|code| found.starts_with(code)),
                    "{times} of {open}: {}",
                    found.chars().take(200).collect::<String>()
                );
            }
        }
    }
    assert_eq!(rows(&mut *session, "SELECT 1"), "1");
}

#[test]
fn broken_texts_take_no_longer_than_whole_ones() {
    let server = Server::new();
    let mut session = server.session();
    // parsers that try alternatives one after the other double their work with each level
    for (open, tail) in [
        ("(SELECT 1 FROM ", "("),
        ("((SELECT 1 FROM ", "x y z"),
        ("(", ")"),
        ("(t JOIN ", "(u"),
        ("((SELECT 1) UNION (SELECT 1 FROM ", ""),
    ] {
        let text = format!("SELECT * FROM {}{tail}", open.repeat(60));
        let found = rows(&mut *session, &text);
        assert!(found.starts_with("! "), "{open}: {found}");
    }
}

#[test]
fn width_is_answered() {
    let server = Server::new();
    let mut session = server.session();
    let many = |text: &str, count: usize, between: &str| vec![text; count].join(between);
    let found =
        rows(&mut *session, &format!("SELECT COUNT(*) WHERE 5 IN ({})", many("5", 5000, ",")));
    assert_eq!(found, "1");
    let found = rows(&mut *session, &format!("SELECT 1 WHERE {}", many("1 = 1", 5000, " AND ")));
    assert_eq!(found, "1");
    let values = many("(1, 'x')", 3000, ",");
    let found = rows(&mut *session, &format!("SELECT COUNT(*) FROM (VALUES {values}) t(a, b)"));
    assert!(found == "3000" || found.starts_with("! "), "{found}");
    let found = rows(&mut *session, &format!("SELECT {}", many("'a'", 150, " + ")));
    assert_eq!(found, format!("'{}'", "a".repeat(150)));
    let found =
        rows(&mut *session, &format!("SET NOCOUNT ON {} SELECT 2", "PRINT 'x' ".repeat(3000)));
    assert!(found.ends_with("\n2"));
    let columns: Vec<String> = (0..1024).map(|at| format!("c{at} int")).collect();
    let found = rows(
        &mut *session,
        &format!("CREATE TABLE #w ({}); SELECT COUNT(*) FROM #w", columns.join(",")),
    );
    assert_eq!(found, "0");
    let tables = many("sys.schemas", 300, " CROSS JOIN ");
    let mut number = 0;
    let tables: String = tables
        .split(" CROSS JOIN ")
        .map(|table| {
            number += 1;
            format!("{table} t{number}")
        })
        .collect::<Vec<_>>()
        .join(", ");
    let found = rows(&mut *session, &format!("SELECT COUNT(*) FROM {tables}"));
    assert!(found.starts_with("! 4414/"), "{found}");
}

#[test]
fn views_of_views_and_procedures_of_procedures_end() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE VIEW v0 AS SELECT 1 AS a");
    let mut last = String::new();
    for level in 1..20 {
        let below = level - 1;
        last = rows(
            &mut *session,
            &format!("CREATE VIEW v{level} AS SELECT x.a FROM v{below} x CROSS JOIN v{below} y"),
        );
        if !last.is_empty() {
            break;
        }
    }
    assert!(last.starts_with("! 4414/"), "{last}");
    rows(&mut *session, "CREATE PROCEDURE again @n int AS SET @n += 1; EXEC again @n");
    assert!(rows(&mut *session, "EXEC again 0").contains("! 217/16/1"));
    let itself = "DECLARE @s nvarchar(max) = N'EXEC sp_executesql @s, N''@s nvarchar(max)'', @s'; \
        EXEC sp_executesql @s, N'@s nvarchar(max)', @s";
    assert!(rows(&mut *session, itself).contains("! 217/16/1"));
    assert_eq!(rows(&mut *session, "SELECT 1"), "1");
}

/// Returns the item of a list at a position.
type Item<'a> = &'a dyn Fn(usize) -> String;

#[test]
fn lists_longer_than_what_sqlite_takes_as_parameters_work() {
    let server = Server::new();
    let mut session = server.session();
    let list = |count: usize, item: Item<'_>| (0..count).map(item).collect::<Vec<_>>().join(",");
    rows(&mut *session, "CREATE TABLE w (i int, f float, s nvarchar(20), b varbinary(8), d date)");
    rows(
        &mut *session,
        "INSERT w VALUES (39999, 39999.5e0, N'it''s 39999', 0x9C3F, '2026-01-02'), \
        (7, 0.1e0, N'x', 0x01, NULL)",
    );
    let cases: [(&str, Item<'_>, &str); 5] = [
        ("i IN", &|i| i.to_string(), "2"),
        ("f IN", &|i| format!("{i}.5e0"), "1"),
        ("s IN", &|i| format!("N'it''s {i}'"), "1"),
        // 0x01 is 0x0100, too
        ("b IN", &|i| format!("0x{i:04X}"), "2"),
        ("i NOT IN", &|i| i.to_string(), "0"),
    ];
    for (condition, item, expected) in cases {
        let text = format!("SELECT COUNT(*) FROM w WHERE {condition} ({})", list(40_000, item));
        assert_eq!(rows(&mut *session, &text), expected, "{condition}");
    }
    // A variable is one parameter, however often it is used.
    let text = format!(
        "DECLARE @x int = 7; SELECT COUNT(*) FROM w WHERE i IN ({})",
        list(40_000, &|_| "@x".to_owned())
    );
    assert_eq!(rows(&mut *session, &text), "1");
    assert_eq!(rows(&mut *session, "SELECT 1"), "1");
}

#[test]
fn inserts_of_a_thousand_rows_of_any_width_work_and_no_more() {
    let server = Server::new();
    let mut session = server.session();
    let columns: Vec<String> = (0..40)
        .map(|at| format!("c{at} {}", ["int", "float", "nvarchar(30)", "decimal(10,2)"][at % 4]))
        .collect();
    rows(&mut *session, &format!("CREATE TABLE wide ({})", columns.join(", ")));
    let row = |row: usize| {
        let values: Vec<String> = (0..40)
            .map(|at| match at % 4 {
                0 => format!("{}", row * 40 + at),
                1 => format!("{row}.25e0"),
                2 => format!("N'row {row} of {at}'"),
                _ => format!("{row}.{at:02}"),
            })
            .collect();
        format!("({})", values.join(","))
    };
    let insert = |count: usize| {
        format!("INSERT wide VALUES {}", (0..count).map(row).collect::<Vec<_>>().join(","))
    };
    assert_eq!(rows(&mut *session, &insert(1000)), "");
    let sums = "SELECT COUNT(*), SUM(c36), SUM(c37), MAX(c38), SUM(c39) FROM wide";
    let found = rows(&mut *session, sums);
    assert_eq!(found, "1000 | 20016000 | 499750.0 | 'row 999 of 38' | 499890.00");
    assert!(rows(&mut *session, &insert(1001)).starts_with("! 10738/15/"));
    assert!(rows(&mut *session, sums).starts_with("1000 |"));
}

/// SQLite joins up to 500 queries at once.
#[test]
fn thousands_of_queries_are_joined_by_union_all() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (a int, b varchar(10)); INSERT t VALUES (0, 'qq')");
    for count in [200, 201, 500, 501, 1000, 4000] {
        let one = |at: usize| match at % 2 {
            0 => format!("SELECT {at} AS n, 'q{at}' AS t"),
            _ => format!("SELECT a + {at}, b FROM t WHERE a = 0"),
        };
        let union = (1..=count).map(one).collect::<Vec<_>>().join(" UNION ALL ");
        let query = format!("SELECT COUNT(*), SUM(n), MIN(t) FROM ({union}) AS u (n, t)");
        let expected = format!("{count} | {} | 'q10'", count * (count + 1) / 2);
        assert_eq!(rows(&mut *session, &query), expected);
        let found = rows(&mut *session, &format!("{union} ORDER BY 1"));
        let numbers: Vec<&str> =
            found.lines().filter_map(|line| line.split(" | ").next()).collect();
        let expected: Vec<String> = (1..=count).map(|at| at.to_string()).collect();
        assert_eq!(numbers, expected);
    }
    rows(&mut *session, "CREATE VIEW w0 AS SELECT a FROM t");
    let twice = |at: usize| {
        format!("CREATE VIEW w{at} AS SELECT a FROM w{0} UNION ALL SELECT a FROM w{0}", at - 1)
    };
    let found: Vec<String> = (1..9).map(|at| rows(&mut *session, &twice(at))).collect();
    assert!(found[6].is_empty() && found[7].starts_with("! 4414/"), "{found:?}");
    // other operators between them keep their order
    let many = vec!["SELECT 1"; 300].join(" UNION ALL ");
    let mixed = format!("SELECT 2 UNION ALL {many} EXCEPT SELECT 2 UNION ALL {many}");
    let found = rows(&mut *session, &format!("SELECT COUNT(*) FROM ({mixed}) AS u (n)"));
    assert_eq!(found, "301");
    let recursive = format!(
        "WITH r (n) AS ({many} UNION ALL SELECT n + 1 FROM r WHERE n < 3)
         SELECT n, COUNT(*) FROM r GROUP BY n ORDER BY n"
    );
    assert_eq!(rows(&mut *session, &recursive), "1 | 300\n2 | 300\n3 | 300");
    let found = rows(&mut *session, &vec!["SELECT 1"; 4001].join(" UNION ALL "));
    assert!(found.starts_with("! 191/15/"), "{found}");
}
