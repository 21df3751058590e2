//! Every kind of statement, as a login with nothing but CONNECT and as a reader.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tdekit_wire_tds::{Column, Generated, Session, SqlType};

use crate::ast::defined::UserType;
use crate::ast::principal::{Principals, Securable};
use crate::ast::trigger::TriggerAction;
use crate::ast::{
    Action, AlterTable, ExecTarget, Kind, Name, ObjectKind, Security, SetValue, Source, Stmt,
};
use crate::error::Error;
use crate::host::{AlterDatabase, RestoreKind};
use crate::run::catalog::user_types::type_of;
use crate::run::catalog::{texts, views};
use crate::run::system_procedures::PROCEDURES;
use crate::run::tests::{Files, Numbers, session_of};

/// A list of a type's variants and a function that names one: a new variant does not compile before
/// it has a name, and its name needs a statement below.
macro_rules! named {
    ($all:ident, $name:ident, $of:ty: $($text:literal => $pattern:pat),+ $(,)?) => {
        const $all: &[&str] = &[$($text),+];

        fn $name(of: &$of) -> &'static str {
            match of {
                $($pattern => $text),+
            }
        }
    };
}

named!(KINDS, kind, Kind:
    "query" => Kind::Query(_),
    "insert" => Kind::Insert(_),
    "update" => Kind::Update(_),
    "delete" => Kind::Delete(_),
    "merge" => Kind::Merge(_),
    "declare" => Kind::Declare(_),
    "set" => Kind::Set(..),
    "if" => Kind::If(..),
    "while" => Kind::While(..),
    "block" => Kind::Block(_),
    "try" => Kind::Try(..),
    "break" => Kind::Break,
    "continue" => Kind::Continue,
    "return" => Kind::Return(_),
    "print" => Kind::Print(_),
    "raiserror" => Kind::Raiserror { .. },
    "throw" => Kind::Throw(_),
    "wait" => Kind::Wait { .. },
    "exec" => Kind::Exec(_),
    "cursor" => Kind::Cursor(_),
    "label" => Kind::Label(_),
    "goto" => Kind::Goto(_),
    "act" => Kind::Act(_),
    "nothing" => Kind::Nothing,
);

named!(ACTIONS, action, Action:
    "insert bulk" => Action::InsertBulk(_),
    "truncate" => Action::Truncate(_),
    "declare table" => Action::DeclareTable(_),
    "declare typed" => Action::DeclareTyped(_),
    "option" => Action::SetOption(..),
    "use" => Action::Use(_),
    "tran" => Action::Tran(..),
    "create table" => Action::CreateTable(_),
    "alter table" => Action::AlterTable(..),
    "create index" => Action::CreateIndex(_),
    "create view" => Action::CreateView { .. },
    "create procedure" => Action::CreateProc(_),
    "create type" => Action::CreateType(_),
    "create function" => Action::CreateFunction(_),
    "trigger" => Action::Trigger(_),
    "create database" => Action::CreateDatabase(_),
    "create sequence" => Action::Sequence { create: true, .. },
    "alter sequence" => Action::Sequence { .. },
    "create schema" => Action::CreateSchema(..),
    "alter schema" => Action::Transfer(..),
    "drop" => Action::Drop { .. },
    "dbcc" => Action::Dbcc { .. },
    "security" => Action::Security(_),
    "principals" => Action::Principals(_),
    "checkpoint" => Action::Checkpoint,
    "kill" => Action::Kill(_),
    "rebuild" => Action::Rebuild { .. },
);

named!(SECURITY, security, Security:
    "create master key" => Security::CreateMasterKey { .. },
    "open master key" => Security::OpenMasterKey { .. },
    "close master key" => Security::CloseMasterKey,
    "alter master key" => Security::AlterMasterKey { .. },
    "backup master key" => Security::BackupMasterKey { .. },
    "create certificate" => Security::CreateCertificate(_),
    "backup certificate" => Security::BackupCertificate(_),
    "create encryption key" => Security::CreateEncryptionKey(_),
    "alter encryption key" => Security::AlterEncryptionKey(_),
    "alter database" => Security::AlterDatabase { .. },
    "backup" => Security::Backup(_),
    "restore" => Security::Restore(_),
);

named!(PRINCIPALS, principals, Principals:
    "create login" => Principals::CreateLogin { .. },
    "alter login" => Principals::AlterLogin { .. },
    "drop login" => Principals::DropLogin(_),
    "server role" => Principals::ServerRole { .. },
    "create user" => Principals::CreateUser { .. },
    "alter user" => Principals::AlterUser { .. },
    "create role" => Principals::CreateRole(_),
    "drop user" => Principals::Drop { .. },
    "member" => Principals::Member { .. },
    "permit on database" => Principals::Permit { on: Securable::Database(_), .. },
    "permit on schema" => Principals::Permit { on: Securable::Schema(_), .. },
    "permit on object" => Principals::Permit { on: Securable::Object(_), .. },
    "permit on type" => Principals::Permit { on: Securable::Type(_), .. },
    "owner" => Principals::Owner { .. },
);

named!(DROPS, dropped, ObjectKind:
    "drop table" => ObjectKind::Table,
    "drop view" => ObjectKind::View,
    "drop procedure" => ObjectKind::Procedure,
    "drop index" => ObjectKind::Index,
    "drop database" => ObjectKind::Database,
    "drop certificate" => ObjectKind::Certificate,
    "drop master key" => ObjectKind::MasterKey,
    "drop encryption key" => ObjectKind::EncryptionKey,
    "drop schema" => ObjectKind::Schema,
    "drop sequence" => ObjectKind::Sequence,
    "drop type" => ObjectKind::Type,
    "drop function" => ObjectKind::Function,
    "drop trigger" => ObjectKind::Trigger,
);

named!(TRIGGERS, triggers, TriggerAction:
    "create trigger" => TriggerAction::Create(_),
    "switch trigger" => TriggerAction::Switch { .. },
);

named!(ALTERED, altered, AlterTable:
    "add" => AlterTable::Add(..),
    "drop column" => AlterTable::DropColumn(..),
    "alter column" => AlterTable::AlterColumn(_),
    "drop constraint" => AlterTable::DropConstraint(..),
    "switch" => AlterTable::Switch { .. },
);

named!(CHANGED, changed, AlterDatabase:
    "encryption on" => AlterDatabase::EncryptionOn,
    "encryption off" => AlterDatabase::EncryptionOff,
    "encryption suspend" => AlterDatabase::EncryptionSuspend,
    "encryption resume" => AlterDatabase::EncryptionResume,
    "recovery" => AlterDatabase::Recovery(_),
    "database option" => AlterDatabase::Set(..),
    "modify file" => AlterDatabase::ModifyFile(_),
);

named!(RESTORED, restored, RestoreKind:
    "restore database" => RestoreKind::Database,
    "restore log" => RestoreKind::Log,
    "header only" => RestoreKind::HeaderOnly,
    "verify only" => RestoreKind::VerifyOnly,
    "file list only" => RestoreKind::FileListOnly,
    "label only" => RestoreKind::LabelOnly,
);

named!(SOURCES, source, Source:
    "insert values" => Source::Values(_),
    "insert query" => Source::Query(_),
    "insert defaults" => Source::Defaults,
    "insert exec" => Source::Exec(_),
);

named!(CALLED, called, ExecTarget:
    "exec procedure" => ExecTarget::Procedure(_),
    "exec variable" => ExecTarget::Variable(_),
    "exec text" => ExecTarget::Text(_),
);

named!(OPTIONS, option, SetValue:
    "set on" => SetValue::On,
    "set off" => SetValue::Off,
    "set text" => SetValue::Text(_),
    "set expression" => SetValue::Expr(_),
    "set table" => SetValue::Table(..),
);

/// Adds the names of all that a statement is.
fn names(stmt: &Stmt, found: &mut BTreeSet<&'static str>) {
    stmt.children(&mut |inner| names(inner, found));
    found.insert(kind(&stmt.kind));
    let act = match &stmt.kind {
        Kind::Insert(insert) => {
            found.insert(source(&insert.source));
            return;
        }
        Kind::Exec(exec) => {
            found.insert(called(&exec.target));
            return;
        }
        Kind::Act(act) => act,
        _ => return,
    };
    found.insert(action(act));
    let inner = match act {
        Action::Drop { kind, .. } => dropped(kind),
        Action::AlterTable(_, change) => altered(change),
        Action::SetOption(_, value) => option(value),
        Action::Principals(own) => principals(own),
        Action::Trigger(own) => triggers(own),
        Action::Security(own) => {
            match own {
                Security::AlterDatabase { change, .. } => found.insert(changed(change)),
                Security::Restore(restore) => found.insert(restored(&restore.kind)),
                _ => false,
            };
            security(own)
        }
        _ => action(act),
    };
    found.insert(inner);
}

const ALL: [&[&str]; 12] = [
    KINDS, ACTIONS, SECURITY, PRINCIPALS, DROPS, ALTERED, CHANGED, RESTORED, SOURCES, CALLED,
    OPTIONS, TRIGGERS,
];

/// A batch, its error for a login with CONNECT only, that for a reader; 0 is none.
const CASES: &[(&str, i32, i32)] = &[
    // reading
    ("SELECT stripe FROM zebra", 229, 0),
    ("SELECT stripe FROM shown", 229, 0),
    ("SELECT app.dbo.zebra.stripe FROM app.dbo.zebra", 229, 0),
    ("SELECT stripe FROM other.dbo.zebra", 916, 916),
    ("SELECT stripe FROM other..zebra AS z", 916, 916),
    ("SELECT stripe FROM across", 916, 916),
    ("SELECT (SELECT MAX(stripe) FROM other.dbo.zebra)", 916, 916),
    ("SELECT 1 WHERE EXISTS (SELECT * FROM zebra)", 229, 0),
    ("SELECT 1 ORDER BY (SELECT MAX(stripe) FROM zebra)", 229, 0),
    ("SELECT CASE WHEN 1 IN (SELECT stripe FROM zebra) THEN 1 END", 229, 0),
    ("WITH c AS (SELECT stripe FROM zebra) SELECT * FROM c", 229, 0),
    ("SELECT * FROM (SELECT stripe FROM zebra) AS d", 229, 0),
    ("SELECT 1 AS n UNION ALL SELECT stripe FROM zebra", 229, 0),
    ("SELECT 1 FROM (VALUES (1)) AS v (n) JOIN zebra ON stripe = n", 229, 0),
    ("SELECT * FROM OPENJSON('[1]') AS j WHERE j.value IN (SELECT stripe FROM zebra)", 229, 0),
    ("SELECT * FROM OPENJSON((SELECT '[' + STR(MAX(stripe)) + ']' FROM zebra))", 229, 0),
    ("SELECT stripe INTO #copy FROM zebra", 229, 0),
    ("SELECT stripe FROM found(1)", 229, 0),
    ("SELECT stripe FROM beyond()", 916, 916),
    ("SELECT 1 FROM (SELECT 1 AS a) AS a CROSS APPLY found(a.a) AS b", 229, 0),
    (
        "SELECT 1 FROM (SELECT 1 AS a) AS a CROSS APPLY (SELECT id FROM zebra WHERE id = a.a) AS b",
        229,
        0,
    ),
    ("SELECT 1 FROM other.dbo.found(1)", 916, 916),
    ("SELECT 1 AS a INTO made", 262, 262),
    ("DECLARE c CURSOR LOCAL FOR SELECT stripe FROM zebra OPTION (FAST 1)", 229, 0),
    ("GOTO x; SELECT stripe FROM zebra; x: SELECT 1", 0, 0),
    ("SELECT 1 AS a INTO other.dbo.made", 916, 916),
    ("SELECT NEXT VALUE FOR numbers", 229, 229),
    ("SELECT stripe FROM sales.zebra WITH (NOLOCK)", 229, 0),
    ("SELECT OBJECT_ID('other.dbo.zebra'), COL_LENGTH('other.dbo.zebra', 'stripe')", 0, 0),
    ("SELECT name FROM other.sys.tables", 916, 916),
    ("SELECT TABLE_NAME FROM other.INFORMATION_SCHEMA.TABLES", 916, 916),
    ("SELECT * FROM sys.dm_os_waiting_tasks", 300, 300),
    ("SELECT * FROM sys.dm_exec_sql_text(0x01)", 300, 300),
    ("SELECT * FROM tsql_permission", 208, 208),
    ("SELECT * FROM app.dbo.[TSQL_member]", 208, 208),
    ("SELECT * FROM master.dbo.zebra", 229, 229),
    ("SELECT * FROM #elsewhere", 208, 208),
    // writing
    ("INSERT zebra (stripe) VALUES (3)", 229, 229),
    ("INSERT zebra DEFAULT VALUES", 229, 229),
    ("INSERT zebra (stripe) SELECT stripe FROM zebra", 229, 229),
    ("INSERT zebra (stripe) EXEC get", 229, 229),
    ("INSERT zebra (stripe) EXEC ('SELECT 1')", 229, 229),
    ("INSERT app.dbo.zebra (stripe) VALUES (3)", 229, 229),
    ("INSERT other.dbo.zebra (stripe) VALUES (3)", 916, 916),
    ("INSERT master.dbo.zebra (stripe) VALUES (3)", 229, 229),
    ("INSERT tsql_member VALUES (16384, 5)", 208, 208),
    ("UPDATE tsql_principal SET id = 1", 208, 208),
    ("DELETE [tsql_permission]", 208, 208),
    (
        "MERGE tsql_member AS t USING (VALUES (1)) AS s (a) ON 1 = 0 WHEN NOT MATCHED THEN INSERT \
      (role, member) VALUES (16384, 5);",
        208,
        208,
    ),
    ("DECLARE @t table (a int); INSERT @t SELECT stripe FROM zebra", 229, 0),
    (
        "DECLARE @t table (a int); INSERT @t OUTPUT inserted.a INTO zebra (stripe) VALUES (1)",
        229,
        229,
    ),
    ("DECLARE @t table (a int); DELETE @t OUTPUT deleted.a INTO zebra (stripe)", 229, 229),
    ("UPDATE zebra SET stripe = 0", 229, 229),
    ("UPDATE z SET stripe = 0 FROM zebra AS z WHERE id = 1", 229, 229),
    ("DECLARE @n int = 0; UPDATE zebra SET @n = stripe = @n + 1", 229, 229),
    ("DELETE zebra", 229, 229),
    ("WITH zebra AS (SELECT stripe FROM other.dbo.zebra) DELETE zebra", 916, 916),
    ("WITH c AS (SELECT stripe FROM zebra) UPDATE c SET stripe = 1", 229, 229),
    ("DELETE TOP (1) z FROM zebra AS z", 229, 229),
    ("DELETE other.dbo.zebra", 916, 916),
    (
        "MERGE zebra AS t USING (VALUES (1)) AS s (a) ON t.id = s.a WHEN MATCHED THEN DELETE;",
        229,
        229,
    ),
    (
        "MERGE zebra AS t USING (VALUES (9)) AS s (a) ON t.id = s.a WHEN NOT MATCHED THEN INSERT \
      (stripe) VALUES (9);",
        229,
        229,
    ),
    (
        "MERGE zebra AS t USING (VALUES (1)) AS s (a) ON t.id = s.a WHEN MATCHED THEN UPDATE SET \
      stripe = 9;",
        229,
        229,
    ),
    (
        "MERGE #own AS t USING other.dbo.zebra AS s ON 1 = 0 WHEN NOT MATCHED THEN INSERT (a) \
      VALUES \
      (s.stripe);",
        208,
        208,
    ),
    ("INSERT BULK zebra (stripe int)", 229, 229),
    ("TRUNCATE TABLE zebra", 1088, 1088),
    ("SET IDENTITY_INSERT zebra ON", 1088, 1088),
    // control flow
    ("DECLARE @a int = (SELECT MAX(stripe) FROM zebra)", 229, 0),
    ("DECLARE @a int; SET @a = (SELECT MAX(stripe) FROM zebra)", 229, 0),
    ("DECLARE @a int; SELECT @a = stripe FROM zebra", 229, 0),
    ("IF EXISTS (SELECT * FROM zebra) PRINT 'x' ELSE RETURN", 229, 0),
    ("WHILE EXISTS (SELECT * FROM zebra) BREAK", 229, 0),
    ("DECLARE @i int = 0; WHILE @i < 1 BEGIN SET @i = 1; CONTINUE; END", 0, 0),
    ("BEGIN DELETE zebra END", 229, 229),
    ("BEGIN TRY DELETE zebra END TRY BEGIN CATCH THROW END CATCH", 229, 229),
    ("PRINT (SELECT MAX(stripe) FROM zebra)", 229, 0),
    ("RAISERROR ('x', 10, 1); UPDATE STATISTICS zebra", 0, 0),
    ("WAITFOR DELAY '00:00:00'", 0, 0),
    ("BEGIN TRAN; DELETE zebra; COMMIT", 229, 229),
    ("SET NOCOUNT ON; SET NOCOUNT OFF; SET DATEFORMAT mdy; SET LOCK_TIMEOUT -1", 0, 0),
    ("SET ROWCOUNT 0; SET TEXTSIZE 4096", 0, 0),
    ("USE other", 916, 916),
    ("USE model", 916, 916),
    // calls
    ("DECLARE @t herd", 229, 229),
    ("EXEC take", 229, 229),
    ("EXEC sp_executesql N'SELECT 1', N'@t herd READONLY'", 0, 0),
    ("EXEC put", 229, 229),
    ("EXEC get", 229, 229),
    ("EXEC other.dbo.put", 916, 916),
    ("EXEC ('DELETE zebra')", 229, 229),
    ("EXEC ('EXEC (''DELETE zebra'')')", 229, 229),
    ("EXEC sp_executesql N'UPDATE zebra SET stripe = @n', N'@n int', @n = 5", 229, 229),
    ("EXEC sys.sp_executesql N'SELECT stripe FROM other.dbo.zebra'", 916, 916),
    ("DECLARE @n sysname = 'put'; EXEC @n", 229, 229),
    ("EXEC sp_describe_first_result_set N'SELECT stripe FROM zebra'", 229, 0),
    ("EXEC sp_addrolemember 'db_owner', 'reader'", 15151, 15151),
    ("EXEC dbo.sp_addrolemember 'db_owner', 'con'", 15151, 15151),
    ("EXEC sp_droprolemember 'db_datareader', 'reader'", 15151, 15151),
    ("EXEC sp_rename 'zebra', 'horse'", 1088, 1088),
    ("EXEC sp_rename 'numbers', 'figures'", 1088, 1088),
    ("EXEC sp_rename 'zebra.stripe', 'spot', 'COLUMN'", 1088, 1088),
    ("EXEC sp_addextendedproperty 'x', 'y'", 15247, 15247),
    ("DECLARE @v bigint; EXEC sp_sequence_get_range N'numbers', 1, @v OUTPUT", 229, 229),
    ("EXEC xp_delete_file 0, N'x.bak'", 229, 229),
    ("EXEC master.dbo.xp_delete_file 0, N'x.bak'", 229, 229),
    ("EXEC master..xp_delete_file 0, N'x.bak'", 229, 229),
    ("EXEC msdb.dbo.sp_delete_database_backuphistory N'app'", 229, 229),
    ("EXEC msdb.dbo.sp_delete_backuphistory '2020-01-01'", 229, 229),
    ("EXEC sp_detach_db N'app'", 229, 229),
    ("CREATE DATABASE made ON (FILENAME = 'app.db') FOR ATTACH", 262, 262),
    ("EXEC xp_instance_regwrite N'a', N'b', N'c', N'd', N'e'", 229, 229),
    // definitions
    ("CREATE TABLE made (a int)", 262, 262),
    ("CREATE TABLE sales.made (a int)", 262, 262),
    ("CREATE TABLE other.dbo.made (a int)", 916, 916),
    ("CREATE TABLE tempdb.dbo.made (a int)", 262, 262),
    ("CREATE TABLE master.dbo.made (a int)", 262, 262),
    ("CREATE TABLE msdb.dbo.made (a int)", 262, 262),
    ("CREATE TABLE tsql_module (a int)", 208, 208),
    ("CREATE TABLE #own (a int); INSERT #own VALUES (1); DROP TABLE #own", 0, 0),
    ("ALTER TABLE zebra ADD c int NULL", 1088, 1088),
    ("ALTER TABLE zebra DROP COLUMN stripe", 1088, 1088),
    ("ALTER TABLE zebra ALTER COLUMN stripe bigint NULL", 1088, 1088),
    ("ALTER TABLE zebra DROP CONSTRAINT positive", 1088, 1088),
    ("ALTER TABLE zebra NOCHECK CONSTRAINT ALL", 1088, 1088),
    ("CREATE INDEX made ON zebra (stripe)", 1088, 1088),
    ("ALTER INDEX ALL ON zebra REBUILD", 1088, 1088),
    ("CREATE VIEW made AS SELECT 1 AS a", 262, 262),
    ("ALTER VIEW shown AS SELECT 1 AS a", 15151, 15151),
    ("CREATE OR ALTER VIEW shown AS SELECT 1 AS a", 15151, 15151),
    ("CREATE PROCEDURE made AS SELECT 1", 262, 262),
    ("ALTER PROCEDURE put AS SELECT 1", 15151, 15151),
    ("CREATE TYPE made FROM int", 262, 262),
    ("CREATE TYPE other.dbo.made FROM int", 916, 916),
    ("CREATE FUNCTION made () RETURNS TABLE AS RETURN SELECT 1 AS a", 262, 262),
    ("ALTER FUNCTION found () RETURNS TABLE AS RETURN SELECT 1 AS a", 15151, 15151),
    ("CREATE TRIGGER made ON zebra AFTER INSERT AS PRINT 'x'", 8197, 8197),
    ("CREATE TRIGGER made ON shown INSTEAD OF INSERT AS PRINT 'x'", 8197, 8197),
    ("CREATE TRIGGER made ON other.dbo.zebra AFTER INSERT AS PRINT 'x'", 916, 916),
    ("CREATE TRIGGER made ON tsql_member AFTER INSERT AS PRINT 'x'", 208, 208),
    ("ALTER TRIGGER sales.watch ON sales.zebra AFTER INSERT AS PRINT 'x'", 8197, 8197),
    ("CREATE OR ALTER TRIGGER sales.watch ON sales.zebra FOR INSERT AS PRINT 'x'", 8197, 8197),
    ("DISABLE TRIGGER sales.watch ON sales.zebra", 1088, 1088),
    ("ENABLE TRIGGER ALL ON sales.zebra", 1088, 1088),
    ("ALTER TABLE sales.zebra DISABLE TRIGGER ALL", 1088, 1088),
    ("DROP TRIGGER sales.watch", 3701, 3701),
    ("DROP TRIGGER IF EXISTS nothing", 0, 0),
    ("CREATE DATABASE made", 262, 262),
    ("CREATE SEQUENCE made", 2760, 2760),
    ("ALTER SEQUENCE numbers RESTART", 15151, 15151),
    ("CREATE SCHEMA made", 262, 262),
    ("ALTER SCHEMA sales TRANSFER shown", 15151, 15151),
    ("ALTER SCHEMA dbo TRANSFER OBJECT::sales.zebra", 15151, 15151),
    ("DROP TABLE zebra", 3701, 3701),
    ("DROP TABLE other.dbo.zebra", 916, 916),
    ("DROP VIEW shown", 3701, 3701),
    ("DROP PROCEDURE put", 3701, 3701),
    ("DROP TYPE herd", 218, 218),
    ("DROP FUNCTION found", 3701, 3701),
    ("DROP INDEX ix ON zebra", 3701, 3701),
    ("DROP INDEX zebra.ix", 3701, 3701),
    ("DROP DATABASE app", 3701, 3701),
    ("DROP DATABASE other", 3701, 3701),
    ("DROP SCHEMA sales", 15151, 15151),
    ("DROP SEQUENCE numbers", 3701, 3701),
    ("DROP CERTIFICATE c", 15151, 15151),
    ("DROP MASTER KEY", 15247, 15247),
    ("DROP DATABASE ENCRYPTION KEY", 15247, 15247),
    // the server
    ("DBCC CHECKDB", 2571, 2571),
    ("DBCC DROPCLEANBUFFERS", 2571, 2571),
    ("DBCC CHECKCONSTRAINTS (zebra)", 2571, 2571),
    ("DBCC OPENTRAN WITH TABLERESULTS", 2571, 2571),
    ("CHECKPOINT", 262, 262),
    ("KILL 52", 6102, 6102),
    ("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'password'", 15247, 15247),
    ("OPEN MASTER KEY DECRYPTION BY PASSWORD = 'password'", 15247, 15247),
    ("CLOSE MASTER KEY", 15247, 15247),
    ("ALTER MASTER KEY REGENERATE WITH ENCRYPTION BY PASSWORD = 'password'", 15247, 15247),
    ("BACKUP MASTER KEY TO FILE = 'k' ENCRYPTION BY PASSWORD = 'password'", 15247, 15247),
    ("CREATE CERTIFICATE c WITH SUBJECT = 's'", 15247, 15247),
    ("BACKUP CERTIFICATE c TO FILE = 'c'", 15247, 15247),
    (
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER CERTIFICATE \
      c",
        15247,
        15247,
    ),
    ("ALTER DATABASE ENCRYPTION KEY REGENERATE WITH ALGORITHM = AES_256", 15247, 15247),
    ("ALTER DATABASE app SET ENCRYPTION ON", 5011, 5011),
    ("ALTER DATABASE app SET ENCRYPTION OFF", 5011, 5011),
    ("ALTER DATABASE app SET ENCRYPTION SUSPEND", 5011, 5011),
    ("ALTER DATABASE app SET ENCRYPTION RESUME", 5011, 5011),
    ("ALTER DATABASE CURRENT SET RECOVERY FULL", 5011, 5011),
    ("ALTER DATABASE other SET RECOVERY FULL", 5011, 5011),
    ("ALTER DATABASE app SET READ_COMMITTED_SNAPSHOT ON", 5011, 5011),
    ("ALTER DATABASE app MODIFY FILE (NAME = 'app', SIZE = 10MB)", 5011, 5011),
    ("BACKUP DATABASE app TO DISK = 'x.bak'", 262, 262),
    ("BACKUP LOG app TO DISK = 'x.bak'", 262, 262),
    ("BACKUP DATABASE other TO DISK = 'x.bak' WITH FORMAT", 916, 916),
    ("RESTORE DATABASE app FROM DISK = 'x.bak' WITH REPLACE", 262, 262),
    ("RESTORE LOG app FROM DISK = 'x.bak'", 262, 262),
    ("RESTORE HEADERONLY FROM DISK = 'x.bak'", 262, 262),
    ("RESTORE VERIFYONLY FROM DISK = 'x.bak'", 262, 262),
    ("RESTORE FILELISTONLY FROM DISK = 'x.bak'", 262, 262),
    ("RESTORE LABELONLY FROM DISK = 'x.bak'", 262, 262),
    // principals
    ("CREATE LOGIN made WITH PASSWORD = 'password'", 15247, 15247),
    ("ALTER LOGIN sa WITH PASSWORD = 'password'", 15247, 15247),
    ("DROP LOGIN sa", 15247, 15247),
    ("ALTER SERVER ROLE sysadmin ADD MEMBER reader", 15247, 15247),
    ("CREATE USER made FOR LOGIN stranger", 15247, 15247),
    ("ALTER USER owner WITH LOGIN = stranger", 15151, 15151),
    ("CREATE ROLE made", 15247, 15247),
    ("DROP USER owner", 15151, 15151),
    ("DROP ROLE staff", 15151, 15151),
    ("ALTER ROLE db_owner ADD MEMBER reader", 15151, 15151),
    ("GRANT CONTROL TO reader", 15247, 15247),
    ("GRANT INSERT ON SCHEMA::dbo TO reader", 15247, 15247),
    ("GRANT INSERT ON zebra TO reader", 15247, 15247),
    ("DENY SELECT ON zebra TO owner", 15247, 15247),
    ("DBCC USEROPTIONS", 0, 0),
    ("GRANT EXECUTE ON TYPE::herd TO reader", 15247, 15247),
    ("REVOKE CONNECT FROM owner", 15247, 15247),
    ("GRANT SELECT ON other.dbo.zebra TO reader", 916, 916),
    ("ALTER AUTHORIZATION ON DATABASE::app TO reader", 15247, 15247),
];

const HERD: &str = "CREATE TYPE herd AS TABLE (stripe int)";

const SET_UP: &[&str] = &[
    "USE other",
    "CREATE TABLE zebra (id int IDENTITY PRIMARY KEY, stripe int NULL); INSERT zebra VALUES (7)",
    "CREATE PROCEDURE put AS INSERT zebra (stripe) VALUES (9)",
    "USE master",
    "CREATE TABLE zebra (id int IDENTITY PRIMARY KEY, stripe int NULL)",
    "USE app",
    "CREATE TABLE zebra (id int IDENTITY PRIMARY KEY, stripe int NULL CONSTRAINT positive CHECK \
     (stripe > 0)); INSERT zebra VALUES (1), (2); CREATE INDEX ix ON zebra (stripe)",
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.zebra (id int, stripe int); CREATE SEQUENCE numbers AS int START WITH 1",
    "CREATE TRIGGER sales.watch ON sales.zebra AFTER INSERT AS PRINT 'x'",
    "CREATE VIEW shown AS SELECT id, stripe FROM zebra",
    "CREATE VIEW across AS SELECT stripe FROM other.dbo.zebra",
    "CREATE PROCEDURE put AS INSERT zebra (stripe) VALUES (9)",
    "CREATE PROCEDURE get AS SELECT stripe FROM zebra",
    HERD,
    "CREATE TYPE stripes FROM int",
    "CREATE FUNCTION found (@a int) RETURNS TABLE AS RETURN SELECT stripe FROM zebra WHERE id = @a",
    "CREATE FUNCTION beyond () RETURNS TABLE AS RETURN SELECT stripe FROM other.dbo.zebra",
    "CREATE PROCEDURE take @t herd READONLY AS INSERT zebra (stripe) SELECT stripe FROM @t",
    "CREATE TABLE #elsewhere (a int)",
    "CREATE ROLE staff; CREATE USER con FOR LOGIN con; CREATE USER reader FOR LOGIN reader; \
     CREATE USER owner FOR LOGIN owner; ALTER ROLE db_owner ADD MEMBER owner; ALTER ROLE \
     db_datareader ADD MEMBER reader",
];

/// The type `herd`, and stand-ins for others.
fn herd(name: &Name) -> Result<Option<Arc<UserType>>, Error> {
    match name.object() {
        "herd" => type_of("app", "herd", HERD).map(Some),
        _ => Ok(Some(Arc::new(UserType::stand_in(name)))),
    }
}

/// All that is in a database's file.
fn content(directory: &Path, database: &str) -> String {
    let connection = rusqlite::Connection::open(directory.join(database)).unwrap();
    let read = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        let count = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..count)
                .map(|at| Ok(format!("{:?}", row.get_ref(at)?)))
                .collect::<Result<Vec<_>, _>>()
        });
        rows.unwrap().map(|row| row.unwrap().join(" ")).collect()
    };
    let mut found = read("SELECT name, sql FROM sqlite_schema ORDER BY name");
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut statement = connection.prepare(tables).unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for name in names {
        found.extend(read(&format!("SELECT * FROM \"{}\"", name.unwrap())));
    }
    found.join("\n")
}

struct Place {
    directory: tempfile::TempDir,
    files: std::sync::Arc<Files>,
    /// Stays, with its temporary table.
    _sa: Box<dyn Session>,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let files = Files::new(&directory, &["con", "reader", "owner", "stranger"]);
    let mut sa = session_of(&files, "");
    for text in SET_UP {
        let mut heard = Numbers::default();
        sa.batch(text, &mut heard);
        assert_eq!(heard.errors, [], "{text}");
    }
    Place { directory, files, _sa: Box::new(sa) }
}

impl Place {
    fn content(&self) -> Vec<String> {
        ["app", "other", "master"].map(|name| content(self.directory.path(), name)).to_vec()
    }

    /// The first error of a batch of this login in a new session, and all texts that it heard.
    fn heard(&self, login: &str, text: &str) -> Numbers {
        let mut heard = Numbers::default();
        session_of(&self.files, login).batch(text, &mut heard);
        heard
    }
}

#[test]
fn a_login_without_rights_and_a_reader_change_nothing_by_any_statement() {
    let place = place();
    let before = place.content();
    let mut met = BTreeSet::new();
    let mut wrong = Vec::new();
    for (text, of_con, of_reader) in CASES {
        let stmts = crate::parse::parse_with(text, true, &herd)
            .unwrap_or_else(|at| panic!("{text}: {at:?}"));
        stmts.iter().for_each(|stmt| names(stmt, &mut met));
        for (login, wanted) in [("con", of_con), ("reader", of_reader)] {
            let errors = place.heard(login, text).errors;
            let wanted: Vec<i32> =
                Some(*wanted).filter(|number| *number != 0).into_iter().collect();
            if errors != wanted {
                wrong.push(format!("{login}: {text}: {errors:?}, not {wanted:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(place.content(), before);
    let left: Vec<_> = ALL.concat().into_iter().filter(|name| !met.contains(name)).collect();
    assert!(left.is_empty(), "no statement of these kinds: {left:?}");
}

#[test]
fn calls_descriptions_and_bulk_loads_pass_the_same_gate() {
    let place = place();
    let before = place.content();
    for login in ["con", "reader"] {
        let mut session = session_of(&place.files, login);
        let mut heard = Numbers::default();
        session.execute("DELETE zebra", "", &[], &mut heard);
        session.execute("UPDATE other.dbo.zebra SET stripe = 1", "", &[], &mut heard);
        for name in
            ["put", "dbo.put;1", "app.dbo.put", "xp_delete_file", "master.sys.xp_delete_file"]
        {
            session.procedure(name, &[], &mut heard);
        }
        assert_eq!(heard.errors, [229, 916, 229, 229, 229, 229, 229], "{login}");
        let refused = session.describe("DELETE zebra OUTPUT deleted.stripe", "").unwrap_err();
        assert_eq!(refused.number, 229);
        let columns = [Column {
            name: "stripe".to_owned(),
            ty: SqlType::Int,
            nullable: true,
            generated: Generated::No,
            collation: tdekit_wire_tds::Collation::default(),
        }];
        for (target, number) in [("zebra", 229), ("other.dbo.zebra", 916), ("tsql_member", 208)] {
            let text = format!("INSERT BULK {target} (stripe int)");
            assert_eq!(session.bulk_begin(&text, &columns).unwrap_err().number, number, "{text}");
        }
    }
    let mut con = session_of(&place.files, "con");
    assert_eq!(con.describe("SELECT stripe FROM zebra", "").unwrap_err().number, 229);
    assert!(session_of(&place.files, "reader").describe("SELECT stripe FROM zebra", "").is_ok());
    assert_eq!(place.content(), before);
}

/// No system view and no system procedure tells a login without rights what is in a database.
#[test]
fn views_and_procedures_of_the_system_hide_what_a_login_has_no_right_on() {
    let place = place();
    let before = place.content();
    let all = views::all().map(|view| view.name).chain(texts::VIEWS.iter().map(|(name, _)| *name));
    let mut texts: Vec<String> = all
        .map(|name| name.split_once('.').unwrap())
        .flat_map(|(schema, name)| {
            ["app", "master", "tempdb", "msdb"]
                .map(|database| format!("SELECT * FROM {database}.{schema}.[{name}]"))
        })
        .collect();
    let named = PROCEDURES.iter().chain(texts::PROCEDURES.iter().map(|(name, _)| name));
    for name in named {
        for args in ["", " N'zebra'", " N'dbo', N'zebra'", " N'%', N'%', N'%'", " 0, N'zebra'"] {
            texts.push(format!("EXEC {name}{args}"));
        }
    }
    for text in ["'zebra'", "'dbo.zebra'"] {
        texts.push(format!(
            "SELECT OBJECT_ID({text}), OBJECT_NAME(OBJECT_ID({text})), \
             COL_LENGTH({text}, 'stripe'), \
             IDENT_CURRENT({text}), OBJECT_DEFINITION(OBJECT_ID('shown'))"
        ));
    }
    let told = |line: &&String| {
        let line = line.to_lowercase();
        line.contains("zebra") || line.contains("stripe") || line.contains("positive")
    };
    for text in &texts {
        let heard = place.heard("con", text);
        let found: Vec<_> = heard.values.iter().filter(told).collect();
        assert!(found.is_empty(), "{text}: {found:?}");
    }
    assert_eq!(place.content(), before);
    // the test would notice
    let seen = place.heard("reader", "SELECT name FROM sys.tables").values;
    assert!(seen.iter().any(|name| name.contains("zebra")), "{seen:?}");
    let texts =
        place.heard("reader", "SELECT definition FROM sys.sql_modules WHERE definition <> ''");
    assert_eq!(texts.values, [] as [String; 0]);
}
