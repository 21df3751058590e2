//! Functions of the database in what tables keep: DEFAULTs, computed columns, CHECK conditions.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};
use crate::reading_functions::made;
use tdekit_wire_tds::{Collation, Column, Generated, SqlType, Value};

const KEPT: &[(&str, &str)] = &[
    (
        "CREATE FUNCTION next_id () RETURNS int AS BEGIN RETURN ISNULL((SELECT MAX(id) FROM \
         tree), 0) + 1 END",
        "",
    ),
    ("ALTER TABLE t ADD d AS dbo.a_of(i, 0) * 2", ""),
    ("SELECT i, d FROM t WHERE d > 20 ORDER BY d DESC", "3 | 60\n2 | 40"),
    (
        "CREATE TABLE u (k int DEFAULT dbo.next_id(), n int, w AS dbo.way(k), CONSTRAINT p \
         PRIMARY KEY (k))",
        "",
    ),
    (
        "INSERT u (n) VALUES (1); INSERT u VALUES (3, 2); SELECT k, w FROM u",
        "3 | 'a/b/c'\n5 | \
      NULL",
    ),
    ("INSERT tree VALUES (5, 1, 'e'); SELECT k, w FROM u", "3 | 'a/b/c'\n5 | 'a/e'"),
    ("INSERT u DEFAULT VALUES; UPDATE u SET n = 7 OUTPUT inserted.k WHERE w IS NULL", "6"),
    ("UPDATE u SET k = DEFAULT WHERE k = 3", "! 2627/14/1"),
    ("DELETE u WHERE w = 'a/e'; SELECT k FROM u", "3\n6"),
    ("CREATE VIEW v AS SELECT w FROM u", ""),
    ("SELECT w FROM v WHERE w IS NOT NULL", "'a/b/c'"),
    (
        "SELECT definition FROM sys.computed_columns WHERE name = 'w'; SELECT definition FROM \
         sys.default_constraints WHERE parent_object_id = OBJECT_ID('u')",
        "'(dbo.way(k))'\n'(dbo.next_id())'",
    ),
    ("ALTER TABLE t DROP COLUMN d; DROP FUNCTION a_of", ""),
    ("ALTER TABLE u ADD CONSTRAINT df DEFAULT dbo.next_id() FOR n", ""),
    ("INSERT u (k) VALUES (20); SELECT n FROM u WHERE k = 20", "6"),
    // one that reads the table that keeps it
    ("CREATE TABLE chain (i int PRIMARY KEY, a int)", ""),
    ("INSERT chain VALUES (1, 5), (2, 6), (3, 7)", ""),
    (
        "CREATE FUNCTION so_far (@i int) RETURNS int AS BEGIN RETURN (SELECT SUM(a) FROM chain \
         WHERE i <= @i) END",
        "",
    ),
    ("ALTER TABLE chain ADD s AS dbo.so_far(i)", ""),
    ("SELECT s FROM chain ORDER BY i", "5\n11\n18"),
];

#[test]
fn tables_keep_functions() {
    let server = Server::new();
    let mut session = made(&server);
    for (batch, expected) in KEPT {
        let found = rows(&mut *session, batch);
        let refused = expected.starts_with('!') && found.starts_with(expected);
        assert!(found == *expected || refused, "{batch}: {found}");
    }
    bad(
        &mut *session,
        &[
            ("DROP FUNCTION way", "3729/16/1"),
            ("ALTER FUNCTION next_id () RETURNS int AS BEGIN RETURN 1 END", "3729/16/1"),
            ("CREATE OR ALTER FUNCTION way () RETURNS int AS BEGIN RETURN 1 END", "3729/16/1"),
            ("CREATE TABLE w (a int, b AS dbo.way(a) PERSISTED)", "4936/16/1"),
            ("CREATE TABLE w (a int, b AS dbo.none(a))", "4121/16/1"),
            ("CREATE TABLE w (a int, b AS other.dbo.none(a))", "40512/16/1"),
            ("CREATE TABLE w (a int DEFAULT dbo.none())", "4121/16/1"),
            ("CREATE TABLE #w (a int, b AS dbo.way(a))", "40512/16/1"),
            ("DECLARE @w TABLE (a int DEFAULT dbo.next_id())", "40512/16/1"),
            ("CREATE INDEX x ON u (w)", "40512/16/1"),
        ],
    );
    good(&mut *session, &[("DROP VIEW v; DROP TABLE u; DROP FUNCTION way, next_id", "")]);
    healthy(&server);
}

#[test]
fn a_table_reaches_its_functions_for_who_may_use_it() {
    let server = Server::new();
    let mut owner = made(&server);
    good(
        &mut *owner,
        &[
            ("CREATE TABLE u (k int DEFAULT dbo.total(), n int, w AS dbo.way(n))", ""),
            ("CREATE USER ann FOR LOGIN ann; GRANT SELECT, INSERT ON u TO ann", ""),
            ("GRANT CREATE TABLE TO ann; GRANT ALTER ON SCHEMA::dbo TO ann", ""),
        ],
    );
    let mut ann = server.session_of("ann", "app").unwrap();
    good(&mut *ann, &[("INSERT u (n) VALUES (2); SELECT k, w FROM u", "60 | 'a/b'")]);
    let own = [
        "CREATE TABLE mine (a int, b AS dbo.way(a))",
        "CREATE TABLE mine (a int DEFAULT dbo.total())",
        "ALTER TABLE u ADD e AS dbo.names(n)",
    ];
    for batch in own {
        let found = rows(&mut *ann, batch);
        assert!(found.starts_with("! 229/14/5 line 1: The REFERENCES permission"), "{found}");
    }
    good(&mut *owner, &[("GRANT REFERENCES ON way TO ann", "")]);
    good(&mut *ann, &[(own[0], "")]);
}

const CHECKED: &[(&str, &str)] = &[
    ("CREATE TABLE c (i int IDENTITY PRIMARY KEY, p int, n int)", ""),
    (
        "CREATE FUNCTION in_group (@p int) RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM c \
         WHERE p = @p) END",
        "",
    ),
    ("CREATE FUNCTION positive (@n int) RETURNS bit AS BEGIN RETURN IIF(@n > 0, 1, 0) END", ""),
    ("ALTER TABLE c ADD CONSTRAINT few CHECK (dbo.in_group(p) <= 2)", ""),
    (
        "CREATE TABLE d (i int PRIMARY KEY, p int CONSTRAINT there CHECK (dbo.has(p) = 1), n int, \
         CONSTRAINT pos CHECK (dbo.positive(n) = 1 OR n IS NULL))",
        "",
    ),
    ("INSERT c (p) VALUES (1), (1), (2); INSERT c (p) SELECT 2", ""),
    ("INSERT d VALUES (1, 1, 5), (2, 2, NULL); UPDATE d SET n = 6 WHERE i = 1", ""),
    ("UPDATE c SET p = 3 WHERE p = 1; SELECT COUNT(*) FROM c WHERE p = 3", "2"),
    (
        "SELECT name, definition, is_disabled FROM sys.check_constraints ORDER BY name",
        "'few' | '(dbo.in_group([p])<=(2))' | 0\n'pos' | '(dbo.positive([n])=(1) OR [n] IS NULL)' \
         | 0\n'there' | '(dbo.has([p])=(1))' | 0",
    ),
];

const VIOLATED: &[(&str, &str)] = &[
    ("INSERT c (p) VALUES (2)", "547/16/0"),
    ("INSERT c (p) VALUES (4), (4), (4)", "547/16/0"),
    ("UPDATE c SET p = 2 WHERE p = 3", "547/16/0"),
    ("DECLARE @v int; UPDATE c SET @v = p = 2 WHERE i = 1", "547/16/0"),
    (
        "MERGE c USING (VALUES (2)) AS v (p) ON 1 = 0 WHEN NOT MATCHED THEN INSERT (p) \
                 VALUES (v.p);",
        "547/16/0",
    ),
    ("INSERT c (p) EXEC ('SELECT 2')", "547/16/0"),
    ("INSERT d VALUES (3, 9, 1)", "547/16/0"),
    ("INSERT d VALUES (3, 1, -1)", "547/16/0"),
    ("UPDATE d SET n = n - 10", "547/16/0"),
    ("DELETE d OUTPUT deleted.i, 1, 1 INTO d WHERE i = 1", "333/16/1"),
    ("DROP FUNCTION positive", "3729/16/1"),
    ("ALTER FUNCTION has (@i int) RETURNS bit AS BEGIN RETURN 1 END", "3729/16/1"),
    ("ALTER TABLE c ADD CONSTRAINT one CHECK (dbo.in_group(p) < 2)", "547/16/0"),
    ("ALTER TABLE c ADD CHECK (dbo.none(p) < 2)", "4121/16/1"),
    ("ALTER TABLE c ADD CHECK (other.dbo.none(p) < 2)", "40512/16/1"),
    ("CREATE TABLE e (a int CHECK (dbo.none(a) = 1))", "4121/16/1"),
    ("CREATE TABLE #e (a int CHECK (dbo.positive(a) = 1))", "40512/16/1"),
    ("DECLARE @e TABLE (a int CHECK (dbo.positive(a) = 1))", "40512/16/1"),
    (
        "CREATE TABLE e (a int REFERENCES c (i) ON UPDATE CASCADE CHECK (dbo.positive(a) \
                 = 1))",
        "40512/16/1",
    ),
    (
        "ALTER TABLE d ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES c (i) ON DELETE SET \
                 NULL",
        "40512/16/1",
    ),
    ("EXEC sp_rename 'd.n', 'm', 'COLUMN'", "15336/16/1"),
    ("ALTER TABLE d DROP COLUMN n", "5074/16/1 4922/16/9"),
];

#[test]
fn checks_call_functions() {
    let server = Server::new();
    let mut session = made(&server);
    good(&mut *session, &CHECKED[..CHECKED.len() - 1]);
    let (batch, expected) = CHECKED[CHECKED.len() - 1];
    let found = rows(&mut *session, batch);
    assert_eq!(
        found.replace(['[', ']', '(', ')', ' '], ""),
        expected.replace(['[', ']', '(', ')', ' '], "")
    );
    let state = "SELECT COUNT(*), SUM(i), SUM(p) FROM c; SELECT COUNT(*), SUM(n) FROM d";
    let before = rows(&mut *session, state);
    bad(&mut *session, VIOLATED);
    let found = rows(&mut *session, "UPDATE c SET p = 2 OUTPUT inserted.p WHERE i = 1");
    assert!(found.contains("! 547/16/0"), "{found}");
    let found = rows(&mut *session, "INSERT d VALUES (3, 1, -1)");
    assert_eq!(
        found,
        "! 547/16/0 line 1: The INSERT statement conflicted with the CHECK constraint \"pos\". The \
         conflict occurred in database \"app\", table \"dbo.d\", column 'n'."
    );
    assert_eq!(rows(&mut *session, state), before);
    good(
        &mut *session,
        &[
            ("BEGIN TRAN; INSERT d VALUES (8, 1, 1)", "~ begin"),
            (
                "BEGIN TRY INSERT d VALUES (9, 1, -1) END TRY BEGIN CATCH PRINT 'no' END CATCH",
                "! 0/0/1 line 1: no",
            ),
            ("SELECT COUNT(*) FROM d; ROLLBACK", "3\n~ rollback"),
            (
                "EXEC sp_rename 'pos', 'above', 'OBJECT'",
                "! 15477/0/1 line 1: Caution: Changing any part of an object name could break \
                 scripts and stored procedures.\nstatus 0",
            ),
            ("ALTER TABLE d NOCHECK CONSTRAINT above; INSERT d VALUES (4, 1, -4)", ""),
            ("ALTER TABLE d CHECK CONSTRAINT above; UPDATE d SET p = 2 WHERE i = 1", ""),
            (
                "DBCC CHECKCONSTRAINTS (d)",
                "'[dbo].[d]' | '[above]' | '[n] = '-4''\n! 2528/0/1 \
              line 1: DBCC execution completed. If DBCC printed error messages, contact your \
              system administrator.",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("UPDATE d SET p = 1, n = n - 1 WHERE i = 4", "547/16/0"),
            ("ALTER TABLE d WITH CHECK CHECK CONSTRAINT above", "547/16/0"),
        ],
    );
    good(
        &mut *session,
        &[
            ("DELETE d WHERE i = 4; ALTER TABLE d WITH CHECK CHECK CONSTRAINT above", ""),
            ("ALTER TABLE d DROP CONSTRAINT above, there; INSERT d VALUES (5, 99, -5)", ""),
            (
                "ALTER TABLE d WITH NOCHECK ADD CONSTRAINT pos CHECK (dbo.positive(n) = 1); UPDATE \
                 d SET n = 1 WHERE i = 5",
                "",
            ),
            ("CREATE TRIGGER g ON d AFTER INSERT AS INSERT c (p) SELECT p FROM inserted", ""),
            ("INSERT d VALUES (6, 5, 1); SELECT COUNT(*) FROM c WHERE p = 5", "1"),
            ("DROP TABLE d; DROP FUNCTION positive", ""),
            (
                "EXEC sp_rename 'c', 'cc', 'OBJECT'",
                "! 15477/0/1 line 1: Caution: Changing any part of an object name could break \
                 scripts and stored procedures.\nstatus 0",
            ),
        ],
    );
    // the function's own table has another name now
    bad(&mut *session, &[("INSERT cc (p) VALUES (9)", "208/16/1")]);
    healthy(&server);
}

#[test]
fn loads_are_checked_by_functions() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            ("CREATE TABLE d (p int CONSTRAINT there CHECK (dbo.has(p) = 1))", ""),
            ("CREATE USER ann FOR LOGIN ann; GRANT INSERT ON d TO ann", ""),
        ],
    );
    let column = Column {
        name: "p".to_owned(),
        ty: SqlType::Int,
        nullable: true,
        generated: Generated::No,
        collation: Collation::default(),
    };
    for (value, expected) in [(1, Ok(1)), (9, Err(547)), (2, Ok(1))] {
        session.bulk_begin("INSERT BULK d (p int)", std::slice::from_ref(&column)).unwrap();
        session.bulk_row(&[Value::Int(value)]).unwrap();
        let ended = session.bulk_end(true).map_err(|message| message.number);
        assert_eq!(ended, expected, "{value}");
    }
    good(&mut *session, &[("SELECT p FROM d ORDER BY p", "1\n2")]);
    // who changes the table needs no right on the function
    let mut ann = server.session_of("ann", "app").unwrap();
    good(&mut *ann, &[("INSERT d VALUES (3)", "")]);
    bad(&mut *ann, &[("INSERT d VALUES (30)", "547/16/0"), ("SELECT dbo.has(1)", "229/14/5")]);
    good(&mut *session, &[("GRANT CREATE TABLE TO ann; GRANT ALTER ON SCHEMA::dbo TO ann", "")]);
    bad(&mut *ann, &[("CREATE TABLE mine (a int CHECK (dbo.has(a) = 1))", "229/14/5")]);
}

#[test]
fn rows_that_come_one_by_one_get_values_of_functions() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            (
                "CREATE FUNCTION next_id () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM u) + \
                 1 END",
                "! 208/16/1 line 1: Invalid object name 'u'.",
            ),
            ("CREATE TABLE u (i int, n int)", ""),
            (
                "CREATE FUNCTION next_id () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM u) + \
                 1 END",
                "",
            ),
            ("ALTER TABLE u ADD CONSTRAINT df DEFAULT dbo.next_id() FOR n", ""),
            ("INSERT u (i) EXEC ('SELECT 5 UNION ALL SELECT 6')", ""),
            ("UPDATE t SET a = 1 OUTPUT inserted.i INTO u (i) WHERE i < 3", ""),
            ("SELECT i, n FROM u ORDER BY n", "5 | 1\n6 | 2\n1 | 3\n2 | 4"),
            ("ALTER TABLE u ADD x int NOT NULL DEFAULT dbo.next_id()", ""),
            ("SELECT i, x FROM u WHERE i > 4 ORDER BY i", "5 | 5\n6 | 5"),
        ],
    );
    let column = Column {
        name: "i".to_owned(),
        ty: SqlType::Int,
        nullable: true,
        generated: Generated::No,
        collation: Collation::default(),
    };
    session.bulk_begin("INSERT BULK u (i int)", std::slice::from_ref(&column)).unwrap();
    for value in [8, 9] {
        session.bulk_row(&[Value::Int(value)]).unwrap();
    }
    assert_eq!(session.bulk_end(true).unwrap(), 2);
    good(
        &mut *session,
        &[("SELECT i, n, x FROM u WHERE i > 7 ORDER BY i", "8 | 5 | 5\n9 | 6 | 6")],
    );
    healthy(&server);
}

#[test]
fn triggers_see_computed_columns_that_call_functions() {
    let server = Server::new();
    let mut s = server.session();
    for text in [
        "CREATE TABLE factor (n int); INSERT factor VALUES (3)",
        "CREATE FUNCTION zf (@i int) RETURNS int AS BEGIN RETURN @i * (SELECT n FROM factor) \
             END",
        "CREATE TABLE z (id int, k AS dbo.zf(id)); CREATE TABLE seen (k int)",
        "CREATE TRIGGER zt ON z AFTER INSERT, UPDATE, DELETE AS INSERT seen SELECT k FROM \
             inserted; INSERT seen SELECT -k FROM deleted",
        "INSERT z VALUES (1), (2)",
        "UPDATE z SET id = 5 WHERE id = 2",
        "DELETE z WHERE id = 1",
    ] {
        assert_eq!(rows(&mut *s, text), "", "{text}");
    }
    assert_eq!(rows(&mut *s, "SELECT k FROM seen ORDER BY k"), "-6\n-3\n3\n6\n15");
}

#[test]
fn a_check_is_evaluated_when_a_column_that_it_names_is_set() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE most (n int); INSERT most VALUES (10)", ""),
            (
                "CREATE FUNCTION allowed (@a int) RETURNS bit AS BEGIN IF @a > (SELECT n FROM \
                 most) RETURN 0; RETURN 1 END",
                "",
            ),
            (
                "CREATE TABLE t (i int PRIMARY KEY, a int, b int, CHECK (dbo.allowed(a) = 1), \
                 CHECK (dbo.allowed(5) = 1))",
                "",
            ),
            ("INSERT t VALUES (1, 9, 0), (2, 3, 0); UPDATE most SET n = 7", ""),
            // what the functions read has changed, and no row is looked at again
            ("UPDATE t SET b = 1; UPDATE t SET b += 1, i = i WHERE i = 1", ""),
            ("DECLARE @v int; UPDATE t SET @v = b = 5 WHERE i = 1; SELECT @v", "5"),
            ("MERGE t USING t AS s ON t.i = s.i WHEN MATCHED THEN UPDATE SET b = 8;", ""),
            ("UPDATE most SET n = 2; UPDATE t SET b = 9; SELECT SUM(b) FROM t", "18"),
            (
                "UPDATE most SET n = 6; MERGE t USING (VALUES (1), (4)) AS s (i) ON t.i = s.i WHEN \
                 MATCHED THEN UPDATE SET b = 7 WHEN NOT MATCHED THEN INSERT VALUES (s.i, 6, 0);",
                "",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("UPDATE t SET A = A WHERE i = 1", "547/16/0"),
            ("MERGE t USING t AS s ON t.i = s.i WHEN MATCHED THEN UPDATE SET a = 8;", "547/16/0"),
            ("UPDATE most SET n = 5; INSERT t VALUES (3, 6, 1)", "547/16/0"),
            (
                "MERGE t USING (VALUES (1), (5)) AS s (i) ON t.i = s.i WHEN MATCHED THEN UPDATE \
                 SET b = 7 WHEN NOT MATCHED THEN INSERT VALUES (s.i, 6, 0);",
                "547/16/0",
            ),
        ],
    );
    healthy(&server);
}

#[test]
fn a_computed_column_with_a_function_is_resolved_where_it_is_read() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE rates (i int, rate int); INSERT rates VALUES (1, 3), (2, 4)", ""),
            (
                "CREATE FUNCTION rate_of (@i int) RETURNS int AS BEGIN RETURN (SELECT rate FROM \
                 rates WHERE i = @i) END",
                "",
            ),
            ("CREATE TABLE t (i int PRIMARY KEY, a int, r AS dbo.rate_of(i) * a, n AS a + 1)", ""),
            ("INSERT t VALUES (1, 10), (2, 20)", ""),
            ("SELECT i, r FROM t WHERE r > 40", "2 | 80"),
            (
                "SELECT s.i, t.r FROM rates s LEFT JOIN t ON t.i = s.i AND t.i > 1 ORDER BY s.i",
                "1 | NULL\n2 | 80",
            ),
            ("SELECT r, COUNT(*) FROM t GROUP BY r ORDER BY r", "30 | 1\n80 | 1"),
            ("UPDATE t SET a = 30 OUTPUT inserted.n, deleted.n WHERE i = 2", "31 | 21"),
            ("DROP TABLE rates", ""),
            ("SELECT i, n FROM t ORDER BY i", "1 | 11\n2 | 31"),
            ("SELECT COUNT(*) FROM t AS x LEFT JOIN t AS y ON y.i = x.i + 1", "2"),
            ("UPDATE t SET a = 5 OUTPUT inserted.n WHERE i = 1; DELETE t WHERE n = 31", "6"),
        ],
    );
    for read in ["SELECT r FROM t", "SELECT * FROM t", "SELECT i FROM t WHERE r = 1"] {
        let found = rows(&mut *session, read);
        assert!(found.starts_with("! 208/16/1"), "{read}: {found}");
    }
}
