//! Bodies of triggers, and the language around them.

use tdekit_wire_tds::Session;

use crate::common::{Log, Server, rows, run};
use crate::constraints::{good, healthy};
use crate::trigger_faults::Cancels;
use crate::triggers::quiet;

#[test]
fn a_trigger_changes_its_own_table() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a int CHECK (a < 100), changed int NOT \
             NULL \
             DEFAULT 0, twice AS a * 2 PERSISTED, v rowversion, up int NULL REFERENCES t (id))",
            "CREATE TRIGGER stamp ON t AFTER INSERT, UPDATE AS UPDATE x SET changed += 1, up = \
             (SELECT \
             MIN(id) FROM t) FROM t AS x JOIN inserted AS i ON i.id = x.id",
            "INSERT t (a) VALUES (1), (2); UPDATE t SET a = a + 10 WHERE id = 2",
        ],
    );
    good(
        &mut *session,
        &[
            (
                "SELECT id, a, changed, twice, CAST(v AS int), up FROM t",
                "1 | 1 | 1 | 2 | 2003 | 1\n2 | 12 | 2 | 24 | 2006 | 1",
            ),
            ("SELECT CAST(@@DBTS AS int)", "2006"),
            // an error of the statement itself fires nothing
            (
                "BEGIN TRY UPDATE t SET a = 100 END TRY BEGIN CATCH SELECT ERROR_NUMBER() END \
                 CATCH",
                "547",
            ),
            ("SELECT SUM(changed) FROM t", "3"),
            ("DELETE t WHERE id = 2; INSERT t (a) VALUES (5); SELECT SCOPE_IDENTITY()", "3"),
        ],
    );
    quiet(
        &mut *session,
        &[
            "ALTER TRIGGER stamp ON t AFTER INSERT AS MERGE t AS x USING inserted AS i ON x.id = \
             i.id + \
             1000 WHEN NOT MATCHED THEN INSERT (a) VALUES (i.a + 50);",
            "INSERT t (a) VALUES (7)",
            "ALTER TRIGGER stamp ON t AFTER INSERT AS DELETE t WHERE a > 50 AND id NOT IN \
             (SELECT id \
             FROM inserted); DELETE x FROM t AS x, inserted WHERE inserted.id = x.id AND x.a = 8",
        ],
    );
    good(
        &mut *session,
        &[
            ("SELECT id, a FROM t ORDER BY id", "1 | 1\n3 | 5\n4 | 7\n5 | 57"),
            ("INSERT t (a) VALUES (8), (9); SELECT @@ROWCOUNT", "2"),
            ("SELECT id, a FROM t ORDER BY id", "1 | 1\n3 | 5\n4 | 7\n7 | 9"),
        ],
    );
    healthy(&server);
}

#[test]
fn all_that_queries_do_with_the_rows() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (id int, name nvarchar(20), up int NULL)",
            "CREATE TABLE log (i int IDENTITY, what nvarchar(200))",
            "CREATE TABLE kept (id int PRIMARY KEY, name nvarchar(20), n int DEFAULT 0)",
            "CREATE TRIGGER g ON t AFTER INSERT, UPDATE AS
             SET NOCOUNT ON;
             DECLARE @n int, @names nvarchar(100) = '';
             SELECT @n = COUNT(*) FROM inserted;
             SELECT @names += INSERTED.name + ',' FROM Inserted ORDER BY inserted.id;
             INSERT log VALUES (CONCAT(@n, ' ', @names));
             WITH tree AS (SELECT id, up, 0 AS depth FROM inserted WHERE up IS NULL UNION ALL
               SELECT i.id, i.up, tree.depth + 1 FROM inserted AS i JOIN tree ON tree.id = i.up)
               INSERT log SELECT CONCAT('tree ', id, ' ', depth) FROM tree ORDER BY id;
             SELECT * INTO #copy FROM inserted;
             INSERT log SELECT CONCAT('copy ', COUNT(*)) FROM #copy;
             DECLARE @v table (id int, name nvarchar(20));
             INSERT @v SELECT id, name FROM inserted WHERE name = N'ÄB';
             INSERT log SELECT CONCAT('variable ', name) FROM @v;
             MERGE kept AS k USING (SELECT id, MAX(name) AS name FROM inserted GROUP BY id) AS i ON
               i.id = k.id WHEN MATCHED THEN UPDATE SET name = i.name, n += 1
               WHEN NOT MATCHED THEN INSERT (id, name) VALUES (i.id, i.name);
             INSERT log SELECT CONCAT('both ', COALESCE(i.id, d.id), ' ', d.name, '>', i.name) FROM
               inserted AS i FULL JOIN deleted AS d ON d.id = i.id WHERE EXISTS (SELECT * FROM \
               deleted)
               ORDER BY 1;
             DECLARE @o table (name nvarchar(20), old nvarchar(20));
             UPDATE kept SET name += '!' OUTPUT inserted.name, deleted.name INTO @o WHERE id IN \
             (SELECT
               id FROM inserted) AND id = 1;
             INSERT log SELECT CONCAT('output ', old, ' ', name) FROM @o;
             EXEC sp_executesql N'INSERT log VALUES (CONCAT(''text '', @n))', N'@n int', @n;
             IF OBJECT_ID('tempdb..#copy') IS NULL INSERT log VALUES ('no copy')",
            "CREATE TABLE #copy (own int)",
            "INSERT t VALUES (1, N'äb', NULL), (2, N'c', 1), (3, N'd', 2)",
        ],
    );
    let log = "SELECT what FROM log ORDER BY i; TRUNCATE TABLE log";
    let found = rows(&mut *session, log).replace('\'', "").replace('\n', "; ");
    assert_eq!(
        found,
        "3 äb,c,d,; tree 1 0; tree 2 1; tree 3 2; copy 3; variable äb; output äb äb!; text 3"
    );
    quiet(&mut *session, &["UPDATE t SET name += 'x' WHERE id < 3"]);
    let found = rows(&mut *session, log).replace('\'', "").replace('\n', "; ");
    assert_eq!(
        found,
        "2 äbx,cx,; tree 1 0; tree 2 1; copy 2; both 1 äb>äbx; both 2 c>cx; output äbx äbx!; text 2"
    );
    good(
        &mut *session,
        &[
            ("SELECT COUNT(*) FROM #copy", "0"),
            (
                "SELECT id, name, n FROM kept ORDER BY id",
                "1 | 'äbx!' | 1\n2 | 'cx' | 1\n3 | 'd' | 0",
            ),
        ],
    );
    healthy(&server);
}

#[test]
fn definitions_change_under_a_trigger() {
    let server = Server::new();
    let (mut session, mut other) = (server.session(), server.session());
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int); CREATE TABLE log (what varchar(90))",
            "-- before\n\nCREATE\nOR ALTER\nTRIGGER g ON t AFTER INSERT, DELETE AS\nINSERT log \
             SELECT \
             CONCAT('in ', (SELECT COUNT(*) FROM inserted), ' out ', (SELECT COUNT(*) FROM \
             deleted))",
        ],
    );
    let put = "INSERT t (a) VALUES (1); DELETE TOP (1) t";
    for change in [
        "ALTER TABLE t ADD b varchar(10) NULL DEFAULT 'x'",
        "ALTER TABLE t ALTER COLUMN a bigint NULL",
        "ALTER TABLE t ADD c AS a + 1",
        "ALTER TABLE t ADD CONSTRAINT k CHECK (a > 0)",
        "ALTER TABLE t DROP COLUMN c",
        "CREATE INDEX i ON t (a)",
        "ALTER TABLE t DROP CONSTRAINT k",
        "ALTER TABLE t ADD v rowversion",
    ] {
        for one in [&mut session, &mut other] {
            assert_eq!(rows(&mut **one, put), "", "{change}");
        }
        assert_eq!(
            rows(&mut *session, "SELECT what FROM log; DELETE log"),
            "'in 1 out 0'\n'in 0 out 1'\n'in 1 out 0'\n'in 0 out 1'",
            "{change}"
        );
        assert_eq!(rows(&mut *other, change), "", "{change}");
    }
    // a column that a trigger needs
    quiet(
        &mut *session,
        &["ALTER TRIGGER g ON t AFTER INSERT AS INSERT log SELECT b FROM inserted"],
    );
    rows(
        &mut *session,
        "ALTER TABLE t DROP CONSTRAINT IF EXISTS x; EXEC sp_rename 't.b', 'n', 'COLUMN'",
    );
    assert!(rows(&mut *session, "INSERT t (a) VALUES (3)").starts_with("! 207/16/1"));
    assert_eq!(rows(&mut *session, "SELECT COUNT(*) FROM t"), "0");
    let text = rows(&mut *session, "SELECT OBJECT_DEFINITION(OBJECT_ID('g'))");
    assert!(text.starts_with("'CREATE TRIGGER g ON t AFTER INSERT AS"), "{text}");
    healthy(&server);
}

#[test]
fn transactions_within_a_trigger() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int); CREATE TABLE log (i int IDENTITY, what varchar(90))",
            "CREATE SEQUENCE q START WITH 1",
            "CREATE PROCEDURE works AS BEGIN TRAN; INSERT log VALUES (CONCAT('works ', \
             @@TRANCOUNT)); \
             COMMIT",
            "CREATE TRIGGER g ON t AFTER INSERT AS
             SET NOCOUNT ON;
             BEGIN TRAN; INSERT log VALUES (CONCAT('in ', @@TRANCOUNT)); COMMIT;
             EXEC works;
             SAVE TRAN here; INSERT log VALUES ('gone'); ROLLBACK TRAN here;
             SET XACT_ABORT OFF;
             BEGIN TRY INSERT log (i) VALUES (1) END TRY BEGIN CATCH
               INSERT log VALUES (CONCAT('caught ', ERROR_NUMBER(), ' ', XACT_STATE())) END CATCH;
             INSERT log SELECT CONCAT('next ', NEXT VALUE FOR q);
             DECLARE @r int; EXEC @r = sp_getapplock 'x', 'Exclusive', 'Transaction', 0;
             INSERT log VALUES (CONCAT('lock ', @r))",
        ],
    );
    let log = "SELECT what FROM log ORDER BY i; DELETE log";
    let seen = |tran: i32, next: i32| {
        format!("'in {}'\n'works {}'\n'caught 544 1'\n'next {next}'\n'lock 0'", tran + 1, tran + 1)
    };
    for (batch, tran, next) in [
        ("INSERT t VALUES (1)", 1, 1),
        ("BEGIN TRAN; INSERT t VALUES (1); COMMIT", 1, 2),
        ("INSERT t SELECT NEXT VALUE FOR q", 1, 4),
        (
            "SET IMPLICIT_TRANSACTIONS ON; INSERT t VALUES (1); COMMIT; SET \
             IMPLICIT_TRANSACTIONS OFF",
            1,
            5,
        ),
        ("BEGIN TRAN; BEGIN TRAN; INSERT t VALUES (2); COMMIT; COMMIT", 2, 6),
    ] {
        let found = run(&mut *session, batch);
        assert!(!found.iter().any(|line| line.starts_with('!')), "{batch}: {found:?}");
        assert_eq!(rows(&mut *session, log), seen(tran, next), "{batch}");
        // nothing is held
        let mut other = server.session();
        let free = "SET LOCK_TIMEOUT 0; DECLARE @r int; EXEC @r = sp_getapplock 'x', 'Exclusive', \
            'Session', 0; SELECT @r; EXEC sp_releaseapplock 'x', 'Session'";
        assert!(rows(&mut *other, free).contains("\n0\n"), "{batch}");
        assert_eq!(rows(&mut *session, "SELECT @@TRANCOUNT"), "0");
    }
    // values of a sequence are not given twice
    quiet(
        &mut *session,
        &["ALTER TRIGGER g ON t AFTER INSERT AS DECLARE @n int = NEXT VALUE FOR q; \
        SELECT @n; THROW 50001, 'no', 1"],
    );
    for expected in [7, 8] {
        let found = rows(&mut *session, "INSERT t VALUES (1)");
        assert!(found.starts_with(&format!("{expected}\n! 50001")), "{found}");
    }
    let found = rows(&mut *session, "INSERT t SELECT NEXT VALUE FOR q");
    assert!(found.starts_with("10\n! 50001"), "{found}");
    assert_eq!(rows(&mut *session, "SELECT NEXT VALUE FOR q"), "11");
    healthy(&server);
}

#[test]
fn a_trigger_writes_into_another_database() {
    let server = Server::new();
    for name in ["app", "other"] {
        let path = server.directory.path().join(format!("{name}.db"));
        let database = rusqlite::Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
    }
    let mut there = server.session_of("sa", "other").unwrap();
    quiet(
        &mut *there,
        &[
            "CREATE TABLE log (a int NOT NULL); CREATE TABLE t (a int NULL); CREATE TABLE names (n \
             nvarchar(90))",
            "CREATE TRIGGER g ON t AFTER INSERT AS INSERT log SELECT a FROM inserted; INSERT names \
             VALUES (CONCAT(DB_NAME(), ' ', OBJECT_NAME(@@PROCID)))",
        ],
    );
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int NULL); CREATE TABLE log (a int)",
            "CREATE TRIGGER h ON t AFTER INSERT AS INSERT log SELECT a FROM inserted; INSERT \
             other.dbo.t SELECT a FROM inserted",
            "INSERT t VALUES (1), (2); INSERT other.dbo.t VALUES (3)",
        ],
    );
    let all = "SELECT CONCAT((SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM log), (SELECT \
    COUNT(*) \
        FROM other.dbo.t), (SELECT COUNT(*) FROM other.dbo.log), (SELECT COUNT(*) FROM \
        other.dbo.names), DB_NAME())";
    assert_eq!(rows(&mut *session, all), "'22332app'");
    for batch in [
        "INSERT t VALUES (4), (NULL)",
        "BEGIN TRAN; INSERT t VALUES (5); INSERT t VALUES \
        (NULL)",
    ] {
        assert!(rows(&mut *session, batch).contains("! 515/16/2"), "{batch}");
        assert_eq!(rows(&mut *session, all), "'22332app'", "{batch}");
        assert_eq!(rows(&mut *session, "SELECT @@TRANCOUNT"), "0");
    }
    assert_eq!(rows(&mut *there, "SELECT DISTINCT n FROM names"), "'other g'");
    // a session that has not opened the other database yet
    let mut fresh = server.session();
    quiet(&mut *fresh, &["INSERT t VALUES (6)"]);
    assert_eq!(rows(&mut *session, all), "'33443app'");
    let named = rows(&mut *session, "CREATE TRIGGER x ON other.dbo.t AFTER INSERT AS SELECT 1");
    assert!(named.starts_with("! 2108/15/1"), "{named}");
    healthy(&server);
}

#[test]
fn tables_that_sqlite_made_have_triggers() {
    let server = Server::new();
    let path = server.directory.path().join("app.db");
    let file = rusqlite::Connection::open(path).unwrap();
    file.execute_batch(
        "CREATE TABLE plain (id INTEGER PRIMARY KEY, r REAL, n NUMERIC, t TEXT, b BLOB, x);
         CREATE TABLE log (id INTEGER, r REAL, n NUMERIC, t TEXT, b BLOB, x)",
    )
    .unwrap();
    drop(file);
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TRIGGER g ON plain AFTER INSERT, DELETE AS INSERT log (id, r, t, b) SELECT \
             id, r, \
             t, b FROM inserted UNION ALL SELECT -id, r, t, b FROM deleted",
            "INSERT plain (id, r, t, b) VALUES (1, 1.5, 'a', 0x01), (2, NULL, NULL, NULL)",
            "DELETE plain WHERE id = 1",
        ],
    );
    assert_eq!(
        rows(&mut *session, "SELECT id, r, t FROM log ORDER BY id"),
        "-1 | 1.5 | 'a'\n1 | 1.5 | 'a'\n2 | NULL | NULL"
    );
}

#[test]
fn two_sessions_and_locks() {
    let server = Server::new();
    for name in ["app", "other"] {
        let path = server.directory.path().join(format!("{name}.db"));
        let database = rusqlite::Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
    }
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int); CREATE TABLE total (n int); INSERT total VALUES (0)",
            "CREATE TRIGGER g ON t AFTER INSERT AS DECLARE @n int = (SELECT n FROM total); WAITFOR \
             DELAY '00:00:00.005'; UPDATE total SET n = @n + (SELECT COUNT(*) FROM inserted)",
        ],
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = server.session();
                for _ in 0..25 {
                    assert_eq!(rows(&mut *session, "INSERT t VALUES (1), (2)"), "");
                }
            });
        }
    });
    assert_eq!(rows(&mut *session, "SELECT n, (SELECT COUNT(*) FROM t) FROM total"), "200 | 200");
    let mut holder: Box<dyn Session> = server.session();
    run(&mut *holder, "BEGIN TRAN; UPDATE total SET n = n");
    let found = rows(&mut *session, "SET LOCK_TIMEOUT 0; INSERT t VALUES (1); SELECT 'next'");
    assert!(found.starts_with("! 1222/16") && found.ends_with("'next'"), "{found}");
    run(&mut *holder, "ROLLBACK");
    assert_eq!(rows(&mut *session, "SELECT n, (SELECT COUNT(*) FROM t) FROM total"), "200 | 200");
    healthy(&server);
}

#[test]
fn a_trigger_goes_back_to_a_savepoint() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE SEQUENCE q START WITH 1; CREATE TABLE t (a int DEFAULT NEXT VALUE FOR q, b \
             int); \
             CREATE TABLE u (a int DEFAULT NEXT VALUE FOR q, b int); CREATE TABLE log (a int)",
            "CREATE TRIGGER of_u ON u AFTER INSERT AS IF EXISTS (SELECT * FROM inserted WHERE b \
             = 1) \
             ROLLBACK TRAN outside ELSE IF EXISTS (SELECT * FROM inserted WHERE b = 2) ROLLBACK \
             TRAN \
             inside; INSERT log SELECT a FROM inserted",
            "CREATE TRIGGER of_t ON t AFTER INSERT AS SAVE TRAN inside; INSERT u (b) SELECT b FROM \
             inserted; INSERT log SELECT -a FROM inserted",
        ],
    );
    for (b, kept) in [(1, "0 | 0 | 2,-1"), (2, "1 | 0 | 2,-1"), (3, "1 | 1 | 2,-1")] {
        let batch = format!(
            "ALTER SEQUENCE q RESTART; BEGIN TRAN; SAVE TRAN outside; INSERT t (b) VALUES ({b}); \
             SELECT \
             @@TRANCOUNT; COMMIT"
        );
        assert_eq!(run_rows(&mut *session, &batch), "1", "{b}");
        let left = "SELECT (SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM u), (SELECT \
            STRING_AGG(a, ',') FROM log); TRUNCATE TABLE t; TRUNCATE TABLE u; TRUNCATE TABLE log";
        assert_eq!(rows(&mut *session, left).replace('\'', ""), kept, "{b}");
        assert_eq!(rows(&mut *session, "SELECT NEXT VALUE FOR q"), "3", "{b}");
    }
    healthy(&server);
}

/// Rows and errors.
fn run_rows(session: &mut dyn Session, batch: &str) -> String {
    let found = rows(session, batch);
    found.lines().filter(|line| !line.starts_with('~')).collect::<Vec<_>>().join("\n")
}

/// A client may cancel at any moment: between the rows, while they are copied, in the trigger.
#[test]
fn a_cancel_at_any_moment_leaves_nothing_half_done() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a int); CREATE TABLE log (a int); CREATE \
             TABLE c (t int REFERENCES t (id) ON UPDATE CASCADE ON DELETE CASCADE)",
            "CREATE TRIGGER g ON t AFTER INSERT, UPDATE, DELETE AS INSERT log SELECT 1 FROM \
             inserted; \
             INSERT log SELECT -1 FROM deleted",
            "CREATE TRIGGER h ON c AFTER DELETE AS INSERT log VALUES (0)",
            "INSERT t (a) SELECT value FROM STRING_SPLIT(REPLICATE('1,', 3000) + '1', ',')",
            "INSERT c SELECT TOP (20) id FROM t",
        ],
    );
    for round in 0..60_u64 {
        let mut log = Cancels(Log::default());
        let cancel = log.0.cancel.clone();
        let batch = match round % 3 {
            0 => "WHILE 1 = 1 BEGIN UPDATE t SET a = a + 1; INSERT t (a) VALUES (1); END",
            1 => {
                "BEGIN TRAN; WHILE 1 = 1 BEGIN SAVE TRAN z; DELETE TOP (1) t; ROLLBACK TRAN z; END"
            }
            _ => {
                "WHILE 1 = 1 BEGIN TRY INSERT t (a) SELECT TOP (50) a FROM t; DELETE TOP (50) t \
                 END \
                  TRY BEGIN CATCH PRINT ERROR_MESSAGE() END CATCH"
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(500 + round * 397));
                cancel.store(true, std::sync::atomic::Ordering::Release);
            });
            session.batch(batch, &mut log);
        });
        let errors: Vec<_> = log.0.lines.iter().filter(|line| line.starts_with('!')).collect();
        assert_eq!(errors, [""; 0], "{round}");
        rows(&mut *session, "IF @@TRANCOUNT > 0 ROLLBACK");
        let same =
            "SELECT CASE WHEN (SELECT COUNT(*) FROM t) = (SELECT SUM(a) FROM log) THEN 1 END";
        assert_eq!(rows(&mut *session, same), "1", "{round}");
    }
    healthy(&server);
}

#[test]
fn names_of_any_kind() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE [a\"b; 'c] ([x]]y] int, [d\"e] nvarchar(9), [select] AS [x]]y] + 1, \
             ünï int)",
            "CREATE TABLE log (what nvarchar(90))",
            "CREATE TRIGGER [t'r\"g ü] ON [a\"b; 'c] AFTER INSERT, UPDATE AS IF UPDATE([x]]y]) \
             INSERT log \
             SELECT CONCAT([x]]y], [d\"e], [select], ünï) FROM inserted",
            "INSERT [a\"b; 'c] ([x]]y], [d\"e], ünï) VALUES (1, N'é', 5)",
            "UPDATE [A\"B; 'C] SET [D\"E] = 'z'; UPDATE [A\"B; 'C] SET [X]]Y] = 3",
            "DISABLE TRIGGER [T'R\"G ü] ON [a\"b; 'c]; UPDATE [a\"b; 'c] SET [x]]y] = 4",
        ],
    );
    assert_eq!(rows(&mut *session, "SELECT what FROM log"), "'1é25'\n'3z45'");
    quiet(&mut *session, &["DROP TRIGGER [t'r\"g ü]"]);
}

#[test]
fn definitions_within_a_trigger() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int); CREATE TABLE log (what varchar(90))",
            "CREATE TRIGGER one ON t AFTER INSERT AS INSERT log VALUES ('one'); IF EXISTS \
             (SELECT * \
             FROM inserted WHERE a = 1) ALTER TABLE t ADD b int NULL ELSE IF EXISTS (SELECT * FROM \
             inserted WHERE a = 2) DROP TRIGGER one ELSE DROP TABLE t",
            "CREATE TRIGGER two ON t AFTER INSERT AS INSERT log SELECT CONCAT('two ', a) FROM \
             inserted",
            "INSERT t VALUES (1); INSERT t (a) VALUES (2); INSERT t (a) VALUES (3)",
        ],
    );
    let log = "SELECT what FROM log; DELETE log";
    assert_eq!(rows(&mut *session, log), "'one'\n'two 1'\n'one'\n'two 2'\n'two 3'");
    quiet(&mut *session, &["CREATE TRIGGER one ON t AFTER INSERT AS DROP TABLE t"]);
    rows(&mut *session, "BEGIN TRAN; INSERT t (a) VALUES (9); ROLLBACK");
    good(
        &mut *session,
        &[
            ("SELECT COUNT(*) FROM t", "3"),
            ("SELECT COUNT(*) FROM sys.triggers", "2"),
            ("INSERT t (a) VALUES (9); SELECT OBJECT_ID('t')", "NULL"),
            ("SELECT COUNT(*) FROM sys.triggers", "0"),
        ],
    );
    healthy(&server);
}
