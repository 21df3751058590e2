//! Indexes that include columns beside their key.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};
use tdekit_wire_tds::Session;

const COLUMNS: &str = "SELECT i.name, c.name, ic.index_column_id, ic.key_ordinal,
    ic.is_descending_key, ic.is_included_column
    FROM sys.indexes i JOIN sys.index_columns ic
    ON ic.object_id = i.object_id AND ic.index_id = i.index_id JOIN sys.columns c
    ON c.object_id = ic.object_id AND c.column_id = ic.column_id
    WHERE i.object_id = OBJECT_ID('t') ORDER BY i.name, ic.index_column_id";

#[test]
fn included_columns_are_in_the_catalog_and_are_no_key() {
    let server = Server::new();
    let mut session = server.session();
    let shown = "'f' | 'a' | 1 | 1 | 0 | 0\n'f' | 'd' | 2 | 0 | 0 | 1\n\
        'i' | 'b' | 1 | 1 | 1 | 0\n'i' | 'c' | 2 | 0 | 0 | 1\n'i' | 'd' | 3 | 0 | 0 | 1\n\
        'u' | 'a' | 1 | 1 | 0 | 0\n'u' | 'c' | 2 | 0 | 0 | 1";
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int, b int, c int, d nvarchar(max), e int)", ""),
            ("CREATE INDEX i ON t (B DESC) INCLUDE (C, d)", ""),
            ("CREATE UNIQUE INDEX u ON t (a) INCLUDE (c)", ""),
            ("CREATE INDEX f ON t (a) INCLUDE (d) WHERE e > 5", ""),
            (COLUMNS, shown),
            ("SELECT name, filter_definition FROM sys.indexes WHERE name = 'f'", "'f' | '(e > 5)'"),
            (
                "EXEC sp_helpindex 't'",
                "'f' | 'nonclustered located on PRIMARY' | 'a'\n\
                 'i' | 'nonclustered located on PRIMARY' | 'b(-)'\n\
                 'u' | 'nonclustered, unique located on PRIMARY' | 'a'\nstatus 0",
            ),
            ("INSERT t (a, b, c) VALUES (1, 1, 1), (2, 1, 1)", ""),
            ("INSERT t (a, b, c, e) VALUES (NULL, NULL, 1, 6)", ""),
        ],
    );
    let keys = rows(&mut *session, "EXEC sp_statistics 't'");
    assert!(keys.contains("'b'") && !keys.contains("'c'") && !keys.contains("'d'"), "{keys}");
    // another value of an included column does not make a key another one
    bad(
        &mut *session,
        &[
            ("INSERT t (a, c) VALUES (1, 2)", "2601/14/1"),
            ("INSERT t (a, c) VALUES (NULL, 2)", "2601/14/1"),
        ],
    );
    healthy(&server);
}

#[test]
fn included_columns_exist_once_and_stay() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[("CREATE TABLE t (a int NOT NULL, b int, c varchar(5), d AS a + 1, e int)", "")],
    );
    bad(
        &mut *session,
        &[
            ("CREATE INDEX i ON t (a) INCLUDE (x)", "1911/16/1"),
            ("CREATE INDEX i ON t (x)", "1911/16/1"),
            ("CREATE INDEX i ON t (a) INCLUDE (b, A)", "1909/16/1"),
            ("CREATE INDEX i ON t (a) INCLUDE (b, B)", "1909/16/1"),
            ("CREATE INDEX i ON t (a) INCLUDE (d)", "40512/16/1"),
            ("CREATE UNIQUE INDEX i ON t (a) INCLUDE (x)", "1911/16/1"),
        ],
    );
    good(&mut *session, &[("CREATE INDEX i ON t (a) INCLUDE (b, c)", "")]);
    good(&mut *session, &[("CREATE UNIQUE INDEX u ON t (a) INCLUDE (c)", "")]);
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t DROP COLUMN b", "5074/16/1 4922/16/9"),
            ("ALTER TABLE t DROP COLUMN c", "5074/16/1 5074/16/1 4922/16/9"),
            ("ALTER TABLE t ALTER COLUMN b bigint", "5074/16/1 4922/16/9"),
        ],
    );
    let renamed = rows(&mut *session, "EXEC sp_rename 't.c', 'new c', 'COLUMN'");
    assert!(renamed.contains("15477"), "{renamed}");
    let shown = "'i' | 'a' | 1 | 1 | 0 | 0\n'i' | 'b' | 2 | 0 | 0 | 1\n\
        'i' | 'new c' | 3 | 0 | 0 | 1\n'u' | 'a' | 1 | 1 | 0 | 0\n'u' | 'new c' | 2 | 0 | 0 | 1";
    good(
        &mut *session,
        &[
            (COLUMNS, shown),
            ("ALTER TABLE t ALTER COLUMN [new c] varchar(9)", ""),
            ("ALTER TABLE t ALTER COLUMN e nvarchar(9)", ""),
            ("ALTER TABLE t ADD f int NOT NULL DEFAULT 1, CONSTRAINT k PRIMARY KEY (a)", ""),
            ("ALTER TABLE t DROP CONSTRAINT k", ""),
            ("ALTER INDEX i ON t REBUILD", ""),
            (COLUMNS, shown),
            ("DROP INDEX u ON t; DROP INDEX i ON t; ALTER TABLE t DROP COLUMN b", ""),
            ("CREATE INDEX i ON t (a)", ""),
            (COLUMNS, "'i' | 'a' | 1 | 1 | 0 | 0"),
        ],
    );
    healthy(&server);
}

#[test]
fn an_index_with_the_columns_of_a_key_is_not_named_in_its_place() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int NOT NULL, b int NOT NULL, CONSTRAINT k UNIQUE (a, b))", ""),
            ("CREATE INDEX i ON t (a) INCLUDE (b); CREATE INDEX j ON t (a, b)", ""),
            ("INSERT t VALUES (1, 2)", ""),
        ],
    );
    let found = rows(&mut *session, "INSERT t VALUES (1, 2)");
    assert!(found.starts_with("! 2627/14/1") && found.contains("'k'"), "{found}");
    healthy(&server);
}

/// Returns the pages that the query of all such rows asks for.
fn pages(session: &mut dyn Session, mark: &str) -> i64 {
    let query = format!("SELECT SUM(b) FROM t WHERE a BETWEEN 100 AND 1999 -- {mark}");
    assert_eq!(rows(session, &query), "13300");
    let sql = format!(
        "SELECT s.total_logical_reads FROM sys.dm_exec_query_stats AS s
         CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS x WHERE x.text LIKE '%-- {mark}'"
    );
    rows(session, &sql).parse().unwrap()
}

#[test]
fn a_query_of_included_columns_does_not_read_the_table() {
    let server = Server::new();
    let mut session = server.session();
    let made = "SET NOCOUNT ON; CREATE TABLE t (id int PRIMARY KEY, a int, b int, c char(200));
        WITH n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT i INTO #n FROM n;
        INSERT t SELECT a.i * 50 + b.i, (a.i * 50 + b.i) * 37 % 5000, 7, 'x'
            FROM #n AS a JOIN #n AS b ON b.i < 50;
        CREATE INDEX i ON t (a)";
    assert_eq!(rows(&mut *session, made), "");
    let bare = pages(&mut *session, "bare");
    let made = "DROP INDEX i ON t; CREATE INDEX i ON t (a) INCLUDE (b)";
    assert_eq!(rows(&mut *session, made), "");
    let covered = pages(&mut *session, "covered");
    assert!(covered * 5 < bare, "{covered} pages, {bare} without the column in the index");
    healthy(&server);
}
