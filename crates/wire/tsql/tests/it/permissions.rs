//! Logins, users, roles, GRANT, DENY, REVOKE: what each lets a login do.

use tdekit_wire_tds::Session;

use crate::common::{Server, rows};

/// What each login does, in order, with its rows or the start of its error. Batches of a login use
/// one session; `ann@other` is that of `ann` in another database.
pub(crate) fn story(server: &Server, steps: &[(&str, &str, &str)]) {
    let mut sessions: Vec<(&str, Box<dyn Session>)> = Vec::new();
    let mut wrong = Vec::new();
    for (who, batch, expected) in steps {
        if !sessions.iter().any(|(known, _)| known == who) {
            let (login, database) = who.split_once('@').unwrap_or((who, "app"));
            sessions.push((who, server.session_of(login, database).unwrap()));
        }
        let found = sessions.iter_mut().find(|(known, _)| known == who);
        let found = heard(&mut *found.unwrap().1, batch);
        let error = expected.starts_with('!') && found.starts_with(expected);
        if found != *expected && !error {
            wrong.push(format!("{who}: {batch}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What batches of one session give, in order: their rows or the start of their error.
pub(crate) fn all(session: &mut dyn Session, cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (batch, expected) in cases {
        let found = heard(session, batch);
        let error = expected.starts_with('!') && found.starts_with(expected);
        if found != *expected && !error {
            wrong.push(format!("{batch}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows and errors of a batch, without what is only information.
pub(crate) fn heard(session: &mut dyn Session, batch: &str) -> String {
    let found = rows(session, batch);
    let told = |line: &&str| {
        !line.starts_with("status ")
            && !line.starts_with('~')
            && line.split('/').nth(1) != Some("0")
    };
    found.lines().filter(told).collect::<Vec<_>>().join("\n")
}

pub(crate) const DENIED: &str = "! 229/14/5";

/// A table in each database; `ann` and `bob` are users of `app`.
pub(crate) fn server() -> Server {
    let server = Server::new();
    let mut sa = server.session();
    for batch in [
        "CREATE TABLE t (a int NOT NULL, b int NULL); INSERT t VALUES (1, 10)",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.t (a int NULL)",
        "CREATE USER ann; CREATE USER bob FOR LOGIN bob",
        "USE other; CREATE TABLE secret (a int NULL); INSERT secret VALUES (42)",
    ] {
        assert_eq!(heard(&mut *sa, batch), "", "{batch}");
    }
    server
}

#[test]
fn a_reader_reads_and_a_writer_writes() {
    story(
        &server(),
        &[
            ("ann", "SELECT a FROM t", DENIED),
            ("sa", "ALTER ROLE db_datareader ADD MEMBER ann", ""),
            ("ann", "SELECT a FROM t; SELECT a FROM sales.t", "1"),
            ("ann", "UPDATE t SET b = 2", DENIED),
            ("ann", "INSERT t VALUES (2, 2)", DENIED),
            ("ann", "DELETE t WHERE a = 1", DENIED),
            ("ann", "SELECT a INTO u FROM t", "! 262/14/1"),
            ("ann", "SELECT a INTO #u FROM t; SELECT a FROM #u", "1"),
            ("sa", "ALTER ROLE db_datawriter ADD MEMBER bob", ""),
            ("bob", "SELECT a FROM t", DENIED),
            ("bob", "INSERT t VALUES (2, 2); UPDATE t SET b = 3", ""),
            ("bob", "UPDATE t SET b = b + 1", DENIED),
            ("bob", "UPDATE t SET b = 1 WHERE a = 1", DENIED),
            ("bob", "DELETE t OUTPUT deleted.a", DENIED),
            ("bob", "INSERT t OUTPUT inserted.a VALUES (2, 2)", DENIED),
            ("bob", "DECLARE @n int; UPDATE t SET @n = a, b = 1", DENIED),
            ("bob", "DELETE t", ""),
            ("sa", "SELECT COUNT(*) FROM t", "0"),
            ("sa", "ALTER ROLE db_datareader DROP MEMBER ann", ""),
            ("ann", "SELECT a FROM t", DENIED),
        ],
    );
}

#[test]
fn an_owner_of_one_database_has_nothing_in_another() {
    let server = server();
    story(
        &server,
        &[
            ("sa", "ALTER ROLE db_owner ADD MEMBER ann", ""),
            ("ann", "CREATE TABLE mine (a int); DROP TABLE mine; INSERT t VALUES (3, 3)", ""),
            ("ann", "ALTER TABLE t ADD c int NULL; CREATE INDEX ix ON t (c)", ""),
            ("ann", "CREATE VIEW v AS SELECT a FROM t", ""),
            ("ann", "GRANT SELECT ON v TO bob; ALTER ROLE db_datawriter ADD MEMBER bob", ""),
            ("bob", "SELECT COUNT(*) FROM v", "2"),
            ("ann", "ALTER DATABASE app SET RECOVERY FULL", ""),
            ("ann", "ALTER DATABASE app SET ENCRYPTION OFF", "! 5011"),
            ("ann", "SELECT a FROM other.dbo.secret", "! 916"),
            ("ann", "INSERT other.dbo.secret VALUES (1)", "! 916"),
            ("ann", "CREATE VIEW w AS SELECT a FROM other.dbo.secret", "! 916"),
            ("ann", "USE other", "! 916"),
            ("ann", "DROP DATABASE other", "! 3701"),
            ("ann", "CREATE LOGIN eve WITH PASSWORD = 'password'", "! 15247"),
            ("ann", "ALTER SERVER ROLE sysadmin ADD MEMBER ann", "! 15247"),
            ("ann", "RESTORE DATABASE app FROM DISK = 'x' WITH REPLACE", "! 262"),
            ("ann", "CREATE DATABASE mine", "! 262"),
            ("ann", "DROP CERTIFICATE c", "! 15151"),
            (
                "ann",
                "SELECT HAS_DBACCESS('app'), HAS_DBACCESS('other'), HAS_DBACCESS('none')",
                "1 | 0 | NULL",
            ),
            (
                "ann",
                "SELECT OBJECT_ID('other.dbo.secret'), OBJECT_ID('t') - OBJECT_ID('app..t')",
                "NULL | 0",
            ),
            ("sa", "SELECT name FROM other.sys.tables", "'secret'"),
        ],
    );
    assert_eq!(server.refused("ann", "other"), 4060);
}

#[test]
fn what_is_granted_counts_and_what_is_denied_counts_more() {
    story(
        &server(),
        &[
            ("sa", "GRANT SELECT, INSERT ON OBJECT::dbo.t TO ann", ""),
            ("ann", "INSERT t VALUES (2, 2); SELECT COUNT(*) FROM t", "2"),
            ("ann", "SELECT a FROM sales.t", DENIED),
            ("ann", "DELETE t", DENIED),
            ("sa", "GRANT SELECT, DELETE ON SCHEMA::sales TO ann", ""),
            ("ann", "SELECT a FROM sales.t; DELETE sales.t WHERE a = 1", ""),
            ("sa", "GRANT UPDATE TO ann", ""),
            ("ann", "UPDATE t SET b = 5 WHERE a = 1", ""),
            // by a role, and by a role in a role
            ("sa", "CREATE ROLE clerks; CREATE ROLE staff; ALTER ROLE staff ADD MEMBER clerks", ""),
            ("sa", "ALTER ROLE clerks ADD MEMBER ann; DENY SELECT ON t TO staff", ""),
            ("ann", "SELECT a FROM t", DENIED),
            ("ann", "UPDATE t SET b = 5 WHERE a = 1", DENIED),
            ("sa", "ALTER ROLE db_owner ADD MEMBER ann", ""),
            ("ann", "SELECT a FROM t", DENIED),
            ("sa", "ALTER ROLE db_owner DROP MEMBER ann; REVOKE SELECT ON t FROM staff", ""),
            ("ann", "SELECT COUNT(*) FROM t", "2"),
            ("sa", "DENY SELECT ON SCHEMA::dbo TO public", ""),
            ("ann", "SELECT COUNT(*) FROM t", DENIED),
            ("sa", "SELECT COUNT(*) FROM t", "2"),
            ("sa", "REVOKE SELECT ON SCHEMA::dbo FROM public", ""),
            ("sa", "ALTER ROLE db_denydatareader ADD MEMBER ann", ""),
            ("ann", "SELECT COUNT(*) FROM t", DENIED),
            ("sa", "ALTER ROLE db_denydatareader DROP MEMBER ann; REVOKE ALL ON t FROM ann", ""),
            ("ann", "SELECT COUNT(*) FROM t", DENIED),
            // CONTROL of a schema does not reach the database
            ("sa", "GRANT CONTROL ON SCHEMA::sales TO bob", ""),
            ("bob", "GRANT SELECT ON sales.t TO ann; DROP TABLE sales.t", ""),
            ("bob", "CREATE TABLE sales.u (a int)", "! 262"),
            ("bob", "GRANT SELECT ON t TO bob", "! 15247"),
            // a grant that is undone
            ("sa", "BEGIN TRAN; GRANT SELECT ON t TO bob; ROLLBACK", ""),
            ("bob", "SELECT a FROM t", DENIED),
            ("sa", "DENY CONNECT TO bob", ""),
            ("bob", "SELECT a FROM t", "! 916"),
        ],
    );
}

#[test]
fn views_and_procedures_reach_what_their_owner_owns() {
    let server = server();
    for batch in [
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE VIEW vv AS SELECT a FROM v",
        "CREATE VIEW across AS SELECT a FROM other.dbo.secret",
        "CREATE PROCEDURE put @n int AS INSERT t VALUES (@n, 0); SELECT COUNT(*) FROM v",
        "CREATE PROCEDURE outer_put AS EXEC put 7",
        "CREATE PROCEDURE text AS EXEC ('SELECT a FROM t')",
        "CREATE PROCEDURE define AS TRUNCATE TABLE t",
        "CREATE PROCEDURE reach AS SELECT a FROM other.dbo.secret",
        "CREATE SEQUENCE s AS int START WITH 5",
        "CREATE PROCEDURE next AS SELECT NEXT VALUE FOR s",
        "GRANT SELECT ON vv TO ann; GRANT SELECT ON across TO ann; GRANT EXECUTE TO ann",
    ] {
        assert_eq!(heard(&mut *server.session(), batch), "", "{batch}");
    }
    story(
        &server,
        &[
            ("ann", "SELECT a FROM vv", "1"),
            ("ann", "SELECT a FROM v", DENIED),
            ("ann", "SELECT v.a FROM vv JOIN t AS v ON 1 = 1", DENIED),
            ("ann", "EXEC put 5", "2"),
            ("ann", "EXEC outer_put", "3"),
            ("ann", "EXEC next", "5"),
            ("ann", "SELECT NEXT VALUE FOR s", DENIED),
            ("ann", "INSERT t VALUES (1, 1)", DENIED),
            ("ann", "EXEC text", DENIED),
            ("ann", "EXEC define", "! 1088"),
            ("ann", "EXEC reach", "! 916"),
            ("ann", "SELECT a FROM across", "! 916"),
            ("sa", "DENY EXECUTE ON put TO ann", ""),
            ("ann", "EXEC put 6", DENIED),
            // the owner of both calls it
            ("ann", "EXEC outer_put", "4"),
            ("sa", "USE other; CREATE USER ann", ""),
            ("ann", "EXEC reach", DENIED),
            ("sa", "GRANT SELECT ON secret TO ann; USE app", ""),
            ("ann", "EXEC reach; SELECT a FROM across", "42\n42"),
        ],
    );
}

#[test]
fn rights_go_with_what_they_are_on_and_whom_they_are_for() {
    let server = server();
    story(
        &server,
        &[
            ("sa", "GRANT SELECT ON t TO ann", ""),
            ("ann", "SELECT a FROM t", "1"),
            ("sa", "EXEC sp_rename 't', 'u'", ""),
            ("ann", "SELECT a FROM u", "1"),
            ("sa", "DROP TABLE u; CREATE TABLE u (a int NULL)", ""),
            ("ann", "SELECT a FROM u", DENIED),
            ("sa", "GRANT SELECT ON u TO ann; DROP USER ann; CREATE USER ann", ""),
            ("ann", "SELECT a FROM u", DENIED),
            // a login of the same name is another one
            ("sa", "GRANT SELECT ON u TO ann; DROP LOGIN ann", ""),
            ("ann", "SELECT a FROM u", "! 916"),
            ("ann", "SELECT name FROM master.sys.tables", "! 916"),
            ("sa", "CREATE LOGIN ann WITH PASSWORD = 'password'", ""),
            ("ann", "SELECT a FROM u", "! 916"),
        ],
    );
    assert_eq!(server.refused("ann", "app"), 4060);
    story(
        &server,
        &[
            ("sa", "ALTER USER ann WITH LOGIN = ann, NAME = anna", ""),
            ("ann", "SELECT a FROM u; SELECT USER_NAME(), SUSER_SNAME()", "'anna' | 'ann'"),
            // guest
            ("sa", "USE other; GRANT CONNECT TO guest; GRANT SELECT ON secret TO guest", ""),
            ("ann", "SELECT a FROM other.dbo.secret", "42"),
            ("ann", "USE other; SELECT CURRENT_USER; USE app", "'guest'"),
            ("sa", "REVOKE CONNECT FROM guest; USE app", ""),
            ("ann", "SELECT a FROM other.dbo.secret", "! 916"),
            // dbo
            ("sa", "ALTER AUTHORIZATION ON DATABASE::other TO ann", ""),
            ("ann", "USE other; SELECT USER; DROP TABLE secret; USE app", "'dbo'"),
            ("ann", "DROP TABLE u", "! 3701"),
            ("sa", "ALTER SERVER ROLE sysadmin ADD MEMBER ann", ""),
            ("ann", "SELECT USER; DROP TABLE u;", "'dbo'"),
            ("sa", "ALTER SERVER ROLE sysadmin DROP MEMBER ann", ""),
            ("ann", "SELECT USER", "'anna'"),
        ],
    );
}

const CLERKS: &str = "CREATE ROLE clerks; ALTER ROLE clerks ADD MEMBER ann; ALTER ROLE \
    db_datareader ADD MEMBER ann; GRANT INSERT ON t TO clerks; DENY DELETE ON SCHEMA::sales TO ann";

#[test]
fn functions_say_who_may_do_what() {
    story(
        &server(),
        &[
            ("sa", CLERKS, ""),
            (
                "ann",
                "SELECT USER_NAME(), CURRENT_USER, SESSION_USER, SUSER_SNAME(), USER_ID('bob')",
                "'ann' | 'ann' | 'ann' | 'ann' | 6",
            ),
            (
                "ann",
                "SELECT IS_MEMBER('clerks'), IS_MEMBER('db_owner'), IS_MEMBER('public'), \
              IS_MEMBER('nothing')",
                "1 | 0 | 1 | NULL",
            ),
            (
                "ann",
                "SELECT IS_ROLEMEMBER('db_datareader'), IS_ROLEMEMBER('clerks', 'bob'), \
              IS_ROLEMEMBER('clerks', 'ann')",
                "1 | NULL | 1",
            ),
            (
                "ann",
                "SELECT IS_SRVROLEMEMBER('sysadmin'), IS_SRVROLEMEMBER('sysadmin', 'sa'), \
              IS_SRVROLEMEMBER('public'), IS_SRVROLEMEMBER('x')",
                "0 | NULL | 1 | NULL",
            ),
            (
                "sa",
                "SELECT IS_MEMBER('db_owner'), IS_SRVROLEMEMBER('sysadmin'), USER_NAME(), \
              USER_NAME(5), IS_ROLEMEMBER('clerks', 'ann')",
                "1 | 1 | 'dbo' | 'ann' | 1",
            ),
            (
                "ann",
                "SELECT HAS_PERMS_BY_NAME('t', 'OBJECT', 'SELECT'), HAS_PERMS_BY_NAME('dbo.t', \
              'OBJECT', 'INSERT'), HAS_PERMS_BY_NAME('t', 'OBJECT', 'UPDATE'), \
              HAS_PERMS_BY_NAME('none', 'OBJECT', 'SELECT'), HAS_PERMS_BY_NAME('t', 'OBJECT', \
              'ANY')",
                "1 | 1 | 0 | NULL | 1",
            ),
            (
                "ann",
                "SELECT HAS_PERMS_BY_NAME(NULL, 'DATABASE', 'SELECT'), HAS_PERMS_BY_NAME(NULL, \
              'DATABASE', 'CREATE TABLE'), HAS_PERMS_BY_NAME('other', 'DATABASE', 'ANY'), \
              HAS_PERMS_BY_NAME('sales', 'SCHEMA', 'SELECT'), HAS_PERMS_BY_NAME('sales', 'SCHEMA', \
              'DELETE'), HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE')",
                "1 | 0 | 0 | 1 | 0 | 0",
            ),
            (
                "sa",
                "SELECT HAS_PERMS_BY_NAME('t', 'OBJECT', 'DELETE'), HAS_PERMS_BY_NAME('other', \
              'DATABASE', 'CONTROL'), HAS_PERMS_BY_NAME(NULL, NULL, 'CONTROL SERVER')",
                "1 | 1 | 1",
            ),
        ],
    );
}

#[test]
fn fn_my_permissions_has_a_row_for_each_that_the_caller_has() {
    story(
        &server(),
        &[
            ("sa", CLERKS, ""),
            (
                "ann",
                "SELECT * FROM fn_my_permissions(NULL, 'SERVER')",
                "'server' | '' | 'CONNECT SQL'\n'server' | '' | 'VIEW ANY DATABASE'",
            ),
            (
                "ann",
                "SELECT entity_name, permission_name FROM sys.fn_my_permissions('dbo.t', 'object')",
                "'dbo.t' | 'SELECT'\n'dbo.t' | 'INSERT'",
            ),
            (
                "ann",
                "SELECT permission_name FROM fn_my_permissions(NULL, 'DATABASE')",
                "'SELECT'\n'CONNECT'",
            ),
            ("ann", "SELECT * FROM fn_my_permissions('none', 'OBJECT')", ""),
            ("ann", "SELECT * FROM fn_my_permissions(NULL, 'OBJECT')", ""),
            (
                "sa",
                "SELECT p.permission_name FROM sys.tables AS o CROSS APPLY \
                 fn_my_permissions(o.name, 'OBJECT') AS p WHERE o.name = 't' AND \
                 o.schema_id = 1 AND p.permission_name IN ('ALTER', 'INSERT')",
                "'INSERT'\n'ALTER'",
            ),
            (
                "sa",
                "SELECT COUNT(*), MIN(entity_name) FROM fn_my_permissions(NULL, 'SERVER')",
                "9 | 'server'",
            ),
        ],
    );
}

#[test]
fn views_and_procedures_list_principals_and_permissions() {
    story(
        &server(),
        &[
            ("sa", CLERKS, ""),
            (
                "sa",
                "SELECT name FROM sys.database_principals WHERE principal_id BETWEEN 5 AND 9999 \
              ORDER BY principal_id",
                "'ann'\n'bob'\n'clerks'",
            ),
            (
                "ann",
                "SELECT name FROM sys.database_principals WHERE principal_id BETWEEN 5 AND 9999 \
              ORDER BY principal_id",
                "'ann'\n'clerks'",
            ),
            (
                "sa",
                "SELECT r.name, u.name FROM sys.database_role_members AS m JOIN \
              sys.database_principals AS r ON r.principal_id = role_principal_id JOIN \
              sys.database_principals AS u ON u.principal_id = member_principal_id ORDER BY r.name",
                "'clerks' | 'ann'\n'db_datareader' | 'ann'",
            ),
            (
                "sa",
                "SELECT USER_NAME(grantee_principal_id), class_desc, OBJECT_NAME(major_id), \
              permission_name, state_desc FROM sys.database_permissions ORDER BY class, 1",
                "'ann' | 'DATABASE' | NULL | 'CONNECT' | 'GRANT'\n\
              'bob' | 'DATABASE' | NULL | 'CONNECT' | 'GRANT'\n\
              'clerks' | 'OBJECT_OR_COLUMN' | 't' | 'INSERT' | 'GRANT'\n\
              'ann' | 'SCHEMA' | NULL | 'DELETE' | 'DENY'",
            ),
            (
                "sa",
                "SELECT name FROM sys.server_principals WHERE type = 'S' ORDER BY name",
                "'ann'\n'bob'\n'sa'",
            ),
            ("ann", "SELECT name FROM sys.server_principals WHERE type = 'S'", "'ann'"),
            (
                "sa",
                "SELECT SUSER_NAME(member_principal_id), SUSER_SNAME(SUSER_SID('bob')) FROM \
              sys.server_role_members",
                "'sa' | 'bob'",
            ),
            ("sa", "EXEC sp_helprolemember 'clerks'", "'clerks' | 'ann' | Binary([2])"),
            (
                "ann",
                "EXEC sp_helpuser 'ann'",
                "'ann' | 'clerks' | 'ann' | 'master' | 'dbo' | '5         ' | Binary([2])\n\
              'ann' | 'db_datareader' | 'ann' | 'master' | 'dbo' | '5         ' | Binary([2])",
            ),
            (
                "sa",
                "EXEC sp_addrolemember 'clerks', 'bob'; EXEC sp_droprolemember @rolename = \
              'clerks', @membername = 'ann'",
                "",
            ),
            ("bob", "SELECT IS_MEMBER('clerks')", "1"),
            ("ann", "SELECT IS_MEMBER('clerks')", "0"),
        ],
    );
}

#[test]
fn backups_are_for_operators_and_stay_in_the_directory() {
    let server = server();
    story(
        &server,
        &[
            ("sa", "ALTER ROLE db_backupoperator ADD MEMBER ann", ""),
            ("ann", "SELECT a FROM t", DENIED),
            ("ann", "BACKUP DATABASE app TO DISK = '/tmp/x.bak'", "! 15247"),
            ("ann", "BACKUP DATABASE app TO DISK = '../x.bak'", "! 15247"),
            ("ann", "BACKUP DATABASE app TO URL = 's3://b/x'", "! 15247"),
            ("ann", "BACKUP DATABASE app TO DISK = 'other.bak' WITH FORMAT", "! 15247"),
            ("ann", "BACKUP DATABASE app TO DISK = 'x.bak', DISK = 'other.bak'", "! 15247"),
            ("ann", "BACKUP DATABASE other TO DISK = 'x.bak'", "! 916"),
            ("bob", "BACKUP DATABASE app TO DISK = 'x.bak'", "! 262"),
        ],
    );
    assert_eq!(server.host.verbs.lock().unwrap().len(), 0);
    let mut ann = server.session_of("ann", "app").unwrap();
    assert_eq!(heard(&mut *ann, "BACKUP DATABASE app TO DISK = 'app.bak' WITH FORMAT"), "");
    assert_eq!(server.host.verbs.lock().unwrap().len(), 1);
}

#[test]
fn statements_about_principals_have_sql_servers_errors() {
    story(
        &server(),
        &[
            ("sa", "CREATE USER ann", "! 15063"),
            ("sa", "CREATE USER ann FOR LOGIN sa", "! 15023"),
            ("sa", "CREATE USER eve", "! 15007"),
            ("sa", "CREATE ROLE ann", "! 15023"),
            ("sa", "DROP USER eve", "! 15151"),
            ("sa", "DROP USER IF EXISTS eve", ""),
            ("sa", "DROP USER dbo", "! 15150"),
            ("sa", "DROP ROLE db_owner", "! 15150"),
            ("sa", "CREATE ROLE r; ALTER ROLE r ADD MEMBER ann; DROP ROLE r", "! 15144"),
            ("sa", "ALTER ROLE r ADD MEMBER r", "! 15413"),
            (
                "sa",
                "CREATE ROLE s; ALTER ROLE r ADD MEMBER s; ALTER ROLE s ADD MEMBER r",
                "! 15414",
            ),
            ("sa", "ALTER ROLE public ADD MEMBER ann", "! 15150"),
            ("sa", "ALTER ROLE none ADD MEMBER ann", "! 15151"),
            ("sa", "ALTER ROLE r ADD MEMBER none", "! 15151"),
            ("sa", "ALTER ROLE r ADD MEMBER dbo", "! 15150"),
            ("sa", "GRANT SELECT ON t TO dbo", "! 4624"),
            ("sa", "GRANT SELECT ON t TO db_owner", "! 4617"),
            ("sa", "GRANT SELECT ON none TO ann", "! 15151"),
            ("sa", "GRANT SELECT ON SCHEMA::none TO ann", "! 15151"),
            ("sa", "GRANT SELECT ON t TO none", "! 15151"),
            ("sa", "GRANT CREATE TABLE ON t TO ann", "! 4606"),
            ("sa", "CREATE FUNCTION two () RETURNS int AS BEGIN RETURN 2 END", ""),
            ("sa", "CREATE PROCEDURE one AS SELECT 1", ""),
            (
                "sa",
                "GRANT SELECT ON two TO ann",
                "! 4606/16/1 line 1: Granted or revoked privilege SELECT is not compatible with \
                 object.",
            ),
            ("sa", "DENY UPDATE ON dbo.one TO ann", "! 4606/16/1"),
            ("sa", "GRANT REFERENCES ON one TO ann", "! 4606/16/1"),
            ("sa", "REVOKE EXECUTE ON t FROM ann", "! 4606/16/1"),
            ("sa", "GRANT REFERENCES ON two TO ann; GRANT ALL ON one TO ann", ""),
            ("ann", "EXEC one", "1"),
            ("ann", "SELECT dbo.two()", DENIED),
            ("sa", "GRANT ALL ON two TO ann", ""),
            ("ann", "EXEC one; SELECT dbo.two()", "1\n2"),
            ("sa", "GRANT FLYING TO ann", "! 40512"),
            ("sa", "USE master; CREATE ROLE r", "! 40512"),
            ("sa", "ALTER AUTHORIZATION ON DATABASE::app TO ann", "! 15110"),
        ],
    );
}

/// A login that may create views and procedures gets at nothing by them that it may not read.
#[test]
fn who_defines_does_not_read() {
    story(
        &server(),
        &[
            ("sa", "ALTER ROLE db_ddladmin ADD MEMBER ann", ""),
            ("ann", "CREATE TABLE made (a int NULL); ALTER TABLE t ADD c int NULL", ""),
            ("ann", "SELECT a FROM t", DENIED),
            ("ann", "SELECT a FROM made", DENIED),
            ("ann", "CREATE VIEW v AS SELECT a FROM t", DENIED),
            ("ann", "CREATE PROCEDURE p AS SELECT a FROM t", ""),
            ("ann", "EXEC p", DENIED),
            ("ann", "GRANT EXECUTE ON p TO ann", "! 15247"),
            ("ann", "ALTER ROLE db_owner ADD MEMBER ann", "! 15151"),
            ("ann", "CREATE USER eve FOR LOGIN bob", "! 15247"),
            ("ann", "ALTER DATABASE app SET RECOVERY FULL", "! 5011"),
            ("ann", "CREATE TABLE other.dbo.made (a int)", "! 916"),
        ],
    );
}
