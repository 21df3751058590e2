//! Limits of the gate: what somebody without rights may do all the same, and what nobody gives to
//! himself.

use crate::common::Server;
use crate::permissions::{self, DENIED, heard, story};

/// As on a server: writers do not wait for readers.
fn server() -> Server {
    let server = permissions::server();
    for name in ["app", "other"] {
        let path = server.directory.path().join(format!("{name}.db"));
        let database = rusqlite::Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
    }
    server
}

#[test]
fn everybody_has_temporary_procedures_with_the_rights_of_their_caller() {
    story(
        &server(),
        &[
            ("ann", "CREATE PROCEDURE #one AS SELECT 1 AS a", ""),
            ("ann", "EXEC #one", "1"),
            ("ann", "ALTER PROCEDURE #one AS SELECT a FROM t", ""),
            ("ann", "EXEC #one", DENIED),
            ("ann", "EXEC ('EXEC #one')", DENIED),
            ("sa", "CREATE PROCEDURE own AS EXEC #two; GRANT EXECUTE ON own TO ann", ""),
            ("ann", "CREATE PROCEDURE #two AS SELECT a FROM t", ""),
            // called by the owner's procedure, it is still its caller's own
            ("ann", "EXEC own", DENIED),
            ("ann", "DROP PROCEDURE #one", ""),
            ("ann", "EXEC #one", "! 2812"),
            ("bob", "EXEC #two", "! 2812"),
        ],
    );
}

#[test]
fn a_default_takes_values_of_a_sequence_of_the_same_owner() {
    let inserts = "INSERT d (b) VALUES (1); INSERT d DEFAULT VALUES; INSERT d VALUES (DEFAULT, 3); \
        INSERT d (b) SELECT 4; INSERT d (b) EXEC ('SELECT 5')";
    story(
        &server(),
        &[
            ("sa", "CREATE SEQUENCE s AS int START WITH 1", ""),
            ("sa", "CREATE TABLE d (a int DEFAULT (NEXT VALUE FOR s), b int NULL)", ""),
            ("sa", "CREATE TABLE e (a int NULL); INSERT e VALUES (6)", ""),
            ("sa", "GRANT INSERT ON d TO ann; GRANT SELECT, INSERT ON e TO ann", ""),
            ("ann", inserts, ""),
            ("ann", "INSERT e OUTPUT inserted.a INTO d (b) VALUES (6)", ""),
            ("ann", "SELECT NEXT VALUE FOR s", DENIED),
            ("ann", "INSERT d VALUES (NEXT VALUE FOR s, 7)", DENIED),
            ("sa", "GRANT SELECT, UPDATE ON d TO ann", ""),
            (
                "ann",
                "MERGE d AS t USING (VALUES (8)) AS s (b) ON t.b = s.b WHEN NOT MATCHED THEN \
                 INSERT (b) VALUES (s.b);",
                "",
            ),
            ("ann", "UPDATE d SET a = DEFAULT WHERE b = 8", ""),
            ("sa", "SELECT COUNT(*), COUNT(DISTINCT a), MIN(a), MAX(a) FROM d", "7 | 7 | 1 | 8"),
            // whoever makes such a table needs a right on the sequence
            ("sa", "GRANT CREATE TABLE TO bob; GRANT ALTER, INSERT ON SCHEMA::sales TO bob", ""),
            ("bob", "CREATE TABLE sales.d (a int DEFAULT (NEXT VALUE FOR dbo.s))", DENIED),
            ("bob", "CREATE TABLE sales.d (a int)", ""),
            ("bob", "ALTER TABLE sales.d ADD DEFAULT (NEXT VALUE FOR s) FOR a", DENIED),
            ("bob", "ALTER TABLE sales.d ADD b int DEFAULT (NEXT VALUE FOR s)", DENIED),
            ("bob", "CREATE TABLE #d (a int DEFAULT (NEXT VALUE FOR s))", "! 208"),
            ("sa", "GRANT REFERENCES ON s TO bob", ""),
            ("bob", "ALTER TABLE sales.d ADD DEFAULT (NEXT VALUE FOR s) FOR a", ""),
        ],
    );
}

const NOT_TO: &str = "! 4624/16";

#[test]
fn nobody_grants_to_himself_or_to_whom_everything_belongs() {
    story(
        &server(),
        &[
            ("sa", "ALTER ROLE db_owner ADD MEMBER ann", ""),
            ("ann", "GRANT SELECT ON t TO ann", NOT_TO),
            ("ann", "DENY SELECT ON t TO bob, ann", NOT_TO),
            ("ann", "REVOKE CONNECT FROM [ANN ]", NOT_TO),
            ("ann", "GRANT SELECT ON t TO dbo", NOT_TO),
            ("ann", "GRANT SELECT ON SCHEMA::dbo TO sys", NOT_TO),
            ("ann", "DENY SELECT TO INFORMATION_SCHEMA", NOT_TO),
            ("ann", "GRANT SELECT ON t TO sa", NOT_TO),
            ("sa", "GRANT SELECT ON t TO dbo", NOT_TO),
            ("ann", "GRANT SELECT ON t TO db_owner", "! 4617"),
            ("bob", "SELECT a FROM t", DENIED),
            ("ann", "GRANT SELECT ON t TO bob", ""),
            ("bob", "SELECT a FROM t", "1"),
        ],
    );
}

#[test]
fn blanks_at_the_end_of_names_do_not_count() {
    let server = server();
    story(
        &server,
        &[
            ("ann", "SELECT a FROM t", DENIED),
            ("sa", "CREATE USER [ann ] FOR LOGIN sa", "! 15023"),
            ("sa", "CREATE ROLE [BOB  ]", "! 15023"),
            ("sa", "CREATE USER eve FOR LOGIN [ann ]", "! 15063"),
            ("sa", "ALTER ROLE [db_datareader ] ADD MEMBER [Ann ]", ""),
            (
                "ANN ",
                "SELECT a FROM t; SELECT USER_NAME(), IS_MEMBER('DB_DATAREADER ')",
                "1\n'ann' | 1",
            ),
            (
                "SA ",
                "SELECT IS_SRVROLEMEMBER('sysadmin', 'sa '), SUSER_ID('SA'), SUSER_ID()",
                "1 | 1 | 1",
            ),
            ("sa", "DROP USER [ann ]", ""),
            ("ann", "SELECT a FROM t", "! 916"),
        ],
    );
}

/// No transaction of somebody who may not write makes a writer or an administrator wait.
#[test]
fn who_may_not_write_takes_no_write_lock() {
    let others = "SET LOCK_TIMEOUT 0; UPDATE t SET b = b + 1; GRANT SELECT ON sales.t TO bob; \
        REVOKE SELECT ON sales.t FROM bob; ALTER ROLE db_datareader ADD MEMBER bob; ALTER ROLE \
        db_datareader DROP MEMBER bob; CREATE TABLE made (a int); DROP TABLE made";
    for holds in [
        "CREATE TABLE #t (a int)",
        "DECLARE @t table (a int); INSERT @t VALUES (1)",
        "SELECT 1 AS a INTO #t",
        "EXEC ('CREATE PROCEDURE #p AS SELECT 1 AS a')",
        "SAVE TRAN s",
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WITH (UPDLOCK, HOLDLOCK)",
        "SELECT COUNT(*) FROM t WITH (TABLOCKX)",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT COUNT(*) FROM t",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) INTO #t FROM t WITH (XLOCK)",
        "CREATE TABLE #t (a int); INSERT #t SELECT a FROM t WITH (UPDLOCK); UPDATE #t SET a = 2; \
         DELETE #t OUTPUT deleted.a",
        "CREATE TABLE #t (a int); INSERT #t EXEC ('SELECT a FROM t')",
    ] {
        let server = server();
        let mut sa = server.session_of("sa", "app").unwrap();
        assert_eq!(heard(&mut *sa, "GRANT SELECT ON t TO ann"), "");
        let mut ann = server.session_of("ann", "app").unwrap();
        let batch = format!("BEGIN TRAN; {}", holds.replace("COUNT(*)", "COUNT(*) AS a"));
        let answer = heard(&mut *ann, &batch);
        assert!(!answer.contains('!'), "{holds}: {answer}");
        assert_eq!(heard(&mut *sa, others), "", "{holds}");
        assert_eq!(heard(&mut *ann, "SELECT COUNT(*) FROM t; COMMIT"), "1", "{holds}");
        // a statement by itself takes none either, whoever runs it
        let mut bob = server.session_of("bob", "app").unwrap();
        assert_eq!(heard(&mut *sa, "BEGIN TRAN; UPDATE t SET b = 0"), "");
        let alone =
            format!("SET LOCK_TIMEOUT 0; {}", "SELECT 1 AS a INTO #u; INSERT #u VALUES (2)");
        for session in [&mut ann, &mut bob] {
            assert_eq!(heard(&mut **session, &alone), "", "{holds}");
        }
        assert_eq!(heard(&mut *sa, "COMMIT"), "");
    }
}

/// Writers of one database hold nothing in another, in which they may only read.
#[test]
fn a_writer_locks_only_where_he_may_write() {
    story(
        &server(),
        &[
            ("sa", "GRANT SELECT, UPDATE ON t TO ann", ""),
            ("sa", "USE other; CREATE USER ann; GRANT SELECT ON secret TO ann; USE app", ""),
            ("ann", "SELECT a FROM other.dbo.secret", "42"),
            ("ann", "BEGIN TRAN; CREATE TABLE #t (a int); UPDATE t SET b = 11", ""),
            ("sa@other", "SET LOCK_TIMEOUT 0; UPDATE secret SET a = 43", ""),
            ("sa", "SET LOCK_TIMEOUT 0; UPDATE t SET b = 12", "! 1222"),
            ("sa", "GRANT DELETE ON t TO ann", "! 1222"),
            ("ann", "SELECT a FROM other.dbo.secret; COMMIT", "42"),
            ("sa", "UPDATE t SET b = b + 1; SELECT b FROM t", "12"),
            // the rows of OUTPUT go into a table whose database is locked first
            ("sa", "GRANT INSERT ON t TO ann", ""),
            (
                "ann",
                "CREATE TABLE #o (a int); INSERT #o OUTPUT inserted.a, 1 INTO t VALUES (9)",
                "",
            ),
            ("sa", "SELECT COUNT(*) FROM t", "2"),
        ],
    );
}

#[test]
fn rights_are_not_those_of_an_old_snapshot() {
    story(
        &server(),
        &[
            ("sa", "GRANT SELECT ON t TO ann", ""),
            ("ann", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRAN", ""),
            ("ann", "SELECT a FROM t", "1"),
            ("sa", "REVOKE SELECT ON t FROM ann", ""),
            ("ann", "SELECT a FROM t", DENIED),
            ("sa", "DENY CONNECT TO ann", ""),
            ("ann", "SELECT a FROM t", "! 916"),
            ("sa", "GRANT CONNECT TO ann", ""),
            ("ann", "SELECT a FROM t", DENIED),
            ("ann", "COMMIT; SELECT a FROM t", DENIED),
        ],
    );
}

#[test]
fn who_manages_users_and_roles_gets_nothing_by_it() {
    story(
        &server(),
        &[
            ("sa", "CREATE ROLE admins; ALTER ROLE db_owner ADD MEMBER admins", ""),
            ("sa", "CREATE ROLE clerks; GRANT SELECT ON t TO clerks", ""),
            ("sa", "GRANT ALTER ANY ROLE, ALTER ANY USER TO ann; DENY SELECT ON t TO ann", ""),
            ("ann", "CREATE ROLE mine; DROP ROLE mine", ""),
            ("ann", "CREATE ROLE mine; ALTER ROLE mine ADD MEMBER ann", "! 15151"),
            ("ann", "ALTER ROLE db_owner ADD MEMBER ann", "! 15151"),
            ("ann", "ALTER ROLE clerks ADD MEMBER ann", "! 15151"),
            ("ann", "EXEC sp_addrolemember 'db_datareader', 'ann'", "! 15151"),
            ("ann", "ALTER USER bob WITH NAME = robert", "! 15151"),
            ("ann", "GRANT SELECT ON t TO bob", "! 15247"),
            // as guest, it would not be denied
            ("ann", "DROP USER ann", "! 15151"),
            ("sa", "DENY SELECT ON t TO bob", ""),
            ("ann", "DROP USER bob", "! 15151"),
            ("sa", "REVOKE SELECT ON t FROM bob; ALTER ROLE db_denydatareader ADD MEMBER bob", ""),
            ("ann", "DROP USER bob", "! 15151"),
            ("sa", "ALTER ROLE db_denydatareader DROP MEMBER bob", ""),
            ("ann", "DROP USER bob; CREATE USER bob", ""),
            // CONTROL is not ownership
            ("sa", "GRANT CONTROL TO bob", ""),
            ("bob", "ALTER ROLE db_owner ADD MEMBER bob", "! 15151"),
            ("bob", "ALTER ROLE admins ADD MEMBER bob", "! 15151"),
            ("bob", "ALTER ROLE db_denydatareader DROP MEMBER bob", "! 15151"),
            ("bob", "ALTER ROLE clerks ADD MEMBER ann; ALTER ROLE clerks DROP MEMBER ann", ""),
            ("sa", "ALTER ROLE admins ADD MEMBER bob", ""),
            ("bob", "ALTER ROLE db_datareader ADD MEMBER ann; DROP USER ann", ""),
        ],
    );
}

#[test]
fn drop_if_exists_is_silent_about_what_is_not_seen() {
    story(
        &server(),
        &[
            ("sa", "CREATE VIEW v AS SELECT a FROM t", ""),
            ("sa", "CREATE PROCEDURE p AS SELECT a FROM t", ""),
            ("sa", "CREATE SEQUENCE s; CREATE INDEX ix ON t (b); CREATE ROLE r", ""),
            ("ann", "DROP TABLE IF EXISTS none", ""),
            ("ann", "DROP TABLE IF EXISTS t; DROP VIEW IF EXISTS v, none", ""),
            ("ann", "DROP PROCEDURE IF EXISTS p; DROP SEQUENCE IF EXISTS s", ""),
            ("ann", "DROP INDEX IF EXISTS ix ON t; DROP INDEX IF EXISTS none ON none", ""),
            ("ann", "DROP SCHEMA IF EXISTS none; DROP DATABASE IF EXISTS none", ""),
            ("ann", "DROP USER IF EXISTS bob; DROP ROLE IF EXISTS r; DROP USER IF EXISTS none", ""),
            ("ann", "DROP TABLE t", "! 3701"),
            ("ann", "DROP TABLE none", "! 3701"),
            ("ann", "DROP USER none", "! 15151"),
            ("ann", "DROP ROLE none", "! 15151"),
            ("ann", "DROP USER bob", "! 15151"),
            ("ann", "DROP USER IF EXISTS ann", "! 15151"),
            ("ann", "DROP DATABASE IF EXISTS app", "! 3701"),
            ("sa", "GRANT SELECT ON t TO ann", ""),
            ("ann", "DROP TABLE IF EXISTS t", "! 3701"),
            ("ann", "DROP INDEX IF EXISTS none ON t", ""),
            ("ann", "DROP INDEX IF EXISTS ix ON t", "! 3701"),
            ("sa", "DROP USER none", "! 15151"),
            ("sa", "DROP ROLE IF EXISTS none", ""),
            ("sa", "SELECT COUNT(*) FROM sys.objects WHERE name IN ('t', 'v', 'p', 's')", "5"),
        ],
    );
}

#[test]
fn an_application_lock_is_for_members_of_its_principal() {
    let lock = |of: &str| {
        format!(
            "DECLARE @r int; EXEC @r = sp_getapplock 'x', 'Exclusive', 'Session', 0, '{of}'; \
             SELECT @r"
        )
    };
    let mut steps =
        vec![("sa", "CREATE ROLE clerks; ALTER ROLE clerks ADD MEMBER bob".to_owned(), "")];
    for (who, of, expected) in [
        ("ann", "public", "0"),
        ("ann", "ann", "0"),
        ("ann", "dbo", "! 1202"),
        ("ann", "bob", "! 1202"),
        ("ann", "clerks", "! 1202"),
        ("ann", "none", "! 1202"),
        ("bob", "Clerks", "0"),
        ("sa", "clerks", "-1"),
        ("sa", "dbo", "0"),
        ("sa", "none", "! 1202"),
    ] {
        steps.push((who, lock(of), expected));
    }
    let steps: Vec<_> =
        steps.iter().map(|(who, text, found)| (*who, text.as_str(), *found)).collect();
    story(&server(), &steps);
}

#[test]
fn an_owner_of_a_database_keeps_his_login() {
    story(
        &server(),
        &[
            ("sa", "DROP USER ann; ALTER AUTHORIZATION ON DATABASE::other TO ann", ""),
            ("sa", "DROP LOGIN ann", "! 15174"),
            ("sa", "ALTER AUTHORIZATION ON DATABASE::other TO sa", ""),
            ("sa", "DROP LOGIN ann; CREATE LOGIN ann WITH PASSWORD = 'password'", ""),
        ],
    );
}

#[test]
fn a_definition_that_may_not_be_read_is_null() {
    let columns = "SELECT COLUMN_DEFAULT FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'd' \
        AND COLUMN_NAME = 'a'; SELECT CHECK_CLAUSE FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS; \
        SELECT definition FROM sys.computed_columns; SELECT filter_definition FROM sys.indexes \
        WHERE name = 'ix'; SELECT definition FROM sys.default_constraints";
    story(
        &server(),
        &[
            (
                "sa",
                "CREATE TABLE d (a int NULL DEFAULT 7 CHECK (a > 3), c AS a + 1); CREATE UNIQUE \
                 INDEX ix ON d (a) WHERE a IS NOT NULL; GRANT SELECT ON d TO ann",
                "",
            ),
            ("ann", columns, "NULL\nNULL\nNULL\nNULL\nNULL"),
            ("sa", "GRANT VIEW DEFINITION ON d TO ann", ""),
            (
                "ann",
                "SELECT COLUMN_DEFAULT FROM INFORMATION_SCHEMA.COLUMNS WHERE COLUMN_NAME = 'a' \
                AND TABLE_NAME = 'd'",
                "'((7))'",
            ),
        ],
    );
}

/// Neither by a procedure that runs for its owner, nor by an error.
#[test]
fn who_may_not_read_learns_nothing_in_passing() {
    let hidden = "! 245/16/1 line 1: Conversion failed when converting the varchar value '***' to";
    story(
        &server(),
        &[
            ("sa", "CREATE TABLE u (v varchar(9) NULL, n int NULL); CREATE SEQUENCE s", ""),
            ("sa", "INSERT u VALUES ('zebra', 1), ('zebra', 2)", ""),
            (
                "sa",
                "CREATE PROCEDURE d @x nvarchar(99) AS EXEC sp_describe_first_result_set @x",
                "",
            ),
            (
                "sa",
                "CREATE PROCEDURE g @x nvarchar(99) AS DECLARE @v sql_variant; EXEC \
                sp_sequence_get_range @x, 1, @v OUTPUT",
                "",
            ),
            ("sa", "GRANT EXECUTE TO ann; ALTER ROLE db_ddladmin ADD MEMBER bob", ""),
            ("ann", "EXEC d N'SELECT v FROM u'", DENIED),
            ("ann", "EXEC g N's'", DENIED),
            ("bob", "ALTER TABLE u ALTER COLUMN v int NULL", hidden),
            ("sa", "CREATE FUNCTION f (@v varchar(9)) RETURNS int AS BEGIN RETURN @v END", ""),
            ("sa", "GRANT REFERENCES ON f TO bob", ""),
            (
                "bob",
                "ALTER TABLE u ADD CONSTRAINT fc CHECK (dbo.f(v) > 0)",
                "! 245/16/1 line 1: ***",
            ),
            ("sa", "GRANT SELECT ON u TO bob", ""),
            (
                "bob",
                "ALTER TABLE u ALTER COLUMN v int NULL",
                "! 245/16/1 line 1: Conversion failed \
                when converting the varchar value 'zebra' to",
            ),
            ("ann", "SELECT CAST(v AS int) FROM u", DENIED),
            ("ann", "SELECT COUNT(*) FROM sys.syslanguages", "34"),
            ("ann", "SELECT 1 FROM sales.t WHERE EXISTS (SELECT CAST(v AS int) FROM u)", DENIED),
        ],
    );
}

#[test]
fn no_procedure_of_a_database_stands_in_for_one_of_the_system() {
    let mine = "SELECT 'mine' AS a";
    let makes = |name: &str| format!("CREATE PROCEDURE {name} AS {mine}");
    let (tables, text) = (makes("sp_tables"), makes("dbo.sp_helptext"));
    let (lock, other) = (makes("sp_getapplock"), makes("sales.sp_tables"));
    story(
        &server(),
        &[
            ("sa", "ALTER ROLE db_ddladmin ADD MEMBER ann", ""),
            ("ann", &tables, ""),
            ("ann", &text, ""),
            ("ann", &lock, ""),
            ("ann", &other, ""),
            ("sa", "EXEC sp_tables 't', 'sales'", "'app' | 'sales' | 't' | 'TABLE' | NULL"),
            ("sa", "EXEC dbo.sp_tables 't', 'sales'", "'app' | 'sales' | 't' | 'TABLE' | NULL"),
            (
                "sa",
                "EXEC sp_helptext 'sp_tables'",
                "'CREATE PROCEDURE sp_tables AS SELECT 'mine' AS a'",
            ),
            (
                "sa",
                "DECLARE @r int; EXEC @r = sp_getapplock 'x', 'Shared', 'Session'; SELECT @r",
                "0",
            ),
            ("sa", "EXEC sales.sp_tables", "'mine'"),
            ("ann", "EXEC other.dbo.sp_tables", "! 916"),
            ("ann", "EXEC none.dbo.sp_tables", "! 911"),
        ],
    );
}

#[test]
fn a_procedure_of_the_system_works_in_the_database_that_its_name_has() {
    let sum = "SELECT (SELECT COUNT(*) FROM app.dbo.k), (SELECT COUNT(*) FROM other.dbo.k)";
    story(
        &server(),
        &[
            ("sa", "USE other; CREATE TABLE k (a int); CREATE SEQUENCE q AS int START WITH 1", ""),
            (
                "sa",
                "USE other; INSERT k VALUES (1); CREATE ROLE r; CREATE USER ann FOR LOGIN ann",
                "",
            ),
            ("sa", "USE app; CREATE TABLE k (a int); INSERT k VALUES (1); CREATE ROLE r", ""),
            ("sa", "CREATE SEQUENCE q AS int START WITH 1", ""),
            ("sa", "EXEC other..sp_executesql N'DELETE FROM k'; SELECT DB_NAME()", "'app'"),
            ("sa", sum, "1 | 0"),
            ("sa", "EXEC other.sys.sp_addrolemember 'r', 'ann'", ""),
            ("sa", "SELECT IS_ROLEMEMBER('r', 'ann')", "0"),
            (
                "sa",
                "DECLARE @r sql_variant; EXEC other..sp_sequence_get_range 'q', 5, @r OUTPUT",
                "",
            ),
            ("sa", "SELECT NEXT VALUE FOR q, NEXT VALUE FOR other.dbo.q", "1 | 6"),
            ("sa", "EXEC other.dbo.sp_rename 'k', 'kk'", ""),
            ("sa", "SELECT OBJECT_ID('k') / OBJECT_ID('k'), OBJECT_ID('other.dbo.k')", "1 | NULL"),
            ("sa", "EXEC none..sp_executesql N'SELECT 1'", "! 911"),
            ("bob", "EXEC other..sp_executesql N'SELECT 1'", "! 916"),
        ],
    );
}

/// A dot would make it an object of another schema.
#[test]
fn a_new_name_has_no_dot() {
    story(
        &server(),
        &[
            ("sa", "GRANT ALTER ON t TO bob; GRANT SELECT ON SCHEMA::sales TO bob", ""),
            ("bob", "EXEC sp_rename 't', 'sales.t2'", "! 40512"),
            ("sa", "EXEC sp_rename 't', 'dbo.t2'", "! 40512"),
            ("sa", "EXEC sp_rename 't', 'sys.t2'", "! 40512"),
            ("sa", "EXEC sp_rename 't', '.t2'", "! 40512"),
            ("sa", "EXEC sp_rename 't', 't2.'", "! 40512"),
            ("sa", "CREATE SEQUENCE q; EXEC sp_rename 'q', 'sales.q'", "! 40512"),
            ("sa", "SELECT COUNT(*) FROM sys.tables WHERE name = 't' AND schema_id = 1", "1"),
        ],
    );
}

#[test]
fn who_fills_an_identity_column_by_a_bulk_load_may_alter_the_table() {
    story(
        &server(),
        &[
            ("sa", "CREATE TABLE i (id int IDENTITY, a int); GRANT INSERT ON i TO ann", ""),
            ("ann", "INSERT BULK i (a int)", ""),
            ("ann", "INSERT BULK i (id int, a int)", "! 1088"),
            ("sa", "GRANT ALTER ON i TO ann", ""),
            ("ann", "INSERT BULK i (id int, a int)", ""),
        ],
    );
}

#[test]
fn who_loads_without_the_triggers_of_a_table_may_alter_it() {
    story(
        &server(),
        &[
            (
                "sa",
                "CREATE TABLE b (a int); CREATE TABLE log (a int); GRANT INSERT ON b TO ann",
                "",
            ),
            ("sa", "CREATE TRIGGER g ON b AFTER INSERT AS INSERT log SELECT a FROM inserted", ""),
            ("ann", "INSERT BULK b (a int) WITH (FIRE_TRIGGERS)", ""),
            ("ann", "INSERT BULK b (a int)", "! 1088"),
            ("sa", "ALTER TRIGGER g ON b INSTEAD OF INSERT AS INSERT log SELECT 1", ""),
            ("ann", "INSERT BULK b (a int)", "! 1088"),
            ("sa", "DISABLE TRIGGER g ON b", ""),
            ("ann", "INSERT BULK b (a int)", ""),
            ("sa", "ENABLE TRIGGER g ON b; GRANT ALTER ON b TO ann", ""),
            ("ann", "INSERT BULK b (a int)", ""),
        ],
    );
}

#[test]
fn a_right_to_rows_shows_no_procedures_and_no_types() {
    let count = "SELECT (SELECT COUNT(*) FROM sys.procedures), TYPE_ID('ids'), COUNT(*)
                 FROM sys.tables WHERE name = 't'";
    story(
        &server(),
        &[
            ("sa", "CREATE PROCEDURE p AS SELECT 1", ""),
            ("sa", "CREATE TYPE ids AS TABLE (a int); GRANT INSERT TO ann", ""),
            ("ann", count, "0 | NULL | 2"),
            ("sa", "GRANT EXECUTE ON p TO ann; GRANT EXECUTE ON TYPE::ids TO ann", ""),
            ("ann", &count.replace("TYPE_ID('ids')", "SIGN(TYPE_ID('ids'))"), "1 | 1 | 2"),
        ],
    );
}
