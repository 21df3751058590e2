//! Statements that SQL Server refuses: names that are taken, columns that are named twice, a second
//! IDENTITY_INSERT, transactions that cannot be committed.

use crate::common::{Log, Server, check, rows};
use crate::constraints::{bad, good, healthy};

const MADE: &[(&str, &str)] = &[
    ("CREATE SCHEMA s", ""),
    ("CREATE TABLE t (a int NOT NULL CONSTRAINT q UNIQUE, b int CONSTRAINT d DEFAULT 1)", ""),
    ("CREATE TABLE s.t (a int NOT NULL CONSTRAINT q PRIMARY KEY, CONSTRAINT k CHECK (a > 0))", ""),
    ("CREATE VIEW v AS SELECT a FROM t", ""),
    ("CREATE PROCEDURE p AS SELECT 1", ""),
    ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a", ""),
    ("CREATE SEQUENCE n", ""),
    ("CREATE TRIGGER g ON t AFTER INSERT AS PRINT 'g'", ""),
];

#[test]
fn constraints_and_objects_share_their_names() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, MADE);
    let kinds = [
        "CREATE TABLE NAME (i int)",
        "SELECT 1 AS i INTO NAME",
        "CREATE VIEW NAME AS SELECT 1 AS a",
        "CREATE PROCEDURE NAME AS SELECT 1",
        "CREATE FUNCTION NAME () RETURNS TABLE AS RETURN SELECT 1 AS a",
        "CREATE SEQUENCE NAME",
    ];
    for kind in kinds {
        for name in ["Q", "d", "s.q", "s.K", "t", "v", "p", "f", "n", "g"] {
            bad(&mut *session, &[(&kind.replace("NAME", name), "2714/16/6")]);
        }
    }
    for name in ["t", "V", "p", "f", "n", "g", "q", "new"] {
        let codes = if name == "new" { "2714/16/6" } else { "2714/16/6 1750/16/1" };
        let batch = format!("CREATE TABLE new (i int CONSTRAINT {name} PRIMARY KEY)");
        bad(&mut *session, &[(&batch, codes)]);
        let batch = format!("CREATE TABLE new (i int, CONSTRAINT {name} CHECK (i > 0))");
        bad(&mut *session, &[(&batch, codes)]);
        let batch = format!("CREATE TABLE new (i int CONSTRAINT {name} DEFAULT 1)");
        bad(&mut *session, &[(&batch, codes)]);
        if name != "new" {
            let batch = format!("ALTER TABLE t ADD CONSTRAINT {name} CHECK (b > 0)");
            bad(&mut *session, &[(&batch, codes)]);
        }
    }
    // a schema has names of its own, types have theirs, and one that is free again may be taken
    good(
        &mut *session,
        &[
            ("CREATE TABLE s.d (i int CONSTRAINT t2 PRIMARY KEY)", ""),
            ("CREATE TYPE q FROM int", ""),
            ("CREATE TYPE d AS TABLE (i int)", ""),
            ("ALTER TABLE t DROP CONSTRAINT q", ""),
            ("CREATE VIEW q AS SELECT 1 AS a", ""),
            ("CREATE OR ALTER VIEW q AS SELECT 2 AS a", ""),
            ("SELECT a FROM q", "2"),
            ("SELECT object_id FROM sys.objects GROUP BY object_id HAVING COUNT(*) > 1", ""),
        ],
    );
    bad(
        &mut *session,
        &[
            ("CREATE OR ALTER VIEW p AS SELECT 1 AS a", "2010/16/1"),
            ("ALTER PROCEDURE v AS SELECT 1", "2010/16/1"),
            ("CREATE OR ALTER PROCEDURE d AS SELECT 1", "2010/16/1"),
            ("ALTER PROCEDURE none AS SELECT 1", "208/16/1"),
        ],
    );
    healthy(&server);
}

#[test]
fn columns_are_named_once() {
    check(&[
        (
            "SELECT 1 FROM (SELECT 1 AS a, 2 AS A) AS x",
            "! 8156/16/1 line 1: The column 'A' was specified multiple times for 'x'.",
        ),
        ("SELECT 1 FROM (SELECT 1 AS a, 2 AS b) AS x (c, C)", "! 8156/16/1"),
        ("SELECT b FROM (SELECT 1 AS a, 2 AS a) AS x (a, b)", "2"),
        ("SELECT 1 FROM (VALUES (1, 2)) AS x (a, a)", "! 8156/16/1"),
        ("SELECT 1 FROM (SELECT 1 AS i) AS t CROSS APPLY (SELECT t.i, 2 AS i) AS x", "! 8156/16/1"),
        (
            "SELECT 1 FROM (SELECT 1 AS i) AS t CROSS APPLY (VALUES (t.i, 2)) AS x (a, a)",
            "! 8156/16/1",
        ),
        (
            "SELECT 1 FROM (SELECT 1 AS i) AS t CROSS APPLY (SELECT 1 AS a, 2 AS a) AS x",
            "! 8156/16/1",
        ),
        (
            "WITH c AS (SELECT 1 AS a, 2 AS a) SELECT 1 FROM c",
            "! 8156/16/1 line 1: The column 'a' was specified multiple times for 'c'.",
        ),
        ("WITH c (a, A) AS (SELECT 1, 2) SELECT 1", "! 8156/16/1"),
        ("WITH c (a, b) AS (SELECT 1 AS a, 2 AS a) SELECT b FROM c", "2"),
        (
            "WITH c (a, a) AS (SELECT 1, 2 UNION ALL SELECT 1, a FROM c) SELECT 1 FROM c",
            "! 8156/16/1",
        ),
        (
            "WITH c AS (SELECT 1 AS a), C AS (SELECT 2 AS a) SELECT 1",
            "! 239/16/1 line 1: Duplicate common table expression name 'C' was specified.",
        ),
        ("SELECT 1 AS a, 2 AS a", "1 | 2"),
        (
            "CREATE VIEW v AS SELECT 1 AS a, 2 AS A",
            "! 4506/16/1 line 1: Column names in each view or function must be unique. Column \
             name 'A' in view or function 'v' is specified more than once.",
        ),
        ("CREATE VIEW v (a, a) AS SELECT 1, 2", "! 4506/16/1"),
        ("CREATE VIEW v (a) AS SELECT 1, 2", "! 8158/16/1"),
        ("CREATE VIEW v (a, b, c) AS SELECT 1, 2", "! 8159/16/1"),
        ("CREATE VIEW v AS SELECT 1 AS a, 2", "! 4511/16/1"),
        ("CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a, 2 AS a", "! 4506/16/1"),
        (
            "CREATE VIEW #v AS SELECT 1 AS a",
            "! 4103/15/1 line 1: \"#v\": Temporary views are not allowed.",
        ),
    ]);
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE #t (a int)", ""), ("CREATE TABLE t (a int)", "")]);
    for query in [
        "SELECT a FROM #t",
        "SELECT t.a FROM t JOIN #t AS x ON x.a = t.a",
        "SELECT a FROM t WHERE a IN (SELECT a FROM #t)",
        "WITH c AS (SELECT a FROM #t) SELECT a FROM c",
        "SELECT a FROM t UNION SELECT a FROM #t",
        "SELECT x.a FROM t CROSS APPLY (SELECT TOP (1) a FROM #t) AS x",
    ] {
        bad(&mut *session, &[(&format!("CREATE VIEW v AS {query}"), "4508/16/1")]);
    }
}

#[test]
fn a_column_is_set_once() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[("CREATE TABLE t (a int, b int)", ""), ("INSERT t VALUES (1, 1), (2, 2)", "")],
    );
    for batch in [
        "UPDATE t SET a = 5, A = 6",
        "UPDATE t SET a = 5, b = 1, t.a += 6 WHERE b = 1",
        "UPDATE x SET a = 5, x.a = 6 FROM t AS x",
        "UPDATE t SET a = 5, a = 6 OUTPUT inserted.a",
        "DECLARE @v int; UPDATE t SET @v = a = 5, a = 6",
        "WITH c AS (SELECT a, a AS z FROM t) UPDATE c SET a = 5, z = 6",
        "MERGE t USING (VALUES (1)) AS u (i) ON t.b = u.i WHEN MATCHED THEN UPDATE SET a = 5, a = \
         6;",
        "MERGE t USING (VALUES (9)) AS u (i) ON t.b = u.i WHEN NOT MATCHED THEN INSERT (a, a) \
         VALUES (1, 2);",
    ] {
        bad(&mut *session, &[(batch, "264/16/1")]);
    }
    bad(
        &mut *session,
        &[
            ("WITH c AS (SELECT a FROM t), c AS (SELECT b FROM t) DELETE FROM c", "239/16/1"),
            ("WITH c AS (SELECT a FROM t), c AS (SELECT b FROM t) UPDATE c SET a = 1", "239/16/1"),
            (
                "WITH c AS (SELECT 1 AS i), c AS (SELECT 2 AS i) INSERT t (a) SELECT i FROM c",
                "239/16/1",
            ),
        ],
    );
    good(
        &mut *session,
        &[
            ("DECLARE @v int; UPDATE t SET @v = a, @v = @v + 1, a = @v; SELECT @v", "3"),
            ("SELECT a, b FROM t ORDER BY b", "2 | 1\n3 | 2"),
        ],
    );
}

#[test]
fn one_table_takes_identity_values() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SCHEMA s", ""),
            ("CREATE TABLE t (i int IDENTITY)", ""),
            ("CREATE TABLE s.u (i int IDENTITY)", ""),
            ("CREATE TABLE #w (i int IDENTITY)", ""),
            ("SET IDENTITY_INSERT t ON; SET IDENTITY_INSERT dbo.t ON; INSERT t (i) VALUES (7)", ""),
            (
                "SET IDENTITY_INSERT s.u ON",
                "! 8107/16/1 line 1: IDENTITY_INSERT is already ON for table 'app.dbo.t'. Cannot \
                 perform SET operation for table 's.u'.",
            ),
            ("INSERT t (i) VALUES (8)", ""),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT s.u (i) VALUES (8)", "544/16/1"),
            ("SET IDENTITY_INSERT #w ON", "8107/16/1"),
            // OFF for another table changes nothing
            ("SET IDENTITY_INSERT s.u OFF; SET IDENTITY_INSERT s.u ON", "8107/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            (
                "SET IDENTITY_INSERT t OFF; SET IDENTITY_INSERT s.u ON; INSERT s.u (i) VALUES (8)",
                "",
            ),
            // the table is gone, and with it the setting
            ("DROP TABLE s.u; SET IDENTITY_INSERT t ON; INSERT t (i) VALUES (9)", ""),
            ("SELECT i FROM t ORDER BY i", "7\n8\n9"),
        ],
    );
}

#[test]
fn a_doomed_transaction_ends_with_its_batch() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE t (a int)", "")]);
    let doomed = "SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (1); BEGIN TRY SELECT 1 / 0 END \
                  TRY BEGIN CATCH SELECT XACT_STATE() END CATCH";
    let ended = "~ begin\n-1\n! 3998/16/1 line 1: Uncommittable transaction is detected at the end \
                 of the batch. The transaction is rolled back.\n~ rollback";
    let after = "SELECT @@ERROR, @@TRANCOUNT, XACT_STATE(), (SELECT COUNT(*) FROM t)";
    good(&mut *session, &[(doomed, ended), (after, "3998 | 0 | 0 | 0")]);
    // one that was rolled back in time is not mentioned
    let undone = format!("{doomed}; ROLLBACK");
    good(&mut *session, &[(&undone, "~ begin\n-1\n~ rollback"), (after, "0 | 0 | 0 | 0")]);
    // and a text with parameters is a batch
    let mut log = Log { quiet: true, ..Log::default() };
    session.execute(doomed, "", &[], &mut log);
    let told: Vec<_> = log.lines.iter().filter(|line| line.starts_with("! 3998")).collect();
    assert_eq!(told.len(), 1, "{:?}", log.lines);
    good(&mut *session, &[(after, "3998 | 0 | 0 | 0")]);
    // as is a call, also of a procedure that ends with an error
    let procedure = format!("CREATE PROCEDURE p AS {doomed}; INSERT t VALUES (2)");
    good(&mut *session, &[(&procedure, "")]);
    let mut log = Log { quiet: true, ..Log::default() };
    session.procedure("p", &[], &mut log);
    let count = |number: &str| log.lines.iter().filter(|line| line.starts_with(number)).count();
    assert_eq!((count("! 3930"), count("! 3998")), (1, 0), "{:?}", log.lines);
    good(&mut *session, &[("SELECT @@TRANCOUNT, (SELECT COUNT(*) FROM t)", "0 | 0")]);
}

#[test]
fn a_refused_statement_has_no_rows() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int NOT NULL CONSTRAINT q PRIMARY KEY)", ""),
            ("INSERT t VALUES (1)", ""),
        ],
    );
    for batch in [
        "INSERT t EXEC ('SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 1')",
        "INSERT t VALUES (1)",
        "SELECT 2 / 0",
        "RAISERROR('x', 16, 1)",
        "RAISERROR('x', 10, 1)",
        "PRINT 'x'",
    ] {
        let found =
            rows(&mut *session, &format!("SELECT 7 UNION SELECT 8; {batch}; SELECT @@ROWCOUNT"));
        assert!(found.starts_with("7\n8\n! ") && found.ends_with("\n0"), "{batch}: {found}");
        let caught = format!(
            "BEGIN TRY SELECT 7 UNION SELECT 8; {batch}; THROW 50000, 'none', 1 END TRY BEGIN \
             CATCH \
             SELECT @@ROWCOUNT END CATCH"
        );
        let found = rows(&mut *session, &caught);
        assert!(found.ends_with("\n0"), "{batch}: {found}");
    }
}

#[test]
fn a_column_named_rowid_keeps_its_name() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE t (RowId int, a int)", "")]);
    bad(
        &mut *session,
        &[
            ("EXEC sp_rename 't.rowid', 'b', 'COLUMN'", "40512/16/1"),
            ("EXEC sp_rename 't.a', '_rowid_', 'COLUMN'", "40517/16/1"),
        ],
    );
    good(&mut *session, &[("INSERT t VALUES (1, 2)", ""), ("SELECT rowid, a FROM t", "1 | 2")]);
}

#[test]
fn columns_are_in_a_key_and_added_once() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE t (a int NOT NULL, b int)", "")]);
    bad(
        &mut *session,
        &[
            ("CREATE INDEX i ON t (a, a)", "1909/16/1"),
            ("CREATE UNIQUE INDEX i ON t (a, b, A)", "1909/16/1"),
            ("CREATE TABLE u (a int, b int, PRIMARY KEY (a, a))", "1909/16/1 1750/16/1"),
            ("CREATE TABLE u (a int, b int, UNIQUE (b, B))", "1909/16/1 1750/16/1"),
            ("ALTER TABLE t ADD UNIQUE (b, a, B)", "1909/16/1 1750/16/1"),
            ("ALTER TABLE t ADD c int, C int", "2705/16/3"),
        ],
    );
    good(&mut *session, &[("SELECT * FROM t; CREATE INDEX i ON t (a, b)", "")]);
}

#[test]
fn parts_in_front_of_a_name_may_be_left_out() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int); INSERT ..t VALUES (1)", ""),
            ("SELECT a FROM ..t; SELECT a FROM .t; SELECT a FROM ...t", "1\n1\n1"),
        ],
    );
    bad(
        &mut *session,
        &[
            ("SELECT * FROM nowhere.dbo.t", "208/16/1"),
            ("INSERT nowhere..t VALUES (1)", "208/16/1"),
            ("SELECT * FROM ....t", "102/15/1"),
        ],
    );
}

#[test]
fn an_insert_supplies_a_value_for_each_column() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE TABLE t (id int IDENTITY, a int, b int, c AS a + b, v rowversion)";
    good(&mut *session, &[(made, ""), ("CREATE TABLE u (a int, b int)", "")]);
    let bad = |session: &mut dyn tdekit_wire_tds::Session, cases: &[(&str, &str)]| {
        for (batch, code) in cases {
            let found = rows(session, batch);
            assert!(found.starts_with(&format!("! {code} ")), "{batch}: {found}");
        }
    };
    bad(
        &mut *session,
        &[
            ("INSERT u VALUES (1)", "213/16/1"),
            ("INSERT INTO u VALUES (1, 2, 3)", "213/16/1"),
            ("INSERT t VALUES (1, 2)", "213/16/1"),
            ("INSERT u SELECT 1", "213/16/1"),
            ("INSERT u SELECT 1, 2, 3 UNION ALL SELECT 4, 5, 6", "213/16/1"),
            (
                "MERGE u USING (SELECT 1 i) s ON a = i WHEN NOT MATCHED THEN INSERT VALUES (1);",
                "213/16/1",
            ),
            ("INSERT u EXEC ('SELECT 1')", "213/16/7"),
            ("INSERT u (a, b) VALUES (1)", "109/15/1"),
            ("INSERT u (a, b) VALUES (1, 2, 3)", "110/15/1"),
            ("INSERT u (a) SELECT 1, 2", "121/15/1"),
            ("INSERT u (a, b) SELECT 1", "120/15/1"),
            ("INSERT u VALUES (1, 2), (3)", "10709/16/1"),
            ("INSERT u (a, b) VALUES (1), (3, 4)", "10709/16/1"),
        ],
    );
    good(&mut *session, &[("INSERT t VALUES (1, 2, DEFAULT)", "")]);
    good(&mut *session, &[("SELECT COUNT(*) FROM u", "0")]);
}
