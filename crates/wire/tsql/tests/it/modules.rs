//! Rules of procedures, functions, views and triggers.

use crate::common::{Server, rows};
use crate::constraints::{bad, good};

#[test]
fn a_parameter_has_one_definition() {
    let server = Server::new();
    let mut session = server.session();
    bad(
        &mut *session,
        &[
            ("CREATE PROCEDURE p @a int, @b int, @A int AS SELECT 1", "134/15/1"),
            (
                "CREATE FUNCTION f (@a int, @a bigint) RETURNS TABLE AS RETURN SELECT 1 AS x",
                "134/15/1",
            ),
        ],
    );
    good(&mut *session, &[("SELECT COUNT(*) FROM sys.objects WHERE name IN ('p', 'f')", "0")]);
}

#[test]
fn identity_insert_ends_with_its_module() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (i int IDENTITY, a int); CREATE TABLE u (i int IDENTITY, a int)", ""),
            ("CREATE PROCEDURE p AS SET IDENTITY_INSERT t ON; INSERT t (i, a) VALUES (7, 1)", ""),
            ("CREATE PROCEDURE q AS SET IDENTITY_INSERT u OFF; SET IDENTITY_INSERT t ON", ""),
            ("EXEC p; INSERT t (a) VALUES (2); SELECT i FROM t ORDER BY i", "status 0\n7\n8"),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t (i, a) VALUES (9, 1)", "544/16/1"),
            ("EXEC ('SET IDENTITY_INSERT t ON') INSERT t (i, a) VALUES (9, 1)", "544/16/1"),
        ],
    );
    // and one of its caller is in force again
    let batch = "SET IDENTITY_INSERT u ON; EXEC q; INSERT u (i, a) VALUES (5, 5); SELECT i FROM u";
    assert_eq!(rows(&mut *session, batch), "status 0\n5");
    let batch =
        "SET IDENTITY_INSERT u OFF; SET IDENTITY_INSERT t ON; INSERT t (i, a) VALUES (9, 1)";
    good(&mut *session, &[(batch, "")]);
    good(&mut *session, &[("INSERT t (i, a) VALUES (10, 1); SELECT MAX(i) FROM t", "10")]);
}

#[test]
fn a_module_stays_in_its_database() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE t (a int)", "")]);
    bad(
        &mut *session,
        &[
            ("CREATE PROCEDURE p AS USE other", "154/15/1"),
            ("CREATE PROCEDURE #p AS IF 1 = 1 BEGIN WHILE 1 = 0 USE other END", "154/15/1"),
            (
                "CREATE TRIGGER g ON t AFTER INSERT AS BEGIN TRY USE other END TRY BEGIN CATCH END \
              CATCH",
                "154/15/1",
            ),
        ],
    );
    let found = rows(&mut *session, "CREATE PROCEDURE p AS\nSELECT 1\nUSE other");
    assert!(found.starts_with("! 154/15/1 line 3: a USE database statement"), "{found}");
    good(&mut *session, &[("CREATE PROCEDURE p AS EXEC ('USE other; SELECT DB_NAME()')", "")]);
    let found = rows(&mut *session, "EXEC p; SELECT DB_NAME()");
    assert!(found.contains("\n'other'\n") && found.ends_with("status 0\n'app'"), "{found}");
}

#[test]
fn a_view_has_no_temporary_table_and_a_group_has_a_column() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE #t (a int); CREATE TABLE t (a int, b int)", "")]);
    bad(
        &mut *session,
        &[
            ("CREATE VIEW v AS SELECT a FROM #t", "4508/16/1"),
            ("CREATE VIEW v AS SELECT t.a FROM t JOIN #t AS x ON x.a = t.a", "4508/16/1"),
            ("CREATE VIEW v AS SELECT a FROM t WHERE a IN (SELECT a FROM #t)", "4508/16/1"),
            ("CREATE VIEW v AS WITH c AS (SELECT a FROM #t) SELECT a FROM c", "4508/16/1"),
            ("SELECT COUNT(*) FROM t GROUP BY 1", "164/15/1"),
            ("SELECT COUNT(*) FROM t GROUP BY a, 'x'", "164/15/1"),
            ("SELECT COUNT(*) FROM t GROUP BY ROLLUP (a, GETDATE())", "164/15/1"),
            ("DECLARE @v int = 1; SELECT COUNT(*) FROM t GROUP BY @v + 1", "164/15/1"),
        ],
    );
    good(
        &mut *session,
        &[
            ("INSERT t VALUES (1, 1), (2, 1)", ""),
            ("SELECT COUNT(*) FROM (SELECT 1 AS x FROM t) AS s GROUP BY x", "2"),
            ("SELECT b + 1, COUNT(*) FROM t GROUP BY b + 1", "2 | 2"),
            ("SELECT x, COUNT(*) FROM (SELECT NULL AS x FROM t) AS s GROUP BY x", "NULL | 2"),
        ],
    );
}
