//! UPDATE and DELETE of a common table expression change the one table behind it.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};
use tdekit_wire_tds::Session;

fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (id int IDENTITY PRIMARY KEY, k varchar(9), n int, d AS n * 2)", ""),
            ("CREATE TABLE u (k varchar(9), f int)", ""),
            ("INSERT t (k, n) VALUES ('a', 1), ('a', 2), ('b', 3), ('A', 4), ('c', 5)", ""),
            ("INSERT u VALUES ('a', 10), ('b', 20)", ""),
        ],
    );
    session
}

const ALL: &str = "SELECT id, k, n FROM t ORDER BY id";

#[test]
fn duplicates_are_deleted() {
    let server = Server::new();
    let mut session = made(&server);
    let ranked = "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS rn FROM t";
    let delete = format!("WITH c AS ({ranked}) DELETE FROM c WHERE rn > 1; SELECT @@ROWCOUNT");
    assert_eq!(rows(&mut *session, &delete), "2");
    assert_eq!(rows(&mut *session, ALL), "3 | 'b' | 3\n4 | 'A' | 4\n5 | 'c' | 5");
    let delete = format!("WITH c (x, y) AS ({ranked}) DELETE x FROM c AS x JOIN u ON u.k = x.x");
    good(&mut *session, &[(&delete, ""), (ALL, "5 | 'c' | 5")]);
    healthy(&server);
}

#[test]
fn rows_are_updated() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            (
                "WITH c AS (SELECT id, n, ROW_NUMBER() OVER (ORDER BY id DESC) AS rn FROM t) \
                 UPDATE c SET n = rn * 10 WHERE rn < 3",
                "",
            ),
            (ALL, "1 | 'a' | 1\n2 | 'a' | 2\n3 | 'b' | 3\n4 | 'A' | 20\n5 | 'c' | 10"),
            // a name of its own, a compound assignment, a join, another expression beside it
            (
                "WITH f AS (SELECT k, f FROM u), c (what, m) AS (SELECT k, n FROM t WHERE id < 4) \
                 UPDATE c SET m += f.f, what = 'z' FROM c JOIN f ON f.k = c.what",
                "",
            ),
            (ALL, "1 | 'z' | 11\n2 | 'z' | 12\n3 | 'z' | 23\n4 | 'A' | 20\n5 | 'c' | 10"),
            ("WITH c AS (SELECT TOP (2) n FROM t ORDER BY n) UPDATE c SET n = DEFAULT", ""),
            (
                "WITH t2 AS (SELECT * FROM t) UPDATE TOP (1) t2 SET k = 'y' WHERE n IS NULL; \
                 SELECT COUNT(*) FROM t WHERE k = 'y'",
                "1",
            ),
        ],
    );
    good(&mut *session, &[("SELECT COUNT(*) FROM t WHERE n IS NULL", "2")]);
    healthy(&server);
}

#[test]
fn output_and_variables_see_its_rows() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            (
                "WITH c AS (SELECT TOP (1) n, id FROM t WITH (READPAST) ORDER BY n DESC) DELETE \
                 FROM c OUTPUT deleted.*, deleted.id + 1",
                "5 | 5 | 6",
            ),
            (
                "WITH c AS (SELECT TOP (1) id, k, n FROM t ORDER BY id) UPDATE c SET n = 9 OUTPUT \
                 inserted.*, deleted.n",
                "1 | 'a' | 9 | 1",
            ),
            (
                "DECLARE @v int; WITH c AS (SELECT n AS m FROM t WHERE id = 2) UPDATE c SET @v = m \
                 = m + 5; SELECT @v, n FROM t WHERE id = 2",
                "7 | 7",
            ),
            (
                "DECLARE @o TABLE (i int); WITH c AS (SELECT id FROM t) DELETE c OUTPUT deleted.id \
                 INTO @o WHERE id > 2; SELECT i FROM @o ORDER BY i",
                "3\n4",
            ),
            (
                "CREATE TABLE #w (a int); INSERT #w VALUES (1), (1), (2); WITH c AS (SELECT a, \
              COUNT(*) OVER (PARTITION BY a) AS s FROM #w) DELETE c WHERE s > 1; SELECT a FROM #w",
                "2",
            ),
            (
                "DECLARE @w TABLE (a int); INSERT @w VALUES (1), (2); WITH c AS (SELECT a FROM @w) \
              UPDATE c SET a = a * 3; SELECT a FROM @w",
                "3\n6",
            ),
        ],
    );
}

#[test]
fn triggers_fire_and_rights_are_those_of_the_table() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            (
                "CREATE TRIGGER g ON t AFTER UPDATE AS IF UPDATE(n) AND NOT UPDATE(k) INSERT u \
                 SELECT 'g', n FROM inserted",
                "",
            ),
            ("WITH c (m) AS (SELECT n FROM t WHERE id = 1) UPDATE c SET m = 50", ""),
            ("SELECT f FROM u WHERE k = 'g'", "50"),
            ("CREATE USER ann FOR LOGIN ann; GRANT SELECT ON t TO ann", ""),
            ("CREATE USER bob FOR LOGIN bob; GRANT UPDATE ON t TO bob", ""),
        ],
    );
    bad(
        &mut *session,
        &[("WITH c AS (SELECT n FROM t) UPDATE c SET n = 1 OUTPUT inserted.n", "334/16/1")],
    );
    good(&mut *session, &[("CREATE TRIGGER i ON t INSTEAD OF DELETE AS SELECT 1", "")]);
    bad(&mut *session, &[("WITH c AS (SELECT n FROM t) DELETE c", "40512/16/1")]);
    for login in ["ann", "bob"] {
        let mut session = server.session_of(login, "app").unwrap();
        bad(
            &mut *session,
            &[("WITH c AS (SELECT n FROM t WHERE id = 1) UPDATE c SET n = 1", "229/14/5")],
        );
    }
}

#[test]
fn other_queries_are_refused() {
    let server = Server::new();
    let mut session = made(&server);
    good(&mut *session, &[("CREATE VIEW v AS SELECT k, n FROM t", "")]);
    let c = |query: &str, change: &str| format!("WITH c AS ({query}) {change}");
    let delete = |query: &str| c(query, "DELETE FROM c");
    for (batch, code) in [
        (delete("SELECT t.k FROM t JOIN u ON u.k = t.k"), "4405/16/1"),
        (c("SELECT t.k FROM t, u", "UPDATE c SET k = 'x'"), "4405/16/1"),
        (delete("SELECT DISTINCT k FROM t"), "4403/16/1"),
        (delete("SELECT k FROM t GROUP BY k"), "4403/16/1"),
        (delete("SELECT MAX(n) AS m FROM t"), "4403/16/1"),
        (delete("SELECT k FROM t UNION ALL SELECT k FROM u"), "4426/16/1"),
        (delete("SELECT 1 AS a"), "40512/16/1"),
        (delete("SELECT k FROM v"), "40512/16/1"),
        (delete("SELECT name FROM sys.tables"), "40512/16/1"),
        (c("SELECT k FROM t), b AS (SELECT k FROM c", "DELETE FROM b"), "40512/16/1"),
        (c("SELECT n + 1 AS m FROM t", "UPDATE c SET m = 1"), "4406/16/1"),
        (c("SELECT d FROM t", "UPDATE c SET d = 1"), "4406/16/1"),
        (c("SELECT k FROM t", "UPDATE c SET n = 1"), "207/16/1"),
        (c("SELECT id FROM t", "UPDATE c SET id = 1"), "8102/16/1"),
        (c("SELECT n AS m FROM t", "DELETE c OUTPUT deleted.m"), "40512/16/1"),
    ] {
        bad(&mut *session, &[(&batch, code)]);
    }
    good(&mut *session, &[("SELECT COUNT(*) FROM t", "5")]);
}

/// SQLite calls a row's number `rowid`, unless a column has this name.
#[test]
fn a_column_may_be_named_as_the_number_of_a_row() {
    let server = Server::new();
    let mut session = server.session();
    for name in ["rowid", "RowId", "oid"] {
        let fill = format!(
            "CREATE TABLE r (id int PRIMARY KEY, {name} int, a varchar(5)); \
             INSERT r VALUES (1, 5, 'a'), (2, 5, 'b'), (3, 6, 'c'), (4, NULL, 'd')"
        );
        let all = "SELECT id, a FROM r ORDER BY id";
        let fold = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM r";
        good(
            &mut *session,
            &[
                (&fill, ""),
                (&format!("WITH c AS ({fold}) DELETE FROM c WHERE n = 2; SELECT @@ROWCOUNT"), "1"),
                ("INSERT r VALUES (2, 5, 'b')", ""),
                ("UPDATE TOP (1) r SET a = 'x' WHERE id < 3; SELECT @@ROWCOUNT", "1"),
                ("UPDATE r SET a = 'y' OUTPUT inserted.id WHERE id = 2", "2"),
                ("UPDATE x SET a = 'z' FROM r x JOIN (SELECT 4 AS k) y ON y.k = x.id", ""),
                (
                    "MERGE r USING (SELECT 1 AS k) s ON s.k = r.id WHEN MATCHED THEN DELETE \
                     ; SELECT @@ROWCOUNT",
                    "1",
                ),
                (all, "2 | 'y'\n3 | 'c'\n4 | 'z'"),
                ("DELETE TOP (1) FROM r; SELECT COUNT(*) FROM r", "2"),
                ("ALTER TABLE r ADD v int NOT NULL DEFAULT 7", ""),
                ("ALTER TABLE r ALTER COLUMN a varchar(9)", ""),
                (all, "3 | 'c'\n4 | 'z'"),
                ("SELECT SUM(v) FROM r", "14"),
                ("DROP TABLE r", ""),
            ],
        );
    }
    bad(&mut *session, &[("CREATE TABLE r (_RowId_ int)", "40517/16/1")]);
    bad(&mut *session, &[("SELECT 1 AS _rowid_ INTO r", "40517/16/1")]);
    healthy(&server);
}
