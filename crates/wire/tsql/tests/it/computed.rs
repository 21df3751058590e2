//! Computed columns, and `rowversion`.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};

#[test]
fn a_computed_column_follows_its_row() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a int, total AS a * qty, qty int
                 NOT NULL
                 DEFAULT 2, label AS 'n' + CAST(a AS varchar(10)) PERSISTED,
                 other AS ISNULL(a, -1))",
                "",
            ),
            ("INSERT t VALUES (5, DEFAULT), (NULL, 3); INSERT t (a, qty) SELECT 7, 10", ""),
            ("SELECT * FROM t", "1 | 5 | 10 | 2 | 'n5' | 5\n2 | NULL | NULL | 3 | NULL | -1\n3 | \
             7 | 70 | 10 | 'n7' | 7"),
            ("UPDATE t SET a = 6 OUTPUT deleted.total, inserted.total, inserted.label WHERE id = 1",
             "10 | 12 | 'n6'"),
            ("INSERT t (a, qty) OUTPUT inserted.* VALUES (1, 1)", "4 | 1 | 1 | 1 | 'n1' | 1"),
            ("DELETE t OUTPUT deleted.label, deleted.other WHERE total = 1", "'n1' | 1"),
            ("SELECT label FROM t WHERE total > 11 ORDER BY total DESC", "'n7'\n'n6'"),
            ("SELECT other, COUNT(*) FROM t GROUP BY other ORDER BY other", "-1 | 1\n6 | 1\n7 | 1"),
            ("SELECT SUM(total), MAX(t.label) FROM t", "82 | 'n7'"),
            // the outer side of a join has no row to compute from
            ("SELECT v.i, t.other FROM (VALUES (1), (9)) AS v (i) LEFT JOIN t ON t.id = v.i ORDER
             BY v.i",
             "1 | 6\n9 | NULL"),
            ("UPDATE t SET qty = total FROM t WHERE label = 'n6'; SELECT qty, total FROM t WHERE
             id = 1",
             "12 | 72"),
            ("ALTER TABLE t ADD twice AS (a + a); SELECT twice FROM t ORDER BY id", "12\nNULL\n14"),
            ("DECLARE @x TABLE (a int, b AS a + 1); INSERT @x VALUES (1); SELECT b FROM @x", "2"),
        ],
    );
    rows(&mut *session, "CREATE VIEW v AS SELECT id, total FROM t");
    good(
        &mut *session,
        &[
            ("SELECT total FROM v WHERE id = 3", "70"),
            (
                "SELECT c.name, m.definition, m.is_persisted, TYPE_NAME(c.system_type_id),
                 c.max_length
                 FROM sys.columns AS c JOIN sys.computed_columns AS m ON m.object_id = c.object_id
                 AND m.column_id = c.column_id WHERE c.is_computed = 1 ORDER BY c.column_id",
                "'total' | '(a * qty)' | 0 | 'int' | 4\n\
                 'label' | '('n' + CAST(a AS varchar(10)))' | 1 | 'varchar' | 11\n\
                 'other' | '(ISNULL(a, -1))' | 0 | 'int' | 4\n\
                 'twice' | '((a + a))' | 0 | 'int' | 4",
            ),
            ("SELECT COLUMNPROPERTY(OBJECT_ID('t'), 'total', 'IsComputed')", "1"),
        ],
    );
    refused(&server);
}

/// What the table of the test above refuses.
fn refused(server: &Server) {
    let mut session = server.session();
    bad(
        &mut *session,
        &[
            ("INSERT t (a, total) VALUES (1, 2)", "271/16/1"),
            ("UPDATE t SET label = 'x'", "271/16/1"),
            ("UPDATE t SET label = 'x' OUTPUT inserted.a", "271/16/1"),
            ("INSERT t VALUES (1, 2, 3)", "213/16/1"),
            ("ALTER TABLE t DROP COLUMN qty", "5074/16/1 5074/16/1 4922/16/9"),
            (
                "ALTER TABLE t ALTER COLUMN a bigint",
                "5074/16/1 5074/16/1 5074/16/1 5074/16/1 4922/16/9",
            ),
            ("ALTER TABLE t ALTER COLUMN total bigint", "4928/16/1"),
            ("EXEC sp_rename 't.a', 'b', 'COLUMN'", "15336/16/1"),
            ("CREATE TABLE x (a int, b AS a + 1, c AS b + 1)", "1759/16/0"),
            ("CREATE TABLE x (a int, b AS nix + 1)", "207/16/1"),
            ("CREATE TABLE x (a int, b AS (SELECT 1))", "1046/15/1"),
            ("CREATE TABLE x (a int DEFAULT (SELECT 1))", "1046/15/1"),
            ("DECLARE @x TABLE (a int DEFAULT (1 + (SELECT 1)))", "1046/15/1"),
            ("CREATE TABLE x (a int CHECK (a < (SELECT MAX(a) FROM t)))", "1046/15/1"),
            ("ALTER TABLE t ADD x int DEFAULT (SELECT 1)", "1046/15/1"),
            ("ALTER TABLE t ADD CONSTRAINT x DEFAULT (SELECT 1) FOR a", "1046/15/1"),
            ("ALTER TABLE t ADD CONSTRAINT x CHECK (a < ALL (SELECT a FROM t))", "1046/15/1"),
            ("ALTER TABLE t WITH NOCHECK ADD CHECK (EXISTS (SELECT 1))", "1046/15/1"),
            ("ALTER TABLE t ADD x int CHECK (x IN (SELECT a FROM t))", "1046/15/1"),
            ("CREATE TABLE x (a int, b AS GETDATE() PERSISTED)", "4936/16/1"),
            ("CREATE INDEX i ON t (total)", "40512/16/1"),
            ("ALTER TABLE t ADD CHECK (total > 0)", "40512/16/1"),
            ("ALTER TABLE t ADD UNIQUE (label)", "40512/16/1"),
            ("SELECT a FROM t WHERE total / (id - id) = 1", "8134/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            ("EXEC sp_executesql N'ALTER TABLE t DROP COLUMN twice, label'", "status 0"),
            ("SELECT COUNT(*) FROM sys.computed_columns", "2"),
            ("DROP VIEW v; DROP TABLE t; SELECT COUNT(*) FROM sys.computed_columns", "0"),
        ],
    );
    healthy(server);
}

#[test]
fn a_row_version_grows_with_each_change() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("SELECT CAST(@@DBTS AS int)", "2000"),
            ("CREATE TABLE t (a int PRIMARY KEY, v rowversion); CREATE TABLE u (timestamp, b
             int)", ""),
            ("INSERT t (a) VALUES (1), (2); INSERT u (b) SELECT a FROM t", ""),
            ("INSERT t VALUES (3, DEFAULT)", ""),
            ("SELECT a, CAST(v AS bigint) FROM t ORDER BY v", "1 | 2001\n2 | 2002\n3 | 2005"),
            ("SELECT CAST(timestamp AS int) FROM u ORDER BY b", "2003\n2004"),
            ("SELECT CAST(@@DBTS AS int)", "2005"),
            ("UPDATE t SET a = a WHERE a < 3; SELECT CAST(v AS int) FROM t ORDER BY
             a", "2006\n2007\n2005"),
            (
                "UPDATE t SET a = 10 OUTPUT CAST(deleted.v AS int), CAST(inserted.v AS int) WHERE
                 a = 3",
                "2005 | 2008",
            ),
            ("DECLARE @x int; UPDATE t SET @x = a = 11 WHERE a = 10; SELECT CAST(v AS int) FROM t
             WHERE a = 11", "2009"),
            ("UPDATE t SET a = 12 FROM t JOIN u ON u.b = 1 WHERE t.a = 11; SELECT CAST(MAX(v) AS
             int) FROM t", "2010"),
            ("BEGIN TRAN; UPDATE t SET a = 13 WHERE a = 12; ROLLBACK; SELECT CAST(@@DBTS AS int)",
             "~ begin\n~ rollback\n2010"),
            ("DECLARE @v binary(8) = @@DBTS; DELETE t WHERE a = 12 AND v = @v; SELECT
             @@ROWCOUNT", "1"),
            // rows of other sources
            ("INSERT t (a) EXEC ('SELECT 20 UNION ALL SELECT 21'); SELECT CAST(v AS int) FROM t
             WHERE a > 19 ORDER BY a",
             "2011\n2012"),
            (
                "UPDATE u SET b = b OUTPUT inserted.b + 50 INTO t (a); SELECT CAST(v AS int) FROM
                 t WHERE a > 50
                 UNION ALL SELECT CAST(timestamp AS int) FROM u ORDER BY 1",
                "2013\n2014\n2015\n2016",
            ),
            ("CREATE TABLE w (c int); INSERT w VALUES (1), (2); ALTER TABLE w ADD v timestamp", ""),
            ("SELECT CAST(v AS int) FROM w ORDER BY c", "2017\n2018"),
            ("SELECT CAST(@@DBTS AS int)", "2018"),
            (
                "CREATE TABLE #x (a int, v rowversion); INSERT #x (a) VALUES (1), (2);
                 SELECT COUNT(DISTINCT v) FROM #x",
                "2",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t VALUES (30, 0x01)", "273/16/1"),
            ("INSERT t (a, v) SELECT 30, 0x01", "273/16/1"),
            ("INSERT t VALUES (30)", "213/16/1"),
            ("UPDATE t SET v = 0x01", "272/16/1"),
            ("ALTER TABLE t ADD DEFAULT 0x01 FOR v", "40512/16/1"),
            ("CREATE TABLE x (a int, b AS a PERSISTED NOT NULL)", "40512/16/1"),
            ("ALTER TABLE t ADD v2 rowversion", "2738/16/2"),
            ("CREATE TABLE x (a rowversion, b timestamp)", "2738/16/2"),
            ("ALTER TABLE t ALTER COLUMN v int", "4928/16/1"),
            ("INSERT t (a) VALUES (20)", "2627/14/1"),
        ],
    );
    good(&mut *session, &[("INSERT t (a) OUTPUT CAST(inserted.v AS int) VALUES (40)", "2019")]);
    let mut other = server.session();
    assert_eq!(
        rows(&mut *other, "DECLARE @v binary(8); SET @v = @@DBTS; SELECT CAST(@v AS int)"),
        "2019"
    );
    healthy(&server);
}

#[test]
fn procedures_show_the_text_of_a_column_and_the_row_version() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE TABLE t (id int PRIMARY KEY, a int, total AS a * 2, v rowversion)";
    rows(&mut *session, made);
    rows(&mut *session, "CREATE VIEW seen AS SELECT id FROM t");
    let version = "NULL | 'v' | -2 | 'timestamp' | 8 | 8 | NULL | 1\nstatus 0";
    for (call, expected) in [
        ("sp_helptext 't', 'total'", "'(a * 2)'\nstatus 0"),
        ("sp_helptext @objname = 'dbo.t', @columnname = 'TOTAL'", "'(a * 2)'\nstatus 0"),
        ("sp_special_columns 't', @col_type = 'V'", version),
        ("sp_special_columns_100 N't', N'dbo', NULL, 'V', 'T', 'U', 3", version),
        (
            "sp_special_columns 't', @col_type = 'R'",
            "1 | 'id' | 4 | 'int' | 10 | 4 | 0 | 1\nstatus 0",
        ),
        ("sp_special_columns 'seen', @col_type = 'V'", "status 0"),
    ] {
        assert_eq!(rows(&mut *session, &format!("EXEC {call}")), expected, "{call}");
    }
    for (call, error) in [
        ("sp_helptext 'seen', 'id'", "! 15218/16/1 line 14: Object 'seen' is not a table."),
        ("sp_helptext 't', 'nix'", "! 15645/16/1 line 19: Column 'nix' does not exist."),
        ("sp_helptext 't', 'a'", "! 15646/16/1 line 24: Column 'a' is not a computed column."),
    ] {
        let told = rows(&mut *session, &format!("EXEC {call}"));
        assert!(told.starts_with(&error[..11]), "{call}: {told}");
        assert!(told.contains(&error[error.find(": ").unwrap()..]), "{call}: {told}");
    }
}
