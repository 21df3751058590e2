//! Errors 2601 and 2627 show the value of the key that a row would have twice.

use crate::common::{Server, rows};
use crate::constraints::{good, healthy};
use tdekit_wire_tds::Session;

/// Checks that each batch gives the error of a constraint or an index, with this key.
fn twice(session: &mut dyn Session, cases: &[(&str, &str, &str)]) {
    for (batch, place, key) in cases {
        let given = rows(session, batch);
        let text = format!("{place}. The duplicate key value is {key}.");
        let code = if place.starts_with("Cannot") { "! 2601/14/1" } else { "! 2627/14/1" };
        assert!(given.contains(code) && given.contains(&text), "{batch}: {given}");
    }
}

const ROW: &str = "Cannot insert duplicate key row in object";

fn key(kind: &str, name: &str, table: &str) -> String {
    format!(
        "Violation of {kind} constraint '{name}'. Cannot insert duplicate key in object '{table}'"
    )
}

#[test]
fn every_change_shows_the_key() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SCHEMA s", ""),
            (
                "CREATE TABLE s.t (i int CONSTRAINT p PRIMARY KEY, a int NOT NULL, b nvarchar(20) \
                 NOT NULL, n int NULL CONSTRAINT q UNIQUE, CONSTRAINT two UNIQUE (b, a))",
                "",
            ),
            ("CREATE TABLE u (i int NOT NULL, a int NULL, c int NULL, d int NULL)", ""),
            ("CREATE UNIQUE INDEX ix ON u (a DESC, c)", ""),
            ("CREATE UNIQUE INDEX part ON u (d) WHERE d > 5", ""),
            ("INSERT s.t VALUES (1, 1, 'it''s', 1), (2, 2, 'b', NULL), (3, 3, 'c', 3)", ""),
            ("INSERT u VALUES (1, 1, 1, 6), (2, NULL, 2, 7), (3, 3, NULL, 1)", ""),
        ],
    );
    let (p, q) = (key("PRIMARY KEY", "p", "s.t"), key("UNIQUE KEY", "q", "s.t"));
    let temporary = key("PRIMARY KEY", "p", "dbo.#t");
    let two = key("UNIQUE KEY", "two", "s.t");
    let ix = format!("{ROW} 'dbo.u' with unique index 'ix'");
    let part = format!("{ROW} 'dbo.u' with unique index 'part'");
    twice(
        &mut *session,
        &[
            ("INSERT s.t VALUES (4, 4, 'd', 4), (2, 5, 'e', 5), (6, 6, 'f', 6)", &p, "(2)"),
            ("INSERT s.t SELECT i + 1, a, b + 'x', 9 + i FROM s.t WHERE i = 2", &p, "(3)"),
            ("INSERT s.t OUTPUT inserted.i VALUES (7, 1, 'IT''S ', 7)", &two, "(IT'S , 1)"),
            ("INSERT s.t VALUES (8, 8, 'h', NULL)", &q, "(<NULL>)"),
            ("INSERT s.t VALUES (8, 8, 'h', 3)", &q, "(3)"),
            ("UPDATE s.t SET i = 3 WHERE i = 1", &p, "(3)"),
            ("UPDATE x SET n = y.n FROM s.t x JOIN s.t y ON y.i = x.i + 1", &q, "(<NULL>)"),
            ("UPDATE s.t SET a = 3, b = 'c' WHERE i = 1", &two, "(c, 3)"),
            ("DECLARE @v int; UPDATE s.t SET @v = n = 3 WHERE i = 2", &q, "(3)"),
            (
                "MERGE s.t t USING (VALUES (2, 3), (9, 1)) v (i, n) ON t.i = v.i WHEN MATCHED THEN \
                 UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT VALUES (v.i, 9, 'i', v.n);",
                &q,
                "(3)",
            ),
            (
                "INSERT s.t EXEC ('SELECT 9, 9, ''i'', 9 UNION ALL SELECT 1, 1, ''j'', 10')",
                &p,
                "(1)",
            ),
            (
                "EXEC sp_executesql N'INSERT s.t VALUES (@i, 1, @b, 10)', N'@i int, @b nchar(3)', \
                 3, 'x'",
                &p,
                "(3)",
            ),
            ("INSERT u VALUES (4, NULL, 2, 0)", &ix, "(<NULL>, 2)"),
            ("INSERT u VALUES (4, 1, 1, 0)", &ix, "(1, 1)"),
            ("UPDATE u SET d = 7", &part, "(7)"),
            (
                "CREATE TABLE #t (i int, CONSTRAINT p PRIMARY KEY (i)); INSERT #t VALUES (1), (1)",
                &temporary,
                "(1)",
            ),
        ],
    );
    let found = rows(
        &mut *session,
        "BEGIN TRAN; INSERT u VALUES (5, 5, 5, 5); BEGIN TRY INSERT s.t VALUES (1, 9, 'x', 9) END \
         TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_MESSAGE() END CATCH; COMMIT; SELECT COUNT(*) \
         FROM u; SELECT COUNT(*) FROM s.t",
    );
    assert!(found.contains(&format!("2627 | '{p}")), "{found}");
    assert!(found.contains("value is (1).'") && found.ends_with("4\n3"), "{found}");
    healthy(&server);
}

#[test]
fn values_are_shown_by_their_type() {
    let server = Server::new();
    let mut session = server.session();
    for (ty, value, shown) in [
        ("bit", "1", "1"),
        ("bigint", "-9000000000", "-9000000000"),
        ("decimal(30, 4)", "1.5", "1.5000"),
        ("char(4)", "'ab'", "ab  "),
        ("nvarchar(9)", "N'Ω (x)'", "Ω (x)"),
        ("money", "1.5", "1.50"),
        ("datetime2(0)", "'2024-02-29 13:05'", "2024-02-29 13:05:00"),
        ("date", "'20240229'", "2024-02-29"),
        ("datetime", "'2024-02-29 13:05'", "Feb 29 2024  1:05PM"),
        (
            "uniqueidentifier",
            "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
            "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        ),
    ] {
        let batch = format!(
            "CREATE TABLE #t (a {ty} NOT NULL UNIQUE); INSERT #t VALUES ({value}), ({value})"
        );
        let found = rows(&mut *session, &batch);
        let shown = format!("The duplicate key value is ({shown}).");
        assert!(found.contains(&shown), "{ty}: {found}");
        rows(&mut *session, "DROP TABLE #t");
    }
}

#[test]
fn a_refused_change_takes_its_numbers_once() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SEQUENCE s AS int START WITH 1", ""),
            (
                "CREATE TABLE t (i int IDENTITY PRIMARY KEY, n int NOT NULL UNIQUE, v rowversion)",
                "",
            ),
            ("CREATE TABLE w (n int)", ""),
            ("INSERT t (n) VALUES (1), (2), (5)", ""),
            ("CREATE TRIGGER g ON t AFTER INSERT AS INSERT w SELECT n FROM inserted", ""),
            ("DBCC CHECKIDENT (t, RESEED, 1) WITH NO_INFOMSGS", ""),
        ],
    );
    let found = rows(&mut *session, "INSERT t (n) VALUES (8), (9)");
    assert!(found.contains("duplicate key value is (2)."), "{found}");
    rows(&mut *session, "DBCC CHECKIDENT (t, RESEED, 3) WITH NO_INFOMSGS");
    let found = rows(
        &mut *session,
        "INSERT t (n) SELECT NEXT VALUE FOR s + 2 FROM (VALUES (1), (2), (3)) x (y)",
    );
    assert!(found.contains("duplicate key value is (5)."), "{found}");
    good(
        &mut *session,
        &[
            ("SELECT NEXT VALUE FOR s", "4"),
            ("INSERT t (n) VALUES (10); SELECT @@IDENTITY", "4"),
            ("SELECT n FROM w", "10"),
        ],
    );
    healthy(&server);
}

#[test]
fn a_key_that_a_cascade_changes_is_not_guessed() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE p (i int PRIMARY KEY)", ""),
            (
                "CREATE TABLE c (i int NULL REFERENCES p (i) ON UPDATE CASCADE, k int NOT NULL, \
                 UNIQUE (k))",
                "",
            ),
            ("CREATE UNIQUE INDEX x ON c (i) WHERE i > 10", ""),
            ("INSERT p VALUES (1), (2); INSERT c VALUES (1, 1), (1, 2)", ""),
            (
                "CREATE TABLE d (i int NULL REFERENCES p (i) ON UPDATE CASCADE, n int NULL, \
                 CONSTRAINT y UNIQUE (i, n))",
                "",
            ),
            (
                "INSERT p VALUES (5), (7); INSERT d VALUES (5, NULL), (7, NULL); ALTER TABLE d \
                 NOCHECK CONSTRAINT ALL; UPDATE d SET i = 6 WHERE i = 7; ALTER TABLE d CHECK \
                 CONSTRAINT ALL",
                "",
            ),
        ],
    );
    for change in ["UPDATE p SET i = 20 WHERE i = 1", "UPDATE p SET i = 6 WHERE i = 5"] {
        let found = rows(&mut *session, change);
        assert!(found.starts_with("! 2") && !found.contains("value is"), "{found}");
    }
}

/// With the second run's triggers SQLite chooses all rows before it changes the first: it then
/// meets rows at which the change itself never was.
#[test]
fn rows_behind_the_refused_one_do_not_hide_its_key() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (k int NOT NULL CONSTRAINT q UNIQUE, a int NULL)", ""),
            (
                "CREATE TABLE u (i int, s varchar(9)); INSERT u VALUES (1, '1'), (2, '2'), (3, \
                 'x')",
                "",
            ),
            ("CREATE SEQUENCE n MINVALUE 1 MAXVALUE 2", ""),
            (
                "CREATE TABLE w (k int NOT NULL CONSTRAINT r UNIQUE, n int DEFAULT NEXT VALUE FOR \
                 n)",
                "",
            ),
            ("INSERT t VALUES (100, 0), (301, 1), (302, 2), (303, 3)", ""),
        ],
    );
    let (q, r) = (key("UNIQUE KEY", "q", "dbo.t"), key("UNIQUE KEY", "r", "dbo.w"));
    twice(
        &mut *session,
        &[
            ("INSERT t (k) SELECT 200 + 0 * (10 / (3 - i)) FROM u", &q, "(200)"),
            ("INSERT t (k) SELECT 98 + i + 0 * CAST(s AS int) FROM u", &q, "(100)"),
            ("UPDATE t SET k = 100 WHERE a > 0 AND 10 / (3 - a) > 0", &q, "(100)"),
            ("INSERT w (k) SELECT 5 FROM u", &r, "(5)"),
        ],
    );
    // what the change itself meets is its error
    let found = rows(&mut *session, "INSERT t (k) SELECT 400 + 10 / (3 - i) FROM u");
    assert!(found.starts_with("! 8134/16/1"), "{found}");
    let found = rows(&mut *session, "SELECT 10 / (3 - i) FROM u");
    assert!(found.ends_with("Divide by zero error encountered."), "{found}");
    healthy(&server);
}
