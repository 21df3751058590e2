//! Tables that change: ALTER COLUMN, filtered indexes, `sp_rename`.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};

#[test]
fn a_column_gets_another_type_and_its_values_are_converted() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE TABLE t (a int PRIMARY KEY, b int, c nvarchar(5) CONSTRAINT dc DEFAULT 'x',
                 d varchar(20), e decimal(9, 2));
                 INSERT t VALUES (1, 7, 'one', '2026-11-28', 1.25), (2, NULL, NULL, NULL, NULL)",
                "",
            ),
            ("ALTER TABLE t ALTER COLUMN b bigint", ""),
            ("ALTER TABLE t ALTER COLUMN b nvarchar(10) NULL", ""),
            ("SELECT b, b + 'x' FROM t ORDER BY a", "'7' | '7x'\nNULL | NULL"),
            ("ALTER TABLE t ALTER COLUMN b int", ""),
            ("ALTER TABLE t ALTER COLUMN c nvarchar(max)", ""),
            ("INSERT t (a, c) VALUES (3, REPLICATE('y', 5000)), (4, DEFAULT)", ""),
            ("SELECT a, LEN(c) FROM t ORDER BY a", "1 | 3\n2 | NULL\n3 | 5000\n4 | 1"),
            ("ALTER TABLE t ALTER COLUMN d date", ""),
            ("SELECT YEAR(d), d FROM t WHERE a = 1", "2026 | Date(739947)"),
            ("ALTER TABLE t ALTER COLUMN e decimal(12, 4)", ""),
            ("SELECT e, e * 2 FROM t WHERE a = 1", "1.2500 | 2.5000"),
            (
                "SELECT name, TYPE_NAME(system_type_id), max_length, precision, scale, is_nullable
                 FROM sys.columns WHERE object_id = OBJECT_ID('t') ORDER BY column_id",
                "'a' | 'int' | 4 | 10 | 0 | 0\n'b' | 'int' | 4 | 10 | 0 | 1\n\
                 'c' | 'nvarchar' | -1 | 0 | 0 | 1\n'd' | 'date' | 3 | 10 | 0 | 1\n\
                 'e' | 'decimal' | 9 | 12 | 4 | 1",
            ),
        ],
    );
    healthy(&server);
}

#[test]
fn what_would_lose_something_is_refused_and_nothing_changes() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[(
            "CREATE TABLE t (a int PRIMARY KEY, b nvarchar(10), c int CONSTRAINT df DEFAULT 3,
             d varchar(5) NOT NULL, CONSTRAINT positive CHECK (c > 0));
             CREATE INDEX by_d ON t (d); CREATE TABLE u (a int REFERENCES t, g uniqueidentifier);
             INSERT t VALUES (1, 'word', 1, 'long'), (2, NULL, 2, 'x')",
            "",
        )],
    );
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ALTER COLUMN nix int", "4924/16/1"),
            ("ALTER TABLE t ALTER COLUMN b int", "245/16/1"),
            ("ALTER TABLE t ALTER COLUMN b nvarchar(2)", "2628/16/1"),
            ("ALTER TABLE t ALTER COLUMN b nvarchar(10) NOT NULL", "515/16/2"),
            ("ALTER TABLE t ALTER COLUMN a bigint NOT NULL", "5074/16/1 4922/16/9"),
            ("ALTER TABLE u ALTER COLUMN a bigint", "5074/16/1 4922/16/9"),
            ("ALTER TABLE u ALTER COLUMN g int", "206/16/2"),
            ("ALTER TABLE t ALTER COLUMN c bigint", "5074/16/1 5074/16/1 4922/16/9"),
            ("ALTER TABLE t ALTER COLUMN d varchar(2) NOT NULL", "5074/16/1 4922/16/9"),
            ("ALTER TABLE t ALTER COLUMN c int IDENTITY", "102/15/1"),
        ],
    );
    rows(&mut *session, "BEGIN TRAN; ALTER TABLE t ALTER COLUMN b nvarchar(30); ROLLBACK");
    bad(&mut *session, &[("INSERT t VALUES (9, REPLICATE('z', 11), 1, 'x')", "2628/16/1")]);
    good(
        &mut *session,
        &[
            ("ALTER TABLE t ALTER COLUMN d varchar(50) NOT NULL", ""),
            ("ALTER TABLE t ALTER COLUMN d varchar(50) NULL", ""),
            ("ALTER TABLE t ALTER COLUMN a int NOT NULL", ""),
            (
                "INSERT t VALUES (3, 'w', DEFAULT, NULL); SELECT b, c, d FROM t ORDER BY a",
                "'word' | 1 | 'long'\nNULL | 2 | 'x'\n'w' | 3 | NULL",
            ),
            (
                "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('t') AND index_id > 1",
                "'by_d'",
            ),
        ],
    );
    bad(&mut *session, &[("INSERT t VALUES (4, 'w', -1, 'x')", "547/16/0")]);
    healthy(&server);
}

#[test]
fn a_column_that_was_added_with_a_default_keeps_the_values_of_older_rows() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int); INSERT t VALUES (1), (2)", ""),
            ("ALTER TABLE t ADD b varchar(5) NOT NULL CONSTRAINT db DEFAULT 'old'", ""),
            ("ALTER TABLE t ALTER COLUMN b varchar(50) NOT NULL", ""),
            ("SELECT a, b FROM t ORDER BY a", "1 | 'old'\n2 | 'old'"),
            ("ALTER TABLE t DROP CONSTRAINT db; ALTER TABLE t ALTER COLUMN b nvarchar(9) NULL", ""),
            (
                "INSERT t (a) VALUES (3); SELECT a, b FROM t ORDER BY a",
                "1 | 'old'\n2 | 'old'\n3 | NULL",
            ),
        ],
    );
    healthy(&server);
}

#[test]
fn with_values_gives_older_rows_the_default() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int, CHECK (a > 1)); INSERT t VALUES (2), (3)", ""),
            (
                "ALTER TABLE t ADD b int NULL CONSTRAINT db DEFAULT 5 WITH VALUES,
                 c int NULL DEFAULT 6",
                "",
            ),
            ("ALTER TABLE t ADD d int DEFAULT NULL WITH VALUES NULL CHECK (d < 9)", ""),
            ("SELECT a, b, c, d FROM t ORDER BY a", "2 | 5 | NULL | NULL\n3 | 5 | NULL | NULL"),
            ("INSERT t (a) VALUES (4); SELECT b, c, d FROM t WHERE a = 4", "5 | 6 | NULL"),
            ("ALTER TABLE t DROP CONSTRAINT db; INSERT t (a) VALUES (5)", ""),
            ("SELECT b FROM t WHERE a = 5", "NULL"),
            // of a column that is there it changes nothing
            ("ALTER TABLE t ADD CONSTRAINT db DEFAULT 7 FOR b WITH VALUES", ""),
            ("SELECT b FROM t ORDER BY a", "5\n5\n5\nNULL"),
        ],
    );
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD e int DEFAULT 9 WITH VALUES CHECK (e < 9)", "547/16/0"),
            ("CREATE TABLE u (a int DEFAULT 5 WITH VALUES)", "156/15/1"),
        ],
    );
    healthy(&server);
}

#[test]
fn a_filtered_index_holds_the_rows_of_its_condition() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int, b nvarchar(9), c bit, d decimal(9, 2), e date)", ""),
            ("CREATE UNIQUE INDEX one ON t (a) WHERE a IS NOT NULL", ""),
            ("CREATE UNIQUE INDEX two ON t (b) WHERE c = 0 AND b <> N'x'", ""),
            ("CREATE INDEX three ON t (d) WHERE a IN (1, 2) AND b > N'm'", ""),
            ("INSERT t (a, b, c) VALUES (NULL, 'q', 1), (NULL, 'q', 1), (1, 'q', 0), (2, 'x', 0),
              (3, 'x', 0)", ""),
            ("SELECT name, has_filter, filter_definition FROM sys.indexes
              WHERE object_id = OBJECT_ID('t') AND index_id > 0 ORDER BY index_id",
             "'one' | 1 | '(a IS NOT NULL)'\n'two' | 1 | '(c = 0 AND b <> N'x')'\n\
              'three' | 1 | '(a IN (1, 2) AND b > N'm')'"),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t (a) VALUES (1)", "2601/14/1"),
            ("INSERT t (b, c) VALUES ('Q', 0)", "2601/14/1"),
            ("UPDATE t SET c = 0", "2601/14/1"),
            ("CREATE INDEX no ON t (a) WHERE a = 1 OR b = 'x'", "10735/15/1"),
            ("CREATE INDEX no ON t (a) WHERE LEN(b) = 1", "10735/15/1"),
            ("CREATE INDEX no ON t (a) WHERE nix = 1", "207/16/1"),
            ("ALTER TABLE t DROP COLUMN c", "5074/16/1 4922/16/9"),
        ],
    );
    good(
        &mut *session,
        &[
            ("DROP INDEX two ON t; UPDATE t SET c = 0; ALTER TABLE t DROP COLUMN c", ""),
            ("CREATE UNIQUE INDEX two ON t (b, a) WHERE b = 'x'", ""),
            ("INSERT t (a, b) VALUES (NULL, 'x')", ""),
        ],
    );
    bad(&mut *session, &[("INSERT t (a, b) VALUES (NULL, 'X')", "2601/14/1")]);
    healthy(&server);
}

#[test]
fn columns_tables_indexes_and_constraints_get_other_names() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[(
            "CREATE TABLE t (id int IDENTITY CONSTRAINT pk PRIMARY KEY, B int NOT NULL,
                 c int CONSTRAINT df DEFAULT 5, d int, CONSTRAINT positive CHECK (d > 0));
                 ALTER TABLE t ADD CONSTRAINT uq UNIQUE (c, B);
                 CREATE INDEX by_b ON t (B DESC);
                 CREATE TABLE u (t int CONSTRAINT fk REFERENCES t);
                 INSERT t (B, d) VALUES (1, 1); INSERT u VALUES (1)",
            "",
        )],
    );
    for renamed in [
        "'t.b', 'new b', 'COLUMN'",
        "@objname = N't.id', @newname = N'key', @objtype = 'column'",
        "'dbo.t.by_b', 'by_new', 'INDEX'",
        "'uq', 'uq2'",
        "'dbo.positive', 'over zero', 'OBJECT'",
        "'fk', 'fk2'",
        "'df', 'df2'",
        "'pk', 'pk2'",
        "'[t]', 'things'",
    ] {
        let found = rows(&mut *session, &format!("EXEC sp_rename {renamed}"));
        assert!(found.starts_with("! 15477/0/1 ") && found.ends_with("status 0"), "{found}");
    }
    good(
        &mut *session,
        &[
            (
                "INSERT things ([new b], d) VALUES (2, 1); SELECT [key], [new b], c FROM things",
                "1 | 1 | 5\n2 | 2 | 5",
            ),
            (
                "SELECT i.name, c.name FROM sys.indexes i JOIN sys.index_columns ic
                 ON ic.object_id = i.object_id AND ic.index_id = i.index_id JOIN sys.columns c
                 ON c.object_id = ic.object_id AND c.column_id = ic.column_id
                 WHERE i.object_id = OBJECT_ID('things') ORDER BY i.name, ic.key_ordinal",
                "'by_new' | 'new b'\n'pk2' | 'key'\n'uq2' | 'c'\n'uq2' | 'new b'",
            ),
            (
                "SELECT name FROM sys.objects WHERE parent_object_id = OBJECT_ID('things') OR
              parent_object_id = OBJECT_ID('u') ORDER BY name",
                "'df2'\n'fk2'\n'over zero'\n'pk2'\n'uq2'",
            ),
            (
                "EXEC sp_helpindex 'things'",
                "'by_new' | 'nonclustered located on PRIMARY' | 'new b(-)'\n\
              'pk2' | 'clustered, unique, primary key located on PRIMARY' | 'key'\n\
              'uq2' | 'nonclustered, unique, unique key located on PRIMARY' | 'c, new b'\nstatus 0",
            ),
        ],
    );
    for (statement, told) in [
        ("INSERT things ([new b], d) VALUES (9, 0)", "over zero"),
        ("INSERT things ([new b], c, d) VALUES (1, 5, 1)", "uq2"),
        ("SET IDENTITY_INSERT things ON; INSERT things ([key], [new b]) VALUES (1, 8)", "pk2"),
    ] {
        let found = rows(&mut *session, statement);
        assert!(found.contains(told), "{statement}: {found}");
    }
    bad(
        &mut *session,
        &[
            ("EXEC sp_rename 'things.nix', 'x', 'COLUMN'", "15248/11/1"),
            ("EXEC sp_rename 'things.d', 'c', 'COLUMN'", "15335/11/1"),
            ("EXEC sp_rename 'things.d', 'e', 'COLUMN'", "15336/16/1"),
            ("EXEC sp_rename 'nix', 'x'", "15225/11/1"),
            ("EXEC sp_rename 'u', 'THINGS'", "15335/11/1"),
            ("EXEC sp_rename 'things.nix', 'x', 'INDEX'", "15248/11/1"),
        ],
    );
    good(&mut *session, &[("DROP INDEX by_new ON things; DROP TABLE u; DROP TABLE things", "")]);
    healthy(&server);
}

#[test]
fn a_table_that_was_renamed_keeps_its_names_and_another_takes_its_own() {
    let server = Server::new();
    let mut session = server.session();
    let table = "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE DEFAULT 1, c int CHECK (c > 0))";
    for name in ["t_old", "t_older"] {
        good(&mut *session, &[(table, "")]);
        let heard = rows(&mut *session, &format!("EXEC sp_rename 't', '{name}'"));
        assert!(heard.contains("15477") && heard.ends_with("status 0"), "{heard}");
    }
    good(
        &mut *session,
        &[
            (table, ""),
            (
                "SELECT COUNT(*), COUNT(DISTINCT name) FROM sys.objects
                 WHERE parent_object_id <> 0",
                "12 | 12",
            ),
            (
                "INSERT t (a, c) VALUES (1, 1); INSERT t_old (a, c) VALUES (1, 1);
                 SELECT b FROM t",
                "1",
            ),
        ],
    );
    healthy(&server);
}

/// A target that FROM does not name stands beside its tables.
#[test]
fn the_target_of_a_change_need_not_stand_in_from() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int, x int);
                 INSERT t VALUES (1, 0), (2, 0), (3, 0); INSERT u VALUES (1, 10), (3, 30)",
                "",
            ),
            ("UPDATE t SET v = u.x FROM u WHERE u.id = t.id", ""),
            ("SELECT v FROM t ORDER BY id", "10\n0\n30"),
            (
                "UPDATE dbo.t SET v += y.x FROM u AS y JOIN u AS z ON z.id = y.id
                 WHERE y.id = t.id",
                "",
            ),
            ("SELECT v FROM t ORDER BY id", "20\n0\n60"),
            // An alias of the target is meant by its name, if there is no other.
            (
                "UPDATE t SET v = 7 FROM t AS k WHERE k.id = 2; SELECT v FROM t ORDER BY id",
                "20\n7\n60",
            ),
            (
                "UPDATE t SET v = v + 1 FROM u, dbo.t AS k WHERE k.id = u.id AND u.id = 3;
              SELECT v FROM t ORDER BY id",
                "20\n7\n61",
            ),
            ("DELETE t FROM u WHERE u.id = t.id AND u.x = 30", ""),
            ("DELETE FROM t FROM (VALUES (2)) AS w(n) WHERE w.n = t.id; SELECT id FROM t", "1"),
        ],
    );
    good(
        &mut *session,
        &[
            (
                "CREATE TRIGGER tg ON t AFTER UPDATE AS
                 UPDATE t SET v = i.v + 100 FROM inserted AS i WHERE i.id = t.id",
                "",
            ),
            ("UPDATE t SET v = 5; SELECT v FROM t", "105"),
        ],
    );
    bad(
        &mut *session,
        &[("UPDATE t SET v = 1 FROM t AS a JOIN t AS b ON a.id = b.id", "40517/16/1")],
    );
    healthy(&server);
}

/// SQLite gives the integers that exact numbers are stored as as floating-point numbers, once the
/// column is one.
#[test]
fn exact_numbers_become_floating_point_numbers() {
    let server = Server::new();
    let mut session = server.session();
    for (old, value, expected) in [
        ("bit", "1", "1.0"),
        ("int", "-7", "-7.0"),
        ("bigint", "9007199254740992", "9007199254740992.0"),
        ("decimal(10,2)", "5.25", "5.25"),
        ("decimal(38,4)", "12345678901234567890.5", "1.2345678901234567e19"),
        ("smallmoney", "1.5", "1.5"),
    ] {
        for new in ["float", "real"] {
            let made = format!("CREATE TABLE f (v {old}); INSERT f VALUES ({value}), (NULL)");
            assert_eq!(rows(&mut *session, &made), "");
            let changed = format!("ALTER TABLE f ALTER COLUMN v {new}");
            assert_eq!(rows(&mut *session, &changed), "", "{old} to {new}");
            let found = rows(&mut *session, "SELECT v FROM f WHERE v IS NOT NULL");
            let expected: f64 = expected.parse().unwrap();
            let (found, close) = (found.parse::<f64>().unwrap(), expected.abs() * 1e-6);
            assert!((found - expected).abs() <= close, "{old} to {new}: {found}");
            rows(&mut *session, "DROP TABLE f");
        }
    }
}
