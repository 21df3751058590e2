//! Triggers as objects: definitions, catalog, permissions.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};
use crate::permissions::{server, story};
use crate::triggers::quiet;

const MADE: &[&str] = &[
    "CREATE TABLE t (a int PRIMARY KEY, b int)",
    "CREATE TABLE c (a int, b int CONSTRAINT f REFERENCES t (a) ON DELETE CASCADE)",
    "CREATE TABLE log (what varchar(90))",
    "CREATE VIEW v AS SELECT a FROM t",
    "CREATE SCHEMA s",
    "CREATE TABLE s.t (a int)",
    "CREATE TRIGGER g ON t AFTER INSERT, DELETE AS INSERT log VALUES ('g')",
    "CREATE TRIGGER s.g ON s.t FOR UPDATE AS INSERT log VALUES ('s.g')",
    "CREATE TRIGGER h ON v INSTEAD OF DELETE AS INSERT log VALUES ('h')",
];

#[test]
fn definitions_that_cannot_be_are_refused() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, MADE);
    bad(
        &mut *session,
        &[
            ("SELECT 1; CREATE TRIGGER x ON t AFTER INSERT AS SELECT 1", "111/15/1"),
            ("SELECT 1; CREATE OR ALTER TRIGGER x ON t AFTER INSERT AS SELECT 1", "111/15/1"),
            ("SELECT 1; ALTER TRIGGER g ON t AFTER INSERT AS SELECT 1", "111/15/1"),
            (
                "CREATE TRIGGER x ON t AFTER INSERT AS SELECT 1 CREATE TRIGGER y ON t AFTER \
                 INSERT AS \
                 SELECT 1",
                "111/15/1",
            ),
            ("CREATE TRIGGER g ON t AFTER INSERT AS SELECT 1", "2714/16/6"),
            ("CREATE TRIGGER g ON log AFTER INSERT AS SELECT 1", "2714/16/6"),
            ("CREATE TRIGGER log ON t AFTER INSERT AS SELECT 1", "2714/16/6"),
            ("CREATE TRIGGER f ON t AFTER INSERT AS SELECT 1", "2714/16/6"),
            ("CREATE TABLE g (a int)", "2714/16/6"),
            ("CREATE VIEW g AS SELECT 1 AS a", "2714/16/6"),
            ("CREATE PROCEDURE g AS SELECT 1", "2714/16/6"),
            ("CREATE SEQUENCE g", "2714/16/6"),
            ("ALTER TABLE t ADD CONSTRAINT g CHECK (a > 0)", "2714/16/6 1750/16/1"),
            ("ALTER TRIGGER x ON t AFTER INSERT AS SELECT 1", "208/16/1"),
            ("ALTER TRIGGER g ON log AFTER INSERT AS SELECT 1", "2110/15/1"),
            ("CREATE OR ALTER TRIGGER g ON log AFTER INSERT AS SELECT 1", "2110/15/1"),
            ("CREATE TRIGGER x ON nix AFTER INSERT AS SELECT 1", "8197/16/4"),
            ("CREATE TRIGGER x ON sys.tables AFTER INSERT AS SELECT 1", "8197/16/4"),
            ("CREATE TRIGGER x ON tsql_module AFTER INSERT AS SELECT 1", "8197/16/4"),
            ("CREATE TRIGGER x ON v AFTER INSERT AS SELECT 1", "8197/16/4"),
            ("CREATE TRIGGER x ON v INSTEAD OF INSERT, DELETE AS SELECT 1", "2111/16/1"),
            ("CREATE TRIGGER x ON c INSTEAD OF UPDATE AS SELECT 1", "2113/16/1"),
            ("CREATE TRIGGER s.x ON t AFTER INSERT AS SELECT 1", "2103/15/1"),
            ("CREATE TRIGGER app.dbo.x ON t AFTER INSERT AS SELECT 1", "166/15/1"),
            ("CREATE TRIGGER x ON t AFTER INSERT, INSERT AS SELECT 1", "1034/15/1"),
            ("CREATE TRIGGER x ON t AFTER INSERT AS RETURN 1", "178/15/1"),
            ("CREATE TRIGGER x ON t AFTER INSERT AS IF 1 = 1 BEGIN RETURN (2) END", "178/15/1"),
            ("CREATE TRIGGER x ON t AFTER INSERT AS SET @nix = 1", "137/15/2"),
            ("CREATE TRIGGER x ON t AFTER INSERT AS", "102/15/1"),
            ("CREATE TRIGGER x ON t AFTER SELECT AS SELECT 1", "156/15/1"),
            ("CREATE TABLE #t (a int)", ""),
            ("CREATE TRIGGER x ON #t AFTER INSERT AS SELECT 1", "40512/16/1"),
            ("DISABLE TRIGGER x ON t", "1088/16/9"),
            ("DISABLE TRIGGER g ON nix", "1088/16/9"),
            ("DISABLE TRIGGER s.g ON t", "1088/16/9"),
            ("ALTER TABLE t ENABLE TRIGGER x", "4920/16/0"),
            ("ALTER TABLE nix ENABLE TRIGGER x", "4902/16/1"),
            ("DROP TRIGGER x", "3701/11/5"),
            ("ALTER SCHEMA s TRANSFER g", "15347/16/1"),
        ]
        .into_iter()
        .filter(|(_, codes)| !codes.is_empty())
        .collect::<Vec<_>>(),
    );
    quiet(
        &mut *session,
        &[
            "CREATE TABLE k (a int, b int)",
            "CREATE TRIGGER x ON k INSTEAD OF DELETE AS SELECT 1",
            "CREATE TRIGGER s.x ON s.t AFTER INSERT AS SELECT 1",
            "ALTER TABLE k ADD CONSTRAINT plain FOREIGN KEY (b) REFERENCES t (a)",
        ],
    );
    bad(
        &mut *session,
        &[
            (
                "ALTER TABLE k ADD CONSTRAINT more FOREIGN KEY (b) REFERENCES t (a) ON UPDATE \
                 CASCADE",
                "1787/16/0 1750/16/1",
            ),
            // its trigger has a name that is taken there
            ("ALTER SCHEMA s TRANSFER k", "15530/16/1"),
        ],
    );
    healthy(&server);
}

#[test]
fn the_catalog_knows_triggers() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, MADE);
    rows(&mut *session, "DISABLE TRIGGER s.g ON s.t");
    good(
        &mut *session,
        &[
            (
                "SELECT t.name, OBJECT_SCHEMA_NAME(t.object_id), OBJECT_NAME(t.parent_id), t.type, \
                 t.is_disabled, t.is_instead_of_trigger, e.type_desc FROM sys.triggers AS t JOIN \
                 sys.trigger_events AS e ON e.object_id = t.object_id ORDER BY 1, 2, e.type",
                "'g' | 'dbo' | 't' | 'TR' | 0 | 0 | 'INSERT'\n'g' | 'dbo' | 't' | 'TR' | 0 | 0 | \
                 'DELETE'\n'g' | 's' | 't' | 'TR' | 1 | 0 | 'UPDATE'\n'h' | 'dbo' | 'v' | 'TR' | 0 \
                 | 1 | 'DELETE'",
            ),
            (
                "SELECT name, type, type_desc, OBJECT_NAME(parent_object_id) FROM sys.objects \
                 WHERE \
                 type = 'TR' AND schema_id = 1 ORDER BY name",
                "'g' | 'TR' | 'SQL_TRIGGER' | 't'\n'h' | 'TR' | 'SQL_TRIGGER' | 'v'",
            ),
            (
                "SELECT OBJECT_DEFINITION(OBJECT_ID('s.g', 'TR'))",
                "'CREATE TRIGGER s.g ON s.t FOR UPDATE AS INSERT log VALUES ('s.g')'",
            ),
            ("SELECT COUNT(*) FROM sys.sql_modules WHERE definition LIKE 'CREATE TRIGGER%'", "3"),
            (
                "SELECT OBJECT_ID('g', 'U'), CASE WHEN OBJECT_ID('dbo.g') = OBJECT_ID('g', 'TR') \
                 THEN 1 END",
                "NULL | 1",
            ),
            (
                "SELECT OBJECTPROPERTY(OBJECT_ID('g'), 'IsTrigger'), \
                 OBJECTPROPERTY(OBJECT_ID('s.g'), 'ExecIsTriggerDisabled'), \
                 OBJECTPROPERTY(OBJECT_ID('g'), 'ExecIsAfterTrigger'), \
                 OBJECTPROPERTY(OBJECT_ID('h'), 'ExecIsInsteadOfTrigger'), \
                 OBJECTPROPERTY(OBJECT_ID('g'), 'ExecIsUpdateTrigger'), \
                 OBJECTPROPERTY(OBJECT_ID('t'), 'TableHasInsertTrigger'), \
                 OBJECTPROPERTY(OBJECT_ID('t'), 'TableHasUpdateTrigger'), \
                 OBJECTPROPERTY(OBJECT_ID('t'), 'TableDeleteTriggerCount')",
                "1 | 1 | 1 | 1 | 0 | 1 | 0 | 1",
            ),
        ],
    );
    let helped = rows(&mut *session, "EXEC sp_helptrigger 't'; EXEC sp_helptrigger 'v', 'INSERT'");
    assert_eq!(
        helped.lines().filter(|line| !line.starts_with("status")).collect::<Vec<_>>(),
        ["'g' | 'dbo' | 0 | 1 | 1 | 1 | 0 | 'dbo'"]
    );
    let text = rows(&mut *session, "EXEC sp_helptext 'h'");
    assert!(text.contains("CREATE TRIGGER h ON v INSTEAD OF DELETE AS"), "{text}");
}

#[test]
fn triggers_follow_their_table() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, MADE);
    quiet(
        &mut *session,
        &[
            "CREATE OR ALTER TRIGGER g ON t AFTER INSERT, DELETE AS INSERT log VALUES ('g2')",
            "CREATE OR ALTER TRIGGER new ON t AFTER UPDATE AS INSERT log VALUES ('new')",
            "ALTER TABLE t ADD d int NULL",
            "INSERT t VALUES (1, 1, 1); UPDATE t SET b = 2",
        ],
    );
    let log = "SELECT what FROM log; DELETE log";
    assert_eq!(rows(&mut *session, log), "'g2'\n'new'");
    rows(&mut *session, "EXEC sp_rename 't', 'renamed'");
    quiet(&mut *session, &["INSERT renamed VALUES (2, 2, 2)"]);
    assert_eq!(rows(&mut *session, log), "'g2'");
    quiet(
        &mut *session,
        &[
            "CREATE SCHEMA r",
            "ALTER SCHEMA r TRANSFER renamed",
            "INSERT r.renamed VALUES (3, 3, 3); UPDATE r.renamed SET b = 0",
            "DISABLE TRIGGER r.g ON r.renamed",
            "ALTER TRIGGER r.new ON r.renamed AFTER UPDATE AS INSERT log VALUES ('moved')",
            "UPDATE r.renamed SET b = 0; INSERT r.renamed VALUES (4, 4, 4)",
            "DROP TABLE s.t",
            "DROP VIEW v",
        ],
    );
    assert_eq!(rows(&mut *session, log), "'g2'\n'new'\n'moved'");
    // ALTER TRIGGER enables a trigger
    quiet(
        &mut *session,
        &["ALTER TRIGGER r.g ON r.renamed FOR INSERT AS INSERT log VALUES ('on')"],
    );
    quiet(&mut *session, &["INSERT r.renamed VALUES (5, 5, 5)"]);
    assert_eq!(rows(&mut *session, log), "'on'");
    good(
        &mut *session,
        &[
            ("SELECT name FROM sys.triggers ORDER BY name", "'g'\n'new'"),
            ("DROP TRIGGER r.g, r.new; DROP TRIGGER IF EXISTS r.g", ""),
            ("SELECT COUNT(*) FROM sys.triggers", "0"),
            ("INSERT r.renamed VALUES (6, 6, 6); SELECT COUNT(*) FROM log", "0"),
        ],
    );
    healthy(&server);
}

#[test]
fn rights_are_those_of_the_table_and_the_body_reaches_more() {
    let server = server();
    story(
        &server,
        &[
            ("sa", "CREATE TABLE secret (n int); GRANT INSERT, SELECT ON t TO ann", ""),
            (
                "sa",
                "CREATE TRIGGER g ON t AFTER INSERT AS INSERT secret SELECT a FROM inserted",
                "",
            ),
            ("ann", "INSERT t VALUES (5, 5)", ""),
            ("ann", "SELECT * FROM secret", "! 229/14/5"),
            ("sa", "SELECT n FROM secret", "5"),
            ("ann", "CREATE TRIGGER h ON t AFTER INSERT AS SELECT 1", "! 8197/16/4"),
            ("ann", "DISABLE TRIGGER g ON t", "! 1088/16/9"),
            ("ann", "DROP TRIGGER g", "! 3701/14"),
            ("ann", "SELECT name, OBJECT_DEFINITION(object_id) FROM sys.triggers", "'g' | NULL"),
            ("bob", "SELECT COUNT(*) FROM sys.triggers", "0"),
            ("sa", "GRANT ALTER ON t TO ann", ""),
            // the body reads with dbo's rights, and text that it runs with the caller's
            (
                "ann",
                "ALTER TRIGGER g ON t AFTER INSERT AS SELECT COUNT(*) FROM secret; EXEC ('SELECT * \
                 FROM secret')",
                "",
            ),
            (
                "ann",
                "INSERT t VALUES (6, 6)",
                "1\n! 229/14/5 line 1: The SELECT permission was denied on the object 'secret', \
                 database 'app', schema 'dbo'.",
            ),
            ("ann", "SELECT COUNT(*) FROM t", "2"),
            ("ann", "DROP TRIGGER g", ""),
            ("ann", "INSERT t VALUES (6, 6)", ""),
            // a view gives its INSTEAD OF trigger's writes to those who may only use the view
            ("sa", "CREATE VIEW v AS SELECT n FROM secret", ""),
            (
                "sa",
                "CREATE TRIGGER of_v ON v INSTEAD OF INSERT, UPDATE AS INSERT secret SELECT n * \
             100 FROM inserted",
                "",
            ),
            ("sa", "GRANT INSERT ON v TO bob", ""),
            ("bob", "INSERT v VALUES (9)", ""),
            ("bob", "UPDATE v SET n = 1", "! 229/14/5"),
            ("bob", "INSERT secret VALUES (9)", "! 229/14/5"),
            ("sa", "SELECT n FROM secret WHERE n > 100; DELETE secret WHERE n > 100", "900"),
            // another database is the caller's as well
            (
                "sa",
                "CREATE TRIGGER g ON t AFTER INSERT AS SELECT n FROM secret; SELECT a FROM \
                 other.dbo.secret",
                "",
            ),
            (
                "ann",
                "INSERT t VALUES (7, 7)",
                "5\n! 916/14/2 line 1: The server principal \"ann\" is not able to access the \
                 database \"other\" under the current security context.",
            ),
            ("ann", "SELECT COUNT(*) FROM t", "3"),
        ],
    );
}

#[test]
fn output_and_triggers_exclude_each_other() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, MADE);
    bad(
        &mut *session,
        &[
            ("INSERT t (a) OUTPUT inserted.a VALUES (1)", "334/16/1"),
            ("DELETE x OUTPUT deleted.a FROM t AS x", "334/16/1"),
            (
                "MERGE t USING log ON 1 = 0 WHEN NOT MATCHED THEN INSERT (a) VALUES (1) OUTPUT \
                 $action;",
                "334/16/1",
            ),
            ("DELETE c OUTPUT deleted.a INTO t (a)", "331/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            ("INSERT c (a) OUTPUT inserted.a VALUES (1)", "1"),
            (
                "DECLARE @o table (a int); INSERT t (a) OUTPUT inserted.a INTO @o VALUES (4); \
                 SELECT a FROM @o",
                "4",
            ),
            ("UPDATE t SET b = 3 OUTPUT inserted.b", "3"),
            ("DISABLE TRIGGER g ON t; DELETE t OUTPUT deleted.a", "4"),
            ("SELECT what FROM log", "'g'"),
        ],
    );
}
